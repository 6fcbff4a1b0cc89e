/* SPDX-License-Identifier: Apache-2.0 */
/* weir-trace convert on pickles: a memory snapshot becomes a trace with what was live before, of each protocol, however
 * much is missing; what is no data, too much, or cut is refused where it stands, soon, and in little memory. */
#include "convert_fixture.h"
#include "tests/sanitized.h"

#include "tools/trace/pickle_read.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static uint8_t pickle[1 << 16];

static size_t make(int protocol, const char *notation) {
    return write_pickle(pickle, sizeof pickle, protocol, notation);
}

static void assert_snapshot(const char *notation, const char *steps) { assert_makes(pickle, make(4, notation), steps); }

#define ENTRY(action, addr, size, us)                                                                                  \
    "{action: " action ", addr: " #addr ", size: " #size ", stream: 7, time_us: " #us ", frames: [{name: f}]}, "
#define TRACE(entries) "{segments: [], device_traces: [[" entries "]], allocator_settings: {backend: N}}"

/* ---- what becomes of what ---------------------------------------------------------------------------------------- */

static const char whole[] =
    "{segments: [{device: 0, address: 4096, total_size: 4096, allocated_size: 1024, stream: 7, segment_type: small, "
    "segment_pool_id: (0, 0), is_expandable: F, frames: [], blocks: ["
    "{address: 4096, size: 1024, requested_size: 1000, state: active_allocated, frames: [{name: main, line: 3}]}, "
    "{address: 5120, size: 512, requested_size: 0, state: active_pending_free, frames: []}, "
    "{address: 5632, size: 2560, requested_size: 0, state: inactive, frames: []}]}], "
    "device_traces: [[" ENTRY("segment_alloc", 4096, 4096, 10) ENTRY("alloc", 5120, 300, 12)
        ENTRY("free_requested", 5632, 700, 15) ENTRY("oom", 0, 5, 15) ENTRY("free_completed", 5632, 700, 16)
            ENTRY("free_requested", 5120, 300, 20) "]]}";

static void a_snapshot_becomes_requests_and_what_was_live_before(void **state) {
    (void)state;
    for (int protocol = 2; protocol <= 5; protocol++) {
        assert_makes(pickle, make(protocol, whole),
                     "weir-trace 1\np 1 700 7\np 2 1000 7\nk 7 2.0\nm 0 300 7\nk 7 3.0\nf 1\nk 7 5.0\nf 0\n");
        assert_says("6 rows, 3 blocks, 1 stream, peak live 2000 bytes (0.00 MiB), 0.00 MiB of it before, reserve up "
                    "to 0.00 MiB");
    }
    assert_converts(convert("%s -o %s --json=%s", in_path, out_path, json_path));
    assert_non_null(strstr(read_file(json_path), "\"peak_reserve_bytes\": 4096,"));
    assert_non_null(strstr(read_file(json_path), "\"device\": 0, \"devices\": 1,"));
    assert_non_null(strstr(read_file(json_path), "\"overflowed\": null,")); /* it does not say */
}

static void an_address_is_another_block_each_time(void **state) {
    (void)state;
    assert_snapshot(TRACE(ENTRY("alloc", 512, 10, 0) ENTRY("free_requested", 512, 10, 0) ENTRY(
                        "free_completed", 512, 10, 0) ENTRY("alloc", 512, 20, 0) ENTRY("free_completed", 512, 20, 0)),
                    "weir-trace 1\nm 0 10 7\nf 0\nm 1 20 7\nf 1\n");
}

/* It began between the two: the program had freed the block. */
static void a_completion_whose_request_came_before_the_recording_is_no_free(void **state) {
    (void)state;
    assert_snapshot(
        TRACE(ENTRY("free_completed", 512, 10, 0) ENTRY("alloc", 512, 20, 0) ENTRY("free_requested", 512, 20, 0)),
        "weir-trace 1\nm 0 20 7\nf 0\n");
}

static void where_no_request_is_recorded_its_completion_frees(void **state) {
    (void)state;
    assert_snapshot(TRACE(ENTRY("free_completed", 512, 10, 0) ENTRY("alloc", 512, 20, 0)),
                    "weir-trace 1\np 0 10 7\nf 0\nm 1 20 7\n");
}

