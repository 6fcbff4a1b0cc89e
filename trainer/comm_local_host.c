/* SPDX-License-Identifier: Apache-2.0 */
/* The local world's collectives on the host: the ranks stand in the call until the last has come. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/comm_local_state.h"

static enum weir_status no_memory(struct comm *c) {
    local_fail(local_of(c), c->device, c->rank, 1, "no memory for a collective of the host");
    return WEIR_OUT_OF_HOST_MEMORY;
}

/* ---- assemblies -------------------------------------------------------------------------------------------------- */

static void assembly_destroy(struct weir_device *device, struct assembly *a) {
    if (!a) return;
    if (a->latch.gate) weir__gate_destroy(device, a->latch.gate);
    free(a);
}

static struct assembly *assembly_create(struct comm *c, uint64_t number, char op, int root, size_t bytes) {
    struct assembly *a = calloc(1, sizeof *a);
    if (!a) return NULL;
    *a = (struct assembly){.number = number, .op = op, .root = root, .first = c->rank, .bytes = bytes};
    if (weir__gate_create(c->device, &a->latch.gate) == WEIR_OK) return a;
    assembly_destroy(c->device, a);
    return NULL;
}

static struct assembly *find(const struct comm_local *local, uint64_t number) {
    struct assembly *a = local->assemblies;
    while (a && a->number != number) a = a->next;
    return a;
}

static double reduced(char op, double a, double b) {
    assert(op == '+' || op == '<' || op == '>');
    return op == '+' ? a + b : (op == '<') == (b < a) ? b : a;
}

/* In rank order, then to all; the ranks' memory is reached as bytes, since it may hold anything. */
static void reduce(const struct assembly *a, int world) {
    for (size_t at = 0; at < a->bytes; at += sizeof(double)) {
        double result = 0, term;
        for (int rank = 0; rank < world; rank++) {
            memcpy(&term, (const char *)a->data[rank] + at, sizeof term);
            result = rank == 0 ? term : reduced(a->op, result, term);
        }
        for (int rank = 0; rank < world; rank++) memcpy((char *)a->data[rank] + at, &result, sizeof result);
    }
}

static void spread(const struct assembly *a, int world) {
    for (int rank = 0; rank < world; rank++)
        if (rank != a->root && a->bytes) memcpy(a->data[rank], a->data[a->root], a->bytes);
}

/* Needs the lock. Gives: whether this rank is the last, and it is for it to end the assembly. */
static bool add_rank(struct comm *c, struct assembly *a, void *data) {
    a->data[c->rank] = data;
    const bool last = ++a->joined == c->world && !a->latch.opened;
    if (last) a->latch.opened = a->complete = true;
    return last;
}

/* Needs the lock, which is given up while an assembly is made. NULL after a failure, or without memory. */
static struct assembly *join(struct comm *c, char op, int root, size_t bytes) {
    struct comm_local *local = local_of(c);
    const uint64_t number = rank_of(c)->assemblies++;
    struct assembly *a = find(local, number), *made = NULL;
    if (!a && !local->exit_status) {
        pthread_mutex_unlock(&local->lock);
        made = assembly_create(c, number, op, root, bytes);
        pthread_mutex_lock(&local->lock);
        a = find(local, number);
        if (!a && made && !local->exit_status) {
            a = made;
            made = NULL;
            a->next = local->assemblies;
            local->assemblies = a;
        }
    }
    if (made) {
        pthread_mutex_unlock(&local->lock);
        assembly_destroy(c->device, made);
        pthread_mutex_lock(&local->lock);
    }
    return local->exit_status ? NULL : a;
}

/* Needs the lock, which is given up. The last to leave clears away. */
static bool leave(struct comm *c, struct assembly *a) {
    struct comm_local *local = local_of(c);
    const bool complete = a->complete, last = ++a->left == c->world;
    struct assembly **link = &local->assemblies;
    while (last && *link != a) link = &(*link)->next;
    if (last) *link = a->next;
    pthread_mutex_unlock(&local->lock);
    if (last) assembly_destroy(c->device, a);
    return complete;
}

static bool alike(const struct assembly *a, char op, int root, size_t bytes) {
    return a->op == op && a->root == root && a->bytes == bytes;
}

static enum weir_status say_unlike(struct comm *c, const struct assembly *a, char op, size_t bytes) {
    char sentence[LOCAL_SENTENCE];
    snprintf(sentence, sizeof sentence,
             "collectives of the host differ: rank %d is in '%c' of %zu bytes, rank %d in '%c' of %zu", a->first, a->op,
             a->bytes, c->rank, op, bytes);
    pthread_mutex_unlock(&local_of(c)->lock);
    local_fail(local_of(c), c->device, c->rank, 1, sentence);
    return WEIR_SYSTEM;
}

