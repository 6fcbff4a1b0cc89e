/* SPDX-License-Identifier: Apache-2.0 */
/* The table of live blocks: overlaps are found, and what a refusal is judged by counts every page that may hold a byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tools/stress/live.h"

enum { PAGE = 4096 };

static struct live *live;
static struct live_moment moment;

static int open_live(void **state) {
    (void)state;
    live = live_open(PAGE);
    return live != NULL ? 0 : -1;
}

static int close_live(void **state) {
    (void)state;
    live_close(live);
    return 0;
}

static struct block *begin(size_t bytes) {
    struct block *block = live_begin(live, bytes, 0, &moment);
    assert_non_null(block);
    return block;
}

static unsigned char *at(uintptr_t address) {
    unsigned char *bytes;
    _Static_assert(sizeof bytes == sizeof address, "an address is a number");
    bytes = (unsigned char *)address;
    return bytes;
}

static bool put_at(struct block *block, uintptr_t address, struct past *other) {
    block->address = at(address);
    return live_put(live, block, other);
}

static struct block *put(size_t bytes, uintptr_t address) {
    struct block *block = begin(bytes);
    struct past other;
    assert_true(put_at(block, address, &other));
    return block;
}

static uint64_t needed_pages(size_t asked) {
    struct live_moment here;
    struct block *block = live_begin(live, asked, 0, &here);
    return live_refused(live, block, &here) / PAGE;
}

static void a_shared_byte_is_found_and_a_neighbour_is_not(void **state) {
    (void)state;
    struct past other;
    struct block *first = put(1000, 10 * PAGE);
    put(24, 10 * PAGE + 1000);
    assert_false(put_at(begin(1), 10 * PAGE + 999, &other));
    assert_int_equal(other.number, first->number);
    assert_int_equal(other.bytes, 1000);
    assert_false(put_at(begin(PAGE), 9 * PAGE + 1, &other));
    assert_int_equal(other.number, first->number);
    live_take(live, first);
    live_end(live, first);
    put(1000, 10 * PAGE);
    assert_int_equal(live_bytes(live), 1024);
    assert_int_equal(live_peak_bytes(live), 1024);
}

/* Of a block whose place is not known two pages more than its bytes fill. */
static void a_page_counts_once_however_many_blocks_lie_in_it(void **state) {
    (void)state;
    assert_int_equal(needed_pages(100), 2);
    put(100, 10 * PAGE);
    put(100, 10 * PAGE + 512);
    assert_int_equal(needed_pages(100), 1 + 2);
    put(PAGE, 10 * PAGE + 1024); /* and the next page */
    assert_int_equal(needed_pages(PAGE), 2 + 3);
    put(2 * PAGE, 20 * PAGE);
    assert_int_equal(needed_pages(1), 4 + 2);
}

static void what_comes_and_goes_meanwhile_counts(void **state) {
    (void)state;
    struct live_moment here;
    struct block *freed = put(PAGE, 10 * PAGE), *going = put(PAGE, 20 * PAGE);
    live_take(live, going); /* its free has not returned */
    struct block *asked = live_begin(live, 1, 0, &here);
    live_take(live, freed); /* was live when the request began */
    live_end(live, freed);
    struct block *coming = begin(PAGE); /* another thread's request */
    assert_int_equal(live_refused(live, asked, &here) / PAGE, 3 + 2 + 3 + 3);
    live_end(live, going);
    struct past other;
    assert_true(put_at(coming, 10 * PAGE, &other));
    assert_int_equal(needed_pages(1), 1 + 2);
}

static void there_is_an_end_of_blocks(void **state) {
    (void)state;
    for (size_t i = 0; i < LIVE_MOST_BLOCKS; i++) begin(1);
    assert_null(live_begin(live, 1, 0, &moment));
}

static void the_last_blocks_are_remembered(void **state) {
    (void)state;
    struct past *pasts = calloc(HISTORY, sizeof *pasts);
    assert_non_null(pasts);
    for (size_t i = 0; i < HISTORY + 10; i++) {
        struct block *block = put(512, (i + 1) * PAGE);
        live_take(live, block);
        live_end(live, block);
    }
    assert_int_equal(live_history(live, pasts), HISTORY);
    for (size_t i = 0; i < HISTORY; i++) assert_true(pasts[i].number > 10 && !pasts[i].live);
    free(pasts);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_live, close_live)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_shared_byte_is_found_and_a_neighbour_is_not),
        TEST(a_page_counts_once_however_many_blocks_lie_in_it),
        TEST(what_comes_and_goes_meanwhile_counts),
        TEST(there_is_an_end_of_blocks),
        TEST(the_last_blocks_are_remembered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
