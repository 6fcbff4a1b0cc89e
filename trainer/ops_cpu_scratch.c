/* SPDX-License-Identifier: Apache-2.0 */
/* Scratch of a stream's thread: grow-only buffers that are freed when the thread ends. */
#include <pthread.h>
#include <stdio.h>

#include "trainer/ops_cpu.h"

struct scratch {
    void *memory[CPU_SLOTS];
    size_t bytes[CPU_SLOTS];
    int64_t rope_S, rope_D; /* what SLOT_ROPE holds */
};

static pthread_key_t key;
static pthread_once_t key_made = PTHREAD_ONCE_INIT;
static int key_error;

static void release(void *argument) {
    struct scratch *scratch = argument;
    for (int i = 0; i < CPU_SLOTS; i++) free(scratch->memory[i]);
    free(scratch);
}

static void make_key(void) { key_error = pthread_key_create(&key, release); }

static void *or_end(void *memory, size_t bytes) {
    if (memory) return memory;
    fprintf(stderr, "weir-train: the host has no %zu bytes for an operation's scratch\n", bytes);
    abort();
}

static struct scratch *mine(void) {
    pthread_once(&key_made, make_key);
    struct scratch *scratch = key_error ? NULL : pthread_getspecific(key);
    if (scratch) return scratch;
    scratch = or_end(key_error ? NULL : calloc(1, sizeof *scratch), sizeof *scratch);
    if (pthread_setspecific(key, scratch)) or_end(NULL, sizeof *scratch);
    return scratch;
}

void *cpu_scratch(enum cpu_slot slot, size_t bytes) {
    struct scratch *scratch = mine();
    if (bytes > scratch->bytes[slot]) {
        size_t room = (bytes + 4095) / 4096 * 4096;
        free(scratch->memory[slot]);
        scratch->memory[slot] = or_end(aligned_alloc(64, room), room);
        scratch->bytes[slot] = room;
    }
    return scratch->memory[slot];
}

/* Angles in double: in float the product of a late position and a small frequency loses its fraction. */
const real *cpu_rope_table(int64_t S, int64_t D) {
    int64_t pairs = D / 2;
    real *cosines = cpu_reals(SLOT_ROPE, 2 * S * pairs), *sines = cosines + S * pairs;
    struct scratch *scratch = mine();
    if (scratch->rope_S == S && scratch->rope_D == D) return cosines;
    for (int64_t i = 0; i < pairs; i++) {
        double frequency = pow(OPS_ROPE_BASE, -2.0 * (double)i / (double)D);
        for (int64_t s = 0; s < S; s++) {
            cosines[s * pairs + i] = (real)cos((double)s * frequency);
            sines[s * pairs + i] = (real)sin((double)s * frequency);
        }
    }
    scratch->rope_S = S;
    scratch->rope_D = D;
    return cosines;
}
