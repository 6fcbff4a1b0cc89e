/* SPDX-License-Identifier: Apache-2.0 */
/* Promise 4: from the third of the same iterations on, no memory call and no host wait, on a device that is nearly full. Where an
 * iteration differs it is served as any other, and what repeats after it keeps the promise again. */
#include <stdlib.h>

#include "support.h"

enum { PAGES = 96, ROOM = 92, STREAMS = 3, BLOCKS = 20, REQUESTS = 120, PASSES = 6, SEEDS = 16 };

/* ---- programs of passes ------------------------------------------------------------------------------------------ */

/* One request or free of a pass: `bytes` 0 for a free. */
struct act {
    unsigned block, stream;
    size_t bytes;
};

struct pass {
    struct act acts[3 * REQUESTS];
    size_t count;
};

/* Whole pages, so many at a time that the pool is nearly full; all is given back in the end. */
static struct pass draw_pass(uint64_t seed, size_t room) {
    struct pass pass = {.count = 0};
    size_t pages[BLOCKS] = {0}, live = 0;
    unsigned streams[BLOCKS] = {0};
    uint64_t chance = seed * 2 + 1;
    for (int requests = 0; requests < REQUESTS;) {
        const unsigned block = (unsigned)(draw(&chance) % BLOCKS);
        const size_t wanted = 1 + draw(&chance) % (draw(&chance) % 4 == 0 ? 40 : 8);
        if (pages[block] == 0 && live + wanted > room) continue;
        if (pages[block] == 0) {
            streams[block] = (unsigned)(draw(&chance) % STREAMS);
            pages[block] = wanted;
            live += wanted;
            requests++;
            pass.acts[pass.count++] = (struct act){block, streams[block], wanted * PAGE};
        } else if (draw(&chance) % 2 == 0) {
            live -= pages[block];
            pages[block] = 0;
            pass.acts[pass.count++] = (struct act){block, streams[block], 0};
        }
    }
    for (unsigned block = 0; block < BLOCKS; block++)
        if (pages[block] > 0) pass.acts[pass.count++] = (struct act){block, streams[block], 0};
    return pass;
}

struct job {
    struct weir_pool *pool;
    weir_stream streams[STREAMS];
    unsigned char *blocks[BLOCKS];
    size_t bytes[BLOCKS];
    void *kept[4];
};

/* With a few blocks that stay, and holes between them. */
static struct job open_job(void) {
    struct job job = {.pool = open_pool(WEIR_POLICY_LATENCY, PAGES)};
    for (int i = 0; i < STREAMS; i++) job.streams[i] = new_stream();
    for (int i = 0; i < 4; i++) {
        void *hole = alloc(job.pool, (size_t)(5 + 3 * i) * PAGE, job.streams[0]);
        job.kept[i] = alloc(job.pool, PAGE, job.streams[0]);
        OK(weir_pool_free(job.pool, hole, job.streams[0]));
    }
    return job;
}

static void close_job(struct job *job) {
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    for (int i = 0; i < 4; i++) OK(weir_pool_free(job->pool, job->kept[i], job->streams[0]));
    close_pool(job->pool);
    for (int i = 0; i < STREAMS; i++) OK(weir_stream_destroy(test_device(), job->streams[i]));
}

static void run_pass(struct job *job, const struct pass *pass) {
    OK(weir_pool_mark_iteration(job->pool));
    for (size_t i = 0; i < pass->count; i++) {
        const struct act *act = &pass->acts[i];
        const unsigned char value = (unsigned char)(1 + i % 250);
        unsigned char **block = &job->blocks[act->block];
        if (act->bytes > 0) {
            *block = alloc(job->pool, act->bytes, job->streams[act->stream]);
            job->bytes[act->block] = act->bytes;
            queue_fill(job->streams[act->stream], *block, act->bytes, value);
            queue_check(job->streams[act->stream], *block, act->bytes, value);
        } else {
            OK(weir_pool_free(job->pool, *block, job->streams[act->stream]));
        }
    }
}

/* Memory calls and host waits that some passes of one kind make. */
static uint64_t cost_of(struct job *job, const struct pass *pass, int passes) {
    const struct weir_pool_stats before = stats_of(job->pool);
    for (int i = 0; i < passes; i++) run_pass(job, pass);
    OK(weir_pool_check(job->pool));
    const struct weir_pool_stats after = stats_of(job->pool);
    return after.memory_calls - before.memory_calls + after.host_waits - before.host_waits;
}

