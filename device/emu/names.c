/* SPDX-License-Identifier: Apache-2.0 */
/* Entries that are there by name only, and the table of versions. This file must not see the entries' declarations:
 * here they have no parameters. On the machines that this builds for, a function may ignore what it is given. */
#include "device/emu/names.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "device/cuda_abi.h"
#include "device/emu/abi/names.h"
#include "device/emu/abi/versions.h"
#include "device/emu/emu_abi.h"
#include "device/emu/kernel.h"
#include "device/error.h"

static atomic_uint_fast64_t unsupported_calls;

uint64_t emu_unsupported_calls(void) { return atomic_load(&unsupported_calls); }

void emu_unsupported_count(void) { atomic_fetch_add(&unsupported_calls, 1); }

static CUresult unsupported(const char *name, atomic_bool *said) {
    emu_unsupported_count();
    if (!atomic_exchange(said, true))
        weir__log(WEIR__LOG_WARN, "emulated driver: %s is there by name only, and answers CUDA_ERROR_NOT_SUPPORTED",
                  name);
    return CUDA_ERROR_NOT_SUPPORTED;
}

#define BY_NAME_ONLY(symbol)                                                                                           \
    __attribute__((visibility("default"))) CUresult symbol(void);                                                      \
    __attribute__((weak)) CUresult symbol(void) {                                                                      \
        static atomic_bool said;                                                                                       \
        return unsupported(#symbol, &said);                                                                            \
    }
EMU_NAME_LIST(BY_NAME_ONLY)
#define OWN_BY_NAME_ONLY(member, symbol, parameters) BY_NAME_ONLY(symbol)
WEIR__EMU_LIST(OWN_BY_NAME_ONLY)

/* ---- versions --------------------------------------------------------------------------------------------------- */

struct row {
    const char *entry;
    enum emu_variant variant;
    int version;
    CUresult (*symbol)(void);
};

static const struct row rows[] = {
#define ROW(entry, variant, version, symbol) {#entry, variant, version, symbol},
    EMU_VERSION_LIST(ROW)
#undef ROW
};

static const struct row *newest(const char *entry, enum emu_variant variant, int version, bool *known) {
    const struct row *found = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].entry, entry) != 0) continue;
        *known = true;
        if (rows[i].variant == variant && rows[i].version <= version) found = &rows[i]; /* versions ascend */
    }
    return found;
}

emu_function emu_names_find(const char *entry, enum emu_variant variant, int version, bool *known) {
    *known = false;
    const struct row *found = newest(entry, variant, version, known);
    if (found == NULL && variant != EMU_PLAIN) found = newest(entry, EMU_PLAIN, version, known);
    return found != NULL ? (emu_function)found->symbol : NULL;
}
