/* SPDX-License-Identifier: Apache-2.0 */
/* weir-trace convert: the tables that other programs logged become a trace with the same peak, or are refused with a
 * place and a reason. */
#include "convert_fixture.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- small logs, step by step ----------------------------------------------------------------------------------- */

static void assert_becomes(const char *name) {
    char content[4096];
    snprintf(content, sizeof content, "%s", read_file(out_path));
    assert_string_equal(content, read_file(fixture(name)));
}

static void memory_events_become_requests_and_the_time_between_them(void **state) {
    (void)state;
    struct trace trace;
    assert_converts(convert("%s -o %s", fixture("convert_events.csv"), out_path));
    assert_says("10 rows, 3 blocks, 2 streams, peak live 5608 bytes");
    assert_becomes("convert_events.trace");
    read_back(&trace);
    assert_int_equal(trace.peak_live_bytes, 5608);
    trace_free(&trace);
}

static void a_profilers_tables_are_merged_in_any_order(void **state) {
    (void)state;
    const char *names[3] = {fixture("convert_memory.csv"), fixture("convert_work.csv"), fixture("convert_calls.csv")};
    struct trace trace;
    for (int i = 0; i < 3; i++) {
        assert_converts(convert("%s %s %s -o %s", names[i], names[(i + 1) % 3], names[(i + 2) % 3], out_path));
        assert_says("left out: 2 stream waits and 1 host call ");
        assert_becomes("convert_profile.trace");
    }
    read_back(&trace);
    assert_int_equal(trace.peak_live_bytes, 8192 + 1024 + 2048);
    assert_int_equal(trace.stream_count, 3);
    trace_free(&trace);
}

static void a_profilers_memory_events_alone_are_on_one_stream(void **state) {
    (void)state;
    struct trace trace;
    assert_converts(convert("%s -o %s", fixture("convert_memory.csv"), out_path));
    assert_same_steps(read_file(out_path), "weir-trace 1\np 2 8192 0\nm 0 1024 0\nk 0 20.0\nm 1 2048 0\nk 0 11.0\nf 0\n"
                                           "k 0 19.0\nf 1\n");
    read_back(&trace);
    assert_int_equal(trace.peak_live_bytes, 8192 + 1024 + 2048);
    trace_free(&trace);
}

static void a_wait_is_for_what_its_thread_launched_last_on_another_stream(void **state) {
    (void)state;
    static const char work[] = "launch_us,thread,stream,gpu_dur_us\n1,0,7,1\n2,0,9,1\n3,0,9,1\n3,1,5,1\n5,0,9,1\n";
    static const char calls[] = "call,thread,time_us\ncudaStreamWaitEvent,0,4\n";
    write_file(in_path, work, strlen(work));
    write_file(json_path, calls, strlen(calls));
    assert_converts(convert("%s %s %s -o %s", fixture("convert_memory.csv"), in_path, json_path, out_path));
    assert_non_null(strstr(read_file(out_path), "\nk 9 1.0\nk 5 1.0\ne 7 7\nw 7 9\nk 9 1.0\n"));
}

static void what_was_live_before_can_be_said(void **state) {
    (void)state;
    assert_converts(convert("%s --live-before 1M -o %s", fixture("convert_memory.csv"), out_path));
    assert_non_null(strstr(read_file(out_path), "\np 2 1048576 0\n"));
    assert_int_equal(convert("%s --live-before 1M -o %s", fixture("convert_lifetimes.csv"), out_path), 2);
    assert_says("--live-before is for memory events");
}

static void what_a_comment_says_was_live_before_counts_above_the_memory_events_alone(void **state) {
    (void)state;
    static const char work[] =
        "# pre-existing live bytes 1125899906842624\nlaunch_us,thread,stream,gpu_dur_us\n1,1,0,1\n"
        "# pre-existing live bytes 1125899906842624\n";
    write_file(in_path, work, strlen(work));
    assert_converts(convert("%s %s -o %s", fixture("convert_memory.csv"), in_path, out_path));
    assert_non_null(strstr(read_file(out_path), "\np 2 8192 0\n"));
    assert_converts(convert("%s %s -o %s", in_path, fixture("convert_memory.csv"), out_path));
    assert_non_null(strstr(read_file(out_path), "\np 2 8192 0\n"));
    static const char memory[] = "op,id,size,thread,time_us\na,0,1,0,0\n";
    write_file(json_path, memory, strlen(memory));
    assert_converts(convert("%s %s -o %s", in_path, json_path, out_path));
    assert_null(strstr(read_file(out_path), "\np "));
}

