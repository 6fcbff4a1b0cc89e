/* SPDX-License-Identifier: Apache-2.0 */
/* weir-trace convert on logs of RMM's logging adaptor: requests on their streams, in each of the ways in which RMM has
 * written times and handles; a bad row is refused where it stands. */
#include "convert_fixture.h"

#include <stdio.h>
#include <string.h>

#define HEADER "Thread,Time,Action,Pointer,Size,Stream\n"

static void assert_log(const char *log, const char *steps) { assert_makes(log, strlen(log), steps); }

static void a_log_becomes_requests_on_their_streams(void **state) {
    (void)state;
    assert_log(HEADER "1,09:00:00.000001,allocate,0x7f0000000000,1000,0x2\n"
                      "2,09:00:00.000004,allocate,0x7f0000000400,300,0x55aa00\n"
                      "1,09:00:00.000009,free,0x7f0000000000,1000,0x55aa00\n"
                      "2,09:00:00.000010,allocate,0x7f0000000000,70,0x2\n"
                      "2,09:00:00.000010,free,0x7f0000000000,70,0x2\n",
               "weir-trace 1\nm 0 1000 2\nk 5614080 3.0\nm 1 300 5614080\nk 5614080 5.0\nf 0 5614080\nk 2 1.0\n"
               "m 2 70 2\nf 2\n");
    assert_says("5 rows, 3 blocks, 2 streams, peak live 1300 bytes");
}

static void times_and_handles_may_be_written_in_several_ways(void **state) {
    (void)state;
    static const char *const logs[] = {
        HEADER "1,10:00:00:000001,allocate,0x100,5,2\n1,10:00:00:000003,free,0x100,5,2\n",
        HEADER "1,1634567890.000001,allocate,0x100,5,0x2\n1,1634567890.000003,deallocate,0x100,5,0x2\n",
        "Size,Stream,Time,Action,Pointer\n5,0x2,1,allocate,100\n5,0x2,1.000002,free,100\n",
        HEADER "1,23:59:59.999999,allocate,0x100,5,2\n1,00:00:00.000001,free,0x100,5,2\n", /* past midnight */
    };
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++)
        assert_log(logs[i], "weir-trace 1\nm 0 5 2\nk 2 2.0\nf 0\n");
}

static void a_free_of_what_the_log_has_not_seen_was_live_before(void **state) {
    (void)state;
    assert_log(HEADER "1,1,allocate,0x100,5,0\n1,1,free,0x200,700,0\n1,1,free,0x100,5,0\n",
               "weir-trace 1\np 1 700 0\nm 0 5 0\nf 1\nf 0\n");
}

static void requests_that_failed_and_those_of_no_bytes_are_left_out(void **state) {
    (void)state;
    assert_log(HEADER "1,1,allocate,(nil),0,0\n1,1,free,(nil),0,0\n1,1,allocate failure,(nil),4096,0\n"
                      "1,1,allocate,0x100,5,0\n",
               "weir-trace 1\nm 0 5 0\n");
    assert_says("left out: 1 request that could not be served");
}

/* RMM writes what its caller said, which the resource below may not look at. */
static void a_free_of_other_bytes_frees_what_was_allocated(void **state) {
    (void)state;
    assert_log(HEADER "1,1,allocate,0x100,5,0\n1,1,free,0x100,0,0\n", "weir-trace 1\nm 0 5 0\nf 0\n");
    assert_says("1 free of other bytes than were allocated");
}

static void time_that_goes_backwards_a_little_stands_still(void **state) {
    (void)state;
    assert_log(HEADER "1,10:00:01.5,allocate,0x100,5,0\n1,10:00:01.4,allocate,0x200,5,0\n1,10:00:02,free,0x100,5,0\n",
               "weir-trace 1\nm 0 5 0\nm 1 5 0\nk 0 500000.0\nf 0\n");
}

