/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that may be called at any time is called at once: a family of pools in which requests of all kinds wait, while
 * sub-pools come and go with blocks in them, limits fall and rise, callbacks are added and removed, memory is trimmed, walked
 * and told of, and bad calls are mixed in. Contents stay right, the walk holds, and in the end nothing is left. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "support.h"
#include "tests/sanitized.h"

enum { STEPS = SANITIZED ? 60 : 300, USERS = 3, MEMBERS = 3, BLOCKS = 8, STREAMS = 3, PAGES = 96 };

struct family {
    struct weir_pool *members[MEMBERS]; /* the root first */
    bool deterministic;
    weir_stream streams[STREAMS];
    pthread_mutex_t lock;
    void *hoard; /* of the root; its callback frees it */
    bool over;
    unsigned steps; /* of the users */
    unsigned failed;
    uint64_t seed;
};

static void expect(struct family *family, enum weir_status status, const enum weir_status *also) {
    if (status == WEIR_OK) return;
    for (; also != NULL && *also != WEIR_OK; also++)
        if (status == *also) return;
    print_error("%s: %s\n", weir_status_name(status), weir_last_error()->message);
    __atomic_fetch_add(&family->failed, 1, __ATOMIC_RELAXED);
}
#define ALLOWED(...)                                                                                                   \
    (const enum weir_status[]) { __VA_ARGS__, WEIR_OK }

/* For the others, which would else keep the users from their work: true for a turn once a user has made a step, false at the end. */
static bool next_turn(const struct family *family, unsigned *seen) {
    unsigned steps;
    while ((steps = __atomic_load_n(&family->steps, __ATOMIC_ACQUIRE)) == *seen) {
        if (__atomic_load_n(&family->over, __ATOMIC_ACQUIRE)) return false;
        sched_yield();
    }
    *seen = steps;
    return true;
}
static size_t below(uint64_t *chance, size_t limit) { return (size_t)(draw(chance) % limit); }
static struct weir_pool *a_member(const struct family *family, uint64_t *chance) {
    return family->members[below(chance, MEMBERS)];
}

/* ---- users ---------------------------------------------------------------------------------------------------------- */

struct block {
    struct weir_pool *pool;
    char *at;
    size_t bytes;
    weir_stream stream;
    unsigned char value;
};

struct user {
    struct family *family;
    uint64_t chance;
    struct block blocks[BLOCKS];
    struct block outlives; /* its stream */
};

static void take(struct user *user, struct block *block) {
    uint64_t *chance = &user->chance;
    void *at = user;
    *block = (struct block){.pool = a_member(user->family, chance), .bytes = 1 + below(chance, 12 * PAGE)};
    block->stream = user->family->streams[below(chance, STREAMS)];
    block->value = (unsigned char)below(chance, 256);
    enum weir_status status;
    switch (below(chance, 6)) {
    case 0:
        status = weir_pool_alloc_any(block->pool, block->bytes, &at);
        break;
    case 1:
        status = weir_pool_alloc_aligned(block->pool, block->bytes, (size_t)1 << below(chance, 17), block->stream, &at);
        break;
    default:
        status = weir_pool_alloc(block->pool, block->bytes, block->stream, &at);
    }
    expect(user->family, status, ALLOWED(WEIR_OUT_OF_MEMORY));
    if ((status == WEIR_OK) != (at != NULL)) expect(user->family, WEIR_BROKEN, NULL);
    block->at = at;
    if (at != NULL) queue_fill(block->stream, at, block->bytes, block->value);
}

static void free_late(void *argument) {
    const struct block *block = argument;
    if (weir_pool_free(block->pool, block->at, block->stream) != WEIR_OK) abort();
}

static void give_back(struct user *user, struct block *block) {
    struct weir_work late = {.name = "free", .run = free_late, .argument = block, .argument_bytes = sizeof *block};
    weir_event event;
    queue_check(block->stream, block->at, block->bytes, block->value);
    switch (below(&user->chance, 6)) {
    case 0:
        expect(user->family, weir_pool_free_any(block->pool, block->at), NULL);
        break;
    case 1:
        OK(weir_device_submit(test_device(), &late, block->stream));
        break;
    case 2:
        OK(weir_event_create(test_device(), false, &event));
        OK(weir_event_record(test_device(), event, block->stream));
        expect(user->family, weir_pool_free_after(block->pool, block->at, event), NULL);
        OK(weir_event_destroy(test_device(), event));
        break;
    default:
        expect(user->family, weir_pool_free(block->pool, block->at, block->stream), NULL);
    }
    block->at = NULL;
}

