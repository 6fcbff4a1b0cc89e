/* SPDX-License-Identifier: Apache-2.0 */
/* weir-trace convert on the JSON of PyTorch's profiler: memory events, work joined with its launch, and waits, in whatever
 * order the file has them; what is broken, too much or cut is refused where it stands. */
#include "convert_fixture.h"
#include "tests/sanitized.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define MEMORY(us, addr, bytes, rest) MEMORY_OF("0", us, addr, bytes, rest)
#define MEMORY_OF(device, us, addr, bytes, rest)                                                                       \
    "{\"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"name\": \"[memory]\", \"pid\": 5, \"tid\": 6, \"ts\": " us      \
    ", \"args\": {\"Device Type\": 1, \"Device Id\": " device ", \"Addr\": " addr ", \"Bytes\": " bytes rest "}}"
#define CALL(us, name, correlation)                                                                                    \
    "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"" name "\", \"pid\": 5, \"tid\": 6, \"ts\": " us           \
    ", \"dur\": 1, \"args\": {\"correlation\": " correlation "}}"
#define WORK(us, duration, category, name, stream, correlation)                                                        \
    "{\"ph\": \"X\", \"cat\": \"" category "\", \"name\": \"" name "\", \"pid\": 0, \"tid\": " stream ", \"ts\": " us  \
    ", \"dur\": " duration ", \"args\": {\"device\": 0, \"stream\": " stream ", \"correlation\": " correlation "}}"
#define TRACE(events)                                                                                                  \
    "{\"schemaVersion\": 1, \"a \\\" ] b\": [1, {\"c\": \"}\"}], \"traceEvents\": [" events "], \"end\": 5}\n"

static void assert_trace(const char *log, const char *steps) { assert_makes(log, strlen(log), steps); }

/* The device's work stands behind what the host did, as in the profiler's files. */
static const char whole[] = TRACE(
    CALL("1669783687000010", "cudaLaunchKernel", "1") ", " CALL("1669783687000030", "cudaLaunchKernel", "2") ", " CALL(
        "1669783687000025", "cudaStreamWaitEvent",
        "3") ", " CALL("1669783687000041", "cudaEventQuery",
                       "4") ", " CALL("1669783687000042", "cudaDeviceSynchronize",
                                      "5") ", " CALL("1669783687000001", "cudaMalloc",
                                                     "6") ", " MEMORY("1669783687000020", "4096", "-700",
                                                                      ", \"Total Allocated\": "
                                                                      "1300") ", " MEMORY("166978"
                                                                                          "368700"
                                                                                          "0005",
                                                                                          "8192", "1000",
                                                                                          ", "
                                                                                          "\"Tota"
                                                                                          "l "
                                                                                          "Alloca"
                                                                                          "ted\":"
                                                                                          " 2000,"
                                                                                          " \"Tot"
                                                                                          "al "
                                                                                          "Reserv"
                                                                                          "ed\": "
                                                                                          "8192") ", " WORK("1669783687"
                                                                                                            "000015.5",
                                                                                                            "4.5",
                                                                                                            "kernel",
                                                                                                            "gemm", "7",
                                                                                                            "1") ","
                                                                                                                 " " WORK(
                                                                                                                     "1"
                                                                                                                     "6"
                                                                                                                     "6"
                                                                                                                     "9"
                                                                                                                     "7"
                                                                                                                     "8"
                                                                                                                     "3"
                                                                                                                     "6"
                                                                                                                     "8"
                                                                                                                     "7"
                                                                                                                     "0"
                                                                                                                     "0"
                                                                                                                     "0"
                                                                                                                     "0"
                                                                                                                     "3"
                                                                                                                     "1",
                                                                                                                     "2",
                                                                                                                     "k"
                                                                                                                     "e"
                                                                                                                     "r"
                                                                                                                     "n"
                                                                                                                     "e"
                                                                                                                     "l",
                                                                                                                     "n"
                                                                                                                     "c"
                                                                                                                     "c"
                                                                                                                     "l"
                                                                                                                     "K"
                                                                                                                     "e"
                                                                                                                     "r"
                                                                                                                     "n"
                                                                                                                     "e"
                                                                                                                     "l"
                                                                                                                     "_"
                                                                                                                     "x",
                                                                                                                     "1"
                                                                                                                     "4",
                                                                                                                     "2"));

