/* SPDX-License-Identifier: Apache-2.0 */
/* The options table, the values, the flags and what several of them must satisfy together. */
#include "trainer/config.h"

#include <assert.h>
#include <string.h>

#include "trainer/config_table.h"
#include "trainer/text.h"
#include "weir/weir.h"

/* ---- the table -------------------------------------------------------------------------------------------------- */

enum { LONGEST_FLAG = 32 };

#define PLACE(key) offsetof(struct config, key), sizeof(((struct config *)0)->key)
#define ROW_TEXT(section, key, fallback, unit, help)                                                                   \
    {OPTION_TEXT, #section, #key, NULL, fallback, unit, help, 0, 0, PLACE(key)},
#define ROW_INT(section, key, fallback, least, most, unit, help)                                                       \
    {OPTION_INT, #section, #key, NULL, #fallback, unit, help, (double)(least), (double)(most), PLACE(key)},
#define ROW_REAL(section, key, fallback, least, most, unit, help)                                                      \
    {OPTION_REAL, #section, #key, NULL, #fallback, unit, help, least, most, PLACE(key)},
#define ROW_BYTES(section, key, fallback, help)                                                                        \
    {OPTION_BYTES, #section, #key, NULL, #fallback, "bytes", help, 0, 0, PLACE(key)},
#define ROW_FLAG(section, key, fallback, help)                                                                         \
    {OPTION_FLAG, #section, #key, NULL, (fallback) ? "on" : "off", "", help, 0, 0, PLACE(key)},
#define ROW_CHOICE(section, key, fallback, choices, help)                                                              \
    {OPTION_CHOICE, #section, #key, NULL, fallback, choices, help, 0, 0, PLACE(key)},

static struct option table[CONFIG_OPTIONS] = {
    CONFIG_LIST(ROW_TEXT, ROW_INT, ROW_REAL, ROW_BYTES, ROW_FLAG, ROW_CHOICE)};
static char flag_names[CONFIG_OPTIONS][LONGEST_FLAG];

/* Before main, so that the table is constant for every thread. */
__attribute__((constructor)) static void name_flags(void) {
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        size_t length = strlen(table[i].key);
        assert(length < LONGEST_FLAG);
        for (size_t at = 0; at < length; at++) flag_names[i][at] = table[i].key[at] == '_' ? '-' : table[i].key[at];
        table[i].flag = flag_names[i];
    }
}

const struct option *config_options(void) { return table; }

void config_defaults(struct config *config) {
    char message[256];
    memset(config, 0, sizeof *config);
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        int failed = config_set(config, &table[i], table[i].flag, table[i].fallback, message, sizeof message);
        assert(!failed);
        (void)failed;
    }
}

/* ---- one value -------------------------------------------------------------------------------------------------- */

static int set_text(char *to, const struct option *option, const char *name, const char *value, char *message,
                    size_t room) {
    size_t length = strlen(value);
    if (length >= option->room)
        return text_fail(2, message, room, "%s has %zu characters, more than the %zu that it may have", name, length,
                         option->room - 1);
    if (!text_is_utf8(value)) return text_fail(2, message, room, "%s is not UTF-8 text", name);
    memcpy(to, value, length + 1);
    return 0;
}

static bool is_choice(const char *choices, const char *value) {
    size_t length = strcspn(value, "|");
    if (!length || value[length]) return false;
    for (const char *at = choices; at; at = strchr(at, '|') ? strchr(at, '|') + 1 : NULL)
        if (strncmp(at, value, length) == 0 && (at[length] == '|' || !at[length])) return true;
    return false;
}

static int out_of_range(const struct option *option, const char *name, const char *value, char *message, size_t room) {
    char least[32], most[32];
    return text_fail(2, message, room, "%s is %s, outside its range %s to %s%s%s", name, value,
                     text_of_real(option->least, least), text_of_real(option->most, most), *option->unit ? " " : "",
                     option->unit);
}

/* Values are quoted at most this long in sentences. */
#define QUOTED       "%.80s%s"
#define QUOTE(value) value, strlen(value) > 80 ? "..." : ""

int config_set(struct config *config, const struct option *option, const char *name, const char *value, char *message,
               size_t room) {
    void *to = (char *)config + option->offset;
    int64_t whole;
    double real;
    switch (option->kind) {
    case OPTION_TEXT:
        return set_text(to, option, name, value, message, room);
    case OPTION_CHOICE:
        if (!is_choice(option->unit, value))
            return text_fail(2, message, room, "%s is \"" QUOTED "\", but it is one of %s", name, QUOTE(value),
                             option->unit);
        return set_text(to, option, name, value, message, room);
    case OPTION_INT:
        if (!text_integer(value, &whole))
            return text_fail(2, message, room, "%s is \"" QUOTED "\", but a whole number is expected", name,
                             QUOTE(value));
        if ((double)whole < option->least || (double)whole > option->most)
            return out_of_range(option, name, value, message, room);
        memcpy(to, &whole, sizeof whole);
        return 0;
    case OPTION_REAL:
        if (!text_real(value, &real))
            return text_fail(2, message, room, "%s is \"" QUOTED "\", but a number is expected", name, QUOTE(value));
        if (real < option->least || real > option->most) return out_of_range(option, name, value, message, room);
        memcpy(to, &real, sizeof real);
        return 0;
    case OPTION_BYTES:
        if (!text_bytes(value, to))
            return text_fail(2, message, room, "%s is \"" QUOTED "\", but bytes are expected, as 1048576, 64M or 1.5G",
                             name, QUOTE(value));
        return 0;
    case OPTION_FLAG:
        if (!text_switch(value, to))
            return text_fail(2, message, room, "%s is \"" QUOTED "\", but it is on or off", name, QUOTE(value));
        return 0;
    }
    return 0;
}

char *config_get(const struct config *config, const struct option *option, char *out) {
    const void *from = (const char *)config + option->offset;
    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_CHOICE:
        strcpy(out, from);
        break;
    case OPTION_INT:
        sprintf(out, "%lld", (long long)*(const int64_t *)from);
        break;
    case OPTION_REAL:
        text_of_real(*(const double *)from, out);
        break;
    case OPTION_BYTES:
        sprintf(out, "%zu", *(const size_t *)from);
        break;
    case OPTION_FLAG:
        strcpy(out, *(const bool *)from ? "on" : "off");
        break;
    }
    return out;
}

/* ---- flags ------------------------------------------------------------------------------------------------------ */

static const char *const answers[] = {"help", "version", "man", "dump-config", "config"};
enum { ANSWERS = sizeof answers / sizeof *answers };

static int unknown_option(const char *argument, size_t length, char *message, size_t room) {
    const char *names[CONFIG_OPTIONS + ANSWERS];
    for (int i = 0; i < CONFIG_OPTIONS; i++) names[i] = table[i].flag;
    memcpy(names + CONFIG_OPTIONS, answers, sizeof answers);
    char given[128];
    snprintf(given, sizeof given, "%.*s", (int)(length < 120 ? length : 120), argument);
    const char *nearest = text_nearest(given + 2, names, CONFIG_OPTIONS + ANSWERS);
    if (nearest) return text_fail(2, message, room, "unknown option %s; the nearest known one is --%s", given, nearest);
    return text_fail(2, message, room, "unknown option %s; weir-train --help lists the known ones", given);
}

/* One argument of the command line, cut at '='. `*value` is NULL where nothing was given. */
struct argument {
    const char *text;
    size_t name_length; /* of "--name" */
    const char *value;
};

static struct argument cut(const char *text) {
    const char *equals = strchr(text, '=');
    return (struct argument){text, equals ? (size_t)(equals - text) : strlen(text), equals ? equals + 1 : NULL};
}

static bool is_named(struct argument a, const char *prefix, const char *flag) {
    size_t p = strlen(prefix), f = strlen(flag);
    return a.name_length == p + f && strncmp(a.text, prefix, p) == 0 && strncmp(a.text + p, flag, f) == 0;
}

static const struct option *find_flag(struct argument a, bool *negated) {
    for (int i = 0; i < CONFIG_OPTIONS; i++) {
        *negated = table[i].kind == OPTION_FLAG && is_named(a, "--no-", table[i].flag);
        if (*negated || is_named(a, "--", table[i].flag)) return &table[i];
    }
    return NULL;
}

/* Applies argv[*at]; moves *at on when the value is the next argument. */
static int apply_argument(struct config *config, int argc, char **argv, int *at, char *message, size_t room) {
    struct argument a = cut(argv[*at]);
    bool negated;
    const struct option *option = find_flag(a, &negated);
    if (!option) return unknown_option(a.text, a.name_length, message, room);
    char name[LONGEST_FLAG + 2];
    snprintf(name, sizeof name, "--%s", option->flag);
    if (negated) {
        if (a.value) return text_fail(2, message, room, "--no-%s takes no value", option->flag);
        return config_set(config, option, name, "off", message, room);
    }
    if (option->kind == OPTION_FLAG && !a.value) return config_set(config, option, name, "on", message, room);
    if (!a.value && *at + 1 < argc) a.value = argv[++*at];
    if (!a.value) return text_fail(2, message, room, "%s needs a value", name);
    return config_set(config, option, name, a.value, message, room);
}

static bool answer(const char *argument) {
    if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)
        config_help(stdout);
    else if (strcmp(argument, "--man") == 0)
        config_man(stdout);
    else if (strcmp(argument, "--version") == 0)
        printf("weir-train %s\n", weir_version());
    else
        return false;
    return true;
}

/* Gives the answers that need no more than to be asked for, and reads --config, wherever they stand. */
static int apply_answers(struct config *config, int argc, char **argv, char *message, size_t room) {
    for (int i = 1; i < argc; i++) {
        if (answer(argv[i])) return 1;
        struct argument a = cut(argv[i]);
        if (!is_named(a, "--", "config")) continue;
        if (!a.value && ++i < argc) a.value = argv[i];
        if (!a.value) return text_fail(2, message, room, "--config needs the name of a file");
        int status = config_read_yaml(config, a.value, message, room);
        if (status) return status;
    }
    return 0;
}

int config_parse(struct config *config, int argc, char **argv, char *message, size_t room) {
    config_defaults(config);
    int status = apply_answers(config, argc, argv, message, room);
    bool dump = false;
    for (int i = 1; i < argc && !status; i++) {
        if (strcmp(argv[i], "--dump-config") == 0)
            dump = true;
        else if (is_named(cut(argv[i]), "--", "config"))
            i += !cut(argv[i]).value;
        else if (strncmp(argv[i], "--", 2) || !argv[i][2])
            status = text_fail(2, message, room, "unexpected argument \"" QUOTED "\"; options start with --",
                               QUOTE(argv[i]));
        else
            status = apply_argument(config, argc, argv, &i, message, room);
    }
    if (status || !dump) return status;
    config_dump(config, stdout);
    return 1;
}

/* ---- several values together ------------------------------------------------------------------------------------ */

struct division {
    const char *part, *whole;
    int64_t part_value, whole_value;
};

static int check_divisions(const struct config *c, char *message, size_t room) {
    const struct division rules[] = {{"--heads", "--dim", c->heads, c->dim},
                                     {"--kv-heads", "--heads", c->kv_heads, c->heads},
                                     {"--ep", "--ranks", c->ep, c->ranks},
                                     {"--ep", "--experts", c->ep, c->experts}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].whole_value % rules[i].part_value)
            return text_fail(2, message, room, "%s is %lld, which does not divide %s, %lld", rules[i].part,
                             (long long)rules[i].part_value, rules[i].whole, (long long)rules[i].whole_value);
    return 0;
}

int config_check(const struct config *c, char *message, size_t room) {
    int status = check_divisions(c, message, room);
    if (status) return status;
    if (strcmp(c->comm, "local") == 0 && c->ranks > CONFIG_LOCAL_RANKS)
        return text_fail(2, message, room, "--comm=local starts at most %d ranks in one process; --ranks is %lld",
                         CONFIG_LOCAL_RANKS, (long long)c->ranks);
    if (c->dim / c->heads % 2)
        return text_fail(2, message, room,
                         "--dim %lld over --heads %lld gives heads of width %lld; rotary embedding needs an even width",
                         (long long)c->dim, (long long)c->heads, (long long)(c->dim / c->heads));
    if (c->top_k > c->experts)
        return text_fail(2, message, room, "--top-k is %lld, more than --experts, %lld", (long long)c->top_k,
                         (long long)c->experts);
    if (c->validation <= 0 && c->eval_every > 0)
        return text_fail(2, message, room,
                         "--validation is 0, so that no text is left for a validation loss; give --eval-every=0 too");
    if (c->timeline && !*c->json)
        return text_fail(2, message, room, "--timeline is kept in the report of --json, which is not given");
    if (*c->routes_save && strcmp(c->routes_save, c->routes_replay) == 0)
        return text_fail(2, message, room, "--routes-save and --routes-replay are both " QUOTED "; it would be emptied",
                         QUOTE(c->routes_save));
    return 0;
}