static void a_snapshot_without_a_history_is_what_is_live(void **state) {
    (void)state;
    static const char steps[] = "weir-trace 1\np 0 512 9\np 1 100 9\n";
    assert_snapshot("{segments: [{address: 512, stream: 9, blocks: [{size: 512, state: active_allocated}, {size: 512, "
                    "state: inactive}, {size: 512, requested_size: 100, state: active_allocated}]}]}",
                    steps);
    assert_snapshot("[{address: 512, stream: 9, blocks: [{size: 512, state: active_allocated}, {size: 512, "
                    "state: inactive}, {size: 512, requested_size: 100, state: active_allocated}]}]",
                    steps);
}

static void missing_fields_are_made_up_for(void **state) {
    (void)state;
    assert_snapshot("{device_traces: [[{action: alloc, addr: 512, size: 3}, {action: segment_map, addr: 5, size: 9}, "
                    "{action: unheard_of}, {action: free_requested, addr: 512, size: 3}]]}",
                    "weir-trace 1\nm 0 3 0\nf 0\n");
}

static void time_that_goes_backwards_stands_still(void **state) {
    (void)state;
    assert_snapshot(TRACE(ENTRY("alloc", 512, 1, 10) ENTRY("alloc", 1024, 1, 8) ENTRY("alloc", 1536, 1, 13)),
                    "weir-trace 1\nm 0 1 7\nm 1 1 7\nk 7 3.0\nm 2 1 7\n");
}

static void an_overflowed_recording_is_told(void **state) {
    (void)state;
    assert_snapshot("{device_traces: [[{action: free_requested, addr: 512, size: 3}]], trace_alloc_overflowed: T}",
                    "weir-trace 1\np 0 3 0\nf 0\n");
    assert_says("the recording overflowed");
}

static void of_several_devices_one_is_taken(void **state) {
    (void)state;
    static const char both[] =
        "{segments: [{device: 0, address: 0, total_size: 7, blocks: [{size: 7, state: active_allocated}]}, "
        "{device: 2, address: 0, total_size: 9, blocks: [{size: 9, state: active_allocated}]}], "
        "device_traces: [[], [], [{action: alloc, addr: 512, size: 3}]]}";
    assert_snapshot(both, "weir-trace 1\np 1 9 0\nm 0 3 0\n");
    assert_says("of 2 devices this is device 2 (--device=N takes another)");
    assert_converts(convert("%s --device 0 -o %s", in_path, out_path));
    assert_same_steps(read_file(out_path), "weir-trace 1\np 0 7 0\n");
    assert_int_equal(convert("%s --device=1 -o %s", in_path, out_path), 2);
    assert_says("it says nothing of device 1; of device 2 it says most");
    assert_int_equal(convert("%s --device=1000 -o %s", in_path, out_path), 2);
    assert_int_equal(convert("%s --device=1024 -o %s", in_path, out_path), 2);
    assert_says("--device 1024: expected a whole number from 0 to 1023");
}

/* The entries are copied first; other threads go on until the segments are. */
static void where_the_segments_say_otherwise_the_entries_count(void **state) {
    (void)state;
#define BOTH(segments, entries) "{segments: [" segments "], device_traces: [[" entries "]]}"
#define RANGE(blocks)           "{address: 512, total_size: 2048, blocks: [" blocks "]}"
    static const struct {
        const char *notation, *steps, *said;
    } logs[] = {
        {BOTH(RANGE("{size: 512, requested_size: 9, state: active_allocated}"),
              ENTRY("alloc", 512, 10, 0) ENTRY("free_requested", 512, 10, 0)),
         "weir-trace 1\nm 0 10 7\nf 0\n", "of 1 block otherwise"}, /* given out again */
        {BOTH(RANGE("{size: 2048, state: inactive}"), ENTRY("alloc", 1024, 10, 0)), "weir-trace 1\nm 0 10 7\n",
         "of 1 block otherwise"}, /* freed, and merged */
        {BOTH(RANGE("{size: 512, requested_size: 9, state: active_allocated}"), ENTRY("alloc", 512, 10, 0)),
         "weir-trace 1\nm 0 10 7\n", "of 1 block otherwise"}, /* freed, and given out again */
        {BOTH(RANGE("{size: 1024, state: active_allocated}, {size: 512, state: active_allocated}"),
              ENTRY("alloc", 1024, 10, 0) ENTRY("free_requested", 1024, 10, 0)),
         "weir-trace 1\np 1 512 0\nm 0 10 7\nf 0\n", "of 1 block otherwise"},
        {BOTH(RANGE("{size: 1024, requested_size: 700, state: active_allocated}"),
              ENTRY("free_requested", 1024, 10, 0)),
         "weir-trace 1\np 0 10 7\nf 0\n", "of 1 block otherwise"},
    };
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
        assert_snapshot(logs[i].notation, logs[i].steps);
        assert_says(logs[i].said);
    }
}

