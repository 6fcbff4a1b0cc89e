/* SPDX-License-Identifier: Apache-2.0 */
/* A pool and its sub-pools hold together what the parent's limit allows: each has its own limit, what one has idle is there for
 * all, after its last use, and nothing is refused that the family could serve. */
#include <pthread.h>
#include <sched.h>

#include "support.h"
#include "tests/sanitized.h"

static const enum weir_policy policies[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_FOOTPRINT, WEIR_POLICY_PER_STREAM};
enum { POLICIES = sizeof policies / sizeof *policies, PAGES = 64 };

static struct weir_pool *open_sub(struct weir_pool *parent, size_t pages) {
    struct weir_pool *pool = NULL;
    struct weir_sub_pool_options options = {.size = sizeof options, .limit_bytes = pages * PAGE};
    OK(weir_pool_create_sub(parent, &options, &pool));
    return pool;
}

static void without_options_a_sub_pool_has_its_parents_limit(void **state) {
    (void)state;
    struct weir_pool *parent = open_pool(WEIR_POLICY_LATENCY, PAGES), *sub;
    OK(weir_pool_create_sub(parent, NULL, &sub));
    assert_int_equal(stats_of(sub).limit_bytes, PAGES * PAGE);
    assert_string_equal(sub->name, "sub-pool");
    close_pool(sub);
    close_pool(parent);
}

static void refused(struct weir_pool *pool, size_t bytes, weir_stream stream) {
    struct weir_pool_refusal refusal = {.size = sizeof refusal};
    void *none = pool;
    assert_int_equal(weir_pool_alloc(pool, bytes, stream, &none), WEIR_OUT_OF_MEMORY);
    assert_null(none);
    OK(weir_pool_get_refusal(pool, &refusal));
    assert_int_equal(refusal.live_bytes + refusal.idle_asker_bytes + refusal.idle_others_bytes + refusal.moving_bytes +
                         refusal.unmapped_bytes + refusal.untaken_bytes + refusal.others_bytes +
                         refusal.above_limit_bytes,
                     refusal.capacity_bytes);
    OK(weir_pool_check(pool));
}

static void each_keeps_its_limit_and_all_keep_the_parents(void **state) {
    (void)state;
    for (size_t i = 0; i < POLICIES; i++) {
        struct weir_pool *parent = open_pool(policies[i], PAGES), *sub = open_sub(parent, 20),
                         *all = open_sub(parent, 0);
        weir_stream stream = new_stream();
        assert_int_equal(stats_of(all).limit_bytes, PAGES * PAGE);
        void *mine = alloc(sub, 20 * PAGE, stream);
        refused(sub, PAGE, stream);
        void *rest = alloc(parent, 40 * PAGE, stream); /* all but what the sub-pools hold */
        refused(parent, 10 * PAGE, stream);
        refused(all, 10 * PAGE, stream);
        assert_int_equal(stats_of(sub).held_bytes, 20 * PAGE);
        assert_int_equal(stats_of(parent).held_bytes, 40 * PAGE);
        OK(weir_pool_free(parent, rest, stream));
        rest = alloc(all, 40 * PAGE, stream);
        assert_int_equal(stats_of(all).live_bytes, 40 * PAGE);
        assert_int_equal(weir_pool_free(parent, rest, stream), WEIR_INVALID); /* it is not the parent's */
        OK(weir_pool_free(all, rest, stream));
        OK(weir_pool_free(sub, mine, stream));
        OK(weir_device_synchronize(test_device()));
        close_pool(sub);
        close_pool(all);
        close_pool(parent);
    }
}

/* What a sub-pool holds when it is destroyed is the family's again. */
static void what_a_sub_pool_left_is_there_for_the_others(void **state) {
    (void)state;
    struct weir_pool *parent = open_pool(WEIR_POLICY_LATENCY, PAGES), *sub = open_sub(parent, 0);
    weir_stream stream = new_stream();
    alloc(sub, PAGES * PAGE, stream);
    refused(parent, PAGE, stream);
    close_pool(sub);
    OK(weir_pool_free(parent, alloc(parent, PAGES * PAGE, stream), stream));
    close_pool(parent);
}