static enum weir_status assemble(struct comm *c, char op, int root, void *data, size_t bytes) {
    struct comm_local *local = local_of(c);
    assert(c->device);
    pthread_mutex_lock(&local->lock);
    struct assembly *a = join(c, op, root, bytes);
    if (!a) {
        const bool failed = local->exit_status != 0;
        pthread_mutex_unlock(&local->lock);
        return failed ? WEIR_SYSTEM : no_memory(c);
    }
    if (!alike(a, op, root, bytes)) return say_unlike(c, a, op, bytes);
    const bool last = add_rank(c, a, data);
    pthread_mutex_unlock(&local->lock);
    if (last) {
        if (op == 'b')
            spread(a, c->world);
        else
            reduce(a, c->world);
        weir__gate_open(c->device, a->latch.gate,
                        (uint64_t)(c->world > c->ep ? local->network_latency_ns : local->peer_latency_ns));
    }
    const enum weir_status status = weir__gate_wait(c->device, a->latch.gate);
    pthread_mutex_lock(&local->lock);
    return leave(c, a) && status == WEIR_OK ? WEIR_OK : WEIR_SYSTEM;
}

enum weir_status local_reduce_host(struct comm *c, char op, double *values, size_t count) {
    return assemble(c, op, 0, values, count * sizeof *values);
}

enum weir_status local_broadcast_host(struct comm *c, void *data, size_t bytes, int root) {
    return assemble(c, 'b', root, data, bytes);
}

enum weir_status local_barrier(struct comm *c) { return assemble(c, '+', 0, NULL, 0); }

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* Needs the lock. NULL without memory. */
static struct telling *find_telling(struct comm_local *local, uint64_t number) {
    struct telling *t = local->tellings;
    while (t && t->number != number) t = t->next;
    if (t || !(t = calloc(1, sizeof *t))) return t;
    t->number = number;
    t->next = local->tellings;
    return local->tellings = t;
}

static bool all_told(const struct comm_local *local, const struct telling *t) {
    for (int rank = 0; rank < local->world; rank++)
        if (!t->told[rank] && !local->rank[rank].closed) return false;
    return true;
}

/* Opens the gates at which rank 0 waits in vain. Needs the lock, which is given up. */
static void tell_rank_0(struct comm *c) {
    struct comm_local *local = local_of(c);
    struct weir_emu_gate *gate = NULL;
    for (struct telling *t = local->tellings; t && !gate; t = t->next) {
        if (!t->latch.gate || t->latch.opened || !all_told(local, t)) continue;
        t->latch.opened = true;
        gate = t->latch.gate;
    }
    pthread_mutex_unlock(&local->lock);
    if (gate) weir__gate_open(rank_of(c)->device, gate, 0); /* rank 0 waits at one */
}

void local_tells_no_more(struct comm *c) {
    pthread_mutex_lock(&local_of(c)->lock);
    rank_of(c)->closed = true;
    tell_rank_0(c);
}

static char *copy_of(const char *text) {
    const size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

static enum weir_status tell(struct comm *c, const char *text) {
    pthread_mutex_lock(&local_of(c)->lock);
    struct telling *t = find_telling(local_of(c), rank_of(c)->tellings++);
    if (t) {
        t->text[c->rank] = copy_of(text);
        t->told[c->rank] = true;
    }
    tell_rank_0(c);
    return WEIR_OK;
}

/* Needs the lock. Takes the telling out and gives its texts; what has not come is an empty text. */
static char **take_texts(struct comm_local *local, struct telling *t) {
    char **texts = calloc((size_t)local->world, sizeof *texts);
    struct telling **link = &local->tellings;
    while (*link != t) link = &(*link)->next;
    *link = t->next;
    for (int rank = 0; rank < local->world; rank++) {
        if (texts) texts[rank] = t->text[rank] ? t->text[rank] : calloc(1, 1);
        if (!texts) free(t->text[rank]);
    }
    free(t);
    return texts;
}

/* Works after a failure too: the ranks tell before they close. */
static enum weir_status listen(struct comm *c, const char *text, char ***texts) {
    struct comm_local *local = local_of(c);
    struct weir_emu_gate *gate = NULL;
    if (rank_of(c)->device) weir__gate_create(rank_of(c)->device, &gate);
    pthread_mutex_lock(&local->lock);
    struct telling *t = find_telling(local, rank_of(c)->tellings++);
    if (t) {
        t->text[0] = copy_of(text);
        t->told[0] = true;
        t->latch.gate = gate;
    }
    const bool wait = t && gate && !all_told(local, t);
    if (t && !wait) t->latch.opened = true; /* it is nobody's to open any more */
    pthread_mutex_unlock(&local->lock);
    if (wait) weir__gate_wait(rank_of(c)->device, gate); /* failed: the others never come, and have no text */
    pthread_mutex_lock(&local->lock);
    *texts = t ? take_texts(local, t) : NULL;
    pthread_mutex_unlock(&local->lock);
    if (gate) weir__gate_destroy(rank_of(c)->device, gate);
    return *texts ? WEIR_OK : WEIR_OUT_OF_HOST_MEMORY;
}

enum weir_status local_gather_text(struct comm *c, const char *text, char ***texts) {
    *texts = NULL;
    return c->rank == 0 ? listen(c, text, texts) : tell(c, text);
}

/* ---- close ------------------------------------------------------------------------------------------------------- */

void local_host_forget(struct comm_local *local, struct weir_device *device) {
    for (struct assembly *a; (a = local->assemblies);) {
        local->assemblies = a->next;
        assembly_destroy(device, a);
    }
    for (struct telling *t; (t = local->tellings);) {
        local->tellings = t->next;
        for (int rank = 0; rank < local->world; rank++) free(t->text[rank]);
        free(t);
    }
}
