/* SPDX-License-Identifier: Apache-2.0 */
/* Changes that need the driver: claimed under the lock, made without it, committed or rolled back under it. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "alloc/pool.h"

/* One claim. Pages in `pages` lie in the order in which they fill the window's bare pages. */
struct move {
    struct weir__request *request;
    const struct weir__choice *choice;
    struct weir__extent *first, *last; /* the claimed pieces around and of the window, neighbours */
    struct weir__donation *donations;  /* extents are claimed ones */
    size_t donation_count, donations_unmapped;
    weir__page *pages;
    size_t page_count; /* in hand: spare ones, then created, then those of unmapped donors */
};

static enum weir_status no_host_memory(void) {
    return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for the pool's own tables");
}

/* ---- claim and its two ends ------------------------------------------------------------------------------------- */

void weir__claim_begin(struct weir_pool *pool) { pool->in_flight++; }

void weir__claim_end(struct weir_pool *pool) {
    pool->in_flight--;
    pthread_cond_broadcast(&pool->changed);
}

static void mark_moving(struct weir_pool *pool, struct weir__extent *extent) {
    extent->was = extent->state;
    extent->state = WEIR__MOVING;
    if (extent->was == WEIR__IDLE) pool->moving_bytes += extent->bytes;
}

static void unclaim(struct weir_pool *pool, struct weir__extent *extent) {
    assert(extent->state == WEIR__MOVING);
    if (extent->was == WEIR__IDLE) {
        pool->moving_bytes -= extent->bytes;
        weir__settle_idle(pool, extent);
    } else {
        weir__settle_bare(pool, extent);
    }
}

static void append_piece(struct move *move, struct weir__extent *piece) {
    if (move->first == NULL) move->first = piece;
    move->last = piece;
}

/* Claims a part of one unused piece; of a bare one whole pages, cut again where the window begins and ends. */
static bool claim_piece(struct weir_pool *pool, struct move *move, struct weir__extent *piece, uintptr_t from,
                        uintptr_t to) {
    bool bare = piece->state == WEIR__BARE;
    uintptr_t begin = bare ? weir__page_floor(&pool->pages, from) : from;
    uintptr_t end = bare ? weir__page_ceil(&pool->pages, to) : to;
    struct weir__extent *claimed = weir__carve(pool, piece, begin, end - begin);
    if (claimed == NULL) return false;
    mark_moving(pool, claimed);
    append_piece(move, claimed);
    if (begin < from) {
        claimed = weir__extent_split(&pool->store, claimed, from - begin);
        append_piece(move, claimed); /* bare: no tags, so the split can't fail */
    }
    if (to < end) append_piece(move, weir__extent_split(&pool->store, claimed, to - from));
    return true;
}

static bool claim_window(struct weir_pool *pool, struct move *move) {
    const struct weir__window *window = &move->choice->window;
    uintptr_t at = window->begin, end = window->begin + window->bytes;
    struct weir__extent *piece = window->first;
    while (at < end) {
        assert(piece->address <= at && at < weir__extent_end(piece));
        uintptr_t to = weir__extent_end(piece) < end ? weir__extent_end(piece) : end;
        if (!claim_piece(pool, move, piece, at, to)) return false;
        at = to;
        piece = move->last->next;
    }
    return true;
}

static bool claim_donors(struct weir_pool *pool, struct move *move, size_t wanted) {
    size_t found = 0;
    if (wanted == 0) return true;
    size_t count = weir__ladder_donors(pool, wanted, NULL, move->donations, wanted, &found);
    if (found < wanted || !weir__extent_reserve(&pool->store, 2 * count)) return false;
    for (size_t i = 0; i < count; i++) {
        struct weir__donation *donation = &move->donations[i];
        donation->extent = weir__carve(pool, donation->extent, donation->address, donation->pages * pool->granule);
        if (donation->extent == NULL) return false;
        mark_moving(pool, donation->extent);
        move->donation_count++;
    }
    return true;
}

static void roll_back_window(struct weir_pool *pool, struct move *move) {
    struct weir__extent *piece = move->first;
    while (piece != NULL) {
        struct weir__extent *next = piece == move->last ? NULL : piece->next;
        unclaim(pool, piece);
        piece = next;
    }
}

static void roll_back_donors(struct weir_pool *pool, struct move *move) {
    for (size_t i = 0; i < move->donation_count; i++) {
        struct weir__extent *extent = move->donations[i].extent;
        if (i < move->donations_unmapped) { /* its pages are in hand */
            pool->moving_bytes -= extent->bytes;
            pool->unmapped_bytes += extent->bytes;
            weir__settle_bare(pool, extent);
        } else {
            unclaim(pool, extent);
        }
    }
}

