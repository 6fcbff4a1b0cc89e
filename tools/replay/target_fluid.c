/* SPDX-License-Identifier: Apache-2.0 */
/* The fluid model: an allocator to which only the number of bytes matters. Memory has no addresses and moves freely
 * between streams; a block with uses on other streams than its own is pending, after its free, until those have passed. When
 * the device is full the host waits for the pending block that comes first, and for nothing else.
 *
 * Words. position: an event recorded at a free (or kept, of a free_after), behind which a pending block is unused. Each
 * stream has a heap of them, the earliest first: those of one stream pass in the order of their records. */
#include <stdio.h>
#include <stdlib.h>

#include "device/emulated.h"
#include "target.h"

#define NONE UINT32_MAX

struct pending {
    uint64_t bytes;
    uint32_t left; /* positions that have not passed; on the spare list: the next one */
};

/* An event that positions name; of the trace's own number `of`, or NONE: made here. */
struct shared_event {
    weir_event event;
    uint32_t positions, of, next_spare;
};

struct position {
    uint64_t record; /* its number among all records */
    uint32_t event, pending;
};

struct heap {
    struct position *at;
    uint32_t count, room;
};

struct note {
    uint32_t stream, next;
};

struct block {
    uint32_t stream; /* its own */
    uint32_t notes;  /* of other streams, as a list */
};

struct fluid {
    struct block *blocks; /* by number */
    struct heap *heaps;   /* by stream */
    bool *noted;          /* by stream: of the block that is being freed; else all false */
    uint32_t *kept;       /* by event of the trace: the shared one while run->event_kept */
    struct pending *pending;
    uint32_t pending_room, pending_count, spare_pending;
    struct shared_event *events;
    uint32_t event_room, event_count, spare_event;
    struct note *notes;
    uint32_t note_room, note_count, spare_note;
    uint64_t capacity_bytes, live_bytes, pending_bytes, peak_bytes, wake_ns;
    uint64_t host_waits, host_wait_ns;
};

static struct fluid *of(struct run *run) { return run->target; }

static uint64_t rounded(uint64_t bytes) { return (bytes + 511) & ~UINT64_C(511); }

/* ---- tables that grow ------------------------------------------------------------------------------------------- */

static enum weir_status no_host_memory(void) {
    return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for what is pending");
}

static bool reserve(void **array, uint32_t *room, uint32_t count, size_t size) {
    if (count < *room) return true;
    if (*room > NONE / 4) return false;
    const uint32_t larger = *room == 0 ? 64 : *room * 2;
    void *moved = realloc(*array, larger * size);
    if (moved == NULL) return false;
    *array = moved;
    *room = larger;
    return true;
}

/* Gives a free entry's index, from the spare ones (linked by *next_of) or behind the last. NONE: no host memory. */
#define TAKE(fluid, array, room, count, spare, next_member, out)                                                       \
    do {                                                                                                               \
        (out) = (fluid)->spare;                                                                                        \
        if ((out) != NONE) {                                                                                           \
            (fluid)->spare = (fluid)->array[out].next_member;                                                          \
        } else {                                                                                                       \
            void *moved = (fluid)->array;                                                                              \
            const bool grown = reserve(&moved, &(fluid)->room, (fluid)->count, sizeof *(fluid)->array);                \
            (fluid)->array = moved;                                                                                    \
            if (grown) (out) = (fluid)->count++;                                                                       \
        }                                                                                                              \
    } while (0)

static uint32_t take_pending(struct fluid *fluid) {
    uint32_t taken;
    TAKE(fluid, pending, pending_room, pending_count, spare_pending, left, taken);
    return taken;
}

static uint32_t take_note(struct fluid *fluid) {
    uint32_t taken;
    TAKE(fluid, notes, note_room, note_count, spare_note, next, taken);
    return taken;
}

static void give_note(struct fluid *fluid, uint32_t note) {
    fluid->notes[note].next = fluid->spare_note;
    fluid->spare_note = note;
}

/* An event that nobody uses any more is recorded again for a later position. */
static enum weir_status take_event(struct run *run, uint32_t *out) {
    struct fluid *fluid = of(run);
    *out = fluid->spare_event;
    if (*out != NONE) {
        fluid->spare_event = fluid->events[*out].next_spare;
        return WEIR_OK;
    }
    TAKE(fluid, events, event_room, event_count, spare_event, next_spare, *out);
    if (*out == NONE) return no_host_memory();
    fluid->events[*out] = (struct shared_event){.of = NONE};
    return WEIR_OK;
}