static void a_block_that_ends_as_another_begins_frees_its_place(void **state) {
    (void)state;
    struct trace trace;
    assert_converts(convert("%s -o %s", fixture("convert_lifetimes.csv"), out_path));
    assert_becomes("convert_lifetimes.trace");
    read_back(&trace);
    assert_int_equal(trace.peak_live_bytes, 170);
    assert_false(trace.has_work);
    trace_free(&trace);
}

/* ---- ways to write the same table ------------------------------------------------------------------------------- */

static void the_same_table_may_be_written_in_several_ways(void **state) {
    (void)state;
    static const char *const tables[] = {
        "op,id,size,stream,time_us\na,0,512,7,1\nf,0,512,7,3\n",
        "time_us,size,note,id,stream,op\n1,512,,0,7,a\n3,512,x,0,7,f\n",   /* columns in any order */
        "op,id,size,stream,time_us\r\na,0,512,7,1\r\nf,0,512,7,3\r\n",     /* CRLF */
        "\xef\xbb\xbfop,id,size,stream,time_us\na,0,512,7,1\nf,0,512,7,3", /* a mark, no last line end */
        /* quotes, blanks */
        "\"op\",\"id\",\"size\",\"stream\",\"time_us\"\n\"a\",\"0\",512,\"7\" , 1 \n f ,0,512,7,3\n",
        "# one\n\nop,id,size,stream,time_us\n#two\na,0,512,7,1.000\n  \nf,0,512,7,3.0\n",
        "op,id,size,stream,time_us,\"a \"\"quoted\"\", note\"\na,0,512,7,1,\",\"\nf,0,512,7,3,\"\"\"\"\n",
        "op,id,size,stream,time_us\na,18446744073709551615,512,7,1\nf,18446744073709551615,512,7,3\n",
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        write_file(in_path, tables[i], strlen(tables[i]));
        assert_converts(convert("%s -o %s", in_path, out_path));
        assert_same_steps(read_file(out_path), "weir-trace 1\nm 0 512 7\nk 7 2.0\nf 0\n");
    }
}

static void a_table_may_be_compressed_and_come_from_standard_input(void **state) {
    (void)state;
    char command[900];
    assert_converts(convert("%s -o %s", fixture("convert_events.csv"), out_path));
    snprintf(command, sizeof command, "gzip -c '%s' >'%s'", fixture("convert_events.csv"), in_path);
    assert_int_equal(run_shell(command), 0);
    char plain[4096];
    snprintf(plain, sizeof plain, "%s", read_file(out_path));
    assert_converts(convert("%s -o %s", in_path, out_path));
    assert_same_steps(read_file(out_path), plain);
    assert_converts(convert("- -o %s <%s", out_path, in_path));
    assert_same_steps(read_file(out_path), plain);
}

static void the_trace_goes_to_standard_output_by_itself(void **state) {
    (void)state;
    assert_converts(convert("%s 2>/dev/null >%s", fixture("convert_events.csv"), out_path));
    assert_becomes("convert_events.trace");
}

static void the_answer_is_also_json(void **state) {
    (void)state;
    assert_converts(convert("%s -o %s --json=%s", fixture("convert_events.csv"), out_path, json_path));
    const char *said = read_file(json_path);
    assert_non_null(strstr(said, "\"peak_live_bytes\": 5608, \"live_before_bytes\": 4096, \"live_at_end_bytes\": 0,"));
    assert_non_null(strstr(said, "\"reserve_growth_bytes\": 2097152"));
    assert_non_null(strstr(said, "\"span_us\": 27.0, \"work_us\": 27.0"));
    assert_converts(convert("%s -o %s --json=%s", fixture("convert_lifetimes.csv"), out_path, json_path));
    assert_non_null(strstr(read_file(json_path), "\"span_us\": null, \"work_us\": null"));
    assert_int_equal(convert("%s --json", fixture("convert_events.csv")), 2);
    assert_says("can't both go to standard output");
}

