/* SPDX-License-Identifier: Apache-2.0 */
/* weir-trace convert: other programs' logs as traces. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "convert.h"
#include "device/error.h"
#include "device/json.h"
#include "output.h"
#include "tools/options/option_table.h"
#include "tools/options/outputs.h"
#include "tools/options/plain.h"

enum { EXIT_BAD_INPUT = 2, LONGEST_SENTENCE = 1000 };

#define PLURAL(count) ((count) == 1 ? "" : "s")

struct options {
    const char *inputs[CONVERT_MOST_INPUTS];
    size_t input_count, live_before_bytes;
    const char *out_path, *json_path; /* json_path "": standard output; NULL: no JSON */
    int device;
    bool iterations;
};

/* ---- options ---------------------------------------------------------------------------------------------------- */

static bool read_live_before(const char *value, struct options *options, struct complaint complaint) {
    if (weir__parse_bytes(value, &options->live_before_bytes) && options->live_before_bytes <= TRACE_MOST_BYTES)
        return true;
    return complain(complaint, "--live-before %.60s: expected bytes, as 4096614400 or 3.8G, at most 2^50", value);
}

static const struct option table[] = {
    {"output", "FILE", "the trace; compressed as FILE ends (.gz, .zst); default -, standard output",
     OPTION_TEXT(out_path), .letter = 'o'},
    {"iterations", NULL, "mark what repeats to the end of the log, where something does", OPTION_FLAG(iterations)},
    {"live-before", "BYTES", "were live before, and the log has no lines of them (as 4G)",
     OPTION_READ(read_live_before)},
    {"device", "N", "of a snapshot or profiler's trace of several devices; default the one with most events",
     OPTION_COUNT(device, 0, CONVERT_MOST_DEVICES - 1)},
    {"json", "FILE", "what was read, as JSON; without FILE on standard output (then -o is needed)",
     OPTION_OUTPUT(json_path)},
    {"help", NULL, NULL, OPTION_HELP},
};

static int take_input(char **words, struct options *options, struct complaint complaint) {
    if (options->input_count == CONVERT_MOST_INPUTS)
        return complain(complaint, "'%.200s' is one input too many: at most %d go together", words[0],
                        CONVERT_MOST_INPUTS);
    options->inputs[options->input_count++] = words[0];
    return 1;
}

/* Both outputs of each input, and of each other. */
static bool check_overwrites(const struct options *options, struct complaint complaint) {
    const bool json = options->json_path != NULL && options->json_path[0] != '\0';
    for (size_t i = 0; i < options->input_count; i++) {
        const char *input = options->inputs[i];
        if (output_is_input(options->out_path, input))
            return complain(complaint, "-o %.200s would overwrite the input %.200s", options->out_path, input);
        if (json && output_is_input(options->json_path, input))
            return complain(complaint, "--json=%.200s would overwrite the input %.200s", options->json_path, input);
    }
    const struct named_output outputs[] = {{"-o", options->out_path}, {"--json", options->json_path}};
    return outputs_differ(outputs, 2, complaint);
}

static bool check(struct options *options, struct complaint complaint) {
    if (options->input_count == 0) return complain(complaint, "no input is given (--help says what there is)");
    if (options->json_path != NULL && options->json_path[0] == '\0' && strcmp(options->out_path, "-") == 0)
        return complain(complaint,
                        "--json and the trace can't both go to standard output: give --json=FILE or -o FILE");
    return check_overwrites(options, complaint);
}

static const struct option_table convert_options = {
    .program = "weir-trace convert",
    .usage =
        "usage: weir-trace convert INPUT... [-o FILE] [options]\n"
        "Makes a trace of what another program logged. What an input is, its content says; it may be plain, gzip or\n"
        "zstd; - is standard input. Either one of\n"
        "\n"
        "    a pickle                                            a PyTorch memory snapshot, or one of weir's\n"
        "    JSON                                                a PyTorch profiler's trace, with profile_memory=True\n"
        "    Thread, Time, Action, Pointer, Size, Stream         a log of RMM's logging resource adaptor\n"
        "    op, id, size, stream, time_us                       memory events, as of a PyTorch snapshot\n"
        "    id, lower, upper, size                              lifetimes, as solvers of placement take them\n"
        "\n"
        "or a profiler's tables together, the first of them alone if need be:\n"
        "\n"
        "    op, id, size, thread, time_us                       memory events\n"
        "    launch_us, thread, stream, gpu_dur_us [, kind, gpu_start_us]    the device's work\n"
        "    call, thread, time_us                               the host's calls\n",
    .status = "docs/convert.md says what becomes of what. Exit status: 0 done; 1 failed; 2 bad input.\n",
    .options = table,
    .count = sizeof table / sizeof *table,
    .words = take_input,
    .check = check,
};

