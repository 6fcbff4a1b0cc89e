/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a pool: as text (WEIR_OPTIONS, files), and settled with what the program gave. */
#ifndef WEIR_ALLOC_OPTIONS_H
#define WEIR_ALLOC_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/options_list.h"
#include "weir/pool.h"

#define WEIR__NAME_ROOM     64
#define WEIR__MOST_COUNT    ((size_t)1048576)
#define WEIR__LONGEST_VALUE 1023u           /* characters of one key:value, or of one line */
#define WEIR__LARGEST_FILE  ((size_t)65536) /* bytes */

struct weir__limit {
    size_t bytes;
    double fraction;   /* of the capacity; 0: `bytes` counts */
    char written[300]; /* "<where>: limit:<value>", "" when the program gave it; the value's first characters */
};

struct weir__options {
#define WEIR__OPTION_MEMBER(key, kind, fallback, help) WEIR__OPTION_MEMBER_##kind(key)
    WEIR__OPTION_LIST(WEIR__OPTION_MEMBER)
#undef WEIR__OPTION_MEMBER
};

/* The defaults. */
struct weir__options weir__options_default(void);
/* Reads "key:value,..." into *options, leaving what it does not name; of two values of a key the later one counts. NULL
 * and "" are nothing. Fails: WEIR_INVALID with where, the key, the value and what was expected; WEIR_SYSTEM for a file that
 * can't be read; WEIR_OUT_OF_HOST_MEMORY. */
enum weir_status weir__options_parse(const char *text, struct weir__options *options);
/* The same for what stands in a file: lines of `key = value`. `text` is changed, and has a zero at text[bytes]. */
enum weir_status weir__options_parse_lines(const char *path, char *text, size_t bytes, struct weir__options *options);
/* Takes a name over. Fails: WEIR_INVALID, with `what` as what it is the name of, when it is empty, too long or of more
 * than one line. */
enum weir_status weir__name_take(const char *what, const char *name, char room[static WEIR__NAME_ROOM]);

/* Settles a pool's policy, limit, waits, modes and name from the environment and what the program gave; needs its device,
 * granule and capacity. Gives: the path of its trace or NULL. */
enum weir_status weir__options_settle(struct weir_pool *pool, const struct weir_pool_options *given,
                                      const char **trace_path);
/* Gives: a limit in bytes, in whole pages. Fails: WEIR_INVALID below one page or above the capacity. */
enum weir_status weir__limit_settle(const struct weir_pool *pool, struct weir__limit limit, size_t *bytes);

#endif