/* ---- time ------------------------------------------------------------------------------------------------------- */

static void gaps_too_short_for_a_trace_add_up(void **state) {
    (void)state;
    char table[8000] = "op,id,size,stream,time_us\n";
    size_t length = strlen(table);
    for (int i = 0; i <= 100; i++)
        length +=
            (size_t)snprintf(table + length, sizeof table - length, "a,%d,1,0,%d.%02d9\n", i, i * 3 / 100, i * 3 % 100);
    struct trace trace;
    write_file(in_path, table, length);
    assert_converts(convert("%s -o %s", in_path, out_path));
    read_back(&trace);
    uint64_t ns = 0, pieces = 0;
    for (size_t i = 0; i < trace.op_count; i++)
        if (trace.ops[i].kind == OP_WORK) ns += trace.ops[i].ns, pieces++;
    assert_int_equal(ns, 3000); /* 100 gaps of 0.03 us */
    assert_in_range(pieces, 20, 30);
    trace_free(&trace);
}

static void a_gap_longer_than_a_trace_takes_comes_in_pieces(void **state) {
    (void)state;
    static const char table[] = "op,id,size,stream,time_us\na,0,1,0,0\na,1,1,0,2500000000000\n";
    struct trace trace;
    write_file(in_path, table, strlen(table));
    assert_converts(convert("%s -o %s", in_path, out_path));
    read_back(&trace);
    assert_int_equal(trace.op_count, 5);
    trace_free(&trace);
}

/* ---- what repeats ----------------------------------------------------------------------------------------------- */

/* `before` allocations that are all different, then `times` rounds of 20, of which the first three live on to the end
 * of their round; then `after` of a round more. */
static void write_rounds(int before, int times, int after) {
    static char table[1 << 16];
    size_t length = (size_t)snprintf(table, sizeof table, "op,id,size,stream,time_us\n");
    int id = 0;
    for (int i = 0; i < before; i++, id++)
        length += (size_t)snprintf(table + length, sizeof table - length, "a,%d,%d,0,0\nr,%d,%d,0,0\n", id, 5000 + i,
                                   id, 5000 + i);
    for (int i = 0; i < times * 20 + after; i++, id++) {
        const int bytes = 100 + i % 20;
        length += (size_t)snprintf(table + length, sizeof table - length, "a,%d,%d,0,0\n", id, bytes);
        if (i % 20 >= 3) length += (size_t)snprintf(table + length, sizeof table - length, "r,%d,%d,0,0\n", id, bytes);
        if (i % 20 == 19)
            for (int j = 0; j < 3; j++)
                length +=
                    (size_t)snprintf(table + length, sizeof table - length, "r,%d,%d,0,0\n", id - 19 + j, 100 + j);
    }
    write_file(in_path, table, length);
}

/* Marks are before the first allocation of a round. Gives how many there are. */
static size_t marks(void) {
    struct trace trace;
    read_back(&trace);
    for (size_t i = 0; i < trace.op_count; i++)
        if (trace.ops[i].kind == OP_ITERATION) assert_int_equal(trace.ops[i + 1].bytes, 100);
    const size_t count = trace.iteration_count;
    trace_free(&trace);
    return count;
}

static void what_repeats_to_the_end_is_marked_where_least_is_live(void **state) {
    (void)state;
    write_rounds(30, 5, 0);
    assert_converts(convert("%s --iterations -o %s", in_path, out_path));
    assert_says("5 iterations of 20 allocations");
    assert_int_equal(marks(), 5);
    write_rounds(0, 4, 7);
    assert_converts(convert("%s --iterations -o %s", in_path, out_path));
    assert_int_equal(marks(), 5);
}

static void a_log_that_begins_within_an_iteration_is_marked_at_the_next(void **state) {
    (void)state;
    write_rounds(0, 4, 0);
    char command[900]; /* the first round without its first allocation; another block lives through it */
    snprintf(command, sizeof command, "sed -i -e 's/^a,0,100,/a,0,9999,/' -e 's/^r,0,100,/r,0,9999,/' '%s'", in_path);
    assert_int_equal(run_shell(command), 0);
    assert_converts(convert("%s --iterations -o %s", in_path, out_path));
    assert_says("3 iterations of 20 allocations");
    assert_int_equal(marks(), 3);
}