struct opener {
    struct weir_pool *pool;
    struct gate *gate;
};

/* Below the limit, where other processes have the rest of the device: what the driver refuses is asked of the family. */
static void where_others_have_the_rest_the_family_is_asked(void **state) {
    (void)state;
    enum { KINDS = 3 };
    weir_stream a = new_stream();
    for (int kind = 0; kind < KINDS; kind++) {
        const enum weir_policy policy = kind == 2 ? WEIR_POLICY_PER_STREAM : WEIR_POLICY_LATENCY;
        const size_t bytes = kind == 2 ? 64 * PAGE : 4 * PAGE;
        struct weir_pool *parent = open_pool(policy, 8 * bytes / PAGE), *sub = open_sub(parent, 0);
        size_t free_bytes, all_bytes;
        void *block = NULL;
        OK(weir_pool_free(sub, alloc(sub, bytes + PAGE, a), a));
        OK(weir_stream_synchronize(test_device(), a));
        OK(weir_device_memory(test_device(), &free_bytes, &all_bytes));
        assert_int_equal(test_device()->driver->emu_others(test_device()->handle, free_bytes - PAGE), CUDA_SUCCESS);
        OK(kind == 1 ? weir_pool_alloc_exportable(parent, bytes, a, &block)
                     : weir_pool_alloc(parent, bytes, a, &block));
        assert_true(stats_of(sub).held_bytes < bytes);
        assert_int_equal(stats_of(parent).out_of_memory, 0);
        OK(weir_pool_free(parent, block, a));
        assert_int_equal(test_device()->driver->emu_others(test_device()->handle, 0), CUDA_SUCCESS);
        close_pool(sub);
        close_pool(parent);
    }
}

static void *open_when_waiting(void *argument) {
    struct opener *opener = argument;
    const uint64_t until_ns = now_ns() + 1000000000u;
    while (stats_of(opener->pool).host_waits == 0 && now_ns() < until_ns) sched_yield();
    open_gate(opener->gate);
    return NULL;
}

/* The watch would see the pages go from under the fill. */
static void what_is_idle_but_in_use_is_waited_for(void **state) {
    (void)state;
    struct weir_pool *parent = open_pool(WEIR_POLICY_LATENCY, PAGES), *sub = open_sub(parent, 0);
    weir_stream writer = new_stream(), stream = new_stream();
    void *old = alloc(parent, PAGES * PAGE, writer);
    struct gate *gate = put_gate(writer);
    queue_fill(writer, old, PAGES * PAGE, 0xAA);
    queue_check(writer, old, PAGES * PAGE, 0xAA);
    OK(weir_pool_free(parent, old, writer));
    struct opener opener = {.pool = sub, .gate = gate};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, open_when_waiting, &opener), 0);
    void *block = alloc(sub, 48 * PAGE, stream);
    pthread_join(thread, NULL);
    queue_fill(stream, block, 48 * PAGE, 0xBB);
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    assert_int_equal(stats_of(sub).host_waits, 1);
    assert_true(stats_of(parent).held_bytes <= 16 * PAGE);
    OK(weir_pool_check(parent));
    OK(weir_pool_free(sub, block, stream));
    close_pool(sub);
    close_pool(parent);
}

static void *destroy(void *pool) {
    weir_pool_destroy(pool);
    return NULL;
}

/* It waits for the device first, and holds all that there is until then. */
static void what_a_pool_that_is_being_destroyed_holds_is_waited_for(void **state) {
    (void)state;
    for (size_t i = 0; i < POLICIES; i++) {
        struct weir_pool *parent = open_pool(policies[i], PAGES), *sub = open_sub(parent, 0);
        weir_stream writer = new_stream(), stream = new_stream();
        pthread_t destroyer, thread;
        void *old = alloc(sub, PAGES * PAGE, writer);
        struct opener opener = {.pool = parent, .gate = put_gate(writer)};
        queue_fill(writer, old, PAGES * PAGE, 0xAA);
        assert_int_equal(pthread_create(&destroyer, NULL, destroy, sub), 0);
        for (bool closing = false; !closing; sched_yield()) {
            pthread_mutex_lock(&parent->family->lock);
            closing = parent->family->first->member.closing;
            pthread_mutex_unlock(&parent->family->lock);
        }
        assert_int_equal(pthread_create(&thread, NULL, open_when_waiting, &opener), 0);
        void *block = alloc(parent, 48 * PAGE, stream);
        pthread_join(thread, NULL);
        pthread_join(destroyer, NULL);
        OK(weir_pool_free(parent, block, stream));
        finish_pool(parent);
    }
}

