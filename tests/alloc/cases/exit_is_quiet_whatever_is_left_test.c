/* SPDX-License-Identifier: Apache-2.0 */
/* A process may end with work queued, blocks live, and frees that come from handlers and threads while it ends: it ends with
 * its own status, at once, and says nothing. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/emulated.h"
#include "tests/alloc/cases/scene.h"
#include "tests/sanitized.h"

enum { RUNS = SANITIZED ? 5 : 50, MOST_SECONDS = 120 /* two where nothing else runs */ };

/* ---- the program that ends ------------------------------------------------------------------------------------------ */

static struct weir_device *device;
static struct weir_pool *pool;
static weir_stream streams[3];
static void *blocks[6];

/* Whether a free at that time succeeds is the driver's affair; nothing may come of it. */
static void free_block(int i) {
    if (pool != NULL) (void)weir_pool_free(pool, blocks[i], streams[i % 3]);
}
static void free_late(void) { free_block(0); }  /* the driver has ended by then */
static void free_early(void) { free_block(1); } /* it has not */
static void destroy_late(void) {
    weir_pool_destroy(pool);
    pool = NULL;
}
__attribute__((destructor)) static void free_last(void) { free_block(2); }

static void must(enum weir_status status) {
    if (status == WEIR_OK) return;
    fprintf(stderr, "%s\n", weir_last_error()->message);
    _exit(3);
}

/* All that is queued stands at a gate that nobody opens, or not. */
static void leave_work(bool held_back) {
    struct weir_emu_gate *gate = NULL;
    must(weir_device_open(&(struct weir_device_options){.size = sizeof(struct weir_device_options),
                                                        .machine = "emulated",
                                                        .emu = "profile:demo"},
                          &device));
    must(weir_pool_create(
        device,
        &(struct weir_pool_options){.size = sizeof(struct weir_pool_options), .limit_bytes = GIB, .trace_path = ""},
        &pool));
    if (held_back) must(weir__gate_create(device, &gate));
    for (int i = 0; i < 3; i++) {
        must(weir_stream_create(device, &streams[i]));
        if (held_back) must(weir__gate_hold(device, gate, streams[i]));
    }
    for (int i = 0; i < 6; i++) {
        must(weir_pool_alloc(pool, 64 * MIB, streams[i % 3], &blocks[i]));
        must(weir_set(device, blocks[i], 1, 64 * MIB, streams[i % 3]));
    }
    must(weir_pool_note(pool, blocks[0], streams[1]));
    must(weir_pool_free(pool, blocks[5], streams[2]));
}

static void end_with_work(void) { leave_work(true); }

static void end_with_handlers(void) {
    atexit(free_late);
    leave_work(false);
    atexit(free_early);
}

static void end_with_a_late_destroy(void) {
    atexit(destroy_late);
    leave_work(false);
}

static void end_without_the_context(void) {
    atexit(free_late);
    leave_work(false);
    device->driver->primary_context_release(device->handle);
    atexit(free_early);
}

static void end_after_a_reset(void) {
    CUresult (*reset)(CUdevice) = NULL;
    atexit(free_late);
    leave_work(false);
    void *driver = dlopen(device->driver->path, RTLD_NOW | RTLD_NOLOAD), *entry = NULL;
    if (driver != NULL) entry = dlsym(driver, "cuDevicePrimaryCtxReset_v2");
    memcpy(&reset, &entry, sizeof reset);
    if (reset == NULL || reset(device->handle) != CUDA_SUCCESS) _exit(4);
    atexit(free_early);
}

static bool thread_is_at_work;

static void *alloc_and_free(void *unused) {
    (void)unused;
    for (;;) {
        void *block = NULL;
        if (weir_pool_alloc(pool, 32 * MIB, streams[0], &block) == WEIR_OK) {
            (void)weir_set(device, block, 2, 32 * MIB, streams[0]);
            (void)weir_pool_free(pool, block, streams[0]);
        }
        __atomic_store_n(&thread_is_at_work, true, __ATOMIC_RELEASE);
    }
    return NULL;
}

static void end_while_a_thread_frees(void) {
    pthread_t thread;
    leave_work(false);
    if (pthread_create(&thread, NULL, alloc_and_free, NULL) != 0 || pthread_detach(thread) != 0) _exit(5);
    while (!__atomic_load_n(&thread_is_at_work, __ATOMIC_ACQUIRE)) {
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} ways[] = {
    {"work", end_with_work},
    {"handlers", end_with_handlers},
    {"destroy", end_with_a_late_destroy},
    {"context", end_without_the_context},
    {"reset", end_after_a_reset},
    {"thread", end_while_a_thread_frees},
};

static int end_by(const char *name) {
    alarm(MOST_SECONDS);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(name, ways[i].name) == 0) {
            ways[i].run();
            exit(0);
        }
    return 6;
}

/* ---- what becomes of it ------------------------------------------------------------------------------------------------- */

static const char *self;

static void run_once(const char *name) {
    char said[2000], path[] = "/tmp/weir-exit-XXXXXX";
    const int output = mkstemp(path);
    assert_true(output >= 0);
    unlink(path);
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0) _exit(7);
        execl(self, self, name, (char *)NULL);
        _exit(8);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    const ssize_t length = pread(output, said, sizeof said - 1, 0);
    close(output);
    assert_true(length >= 0);
    said[length] = 0;
    if (status != 0 || length > 0) fail_msg("%s: status %#x, and it said \"%s\"", name, (unsigned)status, said);
}

static void run_often(const char *name) {
    for (int i = 0; i < RUNS; i++) run_once(name);
}

static void with_work_that_never_comes(void **state) { run_often("work"), (void)state; }
static void with_frees_in_handlers(void **state) { run_often("handlers"), (void)state; }
static void with_a_pool_destroyed_in_a_handler(void **state) { run_often("destroy"), (void)state; }
static void without_the_context(void **state) { run_often("context"), (void)state; }
static void after_a_reset_of_the_device(void **state) { run_often("reset"), (void)state; }
static void while_a_thread_frees(void **state) { run_often("thread"), (void)state; }

int main(int count, char **argument) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_work_that_never_comes),         cmocka_unit_test(with_frees_in_handlers),
        cmocka_unit_test(with_a_pool_destroyed_in_a_handler), cmocka_unit_test(without_the_context),
        cmocka_unit_test(after_a_reset_of_the_device),        cmocka_unit_test(while_a_thread_frees),
    };
    self = argument[0];
    if (count > 1) return end_by(argument[1]);
    return cmocka_run_group_tests_name("exit_is_quiet_whatever_is_left", tests, NULL, NULL);
}
