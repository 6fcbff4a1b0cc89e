/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/demo/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_MOST 1000

enum value { NONE, NEEDED, MAYBE };

static const struct option {
    const char *name;
    enum value value;
    const char *shown, *help;
} options_known[] = {
    {"config", NEEDED, "--config FILE", "the job, as weir-train reads it (default: configs/demo.yaml)"},
    {"data", NEEDED, "--data FILE", "the text to train on (default: the King James text that run.sh makes)"},
    {"steps", NEEDED, "--steps N", "training steps a run, 1 to 1000 (default: as the config says)"},
    {"out", NEEDED, "--out DIR", "where reports and logs go (default: build/demo; ./weir-demo-report where installed)"},
    {"json", MAYBE, "--json[=FILE]", "write the report as JSON too, to FILE or to standard output"},
    {"keep", NONE, "--keep", "keep the traces of the runs, which are large"},
    {"help", NONE, "--help", "show this"},
    {"version", NONE, "--version", "show the version"},
};
#define OPTIONS (sizeof options_known / sizeof *options_known)

static size_t least(size_t a, size_t b, size_t c) {
    size_t smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

/* How many letters must be put in, taken out or changed to get from one word to the other (Levenshtein). */
static size_t distance(const char *one, const char *other) {
    size_t row[64], width = strnlen(other, 63);
    for (size_t j = 0; j <= width; j++) row[j] = j;
    for (size_t i = 0; one[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < width; j++) {
            size_t above = row[j + 1];
            row[j + 1] = least(above + 1, row[j] + 1, diagonal + (one[i] != other[j]));
            diagonal = above;
        }
    }
    return row[width];
}

static const struct option *nearest(const char *name) {
    const struct option *best = &options_known[0];
    for (size_t i = 1; i < OPTIONS; i++)
        if (distance(name, options_known[i].name) < distance(name, best->name)) best = &options_known[i];
    return best;
}

static bool steps_read(const char *text, int64_t *steps) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < 1 || value > STEPS_MOST) return false;
    *steps = value;
    return true;
}

static int apply(struct demo_options *options, const char *name, const char *value, char *message, size_t room) {
    if (strcmp(name, "config") == 0) options->config = value;
    if (strcmp(name, "data") == 0) options->data = value;
    if (strcmp(name, "out") == 0) options->out = value;
    if (strcmp(name, "keep") == 0) options->keep = true;
    if (strcmp(name, "help") == 0) options->help = true;
    if (strcmp(name, "version") == 0) options->version = true;
    if (strcmp(name, "json") == 0) {
        options->json = true;
        options->json_path = value;
    }
    if (strcmp(name, "steps") == 0 && !steps_read(value, &options->steps)) {
        snprintf(message, room, "--steps is \"%s\", expected a whole number from 1 to %d", value, STEPS_MOST);
        return 2;
    }
    return 0;
}

static int parse_one(struct demo_options *options, int argc, char **argv, int *at, char *message, size_t room) {
    const char *word = argv[*at];
    if (strncmp(word, "--", 2) != 0 || !word[2]) {
        snprintf(message, room, "\"%s\" is not an option; weir-demo takes no other arguments", word);
        return 2;
    }
    char name[64];
    const char *equals = strchr(word, '='), *value = equals ? equals + 1 : NULL;
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - word - 2) : (int)strlen(word + 2), word + 2);
    const struct option *option = nearest(name);
    if (strcmp(option->name, name) != 0) {
        snprintf(message, room, "unknown option --%s; the nearest known one is --%s", name, option->name);
        return 2;
    }
    if (option->value == NONE && value) {
        snprintf(message, room, "--%s takes no value, but was given \"%s\"", name, value);
        return 2;
    }
    if (option->value == NEEDED && !value && *at + 1 < argc) value = argv[++*at];
    if ((option->value == NEEDED && !value) || (value && !*value)) {
        snprintf(message, room, "--%s needs a value: %s", name, option->shown);
        return 2;
    }
    return apply(options, option->name, value, message, room);
}

int demo_options_parse(struct demo_options *options, int argc, char **argv, char *message, size_t room) {
    *options = (struct demo_options){0};
    for (int at = 1; at < argc; at++) {
        int status = parse_one(options, argc, argv, &at, message, room);
        if (status) return status;
    }
    return 0;
}

void demo_options_help(FILE *out) {
    fputs("weir-demo: trains one job under several ways of keeping device memory, on emulated devices of one size, and "
          "shows what happened.\n\nUsage: weir-demo [options]\n\n",
          out);
    for (size_t i = 0; i < OPTIONS; i++) fprintf(out, "  %-16s %s\n", options_known[i].shown, options_known[i].help);
    fputs("\nExit status: 0 answered, also when a run is out of memory; 1 a run failed; 2 bad input.\n", out);
}