static void a_profile_becomes_requests_work_and_waits(void **state) {
    (void)state;
    assert_trace(whole, "weir-trace 1\np 2 300 7\np 1 700 7\nm 0 1000 7\nk 7 4.5\nf 1\ne 7 7\nw 7 14\nk 14 2.0\nd\n");
    assert_says("10 rows, 3 blocks, 2 streams, peak live 2000 bytes (0.00 MiB), 0.00 MiB of it before, reserve up to "
                "0.01 MiB");
    assert_says("left out: 0 stream waits and 1 host call ");
    assert_non_null(strstr(read_file(out_path), "# stream 14 nccl\n"));
    assert_converts(convert("%s -o %s --json=%s", in_path, out_path, json_path));
    assert_non_null(strstr(read_file(json_path), "\"peak_reserve_bytes\": 8192,"));
}

static void the_reserve_is_told_where_it_changes(void **state) {
    (void)state;
    assert_trace(TRACE(MEMORY("1", "512", "5", ", \"Total Reserved\": 4096") ", " MEMORY(
                     "2", "1024", "5", ", \"Total Reserved\": 8192") ", " MEMORY("3", "1024", "-5",
                                                                                 ", \"Total Reserved\": 2048")),
                 "weir-trace 1\nm 0 5 0\nk 0 1.0\nm 1 5 0\nk 0 1.0\nf 1\n");
    assert_non_null(strstr(read_file(out_path), "# reserve +4096\n"));
    assert_non_null(strstr(read_file(out_path), "# reserve -6144\n"));
}

static void memory_events_alone_are_on_one_stream(void **state) {
    (void)state;
    static const char steps[] = "weir-trace 1\nm 0 5 0\nk 0 2.5\nf 0\n";
    assert_trace(TRACE(MEMORY("1", "512", "5", "") ", " MEMORY("3.5", "512", "-5", "")), steps);
    assert_trace("[ " MEMORY("1", "512", "5", "") "\n,3, null, \"x\", []," MEMORY("3.5", "512", "-5", "") "]\n", steps);
}

static void what_is_not_of_a_device_is_left_out(void **state) {
    (void)state;
    static const char host[] = "{\"ph\": \"i\", \"name\": \"[memory]\", \"ts\": 1, \"args\": {\"Device Type\": 0, "
                               "\"Device Id\": -1, \"Addr\": 512, \"Bytes\": 5}}";
    char log[2000];
    snprintf(log, sizeof log, "[%s, %s, %s]", host, MEMORY("1", "512", "7", ""), MEMORY("1", "512", "0", ""));
    assert_trace(log, "weir-trace 1\nm 0 7 0\n");
}

/* Valid JSON, whatever the size of its numbers; a text of any kind, a mark before it. */
static void what_is_not_used_may_be_any_json(void **state) {
    (void)state;
    static const char steps[] = "weir-trace 1\nm 0 5 0\n";
    assert_trace("\xef\xbb\xbf[" MEMORY("1", "512", "5", "") "]", steps);
    assert_trace("[{\"a\": 99999999999999999999, \"b\": [-1e999], \"c\": 1e400}, 99999999999999999999, 1e999, " MEMORY(
                     "1", "512", "5", "") "]",
                 steps);
    assert_trace(
        "[{\"ts\": 1, \"ts\": 2, \"args\": {\"Bytes\": 1, \"Bytes\": 2}, \"tid\": 18446744073709551615}, " MEMORY(
            "1", "512", "5", ", \"other\": 1, \"other\": 18446744073709551616") "]",
        steps);
    assert_trace(
        "{\"a\": [true, false, null, -0, 1.5E+3, \"\\u00e9\\\"\xc3\xa9\", {}, {\"b\": []}], \"traceEvents\" : [" MEMORY(
            "1", "512", "5", "") "]}",
        steps);
}

/* A thread that is not profiled may have freed the first. */
static void allocations_that_overlap_are_told(void **state) {
    (void)state;
    assert_trace(TRACE(MEMORY("1", "512", "512", "") ", " MEMORY("1", "768", "512", "")),
                 "weir-trace 1\nm 0 512 0\nm 1 512 0\n");
    assert_says("1 allocation where others were not freed yet");
}

static void work_without_its_launch_was_launched_when_it_began(void **state) {
    (void)state;
    assert_trace(TRACE(MEMORY("1", "512", "5", "") ", " WORK("2", "1", "kernel", "a", "7", "99") ", " WORK(
                     "4", "1", "gpu_memcpy", "a", "7",
                     "1") ", " CALL("3", "cudaGraphLaunch", "1") ", " WORK("5", "2", "gpu_memset", "a", "7",
                                                                           "1") ", " MEMORY("3", "512", "-5", "")),
                 "weir-trace 1\nm 0 5 7\nk 7 1.0\nk 7 1.0\nk 7 2.0\nf 0\n");
    assert_says("1 piece of work without a launch in the log");
}

