/* SPDX-License-Identifier: Apache-2.0 */
/* Under the virtual clock threads that share a pool take turns, and one that needs what another has in hand waits for it
 * in the clock, not at a condition: nobody hangs, and no request is refused while a move would serve it. Each seed is a
 * child of its own, since the machine's settings are those of a process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/emulated.h"
#include "support.h"

enum { THREADS = 3, STEPS = 60, BLOCKS = 2, MOST_PAGES = 4, SEEDS = 10 };

struct worker {
    struct weir_device *device;
    struct weir_pool *pool;
    int number, refused;
};

static void nothing(void *argument) { (void)argument; }

/* Long work takes some 0.2 ms, so that freed blocks are in use for a while. */
static void use(struct weir_device *device, weir_stream stream, void *block, size_t bytes, bool at_length) {
    const struct weir_access access = {block, bytes, true};
    const struct weir_work work_on_it = {
        .name = "use", .run = nothing, .accesses = &access, .access_count = 1, .flops = at_length ? 1e9 : 0};
    OK(weir_device_submit(device, &work_on_it, stream));
}

/* A few blocks of whole pages at a time, on a stream that lives for some steps: each thread can always be served, since the
 * pages of all blocks fit. */
static void *work(void *argument) {
    struct worker *worker = argument;
    struct weir_device *device = worker->device;
    char name[16];
    void *blocks[BLOCKS] = {NULL};
    uint64_t chance = (uint64_t)worker->number + 1;
    weir_stream stream;
    snprintf(name, sizeof name, "worker %d", worker->number);
    OK(weir__thread_begin(device, name, THREADS));
    OK(weir_stream_create(device, &stream));
    for (int step = 0; step < STEPS; step++) {
        void **block = &blocks[draw(&chance) % BLOCKS];
        const size_t bytes = (1 + draw(&chance) % MOST_PAGES) * PAGE;
        OK(weir_pool_free(worker->pool, *block, stream));
        *block = NULL;
        worker->refused += weir_pool_alloc(worker->pool, bytes, stream, block) != WEIR_OK;
        if (*block != NULL) use(device, stream, *block, bytes, draw(&chance) % 2 == 0);
        if (draw(&chance) % 8 != 0) continue;
        for (int i = 0; i < BLOCKS; i++) OK(weir_pool_free(worker->pool, blocks[i], stream));
        memset(blocks, 0, sizeof blocks);
        OK(weir_stream_destroy(device, stream));
        OK(weir_stream_create(device, &stream));
    }
    for (int i = 0; i < BLOCKS; i++) OK(weir_pool_free(worker->pool, blocks[i], stream));
    OK(weir_stream_destroy(device, stream));
    OK(weir__thread_end(device));
    return NULL;
}

struct outcome {
    int refused;
    uint64_t waits;
};

static struct outcome share_a_pool(size_t pages) {
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    struct outcome outcome = {0};
    struct weir_device *device = test_device();
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, pages);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){device, pool, i, 0};
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0) abort();
    }
    OK(weir__thread_end(device));
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        outcome.refused += workers[i].refused;
    }
    OK(weir__thread_begin(device, "main", 1));
    outcome.waits = stats_of(pool).host_waits + stats_of(pool).device_waits;
    close_pool(pool);
    return outcome;
}

/* A hang is a failure too: the child is ended by a signal. */
static struct outcome share_by_seed(uint64_t seed, size_t pages) {
    char machine[64];
    struct outcome outcome = {.refused = -1};
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        alarm(120);
        snprintf(machine, sizeof machine, "clock:virtual,watch:abort,seed:%llu", (unsigned long long)seed);
        setenv("WEIR_EMU", machine, 1);
        outcome = share_a_pool(pages);
        _exit(write(ends[1], &outcome, sizeof outcome) == sizeof outcome ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read(ends[0], &outcome, sizeof outcome), sizeof outcome);
    close(ends[0]);
    close(ends[1]);
    return outcome;
}

static void threads_that_share_a_full_pool_are_all_served(void **state) {
    (void)state;
    uint64_t waits = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const struct outcome outcome = share_by_seed(seed, (size_t)THREADS * BLOCKS * MOST_PAGES);
        assert_int_equal(outcome.refused, 0);
        waits += outcome.waits;
    }
    assert_true(waits > 0);
}

static void threads_that_share_too_small_a_pool_are_refused_at_times_and_go_on(void **state) {
    (void)state;
    int refused = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) refused += share_by_seed(seed, 2 * BLOCKS * MOST_PAGES).refused;
    assert_true(refused > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_that_share_a_full_pool_are_all_served),
        cmocka_unit_test(threads_that_share_too_small_a_pool_are_refused_at_times_and_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
