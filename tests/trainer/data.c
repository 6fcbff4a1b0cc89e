/* SPDX-License-Identifier: Apache-2.0 */
/* Any number of ranks trains on the same global batch, and a text that is too small is refused in one sentence. */
#include "trainer/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64], message[768];
static struct data data;

/* A file of `bytes` bytes in which every window of 8 is different. */
static int setup(size_t bytes) {
    strcpy(path, "/tmp/weir-data-XXXXXX");
    int fd = mkstemp(path);
    unsigned char *text = malloc(bytes + 1);
    unsigned state = 7;
    for (size_t i = 0; i < bytes; i++) text[i] = (unsigned char)(rand_r(&state) >> 7);
    ssize_t written = write(fd, text, bytes);
    free(text);
    close(fd);
    return written == (ssize_t)bytes ? 0 : -1;
}

static int open_file(size_t bytes, double validation, int64_t seq) {
    assert_int_equal(setup(bytes), 0);
    message[0] = 0;
    int status = data_open(path, validation, seq, &data, message, sizeof message);
    unlink(path);
    return status;
}

static void says(const char *what) {
    if (!strstr(message, what)) fail_msg("wanted \"%s\", but the sentence is \"%s\"", what, message);
}

enum { SEQ = 16, SEQUENCES = 24 };

/* The global batch of one step as `world` ranks of `batch` sequences see it: (SEQUENCES, SEQ). */
static void global_batch(int world, int64_t step, bool validation, int32_t *ids, int32_t *targets) {
    int64_t batch = SEQUENCES / world;
    for (int64_t rank = 0; rank < world; rank++)
        for (int64_t b = 0; b < batch; b++) {
            int64_t at = rank * batch + b;
            data_batch(&data, validation, step * SEQUENCES + at, 42, ids + at * SEQ, targets + at * SEQ);
        }
}

static void any_world_sees_the_same_global_batch(void **state) {
    (void)state;
    int32_t one[2][SEQUENCES * SEQ], other[2][SEQUENCES * SEQ];
    assert_int_equal(open_file(5000, 0.2, SEQ), 0);
    for (int step = 0; step < 3; step++)
        for (int world = 1; world <= 8; world *= 2)
            for (int validation = 0; validation < 2; validation++) {
                global_batch(1, step, validation, one[0], one[1]);
                global_batch(world, step, validation, other[0], other[1]);
                assert_memory_equal(one, other, sizeof one);
            }
    data_close(&data);
}

static void targets_are_the_bytes_after(void **state) {
    (void)state;
    int32_t ids[SEQ], targets[SEQ];
    assert_int_equal(open_file(5000, 0.2, SEQ), 0);
    for (int validation = 0; validation < 2; validation++)
        for (int64_t i = 0; i < 500; i++) {
            data_batch(&data, validation, i, 1, ids, targets);
            assert_memory_equal(ids + 1, targets, (SEQ - 1) * sizeof *ids);
            for (int at = 0; at < SEQ; at++) assert_in_range(ids[at], 0, 255);
        }
    data_close(&data);
}

static int64_t start_of(const int32_t *ids) {
    for (int64_t at = 0; at + SEQ <= data.bytes; at++) {
        int same = 0;
        while (same < SEQ && data.text[at + same] == ids[same]) same++;
        if (same == SEQ) return at;
    }
    return -1;
}

static void training_never_sees_the_validation_text(void **state) {
    (void)state;
    int32_t ids[SEQ], targets[SEQ];
    int64_t least = INT64_MAX, most = -1;
    assert_int_equal(open_file(400, 0.25, SEQ), 0);
    assert_int_equal(data.train_bytes, 300);
    for (int64_t i = 0; i < 3000; i++) {
        data_batch(&data, false, i, 9, ids, targets);
        int64_t start = start_of(ids);
        if (start < least) least = start;
        if (start > most) most = start;
        assert_int_equal(targets[SEQ - 1], data.text[start + SEQ]);
    }
    assert_int_equal(least, 0);
    assert_int_equal(most, 300 - SEQ - 1); /* its last target is the last byte for training */
    data_close(&data);
}

