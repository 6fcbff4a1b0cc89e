/* SPDX-License-Identifier: Apache-2.0 */
/* Giving pages back to the driver: a page goes when it is mapped nowhere, so all its places are unmapped first, home and stale ones. */
#include <stdlib.h>
#include <string.h>

#include "alloc/history.h"
#include "alloc/pool.h"

static enum weir_status no_host_memory(void) {
    return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory for the pool's own tables");
}

/* Puts the spare pages of which old mappings are left in front. Gives: how many others there are. */
static size_t sort_spare(struct weir__pages *pages) {
    const size_t places = weir__pages_behind(pages), spare = pages->spare_count;
    bool *mapped = calloc(pages->limit + 1, sizeof *mapped);
    weir__page *sorted = calloc(spare + 1, sizeof *sorted);
    size_t kept = 0, clean = 0;
    if (mapped != NULL && sorted != NULL) {
        for (size_t place = 0; place < places; place++) mapped[weir__page_at(pages, place)] = true;
        for (size_t i = 0; i < spare; i++) clean += !mapped[pages->spare[i]];
        for (size_t i = 0, next = spare - clean; i < spare; i++)
            sorted[mapped[pages->spare[i]] ? kept++ : next++] = pages->spare[i];
        memcpy(pages->spare, sorted, spare * sizeof *sorted);
    }
    free(mapped);
    free(sorted);
    return clean;
}

static size_t give_spare_back(struct weir_pool *pool, size_t wanted) {
    const size_t clean = pool->pages.spare_count > 0 ? sort_spare(&pool->pages) : 0;
    const size_t count = wanted < clean ? wanted : clean;
    weir__page *pages = count > 0 ? calloc(count, sizeof *pages) : NULL;
    if (pages == NULL) return 0;
    weir__pages_take_spare(&pool->pages, count, pages);
    weir__claim_begin(pool);
    pthread_mutex_unlock(&pool->lock);
    size_t released = weir__pages_release(&pool->pages, pages, count);
    pthread_mutex_lock(&pool->lock);
    weir__pages_unname(&pool->pages, pages, released);
    weir__pages_give_spare(&pool->pages, pages + released, count - released);
    pool->pages.held -= released;
    weir__account_unhold(pool, released * pool->granule);
    pool->unmapped_bytes -= released * pool->granule;
    weir__claim_end(pool);
    free(pages);
    return released;
}

/* Pages on their way out, by page: 0 for all others. */
enum { STAYS, GOES, GOES_NOT };

struct leave {
    unsigned char *pages;        /* by page */
    struct weir__extent **homes; /* claimed */
    struct weir__extent **stale; /* claimed */
    size_t home_count, stale_count;
};

/* A page can't go while an old mapping of it may be in use, or is in another call's hands. */
static void keep_what_is_held_elsewhere(struct weir_pool *pool, struct leave *leave) {
    const struct weir__pages *pages = &pool->pages;
    const size_t places = weir__pages_behind(pages);
    for (size_t place = 0; place < places; place++) {
        const weir__page page = weir__page_at(pages, place);
        if (page == 0 || leave->pages[page] == STAYS || pages->home[page] == place) continue;
        const struct weir__extent *extent = pages->extent_at[place];
        if (extent->state != WEIR__BARE || !weir__order_extent_is_complete(&pool->order, extent))
            leave->pages[page] = GOES_NOT;
    }
}

/* True for a place whose mapping goes with its page. */
static bool goes(const struct weir__pages *pages, const struct leave *leave, size_t place) {
    return weir__page_at(pages, place) != 0 && leave->pages[weir__page_at(pages, place)] == GOES;
}

/* Claims all places of the pages that go, run by run: their homes, and old mappings elsewhere. */
static bool claim_leave(struct weir_pool *pool, struct leave *leave) {
    const struct weir__pages *pages = &pool->pages;
    const size_t places = weir__pages_behind(pages);
    size_t runs = 0, behind;
    for (size_t place = 0; place < places; place++) runs += goes(pages, leave, place);
    leave->homes = calloc(runs + 1, sizeof(struct weir__extent *));
    leave->stale = calloc(runs + 1, sizeof(struct weir__extent *));
    if (leave->homes == NULL || leave->stale == NULL) return false;
    for (size_t place = 0; place < places; place = behind) {
        behind = place + 1;
        if (!goes(pages, leave, place)) continue;
        const bool home = weir__place_is_home(pages, (uint32_t)place);
        struct weir__extent *of = pages->extent_at[place];
        while (behind < places && behind - place < WEIR__LONGEST_UNMAP && goes(pages, leave, behind) &&
               pages->extent_at[behind] == of && weir__place_is_home(pages, (uint32_t)behind) == home)
            behind++;
        if (!weir__extent_reserve(&pool->store, 2)) return false;
        struct weir__extent *run =
            weir__carve(pool, of, weir__place_address(pages, (uint32_t)place), (behind - place) * pages->granule);
        if (run == NULL) return false;
        weir__mark_moving(pool, run);
        if (home)
            leave->homes[leave->home_count++] = run;
        else
            leave->stale[leave->stale_count++] = run;
    }
    return true;
}

