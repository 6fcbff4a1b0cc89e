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

static void add_line(struct text *text, const char *what, size_t bytes, size_t whole) {
    char room[32];
    add(text, "  %-28s %12s  %5.1f %%\n", what, size_text(bytes, room), 100.0 * (double)bytes / (double)whole);
}

/* ---- what fills the device -------------------------------------------------------------------------------------- */

/* Parts that sum to the capacity; of what others hold, `family_bytes` are the family's. */
static void add_parts(const struct weir_pool *pool, struct text *text, const struct weir_pool_refusal *parts,
                      size_t family_bytes, bool asked) {
    const size_t whole = parts->capacity_bytes;
    add_line(text, "live", parts->live_bytes, whole);
    if (asked) add_line(text, "idle, on the asking stream", parts->idle_asker_bytes, whole);
    add_line(text, asked ? "idle, on other streams" : "idle", parts->idle_others_bytes, whole);
    add_line(text, "being moved", parts->moving_bytes, whole);
    add_line(text, "pages without an address", parts->unmapped_bytes, whole);
    add_line(text, "not taken from the driver", parts->untaken_bytes, whole);
    if (family_bytes > 0)
        add_line(text, pool->family->root == pool ? "held by its sub-pools" : "held by its parent's family",
                 family_bytes, whole);
    add_line(text, "held by others", parts->others_bytes - family_bytes, whole);
    if (parts->limit_bytes < whole) add_line(text, "free, but above the limit", parts->above_limit_bytes, whole);
    add_line(text, "all: the device's capacity", whole, whole);
}

static void add_refusal(const struct weir_pool *pool, struct text *text) {
    const struct weir_pool_refusal *refusal = &pool->refusal;
    char asked[32], limit[32], largest[32];
    add(text, "out of memory: %s for %s, in iteration %llu, with %s to use (%s, policy %s)\n",
        size_text(refusal->asked_bytes, asked), pool->refused_stream, (unsigned long long)refusal->iteration,
        size_text(refusal->limit_bytes, limit), pool->name, pool->policy->text);
    add_parts(pool, text, refusal, pool->refused_family_bytes, true);
    add(text, "largest idle run: %s\n", size_text(refusal->largest_idle_bytes, largest));
    if (pool->waited_out)
        add(text, "the wait limit of %g s passed, and idle memory was in use still\n",
            (double)pool->wait_limit_ns * 1e-9);
}

static void add_state(const struct weir_pool *pool, size_t free_bytes, struct text *text) {
    const struct weir_pool_refusal parts = weir__parts(pool, WEIR__SLOT_NONE, free_bytes);
    char limit[32];
    add(text, "%s: %s to use (policy %s), iteration %llu\n", pool->name, size_text(pool->limit_bytes, limit),
        pool->policy->text, (unsigned long long)pool->iteration);
    add_parts(pool, text, &parts, weir__parts_of_family(pool, &parts), false);
}

/* ---- by stream -------------------------------------------------------------------------------------------------- */

static bool is_shown(const struct weir_pool *pool, uint32_t i) {
    const struct weir__slot *slot = pool->order.slots[i];
    return i != WEIR__SLOT_GONE ? slot->open : slot->live_bytes + slot->idle_bytes + slot->allocs > 0;
}

static void add_streams(const struct weir_pool *pool, struct text *text) {
    add(text, "by stream, now:                live          idle     peak live     peak idle\n");
    for (uint32_t i = 0; i < pool->order.count; i++) {
        const struct weir__slot *slot = pool->order.slots[i];
        if (!is_shown(pool, i)) continue;
        char name[32], live[32], idle[32], peak_live[32], peak_idle[32];
        add(text, "  %-22s %12s  %12s  %12s  %12s\n", weir__slot_name(pool, i, name, sizeof name),
            size_text(slot->live_bytes, live), size_text(slot->idle_bytes, idle),
            size_text(slot->peak_live_bytes, peak_live), size_text(slot->peak_idle_bytes, peak_idle));
    }
}

