/* SPDX-License-Identifier: Apache-2.0 */
/* What is written is what is read, in every form; a file appears when it is whole, or not at all. */
#include "fixture.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/trace/write.h"

static const char written[] = "weir-trace 1\n"
                              "# stream 7 the compute stream\n"
                              "# made for 3 of 4\n"
                              "p 1 4096 7\n"
                              "m 18446744073709551615 0 18446744073709551614\n"
                              "a 18446744073709551615 512\n"
                              "m 3 10 7\n"
                              "m 4 1125899906842 7\n"
                              "u 3 2\n"
                              "k 7 0.0\n"
                              "k 7 35.4\n"
                              "k 7 123456.8\n"
                              "k 7 1000000000000.0\n"
                              "e 18446744073709551615 7\n"
                              "w 18446744073709551615 2\n"
                              "h 18446744073709551615\n"
                              "s 2\n"
                              "d\n"
                              "i\n"
                              "f 1\n"
                              "f 3 2\n"
                              "f 4 @18446744073709551615\n"
                              "f 18446744073709551615 *\n"
                              "x 2\n"
                              "y 18446744073709551615\n";

static void put_everything(struct trace_writer *writer) {
    trace_put_stream_name(writer, 7, "the compute\nstream");
    trace_put_stream_name(writer, 8, "");
    trace_put_comment(writer, "made for %d of %s", 3, "4");
    trace_put_live(writer, 1, 4096, 7);
    trace_put_alloc(writer, UINT64_MAX, 0, UINT64_MAX - 1);
    trace_put_align(writer, UINT64_MAX, 512);
    trace_put_alloc(writer, 3, 10, 7);
    trace_put_alloc(writer, 4, UINT64_C(1125899906842), 7);
    trace_put_use(writer, 3, 2);
    trace_put_work(writer, 7, 0.04);
    trace_put_work(writer, 7, 35.4);
    trace_put_work(writer, 7, 123456.78);
    trace_put_work(writer, 7, 1e12);
    trace_put_record(writer, UINT64_MAX, 7);
    trace_put_wait(writer, UINT64_MAX, 2);
    trace_put_host_wait(writer, UINT64_MAX);
    trace_put_sync_stream(writer, 2);
    trace_put_sync_device(writer);
    trace_put_iteration(writer);
    trace_put_free(writer, 1);
    trace_put_free_on(writer, 3, 2);
    trace_put_free_after(writer, 4, UINT64_MAX);
    trace_put_free_any(writer, UINT64_MAX);
    trace_put_destroy_stream(writer, 2);
    trace_put_destroy_event(writer, UINT64_MAX);
}

static struct trace_writer *open_good(const char *path) {
    char why[300];
    struct trace_writer *writer = trace_writer_open(path, why, sizeof why);
    if (writer == NULL) fail_msg("%s", why);
    return writer;
}

static void close_good(struct trace_writer *writer) {
    char why[300];
    if (!trace_writer_close(writer, why, sizeof why)) fail_msg("%s", why);
}

static void every_operation_is_written_as_the_format_has_it(void **state) {
    (void)state;
    const char *path = in_folder("plain.trace");
    struct trace_writer *writer = open_good(path);
    put_everything(writer);
    close_good(writer);
    size_t size;
    char *bytes = get_file(path, &size);
    assert_string_equal(bytes, written);
    free(bytes);
}

static void what_is_written_is_read_again_compressed_or_not(void **state) {
    (void)state;
    static const char *const names[] = {"a.trace", "b.trace.gz", "c.zst", ".gz"};
    static const unsigned char first[] = {'w', 0x1f, 0x28, 'w'};
    for (size_t i = 0; i < COUNT(names); i++) {
        char why[300];
        struct trace trace;
        const char *path = i < 3 ? in_folder(names[i]) : in_folder("no-ending-gz");
        struct trace_writer *writer = open_good(path);
        put_everything(writer);
        close_good(writer);
        size_t size;
        char *bytes = get_file(path, &size);
        assert_int_equal((unsigned char)bytes[0], first[i]);
        free(bytes);
        if (!trace_read(path, &trace, why, sizeof why)) fail_msg("%s", why);
        assert_int_equal(trace.op_count, 21);
        assert_string_equal(trace.stream_names[0], "the compute stream");
        assert_int_equal(trace.ops[1].align, 9);
        trace_free(&trace);
    }
}

/* More than any buffer on the way, with numbers of every length. */
static void a_long_trace_is_written_whole(void **state) {
    (void)state;
    enum { BLOCKS = 40000 };
    static const char *const names[] = {"long.trace", "long.gz", "long.zst"};
    for (size_t i = 0; i < COUNT(names); i++) {
        const char *path = in_folder(names[i]);
        struct trace_writer *writer = open_good(path);
        for (uint64_t block = 0; block < BLOCKS; block++) {
            trace_put_alloc(writer, block, block % 1000 << block % 30, block % 7);
            if (block % 3 != 0) trace_put_free(writer, block);
        }
        close_good(writer);
        struct trace trace;
        char why[300];
        if (!trace_read(path, &trace, why, sizeof why)) fail_msg("%s", why);
        assert_int_equal(trace.block_count, BLOCKS);
        for (size_t op = 0; op < trace.op_count; op++) {
            const uint64_t block = trace.ops[op].block;
            assert_int_equal(trace.ops[op].bytes, block % 1000 << block % 30);
        }
        trace_free(&trace);
    }
}

