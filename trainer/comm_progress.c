/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/comm_progress.h"

#include <assert.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum {
    NOTICE_TAG = 1,
    IDLE_WAIT_MS = 10,
    YIELDS = 10, /* polls that only yield, before the first sleep */
    SHORTEST_SLEEP_NS = 10000,
    LONGEST_SLEEP_NS = 80000, /* a collective that waits for a slow rank costs the fast ones almost nothing */
};

struct notice {
    int32_t exit_status;
    int32_t rank;
    char sentence[PROGRESS_SENTENCE];
};

struct progress {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t posted;
    struct transfer *queue, **queue_end; /* posted, not yet started */
    bool stopping;
    struct notice failure; /* exit_status 0: none */
    bool tell;             /* `failure` is this rank's own and the others have not been told */

    /* the thread's */
    MPI_Comm control;
    int rank, world;
    struct transfer *active;
    int64_t failed_ns; /* when the thread learned of the failure, 0: none */
    struct notice arrived;
    MPI_Request listening;
    int room; /* of the arrays below */
    int *indices;
    MPI_Status *statuses;
};

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- transfers ---------------------------------------------------------------------------------------------------- */

struct transfer *transfer_create(const char *name, MPI_Comm comm, int tag, int room) {
    struct transfer *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    t->name = name;
    t->comm = comm;
    t->tag = tag;
    t->parts = calloc((size_t)room + 1, sizeof *t->parts);
    t->requests = calloc((size_t)room + 1, sizeof *t->requests);
    pthread_cond_init(&t->ended, NULL);
    if (t->parts && t->requests) return t;
    transfer_destroy(t);
    return NULL;
}

void transfer_destroy(struct transfer *transfer) {
    if (!transfer) return;
    pthread_cond_destroy(&transfer->ended);
    free(transfer->requests);
    free(transfer->parts);
    free(transfer);
}

void transfer_add(struct transfer *transfer, bool send, int peer, const void *address, size_t bytes) {
    transfer->parts[transfer->count++] = (struct part){(void *)(uintptr_t)address, bytes, peer, send, false};
}

/* ---- failures ----------------------------------------------------------------------------------------------------- */

void progress_fail(struct progress *p, int exit_status, const char *sentence) {
    assert(exit_status);
    pthread_mutex_lock(&p->lock);
    if (!p->failure.exit_status) {
        p->failure.exit_status = exit_status;
        p->failure.rank = p->rank;
        snprintf(p->failure.sentence, sizeof p->failure.sentence, "%s", sentence);
        p->tell = true;
        pthread_cond_signal(&p->posted);
    }
    pthread_mutex_unlock(&p->lock);
}

int progress_failure(struct progress *p, char *sentence, size_t room, int *rank) {
    pthread_mutex_lock(&p->lock);
    int exit_status = p->failure.exit_status;
    if (exit_status && room) snprintf(sentence, room, "%s", p->failure.sentence);
    if (exit_status && rank) *rank = p->failure.rank;
    pthread_mutex_unlock(&p->lock);
    return exit_status;
}

static void listen_for_notices(struct progress *p) {
    MPI_Irecv(&p->arrived, (int)sizeof p->arrived, MPI_BYTE, MPI_ANY_SOURCE, NOTICE_TAG, p->control, &p->listening);
}

static void take_notice(struct progress *p) {
    int come = 0;
    if (MPI_Test(&p->listening, &come, MPI_STATUS_IGNORE) || !come) return;
    pthread_mutex_lock(&p->lock);
    if (!p->failure.exit_status) p->failure = p->arrived;
    pthread_mutex_unlock(&p->lock);
    listen_for_notices(p);
}

/* Sends are small enough to be buffered by MPI; the copy that they come from lives as long as the thread. */
static void tell_everyone(struct progress *p) {
    for (int peer = 0; peer < p->world; peer++) {
        MPI_Request request;
        if (peer == p->rank) continue;
        if (MPI_Isend(&p->failure, (int)sizeof p->failure, MPI_BYTE, peer, NOTICE_TAG, p->control, &request)) continue;
        MPI_Request_free(&request);
    }
}

/* Learns of a failure from others or from this rank's own threads. */
static void watch_for_failure(struct progress *p) {
    take_notice(p);
    pthread_mutex_lock(&p->lock);
    bool tell = p->tell;
    p->tell = false;
    if (p->failure.exit_status && !p->failed_ns) p->failed_ns = now_ns();
    pthread_mutex_unlock(&p->lock);
    if (tell) tell_everyone(p);
}