static void nothing_is_marked_where_less_than_half_repeats_or_not_to_the_end(void **state) {
    (void)state;
    write_rounds(101, 5, 0);
    assert_converts(convert("%s --iterations -o %s", in_path, out_path));
    assert_says("no iterations are marked");
    assert_int_equal(marks(), 0);
    write_rounds(10, 1, 19); /* not twice */
    assert_converts(convert("%s --iterations -o %s", in_path, out_path));
    assert_int_equal(marks(), 0);
    write_rounds(0, 5, 0);
    FILE *file = fopen(in_path, "a");
    assert_non_null(file);
    fputs("a,9999,77,0,0\n", file);
    fclose(file);
    assert_converts(convert("%s --iterations -o %s", in_path, out_path));
    assert_int_equal(marks(), 0);
}

static void without_being_asked_nothing_is_marked(void **state) {
    (void)state;
    write_rounds(0, 5, 0);
    assert_converts(convert("%s -o %s", in_path, out_path));
    assert_int_equal(marks(), 0);
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

#define EVENTS "op,id,size,stream,time_us\n" /* 26 bytes */
#define WORK   "launch_us,thread,stream,gpu_dur_us\n"
#define LIVES  "id,lower,upper,size\n"

static const struct refusal refusals[] = {
    {"", ": line 0 (byte 0): the text ends before a header line"},
    {"# nothing\n\n", ": the text ends before a header line"},
    {"weir-trace 1\nm 0 1 0\n", ": line 1 (byte 0): the header names no table that is known"},
    {"op,id,size,time_us\n",
     ": line 1 (byte 0): column 'stream' is missing: a table of memory events has op, id, size,"},
    {"launch_us,thread,stream\n", ": line 1 (byte 0): column 'gpu_dur_us' is missing"},
    {"id,lower,size\n", "column 'upper' is missing: a table of lifetimes has id, lower, upper, size"},
    {"id,lower,upper,size,id\n", ": line 1 (byte 20): the header names column 'id' twice"},
    {EVENTS, ": the table has no rows"},
    {EVENTS "a,0,512,0\n", ": line 2 (byte 26): the line has 4 fields, the header names 5"},
    {EVENTS "a,0,512,0,0,0\n", ": line 2 (byte 26): the line has 6 fields"},
    {EVENTS "x,0,512,0,0\n", ": line 2 (byte 26), column op: 'x' is no event: one letter of parfSs"},
    {EVENTS ",0,512,0,0\n", ": line 2 (byte 26), column op: '' is no event"},
    {EVENTS "a,0,1e3,0,0\n", ": line 2 (byte 30), column size: '1e3' is not a whole number from 0"},
    {EVENTS "a,0,-1,0,0\n", ", column size: '-1' is not a whole number from 0"},
    {EVENTS "a,0,,0,0\n", ", column size: '' is not a whole number from 0"},
    {EVENTS "a,0,18446744073709551616,0,0\n", ", column size: 18446744073709551616 is too large"},
    {EVENTS "a,0,1125899906842625,0,0\n", "column size: 1125899906842625 bytes more than the 0 that are live"},
    {EVENTS "a,0,1125899906842624,0,0\na,1,1,0,0\n",
     ": line 3 (byte 55), column size: 1 bytes more than the 1125899906842624"},
    {EVENTS "a,-1,512,0,0\n", ": line 2 (byte 28), column id: '-1' is not a whole number"},
    {EVENTS "a,0,512,x,0\n", ": line 2 (byte 34), column stream: 'x' is not a whole number"},
    {EVENTS "a,0,512,0,soon\n", ": line 2 (byte 36), column time_us: 'soon' is not a time in microseconds"},
    {EVENTS "a,0,512,0,1.\n", "column time_us: '1.' is not a time"},
    {EVENTS "a,0,512,0,99999999999999999999\n", "column time_us: 99999999999999999999 microseconds are too many"},
    {EVENTS "a,0,512,0,5\na,1,512,0,4.5\n",
     ": line 3 (byte 48), column time_us: time goes backwards: line 2 was 0.500 us"},
    {EVENTS "f,0,512,0,0\n", ": line 2 (byte 28), column id: '0' was never allocated"},
    {EVENTS "a,0,512,0,0\nr,0,512,0,0\nr,0,512,0,0\n",
     ": line 4 (byte 52), column id: '0' was freed before, at line 3"},
    {EVENTS "a,0,512,0,0\nf,0,512,0,0\nf,0,512,0,0\n", "column id: '0' was freed before, at line 3"},
    {EVENTS "a,0,512,0,0\nf,0,512,0,0\nr,0,512,0,0\n", "column id: '0' was freed before, at line 3"},
    {EVENTS "a,0,512,0,0\nr,0,512,0,0\na,0,512,0,0\n",
     ": line 4 (byte 52), column id: '0' was named before, at line 3"},
    {EVENTS "a,0,512,0,0\na,0,512,0,0\n", "column id: '0' was named before, at line 2"},
    {EVENTS "a,0,512,0,0\nf,0,511,0,0\n", "column size: 511 bytes are freed of a block of 512 (line 2)"},
    {EVENTS "a,0,512,0,0\np,1,512,0,0\n", "column op: 'p' is a block from before the recording, which began at line 2"},
    {EVENTS "S,-1,1125899906842625,0,0\n", "column size: a reserve that changes by 1125899906842625 bytes"},
    {EVENTS "a,\"0,512,0,0\n", ": line 2 (byte 28), column id: a quoted field does not end in its line"},
    {EVENTS "a,\"0\"x,512,0,0\n", ": line 2 (byte 28), column id: 'x' follows a quoted field"},
    {LIVES "0,5,5,1\n", ": line 2 (byte 24), column upper: a lifetime from 5 ends at 5: it has no length"},
    {LIVES "0,5,4,1\n", "column upper: a lifetime from 5 ends at 4"},
    {LIVES "0,5,6,1\n0,7,8,1\n", ": line 3 (byte 28), column id: '0' was named before, at line 2"},
    {LIVES "0,5,6,1125899906842625\n", "column size: 1125899906842625 is too large, the limit is 1125899906842624"},
    {LIVES "0,5,6,1125899906842624\n1,4,6,1\n",
     ": line 2 (byte 20), column size: 1125899906842624 bytes more than the 512 that are live"},
    {LIVES, ": the table has no rows"},
    {WORK "1,0,7,1\n", " says nothing of memory: give the profiler's memory events"},
    {"call,thread,time_us\n", " says nothing of memory"},
    {"# pre-existing live bytes 1125899906842625\nop,id,size,thread,time_us\na,0,1,0,0\n",
     ": 1125899906842625 bytes were live before: the limit is 2^50"},
};

static void a_bad_table_is_refused_with_place_and_reason(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        assert_refused(refusals[i].table, strlen(refusals[i].table), refusals[i].sentence);
    assert_refused("op,id\0,size,stream,time_us\n", 27, ": line 1 (byte 0): the line holds a byte of value 0");
}

static void a_table_past_the_limits_is_refused(void **state) {
    (void)state;
    static char table[1 << 17];
    memset(table, 'x', 5000);
    table[5000] = '\0';
    assert_refused(table, 5000, ": line 1 (byte 0): the line is longer than 4096 bytes");
    memset(table, ',', 100);
    assert_refused(table, 100, ": the line has more than 64 fields");
    size_t length = (size_t)snprintf(table, sizeof table, EVENTS);
    for (int i = 0; i <= TRACE_MOST_STREAMS; i++)
        length += (size_t)snprintf(table + length, sizeof table - length, "a,%d,1,%d,0\n", i, 7 * i);
    assert_refused(table, length,
                   ": line 4098 (byte 66968), column stream: stream 28672 is one more than the limit of 4096");
}

static void a_bad_row_of_a_profilers_table_is_refused(void **state) {
    (void)state;
    static const struct refusal rows[] = {
        {WORK "1,0,7,soon\n", ": line 2 (byte 41), column gpu_dur_us: 'soon' is not a time"},
        {WORK "1,0,7,1\n0,0,7,1\n",
         ": line 3 (byte 43), column launch_us: time goes backwards: the row before is 1.000 us"},
        {WORK "1,0,7,1000000000001\n",
         "column gpu_dur_us: one piece of work of 1000000000001 us, the limit is 1000000000000"},
        {WORK, ": the table of work has no rows"},
        {"call,thread,time_us\nx,0,2\nx,0,1\n", ": line 3 (byte 30), column time_us: time goes backwards"},
        {"call,thread,time_us\nx,y,2\n", "column thread: 'y' is not a whole number"},
        {"call,thread,time_us\nx,0,2\n", ": host calls have a meaning only beside the device's work"},
        {"op,id,size,thread,time_us\n", ": a second table of a profiler's memory events (the first: "},
        {LIVES "0,0,1,1\n", ": a table of lifetimes is a trace by itself: give no other one beside it"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_file(in_path, rows[i].table, strlen(rows[i].table));
        const int status = convert("%s %s -o %s", fixture("convert_memory.csv"), in_path, out_path);
        if (status != 2) fail_msg("'%s': exit status %d", rows[i].table, status);
        assert_says(rows[i].sentence);
    }
}

static void a_file_that_is_cut_or_not_there_is_refused(void **state) {
    (void)state;
    char command[900];
    assert_int_equal(convert("%s/none.csv -o %s", folder, out_path), 2);
    assert_says("none.csv");
    snprintf(command, sizeof command, "gzip -c '%s' | head -c 120 >'%s'", fixture("convert_events.csv"), in_path);
    assert_int_equal(run_shell(command), 0);
    assert_int_equal(convert("%s -o %s", in_path, out_path), 2);
    assert_says(in_path);
}

static void bad_arguments_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *arguments, *sentence;
    } lines[] = {
        {"", "no input is given"},
        {"--iteration x", "unknown option --iteration; did you mean --iterations?"},
        {"x --zzzzzzzzz", "unknown option --zzzzzzzzz (--help lists them)"},
        {"x -o", "-o needs a value"},
        {"x -o ''", "-o needs a value"},
        {"x --iterations=3", "--iterations takes no value"},
        {"x --live-before much", "--live-before much: expected bytes"},
        {"x --live-before 2000T", "--live-before 2000T: expected bytes"},
        {"a b c d", "'d' is one input too many: at most 3 go together"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_int_equal(convert("%s", lines[i].arguments), 2);
        assert_says(lines[i].sentence);
    }
    assert_int_equal(convert("--help"), 0);
    assert_says("usage: weir-trace convert");
}

static void outputs_that_are_one_file_are_refused(void **state) {
    (void)state;
    char command[900];
    write_file(out_path, "as it was", 9);
    for (int i = 0; i < 4; i++) {
        static const char *const lines[] = {
            "'%s' convert '%s' -o '%s' --json='%s' >'%s' 2>&1",
            "'%s' convert '%s' -o '%s.part' --json='%s' >'%s' 2>&1",
            "'%s' convert '%s' -o '%s' --json='%s.part' >'%s' 2>&1",
            "'%s' convert '%s' -o '%s' --json=\"$(dirname '%s')/../${PWD##*/}/out.trace\" >'%s' 2>&1",
        };
        snprintf(command, sizeof command, "cd '%s' && ", folder);
        const size_t length = strlen(command);
        /* the same names each time, so that one format serves */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(command + length, sizeof command - length, lines[i], getenv("WEIR_TRACE_PROGRAM"),
                 fixture("convert_events.csv"), out_path, out_path, log_path);
#pragma GCC diagnostic pop
        assert_int_equal(run_shell(command), 2);
        assert_says("-o and --json both go to ");
        assert_string_equal(read_file(out_path), "as it was");
    }
    assert_converts(convert("%s -o /dev/null --json=/dev/null", fixture("convert_events.csv")));
    snprintf(command, sizeof command, "'%s' '%s' --timeline='%s' --json='%s' >'%s' 2>&1", getenv("WEIR_REPLAY_PROGRAM"),
             fixture("convert_events.trace"), out_path, out_path, log_path);
    assert_int_equal(run_shell(command), 2);
    assert_says("--timeline and --json both go to ");
    snprintf(command, sizeof command, "'%s' '%s' --json='%s' >'%s' 2>'%s'", getenv("WEIR_REPLAY_PROGRAM"),
             fixture("convert_events.trace"), out_path, out_path, log_path);
    assert_int_equal(run_shell(command), 2);
    assert_says("--json and the answer in words both go to ");
}

/* A terminal obeys some bytes, and JSON is UTF-8. */
static void names_of_any_bytes_do_no_harm(void **state) {
    (void)state;
    char name[100], command[600];
    snprintf(name, sizeof name, "%s/\x1b[31m\xff\xc2\x9b.csv", folder);
    snprintf(command, sizeof command, "cp '%s' '%s'", fixture("convert_events.csv"), name);
    assert_int_equal(run_shell(command), 0);
    assert_converts(convert("'%s' -o %s --json=%s", name, out_path, json_path));
    assert_says("/?[31m???.csv: ");
    assert_null(strpbrk(read_file(log_path), "\x1b\xff\x9b"));
    assert_non_null(strstr(read_file(json_path), "/\\u001b[31m\\ufffd"));
    snprintf(command, sizeof command, "printf x >'%s'", name);
    assert_int_equal(run_shell(command), 0);
    assert_int_equal(convert("'%s' -o %s", name, out_path), 2);
    assert_says("/?[31m???.csv: ");
    assert_null(strpbrk(read_file(log_path), "\x1b\xff\x9b"));
    unlink(name);
}

static void a_trace_that_cannot_be_written_fails(void **state) {
    (void)state;
    assert_int_equal(convert("%s -o %s/none/out.trace", fixture("convert_events.csv"), folder), 1);
    assert_says("none/out.trace");
    assert_int_equal(convert("%s -o %s --json=%s/none/out.json", fixture("convert_events.csv"), out_path, folder), 1);
    assert_says("none/out.json");
}

/* ---- large logs ------------------------------------------------------------------------------------------------- */

/* What their README says, in whole MiB. */
static void the_peak_of_each_pytorch_log_is_kept(void **state) {
    (void)state;
    static const struct {
        const char *name;
        long mib, allocations;
    } logs[] = {
        {"wedsonlin_medium_ctx512_training", 11851, 7591},
        {"wedsonlin_medium_ctx1024_training", 23086, 7591},
        {"wedsonlin_medium_ctx1024_inference", 2744, 1280},
        {"niu_fwdbwd_150", 894, 3907},
        {"niu_fwdbwd_200", 1173, 3907},
        {"bolong_xl_fwd_ctx512_float32_expandable", 40567, 1704},
        {"bolong_xl_fwd_ctx2048_float32_expandable", 21682, 1704},
        {"silmont_fwd_bf16_128", 744, 937},
    };
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
        char name[100];
        snprintf(name, sizeof name, "pytorch/%s.csv.gz", logs[i].name);
        struct trace trace;
        assert_converts(convert("%s -o %s", shared(name), out_path));
        read_back(&trace);
        long allocations = 0;
        for (size_t j = 0; j < trace.op_count; j++) allocations += trace.ops[j].kind == OP_ALLOC;
        assert_int_equal(allocations, logs[i].allocations);
        assert_int_equal(lround((double)trace.peak_live_bytes / (1 << 20)), logs[i].mib);
        assert_true(trace.has_work);
        trace_free(&trace);
    }
}

