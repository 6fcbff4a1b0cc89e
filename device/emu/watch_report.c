/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/watch_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/emu/emu.h"
#include "device/emu/machine.h"
#include "device/emu/settings.h"
#include "device/error.h"

/* ---- labels ----------------------------------------------------------------------------------------------------- */

enum { LABEL_BUCKETS = 1024, LABEL_BYTES = 96, CACHED = 64 };

struct label {
    uint32_t next; /* of the bucket; 0: none */
    enum emu_act act;
    char name[LABEL_BYTES];
};

static struct label *labels; /* [0] is what stands for nothing */
static uint32_t label_count, label_room;
static uint32_t buckets[LABEL_BUCKETS];

/* Most names are literals, so that the pointer usually says which it is; the text has the last word. */
static struct {
    const char *name;
    uint32_t label;
} cache[CACHED][EMU_ACTS];

static bool is_label(uint32_t label, const char *name, enum emu_act act) {
    return labels[label].act == act && strncmp(labels[label].name, name, LABEL_BYTES - 1) == 0;
}

static uint32_t bucket_of(const char *name, enum emu_act act) {
    uint32_t hash = 2166136261u + (uint32_t)act;
    for (size_t i = 0; i < LABEL_BYTES - 1 && name[i] != '\0'; i++) hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return hash % LABEL_BUCKETS;
}

static bool grow_labels(void) {
    if (label_count < label_room) return true;
    const uint32_t room = label_room == 0 ? 256 : 2 * label_room;
    struct label *more = realloc(labels, room * sizeof *more);
    if (more == NULL) return false;
    labels = more;
    label_room = room;
    if (label_count == 0) labels[label_count++] = (struct label){.name = "?"};
    return true;
}

static uint32_t find_label(const char *name, enum emu_act act) {
    const uint32_t bucket = bucket_of(name, act);
    for (uint32_t label = buckets[bucket]; label != 0; label = labels[label].next)
        if (is_label(label, name, act)) return label;
    if (!grow_labels()) return 0;
    labels[label_count] = (struct label){.next = buckets[bucket], .act = act};
    strncpy(labels[label_count].name, name, LABEL_BYTES - 1);
    buckets[bucket] = label_count;
    return label_count++;
}

uint32_t emu_label(const char *name, enum emu_act act) {
    if (name == NULL) name = "work without a name";
    const size_t slot = ((uintptr_t)name >> 3) % CACHED;
    if (cache[slot][act].name == name && is_label(cache[slot][act].label, name, act)) return cache[slot][act].label;
    const uint32_t label = find_label(name, act);
    if (label == 0) return 0;
    cache[slot][act].name = name;
    cache[slot][act].label = label;
    return label;
}

/* ---- sentences -------------------------------------------------------------------------------------------------- */

static const char *const verbs[EMU_ACTS] = {
    [EMU_ACT_READ] = "reads",           [EMU_ACT_WRITE] = "writes",    [EMU_ACT_HAND_OUT] = "gives away",
    [EMU_ACT_TAKE] = "takes back",      [EMU_ACT_HOST_READ] = "reads", [EMU_ACT_HOST_WRITE] = "writes",
    [EMU_ACT_HOST_TAKE] = "takes away", [EMU_ACT_USE] = "uses",
};

static const struct label *label_of(const struct emu_access *access) {
    static const struct label nothing = {.name = "?"};
    return access->label < label_count ? &labels[access->label] : &nothing;
}

static void name_of(const struct emu_access *access, char *name, size_t room) {
    if (access->queue == EMU_NOBODY)
        snprintf(name, room, "nobody");
    else if (access->queue == EMU_BY_HOST && label_of(access)->act == EMU_ACT_HOST_TAKE)
        snprintf(name, room, "%.80s by the host", label_of(access)->name);
    else
        snprintf(name, room, "%s", label_of(access)->name);
}

static void subject_of(const struct emu_access *access, char *text, size_t room) {
    char name[LABEL_BYTES];
    name_of(access, name, sizeof name);
    const enum emu_act act = label_of(access)->act;
    if (access->queue >= EMU_BY_HOST)
        snprintf(text, room, "%s", name);
    else if (act == EMU_ACT_HAND_OUT || act == EMU_ACT_TAKE)
        snprintf(text, room, "the %.70s (stream %" PRIu32 ", position %" PRIu64 ")", name, access->queue,
                 access->position);
    else
        snprintf(text, room, "\"%.70s\" (stream %" PRIu32 ", position %" PRIu64 ")", name, access->queue,
                 access->position);
}