/* Of a moment between the request for a free and its end; a size that is rounded, as in the first versions. */
static void what_the_segments_may_say_is_not_told(void **state) {
    (void)state;
    assert_snapshot(BOTH(RANGE("{size: 512, state: active_pending_free}, {size: 512, state: active_allocated}, {size: "
                               "512, state: inactive}"),
                         ENTRY("alloc", 512, 10, 0) ENTRY("alloc", 1024, 500, 0) ENTRY("free_requested", 512, 10, 0)),
                    "weir-trace 1\nm 0 10 7\nm 1 500 7\nf 0\n");
    assert_null(strstr(read_file(log_path), "left out"));
}

static void a_snapshot_may_be_compressed_and_come_from_standard_input(void **state) {
    (void)state;
    char command[300];
    write_file(json_path, pickle, make(4, whole));
    snprintf(command, sizeof command, "gzip -c '%s' >'%s'", json_path, in_path);
    assert_int_equal(run_shell(command), 0);
    assert_converts(convert("- --live-before 4096 -o %s <%s", out_path, in_path));
    assert_non_null(strstr(read_file(out_path), "\np 3 4096 7\np 1 700 7\n"));
}

/* ---- what is refused ---------------------------------------------------------------------------------------------- */

#define SEGMENT(block) "{segments: [{address: 512, blocks: [" block "]}]}"

