/* SPDX-License-Identifier: Apache-2.0 */
/* weir-trace as a program: what it says, writes and removes, and its exit status. WEIR_TRACE_PROGRAM is the program. */
#include "fixture.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char text[] = "weir-trace 1\n# stream 0 comp\"ute\nm 1 1048576 0\ni\nm 2 512 1\nf 2\ni\nm 3 512 1\nf 3\n";
enum { TEXT_BYTES = sizeof text - 1 };

/* Runs `weir-trace ARGUMENTS` in the folder; gives its exit status. What it says is in the file "said". */
static int run(const char *arguments) {
    char command[1500];
    snprintf(command, sizeof command, "cd '%s' && '%s' %s >said 2>&1", in_folder(""), getenv("WEIR_TRACE_PROGRAM"),
             arguments);
    const int status = system(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void assert_run(int expected, const char *arguments, const char *sentence) {
    const int status = run(arguments);
    size_t size;
    char *said = get_file(in_folder("said"), &size);
    if (status != expected) fail_msg("%s: exit status %d, expected %d: %s", arguments, status, expected, said);
    if (strstr(said, sentence) == NULL) fail_msg("%s says \"%s\", expected \"%s\"", arguments, said, sentence);
    free(said);
}

static void put_trace(const char *name) { put_file(in_folder(name), text, TEXT_BYTES); }

static void assert_holds(const char *name, const char *expected) {
    size_t size;
    char *bytes = get_file(in_folder(name), &size);
    if (strstr(bytes, expected) == NULL) fail_msg("%s holds \"%s\", expected \"%s\"", name, bytes, expected);
    free(bytes);
}

/* ---- pack ------------------------------------------------------------------------------------------------------- */

static void packing_puts_a_compressed_copy_in_the_files_place(void **state) {
    (void)state;
    static const struct {
        const char *arguments, *there;
        unsigned char first;
    } cases[] = {{"pack run.trace", "run.trace.zst", 0x28}, {"pack --gzip run.trace", "run.trace.gz", 0x1f}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct trace trace;
        struct stat original, packed;
        char why[300];
        size_t size;
        put_trace("run.trace");
        assert_int_equal(chmod(in_folder("run.trace"), 0640), 0);
        assert_int_equal(stat(in_folder("run.trace"), &original), 0);
        assert_run(0, cases[i].arguments, cases[i].there);
        assert_false(is_there(in_folder("run.trace")));
        char *bytes = get_file(in_folder(cases[i].there), &size);
        assert_int_equal((unsigned char)bytes[0], cases[i].first);
        free(bytes);
        assert_int_equal(stat(in_folder(cases[i].there), &packed), 0);
        assert_int_equal(packed.st_mode, original.st_mode);
        assert_int_equal(packed.st_mtime, original.st_mtime);
        if (!trace_read(in_folder(cases[i].there), &trace, why, sizeof why)) fail_msg("%s", why);
        assert_int_equal(trace.block_count, 3);
        trace_free(&trace);
        unlink(in_folder(cases[i].there));
    }
}

static void packing_replaces_nothing_unless_it_is_told_to(void **state) {
    (void)state;
    put_trace("run.trace");
    put_file(in_folder("run.trace.zst"), "mine", 4);
    assert_run(2, "pack run.trace", "run.trace.zst: it is there already (--force replaces it)");
    assert_holds("run.trace.zst", "mine");
    assert_true(is_there(in_folder("run.trace")));
    assert_run(0, "pack --force --keep run.trace", "run.trace.zst: ");
    assert_true(is_there(in_folder("run.trace")));
    assert_run(2, "pack run.trace.zst", "run.trace.zst: it is compressed already");
    unlink(in_folder("run.trace.zst"));
}

static void what_is_no_trace_is_not_packed(void **state) {
    (void)state;
    put_file(in_folder("bad.trace"), "weir-trace 1\nf 7\n", 17);
    put_trace("good.trace");
    assert_run(2, "pack bad.trace good.trace none.trace .", "bad.trace: line 2 (byte 13): block 7 was never allocated");
    assert_holds("said", "none.trace: No such file or directory");
    assert_holds("said", ".: it is a folder");
    assert_true(is_there(in_folder("bad.trace")));
    assert_false(is_there(in_folder("bad.trace.zst")));
    assert_false(is_there(in_folder("good.trace"))); /* the others are packed */
    assert_true(is_there(in_folder("good.trace.zst")));
    unlink(in_folder("good.trace.zst"));
}

/* Also when the disk is full in the middle: a limit of the file's size stands for it. */
static void a_copy_that_fails_leaves_the_original(void **state) {
    (void)state;
    static char large[1 << 20];
    size_t length = (size_t)snprintf(large, sizeof large, "weir-trace 1\n");
    for (unsigned i = 1; length < sizeof large - 100; i++)
        length += (size_t)snprintf(large + length, sizeof large - length, "m %u %u 0\n", i, i * 2654435761u >> 12);
    put_file(in_folder("large.trace"), large, length);
    char command[1500];
    snprintf(command, sizeof command, "cd '%s' && (ulimit -f 8; '%s' pack large.trace) >said 2>&1", in_folder(""),
             getenv("WEIR_TRACE_PROGRAM"));
    const int status = system(command);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_holds("said", "large.trace.zst: File too large");
    assert_true(is_there(in_folder("large.trace")));
    assert_false(is_there(in_folder("large.trace.zst")));
    assert_false(is_there(in_folder("large.trace.zst.part")));
}

/* ---- outputs ---------------------------------------------------------------------------------------------------- */

static void an_output_that_is_the_input_is_refused_before_anything_is_written(void **state) {
    (void)state;
    put_file(in_folder("log.csv"), "mine", 4);
    assert_int_equal(link(in_folder("log.csv"), in_folder("link")), 0);
    assert_run(2, "convert log.csv -o ./log.csv", "-o ./log.csv would overwrite the input log.csv");
    assert_run(2, "convert log.csv -o link", "-o link would overwrite the input log.csv");
    assert_run(2, "convert log.csv --json=link -o new.trace", "--json=link would overwrite the input log.csv");
    assert_run(2, "convert - -o log.csv <log.csv", "-o log.csv would overwrite the input -");
    assert_int_equal(rename(in_folder("link"), in_folder("new.trace.part")), 0);
    assert_run(2, "convert new.trace.part -o new.trace", "-o new.trace would overwrite the input new.trace.part");
    assert_holds("log.csv", "mine");
    assert_false(is_there(in_folder("new.trace")));
    put_trace("run.trace");
    assert_int_equal(symlink("run.trace", in_folder("run.trace.zst")), 0);
    assert_run(2, "pack --force run.trace", "run.trace.zst: it is the trace itself, by another name");
    assert_run(2, "info run.trace --json=run.trace.zst", "--json=run.trace.zst would overwrite the trace run.trace");
    assert_holds("run.trace", text);
    unlink(in_folder("run.trace.zst"));
}

/* ---- info ------------------------------------------------------------------------------------------------------- */

static void info_says_where_the_memory_goes(void **state) {
    (void)state;
    put_trace("run.trace");
    assert_run(0, "info run.trace", "peak live 1.00 MiB (1049088 bytes; 1049088 with each block rounded up to 512)");
    assert_holds("said", "run.trace: 7 operations, 3 blocks on 2 streams, 2 iterations");
    assert_holds("said", "on comp\"ute");
    assert_holds("said", "on stream 1");
    assert_holds("said", "iterations: 1 of 1 makes the same requests as the one before");
}

static void info_rounds_and_counts_one_as_one(void **state) {
    (void)state;
    static const char one[] = "weir-trace 1\nm 1 1572863 0\n";
    put_file(in_folder("one.trace"), one, sizeof one - 1);
    assert_run(0, "info one.trace", "one.trace: 1 operation, 1 block on 1 stream, 0 iterations\n");
    assert_holds("said", "peak live 1.50 MiB (1572863 bytes");
}

static void info_writes_json_to_standard_output_or_to_a_file(void **state) {
    (void)state;
    put_trace("run.trace");
    assert_run(0, "info --json=out.json run.trace", "peak live");
    assert_holds("out.json", "{\"trace\":\"run.trace\"");
    assert_holds("out.json", "\"peak_live_bytes\":1049088, \"peak_rounded_bytes\":1049088,");
    assert_holds("out.json", "{\"name\":\"comp\\u0022ute\",\"id\":0,");
    assert_holds("out.json", "\"iterations\":2, \"identical_iterations\":1,");
    assert_run(0, "info - --json < run.trace", "{\"trace\":\"-\"");
    assert_run(0, "pack run.trace", "");
    assert_run(0, "info run.trace.zst", "1 of 1 makes the same");
    unlink(in_folder("run.trace.zst"));
}

static void bad_input_is_told_with_exit_status_2(void **state) {
    (void)state;
    put_trace("run.trace");
    assert_run(2, "info", "weir-trace info: no trace given");
    assert_run(2, "info none", "weir-trace info: none: No such file or directory");
    assert_run(2, "info run.trace run.trace", "weir-trace info: one trace at a time; 'run.trace' is a second one");
    assert_run(2, "info --jsn run.trace", "weir-trace info: unknown option --jsn; did you mean --json?");
    assert_run(2, "info --json=no/where run.trace", "weir-trace info: no/where: No such file or directory");
    assert_run(2, "pack", "weir-trace pack: no trace given");
    assert_run(2, "pack --bogus", "weir-trace pack: unknown option --bogus");
    assert_run(2, "inf run.trace", "weir-trace: unknown command 'inf'; did you mean info?");
    assert_run(2, "", "usage: weir-trace COMMAND");
    assert_run(0, "--help", "info");
    assert_run(0, "info --help", "usage: weir-trace info");
    assert_run(0, "pack --help", "usage: weir-trace pack");
    assert_run(1, "info run.trace --json=/dev/full", "/dev/full could not be written");
}

static void help_that_can_not_be_written_is_a_failure(void **state) {
    (void)state;
    static const char *const asked[] = {"--help", "--version", "pack --help", "gen --help", "info --help"};
    for (size_t i = 0; i < COUNT(asked); i++) {
        char command[1500];
        snprintf(command, sizeof command, "cd '%s' && '%s' %s >/dev/full 2>said", in_folder(""),
                 getenv("WEIR_TRACE_PROGRAM"), asked[i]);
        const int status = system(command);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 1);
        assert_holds("said", "No space left on device");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packing_puts_a_compressed_copy_in_the_files_place),
        cmocka_unit_test(packing_replaces_nothing_unless_it_is_told_to),
        cmocka_unit_test(what_is_no_trace_is_not_packed),
        cmocka_unit_test(a_copy_that_fails_leaves_the_original),
        cmocka_unit_test(help_that_can_not_be_written_is_a_failure),
        cmocka_unit_test(an_output_that_is_the_input_is_refused_before_anything_is_written),
        cmocka_unit_test(info_says_where_the_memory_goes),
        cmocka_unit_test(info_rounds_and_counts_one_as_one),
        cmocka_unit_test(info_writes_json_to_standard_output_or_to_a_file),
        cmocka_unit_test(bad_input_is_told_with_exit_status_2),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
