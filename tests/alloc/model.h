/* SPDX-License-Identifier: Apache-2.0 */
/* A slow model of the pool and of the machine under it, of plain arrays, that is obviously right. It stands between the
 * library and the driver, sees every call that orders work, moves pages or submits work, and keeps for every 512 bytes of
 * every physical page who has them and up to where each stream may still use them.
 *
 * Words. lane: a stream, as long as anything of it may be unknown; numbers are used again once the host knows all of it.
 * position: how much work has been queued on a lane. clock: a position for each lane: what is known to come before. A use
 * (lane, position) is over for a stream whose clock has reached it, and for the host when the host's has.
 *
 * What it finds wrong, at the call that does it:
 *   a block handed out over bytes of a live one, over addresses without pages, or before a use of them is over for its stream
 *   a block taken back that nobody freed, or whose noted or freeing streams are not named
 *   addresses unmapped under a live block, or before each use through them is over for the host; a registered page that moves
 * and in the pool's statistics, by model_compare.
 *
 * One pool at a time. Threads: those of the virtual clock, which run one at a time; no lock is taken. */
#ifndef WEIR_TESTS_ALLOC_MODEL_H
#define WEIR_TESTS_ALLOC_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

enum { MODEL_LANES = 32 };

/* From here on all that is wrong is told to `on_fault`, which does not return. */
void model_begin(struct weir_device *device, void (*on_fault)(const char *text));
/* Needs: no pool. Finds pages that were not given back. */
void model_end(void);
void model_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* What the program promises or learns; before the call of the pool, but for `allocated`. */
void model_allocated(const void *block, size_t requested_bytes, bool alone); /* alone: exportable */
void model_will_free(const void *block, weir_stream stream);
void model_will_free_after(const void *block, weir_event event);
void model_will_resize(const void *block, size_t requested_bytes, weir_stream stream);
void model_resized(const void *block, size_t requested_bytes); /* after the call, when it did */
void model_will_note(const void *block, weir_stream stream);
/* A range keeps its pages from now on, or so no more; after the call. */
void model_registered(const void *address, size_t bytes, bool registered);
/* A host function has freed it: it is in demand no longer, though the pool hears of it at its next call. */
void model_is_given(const void *block);
/* The driver's order calls of this thread are the program's own, and not counted as the pool's. */
void model_own_calls(bool own);

/* Whether a block begins there. */
bool model_has_block(const void *address);
/* Lanes that a new stream may get. Host synchronisation gives more. */
unsigned model_free_lanes(void);

/* Around a request. Out of memory is justified as its answer when the pages in demand exceed what there is: those that hold a
 * byte that is live and was not freed in a host function, or are registered, those asked for here, and those that other threads
 * ask for. */
struct model_request {
    size_t pages, most; /* asked for; the most that was in demand meanwhile */
    size_t last;        /* in demand when it was answered, as if no other thread asked for any */
    struct model_request *next;
};
void model_request_begin(struct model_request *request, size_t bytes);
void model_request_end(struct model_request *request);

struct model_state {
    size_t live_bytes, requested_bytes, peak_live_bytes, peak_requested_bytes;
    size_t held_bytes, peak_held_bytes; /* of pages that the driver has given */
    size_t live_pages,
        wanted_pages; /* physical ones with a live byte, or registered; but for what host functions have freed */
    uint64_t live_blocks, allocs, frees, memory_calls, order_calls;
};
/* Blocks of no bytes are not seen: the program adds its own. */
struct model_state model_now(void);
void model_reset_peaks(void);
/* Compares all that is known with what the pool says. Needs: no call in flight. `refusals`: as counted by the program;
 * `empty`: live blocks of no bytes, `empty_allocs`, `empty_frees`: so far. */
struct model_empty {
    uint64_t live, allocs, frees;
};
void model_compare(struct weir_pool *pool, uint64_t refusals, struct model_empty empty);

#endif
