/* SPDX-License-Identifier: Apache-2.0 */
/* The watch catches every wait of the pool that is taken out, in programs that no gate holds back and in which no byte
 * comes out wrong: each is played in virtual time, in a process of its own that the watch ends. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#define BYTES (4 * PAGE) /* fills the pool, so that it must be given again */

/* ---- scenes ----------------------------------------------------------------------------------------------------- */

static void nothing(void *argument) { (void)argument; }

/* Keeps a stream busy, so that what it has queued is not over by the time the pool looks. */
static void queue_long(weir_stream stream) {
    static const struct weir_access none;
    struct weir_work work = {.name = "long", .run = nothing, .accesses = &none, .access_count = 0, .bytes = 2e8};
    OK(weir_device_submit(test_device(), &work, stream));
}

static void play_device_wait(void) {
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, BYTES / PAGE);
    weir_stream s0 = new_stream(), s1 = new_stream();
    void *a = alloc(pool, BYTES, s1);
    queue_long(s1);
    queue_fill(s1, a, BYTES, 0xAA);
    OK(weir_pool_free(pool, a, s1));
    void *b = alloc(pool, BYTES, s0);
    queue_fill(s0, b, BYTES, 0xBB);
    OK(weir_device_synchronize(test_device()));
    close_pool(pool);
}

static void play_noted(void) {
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, BYTES / PAGE);
    weir_stream s0 = new_stream(), s1 = new_stream();
    void *a = alloc(pool, BYTES, s0);
    OK(weir_pool_note(pool, a, s1));
    queue_long(s1);
    queue_fill(s1, a, BYTES, 0xAA);
    OK(weir_pool_free(pool, a, s0));
    void *b = alloc(pool, BYTES, s0);
    queue_fill(s0, b, BYTES, 0xBB);
    OK(weir_device_synchronize(test_device()));
    close_pool(pool);
}

static void play_free_after(void) {
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, BYTES / PAGE);
    weir_stream s0 = new_stream(), s1 = new_stream();
    weir_event event;
    OK(weir_event_create(test_device(), false, &event));
    void *a = alloc(pool, BYTES, s0);
    queue_long(s1);
    queue_fill(s1, a, BYTES, 0xAA);
    OK(weir_event_record(test_device(), event, s1));
    OK(weir_pool_free_after(pool, a, event));
    void *b = alloc(pool, BYTES, s0);
    queue_fill(s0, b, BYTES, 0xBB);
    OK(weir_device_synchronize(test_device()));
    close_pool(pool);
}

/* Single pages, of which every other one is freed: what is asked then needs pages from several places. */
static void play_move(void) {
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 9);
    weir_stream s0 = new_stream(), s1 = new_stream();
    void *holes[4], *posts[4];
    for (int i = 0; i < 4; i++) {
        holes[i] = alloc(pool, PAGE, s1);
        posts[i] = alloc(pool, PAGE, s1);
    }
    queue_long(s1);
    for (int i = 0; i < 4; i++) {
        queue_fill(s1, holes[i], PAGE, 0xAA);
        OK(weir_pool_free(pool, holes[i], s1));
    }
    void *b = alloc(pool, 4 * PAGE, s0);
    queue_fill(s0, b, 4 * PAGE, 0xBB);
    OK(weir_device_synchronize(test_device()));
    for (int i = 0; i < 4; i++) OK(weir_pool_free(pool, posts[i], s1));
    close_pool(pool);
}

/* A page across what two streams gave back. */
static void play_halves(void) {
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, HALVES_PAGES);
    weir_stream s0 = new_stream(), s1 = new_stream(), s2 = new_stream();
    struct halves halves = make_halves(pool, s1, s2);
    queue_long(s1);
    queue_fill(s1, halves.first, HALF_BYTES, 0xAA);
    OK(weir_pool_free(pool, halves.first, s1));
    OK(weir_pool_free(pool, halves.second, s2));
    void *b = alloc(pool, HALVES_ASKED * PAGE, s0);
    queue_fill(s0, b, HALVES_ASKED * PAGE, 0xBB);
    OK(weir_device_synchronize(test_device()));
    close_pool(pool);
}

