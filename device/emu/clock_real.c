/* SPDX-License-Identifier: Apache-2.0 */
/* The real clock: a worker thread a queue, made when the queue is first used, asleep while it has nothing to do. */
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "device/emu/clock.h"
#include "device/error.h"

uint64_t emu_clock_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void emu_clock_wait(struct emu_point point) {
    if (point.position == 0) return;
    pthread_mutex_lock(&point.queue->lock);
    while (point.queue->completed < point.position) pthread_cond_wait(&point.queue->completed_more, &point.queue->lock);
    pthread_mutex_unlock(&point.queue->lock);
}

void emu_clock_wait_room(struct emu_queue *queue) { pthread_cond_wait(&queue->completed_more, &queue->lock); }

void emu_clock_pushed(struct emu_queue *queue) { pthread_cond_signal(&queue->pushed_more); }

/* Waits for the points of an operation, one after the other: what matters is when the last one has passed. */
static void wait_for_points(struct emu_operation *operation) {
    for (size_t i = 0; i < sizeof operation->after / sizeof *operation->after; i++) emu_clock_wait(operation->after[i]);
    for (size_t i = 0; i < operation->after_many_count; i++) emu_clock_wait(operation->after_many[i]);
    free(operation->after_many);
}

/* Takes the next operation; it stays counted as queued until it has happened. */
static struct emu_operation next_operation(struct emu_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    while (queue->completed == queue->pushed) pthread_cond_wait(&queue->pushed_more, &queue->lock);
    const struct emu_operation operation = queue->operations[(queue->completed + 1) % EMU_QUEUE_ROOM];
    pthread_mutex_unlock(&queue->lock);
    return operation;
}

static void complete_operation(struct emu_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    queue->completed++;
    pthread_cond_broadcast(&queue->completed_more);
    pthread_mutex_unlock(&queue->lock);
}

static void *work(void *argument) {
    struct emu_queue *queue = argument;
    pthread_setname_np(pthread_self(), "emu-stream");
    for (;;) {
        struct emu_operation operation = next_operation(queue);
        wait_for_points(&operation);
        if (emu_exiting()) break; /* what is still queued when the process ends never happens */
        emu_operation_run(&operation);
        complete_operation(queue);
    }
    for (;;) pause();
    return NULL;
}

/* Signals are for the program's own threads; a worker takes none. */
bool emu_clock_prepare(struct emu_queue *queue) {
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