static enum weir_status claim_extents(struct weir_pool *pool, struct move *move) {
    const struct weir__choice *choice = move->choice;
    size_t lacking = choice->window.lacking, wanted = lacking - choice->spare - choice->created;
    move->pages = calloc(lacking > 0 ? lacking : 1, sizeof *move->pages);
    move->donations = calloc(wanted > 0 ? wanted : 1, sizeof *move->donations);
    if (move->pages == NULL || move->donations == NULL || !weir__extent_reserve(&pool->store, 4))
        return no_host_memory();
    if (!claim_window(pool, move) || !claim_donors(pool, move, wanted)) {
        roll_back_window(pool, move);
        roll_back_donors(pool, move);
        return no_host_memory();
    }
    weir__pages_take_spare(&pool->pages, choice->spare, move->pages);
    move->page_count = choice->spare;
    pool->pages.held += choice->created;
    pool->unmapped_bytes += choice->created * pool->granule;
    weir__claim_begin(pool);
    return WEIR_OK;
}

/* WEIR_OUT_OF_MEMORY: another pool of the family has taken what the ladder saw. */
static enum weir_status claim(struct weir_pool *pool, struct move *move) {
    const size_t created_bytes = move->choice->created * pool->granule;
    if (!weir__account_hold(pool, created_bytes)) return WEIR_OUT_OF_MEMORY;
    enum weir_status status = claim_extents(pool, move);
    if (status != WEIR_OK) weir__account_unhold(pool, created_bytes);
    return status;
}

/* What is around the block on freshly mapped pages: idle, used by no one yet. */
static void settle_fresh(struct weir_pool *pool, struct weir__extent *piece, uint32_t slot) {
    weir__extent_tags_clear(piece);
    weir__extent_tag_add(piece, (struct weir__tag){.slot = slot, .bytes = piece->bytes});
    piece->home = slot;
    piece->number = ++pool->frees_stamped;
    weir__settle_idle(pool, piece);
}

static struct weir__extent *commit_window(struct weir_pool *pool, struct move *move) {
    uintptr_t begin = move->choice->window.begin, end = begin + move->choice->window.bytes;
    struct weir__extent *block = NULL, *before = NULL, *after = NULL, *piece = move->first;
    for (struct weir__extent *next; piece != NULL; piece = next) {
        next = piece == move->last ? NULL : piece->next;
        if (piece->was == WEIR__IDLE) pool->moving_bytes -= piece->bytes;
        weir__extent_tags_clear(piece);
        if (weir__extent_end(piece) <= begin)
            before = piece;
        else if (piece->address >= end)
            after = piece;
        else if (block == NULL)
            block = piece;
        else
            weir__extent_merge(&pool->store, block, piece); /* no tags: can't fail */
    }
    block->state = WEIR__USED;
    if (before != NULL) settle_fresh(pool, before, move->request->slot);
    if (after != NULL) settle_fresh(pool, after, move->request->slot);
    return block;
}

static struct weir__extent *commit(struct weir_pool *pool, struct move *move) {
    for (size_t i = 0; i < move->donation_count; i++) {
        struct weir__donation *donation = &move->donations[i];
        pool->moving_bytes -= donation->extent->bytes;
        pool->pages_moved += donation->pages;
        pool->order.slots[move->request->slot]->pages_moved += donation->pages;
        weir__settle_bare(pool, donation->extent);
    }
    pool->unmapped_bytes -= (move->choice->spare + move->choice->created) * pool->granule;
    struct weir__extent *block = commit_window(pool, move);
    block->home = move->request->slot;
    block->requested_bytes = move->request->requested_bytes;
    weir__account_live(pool, block);
    weir__claim_end(pool);
    return block;
}

/* ---- the driver's part, without the lock ------------------------------------------------------------------------ */

/* The next run of bare pages in the window after `piece`; .pages 0 at the end. */
static struct weir__donation next_bare_run(const struct weir_pool *pool, const struct move *move,
                                           struct weir__extent *piece) {
    struct weir__donation run = {0};
    for (; piece != NULL; piece = piece == move->last ? NULL : piece->next) {
        bool bare = piece->was == WEIR__BARE;
        if (!bare && run.extent != NULL) break;
        if (!bare) continue;
        if (run.extent == NULL) run.address = piece->address;
        run.extent = piece;
        run.pages = (weir__extent_end(piece) - run.address) / pool->granule;
    }
    return run;
}

static struct weir__extent *piece_after(const struct move *move, struct weir__extent *piece) {
    return piece == move->last ? NULL : piece->next;
}

static enum weir_status unmap_donors(struct weir_pool *pool, struct move *move) {
    for (; move->donations_unmapped < move->donation_count; move->donations_unmapped++) {
        const struct weir__donation *donation = &move->donations[move->donations_unmapped];
        enum weir_status status =
            weir__pages_unmap(&pool->pages, donation->address, donation->pages, move->pages + move->page_count);
        if (status != WEIR_OK) return status;
        move->page_count += donation->pages;
    }
    return WEIR_OK;
}