static void a_snapshot_of_a_wrong_make_is_refused(void **state) {
    (void)state;
    static const struct refusal refusals[] = {
        {"5", ": the pickle is no memory snapshot"},
        {"{segments: 5}", ": segments is no list"},
        {"{segments: [], device_traces: {}}", ": device_traces is no list"},
        {"{segments: [], device_traces: []}", ": the snapshot holds no live block and no events"},
        {"{segments: [5]}", ": segment 1 (of the list at byte 24): it is no dictionary"},
        {"{segments: [{address: 5}]}", ": segment 1 (byte 26): blocks is no list, or missing"},
        {"{segments: [{address: 5, blocks: T}]}", ": segment 1 (byte 26): blocks is no list"},
        {"{segments: [{blocks: [{size: 5, state: inactive}]}]}", ": segment 1 (byte 26): address is missing"},
        {"{segments: [{device: 1024, address: 0, blocks: []}]}", "device is 1024, the limit is 1023"},
        {"{segments: [{device: -1, address: 0, blocks: []}]}", "device is -1: negative"},
        {"{segments: [{device: x, address: 0, blocks: []}]}", "device is no integer"},
        {SEGMENT("{state: inactive}"), ": block 1 (byte 52): size is missing"},
        {SEGMENT("{size: 5}"), "state is missing"},
        {SEGMENT("{size: 5, state: unheard_of}"), "state is none of the known"},
        {SEGMENT("{size: 999999999999999999, state: inactive}"),
         ": block 1 (byte 52): size is no integer of at most 59 bits"},
        {SEGMENT("{size: 1152921504606846976000, state: inactive}"), "size is no integer of at most 59 bits"},
        {SEGMENT("{size: 512, requested_size: 513, state: active_allocated}"),
         "requested_size is 513, and size is 512"},
        {SEGMENT("{size: 512, state: inactive}, {address: 600, size: 5, state: inactive}"),
         "its address is 0x258, and what is before it ends at 0x400"},
        {"{segments: [{address: 512, total_size: 512, blocks: [{size: 513, state: inactive}]}]}",
         "it ends at 0x401, and its segment at 0x400"},
        {"{segments: [{address: 512, blocks: [{size: 512, state: active_allocated}]}, {address: 512, blocks: "
         "[{size: 512, requested_size: 7, state: active_allocated}]}]}",
         "7 bytes at 0x200 overlap the 512 at 0x200 of block 1 (byte 52)"},
        {"{segments: [{address: 512, blocks: [{size: 512, state: active_allocated}]}, {address: 600, blocks: "
         "[{size: 512, state: active_allocated}]}]}",
         "512 bytes at 0x258 overlap the 512 at 0x200 of block 1"},
        {"{segments: [], trace_alloc_overflowed: 5}", "trace_alloc_overflowed is neither True nor False"},
        {SEGMENT("{size: 1125899906842625, state: inactive}"),
         "size is 1125899906842625, the limit is 1125899906842624"},
        {SEGMENT("{size: -5, state: inactive}"), "size is -5: negative"},
        {SEGMENT("{size: 1125899906842624, state: active_allocated}, {size: 1, state: active_allocated}"),
         ": block 2 (byte 99): 1 bytes more than the 1125899906842624 that are live"},
        {"{device_traces: [5]}", ": the trace of device 0 is no list"},
        {"{device_traces: [[5]]}", ": entry 1 (of the list at byte 31): it is no dictionary"},
        {TRACE("{addr: 5}"), "): action is missing"},
        {TRACE("{}"), ": entry 1 (byte 47): action is missing"},
        {TRACE("{}, {action: unheard_of}"), ": entry 1 (byte 47): action is missing"},
        {TRACE("{}, {}, {}, {action: unheard_of}"), ": entry 1 (byte 47): action is missing"},
        {TRACE("{action: unheard_of}, {}"), ": entry 2 (byte 72): action is missing"},
        {TRACE("{action: 3, addr: 5}"), "): action is no text"},
        {TRACE("{action: N, addr: 5}"), "): action is no text"},
        {TRACE("{action: [], addr: 5}"), "): action is no text"},
        {TRACE("{action: alloc, addr: 5}"), "): size is missing"},
        {TRACE("{action: alloc, size: 5}"), "): addr is missing"},
        {TRACE("{action: alloc, addr: x, size: 5}"), "): addr is no integer"},
        {TRACE("{action: alloc, addr: 5, size: 5, time_us: 18446744073709552}"), "time_us is 18446744073709552, the"},
        {TRACE(ENTRY("alloc", 512, 1, 0) ENTRY("alloc", 512, 1, 0)),
         ": entry 2 (byte 135): address 0x200 is given out while it is in use, since entry 1"},
        {TRACE(ENTRY("free_requested", 512, 1, 0) ENTRY("free_requested", 512, 1, 0)),
         "address 0x200 is freed a second time, after entry 1"},
        {TRACE(ENTRY("alloc", 512, 100, 0) ENTRY("alloc", 600, 5, 0)),
         ": entry 2 (byte 135): 5 bytes at 0x258 overlap the 100 at 0x200 of entry 1 (byte 47)"},
        {TRACE(ENTRY("alloc", 600, 5, 0) ENTRY("alloc", 512, 100, 0)), "100 bytes at 0x200 overlap the 5 at 0x258 of"},
        {TRACE(ENTRY("alloc", 512, 100, 0) ENTRY("free_requested", 600, 5, 0)),
         "100 bytes at 0x200 overlap the 5 at 0x258 of entry 2"},
        {TRACE(ENTRY("alloc", 512, 10, 0) ENTRY("free_requested", 512, 20, 0)),
         "20 bytes are freed at 0x200, of a block of 10 (entry 1)"},
        {TRACE(ENTRY("free_requested", 512, 10, 0) ENTRY("free_completed", 512, 20, 0)),
         "20 bytes are freed at 0x200, of a block of 10 (entry 1)"},
        {TRACE(ENTRY("segment_alloc", 512, 1125899906842625, 0)), "size is 1125899906842625, the limit"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        assert_refused(pickle, make(4, refusals[i].table), refusals[i].sentence);
}

#define BYTES(text) (text), sizeof(text) - 1

static void a_pickle_that_is_not_only_data_is_refused(void **state) {
    (void)state;
    assert_refused(BYTES("\x80\x02"
                         "cos\nsystem\nX\x04\0\0\0true\x85R."),
                   ": byte 2: opcode GLOBAL names code");
    assert_refused(BYTES("\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R."), ": byte 14: opcode STACK_GLOBAL");
    static const struct {
        uint8_t opcode;
        const char *name;
    } code[] = {{'R', "REDUCE"},          {'b', "BUILD"},      {'i', "INST"},   {'o', "OBJ"},
                {0x81, "NEWOBJ"},         {0x92, "NEWOBJ_EX"}, {'P', "PERSID"}, {'Q', "BINPERSID"},
                {0x82, "EXT1"},           {0x83, "EXT2"},      {0x84, "EXT4"},  {0x97, "NEXT_BUFFER"},
                {0x98, "READONLY_BUFFER"}};
    for (size_t i = 0; i < sizeof code / sizeof *code; i++) {
        const uint8_t bytes[] = {0x80, 5, '}', ')', code[i].opcode, '.'};
        char sentence[64];
        snprintf(sentence, sizeof sentence, ": byte 4: opcode %s names code", code[i].name);
        assert_refused(bytes, sizeof bytes, sentence);
    }
}

static void a_pickle_that_breaks_the_rules_is_refused(void **state) {
    (void)state;
    assert_refused(BYTES("\x80\x00}."), ": byte 0: protocol 0: protocols 2 to 5 are read");
    assert_refused(BYTES("\x80\x01}."), ": byte 0: protocol 1");
    assert_refused(BYTES("\x80\x04I5\n."), ": byte 2: opcode 'I' is of protocol 0");
    assert_refused(BYTES("\x80\x04\xff."), ": byte 2: 0xff is no opcode");
    assert_refused(BYTES("\x80\x04\0."), ": byte 2: 0x00 is no opcode");
    assert_refused(BYTES("\x80\x04."), ": byte 2: the opcode takes more values than there are");
    assert_refused(BYTES("\x80\x04}(."), ": byte 4: the opcode takes more values");
    assert_refused(BYTES("\x80\x04]a."), ": byte 3: the opcode takes more values");
    assert_refused(BYTES("\x80\x04](0a."), ": byte 5: the opcode takes more values"); /* POP ends a mark */
    assert_refused(BYTES("\x80\x04]e."), ": byte 3: the opcode ends a mark, and there is none");
    assert_refused(BYTES("\x80\x04}]a."), ": byte 4: items are put into what is no list");
    assert_refused(BYTES("\x80\x04]]]s."), ": byte 5: items are put into what is no dictionary");
    assert_refused(BYTES("\x80\x04}(K"), ": byte 5: the text ends within the pickle");
    assert_refused(BYTES("\x80\x04}(K\x05u."), ": byte 6: a key of a dictionary has no value");
    assert_refused(BYTES("\x80\x04}(]K\x05u."), ": byte 7: a list is the key of a dictionary");
    assert_refused(BYTES("\x80\x04}}K\x05s."), ": byte 6: a dictionary is the key of a dictionary");
    assert_refused(BYTES("\x80\x04](K\x05\x90."), ": byte 6: items are put into what is no set");
    assert_refused(BYTES("\x80\x04\x8c\x01\xff."), ": byte 2: a text that is no UTF-8");
    assert_refused(BYTES("\x80\x04\x8c\x02\xc3\xa9\x8c\x01\xc3."), ": byte 6: a text that is no UTF-8");
    assert_refused(BYTES("\x80\x04\x8c\x03\xed\xa0\x80."), ": the pickle is no memory snapshot"); /* half a pair */
    assert_refused(BYTES("\x80\x04]}\x94"
                         "ah\0\x8c\x08segmentsK\x05s."),
                   ": byte 20: segments comes into a dictionary that a list had before, without it");
    assert_refused(BYTES("\x80\x04h\x05."), ": byte 2: entry 5 of the memo is used before it is there");
    assert_refused(BYTES("\x80\x04\x8b\xff\xff\xff\xff."), ": byte 2: an integer of a negative length");
    assert_refused(BYTES("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), ": byte 12: the text ends within");
}

static void a_pickle_cut_anywhere_is_refused(void **state) {
    (void)state;
    static const char small[] = "{segments: [{address: 5000, blocks: [{size: 70000, state: active_allocated}]}]}";
    for (int protocol = 2; protocol <= 5; protocol++) {
        assert_cut_refused(pickle, make(protocol, small), 2, ": the text ends within the pickle");
        assert_cut_refused(pickle, make(protocol, whole), 2, ": the text ends within the pickle");
    }
}

/* ---- within bounds ------------------------------------------------------------------------------------------------ */

static long most_kib(void) {
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    return usage.ru_maxrss;
}

static uint8_t *put(uint8_t *to, const void *bytes, size_t count) {
    memcpy(to, bytes, count);
    return to + count;
}

/* Each list holds the one before twice: 2^60 items, were they written out. */
static void lists_of_the_same_lists_stay_small(void **state) {
    (void)state;
    uint8_t *to = put(pickle, BYTES("\x80\x04]\x94"));
    for (uint8_t i = 0; i < 60; i++) {
        const uint8_t list[] = {']', 0x94, '(', 'h', i, 'h', i, 'e'};
        to = put(to, list, sizeof list);
    }
    to = put(to, BYTES("}(\x8c\x08segmentsh\x3cu."));
    assert_refused(pickle, (size_t)(to - pickle), ": segment 1 (byte 468): it is no dictionary");
}

/* 10^8 blocks, in 40 kB. */
static void lists_that_share_their_items_are_walked_so_far(void **state) {
    (void)state;
    uint8_t *to =
        put(pickle, BYTES("\x80\x04}(\x8c\x04sizeK\x05\x8c\x05stateX\x08\0\0\0inactiveu\x94](")); /* 0: a block */
    for (int i = 0; i < 10000; i++) to = put(to, BYTES("h\0"));
    to = put(to, BYTES("e\x94}(\x8c\x07"
                       "addressK\0\x8c\x06"
                       "blocksh\x01u\x94](")); /* 1: blocks, 2: a segment */
    for (int i = 0; i < 10000; i++) to = put(to, BYTES("h\x02"));
    to = put(to, BYTES("e\x94}(\x8c\x08segmentsh\x03u."));
    assert_refused(pickle, (size_t)(to - pickle), ": the lists hold more than 33554432 items");
}

static void names_of_the_memo_cost_nothing(void **state) {
    (void)state;
    uint8_t *to = put(pickle, BYTES("\x80\x04}r\xff\xff\xff\xffr\0\0\0\x80r\xfe\xff\xff\x7f("));
    to = put(to, BYTES("\x8c\x08segments](}(\x8c\x07"
                       "addressK\0\x8c\x06"
                       "blocks](}(\x8c\x04sizeK\x05\x8c\x05state"
                       "\x8c\x10"
                       "active_allocatedueueu."));
    assert_makes(pickle, (size_t)(to - pickle), "weir-trace 1\np 0 5 0\n");
    assert_in_range(most_kib(), 1, SANITIZED ? 1000000 : 120000);
}

static void the_memory_for_a_pickle_has_a_limit(void **state) {
    (void)state;
    static const char *const words[] = {"word"};
    char why[300];
    memset(pickle, ']', sizeof pickle);
    memcpy(pickle, "\x80\x04", 2);
    for (int i = 0; i < 2; i++) {
        struct input *input = input_open_bytes(pickle, sizeof pickle, why, sizeof why);
        assert_non_null(input);
        assert_null(pickle_read("NAME", input, words, 1, i == 0 ? 100000 : 10000000, why, sizeof why));
        input_close(input);
        const char *sentence = i == 0 ? "needs more than the limit of 100000 bytes" : "the text ends within the pickle";
        if (strstr(why, sentence) == NULL) fail_msg("%s", why);
    }
}

/* An entry has dozens of frames, and a frame is in thousands of entries. */
static void frames_cost_nothing(void **state) {
    (void)state;
    static const char *const words[] = {"word"};
    char why[300] = "";
    uint8_t *to = put(pickle, BYTES("\x80\x04}(\x8c\x04nameK\x05u\x94]"));
    for (int i = 0; i < 20000; i++) to = put(to, BYTES("h\0a"));
    to = put(to, BYTES("."));
    struct input *input = input_open_bytes(pickle, (size_t)(to - pickle), why, sizeof why);
    assert_non_null(input);
    struct pickle *read = pickle_read("NAME", input, words, 1, 1000, why, sizeof why);
    if (read == NULL) fail_msg("%s", why);
    assert_int_equal(pickle_length(read, pickle_root(read)), 20000);
    assert_int_equal(pickle_kind(pickle_item(read, pickle_root(read), 19999)), PICKLE_DICT);
    pickle_free(read);
    input_close(input);
}

/* ---- a snapshot in the wild ---------------------------------------------------------------------------------------- */

static const char wild[] = "pickle/niu_fwdbwd_200_mixed_precision.pickle";

/* What its README says, in whole MiB: 932 live at the peak, 1150 reserved. */
static void the_peak_of_a_snapshot_in_the_wild_is_kept(void **state) {
    (void)state;
    struct trace trace;
    assert_converts(convert("%s --json=%s -o %s", shared(wild), json_path, out_path));
    read_back(&trace);
    assert_int_equal(trace.peak_live_bytes, 977167528);
    assert_int_equal(trace.stream_count, 1);
    trace_free(&trace);
    assert_non_null(strstr(read_file(json_path), "\"peak_reserve_bytes\": 1205862400,"));
}

static void it_is_the_same_in_every_protocol(void **state) {
    (void)state;
    char command[900];
    const char *path = shared(wild);
    if (run_shell("python3 -c 'import pickle' >/dev/null 2>&1") != 0) {
        print_message("no python3, which writes the other protocols: SKIPPED\n");
        skip();
    }
    for (int protocol = 2; protocol <= 5; protocol++) {
        snprintf(
            command, sizeof command,
            "python3 -c 'import pickle, sys; pickle.dump(pickle.load(open(sys.argv[1], \"rb\")), open(sys.argv[2], "
            "\"wb\"), %d)' '%s' '%s'",
            protocol, path, in_path);
        assert_int_equal(run_shell(command), 0);
        assert_converts(convert("%s -o %s", in_path, out_path));
        assert_says("13138 rows, 4404 blocks, 1 stream, peak live 977167528 bytes");
    }
}

static void it_runs_on_little_more_than_was_live(void **state) {
    (void)state;
    assert_converts(convert("%s -o %s", shared(wild), out_path));
    assert_completes(out_path, "977167528", 48 << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_becomes_requests_and_what_was_live_before),
        cmocka_unit_test(an_address_is_another_block_each_time),
        cmocka_unit_test(a_completion_whose_request_came_before_the_recording_is_no_free),
        cmocka_unit_test(where_no_request_is_recorded_its_completion_frees),
        cmocka_unit_test(a_snapshot_without_a_history_is_what_is_live),
        cmocka_unit_test(missing_fields_are_made_up_for),
        cmocka_unit_test(time_that_goes_backwards_stands_still),
        cmocka_unit_test(an_overflowed_recording_is_told),
        cmocka_unit_test(of_several_devices_one_is_taken),
        cmocka_unit_test(where_the_segments_say_otherwise_the_entries_count),
        cmocka_unit_test(what_the_segments_may_say_is_not_told),
        cmocka_unit_test(a_snapshot_may_be_compressed_and_come_from_standard_input),
        cmocka_unit_test(a_snapshot_of_a_wrong_make_is_refused),
        cmocka_unit_test(a_pickle_that_is_not_only_data_is_refused),
        cmocka_unit_test(a_pickle_that_breaks_the_rules_is_refused),
        cmocka_unit_test(a_pickle_cut_anywhere_is_refused),
        cmocka_unit_test(names_of_the_memo_cost_nothing),
        cmocka_unit_test(lists_of_the_same_lists_stay_small),
        cmocka_unit_test(lists_that_share_their_items_are_walked_so_far),
        cmocka_unit_test(the_memory_for_a_pickle_has_a_limit),
        cmocka_unit_test(frames_cost_nothing),
        cmocka_unit_test(the_peak_of_a_snapshot_in_the_wild_is_kept),
        cmocka_unit_test(it_is_the_same_in_every_protocol),
        cmocka_unit_test(it_runs_on_little_more_than_was_live),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
