/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers of a seed: xoshiro256** (Blackman and Vigna 2018), its state filled by splitmix64. */
#ifndef WEIR_TRACE_GEN_RANDOM_H
#define WEIR_TRACE_GEN_RANDOM_H

#include <stdint.h>

struct gen_random {
    uint64_t state[4];
};

/* Another sequence for each pair of name and seed. */
void gen_random_seed(struct gen_random *random, const char *name, uint64_t seed);
double gen_uniform(struct gen_random *random);                               /* [0, 1) */
int64_t gen_choice(struct gen_random *random, const int64_t *of, int count); /* one of them */
double gen_gauss(struct gen_random *random, double mean, double deviation);
double gen_beta(struct gen_random *random, double alpha, double beta); /* both at least 1 */

#endif
