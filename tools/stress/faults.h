/* SPDX-License-Identifier: Apache-2.0 */
/* What was found wrong, told on standard error as it is found. Threads: any. */
#ifndef WEIR_STRESS_FAULTS_H
#define WEIR_STRESS_FAULTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* X(name, key, text) */
#define FAULT_LIST(X)                                                                                                  \
    X(DOUBLE_HAND_OUT, "double_hand_out", "double hand-out")                                                           \
    X(EARLY_REUSE, "early_reuse", "early reuse")                                                                       \
    X(CORRUPTION, "corruption", "corruption")                                                                          \
    X(WRONG_ADDRESS, "wrong_address", "wrong address")                                                                 \
    X(REFUSED, "refused", "memory refused that was there")                                                             \
    X(FAILED, "failed", "failed call")                                                                                 \
    X(BROKEN, "broken", "broken state")                                                                                \
    X(STUCK, "stuck", "no progress")                                                                                   \
    X(WATCH, "watch", "found by the watch")

enum fault_kind {
#define FAULT_ENUM(name, key, text) FAULT_##name,
    FAULT_LIST(FAULT_ENUM)
#undef FAULT_ENUM
        FAULT_KINDS
};
extern const char *const fault_keys[FAULT_KINDS];

enum { FAULTS_KEPT = 16, FAULT_ROOM = 600 };

struct faults {
    pthread_mutex_t lock;
    uint64_t counts[FAULT_KINDS], most;
    char texts[FAULTS_KEPT][FAULT_ROOM]; /* the first ones */
    unsigned kept;
    atomic_uint_fast64_t count;
    atomic_bool enough; /* as many as were asked for, or one after which there is no going on */
};

/* `most`: so many are enough. */
void faults_open(struct faults *faults, uint64_t most);
void faults_add(struct faults *faults, enum fault_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
