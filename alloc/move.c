/* SPDX-License-Identifier: Apache-2.0 */
/* Changes that need the driver: claimed under the lock, made without it, committed or rolled back under it. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "alloc/history.h"
#include "alloc/pool.h"

/* Places [place, place + count) of the arena. */
struct places {
    uint32_t place, count;
};

/* One claim. Pages in `pages` lie in the order in which they fill the places that lack one. */
struct move {
    struct weir__request *request;
    const struct weir__choice *choice;
    struct weir__extent *first, *last; /* the claimed pieces around and of the window, neighbours */
    struct weir__donation *donations;  /* extents are claimed ones; what comes back first, then what is to be mapped */
    size_t donation_count, returning;
    struct places *lacks;
    size_t lack_count, lacking;
    struct weir__extent **victims; /* stale ones, claimed, of which the old mappings go */
    size_t victim_count;
    bool unmaps_donors; /* the driver maps no more places than there are */
    weir__page *pages;
    uint64_t ns;       /* that unmapping and mapping took */
    size_t page_count; /* in hand: spare ones, then created, then those of donors */
};

static enum weir_status no_host_memory(void) {
    return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for the pool's own tables");
}

/* ---- claim and its two ends ------------------------------------------------------------------------------------- */

void weir__claim_begin(struct weir_pool *pool) { pool->in_flight++; }

void weir__claim_end(struct weir_pool *pool) {
    pool->in_flight--;
    pool->waiters.changes++;
    pthread_cond_broadcast(&pool->changed);
}

void weir__mark_moving(struct weir_pool *pool, struct weir__extent *extent) {
    extent->was = extent->state;
    extent->state = WEIR__MOVING;
    if (extent->was == WEIR__IDLE) pool->moving_bytes += extent->bytes;
    weir__own(pool, extent);
}

void weir__unclaim(struct weir_pool *pool, struct weir__extent *extent) {
    assert(extent->state == WEIR__MOVING);
    if (extent->was == WEIR__IDLE) {
        pool->moving_bytes -= extent->bytes;
        weir__settle_idle(pool, extent);
    } else {
        weir__settle_bare(pool, extent);
    }
}

static struct weir__extent *piece_after(const struct move *move, const struct weir__extent *piece) {
    return piece == move->last ? NULL : piece->next;
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
    weir__mark_moving(pool, claimed);
    append_piece(move, claimed);
    if (begin < from) {
        claimed = weir__extent_split(&pool->store, claimed, from - begin);
        if (claimed == NULL) return false;
        append_piece(move, claimed);
    }
    if (to < end) {
        claimed = weir__extent_split(&pool->store, claimed, to - from);
        if (claimed == NULL) return false;
        append_piece(move, claimed);
    }
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
        while (weir__extent_end(move->last) < at) move->last = move->last->next;
        piece = move->last->next;
    }
    return true;
}

static bool claim_donation(struct weir_pool *pool, struct move *move, struct weir__extent *from, uintptr_t address,
                           size_t pages) {
    if (!weir__extent_reserve(&pool->store, 2)) return false;
    struct weir__extent *extent = weir__carve(pool, from, address, pages * pool->granule);
    if (extent == NULL) return false;
    weir__mark_moving(pool, extent);
    move->donations[move->donation_count++] =
        (struct weir__donation){.extent = extent, .address = address, .pages = pages};
    return true;
}

/* Claims the homes [place, place + count) of pages that come back to the window. */
static bool claim_returning(struct weir_pool *pool, struct move *move, struct places homes) {
    if (homes.count == 0) return true;
    return claim_donation(pool, move, pool->pages.extent_at[homes.place],
                          weir__place_address(&pool->pages, homes.place), homes.count);
}

static void add_lack(struct move *move, uint32_t place) {
    struct places *last = move->lack_count > 0 ? &move->lacks[move->lack_count - 1] : NULL;
    move->lacking++;
    if (last != NULL && last->place + last->count == place)
        last->count++;
    else
        move->lacks[move->lack_count++] = (struct places){.place = place, .count = 1};
}

