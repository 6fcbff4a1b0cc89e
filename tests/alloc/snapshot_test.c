/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot holds what the pool holds, in the form that PyTorch's memory viewer reads; it takes its name when it is whole;
 * the pool goes on while it is written. What it holds is read by snapshot.py, where there is a python3. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

/* ---- host memory that ends --------------------------------------------------------------------------------------- */

static long allocations_left = -1; /* -1: no end */

static bool no_memory(void) { return allocations_left >= 0 && allocations_left-- == 0; }

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_malloc(size_t bytes) { return no_memory() ? NULL : __real_malloc(bytes); }
void *__wrap_calloc(size_t count, size_t bytes) { return no_memory() ? NULL : __real_calloc(count, bytes); }
void *__wrap_realloc(void *old, size_t bytes) { return no_memory() ? NULL : __real_realloc(old, bytes); }

/* ---- files ------------------------------------------------------------------------------------------------------- */

static char folder[] = "/tmp/weir-snapshot-XXXXXX";

static const char *path_of(const char *name) {
    static char paths[2][300];
    static unsigned next;
    char *path = paths[next++ % 2];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

/* Gives: how many files there are; removes them. */
static int empty_folder(void) {
    DIR *entries = opendir(folder);
    int count = 0;
    assert_non_null(entries);
    for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        if (entry->d_name[0] == '.') continue;
        unlink(path_of(entry->d_name));
        count++;
    }
    closedir(entries);
    return count;
}

static int remove_folder(void **state) {
    (void)state;
    empty_folder();
    return rmdir(folder);
}

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static bool file_is(const char *path, const char *text) {
    char found[64] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    const size_t length = fread(found, 1, sizeof found - 1, file);
    fclose(file);
    return length == strlen(text) && memcmp(found, text, length) == 0;
}

/* ---- reading it -------------------------------------------------------------------------------------------------- */

struct sums {
    size_t live, pending, inactive, requested, blocks, segments;
    size_t events, peak, refused; /* of the history */
    char rest[300];               /* names: the pool, its streams */
};

static bool has_python(void) {
    const bool found = system("python3 -c 'import pickle, pickletools' > /dev/null 2>&1") == 0;
    if (!found) print_message("SKIPPED: no python3 with pickletools, which reads the snapshot\n");
    return found;
}

static struct sums read_snapshot(const char *path) {
    char command[1000];
    struct sums sums = {0};
    snprintf(command, sizeof command, "python3 '%s' '%s'", getenv("WEIR_SNAPSHOT_PY"), path);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    const int found =
        fscanf(output, "%zu %zu %zu %zu %zu %zu %zu %zu %zu %299[^\n]", &sums.live, &sums.pending, &sums.inactive,
               &sums.requested, &sums.blocks, &sums.segments, &sums.events, &sums.peak, &sums.refused, sums.rest);
    assert_int_equal(pclose(output), 0); /* it has said what is wrong */
    assert_int_equal(found, 10);
    return sums;
}

/* Our own reader finds each live block, and nothing else. */
static void check_read_back(const char *path, const struct weir_pool_stats *stats) {
    char command[1000], line[200];
    size_t blocks = 0, peak = 0;
    if (stats->live_bytes == 0) return; /* then it says that there is nothing to convert */
    snprintf(command, sizeof command, "'%s' convert '%s' 2>/dev/null", getenv("WEIR_TRACE_PROGRAM"), path);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    while (fgets(line, sizeof line, output) != NULL) {
        size_t number, bytes;
        blocks += sscanf(line, "p %zu %zu", &number, &bytes) == 2;
        sscanf(line, "# peak live %zu", &peak);
        assert_true(line[0] == 'p' || line[0] == '#' || strncmp(line, "weir-trace", 10) == 0);
    }
    assert_int_equal(pclose(output), 0);
    assert_int_equal(peak, stats->requested_bytes);
    assert_true(blocks > 0 && blocks <= stats->live_blocks); /* one of no bytes is in no segment */
}

