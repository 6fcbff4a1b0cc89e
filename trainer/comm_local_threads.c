/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of a local world. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "trainer/comm_local_state.h"

/* The threads wait, before they take part in the clock, until all are there: none may wait for one that never comes. */
struct start {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool go, call_off;
};

struct seat {
    struct start *start;
    struct comm_local *local;
    struct weir_device *device;
    int rank, status;
    int (*run)(struct comm *comm, struct weir_device *device, void *argument);
    void *argument;
};

static bool may_start(struct start *start) {
    pthread_mutex_lock(&start->lock);
    while (!start->go && !start->call_off) pthread_cond_wait(&start->changed, &start->lock);
    const bool go = start->go;
    pthread_mutex_unlock(&start->lock);
    return go;
}

static void tell_start(struct start *start, bool go) {
    pthread_mutex_lock(&start->lock);
    start->go = go;
    start->call_off = !go;
    pthread_cond_broadcast(&start->changed);
    pthread_mutex_unlock(&start->lock);
}

static void *sit(void *argument) {
    struct seat *seat = argument;
    struct comm comm;
    char name[24];
    seat->status = -1;
    if (!may_start(seat->start)) return NULL;
    snprintf(name, sizeof name, "rank %d", seat->rank);
    if (weir__thread_begin(seat->device, name, (unsigned)seat->local->world) != WEIR_OK) return NULL;
    if (comm_open_local(seat->local, seat->rank, &comm) == WEIR_OK)
        seat->status = seat->run(&comm, seat->device, seat->argument);
    weir__thread_end(seat->device);
    return NULL;
}

/* Gives: how many could be started. */
static int start_threads(struct seat *seats, pthread_t *threads, int count) {
    for (int rank = 0; rank < count; rank++)
        if (pthread_create(&threads[rank], NULL, sit, &seats[rank])) return rank;
    return count;
}

int comm_local_run(struct comm_local *local, struct weir_device *const *device,
                   int (*run)(struct comm *comm, struct weir_device *device, void *argument), void *argument) {
    struct start start = {.go = false};
    struct seat seats[COMM_LOCAL_MOST];
    pthread_t threads[COMM_LOCAL_MOST];
    pthread_mutex_init(&start.lock, NULL);
    pthread_cond_init(&start.changed, NULL);
    for (int rank = 0; rank < local->world; rank++)
        seats[rank] = (struct seat){&start, local, device[rank], rank, -1, run, argument};
    const int started = start_threads(seats, threads, local->world);
    tell_start(&start, started == local->world);
    /* this thread only waits, so its turn goes to the ranks */
    const bool took_part = weir__thread_end(device[0]) == WEIR_OK;
    for (int rank = 0; rank < started; rank++) pthread_join(threads[rank], NULL);
    if (took_part) weir__thread_begin(device[0], "main", 1);
    pthread_cond_destroy(&start.changed);
    pthread_mutex_destroy(&start.lock);
    int status = started == local->world ? 0 : -1;
    for (int rank = 0; rank < started && status == 0; rank++) status = seats[rank].status;
    return status;
}