static void validation_goes_through_its_text_once_and_then_again(void **state) {
    (void)state;
    int32_t ids[SEQ], targets[SEQ];
    assert_int_equal(open_file(400, 0.25, SEQ), 0);
    int64_t windows = data_validation_sequences(&data);
    assert_int_equal(windows, (100 - 1) / SEQ);
    for (int64_t i = 0; i < 3 * windows; i++) {
        data_batch(&data, true, i, 9, ids, targets);
        assert_int_equal(start_of(ids), 300 + i % windows * SEQ);
    }
    data_close(&data);
}

static void a_seed_gives_another_order(void **state) {
    (void)state;
    int32_t a[SEQ], b[SEQ], targets[SEQ];
    int same = 0;
    assert_int_equal(open_file(5000, 0.2, SEQ), 0);
    for (int64_t i = 0; i < 100; i++) {
        data_batch(&data, false, i, 1, a, targets);
        data_batch(&data, false, i, 2, b, targets);
        same += memcmp(a, b, sizeof a) == 0;
    }
    assert_true(same < 5);
    data_close(&data);
}

static void the_smallest_text_that_is_enough_is_taken(void **state) {
    (void)state;
    int32_t ids[SEQ], targets[SEQ];
    assert_int_equal(open_file(SEQ + 1, 0, SEQ), 0);
    data_batch(&data, false, 123456789, 3, ids, targets);
    assert_int_equal(ids[0], data.text[0]);
    assert_int_equal(data_validation_sequences(&data), 0);
    data_close(&data);
    assert_int_equal(open_file(2 * (SEQ + 1), 0.5, SEQ), 0);
    assert_int_equal(data_validation_sequences(&data), 1);
    data_close(&data);
}

static void a_text_that_is_too_small_is_refused(void **state) {
    (void)state;
    assert_int_equal(open_file(0, 0.1, SEQ), 2);
    says("is empty; at least 17 bytes are needed for --seq=16");
    says(path);
    assert_int_equal(open_file(SEQ, 0, SEQ), 2);
    says("has 16 bytes, of which 16 are for training; --seq=16 needs at least 17 there");
    assert_int_equal(open_file(100, 0.1, SEQ), 2);
    says("has 100 bytes, of which --validation=0.1 keeps 10; --seq=16 needs at least 17 there");
    assert_int_equal(open_file(2 * (SEQ + 1) - 1, 0.5, SEQ), 2);
}

static void what_is_no_file_is_refused(void **state) {
    (void)state;
    assert_int_equal(data_open("/no/such/text", 0.1, SEQ, &data, message, sizeof message), 2);
    says("--data /no/such/text can't be read: No such file or directory");
    assert_int_equal(data_open("/tmp", 0.1, SEQ, &data, message, sizeof message), 2);
    says("--data /tmp is not an ordinary file");
    assert_int_equal(data_open("/dev/zero", 0.1, SEQ, &data, message, sizeof message), 2);
    says("is not an ordinary file");
}

static void the_default_text_lies_beside_the_program(void **state) {
    (void)state;
    char text[512], program[512];
    data_path("", text, sizeof text);
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    assert_true(length > 0);
    program[length] = 0;
    *strrchr(program, '/') = 0;
    *strrchr(program, '/') = 0;
    assert_memory_equal(text, program, strlen(program));
    assert_string_equal(text + strlen(program), "/data/kjv.txt");
    if (access(text, R_OK)) {
        assert_int_equal(data_open("", 0.1, SEQ, &data, message, sizeof message), 2);
        says("./run.sh makes it, or give --data=FILE");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_world_sees_the_same_global_batch),
        cmocka_unit_test(targets_are_the_bytes_after),
        cmocka_unit_test(training_never_sees_the_validation_text),
        cmocka_unit_test(validation_goes_through_its_text_once_and_then_again),
        cmocka_unit_test(a_seed_gives_another_order),
        cmocka_unit_test(the_smallest_text_that_is_enough_is_taken),
        cmocka_unit_test(a_text_that_is_too_small_is_refused),
        cmocka_unit_test(what_is_no_file_is_refused),
        cmocka_unit_test(the_default_text_lies_beside_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
