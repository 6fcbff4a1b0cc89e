/* SPDX-License-Identifier: Apache-2.0 */
/* Names and texts of results. */
#include "device/emu/runtime/rt.h"

const char *cudaGetErrorName(cudaError_t code) {
    switch (code) {
#define NAME(name, value, text)                                                                                        \
    case name:                                                                                                         \
        return #name;
        RT_ERROR_LIST(NAME)
#undef NAME
    }
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t code) {
    switch (code) {
#define TEXT(name, value, text)                                                                                        \
    case name:                                                                                                         \
        return text;
        RT_ERROR_LIST(TEXT)
#undef TEXT
    }
    return "unrecognized error code";
}
