/* SPDX-License-Identifier: Apache-2.0 */
/* A request that waits on the host is served by the first memory that is enough for it: of whatever stream, freed by
 * whatever thread, in whatever pool of the family. What it happened to look at first may stand for ever. Of several the one
 * that has waited longest comes first. All runs under the watch. */
#include <sched.h>
#include <stdlib.h>

#include "tests/alloc/cases/scene.h"

static weir_stream s0, s1, s2, s3;

static void synchronize(void) { OK(weir_device_synchronize(test_device())); }

/* Two blocks that streams behind gates still write to, freed in the order in which they are named. */
struct busy {
    void *block[2];
    struct gate *gate[2];
};

static struct busy free_two_in_use(struct weir_pool *pool, size_t bytes, const weir_stream streams[2]) {
    struct busy busy;
    for (int i = 0; i < 2; i++) busy.block[i] = alloc(pool, bytes, streams[i]);
    synchronize();
    for (int i = 0; i < 2; i++) {
        busy.gate[i] = put_gate(streams[i]);
        queue_fill(streams[i], busy.block[i], bytes, 0xAA);
        OK(weir_pool_free(pool, busy.block[i], streams[i]));
    }
    return busy;
}

/* ---- a driver that is listened to ----------------------------------------------------------------------------------- */

static const struct weir__driver *real;
static struct weir__driver listened;
static unsigned looks; /* at marks, by all threads */
static size_t room_to_map;
static bool hold_next_mark, is_held, let_go, looks_fail;

static CUresult counted_query(CUevent event) {
    __atomic_add_fetch(&looks, 1, __ATOMIC_RELAXED);
    return __atomic_load_n(&looks_fail, __ATOMIC_ACQUIRE) ? CUDA_ERROR_LAUNCH_FAILED : real->event_query(event);
}

static CUresult held_record(CUevent event, CUstream stream) {
    if (__atomic_exchange_n(&hold_next_mark, false, __ATOMIC_ACQ_REL)) {
        __atomic_store_n(&is_held, true, __ATOMIC_RELEASE);
        while (!__atomic_load_n(&let_go, __ATOMIC_ACQUIRE)) sched_yield();
    }
    return real->event_record(event, stream);
}

