/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/device.h"

enum { UNIT = 512, EVENTS = 1 << 14, RANGES = 256, NOTES = 32 };

struct clock {
    uint64_t at[MODEL_LANES];
};

struct lane {
    CUstream stream;
    bool alive;
    uint64_t life; /* which stream of this number it is */
    uint64_t position;
    struct clock after;
};

struct event {
    CUevent event;
    bool recorded;
    unsigned lane;
    uint64_t position;
    struct clock after;
};

struct note {
    unsigned lane;
    uint64_t life;
};

struct block {
    uintptr_t at;
    size_t bytes, requested;
    struct clock used;
    struct note notes[NOTES];
    unsigned note_count;
    bool to_be_freed;
    bool alone;    /* on a page of its own: it stays as large as it is */
    size_t keeps;  /* not 0: what is behind is to be cut off, as by a free on `on` */
    bool given;    /* a host function has freed it, which the pool has not looked at yet */
    CUstream on;   /* that the free names, or */
    CUevent after; /* not NULL: the event */
};

/* 512 bytes of physical memory. */
struct unit {
    struct clock used;
    struct block *owner;
};

struct page {
    CUmemGenericAllocationHandle handle;
    size_t bytes, mapped_bytes;
    size_t live_units, wanted_units; /* wanted: not given */
    size_t registered;               /* places where it is */
    struct page *next;
    struct unit units[];
};

/* Addresses, a granule each. */
struct place {
    struct page *page;
    size_t offset;
    bool access;
    size_t registered; /* so often; the page is then nowhere else */
    struct clock used; /* through these addresses */
};

struct range {
    uintptr_t base;
    size_t bytes;
    struct place *places;
};

static struct {
    struct weir_device *device;
    const struct weir__driver *real;
    struct weir__driver table;
    void (*on_fault)(const char *text);
    size_t granule;
    struct lane lanes[MODEL_LANES];
    struct clock host;
    struct event events[EVENTS];
    struct page *pages;
    struct range ranges[RANGES];
    int range_count; /* those behind have not been taken yet */
    struct model_request *requests;
    struct model_state state;
} model;

static _Thread_local bool own_calls;

void model_fail(const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (model.on_fault != NULL) model.on_fault(text);
    fprintf(stderr, "%s\n", text);
    abort();
}

/* ---- clocks ----------------------------------------------------------------------------------------------------- */

static void raise_to(uint64_t *at, uint64_t to) {
    if (to > *at) *at = to;
}

static void raise_size(size_t *at, size_t to) {
    if (to > *at) *at = to;
}

static void join(struct clock *into, const struct clock *from) {
    for (unsigned i = 0; i < MODEL_LANES; i++) raise_to(&into->at[i], from->at[i]);
}

/* ---- lanes ------------------------------------------------------------------------------------------------------ */

static unsigned new_lane(CUstream stream) {
    for (unsigned i = 0; i < MODEL_LANES; i++) {
        struct lane *lane = &model.lanes[i];
        if (lane->alive || model.host.at[i] < lane->position) continue;
        *lane = (struct lane){.stream = stream, .alive = true, .life = lane->life + 1, .position = lane->position};
        return i;
    }
    model_fail("the model has no lane for another stream: the program is to synchronise");
}

static unsigned lane_of(CUstream stream) {
    if (stream == CU_STREAM_LEGACY) stream = NULL;
    for (unsigned i = 0; i < MODEL_LANES; i++)
        if (model.lanes[i].alive && model.lanes[i].stream == stream) return i;
    return new_lane(stream);
}

unsigned model_free_lanes(void) {
    unsigned count = 0;
    for (unsigned i = 0; i < MODEL_LANES; i++)
        count += !model.lanes[i].alive && model.host.at[i] >= model.lanes[i].position;
    return count;
}

/* All that is before what is queued on a lane from now on. */
static struct clock before(unsigned lane) {
    struct clock clock = model.lanes[lane].after;
    join(&clock, &model.host);
    clock.at[lane] = model.lanes[lane].position;
    return clock;
}