/* The old place of a page, which work still writes through, lies in the way of a block; order_promise_test tells more. */
static void play_old_place(void) {
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 6);
    weir_stream s0 = new_stream(), s1 = new_stream(), s2 = new_stream();
    void *before = alloc(pool, PAGE, s0), *a = alloc(pool, PAGE, s1), *behind = alloc(pool, 3 * PAGE, s0);
    queue_long(s1);
    queue_fill(s1, a, PAGE, 0xAA);
    OK(weir_pool_free(pool, a, s1));
    void *b = alloc(pool, 2 * PAGE, s2);
    queue_fill(s2, b, 2 * PAGE, 0xCC);
    OK(weir_pool_free(pool, before, s0));
    OK(weir_pool_free(pool, behind, s0));
    void *c = alloc(pool, 4 * PAGE, s0);
    queue_fill(s0, c, 4 * PAGE, 0xBB);
    OK(weir_device_synchronize(test_device()));
    close_pool(pool);
}

/* The per-stream policy: a request that can't be met waits for all events; a later one finds the block. */
static void play_per_stream(void) {
    struct weir_pool *pool = open_pool(WEIR_POLICY_PER_STREAM, 10);
    weir_stream s0 = new_stream(), s1 = new_stream();
    void *a = alloc(pool, 2 * PAGE, s0), *beside = alloc(pool, 2 * PAGE, s0), *none;
    OK(weir_pool_note(pool, a, s1));
    queue_long(s1);
    queue_fill(s1, a, 2 * PAGE, 0xAA);
    OK(weir_pool_free(pool, a, s0));
    assert_int_equal(weir_pool_alloc(pool, 20 * PAGE, s0, &none), WEIR_OUT_OF_MEMORY);
    void *b = alloc(pool, 2 * PAGE, s0);
    assert_ptr_equal(a, b);
    queue_fill(s0, b, 2 * PAGE, 0xBB);
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_free(pool, beside, s0));
    close_pool(pool);
}

/* A block so large that its free is marked; its last use is not over. */
static void play_marked(void) {
    const size_t bytes = WEIR__MARK_GRANULES * PAGE;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, WEIR__MARK_GRANULES);
    weir_stream s0 = new_stream(), s1 = new_stream();
    void *a = alloc(pool, bytes, s1);
    queue_long(s1);
    queue_fill(s1, a, bytes, 0xAA);
    OK(weir_pool_free(pool, a, s1));
    void *b = alloc(pool, bytes, s0);
    queue_fill(s0, b, bytes, 0xBB);
    OK(weir_device_synchronize(test_device()));
    close_pool(pool);
}

/* The stream that used the block last is destroyed before its work is over. */
static void play_destroyed(void) {
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, BYTES / PAGE);
    weir_stream s0 = new_stream(), s1 = new_stream();
    void *a = alloc(pool, BYTES, s1);
    queue_long(s1);
    queue_fill(s1, a, BYTES, 0xAA);
    OK(weir_pool_free(pool, a, s1));
    OK(weir_stream_destroy(test_device(), s1));
    void *b = alloc(pool, BYTES, s0);
    queue_fill(s0, b, BYTES, 0xBB);
    OK(weir_device_synchronize(test_device()));
    close_pool(pool);
}

static CUresult no_record(CUevent event, CUstream stream) {
    (void)event;
    (void)stream;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* And the driver records no event any more. */
static void play_lost(void) {
    const struct weir__driver *real = test_device()->driver;
    struct weir__driver faulty = *real;
    faulty.event_record = no_record;
    faulty.context_record = NULL;
    test_device()->driver = &faulty;
    play_destroyed();
    test_device()->driver = real;
}

/* A free that names no stream, of what a stream that the pool has never seen uses. */
static void play_any(void) {
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, BYTES / PAGE);
    weir_stream s0 = new_stream(), s1 = new_stream();
    void *a = alloc(pool, BYTES, s0);
    queue_long(s1);
    queue_fill(s1, a, BYTES, 0xAA);
    OK(weir_pool_free_any(pool, a));
    void *b = alloc(pool, BYTES, s0);
    queue_fill(s0, b, BYTES, 0xBB);
    OK(weir_device_synchronize(test_device()));
    close_pool(pool);
}

/* And a request that names none. */
static void play_any_waits(void) {
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, BYTES / PAGE);
    weir_stream s0 = new_stream(), s1 = new_stream();
    void *a = alloc(pool, BYTES, s1), *b = NULL;
    queue_long(s1);
    queue_fill(s1, a, BYTES, 0xAA);
    OK(weir_pool_free(pool, a, s1));
    OK(weir_pool_alloc_any(pool, BYTES, &b));
    queue_fill(s0, b, BYTES, 0xBB);
    OK(weir_device_synchronize(test_device()));
    close_pool(pool);
}

