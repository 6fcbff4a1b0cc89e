/* SPDX-License-Identifier: Apache-2.0 */
/* What operations and the host do to bytes: found by address, checked and noted where they really lie. */
#include <stdlib.h>

#include "device/emu/backing.h"
#include "device/emu/host.h"
#include "device/emu/memory.h"
#include "device/emu/queue.h"
#include "device/emu/watch_inside.h"
#include "device/emu/watch_report.h"
#include "device/error.h"

static struct emu_shadow devices[EMU_MOST_DEVICES];
static struct emu_shadow host_memory = {.written = true};
static struct emu_shadow addresses; /* of device memory: what was done through each, whatever page it was */
static uint64_t unwatched;

uint64_t emu_watch_unwatched(void) { return unwatched; }
uint64_t emu_watch_reports(void) { return emu_report_count(); }

/* ---- addresses that were device memory -------------------------------------------------------------------------- */

/* Who took addresses away, the last ones of them; and how far up device addresses ever reached. */
enum { REMEMBERED = 256 };
static struct {
    uintptr_t start;
    size_t bytes;
    struct emu_access by;
} taken[REMEMBERED];
static size_t taken_count;
static uintptr_t highest = EMU_ADDRESS_BASE;

static void remember_taken(uintptr_t start, size_t bytes, struct emu_access by) {
    const size_t at = taken_count++ % REMEMBERED;
    taken[at].start = start;
    taken[at].bytes = bytes;
    taken[at].by = by;
}

static struct emu_access who_took(uintptr_t address) {
    const size_t oldest = taken_count > REMEMBERED ? taken_count - REMEMBERED : 0;
    for (size_t i = taken_count; i > oldest; i--) {
        const size_t at = (i - 1) % REMEMBERED;
        if (address - taken[at].start < taken[at].bytes) return taken[at].by;
    }
    return (struct emu_access){.queue = EMU_NOBODY};
}

/* Programs and their heaps may lie between device addresses: what is mapped there now, and not reserved, is theirs. */
static bool was_device_memory(uintptr_t address) {
    return address >= EMU_ADDRESS_BASE && address < highest && !emu_host_exists(address, 1);
}

/* ---- by address ------------------------------------------------------------------------------------------------- */

struct walk {
    struct emu_visit visit;
    struct emu_piece piece;
    uintptr_t noted; /* up to here it is noted by which addresses the bytes were used */
};

static void at_fault(void *self, enum emu_fault fault, const struct emu_access *first, uint64_t start, uint64_t bytes) {
    const struct walk *walk = self;
    const struct emu_at_fault found = {.fault = fault,
                                       .first = *first,
                                       .second = walk->visit.access,
                                       .device = walk->piece.device,
                                       .address = walk->piece.start + (uintptr_t)(start - walk->piece.offset),
                                       .bytes = (size_t)bytes};
    emu_report_add(&found);
}

/* Addresses where device memory was or could be, and is not. */
static void not_mapped(struct walk *walk) {
    const struct emu_access by = who_took(walk->piece.start);
    if (walk->visit.act != EMU_ACT_HOST_TAKE)
        at_fault(walk, EMU_FAULT_FREED, &by, walk->piece.offset, walk->piece.bytes);
}

/* What the host does is before every unmap. */
static void note_addresses(struct walk *walk, uintptr_t end) {
    struct emu_visit use = walk->visit;
    use.act = EMU_ACT_USE;
    if (use.access.queue != EMU_BY_HOST && !emu_shadow_visit(&addresses, walk->noted, end - walk->noted, &use))
        emu_watch_give_up();
    walk->noted = end;
}

static void visit_piece(void *self, const struct emu_piece *piece) {
    struct walk *walk = self;
    walk->piece = *piece;
    if (piece->device < 0) {
        note_addresses(walk, piece->start);
        walk->noted = piece->start + piece->bytes;
        walk->piece.device = 0;
        not_mapped(walk);
        return;
    }
    if (highest < piece->start + piece->bytes) highest = piece->start + piece->bytes;
    if (!emu_shadow_visit(&devices[piece->device], piece->offset, piece->bytes, &walk->visit)) emu_watch_give_up();
}

