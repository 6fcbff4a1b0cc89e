/* SPDX-License-Identifier: Apache-2.0 */
#include "gen_random.h"

#include <math.h>

static uint64_t rotate(uint64_t x, int by) { return (x << by) | (x >> (64 - by)); }

static uint64_t splitmix(uint64_t *state) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void gen_random_seed(struct gen_random *random, const char *name, uint64_t seed) {
    uint64_t mix = seed;
    for (const char *letter = name; *letter != '\0'; letter++) {
        mix ^= (unsigned char)*letter;
        mix = splitmix(&mix);
    }
    for (int i = 0; i < 4; i++) random->state[i] = splitmix(&mix);
}

static uint64_t next(struct gen_random *random) {
    uint64_t *s = random->state;
    const uint64_t result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

double gen_uniform(struct gen_random *random) { return (double)(next(random) >> 11) * 0x1p-53; }

int64_t gen_choice(struct gen_random *random, const int64_t *of, int count) {
    return of[(int)(gen_uniform(random) * count)];
}

/* Box and Muller; the second number of the pair is not kept, so that a draw depends on the state alone. */
double gen_gauss(struct gen_random *random, double mean, double deviation) {
    const double radius = sqrt(-2.0 * log(1.0 - gen_uniform(random)));
    return mean + deviation * radius * cos(6.283185307179586 * gen_uniform(random));
}

/* Marsaglia and Tsang 2000, for shapes of at least 1. */
static double gamma_draw(struct gen_random *random, double shape) {
    const double d = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
    for (;;) {
        const double x = gen_gauss(random, 0.0, 1.0), t = 1.0 + c * x, v = t * t * t;
        if (t > 0.0 && log(1.0 - gen_uniform(random)) < 0.5 * x * x + d - d * v + d * log(v)) return d * v;
    }
}

double gen_beta(struct gen_random *random, double alpha, double beta) {
    const double a = gamma_draw(random, alpha), b = gamma_draw(random, beta);
    return a / (a + b);
}
