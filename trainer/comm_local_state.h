/* SPDX-License-Identifier: Apache-2.0 */
/* What the ranks of a local world share; inside comm_local*.c only. */
#ifndef WEIR_TRAINER_COMM_LOCAL_STATE_H
#define WEIR_TRAINER_COMM_LOCAL_STATE_H

#include <pthread.h>

#include "device/emulated.h"
#include "trainer/comm_local.h"

enum { LOCAL_SENTENCE = 512 };

/* A gate that one thread opens: whoever sets `opened`, under the lock. */
struct latch {
    struct weir_emu_gate *gate;
    bool opened;
};

enum meeting_kind { MEETING_GATHER, MEETING_EXCHANGE, MEETING_REDUCE };

struct part {
    bool joined;
    const char *send;
    char *recv;
    size_t *send_bytes, *recv_bytes; /* (size), by place */
};

struct meeting {
    struct meeting *next; /* of the lane, later ones */
    uint64_t number;
    const char *name;
    enum meeting_kind kind;
    enum comm_group group;
    int instance, size;
    int arrived, held; /* ranks whose stream is here; that have queued the gate */
    bool settled;      /* the latch is open and nobody touches the meeting's data any more */
    struct latch latch;
    size_t *bytes;      /* (size, 2, size): of the parts */
    struct part part[]; /* (size) */
};

struct meeting_list {
    struct meeting *oldest;
};

/* A host collective; the ranks stand in the call, so that their memory stays. */
struct assembly {
    struct assembly *next;
    uint64_t number;
    char op; /* '+', '<', '>', 'b' */
    int root, first, joined, left;
    size_t bytes;
    bool complete;
    struct latch latch;
    void *data[COMM_LOCAL_MOST];
};

/* The texts that rank 0 gathers. */
struct telling {
    struct telling *next;
    uint64_t number;
    char *text[COMM_LOCAL_MOST];
    bool told[COMM_LOCAL_MOST];
    struct latch latch; /* gate NULL: rank 0 does not wait */
};

/* comm->state */
struct local_rank {
    struct comm_local *local;
    struct weir_device *device;
    uint64_t joined[COMM_GROUPS][COMM_LANES]; /* meetings so far */
    uint64_t assemblies, tellings;
    uint64_t sent_bytes[COMM_LANES];
    bool closed;
};

struct comm_local {
    pthread_mutex_t lock; /* guards all that follows; held over no call of the driver */
    int world, ep;
    bool moves;
    double peer_rate, peer_latency_ns, network_rate, network_latency_ns;
    int exit_status, failed_rank;
    char sentence[LOCAL_SENTENCE];
    uint64_t digest;
    struct meeting_list *lanes; /* (COMM_GROUPS, world, COMM_LANES): by group, its instance, lane */
    struct assembly *assemblies;
    struct telling *tellings;
    struct local_rank rank[]; /* (world) */
};

static inline struct local_rank *rank_of(const struct comm *c) { return c->state; }
static inline struct comm_local *local_of(const struct comm *c) { return rank_of(c)->local; }

/* The first failure stays; opens what the ranks wait at. */
void local_fail(struct comm_local *local, struct weir_device *device, int rank, int exit_status, const char *sentence);

enum weir_status local_barrier(struct comm *c);
enum weir_status local_reduce_host(struct comm *c, char op, double *values, size_t count);
enum weir_status local_broadcast_host(struct comm *c, void *data, size_t bytes, int root);
enum weir_status local_gather_text(struct comm *c, const char *text, char ***texts);
/* The rank tells no more; rank 0 does not wait for it. */
void local_tells_no_more(struct comm *c);
/* Drops what a failure has left of them. */
void local_host_forget(struct comm_local *local, struct weir_device *device);

#endif
