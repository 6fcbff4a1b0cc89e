/* SPDX-License-Identifier: Apache-2.0 */
/* Pools live as long as the process, but where the program resets a device: that waits for the calls that are in the middle of
 * something, and those that come wait for it. A call costs two additions to a counter that few other threads use. */
#include <pthread.h>
#include <sched.h>

#include "alloc/preload/preload.h"

enum { STRIPES = 32 };

static struct { _Alignas(64) unsigned inside; } stripes[STRIPES];
static bool alone;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static WEIR__THREAD_LOCAL unsigned depth, stripe; /* 0: none yet */

/* The order of the two, here and in the other function, is what keeps both from going on. */
static bool try_enter(void) {
    (void)__atomic_add_fetch(&stripes[stripe - 1].inside, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&alone, __ATOMIC_SEQ_CST)) return true;
    (void)__atomic_sub_fetch(&stripes[stripe - 1].inside, 1, __ATOMIC_SEQ_CST);
    return false;
}

bool weir__preload_in_host_function(const struct weir__real *driver) {
    CUcontext context;
    return driver != NULL && driver->cuCtxGetCurrent != NULL &&
           driver->cuCtxGetCurrent(&context) == CUDA_ERROR_NOT_PERMITTED;
}

/* A reset waits for host functions, so none of them waits for it. */
bool weir__preload_enter(const struct weir__real *driver) {
    static unsigned threads;
    if (depth++ > 0 || weir__forked()) return true;
    if (stripe == 0) stripe = __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED) % STRIPES + 1;
    while (!try_enter()) {
        if (weir__preload_in_host_function(driver)) {
            depth--;
            return false;
        }
        pthread_mutex_lock(&lock); /* which the other one has */
        pthread_mutex_unlock(&lock);
    }
    return true;
}

bool weir__preload_inside(void) { return depth > 0; }

void weir__preload_leave(const int *unused) {
    (void)unused;
    if (--depth > 0 || weir__forked()) return;
    (void)__atomic_sub_fetch(&stripes[stripe - 1].inside, 1, __ATOMIC_SEQ_CST);
}

static unsigned inside(void) {
    unsigned sum = 0;
    for (int i = 0; i < STRIPES; i++) sum += __atomic_load_n(&stripes[i].inside, __ATOMIC_SEQ_CST);
    return sum;
}

void weir__preload_alone_begin(void) {
    pthread_mutex_lock(&lock);
    __atomic_store_n(&alone, true, __ATOMIC_SEQ_CST);
    while (inside() > (depth > 0 ? 1u : 0u)) sched_yield();
}

void weir__preload_alone_end(void) {
    __atomic_store_n(&alone, false, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&lock);
}