/* Goes through the places of the window's bare pieces: pages that come back, as the window was measured, and places that lack one. */
static bool claim_places(struct weir_pool *pool, struct move *move) {
    const struct weir__asker asker = {.order = &pool->order, .slot = move->request->slot};
    const struct weir__ground ground = weir__ladder_ground(pool, &asker, move->choice->use);
    const uintptr_t begin = move->choice->window.begin, end = begin + move->choice->window.bytes;
    struct places homes = {0};
    uint32_t next = 0;
    pool->round++;
    for (const struct weir__extent *piece = move->first; piece != NULL; piece = piece_after(move, piece)) {
        if (piece->was != WEIR__BARE) continue;
        uint32_t place = weir__place_of(&pool->pages, piece->address);
        const uint32_t behind = weir__place_of(&pool->pages, weir__page_ceil(&pool->pages, weir__extent_end(piece)));
        for (place = place > next ? place : next; place < behind; place++) {
            if (!piece->stale || !weir__place_returns(&ground, place, begin, end)) {
                add_lack(move, place);
                continue;
            }
            const uint32_t home = pool->pages.home[weir__page_at(&pool->pages, place)];
            if (homes.count > 0 && home == homes.place + homes.count &&
                pool->pages.extent_at[home] == pool->pages.extent_at[homes.place]) {
                homes.count++;
                continue;
            }
            if (!claim_returning(pool, move, homes)) return false;
            homes = (struct places){.place = home, .count = 1};
        }
        next = behind;
    }
    if (!claim_returning(pool, move, homes)) return false;
    move->returning = move->donation_count;
    return true;
}

/* In parts that are unmapped as a whole or not at all. */
static bool claim_offer(struct weir_pool *pool, struct move *move, const struct weir__donation *offer) {
    for (size_t at = 0; at < offer->pages; at += WEIR__LONGEST_UNMAP) {
        const size_t left = offer->pages - at, pages = left < WEIR__LONGEST_UNMAP ? left : WEIR__LONGEST_UNMAP;
        const uintptr_t address = offer->address + at * pool->granule;
        if (!claim_donation(pool, move, pool->pages.extent_at[weir__place_of(&pool->pages, address)], address, pages))
            return false;
    }
    return true;
}

/* Donors for `wanted` pages: what the host has seen complete first, since its old mappings may go at any time. */
static bool claim_donors(struct weir_pool *pool, struct move *move, size_t wanted) {
    const struct weir__asker asker = {.order = &pool->order, .slot = move->request->slot};
    for (enum weir__use use = WEIR__USE_COMPLETE; use <= move->choice->use && wanted > 0; use++) {
        struct weir__donation *offers = calloc(wanted, sizeof *offers);
        if (offers == NULL) return false;
        size_t found = 0,
               count = weir__ladder_donors(pool, &asker, (enum weir__use)use, wanted, offers, wanted, &found);
        bool claimed = true;
        for (size_t i = 0; i < count && claimed; i++) claimed = claim_offer(pool, move, &offers[i]);
        free(offers);
        if (!claimed) return false;
        wanted -= found;
    }
    return wanted == 0;
}

/* Claims stale extents whose old mappings go, so that no more places are mapped than may be. */
static void claim_victims(struct weir_pool *pool, struct move *move) {
    const size_t most_at_all = pool->pages.limit * WEIR__MAPPED_TIMES;
    const size_t most = move->request->most_mapped < most_at_all ? move->request->most_mapped : most_at_all;
    size_t mapped =
        __atomic_load_n(&pool->pages.mapped, __ATOMIC_RELAXED) + move->lacking - move->choice->window.unmapped;
    struct weir__extent *next;
    for (struct weir__extent *stale = pool->stale.oldest; stale != NULL && mapped > most; stale = next) {
        next = stale->newer;
        if (!weir__order_extent_is_complete(&pool->order, stale) || move->victim_count == move->lacking) continue;
        const uint32_t place = weir__place_of(&pool->pages, stale->address);
        const size_t count = stale->bytes / pool->granule;
        for (size_t i = 0; i < count; i++) mapped -= weir__page_at(&pool->pages, place + i) != 0;
        weir__unused_remove(pool, stale);
        weir__mark_moving(pool, stale);
        move->victims[move->victim_count++] = stale;
    }
    move->unmaps_donors = mapped > most;
}

static void roll_back_window(struct weir_pool *pool, struct move *move) {
    for (struct weir__extent *piece = move->first, *next; piece != NULL; piece = next) {
        while (piece->was == WEIR__BARE && piece != move->last &&
               weir__extent_end(piece) % pool->granule != 0) { /* a page that was cut for the window is one again */
            struct weir__extent *rest = piece->next;
            if (rest == move->last) move->last = piece;
            weir__extent_tags_clear(rest);
            weir__extent_merge(&pool->store, piece, rest);
        }
        next = piece_after(move, piece);
        weir__own(pool, piece);
        weir__unclaim(pool, piece);
    }
}

