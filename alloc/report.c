/* SPDX-License-Identifier: Apache-2.0 */
/* The report for people: what fills the device, by stream, and what to try. */
#include <stdarg.h>
#include <stdio.h>

#include "alloc/pool.h"

struct text {
    char *at;
    size_t room, length; /* length of the whole text, written or not */
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    size_t left = text->length < text->room ? text->room - text->length : 0;
    int wrote = vsnprintf(left > 0 ? text->at + text->length : NULL, left, format, arguments);
    va_end(arguments);
    if (wrote > 0) text->length += (size_t)wrote;
}

static const char *size_text(size_t bytes, char room[static 32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 4; unit++) value /= 1024;
    snprintf(room, 32, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
    return room;
}

static void add_line(struct text *text, const char *what, size_t bytes, size_t limit) {
    char room[32];
    add(text, "  %-28s %12s  %5.1f %%\n", what, size_text(bytes, room), 100.0 * (double)bytes / (double)limit);
}

static void add_refusal(const struct weir_pool *pool, struct text *text) {
    const struct weir_pool_refusal *refusal = &pool->refusal;
    char asked[32], limit[32];
    add(text, "out of memory: %s for %s, in iteration %llu, with %s to use (policy %s)\n",
        size_text(refusal->asked_bytes, asked), pool->refused_stream, (unsigned long long)refusal->iteration,
        size_text(refusal->limit_bytes, limit), pool->policy->text);
    add_line(text, "live", refusal->live_bytes, refusal->limit_bytes);
    add_line(text, "idle, on the asking stream", refusal->idle_asker_bytes, refusal->limit_bytes);
    add_line(text, "idle, on other streams", refusal->idle_others_bytes, refusal->limit_bytes);
    add_line(text, "being moved", refusal->moving_bytes, refusal->limit_bytes);
    add_line(text, "pages without an address", refusal->unmapped_bytes, refusal->limit_bytes);
    add_line(text, "not taken from the driver", refusal->untaken_bytes, refusal->limit_bytes);
    add_line(text, "largest idle run", refusal->largest_idle_bytes, refusal->limit_bytes);
}

static void add_state(const struct weir_pool *pool, struct text *text) {
    char limit[32];
    add(text, "pool of %s (policy %s), iteration %llu\n", size_text(pool->limit_bytes, limit), pool->policy->text,
        (unsigned long long)pool->iteration);
    add_line(text, "live", pool->live_bytes, pool->limit_bytes);
    add_line(text, "idle", pool->idle_bytes, pool->limit_bytes);
    add_line(text, "being moved", pool->moving_bytes, pool->limit_bytes);
    add_line(text, "pages without an address", pool->unmapped_bytes, pool->limit_bytes);
    add_line(text, "not taken from the driver", weir__untaken_bytes(pool), pool->limit_bytes);
}

static void add_streams(const struct weir_pool *pool, struct text *text) {
    add(text, "by stream, now:                live          idle     peak live     peak idle\n");
    for (uint32_t i = 0; i < pool->order.count; i++) {
        const struct weir__slot *slot = pool->order.slots[i];
        if (!slot->open || (i == WEIR__SLOT_GONE && slot->live_bytes + slot->idle_bytes == 0)) continue;
        char name[32], live[32], idle[32], peak_live[32], peak_idle[32];
        add(text, "  %-22s %12s  %12s  %12s  %12s\n", weir__slot_name(pool, i, name, sizeof name),
            size_text(slot->live_bytes, live), size_text(slot->idle_bytes, idle),
            size_text(slot->peak_live_bytes, peak_live), size_text(slot->peak_idle_bytes, peak_idle));
    }
}

static void add_advice(const struct weir_pool *pool, struct text *text) {
    const struct weir_pool_refusal *refusal = &pool->refusal;
    size_t limit = refusal->limit_bytes;
    add(text, "what to try:\n");
    if (pool->policy->name == WEIR_POLICY_PER_STREAM && refusal->idle_others_bytes > limit / 20)
        add(text, "  policy:latency, which lets the asking stream use what is idle on other streams\n");
    if (refusal->asked_bytes > limit)
        add(text, "  a smaller request: this one alone is larger than the limit\n");
    else if (refusal->live_bytes + refusal->asked_bytes > limit)
        add(text, "  a smaller batch or shorter sequences, or the offload engine: live and asked exceed the limit\n");
    if (pool->limit_bytes < pool->capacity_bytes) {
        char room[32];
        add(text, "  a higher limit: the device has %s\n", size_text(pool->capacity_bytes, room));
    }
    if (pool->driver_refused)
        add(text,
            "  fewer other users of the device: the driver had no more memory, though the limit was not reached\n");
    add(text,
        "  recording the run with WEIR_TRACE=FILE and `weir-replay FILE --scan`: the smallest device that does\n");
}

size_t weir_pool_report(struct weir_pool *pool, char *text_out, size_t room) {
    struct text text = {.at = text_out, .room = text_out == NULL ? 0 : room};
    if (text.room > 0) text_out[0] = 0;
    if (pool == NULL || weir__forked()) return 0;
    weir__pool_lock(pool);
    if (pool->was_refused)
        add_refusal(pool, &text);
    else
        add_state(pool, &text);
    add_streams(pool, &text);
    if (pool->was_refused) add_advice(pool, &text);
    weir__pool_unlock(pool);
    return text.length;
}
