/* SPDX-License-Identifier: Apache-2.0 */
/* What a pool is made with: what the program gave, else what WEIR_OPTIONS says, else the defaults. */
#include "alloc/options.h"

#include <stdlib.h>
#include <string.h>

#include "alloc/pool.h"

static const struct weir__policy *const policies[] = {&weir__policy_latency, &weir__policy_footprint,
                                                      &weir__policy_per_stream};

static const struct weir__policy *find_policy(enum weir_policy name) {
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        if (policies[i]->name == name) return policies[i];
    return NULL;
}

/* ---- the limit -------------------------------------------------------------------------------------------------- */

enum weir_status weir__limit_settle(const struct weir_pool *pool, struct weir__limit limit, size_t *bytes) {
    size_t wanted = limit.bytes;
    if (limit.fraction > 0) wanted = (size_t)(limit.fraction * (double)pool->capacity_bytes);
    const char *written = limit.written, *colon = *written != 0 ? ": " : "";
    if (wanted > pool->capacity_bytes)
        return WEIR__INVALID("%s%sthe pool's limit of %zu bytes is above the device's capacity of %zu", written, colon,
                             wanted, pool->capacity_bytes);
    if (wanted < pool->granule)
        return WEIR__INVALID("%s%sthe pool's limit of %zu bytes is below one page of %zu%s", written, colon, wanted,
                             pool->granule, limit.bytes == 1 ? "; the whole device is 1.0 or 100%" : "");
    *bytes = wanted - wanted % pool->granule;
    return WEIR_OK;
}

static enum weir_status take_limit(const struct weir_pool_options *given, struct weir__options *options) {
    if (given->limit_bytes != 0 && given->limit_fraction != 0)
        return WEIR__INVALID("weir_pool_create: limit_bytes is %zu and limit_fraction %g; only one may be given",
                             given->limit_bytes, given->limit_fraction);
    if (!(given->limit_fraction >= 0 && given->limit_fraction <= 1))
        return WEIR__INVALID("weir_pool_create: limit_fraction is %g, which is not above 0 and at most 1",
                             given->limit_fraction);
    if (given->limit_bytes != 0 || given->limit_fraction > 0)
        options->limit = (struct weir__limit){.bytes = given->limit_bytes, .fraction = given->limit_fraction};
    return WEIR_OK;
}

/* ---- what the program gave -------------------------------------------------------------------------------------- */

/* Sizes that the struct has had, or may have had: up to the end of a field, with the padding behind it or without. */
static bool is_known_size(size_t size) {
#define END(field) (offsetof(struct weir_pool_options, field) + sizeof((struct weir_pool_options *)0)->field)
    static const size_t ends[] = {END(policy),     END(limit_bytes),   END(wait_limit_ns),
                                  END(trace_path), END(deterministic), END(limit_fraction),
                                  END(movable),    END(name),          END(history)};
    const size_t unit = _Alignof(struct weir_pool_options);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (size == ends[i] || size == (ends[i] + unit - 1) / unit * unit) return true;
    return false;
}

/* What a caller of any known size gave, as this library's struct. */
static enum weir_status widen(const struct weir_pool_options *given, struct weir_pool_options *whole) {
    *whole = (struct weir_pool_options){.size = sizeof *whole};
    if (given == NULL) return WEIR_OK;
    if (!is_known_size(given->size))
        return WEIR__INVALID("weir_pool_create: options->size is %zu, expected %zu, or less by whole fields",
                             given->size, sizeof *given);
    memcpy(whole, given, given->size);
    return WEIR_OK;
}

static enum weir_status take_movable(enum weir_movable movable, struct weir__options *options) {
    if (movable > WEIR_MOVABLE_OFF) return WEIR__INVALID("weir_pool_create: movable is %d", (int)movable);
    if (movable != WEIR_MOVABLE_DEFAULT) options->movable = movable == WEIR_MOVABLE_ON;
    return WEIR_OK;
}

static enum weir_status take_given(const struct weir_pool_options *given, struct weir__options *options) {
    if (given->policy != WEIR_POLICY_DEFAULT) options->policy = given->policy;
    if (given->wait_limit_ns != 0) options->wait_limit = given->wait_limit_ns;
    if (given->deterministic) options->deterministic = true;
    enum weir_status status = take_limit(given, options);
    if (status == WEIR_OK) status = take_movable(given->movable, options);
    if (status == WEIR_OK && given->name != NULL)
        status = weir__name_take("weir_pool_create", given->name, options->name);
    if (given->history > WEIR__MOST_COUNT)
        return WEIR__INVALID("weir_pool_create: history is %zu, the limit is %zu", given->history, WEIR__MOST_COUNT);
    if (given->history != 0) options->history = given->history;
    return status;
}

#define LONGEST_WAIT_NS UINT64_C(3155760000000000000) /* a hundred years; of more a deadline could wrap */

enum weir_status weir__options_settle(struct weir_pool *pool, const struct weir_pool_options *given,
                                      const char **trace_path) {
    struct weir__options options = weir__options_default();
    struct weir_pool_options whole;
    enum weir_status status = weir__options_parse(getenv("WEIR_OPTIONS"), &options);
    if (status == WEIR_OK) status = widen(given, &whole);
    if (status == WEIR_OK) status = take_given(&whole, &options);
    if (status != WEIR_OK) return status;
    pool->policy = find_policy(options.policy);
    if (pool->policy == NULL) return WEIR__INVALID("weir_pool_create: %d is no policy", (int)options.policy);
    pool->wait_limit_ns = options.wait_limit < LONGEST_WAIT_NS ? options.wait_limit : LONGEST_WAIT_NS;
    pool->deterministic = options.deterministic;
    pool->movable = options.movable;
    pool->history_room = options.history;
    memcpy(pool->name, options.name, sizeof pool->name);
    *trace_path = whole.trace_path != NULL ? whole.trace_path : getenv("WEIR_TRACE");
    return weir__limit_settle(pool, options.limit, &pool->limit_bytes);
}
