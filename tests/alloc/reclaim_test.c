/* SPDX-License-Identifier: Apache-2.0 */
/* Before a request is refused the program's callbacks are asked for memory: in order, with no lock held, never one inside
 * another, and what they free is reused under the rules of all other blocks. */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "support.h"

static const enum weir_policy policies[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_FOOTPRINT, WEIR_POLICY_PER_STREAM};
enum { POLICIES = sizeof policies / sizeof *policies, PAGES = 16 };

/* A cache of one block, and what was asked of it. */
struct cache {
    struct weir_pool *pool;
    void *block;
    weir_stream stream;
    unsigned calls;
    size_t wanted;
    char letter, *order; /* letters in the order of the calls */
    struct cache *drops, *adds;
};

static bool empty(void *self, struct weir_pool *pool, size_t wanted_bytes) {
    struct cache *cache = self;
    assert_ptr_equal(pool, cache->pool);
    cache->calls++;
    cache->wanted = wanted_bytes;
    if (cache->order != NULL) strncat(cache->order, &cache->letter, 1);
    if (cache->drops != NULL) OK(weir_pool_remove_reclaim(pool, empty, cache->drops));
    if (cache->adds != NULL) OK(weir_pool_add_reclaim(pool, empty, cache->adds));
    if (cache->block == NULL) return false;
    OK(weir_pool_free(pool, cache->block, cache->stream));
    cache->block = NULL;
    return true;
}

static enum weir_status try(struct weir_pool *pool, size_t bytes, weir_stream stream) {
    void *block = NULL;
    enum weir_status status = weir_pool_alloc(pool, bytes, stream, &block);
    if (status == WEIR_OK) OK(weir_pool_free(pool, block, stream));
    return status;
}

static void what_a_callback_frees_serves_the_request(void **state) {
    (void)state;
    for (size_t i = 0; i < POLICIES; i++) {
        struct weir_pool *pool = open_pool(policies[i], PAGES);
        weir_stream stream = new_stream();
        struct cache cache = {.pool = pool, .block = alloc(pool, PAGES * PAGE, stream), .stream = stream};
        OK(weir_pool_add_reclaim(pool, empty, &cache));
        assert_int_equal(try(pool, PAGES * PAGE - 5, stream), WEIR_OK);
        assert_int_equal(cache.calls, 1);
        assert_int_equal(cache.wanted, PAGES * PAGE);
        assert_int_equal(stats_of(pool).out_of_memory, 0);
        assert_int_equal(try(pool, PAGE, stream), WEIR_OK);                        /* there is room: nobody is asked */
        assert_int_equal(try(pool, PAGES * PAGE + 1, stream), WEIR_OUT_OF_MEMORY); /* there never is */
        assert_int_equal(cache.calls, 1);
        close_pool(pool);
    }
}

/* The old user is held back; the block that its cache gives up is the new one's after that. */
static void what_a_callback_frees_is_waited_for(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, PAGES);
    weir_stream old = new_stream(), fresh = new_stream();
    struct cache cache = {.pool = pool, .block = alloc(pool, PAGES * PAGE, old), .stream = old};
    struct gate *gate = put_gate(old);
    queue_fill(old, cache.block, PAGES * PAGE, 0xAA);
    OK(weir_pool_add_reclaim(pool, empty, &cache));
    void *block = alloc(pool, PAGES * PAGE, fresh);
    assert_int_equal(stats_of(pool).device_waits, 1);
    queue_fill(fresh, block, PAGES * PAGE, 0xBB);
    open_gate(gate);
    queue_check(fresh, block, PAGES * PAGE, 0xBB);
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    OK(weir_pool_free(pool, block, fresh));
    close_pool(pool);
}