static CUresult map_in_room(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                            unsigned long long flags) {
    if (room_to_map == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    room_to_map--;
    return real->page_map(address, bytes, offset, handle, flags);
}

static CUresult unmap_for_room(CUdeviceptr address, size_t bytes) {
    room_to_map += bytes / PAGE;
    return real->page_unmap(address, bytes);
}

/* Maps as many pages as there is room, and as it has unmapped. */
static void listen_to_driver(size_t room) {
    real = test_device()->driver;
    listened = *real;
    room_to_map = room;
    listened.page_map = map_in_room;
    listened.page_unmap = unmap_for_room;
    listened.event_query = counted_query;
    listened.event_record = held_record;
    test_device()->driver = &listened;
}

static void await_looks(unsigned more) {
    const unsigned since = __atomic_load_n(&looks, __ATOMIC_RELAXED);
    while (__atomic_load_n(&looks, __ATOMIC_RELAXED) < since + more) sched_yield();
}

/* ---- one request, several streams ----------------------------------------------------------------------------------- */

static void serve_by_the_stream_that_ends(struct weir_pool *pool) {
    const weir_stream orders[][2] = {{s1, s2}, {s2, s1}};
    for (int order = 0; order < 2; order++) {
        for (int opened = 0; opened < 2; opened++) {
            const struct busy busy = free_two_in_use(pool, 128 * MIB, orders[order]);
            struct asker *asker = start_asking(pool, 100 * MIB, NULL);
            open_gate(busy.gate[opened]);
            await_one(asker, asker);
            assert_true(lies_in(asker, busy.block[opened], 128 * MIB));
            expect_served(asker);
            open_gate(busy.gate[1 - opened]);
            synchronize();
        }
    }
}

static void a_stream_that_stands_does_not_keep_another_ones_memory(void **state) {
    (void)state;
    with_shared_pools(256 * MIB, serve_by_the_stream_that_ends);
}

/* Pages that lie across idle neighbours of two streams each are nobody's before both are done. One such page is enough. */
static void serve_by_either_pair(struct weir_pool *pool) {
    for (int opened = 0; opened < 2; opened++) {
        const struct halves pairs[2] = {make_halves(pool, s1, s3), make_halves(pool, s2, s3)};
        synchronize();
        struct gate *gates[2] = {put_gate(s1), put_gate(s2)};
        for (int i = 0; i < 2; i++) {
            queue_fill(i == 0 ? s1 : s2, pairs[i].first, HALF_BYTES, 0xAA);
            OK(weir_pool_free(pool, pairs[i].first, i == 0 ? s1 : s2));
            OK(weir_pool_free(pool, pairs[i].second, s3));
        }
        struct asker *asker = start_asking(pool, 5 * PAGE, s0);
        open_gate(gates[opened]);
        await_one(asker, asker); /* s0 itself may have been made to wait for the other stream */
        open_gate(gates[1 - opened]);
        expect_served(asker);
        for (int i = 0; i < 2; i++) OK(weir_pool_free(pool, pairs[i].post, s3));
        synchronize();
        OK(weir_pool_trim(pool, 0));
    }
}

static void the_first_page_that_is_whole_serves(void **state) {
    (void)state;
    with_shared_pools(8 * PAGE, serve_by_either_pair);
}

/* The driver maps no more places than there are, so that donors are unmapped first, which may not be before they are done. */
static void serve_by_pages_that_are_done(struct weir_pool *pool) {
    enum { HOLES = 4 };
    const weir_stream streams[2] = {s1, s2};
    for (int opened = 0; opened < 2; opened++) {
        void *holes[2][HOLES], *kept[2][HOLES];
        struct gate *gates[2];
        for (int i = 0; i < HOLES; i++)
            for (int s = 0; s < 2; s++) {
                holes[s][i] = alloc(pool, PAGE, streams[s]);
                kept[s][i] = alloc(pool, PAGE, s3);
            }
        synchronize();
        for (int s = 0; s < 2; s++) {
            gates[s] = put_gate(streams[s]);
            for (int i = 0; i < HOLES; i++) {
                queue_fill(streams[s], holes[s][i], PAGE, 0xAA);
                OK(weir_pool_free(pool, holes[s][i], streams[s]));
            }
        }
        listen_to_driver(0);
        struct asker *asker = start_asking(pool, HOLES * PAGE, s0);
        open_gate(gates[opened]);
        await_one(asker, asker);
        expect_served(asker);
        test_device()->driver = real;
        open_gate(gates[1 - opened]);
        for (int i = 0; i < HOLES; i++)
            for (int s = 0; s < 2; s++) OK(weir_pool_free(pool, kept[s][i], s3));
        synchronize();
        OK(weir_pool_trim(pool, 0));
    }
}

static void pages_that_are_done_first_serve_where_no_more_can_be_mapped(void **state) {
    (void)state;
    with_shared_pools(64 * PAGE, serve_by_pages_that_are_done);
}

/* ---- one request, several threads ----------------------------------------------------------------------------------- */

static void free_as_usual(struct weir_pool *pool, void *block) { OK(weir_pool_free(pool, block, s3)); }
static void free_for_all(struct weir_pool *pool, void *block) { OK(weir_pool_free_any(pool, block)); }

struct late_free {
    struct weir_pool *pool;
    void *block;
};

static void free_late(void *argument) {
    const struct late_free *late = argument;
    if (weir_pool_free(late->pool, late->block, s3) != WEIR_OK) abort();
}

static void free_in_a_host_function(struct weir_pool *pool, void *block) {
    struct late_free late = {pool, block};
    struct weir_work work = {.name = "free", .run = free_late, .argument = &late, .argument_bytes = sizeof late};
    OK(weir_device_submit(test_device(), &work, s3));
}

static void raise_the_limit(struct weir_pool *pool, void *block) {
    (void)block;
    OK(weir_pool_set_limit(pool, 384 * MIB));
}

static void (*way_to_help)(struct weir_pool *pool, void *block);

/* The pool waits for s1, which stands; this thread helps. */
static void serve_by_another_thread(struct weir_pool *pool) {
    void *a = alloc(pool, 128 * MIB, s1), *b = alloc(pool, 128 * MIB, s3);
    synchronize();
    struct gate *gate = put_gate(s1);
    queue_fill(s1, a, 128 * MIB, 0xAA);
    OK(weir_pool_free(pool, a, s1));
    struct asker *asker = start_asking(pool, 100 * MIB, NULL);
    struct gate *opens_late = way_to_help == free_for_all ? gate : NULL; /* which comes after s1 as well */
    way_to_help(pool, b);
    if (opens_late != NULL) open_gate(gate);
    await_one(asker, asker);
    if (opens_late == NULL) assert_false(lies_in(asker, a, 128 * MIB));
    expect_served(asker);
    if (opens_late == NULL) open_gate(gate);
    if (way_to_help == raise_the_limit) OK(weir_pool_free(pool, b, s3));
    synchronize();
}

static void what_another_thread_frees_serves(void **state) {
    (void)state;
    void (*const ways[])(struct weir_pool *, void *) = {free_as_usual, free_for_all, free_in_a_host_function,
                                                        raise_the_limit};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        way_to_help = ways[i];
        with_shared_pools(256 * MIB, serve_by_another_thread);
    }
}

