/* SPDX-License-Identifier: Apache-2.0 */
/* How the library says that something failed: one call that keeps the detail for weir_last_error and gives the status
 * to return, so that a failing line reads `return weir__fail(...)`. */
#ifndef WEIR_DEVICE_ERROR_H
#define WEIR_DEVICE_ERROR_H

#include "weir/status.h"

/* Keeps (status, driver_code, call, sentence) as this thread's last error and gives `status`. Does not allocate.
 * Visible: libweir-offload.so keeps its errors in the same place. */
WEIR_API enum weir_status weir__fail(enum weir_status status, int driver_code, const char *call, const char *format,
                                     ...) __attribute__((format(printf, 4, 5)));

/* The usual case: no driver call at fault. */
#define WEIR__INVALID(...) weir__fail(WEIR_INVALID, 0, NULL, __VA_ARGS__)

/* The known name nearest to `given` (edit distance), or NULL when none is near; for "unknown option" sentences. */
const char *weir__nearest(const char *given, const char *const *known, size_t count);

/* Parses "64M", "1.5GiB", "1048576" into bytes (K, M, G, T: powers of 1024). False when malformed or past SIZE_MAX. */
int weir__parse_bytes(const char *text, size_t *bytes);

/* Writes to the place and at the level that WEIR_LOG asks for; off by default in the library. */
enum weir__log_level { WEIR__LOG_OFF, WEIR__LOG_ERROR, WEIR__LOG_WARN, WEIR__LOG_INFO, WEIR__LOG_DEBUG };
WEIR_API void weir__log(enum weir__log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
