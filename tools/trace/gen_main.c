/* SPDX-License-Identifier: Apache-2.0 */
/* weir-trace gen: traces of modelled training steps. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "device/error.h"
#include "gen_families.h"

enum { DONE, FAILED, BAD_INPUT };

struct request {
    const struct gen_family *family; /* NULL: none yet */
    bool suite, list, help;
    const char *directory; /* of the suite */
    const char *output;    /* "-": standard output */
    uint64_t seed;
    bool seed_given;
    const char *iters;            /* as given; NULL: the family's */
    struct gen_settings settings; /* of the family */
};

/* Says why; gives the exit status of bad input. */
static int __attribute__((format(printf, 1, 2))) refuse(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("weir-trace gen: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return BAD_INPUT;
}

/* ---- help -------------------------------------------------------------------------------------------------------- */

static void put_families(FILE *to) {
    for (size_t i = 0; i < gen_family_count; i++) fprintf(to, "%-29s %s\n", gen_families[i].name, gen_families[i].text);
}

static void put_parameters(enum gen_model model, const char *changes, FILE *to) {
    struct gen_settings settings;
    gen_settings_start(&settings, model, changes);
    gen_settings_help(&settings, to);
}

static int help(const struct request *request) {
    printf(
        "usage: weir-trace gen FAMILY [--seed N] [--iters N] [--set KEY=VALUE ...] [-o FILE]\n"
        "       weir-trace gen suite DIR [--iters N]\n"
        "       weir-trace gen --list\n"
        "The trace of modelled training steps: what one GPU of the job asks of an allocator, and when a freed block\n"
        "may be used again. The same seed gives the same trace.\n\n"
        "  --seed N          what is random: tokens of an expert, lengths (default 1)\n"
        "  --iters N         steps; the same as --set iters=N\n"
        "  --set KEY=VALUE   one parameter or several; weir-trace gen FAMILY --help shows the family's values\n"
        "  -o, --output FILE compressed as the name ends, .gz or .zst (default -: standard output)\n"
        "  --list            the families\n"
        "  suite DIR         %zu traces of all families, and SEEDS.txt, which says how to make each\n\n",
        gen_suite_count);
    if (request->family != NULL) {
        printf("parameters of %s (%s):\n", request->family->name, request->family->text);
        put_parameters(request->family->model, request->family->settings, stdout);
        return DONE;
    }
    printf("parameters of the mixtures of experts (moe-*):\n");
    put_parameters(GEN_MOE, "", stdout);
    printf("\nparameters of the GPTs (gpt-*, ft-*):\n");
    put_parameters(GEN_DENSE, "", stdout);
    return DONE;
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static int set(struct request *request, const char *assignment) {
    char why[256];
    if (request->family == NULL) return refuse("--set belongs to a family, which comes first");
    if (gen_settings_set(&request->settings, assignment, why, sizeof why)) return DONE;
    return refuse("%s: %s", request->family->name, why);
}

static int set_iters(struct request *request, const char *value) {
    request->iters = value;
    return DONE;
}

static int set_seed(struct request *request, const char *value) {
    char *end;
    errno = 0;
    unsigned long long seed = strtoull(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || *value == '-')
        return refuse("--seed is '%.60s', expected a whole number from 0 to %" PRIu64, value, UINT64_MAX);
    request->seed = seed;
    request->seed_given = true;
    return DONE;
}

static int set_output(struct request *request, const char *value) {
    request->output = value;
    return DONE;
}

static const struct option {
    const char *name;
    int (*apply)(struct request *request, const char *value);
} options[] = {
    {"--seed", set_seed}, {"--iters", set_iters}, {"--set", set}, {"--output", set_output}, {"-o", set_output}};
enum { OPTIONS = sizeof options / sizeof *options };

static int unknown_option(const char *word) {
    const char *names[OPTIONS + 2] = {"--list", "--help"};
    for (int i = 0; i < OPTIONS; i++) names[i + 2] = options[i].name;
    const char *nearest = weir__nearest(word, names, OPTIONS + 2);
    if (nearest != NULL) return refuse("unknown option '%.60s'; did you mean %s?", word, nearest);
    return refuse("unknown option '%.60s' (--help lists them)", word);
}

/* "--name value" or "--name=value"; *at moves past what was taken. After --set more assignments may follow. */
static int take_option(struct request *request, int count, char **argument, int *at) {
    const char *word = argument[*at], *equals = strchr(word, '=');
    const size_t length = equals != NULL ? (size_t)(equals - word) : strlen(word);
    for (int i = 0; i < OPTIONS; i++) {
        if (strlen(options[i].name) != length || strncmp(word, options[i].name, length) != 0) continue;
        const char *value = equals != NULL ? equals + 1 : *at + 1 < count ? argument[++*at] : "";
        if (*value == '\0') return refuse("%s needs a value", options[i].name);
        int status = options[i].apply(request, value);
        while (status == DONE && options[i].apply == set && *at + 1 < count && argument[*at + 1][0] != '-')
            status = set(request, argument[++*at]);
        return status;
    }
    return unknown_option(word);
}

static int take_name(struct request *request, const char *word) {
    const char *nearest;
    if (request->suite && request->directory == NULL) {
        request->directory = word;
        return DONE;
    }
    if (request->suite || request->family != NULL) return refuse("'%.60s' is one argument too many", word);
    if (strcmp(word, "suite") == 0) {
        request->suite = true;
        return DONE;
    }
    request->family = gen_family_find(word, &nearest);
    if (request->family == NULL && nearest != NULL) return refuse("no family '%.60s'; did you mean %s?", word, nearest);
    if (request->family == NULL) return refuse("no family '%.60s' (--list shows them)", word);
    gen_settings_start(&request->settings, request->family->model, request->family->settings);
    return DONE;
}

static int parse(struct request *request, int count, char **argument) {
    *request = (struct request){.output = "-", .seed = 1};
    for (int i = 1; i < count; i++) {
        const char *word = argument[i];
        int status = DONE;
        if (strcmp(word, "--list") == 0)
            request->list = true;
        else if (strcmp(word, "--help") == 0)
            request->help = true;
        else if (word[0] == '-')
            status = take_option(request, count, argument, &i);
        else
            status = take_name(request, word);
        if (status != DONE) return status;
    }
    return DONE;
}

/* ---- what is asked ----------------------------------------------------------------------------------------------- */

/* --iters is there before or after the family, and for the suite. */
static int apply_iters(const struct request *request, struct gen_settings *settings) {
    char assignment[96], why[256];
    if (request->iters == NULL) return DONE;
    snprintf(assignment, sizeof assignment, "iters=%.80s", request->iters);
    return gen_settings_set(settings, assignment, why, sizeof why) ? DONE : refuse("%s", why);
}

static int make_one(struct request *request) {
    struct gen_figures figures;
    char why[512];
    if (apply_iters(request, &request->settings) != DONE) return BAD_INPUT;
    if (!gen_settings_check(&request->settings, why, sizeof why)) return refuse("%s", why);
    int status = gen_family_write(request->family, request->seed, &request->settings, request->output, &figures, why,
                                  sizeof why);
    if (status != DONE) {
        refuse("%s: %s", request->family->name, why);
        return status;
    }
    fprintf(stderr, "%s seed %" PRIu64 ": %" PRId64 " operations, %" PRId64 " allocations, peak live %.2f GiB\n",
            request->family->name, request->seed, figures.operations, figures.allocations,
            (double)figures.peak_live_bytes / 0x1p30);
    return DONE;
}

/* One trace of the suite, and its line in SEEDS.txt. */
static int make_row(const struct request *request, const struct gen_suite_row *row, FILE *seeds) {
    const char *nearest;
    const struct gen_family *family = gen_family_find(row->family, &nearest);
    struct gen_settings settings;
    struct gen_figures figures;
    char path[4096], why[512];
    gen_settings_start(&settings, family->model, family->settings);
    apply_iters(request, &settings);
    int length = snprintf(path, sizeof path, "%s/%s-s%" PRIu64 ".trace.gz", request->directory, row->family, row->seed);
    if (length >= (int)sizeof path) return refuse("the directory's name is too long: %.60s...", request->directory);
    int status = gen_family_write(family, row->seed, &settings, path, &figures, why, sizeof why);
    if (status != DONE) {
        refuse("%s: %s", row->family, why);
        return status;
    }
    fprintf(seeds,
            "%s-s%" PRIu64 ".trace.gz family=%s seed=%" PRIu64 " ops=%" PRId64 " allocs=%" PRId64 " peak_live=%" PRId64
            " total_bytes=%" PRId64 "\n",
            row->family, row->seed, row->family, row->seed, figures.operations, figures.allocations,
            figures.peak_live_bytes, figures.total_bytes);
    fprintf(stderr, "%s-s%" PRIu64 ": %" PRId64 " operations, peak live %.2f GiB\n", row->family, row->seed,
            figures.operations, (double)figures.peak_live_bytes / 0x1p30);
    return DONE;
}

static int make_suite(const struct request *request) {
    char path[4096];
    struct gen_settings any;
    gen_settings_start(&any, GEN_MOE, "");
    if (apply_iters(request, &any) != DONE) return BAD_INPUT; /* before anything is made */
    if (mkdir(request->directory, 0777) != 0 && errno != EEXIST)
        return refuse("can't make the directory %s: %s", request->directory, strerror(errno)), FAILED;
    snprintf(path, sizeof path, "%s/SEEDS.txt", request->directory);
    FILE *seeds = fopen(path, "w");
    if (seeds == NULL) return refuse("can't write %s: %s", path, strerror(errno)), FAILED;
    fprintf(seeds, "# made by: weir-trace gen FAMILY --seed N%s%s -o FILE\n", request->iters != NULL ? " --iters " : "",
            request->iters != NULL ? request->iters : "");
    int status = DONE;
    for (size_t i = 0; i < gen_suite_count && status == DONE; i++) status = make_row(request, &gen_suite[i], seeds);
    const bool written = ferror(seeds) == 0;
    if (fclose(seeds) == 0 && written) return status;
    refuse("can't write %s: %s", path, strerror(errno));
    return FAILED;
}

int weir_trace_gen(int count, char **argument) {
    struct request request;
    int status = parse(&request, count, argument);
    if (status != DONE) return status;
    if (request.help) return help(&request);
    if (request.list) {
        put_families(stdout);
        return DONE;
    }
    if (request.suite) {
        if (request.directory == NULL) return refuse("suite needs a directory");
        if (request.seed_given) return refuse("the suite has its own seeds");
        if (strcmp(request.output, "-") != 0) return refuse("the suite goes to its directory, not to -o");
        return make_suite(&request);
    }
    if (request.family == NULL) return refuse("no family given (--list shows them)");
    return make_one(&request);
}