static void roll_back_donors(struct weir_pool *pool, struct move *move) {
    for (size_t i = 0; i < move->donation_count; i++)
        if (move->donations[i].extent->was == WEIR__IDLE) weir__unclaim(pool, move->donations[i].extent);
}

static void settle_victims(struct weir_pool *pool, struct move *move, bool unmapped) {
    for (size_t i = 0; i < move->victim_count; i++) {
        move->victims[i]->stale = !unmapped;
        weir__unclaim(pool, move->victims[i]);
    }
}

static size_t places_of(const struct weir_pool *pool, const struct weir__window *window) {
    return (weir__page_ceil(&pool->pages, window->begin + window->bytes) -
            weir__page_floor(&pool->pages, window->begin)) /
           pool->granule;
}

static bool make_room(const struct weir_pool *pool, struct move *move) {
    const size_t places = places_of(pool, &move->choice->window);
    move->pages = malloc(places * sizeof *move->pages);
    move->donations = malloc(2 * places * sizeof *move->donations);
    move->lacks = malloc(places * sizeof *move->lacks);
    move->victims = malloc(places * sizeof(struct weir__extent *));
    return move->pages != NULL && move->donations != NULL && move->lacks != NULL && move->victims != NULL;
}

static void free_room(struct move *move) {
    free(move->pages);
    free(move->donations);
    free(move->lacks);
    free(move->victims);
}

static enum weir_status claim_extents(struct weir_pool *pool, struct move *move) {
    const struct weir__choice *choice = move->choice;
    if (!make_room(pool, move) || !weir__extent_reserve(&pool->store, 6)) return no_host_memory();
    const size_t given = choice->spare + choice->created;
    if (!claim_window(pool, move) || !claim_places(pool, move) || move->lacking < given ||
        !claim_donors(pool, move, move->lacking - given)) {
        roll_back_window(pool, move);
        roll_back_donors(pool, move);
        return no_host_memory();
    }
    assert(move->lacking == choice->window.lacking);
    if (move->lacking > 0) claim_victims(pool, move);
    weir__pages_take_spare(&pool->pages, choice->spare, move->pages);
    weir__pages_name(&pool->pages, choice->created, move->pages + choice->spare);
    move->page_count = choice->spare;
    pool->pages.held += choice->created;
    pool->unmapped_bytes += choice->created * pool->granule;
    weir__claim_begin(pool);
    return WEIR_OK;
}

/* WEIR_NOT_READY: another pool of the family has taken what the ladder saw. */
static enum weir_status claim(struct weir_pool *pool, struct move *move) {
    const size_t created_bytes = move->choice->created * pool->granule;
    if (!weir__account_hold(pool, created_bytes)) return WEIR_NOT_READY;
    enum weir_status status = claim_extents(pool, move);
    if (status != WEIR_OK) weir__account_unhold(pool, created_bytes);
    return status;
}

static bool all_complete(const struct weir_pool *pool, const struct move *move) {
    for (const struct weir__extent *piece = move->first; piece != NULL; piece = piece_after(move, piece))
        if (piece->was == WEIR__IDLE && !weir__order_extent_is_complete(&pool->order, piece)) return false;
    for (size_t i = 0; i < move->donation_count; i++)
        if (!weir__order_extent_is_complete(&pool->order, move->donations[i].extent)) return false;
    return true;
}

/* What is around the block on pages that it took whole: idle; used before by those that the block's stream runs after now. */
static void settle_rest(struct weir_pool *pool, struct weir__extent *piece, struct weir__tag tag) {
    weir__extent_tags_clear(piece);
    tag.bytes = piece->bytes;
    weir__extent_tag_add(piece, tag);
    piece->home = tag.slot;
    piece->number = weir__stamp(pool);
    piece->stale = false;
    piece->state = WEIR__IDLE;
    weir__own(pool, piece);
    weir__settle_idle(pool, piece);
}

static struct weir__extent *commit_window(struct weir_pool *pool, struct move *move, struct weir__tag tag) {
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
    block->stale = false;
    weir__own(pool, block);
    if (before != NULL) settle_rest(pool, before, tag);
    if (after != NULL) settle_rest(pool, after, tag);
    return block;
}

