/* SPDX-License-Identifier: Apache-2.0 */
/* The options table as data, made from CONFIG_LIST; inside config*.c only. */
#ifndef WEIR_TRAINER_CONFIG_TABLE_H
#define WEIR_TRAINER_CONFIG_TABLE_H

#include "trainer/config.h"

enum option_kind { OPTION_TEXT, OPTION_INT, OPTION_REAL, OPTION_BYTES, OPTION_FLAG, OPTION_CHOICE };

struct option {
    enum option_kind kind;
    const char *section, *key, *flag; /* flag: the key with '-' for '_' */
    const char *fallback;             /* the default, as it would be written */
    const char *unit, *help;          /* unit: of a text its value name, of a choice its values "a|b|c" */
    double least, most;
    size_t offset, room; /* of the member of struct config */
};

enum {
#define OPTION_COUNT(...) +1
    CONFIG_OPTIONS = 0 CONFIG_LIST(OPTION_COUNT, OPTION_COUNT, OPTION_COUNT, OPTION_COUNT, OPTION_COUNT, OPTION_COUNT)
#undef OPTION_COUNT
};

/* (CONFIG_OPTIONS), in the order of CONFIG_LIST, sections together. */
const struct option *config_options(void);

/* Sets one option from its written value. Gives 0, or 2 with a sentence that calls the option `name`. */
int config_set(struct config *config, const struct option *option, const char *name, const char *value, char *message,
               size_t room);
/* Writes an option's value as YAML and flags take it; `out` has room for 1,100 characters. */
char *config_get(const struct config *config, const struct option *option, char *out);

#endif