static struct clock positions(void) {
    struct clock clock;
    for (unsigned i = 0; i < MODEL_LANES; i++) clock.at[i] = model.lanes[i].position;
    return clock;
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

/* A place once taken stays with its event's address, which the driver uses again. */
static struct event *event_of(CUevent event) {
    size_t at = ((uintptr_t)event >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 50;
    for (size_t i = 0; i < EVENTS; i++, at = (at + 1) % EVENTS) {
        if (model.events[at].event == NULL) model.events[at].event = event;
        if (model.events[at].event == event) return &model.events[at];
    }
    model_fail("the model has no room for another event");
}

/* ---- order calls ------------------------------------------------------------------------------------------------ */

static CUresult stream_create(CUstream *stream, unsigned flags) {
    CUresult code = model.real->stream_create(stream, flags);
    if (code == CUDA_SUCCESS) new_lane(*stream);
    return code;
}

/* Before the driver's: right after it, the handle may be another stream's. */
static CUresult stream_destroy(CUstream stream) {
    model.lanes[lane_of(stream)].alive = false;
    return model.real->stream_destroy(stream);
}

static CUresult stream_wait(CUstream stream, CUevent event, unsigned flags) {
    struct event recorded = *event_of(event);
    model.state.order_calls += !own_calls;
    CUresult code = model.real->stream_wait(stream, event, flags);
    if (code == CUDA_SUCCESS && recorded.recorded) join(&model.lanes[lane_of(stream)].after, &recorded.after);
    return code;
}

static CUresult event_create(CUevent *event, unsigned flags) {
    CUresult code = model.real->event_create(event, flags);
    if (code == CUDA_SUCCESS) event_of(*event)->recorded = false;
    return code;
}

static CUresult event_record(CUevent event, CUstream stream) {
    unsigned lane = lane_of(stream);
    struct event now = {event, true, lane, model.lanes[lane].position, before(lane)};
    model.state.order_calls += !own_calls;
    CUresult code = model.real->event_record(event, stream);
    if (code == CUDA_SUCCESS) *event_of(event) = now;
    return code;
}

static CUresult context_record(CUcontext context, CUevent event) {
    struct event now = {.event = event, .recorded = true, .after = positions()};
    model.state.order_calls += !own_calls;
    CUresult code = model.real->context_record(context, event);
    if (code == CUDA_SUCCESS) *event_of(event) = now;
    return code;
}

static void host_knows(CUresult code, const struct clock *passed) {
    if (code == CUDA_SUCCESS) join(&model.host, passed);
}

static CUresult event_query(CUevent event) {
    struct event recorded = *event_of(event);
    CUresult code = model.real->event_query(event);
    if (recorded.recorded) host_knows(code, &recorded.after);
    return code;
}

static CUresult event_synchronize(CUevent event) {
    struct event recorded = *event_of(event);
    CUresult code = model.real->event_synchronize(event);
    if (recorded.recorded) host_knows(code, &recorded.after);
    return code;
}

static CUresult stream_query(CUstream stream) {
    struct clock passed = before(lane_of(stream));
    CUresult code = model.real->stream_query(stream);
    host_knows(code, &passed);
    return code;
}

static CUresult stream_synchronize(CUstream stream) {
    struct clock passed = before(lane_of(stream));
    CUresult code = model.real->stream_synchronize(stream);
    host_knows(code, &passed);
    return code;
}

static CUresult context_synchronize(void) {
    struct clock passed = positions();
    CUresult code = model.real->context_synchronize();
    host_knows(code, &passed);
    return code;
}

/* ---- pages and where they are mapped ---------------------------------------------------------------------------- */

static struct page *page_of(CUmemGenericAllocationHandle handle) {
    for (struct page *page = model.pages; page != NULL; page = page->next)
        if (page->handle == handle) return page;
    model_fail("the driver is asked for page %#llx, which it has not given", (unsigned long long)handle);
}

static struct place *place_of(uintptr_t address) {
    for (int i = 0; i < model.range_count; i++) {
        struct range *range = &model.ranges[i];
        if (range->bytes > 0 && address >= range->base && address < range->base + range->bytes)
            return &range->places[(address - range->base) / model.granule];
    }
    return NULL;
}

static struct unit *unit_at(uintptr_t address) {
    const struct place *place = place_of(address);
    if (place == NULL || place->page == NULL || !place->access) return NULL;
    return &place->page->units[(place->offset + address % model.granule) / UNIT];
}

static CUresult address_reserve(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wanted,
                                unsigned long long flags) {
    CUresult code = model.real->address_reserve(address, bytes, alignment, wanted, flags);
    model.state.memory_calls++;
    if (code != CUDA_SUCCESS) return code;
    int free_range = 0;
    while (free_range < RANGES && model.ranges[free_range].bytes > 0) free_range++;
    if (free_range == RANGES) model_fail("more than %d ranges of addresses are reserved", RANGES);
    if (free_range == model.range_count) model.range_count++;
    struct place *places = calloc(bytes / model.granule, sizeof *places);
    if (places == NULL) abort();
    model.ranges[free_range] = (struct range){(uintptr_t)*address, bytes, places};
    return code;
}

static CUresult address_free(CUdeviceptr address, size_t bytes) {
    CUresult code = model.real->address_free(address, bytes);
    model.state.memory_calls++;
    for (int i = 0; i < RANGES; i++) {
        if (model.ranges[i].bytes == 0 || model.ranges[i].base != (uintptr_t)address) continue;
        free(model.ranges[i].places);
        model.ranges[i] = (struct range){0};
    }
    return code;
}

/* A device without backing has nothing to export; here it may be asked to. */
static CUresult device_attribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    CUresult code = model.real->device_attribute(value, attribute, device);
    if (attribute == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) *value = 1;
    return code;
}

static CUresult page_export(void *file, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                            unsigned long long flags) {
    (void)type;
    (void)flags;
    if (page_of(handle)->live_units == 0) model_fail("a page is exported without a live block");
    *(int *)file = dup(STDOUT_FILENO);
    return CUDA_SUCCESS;
}

static CUresult page_create(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                            unsigned long long flags) {
    CUmemAllocationProp unshared = *properties;
    unshared.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    CUresult code = model.real->page_create(handle, bytes, &unshared, flags);
    model.state.memory_calls++;
    if (code != CUDA_SUCCESS) return code;
    struct page *page = calloc(1, sizeof *page + bytes / UNIT * sizeof *page->units);
    if (page == NULL) abort();
    page->handle = *handle;
    page->bytes = bytes;
    page->next = model.pages;
    model.pages = page;
    model.state.held_bytes += bytes;
    raise_size(&model.state.peak_held_bytes, model.state.held_bytes);
    return code;
}

static CUresult page_release(CUmemGenericAllocationHandle handle) {
    struct page *page = page_of(handle), **link = &model.pages;
    if (page->mapped_bytes > 0) model_fail("a page is released while it is mapped");
    if (page->registered > 0) model_fail("a page is released that is registered");
    CUresult code = model.real->page_release(handle);
    model.state.memory_calls++;
    if (code != CUDA_SUCCESS) return code;
    while (*link != page) link = &(*link)->next;
    *link = page->next;
    model.state.held_bytes -= page->bytes;
    free(page);
    return code;
}

static CUresult page_map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                         unsigned long long flags) {
    struct page *page = page_of(handle);
    CUresult code = model.real->page_map(address, bytes, offset, handle, flags);
    model.state.memory_calls++;
    for (size_t at = 0; at < bytes && code == CUDA_SUCCESS; at += model.granule) {
        struct place *place = place_of((uintptr_t)address + at);
        if (place == NULL || place->page != NULL)
            model_fail("a page is mapped at %#zx, where there is one or nothing reserved", (size_t)address + at);
        if (page->registered > 0) model_fail("a page that is registered is mapped at %#zx too", (size_t)address + at);
        *place = (struct place){.page = page, .offset = offset + at};
        page->mapped_bytes += model.granule;
    }
    return code;
}

