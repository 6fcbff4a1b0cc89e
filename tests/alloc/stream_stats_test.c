/* SPDX-License-Identifier: Apache-2.0 */
/* What is told by stream says who caused what, adds up to what is told of the pool, and fits the caller's header. */
#include <stdlib.h>
#include <string.h>

#include "support.h"

enum { MOST = 64 };

static struct weir_stream_stats of_stream(struct weir_pool *pool, weir_stream stream) {
    struct weir_stream_stats stats[MOST] = {{.size = sizeof *stats}};
    size_t count = 0;
    OK(weir_pool_get_stream_stats(pool, stats, MOST, &count));
    for (size_t i = 0; i < count; i++)
        if (!stats[i].destroyed && stats[i].stream == stream) return stats[i];
    return (struct weir_stream_stats){0};
}

static struct weir_stream_stats sum_of(struct weir_pool *pool) {
    struct weir_stream_stats stats[MOST] = {{.size = sizeof *stats}}, sum = {0};
    size_t count = 0;
    OK(weir_pool_get_stream_stats(pool, stats, MOST, &count));
    assert_true(count <= MOST);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(stats[i].size, sizeof stats[i]);
#define ADD(type, name, text) sum.name += stats[i].name;
        WEIR_STREAM_STATS_LIST(ADD)
#undef ADD
    }
    return sum;
}

