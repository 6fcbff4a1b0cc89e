/* SPDX-License-Identifier: Apache-2.0 */
#include "runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static FILE *open_text(char path[static 64]) {
    strcpy(path, "/tmp/weir-runs-XXXXXX");
    const int file = mkstemp(path);
    assert_true(file >= 0);
    FILE *text = fdopen(file, "w");
    assert_non_null(text);
    fprintf(text, "weir-trace 1\n");
    return text;
}

static struct trace read_text(FILE *text, const char *path) {
    struct trace trace;
    char why[512];
    assert_int_equal(fclose(text), 0);
    const bool read = trace_read(path, &trace, why, sizeof why);
    unlink(path);
    if (!read) fail_msg("%s", why);
    return trace;
}

struct trace trace_of(const char *lines) {
    char path[64];
    FILE *text = open_text(path);
    fputs(lines, text);
    return read_text(text, path);
}

struct setup setup_of(const struct trace *trace, enum target_kind target, size_t pages) {
    return (struct setup){.trace = trace,
                          .target = target,
                          .policy = "latency",
                          .capacity_bytes = pages * PAGE,
                          .profile = TEST_PROFILE,
                          .law = "measured",
                          .steady_from = 3,
                          .clock = CLOCK_VIRTUAL};
}

struct outcome run_one(const struct setup *setup) {
    struct outcome outcome;
    char why[512];
    if (!run_many(setup, 1, 1, &outcome, why, sizeof why)) fail_msg("%s", why);
    return outcome;
}

struct outcome play(const char *lines, enum target_kind target, size_t pages) {
    struct trace trace = trace_of(lines);
    const struct setup setup = setup_of(&trace, target, pages);
    const struct outcome outcome = run_one(&setup);
    if (outcome.ending != ENDED_COMPLETED)
        fail_msg("ending %d at line %u: %s", (int)outcome.ending, outcome.failed_line, outcome.why);
    trace_free(&trace);
    return outcome;
}

void assert_same(const struct outcome *a, const struct outcome *b) {
    struct outcome one = *a, other = *b;
    one.cpu_ns_per_op = other.cpu_ns_per_op = 0;
    assert_memory_equal(&one, &other, sizeof one);
}

/* ---- drawn traces ----------------------------------------------------------------------------------------------- */

enum { STREAMS = 4, LIVE = 40, EVENTS = 6 };

static uint64_t draw(uint64_t *state, uint64_t below) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    return ((z ^ (z >> 27)) >> 16) % below;
}

static void put_free(FILE *text, unsigned block, uint64_t *state) {
    const uint64_t kind = draw(state, 8);
    if (kind == 0) fprintf(text, "f %u *\n", block);
    if (kind == 1) fprintf(text, "f %u %u\n", block, (unsigned)draw(state, STREAMS));
    if (kind == 2) fprintf(text, "f %u @%u\n", block, (unsigned)draw(state, EVENTS));
    if (kind > 2) fprintf(text, "f %u\n", block);
}

static void put_order(FILE *text, uint64_t *state) {
    const unsigned event = (unsigned)draw(state, EVENTS), stream = (unsigned)draw(state, STREAMS);
    switch (draw(state, 8)) {
    case 0:
        fprintf(text, "h %u\n", event);
        break;
    case 1:
    case 2:
        fprintf(text, "w %u %u\n", event, stream);
        break;
    default:
        fprintf(text, "e %u %u\n", event, stream);
    }
}

struct trace drawn_trace(uint64_t seed, unsigned operations) {
    char path[64];
    FILE *text = open_text(path);
    unsigned live[LIVE], count = 0, blocks = 0;
    for (unsigned i = 0; i < EVENTS; i++) fprintf(text, "e %u %u\n", i, i % STREAMS);
    for (unsigned i = 0; i < operations; i++) {
        if (i % (operations / 5) == 0) fprintf(text, "i\n");
        const uint64_t kind = draw(&seed, 10);
        if (kind < 3 && count < LIVE) {
            live[count++] = ++blocks;
            fprintf(text, "m %u %u %u\n", blocks, 1 + (unsigned)draw(&seed, 8 * PAGE), (unsigned)draw(&seed, STREAMS));
        } else if (kind < 5 && count > 0) {
            const unsigned at = (unsigned)draw(&seed, count);
            put_free(text, live[at], &seed);
            live[at] = live[--count];
        } else if (kind == 5 && count > 0) {
            fprintf(text, "u %u %u\n", live[draw(&seed, count)], (unsigned)draw(&seed, STREAMS));
        } else if (kind == 6) {
            put_order(text, &seed);
        } else {
            fprintf(text, "k %u %u\n", (unsigned)draw(&seed, STREAMS), 1 + (unsigned)draw(&seed, 400));
        }
    }
    fprintf(text, "d\n");
    return read_text(text, path);
}