/* Addresses of the window that have had no page, neighbours as one. */
static void tell_mapped(struct weir_pool *pool, const struct move *move) {
    uintptr_t begin = 0, end = 0;
    for (const struct weir__extent *piece = move->first; piece != NULL; piece = piece_after(move, piece)) {
        if (piece->was != WEIR__BARE) continue;
        if (piece->address != end) {
            weir__history_pages(pool, WEIR__PAST_MAPPED, begin, end - begin);
            begin = piece->address;
        }
        end = weir__extent_end(piece);
    }
    weir__history_pages(pool, WEIR__PAST_MAPPED, begin, end - begin);
}

/* The pages of the window's places are at home there now. */
static void move_homes(struct weir_pool *pool, const struct move *move) {
    struct weir__pages *pages = &pool->pages;
    for (const struct weir__extent *piece = move->first; piece != NULL; piece = piece_after(move, piece)) {
        if (piece->was != WEIR__BARE) continue;
        uint32_t place = weir__place_of(pages, piece->address);
        const uint32_t end = weir__place_of(pages, weir__page_ceil(pages, weir__extent_end(piece)));
        for (; place < end; place++) pages->home[weir__page_at(pages, place)] = place;
    }
}

static struct weir__extent *commit(struct weir_pool *pool, struct move *move) {
    struct weir__tag tag = {.slot = move->request->slot};
    if (!all_complete(pool, move)) tag = weir__order_tag(&pool->order, tag.slot, 0);
    move_homes(pool, move);
    for (size_t i = 0; i < move->donation_count; i++) {
        struct weir__donation *donation = &move->donations[i];
        pool->moving_bytes -= donation->extent->bytes;
        if (i < move->returning) {
            pool->pages_returned += donation->pages;
        } else {
            pool->pages_moved += donation->pages;
            pool->order.slots[move->request->slot]->pages_moved += donation->pages;
        }
        donation->extent->stale = i < move->returning || !move->unmaps_donors;
        donation->extent->was = WEIR__BARE;
        weir__history_pages(pool, WEIR__PAST_UNMAPPED, donation->extent->address, donation->extent->bytes);
        weir__settle_bare(pool, donation->extent);
    }
    settle_victims(pool, move, true);
    if (pool->history != NULL) tell_mapped(pool, move);
    pool->unmapped_bytes -= (move->choice->spare + move->choice->created) * pool->granule;
    struct weir__extent *block = commit_window(pool, move, tag);
    block->home = move->request->slot;
    block->requested_bytes = move->request->requested_bytes;
    weir__account_live(pool, block);
    weir__claim_end(pool);
    return block;
}

/* ---- the driver's part, without the lock ------------------------------------------------------------------------ */

/* Old mappings that are in the way, or too many. */
static enum weir_status unmap_stale(struct weir_pool *pool, const struct move *move) {
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < move->victim_count && status == WEIR_OK; i++)
        status = weir__pages_unmap(&pool->pages, move->victims[i]->address, move->victims[i]->bytes / pool->granule);
    for (size_t i = move->returning; move->unmaps_donors && i < move->donation_count && status == WEIR_OK; i++)
        status = weir__pages_unmap(&pool->pages, move->donations[i].address, move->donations[i].pages);
    for (size_t i = 0; move->choice->window.unmapped > 0 && i < move->lack_count && status == WEIR_OK; i++)
        status = weir__pages_unmap(&pool->pages, weir__place_address(&pool->pages, move->lacks[i].place),
                                   move->lacks[i].count);
    return status;
}

static enum weir_status map_window(struct weir_pool *pool, struct move *move) {
    size_t done = 0;
    for (size_t i = 0; i < move->lack_count; i++) {
        size_t mapped = 0;
        enum weir_status status = weir__pages_map(&pool->pages, weir__place_address(&pool->pages, move->lacks[i].place),
                                                  move->lacks[i].count, move->pages + done, &mapped);
        if (status == WEIR_OUT_OF_MEMORY) {
            move->request->most_mapped = __atomic_load_n(&pool->pages.mapped, __ATOMIC_RELAXED) + mapped;
            move->request->map_refusals++;
        }
        if (status != WEIR_OK) {
            for (size_t k = 0; k < i && status != WEIR_BROKEN; k++)
                if (weir__pages_unmap(&pool->pages, weir__place_address(&pool->pages, move->lacks[k].place),
                                      move->lacks[k].count) != WEIR_OK)
                    status = WEIR_BROKEN;
            return status;
        }
        done += move->lacks[i].count;
    }
    return WEIR_OK;
}

