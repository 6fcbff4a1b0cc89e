/* SPDX-License-Identifier: Apache-2.0 */
/* A recorded training run, replayed: the same peak of live bytes; and in deterministic mode the same places, on a device
 * that is nearly full and under a clock that the recorded run did not have. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "spawn.h"

enum { RANKS = 2 };
#define JOB                                                                                                            \
    "--ranks=2", "--dim=64", "--ffn=32", "--layers=6", "--experts=8", "--top-k=4", "--seq=64", "--batch=4",            \
        "--loss-chunk=64", "--eval-every=0", "--steps=3", "--no-progress", "--offload"

static struct spawned s;
static char folder[] = "/tmp/weir_recorded_XXXXXX", trace[64], report[64], text[1 << 16];

static const char *contents_of(const char *path) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

/* The first number behind the key. */
static uint64_t number_behind(const char *json, const char *key) {
    const char *at = strstr(json, key);
    assert_non_null(at);
    at += strlen(key) + strspn(at + strlen(key), "\": ");
    return strtoull(at, NULL, 10);
}

/* A rank's statistics begin with its capacity. */
static uint64_t of_rank(const char *key, int rank) {
    const char *at = contents_of(report);
    for (int i = 0; i <= rank; i++) {
        at = strstr(at + 1, "\"stats\"");
        assert_non_null(at);
    }
    return number_behind(at, key);
}

static void train(const char *options, const char *limit) {
    char path[80], json[80], bytes[40];
    snprintf(path, sizeof path, "--trace=%s", trace);
    snprintf(json, sizeof json, "--json=%s", report);
    snprintf(bytes, sizeof bytes, "--limit=%s", limit);
    setenv("WEIR_OPTIONS", options, 1);
    SPAWN(&s, WEIR_TRAIN, "--data", spawn_text, JOB, path, json, bytes);
    unsetenv("WEIR_OPTIONS");
    ASSERT_STATUS(&s, 0);
}

static const char *replay(int rank, char *clock) {
    char path[80];
    snprintf(path, sizeof path, "%s.rank%d", trace, rank);
    SPAWN(&s, WEIR_REPLAY, path, "--as-recorded", "--json", "--clock", clock);
    ASSERT_STATUS(&s, 0);
    ASSERT_SAYS(&s, out, "\"completed\"");
    return s.out_text;
}

static void a_replay_has_the_peak_of_the_run(void **state) {
    (void)state;
    train("", "0");
    for (int rank = 0; rank < RANKS; rank++) {
        const char *answer = replay(rank, "virtual");
        assert_int_equal(number_behind(answer, "\"peak_live_bytes\""), of_rank("\"peak_requested_bytes\"", rank));
        assert_int_equal(number_behind(answer, "\"addresses_compared\""), 0); /* nothing said where blocks lay */
    }
}

static void in_deterministic_mode_a_replay_has_the_places_of_the_run(void **state) {
    (void)state;
    char limit[32];
    train("deterministic:on", "0");
    uint64_t peak = 0;
    for (int rank = 0; rank < RANKS; rank++)
        if (of_rank("\"peak_live_bytes\"", rank) > peak) peak = of_rank("\"peak_live_bytes\"", rank);
    snprintf(limit, sizeof limit, "%" PRIu64, peak + (24u << 14)); /* live and 24 granules: pages must move */
    train("deterministic:on", limit);
    uint64_t moved = 0;
    for (int rank = 0; rank < RANKS; rank++) {
        const uint64_t allocs = of_rank("\"allocs\"", rank);
        peak = of_rank("\"peak_requested_bytes\"", rank);
        moved += of_rank("\"pages_moved\"", rank);
        for (int clock = 0; clock < 2; clock++) {
            const char *answer = replay(rank, clock ? "virtual" : "none");
            assert_int_equal(number_behind(answer, "\"peak_live_bytes\""), peak);
            const uint64_t compared = number_behind(answer, "\"addresses_compared\"");
            assert_true(compared <= allocs && compared > allocs * 9 / 10); /* blocks of no bytes have no place */
            assert_int_equal(number_behind(answer, "\"addresses_equal\""), compared);
        }
    }
    assert_true(moved > 0); /* else the run was too easy to show anything */
}

static int open_folder(void **state) {
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(trace, sizeof trace, "%s/run", folder);
    snprintf(report, sizeof report, "%s/report.json", folder);
    return spawn_text_write(state);
}

static int remove_folder(void **state) {
    char path[80];
    for (int rank = 0; rank < RANKS; rank++) {
        snprintf(path, sizeof path, "%s.rank%d", trace, rank);
        unlink(path);
    }
    unlink(report);
    return rmdir(folder) + spawn_text_remove(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_replay_has_the_peak_of_the_run),
        cmocka_unit_test(in_deterministic_mode_a_replay_has_the_places_of_the_run),
    };
    return cmocka_run_group_tests(tests, open_folder, remove_folder);
}
