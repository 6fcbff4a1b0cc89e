/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/inside.h"

#include <stdlib.h>

struct page {
    struct weir__extent *covers;
    size_t starts;  /* bits that are set */
    uint64_t *bits; /* NULL until a block begins here */
};

enum { WORD = 64 };

static size_t bit_of(const struct weir__inside *inside, uintptr_t address) {
    return address % inside->granule / WEIR__ALIGNMENT;
}

static struct page *page_at(struct weir__inside *inside, uintptr_t address) {
    struct page *page = weir__table_get(&inside->pages, address / inside->granule);
    if (page != NULL || !weir__table_reserve(&inside->pages)) return page;
    page = calloc(1, sizeof *page);
    if (page != NULL) weir__table_put(&inside->pages, address / inside->granule, page);
    return page;
}

static void drop(struct page *page) {
    free(page->bits);
    free(page);
}

static void drop_if_empty(struct weir__inside *inside, struct page *page, uintptr_t address) {
    if (page->covers != NULL || page->starts > 0) return;
    weir__table_take(&inside->pages, address / inside->granule);
    drop(page);
}

/* The first byte of the page after the one with the address. */
static uintptr_t next_page(const struct weir__inside *inside, uintptr_t address) {
    return address - address % inside->granule + inside->granule;
}

static bool add_start(struct weir__inside *inside, const struct weir__extent *block) {
    struct page *page = page_at(inside, block->address);
    const size_t words = (inside->granule / WEIR__ALIGNMENT + WORD - 1) / WORD, bit = bit_of(inside, block->address);
    if (page == NULL) return false;
    if (page->bits == NULL) page->bits = calloc(words, sizeof *page->bits);
    if (page->bits != NULL) {
        page->bits[bit / WORD] |= UINT64_C(1) << bit % WORD;
        page->starts++;
        return true;
    }
    drop_if_empty(inside, page, block->address);
    return false;
}

static void remove_start(struct weir__inside *inside, const struct weir__extent *block) {
    struct page *page = weir__table_get(&inside->pages, block->address / inside->granule);
    const size_t bit = bit_of(inside, block->address);
    page->bits[bit / WORD] &= ~(UINT64_C(1) << bit % WORD);
    page->starts--;
    drop_if_empty(inside, page, block->address);
}

/* Takes the cover off the pages before `end`. */
static void remove_covers(struct weir__inside *inside, const struct weir__extent *block, uintptr_t end) {
    for (uintptr_t at = next_page(inside, block->address); at < end; at += inside->granule) {
        struct page *page = weir__table_get(&inside->pages, at / inside->granule);
        page->covers = NULL;
        drop_if_empty(inside, page, at);
    }
}

bool weir__inside_add(struct weir__inside *inside, struct weir__extent *block) {
    if (!inside->on || block->bytes == 0) return true;
    if (!add_start(inside, block)) return false;
    for (uintptr_t at = next_page(inside, block->address); at < weir__extent_end(block); at += inside->granule) {
        struct page *page = page_at(inside, at);
        if (page == NULL) {
            remove_covers(inside, block, at);
            remove_start(inside, block);
            return false;
        }
        page->covers = block;
    }
    return true;
}

void weir__inside_remove(struct weir__inside *inside, const struct weir__extent *block) {
    if (!inside->on || block->bytes == 0) return;
    remove_covers(inside, block, weir__extent_end(block));
    remove_start(inside, block);
}

/* The last bit that is set, from `bit` down; false: none is. */
static bool find_start(const struct page *page, size_t bit, size_t *found) {
    if (page->starts == 0) return false;
    uint64_t word = page->bits[bit / WORD] << (WORD - 1 - bit % WORD) >> (WORD - 1 - bit % WORD);
    for (size_t at = bit / WORD;; word = page->bits[--at]) {
        if (word != 0) {
            *found = at * WORD + (WORD - 1 - (size_t)__builtin_clzll(word));
            return true;
        }
        if (at == 0) return false;
    }
}

struct weir__extent *weir__inside_find(const struct weir__inside *inside, const struct weir__table *blocks,
                                       uintptr_t address) {
    const struct page *page = weir__table_get(&inside->pages, address / inside->granule);
    size_t start;
    if (page == NULL) return NULL;
    struct weir__extent *block = page->covers;
    if (find_start(page, bit_of(inside, address), &start))
        block = weir__table_get(blocks, address - address % inside->granule + start * WEIR__ALIGNMENT);
    return block != NULL && address - block->address < block->bytes ? block : NULL;
}

bool weir__inside_begin(struct weir__inside *inside, size_t granule, const struct weir__table *blocks) {
    *inside = (struct weir__inside){.on = true, .granule = granule};
    for (size_t i = 0; i < blocks->room; i++) {
        if (blocks->entries[i].value == NULL || weir__inside_add(inside, blocks->entries[i].value)) continue;
        weir__inside_end(inside);
        return false;
    }
    return true;
}

void weir__inside_end(struct weir__inside *inside) {
    for (size_t i = 0; i < inside->pages.room; i++)
        if (inside->pages.entries[i].value != NULL) drop(inside->pages.entries[i].value);
    weir__table_clear(&inside->pages);
    inside->on = false;
}
