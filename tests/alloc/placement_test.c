/* SPDX-License-Identifier: Apache-2.0 */
/* Where blocks go: the best window costs the least to map, then cuts the least off its neighbours; donors are few and large. Pure
 * functions, tested without a device; and the index and the table that they stand on. */
#include <stdlib.h>
#include <string.h>

#include "alloc/placement.h"
#include "alloc/table.h"
#include "support.h"

#define G    ((size_t)4096)
#define BASE ((uintptr_t)0x10000000)

struct line {
    struct weir__extent_store store;
    struct weir__index bare, idle;
    struct weir__extent *first, *last;
    struct weir__pages pages; /* with stale places only; see map() */
    uint32_t seen[64], round;
};

/* Appends an extent; `u` used, `i` idle, `o` idle and not usable, `b` bare. */
static struct weir__extent *append(struct line *line, char kind, size_t bytes) {
    assert_true(weir__extent_reserve(&line->store, 1));
    uintptr_t address = line->last == NULL ? BASE : weir__extent_end(line->last);
    struct weir__extent *extent = weir__extent_new(&line->store, address, bytes,
                                                   kind == 'u'   ? WEIR__USED
                                                   : kind == 'b' ? WEIR__BARE
                                                                 : WEIR__IDLE);
    extent->small = kind == 'o';
    extent->previous = line->last;
    if (line->last != NULL)
        line->last->next = extent;
    else
        line->first = extent;
    line->last = extent;
    if (kind == 'b') weir__index_insert(&line->bare, extent);
    if (kind == 'i' || kind == 'o') weir__index_insert(&line->idle, extent);
    return extent;
}

static bool usable(const void *context, const struct weir__extent *extent) {
    (void)context;
    return !extent->small;
}
static const struct weir__usable if_usable = {usable, NULL};

static bool can_unmap(const void *context, const struct weir__extent *stale) {
    (void)context;
    return !stale->small;
}

static struct weir__ground ground_of(struct line *line) {
    return (struct weir__ground){.first = line->first,
                                 .granule = G,
                                 .pages = &line->pages,
                                 .seen = line->seen,
                                 .round = &line->round,
                                 .usable = if_usable,
                                 .can_unmap = can_unmap};
}

static struct weir__window best_window(struct line *line, size_t bytes) {
    const struct weir__ground ground = ground_of(line);
    return weir__place_window(&ground, bytes, 512, SIZE_MAX);
}

static void a_block_lies_at_the_end_that_leaves_more_whole_pages(void **state) {
    (void)state;
    struct weir__extent whole = {.address = BASE, .bytes = 4 * G};
    assert_int_equal(weir__place_within(&whole, 512, 512, G), BASE);
    struct weir__extent ragged_end = {.address = BASE, .bytes = 4 * G + 1024};
    assert_int_equal(weir__place_within(&ragged_end, 512, 512, G), BASE + 4 * G + 512);
    assert_int_equal(weir__place_within(&ragged_end, 2 * G + 1024, 512, G), BASE + 2 * G);
    struct weir__extent ragged_begin = {.address = BASE + G - 1024, .bytes = 4 * G + 1024};
    assert_int_equal(weir__place_within(&ragged_begin, 512, 512, G), BASE + G - 1024);
    assert_int_equal(weir__place_within(&ragged_begin, 4 * G + 1024, 512, G), BASE + G - 1024);
    ragged_begin.address = BASE + 512; /* both ends leave one whole page: the end that is on a border */
    ragged_begin.bytes = 4 * G - 512;
    assert_int_equal(weir__place_within(&ragged_begin, 2 * G, 512, G), BASE + 2 * G);
}

