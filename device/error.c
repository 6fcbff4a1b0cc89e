/* SPDX-License-Identifier: Apache-2.0 */
#include "device/error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local struct weir_error last_error;

enum weir_status weir__fail(enum weir_status status, int driver_code, const char *call, const char *format, ...) {
    last_error.status = status;
    last_error.driver_code = driver_code;
    last_error.call = call;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error.message, sizeof last_error.message, format, arguments);
    va_end(arguments);
    weir__log(WEIR__LOG_INFO, "%s: %s", weir_status_name(status), last_error.message);
    return status;
}

const struct weir_error *weir_last_error(void) { return &last_error; }

const char *weir_status_name(enum weir_status status) {
    switch (status) {
#define WEIR__STATUS_NAME(name, value, text)                                                                           \
    case name:                                                                                                         \
        return #name;
        WEIR_STATUS_LIST(WEIR__STATUS_NAME)
#undef WEIR__STATUS_NAME
    }
    return "WEIR_UNKNOWN_STATUS";
}

const char *weir_status_text(enum weir_status status) {
    switch (status) {
#define WEIR__STATUS_TEXT(name, value, text)                                                                           \
    case name:                                                                                                         \
        return text;
        WEIR_STATUS_LIST(WEIR__STATUS_TEXT)
#undef WEIR__STATUS_TEXT
    }
    return "unknown status";
}
