/* SPDX-License-Identifier: Apache-2.0 */
/* Vector clocks: for each queue, by its index, the position up to which everything is known to come before. Plain data,
 * no lock of its own.
 *
 * A clock is shared until someone changes his copy: a record of an event keeps its stream's clock by counting it. NULL
 * is the clock that knows nothing. */
#ifndef WEIR_EMU_WATCH_KNOWN_H
#define WEIR_EMU_WATCH_KNOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emu_known {
    uint32_t references, count; /* positions of queues beyond count are 0 */
    uint64_t at[];
};

static inline uint64_t emu_known_of(const struct emu_known *known, uint32_t queue) {
    return known != NULL && queue < known->count ? known->at[queue] : 0;
}

static inline struct emu_known *emu_known_keep(struct emu_known *known) {
    if (known != NULL) known->references++;
    return known;
}
void emu_known_drop(struct emu_known *known);

/* *known comes to know (queue, position), everything of `other`. False: no host memory; *known is as it was. */
bool emu_known_raise(struct emu_known **known, uint32_t queue, uint64_t position);
bool emu_known_join(struct emu_known **known, struct emu_known *other);

#endif
