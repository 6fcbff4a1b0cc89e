/* SPDX-License-Identifier: Apache-2.0 */
/* What the device's tests share: an open emulated device a test, gates, and counters that host functions bump. */
#ifndef WEIR_TESTS_DEVICE_MACHINE_H
#define WEIR_TESTS_DEVICE_MACHINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"

#define assert_ok(call)                                                                                                \
    do {                                                                                                               \
        const enum weir_status assert_ok_status = (call);                                                              \
        if (assert_ok_status != WEIR_OK)                                                                               \
            fail_msg("%s: %s: %s", #call, weir_status_name(assert_ok_status), weir_last_error()->message);             \
    } while (0)

/* A gate holds a stream at its position until the test opens it. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open, reached;
};

#define GATE_INITIALIZER                                                                                               \
    { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false }

static inline void pass_gate(void *argument) {
    struct gate *gate = argument;
    pthread_mutex_lock(&gate->lock);
    gate->reached = true;
    pthread_cond_broadcast(&gate->changed);
    while (!gate->open) pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static inline void open_gate(struct gate *gate) {
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

/* Waits until the stream stands at the gate. */
static inline void await_gate(struct gate *gate) {
    pthread_mutex_lock(&gate->lock);
    while (!gate->reached) pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static inline void bump(void *argument) { atomic_fetch_add((atomic_int *)argument, 1); }

static inline void submit(struct weir_device *device, void (*run)(void *), void *argument, weir_stream stream) {
    const struct weir_work work = {.name = "test", .run = run, .argument = argument};
    assert_ok(weir_device_submit(device, &work, stream));
}

static inline void hold(struct weir_device *device, struct gate *gate, weir_stream stream) {
    submit(device, pass_gate, gate, stream);
}

/* cmocka set-up and tear-down: *state is an open device. */
static inline int open_device(void **state) {
    struct weir_device *device;
    const struct weir_device_options options = {.size = sizeof options, .machine = "emulated"};
    if (weir_device_open(&options, &device) != WEIR_OK) {
        print_error("%s\n", weir_last_error()->message);
        return -1;
    }
    *state = device;
    return 0;
}

static inline int close_device(void **state) {
    weir_device_close(*state);
    return 0;
}

#define device_test(function) cmocka_unit_test_setup_teardown(function, open_device, close_device)

/* The driver's table of a device, with its context current from enter to leave. */
static inline const struct weir__driver *enter(struct weir_device *device) {
    assert_ok(weir__device_enter(device));
    return device->driver;
}

/* A call that is made by another thread, to see whether it blocks. */
struct caller {
    pthread_t thread;
    void (*call)(void *argument);
    void *argument;
    atomic_bool returned;
};

static inline void *make_call(void *argument) {
    struct caller *caller = argument;
    caller->call(caller->argument);
    atomic_store(&caller->returned, true);
    return NULL;
}

static inline void start_call(struct caller *caller, void (*call)(void *), void *argument) {
    *caller = (struct caller){.call = call, .argument = argument};
    assert_int_equal(pthread_create(&caller->thread, NULL, make_call, caller), 0);
}

static inline bool is_asleep(const char *thread) {
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", thread);
    FILE *file = fopen(path, "r");
    if (file == NULL) return true; /* it has ended */
    const size_t read = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    const char *behind_name = strrchr(text, ')');
    return read > 0 && behind_name != NULL && behind_name[2] == 'S';
}

/* Nobody who runs, or wants to, can wake another thread. */
static inline bool all_others_are_asleep(void) {
    DIR *threads = opendir("/proc/self/task");
    const struct dirent *thread;
    bool asleep = threads != NULL;
    while (asleep && (thread = readdir(threads)) != NULL)
        asleep = thread->d_name[0] == '.' || atoi(thread->d_name) == gettid() || is_asleep(thread->d_name);
    if (threads != NULL) closedir(threads);
    return asleep;
}

/* Waits until the call has returned (false) or its thread sleeps in it, and so do all others but this one (true), as the kernel
 * sees it: again and again, since they are not looked at in one moment. */
static inline bool blocks(struct caller *caller) {
    enum { TIMES = 200 };
    for (int asleep = 0; asleep < TIMES; sched_yield()) {
        if (atomic_load(&caller->returned)) return false;
        asleep = all_others_are_asleep() ? asleep + 1 : 0;
    }
    return true;
}

static inline void finish_call(struct caller *caller) { assert_int_equal(pthread_join(caller->thread, NULL), 0); }

#define assert_code(expected, call) assert_int_equal((expected), (call))

#endif