/* What mapping a page takes here, of late. */
static void learn_cost(struct weir_pool *pool, uint64_t ns, size_t pages) {
    const double page_ns = (double)ns / (double)pages;
    pool->page_ns = pool->page_ns == 0 ? page_ns : 0.9 * pool->page_ns + 0.1 * page_ns;
}

/* The donors' pages, in the order in which they are mapped. */
static void take_donors(struct weir_pool *pool, struct move *move) {
    for (size_t i = move->returning; i < move->donation_count; i++) {
        const uint32_t place = weir__place_of(&pool->pages, move->donations[i].address);
        for (size_t k = 0; k < move->donations[i].pages; k++)
            move->pages[move->page_count++] = weir__page_at(&pool->pages, place + k);
    }
}

static enum weir_status transfer(struct weir_pool *pool, struct move *move) {
    size_t created = 0;
    enum weir_status status =
        weir__pages_create(&pool->pages, move->choice->created, move->pages + move->page_count, &created);
    move->page_count += created;
    if (status == WEIR_OUT_OF_MEMORY) move->request->most_created = created;
    if (status != WEIR_OK) return status;
    take_donors(pool, move);
    const uint64_t since_ns = weir__device_now_ns(pool->device);
    status = unmap_stale(pool, move);
    if (status == WEIR_OK) status = map_window(pool, move);
    move->ns = weir__device_now_ns(pool->device) - since_ns;
    return status;
}

/* ---- failure ---------------------------------------------------------------------------------------------------- */

/* True for a page in hand that lies, without rights perhaps, in the window, since the driver would not unmap it. */
static bool is_stuck(const struct weir_pool *pool, const struct move *move, weir__page page) {
    for (size_t i = 0; i < move->lack_count; i++)
        for (uint32_t k = 0; k < move->lacks[i].count; k++)
            if (weir__page_at(&pool->pages, move->lacks[i].place + k) == page) return true;
    return false;
}

/* Gives back what the move took into its hands: created pages to the driver, so that held is as it was; what it does not take,
 * and spare ones, are spare. Pages that are stuck stay claimed for ever and count as moving. Gives: whether any is. */
static bool put_down_pages(struct weir_pool *pool, struct move *move) {
    const size_t own = move->choice->spare + move->choice->created;
    const size_t in_hand = move->page_count < own ? move->page_count : own;
    size_t loose = 0, stuck = 0;
    weir__page *pages = move->pages;
    weir__pages_unname(&pool->pages, pages + in_hand, own - in_hand); /* never created */
    const size_t never = own - in_hand;
    for (size_t i = 0; i < in_hand; i++) {
        if (is_stuck(pool, move, pages[i]))
            stuck++;
        else
            pages[loose++] = pages[i];
    }
    const size_t spare = move->choice->spare < loose ? move->choice->spare : loose;
    pthread_mutex_unlock(&pool->lock);
    const size_t released = weir__pages_release(&pool->pages, pages + spare, loose - spare);
    pthread_mutex_lock(&pool->lock);
    weir__pages_unname(&pool->pages, pages + spare, released);
    weir__pages_give_spare(&pool->pages, pages, spare);
    weir__pages_give_spare(&pool->pages, pages + spare + released, loose - spare - released);
    const size_t gone = never + released;
    pool->pages.held -= gone;
    weir__account_unhold(pool, gone * pool->granule);
    pool->unmapped_bytes -= (gone + stuck) * pool->granule;
    pool->stuck_bytes += stuck * pool->granule;
    pool->moving_bytes += stuck * pool->granule;
    return stuck > 0;
}