static void may_be_unmapped(uintptr_t address) {
    const struct place *place = place_of(address);
    if (place == NULL || place->page == NULL) model_fail("%#zx is unmapped, where nothing is mapped", (size_t)address);
    if (place->registered > 0) model_fail("%#zx is unmapped, which is registered", (size_t)address);
    for (size_t at = 0; at < model.granule; at += UNIT) {
        const struct block *owner = place->page->units[(place->offset + at) / UNIT].owner;
        if (owner != NULL && owner->at <= address + at && address + at < owner->at + owner->bytes)
            model_fail("%#zx is unmapped under the live block %#zx+%zu", (size_t)address, (size_t)owner->at,
                       owner->bytes);
    }
    for (unsigned i = 0; i < MODEL_LANES; i++)
        if (place->used.at[i] > model.host.at[i])
            model_fail("%#zx is unmapped while lane %u may use it up to %llu: the host knows that it is at %llu",
                       (size_t)address, i, (unsigned long long)place->used.at[i], (unsigned long long)model.host.at[i]);
}

static CUresult page_unmap(CUdeviceptr address, size_t bytes) {
    for (size_t at = 0; at < bytes; at += model.granule) may_be_unmapped((uintptr_t)address + at);
    CUresult code = model.real->page_unmap(address, bytes);
    model.state.memory_calls++;
    for (size_t at = 0; at < bytes && code == CUDA_SUCCESS; at += model.granule) {
        struct place *place = place_of((uintptr_t)address + at);
        place->page->mapped_bytes -= model.granule;
        *place = (struct place){0};
    }
    return code;
}