static void of_several_devices_one_is_taken(void **state) {
    (void)state;
#define OTHER(bytes)                                                                                                   \
    "{\"ph\": \"i\", \"name\": \"[memory]\", \"ts\": 1, \"args\": {\"Device Id\": 3, \"Addr\": 512, \"Bytes\": " bytes \
    "}}"
    assert_trace(TRACE(OTHER("5") ", " OTHER("-5") ", " MEMORY("1", "512", "7", "") ", " WORK("2", "1", "kernel", "a",
                                                                                              "7", "99")),
                 "weir-trace 1\nm 0 5 0\nf 0\n");
    assert_says("of 2 devices this is device 3");
    assert_converts(convert("%s --device=0 -o %s", in_path, out_path));
    assert_same_steps(read_file(out_path), "weir-trace 1\nm 0 7 7\nk 7 1.0\n");
}

static void it_may_be_compressed_and_come_from_standard_input(void **state) {
    (void)state;
    char command[300];
    write_file(json_path, whole, strlen(whole));
    snprintf(command, sizeof command, "gzip -c '%s' >'%s'", json_path, in_path);
    assert_int_equal(run_shell(command), 0);
    assert_converts(convert("- --live-before 4096 -o %s <%s", out_path, in_path));
    assert_non_null(strstr(read_file(out_path), "\np 2 4096 7\np 1 700 7\n"));
}

/* ---- what is refused ---------------------------------------------------------------------------------------------- */