static struct sums snapshot_of(struct weir_pool *pool) {
    const char *path = path_of("snapshot.pickle");
    OK(weir_pool_snapshot(pool, path));
    const struct sums sums = read_snapshot(path);
    const struct weir_pool_stats stats = stats_of(pool);
    assert_int_equal(sums.live, stats.live_bytes);
    assert_int_equal(sums.requested, stats.requested_bytes);
    assert_int_equal(sums.pending + sums.inactive, stats.idle_bytes);
    check_read_back(path, &stats);
    return sums;
}

/* ---- what it holds ----------------------------------------------------------------------------------------------- */

static void a_snapshot_holds_what_the_pool_holds(void **state) {
    (void)state;
    if (!has_python()) skip();
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    struct sums sums = snapshot_of(pool);
    assert_int_equal(sums.segments, 0);
    weir_stream compute = new_stream(), comm = new_stream();
    weir_pool_name_stream(pool, compute, "compute");
    weir_pool_name_stream(pool, comm, "\xc3\xa9 \xe2\x82 \"'\\");
    void *a = alloc(pool, 10 * PAGE, compute), *c = alloc(pool, PAGE, comm), *b = alloc(pool, 6 * PAGE + 100, comm);
    alloc(pool, 700, compute);
    alloc(pool, 0, compute); /* has no memory, so is no block of a segment */
    struct gate *gate = put_gate(comm);
    OK(weir_pool_free(pool, a, compute));
    OK(weir_pool_free(pool, b, comm));
    sums = snapshot_of(pool);
    assert_int_equal(sums.live, PAGE + 1024);
    assert_int_equal(sums.requested, PAGE + 700);
    assert_int_equal(sums.blocks, 2);
    assert_true(sums.pending >= 6 * PAGE + 512 && sums.inactive >= 10 * PAGE); /* the one may still be in use */
    assert_string_equal(sums.rest, "pool compute,\xc3\xa9 ?? \"'\\");
    open_gate(gate);
    OK(weir_stream_synchronize(test_device(), comm));
    sums = snapshot_of(pool);
    assert_int_equal(sums.pending, 0);
    OK(weir_pool_free(pool, c, comm));
    OK(weir_pool_trim(pool, 0));
    sums = snapshot_of(pool);
    assert_int_equal(sums.segments, 1);
    close_pool(pool);
}

static void holes_between_pages_part_segments(void **state) {
    (void)state;
    if (!has_python()) skip();
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    weir_stream stream = new_stream();
    void *blocks[9];
    for (int i = 0; i < 9; i++) blocks[i] = alloc(pool, 2 * PAGE, stream);
    assert_int_equal(snapshot_of(pool).segments, 1);
    for (int i = 1; i < 9; i += 2) OK(weir_pool_free(pool, blocks[i], stream));
    OK(weir_stream_synchronize(test_device(), stream));
    OK(weir_pool_trim(pool, 0));
    const struct sums sums = snapshot_of(pool);
    assert_int_equal(sums.segments, 5);
    assert_int_equal(sums.inactive, 0);
    close_pool(pool);
}

static void a_pool_a_stream_has_its_own_segments(void **state) {
    (void)state;
    if (!has_python()) skip();
    struct weir_pool *pool = open_pool(WEIR_POLICY_PER_STREAM, 200);
    weir_stream one = new_stream(), two = new_stream();
    void *noted = alloc(pool, 20 * PAGE, one);
    alloc(pool, 1000, one);
    alloc(pool, 3 * PAGE, two);
    OK(weir_pool_note(pool, noted, two));
    struct gate *gate = put_gate(two);
    OK(weir_pool_free(pool, noted, one));
    const struct sums sums = snapshot_of(pool);
    assert_int_equal(sums.segments, 3);
    assert_int_equal(sums.pending, 20 * PAGE);
    assert_int_equal(sums.blocks, 2);
    open_gate(gate);
    close_pool(pool);
}