/* Unmaps what was mapped before a later run failed. */
static enum weir_status unmap_window(struct weir_pool *pool, struct move *move, size_t mapped) {
    struct weir__donation run = next_bare_run(pool, move, move->first);
    for (size_t done = 0; done < mapped; done += run.pages) {
        if (done > 0) run = next_bare_run(pool, move, piece_after(move, run.extent));
        if (weir__pages_unmap(&pool->pages, run.address, run.pages, move->pages + done) != WEIR_OK) return WEIR_BROKEN;
    }
    return WEIR_OK;
}

static enum weir_status map_window(struct weir_pool *pool, struct move *move) {
    size_t done = 0;
    struct weir__donation run = next_bare_run(pool, move, move->first);
    for (; run.pages > 0; run = next_bare_run(pool, move, piece_after(move, run.extent))) {
        size_t mapped = 0;
        enum weir_status status = weir__pages_map(&pool->pages, run.address, run.pages, move->pages + done, &mapped);
        if (status == WEIR_OUT_OF_MEMORY) {
            move->request->most_mapped = done + mapped;
            move->request->map_refusals++;
        }
        if (status != WEIR_OK) return unmap_window(pool, move, done) == WEIR_OK ? status : WEIR_BROKEN;
        done += run.pages;
    }
    assert(done == move->choice->window.lacking);
    return WEIR_OK;
}

static enum weir_status transfer(struct weir_pool *pool, struct move *move) {
    size_t created = 0;
    enum weir_status status =
        weir__pages_create(&pool->pages, move->choice->created, move->pages + move->page_count, &created);
    move->page_count += created;
    if (status == WEIR_OUT_OF_MEMORY) move->request->most_created = created;
    if (status == WEIR_OK) status = unmap_donors(pool, move);
    if (status == WEIR_OK) status = map_window(pool, move);
    return status;
}

/* ---- failure ---------------------------------------------------------------------------------------------------- */

static bool is_stuck(const struct weir_pool *pool, const struct move *move) {
    for (struct weir__donation run = next_bare_run(pool, move, move->first); run.pages > 0;
         run = next_bare_run(pool, move, piece_after(move, run.extent)))
        for (size_t i = 0; i < run.pages; i++)
            if (*weir__page_at(&pool->pages, run.address + i * pool->granule) != 0) return true;
    return false;
}

/* The driver would neither use pages nor unmap them. They stay where they are, claimed for ever and counted as moving;
 * the window's addresses are given up. */
static void keep_stuck(struct weir_pool *pool, struct move *move) {
    size_t page = 0, loose = 0;
    for (struct weir__donation run = next_bare_run(pool, move, move->first); run.pages > 0;
         run = next_bare_run(pool, move, piece_after(move, run.extent)))
        for (size_t i = 0; i < run.pages; i++, page++) {
            if (*weir__page_at(&pool->pages, run.address + i * pool->granule) == 0)
                move->pages[loose++] = move->pages[page];
        }
    size_t stuck_bytes = (move->page_count - loose) * pool->granule;
    pool->stuck_bytes += stuck_bytes;
    pool->moving_bytes += stuck_bytes;
    pool->unmapped_bytes -= stuck_bytes;
    move->page_count = loose;
    for (struct weir__extent *piece = move->first, *next; piece != NULL; piece = next) {
        next = piece_after(move, piece);
        if (piece->was == WEIR__IDLE) unclaim(pool, piece);
    }
}

/* Gives created pages back to the driver, so that held is as it was; what it does not take stays spare. */
static void release_created(struct weir_pool *pool, struct move *move) {
    size_t spare = move->choice->spare;
    size_t created = move->page_count > spare ? move->page_count - spare : 0;
    if (created > move->choice->created) created = move->choice->created;
    pthread_mutex_unlock(&pool->lock);
    size_t released = weir__pages_release(&pool->pages, move->pages + spare, created);
    pthread_mutex_lock(&pool->lock);
    for (size_t i = spare + released; i < move->page_count; i++) move->pages[i - released] = move->pages[i];
    move->page_count -= released;
    size_t gone = move->choice->created - (created - released);
    pool->pages.held -= gone;
    weir__account_unhold(pool, gone * pool->granule);
    pool->unmapped_bytes -= gone * pool->granule;
}

