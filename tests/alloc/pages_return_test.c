/* SPDX-License-Identifier: Apache-2.0 */
/* A page that went elsewhere leaves its old place mapped, so that it can come back without a call that changes memory:
 * never while it is used elsewhere, never before those that used it last, to no more old places than there may be, and
 * not beyond its end: a page that is given back to the driver is mapped nowhere. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/emulated.h"
#include "support.h"

static struct weir_emu_counts counts(void) {
    struct weir_emu_counts now = {.size = sizeof now};
    OK(weir__device_counts(test_device(), &now));
    return now;
}

static weir__page page_at(struct weir_pool *pool, const void *address) {
    return pool->pages.at[weir__place_of(&pool->pages, (uintptr_t)address)];
}

static size_t places_of(struct weir_pool *pool, weir__page page) {
    size_t places = 0;
    for (size_t i = 0; i < pool->pages.arena_bytes / PAGE; i++) places += pool->pages.at[i] == page;
    return places;
}

/* ---- two pages that went to two places --------------------------------------------------------------------------- */

enum { SCENE_PAGES = 8 };

/* Two pages that lay side by side, in `old`, and lie apart now, each at the end of three; all is in use. */
struct scene {
    struct weir_pool *pool;
    weir_stream s0, s1, s2;
    unsigned char *old, *first, *second;         /* `first` and `second`: where they are now */
    unsigned char *before_first, *before_second; /* two pages each */
    void *posts[2];
};

/* Three pages: the last one is what `owner` gets, of the two before the two pages that s0 gets. */
static unsigned char *part(struct scene *scene, unsigned char *three, weir_stream owner, unsigned char **before) {
    OK(weir_pool_free(scene->pool, three, scene->s0));
    *before = alloc(scene->pool, 2 * PAGE, scene->s0);
    unsigned char *last = alloc(scene->pool, PAGE, owner);
    assert_ptr_equal(*before, three);
    assert_ptr_equal(last, three + 2 * PAGE);
    return last;
}

static struct scene open_scene(void) {
    struct scene scene = {.pool = open_pool(WEIR_POLICY_LATENCY, SCENE_PAGES),
                          .s0 = new_stream(),
                          .s1 = new_stream(),
                          .s2 = new_stream()};
    struct weir_pool *pool = scene.pool;
    weir_stream s0 = scene.s0;
    scene.old = alloc(pool, 2 * PAGE, s0);
    const weir__page a = page_at(pool, scene.old), b = page_at(pool, scene.old + PAGE);
    scene.posts[0] = alloc(pool, PAGE, s0);
    void *rest = alloc(pool, 2 * PAGE, s0), *end = alloc(pool, PAGE, s0);
    OK(weir_pool_free(pool, scene.old, s0));
    unsigned char *three = alloc(pool, 3 * PAGE, s0); /* two new pages, and the first one of the two */
    scene.posts[1] = end;
    void *fourth = NULL;
    assert_int_equal(weir_pool_alloc(pool, 3 * PAGE, s0, &fourth), WEIR_OUT_OF_MEMORY);
    OK(weir_pool_free(pool, rest, s0));
    unsigned char *other = alloc(pool, 3 * PAGE, s0); /* two of the rest, and the second one */
    scene.first = part(&scene, three, scene.s1, &scene.before_first);
    scene.second = part(&scene, other, scene.s2, &scene.before_second);
    assert_int_equal(page_at(pool, scene.first) + page_at(pool, scene.second), a + b);
    assert_int_equal(page_at(pool, scene.old), a);
    assert_int_equal(page_at(pool, scene.old + PAGE), b);
    assert_true(page_at(pool, scene.first) == a || page_at(pool, scene.first) == b);
    return scene;
}

static void close_scene(struct scene *scene) {
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
    close_pool(scene->pool);
    OK(weir_stream_destroy(test_device(), scene->s0));
    OK(weir_stream_destroy(test_device(), scene->s1));
    OK(weir_stream_destroy(test_device(), scene->s2));
}

