/* SPDX-License-Identifier: Apache-2.0 */
/* The comm table over threads of one process: collectives on streams, failure, open and close. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/comm_local_state.h"
#include "trainer/streams.h"

/* ---- meetings ---------------------------------------------------------------------------------------------------- */

static int instance_of(const struct comm *c, enum comm_group group) {
    return group == COMM_WORLD ? 0 : group == COMM_EP ? c->rank / c->ep : c->rank % c->ep;
}

static int world_rank(const struct comm_local *local, const struct meeting *m, int place) {
    switch (m->group) {
    case COMM_EP:
        return m->instance * local->ep + place;
    case COMM_EFSDP:
        return place * local->ep + m->instance;
    default:
        return place;
    }
}

static struct meeting_list *list_of(struct comm_local *local, enum comm_group group, int instance,
                                    enum comm_lane lane) {
    return &local->lanes[((size_t)group * (size_t)local->world + (size_t)instance) * COMM_LANES + (size_t)lane];
}

static void meeting_destroy(struct weir_device *device, struct meeting *m) {
    if (!m) return;
    if (m->latch.gate) weir__gate_destroy(device, m->latch.gate);
    free(m->bytes);
    free(m);
}

/* What a rank wants to take part in. */
struct wish {
    const char *name;
    enum meeting_kind kind;
    enum comm_group group;
    enum comm_lane lane;
    const void *send;
    void *recv;
    size_t send_bytes[COMM_LOCAL_MOST], recv_bytes[COMM_LOCAL_MOST]; /* by place */
    size_t sent, received;                                           /* of the buffers */
};

static struct meeting *meeting_create(struct comm *c, const struct wish *wish, uint64_t number) {
    const size_t size = (size_t)comm_size(c, wish->group);
    struct meeting *m = calloc(1, sizeof *m + size * sizeof *m->part);
    if (!m) return NULL;
    m->number = number;
    m->name = wish->name;
    m->kind = wish->kind;
    m->group = wish->group;
    m->instance = instance_of(c, wish->group);
    m->size = (int)size;
    m->bytes = calloc(2 * size * size, sizeof *m->bytes);
    for (size_t place = 0; m->bytes && place < size; place++) {
        m->part[place].send_bytes = m->bytes + 2 * place * size;
        m->part[place].recv_bytes = m->part[place].send_bytes + size;
    }
    if (m->bytes && weir__gate_create(c->device, &m->latch.gate) == WEIR_OK) return m;
    meeting_destroy(c->device, m);
    return NULL;
}

static struct meeting *find(const struct meeting_list *list, uint64_t number) {
    struct meeting *m = list->oldest;
    while (m && m->number != number) m = m->next;
    return m;
}

static void append(struct meeting_list *list, struct meeting *m) {
    struct meeting **link = &list->oldest;
    while (*link) link = &(*link)->next;
    *link = m;
}

/* Takes a meeting that is over for every rank out of its list; NULL: there is none. */
static struct meeting *take_over(struct meeting_list *list) {
    struct meeting *m = list->oldest;
    if (!m || !m->settled || m->held < m->size) return NULL;
    list->oldest = m->next;
    return m;
}