static void roll_back(struct weir_pool *pool, struct move *move) {
    roll_back_donors(pool, move);
    if (is_stuck(pool, move)) {
        keep_stuck(pool, move);
    } else {
        release_created(pool, move);
        roll_back_window(pool, move);
    }
    weir__pages_give_spare(&pool->pages, move->pages, move->page_count);
    weir__claim_end(pool);
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static bool first_unordered(const struct weir_pool *pool, const struct move *move, struct weir__tag *tag) {
    for (struct weir__extent *piece = move->first; piece != NULL; piece = piece_after(move, piece))
        for (uint32_t i = 0; i < piece->tag_count; i++)
            if (!weir__order_is_ordered(&pool->order, move->request->slot, piece->tags[i])) {
                *tag = piece->tags[i];
                return true;
            }
    return false;
}

/* Makes the asking stream wait for every tag of the claimed idle pieces. */
static enum weir_status order_window(struct weir_pool *pool, const struct move *move) {
    enum weir_status status = WEIR_OK;
    struct weir__tag tag;
    bool waited = false;
    while (status == WEIR_OK && first_unordered(pool, move, &tag))
        status = weir__order_wait_device(&pool->order, move->request->slot, tag, &waited);
    if (waited) {
        pool->device_waits++;
        pool->order.slots[move->request->slot]->device_waits++;
    }
    return status;
}

enum weir_status weir__move(struct weir_pool *pool, struct weir__request *request, const struct weir__choice *choice,
                            struct weir__extent **out) {
    struct move move = {.request = request, .choice = choice};
    enum weir_status status = claim(pool, &move);
    if (status == WEIR_OK) {
        status = order_window(pool, &move);
        if (status == WEIR_OK && choice->window.lacking > 0) {
            pthread_mutex_unlock(&pool->lock);
            status = transfer(pool, &move);
            pthread_mutex_lock(&pool->lock);
        }
        if (status == WEIR_OK)
            *out = commit(pool, &move);
        else
            roll_back(pool, &move);
    }
    free(move.pages);
    free(move.donations);
    return status == WEIR_BROKEN ? WEIR_DRIVER : status;
}

bool weir__wait_for_claims(struct weir_pool *pool, uint64_t deadline_ns) {
    if (weir__device_takes_turns(pool->device)) { /* the call that is waited for goes on while this thread pauses */
        pthread_mutex_unlock(&pool->lock);
        weir__device_pause(pool->device, WEIR__TURN_NS);
        pthread_mutex_lock(&pool->lock);
        return weir__device_now_ns(pool->device) < deadline_ns;
    }
    struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                             .tv_nsec = (long)(deadline_ns % 1000000000u)};
    return pthread_cond_timedwait(&pool->changed, &pool->lock, &until) != ETIMEDOUT;
}

/* ---- giving back ------------------------------------------------------------------------------------------------ */

static size_t give_spare_back(struct weir_pool *pool, size_t wanted) {
    size_t count = wanted < pool->pages.spare_count ? wanted : pool->pages.spare_count;
    weir__page *pages = calloc(count > 0 ? count : 1, sizeof *pages);
    if (pages == NULL) return 0;
    weir__pages_take_spare(&pool->pages, count, pages);
    weir__claim_begin(pool);
    pthread_mutex_unlock(&pool->lock);
    size_t released = weir__pages_release(&pool->pages, pages, count);
    pthread_mutex_lock(&pool->lock);
    weir__pages_give_spare(&pool->pages, pages + released, count - released);
    pool->pages.held -= released;
    weir__account_unhold(pool, released * pool->granule);
    pool->unmapped_bytes -= released * pool->granule;
    weir__claim_end(pool);
    free(pages);
    return released;
}

/* Unmaps donors for `wanted` pages, which become spare. */
static enum weir_status make_spare(struct weir_pool *pool, size_t wanted) {
    struct weir__choice choice = {.window = {.lacking = wanted}};
    struct move move = {.choice = &choice};
    size_t found = 0;
    weir__ladder_donors(pool, wanted, NULL, NULL, 0, &found);
    if (found == 0) return WEIR_OK;
    move.pages = calloc(found, sizeof *move.pages);
    move.donations = calloc(found, sizeof *move.donations);
    enum weir_status status = WEIR_OK;
    if (move.pages == NULL || move.donations == NULL || !claim_donors(pool, &move, found)) status = no_host_memory();
    weir__claim_begin(pool);
    if (status == WEIR_OK) {
        pthread_mutex_unlock(&pool->lock);
        status = unmap_donors(pool, &move);
        pthread_mutex_lock(&pool->lock);
    }
    roll_back_donors(pool, &move);
    weir__pages_give_spare(&pool->pages, move.pages, move.page_count);
    weir__claim_end(pool);
    free(move.pages);
    free(move.donations);
    return status;
}

enum weir_status weir__give_back(struct weir_pool *pool, size_t pages, size_t *done) {
    enum weir_status status = WEIR_OK;
    weir__order_poll_streams(&pool->order);
    if (pool->pages.spare_count < pages) status = make_spare(pool, pages - pool->pages.spare_count);
    *done = give_spare_back(pool, pages);
    return status;
}
