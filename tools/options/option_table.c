/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/options/option_table.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "device/error.h"
#include "tools/options/plain.h"
#include "weir/weir.h"

enum { MOST_OPTIONS = 64, HELP_COLUMN = 23 };

bool complain(struct complaint complaint, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(complaint.text, complaint.room, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- help ------------------------------------------------------------------------------------------------------- */

static void put_option(const struct option *option, FILE *out) {
    const bool output = option->kind == OPTION_KIND_OUTPUT;
    char left[64], letter[] = "-x, ";
    letter[1] = option->letter;
    const int length = snprintf(left, sizeof left, "  %s--%s%s%s%s", option->letter != 0 ? letter : "", option->name,
                                output                  ? "[="
                                : option->value != NULL ? " "
                                                        : "",
                                option->value != NULL ? option->value : "", output ? "]" : "");
    fputs(left, out);
    int column = length < HELP_COLUMN ? HELP_COLUMN - length : 0;
    for (const char *at = option->help; at != NULL; at = strchr(at, '\n') != NULL ? strchr(at, '\n') + 1 : NULL) {
        fprintf(out, "%s%*s%.*s", column == 0 ? "\n" : "", column == 0 ? HELP_COLUMN : column, "",
                (int)strcspn(at, "\n"), at);
        column = 0;
    }
    fputc('\n', out);
}

void options_help(const struct option_table *table, FILE *out) {
    fprintf(out, "%s\n", table->usage);
    for (size_t i = 0; i < table->count; i++) put_option(&table->options[i], out);
    fprintf(out, "\n%s", table->status);
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

bool option_read_choice(const char *name, const char *value, const char *const *choices, const char **choice,
                        struct complaint complaint) {
    char list[80] = "";
    for (size_t i = 0; choices[i] != NULL; i++) {
        if (strcmp(value, choices[i]) == 0) return *choice = choices[i], true;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i == 0 ? "" : ", ", choices[i]);
    }
    return complain(complaint, "--%s %.60s is not one of %s", name, value, list);
}

static bool read_whole(const char *text, uint64_t *number) {
    uint64_t value = 0;
    if (*text == 0) return false;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *text - '0', &value))
            return false;
    *number = value;
    return *text == 0;
}

bool option_read_count(const char *name, const char *value, uint64_t least, uint64_t most, uint64_t *count,
                       struct complaint complaint) {
    if (read_whole(value, count) && *count >= least && *count <= most) return true;
    return complain(complaint, "--%s %.60s: expected a whole number from %" PRIu64 " to %" PRIu64, name, value, least,
                    most);
}

static bool put_count(const struct option *option, const char *value, void *place, struct complaint complaint) {
    uint64_t count = 0;
    if (!option_read_count(option->name, value, option->least, option->most, &count, complaint)) return false;
    if (option->bytes == sizeof(uint32_t))
        *(uint32_t *)place = (uint32_t)count;
    else
        *(uint64_t *)place = count;
    return true;
}

static bool put_value(const struct option *option, const char *value, struct options *options,
                      struct complaint complaint) {
    void *place = (char *)options + option->place;
    switch (option->kind) {
    case OPTION_KIND_FLAG:
        return *(bool *)place = true;
    case OPTION_KIND_TEXT:
        return *(const char **)place = value, true;
    case OPTION_KIND_OUTPUT:
        return *(const char **)place = value == NULL || strcmp(value, "-") == 0 ? "" : value, true;
    case OPTION_KIND_CHOICE:
        return option_read_choice(option->name, value, option->choices, place, complaint);
    case OPTION_KIND_COUNT:
        return put_count(option, value, place, complaint);
    case OPTION_KIND_READ:
        return option->read(value, options, complaint);
    default: /* what is answered holds no value */
        return true;
    }
}

/* ---- the command line ------------------------------------------------------------------------------------------- */

struct reading {
    const struct option_table *table;
    struct options *options;
    struct complaint complaint;
    char **argument;
    int at;         /* the next argument */
    uint64_t given; /* a bit for each option that was there */
};