static void callbacks_are_asked_in_order_until_one_helps(void **state) {
    (void)state;
    char order[16] = "";
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, PAGES);
    weir_stream stream = new_stream();
    struct cache caches[4];
    for (int i = 0; i < 4; i++) {
        caches[i] = (struct cache){.pool = pool, .stream = stream, .letter = (char)('a' + i), .order = order};
        OK(weir_pool_add_reclaim(pool, empty, &caches[i]));
    }
    assert_int_equal(weir_pool_add_reclaim(pool, empty, &caches[2]), WEIR_INVALID);
    void *rest = alloc(pool, 8 * PAGE, stream);
    caches[1].block = alloc(pool, 2 * PAGE, stream);
    caches[2].block = alloc(pool, 6 * PAGE, stream);
    assert_int_equal(try(pool, 8 * PAGE, stream), WEIR_OK); /* b does not free enough, d is not needed */
    assert_string_equal(order, "abc");
    void *all = alloc(pool, 8 * PAGE, stream);
    assert_int_equal(try(pool, PAGE, stream), WEIR_OUT_OF_MEMORY);
    assert_string_equal(order, "abcabcd");
    assert_int_equal(stats_of(pool).out_of_memory, 1);
    OK(weir_pool_free(pool, all, stream));
    OK(weir_pool_free(pool, rest, stream));
    close_pool(pool);
}

static void callbacks_come_and_go_inside_callbacks(void **state) {
    (void)state;
    char order[16] = "";
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, PAGES);
    weir_stream stream = new_stream();
    void *all = alloc(pool, PAGES * PAGE, stream);
    struct cache caches[4];
    for (int i = 0; i < 4; i++) caches[i] = (struct cache){.pool = pool, .letter = (char)('a' + i), .order = order};
    for (int i = 0; i < 3; i++) OK(weir_pool_add_reclaim(pool, empty, &caches[i]));
    caches[0].drops = &caches[0];
    caches[0].adds = &caches[3]; /* it is for later requests */
    caches[1].drops = &caches[2];
    assert_int_equal(try(pool, PAGE, stream), WEIR_OUT_OF_MEMORY);
    assert_string_equal(order, "ab");
    caches[1].drops = NULL;
    assert_int_equal(try(pool, PAGE, stream), WEIR_OUT_OF_MEMORY);
    assert_string_equal(order, "abbd");
    assert_int_equal(weir_pool_remove_reclaim(pool, empty, &caches[0]), WEIR_INVALID);
    assert_int_equal(weir_pool_add_reclaim(pool, NULL, NULL), WEIR_INVALID);
    assert_int_equal(weir_pool_add_reclaim(NULL, empty, NULL), WEIR_INVALID);
    OK(weir_pool_free(pool, all, stream));
    close_pool(pool);
}

struct greedy {
    struct weir_pool *pool, *other;
    weir_stream stream;
    unsigned calls;
};

static bool ask_for_more(void *self, struct weir_pool *pool, size_t wanted_bytes) {
    struct greedy *greedy = self;
    (void)pool;
    greedy->calls++;
    if (greedy->calls > 2) return false;
    assert_int_equal(try(greedy->pool, wanted_bytes, greedy->stream), WEIR_OUT_OF_MEMORY);
    assert_int_equal(try(greedy->other, wanted_bytes, greedy->stream), WEIR_OUT_OF_MEMORY);
    return true;
}

static void none_runs_inside_another(void **state) {
    (void)state;
    weir_stream stream = new_stream();
    struct greedy greedy = {.pool = open_pool(WEIR_POLICY_LATENCY, PAGES),
                            .other = open_pool(WEIR_POLICY_LATENCY, PAGES),
                            .stream = stream};
    void *all = alloc(greedy.pool, PAGES * PAGE, stream), *others = alloc(greedy.other, PAGES * PAGE, stream);
    OK(weir_pool_add_reclaim(greedy.pool, ask_for_more, &greedy));
    OK(weir_pool_add_reclaim(greedy.other, ask_for_more, &greedy));
    assert_int_equal(try(greedy.pool, PAGE, stream), WEIR_OUT_OF_MEMORY);
    assert_int_equal(greedy.calls, 1);
    assert_int_equal(try(greedy.other, PAGE, stream), WEIR_OUT_OF_MEMORY);
    assert_int_equal(greedy.calls, 2);
    OK(weir_pool_free(greedy.pool, all, stream));
    OK(weir_pool_free(greedy.other, others, stream));
    close_pool(greedy.pool);
    close_pool(greedy.other);
}

