/* SPDX-License-Identifier: Apache-2.0 */
/* weir: keeps a GPU nearly full, across all its streams, without running out of memory.
 *
 * This header brings in what libweir.so offers: the device and the pool. The offload engine lives in
 * libweir-offload.so and has its own header, weir/offload.h. */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include "weir/device.h"
#include "weir/pool.h"
#include "weir/status.h"

#if defined(__cplusplus)
extern "C" {
#endif

#define WEIR_VERSION_MAJOR  0
#define WEIR_VERSION_MINOR  1
#define WEIR_VERSION_PATCH  0
#define WEIR_VERSION_STRING "0.1.0"

/* Gives: the version of the library at run time, "major.minor.patch". Static storage. Threads: any. */
WEIR_API const char *weir_version(void);

#if defined(__cplusplus)
}
#endif
#endif
