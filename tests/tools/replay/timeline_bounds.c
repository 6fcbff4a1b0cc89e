/* SPDX-License-Identifier: Apache-2.0 */
/* What is recorded of a run has bounded room: the page of one that is too long for it is no longer than that, keeps the last
 * requests one by one, and the peak of all. Runs are made up, and what is recorded is recorded directly. */
#include "page_read.h"
#include "support.h"
#include "tools/replay/timeline_inside.h"

enum { STREAMS = 8, REQUESTS = 1200000, WORKS = 600000, PEAK_AT = 1000, LIVE_AT_ONCE = 64 };

struct made_up {
    struct trace trace;
    struct setup setup;
    struct run run;
    struct timeline timeline;
    uint64_t seed, live, ns, bytes[LIVE_AT_ONCE + 1];
    struct op last;
};

static uint64_t draw(struct made_up *made, uint64_t below) {
    made->seed = made->seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (made->seed >> 20) % below;
}

static void begin(struct made_up *made) {
    char names[400] = "";
    *made = (struct made_up){.seed = 1};
    for (unsigned i = 0; i < STREAMS; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "# stream %u s%u\nk %u 1\n", i, i, i);
    made->trace = trace_of(names);
    made->setup = setup_of(&made->trace, TARGET_FREE, 1);
    made->run = (struct run){.setup = &made->setup, .trace = &made->trace, .timeline = &made->timeline};
    struct timeline *timeline = &made->timeline;
    timeline->row_count = STREAMS + 1;
    timeline->column_ns = timeline->iterations_in_one = 1;
    timeline->tells_idle = true;
    timeline->columns = calloc(TIMELINE_COLUMNS, sizeof *timeline->columns);
    timeline->rows = calloc(timeline->row_count, sizeof *timeline->rows);
    timeline->slots = calloc(timeline->row_count, 1);
    assert_true(timeline->columns != NULL && timeline->rows != NULL && timeline->slots != NULL);
    for (uint32_t i = 0; i < STREAMS; i++) timeline->slots[i] = (uint8_t)(i + 1);
    timeline->slot_count = STREAMS;
}

static void end(struct made_up *made) {
    for (unsigned i = 0; i < made->timeline.requests.part_count; i++) free(made->timeline.requests.parts[i].bytes);
    for (uint32_t i = 0; i < made->timeline.row_count; i++) free(made->timeline.rows[i].bars);
    free(made->timeline.rows);
    free(made->timeline.columns);
    free(made->timeline.slots);
    trace_free(&made->trace);
}

/* Sizes, streams, idle bytes and what requests did are all drawn, so that little of it can be expected. */
static void add_request(struct made_up *made, uint32_t number) {
    const bool peak = number == PEAK_AT || number == PEAK_AT + 1; /* it comes and goes at once */
    uint64_t *bytes = &made->bytes[peak ? LIVE_AT_ONCE : draw(made, LIVE_AT_ONCE)];
    const bool frees = *bytes > 0;
    if (!frees) *bytes = peak ? UINT64_C(1) << 45 : 1 + draw(made, UINT64_C(1) << 30);
    made->last = (struct op){.kind = frees ? OP_FREE : OP_ALLOC, .line = 2 * number + 2, .bytes = *bytes};
    made->last.stream = (uint32_t)draw(made, STREAMS);
    made->live += frees ? 0 - *bytes : *bytes;
    if (frees) *bytes = 0;
    made->ns += 1 + draw(made, 100000);
    struct sample sample = {.ns = made->ns, .live = made->live, .held = draw(made, UINT64_C(1) << 37)};
    for (unsigned i = 0; i < 2; i++) sample.idle[draw(made, STREAMS)] = draw(made, UINT64_C(1) << 36);
    sample.counts.memory_calls = draw(made, 20);
    sample.counts.stranded = draw(made, UINT64_C(1) << 36);
    timeline_add_sample(&made->timeline, made->last.stream, &sample);
    timeline_add_request(&made->timeline, &made->last, &sample);
}

static void add_work(struct made_up *made, uint64_t *ended) {
    uint64_t *end = &ended[draw(made, STREAMS)];
    const uint64_t start = *end + 1 + draw(made, 1000000);
    *end = start + 1 + draw(made, 100000);
    timeline_add_bar(&made->timeline, (uint32_t)(end - ended), start, *end);
}

static struct page show(const struct made_up *made) {
    static const struct outcome completed = {.ending = ENDED_COMPLETED};
    char path[] = "/tmp/weir_timeline_bounds_XXXXXX";
    const int file = mkstemp(path);
    FILE *out = file >= 0 ? fdopen(file, "w") : NULL;
    assert_non_null(out);
    assert_true(timeline_page(&made->run, &completed, out));
    assert_int_equal(fclose(out), 0);
    const struct page page = page_read(path);
    unlink(path);
    return page;
}

static void the_page_of_a_long_run_keeps_its_end_and_its_peak(void **state) {
    (void)state;
    static struct made_up made;
    uint64_t ended[STREAMS] = {0};
    begin(&made);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        add_request(&made, i);
        if (i < WORKS) add_work(&made, ended);
    }
    struct page page = show(&made);
    const struct shown *last = &page.samples[page.sample_count - 1];
    const size_t singles = page.sample_count - page.column_count;
    assert_true(strlen(page.text) < 14 * MIB);
    assert_int_equal(page_number(page.data, "dropped"), REQUESTS - (json_int_t)singles);
    assert_true(singles > 100000 && page.column_count > 10000 && page.column_count <= TIMELINE_COLUMNS);
    assert_true(last->single);
    assert_int_equal(last->line, made.last.line);
    assert_int_equal(last->bytes, made.last.bytes);
    assert_int_equal(last->live, made.live);
    assert_true(page_most_live(&page) > INT64_C(1) << 45);
    assert_true(made.timeline.bar_count > TIMELINE_BARS / 4 && made.timeline.bar_count <= TIMELINE_BARS);
    page_free(&page);
    end(&made);
}

static void bars_that_became_one_say_how_much_of_it_was_busy(void **state) {
    (void)state;
    static struct made_up made;
    uint64_t ended[STREAMS] = {0};
    size_t count;
    int64_t busy = 0;
    begin(&made);
    for (uint32_t i = 0; i < WORKS; i++) add_work(&made, ended);
    struct page page = show(&made);
    const json_t *row = page_row(&page, "s3");
    struct shown_bar *bars = page_bars(row, &count);
    for (size_t i = 0; i < count; i++) busy += bars[i].busy;
    assert_true(count < WORKS / STREAMS);
    assert_int_equal(busy, page_number(row, "busy_ns"));
    assert_int_equal(bars[count - 1].end, ended[3]);
    free(bars);
    page_free(&page);
    end(&made);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_of_a_long_run_keeps_its_end_and_its_peak),
        cmocka_unit_test(bars_that_became_one_say_how_much_of_it_was_busy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
