/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that use pools side by side share nothing that one of them could hold while it dies. */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/alloc/cases/scene.h"

enum { WORKERS = 4, KILLS = 50 };
#define MOST_NS UINT64_C(20000000000) /* a millisecond or two where nothing else runs; for ever behind a lost lock */

/* Shared with the workers: rounds that each has done. */
static uint64_t *rounds;
static pid_t workers[WORKERS];

static void work(uint64_t *done) {
    struct weir_pool *pool = open_case(WEIR_POLICY_LATENCY, 256 * MIB);
    uint64_t chance = (uint64_t)getpid();
    weir_stream streams[2] = {new_stream(), new_stream()};
    for (;;) {
        weir_stream stream = streams[draw(&chance) % 2];
        size_t bytes = 1 + draw(&chance) % (4 * MIB);
        void *at = alloc(pool, bytes, stream);
        queue_fill(stream, at, bytes, 0x44);
        queue_check(stream, at, bytes, 0x44);
        OK(weir_pool_free(pool, at, stream));
        if (wrong_bytes() > 0) _exit(1);
        __atomic_fetch_add(done, 1, __ATOMIC_RELEASE);
    }
}

/* This process opens no device, so that its children may. */
static void start_worker(int i) {
    fflush(NULL);
    workers[i] = fork();
    assert_true(workers[i] >= 0);
    if (workers[i] > 0) return;
    work(&rounds[i]);
    _exit(1);
}

/* Until the worker has done so many rounds, in good time. */
static void expect_rounds(int i, uint64_t wanted) {
    const uint64_t since_ns = now_ns();
    while (__atomic_load_n(&rounds[i], __ATOMIC_ACQUIRE) < wanted) {
        assert_int_equal(waitpid(workers[i], NULL, WNOHANG), 0);
        assert_true(now_ns() - since_ns < MOST_NS);
        sched_yield();
    }
}

/* Two rounds more: one may have been under way before now. */
static void expect_it_works(int i) { expect_rounds(i, __atomic_load_n(&rounds[i], __ATOMIC_ACQUIRE) + 2); }

static void the_others_go_on_after_each_kill(void **state) {
    (void)state;
    for (int i = 0; i < WORKERS; i++) start_worker(i);
    for (int i = 0; i < WORKERS; i++) expect_it_works(i);
    for (int n = 0; n < KILLS; n++) {
        const int killed = n % WORKERS;
        int status = 0;
        assert_int_equal(kill(workers[killed], SIGKILL), 0);
        assert_int_equal(waitpid(workers[killed], &status, 0), workers[killed]);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        for (int i = 0; i < WORKERS; i++)
            if (i != killed) expect_it_works(i);
        start_worker(killed);
        expect_it_works(killed);
    }
}

static int end_workers(void **state) {
    (void)state;
    for (int i = 0; i < WORKERS; i++) {
        if (workers[i] <= 0) continue;
        kill(workers[i], SIGKILL);
        waitpid(workers[i], NULL, 0);
    }
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_others_go_on_after_each_kill, end_workers),
    };
    rounds = mmap(NULL, WORKERS * sizeof *rounds, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (rounds == MAP_FAILED) return 1;
    return cmocka_run_group_tests_name("a_killed_process_holds_no_other_up", tests, NULL, NULL);
}
