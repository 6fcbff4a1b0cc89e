/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/identity.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct weir__thread {
    atomic_uint references; /* its own, until it ends, and those of slots */
    atomic_bool ended;
};

static _Thread_local uint64_t this_number;
static _Thread_local struct weir__thread *this_thread;
static pthread_key_t at_end;
static pthread_once_t at_end_made = PTHREAD_ONCE_INIT;
static bool has_end;

/* Odd, as what stands for no stream is (all ones, so 1), which is none of these. */
uintptr_t weir__thread_key(void) {
    static atomic_uint_fast64_t last;
    if (this_number == 0) this_number = atomic_fetch_add(&last, 1) + 1;
    return (uintptr_t)(2 * this_number + 1);
}

static void end_thread(void *thread) {
    atomic_store(&((struct weir__thread *)thread)->ended, true);
    weir__thread_release(thread);
    this_thread = NULL;
}

static void make_end(void) { has_end = pthread_key_create(&at_end, end_thread) == 0; }

struct weir__thread *weir__thread_self(void) {
    pthread_once(&at_end_made, make_end);
    if (this_thread == NULL) {
        struct weir__thread *made = has_end ? calloc(1, sizeof *made) : NULL;
        if (made == NULL || pthread_setspecific(at_end, made) != 0) {
            free(made);
            return NULL;
        }
        atomic_init(&made->references, 1);
        this_thread = made;
    }
    atomic_fetch_add(&this_thread->references, 1);
    return this_thread;
}

void weir__thread_release(struct weir__thread *thread) {
    if (atomic_fetch_sub(&thread->references, 1) == 1) free(thread);
}

bool weir__thread_is_self(const struct weir__thread *thread) { return thread == this_thread; }
bool weir__thread_has_ended(const struct weir__thread *thread) { return atomic_load(&thread->ended); }