/* Idle pages that must keep their addresses are too scattered for the request, until they need not. */
static void serve_by_what_may_move_again(struct weir_pool *pool) {
    void *a = alloc(pool, 128 * MIB, s1), *kept[2], *post;
    kept[0] = alloc(pool, 60 * MIB, s3);
    post = alloc(pool, 1 * MIB, s3);
    kept[1] = alloc(pool, 60 * MIB, s3);
    synchronize();
    struct gate *gate = put_gate(s1);
    queue_fill(s1, a, 128 * MIB, 0xAA);
    OK(weir_pool_free(pool, a, s1));
    for (int i = 0; i < 2; i++) {
        OK(weir_pool_register(pool, kept[i], 60 * MIB));
        OK(weir_pool_free(pool, kept[i], s3));
    }
    struct asker *asker = start_asking(pool, 110 * MIB, NULL);
    for (int i = 0; i < 2; i++) OK(weir_pool_unregister(pool, kept[i], 60 * MIB));
    await_one(asker, asker);
    assert_false(lies_in(asker, a, 128 * MIB));
    expect_served(asker);
    open_gate(gate);
    OK(weir_pool_free(pool, post, s3));
    synchronize();
}

static void pages_that_may_move_again_serve(void **state) {
    (void)state;
    with_shared_pools(256 * MIB, serve_by_what_may_move_again);
}

/* ---- several requests ----------------------------------------------------------------------------------------------- */

/* What ends is enough for one of two: the one that came first. The gates are opened in both orders. */
static void serve_the_oldest_first(struct weir_pool *pool) {
    const weir_stream streams[2] = {s1, s2};
    for (int round = 0; round < 20; round++) {
        const int opened = round % 2;
        const struct busy busy = free_two_in_use(pool, 128 * MIB, streams);
        struct asker *first = start_asking(pool, 100 * MIB, NULL), *second = start_asking(pool, 100 * MIB, NULL);
        open_gate(busy.gate[opened]);
        await_one(first, second);
        assert_true(is_answered(first));
        assert_true(lies_in(first, busy.block[opened], 128 * MIB));
        assert_false(is_answered(second));
        open_gate(busy.gate[1 - opened]);
        expect_served(second);
        expect_served(first);
        synchronize();
    }
}

