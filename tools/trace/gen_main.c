/* SPDX-License-Identifier: Apache-2.0 */
/* weir-trace gen: traces of modelled training steps. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "gen_families.h"
#include "tools/options/option_table.h"

enum { DONE, FAILED, BAD_INPUT };

struct options {
    const struct gen_family *family; /* NULL: none yet */
    bool suite, list, help;
    const char *directory; /* of the suite */
    const char *output;    /* "-": standard output */
    uint64_t seed;
    bool seed_given, sets;
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

/* ---- options ----------------------------------------------------------------------------------------------------- */

static bool read_seed(const char *value, struct options *options, struct complaint complaint) {
    options->seed_given = true;
    return option_read_count("seed", value, 0, UINT64_MAX, &options->seed, complaint);
}

static bool read_set(const char *value, struct options *options, struct complaint complaint) {
    char why[256];
    options->sets = true;
    if (options->family == NULL) return complain(complaint, "--set belongs to a family, which comes first");
    if (gen_settings_set(&options->settings, value, why, sizeof why)) return true;
    return complain(complaint, "%s: %s", options->family->name, why);
}

static const struct option table[] = {
    {"seed", "N", "what is random: tokens of an expert, lengths (default 1)", OPTION_READ(read_seed)},
    {"iters", "N", "steps; the same as --set iters=N", OPTION_TEXT(iters)},
    {"set", "KEY=VALUE ...", "parameters; weir-trace gen FAMILY --help shows the family's values",
     OPTION_READ(read_set), .many = true},
    {"output", "FILE", "compressed as the name ends, .gz or .zst (default -: standard output)", OPTION_TEXT(output),
     .letter = 'o'},
    {"list", NULL, "the families", OPTION_FLAG(list)},
    {"help", NULL, NULL, OPTION_FLAG(help)},
};

static bool read_family(const char *name, struct options *options, struct complaint complaint) {
    const char *nearest;
    options->family = gen_family_find(name, &nearest);
    if (options->family == NULL && nearest != NULL)
        return complain(complaint, "no family '%.60s'; did you mean %s?", name, nearest);
    if (options->family == NULL) return complain(complaint, "no family '%.60s' (--list shows them)", name);
    gen_settings_start(&options->settings, options->family->model, options->family->settings);
    return true;
}

/* A family; "suite" and its directory; another KEY=VALUE of --set. */
static int take_word(char **words, struct options *options, struct complaint complaint) {
    const char *word = words[0];
    if (options->sets && strchr(word, '=') != NULL) return read_set(word, options, complaint);
    if (options->suite && options->directory == NULL) return options->directory = word, 1;
    if (options->suite || options->family != NULL) return complain(complaint, "'%.60s' is one argument too many", word);
    if (strcmp(word, "suite") == 0) return options->suite = true;
    return read_family(word, options, complaint);
}

static bool check(struct options *options, struct complaint complaint) {
    if (options->help || options->list) return true;
    if (!options->suite) return options->family != NULL || complain(complaint, "no family given (--list shows them)");
    if (options->directory == NULL) return complain(complaint, "suite needs a directory");
    if (options->seed_given) return complain(complaint, "the suite has its own seeds");
    return strcmp(options->output, "-") == 0 || complain(complaint, "the suite goes to its directory, not to -o");
}

static const struct option_table gen_options = {
    .program = "weir-trace gen",
    .usage = "usage: weir-trace gen FAMILY [--seed N] [--iters N] [--set KEY=VALUE ...] [-o FILE]\n"
             "       weir-trace gen suite DIR [--iters N]    traces of all families; SEEDS.txt says how to make each\n"
             "       weir-trace gen --list\n"
             "The trace of modelled training steps: what one GPU of the job asks of an allocator, and when a freed\n"
             "block may be used again. The same seed gives the same trace.\n",
    .status = "Exit status: 0 done, 1 failed, 2 bad input.\n\n",
    .options = table,
    .count = sizeof table / sizeof *table,
    .words = take_word,
    .check = check,
};

/* ---- help -------------------------------------------------------------------------------------------------------- */

static void put_families(FILE *to) {
    for (size_t i = 0; i < gen_family_count; i++) fprintf(to, "%-29s %s\n", gen_families[i].name, gen_families[i].text);
}