static void clear_away(struct comm *c, struct meeting_list *list) {
    struct comm_local *local = local_of(c);
    for (;;) {
        pthread_mutex_lock(&local->lock);
        struct meeting *m = take_over(list);
        pthread_mutex_unlock(&local->lock);
        if (!m) return;
        meeting_destroy(c->device, m);
    }
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

struct quarrel {
    int rank; /* whose expectation was not met; -1: there is none */
    char sentence[LOCAL_SENTENCE];
};

static void say_sizes(struct quarrel *q, const char *name, int from, int to, size_t sent, size_t expected) {
    if (q->rank >= 0 || sent == expected) return;
    q->rank = to;
    snprintf(q->sentence, sizeof q->sentence, "%s: rank %d sends rank %d %zu bytes, but rank %d expects %zu", name,
             from, to, sent, to, expected);
}

/* Compares a part with those that have joined. */
static void compare(const struct comm_local *local, const struct meeting *m, int own, const char *name,
                    struct quarrel *q) {
    const struct part *mine = &m->part[own];
    const int rank = world_rank(local, m, own);
    if (name != m->name) {
        q->rank = rank;
        snprintf(q->sentence, sizeof q->sentence, "rank %d queues a collective \"%s\" where another rank queues \"%s\"",
                 rank, name, m->name);
        return;
    }
    for (int place = 0; place < m->size; place++) {
        const struct part *theirs = &m->part[place];
        const int peer = world_rank(local, m, place);
        if (!theirs->joined) continue;
        say_sizes(q, name, rank, peer, mine->send_bytes[place], theirs->recv_bytes[own]);
        say_sizes(q, name, peer, rank, theirs->send_bytes[own], mine->recv_bytes[place]);
    }
}

/* Needs the lock. */
static void add_part(struct comm *c, struct meeting *m, const struct wish *wish, struct quarrel *q) {
    const int own = comm_place(c, wish->group);
    struct part *part = &m->part[own];
    const size_t bytes = (size_t)m->size * sizeof *part->send_bytes;
    assert(!part->joined);
    part->joined = true;
    part->send = wish->send;
    part->recv = wish->recv;
    memcpy(part->send_bytes, wish->send_bytes, bytes);
    memcpy(part->recv_bytes, wish->recv_bytes, bytes);
    compare(local_of(c), m, own, wish->name, q);
}

/* The meeting that the wish is for, made by whoever comes first; NULL after a failure, or without memory for one. */
static struct meeting *join(struct comm *c, const struct wish *wish, struct quarrel *q) {
    struct comm_local *local = local_of(c);
    struct meeting_list *list = list_of(local, wish->group, instance_of(c, wish->group), wish->lane);
    const uint64_t number = rank_of(c)->joined[wish->group][wish->lane]++;
    clear_away(c, list);
    pthread_mutex_lock(&local->lock);
    struct meeting *m = find(list, number), *made = NULL;
    if (!m && !local->exit_status) {
        pthread_mutex_unlock(&local->lock);
        made = meeting_create(c, wish, number);
        pthread_mutex_lock(&local->lock);
        m = find(list, number);
        if (!m && made && !local->exit_status) append(list, m = made), made = NULL;
    }
    if (local->exit_status) m = NULL;
    if (m) add_part(c, m, wish, q);
    pthread_mutex_unlock(&local->lock);
    meeting_destroy(c->device, made);
    return m;
}

/* ---- arriving ---------------------------------------------------------------------------------------------------- */

/* What the host function on a rank's stream gets. */
struct arrival {
    struct comm_local *local;
    struct weir_device *device;
    struct meeting *meeting; /* NULL: after a failure */
    int rank;
    enum comm_lane lane;
    uint64_t sent_bytes;
};

/* By rank order of the sources; a gather's sender has one block for all. */
static void move_rows(const struct meeting *m, int to) {
    const struct part *getter = &m->part[to];
    char *at = getter->recv;
    for (int from = 0; from < m->size; from++) {
        const struct part *sender = &m->part[from];
        const size_t bytes = getter->recv_bytes[from];
        const char *block = sender->send;
        for (int before = 0; before < to && m->kind == MEETING_EXCHANGE; before++) block += sender->send_bytes[before];
        if (bytes && at != block) memmove(at, block, bytes);
        at += bytes;
    }
}

/* Adds in rank order, so that every rank gets the same bits. */
static void sum_in_order(const struct meeting *m) {
    const size_t count = m->part[0].send_bytes[0] / sizeof(double);
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (int place = 0; place < m->size; place++) {
            double term;
            memcpy(&term, m->part[place].send + i * sizeof term, sizeof term);
            sum += term;
        }
        for (int place = 0; place < m->size; place++) memcpy(m->part[place].recv + i * sizeof sum, &sum, sizeof sum);
    }
}

static void move_data(const struct comm_local *local, const struct meeting *m) {
    if (!local->moves) return;
    if (m->kind == MEETING_REDUCE)
        sum_in_order(m);
    else
        for (int place = 0; place < m->size; place++) move_rows(m, place);
}

static double larger(double a, double b) { return a > b ? a : b; }

static double ns_over(double bytes, double rate, double latency_ns) {
    return bytes < 0 ? 0 : latency_ns + (rate > 0 ? bytes / rate * 1e9 : 0);
}

