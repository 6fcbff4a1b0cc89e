/* SPDX-License-Identifier: Apache-2.0 */
/* The real clock: a worker thread a queue, made when the queue is first used, asleep while it has nothing to do. */
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "device/emu/clock.h"
#include "device/emu/machine.h"
#include "device/error.h"

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void sleep_ns(uint64_t ns) {
    struct timespec left = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (nanosleep(&left, &left) != 0) continue;
}

/* ---- the host --------------------------------------------------------------------------------------------------- */

static bool admits(void) { return true; }

static void wait_passed(struct emu_point point) {
    while (!emu_point_passed(point)) pthread_cond_wait(&point.queue->completed_more, emu_the_lock());
}

static CUresult host_waits(struct emu_point point) {
    if (emu_point_passed(point)) return CUDA_SUCCESS;
    emu_gates_host_waits();
    wait_passed(point);
    return CUDA_SUCCESS;
}

static CUresult wait_room(struct emu_queue *queue) {
    emu_gates_host_waits();
    pthread_cond_wait(&queue->completed_more, emu_the_lock());
    return CUDA_SUCCESS;
}

static CUresult wait_gate(struct weir_emu_gate *gate) {
    while (!gate->open) pthread_cond_wait(&gate->opened, emu_the_lock());
    return CUDA_SUCCESS;
}

/* Modelled time means nothing on this clock. */
static void open_gate(struct weir_emu_gate *gate, uint64_t delay_ns) {
    (void)delay_ns;
    emu_gate_opened(gate);
}

static void gate_opened(struct weir_emu_gate *gate) { (void)gate; }

static void charge(double ns, bool may_switch) {
    (void)ns;
    (void)may_switch;
}

static void pause_ns(uint64_t ns) {
    emu_gates_host_waits();
    emu_unlock();
    sleep_ns(ns);
    emu_lock();
}

static void looked(void) {}

static bool thread_begin(const char *name, unsigned together) {
    (void)name;
    (void)together;
    return true;
}

static void thread_end(void) {}

/* ---- workers ---------------------------------------------------------------------------------------------------- */

static void pushed(struct emu_queue *queue) { pthread_cond_signal(&queue->pushed_more); }

/* Waits for the points of an operation, one after the other: what matters is when the last one has passed. */
static void wait_for_points(const struct emu_operation *operation) {
    for (size_t i = 0; i < sizeof operation->after / sizeof *operation->after; i++) wait_passed(operation->after[i]);
    for (size_t i = 0; i < operation->after_many_count; i++) wait_passed(operation->after_many[i]);
}

static void delay(uint64_t ns) {
    emu_unlock();
    sleep_ns(ns);
    emu_lock();
}

static void run(struct emu_queue *queue, const struct emu_operation *operation) {
    queue->running = true;
    emu_unlock();
    emu_operation_run(operation);
    emu_lock();
    queue->running = false;
}

/* Makes the next operation happen; it stays at the head, and counted as queued, until it has. */
static void happen(struct emu_queue *queue) {
    struct emu_operation *operation = emu_queue_head(queue);
    wait_for_points(operation);
    if (queue->delay_ns > 0) delay(queue->delay_ns);
    if (operation->kind == EMU_GATE) wait_gate(operation->gate);
    emu_takers_wait(operation);
    if (emu_exiting()) return; /* what is still queued when the process ends never happens */
    if (emu_operation_runs(queue, operation)) run(queue, operation);
    emu_operation_settle(queue, operation);
    pthread_cond_broadcast(&queue->completed_more);
}

static void *work(void *argument) {
    struct emu_queue *queue = argument;
    pthread_setname_np(pthread_self(), "emu-stream");
    emu_lock();
    while (!emu_exiting()) {
        if (queue->completed == queue->pushed)
            pthread_cond_wait(&queue->pushed_more, emu_the_lock());
        else
            happen(queue);
    }
    emu_unlock();
    for (;;) pause();
    return NULL;
}

/* Signals are for the program's own threads; a worker takes none. */
static bool prepare(struct emu_queue *queue) {
    if (queue->has_worker) return true;
    sigset_t all, before;
    pthread_attr_t detached;
    pthread_t thread;
    sigfillset(&all);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&thread, &detached, work, queue);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    queue->has_worker = error == 0;
    if (error != 0) weir__log(WEIR__LOG_ERROR, "emulated driver: no thread for a stream (error %d)", error);
    return queue->has_worker;
}

const struct emu_clock emu_clock_real = {.now_ns = now_ns,
                                         .host_now_ns = now_ns,
                                         .admits = admits,
                                         .prepare = prepare,
                                         .pushed = pushed,
                                         .wait = host_waits,
                                         .wait_room = wait_room,
                                         .wait_gate = wait_gate,
                                         .open_gate = open_gate,
                                         .gate_opened = gate_opened,
                                         .charge = charge,
                                         .pause = pause_ns,
                                         .looked = looked,
                                         .thread_begin = thread_begin,
                                         .thread_end = thread_end};
