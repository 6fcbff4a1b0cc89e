/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/device/watch_model.h"

#include <assert.h>
#include <string.h>

void model_start(struct model *model, bool written) {
    memset(model, 0, sizeof *model);
    for (int i = 0; i < MODEL_QUEUES; i++) model->newest[i] = MODEL_NONE;
    for (int i = 0; i < MODEL_BYTES; i++) {
        model->byte[i].state = written ? MODEL_WRITTEN : MODEL_UNWRITTEN;
        model->byte[i].last = MODEL_NONE;
    }
}

static void comes_after(struct model *model, int node, int before) {
    if (before < 0) return;
    assert(model->before_count[node] < MODEL_BEFORE);
    model->before[node][model->before_count[node]++] = before;
}

int model_push(struct model *model, int queue, const int *waits, int wait_count) {
    assert(model->nodes < MODEL_NODES);
    const int node = model->nodes++;
    model->queue_of[node] = queue;
    comes_after(model, node, model->newest[queue]);
    for (int i = 0; i < wait_count; i++) comes_after(model, node, waits[i]);
    int seen[MODEL_QUEUES]; /* the host has seen all up to here: one a queue is enough */
    for (int q = 0; q < MODEL_QUEUES; q++) seen[q] = MODEL_NONE;
    for (int i = 0; i < node; i++)
        if (model->host_saw[i]) seen[model->queue_of[i]] = i;
    for (int q = 0; q < MODEL_QUEUES; q++) comes_after(model, node, seen[q]);
    model->newest[queue] = node;
    return node;
}

static bool search(const struct model *model, int first, int from, bool *visited) {
    if (from == first) return true;
    if (visited[from]) return false;
    visited[from] = true;
    for (int i = 0; i < model->before_count[from]; i++)
        if (search(model, first, model->before[from][i], visited)) return true;
    return false;
}

bool model_before(const struct model *model, int first, int second) {
    if (first < 0) return true; /* the host's own, or nobody's */
    if (second == MODEL_HOST) {
        for (int i = 0; i < model->nodes; i++)
            if (model->host_saw[i] && model_before(model, first, i)) return true;
        return false;
    }
    if (second < 0) return false;
    bool visited[MODEL_NODES] = {false};
    return search(model, first, second, visited);
}

void model_host_saw(struct model *model, int node) {
    if (node >= 0) model->host_saw[node] = true;
}

/* ---- accesses --------------------------------------------------------------------------------------------------- */

void model_begin(struct model *model) { model->found_count = 0; }

static void find(struct model *model, enum model_fault fault, int first) {
    for (int i = 0; i < model->found_count; i++)
        if (model->found[i].fault == fault && model->found[i].first == first) {
            model->found[i].bytes++;
            return;
        }
    assert(model->found_count < MODEL_FAULTS);
    model->found[model->found_count++] = (struct model_found){fault, first, 1};
}

int model_count(const struct model *model, enum model_fault fault, int first) {
    for (int i = 0; i < model->found_count; i++)
        if (model->found[i].fault == fault && model->found[i].first == first) return model->found[i].bytes;
    return 0;
}

/* Of the reads since the last write those count that are before no later read. */
static bool superseded(const struct model *model, const struct model_byte *byte, int read) {
    for (int i = read + 1; i < byte->read_count; i++)
        if (model_before(model, byte->reads[read], byte->reads[i])) return true;
    return false;
}

static void check_last(struct model *model, const struct model_byte *byte, int who) {
    if (!model_before(model, byte->last, who)) find(model, MODEL_RACE, byte->last);
}

static void check_reads(struct model *model, const struct model_byte *byte, int who, bool or_host) {
    for (int i = 0; i < byte->read_count; i++) {
        const bool counts = byte->state == MODEL_TAKEN || !superseded(model, byte, i);
        if (!counts || model_before(model, byte->reads[i], who)) continue;
        if (!or_host || !model_before(model, byte->reads[i], MODEL_HOST)) find(model, MODEL_RACE, byte->reads[i]);
    }
}

static void become(struct model_byte *byte, enum model_state state, int last) {
    byte->state = state;
    byte->last = last;
    byte->read_count = 0;
}

void model_read(struct model *model, int who, int start, int bytes) {
    for (struct model_byte *byte = &model->byte[start]; byte < &model->byte[start + bytes]; byte++) {
        if (byte->state == MODEL_TAKEN) {
            find(model, MODEL_FREED, byte->last);
            continue;
        }
        check_last(model, byte, who);
        if (byte->state == MODEL_UNWRITTEN) find(model, MODEL_UNREAD, byte->last);
        byte->state = MODEL_WRITTEN;
        if (who >= 0) byte->reads[byte->read_count++] = who;
    }
}

