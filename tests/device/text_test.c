/* SPDX-License-Identifier: Apache-2.0 */
/* The readers of text: bytes with units, and the nearest known name; and what statuses are called. */
#include "tests/device/machine.h"

#include "weir/weir.h"

static void assert_bytes(const char *text, size_t expected) {
    size_t bytes = 1;
    if (!weir__parse_bytes(text, &bytes)) fail_msg("\"%s\" was refused", text);
    if (bytes != expected) fail_msg("\"%s\" gave %zu, expected %zu", text, bytes, expected);
}

static void bytes_are_read_with_units_of_1024(void **state) {
    (void)state;
    assert_bytes("0", 0);
    assert_bytes("1048576", 1048576);
    assert_bytes("64M", (size_t)64 << 20);
    assert_bytes("64m", (size_t)64 << 20);
    assert_bytes(" 16 KiB", 16 << 10);
    assert_bytes("1.5GiB", (size_t)3 << 29);
    assert_bytes("0.5K", 512);
    assert_bytes("2T", (size_t)2 << 40);
    assert_bytes("512B", 512);
    assert_bytes("18446744073709551615", SIZE_MAX);
}

static void malformed_bytes_are_refused(void **state) {
    (void)state;
    static const char *const wrong[] = {"",          "M",   "-1",  "+1",  "1 kB", "1MB",  "1Mi", "0x10",
                                        "1e6",       "1.M", "nan", "inf", "1.5.", "64MM", "1P",  "18446744073709551616",
                                        "16777216T", "1,5M"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        size_t bytes;
        if (weir__parse_bytes(wrong[i], &bytes)) fail_msg("\"%s\" was taken for %zu", wrong[i], bytes);
    }
}

static void the_nearest_name_is_found_only_when_it_is_near(void **state) {
    (void)state;
    static const char *const known[] = {"policy", "limit", "wait_limit", "capacity"};
    assert_string_equal(weir__nearest("polcy", known, 4), "policy");
    assert_string_equal(weir__nearest("Limit", known, 4), "limit");
    assert_string_equal(weir__nearest("wait-limit", known, 4), "wait_limit");
    assert_null(weir__nearest("temperature", known, 4));
    assert_null(weir__nearest("", known, 4));
    assert_null(weir__nearest("policy", known, 0));
    char endless[1000];
    memset(endless, 'p', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    assert_null(weir__nearest(endless, known, 4));
}

static void a_status_has_a_name_and_a_text(void **state) {
    (void)state;
    assert_string_equal(weir_status_name(WEIR_OUT_OF_MEMORY), "WEIR_OUT_OF_MEMORY");
    assert_string_equal(weir_status_text(WEIR_OUT_OF_MEMORY), "out of device memory");
    assert_string_equal(weir_status_name((enum weir_status)1234), "WEIR_UNKNOWN_STATUS");
}

static void the_last_error_is_kept_and_cut_to_its_room(void **state) {
    (void)state;
    char endless[1000];
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    assert_int_equal(weir__fail(WEIR_SYSTEM, 7, "open", "%s", endless), WEIR_SYSTEM);
    const struct weir_error *error = weir_last_error();
    assert_int_equal(error->status, WEIR_SYSTEM);
    assert_int_equal(error->driver_code, 7);
    assert_string_equal(error->call, "open");
    assert_int_equal(strlen(error->message), sizeof error->message - 1);
}

static void the_version_is_that_of_the_header(void **state) {
    (void)state;
    assert_string_equal(weir_version(), WEIR_VERSION_STRING);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_read_with_units_of_1024),
        cmocka_unit_test(malformed_bytes_are_refused),
        cmocka_unit_test(the_nearest_name_is_found_only_when_it_is_near),
        cmocka_unit_test(a_status_has_a_name_and_a_text),
        cmocka_unit_test(the_last_error_is_kept_and_cut_to_its_room),
        cmocka_unit_test(the_version_is_that_of_the_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