/* In a segment of its own, as long as it is held. */
static void a_block_that_can_be_exported_is_a_segment(void **state) {
    (void)state;
    if (!has_python()) skip();
    const enum weir_policy policies[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_PER_STREAM};
    for (int i = 0; i < 2; i++) {
        struct weir_pool *pool = open_pool(policies[i], 64);
        weir_stream stream = new_stream();
        void *block = NULL;
        alloc(pool, PAGE, stream);
        const struct sums before = snapshot_of(pool);
        OK(weir_pool_alloc_exportable(pool, 3 * PAGE - 100, stream, &block));
        struct sums sums = snapshot_of(pool);
        assert_int_equal(sums.segments, before.segments + 1);
        assert_int_equal(sums.live, 4 * PAGE);
        assert_int_equal(sums.requested, 4 * PAGE - 100);
        assert_int_equal(sums.blocks, 2);
        struct gate *gate = put_gate(stream);
        OK(weir_pool_free(pool, block, stream));
        assert_int_equal(snapshot_of(pool).pending, before.pending + 3 * PAGE);
        open_gate(gate);
        OK(weir_stream_synchronize(test_device(), stream));
        sums = snapshot_of(pool);
        assert_int_equal(sums.inactive, before.inactive + 3 * PAGE);
        assert_int_equal(sums.segments, before.segments + 1);
        OK(weir_pool_trim(pool, 0));
        assert_int_equal(snapshot_of(pool).segments, 1);
        close_pool(pool);
    }
}

/* ---- amid a change ----------------------------------------------------------------------------------------------- */

static const struct weir__driver *real;
static struct weir_pool *mapping_pool;
static struct weir_pool_stats amid;

static CUresult snapshot_and_map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                                 unsigned long long flags) {
    if (mapping_pool != NULL) {
        OK(weir_pool_snapshot(mapping_pool, path_of("snapshot.pickle")));
        amid = stats_of(mapping_pool);
    }
    mapping_pool = NULL;
    return real->page_map(address, bytes, offset, handle, flags);
}

/* The window has an idle end, which is being moved and has a page, and addresses that have none yet. */
static void addresses_that_are_being_mapped_are_in_no_segment(void **state) {
    (void)state;
    if (!has_python()) skip();
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    weir_stream stream = new_stream();
    alloc(pool, PAGE, stream);
    OK(weir_pool_free(pool, alloc(pool, 3 * PAGE, stream), stream));
    real = test_device()->driver;
    struct weir__driver driver = *real;
    driver.page_map = snapshot_and_map;
    test_device()->driver = &driver;
    mapping_pool = pool;
    alloc(pool, 8 * PAGE, stream);
    test_device()->driver = real;
    assert_null(mapping_pool);
    const struct sums sums = read_snapshot(path_of("snapshot.pickle"));
    assert_true(amid.moving_bytes > 0);
    assert_int_equal(sums.pending + sums.inactive, amid.idle_bytes + amid.moving_bytes);
    close_pool(pool);
}

/* ---- how it came to that ------------------------------------------------------------------------------------------ */

static struct weir_pool *open_with_history(enum weir_policy policy, size_t pages, size_t history) {
    struct weir_pool *pool = NULL;
    const struct weir_pool_options options = {.size = sizeof options,
                                              .policy = policy,
                                              .limit_bytes = pages * PAGE,
                                              .wait_limit_ns = 2000000000u,
                                              .trace_path = "",
                                              .history = history};
    OK(weir_pool_create(test_device(), &options, &pool));
    return pool;
}

/* Our own reader makes a trace of it, whose peak is the pool's. Gives: how many blocks are allocated in it. */
static size_t check_trace(const char *path, size_t peak_requested_bytes) {
    char command[1000], line[200];
    size_t allocs = 0, peak = 0;
    snprintf(command, sizeof command, "'%s' convert '%s' 2>/dev/null", getenv("WEIR_TRACE_PROGRAM"), path);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    while (fgets(line, sizeof line, output) != NULL) {
        allocs += line[0] == 'm';
        sscanf(line, "# peak live %zu", &peak);
    }
    assert_int_equal(pclose(output), 0);
    assert_int_equal(peak, peak_requested_bytes);
    return allocs;
}

