/* SPDX-License-Identifier: Apache-2.0 */
/* weir-replay: would weir have saved this run? Replays a recorded trace on an emulated device. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "answer.h"
#include "device/standard.h"
#include "machine.h"
#include "terminal.h"
#include "tools/options/plain.h"
#include "tools/trace/output.h"

enum { EXIT_BAD_INPUT = 2 };

static int say(const char *sentence, int status) {
    char text[1000];
    snprintf(text, sizeof text, "%s", sentence);
    fprintf(stderr, "weir-replay: %s\n", plain(text));
    return status;
}

/* ---- the runs --------------------------------------------------------------------------------------------------- */

/* For people who wait at a terminal. */
static bool run_and_say(const struct setup *setups, size_t count, unsigned jobs, struct outcome *outcomes, char *why,
                        size_t room) {
    static size_t made;
    bool said = isatty(STDERR_FILENO) == 1;
    if (said && made > 0) fprintf(stderr, "\r%zu runs made, %zu more ...\033[K", made, count);
    bool good = run_many(setups, count, jobs, outcomes, why, room);
    made += count;
    if (said) fprintf(stderr, "\r\033[K");
    return good;
}

static struct setup setup_of(const struct options *options, const struct trace *trace, const char *profile) {
    return (struct setup){.trace = trace,
                          .target = options->allocator != NULL ? TARGET_PLUGIN : TARGET_POOL,
                          .policy = options->policy,
                          .deterministic = options->deterministic,
                          .library = options->plugin.library,
                          .alloc_symbol = options->plugin.alloc,
                          .free_symbol = options->plugin.free,
                          .use_symbol = options->plugin.use,
                          .profile = profile,
                          .law = options->law,
                          .clock = options->clock,
                          .blind = options->blind,
                          .steady_from = options->steady_from};
}

/* Runs on each of these capacities, with what they are compared with. */
static bool run_on(struct search *search, const size_t *pages, size_t count) {
    bool timed = search_is_timed(search);
    struct search_wanted *wanted = calloc(2 * count + 1, sizeof *wanted);
    size_t listed = 0;
    if (wanted == NULL) {
        snprintf(search->why, sizeof search->why, "no host memory for %zu runs", count);
        return false;
    }
    if (timed) wanted[listed++] = (struct search_wanted){TARGET_FREE, 1};
    for (size_t i = 0; i < count; i++) {
        wanted[listed++] = (struct search_wanted){search->setup.target, pages[i]};
        if (timed) wanted[listed++] = (struct search_wanted){TARGET_FLUID, pages[i]};
    }
    bool made = search_make(search, wanted, listed);
    free(wanted);
    return made;
}

static bool run_curve(struct answer *answer, struct search *search, size_t *curve) {
    const struct options *options = answer->options;
    if (options->curve_count == 0) return true;
    for (size_t i = 0; i < options->curve_count; i++)
        curve[answer->curve_count++] = search_pages_of_ratio(search, options->curve[i]);
    answer->curve = curve;
    return run_on(search, curve, answer->curve_count);
}

/* The device that the answer is about: as asked, else what was found, else by the default ratio. */
static size_t answered_pages(const struct answer *answer, const struct search *search) {
    const struct options *options = answer->options;
    if (options->capacity_bytes != 0) return search_pages_of_bytes(search, options->capacity_bytes);
    if (!options->capacity_given && answer->found.min_pages != 0) return answer->found.min_pages;
    return search_pages_of_ratio(search, options->capacity_ratio);
}

/* The text of a drawn run, which a process of its own has written: to where it was asked for. */
static bool put_text(FILE *text, const char *path, char *why, size_t room) {
    char part[4096];
    struct output *output = output_open(*path != '\0' ? path : "-", why, room);
    if (output == NULL) return false;
    rewind(text);
    for (size_t count; (count = fread(part, 1, sizeof part, text)) > 0;) output_put(output, part, count);
    return output_close(output, false, why, room);
}

/* Again, to be drawn: the run is the same. */
static bool draw_run(const struct answer *answer, struct search *search, FILE *text, struct outcome *outcome) {
    const struct options *options = answer->options;
    const char *path = options->timeline_text_path;
    struct setup setup = search->setup;
    setup.capacity_bytes = answer->pages * search->page_bytes;
    setup.timeline_path = options->timeline_path;
    setup.timeline_text = text;
    if (text != NULL) setup.timeline_look = terminal_look(*path == '\0' ? STDOUT_FILENO : -1);
    setup.trace_name = options->trace_path;
    if (!search->run(&setup, 1, 1, outcome, search->why, sizeof search->why)) return false;
    return text == NULL || outcome->ending == ENDED_FAILED || put_text(text, path, search->why, sizeof search->why);
}

static bool draw(const struct answer *answer, struct search *search, struct outcome *outcome) {
    const struct options *options = answer->options;
    if (options->timeline_path == NULL && options->timeline_text_path == NULL) return true;
    FILE *text = NULL;
    if (options->timeline_text_path != NULL && (text = tmpfile()) == NULL) {
        snprintf(search->why, sizeof search->why, "no temporary file for --timeline-text: %s", strerror(errno));
        return false;
    }
    const bool drawn = draw_run(answer, search, text, outcome);
    if (text != NULL) fclose(text);
    return drawn;
}