static void fail_at(struct progress *p, const struct transfer *t, const char *what, int code) {
    char text[MPI_MAX_ERROR_STRING], sentence[PROGRESS_SENTENCE];
    int length = 0;
    MPI_Error_string(code, text, &length);
    snprintf(sentence, sizeof sentence, "rank %d: %s of %s failed in MPI: %.200s", p->rank, what, t->name, text);
    progress_fail(p, 1, sentence);
}

/* ---- moving transfers on ------------------------------------------------------------------------------------------ */

static void end_transfer(struct progress *p, struct transfer *t, bool complete) {
    pthread_mutex_lock(&p->lock);
    t->complete = complete;
    t->done = true;
    pthread_cond_signal(&t->ended); /* under the lock: the waiter frees the transfer */
    pthread_mutex_unlock(&p->lock);
}

/* MPI keeps no receive that has not begun; what has begun still reads and writes its buffer, which is why memory must
 * stay mapped until the thread has stopped. */
static void give_up(struct progress *p, struct transfer *t) {
    for (int i = 0; i < t->count; i++) {
        if (t->requests[i] == MPI_REQUEST_NULL) continue;
        if (!t->parts[i].send) MPI_Cancel(&t->requests[i]);
        MPI_Request_free(&t->requests[i]);
    }
    end_transfer(p, t, false);
}

static void start(struct progress *p, struct transfer *t) {
    for (int i = 0; i < t->count; i++) t->requests[i] = MPI_REQUEST_NULL;
    for (int i = 0; i < t->count; i++) { /* receives first, so that messages find their place */
        struct part *part = &t->parts[i];
        assert(part->bytes <= INT_MAX);
        if (part->send) continue;
        int code = MPI_Irecv(part->address, (int)part->bytes, MPI_BYTE, part->peer, t->tag, t->comm, &t->requests[i]);
        if (code) fail_at(p, t, "a receive", code);
    }
    for (int i = 0; i < t->count; i++) {
        struct part *part = &t->parts[i];
        if (!part->send) continue;
        int code = MPI_Isend(part->address, (int)part->bytes, MPI_BYTE, part->peer, t->tag, t->comm, &t->requests[i]);
        if (code) fail_at(p, t, "a send", code);
    }
}

static void check_part(struct progress *p, const struct transfer *t, const struct part *part,
                       const MPI_Status *status) {
    char sentence[PROGRESS_SENTENCE];
    int code = status->MPI_ERROR, got = 0, class = MPI_SUCCESS;
    if (code) MPI_Error_class(code, &class);
    if (class == MPI_ERR_TRUNCATE) {
        snprintf(sentence, sizeof sentence, "%s: rank %d sends rank %d more than the %zu bytes that rank %d expects",
                 t->name, part->peer, p->rank, part->bytes, p->rank);
        progress_fail(p, 1, sentence);
        return;
    }
    if (code) {
        fail_at(p, t, "a message", code);
        return;
    }
    if (part->send) return;
    MPI_Get_count(status, MPI_BYTE, &got);
    if ((size_t)got == part->bytes) return;
    snprintf(sentence, sizeof sentence, "%s: rank %d sends rank %d %d bytes, but rank %d expects %zu", t->name,
             part->peer, p->rank, got, p->rank, part->bytes);
    progress_fail(p, 1, sentence);
}

static bool all_arrived(const struct transfer *t) {
    for (int i = 0; i < t->count; i++)
        if (!t->parts[i].arrived) return false;
    return true;
}

/* Gives whether anything has come. */
static bool poll_parts(struct progress *p, struct transfer *t) {
    int count = 0;
    int code = MPI_Testsome(t->count, t->requests, &count, p->indices, p->statuses);
    if (code && code != MPI_ERR_IN_STATUS) {
        fail_at(p, t, "a poll", code);
        return false;
    }
    if (count == MPI_UNDEFINED) return false; /* nothing was ever started */
    for (int i = 0; i < count; i++) {
        if (code != MPI_ERR_IN_STATUS) p->statuses[i].MPI_ERROR = MPI_SUCCESS; /* else MPI leaves it undefined */
        check_part(p, t, &t->parts[p->indices[i]], &p->statuses[i]);
        t->parts[p->indices[i]].arrived = true;
    }
    return count > 0;
}

static bool must_give_up(const struct progress *p, struct transfer *t) {
    if (!p->failed_ns) return false;
    if (!t->survives) return true;
    if (!t->ends_ns) t->ends_ns = now_ns() + t->limit_ns;
    return now_ns() > t->ends_ns;
}