static struct sums history_of(struct weir_pool *pool) {
    const char *path = path_of("snapshot.pickle");
    OK(weir_pool_snapshot(pool, path));
    const struct sums sums = read_snapshot(path);
    const struct weir_pool_stats stats = stats_of(pool);
    assert_int_equal(sums.peak, stats.peak_requested_bytes);
    assert_int_equal(sums.refused, stats.out_of_memory);
    assert_int_equal(check_trace(path, stats.peak_requested_bytes), stats.allocs);
    return sums;
}

/* Random calls on two streams in a pool that has to move pages, to give them back and to refuse; snapshots on the way. */
static void run_story(enum weir_policy policy) {
    enum { ROUNDS = 600, MOST = 24 };
    struct weir_pool *pool = open_with_history(policy, 48, 100000);
    const weir_stream streams[] = {new_stream(), new_stream()};
    void *blocks[MOST] = {0};
    unsigned seed = 7;
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 1103515245u + 12345u;
        const unsigned at = seed >> 16 & 0x7fff, which = at % MOST;
        const weir_stream stream = streams[which % 2];
        const size_t bytes = (at % 7 == 0 ? 9 * PAGE : at % 3 == 0 ? 3 * PAGE : 2000) + at;
        if (blocks[which] == NULL) {
            const enum weir_status status = at % 13 == 0
                                                ? weir_pool_alloc_exportable(pool, bytes, stream, &blocks[which])
                                                : weir_pool_alloc(pool, bytes, stream, &blocks[which]);
            if (status != WEIR_OK) blocks[which] = NULL;
        } else if (at % 5 == 0) {
            const enum weir_status status = weir_pool_resize(pool, blocks[which], bytes, stream);
            assert_true(status == WEIR_OK || status == WEIR_NOT_READY);
        } else {
            if (at % 2 == 0) OK(weir_pool_note(pool, blocks[which], streams[at % 3 % 2]));
            if (at % 11 == 0)
                OK(weir_pool_free_any(pool, blocks[which]));
            else
                OK(weir_pool_free(pool, blocks[which], stream));
            blocks[which] = NULL;
        }
        if (i % 97 == 50) OK(weir_pool_trim(pool, 20 * PAGE));
    }
    OK(weir_pool_check(pool));
    OK(weir_pool_snapshot(pool, path_of("snapshot.pickle")));
    const struct sums sums = read_snapshot(path_of("snapshot.pickle"));
    const struct weir_pool_stats stats = stats_of(pool);
    assert_int_equal(sums.peak, stats.peak_requested_bytes);
    assert_int_equal(sums.refused, stats.out_of_memory);
    assert_true(stats.out_of_memory > 0 && sums.events > stats.allocs + stats.frees);
    if (policy != WEIR_POLICY_PER_STREAM) assert_true(stats.pages_moved > 0);
    check_trace(path_of("snapshot.pickle"), stats.peak_requested_bytes);
    close_pool(pool);
}

static void a_history_ends_in_what_the_pool_holds(void **state) {
    (void)state;
    if (!has_python()) skip();
    run_story(WEIR_POLICY_LATENCY);
    run_story(WEIR_POLICY_FOOTPRINT);
    run_story(WEIR_POLICY_PER_STREAM);
}

