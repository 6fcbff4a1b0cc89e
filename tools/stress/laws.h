/* SPDX-License-Identifier: Apache-2.0 */
/* How large the blocks are that are asked for. */
#ifndef WEIR_STRESS_LAWS_H
#define WEIR_STRESS_LAWS_H

#include <stddef.h>

#include "random.h"

#define LAW_MOST_BYTES ((size_t)1 << 50)

enum law_kind { LAW_LOG, LAW_FIXED, LAW_TRACE };

struct law {
    enum law_kind kind;
    size_t least, most; /* LAW_FIXED: the same; LAW_LOG: most 0, an eighth of what a thread may have live */
    size_t *sizes;      /* LAW_TRACE: of the trace's requests, in their order */
    size_t count;
};

/* Reads "fixed:SIZE", "log:LEAST:MOST" (log-uniform) or "trace:FILE" (what the trace's requests ask for, in their order).
 * Gives: false with a sentence; `law` is to be freed all the same. */
bool law_read(const char *text, struct law *law, char *why, size_t room);
void law_free(struct law *law);
/* The next size, at most `at_most`. `cursor` is the thread's place in a trace. */
size_t law_size(const struct law *law, struct random *random, size_t *cursor, size_t at_most);

#endif