static int bad(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int bad(const char *format, ...) {
    va_list arguments;
    char sentence[LONGEST_SENTENCE];
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    fprintf(stderr, "weir-trace convert: %s\n", plain(sentence));
    return EXIT_BAD_INPUT;
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

static double mib(uint64_t bytes) { return (double)bytes / (1 << 20); }

/* What may be in a log that nobody spoilt, and counts otherwise than it says. */
static void tell_contradictions(const struct conversion *conversion) {
    if (conversion->ends_left_out > 0)
        fprintf(stderr,
                "weir-trace convert: left out: what the segments say of %zu block%s otherwise than the entries (a "
                "program of several threads goes on between the two copies)\n",
                conversion->ends_left_out, PLURAL(conversion->ends_left_out));
    if (conversion->overlap_count > 0)
        fprintf(stderr,
                "weir-trace convert: %zu allocation%s where others were not freed yet: threads that were not profiled "
                "may have done so, and less was live\n",
                conversion->overlap_count, PLURAL(conversion->overlap_count));
    if (conversion->odd_free_count > 0)
        fprintf(stderr, "weir-trace convert: %zu free%s of other bytes than were allocated: the latter count\n",
                conversion->odd_free_count, PLURAL(conversion->odd_free_count));
}

/* What a log of a whole machine, or one with gaps, leaves to be said. */
static void tell_gaps(const struct conversion *conversion) {
    if (conversion->device_count > 1)
        fprintf(stderr,
                "weir-trace convert: of %" PRIu32 " devices this is device %" PRIu32 " (--device=N takes another)\n",
                conversion->device_count, conversion->device);
    if (conversion->overflowed)
        fprintf(stderr,
                "weir-trace convert: the recording overflowed: what came before its oldest entry is not told\n");
    tell_contradictions(conversion);
    if (conversion->refused_count > 0)
        fprintf(stderr, "weir-trace convert: left out: %zu request%s that could not be served\n",
                conversion->refused_count, PLURAL(conversion->refused_count));
    if (conversion->unjoined_count > 0)
        fprintf(stderr,
                "weir-trace convert: %zu piece%s of work without a launch in the log: taken as launched when begun\n",
                conversion->unjoined_count, PLURAL(conversion->unjoined_count));
    if (conversion->waits_left_out > 0 || conversion->calls_left_out > 0)
        fprintf(stderr,
                "weir-trace convert: left out: %zu stream wait%s and %zu host call%s whose meaning the log does "
                "not tell\n",
                conversion->waits_left_out, PLURAL(conversion->waits_left_out), conversion->calls_left_out,
                PLURAL(conversion->calls_left_out));
}

static void tell_summary(const struct conversion *conversion, const struct options *options) {
    fprintf(stderr, "weir-trace convert: ");
    for (size_t i = 0; i < options->input_count; i++) {
        char name[LONGEST_SENTENCE];
        snprintf(name, sizeof name, "%s", options->inputs[i]);
        fprintf(stderr, "%s%s", i > 0 ? ", " : "", plain(name));
    }
    fprintf(stderr, ": %" PRIu64 " row%s, %zu block%s, %" PRIu32 " stream%s, peak live %" PRIu64 " bytes (%.2f MiB)",
            conversion->row_count, PLURAL(conversion->row_count), conversion->block_count,
            PLURAL(conversion->block_count), conversion->stream_count, PLURAL(conversion->stream_count),
            conversion->peak_live_bytes, mib(conversion->peak_live_bytes));
    if (conversion->live_before_bytes > 0)
        fprintf(stderr, ", %.2f MiB of it before", mib(conversion->live_before_bytes));
    if (conversion->knows_reserve) fprintf(stderr, ", reserve up to %.2f MiB", mib(convert_peak_reserve(conversion)));
    if (conversion->name[FORM_LIFETIMES] == NULL)
        fprintf(stderr, ", %.3f ms, work of %.3f ms", (double)conversion->span_ns / 1e6,
                (double)conversion->work_ns / 1e6);
    fprintf(stderr, "\n");
    tell_gaps(conversion);
    if (options->iterations && conversion->iteration_count == 0)
        fprintf(stderr, "weir-trace convert: no iterations are marked: no allocations repeat to the end of the log\n");
    if (conversion->iteration_count > 0)
        fprintf(stderr, "weir-trace convert: %zu iteration%s of %zu allocation%s %s marked\n",
                conversion->iteration_count, PLURAL(conversion->iteration_count), conversion->iteration_blocks,
                PLURAL(conversion->iteration_blocks), conversion->iteration_count == 1 ? "is" : "are");
}

static void put_json(FILE *out, const struct conversion *conversion, const struct options *options) {
    const char *overflow = !conversion->tells_overflow ? "null" : conversion->overflowed ? "true" : "false";
    fputs("{\"inputs\": [", out);
    for (size_t i = 0; i < options->input_count; i++) {
        if (i > 0) fputs(", ", out);
        weir__put_json(options->inputs[i], out);
    }
    fputs("], \"trace\": ", out);
    weir__put_json(options->out_path, out);
    fprintf(out, ",\n \"rows\": %" PRIu64 ", \"blocks\": %zu, \"streams\": %" PRIu32 ",\n", conversion->row_count,
            conversion->block_count, conversion->stream_count);
    fprintf(out,
            " \"peak_live_bytes\": %" PRIu64 ", \"live_before_bytes\": %" PRIu64 ", \"live_at_end_bytes\": %" PRIu64
            ",\n",
            conversion->peak_live_bytes, conversion->live_before_bytes, conversion->end_live_bytes);
    if (conversion->has_reserve)
        fprintf(out, " \"reserve_growth_bytes\": %" PRId64 ",\n", conversion->peak_reserve_growth);
    else
        fputs(" \"reserve_growth_bytes\": null,\n", out);
    if (conversion->knows_reserve)
        fprintf(out, " \"peak_reserve_bytes\": %" PRIu64 ",\n", convert_peak_reserve(conversion));
    else
        fputs(" \"peak_reserve_bytes\": null,\n", out);
    if (conversion->device_count > 0)
        fprintf(out, " \"device\": %" PRIu32 ", \"devices\": %" PRIu32 ",\n", conversion->device,
                conversion->device_count);
    else
        fputs(" \"device\": null, \"devices\": null,\n", out);
    if (conversion->name[FORM_LIFETIMES] == NULL)
        fprintf(out, " \"span_us\": %.1f, \"work_us\": %.1f,\n", (double)conversion->span_ns / 1000,
                (double)conversion->work_ns / 1000);
    else
        fputs(" \"span_us\": null, \"work_us\": null,\n", out);
    fprintf(out,
            " \"stream_waits\": %zu, \"stream_waits_left_out\": %zu, \"host_calls_left_out\": %zu,\n"
            " \"requests_left_out\": %zu, \"work_without_launch\": %zu, \"overflowed\": %s,\n"
            " \"blocks_left_out\": %zu, \"overlaps\": %zu, \"odd_frees\": %zu,\n"
            " \"iterations\": %zu, \"iteration_allocations\": %zu}\n",
            conversion->wait_count, conversion->waits_left_out, conversion->calls_left_out, conversion->refused_count,
            conversion->unjoined_count, overflow, conversion->ends_left_out, conversion->overlap_count,
            conversion->odd_free_count, conversion->iteration_count, conversion->iteration_blocks);
}

static bool write_json(const struct conversion *conversion, const struct options *options) {
    FILE *out = options->json_path[0] != '\0' ? fopen(options->json_path, "we") : stdout;
    if (out == NULL) return bad("can't write %s: %s", options->json_path, strerror(errno)), false;
    put_json(out, conversion, options);
    bool written = fflush(out) == 0 && !ferror(out);
    if (out != stdout) written = fclose(out) == 0 && written;
    if (!written) bad("can't write the JSON: %s", strerror(errno));
    return written;
}

static bool write_trace(const struct conversion *conversion, const struct options *options) {
    char why[LONGEST_SENTENCE];
    struct trace_writer *writer = trace_writer_open(options->out_path, why, sizeof why);
    if (writer == NULL) return bad("%s", why), false;
    convert_put(conversion, writer);
    return trace_writer_close(writer, why, sizeof why) || (bad("%s", why), false);
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

/* Opens the inputs, and closes what was opened. */
static bool read_inputs(struct conversion *conversion, const struct options *options, char *why, size_t room) {
    struct convert_input inputs[CONVERT_MOST_INPUTS];
    size_t opened = 0;
    while (opened < options->input_count) {
        inputs[opened].name = options->inputs[opened];
        inputs[opened].input = input_open(options->inputs[opened], why, room);
        if (inputs[opened].input == NULL) break;
        opened++;
    }
    const struct convert_settings settings = {
        .live_before_bytes = options->live_before_bytes, .device = options->device, .iterations = options->iterations};
    const bool read =
        opened == options->input_count && convert_tables(conversion, inputs, opened, &settings, why, room);
    for (size_t i = 0; i < opened; i++) input_close(inputs[i].input);
    return read;
}

int weir_trace_convert(int count, char **argument) {
    struct options options = {.out_path = "-", .device = CONVERT_ANY_DEVICE};
    char why[LONGEST_SENTENCE];
    int status = options_read(&convert_options, &options, count, argument);
    if (status != OPTIONS_GO_ON) return status;
    struct conversion *conversion = calloc(1, sizeof *conversion);
    if (conversion == NULL) return bad("no host memory"), EXIT_FAILURE;
    if (read_inputs(conversion, &options, why, sizeof why)) {
        status = write_trace(conversion, &options) ? EXIT_SUCCESS : EXIT_FAILURE;
        if (status == EXIT_SUCCESS) tell_summary(conversion, &options);
        if (status == EXIT_SUCCESS && options.json_path != NULL && !write_json(conversion, &options))
            status = EXIT_FAILURE;
    } else {
        status = bad("%s", why);
    }
    convert_free(conversion);
    free(conversion);
    return status;
}