/* What the links of one rank take. */
static double rank_ns(const struct comm_local *local, const struct meeting *m, int own) {
    const struct part *part = &m->part[own];
    const int host = world_rank(local, m, own) / local->ep;
    double out[2] = {-1, -1}, in[2] = {-1, -1}; /* over the peer link, over the network; -1: not used */
    for (int place = 0; place < m->size; place++) {
        const int link = world_rank(local, m, place) / local->ep != host;
        if (place == own) continue;
        out[link] = larger(out[link], 0) + (double)part->send_bytes[place];
        in[link] = larger(in[link], 0) + (double)part->recv_bytes[place];
    }
    return larger(ns_over(larger(out[0], in[0]), local->peer_rate, local->peer_latency_ns),
                  ns_over(larger(out[1], in[1]), local->network_rate, local->network_latency_ns));
}

static uint64_t links_ns(const struct comm_local *local, const struct meeting *m) {
    double ns = 0;
    for (int place = 0; place < m->size; place++) ns = larger(ns, rank_ns(local, m, place));
    return (uint64_t)ns;
}

static uint64_t mixed(uint64_t digest, uint64_t value) { return (digest ^ value) * 0x100000001b3u; } /* FNV-1a */

/* Counts the rank; true when it is the last, and it is for this one to end the meeting. Needs the lock. */
static bool count_arrival(const struct arrival *a) {
    struct comm_local *local = a->local;
    struct meeting *m = a->meeting;
    local->digest = mixed(mixed(mixed(local->digest, (uint64_t)a->rank), (uint64_t)a->lane), m->number);
    local->rank[a->rank].sent_bytes[a->lane] += a->sent_bytes;
    const bool last = ++m->arrived == m->size && !m->latch.opened;
    if (last) m->latch.opened = true;
    return last;
}

static void arrive(void *argument) {
    const struct arrival *a = argument;
    struct meeting *m = a->meeting;
    if (!m) return;
    pthread_mutex_lock(&a->local->lock);
    const bool last = count_arrival(a);
    pthread_mutex_unlock(&a->local->lock);
    if (!last) return;
    move_data(a->local, m);
    weir__gate_open(a->device, m->latch.gate, links_ns(a->local, m));
    pthread_mutex_lock(&a->local->lock);
    m->settled = true;
    pthread_mutex_unlock(&a->local->lock);
}

/* ---- collectives ------------------------------------------------------------------------------------------------- */

static enum weir_status fail_here(struct comm *c, enum weir_status status, const char *sentence) {
    local_fail(local_of(c), c->device, c->rank, 1, sentence);
    return status;
}

static enum weir_status queue_arrival(struct comm *c, struct meeting *m, const struct wish *wish, weir_stream stream) {
    const uint64_t kept = wish->send_bytes[comm_place(c, wish->group)],
                   others = (uint64_t)comm_size(c, wish->group) - 1;
    const uint64_t sent = wish->kind == MEETING_EXCHANGE ? wish->sent - kept : kept * others;
    struct arrival arrival = {local_of(c), c->device, m, c->rank, wish->lane, sent};
    const struct weir_access accesses[] = {{wish->send, wish->sent, false}, {wish->recv, wish->received, true}};
    const struct weir_work work = {.name = wish->name,
                                   .run = arrive,
                                   .argument = &arrival,
                                   .argument_bytes = sizeof arrival,
                                   .accesses = accesses,
                                   .access_count = 2}; /* bytes 0: the links' time is the gate's */
    return weir_device_submit(c->device, &work, stream);
}

/* After a failure collectives bring nothing, and the stream goes on. */
static enum weir_status collective(struct comm *c, const struct wish *wish, weir_stream stream) {
    struct comm_local *local = local_of(c);
    struct quarrel quarrel = {.rank = -1};
    assert(c->device && wish->lane < COMM_LANES);
    struct meeting *m = join(c, wish, &quarrel);
    if (!m) {
        if (c->table->failure(c, NULL, 0)) return queue_arrival(c, NULL, wish, stream);
        return fail_here(c, WEIR_OUT_OF_HOST_MEMORY, "no memory to queue a collective");
    }
    if (quarrel.rank >= 0) {
        local_fail(local, c->device, quarrel.rank, 1, quarrel.sentence);
        return queue_arrival(c, NULL, wish, stream);
    }
    enum weir_status status = queue_arrival(c, m, wish, stream);
    if (status == WEIR_OK) status = weir__gate_hold(c->device, m->latch.gate, stream);
    pthread_mutex_lock(&local->lock);
    m->held++;
    pthread_mutex_unlock(&local->lock);
    return status;
}