static CUresult page_set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count) {
    CUresult code = model.real->page_set_access(address, bytes, access, count);
    model.state.memory_calls++;
    for (size_t at = 0; at < bytes && code == CUDA_SUCCESS; at += model.granule)
        place_of((uintptr_t)address + at)->access = true;
    return code;
}

/* ---- what pages are needed for ---------------------------------------------------------------------------------- */

/* Of a page whose counts are as `by` says from now on; a registered one is as good as live. */
static void count_page(struct page *page, int live, int wanted, int registered) {
    const size_t pages = page->bytes / model.granule;
    const bool was_live = page->live_units + page->registered > 0;
    const bool was_wanted = page->wanted_units + page->registered > 0;
    page->live_units += (size_t)live;
    page->wanted_units += (size_t)wanted;
    page->registered += (size_t)registered;
    const bool is_live = page->live_units + page->registered > 0;
    const bool is_wanted = page->wanted_units + page->registered > 0;
    model.state.live_pages += (is_live ? pages : 0) - (was_live ? pages : 0);
    model.state.wanted_pages += (is_wanted ? pages : 0) - (was_wanted ? pages : 0);
}

/* ---- work ------------------------------------------------------------------------------------------------------- */

static struct block *block_around(uintptr_t address, size_t bytes) {
    const struct unit *first = unit_at(address);
    struct block *block = first == NULL ? NULL : first->owner;
    return block != NULL && address >= block->at && address + bytes <= block->at + block->bytes ? block : NULL;
}