static void they_come_back_without_a_memory_call(void **state) {
    (void)state;
    struct scene scene = open_scene();
    OK(weir_pool_free(scene.pool, scene.first, scene.s1));
    OK(weir_pool_free(scene.pool, scene.second, scene.s2));
    OK(weir_device_synchronize(test_device()));
    const uint64_t memory_calls = counts().memory_calls;
    unsigned char *back = alloc(scene.pool, 2 * PAGE, scene.s0);
    assert_ptr_equal(back, scene.old);
    assert_int_equal(counts().memory_calls, memory_calls);
    assert_int_equal(scene.pool->pages_returned, 2);
    queue_fill(scene.s0, back, 2 * PAGE, 0xBB);
    queue_check(scene.s0, back, 2 * PAGE, 0xBB);
    close_scene(&scene);
}

static void they_do_not_come_back_while_one_is_used(void **state) {
    (void)state;
    struct scene scene = open_scene();
    void *none = NULL;
    queue_fill(scene.s2, scene.second, PAGE, 0xAA);
    OK(weir_pool_free(scene.pool, scene.first, scene.s1));
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(weir_pool_alloc(scene.pool, 2 * PAGE, scene.s0, &none), WEIR_OUT_OF_MEMORY);
    unsigned char *one = alloc(scene.pool, PAGE, scene.s0);
    queue_fill(scene.s0, one, PAGE, 0xBB);
    OK(weir_device_synchronize(test_device()));
    queue_check(scene.s2, scene.second, PAGE, 0xAA);
    OK(weir_pool_free(scene.pool, one, scene.s0));
    OK(weir_pool_free(scene.pool, scene.second, scene.s2));
    OK(weir_device_synchronize(test_device()));
    assert_ptr_equal(alloc(scene.pool, 2 * PAGE, scene.s0), scene.old);
    close_scene(&scene);
}

/* Both were used last by streams that stand at gates; the host is not held, the asking stream is. */
static void they_come_back_behind_those_that_used_them_last(void **state) {
    (void)state;
    struct scene scene = open_scene();
    OK(weir_device_synchronize(test_device()));
    struct gate *gates[2] = {put_gate(scene.s1), put_gate(scene.s2)};
    queue_fill(scene.s1, scene.first, PAGE, 0xAA);
    queue_fill(scene.s2, scene.second, PAGE, 0xAA);
    OK(weir_pool_free(scene.pool, scene.first, scene.s1));
    OK(weir_pool_free(scene.pool, scene.second, scene.s2));
    const uint64_t memory_calls = counts().memory_calls;
    unsigned char *back = alloc(scene.pool, 2 * PAGE, scene.s0);
    assert_ptr_equal(back, scene.old);
    assert_int_equal(counts().memory_calls, memory_calls);
    assert_int_equal(stats_of(scene.pool).host_waits, 0);
    queue_fill(scene.s0, back, 2 * PAGE, 0xBB);
    queue_check(scene.s0, back, 2 * PAGE, 0xBB);
    for (int i = 0; i < 2; i++) open_gate(gates[i]);
    close_scene(&scene);
}

/* Back and forth: the place that they left last is stale too, and serves again. */
static void a_page_has_several_old_places(void **state) {
    (void)state;
    struct scene scene = open_scene();
    struct weir_pool *pool = scene.pool;
    OK(weir_pool_free(pool, scene.first, scene.s1));
    OK(weir_pool_free(pool, scene.second, scene.s2));
    OK(weir_device_synchronize(test_device()));
    const uint64_t memory_calls = counts().memory_calls;
    for (int i = 0; i < 3; i++) {
        unsigned char *back = alloc(pool, 2 * PAGE, scene.s0);
        assert_ptr_equal(back, scene.old);
        OK(weir_pool_free(pool, back, scene.s0));
        OK(weir_pool_free(pool, scene.before_first, scene.s0));
        unsigned char *three = alloc(pool, 3 * PAGE, scene.s0);
        queue_fill(scene.s0, three, 3 * PAGE, (unsigned char)i);
        queue_check(scene.s0, three, 3 * PAGE, (unsigned char)i);
        OK(weir_pool_free(pool, three, scene.s0));
        assert_ptr_equal(three, scene.before_first);
        scene.before_first = alloc(pool, 2 * PAGE, scene.s0);
        assert_ptr_equal(scene.before_first, three);
    }
    assert_int_equal(counts().memory_calls, memory_calls);
    close_scene(&scene);
}

/* ---- trim ---------------------------------------------------------------------------------------------------------- */

