/* SPDX-License-Identifier: Apache-2.0 */
/* One table of options makes a program's parser and its help. A value follows its option after a space or '='; one that may
 * be left out, only after '='. What is given twice, or empty, is refused; a name is never cut short. A sentence about
 * what is wrong names the option, the value and the limit.
 *
 * Each program keeps what it was asked in a `struct options` of its own, which is all that is known of it here. */
#ifndef WEIR_TOOLS_OPTION_TABLE_H
#define WEIR_TOOLS_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct options;

/* Where a sentence about what is wrong goes. */
struct complaint {
    char *text;
    size_t room;
};

/* Gives: false. */
bool complain(struct complaint complaint, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Reads a value; false: it complained. */
typedef bool option_read(const char *value, struct options *options, struct complaint complaint);

enum option_kind {
    OPTION_KIND_FLAG,
    OPTION_KIND_TEXT,
    OPTION_KIND_OUTPUT,
    OPTION_KIND_CHOICE,
    OPTION_KIND_COUNT,
    OPTION_KIND_READ,
    OPTION_KIND_HELP,
    OPTION_KIND_VERSION,
};

struct option {
    const char *name;  /* without "--" */
    const char *value; /* as --help shows it: "SIZE"; NULL: there is none */
    const char *help;  /* '\n' begins another line; NULL: the name says it */
    /* The rest by one of the macros below, then .letter and .many where wanted. */
    enum option_kind kind;
    size_t place, bytes;        /* of a member of struct options */
    const char *const *choices; /* NULL-terminated */
    uint64_t least, most;
    option_read *read;
    char letter; /* "-o" is the same */
    bool many;   /* may be given again */
};

/* Where a member is; of another type it does not compile. */
#define OPTION_PLACE(type, member)                                                                                     \
    .place = _Generic(((struct options *)NULL)->member, type : offsetof(struct options, member))

#define OPTION_FLAG(member) .kind = OPTION_KIND_FLAG, OPTION_PLACE(bool, member)
#define OPTION_TEXT(member) .kind = OPTION_KIND_TEXT, OPTION_PLACE(const char *, member)
/* A file's name; "" is standard output: no value, or "-". */
#define OPTION_OUTPUT(member)        .kind = OPTION_KIND_OUTPUT, OPTION_PLACE(const char *, member)
#define OPTION_CHOICE(member, names) .kind = OPTION_KIND_CHOICE, OPTION_PLACE(const char *, member), .choices = (names)
/* A whole number. */
#define OPTION_COUNT(member, from, to)                                                                                 \
    .kind = OPTION_KIND_COUNT, .place = offsetof(struct options, member), .least = (from), .most = (to),               \
    .bytes = _Generic(((struct options *)NULL)->member, int : 4, unsigned : 4, int64_t : 8, uint64_t : 8)
#define OPTION_READ(function) .kind = OPTION_KIND_READ, .read = (function)
#define OPTION_HELP           .kind = OPTION_KIND_HELP
#define OPTION_VERSION        .kind = OPTION_KIND_VERSION

struct option_table {
    const char *program; /* what sentences and the version begin with */
    const char *usage;   /* what --help says before the options */
    const char *status;  /* and behind them */
    const struct option *options;
    size_t count; /* at most 64 */
    /* Reads words[0], which is no option; the words end with NULL. Gives: how many it took, 0: it complained. NULL: there are
     * none. Behind "--" all are such. */
    int (*words)(char **words, struct options *options, struct complaint complaint);
    /* At the end: what several options must satisfy together, or what is missing. NULL: nothing. */
    bool (*check)(struct options *options, struct complaint complaint);
};

enum { OPTIONS_GO_ON = -1, OPTIONS_ANSWERED = 0, OPTIONS_BAD = 2 };

/* Reads the command line into `options`, which holds the defaults; answers --help and --version.
 * Gives: OPTIONS_GO_ON, or the exit status; what is bad has been said on standard error. */
int options_read(const struct option_table *table, struct options *options, int count, char **argument);

/* The same, but says nothing on standard error. */
int options_parse(const struct option_table *table, struct options *options, int count, char **argument,
                  struct complaint complaint);
void options_help(const struct option_table *table, FILE *out);

bool option_read_choice(const char *name, const char *value, const char *const *choices, const char **choice,
                        struct complaint complaint);
bool option_read_count(const char *name, const char *value, uint64_t least, uint64_t most, uint64_t *count,
                       struct complaint complaint);

#endif