static enum weir_status unmap_leave(struct weir_pool *pool, const struct leave *leave, size_t *done) {
    enum weir_status status = WEIR_OK;
    for (size_t i = 0; i < leave->stale_count && status == WEIR_OK; i++)
        status = weir__pages_unmap(&pool->pages, leave->stale[i]->address, leave->stale[i]->bytes / pool->granule);
    while (*done < leave->home_count && status == WEIR_OK) {
        const struct weir__extent *home = leave->homes[*done];
        status = weir__pages_unmap(&pool->pages, home->address, home->bytes / pool->granule);
        *done += status == WEIR_OK;
    }
    return status;
}

/* The homes that were unmapped are bare, their pages spare; the others are idle again. */
static void settle_leave(struct weir_pool *pool, struct leave *leave, size_t done, const weir__page *pages) {
    for (size_t i = 0; i < leave->stale_count; i++) {
        const uint32_t place = weir__place_of(&pool->pages, leave->stale[i]->address);
        leave->stale[i]->stale = weir__page_at(&pool->pages, place) != 0;
        weir__unclaim(pool, leave->stale[i]);
    }
    for (size_t i = 0; i < leave->home_count; i++) {
        struct weir__extent *home = leave->homes[i];
        if (i < done) {
            const size_t count = home->bytes / pool->granule;
            weir__pages_give_spare(&pool->pages, pages, count);
            pages += count;
            pool->moving_bytes -= home->bytes;
            pool->unmapped_bytes += home->bytes;
            home->was = WEIR__BARE;
            home->stale = false;
            weir__history_pages(pool, WEIR__PAST_UNMAPPED, home->address, home->bytes);
            weir__settle_bare(pool, home);
        } else {
            weir__unclaim(pool, home);
        }
    }
}

/* Unmaps all places of the pages that go. Where none can, nothing has been claimed, and nobody is told of a change. */
static enum weir_status take_leave(struct weir_pool *pool, struct leave *leave) {
    weir__page *pages = calloc(pool->pages.limit, sizeof *pages); /* of the homes, in order */
    size_t done = 0, count = 0;
    keep_what_is_held_elsewhere(pool, leave);
    enum weir_status status = claim_leave(pool, leave) && pages != NULL ? WEIR_OK : no_host_memory();
    if (leave->home_count + leave->stale_count == 0) {
        free(pages);
        return status;
    }
    for (size_t i = 0; pages != NULL && i < leave->home_count; i++)
        for (size_t k = 0; k < leave->homes[i]->bytes / pool->granule; k++)
            pages[count++] = weir__page_at(&pool->pages, weir__place_of(&pool->pages, leave->homes[i]->address) + k);
    weir__claim_begin(pool);
    if (status == WEIR_OK) {
        pthread_mutex_unlock(&pool->lock);
        status = unmap_leave(pool, leave, &done);
        pthread_mutex_lock(&pool->lock);
    }
    settle_leave(pool, leave, done, pages);
    weir__claim_end(pool);
    free(pages);
    return status;
}

/* Makes up to `pages` pages spare that are mapped nowhere: spare ones with old mappings, and donors. */
static enum weir_status make_spare(struct weir_pool *pool, size_t pages) {
    const struct weir__asker asker = {.order = &pool->order};
    const size_t wanted = pages > pool->pages.spare_count ? pages - pool->pages.spare_count : 0;
    struct leave leave = {.pages = calloc(pool->pages.limit + 1, 1)};
    struct weir__donation *donations = calloc(wanted + 1, sizeof *donations);
    size_t found = 0, count = 0;
    enum weir_status status = WEIR_OK;
    if (leave.pages == NULL || donations == NULL) {
        status = no_host_memory();
    } else {
        if (wanted > 0)
            count = weir__ladder_donors(pool, &asker, WEIR__USE_COMPLETE, wanted, donations, wanted, &found);
        for (size_t i = 0; i < pool->pages.spare_count; i++) leave.pages[pool->pages.spare[i]] = GOES;
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < donations[i].pages; k++)
                leave.pages[weir__page_at(&pool->pages, weir__place_of(&pool->pages, donations[i].address) + k)] = GOES;
        if (count + pool->pages.spare_count > 0) status = take_leave(pool, &leave);
    }
    free(leave.pages);
    free(leave.homes);
    free(leave.stale);
    free(donations);
    return status;
}

enum weir_status weir__give_back(struct weir_pool *pool, size_t pages, size_t *done) {
    enum weir_status status = WEIR_OK;
    weir__order_poll_streams(&pool->order);
    weir__settle_complete(pool);
    if (pages > 0) status = make_spare(pool, pages);
    *done = give_spare_back(pool, pages);
    return status;
}
