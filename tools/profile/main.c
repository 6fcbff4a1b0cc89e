/* SPDX-License-Identifier: Apache-2.0 */
/* weir-profile: how fast is this device, and what do its driver's calls cost? Writes a profile for the emulated one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/emu/quantity.h"
#include "device/emulated.h"
#include "profile.h"
#include "weir/weir.h"

enum { EXIT_BAD_INPUT = 2, MOST_DEVICES = 1024, MOST_REPEATS = 100 };

struct options {
    int device, repeats;
    const char *out_path, *json_path; /* json_path "": standard output; NULL: no JSON */
    const char *arithmetic;
};

static const char usage[] =
    "usage: weir-profile [options]\n"
    "Measures a device through its driver: copy rates each way alone and together, memory, kernels, the host's waits,\n"
    "and what each memory call costs by handles and bytes. Writes a machine profile for the emulated device, to\n"
    "standard output. Takes seconds, and up to 1 GiB of device and pinned memory; other work on the device disturbs "
    "it.\n"
    "\n"
    "  --device N          which one (default 0)\n"
    "  --out FILE          write the profile there; use it with WEIR_EMU=profile:./FILE\n"
    "  --json[=FILE]       the figures as JSON; without FILE on standard output, in place of the profile\n"
    "  --repeats N         of each measurement, 1 to 100 (default 9); a figure is their median\n"
    "  --arithmetic RATE   what a large product of matrices reaches, as 660TFLOP/s: it is not measured\n"
    "  --help, --version\n"
    "\n"
    "WEIR_DEVICE=cuda|emulated|auto chooses the machine (default auto); an emulated device's figures are marked.\n"
    "Exit status: 0 answered; 1 failed; 2 bad input.\n";

/* ---- options ---------------------------------------------------------------------------------------------------- */

static const char *const names[] = {"--device", "--out", "--json", "--repeats", "--arithmetic", "--help", "--version"};
enum { DEVICE, OUT, JSON, REPEATS, ARITHMETIC, HELP, VERSION, NAME_COUNT };

static int bad(const char *format, const char *what) {
    fprintf(stderr, "weir-profile: ");
    fprintf(stderr, format, what);
    fprintf(stderr, "\n");
    return EXIT_BAD_INPUT;
}

static int find_name(const char *argument, size_t length) {
    for (int i = 0; i < NAME_COUNT; i++)
        if (strlen(names[i]) == length && strncmp(argument, names[i], length) == 0) return i;
    return NAME_COUNT;
}

static int unknown(const char *argument) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(argument, "="), argument);
    const char *nearest = weir__nearest(name, names, NAME_COUNT);
    if (nearest == NULL) return bad("unknown option %s (--help lists them)", argument);
    fprintf(stderr, "weir-profile: unknown option %s; did you mean %s?\n", name, nearest);
    return EXIT_BAD_INPUT;
}

static bool read_number(const char *value, long least, long most, int *number) {
    char *end;
    errno = 0;
    const long read = strtol(value, &end, 10);
    *number = (int)read;
    return end != value && *end == '\0' && errno == 0 && read >= least && read <= most;
}

static int set_option(int name, const char *value, struct options *options) {
    double rate;
    switch (name) {
    case DEVICE:
        if (!read_number(value, 0, MOST_DEVICES - 1, &options->device))
            return bad("--device %s: expected a number from 0", value);
        return -1;
    case REPEATS:
        if (!read_number(value, 1, MOST_REPEATS, &options->repeats))
            return bad("--repeats %s: expected a number from 1 to 100", value);
        return -1;
    case ARITHMETIC:
        options->arithmetic = value;
        if (!emu_quantity_read(EMU_FLOPS, value, &rate))
            return bad("--arithmetic %s: expected " EMU_FLOPS_EXPECTED, value);
        return -1;
    case OUT:
        options->out_path = value;
        return value[0] != '\0' ? -1 : bad("%s", "--out needs a file's name");
    case JSON:
        options->json_path = value != NULL ? value : "";
        return -1;
    case HELP:
        fputs(usage, stdout);
        return 0;
    default:
        printf("weir-profile %s\n", weir_version());
        return 0;
    }
}

/* -1: go on; else the exit status. */
static int read_options(int count, char **argument, struct options *options) {
    for (int i = 1; i < count; i++) {
        const char *text = argument[i];
        const size_t length = strcspn(text, "=");
        const char *value = text[length] == '=' ? text + length + 1 : NULL;
        const int name = find_name(text, length);
        if (name == NAME_COUNT && text[0] != '-') return bad("'%s' is not an option (--help lists them)", text);
        if (name == NAME_COUNT) return unknown(text);
        const bool takes_value = name != JSON && name != HELP && name != VERSION;
        if (takes_value && value == NULL && i + 1 < count) value = argument[++i];
        if (takes_value && value == NULL) return bad("%s needs a value", names[name]);
        if (!takes_value && name != JSON && value != NULL) return bad("%s takes no value", names[name]);
        const int status = set_option(name, value, options);
        if (status >= 0) return status;
    }
    return -1;
}

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

static int run(struct bench *bench, const struct options *options) {
    struct subject subject;
    struct figures figures;
    struct call_cost costs[CALLS] = {0};
    if (!describe(bench, options, &subject)) return bad("%s", bench->why), EXIT_FAILURE;
    if (subject.emulated)
        fprintf(stderr,
                "weir-profile: the device is emulated (profile %s, %s clock): the figures are the emulation's, not a "
                "device's\n",
                subject.profile, subject.virtual_clock ? "virtual" : "real");
    if (!measure_figures(bench, &figures) || !measure_calls(bench, costs)) return bad("%s", bench->why), EXIT_FAILURE;
    return answer(options, &subject, &figures, costs) ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int count, char **argument) {
    struct options options = {.repeats = 9};
    struct bench bench;
    bool bad_input;
    int status = read_options(count, argument, &options);
    if (status >= 0) return status;
    if (bench_open(&bench, options.device, options.repeats, &bad_input)) {
        status = run(&bench, &options);
    } else {
        bad("%s", bench.why);
        status = bad_input ? EXIT_BAD_INPUT : EXIT_FAILURE;
    }
    bench_close(&bench);
    return status;
}