static void from_the_third_of_the_same_no_memory_call_is_made(void **state) {
    (void)state;
    uint64_t learning = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct job job = open_job();
        const struct pass pass = draw_pass(seed, ROOM);
        cost_of(&job, &pass, 1);
        learning += cost_of(&job, &pass, 1);
        const uint64_t cost = cost_of(&job, &pass, PASSES - 2);
        if (cost > 0) fail_msg("seed %d: %d calls", (int)seed, (int)cost);
        close_job(&job);
    }
    assert_true(learning > SEEDS * 10); /* else it was too easy */
}

static void a_pass_that_differs_is_served_and_the_promise_kept_again(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct job job = open_job();
        struct pass usual = draw_pass(seed, ROOM), other = usual;
        const struct pass unlike = draw_pass(seed + SEEDS, ROOM);
        for (size_t i = other.count / 2; i < other.count; i++) /* the second half asks for less */
            if (other.acts[i].bytes > PAGE) other.acts[i].bytes -= PAGE;
        cost_of(&job, &usual, 3);
        cost_of(&job, &other, 1);
        cost_of(&job, &usual, 2);
        assert_int_equal(cost_of(&job, &usual, 2), 0);
        cost_of(&job, &unlike, 2);
        assert_int_equal(cost_of(&job, &unlike, 2), 0);
        close_job(&job);
    }
}

/* What a pass makes the next one gives back, after that has made its own: the places of two passes take turns, so each is learned. */
static void blocks_that_outlive_their_pass_keep_it_too(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct job job = open_job();
        const struct pass pass = draw_pass(seed, ROOM - 12);
        void *last = NULL;
        uint64_t calls = 0;
        for (int i = 0; i < PASSES + 2; i++) {
            if (i == 4) calls = stats_of(job.pool).memory_calls;
            run_pass(&job, &pass);
            void *next = alloc(job.pool, 6 * PAGE, job.streams[1]);
            OK(weir_pool_free(job.pool, last, job.streams[1]));
            last = next;
        }
        assert_int_equal(stats_of(job.pool).memory_calls, calls);
        OK(weir_pool_free(job.pool, last, job.streams[1]));
        close_job(&job);
    }
}

/* ---- order -------------------------------------------------------------------------------------------------------- */

/* Both streams use all there is, one after the other. In the last pass the first one stands at a gate. */
static void a_planned_place_is_given_behind_those_that_used_it_last(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 4);
    weir_stream s0 = new_stream(), s1 = new_stream();
    struct gate *gate = NULL;
    unsigned char *second = NULL;
    for (int pass = 0; pass < 4; pass++) {
        const unsigned fills = fills_run();
        OK(weir_pool_mark_iteration(pool));
        unsigned char *first = alloc(pool, 4 * PAGE, s0);
        if (pass == 3) gate = put_gate(s0);
        queue_fill(s0, first, 4 * PAGE, 0xAA);
        OK(weir_pool_free(pool, first, s0));
        second = alloc(pool, 4 * PAGE, s1);
        assert_ptr_equal(first, second);
        queue_fill(s1, second, 4 * PAGE, 0xBB);
        if (pass == 3) {
            let_mutant_run(fills + 1);
            assert_int_equal(fills_run(), fills + (is_mutant() ? 1 : 0));
            open_gate(gate);
        }
        queue_check(s1, second, 4 * PAGE, 0xBB);
        OK(weir_pool_free(pool, second, s1));
        OK(weir_device_synchronize(test_device()));
    }
    assert_int_equal(wrong_bytes(), 0);
    assert_int_equal(stats_of(pool).host_waits, 0);
    close_pool(pool);
    OK(weir_stream_destroy(test_device(), s0));
    OK(weir_stream_destroy(test_device(), s1));
}

/* ---- what is kept ------------------------------------------------------------------------------------------------- */

static void without_marks_nothing_is_kept(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 4);
    weir_stream s0 = new_stream();
    for (int i = 0; i < 100; i++) OK(weir_pool_free(pool, alloc(pool, PAGE, s0), s0));
    assert_int_equal(pool->plan.now.room + pool->plan.before.room, 0);
    close_pool(pool);
    OK(weir_stream_destroy(test_device(), s0));
}

