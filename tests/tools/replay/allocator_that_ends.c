/* SPDX-License-Identifier: Apache-2.0 */
/* Allocators that end their process, never come back, leave a process behind, or write where they should not. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

VISIBLE void *alloc_that_aborts(ssize_t bytes, int device, void *stream);
VISIBLE void *alloc_that_exits(ssize_t bytes, int device, void *stream);
VISIBLE void *alloc_that_is_killed(ssize_t bytes, int device, void *stream);
VISIBLE void *alloc_that_hangs(ssize_t bytes, int device, void *stream);
VISIBLE void *alloc_that_leaves_a_process(ssize_t bytes, int device, void *stream);
VISIBLE void *alloc_that_leaves_a_process_and_exits(ssize_t bytes, int device, void *stream);
VISIBLE void *alloc_that_returns_twice(ssize_t bytes, int device, void *stream);
VISIBLE void *alloc_that_writes_everywhere(ssize_t bytes, int device, void *stream);
VISIBLE void *alloc_that_prints(ssize_t bytes, int device, void *stream);
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

/* A process that lives as long as the test's pipe has a writer, and holds all that the run holds. */
static void leave_a_process(void) {
    const char *says = getenv("TEST_ALLOCATOR_LEAVES");
    if (says == NULL) abort();
    const pid_t left = fork();
    if (left != 0) return;
    char gone;
    close(atoi(strchr(says, ' ') + 1)); /* the writing end */
    _exit(read(atoi(says), &gone, 1) == 0 ? 0 : 1);
}

void *alloc_that_leaves_a_process(ssize_t bytes, int device, void *stream) {
    (void)bytes;
    (void)device;
    (void)stream;
    leave_a_process();
    return NULL;
}

void *alloc_that_leaves_a_process_and_exits(ssize_t bytes, int device, void *stream) {
    leave_a_process();
    return alloc_that_exits(bytes, device, stream);
}

void *alloc_that_returns_twice(ssize_t bytes, int device, void *stream) {
    (void)bytes;
    (void)device;
    (void)stream;
    if (fork() < 0) abort();
    return NULL;
}

void *alloc_that_writes_everywhere(ssize_t bytes, int device, void *stream) {
    (void)bytes;
    (void)device;
    (void)stream;
    static char garbage[16384];
    memset(garbage, 'g', sizeof garbage);
    signal(SIGPIPE, SIG_IGN);
    for (int file = 3; file < 64; file++)
        if (write(file, garbage, sizeof garbage) < 0) continue;
    return NULL;
}

void *alloc_that_prints(ssize_t bytes, int device, void *stream) {
    (void)bytes;
    (void)device;
    (void)stream;
    printf("a word from the library\n");
    fflush(stdout);
    return NULL;
}

void nothing_to_free(void *block, ssize_t bytes, int device, void *stream) {
    (void)block;
    (void)bytes;
    (void)device;
    (void)stream;
}