static CUresult refuse_to_map(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                              unsigned long long flags) {
    (void)address, (void)bytes, (void)offset, (void)handle, (void)flags;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* A move that ends when its pages have left their places and can't be mapped in others. */
static void pages_without_an_address_are_not_mapped(void **state) {
    (void)state;
    if (!has_python()) skip();
    struct weir_pool *pool = open_with_history(WEIR_POLICY_LATENCY, 64, 1000);
    weir_stream stream = new_stream();
    void *blocks[32], *none = NULL;
    for (int i = 0; i < 32; i++) blocks[i] = alloc(pool, 2 * PAGE, stream);
    for (int i = 0; i < 32; i += 2) OK(weir_pool_free(pool, blocks[i], stream));
    OK(weir_stream_synchronize(test_device(), stream));
    real = test_device()->driver;
    struct weir__driver driver = *real;
    driver.page_map = refuse_to_map;
    test_device()->driver = &driver;
    const enum weir_status status = weir_pool_alloc(pool, 20 * PAGE, stream, &none);
    test_device()->driver = real;
    assert_int_equal(status, WEIR_OUT_OF_MEMORY);
    assert_true(stats_of(pool).unmapped_bytes > 0);
    history_of(pool);
    alloc(pool, 20 * PAGE, stream);
    history_of(pool);
    close_pool(pool);
}

/* What else happens while the driver takes memory back: its addresses are another thread's before its call returns. */
static struct between {
    struct weir_pool *pool;
    weir_stream stream;
    size_t bytes;
    bool exportable;
    void *block;
} between;

static void *alloc_between(void *unused) {
    (void)unused;
    OK((between.exportable ? weir_pool_alloc_exportable : weir_pool_alloc)(between.pool, between.bytes, between.stream,
                                                                           &between.block));
    return NULL;
}

static void happen_between(void) {
    pthread_t thread;
    if (between.pool == NULL) return;
    assert_int_equal(pthread_create(&thread, NULL, alloc_between, NULL), 0);
    pthread_join(thread, NULL);
    history_of(between.pool);
    between.pool = NULL;
}

static CUresult memory_free_and_more(CUdeviceptr address) {
    const CUresult code = real->memory_free(address);
    happen_between();
    return code;
}

static CUresult address_free_and_more(CUdeviceptr address, size_t bytes) {
    const CUresult code = real->address_free(address, bytes);
    happen_between();
    return code;
}

static void addresses_are_given_back_before_others_get_them(void **state) {
    (void)state;
    if (!has_python()) skip();
    for (int exportable = 0; exportable < 2; exportable++) {
        struct weir_pool *pool = open_with_history(exportable ? WEIR_POLICY_LATENCY : WEIR_POLICY_PER_STREAM, 64, 1000);
        const weir_stream stream = new_stream();
        void *block;
        OK((exportable ? weir_pool_alloc_exportable : weir_pool_alloc)(pool, 20 * PAGE, stream, &block));
        OK(weir_pool_free(pool, block, stream));
        OK(weir_stream_synchronize(test_device(), stream));
        real = test_device()->driver;
        struct weir__driver driver = *real;
        driver.memory_free = memory_free_and_more;
        driver.address_free = address_free_and_more;
        between = (struct between){.pool = pool, .stream = stream, .bytes = 20 * PAGE, .exportable = exportable};
        test_device()->driver = &driver;
        OK(weir_pool_trim(pool, 0));
        test_device()->driver = real;
        assert_null(between.pool);
        assert_ptr_equal(between.block, block);
        history_of(pool);
        close_pool(pool);
    }
}

/* Blocks that fronts keep, of no bytes, with an alignment, alone, and of an event. */
static void every_kind_of_block_is_in_a_history(void **state) {
    (void)state;
    if (!has_python()) skip();
    struct weir_pool *pool = open_with_history(WEIR_POLICY_LATENCY, 64, 1000);
    weir_stream stream = new_stream();
    for (int i = 0; i < 10; i++) OK(weir_pool_free(pool, alloc(pool, 3000, stream), stream));
    assert_int_equal(history_of(pool).events, 22); /* and the pages, and the snapshot */
    void *block = NULL;
    OK(weir_pool_alloc_exportable(pool, PAGE, stream, &block));
    OK(weir_pool_free(pool, block, stream));
    OK(weir_stream_synchronize(test_device(), stream));
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(history_of(pool).events, 28); /* the pages go too */
    OK(weir_pool_alloc_aligned(pool, 100, PAGE, stream, &block));
    weir_event event = NULL;
    OK(weir_event_create(test_device(), false, &event));
    OK(weir_event_record(test_device(), event, stream));
    OK(weir_pool_free_after(pool, block, event));
    OK(weir_event_destroy(test_device(), event));
    assert_int_equal(history_of(pool).events, 32);
    const char *path = path_of("snapshot.pickle");
    OK(weir_pool_free(pool, alloc(pool, 0, stream), stream)); /* has no memory */
    OK(weir_pool_snapshot(pool, path));
    assert_int_equal(read_snapshot(path).events, 33);
    close_pool(pool);
}

static void a_history_keeps_the_last_events(void **state) {
    (void)state;
    if (!has_python()) skip();
    struct weir_pool *pool = open_with_history(WEIR_POLICY_LATENCY, 64, 5);
    weir_stream stream = new_stream();
    void *first = alloc(pool, 5 * PAGE, stream);
    OK(weir_pool_free(pool, alloc(pool, PAGE, stream), stream));
    OK(weir_pool_free(pool, first, stream)); /* five by now: one time pages for each */
    const char *path = path_of("snapshot.pickle");
    void *last = alloc(pool, 2 * PAGE, stream);
    OK(weir_pool_snapshot(pool, path));
    assert_int_equal(read_snapshot(path).events, 5);
    assert_int_equal(check_trace(path, 6 * PAGE), 2); /* the one freed in it was live before */
    OK(weir_pool_free(pool, last, stream));
    close_pool(pool);
}

static void a_sub_pool_has_its_own_history(void **state) {
    (void)state;
    if (!has_python()) skip();
    struct weir_pool *pool = open_with_history(WEIR_POLICY_LATENCY, 64, 100), *sub = NULL;
    weir_stream stream = new_stream();
    OK(weir_pool_create_sub(pool, NULL, &sub));
    alloc(pool, PAGE, stream);
    alloc(sub, 2 * PAGE, stream);
    assert_int_equal(history_of(sub).events, 3);
    assert_int_equal(history_of(pool).events, 3);
    close_pool(sub);
    close_pool(pool);
}

static void a_history_that_is_off_is_empty(void **state) {
    (void)state;
    if (!has_python()) skip();
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    alloc(pool, PAGE, new_stream());
    OK(weir_pool_snapshot(pool, path_of("snapshot.pickle")));
    assert_int_equal(read_snapshot(path_of("snapshot.pickle")).events, 0);
    close_pool(pool);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static void expect_failure(struct weir_pool *pool, const char *path, const char *reason) {
    assert_int_equal(weir_pool_snapshot(pool, path), WEIR_SYSTEM);
    assert_non_null(strstr(weir_last_error()->message, path));
    if (strstr(weir_last_error()->message, reason) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", reason, weir_last_error()->message);
}

static void a_snapshot_takes_its_name_when_it_is_whole(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    weir_stream stream = new_stream();
    for (int i = 0; i < 100; i++) alloc(pool, 5000, stream);
    empty_folder();
    const char *path = path_of("snapshot.pickle");
    write_text(path, "what was there before");
    const struct rlimit least = {.rlim_cur = 2000, .rlim_max = RLIM_INFINITY};
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &least), 0);
    const enum weir_status status = weir_pool_snapshot(pool, path);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(status, WEIR_SYSTEM);
    assert_non_null(strstr(weir_last_error()->message, "File too large"));
    assert_true(file_is(path, "what was there before"));
    assert_int_equal(empty_folder(), 1); /* nothing beside it */
    OK(weir_pool_snapshot(pool, path));
    assert_int_equal(empty_folder(), 1);
    close_pool(pool);
}

static void what_can_not_be_written_is_said(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    empty_folder();
    expect_failure(pool, "/nowhere/at/all", "No such file");
    assert_int_equal(symlink("/dev/full", path_of("full")), 0);
    expect_failure(pool, path_of("full"), "No space left");
    expect_failure(pool, folder, "Is a directory");
    assert_int_equal(weir_pool_snapshot(pool, NULL), WEIR_INVALID);
    assert_int_equal(weir_pool_snapshot(pool, ""), WEIR_INVALID);
    assert_int_equal(weir_pool_snapshot(NULL, "x"), WEIR_INVALID);
    assert_int_equal(empty_folder(), 1);
    close_pool(pool);
}

static void without_host_memory_there_is_no_file(void **state) {
    (void)state;
    struct weir_pool *pool = open_with_history(WEIR_POLICY_LATENCY, 1000, 100);
    weir_stream stream = new_stream();
    for (int i = 0; i < 1000; i++) alloc(pool, 512, stream);
    empty_folder();
    const char *path = path_of("snapshot.pickle");
    long least = 0;
    for (enum weir_status status = WEIR_SYSTEM; status != WEIR_OK; least++) {
        assert_true(least < 50);
        allocations_left = least;
        status = weir_pool_snapshot(pool, path);
        allocations_left = -1;
        assert_true(status == WEIR_OK || status == WEIR_OUT_OF_HOST_MEMORY);
        assert_int_equal(empty_folder(), status == WEIR_OK);
        OK(weir_pool_check(pool));
    }
    assert_true(least > 5);
    close_pool(pool);
}

/* ---- while it is written ----------------------------------------------------------------------------------------- */

struct writing {
    struct weir_pool *pool;
    const char *path;
    enum weir_status status;
};

static void *write_snapshot(void *argument) {
    struct writing *writing = argument;
    writing->status = weir_pool_snapshot(writing->pool, writing->path);
    return NULL;
}

/* Into a pipe, whose reader takes the first bytes and then lets the writer wait. Many blocks, for batches. Without standard
 * input: the file does not take its number, so not that of a stream to print to. */
static void the_pool_goes_on_while_a_snapshot_is_written(void **state) {
    (void)state;
    enum { BLOCKS = 20000 };
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 1000);
    weir_stream stream = new_stream();
    for (int i = 0; i < BLOCKS; i++) alloc(pool, 512, stream);
    empty_folder();
    char copied[300];
    snprintf(copied, sizeof copied, "%s", path_of("copied.pickle"));
    struct writing writing = {.pool = pool, .path = path_of("pipe")};
    assert_int_equal(mkfifo(writing.path, 0600), 0);
    pthread_t thread;
    static char bytes[1 << 16];
    const int both_ends = open(writing.path, O_RDWR), pipe_end = open(writing.path, O_RDONLY); /* no open waits */
    FILE *copy = fopen(copied, "wb");
    assert_true(both_ends >= 0 && pipe_end >= 0 && copy != NULL);
    close(STDIN_FILENO);
    assert_int_equal(pthread_create(&thread, NULL, write_snapshot, &writing), 0);
    ssize_t got = read(pipe_end, bytes, 100); /* it has begun, and can't end: a pipe holds less */
    assert_true(got > 0);
    assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
    close(both_ends);
    OK(weir_pool_free(pool, alloc(pool, 3 * PAGE, stream), stream));
    assert_int_equal(stats_of(pool).live_blocks, BLOCKS);
    for (; got > 0; got = read(pipe_end, bytes, sizeof bytes)) fwrite(bytes, 1, (size_t)got, copy);
    close(pipe_end);
    assert_true(ftell(copy) > 500000);
    assert_int_equal(fclose(copy), 0);
    pthread_join(thread, NULL);
    OK(writing.status);
    if (has_python()) assert_int_equal(read_snapshot(copied).blocks, BLOCKS);
    close_pool(pool);
}