static void the_best_window_lacks_the_fewest_pages(void **state) {
    (void)state;
    struct line line = {0};
    append(&line, 'u', G);
    append(&line, 'b', 8 * G);
    append(&line, 'u', G);
    append(&line, 'i', 3 * G);
    append(&line, 'b', 2 * G);
    append(&line, 'u', G);
    append(&line, 'b', 100 * G);
    struct weir__window window = best_window(&line, 4 * G);
    assert_int_equal(window.begin, BASE + 10 * G);
    assert_int_equal(window.lacking, 1);
    assert_int_equal(window.idle_pages, 3);
    window = best_window(&line, 6 * G); /* the hole that leaves the least */
    assert_int_equal(window.begin, BASE + G);
    assert_int_equal(window.lacking, 6);
    assert_int_equal(window.left, 2 * G);
    assert_int_equal(best_window(&line, 3 * G).lacking, 0);
    window = best_window(&line, 3 * G + 512);
    assert_int_equal(window.lacking, 1);
    window = best_window(&line, 101 * G);
    assert_null(window.first);
    window = best_window(&line, SIZE_MAX / 4);
    assert_null(window.first);
    weir__extent_store_clear(&line.store);
}

static void a_window_may_begin_and_end_within_idle_pieces(void **state) {
    (void)state;
    struct line line = {0};
    append(&line, 'u', G - 1024);
    append(&line, 'i', 1024 + G); /* the end of a used page, and a page */
    append(&line, 'b', G);
    append(&line, 'i', 2 * G + 512);
    append(&line, 'u', G - 512);
    struct weir__window window = best_window(&line, 4 * G + 1024);
    assert_int_equal(window.lacking, 1);
    assert_int_equal(window.left, 512);
    assert_int_equal(window.begin, BASE + G - 1024);
    weir__extent_store_clear(&line.store);
}

static void what_may_not_be_used_ends_a_run(void **state) {
    (void)state;
    struct line line = {0};
    append(&line, 'i', 2 * G);
    append(&line, 'o', G);
    append(&line, 'b', 2 * G);
    append(&line, 'o', 4 * G);
    struct weir__window window = best_window(&line, 2 * G);
    assert_int_equal(window.begin, BASE);
    assert_int_equal(window.lacking, 0);
    line.first->small = true;
    window = best_window(&line, 2 * G);
    assert_int_equal(window.begin, BASE + 3 * G);
    assert_int_equal(window.lacking, 2);
    assert_null(best_window(&line, 3 * G).first);
    weir__extent_store_clear(&line.store);
}

/* Maps the places of an extent, from `place` on, to pages that are at home in another one. */
static void map_stale(struct line *line, struct weir__extent *stale, struct weir__extent *home) {
    struct weir__pages *pages = &line->pages;
    stale->stale = true;
    for (uint32_t i = 0; i < stale->bytes / G; i++) {
        const uint32_t at = weir__place_of(pages, home->address) + i;
        pages->at[weir__place_of(pages, stale->address) + i] = pages->at[at];
        pages->extent_at[at] = home;
    }
}

static void open_pages(struct line *line, weir__page *at, uint32_t *home, struct weir__extent **extent_at) {
    line->pages = (struct weir__pages){.granule = G, .limit = 63, .arena = BASE, .at = at, .home = home};
    line->pages.extent_at = extent_at;
}

/* Pages 1, 2, ... are at home in an extent's places. */
static void settle(struct line *line, struct weir__extent *extent, weir__page first) {
    for (uint32_t i = 0; i < extent->bytes / G; i++) {
        const uint32_t place = weir__place_of(&line->pages, extent->address) + i;
        line->pages.at[place] = first + i;
        line->pages.home[first + i] = place;
        line->pages.extent_at[place] = extent;
    }
}

