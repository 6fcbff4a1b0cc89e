/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of the CPU leaf: bf16, an exponential that a compiler can vectorise, sums in a fixed order.
 *
 * lane: one of LANES partial sums; element i always goes to lane i mod LANES and the lanes are added in order, so that
 * the result depends on the data alone, and the loop still fills vector registers without -ffast-math. */
#ifndef WEIR_TRAINER_OPS_MATH_H
#define WEIR_TRAINER_OPS_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "trainer/real.h"

enum { LANES = 8 };

static inline uint32_t float_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float bits_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float bf16_to_float(uint16_t x) { return bits_float((uint32_t)x << 16); }

/* Round to nearest, ties to even; a NaN stays one (its low bits could otherwise carry it to infinity). */
static inline uint16_t bf16_from_float(float x) {
    uint32_t bits = float_bits(x), rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    return (uint16_t)(((bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : rounded) >> 16);
}

/* e^x within 1 ulp, 1e-45 and below flushed to 0: x = n ln 2 + r, |r| <= ln 2 / 2, 2^n in two factors so that both ends
 * of the range come out. 1 + r + r^2 g(r), g interpolated at Chebyshev nodes. NaN gives NaN. No branches, no calls. */
static inline float exp_float(float x) {
    const float magic = 0x1.8p23f; /* adding it leaves the nearest integer in the low bits */
    x = x < -104.0f ? -104.0f : x; /* written so that NaN fails the comparison and passes through */
    x = x > 89.0f ? 89.0f : x;
    float shifted = x * 0x1.715476p+0f + magic;
    uint32_t n = float_bits(shifted) - float_bits(magic);
    float k = shifted - magic;
    float r = x - k * 0x1.62e4p-1f; /* exact: 15 bits times at most 8 */
    r -= k * 0x1.7f7d1cp-20f;
    float g = 0x1.6d117cp-10f;
    g = g * r + 0x1.120be2p-7f;
    g = g * r + 0x1.555518p-5f;
    g = g * r + 0x1.5554dcp-3f;
    g = g * r + 0.5f;
    float y = g * (r * r) + r + 1.0f;
    uint32_t half = (uint32_t)((int32_t)n >> 1);
    return y * bits_float((half + 127u) << 23) * bits_float((n - half + 127u) << 23);
}

static inline real exp_real(real x) {
    return sizeof(real) == sizeof(float) ? (real)exp_float((float)x) : (real)exp((double)x);
}
static inline real sigmoid(real x) { return 1 / (1 + exp_real(-x)); }
static inline real sqrt_real(real x) {
    return sizeof(real) == sizeof(float) ? (real)sqrtf((float)x) : (real)sqrt((double)x);
}

static inline real fold_lanes(const real lane[LANES]) {
    real sum = 0;
    for (int i = 0; i < LANES; i++) sum += lane[i];
    return sum;
}

static inline real dot(const real *a, const real *b, int64_t n) {
    real lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += a[i + j] * b[i + j];
    for (int j = 0; i + j < n; j++) lane[j] += a[i + j] * b[i + j];
    return fold_lanes(lane);
}

/* The largest; NaNs are passed over (they come back through the exponentials). */
static inline real largest(const real *x, int64_t n) {
    real lane[LANES], most;
    for (int j = 0; j < LANES; j++) lane[j] = (real)-INFINITY;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    for (int j = 0; i + j < n; j++) lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    most = lane[0];
    for (int j = 1; j < LANES; j++) most = lane[j] > most ? lane[j] : most;
    return most;
}

/* x = e^(x - shift); gives the sum. */
static inline real exp_shifted(real *x, real shift, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = exp_real(x[i] - shift);
    real lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += x[i + j];
    for (int j = 0; i + j < n; j++) lane[j] += x[i + j];
    return fold_lanes(lane);
}

/* Sum of squares in double. */
static inline double sum_of_squares(const real *x, int64_t n) {
    double lane[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int j = 0; j < LANES; j++) lane[j] += (double)x[i + j] * (double)x[i + j];
    for (int j = 0; i + j < n; j++) lane[j] += (double)x[i + j] * (double)x[i + j];
    for (int j = 0; j < LANES; j++) sum += lane[j];
    return sum;
}

static inline void scale_row(real *x, real factor, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] *= factor;
}

/* `n` numbers of a wire type as real. */
static inline void widen(real *restrict out, const void *in, enum wire type, int64_t n) {
    if (type == WIRE_REAL) {
        if (n > 0) memcpy(out, in, (size_t)n * sizeof *out);
        return;
    }
    const uint16_t *restrict narrow = in;
    for (int64_t i = 0; i < n; i++) out[i] = (real)bf16_to_float(narrow[i]);
}

static inline void narrow(void *out, enum wire type, const real *restrict in, int64_t n) {
    if (type == WIRE_REAL) {
        if (n > 0) memcpy(out, in, (size_t)n * sizeof *in);
        return;
    }
    uint16_t *restrict to = out;
    for (int64_t i = 0; i < n; i++) to[i] = bf16_from_float((float)in[i]);
}

#endif
