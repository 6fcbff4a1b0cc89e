/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/faces/process.h"

#include <pthread.h>
#include <stdlib.h>

#include "alloc/faces/torch_pool.h"
#include "alloc/options.h"
#include "alloc/pool.h"
#include "device/device.h"

static struct process_pool {
    struct weir_device *device;
    struct weir_pool *pool; /* written under the lock, read without */
} pools[WEIR__MOST_DEVICES];
static int end; /* above the highest number that has been made */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Pages stay where they are unless the options say otherwise; nor does a wait end that stands in the place of the driver's free. */
static enum weir_status create(struct weir_device *device, struct weir_pool **out) {
    struct weir__options options = weir__options_default();
    options.movable = false;
    options.wait_limit = UINT64_MAX;
    enum weir_status status = weir__options_parse(getenv("WEIR_OPTIONS"), &options);
    if (status != WEIR_OK) return status;
    const struct weir_pool_options given = {.size = sizeof given,
                                            .movable = options.movable ? WEIR_MOVABLE_ON : WEIR_MOVABLE_OFF};
    status = weir_pool_create(device, &given, out);
    if (status == WEIR_OK) (*out)->waits_out_frees = options.wait_limit == UINT64_MAX;
    return status;
}

static enum weir_status make(struct process_pool *at, int ordinal) {
    const struct weir_device_options options = {.size = sizeof options, .ordinal = ordinal};
    enum weir_status status = at->device != NULL ? WEIR_OK : weir_device_open(&options, &at->device);
    struct weir_pool *pool = NULL;
    if (status == WEIR_OK) status = create(at->device, &pool);
    if (status != WEIR_OK) return status;
    __atomic_store_n(&at->pool, pool, __ATOMIC_RELEASE);
    if (ordinal >= end) __atomic_store_n(&end, ordinal + 1, __ATOMIC_RELEASE);
    return WEIR_OK;
}

struct weir_pool *weir__process_pool_made(int ordinal) {
    return ordinal < 0 || ordinal >= WEIR__MOST_DEVICES ? NULL
                                                        : __atomic_load_n(&pools[ordinal].pool, __ATOMIC_ACQUIRE);
}

int weir__process_pools_end(void) { return __atomic_load_n(&end, __ATOMIC_ACQUIRE); }

struct weir_device *weir__process_device_made(int ordinal) {
    return weir__process_pool_made(ordinal) != NULL ? pools[ordinal].device : NULL;
}

enum weir_status weir_process_pool(int ordinal, struct weir_pool **out) {
    if (out == NULL) return WEIR__INVALID("weir_process_pool: out is NULL");
    *out = NULL;
    if (ordinal < 0 || ordinal >= WEIR__MOST_DEVICES)
        return WEIR__INVALID("weir_process_pool: %d is no device from 0 to %d", ordinal, WEIR__MOST_DEVICES - 1);
    enum weir_status status = WEIR_OK;
    if ((*out = weir__process_pool_made(ordinal)) != NULL) return WEIR_OK;
    if (weir__forked()) return weir__fail_forked();
    pthread_mutex_lock(&lock);
    if (pools[ordinal].pool == NULL) status = make(&pools[ordinal], ordinal);
    *out = pools[ordinal].pool;
    pthread_mutex_unlock(&lock);
    return status;
}

void weir__process_pool_forget(int ordinal) {
    pthread_mutex_lock(&lock);
    struct weir_pool *pool = weir__process_pool_made(ordinal);
    if (pool != NULL) {
        __atomic_store_n(&pools[ordinal].pool, NULL, __ATOMIC_RELEASE);
        weir__torch_pools_forget(ordinal);
        weir_pool_destroy(pool);
        weir_device_close(pools[ordinal].device);
        pools[ordinal].device = NULL;
    }
    pthread_mutex_unlock(&lock);
}
