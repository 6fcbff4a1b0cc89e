/* SPDX-License-Identifier: Apache-2.0 */
/* A driver that refuses an event once: what streams freed before it is found again, and nothing waits for a mark that was never made. */
#include <time.h>

#include "support.h"

enum { LIMIT = 192, WAIT_NS = 200000000, PATIENCE_S = 5 };

static const struct weir__driver *real;
static int refusals; /* still to be made */

static CUresult record(CUevent event, CUstream stream) {
    if (refusals == 0) return real->event_record(event, stream);
    refusals--;
    return CUDA_ERROR_UNKNOWN;
}

static CUresult record_all(CUcontext context, CUevent event) {
    if (refusals == 0) return real->context_record(context, event);
    refusals--;
    return CUDA_ERROR_UNKNOWN;
}

static struct weir_pool *open_refused(struct weir__driver *refusing) {
    refusals = 0;
    real = test_device()->driver;
    *refusing = *real;
    refusing->event_record = record;
    refusing->context_record = record_all;
    test_device()->driver = refusing;
    const struct weir_pool_options options = {
        .size = sizeof options, .limit_bytes = LIMIT * PAGE, .wait_limit_ns = WAIT_NS, .policy = WEIR_POLICY_LATENCY};
    struct weir_pool *pool;
    OK(weir_pool_create(test_device(), &options, &pool));
    return pool;
}

static void close_refused(struct weir_pool *pool) {
    OK(weir_pool_check(pool));
    weir_pool_destroy(pool);
    test_device()->driver = real;
}

/* All that is idle is over, so it goes back, and serves whoever asks. */
static void is_found_again(struct weir_pool *pool, weir_stream stream) {
    refusals = 0;
    OK(weir_device_synchronize(test_device()));
    const time_t end = time(NULL) + PATIENCE_S; /* trim waits for nothing, and events may pass late */
    do OK(weir_pool_trim(pool, 0));
    while (stats_of(pool).held_bytes > 0 && time(NULL) < end);
    assert_int_equal(stats_of(pool).held_bytes, 0);
    OK(weir_pool_free(pool, alloc(pool, LIMIT * PAGE, stream), stream));
}

static void a_stream_whose_mark_was_refused_is_asked_later(void **state) {
    (void)state;
    struct weir__driver refusing;
    struct weir_pool *pool = open_refused(&refusing);
    weir_stream stream = new_stream(), other = new_stream();
    void *block = alloc(pool, (WEIR__MARK_GRANULES + 1) * PAGE, stream); /* so much that a mark is due at once */
    refusals = 1;
    OK(weir_pool_free(pool, block, stream));
    assert_int_equal(refusals, 0);
    is_found_again(pool, other);
    close_refused(pool);
}

static void streams_whose_common_mark_was_refused_are_asked_later(void **state) {
    (void)state;
    struct weir__driver refusing;
    struct weir_pool *pool = open_refused(&refusing);
    weir_stream stream = new_stream(), other = new_stream();
    void *block = alloc(pool, 40 * PAGE, stream), *unnamed = alloc(pool, PAGE, other);
    struct gate *gate = put_gate(stream);
    OK(weir_pool_free(pool, block, stream));
    OK(weir_pool_free_any(pool, unnamed));
    refusals = 1;
    (void)weir_pool_trim(pool, 0); /* asks what is over in the whole context */
    assert_int_equal(refusals, 0);
    open_gate(gate);
    is_found_again(pool, other);
    close_refused(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_whose_mark_was_refused_is_asked_later),
        cmocka_unit_test(streams_whose_common_mark_was_refused_are_asked_later),
    };
    return cmocka_run_group_tests_name("refused_mark", tests, NULL, NULL);
}