static void pages_come_back_to_where_they_were(void **state) {
    (void)state;
    weir__page at[64] = {0};
    uint32_t home[64] = {0};
    struct weir__extent *extent_at[64] = {0};
    struct line line = {0};
    open_pages(&line, at, home, extent_at);
    struct weir__extent *idle = append(&line, 'i', 3 * G);
    append(&line, 'u', G);
    struct weir__extent *used = append(&line, 'u', 2 * G), *busy = append(&line, 'o', 2 * G);
    struct weir__extent *stale[4];
    for (int i = 0; i < 4; i++) {
        stale[i] = append(&line, 'b', i == 3 ? 6 * G : 2 * G);
        append(&line, 'u', G);
    }
    settle(&line, idle, 1);
    settle(&line, used, 4);
    settle(&line, busy, 6);
    map_stale(&line, stale[0], idle);
    map_stale(&line, stale[1], used);
    map_stale(&line, stale[2], busy);
    map_stale(&line, stale[3], idle); /* three of its six */
    for (uint32_t i = 3; i < 6; i++) at[weir__place_of(&line.pages, stale[3]->address) + i] = 3;
    struct weir__window window = best_window(&line, 4 * G);
    assert_ptr_equal(window.first, stale[3]);
    assert_int_equal(window.returned, 3);
    assert_int_equal(window.lacking, 1); /* the same page does not come twice */
    assert_int_equal(window.unmapped, 1);
    stale[3]->small = true; /* its old mappings may be in use: none can go, but pages can come */
    assert_null(best_window(&line, 4 * G).first);
    window = best_window(&line, 3 * G);
    assert_int_equal(window.lacking, 0); /* the idle extent as it is */
    idle->small = true;
    window = best_window(&line, 2 * G);
    assert_ptr_equal(window.first, stale[0]); /* used ones and such that may not be had do not come: all are mapped */
    assert_int_equal(window.lacking, 2);
    assert_int_equal(window.unmapped, 2);
    weir__extent_store_clear(&line.store);
}

/* Any extents of 1 to 4 pages; stale ones are mapped to pages that are at home anywhere. */
static void draw_line(struct line *line, uint64_t *chance) {
    static const char kinds[] = "uiiobsss";
    struct weir__pages *pages = &line->pages;
    weir__page page = 0;
    for (uint32_t place = 0, bytes; place < 60; place += bytes) {
        const char kind = kinds[draw(chance) % (sizeof kinds - 1)];
        bytes = 1 + (uint32_t)(draw(chance) % 4);
        struct weir__extent *extent = append(line, kind == 's' ? 'b' : kind, bytes * G);
        extent->stale = kind == 's';
        if (extent->stale) extent->small = draw(chance) % 2;
        if (extent->state == WEIR__BARE) continue;
        settle(line, extent, page + 1);
        page += bytes;
    }
    for (struct weir__extent *stale = line->first; stale != NULL; stale = stale->next)
        for (uint32_t i = 0; stale->stale && i < stale->bytes / G; i++) {
            const weir__page first = 1 + (weir__page)(draw(chance) % 60), of = i % 2 == 0 ? first : first + 1;
            pages->at[weir__place_of(pages, stale->address) + i] = of <= page ? of : 0;
            pages->extent_at[weir__place_of(pages, stale->address) + i] = stale;
        }
}

/* What a window needs, place by place. */
static struct weir__window slow_look(const struct line *line, const struct weir__window *of) {
    struct weir__window slow = {0};
    const struct weir__pages *pages = &line->pages;
    const uint32_t first = weir__place_of(pages, of->begin),
                   behind = weir__place_of(pages, of->begin + of->bytes + G - 1);
    bool come[64] = {0};
    const struct weir__extent *piece = of->first;
    for (uint32_t place = first; place < behind; place++) {
        while (weir__extent_end(piece) <= weir__place_address(pages, place)) piece = piece->next;
        assert_true(piece->state == WEIR__BARE || (piece->state == WEIR__IDLE && !piece->small));
        if (piece->state == WEIR__IDLE) continue;
        const weir__page page = piece->stale ? pages->at[place] : 0;
        const struct weir__extent *home = page != 0 ? pages->extent_at[pages->home[page]] : NULL;
        const bool comes = page != 0 && !come[page] && home->state == WEIR__IDLE && !home->small &&
                           (pages->home[page] < first || pages->home[page] >= behind);
        come[page] = true;
        slow.returned += comes;
        slow.lacking += !comes;
        slow.unmapped += !comes && page != 0;
        assert_true(comes || page == 0 || !piece->small);
    }
    return slow;
}