/* ---- families ---------------------------------------------------------------------------------------------------- */

static struct weir_pool *open_member(struct weir_pool *parent, size_t pages) {
    struct weir_sub_pool_options options = {.size = sizeof options, .limit_bytes = pages * PAGE};
    struct weir_pool *pool = NULL;
    OK(weir_pool_create_sub(parent, &options, &pool));
    return pool;
}

/* Pools b and c share what a may hold; each has a cache of its letter, and b one more. */
static void the_whole_family_is_asked(enum weir_policy policy, bool deterministic) {
    char order[32] = "";
    struct weir_pool *a;
    const struct weir_pool_options options = {.size = sizeof options,
                                              .policy = policy,
                                              .limit_bytes = PAGES * PAGE,
                                              .trace_path = "",
                                              .deterministic = deterministic};
    OK(weir_pool_create(test_device(), &options, &a));
    struct weir_pool *b = open_member(a, 0), *c = open_member(a, 4), *pools[] = {a, b, b, c};
    weir_stream stream = new_stream();
    struct cache caches[4];
    for (int i = 0; i < 4; i++) {
        caches[i] = (struct cache){.pool = pools[i], .stream = stream, .letter = "abBc"[i], .order = order};
        OK(weir_pool_add_reclaim(pools[i], empty, &caches[i]));
    }
    for (int i = 0; i < 4; i++) caches[i].block = alloc(pools[i], 4 * PAGE, stream);
    assert_int_equal(try(c, PAGE, stream), WEIR_OK);
    assert_string_equal(order, "c"); /* its own, which helps */
    caches[3].block = alloc(c, 4 * PAGE, stream);
    assert_int_equal(try(c, 5 * PAGE, stream), WEIR_OUT_OF_MEMORY); /* its own limit is short */
    assert_string_equal(order, "c");
    assert_int_equal(try(b, 11 * PAGE, stream), WEIR_OK);
    assert_string_equal(order, "cbBa");
    order[0] = 0;
    caches[0].block = alloc(a, 11 * PAGE, stream);
    void *rest = alloc(a, PAGE, stream);
    assert_int_equal(try(a, 16 * PAGE, stream), WEIR_OUT_OF_MEMORY);
    assert_string_equal(order, "abBc");
    OK(weir_pool_free(a, rest, stream));
    close_pool(c);
    close_pool(b);
    close_pool(a);
    OK(weir_stream_destroy(test_device(), stream));
}

static void callbacks_of_the_family_are_asked_after_the_pools_own(void **state) {
    (void)state;
    the_whole_family_is_asked(WEIR_POLICY_LATENCY, false);
    the_whole_family_is_asked(WEIR_POLICY_LATENCY, true);
    the_whole_family_is_asked(WEIR_POLICY_FOOTPRINT, false);
}

/* ---- several threads -------------------------------------------------------------------------------------------- */

struct held {
    struct weir_pool *pool;
    weir_stream stream;
    bool inside, go_on, ended, removed;
};

static bool get(const bool *flag) { return __atomic_load_n(flag, __ATOMIC_ACQUIRE); }
static void set(bool *flag) { __atomic_store_n(flag, true, __ATOMIC_RELEASE); }

static bool hold(void *self, struct weir_pool *pool, size_t wanted_bytes) {
    struct held *held = self;
    (void)pool;
    (void)wanted_bytes;
    set(&held->inside);
    while (!get(&held->go_on)) sched_yield();
    set(&held->ended);
    return false;
}

static void *ask(void *argument) {
    struct held *held = argument;
    assert_int_equal(try(held->pool, PAGES * PAGE, held->stream), WEIR_OUT_OF_MEMORY);
    return NULL;
}

static void *remove_it(void *argument) {
    struct held *held = argument;
    OK(weir_pool_remove_reclaim(held->pool, hold, held));
    assert_true(get(&held->ended));
    set(&held->removed);
    return NULL;
}