static void give_event(struct run *run, uint32_t index) {
    struct fluid *fluid = of(run);
    struct shared_event *shared = &fluid->events[index];
    if (--shared->positions > 0) return;
    if (shared->of != NONE && run->event_kept[shared->of] && run->events[shared->of] == shared->event) {
        run->event_kept[shared->of] = false; /* the replay goes on with it */
        shared->event = NULL;
    }
    shared->of = NONE;
    shared->next_spare = fluid->spare_event;
    fluid->spare_event = index;
}

/* ---- heaps ------------------------------------------------------------------------------------------------------ */

static bool heap_put(struct heap *heap, struct position position) {
    void *moved = heap->at;
    const bool grown = reserve(&moved, &heap->room, heap->count, sizeof *heap->at);
    heap->at = moved;
    if (!grown) return false;
    uint32_t at = heap->count++;
    for (; at > 0 && position.record < heap->at[(at - 1) / 2].record; at = (at - 1) / 2)
        heap->at[at] = heap->at[(at - 1) / 2];
    heap->at[at] = position;
    return true;
}

static struct position heap_take(struct heap *heap) {
    const struct position first = heap->at[0], last = heap->at[--heap->count];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < heap->count; at = child) {
        if (child + 1 < heap->count && heap->at[child + 1].record < heap->at[child].record) child++;
        if (last.record <= heap->at[child].record) break;
        heap->at[at] = heap->at[child];
    }
    heap->at[at] = last;
    return first;
}

/* ---- what has passed -------------------------------------------------------------------------------------------- */

static void position_passed(struct run *run, struct position position) {
    struct fluid *fluid = of(run);
    struct pending *pending = &fluid->pending[position.pending];
    give_event(run, position.event);
    if (--pending->left > 0) return;
    fluid->pending_bytes -= pending->bytes;
    pending->left = fluid->spare_pending;
    fluid->spare_pending = position.pending;
}

/* Takes back what is not pending any more. After a thousand looks in vain the clock would take the host for one that waits,
 * and a pause, even of no time, ends the row. */
static void poll_positions(struct run *run) {
    enum { MANY = 512 };
    struct fluid *fluid = of(run);
    const struct weir__driver *driver = run->device->driver;
    for (uint32_t i = 0; i < run->trace->stream_count; i++) {
        struct heap *heap = &fluid->heaps[i];
        if (i % MANY == 0) driver->emu_pause(0);
        while (heap->count > 0 && driver->event_query(fluid->events[heap->at[0].event].event) == CUDA_SUCCESS)
            position_passed(run, heap_take(heap));
    }
}

/* The host sleeps until the first pending block is unused. */
static enum weir_status wait_for_first(struct run *run) {
    struct fluid *fluid = of(run);
    const struct weir__driver *driver = run->device->driver;
    const uint64_t before = fluid->pending_bytes, begin_ns = weir__device_now_ns(run->device);
    do {
        uint64_t next_ns;
        const CUresult code = driver->emu_next(&next_ns);
        if (code != CUDA_SUCCESS)
            return weir__fail(WEIR_DRIVER, (int)code, "weirEmuNext", "what is pending will never be over");
        driver->emu_pause(next_ns - weir__device_now_ns(run->device));
        poll_positions(run);
    } while (fluid->pending_bytes == before);
    driver->emu_pause(fluid->wake_ns);
    poll_positions(run); /* others may have passed meanwhile */
    fluid->host_waits++;
    fluid->host_wait_ns += weir__device_now_ns(run->device) - begin_ns;
    return WEIR_OK;
}

/* ---- requests --------------------------------------------------------------------------------------------------- */

static bool fits(const struct fluid *fluid, uint64_t bytes, uint64_t most) {
    return fluid->live_bytes + fluid->pending_bytes + bytes <= most;
}

static enum weir_status make_room(struct run *run, uint64_t bytes) {
    struct fluid *fluid = of(run);
    if (fits(fluid, bytes, fluid->peak_bytes)) return WEIR_OK;
    enum weir_status status = WEIR_OK;
    run_charging(run, false);
    poll_positions(run);
    while (status == WEIR_OK && !fits(fluid, bytes, fluid->capacity_bytes))
        status = fluid->pending_bytes > 0 ? wait_for_first(run) : WEIR_OUT_OF_MEMORY;
    run_charging(run, true);
    return status;
}

static enum weir_status alloc_bytes(struct run *run, const struct op *op, weir_stream stream) {
    struct fluid *fluid = of(run);
    const uint64_t bytes = rounded(op->bytes);
    const enum weir_status status = make_room(run, bytes);
    (void)stream;
    if (status != WEIR_OK) return status;
    fluid->live_bytes += bytes;
    if (!fits(fluid, 0, fluid->peak_bytes)) fluid->peak_bytes = fluid->live_bytes + fluid->pending_bytes;
    fluid->blocks[op->block] = (struct block){.stream = op->stream, .notes = NONE};
    run->blocks[op->block] = fluid;
    return WEIR_OK;
}