/* Fronts serve without the pool's lock where nothing is written down. */
static void where_no_memory_call_is_made_nothing_is_learned(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 16);
    weir_stream s0 = new_stream();
    for (int pass = 0; pass < 6; pass++) {
        OK(weir_pool_mark_iteration(pool));
        assert_int_equal(pool->plan.records, pass < 2); /* in the first pages are taken */
        assert_int_equal(pool->fronts.recorded, pass < 2);
        assert_false(pool->fronts.shut);
        void *blocks[2] = {alloc(pool, 2 * PAGE, s0), alloc(pool, (size_t)(2 - pass % 2) * PAGE, s0)};
        for (int i = 0; i < 2; i++) OK(weir_pool_free(pool, blocks[i], s0));
        assert_true(weir__fronts_keep_any(pool));
    }
    close_pool(pool);
    OK(weir_stream_destroy(test_device(), s0));
}

/* Fronts go by no plan: they are shut while one is followed, until a request differs. */
static void what_a_front_serves_is_written_down_too(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 16);
    weir_stream s0 = new_stream();
    for (int pass = 0; pass < 4; pass++) {
        OK(weir_pool_mark_iteration(pool));
        assert_int_equal(pool->fronts.shut, pass >= 2);
        for (int i = 0; i < 3; i++) OK(weir_pool_free(pool, alloc(pool, PAGE, s0), s0));
        assert_int_equal(pool->plan.now.count, 3);
        assert_int_equal(weir__fronts_keep_any(pool), pass < 2);
    }
    for (int i = 0; i < 2; i++) OK(weir_pool_free(pool, alloc(pool, 2 * PAGE, s0), s0));
    assert_false(pool->fronts.shut);
    assert_true(weir__fronts_keep_any(pool));
    close_pool(pool);
    OK(weir_stream_destroy(test_device(), s0));
}

static void a_pass_that_is_too_long_is_no_plan(void **state) {
    (void)state;
    struct weir__plan plan = {0};
    uint64_t calls = 0;
    for (int pass = 0; pass < 3; pass++) {
        weir__plan_turn(&plan, ++calls);
        for (size_t i = 0; i <= WEIR__MOST_PLANNED; i++) weir__plan_add(&plan, 512, 1, 4096);
    }
    assert_int_equal(plan.now.count, WEIR__MOST_PLANNED);
    weir__plan_turn(&plan, ++calls);
    assert_null(weir__plan_next(&plan, 512, 1));
    for (int pass = 0; pass < 2; pass++) {
        weir__plan_add(&plan, 1024, 1, 8192);
        weir__plan_turn(&plan, ++calls);
    }
    assert_int_equal(weir__plan_next(&plan, 1024, 1)->address, 8192);
    assert_null(weir__plan_next(&plan, 512, 1));
    assert_null(weir__plan_next(&plan, 1024, 2));
    weir__plan_clear(&plan);
}

/* One pass of a single request, which makes so many memory calls. */
static void plan_pass(struct weir__plan *plan, size_t bytes, uint64_t *all, uint64_t calls) {
    weir__plan_turn(plan, *all);
    weir__plan_add(plan, bytes, 1, 4096);
    *all += calls;
}

/* Whether such a pass makes calls may hang on what is complete when it asks. */
static void a_pass_that_differs_and_makes_no_call_ends_no_learning(void **state) {
    (void)state;
    for (uint64_t after = 0; after < 2; after++) { /* calls of the first that is as usual again */
        struct weir__plan plan = {0};
        uint64_t calls = 0;
        plan_pass(&plan, 512, &calls, 1);
        plan_pass(&plan, 512, &calls, 1);
        plan_pass(&plan, 512, &calls, 0);
        plan_pass(&plan, 1024, &calls, 0);
        plan_pass(&plan, 512, &calls, after);
        plan_pass(&plan, 512, &calls, 1);
        weir__plan_turn(&plan, calls);
        assert_non_null(weir__plan_next(&plan, 512, 1));
        weir__plan_clear(&plan);
    }
}

int main(void) {
    setenv("WEIR_EMU", "watch:abort", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_the_third_of_the_same_no_memory_call_is_made),
        cmocka_unit_test(a_pass_that_differs_is_served_and_the_promise_kept_again),
        cmocka_unit_test(blocks_that_outlive_their_pass_keep_it_too),
        cmocka_unit_test(a_planned_place_is_given_behind_those_that_used_it_last),
        cmocka_unit_test(without_marks_nothing_is_kept),
        cmocka_unit_test(where_no_memory_call_is_made_nothing_is_learned),
        cmocka_unit_test(what_a_front_serves_is_written_down_too),
        cmocka_unit_test(a_pass_that_is_too_long_is_no_plan),
        cmocka_unit_test(a_pass_that_differs_and_makes_no_call_ends_no_learning),
    };
    return cmocka_run_group_tests_name("iterations that repeat", tests, NULL, NULL);
}
