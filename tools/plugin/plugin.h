/* SPDX-License-Identifier: Apache-2.0 */
/* A library with the ABI of PyTorch's pluggable allocators, as `--allocator LIB.so:ALLOC:FREE[:USE]` names it: void
 * *ALLOC(ssize_t bytes, int device, cudaStream_t), void FREE(void *, ssize_t bytes, int device, cudaStream_t), and
 * perhaps void USE(void *, cudaStream_t). docs/replay.md, "What a plug-in library is told". */
#ifndef WEIR_PLUGIN_PLUGIN_H
#define WEIR_PLUGIN_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "device/driver.h"
#include "weir/device.h"

/* The parts of the option's value. */
struct plugin_names {
    char *library, *alloc, *free;
    char *use; /* NULL: not given */
};

/* Gives: false with one sentence in `why`; `names` is to be freed all the same. */
bool plugin_names_read(const char *value, struct plugin_names *names, char *why, size_t room);
void plugin_names_free(struct plugin_names *names);

enum { PLUGIN_RUNTIMES = 2 };

struct plugin_calls {
    void *(*alloc)(ssize_t bytes, int device, weir_stream stream);
    void (*free)(void *block, ssize_t bytes, int device, weir_stream stream);
    void (*use)(void *block, weir_stream stream);                      /* or NULL */
    CUresult (*attribute)(void *value, int what, CUdeviceptr address); /* cuPointerGetAttribute */
    int (*clear_last_error[PLUGIN_RUNTIMES])(void);                    /* of the emulated runtimes; NULL: not there */
};

/* What the driver itself tells of addresses: calls->attribute. False with a sentence. */
bool plugin_find_attribute(const struct weir__driver *driver, struct plugin_calls *calls, char *why, size_t room);

/* Loads the library into this process, for good, and finds its functions. With the emulated driver that one and the
 * emulated runtimes take the places that a library's own dependencies name, whatever the loader's path says.
 * Needs: the driver has been loaded. Gives: false with a sentence. */
bool plugin_load(const struct weir__driver *driver, const char *library, const char *alloc, const char *free,
                 const char *use, struct plugin_calls *calls, char *why, size_t room);

/* After a request that was refused: the runtimes' last error is not the program's. */
void plugin_clear_errors(const struct plugin_calls *calls);
/* Whether the first of these bytes and the last are memory of that device. */
bool plugin_is_device_memory(const struct plugin_calls *calls, int ordinal, uintptr_t address, size_t bytes);

#endif