static bool is_to_look_again(struct weir_pool *pool, struct weir__request *request) {
    pthread_mutex_lock(&pool->lock);
    const bool again = weir__family_give(pool, request);
    pthread_mutex_unlock(&pool->lock);
    return again;
}

/* There is enough to take when it is asked for: it came back after the request had failed. */
static void what_came_back_since_a_request_looked_is_looked_at(void **state) {
    (void)state;
    struct weir_pool *parent = open_pool(WEIR_POLICY_LATENCY, PAGES), *sub = open_sub(parent, 0);
    weir_stream stream = new_stream();
    struct weir__request request = {.bytes = PAGE};
    void *block = alloc(sub, 10 * PAGE, stream);
    assert_true(is_to_look_again(parent, &request)); /* it may have come just before */
    assert_false(is_to_look_again(parent, &request));
    OK(weir_pool_free(sub, block, stream));
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_trim(sub, 0));
    assert_true(is_to_look_again(parent, &request));
    assert_false(is_to_look_again(parent, &request));
    close_pool(sub);
    close_pool(parent);
}

/* Who waits would look again and again. */
static void a_pool_that_has_nothing_to_give_tells_of_no_change(void **state) {
    (void)state;
    for (size_t i = 0; i < POLICIES; i++) {
        struct weir_pool *pool = open_pool(policies[i], PAGES);
        weir_stream stream = new_stream();
        void *block = alloc(pool, PAGE, stream);
        const uint64_t changes = weir__waiting_changes(pool);
        OK(weir_pool_trim(pool, 0));
        assert_int_equal(weir__waiting_changes(pool), changes);
        OK(weir_pool_free(pool, block, stream));
        finish_pool(pool);
    }
}

static void a_lower_limit_of_the_parent_is_the_familys(void **state) {
    (void)state;
    struct weir_pool *parent = open_pool(WEIR_POLICY_LATENCY, PAGES), *sub = open_sub(parent, 0);
    weir_stream stream = new_stream();
    void *live = alloc(parent, 10 * PAGE, stream);
    OK(weir_pool_free(sub, alloc(sub, 30 * PAGE, stream), stream));
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_set_limit(parent, 16 * PAGE));
    assert_int_equal(stats_of(sub).held_bytes, 6 * PAGE);
    refused(sub, 10 * PAGE, stream);
    OK(weir_pool_set_limit(sub, 4 * PAGE));
    assert_int_equal(stats_of(sub).held_bytes, 4 * PAGE);
    OK(weir_pool_set_limit(parent, PAGES * PAGE));
    refused(sub, 5 * PAGE, stream);
    OK(weir_pool_free(parent, live, stream));
    close_pool(sub);
    close_pool(parent);
}

/* Two requests of two members may both have seen the same room; it is taken once. */
static void what_another_member_has_taken_meanwhile_is_not_taken_again(void **state) {
    (void)state;
    struct weir_pool *parent = open_pool(WEIR_POLICY_LATENCY, PAGES), *sub = open_sub(parent, 0);
    weir_stream stream = new_stream();
    void *block = alloc(parent, 40 * PAGE, stream);
    pthread_mutex_lock(&sub->lock);
    assert_false(weir__account_hold(sub, 25 * PAGE));
    assert_true(weir__account_hold(sub, 24 * PAGE));
    weir__account_unhold(sub, 24 * PAGE);
    pthread_mutex_unlock(&sub->lock);
    OK(weir_pool_free(parent, block, stream));
    close_pool(sub);
    close_pool(parent);
}

