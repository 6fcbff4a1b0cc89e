/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TOOLS_OUTPUTS_H
#define WEIR_TOOLS_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/options/option_table.h"

/* A file that a program will write: what asks for it ("--json") and its name; "" and "-" are standard output, NULL none. */
struct named_output {
    const char *asked, *path;
};

/* Whether two names are one file, whether it exists or not; or one is the other with ".part" behind, which is where it is
 * written first. A pipe, a device or a terminal may be written by several. */
bool outputs_are_one(const char *path, const char *other);

/* Complains of the first two outputs that are one file; false then. */
bool outputs_differ(const struct named_output *outputs, size_t count, struct complaint complaint);

#endif
