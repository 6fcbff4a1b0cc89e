/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of numbers with units, for settings and profiles. They don't follow the program's locale, and take no
 * sign, no exponent, no "inf" and no "nan". */
#ifndef WEIR_EMU_QUANTITY_H
#define WEIR_EMU_QUANTITY_H

#include <stdbool.h>
#include <stddef.h>

#include "device/emu/settings.h"

enum emu_quantity {
    EMU_TIME,     /* "40 us": nanoseconds, at most 1,000,000 s */
    EMU_RATE,     /* "55 GB/s", "1.5 GiB/s": bytes a second, more than 0 */
    EMU_FLOPS,    /* "989 TFLOP/s": more than 0 */
    EMU_FRACTION, /* "5 %", "0.05": from 0, below 1 */
};

/* False: malformed, or out of range; *value is as it was. */
bool emu_quantity_read(enum emu_quantity quantity, const char *text, double *value);

/* Reads "40 us + 2 us/handle + 1 us/MiB": any of a fixed part, a part a handle and a part a byte ("/B", "/KiB", "/MiB",
 * "/GiB", or "/page": of `granularity_bytes`), each at most once. */
bool emu_cost_read(const char *text, size_t granularity_bytes, struct emu_cost *cost);

#define EMU_TIME_EXPECTED     "a time, as 40 us, in ns, us, ms or s"
#define EMU_RATE_EXPECTED     "a rate above 0, as 55 GB/s or 1.5 GiB/s"
#define EMU_FLOPS_EXPECTED    "a rate above 0, as 400 TFLOP/s"
#define EMU_FRACTION_EXPECTED "a fraction from 0 to below 1, as 0.05 or 5 %"
#define EMU_COST_EXPECTED     "parts as 40 us + 2 us/handle + 1 us/MiB (or /B, /KiB, /GiB, /page), each once"

/* Cuts white space off both ends, in place. */
char *emu_trim(char *text);

#endif