void emu_watch_access(uintptr_t start, size_t bytes, struct emu_visit visit) {
    if (bytes == 0 || bytes > UINTPTR_MAX - start) return;
    struct walk walk = {.visit = visit, .noted = start};
    walk.visit.at_fault = at_fault;
    walk.visit.self = &walk;
    if (emu_memory_pieces(start, bytes, visit_piece, &walk)) {
        note_addresses(&walk, start + bytes);
        return;
    }
    walk.piece = (struct emu_piece){.start = start, .bytes = bytes, .device = -1, .offset = start};
    if (was_device_memory(start)) {
        walk.piece.device = 0;
        not_mapped(&walk);
    } else if (!emu_shadow_visit(&host_memory, start, bytes, &walk.visit)) {
        emu_watch_give_up();
    }
}

/* ---- operations ------------------------------------------------------------------------------------------------- */

struct actor {
    struct emu_queue *queue;
    uint64_t position;
    const char *name;
    bool over; /* its reads are, when the call returns */
};

static struct emu_visit visit_of(const struct actor *actor, enum emu_act act) {
    const struct emu_access access = {actor->position, actor->queue->index, emu_label(actor->name, act)};
    return (struct emu_visit){.act = act, .access = access, .known = actor->queue->known, .over = actor->over};
}

static void visit_rows(const struct actor *actor, enum emu_act act, const void *start, size_t bytes, size_t rows,
                       size_t pitch) {
    const struct emu_visit visit = visit_of(actor, act);
    if (rows > 1 && pitch == bytes) {
        bytes *= rows;
        rows = 1;
    }
    for (size_t row = 0; row < rows; row++) emu_watch_access((uintptr_t)start + row * pitch, bytes, visit);
}

/* What an operation reads it reads before it writes. */
static void visit_described(const struct actor *actor, const struct emu_operation *operation) {
    if (operation->access_count == 0) return;
    const struct emu_visit visits[] = {visit_of(actor, EMU_ACT_READ), visit_of(actor, EMU_ACT_WRITE)};
    for (int write = 0; write < 2; write++)
        for (size_t i = 0; i < operation->access_count; i++) {
            const struct weir_emu_access *access = &operation->accesses[i];
            if ((access->write != 0) == write)
                emu_watch_access((uintptr_t)access->address, access->bytes, visits[write]);
        }
}

/* Later uses of the addresses are found by who freed them, whether the free has happened by then or not. */
static void visit_free(const struct actor *actor, uintptr_t start) {
    const size_t bytes = emu_memory_plain_bytes(start);
    struct emu_visit visit = visit_of(actor, EMU_ACT_TAKE);
    visit.ends = &visit.access;
    visit.end_count = 1;
    emu_watch_access(start, bytes, visit);
    remember_taken(start, bytes, visit.access);
}

static const char *name_of(const struct emu_operation *operation) {
    if (operation->name != NULL) return operation->name;
    if (operation->kind == EMU_COPY) return "copy";
    if (operation->kind == EMU_SET) return "set";
    return operation->kind == EMU_FREE ? "cuMemFreeAsync" : NULL;
}

static void count_unwatched(const struct emu_operation *operation) {
    if (unwatched++ > 0) return;
    weir__log(
        WEIR__LOG_WARN,
        "watch: \"%.80s\" does not say what it reads and writes, so it is not watched; nor is what follows of its "
        "kind",
        operation->name != NULL ? operation->name : "work without a name");
}

