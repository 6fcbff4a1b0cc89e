/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses that keep their pages: what is registered with a network or another library, which remembers where it lies.
 *
 * registered  a range of addresses inside a block that was live then, until it is unregistered as often as it was registered
 * fixed       an idle extent that touches a registered page: blocks are cut from it as from any other, but its pages are
 *             neither moved nor given back. Its neighbours that are not fixed stay apart from it
 *
 * Everything needs the pool's lock. */
#ifndef WEIR_ALLOC_REGISTERED_H
#define WEIR_ALLOC_REGISTERED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir_pool;
struct weir__extent;

struct weir__registered {
    struct weir__registration *first;
    uint32_t *counts; /* shared pool: by place, from the first registration on */
};

/* True when a page that an extent touches is registered. Any policy. */
bool weir__is_fixed(const struct weir_pool *pool, const struct weir__extent *extent);
/* Makes an extent that is in no index idle, as weir__settle_idle: apart what is registered of it and what is not. False
 * without host memory: all of it is fixed. */
bool weir__settle_by_registration(struct weir_pool *pool, struct weir__extent *extent);
void weir__registered_clear(struct weir_pool *pool);

#endif