/* The position moves after the driver has the work: so nobody is thought to be after it who is not. */
static CUresult submit(const struct weir_emu_work *work, CUstream stream) {
    CUresult code = model.real->emu_submit(work, stream);
    if (code != CUDA_SUCCESS) return code;
    unsigned lane = lane_of(stream);
    model.lanes[lane].position++;
    for (size_t i = 0; i < work->access_count; i++) {
        struct block *block = block_around((uintptr_t)work->accesses[i].address, work->accesses[i].bytes);
        if (block == NULL) model_fail("the program uses what is no block");
        raise_to(&block->used.at[lane], model.lanes[lane].position);
    }
    return code;
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

static void demand_changed(void) {
    size_t asked = 0;
    for (const struct model_request *each = model.requests; each != NULL; each = each->next) asked += each->pages;
    for (struct model_request *each = model.requests; each != NULL; each = each->next)
        raise_size(&each->most, model.state.wanted_pages + asked);
}

void model_request_begin(struct model_request *request, size_t bytes) {
    size_t pages = bytes / model.granule + (bytes % model.granule != 0);
    *request = (struct model_request){.pages = pages, .next = model.requests};
    model.requests = request;
    demand_changed();
}

void model_request_end(struct model_request *request) {
    struct model_request **link = &model.requests;
    while (*link != request) link = &(*link)->next;
    *link = request->next;
    request->last = model.state.wanted_pages + request->pages;
}

/* One 512 bytes of a block that is given to a lane, or, with MODEL_LANES, to any stream at once. */
static void own(struct block *block, uintptr_t address, unsigned lane, const struct clock *known) {
    struct unit *unit = unit_at(address);
    if (unit == NULL) model_fail("a block is given at %#zx, where no page can be used", (size_t)address);
    if (unit->owner != NULL)
        model_fail("the block %#zx+%zu is given over the live one %#zx+%zu", (size_t)block->at, block->bytes,
                   (size_t)unit->owner->at, unit->owner->bytes);
    for (unsigned i = 0; i < MODEL_LANES; i++)
        if (unit->used.at[i] > known->at[i])
            model_fail("%#zx is given to lane %u (%u: all) while lane %u may use it up to %llu: the order reaches %llu",
                       (size_t)address, lane, MODEL_LANES, i, (unsigned long long)unit->used.at[i],
                       (unsigned long long)known->at[i]);
    unit->owner = block;
    const struct place *place = place_of(address);
    if (place->page->registered > 0 && place->registered == 0)
        model_fail("%#zx is given on a page that is registered elsewhere", (size_t)address);
    count_page(place->page, 1, 1, 0);
}

static CUresult hand_out(const void *address, size_t bytes, CUstream stream) {
    CUresult code = model.real->emu_hand_out(address, bytes, stream);
    struct block *block = calloc(1, sizeof *block);
    if (block == NULL) abort();
    block->at = (uintptr_t)address;
    block->bytes = bytes;
    if (bytes % UNIT != 0 || block->at % UNIT != 0)
        model_fail("the block %#zx+%zu is not of whole %d bytes", (size_t)block->at, bytes, UNIT);
    bool any = stream == WEIR_EMU_ANY_STREAM;
    unsigned lane = any ? MODEL_LANES : lane_of(stream);
    struct clock known = any ? model.host : before(lane);
    for (size_t at = 0; at < bytes; at += UNIT) own(block, block->at + at, lane, &known);
    model.state.allocs++;
    model.state.live_blocks++;
    model.state.live_bytes += bytes;
    raise_size(&model.state.peak_live_bytes, model.state.live_bytes);
    demand_changed();
    return code;
}

static bool names(const CUstream *streams, size_t count, CUstream stream) {
    for (size_t i = 0; i < count; i++)
        if (streams[i] == stream || streams[i] == WEIR_EMU_ANY_STREAM) return true;
    return false;
}

static void check_named(const struct block *block, const CUstream *streams, size_t count, CUevent event) {
    if (event != block->after) model_fail("a block is taken back after another event than the one named");
    if (event == NULL && !names(streams, count, block->on))
        model_fail("the block %#zx+%zu is taken back without its stream", (size_t)block->at, block->bytes);
    for (unsigned i = 0; i < block->note_count; i++) {
        const struct lane *lane = &model.lanes[block->notes[i].lane];
        if (lane->alive && lane->life == block->notes[i].life && !names(streams, count, lane->stream))
            model_fail("the block %#zx+%zu is taken back without a stream that was noted", (size_t)block->at,
                       block->bytes);
    }
}

/* The tags: the noted streams and the freeing one, as far as they are now; or the event's record. Those that are gone stay
 * where they ended. */
static void tag(struct block *block) {
    for (unsigned i = 0; i < block->note_count; i++) {
        const struct lane *lane = &model.lanes[block->notes[i].lane];
        if (lane->life == block->notes[i].life) raise_to(&block->used.at[block->notes[i].lane], lane->position);
    }
    if (block->after != NULL) {
        const struct event *event = event_of(block->after);
        raise_to(&block->used.at[event->lane], event->position);
        return;
    }
    unsigned lane = lane_of(block->on);
    raise_to(&block->used.at[lane], model.lanes[lane].position);
}

static void disown(const struct block *block, uintptr_t address) {
    struct unit *unit = unit_at(address);
    struct place *place = place_of(address);
    unit->owner = NULL;
    join(&unit->used, &block->used);
    if (address == block->at || address % model.granule == 0) join(&place->used, &block->used);
    count_page(place->page, -1, block->given ? 0 : -1, 0);
}

/* The back of a block. */
static CUresult cut_off(struct block *block, size_t bytes, const CUstream *streams, size_t count, CUevent event) {
    struct block back = *block;
    back.at += block->keeps;
    back.bytes -= block->keeps;
    if (bytes != back.bytes) model_fail("%zu bytes are cut off, not %zu", bytes, back.bytes);
    check_named(&back, streams, count, event);
    CUresult code = model.real->emu_take_back((const void *)back.at, bytes, streams, count, event);
    tag(&back);
    for (size_t at = 0; at < bytes; at += UNIT) disown(&back, back.at + at);
    model.state.live_bytes -= bytes;
    block->bytes = block->keeps;
    block->keeps = 0;
    return code;
}

static CUresult take_back(const void *address, size_t bytes, const CUstream *streams, size_t count, CUevent event) {
    struct block *block = block_around((uintptr_t)address, bytes);
    if (block != NULL && block->keeps > 0 && (uintptr_t)address == block->at + block->keeps)
        return cut_off(block, bytes, streams, count, event);
    if (block == NULL || block->at != (uintptr_t)address || block->bytes != bytes || !block->to_be_freed)
        model_fail("%p+%zu is taken back, which nobody freed", address, bytes);
    check_named(block, streams, count, event);
    CUresult code = model.real->emu_take_back(address, bytes, streams, count, event);
    tag(block);
    for (size_t at = 0; at < bytes; at += UNIT) disown(block, block->at + at);
    model.state.frees++;
    model.state.live_blocks--;
    model.state.live_bytes -= bytes;
    model.state.requested_bytes -= block->requested;
    free(block);
    return code;
}

/* ---- what the program says -------------------------------------------------------------------------------------- */

bool model_has_block(const void *address) {
    const struct unit *unit = unit_at((uintptr_t)address);
    return unit != NULL && unit->owner != NULL && unit->owner->at == (uintptr_t)address;
}

static struct block *block_at(const void *address) {
    if (!model_has_block(address)) model_fail("%p is no live block", address);
    return unit_at((uintptr_t)address)->owner;
}

void model_allocated(const void *address, size_t requested_bytes, bool alone) {
    struct block *block = block_at(address);
    const size_t unit = alone ? model.granule : UNIT, rounded = (requested_bytes + unit - 1) / unit * unit;
    if (alone && place_of(block->at)->page->bytes != rounded)
        model_fail("the block %#zx is not alone", (size_t)block->at);
    block->alone = alone;
    if (block->bytes < requested_bytes)
        model_fail("%zu bytes were asked for, %zu were given", requested_bytes, block->bytes);
    if (block->bytes != rounded)
        model_fail("%zu bytes were asked for, which makes %zu, %zu were given", requested_bytes, rounded, block->bytes);
    block->requested = requested_bytes;
    model.state.requested_bytes += requested_bytes;
    raise_size(&model.state.peak_requested_bytes, model.state.requested_bytes);
}

void model_will_resize(const void *address, size_t requested_bytes, weir_stream stream) {
    struct block *block = block_at(address);
    const size_t rounded = (requested_bytes + UNIT - 1) / UNIT * UNIT;
    if (rounded >= block->bytes || block->alone) return;
    block->keeps = rounded;
    block->on = stream;
}

/* What was given behind the block is a part of it. */
static void join_behind(struct block *block, size_t rounded) {
    const struct unit *unit = unit_at(block->at + block->bytes);
    struct block *behind = unit == NULL ? NULL : unit->owner;
    if (behind == NULL || behind->at != block->at + block->bytes || behind->bytes != rounded - block->bytes)
        model_fail("the block %#zx+%zu has not got %zu bytes", (size_t)block->at, block->bytes, rounded);
    for (size_t at = 0; at < behind->bytes; at += UNIT) unit_at(behind->at + at)->owner = block;
    block->bytes = rounded;
    model.state.allocs--;
    model.state.live_blocks--;
    free(behind);
}

void model_resized(const void *address, size_t requested_bytes) {
    struct block *block = block_at(address);
    const size_t rounded = (requested_bytes + UNIT - 1) / UNIT * UNIT;
    if (block->keeps > 0) model_fail("nothing was cut off the block %#zx+%zu", (size_t)block->at, block->bytes);
    if (rounded > block->bytes && !block->alone) join_behind(block, rounded);
    model.state.requested_bytes += requested_bytes - block->requested;
    block->requested = requested_bytes;
    raise_size(&model.state.peak_requested_bytes, model.state.requested_bytes);
}

void model_will_free(const void *address, weir_stream stream) {
    struct block *block = block_at(address);
    block->to_be_freed = true;
    block->on = stream;
}

void model_will_free_after(const void *address, weir_event event) {
    struct block *block = block_at(address);
    block->to_be_freed = true;
    block->after = event;
}

void model_is_given(const void *address) {
    struct block *block = block_at(address);
    block->given = true;
    for (size_t at = 0; at < block->bytes; at += UNIT) count_page(place_of(block->at + at)->page, 0, -1, 0);
}

void model_will_note(const void *address, weir_stream stream) {
    struct block *block = block_at(address);
    unsigned lane = lane_of(stream), kept = 0;
    for (unsigned i = 0; i < block->note_count; i++) /* but those that the host knows to be over */
        if (block->notes[i].life == model.lanes[block->notes[i].lane].life) block->notes[kept++] = block->notes[i];
    block->note_count = kept;
    for (unsigned i = 0; i < block->note_count; i++)
        if (block->notes[i].lane == lane) return;
    if (block->note_count == NOTES) model_fail("a block has more than %d noted streams", NOTES);
    block->notes[block->note_count++] = (struct note){lane, model.lanes[lane].life};
}

void model_registered(const void *address, size_t bytes, bool registered) {
    const uintptr_t begin = (uintptr_t)address / model.granule * model.granule, end = (uintptr_t)address + bytes;
    for (uintptr_t at = begin; at < end; at += model.granule) {
        struct place *place = place_of(at);
        if (place == NULL || place->page == NULL) model_fail("%#zx was registered and has no page", (size_t)at);
        place->registered += registered ? 1 : SIZE_MAX;
        count_page(place->page, 0, 0, registered ? 1 : -1);
    }
    demand_changed();
}

void model_own_calls(bool own) { own_calls = own; }

/* ---- begin, end, compare ---------------------------------------------------------------------------------------- */

#define HOOKS(X)                                                                                                       \
    X(stream_create)                                                                                                   \
    X(stream_destroy)                                                                                                  \
    X(stream_wait)                                                                                                     \
    X(stream_query)                                                                                                    \
    X(stream_synchronize)                                                                                              \
    X(event_create)                                                                                                    \
    X(event_record)                                                                                                    \
    X(context_record)                                                                                                  \
    X(event_query)                                                                                                     \
    X(event_synchronize)                                                                                               \
    X(context_synchronize)                                                                                             \
    X(device_attribute)                                                                                                \
    X(address_reserve)                                                                                                 \
    X(address_free)                                                                                                    \
    X(page_create)                                                                                                     \
    X(page_export)                                                                                                     \
    X(page_release)                                                                                                    \
    X(page_map)                                                                                                        \
    X(page_unmap)                                                                                                      \
    X(page_set_access)

void model_begin(struct weir_device *device, void (*on_fault)(const char *text)) {
    memset(&model, 0, sizeof model);
    model.device = device;
    model.real = device->driver;
    model.table = *device->driver;
    model.on_fault = on_fault;
    model.granule = device->granularity_bytes;
#define HOOK(member) model.table.member = member;
    HOOKS(HOOK)
#undef HOOK
    model.table.emu_submit = submit;
    model.table.emu_hand_out = hand_out;
    model.table.emu_take_back = take_back;
    device->driver = &model.table;
    device->watched = true;
}

void model_end(void) {
    if (model.pages != NULL) model_fail("%zu bytes were not given back", model.state.held_bytes);
    for (int i = 0; i < RANGES; i++)
        if (model.ranges[i].bytes > 0) model_fail("a range of %zu bytes was not given back", model.ranges[i].bytes);
    model.device->driver = model.real;
}

void model_reset_peaks(void) {
    model.state.peak_live_bytes = model.state.live_bytes;
    model.state.peak_requested_bytes = model.state.requested_bytes;
    model.state.peak_held_bytes = model.state.held_bytes;
}

struct model_state model_now(void) {
    return model.state;
}

static void same(const char *what, uint64_t pool, uint64_t known) {
    if (pool != known)
        model_fail("the pool says %s is %llu, which is %llu", what, (unsigned long long)pool,
                   (unsigned long long)known);
}

static void at_most(const char *what, uint64_t pool, uint64_t most) {
    if (pool > most)
        model_fail("the pool says %s is %llu, which is at most %llu", what, (unsigned long long)pool,
                   (unsigned long long)most);
}

void model_compare(struct weir_pool *pool, uint64_t refusals, struct model_empty empty) {
    struct weir_pool_stats stats = {.size = sizeof stats};
    if (weir_pool_get_stats(pool, &stats) != WEIR_OK) model_fail("no statistics: %s", weir_last_error()->message);
    const struct model_state *state = &model.state; /* frees of host functions have been taken back by now */
    same("live_bytes", stats.live_bytes, state->live_bytes);
    same("requested_bytes", stats.requested_bytes, state->requested_bytes);
    same("held_bytes", stats.held_bytes, state->held_bytes);
    same("live + idle + moving + unmapped",
         stats.live_bytes + stats.idle_bytes + stats.moving_bytes + stats.unmapped_bytes, state->held_bytes);
    same("live_blocks", stats.live_blocks, state->live_blocks + empty.live);
    same("allocs", stats.allocs, state->allocs + empty.allocs);
    same("frees", stats.frees, state->frees + empty.frees);
    same("out_of_memory", stats.out_of_memory, refusals);
    same("peak_live_bytes", stats.peak_live_bytes, state->peak_live_bytes);
    same("peak_requested_bytes", stats.peak_requested_bytes, state->peak_requested_bytes);
    same("memory_calls", stats.memory_calls, state->memory_calls);
    same("order_calls", stats.order_calls, state->order_calls);
    at_most("held_bytes", stats.held_bytes, stats.peak_held_bytes);
    at_most("peak_held_bytes", stats.peak_held_bytes, stats.capacity_bytes);
    at_most("limit_bytes", stats.limit_bytes, stats.capacity_bytes);
    at_most("the peak that was seen", state->peak_held_bytes, stats.peak_held_bytes);
}
