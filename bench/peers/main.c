/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the loops of weir-bench-pool over an allocator that has this process to itself: malloc and free, as LD_PRELOAD gives them
 * (NAME is an entry that shows whose they are), or a library with the functions of peer.h. A line of standard input asks for a
 * round: KIND BYTES THREADS STEPS, the numbers of struct loop; a line answers with nanoseconds a step, "nan" where
 * something could not be done. The first line says "ready", behind it malloc's version where it tells one; or why not.
 * usage: weir-bench-peer malloc NAME | library PATH */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/loops.h"
#include "device/standard.h"
#include "peer.h"

/* ---- malloc ------------------------------------------------------------------------------------------------------ */

/* Through asm, so that the compiler can't know that nobody looks at the block, and leave both calls out. */
static bool malloc_take(void *self, int thread, size_t bytes, void **block) {
    (void)self;
    (void)thread;
    *block = malloc(bytes);
    __asm__ volatile("" : "+r"(*block) : : "memory");
    return *block != NULL;
}

static bool no_use(void *self, int thread, void *block) {
    (void)self;
    (void)thread;
    (void)block;
    return false;
}

static bool malloc_give(void *self, int thread, void *block, size_t bytes) {
    (void)self;
    (void)thread;
    (void)bytes;
    free(block);
    return true;
}

LOOP_DEFINE(malloc_thread, malloc_take, no_use, malloc_give)

/* " 2.0.9", as mimalloc and jemalloc tell it: 209, and "5.3.0-0-g54eaed1". "": neither is there. */
static void malloc_version(char text[32]) {
    int (*mi_version)(void);
    int (*mallctl)(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);
    const char *told = NULL;
    size_t bytes = sizeof told;
    *(void **)&mi_version = dlsym(RTLD_DEFAULT, "mi_version");
    *(void **)&mallctl = dlsym(RTLD_DEFAULT, "mallctl");
    text[0] = 0;
    if (mi_version != NULL)
        snprintf(text, 32, " %d.%d.%d", mi_version() / 100, mi_version() / 10 % 10, mi_version() % 10);
    else if (mallctl != NULL && mallctl("version", &told, &bytes, NULL, 0) == 0)
        snprintf(text, 32, " %.*s", (int)strcspn(told, "-"), told);
}

/* ---- a library --------------------------------------------------------------------------------------------------- */

static struct library {
    void *(*alloc)(ssize_t bytes, int device, cudaStream_t stream);
    void (*free)(void *block, ssize_t bytes, int device, cudaStream_t stream);
    void (*use)(void *block, cudaStream_t stream);
    void *(*stream)(void);
    cudaStream_t streams[LOOP_MOST_THREADS + 1]; /* a thread's own; the last is the other one that uses */
} library;

static bool library_take(void *self, int thread, size_t bytes, void **block) {
    const struct library *peer = self;
    return (*block = peer->alloc((ssize_t)bytes, 0, peer->streams[thread])) != NULL;
}

static bool library_use(void *self, int thread, void *block) {
    const struct library *peer = self;
    (void)thread;
    if (peer->use != NULL) peer->use(block, peer->streams[LOOP_MOST_THREADS]);
    return peer->use != NULL;
}

static bool library_give(void *self, int thread, void *block, size_t bytes) {
    const struct library *peer = self;
    peer->free(block, (ssize_t)bytes, 0, peer->streams[thread]);
    return true;
}

LOOP_DEFINE(library_thread, library_take, library_use, library_give)

static const char *open_library(const char *path) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (handle == NULL) return dlerror();
    *(void **)&library.alloc = dlsym(handle, "weir_peer_alloc");
    *(void **)&library.free = dlsym(handle, "weir_peer_free");
    *(void **)&library.use = dlsym(handle, "weir_peer_use");
    *(void **)&library.stream = dlsym(handle, "weir_peer_stream");
    if (library.alloc == NULL || library.free == NULL || library.stream == NULL)
        return "the library has not all of weir_peer_alloc, _free, _stream";
    for (size_t i = 0; i < sizeof library.streams / sizeof *library.streams; i++)
        if ((library.streams[i] = library.stream()) == NULL) return "the library gives no stream";
    return NULL;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

static void answer_rounds(loop_thread *run) {
    unsigned kind;
    struct loop loop;
    while (scanf("%u %zu %d %d", &kind, &loop.bytes, &loop.threads, &loop.steps) == 4) {
        loop.kind = (enum loop_kind)kind;
        printf("%.3f\n", loop_ns(&loop, run, CLOCK_MONOTONIC, &library));
        fflush(stdout);
    }
}

int main(int count, char **argument) {
    weir__take_closed_standard();
    const bool is_malloc = count == 3 && strcmp(argument[1], "malloc") == 0;
    if (!is_malloc && (count != 3 || strcmp(argument[1], "library") != 0)) {
        fprintf(stderr, "usage: weir-bench-peer malloc NAME | library PATH\n");
        return 2;
    }
    const char *why = is_malloc ? NULL : open_library(argument[2]);
    if (is_malloc && dlsym(RTLD_DEFAULT, argument[2]) == NULL) why = "it is not installed";
    char version[32] = "";
    if (is_malloc) malloc_version(version);
    printf("%s%s\n", why == NULL ? "ready" : why, why == NULL ? version : "");
    fflush(stdout);
    if (why == NULL) answer_rounds(is_malloc ? malloc_thread : library_thread);
    return why == NULL ? 0 : 1;
}