static void the_one_that_has_waited_longest_comes_first(void **state) {
    (void)state;
    with_shared_pools(256 * MIB, serve_the_oldest_first);
}

/* What ends is not enough for the first, which holds nobody up. */
static void serve_the_one_it_is_enough_for(struct weir_pool *pool) {
    const weir_stream streams[2] = {s1, s2};
    const struct busy busy = free_two_in_use(pool, 128 * MIB, streams);
    struct asker *large = start_asking(pool, 200 * MIB, NULL), *small = start_asking(pool, 50 * MIB, NULL);
    open_gate(busy.gate[0]);
    await_one(small, small);
    assert_false(is_answered(large));
    assert_true(lies_in(small, busy.block[0], 128 * MIB));
    expect_served(small); /* and gives it back */
    open_gate(busy.gate[1]);
    expect_served(large);
    synchronize();
}

static void one_whom_it_is_not_enough_for_holds_nobody_up(void **state) {
    (void)state;
    with_shared_pools(256 * MIB, serve_the_one_it_is_enough_for);
}

/* A thread frees a block and asks for it again at once. In between it is enough for the request that waits. */
static void serve_beside_a_busy_thread(struct weir_pool *pool) {
    for (int round = 0; round < 20; round++) {
        void *a = alloc(pool, 128 * MIB, s1), *mine = alloc(pool, 128 * MIB, s3);
        synchronize();
        struct gate *gate = put_gate(s1);
        queue_fill(s1, a, 128 * MIB, 0xAA);
        OK(weir_pool_free(pool, a, s1));
        struct asker *asker = start_asking(pool, 100 * MIB, NULL);
        OK(weir_stream_synchronize(test_device(), s3)); /* or the asker's mark there may be what is not done yet */
        OK(weir_pool_free(pool, mine, s3));
        void *again = alloc(pool, 128 * MIB, s3); /* of what s1 freed, for which s3 waits */
        await_one(asker, asker);
        assert_true(lies_in(asker, mine, 128 * MIB));
        open_gate(gate);
        expect_served(asker);
        OK(weir_pool_free(pool, again, s3));
        synchronize();
    }
}

static void a_thread_that_frees_and_asks_again_comes_after_those_that_wait(void **state) {
    (void)state;
    with_shared_pools(256 * MIB, serve_beside_a_busy_thread);
}

static bool youngest_has_looked(struct weir_pool *pool) {
    weir__pool_lock(pool);
    const struct weir__waiter *waiter = pool->waiters.oldest;
    while (waiter->younger != NULL) waiter = waiter->younger;
    const bool looked = waiter->asleep && waiter->seen == weir__waiting_changes(pool);
    weir__pool_unlock(pool);
    return looked;
}

/* The first request makes its mark behind s1, at which a driver may hang. Nobody waits for that; nobody takes what serves it. */
static void serve_the_one_that_makes_its_mark(struct weir_pool *pool) {
    for (int younger = 0; younger < 2; younger++) {
        void *a = alloc(pool, 128 * MIB, s1), *mine = alloc(pool, 128 * MIB, s3), *again = NULL;
        synchronize();
        struct gate *gate = put_gate(s1);
        queue_fill(s1, a, 128 * MIB, 0xAA);
        OK(weir_pool_free(pool, a, s1));
        is_held = let_go = false;
        hold_next_mark = true;
        listen_to_driver(SIZE_MAX / 2);
        struct asker *first = begin_asking(pool, 100 * MIB, NULL), *second = NULL;
        while (!__atomic_load_n(&is_held, __ATOMIC_ACQUIRE)) sched_yield();
        if (younger) second = start_asking(pool, 100 * MIB, NULL);
        OK(weir_pool_free(pool, mine, s3));
        if (younger)
            while (!is_answered(second) && !youngest_has_looked(pool)) sched_yield();
        else
            again = alloc(pool, 128 * MIB, s3);
        OK(weir_pool_check(pool));
        __atomic_store_n(&let_go, true, __ATOMIC_RELEASE);
        await_one(first, younger ? second : first);
        assert_true(lies_in(first, mine, 128 * MIB));
        open_gate(gate);
        if (younger) expect_served(second);
        expect_served(first);
        test_device()->driver = real;
        OK(weir_pool_free(pool, again, s3));
        synchronize();
    }
}

