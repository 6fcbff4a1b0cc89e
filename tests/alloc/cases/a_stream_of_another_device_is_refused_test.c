/* SPDX-License-Identifier: Apache-2.0 */
/* A pool serves the streams of its own device. One of another device is named by mistake: the call says so and changes
 * nothing. Runs with two devices. */
#include <string.h>

#include "tests/alloc/cases/scene.h"

static struct weir_device *second;
static weir_stream mine, theirs;

static void expect_refused_as_anothers(enum weir_status status) {
    assert_int_equal(status, WEIR_INVALID);
    if (strstr(weir_last_error()->message, "device") == NULL) fail_msg("'%s'", weir_last_error()->message);
}

static void name_theirs(struct weir_pool *pool) {
    void *block = alloc(pool, 1 * MIB, mine), *none = pool;
    struct weir_pool_stats before = stats_of(pool);
    expect_refused_as_anothers(weir_pool_alloc(pool, 1 * MIB, theirs, &none));
    assert_null(none);
    expect_refused_as_anothers(weir_pool_note(pool, block, theirs));
    expect_refused_as_anothers(weir_pool_free(pool, block, theirs));
    struct weir_pool_stats after = stats_of(pool);
    assert_same_state(&before, &after);
    OK(weir_pool_free(pool, block, mine));
    OK(weir_device_synchronize(test_device()));
}

static void every_call_that_names_one_says_so(void **state) {
    (void)state;
    with_shared_pools(GIB, name_theirs);
}

static int open_second(void **state) {
    (void)state;
    test_device();
    OK(weir_device_open(
        &(struct weir_device_options){.size = sizeof(struct weir_device_options), .machine = "emulated", .ordinal = 1},
        &second));
    mine = new_stream();
    OK(weir_stream_create(second, &theirs));
    return 0;
}

static int close_second(void **state) {
    (void)state;
    OK(weir_stream_destroy(second, theirs));
    weir_device_close(second);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_that_names_one_says_so),
    };
    return cmocka_run_group_tests_name("a_stream_of_another_device_is_refused", tests, open_second, close_second);
}
