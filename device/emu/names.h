/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's names: every one is exported, so that any program links; which of them serves which version.
 *
 * An entry that is written defines its name as usual. All others are weak definitions in names.c, which give way when
 * someone writes the entry: no list has to be kept of what is missing. They answer CUDA_ERROR_NOT_SUPPORTED. */
#ifndef WEIR_EMU_NAMES_H
#define WEIR_EMU_NAMES_H

#include <stdbool.h>
#include <stdint.h>

/* The parameters are the entry's own. */
typedef void (*emu_function)(void);

enum emu_variant {
    EMU_PLAIN,     /* stream 0 is the legacy stream */
    EMU_PER_THREAD /* stream 0 is the calling thread's own */
};

/* The newest version of the entry up to `version`, by its base name ("cuMemAlloc"), in the variant where it has one,
 * else plain. NULL: there is none; *known says whether it would be in a later version. */
emu_function emu_names_find(const char *entry, enum emu_variant variant, int version, bool *known);

/* One more call of an entry that is refused whatever is asked of it. */
void emu_unsupported_count(void);

#endif