static void write_sentence(const struct emu_at_fault *found, char *text, size_t room) {
    char first[136], second[136]; /* two of them fit into a report */
    subject_of(&found->first, first, sizeof first);
    subject_of(&found->second, second, sizeof second);
    const char *first_verb = verbs[label_of(&found->first)->act], *second_verb = verbs[label_of(&found->second)->act];
    const char *where = found->device < 0 ? "of host memory " : "";
    const size_t bytes = found->bytes;
    const uintptr_t at = found->address;
    if (found->fault == EMU_FAULT_RACE)
        snprintf(text, room,
                 "race: %s %s %zu bytes %sat %#" PRIxPTR " that %s %s; nothing orders the second after the "
                 "first",
                 first, first_verb, bytes, where, at, second, second_verb);
    else if (found->fault == EMU_FAULT_FREED && found->first.queue == EMU_NOBODY)
        snprintf(text, room, "use after free: %s %s %zu bytes at %#" PRIxPTR ", where nothing is mapped", second,
                 second_verb, bytes, at);
    else if (found->fault == EMU_FAULT_FREED)
        snprintf(text, room, "use after free: %s %s %zu bytes %sat %#" PRIxPTR " that %s took %s", second, second_verb,
                 bytes, where, at, first, label_of(&found->first)->act == EMU_ACT_TAKE ? "back" : "away");
    else if (found->first.queue == EMU_NOBODY)
        snprintf(text, room, "uninitialised read: %s %s %zu bytes at %#" PRIxPTR " that nobody has ever written",
                 second, second_verb, bytes, at);
    else
        snprintf(text, room, "uninitialised read: %s %s %zu bytes at %#" PRIxPTR " that nobody has written since %s",
                 second, second_verb, bytes, at, first);
}

/* ---- those kept ------------------------------------------------------------------------------------------------- */

enum { KEPT = 1000, MOST_GATHERED = 64 };

static struct weir_emu_report *kept; /* (KEPT) */
static size_t kept_count;
static uint64_t count;
static struct emu_at_fault gathered[MOST_GATHERED];
static size_t gathered_count;

uint64_t emu_report_count(void) { return count; }

void emu_report_begin(void) { gathered_count = 0; }

static bool same_first(const struct emu_access *a, const struct emu_access *b) {
    if (a->queue != b->queue || a->position != b->position) return false;
    return a->queue != EMU_BY_HOST || a->label == b->label;
}

/* A pair is told of once, by what was found first of it. */
void emu_report_add(const struct emu_at_fault *found) {
    for (size_t i = 0; i < gathered_count; i++) {
        struct emu_at_fault *had = &gathered[i];
        if (had->fault != found->fault || !same_first(&had->first, &found->first)) continue;
        if (had->device != found->device || had->second.label != found->second.label ||
            had->first.label != found->first.label)
            return;
        had->bytes += found->bytes;
        if (found->address < had->address) had->address = found->address;
        return;
    }
    if (gathered_count < MOST_GATHERED) gathered[gathered_count++] = *found;
}

static uint64_t stream_of(const struct emu_access *access) {
    return access->queue >= EMU_BY_HOST ? UINT64_MAX : access->queue;
}

static struct weir_emu_report report_of(const struct emu_at_fault *found) {
    static const enum weir_emu_report_kind kinds[] = {[EMU_FAULT_RACE] = WEIR_EMU_RACE,
                                                      [EMU_FAULT_FREED] = WEIR_EMU_USE_AFTER_FREE,
                                                      [EMU_FAULT_UNWRITTEN] = WEIR_EMU_UNINITIALISED_READ};
    struct weir_emu_report report = {.size = sizeof report,
                                     .kind = kinds[found->fault],
                                     .device = found->device,
                                     .address = (const void *)found->address,
                                     .bytes = found->bytes,
                                     .first_stream = stream_of(&found->first),
                                     .first_position = found->first.position,
                                     .second_stream = stream_of(&found->second),
                                     .second_position = found->second.position};
    name_of(&found->first, report.first, sizeof report.first);
    name_of(&found->second, report.second, sizeof report.second);
    write_sentence(found, report.text, sizeof report.text);
    return report;
}

static void keep(const struct weir_emu_report *report) {
    if (kept == NULL) kept = calloc(KEPT, sizeof *kept);
    if (kept != NULL && kept_count < KEPT) kept[kept_count++] = *report;
}

void emu_report_end(void) {
    for (size_t i = 0; i < gathered_count; i++) {
        const struct weir_emu_report report = report_of(&gathered[i]);
        count++;
        keep(&report);
        if (count <= KEPT) weir__log(WEIR__LOG_WARN, "watch: %s", report.text);
        if (count == KEPT) weir__log(WEIR__LOG_WARN, "watch: further reports are counted only");
        if (emu_settings()->watch != EMU_WATCH_ABORT) continue;
        fprintf(stderr, "weir's emulated device, watch:abort: %s\n", report.text);
        fflush(stderr);
        abort();
    }
    gathered_count = 0;
}

/* ---- entries ---------------------------------------------------------------------------------------------------- */

CUresult weirEmuWatchReport(size_t index, struct weir_emu_report *report) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    if (report == NULL || report->size != sizeof *report) return CUDA_ERROR_INVALID_VALUE;
    emu_lock();
    const bool found = index < kept_count;
    if (found) *report = kept[index];
    emu_unlock();
    return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult weirEmuWatchClear(void) {
    const CUresult ready = emu_ready();
    if (ready != CUDA_SUCCESS) return ready;
    emu_lock();
    kept_count = 0;
    count = 0;
    emu_unlock();
    return CUDA_SUCCESS;
}