static void play_any_lost(void) {
    const struct weir__driver *real = test_device()->driver;
    struct weir__driver older = *real;
    older.context_record = NULL;
    test_device()->driver = &older;
    play_any();
    test_device()->driver = real;
}

static void play_pool_destroy(void) {
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, BYTES / PAGE);
    weir_stream s0 = new_stream();
    void *a = alloc(pool, BYTES, s0);
    queue_long(s0);
    queue_fill(s0, a, BYTES, 0xAA);
    OK(weir_pool_free(pool, a, s0));
    close_pool(pool);
}

static const struct {
    const char *site, *scene;
    void (*play)(void);
} sites[] = {
    {WEIR__SITE_DEVICE_WAIT, "device_wait", play_device_wait},
    {WEIR__SITE_DEVICE_WAIT, "noted", play_noted},
    {WEIR__SITE_FREE_AFTER, "free_after", play_free_after},
    {WEIR__SITE_DEVICE_WAIT, "move", play_move},
    {WEIR__SITE_HOST_WAIT, "halves", play_halves},
    {WEIR__SITE_PAGE_MOVE, "old_place", play_old_place},
    {WEIR__SITE_HOST_WAIT, "per_stream", play_per_stream},
    {WEIR__SITE_MARK_PASSED, "marked", play_marked},
    {WEIR__SITE_MARK_PASSED, "per_stream", play_per_stream},
    {WEIR__SITE_STREAM_PASSED, "device_wait", play_device_wait},
    {WEIR__SITE_STREAM_END, "destroyed", play_destroyed},
    {WEIR__SITE_LOST_STREAM, "lost", play_lost},
    {WEIR__SITE_DEVICE_WAIT, "any", play_any},
    {WEIR__SITE_HOST_WAIT, "any_waits", play_any_waits},
    {WEIR__SITE_LOST_STREAM, "any_lost", play_any_lost},
    {WEIR__SITE_POOL_DESTROY, "pool_destroy", play_pool_destroy},
};

/* ---- the test ---------------------------------------------------------------------------------------------------- */

static const char *program;

/* Plays a scene with one site taken out (NULL: none); gives how the process ended, and the end of what it said. */
static int play(const char *site, const char *scene, char *said, size_t room) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        if (freopen("/dev/null", "w", stdout) == NULL) _exit(7);
        if (site != NULL) setenv("WEIR_MUTATE", site, 1);
        setenv("WEIR_EMU", "watch:abort,clock:virtual", 1);
        execl(program, program, scene, (char *)NULL);
        _exit(7);
    }
    close(ends[1]);
    size_t got = 0;
    for (ssize_t more; got + 1 < room && (more = read(ends[0], said + got, room - 1 - got)) > 0;) got += (size_t)more;
    said[got] = 0;
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void the_watch_catches_every_wait_that_is_taken_out(void **state) {
    (void)state;
#ifdef NDEBUG
    print_message("skipped: a build without assertions has no mutations\n");
    skip();
#endif
    int caught = 0; /* sites, each once */
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++) {
        char said[4096];
        int status = play(NULL, sites[i].scene, said, sizeof said);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("%s: %s", sites[i].scene, said);
        status = play(sites[i].site, sites[i].scene, said, sizeof said);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || strstr(said, "watch:abort: ") == NULL)
            fail_msg("%s without %s: status %d; %s", sites[i].scene, sites[i].site, status, said);
        bool is_new = true;
        for (size_t j = 0; j < i; j++) is_new = is_new && strcmp(sites[j].site, sites[i].site) != 0;
        caught += is_new;
    }
    print_message("mutations: %d caught, 0 redundant\n", caught);
}

static const char *wanted;

static void play_the_wanted_scene(void **state) {
    (void)state;
    size_t i = 0;
    while (i < sizeof sites / sizeof *sites && strcmp(sites[i].scene, wanted) != 0) i++;
    assert_true(i < sizeof sites / sizeof *sites);
    sites[i].play();
    assert_int_equal(wrong_bytes(), 0);
}

int main(int count, char **words) {
    program = words[0];
    wanted = count > 1 ? words[1] : NULL;
    const struct CMUnitTest scene[] = {cmocka_unit_test(play_the_wanted_scene)};
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_watch_catches_every_wait_that_is_taken_out)};
    return wanted != NULL ? cmocka_run_group_tests(scene, NULL, NULL)
                          : cmocka_run_group_tests_name("watch_mutation", tests, NULL, NULL);
}