/* `own`: what the pool did for no stream: its making and trims. */
static void check_sums(struct weir_pool *pool, const struct weir_pool_stats *own) {
    const struct weir_stream_stats sum = sum_of(pool);
    const struct weir_pool_stats stats = stats_of(pool);
    assert_int_equal(sum.live_bytes, stats.live_bytes);
    assert_int_equal(sum.idle_bytes, stats.idle_bytes);
    assert_int_equal(sum.allocs, stats.allocs);
    assert_int_equal(sum.frees, stats.frees);
    assert_int_equal(sum.refusals, stats.out_of_memory);
    assert_int_equal(sum.device_waits, stats.device_waits);
    assert_int_equal(sum.host_waits + own->host_waits, stats.host_waits);
    assert_int_equal(sum.host_wait_ns + own->host_wait_ns, stats.host_wait_ns);
    assert_int_equal(sum.pages_moved, stats.pages_moved);
    assert_int_equal(sum.memory_calls + own->memory_calls, stats.memory_calls);
    assert_int_equal(sum.memory_call_ns + own->memory_call_ns, stats.memory_call_ns);
    assert_int_equal(sum.order_calls + own->order_calls, stats.order_calls);
    assert_int_equal(sum.order_call_ns + own->order_call_ns, stats.order_call_ns);
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

struct program {
    struct weir_pool *pool;
    weir_stream streams[4];
    weir_event event;
    void *blocks[60];
    unsigned homes[60]; /* streams by number */
    uint64_t chance;
};

/* The stream that frees runs after the one that had the block. */
static void free_one(struct program *program, unsigned i, weir_stream stream) {
    OK(weir_event_record(test_device(), program->event, program->streams[program->homes[i]]));
    OK(weir_stream_wait(test_device(), stream, program->event));
    if (draw(&program->chance) % 4 == 0)
        OK(weir_pool_note(program->pool, program->blocks[i], program->streams[draw(&program->chance) % 4]));
    if (draw(&program->chance) % 8 == 0) {
        OK(weir_event_record(test_device(), program->event, stream));
        OK(weir_pool_free_after(program->pool, program->blocks[i], program->event));
    } else {
        OK(weir_pool_free(program->pool, program->blocks[i], stream));
    }
    program->blocks[i] = NULL;
}

static void renew(weir_stream *stream) {
    OK(weir_stream_synchronize(test_device(), *stream));
    OK(weir_stream_destroy(test_device(), *stream));
    *stream = new_stream();
}

static void step(struct program *program) {
    const unsigned home = (unsigned)(draw(&program->chance) % 4), i = (unsigned)(draw(&program->chance) % 60);
    if (draw(&program->chance) % 200 == 0) renew(&program->streams[home]);
    if (program->blocks[i] != NULL) {
        free_one(program, i, program->streams[home]);
        return;
    }
    const size_t bytes = draw(&program->chance) % ((size_t)1024 << draw(&program->chance) % 8);
    const enum weir_status status = weir_pool_alloc(program->pool, bytes, program->streams[home], &program->blocks[i]);
    assert_true(status == WEIR_OK || status == WEIR_OUT_OF_MEMORY);
    program->homes[i] = home;
}

static void trim(struct program *program, struct weir_pool_stats *own) {
    const struct weir_pool_stats before = stats_of(program->pool);
    OK(weir_pool_trim(program->pool, 40 * PAGE));
    const struct weir_pool_stats after = stats_of(program->pool);
#define ADD(type, name, text) own->name += after.name - before.name;
    WEIR_POOL_STATS_LIST(ADD)
#undef ADD
}

/* What a thread spends for one pool is not another one's. */
static void make_another_pool(void) { close_pool(open_pool(WEIR_POLICY_LATENCY, 8)); }

static struct weir_pool_stats run(enum weir_policy policy, bool deterministic) {
    struct program program = {.chance = seed_of(11)};
    struct weir_pool_options options = {.size = sizeof options,
                                        .policy = policy,
                                        .limit_bytes = 70 * PAGE,
                                        .wait_limit_ns = 2000000000u,
                                        .trace_path = "",
                                        .deterministic = deterministic};
    OK(weir_pool_create(test_device(), &options, &program.pool));
    struct weir_pool_stats own = stats_of(program.pool);
    assert_true(own.memory_calls > 0 && own.memory_call_ns > 0);
    for (int i = 0; i < 4; i++) program.streams[i] = new_stream();
    OK(weir_event_create(test_device(), false, &program.event));
    for (int i = 0; i < 4000; i++) {
        step(&program);
        if (i % 500 == 499) trim(&program, &own);
        if (i % 1000 == 0) make_another_pool();
        if (i % 100 == 0) check_sums(program.pool, &own);
    }
    check_sums(program.pool, &own);
    const struct weir_pool_stats stats = stats_of(program.pool);
    close_pool(program.pool);
    OK(weir_event_destroy(test_device(), program.event));
    return stats;
}

static void sums_over_streams_are_the_pools(void **state) {
    (void)state;
    static const enum weir_policy policies[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_FOOTPRINT, WEIR_POLICY_PER_STREAM};
    uint64_t refused = 0, moved = 0, ordered = 0, waited = 0, freed = 0; /* in one run or another, as their work ends */
    for (int i = 0; i < 6; i++) {
        const struct weir_pool_stats stats = run(policies[i / 2], i % 2 == 1);
        refused += stats.out_of_memory;
        moved += stats.pages_moved;
        ordered += stats.order_calls;
        waited += stats.host_waits;
        freed += stats.frees;
    }
    assert_true(refused > 0 && moved > 0 && ordered > 0 && waited > 0 && freed > 6000);
}

/* ---- who caused what --------------------------------------------------------------------------------------------- */

static void calls_are_told_of_the_stream_that_needed_them(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_FOOTPRINT, 20);
    weir_stream giver = new_stream(), asker = new_stream();
    void *given = alloc(pool, 8 * PAGE, giver);
    const struct weir_stream_stats first = of_stream(pool, giver);
    assert_int_equal(first.allocs, 1);
    assert_true(first.memory_calls > 8 && first.memory_call_ns > 0);
    assert_int_equal(first.memory_calls, sum_of(pool).memory_calls);
    struct gate *gate = put_gate(giver);
    OK(weir_pool_free(pool, given, giver));
    assert_ptr_equal(alloc(pool, 8 * PAGE, asker), given);
    struct weir_stream_stats asked = of_stream(pool, asker), gave = of_stream(pool, giver);
    assert_int_equal(asked.device_waits, 1);
    assert_int_equal(asked.order_calls, 2); /* a mark on the giver's stream, and the wait for it */
    assert_true(asked.order_call_ns > 0);
    assert_int_equal(asked.memory_calls, 0);
    assert_int_equal(gave.order_calls, 0);
    assert_int_equal(gave.frees, 1);
    OK(weir_pool_note(pool, given, asker));
    OK(weir_pool_free(pool, given, giver)); /* whose free it is does not matter, but whose block it was */
    assert_int_equal(of_stream(pool, asker).frees, 1);
    open_gate(gate);
    close_pool(pool);
}