static void one_that_makes_its_mark_is_not_passed_by(void **state) {
    (void)state;
    with_shared_pools(256 * MIB, serve_the_one_that_makes_its_mark);
}

/* An error of earlier work, which the driver says from then on: no mark would ever pass. */
static void fail_to_look(struct weir_pool *pool) {
    void *block = alloc(pool, 256 * MIB, s1), *none;
    synchronize();
    struct gate *gate = put_gate(s1);
    queue_fill(s1, block, 256 * MIB, 0xAA);
    OK(weir_pool_free(pool, block, s1));
    listen_to_driver(SIZE_MAX / 2);
    struct asker *asker = start_asking(pool, 100 * MIB, NULL);
    __atomic_store_n(&looks_fail, true, __ATOMIC_RELEASE);
    assert_int_equal(join_asker(asker, &none), WEIR_DRIVER);
    looks_fail = false;
    test_device()->driver = real;
    open_gate(gate);
    synchronize();
}

static void a_driver_that_fails_ends_the_wait(void **state) {
    (void)state;
    with_shared_pools(256 * MIB, fail_to_look);
}

/* ---- families ------------------------------------------------------------------------------------------------------- */

static struct weir_pool *open_member(struct weir_pool *parent, const char *name) {
    struct weir_sub_pool_options options = {.size = sizeof options, .name = name};
    struct weir_pool *pool = NULL;
    OK(weir_pool_create_sub(parent, &options, &pool));
    return pool;
}

/* Two members have freed what streams still use. Whichever ends first serves the third; so does what a thread frees. */
static void serve_by_any_member(struct weir_pool *parent) {
    struct weir_pool *members[2] = {open_member(parent, "first"), open_member(parent, "second")};
    const weir_stream streams[2] = {s1, s2};
    for (int help = 0; help < 3; help++) {
        void *blocks[2], *live = alloc(members[1], 64 * MIB, s3);
        struct gate *gates[2];
        for (int i = 0; i < 2; i++) blocks[i] = alloc(members[i], 96 * MIB, streams[i]);
        synchronize();
        for (int i = 0; i < 2; i++) {
            gates[i] = put_gate(streams[i]);
            queue_fill(streams[i], blocks[i], 96 * MIB, 0xAA);
            OK(weir_pool_free(members[i], blocks[i], streams[i]));
        }
        struct asker *asker = start_asking(parent, 60 * MIB, s0);
        if (help < 2) open_gate(gates[help]);
        if (help == 2) OK(weir_pool_free(members[1], live, s3));
        await_one(asker, asker);
        expect_served(asker);
        for (int i = 0; i < 2; i++)
            if (i != help) open_gate(gates[i]);
        if (help < 2) OK(weir_pool_free(members[1], live, s3));
        synchronize();
        OK(weir_pool_trim(parent, 0));
    }
    for (int i = 0; i < 2; i++) close_pool(members[i]);
}