static enum weir_status note_first_use(struct run *run, uint32_t number, uint32_t stream) {
    struct fluid *fluid = of(run);
    struct block *block = &fluid->blocks[number];
    const uint32_t note = take_note(fluid);
    if (note == NONE) return no_host_memory();
    fluid->notes[note] = (struct note){.stream = stream, .next = block->notes};
    block->notes = note;
    return WEIR_OK;
}

/* Notes a use on another stream, once. */
static enum weir_status note_use(struct run *run, uint32_t number, uint32_t stream) {
    struct fluid *fluid = of(run);
    const struct block *block = &fluid->blocks[number];
    if (stream == block->stream) return WEIR_OK;
    for (uint32_t note = block->notes; note != NONE; note = fluid->notes[note].next)
        if (fluid->notes[note].stream == stream) return WEIR_OK;
    return note_first_use(run, number, stream);
}

static void mark_noted(struct fluid *fluid, const struct block *block, bool noted) {
    for (uint32_t note = block->notes; note != NONE; note = fluid->notes[note].next)
        fluid->noted[fluid->notes[note].stream] = noted;
}

static enum weir_status use_bytes(struct run *run, const struct op *op, weir_stream stream) {
    (void)stream;
    return note_use(run, op->block, op->stream);
}

/* ---- frees ------------------------------------------------------------------------------------------------------ */

static enum weir_status add_position(struct run *run, uint32_t stream, struct position position) {
    struct fluid *fluid = of(run);
    if (!heap_put(&fluid->heaps[stream], position)) return no_host_memory();
    fluid->events[position.event].positions++;
    fluid->pending[position.pending].left++;
    return WEIR_OK;
}

/* The stream's position now. */
static enum weir_status record_position(struct run *run, uint32_t stream, uint32_t pending) {
    const struct weir__driver *driver = run->device->driver;
    struct position position = {.record = ++run->records, .pending = pending};
    enum weir_status status = take_event(run, &position.event);
    if (status != WEIR_OK) return status;
    weir_event *event = &of(run)->events[position.event].event;
    CUresult code = *event != NULL ? CUDA_SUCCESS : driver->event_create(event, CU_EVENT_DISABLE_TIMING);
    if (code == CUDA_SUCCESS) code = driver->event_record(*event, run->streams[stream]);
    if (code != CUDA_SUCCESS) return weir__fail(WEIR_DRIVER, (int)code, "cuEventRecord", "an event can't be recorded");
    return add_position(run, stream, position);
}

/* The position of an event's latest record: the replay leaves that event to us when it is recorded again. */
static enum weir_status keep_position(struct run *run, uint32_t number, weir_event event, uint32_t pending) {
    struct fluid *fluid = of(run);
    struct position position = {.record = run->recorded_at[number], .pending = pending};
    if (!run->event_kept[number]) {
        const uint32_t index = fluid->event_count;
        void *moved = fluid->events;
        const bool grown = reserve(&moved, &fluid->event_room, index, sizeof *fluid->events);
        fluid->events = moved;
        if (!grown) return no_host_memory();
        fluid->event_count++;
        fluid->events[index] = (struct shared_event){.event = event, .of = number};
        fluid->kept[number] = index;
        run->event_kept[number] = true;
    }
    position.event = fluid->kept[number];
    return add_position(run, run->recorded_on[number], position);
}

/* A free makes a block pending when positions come with it. */
struct freeing {
    struct run *run;
    uint32_t pending;
    enum weir_status status;
};

static struct freeing begin_free(struct run *run, const struct op *op) {
    struct fluid *fluid = of(run);
    struct freeing freeing = {.run = run, .pending = take_pending(fluid)};
    if (freeing.pending == NONE) {
        freeing.status = no_host_memory();
        return freeing;
    }
    fluid->pending[freeing.pending] = (struct pending){.bytes = rounded(op->bytes)};
    run_charging(run, false);
    return freeing;
}

static enum weir_status end_free(struct freeing freeing, const struct op *op) {
    struct fluid *fluid = of(freeing.run);
    if (freeing.pending == NONE) return freeing.status;
    struct block *block = &fluid->blocks[op->block];
    while (block->notes != NONE) {
        const uint32_t note = block->notes;
        block->notes = fluid->notes[note].next;
        if (freeing.status == WEIR_OK && freeing.run->stream_open[fluid->notes[note].stream])
            freeing.status = record_position(freeing.run, fluid->notes[note].stream, freeing.pending);
        give_note(fluid, note);
    }
    run_charging(freeing.run, true);
    struct pending *pending = &fluid->pending[freeing.pending];
    fluid->live_bytes -= pending->bytes;
    if (pending->left > 0) {
        fluid->pending_bytes += pending->bytes;
    } else {
        pending->left = fluid->spare_pending;
        fluid->spare_pending = freeing.pending;
    }
    return freeing.status;
}