static void no_window_is_better_than_the_best(void **state) {
    (void)state;
    uint64_t chance = seed_of(9);
    for (int step = 0; step < 20000; step++) {
        weir__page at[64] = {0};
        uint32_t home[64] = {0};
        struct weir__extent *extent_at[64] = {0};
        struct line line = {0};
        open_pages(&line, at, home, extent_at);
        draw_line(&line, &chance);
        const struct weir__ground ground = ground_of(&line);
        const size_t bytes = (1 + draw(&chance) % 16) * (G / 2); /* no piece is too small to begin one */
        const struct weir__window best = best_window(&line, bytes);
        for (struct weir__extent *piece = line.first; piece != NULL; piece = piece->next) {
            const struct weir__window other = weir__place_at(&ground, piece, bytes);
            assert_true(other.first == NULL || (best.first != NULL && best.cost <= other.cost));
        }
        if (best.first != NULL) {
            const struct weir__window slow = slow_look(&line, &best);
            assert_int_equal(best.returned, slow.returned);
            assert_int_equal(best.lacking, slow.lacking);
            assert_int_equal(best.unmapped, slow.unmapped);
            assert_true(best.lacking > 0 || best.cost <= weir__cost_of_returning(&ground, bytes));
            assert_int_equal(weir__place_window(&ground, bytes, 512, best.cost).begin, best.begin);
            if (best.cost > 0) assert_null(weir__place_window(&ground, bytes, 512, best.cost - 1).first);
        }
        weir__extent_store_clear(&line.store);
    }
}

static void donors_are_one_that_is_tight_else_few_and_large(void **state) {
    (void)state;
    struct line line = {0};
    append(&line, 'i', 3 * G);
    append(&line, 'u', G);
    struct weir__extent *five = append(&line, 'i', 5 * G);
    append(&line, 'u', 512);
    struct weir__extent *ragged = append(&line, 'i', 2 * G); /* one whole page within */
    append(&line, 'u', G - 512);
    struct weir__extent *nine = append(&line, 'i', 9 * G);
    append(&line, 'u', G);
    append(&line, 'o', 30 * G);
    const struct weir__index *indexes[] = {&line.idle};
    struct weir__donation out[8];
    size_t found;
    assert_int_equal(weir__place_donors(indexes, 1, G, 4, if_usable, out, 8, &found), 1);
    assert_int_equal(found, 4);
    assert_ptr_equal(out[0].extent, five);
    assert_int_equal(out[0].address, five->address);
    assert_int_equal(weir__place_donors(indexes, 1, G, 15, if_usable, out, 8, &found), 3);
    assert_int_equal(found, 15);
    assert_ptr_equal(out[0].extent, nine);
    assert_int_equal(weir__place_donors(indexes, 1, G, 100, if_usable, NULL, 0, &found), 4);
    assert_int_equal(found, 3 + 5 + 1 + 9);
    assert_int_equal(weir__extent_whole_pages(ragged, G), 1);
    weir__extent_store_clear(&line.store);
}

/* Which stream an idle extent belongs to must not matter. */
static void which_index_a_donor_is_in_makes_no_difference(void **state) {
    (void)state;
    struct line line = {0};
    struct weir__index other = {0};
    for (int i = 0; i < 2; i++) {
        struct weir__extent *extent = append(&line, 'i', 4 * G);
        append(&line, 'u', G);
        if (i == 0) continue;
        weir__index_remove(&line.idle, extent);
        weir__index_insert(&other, extent);
    }
    const struct weir__index *here[] = {&line.idle, &other}, *there[] = {&other, &line.idle};
    for (size_t pages = 4; pages <= 5; pages++) { /* from one donor, and from both */
        struct weir__donation a[2] = {{0}}, b[2] = {{0}};
        size_t found, count = weir__place_donors(here, 2, G, pages, if_usable, a, 2, &found);
        assert_int_equal(weir__place_donors(there, 2, G, pages, if_usable, b, 2, &found), count);
        for (size_t i = 0; i < count; i++) assert_ptr_equal(a[i].extent, b[i].extent);
    }
    weir__extent_store_clear(&line.store);
}

