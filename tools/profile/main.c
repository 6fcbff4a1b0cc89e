/* SPDX-License-Identifier: Apache-2.0 */
/* weir-profile: how fast is this device, and what do its driver's calls cost? Writes a profile for the emulated one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/emu/quantity.h"
#include "device/emulated.h"
#include "device/standard.h"
#include "profile.h"
#include "tools/options/option_table.h"
#include "weir/weir.h"

enum { EXIT_BAD_INPUT = 2, MOST_DEVICES = 1024, MOST_REPEATS = 100 };

/* ---- options ---------------------------------------------------------------------------------------------------- */

struct options {
    int device, repeats;
    const char *out_path, *json_path; /* json_path "": standard output; NULL: no JSON */
    const char *arithmetic;
};

static bool read_arithmetic(const char *value, struct options *options, struct complaint complaint) {
    double rate;
    options->arithmetic = value;
    return emu_quantity_read(EMU_FLOPS, value, &rate) ||
           complain(complaint, "--arithmetic %.60s: expected " EMU_FLOPS_EXPECTED, value);
}

static const struct option table[] = {
    {"device", "N", "which one (default 0)", OPTION_COUNT(device, 0, MOST_DEVICES - 1)},
    {"out", "FILE", "write the profile there; use it with WEIR_EMU=profile:./FILE", OPTION_TEXT(out_path)},
    {"json", "FILE", "the figures as JSON; without FILE on standard output, in place of the profile",
     OPTION_OUTPUT(json_path)},
    {"repeats", "N", "of each measurement, 1 to 100 (default 9); a figure is their median",
     OPTION_COUNT(repeats, 1, MOST_REPEATS)},
    {"arithmetic", "RATE", "what a large product of matrices reaches, as 660TFLOP/s: it is not measured",
     OPTION_READ(read_arithmetic)},
    {"help", NULL, NULL, OPTION_HELP},
    {"version", NULL, NULL, OPTION_VERSION},
};

static const struct option_table profile_options = {
    .program = "weir-profile",
    .usage =
        "usage: weir-profile [options]\n"
        "Measures a device through its driver: copy rates each way alone and together, memory, kernels, the host's\n"
        "waits, and what each memory call costs by handles and bytes. Writes a machine profile for the emulated\n"
        "device, to standard output. Takes seconds, and up to 1 GiB of device and pinned memory; other work on the\n"
        "device disturbs it.\n",
    .status =
        "WEIR_DEVICE=cuda|emulated|auto chooses the machine (default auto); an emulated device's figures are marked.\n"
        "Exit status: 0 answered; 1 failed; 2 bad input.\n",
    .options = table,
    .count = sizeof table / sizeof *table,
};

/* ---- the answer ------------------------------------------------------------------------------------------------- */

typedef void write_function(FILE *out, const struct subject *subject, const struct figures *figures,
                            const struct call_cost costs[CALLS]);

static bool write_to(const char *path, write_function *write, const struct subject *subject,
                     const struct figures *figures, const struct call_cost costs[CALLS]) {
    FILE *out = path != NULL && path[0] != '\0' ? fopen(path, "we") : stdout;
    if (out == NULL) {
        fprintf(stderr, "weir-profile: can't write %s: %s\n", path, strerror(errno));
        return false;
    }
    write(out, subject, figures, costs);
    const bool written = fflush(out) == 0 && !ferror(out);
    const int error = errno;
    if (out != stdout && fclose(out) != 0 && written) return false;
    if (!written) fprintf(stderr, "weir-profile: can't write %s: %s\n", path ? path : "the profile", strerror(error));
    return written;
}

static bool answer(const struct options *options, const struct subject *subject, const struct figures *figures,
                   const struct call_cost costs[CALLS]) {
    const bool json_alone = options->json_path != NULL && options->json_path[0] == '\0' && options->out_path == NULL;
    return (json_alone || write_to(options->out_path, write_profile, subject, figures, costs)) &&
           (options->json_path == NULL || write_to(options->json_path, write_json, subject, figures, costs));
}

static bool describe(struct bench *bench, const struct options *options, struct subject *subject) {
    struct weir_device_info info = {.size = sizeof info};
    if (weir_device_get_info(bench->device, &info) != WEIR_OK) {
        snprintf(bench->why, sizeof bench->why, "%s", weir_last_error()->message);
        return false;
    }
    *subject = (struct subject){.emulated = info.emulated,
                                .virtual_clock = weir__device_takes_turns(bench->device),
                                .integrated = bench->device->integrated,
                                .ordinal = options->device,
                                .repeats = options->repeats,
                                .capacity_bytes = info.capacity_bytes,
                                .page_bytes = info.granularity_bytes,
                                .arithmetic = options->arithmetic};
    snprintf(subject->name, sizeof subject->name, "%s", info.name);
    snprintf(subject->profile, sizeof subject->profile, "%s", info.profile);
    return DO(driver_version, cuDriverGetVersion, &subject->driver_version);
}

static int fail(const struct bench *bench) {
    fprintf(stderr, "weir-profile: %s\n", bench->why);
    return EXIT_FAILURE;
}

static int run(struct bench *bench, const struct options *options) {
    struct subject subject;
    struct figures figures;
    struct call_cost costs[CALLS] = {0};
    if (!describe(bench, options, &subject)) return fail(bench);
    if (subject.emulated)
        fprintf(stderr,
                "weir-profile: the device is emulated (profile %s, %s clock): the figures are the emulation's, not a "
                "device's\n",
                subject.profile, subject.virtual_clock ? "virtual" : "real");
    if (!measure_figures(bench, &figures) || !measure_calls(bench, costs)) return fail(bench);
    return answer(options, &subject, &figures, costs) ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int count, char **argument) {
    struct options options = {.repeats = 9};
    struct bench bench;
    bool bad_input;
    weir__take_closed_standard();
    int status = options_read(&profile_options, &options, count, argument);
    if (status != OPTIONS_GO_ON) return weir__end_standard("weir-profile", status);
    if (bench_open(&bench, options.device, options.repeats, &bad_input)) {
        status = run(&bench, &options);
    } else {
        fail(&bench);
        status = bad_input ? EXIT_BAD_INPUT : EXIT_FAILURE;
    }
    bench_close(&bench);
    return weir__end_standard("weir-profile", status);
}