/* Donors that were unmapped already are bare, and their pages spare; but one that is stuck in the window stays with it. */
static void put_down_unmapped_donors(struct weir_pool *pool, struct move *move) {
    const weir__page *pages = move->pages + move->choice->spare + move->choice->created;
    for (size_t i = move->returning; i < move->donation_count; i++) {
        const struct weir__donation *donation = &move->donations[i];
        const bool unmapped = weir__page_at(&pool->pages, weir__place_of(&pool->pages, donation->address)) == 0;
        for (size_t k = 0; unmapped && k < donation->pages; k++) {
            const bool stuck = is_stuck(pool, move, pages[k]);
            if (stuck)
                pool->pages.home[pages[k]] = WEIR__NOWHERE;
            else
                weir__pages_give_spare(&pool->pages, &pages[k], 1);
            pool->stuck_bytes += stuck ? pool->granule : 0;
            pool->moving_bytes -= stuck ? 0 : pool->granule;
            pool->unmapped_bytes += stuck ? 0 : pool->granule;
        }
        pages += donation->pages;
        if (!unmapped) continue;
        donation->extent->was = WEIR__BARE;
        weir__history_pages(pool, WEIR__PAST_UNMAPPED, donation->extent->address, donation->extent->bytes);
        weir__settle_bare(pool, donation->extent);
    }
}

static bool has_mapping_left(const struct weir_pool *pool, const struct move *move) {
    for (size_t i = move->page_count; i > 0; i--)
        if (is_stuck(pool, move, move->pages[i - 1])) return true;
    return false;
}

/* The window's addresses can't be used again; what was idle there can. */
static void give_window_up(struct weir_pool *pool, struct move *move) {
    for (struct weir__extent *piece = move->first, *next; piece != NULL; piece = next) {
        next = piece_after(move, piece);
        if (piece->was == WEIR__IDLE) {
            weir__unclaim(pool, piece);
            continue;
        }
        piece->stale = true; /* for ever: pages that are at home elsewhere may be mapped here */
        weir__own(pool, piece);
    }
}

static void roll_back(struct weir_pool *pool, struct move *move, enum weir_status status) {
    const bool broken = status == WEIR_BROKEN && has_mapping_left(pool, move);
    put_down_unmapped_donors(pool, move);
    roll_back_donors(pool, move);
    settle_victims(pool, move, false);
    put_down_pages(pool, move);
    if (broken)
        give_window_up(pool, move);
    else
        roll_back_window(pool, move);
    weir__claim_end(pool);
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static const struct weir__tag *first_unordered(const struct weir_pool *pool, const struct move *move) {
    const uint32_t slot = move->request->slot;
    const struct weir__tag *tag = NULL;
    for (const struct weir__extent *piece = move->first; piece != NULL && tag == NULL; piece = piece_after(move, piece))
        if (piece->was == WEIR__IDLE) tag = weir__order_unordered(&pool->order, slot, piece);
    for (size_t i = 0; i < move->donation_count && tag == NULL; i++)
        tag = weir__order_unordered(&pool->order, slot, move->donations[i].extent);
    return tag;
}

/* Makes the asking stream wait for every tag of the claimed idle pieces and of the donors. */
static enum weir_status order_window(struct weir_pool *pool, const struct move *move) {
    enum weir_status status = WEIR_OK;
    const struct weir__tag *tag;
    bool waited = false;
    while (status == WEIR_OK && (tag = first_unordered(pool, move)) != NULL)
        status = weir__order_wait_device(&pool->order, move->request->slot, *tag, &waited);
    if (waited) weir__account_device_wait(pool, move->request->slot);
    return status;
}

/* Donors whose mappings have to go first must be complete. */
static bool may_begin(const struct weir_pool *pool, const struct move *move) {
    for (size_t i = move->returning; move->unmaps_donors && i < move->donation_count; i++)
        if (!weir__order_extent_is_complete(&pool->order, move->donations[i].extent)) return false;
    return true;
}

enum weir_status weir__move(struct weir_pool *pool, struct weir__request *request, const struct weir__choice *choice,
                            struct weir__extent **out) {
    struct move move = {.request = request, .choice = choice};
    enum weir_status status = claim(pool, &move);
    request->donors_in_use = status == WEIR_OK && !may_begin(pool, &move);
    if (request->donors_in_use) {
        status = WEIR_NOT_READY;
        roll_back(pool, &move, status);
    } else if (status == WEIR_OK) {
        status = order_window(pool, &move);
        if (status == WEIR_OK && move.lacking > 0) {
            pthread_mutex_unlock(&pool->lock);
            status = transfer(pool, &move);
            if (status == WEIR_OUT_OF_MEMORY) status = WEIR_NOT_READY;
            pthread_mutex_lock(&pool->lock);
        }
        if (status == WEIR_OK && move.lacking > 0) learn_cost(pool, move.ns, move.lacking);
        if (status == WEIR_OK)
            *out = commit(pool, &move);
        else
            roll_back(pool, &move, status);
    }
    free_room(&move);
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