static void a_bad_profile_is_refused_with_place_and_reason(void **state) {
    (void)state;
    static const struct refusal refusals[] = {
        {"{}", ": none of its events is of a device's memory, as the profiler notes with profile_memory=True (memory "
               "of CPUs does not count)"},
        {"[]", ": none of its events is of a device's memory"},
        {"{\"traceEvents\": 5}", ": byte 16: a list of events is expected"},
        {"[5", ": byte 2: the text ends where a comma, or the list's end, is expected"},
        {"[5 5]", ": byte 3: a comma, or the list's end, is expected"},
        {"[,5]", ": byte 1: event 1: a value is expected"},
        {"[5}", ": byte 2: a comma, or the list's end, is expected"},
        {"[5]5", ": byte 3: the end is expected"},
        {"{5: 5}", ": byte 1: a key, in quotes, is expected"},
        {"{\"a\" 5}", ": byte 5: a colon is expected"},
        {"{\"a\": 5,}", ": byte 8: a key, in quotes, is expected"},
        {"{\"a\": [5}", ": byte 8: a comma, or the list's end, is expected"},
        {"{\"a\": \"b", ": byte 8: the text ends where a quote, or a character in UTF-8, is expected"},
        {"{\"traceEvents\": [{\"a\": nan}]}", ": byte 24: event 1: true, false or null is expected"},
        {"[{\"a\": \"\xff\"}]", ": byte 8: event 1: a quote, or a character in UTF-8, is expected"},
        {"{\"x\":[},\"traceEvents\":[]}", ": byte 6: a value is expected"},
        {"{\"x\":[5},\"traceEvents\":[]}", ": byte 7: a comma, or the list's end, is expected"},
        {"{\"x\":\"\xff\xfe\"}", ": byte 6: a quote, or a character in UTF-8, is expected"},
        {"{\"\xff\xfe\":5}", ": byte 2: a quote, or a character in UTF-8, is expected"},
        {"{\"x\":05}", ": byte 6: a comma, or the object's end, is expected"},
        {"{\"x\":tru}", ": byte 8: true, false or null is expected"},
        {"{\"x\":\"\\q\"}", ": byte 7: the rest of an escape is expected"},
        {"{\"x\":1.}", ": byte 7: a digit is expected"},
        {"{\"traceEvents\":[], \"traceEvents\":[]}", ": byte 19: traceEvents comes a second time"},
        {TRACE(MEMORY("1e999", "512", "5", "")), "): ts is no time in microseconds from 0"},
        {TRACE(MEMORY("1", "99999999999999999999", "5", "")), "): Addr is no integer, or one beyond 63 bits"},
        {TRACE(MEMORY("1", "512", "5", ", \"Bytes\": 7")), ": event 1 (byte 66): Bytes is there twice"},
        {TRACE(MEMORY("1", "512", "5", ", \"B\\u0079tes\": 7")), "): Bytes is there twice"},
        {"[{\"name\": \"[memory]\", \"name\": \"x\"}]", ": event 1 (byte 1): name is there twice"},
        {"[{\"name\": \"[memory]\", \"args\": {\"Bytes\": 5}, \"args\": {\"Bytes\": 7}}]", "args is there twice"},
        {TRACE(MEMORY_OF("\"1\"", "1", "512", "5", "")), ": event 1 (byte 66): Device Id is no integer"},
        {TRACE(MEMORY_OF("5.5", "1", "512", "5", "")), "): Device Id is no integer"},
        {TRACE(MEMORY_OF("[]", "1", "512", "5", "")), "): Device Id is no integer"},
        {TRACE(MEMORY_OF("null", "1", "512", "5", "")), "): Device Id is no integer"},
        {"[{\"name\": \"[memory]\", \"args\": {\"Device Type\": \"1\"}}]", "Device Type is no integer"},
        {TRACE(MEMORY("1", "512", "5", ", \"Total Allocated\": \"5\"")), "): Total Allocated is no integer"},
        {TRACE(MEMORY("1", "512", "5", ", \"Total Reserved\": null")), "): Total Reserved is no integer"},
        {TRACE(MEMORY("1", "512", "5", ", \"Total Reserved\": 9223372036854775807")),
         "): Total Reserved is 9223372036854775807, the limits are 0 and 1125899906842624"},
        {TRACE(MEMORY("1", "512", "5", "") ", " MEMORY("2", "512", "-6", "")),
         ": event 2 (byte 225): 6 bytes are freed at 0x200, of a block of 5 (event 1)"},
        {TRACE(WORK("1", "1", "kernel", "a", "\"7\"", "1")), "): stream is no integer"},
        {TRACE(WORK("1", "1", "kernel", "a", "7", "\"1\"")), "): correlation is no integer"},
        {TRACE(MEMORY("\"soon\"", "512", "5", "")), "): ts is no time in microseconds from 0"},
        {TRACE(MEMORY("-1", "512", "5", "")), "): ts is no time in microseconds from 0"},
        {TRACE(MEMORY("1e18", "512", "5", "")), "): ts is no time in microseconds from 0"},
        {TRACE(MEMORY("1", "\"x\"", "5", "")), ": event 1 (byte 66): Addr is no integer"},
        {TRACE(MEMORY("1", "512", "5.5", "")), "): Bytes is no integer"},
        {"[{\"name\": \"[memory]\", \"ts\": 1}]", ": event 1 (byte 1): Addr is missing"},
        {"[{\"name\": \"[memory]\"}]", ": event 1 (byte 1): ts is missing"},
        {TRACE(MEMORY("1", "512", "-9223372036854775808", "")), "): Bytes is -9223372036854775808: too many"},
        {TRACE(MEMORY("1", "512", "1152921504606846976", "")),
         ": event 1 (byte 66): 1152921504606846976 bytes more than the 0 that are live"},
        {TRACE(MEMORY("1", "512", "5", "") ", " MEMORY("1", "512", "6", "")),
         "address 0x200 is given out while it is in use, since event 1"},
        {TRACE(MEMORY("1", "512", "-5", "") ", " MEMORY("1", "512", "-6", "")),
         "address 0x200 is freed a second time, after event 1"},
        {TRACE(MEMORY_OF("1024", "1", "512", "5", "")), "): Device Id is 1024, the limits are "},
        {TRACE(MEMORY("1", "512", "5", ", \"Total Allocated\": 9223372036854775807")),
         "): Total Allocated is 9223372036854775807, the limits are 0 and 1125899906842624"},
        {TRACE(WORK("1", "1000000000001", "kernel", "a", "7", "1")), "): dur is longer than the limit"},
        {TRACE(WORK("1", "1", "kernel", "a", "-7", "1")), "): stream is -7, the limits are 0 and 4294967295"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        assert_refused(refusals[i].table, strlen(refusals[i].table), refusals[i].sentence);
}

static void a_profile_cut_anywhere_is_refused(void **state) {
    (void)state;
    static const char small[] = "{\"a\": {\"b\": \"\\\\\"}, \"traceEvents\": [" MEMORY("1", "512", "5", "") "]}";
    assert_cut_refused(small, strlen(small), 1, ": the text ends where ");
    assert_cut_refused(whole, strlen(whole) - 1, 1, ": the text ends where ");
}

static char large[3 << 20];

static void nesting_and_length_have_limits(void **state) {
    (void)state;
    memset(large, '[', 100000);
    assert_refused(large, 100000, ": byte 2049: event 1: a value that is no deeper than 2048 brackets is expected");
    memset(large + 50001, ']', 50000);
    memcpy(large, "[{\"a\":", 6);
    memcpy(large + 100000, "}]", 2);
    assert_refused(large, 100002, ": byte 2053: event 1: a value that is no deeper than 2048 brackets");
    memcpy(large, "{\"a\":[", 6); /* around the events as well */
    assert_refused(large, 100002, ": byte 2053: a value that is no deeper than 2048 brackets");
    memset(large, 'x', sizeof large);
    memcpy(large, "[\"", 2);
    assert_refused(large, sizeof large, ": event 1 is longer than 1048576 bytes");
    memcpy(large, "{\"", 2); /* as a key it is not kept */
    assert_refused(large, sizeof large,
                   ": byte 3145728: the text ends where a quote, or a character in UTF-8, is expected");
}

/* What is kept of an event that is not converted is nothing. */
static void a_profile_of_any_length_is_read_in_little_memory(void **state) {
    (void)state;
    static const char event[] =
        "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::add\", \"pid\": 5, \"tid\": 5, \"ts\": 1, "
        "\"dur\": 45, \"args\": {\"External id\": 3073, \"Ev Idx\": 0}},\n";
    FILE *file = fopen(in_path, "w");
    assert_non_null(file);
    fputs("{\"traceEvents\": [", file);
    for (int i = 0; i < (SANITIZED ? 20000 : 150000); i++) fputs(event, file);
    fputs(MEMORY("1", "512", "5", "") "]}", file);
    assert_int_equal(fclose(file), 0);
    assert_converts(convert("%s -o %s", in_path, out_path));
    assert_same_steps(read_file(out_path), "weir-trace 1\nm 0 5 0\n");
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    assert_in_range(usage.ru_maxrss, 1, SANITIZED ? 1000000 : 120000); /* a sanitizer keeps what is freed */
}

/* ---- a profile in the wild ----------------------------------------------------------------------------------------- */

static const char wild[] = "profile/df_index_resolver.json.gz";

/* Its README says: 3,906.8 MiB live before, 6,322.4 MiB at the peak, 12,190 MiB reserved. */
static void a_profile_in_the_wild_becomes_what_its_tables_become(void **state) {
    (void)state;
    char command[600], tables[3][300];
    assert_converts(convert("%s --iterations --json=%s -o %s", shared(wild), json_path, in_path));
    const char *said = read_file(json_path);
    assert_non_null(strstr(said, "\"peak_live_bytes\": 6629508096, \"live_before_bytes\": 4096614400"));
    assert_non_null(strstr(said, "\"peak_reserve_bytes\": 12782141440"));
    assert_non_null(strstr(said, "\"stream_waits\": 6060, \"stream_waits_left_out\": 0"));
    snprintf(tables[0], sizeof *tables, "%s", shared("profile/memory_events.csv.gz"));
    snprintf(tables[1], sizeof *tables, "%s", shared("profile/gpu_work.csv.gz"));
    snprintf(tables[2], sizeof *tables, "%s", shared("profile/sync_calls.csv.gz"));
    assert_converts(convert("%s %s %s --iterations -o %s", tables[0], tables[1], tables[2], out_path));
    snprintf(command, sizeof command,
             "for f in '%s' '%s'; do grep -v '^# [cr]' \"$f\" | cksum; done | uniq | wc -l | grep -qx 1", in_path,
             out_path);
    assert_int_equal(run_shell(command), 0);
}

static void it_runs_on_one_percent_more_than_was_live(void **state) {
    (void)state;
    assert_converts(convert("%s --iterations -o %s", shared(wild), out_path));
    assert_completes(out_path, "6629508096", 66295080);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_profile_becomes_requests_work_and_waits),
        cmocka_unit_test(the_reserve_is_told_where_it_changes),
        cmocka_unit_test(memory_events_alone_are_on_one_stream),
        cmocka_unit_test(what_is_not_of_a_device_is_left_out),
        cmocka_unit_test(what_is_not_used_may_be_any_json),
        cmocka_unit_test(allocations_that_overlap_are_told),
        cmocka_unit_test(work_without_its_launch_was_launched_when_it_began),
        cmocka_unit_test(of_several_devices_one_is_taken),
        cmocka_unit_test(it_may_be_compressed_and_come_from_standard_input),
        cmocka_unit_test(a_bad_profile_is_refused_with_place_and_reason),
        cmocka_unit_test(a_profile_cut_anywhere_is_refused),
        cmocka_unit_test(nesting_and_length_have_limits),
        cmocka_unit_test(a_profile_of_any_length_is_read_in_little_memory),
        cmocka_unit_test(a_profile_in_the_wild_becomes_what_its_tables_become),
        cmocka_unit_test(it_runs_on_one_percent_more_than_was_live),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
