/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated runtime's own ABI header says what the Toolkit's headers say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/runtime/abi_rows.h"

static void every_value_and_layout_is_as_in_the_toolkit(void **state) {
    (void)state;
    assert_int_equal(abi_row_count_of_weir, abi_row_count_of_toolkit);
    assert_true(abi_row_count_of_weir > 500);
    for (size_t i = 0; i < abi_row_count_of_weir; i++) {
        assert_string_equal(abi_rows_of_weir[i].name, abi_rows_of_toolkit[i].name);
        if (abi_rows_of_weir[i].value != abi_rows_of_toolkit[i].value)
            fail_msg("%s: weir has %lld, the Toolkit %lld", abi_rows_of_weir[i].name, abi_rows_of_weir[i].value,
                     abi_rows_of_toolkit[i].value);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_value_and_layout_is_as_in_the_toolkit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
