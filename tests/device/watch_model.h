/* SPDX-License-Identifier: Apache-2.0 */
/* A watch that is slow and obviously right: a graph of what was submitted, a history for each byte, and a search
 * through the graph whenever the order of two accesses is asked for. */
#ifndef WEIR_TESTS_WATCH_MODEL_H
#define WEIR_TESTS_WATCH_MODEL_H

#include <stdbool.h>
#include <stddef.h>

enum { MODEL_NODES = 400, MODEL_BEFORE = 64, MODEL_BYTES = 96, MODEL_ADDRESSES = 144, MODEL_QUEUES = 8 };
enum { MODEL_FAULTS = 512, MODEL_USES = 256 };
enum model_state { MODEL_UNWRITTEN, MODEL_WRITTEN, MODEL_TAKEN };
enum model_fault { MODEL_RACE, MODEL_FREED, MODEL_UNREAD };

struct model_byte {
    enum model_state state;
    int last; /* a node; MODEL_HOST, MODEL_NONE */
    int reads[MODEL_NODES], read_count;
};

struct model_use {
    int who, act; /* a node; a number of what it did: a free has several nodes */
};

struct model_address { /* what was done through it since it was mapped */
    struct model_use uses[MODEL_USES];
    int use_count;
};

enum { MODEL_HOST = -1, MODEL_NONE = -2 };

struct model_found { /* by the access that came last */
    enum model_fault fault;
    int first; /* a node; MODEL_HOST, MODEL_NONE */
    int bytes;
};

struct model {
    int before[MODEL_NODES][MODEL_BEFORE], before_count[MODEL_NODES]; /* what a node waits for */
    int queue_of[MODEL_NODES], nodes;
    int newest[MODEL_QUEUES]; /* the latest node of a queue, MODEL_NONE */
    bool host_saw[MODEL_NODES];
    struct model_byte byte[MODEL_BYTES];
    struct model_address address[MODEL_ADDRESSES];
    int acts;
    struct model_found found[MODEL_FAULTS];
    int found_count;
};

void model_start(struct model *model, bool written);
/* A new node of a queue: after the one before, what the host has seen, and `waits`. Gives its number. */
int model_push(struct model *model, int queue, const int *waits, int wait_count);
void model_host_saw(struct model *model, int node);
bool model_before(const struct model *model, int first, int second);

/* Accesses; each begins a new list of what it found. By a node, or by MODEL_HOST. */
void model_begin(struct model *model);
void model_read(struct model *model, int who, int start, int bytes);
void model_write(struct model *model, int who, int start, int bytes);
void model_hand_out(struct model *model, int who, int start, int bytes);
void model_host_take(struct model *model, int start, int bytes);
/* The bytes are unused after the newest nodes of the queues in `queues`. */
void model_take(struct model *model, const bool queues[MODEL_QUEUES], int start, int bytes);
void model_forget(struct model *model, int start, int bytes);

/* By which addresses bytes are used, by nodes: an unmap must come after that, whatever was done to the bytes since. */
void model_use(struct model *model, int who, int start, int count);
void model_use_by_take(struct model *model, const bool queues[MODEL_QUEUES], int start, int count);
void model_unmap(struct model *model, int start, int count);
/* A use of an address where nothing is mapped any more. */
void model_use_unmapped(struct model *model);
int model_count(const struct model *model, enum model_fault fault, int first);

#endif