static void a_bad_row_is_refused_with_place_and_reason(void **state) {
    (void)state;
    static const struct refusal refusals[] = {
        {HEADER, ": the table has no rows"},
        {"Thread,Time,Action,Pointer,Size\n", "column 'Stream' is missing: a table of RMM's log has Time, Action"},
        {HEADER "1,1,allocate,0x100,5\n", ": line 2 (byte 39): the line has 5 fields"},
        {HEADER "1,1,grab,0x100,5,0\n", ": line 2 (byte 43), column Action: 'grab' is no action: allocate"},
        {HEADER "1,noon,allocate,0x100,5,0\n", ": line 2 (byte 41), column Time: 'noon' is no time"},
        {HEADER "1,10:00,allocate,0x100,5,0\n", "column Time: '10:00' is no time"},
        {HEADER "1,24:00:00,allocate,0x100,5,0\n", "column Time: '24:00:00' is no time"},
        {HEADER "1,10:00:00.x,allocate,0x100,5,0\n", "column Time: '10:00:00.x' is no time"},
        {HEADER "1,99999999999,allocate,0x100,5,0\n", "column Time: '99999999999' is no time"},
        {HEADER "1,1,allocate,here,5,0\n", "column Pointer: 'here' is no address"},
        {HEADER "1,1,allocate,0x,5,0\n", "column Pointer: '0x' is no address"},
        {HEADER "1,1,allocate,0x10000000000000000,5,0\n", "column Pointer: '0x10000000000000000' is more than 64 bits"},
        {HEADER "1,1,allocate,(nil),5,0\n", "column Pointer: 5 bytes at address 0"},
        {HEADER "1,1,allocate,0x100,-5,0\n", "column Size: '-5' is not a whole number"},
        {HEADER "1,1,allocate,0x100,18446744073709551616,0\n", "column Size: 18446744073709551616 is too large"},
        {HEADER "1,1,allocate,0x100,5,18446744073709551616\n", "column Stream: '18446744073709551616' is more than 64"},
        {HEADER "1,1,allocate,0x100,5,0\n1,10:00:00,free,0x100,5,0\n",
         ": line 3 (byte 64), column Time: '10:00:00' is a time of day, and line 2 has seconds"},
        {HEADER "1,10:00:00,allocate,0x100,5,0\n1,1,free,0x100,5,0\n", "'1' is seconds, and line 2 has a time of day"},
        {HEADER "1,1,allocate,0x100,512,0\n1,1,allocate,0x200,512,0\n",
         ": line 3 (byte 64): 512 bytes at 0x200 overlap the 512 at 0x100 of line 2 (byte 39)"},
        {HEADER "1,1,allocate,0x100,5,other\n", "column Stream: 'other' is no address or handle"},
        {HEADER "1,1,allocate,0x100,1152921504606846976,0\n",
         ": line 2 (byte 39): 1152921504606846976 bytes more than the 0 that are live"},
        {HEADER "1,1,allocate,0x100,5,0\n1,1,allocate,0x100,6,0\n",
         ": line 3 (byte 62): address 0x100 is given out while it is in use, since line 2"},
        {HEADER "1,1,free,0x100,5,0\n1,1,free,0x100,5,0\n",
         ": line 3 (byte 58): address 0x100 is freed a second time, after line 2"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        assert_refused(refusals[i].table, strlen(refusals[i].table), refusals[i].sentence);
}

static void it_is_a_log_by_itself_and_of_one_device(void **state) {
    (void)state;
    static const char log[] = HEADER "1,1,allocate,0x100,5,0\n";
    write_file(in_path, log, strlen(log));
    assert_int_equal(convert("%s %s -o %s", in_path, fixture("convert_work.csv"), out_path), 2);
    assert_says("RMM's log is a trace by itself: give no other one beside it");
    assert_int_equal(convert("%s --device=0 -o %s", in_path, out_path), 2);
    assert_says("RMM's log tells no devices apart");
    assert_converts(convert("%s --live-before=4K -o %s", in_path, out_path));
    assert_same_steps(read_file(out_path), "weir-trace 1\np 1 4096 0\nm 0 5 0\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_becomes_requests_on_their_streams),
        cmocka_unit_test(times_and_handles_may_be_written_in_several_ways),
        cmocka_unit_test(a_free_of_what_the_log_has_not_seen_was_live_before),
        cmocka_unit_test(requests_that_failed_and_those_of_no_bytes_are_left_out),
        cmocka_unit_test(a_free_of_other_bytes_frees_what_was_allocated),
        cmocka_unit_test(time_that_goes_backwards_a_little_stands_still),
        cmocka_unit_test(a_bad_row_is_refused_with_place_and_reason),
        cmocka_unit_test(it_is_a_log_by_itself_and_of_one_device),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