void model_write(struct model *model, int who, int start, int bytes) {
    for (struct model_byte *byte = &model->byte[start]; byte < &model->byte[start + bytes]; byte++) {
        if (byte->state == MODEL_TAKEN) {
            find(model, MODEL_FREED, byte->last);
            continue;
        }
        check_last(model, byte, who);
        check_reads(model, byte, who, false);
        become(byte, MODEL_WRITTEN, who);
    }
}

/* Now: after the queue's newest node, and after what the host has seen since. */
void model_hand_out(struct model *model, int who, int start, int bytes) {
    for (struct model_byte *byte = &model->byte[start]; byte < &model->byte[start + bytes]; byte++) {
        if (!model_before(model, byte->last, MODEL_HOST)) check_last(model, byte, who);
        check_reads(model, byte, who, true);
        become(byte, MODEL_UNWRITTEN, who);
    }
}

void model_host_take(struct model *model, int start, int bytes) {
    for (struct model_byte *byte = &model->byte[start]; byte < &model->byte[start + bytes]; byte++) {
        check_last(model, byte, MODEL_HOST);
        check_reads(model, byte, MODEL_HOST, false);
        become(byte, byte->state, MODEL_HOST);
    }
}

static bool covered(const struct model *model, const bool queues[MODEL_QUEUES], int node) {
    if (model_before(model, node, MODEL_HOST)) return true;
    for (int q = 0; q < MODEL_QUEUES; q++)
        if (queues[q] && model->newest[q] >= 0 && model_before(model, node, model->newest[q])) return true;
    return false;
}

void model_take(struct model *model, const bool queues[MODEL_QUEUES], int start, int bytes) {
    for (struct model_byte *byte = &model->byte[start]; byte < &model->byte[start + bytes]; byte++) {
        if (!covered(model, queues, byte->last)) find(model, MODEL_RACE, byte->last);
        for (int i = 0; i < byte->read_count; i++) {
            const bool counts = byte->state == MODEL_TAKEN || !superseded(model, byte, i);
            if (counts && !covered(model, queues, byte->reads[i])) find(model, MODEL_RACE, byte->reads[i]);
        }
        become(byte, MODEL_TAKEN, MODEL_NONE);
        for (int q = 0; q < MODEL_QUEUES; q++) {
            if (!queues[q]) continue;
            if (byte->last == MODEL_NONE)
                byte->last = model->newest[q];
            else if (model->newest[q] >= 0)
                byte->reads[byte->read_count++] = model->newest[q];
        }
    }
}

void model_forget(struct model *model, int start, int bytes) {
    for (struct model_byte *byte = &model->byte[start]; byte < &model->byte[start + bytes]; byte++)
        become(byte, MODEL_UNWRITTEN, MODEL_NONE);
}

/* ---- addresses --------------------------------------------------------------------------------------------------- */

static void use(struct model *model, int who, int start, int count) {
    for (struct model_address *address = &model->address[start]; who >= 0 && address < &model->address[start + count];
         address++) {
        assert(address->use_count < MODEL_USES);
        address->uses[address->use_count++] = (struct model_use){who, model->acts};
    }
}

void model_use(struct model *model, int who, int start, int count) {
    model->acts++;
    use(model, who, start, count);
}

void model_use_by_take(struct model *model, const bool queues[MODEL_QUEUES], int start, int count) {
    model->acts++;
    for (int q = 0; q < MODEL_QUEUES; q++)
        if (queues[q]) use(model, model->newest[q], start, count);
}

/* Of the uses those count that are before none by a later act. */
static bool use_superseded(const struct model *model, const struct model_address *address, int number) {
    for (int i = number + 1; i < address->use_count; i++)
        if (address->uses[i].act != address->uses[number].act &&
            model_before(model, address->uses[number].who, address->uses[i].who))
            return true;
    return false;
}

void model_unmap(struct model *model, int start, int count) {
    for (struct model_address *address = &model->address[start]; address < &model->address[start + count]; address++) {
        for (int i = 0; i < address->use_count; i++)
            if (!use_superseded(model, address, i) && !model_before(model, address->uses[i].who, MODEL_HOST))
                find(model, MODEL_RACE, address->uses[i].who);
        address->use_count = 0;
    }
}

void model_use_unmapped(struct model *model) { find(model, MODEL_FREED, MODEL_HOST); }
