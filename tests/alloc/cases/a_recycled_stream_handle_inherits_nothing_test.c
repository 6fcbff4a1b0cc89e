/* SPDX-License-Identifier: Apache-2.0 */
/* The driver gives the handle of a stream that is gone to a later one. What the old one still does is waited for, and no
 * call is made on a handle between its destroy and its return. */
#include "tests/alloc/cases/scene.h"

/* ---- a driver that notices calls on dead handles -------------------------------------------------------------------- */

enum { MOST = 256 };

static const struct weir__driver *real;
static struct weir__driver noticing;
static CUstream dead[MOST];
static size_t dead_count, calls_on_dead, destroys;

static void notice(CUstream stream) {
    for (size_t i = 0; i < dead_count; i++)
        if (dead[i] == stream) calls_on_dead++;
}

static CUresult create(CUstream *stream, unsigned flags) {
    CUresult code = real->stream_create(stream, flags);
    for (size_t i = 0; i < dead_count; i++)
        if (dead[i] == *stream) dead[i] = dead[--dead_count];
    return code;
}
static CUresult destroy(CUstream stream) {
    notice(stream);
    assert_true(dead_count < MOST);
    dead[dead_count++] = stream;
    destroys++;
    return real->stream_destroy(stream);
}
static CUresult wait(CUstream stream, CUevent event, unsigned flags) {
    notice(stream);
    return real->stream_wait(stream, event, flags);
}
static CUresult record(CUevent event, CUstream stream) {
    notice(stream);
    return real->event_record(event, stream);
}
static CUresult query(CUstream stream) {
    notice(stream);
    return real->stream_query(stream);
}

static int notice_dead_handles(void **state) {
    (void)state;
    real = test_device()->driver;
    noticing = *real;
    noticing.stream_create = create;
    noticing.stream_destroy = destroy;
    noticing.stream_wait = wait;
    noticing.event_record = record;
    noticing.stream_query = query;
    test_device()->driver = &noticing;
    dead_count = calls_on_dead = destroys = 0;
    return 0;
}

static int expect_none_was_called(void **state) {
    open_gates_left_shut(state);
    test_device()->driver = real;
    assert_true(destroys > 0);
    assert_int_equal(calls_on_dead, 0);
    return 0;
}

/* ---- streams ---------------------------------------------------------------------------------------------------------- */

static weir_stream others[MOST];
static size_t other_count;

/* New streams until one has the handle of a stream that is gone. */
static weir_stream stream_with_the_handle(weir_stream gone) {
    for (other_count = 0; other_count < MOST;) {
        weir_stream stream = new_stream();
        if (stream == gone) return stream;
        others[other_count++] = stream;
    }
    fail_msg("the driver never gave the handle again");
    return NULL;
}

static void destroy_others(void) {
    while (other_count > 0) OK(weir_stream_destroy(test_device(), others[--other_count]));
}

static void new_owner_keeps_its_bytes(weir_stream stream, void *block, size_t bytes, struct gate *gate) {
    queue_fill(stream, block, bytes, 0xBB);
    queue_check(stream, block, bytes, 0xBB);
    open_gate(gate);
    OK(weir_device_synchronize(test_device()));
    queue_check(stream, block, bytes, 0xBB);
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
}

static void reuse_after_free(struct weir_pool *pool) {
    weir_stream old = new_stream();
    void *a = alloc(pool, PAGE, old);
    struct gate *gate = put_gate(old);
    queue_fill(old, a, PAGE, 0xAA);
    OK(weir_pool_free(pool, a, old));
    OK(weir_stream_destroy(test_device(), old));
    weir_stream fresh = stream_with_the_handle(old);
    void *b = alloc(pool, PAGE, fresh);
    assert_ptr_equal(a, b); /* there is no other */
    new_owner_keeps_its_bytes(fresh, b, PAGE, gate);
    OK(weir_pool_free(pool, b, fresh));
    OK(weir_stream_destroy(test_device(), fresh));
    destroy_others();
}