static void what_is_given_back_is_mapped_nowhere(struct weir_pool *pool, uint64_t held_before) {
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held_bytes, 0);
    assert_int_equal(counts().held_bytes, held_before); /* a page lives on while it is mapped anywhere */
    assert_int_equal(pool->pages.mapped, 0);
    for (size_t i = 0; i < pool->pages.arena_bytes / PAGE; i++) assert_int_equal(pool->pages.at[i], 0);
}

static void a_trim_unmaps_the_old_places_too(void **state) {
    (void)state;
    const uint64_t held = counts().held_bytes;
    struct scene scene = open_scene();
    struct weir_pool *pool = scene.pool;
    OK(weir_pool_free(pool, scene.first, scene.s1));
    OK(weir_pool_free(pool, scene.second, scene.s2));
    assert_true(places_of(pool, page_at(pool, scene.old)) >= 2);
    OK(weir_pool_trim(pool, 0)); /* the two may go; the others are in use */
    assert_int_equal(stats_of(pool).held_bytes, 6 * PAGE);
    assert_int_equal(counts().held_bytes, held + 6 * PAGE);
    assert_int_equal(page_at(pool, scene.old), 0);
    OK(weir_pool_free(pool, scene.before_first, scene.s0));
    OK(weir_pool_free(pool, scene.before_second, scene.s0));
    for (int i = 0; i < 2; i++) OK(weir_pool_free(pool, scene.posts[i], scene.s0));
    OK(weir_device_synchronize(test_device()));
    what_is_given_back_is_mapped_nowhere(pool, held);
    void *all = alloc(pool, SCENE_PAGES * PAGE, scene.s0); /* and can be had again */
    queue_fill(scene.s0, all, SCENE_PAGES * PAGE, 1);
    close_scene(&scene);
}

/* Pages are not given back while work may still go through an old place of them. */
static void a_trim_leaves_pages_with_old_places_in_use(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 5);
    weir_stream s0 = new_stream(), s1 = new_stream();
    void *old = alloc(pool, PAGE, s1), *post = alloc(pool, PAGE, s0), *rest = alloc(pool, 2 * PAGE, s0);
    struct gate *gate = put_gate(s1);
    queue_fill(s1, old, PAGE, 0xAA);
    OK(weir_pool_free(pool, old, s1));
    void *two = alloc(pool, 2 * PAGE, s0); /* behind the gate by now */
    OK(weir_pool_free(pool, two, s0));
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held_bytes, 5 * PAGE);
    open_gate(gate);
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held_bytes, 3 * PAGE);
    OK(weir_pool_free(pool, post, s0));
    OK(weir_pool_free(pool, rest, s0));
    close_pool(pool);
}

static struct weir_pool *open_deterministic(size_t pages) {
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.size = sizeof options,
                                        .limit_bytes = pages * PAGE,
                                        .wait_limit_ns = 2000000000u,
                                        .trace_path = "",
                                        .deterministic = true};
    OK(weir_pool_create(test_device(), &options, &pool));
    return pool;
}

/* In deterministic mode nothing is seen to be complete by itself, so a trim waits: for old places as well. */
static void a_deterministic_trim_waits_for_old_places(void **state) {
    (void)state;
    struct weir_pool *pool = open_deterministic(5);
    weir_stream s0 = new_stream(), s1 = new_stream();
    void *old = alloc(pool, PAGE, s1);
    alloc(pool, PAGE, s0);
    alloc(pool, 2 * PAGE, s0);
    queue_fill(s1, old, PAGE, 0xAA);
    OK(weir_pool_free(pool, old, s1));
    OK(weir_pool_free(pool, alloc(pool, 2 * PAGE, s0), s0)); /* one is new, the other one is moved */
    assert_int_equal(stats_of(pool).pages_moved, 1);
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held_bytes, 3 * PAGE);
    close_pool(pool);
}

