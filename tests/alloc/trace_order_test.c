/* SPDX-License-Identifier: Apache-2.0 */
/* A recording has one order, in which an operation's line precedes those of all that depend on it, whichever threads made
 * them. The reader refuses a trace in which that is not so (an unknown block, an event that was never recorded); what it
 * accepts is compared with what was done. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/trace.h"
#include "alloc/trace_file.h"
#include "alloc/trace_numbers.h"
#include "support.h"
#include "tools/trace/trace.h"

enum { THREADS = 4 };

static char path[] = "/tmp/weir_trace_order_XXXXXX";

static struct weir__trace *open_trace(void) {
    const struct weir__trace_origin origin = {.policy = "latency", .limit_bytes = 1 << 30};
    struct weir__trace *trace = NULL;
    OK(weir__trace_open(path, &origin, &trace));
    return trace;
}

static struct trace read_back(void) {
    struct trace trace;
    char why[512];
    if (!trace_read(path, &trace, why, sizeof why)) fail_msg("%s", why);
    assert_int_equal(trace.torn_lines, 0);
    assert_int_equal(unlink(path), 0); /* a process writes a name that is there once */
    return trace;
}

static void run_threads(void *(*body)(void *), void *argument) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, body, argument), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}

/* ---- the pool and the device ------------------------------------------------------------------------------------- */

enum { PASSES = 1500, HANDS = 8 };

/* A block goes from hand to hand with an event that says when it may be used: who takes one puts another one in. */
struct parcel {
    void *block;
    weir_event event;
};

struct exchange {
    struct weir_pool *pool;
    pthread_mutex_t lock;
    struct parcel parcels[HANDS];
    uint64_t chance;
};

static struct parcel swap(struct exchange *exchange, struct parcel parcel) {
    pthread_mutex_lock(&exchange->lock);
    const size_t hand = draw(&exchange->chance) % HANDS;
    struct parcel other = exchange->parcels[hand];
    exchange->parcels[hand] = parcel;
    pthread_mutex_unlock(&exchange->lock);
    return other;
}

static struct parcel make(struct exchange *exchange, weir_stream stream) {
    struct parcel parcel = {.block = alloc(exchange->pool, 1000, stream)};
    OK(weir_event_create(test_device(), false, &parcel.event));
    OK(weir_event_record(test_device(), parcel.event, stream));
    return parcel;
}

static void consume(struct exchange *exchange, weir_stream stream, struct parcel parcel) {
    if (parcel.block == NULL) return;
    OK(weir_stream_wait(test_device(), stream, parcel.event));
    OK(weir_pool_note(exchange->pool, parcel.block, stream));
    OK(weir_pool_free(exchange->pool, parcel.block, stream));
    OK(weir_event_destroy(test_device(), parcel.event));
}

static void *pass_around(void *argument) {
    struct exchange *exchange = argument;
    weir_stream stream = new_stream();
    for (int i = 0; i < PASSES; i++) consume(exchange, stream, swap(exchange, make(exchange, stream)));
    OK(weir_stream_synchronize(test_device(), stream));
    OK(weir_stream_destroy(test_device(), stream));
    return NULL;
}

static size_t count_of(const struct trace *trace, enum op_kind kind) {
    size_t count = 0;
    for (size_t i = 0; i < trace->op_count; i++) count += trace->ops[i].kind == kind;
    return count;
}

static void lines_of_threads_that_pass_things_on_stand_in_order(void **state) {
    (void)state;
    struct weir_pool_options options = {.size = sizeof options, .limit_bytes = 64 * PAGE, .trace_path = path};
    struct exchange exchange = {.lock = PTHREAD_MUTEX_INITIALIZER, .chance = seed_of(4)};
    OK(weir_pool_create(test_device(), &options, &exchange.pool));
    run_threads(pass_around, &exchange);
    weir_stream last = new_stream();
    for (size_t i = 0; i < HANDS; i++) consume(&exchange, last, exchange.parcels[i]);
    OK(weir_stream_destroy(test_device(), last));
    close_pool(exchange.pool);
    struct trace trace = read_back();
    static const enum op_kind each[] = {OP_ALLOC, OP_RECORD, OP_WAIT, OP_NOTE, OP_FREE, OP_DESTROY_EVENT};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        assert_int_equal(count_of(&trace, each[i]), THREADS * PASSES);
    assert_int_equal(count_of(&trace, OP_DESTROY_STREAM), THREADS + 1);
    trace_free(&trace);
}

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Another thread, at the very moment when a line takes its place: what it does is done in the place of one. */
static void (*meanwhile)(void); /* atomic */

uint64_t __real_weir__trace_file_reserve(struct weir__trace_file *file, size_t length);
uint64_t __wrap_weir__trace_file_reserve(struct weir__trace_file *file, size_t length);

uint64_t __wrap_weir__trace_file_reserve(struct weir__trace_file *file, size_t length) {
    void (*other)(void) = __atomic_exchange_n(&meanwhile, NULL, __ATOMIC_RELAXED);
    if (other != NULL) other();
    return __real_weir__trace_file_reserve(file, length);
}

static struct weir__trace *recorded;
static const weir_event seen = (weir_event)4096; /* nobody looks into it */

static void wait_for_it(void) { weir__trace_stream_waited(recorded, NULL, seen); }

