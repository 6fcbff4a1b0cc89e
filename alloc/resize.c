/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks that grow and shrink where they are. */
#include "alloc/history.h"
#include "alloc/pool.h"
#include "alloc/trace.h"

/* For a trace the block was freed and allocated anew, on the stream that the call names; its accounts are that stream's. The block
 * is in no account. */
static void begin_anew(struct weir_pool *pool, struct weir__extent *block, size_t bytes, uint32_t slot,
                       weir_stream stream) {
    weir__trace_free(pool->trace, block->number, stream, block->home == slot);
    weir__history_block(pool, WEIR__PAST_FREE, block);
    block->home = slot;
    block->requested_bytes = bytes;
    block->number = ++pool->blocks_numbered;
    weir__account_live(pool, block);
    weir__trace_alloc(pool->trace, block->number, bytes, stream);
    weir__history_block(pool, WEIR__PAST_ALLOC, block);
}

/* Where no inner address can be found for want of host memory, the next question begins the table anew. */
static void find_inside_anew(struct weir_pool *pool, struct weir__extent *block) {
    if (!weir__inside_add(&pool->inside, block)) weir__inside_end(&pool->inside);
}

/* ---- less ------------------------------------------------------------------------------------------------------- */

static enum weir_status no_tags(void) {
    return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for an extent's tags");
}

/* Cuts a block after `keep` bytes. Gives: the back, with room for one more tag; NULL without host memory, nothing has changed. */
static struct weir__extent *cut(struct weir_pool *pool, struct weir__extent *block, size_t keep) {
    if (!weir__extent_reserve(&pool->store, 1) || !weir__extent_tag_reserve(block, 2 * block->tag_count + 2))
        return NULL;
    struct weir__extent *back = weir__extent_split(&pool->store, block, keep);
    if (back == NULL) return NULL;
    if (weir__extent_tag_reserve(back, back->tag_count + 2)) return back;
    weir__extent_merge(&pool->store, block, back); /* there is room for the tags */
    return NULL;
}

/* The last bytes of what a block keeps may be cut off too: unused after its noted uses and what is queued on `slot`, both up to now
 * (extent.h). Needs: room for a tag. */
static void mark_cut_off(struct weir_pool *pool, struct weir__extent *block, uint32_t slot) {
    weir__order_tag_notes(&pool->order, block);
    weir__extent_tag_add(block, weir__order_tag(&pool->order, slot, 0));
}

static enum weir_status shrink(struct weir_pool *pool, struct weir__extent *block, size_t rounded, size_t bytes,
                               uint32_t slot, weir_stream stream) {
    const bool keeps_some = bytes < block->requested_bytes && bytes < rounded;
    struct weir__extent *back = NULL;
    if (keeps_some && !weir__extent_tag_reserve(block, block->tag_count + 2))
        return no_tags(); /* one more at its free */
    if (rounded < block->bytes) {
        weir__inside_remove(&pool->inside, block);
        weir__account_dead(pool, block);
        back = cut(pool, block, rounded);
        if (back == NULL) weir__account_live(pool, block);
        find_inside_anew(pool, block);
        if (back == NULL) return no_tags();
    } else {
        weir__account_dead(pool, block);
    }
    if (keeps_some) mark_cut_off(pool, block, slot);
    begin_anew(pool, block, bytes, slot, stream);
    if (back == NULL) return WEIR_OK;
    weir__own(pool, back);
    weir__tell_taken_back(pool, back, slot, NULL);
    weir__put_tags(pool, back, slot);
    pool->policy->release(pool, back);
    pool->policy->after_release(pool, slot);
    return WEIR_OK;
}

/* ---- bytes that were cut off before ------------------------------------------------------------------------------ */

/* With the lock let go meanwhile. */
static bool is_still(const struct weir_pool *pool, uintptr_t start, const struct weir__extent *block, uint64_t number) {
    return weir__table_get(&pool->blocks, start) == block && block->number == number && !weir__front_has(block);
}

static enum weir_status gone_meanwhile(uintptr_t start) {
    return WEIR__INVALID("weir_pool_resize: %p was freed or resized meanwhile", (void *)start);
}

/* (unlocks) They lie in the block still, and may be in use: the stream waits for that.
 * Gives: WEIR_NOT_READY when it can't be waited for before a capture has ended. */
static enum weir_status wait_for_cut_off(struct weir_pool *pool, const struct weir__extent *block, uint32_t slot) {
    const uintptr_t start = block->address;
    const uint64_t number = block->number;
    enum weir_status status = WEIR_OK;
    const struct weir__tag *tag;
    bool waited = false;
    if (!weir__order_extent_is_ordered(&pool->order, slot, block))
        weir__order_look(&pool->order, block->tags, block->tag_count);
    while (status == WEIR_OK && (tag = weir__order_unordered(&pool->order, slot, block)) != NULL) {
        if (!weir__order_extent_can_be_waited_for(&pool->order, block)) return WEIR_NOT_READY;
        status = weir__order_wait_device(&pool->order, slot, *tag, &waited);
        if (!is_still(pool, start, block, number)) status = gone_meanwhile(start);
    }
    if (waited) weir__account_device_wait(pool, slot);
    return status == WEIR_NOT_SUPPORTED ? WEIR_NOT_READY : status;
}