/* One round over the active transfers; gives whether anything has moved. */
static bool poll_transfers(struct progress *p) {
    bool moved = false;
    for (struct transfer **at = &p->active; *at;) {
        struct transfer *t = *at;
        moved |= poll_parts(p, t);
        bool complete = all_arrived(t), gone = !complete && must_give_up(p, t);
        if (!complete && !gone) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        moved = true;
        if (gone)
            give_up(p, t);
        else
            end_transfer(p, t, true);
    }
    return moved;
}

static bool grow_scratch(struct progress *p, int room) {
    if (room <= p->room) return true;
    int *indices = realloc(p->indices, (size_t)room * sizeof *indices);
    if (indices) p->indices = indices;
    MPI_Status *statuses = realloc(p->statuses, (size_t)room * sizeof *statuses);
    if (statuses) p->statuses = statuses;
    if (!indices || !statuses) return false;
    p->room = room;
    return true;
}

/* Moves what was posted to the end of the active ones, in order. */
static void start_posted(struct progress *p, struct transfer *posted) {
    struct transfer **end = &p->active;
    while (*end) end = &(*end)->next;
    while (posted) {
        struct transfer *t = posted;
        posted = t->next;
        t->next = NULL;
        if ((p->failed_ns && !t->survives) || !grow_scratch(p, t->count)) {
            if (!p->failed_ns) progress_fail(p, 1, "no memory to exchange messages");
            end_transfer(p, t, false);
            continue;
        }
        start(p, t);
        *end = t;
        end = &t->next;
    }
}

/* ---- the thread --------------------------------------------------------------------------------------------------- */

/* Gives what was posted; waits for it a moment when nothing else is to be done. */
static struct transfer *take_posted(struct progress *p, bool *stopping) {
    pthread_mutex_lock(&p->lock);
    if (!p->queue && !p->active && !p->stopping && !p->tell) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += IDLE_WAIT_MS * 1000000;
        if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
        pthread_cond_timedwait(&p->posted, &p->lock, &until);
    }
    struct transfer *posted = p->queue;
    p->queue = NULL;
    p->queue_end = &p->queue;
    *stopping = p->stopping;
    pthread_mutex_unlock(&p->lock);
    return posted;
}

static void back_off(int polls) {
    if (polls < YIELDS) {
        sched_yield();
        return;
    }
    long ns = (long)SHORTEST_SLEEP_NS << (polls - YIELDS < 8 ? (polls - YIELDS) / 2 : 4);
    nanosleep(&(struct timespec){0, ns < LONGEST_SLEEP_NS ? ns : LONGEST_SLEEP_NS}, NULL);
}

static void *run(void *argument) {
    struct progress *p = argument;
    bool stopping = false;
    prctl(PR_SET_TIMERSLACK, 1000L); /* sleeps of microseconds, not of 50 more */
    listen_for_notices(p);
    for (int polls = 0; !stopping; polls++) {
        struct transfer *posted = take_posted(p, &stopping);
        if (posted) polls = 0;
        watch_for_failure(p);
        start_posted(p, posted);
        if (poll_transfers(p)) polls = 0;
        if (p->active && !stopping) back_off(polls);
    }
    while (p->active) {
        struct transfer *t = p->active;
        p->active = t->next;
        give_up(p, t);
    }
    MPI_Cancel(&p->listening);
    MPI_Wait(&p->listening, MPI_STATUS_IGNORE); /* local: a cancelled receive ends */
    return NULL;
}

static void destroy(struct progress *p) {
    pthread_cond_destroy(&p->posted);
    pthread_mutex_destroy(&p->lock);
    free(p->indices);
    free(p->statuses);
    free(p);
}

struct progress *progress_start(MPI_Comm control) {
    struct progress *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&p->posted, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&p->lock, NULL);
    p->queue_end = &p->queue;
    p->control = control;
    MPI_Comm_rank(control, &p->rank);
    MPI_Comm_size(control, &p->world);
    if (pthread_create(&p->thread, NULL, run, p) == 0) return p;
    destroy(p);
    return NULL;
}

void progress_stop(struct progress *p) {
    pthread_mutex_lock(&p->lock);
    p->stopping = true;
    pthread_cond_signal(&p->posted);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    destroy(p);
}

void progress_post(struct progress *p, struct transfer *t) {
    t->next = NULL;
    t->done = t->complete = false;
    t->ends_ns = 0;
    pthread_mutex_lock(&p->lock);
    assert(!p->stopping);
    *p->queue_end = t;
    p->queue_end = &t->next;
    pthread_cond_signal(&p->posted);
    pthread_mutex_unlock(&p->lock);
}

bool progress_wait(struct progress *p, struct transfer *t) {
    pthread_mutex_lock(&p->lock);
    while (!t->done) pthread_cond_wait(&t->ended, &p->lock);
    pthread_mutex_unlock(&p->lock);
    return t->complete;
}