/* What is said of an old place names the stream that used it; when that is gone and its work is over, nothing does. */
static void old_places_forget_streams_that_are_gone(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 5);
    weir_stream s0 = new_stream(), s1 = new_stream();
    void *old = alloc(pool, PAGE, s1);
    alloc(pool, PAGE, s0);
    alloc(pool, 2 * PAGE, s0);
    struct gate *gate = put_gate(s1);
    OK(weir_pool_free(pool, old, s1));
    void *two = alloc(pool, 2 * PAGE, s0);
    assert_int_equal(stats_of(pool).pages_moved, 1);
    open_gate(gate);
    OK(weir_device_synchronize(test_device()));
    OK(weir_stream_destroy(test_device(), s1));
    OK(weir_pool_free(pool, two, s0));
    weir_stream others[2] = {new_stream(), new_stream()};
    for (int i = 0; i < 2; i++) OK(weir_pool_free(pool, alloc(pool, PAGE, others[i]), others[i]));
    assert_non_null(pool->stale.oldest);
    for (const struct weir__extent *stale = pool->stale.oldest; stale != NULL; stale = stale->newer)
        assert_int_equal(stale->tag_count, 0); /* its number may be another stream's by now */
    OK(weir_pool_check(pool));
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held_bytes, 3 * PAGE);
    close_pool(pool);
}

/* ---- programs ------------------------------------------------------------------------------------------------------ */

enum { PAGES = 16, BLOCKS = 16, MOST_BYTES_PAGES = 6 };

struct program {
    struct weir_pool *pool;
    weir_stream stream;
    unsigned char *blocks[BLOCKS];
    size_t pages[BLOCKS], live;
    uint64_t chance;
};

/* Frees a block or asks for one of whole pages that must fit. Gives: what the pool said. */
static enum weir_status step(struct program *program) {
    const unsigned i = (unsigned)(draw(&program->chance) % BLOCKS);
    enum weir_status status = WEIR_OK;
    if (program->blocks[i] != NULL) {
        queue_check(program->stream, program->blocks[i], program->pages[i] * PAGE, (unsigned char)(i + 1));
        OK(weir_pool_free(program->pool, program->blocks[i], program->stream));
        program->blocks[i] = NULL;
        program->live -= program->pages[i];
        return WEIR_OK;
    }
    const size_t pages = 1 + draw(&program->chance) % MOST_BYTES_PAGES;
    if (program->live + pages > PAGES) return WEIR_OK;
    status = weir_pool_alloc(program->pool, pages * PAGE, program->stream, (void **)&program->blocks[i]);
    if (status != WEIR_OK) return status;
    program->pages[i] = pages;
    program->live += pages;
    queue_fill(program->stream, program->blocks[i], pages * PAGE, (unsigned char)(i + 1));
    return WEIR_OK;
}

static void free_all(struct program *program) {
    for (int i = 0; i < BLOCKS; i++)
        if (program->blocks[i] != NULL) OK(weir_pool_free(program->pool, program->blocks[i], program->stream));
    OK(weir_device_synchronize(test_device()));
    assert_int_equal(wrong_bytes(), 0);
}

static void no_more_places_are_mapped_than_may_be(void **state) {
    (void)state;
    const uint64_t held = counts().held_bytes;
    struct program program = {
        .pool = open_pool(WEIR_POLICY_LATENCY, PAGES), .stream = new_stream(), .chance = seed_of(3)};
    size_t most = 0;
    for (int i = 0; i < 4000; i++) {
        OK(step(&program));
        OK(weir_device_synchronize(test_device()));
        OK(weir_pool_check(program.pool));
        if (program.pool->pages.mapped > most) most = program.pool->pages.mapped;
        assert_true(program.pool->pages.mapped <= program.pool->pages.limit * WEIR__MAPPED_TIMES);
    }
    assert_true(most > program.pool->pages.limit * (WEIR__MAPPED_TIMES - 1)); /* else it was too easy */
    assert_true(program.pool->pages_returned > 0);
    free_all(&program);
    what_is_given_back_is_mapped_nowhere(program.pool, held);
    close_pool(program.pool);
}

/* Behind a gate no old place is ever complete. Then the pages' own places have to go, which takes the end of their work: a
 * wait of the host, which is given up after the limit; nothing has changed, and later it succeeds. */
