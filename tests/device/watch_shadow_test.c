/* SPDX-License-Identifier: Apache-2.0 */
/* The watch's history of bytes and its vector clocks, without a driver: they find what a search through the whole graph
 * of what was submitted finds, byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device/emu/watch_shadow.h"
#include "tests/device/watch_model.h"

enum { QUEUES = 4, STEPS = 60 };

static const uint64_t base = (5u << 21) - MODEL_BYTES / 2;

struct world {
    struct model model;
    struct emu_shadow shadow, addresses;
    struct emu_known *known[QUEUES], *host;
    uint64_t position[QUEUES];
    struct emu_known *known_at[MODEL_NODES]; /* of each node */
    uint64_t position_of[MODEL_NODES];
    int found;
};

static uint64_t draw(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

static int below(uint64_t *seed, int bound) { return (int)(draw(seed) % (unsigned)bound); }

/* ---- the watch's side ------------------------------------------------------------------------------------------- */

static int node_of(const struct world *world, const struct emu_access *access) {
    if (access->queue == EMU_NOBODY) return MODEL_NONE;
    if (access->queue == EMU_BY_HOST) return MODEL_HOST;
    for (int i = 0; i < world->model.nodes; i++)
        if (world->model.queue_of[i] == (int)access->queue && world->position_of[i] == access->position) return i;
    assert_int_equal(access->position, 0); /* of a queue with nothing in it */
    return MODEL_NONE;
}

struct sums {
    struct world *world;
    struct model_found found[MODEL_FAULTS];
    int count;
};

static void at_fault(void *self, enum emu_fault fault, const struct emu_access *first, uint64_t start, uint64_t bytes) {
    struct sums *sums = self;
    const int node = node_of(sums->world, first);
    assert_in_range(start, base, base + MODEL_BYTES - bytes);
    for (int i = 0; i < sums->count; i++)
        if (sums->found[i].fault == (enum model_fault)fault && sums->found[i].first == node) {
            sums->found[i].bytes += (int)bytes;
            return;
        }
    sums->found[sums->count++] = (struct model_found){(enum model_fault)fault, node, (int)bytes};
}

/* Both found the same. */
static void compare(struct world *world, const struct sums *sums) {
    assert_int_equal(sums->count, world->model.found_count);
    for (int i = 0; i < sums->count; i++) {
        const struct model_found *found = &sums->found[i];
        assert_int_equal(found->bytes, model_count(&world->model, found->fault, found->first));
    }
    world->found += sums->count;
}

static void visit_shadow(struct world *world, struct emu_shadow *shadow, struct emu_visit how, int start, int bytes) {
    struct sums sums = {.world = world};
    how.at_fault = at_fault;
    how.self = &sums;
    assert_true(emu_shadow_visit(shadow, base + (uint64_t)start, (uint64_t)bytes, &how));
    compare(world, &sums);
}

static void visit(struct world *world, struct emu_visit how, int start, int bytes) {
    visit_shadow(world, &world->shadow, how, start, bytes);
    if (how.access.queue >= EMU_BY_HOST) return;
    model_begin(&world->model); /* to use an address is never at fault */
    how.act = EMU_ACT_USE;
    visit_shadow(world, &world->addresses, how, start, bytes);
}

/* ---- steps ------------------------------------------------------------------------------------------------------ */

static int push(struct world *world, int queue, const int *waits, int count) {
    const int node = model_push(&world->model, queue, waits, count);
    for (int i = 0; i < count; i++) {
        const int other = world->model.queue_of[waits[i]];
        assert_true(emu_known_join(&world->known[queue], world->known_at[waits[i]]));
        assert_true(emu_known_raise(&world->known[queue], (uint32_t)other, world->position_of[waits[i]]));
    }
    assert_true(emu_known_join(&world->known[queue], world->host));
    world->position_of[node] = ++world->position[queue];
    world->known_at[node] = emu_known_keep(world->known[queue]);
    return node;
}

static void host_sees(struct world *world, int node) {
    model_host_saw(&world->model, node);
    assert_true(emu_known_join(&world->host, world->known_at[node]));
    assert_true(emu_known_raise(&world->host, (uint32_t)world->model.queue_of[node], world->position_of[node]));
}

static struct emu_access access_of(const struct world *world, int queue) {
    return (struct emu_access){world->position[queue], (uint32_t)queue, 0};
}

static void take(struct world *world, const bool queues[MODEL_QUEUES], int start, int bytes) {
    struct emu_access ends[QUEUES];
    struct emu_known *known = NULL;
    size_t count = 0;
    assert_true(emu_known_join(&known, world->host));
    for (int q = 0; q < QUEUES; q++) {
        if (!queues[q] || world->position[q] == 0) continue;
        ends[count++] = access_of(world, q);
        assert_true(emu_known_join(&known, world->known[q]));
        assert_true(emu_known_raise(&known, (uint32_t)q, world->position[q]));
    }
    const struct emu_access first = count > 0 ? ends[0] : (struct emu_access){.queue = EMU_NOBODY};
    model_take(&world->model, queues, start, bytes);
    model_use_by_take(&world->model, queues, start, bytes);
    visit(world,
          (struct emu_visit){.act = EMU_ACT_TAKE, .access = first, .known = known, .ends = ends, .end_count = count},
          start, bytes);
    emu_known_drop(known);
}

static void host_act(struct world *world, enum emu_act act, int start, int bytes) {
    if (act == EMU_ACT_HOST_READ) model_read(&world->model, MODEL_HOST, start, bytes);
    if (act == EMU_ACT_HOST_WRITE) model_write(&world->model, MODEL_HOST, start, bytes);
    if (act == EMU_ACT_HOST_TAKE) model_host_take(&world->model, start, bytes);
    visit(world, (struct emu_visit){.act = act, .access = {.queue = EMU_BY_HOST}, .known = world->host}, start, bytes);
}

static void stream_act(struct world *world, enum emu_act act, int queue, int start, int bytes) {
    const int node = world->model.newest[queue];
    if (node == MODEL_NONE) return;
    if (act == EMU_ACT_READ) model_read(&world->model, node, start, bytes);
    if (act == EMU_ACT_WRITE) model_write(&world->model, node, start, bytes);
    if (act == EMU_ACT_HAND_OUT) assert_true(emu_known_join(&world->known[queue], world->host)); /* now, not then */
    if (act == EMU_ACT_HAND_OUT) model_hand_out(&world->model, node, start, bytes);
    model_use(&world->model, node, start, bytes);
    visit(world, (struct emu_visit){.act = act, .access = access_of(world, queue), .known = world->known[queue]}, start,
          bytes);
}

static void unmap(struct world *world, int start, int bytes) {
    model_unmap(&world->model, start, bytes);
    visit_shadow(world, &world->addresses,
                 (struct emu_visit){.act = EMU_ACT_HOST_TAKE, .access = {.queue = EMU_BY_HOST}, .known = world->host},
                 start, bytes);
    assert_true(emu_shadow_forget(&world->addresses, base + (uint64_t)start, (uint64_t)bytes));
}

/* Pushes something that waits for up to two of the last nodes. */
static void push_any(struct world *world, int queue, uint64_t *seed) {
    int waits[2], count = world->model.nodes > 0 ? below(seed, 3) : 0;
    for (int i = 0; i < count; i++) {
        const int reach = world->model.nodes < 8 ? world->model.nodes : 8;
        waits[i] = world->model.nodes - 1 - below(seed, reach);
    }
    push(world, queue, waits, count);
}

static void step(struct world *world, uint64_t *seed) {
    const int start = below(seed, MODEL_BYTES), bytes = 1 + below(seed, MODEL_BYTES - start);
    const int queue = below(seed, QUEUES), kind = below(seed, 21);
    model_begin(&world->model);
    if (kind < 14) push_any(world, queue, seed);
    if (kind < 7) {
        stream_act(world, EMU_ACT_WRITE, queue, start, bytes);
    } else if (kind < 13) {
        stream_act(world, EMU_ACT_READ, queue, start, bytes);
    } else if (kind < 15) {
        bool queues[MODEL_QUEUES] = {false};
        for (int q = 0; q < QUEUES; q++) queues[q] = below(seed, 2) == 0;
        take(world, queues, start, bytes);
    } else if (kind == 15) {
        stream_act(world, EMU_ACT_HAND_OUT, queue, start, bytes);
    } else if (kind == 16) {
        if (world->model.nodes > 0) host_sees(world, below(seed, world->model.nodes));
    } else if (kind == 17) {
        model_forget(&world->model, start, bytes);
        assert_true(emu_shadow_forget(&world->shadow, base + (uint64_t)start, (uint64_t)bytes));
    } else if (kind == 18) {
        unmap(world, start, bytes);
    } else {
        const enum emu_act acts[] = {EMU_ACT_HOST_READ, EMU_ACT_HOST_WRITE, EMU_ACT_HOST_TAKE};
        host_act(world, acts[below(seed, 3)], start, bytes);
    }
}

static void end(struct world *world) {
    for (int q = 0; q < QUEUES; q++) emu_known_drop(world->known[q]);
    for (int i = 0; i < world->model.nodes; i++) emu_known_drop(world->known_at[i]);
    emu_known_drop(world->host);
    emu_shadow_clear(&world->shadow);
    emu_shadow_clear(&world->addresses);
}

static void random_programs_give_what_a_search_through_the_graph_gives(void **state) {
    (void)state;
    const char *given = getenv("WEIR_TEST_SEED");
    const uint64_t first = given != NULL ? strtoull(given, NULL, 0) : 1;
    const int programs = given != NULL ? 1 : 1500;
    static struct world world;
    int found = 0;
    print_message("seeds from %llu on (WEIR_TEST_SEED names one)\n", (unsigned long long)first);
    for (int i = 0; i < programs; i++) {
        uint64_t seed = first + (uint64_t)i;
        memset(&world, 0, sizeof world);
        model_start(&world.model, false);
        for (int s = 0; s < STEPS; s++) step(&world, &seed);
        found += world.found;
        end(&world);
    }
    print_message("%d faults in %d programs\n", found, programs);
    assert_true(given != NULL || found > programs);
}

/* ---- plain cases ------------------------------------------------------------------------------------------------ */

static int faults;
static void count_fault(void *self, enum emu_fault fault, const struct emu_access *first, uint64_t start,
                        uint64_t bytes) {
    (void)self, (void)fault, (void)first, (void)start, (void)bytes;
    faults++;
}

static void a_long_access_is_noted_all_along(void **state) {
    (void)state;
    struct emu_shadow shadow = {.written = true};
    const uint64_t start = ((uint64_t)1 << 46) + 4096, bytes = (uint64_t)20 << 21;
    struct emu_visit how = {.act = EMU_ACT_WRITE, .access = {1, 0, 0}, .at_fault = count_fault};
    faults = 0;
    assert_true(emu_shadow_visit(&shadow, start, bytes, &how));
    assert_int_equal(faults, 0);
    how.access = (struct emu_access){1, 1, 0};
    for (uint64_t at = start; at < start + bytes; at += (uint64_t)1 << 21)
        assert_true(emu_shadow_visit(&shadow, at, 1, &how));
    assert_int_equal(faults, 20);
    assert_true(emu_shadow_visit(&shadow, start - 1, 1, &how));
    assert_true(emu_shadow_visit(&shadow, start + bytes, 1, &how));
    assert_int_equal(faults, 20);
    emu_shadow_clear(&shadow);
}

static void a_run_that_does_not_end_is_left_alone(void **state) {
    (void)state;
    struct emu_shadow shadow = {.written = true};
    const struct emu_visit how = {.act = EMU_ACT_WRITE, .access = {1, 0, 0}, .at_fault = count_fault};
    assert_true(emu_shadow_visit(&shadow, UINT64_MAX - 10, 11, &how));
    assert_true(emu_shadow_forget(&shadow, UINT64_MAX - 10, 11));
    assert_int_equal(shadow.count, 0);
    assert_true(emu_shadow_visit(&shadow, UINT64_MAX - 10, 10, &how));
    assert_true(emu_shadow_visit(&shadow, 0, 10, &how));
    emu_shadow_clear(&shadow);
}

/* Histories come and go in thousands of places; what has one history again costs as little as at first. */
static void what_is_written_as_one_is_one_again(void **state) {
    (void)state;
    enum { PIECES = 5000 };
    struct emu_shadow shadow = {.written = true};
    struct emu_visit how = {.act = EMU_ACT_WRITE, .at_fault = count_fault};
    faults = 0;
    for (int round = 0; round < 3; round++) {
        uint64_t place = 1;
        for (uint64_t i = 0; i < PIECES; i++) {
            place = (place + 2477) % PIECES;
            how.access.position++;
            assert_true(emu_shadow_visit(&shadow, 4096 + 512 * place, 512, &how));
        }
        assert_true(shadow.count >= PIECES / 32);
        how.access.position++;
        assert_true(emu_shadow_visit(&shadow, 4096, 512 * PIECES, &how));
        assert_true(shadow.count <= 2);
    }
    assert_int_equal(faults, 0);
    how.access = (struct emu_access){1, 1, 0};
    assert_true(emu_shadow_visit(&shadow, 0, 1 << 30, &how));
    assert_int_equal(faults, 1);
    emu_shadow_clear(&shadow);
}

static void a_clock_that_someone_else_has_is_not_changed(void **state) {
    (void)state;
    struct emu_known *one = NULL, *other = NULL;
    assert_true(emu_known_raise(&one, 3, 7));
    other = emu_known_keep(one);
    assert_true(emu_known_raise(&one, 40, 9));
    assert_int_equal(emu_known_of(one, 3), 7);
    assert_int_equal(emu_known_of(one, 40), 9);
    assert_int_equal(emu_known_of(other, 40), 0);
    assert_true(emu_known_join(&other, one));
    assert_int_equal(emu_known_of(other, 40), 9);
    assert_true(emu_known_raise(&other, 3, 5)); /* never back */
    assert_int_equal(emu_known_of(other, 3), 7);
    emu_known_drop(one);
    emu_known_drop(other);
}

static void what_the_free_does_not_cover_is_still_there_for_the_hand_out_when_it_is_lenient(void **state) {
    (void)state;
    struct emu_shadow shadow = {0};
    struct emu_visit write = {.act = EMU_ACT_WRITE, .access = {5, 0, 0}, .at_fault = count_fault};
    const struct emu_access end = {3, 1, 0};
    struct emu_visit back = {.act = EMU_ACT_TAKE, .access = end, .ends = &end, .end_count = 1, .at_fault = count_fault};
    struct emu_visit out = {.act = EMU_ACT_HAND_OUT, .access = {3, 1, 0}, .at_fault = count_fault};
    for (int lenient = 0; lenient < 2; lenient++) {
        faults = 0;
        assert_true(emu_shadow_forget(&shadow, 0, 64));
        assert_true(emu_shadow_visit(&shadow, 0, 64, &write));
        back.lenient = lenient;
        assert_true(emu_shadow_visit(&shadow, 0, 64, &back));
        assert_int_equal(faults, !lenient);
        assert_true(emu_shadow_visit(&shadow, 0, 64, &out));
        assert_int_equal(faults, 1); /* once, by one or the other */
    }
    emu_shadow_clear(&shadow);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_give_what_a_search_through_the_graph_gives),
        cmocka_unit_test(a_long_access_is_noted_all_along),
        cmocka_unit_test(a_run_that_does_not_end_is_left_alone),
        cmocka_unit_test(what_is_written_as_one_is_one_again),
        cmocka_unit_test(a_clock_that_someone_else_has_is_not_changed),
        cmocka_unit_test(what_the_free_does_not_cover_is_still_there_for_the_hand_out_when_it_is_lenient),
    };
    return cmocka_run_group_tests_name("watch_shadow", tests, NULL, NULL);
}
