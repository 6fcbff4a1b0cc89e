/* SPDX-License-Identifier: Apache-2.0 */
/* The default budget is a half of what the process may still take, over the ranks. */
#include "offload/budget.h"

#include "world.h"

static void a_half_is_shared_by_the_ranks(void **state) {
    (void)state;
    assert_int_equal(weir__default_budget(8000, 0), 4000);
    assert_int_equal(weir__default_budget(8000, 4), 1000);
    assert_true(weir__default_budget(SIZE_MAX, 1) <= (size_t)1 << 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_half_is_shared_by_the_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
