/* SPDX-License-Identifier: Apache-2.0 */
/* The live block that another one would overlap is found wherever it lies, however blocks come and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/plugin/places.h"

enum { BLOCKS = 300, ADDRESSES = 2000, ROUNDS = 60000 };

static uint32_t draw(uint64_t *state, uint32_t below) {
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)((z ^ (z >> 27)) >> 32) % below;
}

static bool share(const struct place *a, const struct place *b) {
    return a->address < b->address + b->bytes && b->address < a->address + a->bytes;
}

/* Against a look at each live block. */
static void an_overlap_is_found_and_none_is_made_up(void **state) {
    (void)state;
    static struct place live[BLOCKS]; /* of no bytes: not live */
    struct places *places = places_open(BLOCKS);
    uint64_t seed = 5;
    unsigned put = 0, overlaps = 0;
    assert_non_null(places);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        const uint32_t block = draw(&seed, BLOCKS);
        if (live[block].bytes > 0) {
            places_take(places, block);
            live[block].bytes = 0;
            continue;
        }
        const struct place wanted = {1 + draw(&seed, ADDRESSES), 1 + draw(&seed, 12), i};
        const struct place *found = places_overlap(places, &wanted);
        bool any = false;
        for (uint32_t other = 0; other < BLOCKS; other++) any |= live[other].bytes > 0 && share(&live[other], &wanted);
        assert_int_equal(found != NULL, any);
        if (found != NULL) {
            assert_true(share(found, &wanted));
            overlaps++;
        } else {
            places_put(places, block, &wanted);
            live[block] = wanted;
            put++;
        }
    }
    assert_true(put > ROUNDS / 10 && overlaps > ROUNDS / 10);
    places_close(places);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(an_overlap_is_found_and_none_is_made_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