static void a_file_appears_when_it_is_whole(void **state) {
    (void)state;
    const char *path = in_folder("new.trace"), *part = in_folder("new.trace.part");
    put_file(path, "older", 5);
    struct trace_writer *writer = open_good(path);
    trace_put_sync_device(writer);
    size_t size;
    char *bytes = get_file(path, &size);
    assert_string_equal(bytes, "older");
    free(bytes);
    assert_true(is_there(part));
    close_good(writer);
    assert_false(is_there(part));
    bytes = get_file(path, &size);
    assert_string_equal(bytes, "weir-trace 1\nd\n");
    free(bytes);
}

static void an_abandoned_file_never_appears(void **state) {
    (void)state;
    struct trace_writer *writer = open_good(in_folder("never.zst"));
    trace_put_sync_device(writer);
    trace_writer_abandon(writer);
    assert_false(is_there(in_folder("never.zst")));
    assert_false(is_there(in_folder("never.zst.part")));
}

/* Devices are reached through a link of the folder's: what takes a name's place takes the link's, and harms nobody. */
static const char *link_to(const char *name, const char *device) {
    const char *path = in_folder(name);
    assert_int_equal(symlink(device, path), 0);
    return path;
}

static void a_failure_is_told_at_the_end(void **state) {
    (void)state;
    char why[300];
    assert_null(trace_writer_open(in_folder("no/folder"), why, sizeof why));
    assert_non_null(strstr(why, "no/folder.part: No such file or directory"));
    const char *full = link_to("full", "/dev/full");
    struct trace_writer *writer = open_good(full);
    for (int i = 0; i < 100000; i++) trace_put_free(writer, 5);
    assert_false(trace_writer_close(writer, why, sizeof why));
    assert_non_null(strstr(why, "/full: No space left on device"));
}

static void work_that_is_no_time_is_told_and_leaves_no_file(void **state) {
    (void)state;
    static const double times[] = {-0.1, 1.1e12, (double)INFINITY, (double)NAN};
    for (size_t i = 0; i < COUNT(times); i++) {
        char why[300];
        struct trace_writer *writer = open_good(in_folder("bad.trace"));
        trace_put_work(writer, 0, times[i]);
        assert_false(trace_writer_close(writer, why, sizeof why));
        assert_non_null(strstr(why, "us can't be written: from 0 to 10^12 us"));
        assert_false(is_there(in_folder("bad.trace")));
        assert_false(is_there(in_folder("bad.trace.part")));
    }
}

/* Else a file would take the device's place. */
static void a_device_is_written_as_it_is(void **state) {
    (void)state;
    const char *null = link_to("null", "/dev/null");
    struct trace_writer *writer = open_good(null);
    put_everything(writer);
    close_good(writer);
    struct stat status;
    assert_true(lstat(null, &status) == 0 && S_ISLNK(status.st_mode));
    assert_true(stat(null, &status) == 0 && S_ISCHR(status.st_mode));
    assert_false(is_there(in_folder("null.part")));
}

/* What lies in the folder under the name of the unfinished file is neither followed nor gone on with. */
static void an_unfinished_file_is_never_written_through_a_link(void **state) {
    (void)state;
    char why[300];
    size_t size;
    const char *mine = in_folder("mine"), *part = in_folder("led.trace.part");
    put_file(mine, "mine", 4);
    assert_int_equal(symlink(mine, part), 0);
    assert_null(trace_writer_open(in_folder("led.trace"), why, sizeof why));
    assert_non_null(strstr(why, "led.trace.part: File exists"));
    assert_int_equal(unlink(part), 0);
    assert_int_equal(link(mine, part), 0); /* as if left by an earlier writing, but another file's too */
    struct trace_writer *writer = open_good(in_folder("led.trace"));
    trace_put_sync_device(writer);
    close_good(writer);
    char *bytes = get_file(mine, &size);
    assert_string_equal(bytes, "mine");
    free(bytes);
    bytes = get_file(in_folder("led.trace"), &size);
    assert_string_equal(bytes, "weir-trace 1\nd\n");
    free(bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_is_written_as_the_format_has_it),
        cmocka_unit_test(what_is_written_is_read_again_compressed_or_not),
        cmocka_unit_test(a_long_trace_is_written_whole),
        cmocka_unit_test(a_file_appears_when_it_is_whole),
        cmocka_unit_test(an_unfinished_file_is_never_written_through_a_link),
        cmocka_unit_test(an_abandoned_file_never_appears),
        cmocka_unit_test(a_failure_is_told_at_the_end),
        cmocka_unit_test(work_that_is_no_time_is_told_and_leaves_no_file),
        cmocka_unit_test(a_device_is_written_as_it_is),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