/* The request makes a mark for what a member has freed behind s1, at which a driver may hang. */
static void serve_beside_a_members_mark(struct weir_pool *parent) {
    struct weir_pool *member = open_member(parent, "member");
    void *blocks[2], *mine = alloc(parent, 128 * MIB, s3);
    for (int i = 0; i < 2; i++) blocks[i] = alloc(member, 64 * MIB, s1);
    synchronize();
    struct gate *gate = put_gate(s1);
    for (int i = 0; i < 2; i++) queue_fill(s1, blocks[i], 64 * MIB, 0xAA);
    OK(weir_pool_free(member, blocks[0], s1));
    is_held = let_go = false;
    listen_to_driver(SIZE_MAX / 2);
    struct asker *asker = start_asking(parent, 100 * MIB, NULL);
    __atomic_store_n(&hold_next_mark, true, __ATOMIC_RELEASE);
    OK(weir_pool_free(member, blocks[1], s1));
    while (!__atomic_load_n(&is_held, __ATOMIC_ACQUIRE)) sched_yield();
    OK(weir_pool_free(parent, mine, s3));
    void *rest = alloc(parent, 20 * MIB, s3);
    __atomic_store_n(&let_go, true, __ATOMIC_RELEASE);
    await_one(asker, asker);
    assert_true(lies_in(asker, mine, 128 * MIB));
    expect_served(asker);
    test_device()->driver = real;
    open_gate(gate);
    OK(weir_pool_free(parent, rest, s3));
    synchronize();
    close_pool(member);
}

static void nobody_waits_for_a_mark_in_another_pool(void **state) {
    (void)state;
    with_shared_pools(256 * MIB, serve_beside_a_members_mark);
}

static void whichever_pool_of_the_family_can_give_serves(void **state) {
    (void)state;
    with_shared_pools(256 * MIB, serve_by_any_member);
}

static uint64_t changes_of(struct weir_pool *pool) {
    weir__pool_lock(pool);
    const uint64_t changes = pool->waiters.changes;
    weir__pool_unlock(pool);
    return changes;
}

/* Asked again and again, a pool that can give nothing is as it was: else each question would be a change, and the next look. */
static void ask_in_vain(struct weir_pool *parent) {
    enum { LOOKS = 50 };
    struct weir_pool *member = open_member(parent, "member");
    void *block = alloc(member, 200 * MIB, s1);
    synchronize();
    struct gate *gate = put_gate(s1);
    queue_fill(s1, block, 200 * MIB, 0xAA);
    OK(weir_pool_free(member, block, s1));
    listen_to_driver(SIZE_MAX / 2);
    struct asker *asker = start_asking(parent, 100 * MIB, s0);
    await_looks(LOOKS);
    const uint64_t changes = changes_of(member);
    await_looks(LOOKS);
    assert_int_equal(changes_of(member), changes);
    open_gate(gate);
    expect_served(asker);
    test_device()->driver = real;
    close_pool(member);
    synchronize();
}

static void a_pool_that_can_give_nothing_is_left_in_peace(void **state) {
    (void)state;
    with_shared_pools(256 * MIB, ask_in_vain);
}

static int open_streams(void **state) {
    (void)state;
    s0 = new_stream();
    s1 = new_stream();
    s2 = new_stream();
    s3 = new_stream();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_that_stands_does_not_keep_another_ones_memory),
        cmocka_unit_test(the_first_page_that_is_whole_serves),
        cmocka_unit_test(pages_that_are_done_first_serve_where_no_more_can_be_mapped),
        cmocka_unit_test(what_another_thread_frees_serves),
        cmocka_unit_test(pages_that_may_move_again_serve),
        cmocka_unit_test(the_one_that_has_waited_longest_comes_first),
        cmocka_unit_test(one_whom_it_is_not_enough_for_holds_nobody_up),
        cmocka_unit_test(a_thread_that_frees_and_asks_again_comes_after_those_that_wait),
        cmocka_unit_test(one_that_makes_its_mark_is_not_passed_by),
        cmocka_unit_test(a_driver_that_fails_ends_the_wait),
        cmocka_unit_test(nobody_waits_for_a_mark_in_another_pool),
        cmocka_unit_test(whichever_pool_of_the_family_can_give_serves),
        cmocka_unit_test(a_pool_that_can_give_nothing_is_left_in_peace),
    };
    return cmocka_run_group_tests_name("whatever_comes_first_serves_a_waiting_request", tests, open_streams, NULL);
}
