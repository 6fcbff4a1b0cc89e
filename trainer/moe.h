/* SPDX-License-Identifier: Apache-2.0 */
/* The mixture-of-experts block: a sigmoid router chooses K of E experts for each token; their SwiGLU outputs, weighted by
 * the normalised scores, are added to the token, and so is the shared expert's.
 *
 * The gate is multiplied into the hidden vector before the second matrix: (g h) W2^T = g (h W2^T), so that its gradient
 * needs the hidden vector alone and the expert's output is never kept. No token is dropped. Routing is decided once, in
 * forward; backward computes the scores again for the saved ids. */
#ifndef WEIR_TRAINER_MOE_H
#define WEIR_TRAINER_MOE_H

#include "trainer/model.h"

/* x (T, d) += experts(norm(x)). Leaves the layer's dispatch, unless the mode is MODEL_EVALUATE. */
enum weir_status moe_forward(struct model *m, enum model_mode mode, int64_t layer, real *x);
/* dx (T, d), the gradient of the block's output, becomes that of its input x (T, d); frees the layer's dispatch. */
enum weir_status moe_backward(struct model *m, int64_t layer, real *dx, const real *x);

#endif