static void too_many_places_in_use_are_waited_for_within_the_limit(void **state) {
    (void)state;
    struct program program = {.stream = new_stream(), .chance = seed_of(4)};
    const uint64_t limit_ns = 20000000u;
    struct weir_pool_options options = {
        .size = sizeof options, .limit_bytes = PAGES * PAGE, .wait_limit_ns = limit_ns, .trace_path = ""};
    OK(weir_pool_create(test_device(), &options, &program.pool));
    struct gate *gate = put_gate(program.stream);
    enum weir_status status = WEIR_OK;
    uint64_t since_ns = 0;
    for (int i = 0; i < 4000 && status == WEIR_OK; i++) {
        since_ns = now_ns();
        status = step(&program);
        OK(weir_pool_check(program.pool));
    }
    assert_int_equal(status, WEIR_OUT_OF_MEMORY);
    assert_true(now_ns() - since_ns >= limit_ns);
    assert_int_equal(stats_of(program.pool).host_waits, 1);
    assert_int_equal(stats_of(program.pool).out_of_memory, 1);
    assert_int_equal(stats_of(program.pool).moving_bytes, 0);
    assert_true(program.pool->pages.mapped <= program.pool->pages.limit * WEIR__MAPPED_TIMES);
    open_gate(gate);
    for (int i = 0; i < 200; i++) { /* the limit is short: work must not be longer on a busy machine */
        OK(weir_device_synchronize(test_device()));
        OK(step(&program));
    }
    free_all(&program);
    close_pool(program.pool);
}

/* ---- failures ------------------------------------------------------------------------------------------------------ */

enum call { CREATE, MAP, SET_ACCESS, UNMAP, RELEASE, CALLS };

static const struct weir__driver *real;
static enum call failing;
static long turn, turns_failing; /* of that call; the one at 0 fails, and so many from there on */
static CUresult code;

static bool fails(enum call call) {
    if (call != failing) return false;
    turn--;
    return turn < 0 && turn >= -turns_failing;
}

static CUresult page_create(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *properties,
                            unsigned long long flags) {
    return fails(CREATE) ? code : real->page_create(handle, bytes, properties, flags);
}
static CUresult page_map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                         unsigned long long flags) {
    return fails(MAP) ? code : real->page_map(address, bytes, offset, handle, flags);
}
static CUresult page_set_access(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t count) {
    return fails(SET_ACCESS) ? code : real->page_set_access(address, bytes, access, count);
}
static CUresult page_unmap(CUdeviceptr address, size_t bytes) {
    return fails(UNMAP) ? code : real->page_unmap(address, bytes);
}
static CUresult page_release(CUmemGenericAllocationHandle handle) {
    return fails(RELEASE) ? code : real->page_release(handle);
}

/* Gives: whether the call came to its turn. */
static bool run_failing(enum call call, long at, long times, CUresult with) {
    static struct weir__driver faulty;
    const uint64_t held = counts().held_bytes;
    struct program program = {.pool = open_pool(WEIR_POLICY_LATENCY, PAGES), .stream = new_stream(), .chance = 99};
    faulty = *real;
    faulty.page_create = page_create;
    faulty.page_map = page_map;
    faulty.page_set_access = page_set_access;
    faulty.page_unmap = page_unmap;
    faulty.page_release = page_release;
    failing = call;
    turn = at;
    turns_failing = times;
    code = with;
    test_device()->driver = &faulty;
    for (int i = 0; i < 600; i++) {
        const enum weir_status status = i % 100 == 99 ? weir_pool_trim(program.pool, PAGES / 2 * PAGE) : step(&program);
        if (status != WEIR_OK && status != WEIR_DRIVER && status != WEIR_OUT_OF_MEMORY)
            fail_msg("call %d, turn %ld: %s", (int)call, at, weir_last_error()->message);
        if (weir_pool_check(program.pool) != WEIR_OK)
            fail_msg("call %d, turn %ld, step %d: %s", (int)call, at, i, weir_last_error()->message);
        if (i % 16 == 0) OK(weir_device_synchronize(test_device()));
    }
    const bool came = turn < 0;
    test_device()->driver = real;
    free_all(&program);
    if (stats_of(program.pool).moving_bytes == 0) /* else pages are stuck, and counted */
        what_is_given_back_is_mapped_nowhere(program.pool, held);
    close_pool(program.pool);
    OK(weir_stream_destroy(test_device(), program.stream));
    assert_int_equal(counts().held_bytes, held);
    return came;
}

static void each_call_that_fails_leaves_the_pool_whole(void **state) {
    (void)state;
    static const CUresult codes[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN};
    real = test_device()->driver;
    for (int call = 0; call < CALLS; call++)
        for (long at = 0, stride = 1; run_failing((enum call)call, at, 1 + at % 3, codes[at % 2]); at += stride)
            if (at == 40) stride = 13;
}