static void a_log_in_the_wild_shows_its_iterations(void **state) {
    (void)state;
    assert_converts(convert("%s --iterations -o %s", shared("pytorch/niu_fwdbwd_200.csv.gz"), out_path));
    assert_says("iterations of 1262 allocations");
}

static void the_peak_of_the_profilers_log_is_kept(void **state) {
    (void)state;
    char name[3][300];
    snprintf(name[0], sizeof name[0], "%s", shared("profile/memory_events.csv.gz"));
    snprintf(name[1], sizeof name[1], "%s", shared("profile/gpu_work.csv.gz"));
    snprintf(name[2], sizeof name[2], "%s", shared("profile/sync_calls.csv.gz"));
    struct trace trace;
    assert_converts(convert("%s %s %s --iterations --json=%s -o %s", name[0], name[1], name[2], json_path, out_path));
    read_back(&trace);
    assert_int_equal(trace.peak_live_bytes, 6629508096); /* 6,322.4 MiB */
    assert_int_equal(trace.stream_count, 2);
    assert_int_equal(trace.iteration_count, 5);
    uint64_t ns[2] = {0};
    for (size_t i = 0; i < trace.op_count; i++)
        if (trace.ops[i].kind == OP_WORK) ns[trace.ops[i].stream] += trace.ops[i].ns;
    assert_int_equal(ns[trace.stream_ids[0] == 7 ? 0 : 1], 643270000); /* the sums of gpu_dur_us */
    assert_int_equal(ns[trace.stream_ids[0] == 7 ? 1 : 0], 357343000);
    trace_free(&trace);
    const char *said = read_file(json_path);
    assert_non_null(strstr(said, "\"live_before_bytes\": 4096614400"));
    assert_non_null(strstr(said, "\"stream_waits\": 6060, \"stream_waits_left_out\": 0"));
}

