/* SPDX-License-Identifier: Apache-2.0 */
/* The one thread of a rank that talks to MPI.
 *
 * Words. part: one message to or from one peer. transfer: the parts that one collective has on this rank. notice: a
 * failure's sentence, sent to every rank on the control communicator.
 *
 * What holds. Between progress_start and progress_stop only this thread makes MPI calls, none of them blocking, so that
 * MPI_THREAD_SERIALIZED is enough. Every transfer ends: with its data; or after a failure, without. Peers are ranks of
 * the world; each lane's messages travel in a communicator of its own, in the order in which they were posted. Sizes of
 * zero are sent too: each received size is compared with the expected one, and a pair that disagrees is a failure that
 * names both.
 *
 * Cost. Idle, the thread wakes every 10 ms to look for a notice. Busy, it polls, first yielding and then sleeping for
 * tens of microseconds, since there may be more ranks than cores. */
#ifndef WEIR_TRAINER_COMM_PROGRESS_H
#define WEIR_TRAINER_COMM_PROGRESS_H

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct part {
    void *address;
    size_t bytes;
    int peer;
    bool send;
    bool arrived; /* complete; always when the transfer ended with its data */
};

struct transfer {
    const char *name; /* for sentences; static storage */
    MPI_Comm comm;
    int tag;
    bool survives; /* goes on after a failure, but then for at most `limit_ns` */
    int64_t limit_ns;
    int count;             /* parts in use */
    struct part *parts;    /* (room) */
    MPI_Request *requests; /* (room); the thread's */
    struct transfer *next; /* the thread's */
    int64_t ends_ns;       /* the thread's: when a surviving transfer is given up, 0: not yet known */
    bool done;             /* under the lock */
    bool complete;         /* under the lock: every part has arrived */
    pthread_cond_t ended;
};

/* A transfer with room for `room` parts, or NULL without memory. Needs: ended, or never posted, when destroyed. */
struct transfer *transfer_create(const char *name, MPI_Comm comm, int tag, int room);
void transfer_destroy(struct transfer *transfer);
void transfer_add(struct transfer *transfer, bool send, int peer, const void *address, size_t bytes);

struct progress;

enum { PROGRESS_SENTENCE = 512 };

/* `control`: a communicator of the world for notices alone. NULL without memory or thread. */
struct progress *progress_start(MPI_Comm control);
/* Ends the thread; the caller may call MPI again. Transfers still open are given up. */
void progress_stop(struct progress *progress);

/* Queues a transfer; progress_wait gives true when all its data has come. Threads: any. */
void progress_post(struct progress *progress, struct transfer *transfer);
bool progress_wait(struct progress *progress, struct transfer *transfer);

/* The first failure stays; every rank is told of this one. Threads: any. */
void progress_fail(struct progress *progress, int exit_status, const char *sentence);
/* 0, or the exit status of the first failure known here, with its sentence and its rank. Threads: any. */
int progress_failure(struct progress *progress, char *sentence, size_t room, int *rank);

#endif
