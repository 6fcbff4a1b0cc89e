/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a run, and what is compared between runs. */
#include "tools/demo/demo.h"

#include <assert.h>
#include <math.h>
#include <string.h>

const struct rank_figures *run_fullest(const struct run *run) {
    assert(run->rank_count > 0);
    const struct rank_figures *fullest = &run->ranks[0];
    for (size_t i = 1; i < run->rank_count; i++)
        if (run->ranks[i].peak_live_bytes > fullest->peak_live_bytes) fullest = &run->ranks[i];
    return fullest;
}

const struct rank_figures *run_subject(const struct run *run) {
    if (run->outcome != RUN_OUT_OF_MEMORY) return run_fullest(run);
    const struct rank_figures *refused = NULL;
    for (size_t i = 0; i < run->rank_count; i++) {
        const struct rank_figures *rank = &run->ranks[i];
        if (rank->rank == run->failed_rank) return rank;
        if (rank->refused && (!refused || rank->refusal.live_bytes > refused->refusal.live_bytes)) refused = rank;
    }
    return refused ? refused : run_fullest(run);
}

/* At the end of a run nobody asks; the first stream is the compute stream, whose idle memory is no loss to it. */
static size_t idle_beside_the_first(const struct rank_figures *rank) {
    size_t idle = 0;
    for (size_t i = 1; i < rank->stream_count; i++) idle += rank->streams[i].idle_bytes;
    return idle;
}

struct figures run_figures(const struct run *run) {
    const struct rank_figures *rank = run_subject(run);
    bool refused = run->outcome == RUN_OUT_OF_MEMORY && rank->refused;
    struct figures figures = {
        .rank = rank->rank,
        .capacity_bytes = rank->capacity_bytes,
        .peak_live_bytes = rank->peak_live_bytes,
        .peak_held_bytes = rank->peak_held_bytes,
        .live_bytes = refused ? rank->refusal.live_bytes : rank->live_bytes,
        .idle_asker_bytes = refused ? rank->refusal.idle_asker_bytes : 0,
        .idle_others_bytes = refused ? rank->refusal.idle_others_bytes : idle_beside_the_first(rank),
    };
    size_t full = refused ? figures.live_bytes : figures.peak_live_bytes;
    figures.utilisation = (double)full / (double)figures.capacity_bytes;
    return figures;
}

size_t demo_capacity(size_t peak_live_bytes, size_t page_bytes) {
    assert(page_bytes > 0);
    size_t wanted = (size_t)ceil((double)peak_live_bytes * (1.0 + DEMO_HEADROOM));
    return (wanted + page_bytes - 1) / page_bytes * page_bytes;
}

size_t run_page_bytes(const struct run *run) {
    if (run->granularity_bytes > 0) return run->granularity_bytes;
    return strcmp(run->profile, "demo") == 0 ? (size_t)16 << 10 : (size_t)2 << 20;
}

static size_t steps_shared(const struct run *one, const struct run *other) {
    size_t shared = one->step_count < other->step_count ? one->step_count : other->step_count;
    bool comparable = one->batch == other->batch && one->seq == other->seq && one->world == other->world;
    if (!comparable) return 0;
    return one->steps_asked != other->steps_asked && shared > 1 ? 1 : shared;
}

/* By bits: two NaN are the same answer, 0.0 and -0.0 are not. */
static bool same_bits(double one, double other) { return memcmp(&one, &other, sizeof one) == 0; }

struct loss_check losses_compare(const struct run *const *runs, size_t count) {
    struct loss_check check = {.same = true};
    for (size_t i = 0; i < count; i++)
        for (size_t j = i + 1; j < count; j++) {
            size_t shared = steps_shared(runs[i], runs[j]);
            check.pairs += shared > 0;
            check.steps += shared;
            for (size_t step = 0; step < shared && check.same; step++) {
                if (same_bits(runs[i]->losses[step], runs[j]->losses[step])) continue;
                check.same = false;
                check.one = runs[i];
                check.other = runs[j];
                check.step = step + 1;
            }
        }
    return check;
}

struct goals demo_goals(const struct demo *demo) {
    const struct run *per_stream = demo->runs[DEMO_PER_STREAM], *weir = demo->runs[DEMO_WEIR];
    struct goals goals = {.asked = per_stream && weir};
    if (!goals.asked) return goals;
    struct figures kept = run_figures(per_stream), pooled = run_figures(weir);
    double idle = (double)kept.idle_others_bytes / (double)kept.capacity_bytes;
    goals.per_stream = per_stream->outcome == RUN_OUT_OF_MEMORY && kept.utilisation < GOAL_PER_STREAM_UTILISATION &&
                       idle >= GOAL_IDLE_ON_OTHERS;
    goals.weir = weir->outcome == RUN_COMPLETED && pooled.utilisation >= GOAL_WEIR_UTILISATION;
    return goals;
}
