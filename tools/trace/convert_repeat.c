/* SPDX-License-Identifier: Apache-2.0 */
/* What repeats. A log marks no iterations; where its allocations repeat to its end, size for size and stream for
 * stream, one repetition stands for one. A training step does so; so do layers that are alike and nothing else, and the
 * log does not tell the two apart.
 *
 * Taken is the shortest period, of at least SHORTEST allocations, that covers half of all allocations and the last of
 * them, and is there twice. The marks stand where the fewest bytes are live within the first period. */
#include <inttypes.h>
#include <stdlib.h>

#include "convert.h"

enum { SHORTEST = 16 };

/* An allocation, the last one first. */
struct request {
    uint64_t bytes;
    uint32_t stream;
    uint32_t matches; /* how many from here on equal those from 0 on */
};

static bool alike(const struct request *a, const struct request *b) {
    return a->bytes == b->bytes && a->stream == b->stream;
}

/* The Z-function: Gusfield, Algorithms on Strings, Trees, and Sequences, 1997, section 1.4. Linear time. */
static void match_all(struct request *requests, size_t count) {
    size_t left = 0, right = 0;
    for (size_t i = 1; i < count; i++) {
        size_t matches = i < right ? requests[i - left].matches : 0;
        if (i < right && matches > right - i) matches = right - i;
        while (i + matches < count && alike(&requests[matches], &requests[i + matches])) matches++;
        requests[i].matches = (uint32_t)matches;
        if (i + matches > right) left = i, right = i + matches;
    }
}

/* 0: nothing repeats. */
static size_t shortest_period(const struct request *requests, size_t count, size_t *covered) {
    for (size_t period = SHORTEST; 2 * period <= count; period++) {
        *covered = period + requests[period].matches;
        if (requests[period].matches >= period && 2 * *covered >= count) return period;
    }
    return 0;
}

/* Of the allocations [from, from + period): before which the fewest bytes are live. */
static size_t lowest(const struct conversion *conversion, size_t from, size_t period) {
    uint64_t live = 0, least = UINT64_MAX;
    size_t at = from, number = 0;
    for (size_t i = 0; i < conversion->steps.count; i++) {
        const struct step *step = &conversion->steps.all[i];
        const uint64_t bytes =
            step->kind <= STEP_FREE ? conversion->blocks[step->block].bytes : 0; /* live, alloc, free */
        if (step->kind == STEP_ALLOC && number >= from && number < from + period && live < least)
            least = live, at = number;
        if (step->kind == STEP_ALLOC) number++;
        live += step->kind == STEP_FREE ? -bytes : bytes;
    }
    return at;
}

static bool insert_marks(struct conversion *conversion, size_t first, size_t period) {
    struct steps marked = {0};
    size_t number = 0;
    for (size_t i = 0; i < conversion->steps.count; i++) {
        const struct step *step = &conversion->steps.all[i];
        const bool allocates = step->kind == STEP_ALLOC;
        const bool begins = allocates && number >= first && (number - first) % period == 0;
        number += allocates;
        conversion->iteration_count += begins;
        if ((begins && !convert_push(conversion, &marked, (struct step){.kind = STEP_ITERATION})) ||
            !convert_push(conversion, &marked, *step)) {
            free(marked.all);
            return false;
        }
    }
    free(conversion->steps.all);
    conversion->steps = marked;
    return true;
}

static size_t collect(const struct conversion *conversion, struct request *requests, size_t most) {
    size_t count = most;
    for (size_t i = 0; i < conversion->steps.count; i++) {
        const struct step *step = &conversion->steps.all[i];
        if (step->kind == STEP_ALLOC)
            requests[--count] = (struct request){conversion->blocks[step->block].bytes, step->stream, 0};
    }
    return count;
}

bool convert_mark_iterations(struct conversion *conversion) {
    struct request *requests = calloc(conversion->block_count + 1, sizeof *requests);
    if (requests == NULL)
        return convert_fail(conversion, "no host memory to compare %zu allocations", conversion->block_count);
    /* blocks that were live before have no request: the array's first places stay empty */
    const size_t unused = collect(conversion, requests, conversion->block_count);
    const size_t count = conversion->block_count - unused;
    size_t covered = 0;
    match_all(requests + unused, count);
    const size_t period = shortest_period(requests + unused, count, &covered);
    free(requests);
    if (period == 0) return true;
    conversion->iteration_blocks = period;
    return insert_marks(conversion, lowest(conversion, count - covered, period), period);
}