static void a_parent_is_not_destroyed_before_its_sub_pools(void **state) {
    (void)state;
    struct weir_pool *parent = open_pool(WEIR_POLICY_LATENCY, PAGES), *sub = open_sub(parent, 0), *none = parent;
    weir_stream stream = new_stream();
    struct weir_sub_pool_options options = {.size = sizeof options};
    weir_pool_destroy(parent);
    assert_int_equal(weir_last_error()->status, WEIR_INVALID);
    OK(weir_pool_free(parent, alloc(parent, PAGE, stream), stream));
    assert_int_equal(weir_pool_create_sub(sub, &options, &none), WEIR_INVALID);
    assert_null(none);
    options.limit_bytes = stats_of(parent).capacity_bytes + 1;
    assert_int_equal(weir_pool_create_sub(parent, &options, &none), WEIR_INVALID);
    options = (struct weir_sub_pool_options){.size = sizeof options, .name = ""};
    assert_int_equal(weir_pool_create_sub(parent, &options, &none), WEIR_INVALID);
    options.size = 3;
    assert_int_equal(weir_pool_create_sub(parent, &options, &none), WEIR_INVALID);
    assert_int_equal(weir_pool_create_sub(NULL, &options, &none), WEIR_INVALID);
    options.size = sizeof options;
    assert_int_equal(weir_pool_create_sub(parent, &options, NULL), WEIR_INVALID);
    close_pool(sub);
    close_pool(parent);
}

static void destroy_both(void *argument) {
    struct weir_pool **pools = argument;
    for (int i = 0; i < 2; i++) weir_pool_destroy(pools[i]);
}

/* It would wait for the device. */
static void none_is_destroyed_inside_a_host_function(void **state) {
    (void)state;
    struct weir_pool *parent = open_pool(WEIR_POLICY_LATENCY, PAGES), *sub = open_sub(parent, 0);
    struct weir_pool *pools[] = {sub, parent};
    weir_stream stream = new_stream();
    void *block = alloc(sub, PAGE, stream);
    struct weir_work work = {.name = "destroy", .run = destroy_both, .argument = pools};
    OK(weir_device_submit(test_device(), &work, stream));
    OK(weir_stream_synchronize(test_device(), stream));
    OK(weir_pool_free(sub, block, stream)); /* nothing has happened */
    OK(weir_pool_free(parent, alloc(parent, PAGE, stream), stream));
    close_pool(sub);
    close_pool(parent);
}

/* ---- several threads -------------------------------------------------------------------------------------------- */

enum { USERS = 3, BLOCKS = 12, OPERATIONS = SANITIZED ? 600 : 3000 };

struct user {
    struct weir_pool *parent, *pool; /* pool NULL: makes and destroys sub-pools of its own */
    uint64_t chance;
    unsigned refused;
};

static void use_pool(struct user *user, struct weir_pool *pool, weir_stream stream, int operations) {
    void *blocks[BLOCKS] = {0};
    for (int i = 0; i < operations; i++) {
        void **block = &blocks[draw(&user->chance) % BLOCKS];
        const size_t bytes = 1 + draw(&user->chance) % (8 * PAGE);
        if (*block != NULL) {
            OK(weir_pool_free(pool, *block, stream));
            *block = NULL;
        } else if (weir_pool_alloc(pool, bytes, stream, block) == WEIR_OK) {
            queue_fill(stream, *block, bytes, (unsigned char)i);
        } else {
            user->refused++;
        }
        if (i % 16 == 0) OK(weir_pool_check(pool));
    }
    for (int i = 0; i < BLOCKS; i++) OK(weir_pool_free(pool, blocks[i], stream));
}

static void *use(void *argument) {
    struct user *user = argument;
    weir_stream stream = new_stream();
    if (user->pool != NULL) use_pool(user, user->pool, stream, OPERATIONS);
    for (int i = 0; user->pool == NULL && i < 40; i++) {
        struct weir_pool *pool = open_sub(user->parent, 1 + draw(&user->chance) % PAGES);
        use_pool(user, pool, stream, OPERATIONS / 40);
        close_pool(pool);
    }
    OK(weir_stream_synchronize(test_device(), stream));
    return NULL;
}