static void resize(struct user *user, struct block *block) {
    const size_t bytes = 1 + below(&user->chance, 12 * PAGE);
    queue_check(block->stream, block->at, block->bytes, block->value);
    const enum weir_status status = weir_pool_resize(block->pool, block->at, bytes, block->stream);
    expect(user->family, status, ALLOWED(WEIR_NOT_READY));
    if (status != WEIR_OK) return;
    block->bytes = bytes;
    queue_fill(block->stream, block->at, bytes, block->value);
}

/* Its addresses keep their pages until after it is freed. */
static void free_registered(struct user *user, struct block *block) {
    const struct block registered = *block;
    expect(user->family, weir_pool_register(block->pool, block->at, block->bytes), NULL);
    give_back(user, block);
    expect(user->family, weir_pool_unregister(registered.pool, registered.at, registered.bytes), NULL);
}

static void misbehave(struct user *user, struct block *block) {
    struct weir_pool *pool = a_member(user->family, &user->chance);
    void *none = NULL;
    const size_t huge = SIZE_MAX >> below(&user->chance, 30);
    expect(user->family,
           weir_pool_alloc(pool, huge - below(&user->chance, 2000), block->stream, &none) == WEIR_OUT_OF_MEMORY
               ? WEIR_OK
               : WEIR_BROKEN,
           NULL);
    if (block->at == NULL) return;
    expect(user->family,
           weir_pool_free(block->pool, block->at + 1, block->stream) == WEIR_INVALID ? WEIR_OK : WEIR_BROKEN, NULL);
    for (int i = 0; i < MEMBERS; i++)
        if (user->family->members[i] != block->pool)
            expect(user->family,
                   weir_pool_free(user->family->members[i], block->at, block->stream) == WEIR_INVALID ? WEIR_OK
                                                                                                      : WEIR_BROKEN,
                   NULL);
}