void emu_watch_pushed(struct emu_queue *queue, uint64_t position, const struct emu_operation *operation) {
    if (!emu_watch_on()) return;
    emu_watch_refresh(queue);
    if (operation->moment != NULL) emu_watch_join(queue, *operation->moment);
    struct actor actor = {.queue = queue, .position = position, .name = name_of(operation)};
    emu_report_begin();
    switch (operation->kind) {
    case EMU_COPY:
        actor.over = operation->copy.staged;
        visit_rows(&actor, EMU_ACT_READ, operation->copy.from, operation->copy.bytes, operation->copy.rows,
                   operation->copy.from_pitch);
        actor.over = false;
        visit_rows(&actor, EMU_ACT_WRITE, operation->copy.to, operation->copy.bytes, operation->copy.rows,
                   operation->copy.to_pitch);
        break;
    case EMU_SET:
        visit_rows(&actor, EMU_ACT_WRITE, operation->set.at, operation->set.count * operation->set.unit,
                   operation->set.rows, operation->set.pitch);
        break;
    case EMU_FREE:
        visit_free(&actor, operation->free);
        break;
    case EMU_KERNEL:
    case EMU_FUNCTION:
        if (!operation->described) count_unwatched(operation);
        break;
    case EMU_RECORD:
    case EMU_WAIT:
    case EMU_GATE:
        break;
    }
    visit_described(&actor, operation);
    emu_report_end();
}

void emu_watch_hands_out(struct emu_queue *queue, uintptr_t address, size_t bytes, const char *entry) {
    if (!emu_watch_on()) return;
    emu_watch_refresh(queue);
    emu_report_begin();
    emu_watch_access(
        address, bytes,
        visit_of(&(struct actor){.queue = queue, .position = queue->pushed, .name = entry}, EMU_ACT_HAND_OUT));
    emu_report_end();
}

/* ---- the host --------------------------------------------------------------------------------------------------- */

/* A page's old history has been checked where its mappings were taken away. */
void emu_watch_page_made(CUdevice device, size_t offset, size_t bytes) {
    if (emu_watch_on() && !emu_shadow_forget(&devices[device], offset, bytes)) emu_watch_give_up();
}

void emu_watch_page_gone(CUdevice device, size_t offset, size_t bytes) { emu_watch_page_made(device, offset, bytes); }

static struct emu_visit by_host(enum emu_act act, const char *entry) {
    const struct emu_access access = {0, EMU_BY_HOST, emu_label(entry, act)};
    return (struct emu_visit){.act = act, .access = access, .known = emu_watch_host()};
}

void emu_watch_host_writes(uintptr_t address, size_t bytes, const char *entry) {
    if (!emu_watch_on()) return;
    emu_report_begin();
    emu_watch_access(address, bytes, by_host(EMU_ACT_HOST_WRITE, entry));
    emu_report_end();
}

static void at_fault_with_unmap(void *self, enum emu_fault fault, const struct emu_access *first, uint64_t start,
                                uint64_t bytes) {
    const struct emu_access *second = self;
    const struct emu_at_fault found = {.fault = fault,
                                       .first = *first,
                                       .second = *second,
                                       .device = emu_memory_device((uintptr_t)start),
                                       .address = (uintptr_t)start,
                                       .bytes = (size_t)bytes};
    emu_report_add(&found);
}

/* The bytes are not touched: other addresses may be in use for them. */
void emu_watch_unmaps(uintptr_t address, size_t bytes, const char *entry) {
    if (!emu_watch_on()) return;
    if (entry != NULL) {
        struct emu_visit visit = by_host(EMU_ACT_HOST_TAKE, entry);
        visit.at_fault = at_fault_with_unmap;
        visit.self = &visit.access;
        emu_report_begin();
        if (!emu_shadow_visit(&addresses, address, bytes, &visit)) emu_watch_give_up();
        emu_report_end();
        remember_taken(address, bytes, visit.access);
    }
    if (!emu_shadow_forget(&addresses, address, bytes)) emu_watch_give_up();
}

void emu_watch_host_memory_gone(uintptr_t address, size_t bytes, const char *entry) {
    if (!emu_watch_on()) return;
    emu_report_begin();
    emu_watch_access(address, bytes, by_host(EMU_ACT_HOST_TAKE, entry));
    emu_report_end();
    if (!emu_shadow_forget(&host_memory, address, bytes)) emu_watch_give_up();
}