/* ---- more ------------------------------------------------------------------------------------------------------- */

/* Its step is WEIR__MAP when there is room and memory right behind the block. */
static struct weir__choice look_behind(struct weir_pool *pool, const struct weir__extent *block,
                                       const struct weir__request *request) {
    const struct weir__choice none = {.step = WEIR__GIVE_UP};
    if (!weir__limit_has_room(pool, request->bytes)) return none;
    weir__fronts_drain(pool); /* what is behind may be kept */
    return weir__ladder_behind(pool, request, block);
}

/* (unlocks) A used extent right behind the block. Gives: WEIR_NOT_READY when there is no room or no memory for it. */
static enum weir_status take_behind(struct weir_pool *pool, const struct weir__extent *block,
                                    struct weir__request *request, struct weir__extent **out) {
    const struct weir__choice choice = look_behind(pool, block, request);
    if (choice.step != WEIR__MAP) return WEIR_NOT_READY;
    const enum weir_status status = weir__move(pool, request, &choice, out);
    return status == WEIR_OUT_OF_MEMORY ? WEIR_NOT_READY : status;
}

static enum weir_status grow(struct weir_pool *pool, struct weir__extent *block, size_t rounded, size_t bytes,
                             uint32_t slot, weir_stream stream) {
    struct weir__request request = {.bytes = rounded - block->bytes,
                                    .requested_bytes = 0,
                                    .alignment = WEIR__ALIGNMENT,
                                    .slot = slot,
                                    .wait_limit_ns = pool->wait_limit_ns,
                                    .most_created = SIZE_MAX,
                                    .most_mapped = SIZE_MAX};
    const uintptr_t start = block->address;
    const uint64_t number = block->number;
    struct weir__extent *behind = NULL;
    enum weir_status status = WEIR_OK;
    if (!weir__order_extent_is_ordered(&pool->order, slot, block)) /* nothing is held back for what can't be had */
        status =
            look_behind(pool, block, &request).step == WEIR__MAP ? wait_for_cut_off(pool, block, slot) : WEIR_NOT_READY;
    if (status == WEIR_OK) status = take_behind(pool, block, &request, &behind);
    if (status != WEIR_OK) return status;
    weir__account_dead(pool, behind);
    if (!is_still(pool, start, block, number)) {
        weir__put_tags(pool, behind, slot);
        pool->policy->release(pool, behind);
        return gone_meanwhile(start);
    }
    weir__tell_handed_out(pool, behind, stream);
    weir__inside_remove(&pool->inside, block);
    weir__account_dead(pool, block);
    weir__extent_merge(&pool->store, block, behind); /* no tags: can't fail */
    weir__own(pool, block);
    find_inside_anew(pool, block);
    begin_anew(pool, block, bytes, slot, stream);
    return WEIR_OK;
}

/* ---- public ----------------------------------------------------------------------------------------------------- */

/* Under the policy per-stream, and of no bytes, blocks stay as large as they are. */
static enum weir_status resize(struct weir_pool *pool, struct weir__extent *block, size_t bytes, uint32_t slot,
                               weir_stream stream) {
    if (bytes > SIZE_MAX / 4) return WEIR_NOT_READY;
    const size_t rounded =
        bytes <= WEIR__ALIGNMENT ? WEIR__ALIGNMENT : (bytes + WEIR__ALIGNMENT - 1) & ~(WEIR__ALIGNMENT - 1);
    const bool rigid = pool->policy->name == WEIR_POLICY_PER_STREAM || block->bytes == 0 || block->alone;
    if (rigid && (bytes > block->bytes || slot != block->home)) return WEIR_NOT_READY;
    if (block->number == 0)
        block->number = ++pool->blocks_numbered; /* a front's: it tells the block from a later one there */
    if (rounded > block->bytes && !rigid) return grow(pool, block, rounded, bytes, slot, stream);
    const enum weir_status status = bytes > block->requested_bytes ? wait_for_cut_off(pool, block, slot) : WEIR_OK;
    return status == WEIR_OK ? shrink(pool, block, rigid ? block->bytes : rounded, bytes, slot, stream) : status;
}

enum weir_status weir_pool_resize(struct weir_pool *pool, void *block, size_t bytes, weir_stream stream) {
    const char *call = "weir_pool_resize";
    enum weir_status status = weir__pool_usable(pool, call);
    if (status == WEIR_OK) status = weir__check_stream(call, stream);
    if (status != WEIR_OK) return status;
    if (weir__in_host_function())
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL, "%s can't be called inside a host function", call);
    if (weir__capture_home(pool, block)->is_graph || weir__is_captured(stream))
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL, "%s: a graph's block stays as it is", call);
    struct weir__extent *extent;
    uint32_t slot = WEIR__SLOT_NONE;
    weir__pool_begin(pool);
    status = weir__named_slot(pool, call, stream, &slot);
    if (status == WEIR_OK) status = weir__block_at(pool, call, block, &extent);
    if (status == WEIR_OK) {
        weir__order_hold(&pool->order, slot);
        status = resize(pool, extent, bytes, slot, stream);
        weir__order_let_go(&pool->order, slot);
    }
    weir__charge(pool, slot);
    weir__pool_end(pool);
    return weir__explain(pool, call, block, status);
}
