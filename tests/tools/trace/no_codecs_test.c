/* SPDX-License-Identifier: Apache-2.0 */
/* A build without zlib and libzstd says so of compressed files, and reads and writes the others. */
#include "fixture.h"

#include "tools/trace/write.h"

static void compressed_files_are_refused_with_the_reason(void **state) {
    (void)state;
    static const struct {
        const char *bytes, *name, *sentence;
    } cases[] = {{"\x1f\x8b\x08", "a.trace", "it is compressed by gzip, which this build of weir can't read"},
                 {"\x28\xb5\x2f\xfd", "b.trace", "it is compressed by zstd, which this build of weir can't read"}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct trace trace;
        char why[300];
        put_file(in_folder(cases[i].name), cases[i].bytes, strlen(cases[i].bytes));
        assert_false(trace_read(in_folder(cases[i].name), &trace, why, sizeof why));
        if (strstr(why, cases[i].sentence) == NULL) fail_msg("%s", why);
    }
}

static void compressed_files_are_not_written(void **state) {
    (void)state;
    char why[300];
    assert_null(trace_writer_open(in_folder("c.gz"), why, sizeof why));
    assert_non_null(strstr(why, "c.gz: this build of weir can't write gzip"));
    assert_null(trace_writer_open(in_folder("c.zst"), why, sizeof why));
    assert_non_null(strstr(why, "c.zst: this build of weir can't write zstd"));
    assert_false(is_there(in_folder("c.zst.part")));
}

static void plain_files_are_written_and_read(void **state) {
    (void)state;
    char why[300];
    struct trace trace;
    struct trace_writer *writer = trace_writer_open(in_folder("d.trace"), why, sizeof why);
    assert_non_null(writer);
    trace_put_sync_device(writer);
    assert_true(trace_writer_close(writer, why, sizeof why));
    assert_true(trace_read(in_folder("d.trace"), &trace, why, sizeof why));
    assert_int_equal(trace.op_count, 1);
    trace_free(&trace);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compressed_files_are_refused_with_the_reason),
        cmocka_unit_test(compressed_files_are_not_written),
        cmocka_unit_test(plain_files_are_written_and_read),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
