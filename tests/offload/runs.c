/* SPDX-License-Identifier: Apache-2.0 */
/* The runs tell free from used bytes: against a map of bytes, over random takes and gives. */
#include "offload/runs.h"

#include "world.h"

enum { END = 4096, PIECES = 64, STEPS = 20000 };

struct piece {
    size_t offset, bytes;
};

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* True when a run of free bytes of the map has `bytes` at the alignment. */
static bool map_has(const unsigned char *used, size_t bytes, size_t alignment) {
    for (size_t offset = 0; offset + bytes <= END; offset += alignment) {
        size_t i = 0;
        while (i < bytes && !used[offset + i]) i++;
        if (i == bytes) return true;
    }
    return false;
}

static void mark(unsigned char *used, struct piece piece, unsigned char value) {
    for (size_t i = 0; i < piece.bytes; i++) {
        assert_int_not_equal(used[piece.offset + i], value);
        used[piece.offset + i] = value;
    }
}

static void random_takes_and_gives_agree_with_a_map_of_bytes(void **state) {
    (void)state;
    static unsigned char used[END];
    struct piece pieces[PIECES];
    size_t count = 0;
    uint64_t seed = 1;
    struct weir__runs runs;
    assert_true(weir__runs_init(&runs));
    weir__runs_extend(&runs, END / 4);
    weir__runs_extend(&runs, END - END / 4);
    for (int step = 0; step < STEPS; step++) {
        if (count < PIECES && next_random(&seed) % 2 == 0) {
            const size_t alignment = (size_t)1 << next_random(&seed) % 7;
            struct piece piece = {.bytes = 1 + next_random(&seed) % 300};
            const bool possible = map_has(used, piece.bytes, alignment);
            assert_int_equal(weir__runs_take(&runs, piece.bytes, alignment, &piece.offset), possible);
            if (possible) {
                assert_int_equal(piece.offset % alignment, 0);
                mark(used, piece, 1);
                pieces[count++] = piece;
            }
        } else if (count > 0) {
            const size_t at = next_random(&seed) % count;
            mark(used, pieces[at], 0);
            weir__runs_give(&runs, pieces[at].offset, pieces[at].bytes);
            pieces[at] = pieces[--count];
        }
        assert_true(weir__runs_check(&runs));
    }
    while (count > 0) {
        count--;
        weir__runs_give(&runs, pieces[count].offset, pieces[count].bytes);
    }
    assert_int_equal(runs.count, 1);
    assert_int_equal(runs.free_bytes, END);
    assert_int_equal(weir__runs_tail(&runs), END);
    weir__runs_clear(&runs);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_takes_and_gives_agree_with_a_map_of_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