static struct wish same_for_all(const struct comm *c, const char *name, enum meeting_kind kind, enum comm_group group,
                                enum comm_lane lane, const void *send, void *recv, size_t bytes) {
    struct wish wish = {
        .name = name, .kind = kind, .group = group, .lane = lane, .send = send, .recv = recv, .sent = bytes};
    const size_t size = (size_t)comm_size(c, group);
    for (size_t place = 0; place < size; place++) wish.send_bytes[place] = wish.recv_bytes[place] = bytes;
    wish.sent = kind == MEETING_EXCHANGE ? size * bytes : bytes;
    wish.received = kind == MEETING_REDUCE ? bytes : size * bytes;
    return wish;
}

static enum weir_status local_all_gather(struct comm *c, enum comm_group group, enum comm_lane lane, const void *send,
                                         void *recv, size_t bytes, weir_stream stream) {
    static const char name[] = "all-gather";
    const struct wish wish = same_for_all(c, name, MEETING_GATHER, group, lane, send, recv, bytes);
    return collective(c, &wish, stream);
}

static enum weir_status local_all_to_all(struct comm *c, enum comm_group group, enum comm_lane lane, const void *send,
                                         void *recv, size_t bytes, weir_stream stream) {
    static const char name[] = "all-to-all";
    const struct wish wish = same_for_all(c, name, MEETING_EXCHANGE, group, lane, send, recv, bytes);
    return collective(c, &wish, stream);
}

static enum weir_status local_all_to_all_v(struct comm *c, enum comm_group group, enum comm_lane lane, const void *send,
                                           const size_t *send_bytes, void *recv, const size_t *recv_bytes,
                                           weir_stream stream) {
    static const char name[] = "all-to-all-v";
    const int size = comm_size(c, group), own = comm_place(c, group);
    struct wish wish = {
        .name = name, .kind = MEETING_EXCHANGE, .group = group, .lane = lane, .send = send, .recv = recv};
    struct quarrel quarrel = {.rank = -1};
    say_sizes(&quarrel, name, c->rank, c->rank, send_bytes[own], recv_bytes[own]);
    if (quarrel.rank >= 0) return fail_here(c, WEIR_INVALID, quarrel.sentence);
    for (int place = 0; place < size; place++) {
        wish.sent += wish.send_bytes[place] = send_bytes[place];
        wish.received += wish.recv_bytes[place] = recv_bytes[place];
    }
    return collective(c, &wish, stream);
}

static enum weir_status local_all_reduce_double(struct comm *c, enum comm_group group, enum comm_lane lane,
                                                double *sums, size_t count, weir_stream stream) {
    static const char name[] = "all-reduce";
    const struct wish wish = same_for_all(c, name, MEETING_REDUCE, group, lane, sums, sums, count * sizeof *sums);
    return collective(c, &wish, stream);
}

/* ---- failure ----------------------------------------------------------------------------------------------------- */

static bool close_latch(struct latch *latch, struct weir_emu_gate **gate) {
    if (!latch->gate || latch->opened) return false;
    latch->opened = true;
    *gate = latch->gate;
    return true;
}

/* A gate that someone waits at and nobody opens, now for this thread to open. Needs the lock. */
static bool next_shut(struct comm_local *local, struct weir_emu_gate **gate) {
    const size_t lists = (size_t)COMM_GROUPS * (size_t)local->world * COMM_LANES;
    for (size_t i = 0; i < lists; i++)
        for (struct meeting *m = local->lanes[i].oldest; m; m = m->next)
            if (close_latch(&m->latch, gate)) return true;
    for (struct assembly *a = local->assemblies; a; a = a->next)
        if (close_latch(&a->latch, gate)) return true;
    return false;
}

void local_fail(struct comm_local *local, struct weir_device *device, int rank, int exit_status, const char *sentence) {
    assert(exit_status);
    pthread_mutex_lock(&local->lock);
    if (!local->exit_status) {
        local->exit_status = exit_status;
        local->failed_rank = rank;
        snprintf(local->sentence, sizeof local->sentence, "%s", sentence);
    }
    struct weir_emu_gate *gate;
    while (next_shut(local, &gate)) {
        pthread_mutex_unlock(&local->lock);
        weir__gate_open(device, gate, 0);
        pthread_mutex_lock(&local->lock);
    }
    pthread_mutex_unlock(&local->lock);
}

static void fail_rank(struct comm *c, int exit_status, const char *sentence) {
    local_fail(local_of(c), rank_of(c)->device, c->rank, exit_status, sentence);
}