/* A stream that comes and goes with work on it: one of weir's, or one that the pool does not hear of. A block of it outlives it. */
static void pass_by(struct user *user) {
    const struct weir__driver *driver = test_device()->driver;
    const bool foreign = below(&user->chance, 2) == 0;
    struct block block = {.pool = a_member(user->family, &user->chance), .bytes = 1 + below(&user->chance, 4 * PAGE)};
    void *at = NULL;
    OK(weir__device_enter(test_device()));
    if (foreign)
        assert_int_equal(driver->stream_create(&block.stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    else
        OK(weir_stream_create(test_device(), &block.stream));
    expect(user->family, weir_pool_alloc(block.pool, block.bytes, block.stream, &at), ALLOWED(WEIR_OUT_OF_MEMORY));
    block.at = at;
    if (at != NULL) {
        queue_fill(block.stream, at, block.bytes, 3);
        const weir_stream other = user->family->streams[below(&user->chance, STREAMS)];
        weir_event event;
        OK(weir_event_create(test_device(), false, &event));
        OK(weir_event_record(test_device(), event, block.stream));
        OK(weir_stream_wait(test_device(), other, event));
        OK(weir_event_destroy(test_device(), event));
        const bool late = below(&user->chance, 2) == 0;
        if (!late)
            expect(user->family, weir_pool_free(block.pool, at, below(&user->chance, 2) == 0 ? other : block.stream),
                   NULL);
        if (late) user->outlives = (struct block){block.pool, at, block.bytes, other, 3};
    }
    if (foreign)
        assert_int_equal(driver->stream_destroy(block.stream), CUDA_SUCCESS);
    else
        OK(weir_stream_destroy(test_device(), block.stream));
    weir__device_leave(test_device());
    if (user->outlives.at != NULL) give_back(user, &user->outlives);
}

static void *use(void *argument) {
    struct user *user = argument;
    for (int i = 0; i < STEPS; i++) {
        struct block *block = &user->blocks[below(&user->chance, BLOCKS)];
        __atomic_add_fetch(&user->family->steps, 1, __ATOMIC_RELEASE);
        if (below(&user->chance, 20) == 0) misbehave(user, block);
        if (below(&user->chance, 10) == 0) pass_by(user);
        if (block->at == NULL)
            take(user, block);
        else if (below(&user->chance, 5) == 0)
            resize(user, block);
        else if (below(&user->chance, 10) == 0)
            free_registered(user, block);
        else if (below(&user->chance, 4) == 0)
            expect(user->family,
                   weir_pool_note(block->pool, block->at, user->family->streams[below(&user->chance, STREAMS)]), NULL);
        else
            give_back(user, block);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (user->blocks[i].at != NULL) give_back(user, &user->blocks[i]);
    return NULL;
}

/* ---- sub-pools that come and go ---------------------------------------------------------------------------------------- */

static void *found(void *argument) {
    struct family *family = argument;
    uint64_t chance = family->seed + 100;
    for (unsigned seen = 0; next_turn(family, &seen);) {
        struct weir_sub_pool_options options = {.size = sizeof options,
                                                .limit_bytes = (1 + below(&chance, PAGES)) * PAGE};
        struct weir_pool *pool = NULL;
        if (below(&chance, SANITIZED ? 10 : 2) != 0) continue; /* its tables are dear to the thread sanitizer */
        expect(family, weir_pool_create_sub(family->members[0], &options, &pool), NULL);
        if (pool == NULL) continue;
        weir_stream stream = new_stream();
        for (size_t i = below(&chance, 6); i > 0; i--) {
            void *at = NULL;
            const size_t bytes = 1 + below(&chance, 8 * PAGE);
            expect(family, weir_pool_alloc(pool, bytes, stream, &at), ALLOWED(WEIR_OUT_OF_MEMORY));
            if (at == NULL) continue;
            queue_fill(stream, at, bytes, 9);
            queue_check(stream, at, bytes, 9);
            if (below(&chance, 2) == 0) expect(family, weir_pool_free(pool, at, stream), NULL);
        }
        if (below(&chance, 2) == 0) OK(weir_stream_destroy(test_device(), stream));
        weir_pool_destroy(pool); /* with what is live */
    }
    return NULL;
}

/* ---- callbacks that come and go ----------------------------------------------------------------------------------------- */

static bool free_hoard(void *self, struct weir_pool *pool, size_t wanted_bytes) {
    struct family *family = self;
    (void)wanted_bytes;
    pthread_mutex_lock(&family->lock);
    void *hoard = family->hoard;
    family->hoard = NULL;
    pthread_mutex_unlock(&family->lock);
    if (hoard != NULL) expect(family, weir_pool_free(family->members[0], hoard, family->streams[0]), NULL);
    void *none = NULL;
    expect(family, weir_pool_alloc(pool, 100 * PAGE, family->streams[0], &none) == WEIR_OK ? WEIR_BROKEN : WEIR_OK,
           NULL);
    return hoard != NULL;
}

static void *hoard(void *argument) {
    struct family *family = argument;
    uint64_t chance = family->seed + 200;
    for (unsigned seen = 0; next_turn(family, &seen);) {
        void *at = NULL;
        expect(family, weir_pool_add_reclaim(family->members[0], free_hoard, family), NULL);
        expect(family, weir_pool_alloc(family->members[0], 1 + below(&chance, 20 * PAGE), family->streams[0], &at),
               ALLOWED(WEIR_OUT_OF_MEMORY));
        pthread_mutex_lock(&family->lock);
        void *before = family->hoard;
        family->hoard = at;
        pthread_mutex_unlock(&family->lock);
        if (before != NULL) expect(family, weir_pool_free(family->members[0], before, family->streams[0]), NULL);
        expect(family, weir_pool_remove_reclaim(family->members[0], free_hoard, family), NULL);
    }
    return NULL;
}

/* ---- what else may be called --------------------------------------------------------------------------------------------- */

static void tell(struct family *family, struct weir_pool *pool, uint64_t *chance) {
    char text[4096];
    struct weir_stream_stats streams[4] = {{.size = sizeof *streams}};
    size_t count;
    struct weir_block found_block = {.size = sizeof found_block};
    stats_of(pool);
    expect(family, weir_pool_get_stream_stats(pool, streams, 4, &count), NULL);
    weir_pool_report(pool, text, below(chance, sizeof text));
    expect(family, weir_pool_find(pool, (void *)(pool->pages.arena + below(chance, 100 * PAGE)), &found_block),
           ALLOWED(WEIR_INVALID));
    expect(family, weir_pool_reset_peaks(pool), NULL);
    expect(family, weir_pool_mark_iteration(pool), NULL);
    weir_pool_name_stream(pool, family->streams[below(chance, STREAMS)],
                          "a name\nof two lines and more than thirty-two characters");
}

static void *govern(void *argument) {
    struct family *family = argument;
    uint64_t chance = family->seed + 300;
    char path[64];
    snprintf(path, sizeof path, "/tmp/weir-turmoil-%d", (int)getpid());
    for (unsigned seen = 0; next_turn(family, &seen);) {
        struct weir_pool *pool = a_member(family, &chance);
        const size_t pages = 1 + below(&chance, PAGES);
        switch (below(&chance, 6)) {
        case 0:
            expect(family, weir_pool_set_limit(pool, pages * PAGE),
                   family->deterministic ? ALLOWED(WEIR_NOT_SUPPORTED) : NULL);
            break;
        case 1:
            expect(family, weir_pool_trim(pool, pages * PAGE), NULL);
            break;
        case 2:
            tell(family, pool, &chance);
            break;
        case 3:
            if (below(&chance, 20) == 0) expect(family, weir_pool_snapshot(pool, path), NULL);
            break;
        default:
            expect(family, weir_pool_check(pool), NULL);
        }
        if (!family->deterministic) expect(family, weir_pool_set_limit(family->members[0], PAGES * PAGE), NULL);
    }
    unlink(path);
    return NULL;
}

/* ---- all of it ------------------------------------------------------------------------------------------------------------ */

static void run(enum weir_policy policy, bool deterministic) {
    struct family family = {.lock = PTHREAD_MUTEX_INITIALIZER, .deterministic = deterministic, .seed = seed_of(31)};
    const struct weir_pool_options options = {.size = sizeof options,
                                              .policy = policy,
                                              .limit_bytes = PAGES * PAGE,
                                              .wait_limit_ns = 3000000,
                                              .trace_path = "",
                                              .deterministic = deterministic};
    const struct weir_sub_pool_options sub = {.size = sizeof sub};
    OK(weir_pool_create(test_device(), &options, &family.members[0]));
    for (int i = 1; i < MEMBERS; i++) OK(weir_pool_create_sub(family.members[0], &sub, &family.members[i]));
    for (int i = 0; i < STREAMS; i++) family.streams[i] = new_stream();

    struct user users[USERS] = {0};
    pthread_t threads[USERS], others[3];
    void *(*const calls[])(void *) = {found, hoard, govern};
    for (int i = 0; i < USERS; i++) {
        users[i] = (struct user){.family = &family, .chance = family.seed + (uint64_t)i * 2};
        assert_int_equal(pthread_create(&threads[i], NULL, use, &users[i]), 0);
    }
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&others[i], NULL, calls[i], &family), 0);
    for (int i = 0; i < USERS; i++) pthread_join(threads[i], NULL);
    __atomic_store_n(&family.over, true, __ATOMIC_RELEASE);
    for (int i = 0; i < 3; i++) pthread_join(others[i], NULL);

    if (family.hoard != NULL) OK(weir_pool_free(family.members[0], family.hoard, family.streams[0]));
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(family.failed, 0);
    assert_int_equal(wrong_bytes(), 0);
    for (int i = MEMBERS; i-- > 0;) {
        assert_int_equal(stats_of(family.members[i]).live_bytes, 0);
        close_pool(family.members[i]);
    }
    for (int i = 0; i < STREAMS; i++) OK(weir_stream_destroy(test_device(), family.streams[i]));
}

static void with_latency(void **state) {
    (void)state;
    run(WEIR_POLICY_LATENCY, false);
}

static void with_footprint(void **state) {
    (void)state;
    run(WEIR_POLICY_FOOTPRINT, false);
}

static void with_a_pool_a_stream(void **state) {
    (void)state;
    run(WEIR_POLICY_PER_STREAM, false);
}

static void in_order(void **state) {
    (void)state;
    run(WEIR_POLICY_LATENCY, true);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_latency),
        cmocka_unit_test(with_footprint),
        cmocka_unit_test(with_a_pool_a_stream),
        cmocka_unit_test(in_order),
    };
    return cmocka_run_group_tests_name("turmoil", tests, NULL, NULL);
}
