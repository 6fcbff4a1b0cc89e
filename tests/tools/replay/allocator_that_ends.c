/* SPDX-License-Identifier: Apache-2.0 */
/* Allocators that end their process, or never come back. */
#include <signal.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

VISIBLE void *alloc_that_aborts(ssize_t bytes, int device, void *stream);
VISIBLE void *alloc_that_exits(ssize_t bytes, int device, void *stream);
VISIBLE void *alloc_that_is_killed(ssize_t bytes, int device, void *stream);
VISIBLE void *alloc_that_hangs(ssize_t bytes, int device, void *stream);
VISIBLE void nothing_to_free(void *block, ssize_t bytes, int device, void *stream);

void *alloc_that_aborts(ssize_t bytes, int device, void *stream) {
    (void)bytes;
    (void)device;
    (void)stream;
    abort();
}

void *alloc_that_exits(ssize_t bytes, int device, void *stream) {
    (void)bytes;
    (void)device;
    (void)stream;
    _exit(7);
}

void *alloc_that_is_killed(ssize_t bytes, int device, void *stream) {
    (void)bytes;
    (void)device;
    (void)stream;
    kill(getpid(), SIGKILL);
    return NULL;
}

void *alloc_that_hangs(ssize_t bytes, int device, void *stream) {
    (void)bytes;
    (void)device;
    (void)stream;
    const char *says = getenv("TEST_ALLOCATOR_SAYS");
    if (says == NULL || write(atoi(says), "!", 1) != 1) abort();
    for (;;) pause();
}

void nothing_to_free(void *block, ssize_t bytes, int device, void *stream) {
    (void)block;
    (void)bytes;
    (void)device;
    (void)stream;
}