/* Requests, and the time that they and the frees have lost. */
static void add_costs(const struct weir_pool *pool, struct text *text) {
    add(text, "by stream, so far:         requests     refused   host waits   memory calls    order calls\n");
    for (uint32_t i = 0; i < pool->order.count; i++) {
        const struct weir__slot *slot = pool->order.slots[i];
        if (!is_shown(pool, i)) continue;
        char name[32];
        add(text, "  %-22s %10llu  %10llu  %8.2f ms    %8.2f ms    %8.2f ms\n",
            weir__slot_name(pool, i, name, sizeof name), (unsigned long long)(slot->allocs + slot->refusals),
            (unsigned long long)slot->refusals, (double)slot->host_wait_ns * 1e-6, (double)slot->memory_call_ns * 1e-6,
            (double)slot->order_call_ns * 1e-6);
    }
}

/* ---- what to try ------------------------------------------------------------------------------------------------ */

static void add_limit_advice(const struct weir_pool *pool, struct text *text) {
    const struct weir_pool_refusal *refusal = &pool->refusal;
    const size_t family_bytes = pool->refused_family_bytes, others_bytes = refusal->others_bytes - family_bytes;
    char room[32];
    if (family_bytes > refusal->capacity_bytes / 20)
        add(text, "  less in the other pools of the family, which share one limit: they hold %s\n",
            size_text(family_bytes, room));
    if (refusal->limit_bytes < refusal->capacity_bytes)
        add(text, "  a higher limit: beyond it the device has %s free\n", size_text(refusal->above_limit_bytes, room));
    if (pool->driver_refused)
        add(text,
            "  fewer other users of the device: the driver had no more memory, though the limit was not reached; "
            "others hold %s\n",
            size_text(others_bytes, room));
    else if (others_bytes > refusal->capacity_bytes / 20)
        add(text, "  fewer other users of the device: other pools and programs hold %s\n",
            size_text(others_bytes, room));
}

static void add_advice(const struct weir_pool *pool, struct text *text) {
    const struct weir_pool_refusal *refusal = &pool->refusal;
    size_t limit = refusal->limit_bytes;
    add(text, "what to try:\n");
    if (pool->policy->name == WEIR_POLICY_PER_STREAM && refusal->idle_others_bytes > limit / 20)
        add(text, "  policy:latency, which lets the asking stream use what is idle on other streams\n");
    if (refusal->asked_bytes > limit)
        add(text, "  a smaller request: this one alone is larger than the limit\n");
    else if (refusal->live_bytes > limit - refusal->asked_bytes)
        add(text, "  a smaller batch or shorter sequences, or the offload engine: live and asked exceed the limit\n");
    else if (pool->waited_out)
        add(text, "  a longer wait_limit than %g s, if the work that uses what is idle takes longer\n",
            (double)pool->wait_limit_ns * 1e-9);
    add_limit_advice(pool, text);
    add(text,
        "  recording the run with WEIR_TRACE=FILE and `weir-replay FILE --scan`: the smallest device that does\n");
}

size_t weir_pool_report(struct weir_pool *pool, char *text_out, size_t room) {
    struct text text = {.at = text_out, .room = text_out == NULL ? 0 : room};
    if (text.room > 0) text_out[0] = 0;
    if (pool == NULL || weir__forked()) return 0;
    const size_t free_bytes = weir__device_free_bytes(pool);
    weir__pool_lock(pool);
    weir__fronts_show(pool);
    if (pool->was_refused) add_refusal(pool, &text);
    if (pool->was_refused && pool->allocs > pool->refused_allocs)
        add(&text, "served since then: %llu requests; now\n",
            (unsigned long long)(pool->allocs - pool->refused_allocs));
    if (!pool->was_refused || pool->allocs > pool->refused_allocs) add_state(pool, free_bytes, &text);
    add_streams(pool, &text);
    add_costs(pool, &text);
    if (pool->was_refused) add_advice(pool, &text);
    weir__fronts_hide(pool);
    weir__pool_unlock(pool);
    return text.length;
}