static void work_of_the_dead_stream_is_waited_for(void **state) {
    (void)state;
    with_shared_pools(PAGE, reuse_after_free); /* a page: so that it must be the same block */
}

/* The old stream had only noted the block, and was destroyed before the free. */
static void reuse_after_note(struct weir_pool *pool) {
    weir_stream old = new_stream(), owner = new_stream();
    void *a = alloc(pool, PAGE, owner);
    struct gate *gate = put_gate(old);
    queue_fill(old, a, PAGE, 0xAA);
    OK(weir_pool_note(pool, a, old));
    OK(weir_stream_destroy(test_device(), old));
    weir_stream fresh = stream_with_the_handle(old);
    OK(weir_pool_free(pool, a, owner));
    void *b = alloc(pool, PAGE, fresh);
    assert_ptr_equal(a, b);
    new_owner_keeps_its_bytes(fresh, b, PAGE, gate);
    OK(weir_pool_free(pool, b, fresh));
    OK(weir_stream_destroy(test_device(), fresh));
    OK(weir_stream_destroy(test_device(), owner));
    destroy_others();
}

static void a_note_of_the_dead_stream_stays_one(void **state) {
    (void)state;
    with_shared_pools(PAGE, reuse_after_note);
}

/* Allocated on the old stream, which is gone when the block is freed, on the new one of the same handle. */
static void free_after_reuse(struct weir_pool *pool) {
    weir_stream old = new_stream();
    void *a = alloc(pool, PAGE, old);
    queue_fill(old, a, PAGE, 0xAA);
    OK(weir_stream_synchronize(test_device(), old)); /* the free promises that all uses are before it */
    OK(weir_stream_destroy(test_device(), old));
    weir_stream fresh = stream_with_the_handle(old);
    struct gate *gate = put_gate(fresh);
    queue_fill(fresh, a, PAGE, 0xCC);
    OK(weir_pool_free(pool, a, fresh));
    weir_stream third = new_stream();
    void *b = alloc(pool, PAGE, third);
    assert_ptr_equal(a, b);
    new_owner_keeps_its_bytes(third, b, PAGE, gate);
    OK(weir_pool_free(pool, b, third));
    OK(weir_stream_destroy(test_device(), third));
    OK(weir_stream_destroy(test_device(), fresh));
    destroy_others();
}

static void the_new_streams_work_is_its_own(void **state) {
    (void)state;
    with_shared_pools(PAGE, free_after_reuse);
}

/* ---- blocks that outlive their streams ---------------------------------------------------------------------------------- */

static void outlive(struct weir_pool *pool) {
    enum { STREAMS = 8 };
    weir_stream s0 = new_stream(), streams[STREAMS];
    void *blocks[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = new_stream();
        blocks[i] = alloc(pool, 8 * MIB, streams[i]);
        queue_fill(streams[i], blocks[i], 8 * MIB, (unsigned char)(i + 1));
    }
    for (int i = 0; i < STREAMS; i += 2) OK(weir_pool_free(pool, blocks[i], streams[i]));
    OK(weir_device_synchronize(test_device()));
    for (int i = 0; i < STREAMS; i++) OK(weir_stream_destroy(test_device(), streams[i]));
    void *large = alloc(pool, 64 * MIB, s0);
    queue_fill(s0, large, 64 * MIB, 0xEE);
    OK(weir_stream_synchronize(test_device(), s0));
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).live_bytes, 96 * MIB);
    assert_int_equal(stats_of(pool).held_bytes, 96 * MIB);
    for (int i = 1; i < STREAMS; i += 2) {
        queue_check(s0, blocks[i], 8 * MIB, (unsigned char)(i + 1));
        OK(weir_pool_free(pool, blocks[i], s0));
    }
    OK(weir_pool_free(pool, large, s0));
    OK(weir_stream_synchronize(test_device(), s0));
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).live_bytes, 0);
    assert_int_equal(stats_of(pool).held_bytes, 0);
    OK(weir_stream_destroy(test_device(), s0));
}

