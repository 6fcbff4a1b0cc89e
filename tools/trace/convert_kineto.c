/* SPDX-License-Identifier: Apache-2.0 */
/* A trace of PyTorch's profiler (Kineto; a Chrome trace): its memory events, the device's work joined with the calls that
 * launched it, and the calls that wait. Events of all kinds lie in the file in no order, so all are kept, then sorted.
 *
 * Words. call: one of the runtime or the driver, on a thread of the host. correlation: what a call and the work that it launched
 * have in common; the work of a graph has that of the graph's launch. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert.h"
#include "json_events.h"

#define NO_CORRELATION INT64_MIN

struct host_event { /* a call */
    uint64_t ns, number;
    int64_t correlation;
    uint32_t thread;
    uint8_t kind; /* enum host_call */
    bool waits;   /* it waits, or asks whether to */
};

struct device_event { /* a piece of work */
    struct launch launch;
    uint64_t number;
    int64_t correlation;
    uint32_t device;
};

struct memory_event {
    struct event event;
    int64_t allocated, reserved; /* in all, after it; -1: not said */
    uint32_t device;
};

struct kineto {
    struct conversion *conversion;
    const char *name;
    struct memory_event *memory;
    struct host_event *host;
    struct device_event *work;
    size_t memory_count, memory_room, host_count, host_room, work_count, work_room;
    uint64_t counts[CONVERT_MOST_DEVICES]; /* of memory events */
};

/* ---- fields ----------------------------------------------------------------------------------------------------- */