static void put_parameters(enum gen_model model, const char *changes, FILE *to) {
    struct gen_settings settings;
    gen_settings_start(&settings, model, changes);
    gen_settings_help(&settings, to);
}

static int help(const struct gen_family *family) {
    options_help(&gen_options, stdout);
    if (family != NULL) {
        printf("parameters of %s (%s):\n", family->name, family->text);
        put_parameters(family->model, family->settings, stdout);
        return DONE;
    }
    printf("parameters of the mixtures of experts (moe-*):\n");
    put_parameters(GEN_MOE, "", stdout);
    printf("\nparameters of the GPTs (gpt-*, ft-*):\n");
    put_parameters(GEN_DENSE, "", stdout);
    return DONE;
}

/* ---- what is asked ----------------------------------------------------------------------------------------------- */

/* --iters is there before or after the family, and for the suite. */
static int apply_iters(const struct options *options, struct gen_settings *settings) {
    char assignment[96], why[256];
    if (options->iters == NULL) return DONE;
    snprintf(assignment, sizeof assignment, "iters=%.80s", options->iters);
    return gen_settings_set(settings, assignment, why, sizeof why) ? DONE : refuse("%s", why);
}

static int make_one(struct options *options) {
    struct gen_figures figures;
    char why[512];
    if (apply_iters(options, &options->settings) != DONE) return BAD_INPUT;
    if (!gen_settings_check(&options->settings, why, sizeof why)) return refuse("%s", why);
    int status = gen_family_write(options->family, options->seed, &options->settings, options->output, &figures, why,
                                  sizeof why);
    if (status != DONE) {
        refuse("%s: %s", options->family->name, why);
        return status;
    }
    fprintf(stderr, "%s seed %" PRIu64 ": %" PRId64 " operations, %" PRId64 " allocations, peak live %.2f GiB\n",
            options->family->name, options->seed, figures.operations, figures.allocations,
            (double)figures.peak_live_bytes / 0x1p30);
    return DONE;
}

/* One trace of the suite, and its line in SEEDS.txt. */
static int make_row(const struct options *options, const struct gen_suite_row *row, FILE *seeds) {
    const char *nearest;
    const struct gen_family *family = gen_family_find(row->family, &nearest);
    struct gen_settings settings;
    struct gen_figures figures;
    char path[4096], why[512];
    gen_settings_start(&settings, family->model, family->settings);
    apply_iters(options, &settings);
    int length = snprintf(path, sizeof path, "%s/%s-s%" PRIu64 ".trace.gz", options->directory, row->family, row->seed);
    if (length >= (int)sizeof path) return refuse("the directory's name is too long: %.60s...", options->directory);
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

static int make_suite(const struct options *options) {
    char path[4096];
    struct gen_settings any;
    gen_settings_start(&any, GEN_MOE, "");
    if (apply_iters(options, &any) != DONE) return BAD_INPUT; /* before anything is made */
    if (mkdir(options->directory, 0777) != 0 && errno != EEXIST)
        return refuse("can't make the directory %s: %s", options->directory, strerror(errno)), FAILED;
    snprintf(path, sizeof path, "%s/SEEDS.txt", options->directory);
    FILE *seeds = fopen(path, "w");
    if (seeds == NULL) return refuse("can't write %s: %s", path, strerror(errno)), FAILED;
    fprintf(seeds, "# made by: weir-trace gen FAMILY --seed N%s%s -o FILE\n", options->iters != NULL ? " --iters " : "",
            options->iters != NULL ? options->iters : "");
    int status = DONE;
    for (size_t i = 0; i < gen_suite_count && status == DONE; i++) status = make_row(options, &gen_suite[i], seeds);
    const bool written = ferror(seeds) == 0;
    if (fclose(seeds) == 0 && written) return status;
    refuse("can't write %s: %s", path, strerror(errno));
    return FAILED;
}

int weir_trace_gen(int count, char **argument) {
    struct options options = {.output = "-", .seed = 1};
    const int status = options_read(&gen_options, &options, count, argument);
    if (status != OPTIONS_GO_ON) return status;
    if (options.help) return help(options.family);
    if (options.list) {
        put_families(stdout);
        return DONE;
    }
    return options.suite ? make_suite(&options) : make_one(&options);
}