static void blocks_outlive_their_streams(void **state) {
    (void)state;
    with_shared_pools(GIB, outlive);
}

static void blocks_outlive_their_streams_with_a_pool_a_stream(void **state) {
    (void)state;
    struct weir_pool *pool = open_case(WEIR_POLICY_PER_STREAM, GIB);
    weir_stream s0 = new_stream(), old = new_stream();
    void *a = alloc(pool, 8 * MIB, old), *b = alloc(pool, 8 * MIB, old);
    OK(weir_pool_free(pool, a, old));
    OK(weir_stream_destroy(test_device(), old));
    OK(weir_pool_free(pool, b, s0));
    OK(weir_stream_synchronize(test_device(), s0));
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).live_bytes, 0);
    assert_int_equal(stats_of(pool).held_bytes, 0);
    close_pool(pool);
    OK(weir_stream_destroy(test_device(), s0));
}

/* Streams come and go while blocks of all of them change hands; at the end everything is told apart. */
static void streams_come_and_go_at_random(struct weir_pool *pool) {
    enum { SLOTS = 6, BLOCKS = 24 };
    uint64_t chance = seed_of(33);
    weir_stream streams[SLOTS];
    struct {
        void *at;
        weir_stream stream;
        unsigned char pattern;
    } blocks[BLOCKS] = {{NULL, NULL, 0}};
    for (int i = 0; i < SLOTS; i++) streams[i] = new_stream();
    for (int turn = 0; turn < 2000; turn++) {
        size_t which = draw(&chance) % SLOTS, at = draw(&chance) % BLOCKS;
        if (draw(&chance) % 8 == 0) { /* the blocks of a stream that goes go on its last position */
            for (int i = 0; i < BLOCKS; i++) {
                if (blocks[i].at == NULL || blocks[i].stream != streams[which]) continue;
                OK(weir_pool_free(pool, blocks[i].at, streams[which]));
                blocks[i].at = NULL;
            }
            OK(weir_stream_destroy(test_device(), streams[which]));
            streams[which] = new_stream();
        } else if (blocks[at].at != NULL) {
            queue_check(blocks[at].stream, blocks[at].at, 8 * MIB, blocks[at].pattern);
            OK(weir_pool_free(pool, blocks[at].at, blocks[at].stream));
            blocks[at].at = NULL;
        } else {
            blocks[at].pattern = (unsigned char)(turn % 255 + 1);
            blocks[at].stream = streams[which];
            blocks[at].at = alloc(pool, 8 * MIB, streams[which]);
            queue_fill(streams[which], blocks[at].at, 8 * MIB, blocks[at].pattern);
        }
    }
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].at != NULL) OK(weir_pool_free(pool, blocks[i].at, blocks[i].stream));
    OK(weir_device_synchronize(test_device()));
    for (int i = 0; i < SLOTS; i++) OK(weir_stream_destroy(test_device(), streams[i]));
}

static void streams_come_and_go(void **state) {
    (void)state;
    with_shared_pools(24 * 8 * MIB, streams_come_and_go_at_random);
}

#define NOTICED(test) cmocka_unit_test_setup_teardown(test, notice_dead_handles, expect_none_was_called)

int main(void) {
    const struct CMUnitTest tests[] = {
        NOTICED(work_of_the_dead_stream_is_waited_for),
        NOTICED(a_note_of_the_dead_stream_stays_one),
        NOTICED(the_new_streams_work_is_its_own),
        NOTICED(blocks_outlive_their_streams),
        NOTICED(blocks_outlive_their_streams_with_a_pool_a_stream),
        NOTICED(streams_come_and_go),
    };
    test_device();
    return cmocka_run_group_tests_name("a_recycled_stream_handle_inherits_nothing", tests, NULL, NULL);
}