static int local_failure(struct comm *c, char *sentence, size_t room) {
    struct comm_local *local = local_of(c);
    pthread_mutex_lock(&local->lock);
    const int exit_status = local->exit_status;
    if (exit_status && room) snprintf(sentence, room, "%s", local->sentence);
    if (exit_status && c->failed_rank < 0) c->failed_rank = local->failed_rank;
    pthread_mutex_unlock(&local->lock);
    return exit_status;
}

static uint64_t local_bytes_sent(struct comm *c, enum comm_lane lane) {
    struct comm_local *local = local_of(c);
    pthread_mutex_lock(&local->lock);
    const uint64_t bytes = rank_of(c)->sent_bytes[lane];
    pthread_mutex_unlock(&local->lock);
    return bytes;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static enum weir_status local_attach(struct comm *c, struct weir_device *device) {
    struct comm_local *local = local_of(c);
    struct weir_emu_machine machine;
    const enum weir_status status = weir__device_machine(device, &machine);
    if (status != WEIR_OK)
        return fail_here(c, WEIR_NOT_SUPPORTED, "ranks as threads of one process need emulated devices (--comm=local)");
    c->device = rank_of(c)->device = device;
    pthread_mutex_lock(&local->lock);
    local->moves = local->moves && machine.backed;
    local->peer_rate = machine.peer_rate;
    local->peer_latency_ns = machine.peer_latency_ns;
    local->network_rate = machine.network_rate;
    local->network_latency_ns = machine.network_latency_ns;
    pthread_mutex_unlock(&local->lock);
    return WEIR_OK;
}

/* Waits for this rank's streams: no meeting touches its memory after that. */
static void local_close(struct comm *c) {
    if (c->device) device_synchronize(c->device, "comm.close");
    local_tells_no_more(c);
}

static const struct comm_table table = {
    .name = "local",
    .close = local_close,
    .attach = local_attach,
    .all_gather = local_all_gather,
    .all_to_all = local_all_to_all,
    .all_to_all_v = local_all_to_all_v,
    .all_reduce_double = local_all_reduce_double,
    .barrier = local_barrier,
    .reduce_host = local_reduce_host,
    .broadcast_host = local_broadcast_host,
    .gather_text = local_gather_text,
    .fail = fail_rank,
    .failure = local_failure,
    .bytes_sent = local_bytes_sent,
};

enum weir_status comm_local_create(int world, int ep, bool moves, struct comm_local **out) {
    *out = NULL;
    if (world < 1 || world > COMM_LOCAL_MOST || ep < 1 || world % ep) return WEIR_INVALID;
    struct comm_local *local = calloc(1, sizeof *local + (size_t)world * sizeof *local->rank);
    if (!local) return WEIR_OUT_OF_HOST_MEMORY;
    local->lanes = calloc((size_t)COMM_GROUPS * (size_t)world * COMM_LANES, sizeof *local->lanes);
    if (!local->lanes) {
        free(local);
        return WEIR_OUT_OF_HOST_MEMORY;
    }
    pthread_mutex_init(&local->lock, NULL);
    local->world = world;
    local->ep = ep;
    local->moves = moves;
    local->failed_rank = -1;
    local->digest = 0xcbf29ce484222325u;
    *out = local;
    return WEIR_OK;
}

enum weir_status comm_open_local(struct comm_local *local, int rank, struct comm *out) {
    assert(rank >= 0 && rank < local->world);
    local->rank[rank] = (struct local_rank){.local = local};
    *out = (struct comm){.table = &table,
                         .rank = rank,
                         .world = local->world,
                         .ep = local->ep,
                         .failed_rank = -1,
                         .state = &local->rank[rank]};
    return WEIR_OK;
}

void comm_local_destroy(struct comm_local *local) {
    if (!local) return;
    struct weir_device *device = NULL;
    for (int rank = 0; rank < local->world && !device; rank++) device = local->rank[rank].device;
    const size_t lists = (size_t)COMM_GROUPS * (size_t)local->world * COMM_LANES;
    for (size_t i = 0; i < lists; i++)
        for (struct meeting *m; (m = local->lanes[i].oldest);) {
            local->lanes[i].oldest = m->next;
            meeting_destroy(device, m);
        }
    local_host_forget(local, device);
    pthread_mutex_destroy(&local->lock);
    free(local->lanes);
    free(local);
}

uint64_t comm_local_digest(struct comm_local *local) {
    pthread_mutex_lock(&local->lock);
    const uint64_t digest = local->digest;
    pthread_mutex_unlock(&local->lock);
    return digest;
}