static bool unknown(const struct reading *reading, const char *name) {
    const struct option_table *table = reading->table;
    const char *names[MOST_OPTIONS];
    for (size_t i = 0; i < table->count; i++) names[i] = table->options[i].name;
    const char *nearest = strncmp(name, "--", 2) == 0 ? weir__nearest(name + 2, names, table->count) : NULL;
    if (nearest == NULL) return complain(reading->complaint, "unknown option %s (--help lists them)", name);
    return complain(reading->complaint, "unknown option %s; did you mean --%s?", name, nearest);
}

static bool is_named(const struct option *option, const char *name) {
    if (strncmp(name, "--", 2) == 0) return strcmp(name + 2, option->name) == 0;
    return option->letter != 0 && name[1] == option->letter && name[2] == 0;
}

static bool read_option(struct reading *reading, const struct option **found) {
    const struct option_table *table = reading->table;
    const struct complaint complaint = reading->complaint;
    char name[64], *text = reading->argument[reading->at++], *equals = strchr(text, '=');
    const char *value = equals != NULL ? equals + 1 : NULL;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "="), text);
    size_t id = 0;
    while (id < table->count && !is_named(&table->options[id], name)) id++;
    if (id == table->count) return unknown(reading, name);
    const struct option *option = *found = &table->options[id];
    const bool needed = option->value != NULL && option->kind != OPTION_KIND_OUTPUT;
    if (option->value == NULL && value != NULL) return complain(complaint, "%s takes no value", name);
    if (needed && value == NULL && (value = reading->argument[reading->at]) != NULL) reading->at++;
    if ((needed && value == NULL) || (value != NULL && *value == 0))
        return complain(complaint, "%s needs a value: %s", name, option->value);
    if (!option->many && (reading->given & UINT64_C(1) << id)) return complain(complaint, "%s is given twice", name);
    reading->given |= UINT64_C(1) << id;
    return put_value(option, value, reading->options, complaint);
}

static bool read_words(struct reading *reading) {
    char **words = &reading->argument[reading->at];
    if (reading->table->words == NULL)
        return complain(reading->complaint, "'%.60s' is not an option (--help lists them)", *words);
    const int taken = reading->table->words(words, reading->options, reading->complaint);
    reading->at += taken;
    return taken > 0;
}

static bool answer(const struct option_table *table, enum option_kind kind) {
    if (kind == OPTION_KIND_HELP) options_help(table, stdout);
    if (kind == OPTION_KIND_VERSION) printf("%s %s\n", table->program, WEIR_VERSION_STRING);
    return kind == OPTION_KIND_HELP || kind == OPTION_KIND_VERSION;
}

int options_parse(const struct option_table *table, struct options *options, int count, char **argument,
                  struct complaint complaint) {
    struct reading reading = {table, options, complaint, argument, .at = 1};
    bool ended = false; /* by "--", which means something before words alone */
    assert(table->count <= MOST_OPTIONS);
    while (reading.at < count) {
        const char *text = argument[reading.at];
        const struct option *option = NULL;
        if (ended || text[0] != '-' || text[1] == 0 || (strcmp(text, "--") == 0 && table->words == NULL)) {
            if (!read_words(&reading)) return OPTIONS_BAD;
        } else if (strcmp(text, "--") == 0) {
            ended = true;
            reading.at++;
        } else if (!read_option(&reading, &option)) {
            return OPTIONS_BAD;
        } else if (answer(table, option->kind)) {
            return OPTIONS_ANSWERED;
        }
    }
    return table->check == NULL || table->check(options, complaint) ? OPTIONS_GO_ON : OPTIONS_BAD;
}

int options_read(const struct option_table *table, struct options *options, int count, char **argument) {
    char why[1000];
    const int status = options_parse(table, options, count, argument, (struct complaint){why, sizeof why});
    if (status == OPTIONS_BAD) fprintf(stderr, "%s: %s\n", table->program, plain(why));
    return status;
}