/* An output that is the trace itself. */
static bool overwrites(const struct options *options, char *why, size_t room) {
    const char *const path[] = {options->json_path, options->timeline_path, options->timeline_text_path};
    static const char *const name[] = {"json", "timeline", "timeline-text"};
    for (int i = 0; i < 3; i++) {
        if (path[i] == NULL || path[i][0] == 0 || !output_is_input(path[i], options->trace_path)) continue;
        snprintf(why, room, "--%s %.200s would overwrite the trace %.200s", name[i], path[i], options->trace_path);
        return true;
    }
    return false;
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

static int put_answer(const struct answer *answer) {
    const char *path = answer->options->json_path;
    if (path == NULL || *path != 0) answer_words(answer, stdout);
    FILE *out = path == NULL || *path == 0 ? stdout : fopen(path, "we");
    if (out == NULL) {
        char why[600];
        snprintf(why, sizeof why, "%.500s: %s", path, strerror(errno));
        return say(why, EXIT_FAILURE);
    }
    if (path != NULL) answer_json(answer, out);
    bool written = fflush(out) == 0 && !ferror(out);
    if (out != stdout) written = fclose(out) == 0 && written;
    if (!written) perror(out == stdout ? "standard output" : path);
    if (fflush(stdout) != 0 || ferror(stdout)) written = false;
    if (!written) return EXIT_FAILURE;
    return answer->outcome->ending == ENDED_FAILED ? say(answer->outcome->why, EXIT_FAILURE) : EXIT_SUCCESS;
}

/* Whether a plug-in library can be loaded and has its functions: an empty run of it, which is in a process of its own as
 * every run is. */
static bool try_library(const struct setup *setup, size_t page_bytes, char *why, size_t room) {
    struct trace nothing = *setup->trace;
    struct setup empty = *setup;
    struct outcome outcome;
    nothing.op_count = 0;
    empty.trace = &nothing;
    empty.capacity_bytes = 64 * page_bytes;
    if (!run_many(&empty, 1, 1, &outcome, why, room)) return false;
    if (outcome.ending == ENDED_FAILED) snprintf(why, room, "%s", outcome.why);
    return outcome.ending != ENDED_FAILED;
}

static int answer_with(struct answer *answer, struct search *search, size_t *curve) {
    struct outcome drawn = {0};
    const struct options *options = answer->options;
    bool given = options->capacity_given || options->capacity_bytes != 0;
    if (given) answer->pages = answered_pages(answer, search); /* before the search, which heeds all that was tried */
    bool made = run_curve(answer, search, curve) && (!given || run_on(search, &answer->pages, 1)) &&
                search_find(search, options->scan, options->honest, &answer->found);
    if (made) answer->pages = answered_pages(answer, search);
    made = made && run_on(search, &answer->pages, 1) && draw(answer, search, &drawn);
    int status = EXIT_FAILURE;
    if (made) {
        answer->outcome = search_outcome(search, search->setup.target, answer->pages);
        if (drawn.ending == ENDED_FAILED) answer->outcome = &drawn;
        status = put_answer(answer);
    } else {
        say(search->why, EXIT_FAILURE);
    }
    search_found_free(&answer->found);
    return status;
}

static int replay(struct options *options, const struct trace *trace) {
    char why[512];
    bool bad_input = true;
    struct machine machine;
    struct search search;
    if (options->as_recorded && !options_as_recorded(options, trace, why, sizeof why)) return say(why, EXIT_BAD_INPUT);
    const char *recorded = trace->origin.profile[0] != 0 ? trace->origin.profile : "gh200";
    struct answer answer = {.options = options,
                            .trace = trace,
                            .search = &search,
                            .profile = options->profile != NULL ? options->profile : recorded};
    if (!machine_look(answer.profile, &machine, &bad_input, why, sizeof why))
        return say(why, bad_input ? EXIT_BAD_INPUT : EXIT_FAILURE);
    answer.profile_bytes = machine.memory_bytes;
    const struct setup setup = setup_of(options, trace, answer.profile);
    if (setup.target == TARGET_PLUGIN && !try_library(&setup, machine.page_bytes, why, sizeof why))
        return say(why, EXIT_BAD_INPUT);
    search_begin(&search, &setup, run_and_say, options->jobs, machine.page_bytes);
    search.coarse = options->coarse;
    size_t *curve = calloc(CURVE_MOST + 1, sizeof *curve);
    int status = curve != NULL ? answer_with(&answer, &search, curve) : say("no host memory", EXIT_FAILURE);
    free(curve);
    search_end(&search);
    return status;
}

static int run(struct options *options) {
    struct trace trace;
    char why[512];
    if (overwrites(options, why, sizeof why) || !trace_read(options->trace_path, &trace, why, sizeof why))
        return say(why, EXIT_BAD_INPUT);
    const int status = replay(options, &trace);
    trace_free(&trace);
    return status;
}

int main(int count, char **argument) {
    struct options options;
    weir__take_closed_standard();
    signal(SIGXFSZ, SIG_IGN); /* a file that would grow too large is an error, to be told */
    options_default(&options);
    int status = options_read(&replay_options, &options, count, argument);
    if (status == OPTIONS_GO_ON) status = run(&options);
    options_free(&options);
    return weir__end_standard("weir-replay", status);
}
