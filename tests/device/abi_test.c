/* SPDX-License-Identifier: Apache-2.0 */
/* device/cuda_abi.h and device/emu/emu_types.h say what the Toolkit's cuda.h says, value for value. Built only where
 * cuda.h is found. */
#include "tests/device/machine.h"

#include "tests/device/abi_rows.h"

static void every_value_and_layout_is_that_of_the_toolkit(void **state) {
    (void)state;
    assert_true(abi_row_count_of_weir > 400); /* the list of names was made */
    assert_int_equal(abi_row_count_of_weir, abi_row_count_of_toolkit);
    for (size_t i = 0; i < abi_row_count_of_weir; i++) {
        const struct abi_row ours = abi_rows_of_weir[i], theirs = abi_rows_of_toolkit[i];
        assert_string_equal(ours.name, theirs.name);
        if (ours.value != theirs.value) fail_msg("%s is %lld, and %lld in cuda.h", ours.name, ours.value, theirs.value);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_value_and_layout_is_that_of_the_toolkit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