static enum weir_status free_bytes(struct run *run, const struct op *op, weir_stream stream) {
    (void)stream;
    const enum weir_status status = note_use(run, op->block, op->stream);
    return status == WEIR_OK ? end_free(begin_free(run, op), op) : status;
}

/* A look at the list for each stream would take the streams' number squared. */
static enum weir_status free_bytes_any(struct run *run, const struct op *op, weir_stream stream) {
    struct fluid *fluid = of(run);
    const struct block *block = &fluid->blocks[op->block];
    enum weir_status status = WEIR_OK;
    mark_noted(fluid, block, true);
    for (uint32_t i = 0; i < run->trace->stream_count && status == WEIR_OK; i++)
        if (run->stream_open[i] && i != block->stream && !fluid->noted[i]) status = note_first_use(run, op->block, i);
    mark_noted(fluid, block, false);
    return status == WEIR_OK ? free_bytes(run, op, stream) : status;
}

static enum weir_status free_bytes_after(struct run *run, const struct op *op, weir_stream stream, weir_event event) {
    (void)stream;
    struct freeing freeing = begin_free(run, op);
    if (freeing.pending != NONE) freeing.status = keep_position(run, op->event, event, freeing.pending);
    return end_free(freeing, op);
}

/* ---- the rest --------------------------------------------------------------------------------------------------- */

static bool open_fluid(struct run *run, char *why, size_t room) {
    struct fluid *fluid = calloc(1, sizeof *fluid);
    struct weir_emu_machine machine = {0};
    run->target = fluid;
    if (fluid != NULL) {
        fluid->blocks = calloc((size_t)run->trace->block_count + 1, sizeof *fluid->blocks);
        fluid->heaps = calloc((size_t)run->trace->stream_count + 1, sizeof *fluid->heaps);
        fluid->noted = calloc((size_t)run->trace->stream_count + 1, sizeof *fluid->noted);
        fluid->kept = calloc((size_t)run->trace->event_count + 1, sizeof *fluid->kept);
    }
    if (fluid == NULL || fluid->blocks == NULL || fluid->heaps == NULL || fluid->noted == NULL || fluid->kept == NULL) {
        snprintf(why, room, "no host memory for the fluid model");
        return false;
    }
    fluid->spare_pending = fluid->spare_event = fluid->spare_note = NONE;
    fluid->capacity_bytes = run->setup->capacity_bytes;
    if (weir__device_machine(run->device, &machine) == WEIR_OK) fluid->wake_ns = (uint64_t)(machine.wake_ns + 0.5);
    return true;
}

static void close_fluid(struct run *run) {
    struct fluid *fluid = of(run);
    for (uint32_t i = 0; i < fluid->event_count; i++)
        if (fluid->events[i].event != NULL) run->device->driver->event_destroy(fluid->events[i].event);
    for (uint32_t i = 0; i < run->trace->event_count; i++)
        if (run->event_kept[i]) run->events[i] = NULL; /* it was among ours */
    for (uint32_t i = 0; i < run->trace->stream_count; i++) free(fluid->heaps[i].at);
    free(fluid->blocks);
    free(fluid->heaps);
    free(fluid->noted);
    free(fluid->kept);
    free(fluid->pending);
    free(fluid->events);
    free(fluid->notes);
    free(fluid);
}

static void figures(struct run *run, struct outcome *so_far) {
    const struct fluid *fluid = of(run);
    so_far->peak_held_bytes = fluid->peak_bytes;
    so_far->memory_calls = so_far->order_calls = so_far->page_moves = so_far->moved_bytes = so_far->device_waits = 0;
    so_far->host_waits = fluid->host_waits;
    so_far->host_wait_ns = fluid->host_wait_ns;
    so_far->uses_not_told = 0;
    if (so_far->ending == ENDED_OUT_OF_MEMORY)
        snprintf(so_far->report, sizeof so_far->report, "of %llu bytes %llu are live and %llu pending\n",
                 (unsigned long long)fluid->capacity_bytes, (unsigned long long)fluid->live_bytes,
                 (unsigned long long)fluid->pending_bytes);
}

const struct target target_fluid = {.name = "fluid",
                                    .open = open_fluid,
                                    .close = close_fluid,
                                    .alloc = alloc_bytes,
                                    .free = free_bytes,
                                    .free_any = free_bytes_any,
                                    .free_after = free_bytes_after,
                                    .use = use_bytes,
                                    .figures = figures};