/* Which the viewer would join with a segment of stream 0 next to it, were it of the other kind. */
static void a_block_alone_is_a_segment_of_the_policys_kind(void **state) {
    (void)state;
    if (!has_python()) skip();
    struct weir_pool *pool = open_with_history(WEIR_POLICY_PER_STREAM, 64, 1000);
    void *block;
    OK(weir_pool_alloc_exportable(pool, 10 * PAGE, NULL, &block));
    alloc(pool, 10 * PAGE, NULL);
    OK(weir_pool_free(pool, block, NULL));
    OK(weir_device_synchronize(test_device()));
    OK(weir_pool_trim(pool, 0));
    history_of(pool);
    close_pool(pool);
}

static void a_link_stays_where_a_snapshot_replaces_its_file(void **state) {
    (void)state;
    struct weir_pool *pool = open_pool(WEIR_POLICY_LATENCY, 64);
    struct stat about;
    char *file = strdup(path_of("file")), *link = strdup(path_of("link"));
    write_text(file, "old");
    assert_int_equal(symlink(file, link), 0);
    OK(weir_pool_snapshot(pool, link));
    assert_int_equal(lstat(link, &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    assert_int_equal(stat(file, &about), 0);
    assert_true(about.st_size > 3);
    unlink(link);
    unlink(file);
    free(link);
    free(file);
    close_pool(pool);
}

static void *read_a_byte(void *path) {
    char byte;
    const int file = open(path, O_RDONLY);
    assert_true(file >= 0 && read(file, &byte, 1) == 1);
    close(file);
    return NULL;
}

static void a_reader_that_goes_away_is_an_error(void **state) {
    (void)state;
    struct weir_pool *pool = open_with_history(WEIR_POLICY_LATENCY, 64, 10000);
    const weir_stream stream = new_stream();
    for (int i = 0; i < 5000; i++)
        OK(weir_pool_free(pool, alloc(pool, 5000, stream), stream)); /* more than a pipe holds */
    char *path = strdup(path_of("fifo"));
    pthread_t reader;
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_a_byte, path), 0);
    assert_int_equal(weir_pool_snapshot(pool, path), WEIR_SYSTEM);
    assert_non_null(strstr(weir_last_error()->message, "fifo can't be written: Broken pipe"));
    pthread_join(reader, NULL);
    sigset_t pending;
    sigpending(&pending);
    assert_false(sigismember(&pending, SIGPIPE));
    unlink(path);
    free(path);
    close_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_snapshot_holds_what_the_pool_holds),
        cmocka_unit_test(holes_between_pages_part_segments),
        cmocka_unit_test(a_pool_a_stream_has_its_own_segments),
        cmocka_unit_test(a_block_that_can_be_exported_is_a_segment),
        cmocka_unit_test(addresses_that_are_being_mapped_are_in_no_segment),
        cmocka_unit_test(a_history_ends_in_what_the_pool_holds),
        cmocka_unit_test(pages_without_an_address_are_not_mapped),
        cmocka_unit_test(addresses_are_given_back_before_others_get_them),
        cmocka_unit_test(every_kind_of_block_is_in_a_history),
        cmocka_unit_test(a_history_keeps_the_last_events),
        cmocka_unit_test(a_sub_pool_has_its_own_history),
        cmocka_unit_test(a_history_that_is_off_is_empty),
        cmocka_unit_test(a_snapshot_takes_its_name_when_it_is_whole),
        cmocka_unit_test(what_can_not_be_written_is_said),
        cmocka_unit_test(without_host_memory_there_is_no_file),
        cmocka_unit_test(a_block_alone_is_a_segment_of_the_policys_kind),
        cmocka_unit_test(a_link_stays_where_a_snapshot_replaces_its_file),
        cmocka_unit_test(a_reader_that_goes_away_is_an_error),
        cmocka_unit_test(the_pool_goes_on_while_a_snapshot_is_written),
    };
    return cmocka_run_group_tests_name("snapshot", tests, make_folder, remove_folder);
}
