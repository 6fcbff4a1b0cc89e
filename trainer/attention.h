/* SPDX-License-Identifier: Apache-2.0 */
/* The attention block: grouped-query attention with a norm on each query and key head and rotary positions. */
#ifndef WEIR_TRAINER_ATTENTION_H
#define WEIR_TRAINER_ATTENTION_H

#include "trainer/model.h"

/* What the backward pass reads, all on compute. */
struct attention {
    real *n, *n_r;           /* norm of the input (T, d), (T) */
    real *q, *q_r, *q_n;     /* (T, H D), (T H), normed and rotated (T, H D) */
    real *k, *k_r, *k_n, *v; /* the same over G heads */
    real *o, *lse;           /* (T, H D), (T, H) */
};

/* y (T, d) = x + attention(norm(x)); keeps what backward needs in *a. */
enum weir_status attention_forward(struct model *m, const struct pack *p, struct attention *a, real *y, const real *x);
/* dx (T, d), the gradient of y, becomes that of x; frees *a. */
enum weir_status attention_backward(struct model *m, const struct pack *p, struct attention *a, real *dx,
                                    const real *x);
enum weir_status attention_free(struct model *m, struct attention *a);

#endif