static void the_peak_of_lifetimes_is_their_largest_load(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t load;
    } sets[] = {
        {"iree_mobilebert", 1674240},      {"minimalloc_A.1048576", 1048576}, {"minimalloc_C.1048576", 1039360},
        {"minimalloc_E.1048576", 1048576}, {"minimalloc_H.1048576", 1048576}, {"somas_bert_large", 4310278401},
        {"somas_pangu_13B", 16546177037},  {"somas_resnet50", 1515472556},
    };
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        char name[100];
        snprintf(name, sizeof name, "lifetimes/%s.csv", sets[i].name);
        struct trace trace;
        assert_converts(convert("%s -o %s", shared(name), out_path));
        read_back(&trace);
        assert_int_equal(trace.peak_live_bytes, sets[i].load);
        trace_free(&trace);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_events_become_requests_and_the_time_between_them),
        cmocka_unit_test(a_profilers_tables_are_merged_in_any_order),
        cmocka_unit_test(a_profilers_memory_events_alone_are_on_one_stream),
        cmocka_unit_test(a_wait_is_for_what_its_thread_launched_last_on_another_stream),
        cmocka_unit_test(what_was_live_before_can_be_said),
        cmocka_unit_test(what_a_comment_says_was_live_before_counts_above_the_memory_events_alone),
        cmocka_unit_test(a_block_that_ends_as_another_begins_frees_its_place),
        cmocka_unit_test(the_same_table_may_be_written_in_several_ways),
        cmocka_unit_test(a_table_may_be_compressed_and_come_from_standard_input),
        cmocka_unit_test(the_trace_goes_to_standard_output_by_itself),
        cmocka_unit_test(the_answer_is_also_json),
        cmocka_unit_test(gaps_too_short_for_a_trace_add_up),
        cmocka_unit_test(a_gap_longer_than_a_trace_takes_comes_in_pieces),
        cmocka_unit_test(what_repeats_to_the_end_is_marked_where_least_is_live),
        cmocka_unit_test(a_log_that_begins_within_an_iteration_is_marked_at_the_next),
        cmocka_unit_test(nothing_is_marked_where_less_than_half_repeats_or_not_to_the_end),
        cmocka_unit_test(without_being_asked_nothing_is_marked),
        cmocka_unit_test(a_bad_table_is_refused_with_place_and_reason),
        cmocka_unit_test(a_table_past_the_limits_is_refused),
        cmocka_unit_test(a_bad_row_of_a_profilers_table_is_refused),
        cmocka_unit_test(a_file_that_is_cut_or_not_there_is_refused),
        cmocka_unit_test(bad_arguments_are_refused),
        cmocka_unit_test(outputs_that_are_one_file_are_refused),
        cmocka_unit_test(names_of_any_bytes_do_no_harm),
        cmocka_unit_test(a_trace_that_cannot_be_written_fails),
        cmocka_unit_test(the_peak_of_each_pytorch_log_is_kept),
        cmocka_unit_test(a_log_in_the_wild_shows_its_iterations),
        cmocka_unit_test(the_peak_of_the_profilers_log_is_kept),
        cmocka_unit_test(the_peak_of_lifetimes_is_their_largest_load),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