static void a_shortage_is_told_of_the_stream_that_was_short(void **state) {
    (void)state;
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {
        .size = sizeof options, .limit_bytes = HALVES_PAGES * PAGE, .wait_limit_ns = 3000000u, .trace_path = ""};
    OK(weir_pool_create(test_device(), &options, &pool));
    weir_stream giver = new_stream(), other = new_stream(), asker = new_stream();
    struct halves halves = make_halves(pool, giver, other);
    void *none = NULL, *own = alloc(pool, PAGE, asker);
    OK(weir_pool_free(pool, own, asker)); /* is not stranded: it is the asker's */
    struct gate *gate = put_gate(giver);
    OK(weir_pool_free(pool, halves.first, giver));
    OK(weir_pool_free(pool, halves.second, other));
    assert_int_equal(weir_pool_alloc(pool, HALVES_ASKED * PAGE, asker, &none),
                     WEIR_OUT_OF_MEMORY); /* the gate outlasts the limit */
    struct weir_stream_stats asked = of_stream(pool, asker);
    assert_int_equal(asked.refusals, 1);
    assert_int_equal(asked.host_waits, 1);
    assert_true(asked.host_wait_ns >= 3000000u);
    assert_int_equal(asked.stranded_bytes, 3 * PAGE);
    assert_int_equal(asked.pages_moved, 0);
    open_gate(gate);
    OK(weir_stream_synchronize(test_device(), giver));
    alloc(pool, HALVES_ASKED * PAGE, asker);
    asked = of_stream(pool, asker);
    assert_true(asked.pages_moved > 0 && asked.memory_calls > 0);
    assert_int_equal(asked.peak_stranded_bytes, 3 * PAGE);
    const struct weir_stream_stats gave = of_stream(pool, giver);
    assert_true(gave.pages_moved == 0 && gave.host_waits == 0 && gave.refusals == 0 && gave.stranded_bytes == 0);
    assert_int_equal(gave.allocs, 2);
    close_pool(pool);
}

static void what_a_destroyed_stream_counted_is_kept(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 20);
    const struct weir_pool_stats own = stats_of(pool);
    weir_stream stream = new_stream(), kept = new_stream();
    void *block = alloc(pool, 3 * PAGE, stream), *left = alloc(pool, PAGE, stream);
    OK(weir_pool_free(pool, block, stream));
    OK(weir_stream_synchronize(test_device(), stream));
    OK(weir_stream_destroy(test_device(), stream));
    alloc(pool, PAGE, kept); /* the pool makes room for it */
    struct weir_stream_stats stats[2] = {{.size = sizeof *stats}};
    size_t count = 0;
    OK(weir_pool_get_stream_stats(pool, stats, 2, &count));
    assert_int_equal(count, 2);
    assert_true(stats[0].destroyed && stats[0].stream == NULL && !stats[1].destroyed);
    assert_string_equal(stats[0].name, "destroyed streams");
    assert_int_equal(stats[0].allocs, 2);
    assert_int_equal(stats[0].frees, 1);
    assert_int_equal(stats[0].live_bytes, PAGE);
    assert_int_equal(stats[0].peak_live_bytes, PAGE);
    assert_int_equal(stats[1].allocs, 1);
    check_sums(pool, &own);
    OK(weir_pool_free(pool, left, kept));
    check_sums(pool, &own);
    close_pool(pool);
}

/* ---- the caller's header ----------------------------------------------------------------------------------------- */

static void entries_are_as_large_as_the_caller_says(void **state) {
    (void)state;
    static const size_t sizes[] = {offsetof(struct weir_stream_stats, live_bytes),
                                   offsetof(struct weir_stream_stats, allocs), sizeof(struct weir_stream_stats),
                                   sizeof(struct weir_stream_stats) + 5 * sizeof(uint64_t)};
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 20);
    weir_stream streams[3] = {new_stream(), new_stream(), new_stream()};
    for (size_t i = 0; i < 3; i++) alloc(pool, (i + 1) * PAGE, streams[i]);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const size_t size = sizes[s], whole = sizeof(struct weir_stream_stats);
        unsigned char *room = malloc(4 * size); /* exactly; the last entry is not asked for */
        size_t count = 0;
        assert_non_null(room);
        memset(room, 0xee, 4 * size);
        memcpy(room, &size, sizeof size);
        OK(weir_pool_get_stream_stats(pool, (void *)room, 3, &count));
        assert_int_equal(count, 3);
        for (size_t i = 0; i < 3; i++) {
            struct weir_stream_stats entry = {0};
            memcpy(&entry, room + i * size, size < whole ? size : whole);
            assert_int_equal(entry.size, size);
            assert_ptr_equal(entry.stream, streams[i]);
            if (size > offsetof(struct weir_stream_stats, live_bytes))
                assert_int_equal(entry.live_bytes, (i + 1) * PAGE);
            for (size_t at = whole; at < size; at++) assert_int_equal(room[i * size + at], 0);
        }
        for (size_t at = 3 * size; at < 4 * size; at++) assert_int_equal(room[at], 0xee);
        free(room);
    }
    close_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_over_streams_are_the_pools),
        cmocka_unit_test(calls_are_told_of_the_stream_that_needed_them),
        cmocka_unit_test(a_shortage_is_told_of_the_stream_that_was_short),
        cmocka_unit_test(what_a_destroyed_stream_counted_is_kept),
        cmocka_unit_test(entries_are_as_large_as_the_caller_says),
    };
    return cmocka_run_group_tests_name("stream_stats", tests, NULL, NULL);
}
