/* SPDX-License-Identifier: Apache-2.0 */
/* weir-demo: runs one job under several ways of keeping device memory, on devices of one size, and reports what happened.
 *
 * run      one weir-train, as its JSON report tells it (read.c)
 * subject  the rank that the figures are of: the one that ran out, else the fullest (figures.c)
 * demo     all the runs that the report is about, and what was measured before them
 *
 * Reading, figures, choosing and writing are functions over these plain structs; only run.c and main.c start processes.
 * NaN and UNKNOWN stand for what was not measured. */
#ifndef WEIR_TOOLS_DEMO_H
#define WEIR_TOOLS_DEMO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#define DEMO_NAME_ROOM    32
#define DEMO_MESSAGE_ROOM 512
#define DEMO_UNKNOWN      INT64_MIN

/* What the demo hopes to show; the job is never shaped to get there, so the report says whether it did. */
#define GOAL_PER_STREAM_UTILISATION 0.80 /* per-stream runs out below this */
#define GOAL_IDLE_ON_OTHERS         0.10 /* with at least this part of the capacity idle on other streams */
#define GOAL_WEIR_UTILISATION       0.95 /* weir completes at this or more */
#define DEMO_HEADROOM               0.03 /* the device is this much larger than the job's peak of live bytes */

/* ---- one run --------------------------------------------------------------------------------------------------- */

struct stream_figures {
    char name[DEMO_NAME_ROOM];
    size_t live_bytes, idle_bytes, peak_live_bytes, peak_idle_bytes;
};

/* The request that was refused: the parts that the pool held, and what it had not taken of its limit. */
struct refusal {
    char stream[DEMO_NAME_ROOM];
    size_t asked_bytes, limit_bytes, live_bytes, idle_asker_bytes, idle_others_bytes;
    size_t moving_bytes, unmapped_bytes, untaken_bytes, largest_idle_bytes;
};

struct sample {
    double ms;
    int64_t step;
    const size_t *bytes; /* live and idle of stream 0, live and idle of stream 1, ... */
};

struct timeline {
    size_t stream_count, sample_count;
    char (*streams)[DEMO_NAME_ROOM];
    struct sample *samples; /* in order of time */
    size_t *bytes;          /* what the samples point into */
};

struct rank_figures {
    int64_t rank;
    size_t capacity_bytes, live_bytes, held_bytes, peak_live_bytes, peak_held_bytes;
    size_t stream_count;
    struct stream_figures *streams;
    bool refused;
    struct refusal refusal;
    struct timeline timeline; /* no samples when none was asked for */
};

enum run_outcome { RUN_COMPLETED, RUN_OUT_OF_MEMORY, RUN_FAILED };

struct run {
    char name[DEMO_NAME_ROOM]; /* as the demo calls it */
    char policy[DEMO_NAME_ROOM];
    bool offload;
    int64_t world, ep, batch, seq, steps_asked;
    char device[16], profile[DEMO_NAME_ROOM], data_path[512];
    int64_t data_bytes;
    size_t granularity_bytes; /* 0 when the report does not say */
    enum run_outcome outcome;
    int64_t failed_step, failed_rank; /* DEMO_UNKNOWN when it did not fail, or nobody knows */
    char message[DEMO_MESSAGE_ROOM];
    double tokens_per_s, first_loss, last_loss;
    size_t step_count; /* steps that were completed */
    double *losses;    /* (step_count) */
    size_t *peak_live; /* (step_count) peak so far on the fullest rank after each step */
    size_t rank_count;
    struct rank_figures *ranks;
    double min_capacity_ratio; /* from the replay; NaN when there was none */
};

/* Takes a run from the report of weir-train. Gives false with one sentence in `message` (DEMO_MESSAGE_ROOM) that names
 * the field, and what it should have been, when the report is not as docs/report.md says; *run is empty then.
 * The run's own name and ratio are left to the caller. */
bool run_read(struct run *run, const json_t *report, char *message);
/* The same from a file; the sentence starts with its name. */
bool run_read_file(struct run *run, const char *path, char *message);
void run_free(struct run *run);

/* The smallest device in the report of weir-replay --scan over the peak of live bytes as the pool counts them, each block
 * rounded up, as the other columns have it; NaN when no capacity was found. */
bool replay_read(const json_t *report, double *min_capacity_ratio, char *message);
bool replay_read_file(const char *path, double *min_capacity_ratio, char *message);

/* ---- figures of a run ------------------------------------------------------------------------------------------ */

struct figures {
    int64_t rank; /* the subject */
    size_t capacity_bytes, peak_live_bytes, peak_held_bytes;
    size_t live_bytes;        /* at the failing request, else at the end of the run */
    size_t idle_asker_bytes;  /* at the failing request; 0 when nobody was refused */
    size_t idle_others_bytes; /* at the failing request; else idle on all streams but the first at the end */
    double utilisation;       /* live / capacity at the failing request, else peak live / capacity */
};

