/* SPDX-License-Identifier: Apache-2.0 */
/* Chance that repeats: SplitMix64 (Steele, Lea, Flood 2014). */
#ifndef WEIR_STRESS_RANDOM_H
#define WEIR_STRESS_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

static inline uint64_t random_next(struct random *random) {
    uint64_t mixed = random->state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

/* From 0 to below `end`, which is not 0. */
static inline uint64_t random_below(struct random *random, uint64_t end) { return random_next(random) % end; }

/* True once in `times`. */
static inline bool random_once_in(struct random *random, uint64_t times) { return random_below(random, times) == 0; }

#endif