static void while_one_runs(struct weir_pool *pool) {
    struct held held = {.pool = pool, .stream = new_stream()};
    void *block = alloc(pool, PAGE, held.stream);
    pthread_t asker, remover;
    OK(weir_pool_add_reclaim(pool, hold, &held));
    assert_int_equal(pthread_create(&asker, NULL, ask, &held), 0);
    while (!get(&held.inside)) sched_yield();
    OK(weir_pool_free(pool, alloc(pool, PAGE, held.stream), held.stream)); /* neither a lock nor a turn is held */
    assert_int_equal(pthread_create(&remover, NULL, remove_it, &held), 0);
    for (int i = 0; i < 2000; i++) {
        sched_yield();
        assert_false(get(&held.removed));
    }
    OK(weir_pool_free(pool, block, held.stream));
    set(&held.go_on);
    pthread_join(asker, NULL);
    pthread_join(remover, NULL);
    close_pool(pool);
}

static void a_removed_callback_runs_no_more_and_others_go_on_while_it_does(void **state) {
    (void)state;
    while_one_runs(open_pool(WEIR_POLICY_LATENCY, PAGES));
    struct weir_pool *pool;
    struct weir_pool_options options = {
        .size = sizeof options, .limit_bytes = PAGES * PAGE, .trace_path = "", .deterministic = true};
    OK(weir_pool_create(test_device(), &options, &pool));
    while_one_runs(pool);
}

/* ---- deterministic mode ----------------------------------------------------------------------------------------- */

enum { CACHES = 6, REQUESTS = 400 };

/* Offsets of all blocks, of a program whose caches give up their blocks when memory is short. */
static void run_program(uint64_t seed, size_t offsets[REQUESTS]) {
    struct weir_pool *pool;
    struct weir_pool_options options = {
        .size = sizeof options, .limit_bytes = PAGES * PAGE, .trace_path = "", .deterministic = true};
    OK(weir_pool_create(test_device(), &options, &pool));
    weir_stream streams[2] = {new_stream(), new_stream()};
    struct cache caches[CACHES];
    unsigned calls = 0;
    for (int i = 0; i < CACHES; i++) {
        caches[i] = (struct cache){.pool = pool, .stream = streams[i % 2]};
        OK(weir_pool_add_reclaim(pool, empty, &caches[i]));
    }
    for (int i = 0; i < REQUESTS; i++) {
        struct cache *cache = &caches[draw(&seed) % CACHES];
        if (cache->block != NULL) OK(weir_pool_free(pool, cache->block, cache->stream));
        cache->block = NULL;
        const size_t bytes = (1 + draw(&seed) % 8) * PAGE;
        void *block = alloc(pool, bytes, cache->stream);
        queue_fill(cache->stream, block, bytes, (unsigned char)i);
        cache->block = block;
        offsets[i] = (uintptr_t)block - pool->pages.arena;
    }
    for (int i = 0; i < CACHES; i++) {
        calls += caches[i].calls;
        OK(weir_pool_free(pool, caches[i].block, caches[i].stream));
    }
    assert_true(calls > 20);
    OK(weir_device_synchronize(test_device()));
    close_pool(pool);
}

static void in_deterministic_mode_addresses_are_the_same_again(void **state) {
    (void)state;
    size_t once[REQUESTS], again[REQUESTS];
    const uint64_t seed = seed_of(8);
    run_program(seed, once);
    for (int i = 0; i < 3; i++) {
        run_program(seed, again);
        assert_memory_equal(once, again, sizeof once);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_callback_frees_serves_the_request),
        cmocka_unit_test(what_a_callback_frees_is_waited_for),
        cmocka_unit_test(callbacks_are_asked_in_order_until_one_helps),
        cmocka_unit_test(callbacks_come_and_go_inside_callbacks),
        cmocka_unit_test(none_runs_inside_another),
        cmocka_unit_test(callbacks_of_the_family_are_asked_after_the_pools_own),
        cmocka_unit_test(a_removed_callback_runs_no_more_and_others_go_on_while_it_does),
        cmocka_unit_test(in_deterministic_mode_addresses_are_the_same_again),
    };
    return cmocka_run_group_tests_name("reclaim", tests, NULL, NULL);
}