/* The rank that ran out (the one the report names, else the fullest of those refused), else the fullest. Never NULL. */
const struct rank_figures *run_subject(const struct run *run);
/* The rank with the highest peak of live bytes. Never NULL. */
const struct rank_figures *run_fullest(const struct run *run);
struct figures run_figures(const struct run *run);

/* peak x (1 + DEMO_HEADROOM), rounded up to whole pages. */
size_t demo_capacity(size_t peak_live_bytes, size_t page_bytes);
/* The size of a page: as reported, else that of the profile. */
size_t run_page_bytes(const struct run *run);

struct loss_check {
    size_t pairs;                  /* pairs of runs with the same batch that share steps */
    size_t steps;                  /* losses compared over all pairs */
    bool same;                     /* all the same bits */
    const struct run *one, *other; /* the first pair that differs */
    size_t step;                   /* from 1 */
};
/* Compares the losses of runs with the same batch over the steps that they share; over the first step alone where the
 * numbers of steps asked for differ, since a schedule may depend on them. */
struct loss_check losses_compare(const struct run *const *runs, size_t count);

/* ---- which batch offload can carry ------------------------------------------------------------------------------ */

#define CHOOSE_TRIES_MOST 5

/* Peaks with offload at two batches give a line; the first try is where it meets the capacity. From there the search
 * walks with growing strides until it has a batch that fits and one that does not, then halves what lies between. */
struct choose {
    int64_t base_batch; /* fits without offload, so it is no answer */
    int64_t most_batch; /* none larger is tried */
    size_t capacity_bytes;
    struct {
        int64_t batch;
        size_t peak_bytes;
    } small, large;
    size_t tries;
    struct {
        int64_t batch;
        bool fits;
    } tried[CHOOSE_TRIES_MOST];
};
/* The batch to try next; 0 when the search is over. */
int64_t choose_next(const struct choose *choose);
void choose_note(struct choose *choose, int64_t batch, bool fits);
/* The largest batch over base_batch that fit; 0 when none did. */
int64_t choose_best(const struct choose *choose);

/* ---- the report -------------------------------------------------------------------------------------------------- */

enum demo_run {
    DEMO_PER_STREAM,
    DEMO_WEIR,
    DEMO_OFFLOAD, /* weir with offload, at the largest batch that fits so */
    DEMO_WITHOUT, /* weir without offload at that batch: shows that it does not fit */
    DEMO_RUNS
};

#define DEMO_COMMANDS_MOST 32

struct demo {
    const struct run *runs[DEMO_RUNS]; /* NULL: not made */
    const struct run *measured;        /* the job on a device where all fits */
    const struct run *loss_runs[DEMO_RUNS + 3];
    size_t loss_run_count; /* runs whose losses are compared, those above among them */
    size_t capacity_bytes, page_bytes;
    double seconds; /* the demo took */
    size_t command_count;
    char commands[DEMO_COMMANDS_MOST][1024];
};

struct goals {
    bool asked; /* both runs were made */
    bool
        per_stream; /* out of memory below GOAL_PER_STREAM_UTILISATION with GOAL_IDLE_ON_OTHERS idle on other streams */
    bool weir;      /* completed at GOAL_WEIR_UTILISATION or more */
};
struct goals demo_goals(const struct demo *demo);

/* One sentence over all: what happened on the same device. Written without a line end. */
void demo_headline(const struct demo *demo, FILE *out);
/* "ran out of memory in step 3 with 71.2 % of the device live" */
void run_what_happened(const struct run *run, char *text, size_t room);
/* The table, aligned, in MiB. */
void demo_table(const struct demo *demo, FILE *out);
/* One sentence or two about one thing; calls `say` for each, in order. */
void demo_words(const struct demo *demo, void (*say)(void *to, const char *sentence), void *to);
/* build/demo/report.json of docs/report.md. The caller owns it; NULL without memory. */
json_t *demo_json(const struct demo *demo);
/* One page with no external resource, also well-formed XML. */
void demo_html(const struct demo *demo, FILE *out);

#define TABLE_COLUMNS   10
#define TABLE_CELL_ROOM 48
struct table_row {
    char cell[TABLE_COLUMNS][TABLE_CELL_ROOM];
};
/* The heads, two lines each (the second may be empty), and a run's cells; text and page show the same ones. */
extern const char *const table_heads[TABLE_COLUMNS][2];
struct table_row table_row_of(const struct run *run);
double mebibytes(size_t bytes);

#define CHART_COLOURS 8 /* as tools/page/page.css has them */

/* A run's memory over time as a picture (chart.c): the figure's element, and its columns for the page's script. */
struct chart_frame {
    double steps;      /* width of the picture in steps; equal for all, so that pictures compare */
    double before;     /* of these, before the first step */
    size_t top_bytes;  /* height of the picture */
    size_t name_count; /* streams of all runs: a stream has one colour throughout; the last one is "others" when full */
    char names[CHART_COLOURS][DEMO_NAME_ROOM];
};
void chart_frame_make(struct chart_frame *frame, const struct run *const *runs, size_t count);
void chart_write(const struct chart_frame *frame, const struct run *run, size_t index, FILE *out);
json_t *chart_columns(const struct chart_frame *frame, const struct run *run);

#endif
