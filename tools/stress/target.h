/* SPDX-License-Identifier: Apache-2.0 */
/* What is put under stress: weir's pool, or a library with PyTorch's plug-in functions. */
#ifndef WEIR_STRESS_TARGET_H
#define WEIR_STRESS_TARGET_H

#include "device/device.h"
#include "tools/plugin/plugin.h"
#include "weir/weir.h"

struct target {
    struct weir_device *device;
    struct weir_pool *pool; /* NULL: a library's */
    struct plugin_calls calls;
    int ordinal;
    size_t alignment;    /* of every block */
    size_t usable_bytes; /* of the device, when it was opened */
    size_t limit_bytes;  /* weir's pool's, then */
    bool takes_uses;     /* it is told of uses on other streams; else they are waited for before a free */
};

/* `names` NULL: weir's pool, as WEIR_OPTIONS says. False with a sentence; *bad_input when what was asked for is at fault.
 * Closed in any case. */
bool target_open(struct target *target, struct weir_device *device, int ordinal, const struct plugin_names *names,
                 bool *bad_input, char *why, size_t room);
void target_close(struct target *target);

/* What a call names: a stream; none at all, or an event; and what is asked for. weir's pool alone takes more than TARGET_STREAM. */
enum target_way { TARGET_STREAM, TARGET_ANY, TARGET_EVENT, TARGET_ALIGNED, TARGET_EXPORTABLE };

struct target_request {
    size_t bytes;
    weir_stream stream;
    enum target_way way; /* all but TARGET_EVENT */
    size_t alignment;    /* TARGET_ALIGNED */
    struct weir_pool *pool;
};

/* `pool`: a sub-pool of weir's pool, or NULL: itself, or the library.
 * Gives: WEIR_OK; WEIR_OUT_OF_MEMORY; anything else is a failure, weir_last_error() has the sentence. */
enum weir_status target_alloc(const struct target *target, const struct target_request *request, void **out);
/* TARGET_STREAM, TARGET_ANY, TARGET_EVENT. */
enum weir_status target_free(const struct target *target, struct weir_pool *pool, void *block, size_t bytes,
                             weir_stream stream, enum target_way way, weir_event event);
enum weir_status target_use(const struct target *target, struct weir_pool *pool, void *block, weir_stream stream);
/* All that is idle goes back to the driver, and the debug walk. WEIR_OK for a library. */
enum weir_status target_trim(const struct target *target);
enum weir_status target_check(const struct target *target);

#endif