static unsigned maps_failed;
static CUresult fail_to_map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                            unsigned long long flags) {
    (void)address;
    (void)bytes;
    (void)offset;
    (void)handle;
    (void)flags;
    return maps_failed++ == 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_UNKNOWN;
}

/* The driver has no memory for more mappings, so pages are unmapped before they are mapped elsewhere, which then fails: they
 * lie spare. An old place is left of one, of which the host has not seen that its work is over. */
static void a_spare_page_with_an_old_place_is_given_back_in_the_end(void **state) {
    (void)state;
    const uint64_t held = counts().held_bytes;
    struct weir_pool *pool = open_deterministic(8);
    weir_stream s0 = new_stream(), s1 = new_stream();
    void *posts[4] = {alloc(pool, PAGE, s0)}, *none = NULL;
    unsigned char *old = alloc(pool, 2 * PAGE, s1), *rest = alloc(pool, 2 * PAGE, s0);
    posts[1] = alloc(pool, PAGE, s0);
    posts[2] = alloc(pool, PAGE, s0);
    queue_fill(s1, old, 2 * PAGE, 0xAA);
    OK(weir_pool_free(pool, old, s1));
    void *three = alloc(pool, 3 * PAGE, s0); /* one page is new, the others were `old` */
    assert_int_equal(stats_of(pool).pages_moved, 2);
    OK(weir_pool_free(pool, three, s0));
    unsigned char *two = alloc(pool, 2 * PAGE, s0);
    posts[3] = alloc(pool, PAGE, s0);
    assert_ptr_equal(two, three);
    assert_ptr_equal(posts[3], two + 2 * PAGE);
    OK(weir_pool_free(pool, rest, s0));
    OK(weir_pool_free(pool, two, s0));
    real = test_device()->driver;
    struct weir__driver faulty = *real;
    faulty.page_map = fail_to_map;
    test_device()->driver = &faulty;
    maps_failed = 0;
    assert_int_equal(weir_pool_alloc(pool, 4 * PAGE, s0, &none), WEIR_DRIVER);
    test_device()->driver = real;
    assert_int_equal(maps_failed, 2);
    assert_int_equal(stats_of(pool).unmapped_bytes, 4 * PAGE);
    assert_true(page_at(pool, old) != 0 && pool->pages.home[page_at(pool, old)] == WEIR__NOWHERE);
    OK(weir_pool_check(pool));
    for (int i = 0; i < 4; i++) OK(weir_pool_free(pool, posts[i], s0));
    what_is_given_back_is_mapped_nowhere(pool, held);
    void *all = alloc(pool, 8 * PAGE, s0);
    queue_fill(s0, all, 8 * PAGE, 0xBB);
    close_pool(pool);
}

/* A device of so few pages that there are soon as many places as may be mapped. */
static void make_device_small(void) {
    const char *given = getenv("WEIR_EMU");
    char settings[256];
    snprintf(settings, sizeof settings, "%s%scapacity:%zu", given != NULL ? given : "", given != NULL ? "," : "",
             PAGES * PAGE);
    setenv("WEIR_EMU", settings, 1);
    assert(test_device() != NULL);
}

int main(void) {
    make_device_small();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_come_back_without_a_memory_call),
        cmocka_unit_test(they_do_not_come_back_while_one_is_used),
        cmocka_unit_test(they_come_back_behind_those_that_used_them_last),
        cmocka_unit_test(a_page_has_several_old_places),
        cmocka_unit_test(a_trim_unmaps_the_old_places_too),
        cmocka_unit_test(a_trim_leaves_pages_with_old_places_in_use),
        cmocka_unit_test(a_deterministic_trim_waits_for_old_places),
        cmocka_unit_test(old_places_forget_streams_that_are_gone),
        cmocka_unit_test(no_more_places_are_mapped_than_may_be),
        cmocka_unit_test(too_many_places_in_use_are_waited_for_within_the_limit),
        cmocka_unit_test(each_call_that_fails_leaves_the_pool_whole),
        cmocka_unit_test(a_spare_page_with_an_old_place_is_given_back_in_the_end),
    };
    return cmocka_run_group_tests_name("pages_return", tests, NULL, NULL);
}