static void splitting_and_merging_keep_tags_and_bytes(void **state) {
    (void)state;
    struct weir__extent_store store = {0};
    assert_true(weir__extent_reserve(&store, 2));
    struct weir__extent *extent = weir__extent_new(&store, BASE, 8 * G, WEIR__IDLE);
    assert_true(weir__extent_tag_reserve(extent, 8));
    for (uint32_t i = 0; i < 8; i++)
        weir__extent_tag_add(extent, (struct weir__tag){.slot = i, .tick = i + 1, .bytes = G});
    weir__extent_tag_add(extent, (struct weir__tag){.slot = 3, .tick = 2});
    assert_int_equal(extent->tag_count, 8);
    struct weir__extent *back = weir__extent_split(&store, extent, 2 * G + 512);
    assert_int_equal(weir__extent_tagged_bytes(extent), extent->bytes);
    assert_int_equal(weir__extent_tagged_bytes(back), back->bytes);
    assert_int_equal(back->tag_count, 8);
    back->tags[3].tick = 99;
    assert_true(weir__extent_merge(&store, extent, back));
    assert_int_equal(extent->bytes, 8 * G);
    assert_int_equal(weir__extent_tagged_bytes(extent), 8 * G);
    for (uint32_t i = 0; i < 8; i++) assert_int_equal(extent->tags[i].tick, i == 3 ? 99 : i + 1);
    weir__extent_store_clear(&store);
}

static void an_index_finds_the_best_fit(void **state) {
    (void)state;
    enum { COUNT = 300 };
    static struct weir__extent extents[COUNT];
    bool in[COUNT] = {0};
    struct weir__index index = {0};
    uint64_t chance = seed_of(7);
    for (int i = 0; i < COUNT; i++)
        extents[i] = (struct weir__extent){.address = BASE + (uintptr_t)i * G, .bytes = 512 * (1 + draw(&chance) % 40)};
    for (int step = 0; step < 20000; step++) {
        size_t i = draw(&chance) % COUNT, wanted = 512 * (draw(&chance) % 45);
        if (in[i])
            weir__index_remove(&index, &extents[i]);
        else
            weir__index_insert(&index, &extents[i]);
        in[i] = !in[i];
        const struct weir__extent *best = NULL;
        for (size_t k = 0; k < COUNT; k++)
            if (in[k] && extents[k].bytes >= wanted && (best == NULL || extents[k].bytes < best->bytes))
                best = &extents[k];
        assert_ptr_equal(weir__index_at_least(&index, wanted, 0), best);
        if (best == NULL) continue;
        const struct weir__extent *next = weir__index_after(&index, best);
        if (next != NULL) assert_ptr_equal(weir__index_before(&index, next), best);
    }
}

static void a_table_gives_back_what_was_put(void **state) {
    (void)state;
    enum { KEYS = 200 };
    static char values[KEYS];
    bool in[KEYS] = {0};
    struct weir__table table = {0};
    uint64_t chance = seed_of(8);
    for (int step = 0; step < 20000; step++) {
        size_t key = draw(&chance) % KEYS;
        uintptr_t address = BASE + key * 512;
        assert_ptr_equal(weir__table_get(&table, address), in[key] ? &values[key] : NULL);
        if (in[key]) {
            assert_ptr_equal(weir__table_take(&table, address), &values[key]);
            assert_null(weir__table_take(&table, address));
        } else {
            assert_true(weir__table_reserve(&table));
            weir__table_put(&table, address, &values[key]);
        }
        in[key] = !in[key];
    }
    weir__table_clear(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_lies_at_the_end_that_leaves_more_whole_pages),
        cmocka_unit_test(the_best_window_lacks_the_fewest_pages),
        cmocka_unit_test(a_window_may_begin_and_end_within_idle_pieces),
        cmocka_unit_test(what_may_not_be_used_ends_a_run),
        cmocka_unit_test(pages_come_back_to_where_they_were),
        cmocka_unit_test(no_window_is_better_than_the_best),
        cmocka_unit_test(donors_are_one_that_is_tight_else_few_and_large),
        cmocka_unit_test(which_index_a_donor_is_in_makes_no_difference),
        cmocka_unit_test(splitting_and_merging_keep_tags_and_bytes),
        cmocka_unit_test(an_index_finds_the_best_fit),
        cmocka_unit_test(a_table_gives_back_what_was_put),
    };
    return cmocka_run_group_tests_name("placement", tests, NULL, NULL);
}