/* A wait for an event whose first record has no place yet has no line: it would stand before the record. */
static void a_number_is_not_seen_before_its_first_line_has_its_place(void **state) {
    (void)state;
    recorded = open_trace();
    weir__trace_stream_synchronized(recorded, NULL);
    meanwhile = wait_for_it;
    weir__trace_event_recorded(recorded, seen, NULL);
    assert_null(meanwhile);
    wait_for_it();
    weir__trace_close(recorded);
    struct trace trace = read_back();
    assert_int_equal(trace.op_count, 3);
    assert_int_equal(trace.ops[1].kind, OP_RECORD);
    assert_int_equal(trace.ops[2].kind, OP_WAIT);
    trace_free(&trace);
}

/* Another thread, right after the driver has destroyed an event: it gets the handle for an event of its own. */
static const struct weir__driver *real;
static weir_event next_one;

static CUresult destroy_and_make_anew(CUevent event) {
    const CUresult code = real->event_destroy(event);
    OK(weir_event_create(test_device(), false, &next_one));
    assert_ptr_equal(next_one, event);
    OK(weir_event_record(test_device(), next_one, NULL));
    return code;
}

static void the_end_of_an_event_is_not_taken_for_that_of_the_next_one(void **state) {
    (void)state;
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.size = sizeof options, .limit_bytes = 64 * PAGE, .trace_path = path};
    weir_event event;
    OK(weir_pool_create(test_device(), &options, &pool));
    OK(weir_event_create(test_device(), false, &event));
    OK(weir_event_record(test_device(), event, NULL));
    real = test_device()->driver;
    struct weir__driver busy = *real;
    busy.event_destroy = destroy_and_make_anew;
    test_device()->driver = &busy;
    OK(weir_event_destroy(test_device(), event));
    test_device()->driver = real;
    OK(weir_stream_wait(test_device(), NULL, next_one));
    OK(weir_event_destroy(test_device(), next_one));
    close_pool(pool);
    struct trace trace = read_back();
    static const enum op_kind expected[] = {OP_RECORD, OP_DESTROY_EVENT, OP_RECORD, OP_WAIT, OP_DESTROY_EVENT};
    assert_int_equal(trace.op_count, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < trace.op_count; i++) assert_int_equal(trace.ops[i].kind, expected[i]);
    trace_free(&trace);
}

static void a_handle_keeps_its_number_until_it_is_destroyed(void **state) {
    (void)state;
    enum { HANDLES = 5000 };
    struct weir__numbers numbers;
    bool is_new;
    weir__numbers_open(&numbers);
    for (uintptr_t key = 1; key <= HANDLES; key++) {
        assert_int_equal(weir__numbers_find(&numbers, key), WEIR__UNSEEN);
        const uint64_t number = weir__numbers_begin(&numbers, key, &is_new);
        assert_int_equal(weir__numbers_find(&numbers, key), WEIR__UNSEEN); /* not before it is said to be seen */
        weir__numbers_end(&numbers, key, number, is_new);
        assert_true(is_new);
        if (key % 3 == 0) assert_int_equal(weir__numbers_take(&numbers, key), key - 1);
    }
    for (uintptr_t key = 1; key <= HANDLES; key++)
        assert_int_equal(weir__numbers_find(&numbers, key), key % 3 == 0 ? WEIR__UNSEEN : key - 1);
    const uint64_t anew = weir__numbers_begin(&numbers, 3, &is_new);
    weir__numbers_end(&numbers, 3, anew, is_new);
    assert_int_equal(anew, HANDLES);
    weir__numbers_begin(&numbers, 3, &is_new);
    weir__numbers_end(&numbers, 3, anew, is_new);
    assert_false(is_new);
    weir__numbers_close(&numbers);
}

/* ---- windows ----------------------------------------------------------------------------------------------------- */

struct counting {
    struct weir__trace *trace;
    uint64_t blocks; /* atomic */
};

enum { BLOCKS_EACH = 40000 }; /* with lines of some 240 bytes */

static void *fill_windows(void *argument) {
    struct counting *counting = argument;
    char name[200];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    for (int i = 0; i < BLOCKS_EACH; i++) {
        const uint64_t block = __atomic_fetch_add(&counting->blocks, 1, __ATOMIC_RELAXED);
        weir__trace_alloc(counting->trace, block, 12345, NULL);
        weir__trace_free(counting->trace, block, NULL, true);
        weir__trace_name(counting->trace, NULL, name);
    }
    return NULL;
}

static void no_line_is_lost_or_cut_where_the_file_grows(void **state) {
    (void)state;
    struct counting counting = {.trace = open_trace()};
    run_threads(fill_windows, &counting);
    weir__trace_close(counting.trace);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    assert_true((uint64_t)ftell(file) > 2 * WEIR__TRACE_WINDOW_BYTES);
    fclose(file);
    struct trace trace = read_back();
    assert_int_equal(trace.block_count, (uint64_t)THREADS * BLOCKS_EACH);
    assert_int_equal(trace.op_count, 2 * (uint64_t)THREADS * BLOCKS_EACH);
    trace_free(&trace);
}

static int make_file(void **state) {
    (void)state;
    const int descriptor = mkstemp(path);
    return descriptor < 0 ? -1 : close(descriptor);
}

static int remove_file(void **state) {
    (void)state;
    unlink(path); /* a test that failed has left it */
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_threads_that_pass_things_on_stand_in_order),
        cmocka_unit_test(a_number_is_not_seen_before_its_first_line_has_its_place),
        cmocka_unit_test(the_end_of_an_event_is_not_taken_for_that_of_the_next_one),
        cmocka_unit_test(a_handle_keeps_its_number_until_it_is_destroyed),
        cmocka_unit_test(no_line_is_lost_or_cut_where_the_file_grows),
    };
    return cmocka_run_group_tests_name("trace order", tests, make_file, remove_file);
}
