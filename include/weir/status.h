/* SPDX-License-Identifier: Apache-2.0 */
/* What a call of weir answers, and the detail behind an error.
 *
 * Every function that can fail returns enum weir_status: zero is success, failures are negative and are never
 * renumbered. The detail of the last failure (driver code, call, size, a sentence) is kept per thread. The library never
 * exits and never prints unless WEIR_LOG asks for it. */
#ifndef WEIR_STATUS_H
#define WEIR_STATUS_H

#include <stddef.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define WEIR_API __attribute__((visibility("default")))

/* One list makes the enum, the names and the texts. */
#define WEIR_STATUS_LIST(X)                                                                                            \
    X(WEIR_OK, 0, "success")                                                                                           \
    X(WEIR_INVALID, -1, "an argument is malformed or out of range")                                                    \
    X(WEIR_OUT_OF_MEMORY, -2, "out of device memory")                                                                  \
    X(WEIR_OUT_OF_HOST_MEMORY, -3, "out of host memory")                                                               \
    X(WEIR_DRIVER, -4, "a driver call failed")                                                                         \
    X(WEIR_NO_DEVICE, -5, "no usable driver or device")                                                                \
    X(WEIR_NOT_SUPPORTED, -6, "not supported here")                                                                    \
    X(WEIR_NOT_READY, -7, "queued work has not completed yet")                                                         \
    X(WEIR_BROKEN, -8, "an invariant does not hold")                                                                   \
    X(WEIR_SYSTEM, -9, "a system call failed")

enum weir_status {
#define WEIR_STATUS_ENUM(name, value, text) name = (value),
    WEIR_STATUS_LIST(WEIR_STATUS_ENUM)
#undef WEIR_STATUS_ENUM
};

/* Detail of the last failure in this thread. Valid until the next failing call of weir in the same thread. */
struct weir_error {
    enum weir_status status; /* WEIR_OK when nothing has failed yet */
    int driver_code;         /* the driver's CUresult, 0 when no driver call was at fault */
    const char *call;        /* the driver or system call at fault, or NULL; static storage */
    char message[384];       /* one sentence that names the thing, the value and the limit */
};

/* Gives: the name of a status ("WEIR_INVALID"), or "WEIR_UNKNOWN_STATUS". Static storage. Threads: any. */
WEIR_API const char *weir_status_name(enum weir_status status);

/* Gives: the text of a status ("out of device memory"). Static storage. Threads: any. */
WEIR_API const char *weir_status_text(enum weir_status status);

/* Gives: this thread's last failure. Never NULL. Threads: any. */
WEIR_API const struct weir_error *weir_last_error(void);

#if defined(__cplusplus)
}
#endif
#endif
