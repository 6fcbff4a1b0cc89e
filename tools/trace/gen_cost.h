/* SPDX-License-Identifier: Apache-2.0 */
/* How long work takes, in microseconds: effective rates of an H100-class part and its links, assumed, not measured. */
#ifndef WEIR_TRACE_GEN_COST_H
#define WEIR_TRACE_GEN_COST_H

#include <stdint.h>

/* (m, k) x (k, n) at 450 TFLOP/s */
static inline double gemm_us(int64_t m, int64_t n, int64_t k) {
    return 2.0 * (double)m * (double)n * (double)k / 450e6 + 3.0;
}

static inline double memory_us(int64_t bytes) { return (double)bytes / 2.2e6 + 2.0; }     /* 2.2 TB/s */
static inline double exchange_us(int64_t bytes) { return (double)bytes / 0.12e6 + 25.0; } /* all-to-all, 120 GB/s */
static inline double network_us(int64_t bytes) {
    return (double)bytes / 0.16e6 + 30.0;
} /* gather and scatter, 160 GB/s */
static inline double host_us(int64_t bytes) {
    return (double)bytes / 0.045e6 + 10.0;
} /* to or from the host, 45 GB/s */

/* Attention of `tokens` over `length` each, causal, all heads together `width` wide, at 350 TFLOP/s; 4 operations a
 * number forward, 10 backward. */
static inline double attention_us(double operations, int64_t tokens, int64_t length, int64_t width, double fixed_us) {
    return operations * (double)tokens * (double)length * (double)width / 2 / 350e6 + fixed_us;
}

static inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

#endif