static void threads_share_a_family(void **state) {
    (void)state;
    for (size_t i = 0; i < POLICIES; i++) {
        struct weir_pool *parent = open_pool(policies[i], PAGES), *sub = open_sub(parent, 40);
        struct user users[USERS] = {{.pool = parent}, {.pool = sub}, {.parent = parent}};
        pthread_t threads[USERS];
        const uint64_t seed = seed_of(3);
        for (int k = 0; k < USERS; k++) {
            users[k].chance = seed + 2 * (uint64_t)k;
            assert_int_equal(pthread_create(&threads[k], NULL, use, &users[k]), 0);
        }
        for (int k = 0; k < USERS; k++) pthread_join(threads[k], NULL);
        OK(weir_device_synchronize(test_device()));
        close_pool(sub);
        weir_stream stream = new_stream();
        OK(weir_pool_free(parent, alloc(parent, PAGES * PAGE, stream), stream)); /* nothing of the allowance is lost */
        close_pool(parent);
    }
}

/* ---- deterministic mode ----------------------------------------------------------------------------------------- */

enum { REQUESTS = 300 };

static void run_program(uint64_t seed, size_t offsets[REQUESTS]) {
    struct weir_pool *pools[2];
    struct weir_pool_options options = {
        .size = sizeof options, .limit_bytes = PAGES * PAGE, .trace_path = "", .deterministic = true};
    OK(weir_pool_create(test_device(), &options, &pools[0]));
    pools[1] = open_sub(pools[0], 0);
    weir_stream streams[2] = {new_stream(), new_stream()};
    void *blocks[2][4] = {{0}};
    for (int i = 0; i < REQUESTS; i++) {
        const size_t which = draw(&seed) % 2, at = draw(&seed) % 4, stream = at % 2;
        OK(weir_pool_free(pools[which], blocks[which][at], streams[stream]));
        const size_t bytes = (1 + draw(&seed) % 14) * PAGE;
        void *block = NULL;
        offsets[i] = SIZE_MAX;
        if (weir_pool_alloc(pools[which], bytes, streams[stream], &block) == WEIR_OK) {
            queue_fill(streams[stream], block, bytes, (unsigned char)i);
            offsets[i] = (uintptr_t)block - pools[which]->pages.arena;
        }
        blocks[which][at] = block;
    }
    for (int i = 0; i < 8; i++) OK(weir_pool_free(pools[i % 2], blocks[i % 2][i / 2], streams[i / 2 % 2]));
    OK(weir_device_synchronize(test_device()));
    close_pool(pools[1]);
    close_pool(pools[0]);
}

static void in_deterministic_mode_addresses_are_the_same_again(void **state) {
    (void)state;
    size_t once[REQUESTS], again[REQUESTS];
    const uint64_t seed = seed_of(11);
    run_program(seed, once);
    for (int i = 0; i < 3; i++) {
        run_program(seed, again);
        assert_memory_equal(once, again, sizeof once);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_options_a_sub_pool_has_its_parents_limit),
        cmocka_unit_test(each_keeps_its_limit_and_all_keep_the_parents),
        cmocka_unit_test(what_a_sub_pool_left_is_there_for_the_others),
        cmocka_unit_test(where_others_have_the_rest_the_family_is_asked),
        cmocka_unit_test(what_is_idle_but_in_use_is_waited_for),
        cmocka_unit_test(what_a_pool_that_is_being_destroyed_holds_is_waited_for),
        cmocka_unit_test(what_came_back_since_a_request_looked_is_looked_at),
        cmocka_unit_test(a_pool_that_has_nothing_to_give_tells_of_no_change),
        cmocka_unit_test(a_lower_limit_of_the_parent_is_the_familys),
        cmocka_unit_test(what_another_member_has_taken_meanwhile_is_not_taken_again),
        cmocka_unit_test(a_parent_is_not_destroyed_before_its_sub_pools),
        cmocka_unit_test(none_is_destroyed_inside_a_host_function),
        cmocka_unit_test(threads_share_a_family),
        cmocka_unit_test(in_deterministic_mode_addresses_are_the_same_again),
    };
    return cmocka_run_group_tests_name("sub_pool", tests, NULL, NULL);
}