static bool complain(const struct kineto *kineto, const struct json_event *json, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool complain(const struct kineto *kineto, const struct json_event *json, const char *format, ...) {
    char what[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return convert_fail(kineto->conversion, "%s: event %" PRIu64 " (byte %" PRIu64 "): %s", kineto->name,
                        json_number(json), json_offset(json), what);
}

/* Microseconds, decimals allowed. */
static bool read_us(const struct kineto *kineto, const struct json_event *json, const char *key, uint64_t *ns) {
    const struct json_field field = json_get(json, key);
    const double most = (double)UINT64_MAX / 1000 - 1e6;
    *ns = 0;
    if (field.kind == FIELD_INTEGER && field.integer >= 0 && (double)field.integer < most)
        *ns = (uint64_t)field.integer * 1000;
    else if (field.kind == FIELD_REAL && field.real >= 0 && field.real < most)
        *ns = (uint64_t)field.real * 1000 + (uint64_t)lround((field.real - floor(field.real)) * 1000);
    else
        return complain(kineto, json, "%s is %s", key,
                        field.kind == FIELD_MISSING ? "missing" : "no time in microseconds from 0");
    return true;
}

/* *value stays where there is no such field. */
static bool read_optional(const struct kineto *kineto, const struct json_event *json, const char *key, int64_t least,
                          int64_t most, int64_t *value) {
    const struct json_field field = json_get_arg(json, key);
    if (field.kind == FIELD_MISSING) return true;
    if (field.kind != FIELD_INTEGER) return complain(kineto, json, "%s is no integer, or one beyond 63 bits", key);
    *value = field.integer;
    if (*value >= least && *value <= most) return true;
    return complain(kineto, json, "%s is %" PRId64 ", the limits are %" PRId64 " and %" PRId64, key, *value, least,
                    most);
}

static bool read_integer(const struct kineto *kineto, const struct json_event *json, const char *key, int64_t *value) {
    if (json_get_arg(json, key).kind == FIELD_MISSING) return complain(kineto, json, "%s is missing", key);
    return read_optional(kineto, json, key, INT64_MIN, INT64_MAX, value);
}

static int64_t integer_or(struct json_field field, int64_t otherwise) {
    return field.kind == FIELD_INTEGER ? field.integer : otherwise;
}

/* A thread of a process; what is no number is one thread. */
static bool read_thread(const struct kineto *kineto, const struct json_event *json, uint32_t *thread) {
    const uint64_t process = (uint64_t)integer_or(json_get(json, "pid"), 0),
                   own = (uint64_t)integer_or(json_get(json, "tid"), 0);
    if (convert_thread_id(kineto->conversion, process << 32 ^ own, thread)) return true;
    return complain(kineto, json, "its thread is one more than the limit of %d", CONVERT_MOST_THREADS);
}

static bool read_device(const struct kineto *kineto, const struct json_event *json, const char *key, uint32_t *device) {
    int64_t number = 0;
    if (!read_optional(kineto, json, key, 0, CONVERT_MOST_DEVICES - 1, &number)) return false;
    *device = (uint32_t)number;
    return true;
}

/* What is used of an event that is converted, or says that it is none. */
static bool is_clear(const struct kineto *kineto, const struct json_event *json, bool used) {
    static const char *const telling[] = {"name", "cat", "ph", "args", NULL};
    static const char *const all[] = {"ts",
                                      "dur",
                                      "pid",
                                      "tid",
                                      "Addr",
                                      "Bytes",
                                      "Device Type",
                                      "Device Id",
                                      "Total Allocated",
                                      "Total Reserved",
                                      "device",
                                      "stream",
                                      "correlation",
                                      NULL};
    const char *doubled = json_doubled(json, used ? all : telling);
    return doubled == NULL || complain(kineto, json, "%s is there twice", doubled);
}

/* Room for one more of a kind of event. */
static bool grow(struct kineto *kineto, void **array, size_t *room, size_t count, size_t size) {
    if (count < CONVERT_MOST_ROWS) return convert_grow(kineto->conversion, array, room, count, size);
    return convert_fail(kineto->conversion, "%s: more than %" PRIu64 " events of one kind", kineto->name,
                        CONVERT_MOST_ROWS);
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

static bool is_memory(const struct json_event *json) { return strcmp(json_get(json, "name").text, "[memory]") == 0; }

/* The host's are told by its type 0 and its number -1. */
static bool is_of_host(const struct kineto *kineto, const struct json_event *json, bool *host) {
    int64_t type = 1, device = 0;
    if (!read_optional(kineto, json, "Device Type", INT64_MIN, INT64_MAX, &type) ||
        !read_optional(kineto, json, "Device Id", INT64_MIN, CONVERT_MOST_DEVICES - 1, &device))
        return false;
    *host = type == 0 || device < 0;
    return true;
}

static bool take_memory(struct kineto *kineto, const struct json_event *json) {
    struct memory_event memory = {
        .event = {.number = json_number(json), .offset = json_offset(json)}, .allocated = -1, .reserved = -1};
    int64_t address = 0, bytes = 0;
    bool host;
    void *all = kineto->memory;
    if (!is_clear(kineto, json, true) || !is_of_host(kineto, json, &host)) return false;
    if (host) return true;
    if (!read_us(kineto, json, "ts", &memory.event.ns) || !read_integer(kineto, json, "Addr", &address) ||
        !read_integer(kineto, json, "Bytes", &bytes) || !read_device(kineto, json, "Device Id", &memory.device) ||
        !read_optional(kineto, json, "Total Allocated", 0, TRACE_MOST_BYTES, &memory.allocated) ||
        !read_optional(kineto, json, "Total Reserved", 0, TRACE_MOST_BYTES, &memory.reserved) ||
        !read_thread(kineto, json, &memory.event.place))
        return false;
    if (bytes == 0) return true;
    if (bytes == INT64_MIN) return complain(kineto, json, "Bytes is %" PRId64 ": too many", bytes);
    memory.event.kind = bytes > 0 ? EVENT_ALLOC : EVENT_FREE;
    memory.event.address = (uint64_t)address;
    memory.event.bytes = (uint64_t)(bytes > 0 ? bytes : -bytes);
    const bool grown = grow(kineto, &all, &kineto->memory_room, kineto->memory_count, sizeof memory);
    kineto->memory = all;
    if (!grown) return false;
    kineto->counts[memory.device]++;
    kineto->memory[kineto->memory_count++] = memory;
    return true;
}

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

/* 'k' kernel, 'n' NCCL, 'c' copy, 'm' set; 0: no work of a device. */
static char work_kind(const char *category, const char *name) {
    if (strcmp(category, "gpu_memcpy") == 0 || strcmp(category, "Memcpy") == 0) return 'c';
    if (strcmp(category, "gpu_memset") == 0 || strcmp(category, "Memset") == 0) return 'm';
    if (strcmp(category, "kernel") != 0 && strcmp(category, "Kernel") != 0) return 0;
    return begins(name, "nccl") ? 'n' : 'k';
}

static bool take_work(struct kineto *kineto, const struct json_event *json, char kind) {
    struct device_event work = {.launch.kind = kind, .number = json_number(json)};
    int64_t stream = 0;
    work.correlation = NO_CORRELATION;
    void *all = kineto->work;
    if (!is_clear(kineto, json, true) || !read_us(kineto, json, "ts", &work.launch.start_ns) ||
        !read_us(kineto, json, "dur", &work.launch.work_ns) || !read_device(kineto, json, "device", &work.device) ||
        !read_optional(kineto, json, "stream", 0, UINT32_MAX, &stream) ||
        !read_optional(kineto, json, "correlation", INT64_MIN, INT64_MAX, &work.correlation))
        return false;
    if (work.launch.work_ns > TRACE_MOST_NS)
        return complain(kineto, json, "dur is longer than the limit of %" PRIu64 " us", TRACE_MOST_NS / 1000);
    work.launch.stream = (uint32_t)stream; /* its id, until the device is chosen */
    const bool grown = grow(kineto, &all, &kineto->work_room, kineto->work_count, sizeof work);
    kineto->work = all;
    if (grown) kineto->work[kineto->work_count++] = work;
    return grown;
}

static bool take_call(struct kineto *kineto, const struct json_event *json, const char *name) {
    struct host_event host = {.number = json_number(json), .kind = (uint8_t)convert_call_of(name)};
    void *all = kineto->host;
    host.correlation = NO_CORRELATION;
    if (!is_clear(kineto, json, true) || !read_us(kineto, json, "ts", &host.ns) ||
        !read_optional(kineto, json, "correlation", INT64_MIN, INT64_MAX, &host.correlation) ||
        !read_thread(kineto, json, &host.thread))
        return false;
    host.waits = host.kind != CALL_OTHER || strstr(name, "Query") != NULL || strstr(name, "Synchronize") != NULL;
    const bool grown = grow(kineto, &all, &kineto->host_room, kineto->host_count, sizeof host);
    kineto->host = all;
    if (grown) kineto->host[kineto->host_count++] = host;
    return grown;
}

static bool take(void *with, const struct json_event *json) {
    struct kineto *kineto = with;
    const char *category = json_get(json, "cat").text, *name = json_get(json, "name").text;
    const char *phase = json_get(json, "ph").text;
    if (!is_clear(kineto, json, false)) return false;
    if (is_memory(json)) return take_memory(kineto, json);
    if (strcmp(phase, "X") != 0) return true;
    const char kind = work_kind(category, name);
    if (kind != 0) return take_work(kineto, json, kind);
    if (begins(category, "cuda_runtime") || begins(category, "cuda_driver") || strcmp(category, "Runtime") == 0)
        return take_call(kineto, json, name);
    return true;
}

/* ---- by time ---------------------------------------------------------------------------------------------------- */

static int order(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

/* At the same time in the order of the file. */
#define BY(name, type, first, second)                                                                                  \
    static int name(const void *left, const void *right) {                                                             \
        const struct type *a = left, *b = right;                                                                       \
        return a->first != b->first ? (a->first > b->first) - (a->first < b->first) : order(a->second, b->second);     \
    }
BY(memory_by_time, memory_event, event.ns, event.number)
BY(host_by_correlation, host_event, correlation, number)
BY(host_by_time, host_event, ns, number)
BY(work_by_time, device_event, launch.ns, number)

static void sort(void *all, size_t count, size_t size, int (*by)(const void *, const void *)) {
    if (count > 1) qsort(all, count, size, by);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* The reserve's changes come before the event that shows them. */
static bool add_reserve(struct kineto *kineto, struct events *events, const struct memory_event *memory,
                        int64_t before) {
    struct event change = memory->event;
    if (memory->reserved < 0 || before < 0 || memory->reserved == before) return true;
    change.kind = memory->reserved > before ? EVENT_GREW : EVENT_SHRANK;
    change.bytes = (uint64_t)(memory->reserved > before ? memory->reserved - before : before - memory->reserved);
    return convert_add_event(kineto->conversion, events, change);
}

static bool add_memory(struct kineto *kineto, struct events *events) {
    struct conversion *conversion = kineto->conversion;
    int64_t reserved = -1;
    for (size_t i = 0; i < kineto->memory_count; i++) {
        const struct memory_event *memory = &kineto->memory[i];
        if (memory->device != conversion->device) continue;
        if (events->count == 0 && memory->allocated >= 0) { /* what it says is after the first */
            const uint64_t allocated = (uint64_t)memory->allocated, bytes = memory->event.bytes;
            if (memory->event.kind == EVENT_FREE) events->live_before_bytes = allocated + bytes;
            if (memory->event.kind == EVENT_ALLOC && allocated > bytes) events->live_before_bytes = allocated - bytes;
        }
        if (!conversion->knows_reserve && memory->reserved >= 0) {
            conversion->knows_reserve = conversion->has_reserve = true;
            conversion->reserve_before = (uint64_t)memory->reserved;
        }
        if (!add_reserve(kineto, events, memory, reserved) || !convert_add_event(conversion, events, memory->event))
            return false;
        if (memory->reserved >= 0) reserved = memory->reserved;
    }
    return true;
}

static bool place_memory(struct kineto *kineto) {
    struct events events = {.unit = "event", .misses_threads = true};
    sort(kineto->memory, kineto->memory_count, sizeof *kineto->memory, memory_by_time);
    const bool placed = add_memory(kineto, &events) && convert_place_events(kineto->conversion, kineto->name, &events);
    free(events.all);
    return placed;
}

/* ---- work and calls --------------------------------------------------------------------------------------------- */

static const struct host_event *call_with(const struct kineto *kineto, int64_t correlation) {
    size_t low = 0, high = kineto->host_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (kineto->host[middle].correlation < correlation)
            low = middle + 1;
        else
            high = middle;
    }
    const bool found = low < kineto->host_count && kineto->host[low].correlation == correlation;
    return found && correlation != NO_CORRELATION ? &kineto->host[low] : NULL;
}

/* Work whose launch is not in the log was launched when it began, at the latest. */
static bool join(struct kineto *kineto) {
    struct conversion *conversion = kineto->conversion;
    size_t kept = 0;
    sort(kineto->host, kineto->host_count, sizeof *kineto->host, host_by_correlation);
    for (size_t i = 0; i < kineto->work_count; i++) {
        struct device_event work = kineto->work[i];
        if (work.device != conversion->device) continue;
        const struct host_event *call = call_with(kineto, work.correlation);
        work.launch.ns = call != NULL ? call->ns : work.launch.start_ns;
        conversion->unjoined_count += call == NULL;
        if (call != NULL)
            work.launch.thread = call->thread;
        else if (!convert_thread_id(conversion, 0, &work.launch.thread))
            return false;
        if (!convert_stream_id(conversion, work.launch.stream, &work.launch.stream))
            return convert_fail(conversion, "%s: event %" PRIu64 ": its stream is one more than the limit of %d",
                                kineto->name, work.number, TRACE_MOST_STREAMS);
        kineto->work[kept++] = work;
    }
    kineto->work_count = kept;
    return true;
}

static bool add_launches(struct kineto *kineto) {
    struct conversion *conversion = kineto->conversion;
    sort(kineto->work, kineto->work_count, sizeof *kineto->work, work_by_time);
    conversion->launches = malloc((kineto->work_count + 1) * sizeof *conversion->launches);
    if (conversion->launches == NULL) return convert_fail(conversion, "%s: no host memory", kineto->name);
    for (size_t i = 0; i < kineto->work_count; i++) conversion->launches[i] = kineto->work[i].launch;
    conversion->launch_count = kineto->work_count;
    conversion->has_start = true;
    return true;
}

static bool add_calls(struct kineto *kineto) {
    struct conversion *conversion = kineto->conversion;
    sort(kineto->host, kineto->host_count, sizeof *kineto->host, host_by_time);
    conversion->calls = malloc((kineto->host_count + 1) * sizeof *conversion->calls);
    if (conversion->calls == NULL) return convert_fail(conversion, "%s: no host memory", kineto->name);
    for (size_t i = 0; i < kineto->host_count; i++) {
        const struct host_event *host = &kineto->host[i];
        if (host->waits)
            conversion->calls[conversion->call_count++] =
                (struct call){.ns = host->ns, .thread = host->thread, .next = UINT32_MAX, .kind = host->kind};
    }
    return true;
}

static bool read_all(struct kineto *kineto, const struct convert_input *input, int device) {
    struct conversion *conversion = kineto->conversion;
    if (!json_each_event(input->name, input->input, take, kineto, conversion->why, conversion->room)) return false;
    if (kineto->memory_count == 0)
        return convert_fail(conversion,
                            "%s: none of its events is of a device's memory, as the profiler notes with "
                            "profile_memory=True (memory of CPUs does not count)",
                            kineto->name);
    conversion->row_count += kineto->memory_count + kineto->work_count + kineto->host_count;
    return convert_choose_device(conversion, kineto->name, kineto->counts, CONVERT_MOST_DEVICES, device) &&
           place_memory(kineto) && join(kineto) && add_launches(kineto) && add_calls(kineto);
}

bool convert_read_kineto(struct conversion *conversion, const struct convert_input *input, int device) {
    struct kineto *kineto = calloc(1, sizeof *kineto);
    if (kineto == NULL) return convert_fail(conversion, "%s: no host memory to read it", input->name);
    kineto->conversion = conversion;
    kineto->name = input->name;
    const bool read = read_all(kineto, input, device);
    free(kineto->memory);
    free(kineto->host);
    free(kineto->work);
    free(kineto);
    return read;
}
