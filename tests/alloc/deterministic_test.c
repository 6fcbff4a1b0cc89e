/* SPDX-License-Identifier: Apache-2.0 */
/* Promise 5: in deterministic mode addresses, as offsets in the arena, depend on the order of the pool's calls alone. One
 * program of calls runs on machines that differ in when work ends: real and virtual clocks, seeds, long and short work,
 * streams held by gates. Each run is a child of its own, since the machine's settings are those of a process. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/emulated.h"
#include "support.h"
#include "tests/sanitized.h"

enum { STREAMS = 4, BLOCKS = 24, STEPS = 600, LIMIT = 26, AMPLE = 80, GATES = 8, SEEDS = SANITIZED ? 10 : 100 };

/* When things happen; what happens is the same. */
struct machine {
    const char *emu;
    double flops;   /* of each piece of work */
    uint64_t gates; /* 0: no stream is held; else which ones and how long are drawn from it */
    bool named;     /* streams are named to the pool when they are made, the last first, not when they are used first */
};

static const struct machine machines[] = {
    {"clock:real", 0, 0, false},
    {"clock:real", 0, 1, false},
    {"clock:real", 0, 2, true},
    {"clock:virtual,seed:1,jitter:0.5", 0, 0, true},
    {"clock:virtual,seed:2,jitter:0.5", 1e7, 0, false},
    {"clock:virtual,seed:3,jitter:0.5", 1e9, 0, false},
    {"clock:virtual,seed:4,jitter:0.5", 1e8, 3, false},
};
enum { MACHINES = sizeof machines / sizeof *machines };

struct outcome {
    uint64_t offsets[STEPS]; /* by request; UINT64_MAX: refused */
    size_t requests;
    uint64_t device_waits, host_waits, pages_moved, refused;
    uint64_t contents; /* of what the program has read, and when in the program */
};

struct program {
    const struct machine *machine;
    struct weir_pool *pool;
    weir_stream streams[STREAMS];
    weir_event event;
    void *blocks[BLOCKS];
    size_t bytes[BLOCKS];
    int home[BLOCKS];
    uint64_t chance, held_chance, uses;
    struct outcome *outcome;
    /* Shut gates. The opener opens them when the host has come to wait; so does the program by and by. */
    pthread_mutex_t lock;
    struct weir_emu_gate *gates[GATES];
    bool ended;
};

/* ---- gates ------------------------------------------------------------------------------------------------------ */

static void open_gates(struct program *program) {
    pthread_mutex_lock(&program->lock);
    for (int i = 0; i < GATES; i++) {
        if (program->gates[i] == NULL) continue;
        OK(weir__gate_open(test_device(), program->gates[i], 0));
        OK(weir__gate_destroy(test_device(), program->gates[i]));
        program->gates[i] = NULL;
    }
    pthread_mutex_unlock(&program->lock);
}

static void *open_when_the_host_waits(void *argument) {
    struct program *program = argument;
    uint64_t seen = 0;
    while (!__atomic_load_n(&program->ended, __ATOMIC_ACQUIRE)) {
        uint64_t waits = stats_of(program->pool).host_waits;
        if (waits != seen) open_gates(program);
        seen = waits;
        sched_yield();
    }
    return NULL;
}

static void hold_some_stream(struct program *program) {
    if (program->machine->gates == 0 || draw(&program->held_chance) % 8 != 0) return;
    if (draw(&program->held_chance) % 4 == 0) open_gates(program);
    weir_stream stream = program->streams[draw(&program->held_chance) % STREAMS];
    struct weir_emu_gate *gate;
    assert_int_equal(test_device()->driver->emu_gate_create(&gate, WEIR_EMU_GATE_OPENS_WHEN_HOST_WAITS), 0);
    OK(weir__gate_hold(test_device(), gate, stream));
    if (weir__device_takes_turns(test_device())) { /* it opens by itself */
        OK(weir__gate_open(test_device(), gate, draw(&program->held_chance) % 10000000));
        OK(weir__gate_destroy(test_device(), gate));
        return;
    }
    pthread_mutex_lock(&program->lock);
    int at = 0;
    while (at < GATES && program->gates[at] != NULL) at++;
    if (at < GATES) program->gates[at] = gate;
    pthread_mutex_unlock(&program->lock);
    if (at < GATES) return;
    OK(weir__gate_open(test_device(), gate, 0));
    OK(weir__gate_destroy(test_device(), gate));
}

/* ---- the program of calls --------------------------------------------------------------------------------------- */

struct bytes {
    unsigned char *at;
    size_t count;
    uint64_t use; /* its number */
    uint64_t *contents;
};

static void fill(void *argument) {
    const struct bytes *bytes = argument;
    memset(bytes->at, (int)(bytes->use % 251), bytes->count);
}

static void look_at(void *argument) {
    const struct bytes *bytes = argument;
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes->count; i++) sum = sum * 31 + bytes->at[i];
    __atomic_fetch_add(bytes->contents, sum * bytes->use, __ATOMIC_RELAXED);
}

static void use(struct program *program, int block, int stream, bool write) {
    const struct weir_access access = {program->blocks[block], program->bytes[block], write};
    struct bytes bytes = {program->blocks[block], program->bytes[block], ++program->uses, &program->outcome->contents};
    const struct weir_work work = {.name = "use",
                                   .run = write ? fill : look_at,
                                   .argument = &bytes,
                                   .argument_bytes = sizeof bytes,
                                   .accesses = &access,
                                   .access_count = 1,
                                   .flops = program->machine->flops};
    OK(weir_device_submit(test_device(), &work, program->streams[stream]));
}

/* What is queued on `to` later runs after what is queued on `from` now. */
static void order(struct program *program, int from, int to) {
    OK(weir_event_record(test_device(), program->event, program->streams[from]));
    OK(weir_stream_wait(test_device(), program->streams[to], program->event));
}

static void request(struct program *program, int block) {
    struct outcome *outcome = program->outcome;
    size_t most = draw(&program->chance) % 4 == 0 ? 16 : 4; /* half pages, so that many fits are equally good */
    int stream = (int)(draw(&program->chance) % STREAMS);
    void **at = &program->blocks[block];
    program->bytes[block] = (1 + draw(&program->chance) % most) * PAGE / 2;
    program->home[block] = stream;
    enum weir_status status = weir_pool_alloc(program->pool, program->bytes[block], program->streams[stream], at);
    uintptr_t first = program->pool->first != NULL ? program->pool->pages.arena : 0;
    outcome->offsets[outcome->requests++] = status == WEIR_OK ? (uintptr_t)*at - first : UINT64_MAX;
    if (status == WEIR_OK)
        use(program, block, stream, true);
    else
        assert_int_equal(status, WEIR_OUT_OF_MEMORY);
}

/* Gives a block back in one of the ways there are. */
static void give_back(struct program *program, int block) {
    int home = program->home[block], other = (int)(draw(&program->chance) % STREAMS);
    void *at = program->blocks[block];
    program->blocks[block] = NULL;
    switch (draw(&program->chance) % 4) {
    case 0: /* on another stream */
        order(program, home, other);
        OK(weir_pool_free(program->pool, at, program->streams[other]));
        return;
    case 1:
        OK(weir_event_record(test_device(), program->event, program->streams[home]));
        OK(weir_pool_free_after(program->pool, at, program->event));
        return;
    default:
        OK(weir_pool_free(program->pool, at, program->streams[home]));
    }
}

static void use_elsewhere(struct program *program, int block) {
    int other = (int)(draw(&program->chance) % STREAMS);
    order(program, program->home[block], other);
    OK(weir_pool_note(program->pool, program->blocks[block], program->streams[other]));
    use(program, block, other, false);
}

static weir_stream make_stream(struct program *program) {
    weir_stream stream = new_stream();
    if (program->machine->named) weir_pool_name_stream(program->pool, stream, "named");
    return stream;
}

static void replace_stream(struct program *program, int stream) {
    for (int i = 0; i < BLOCKS; i++)
        if (program->blocks[i] != NULL && program->home[i] == stream) give_back(program, i);
    weir_pool_name_stream(program->pool, program->streams[stream],
                          "gone"); /* the pool has seen it, named early or not */
    OK(weir_stream_destroy(test_device(), program->streams[stream]));
    program->streams[stream] = make_stream(program);
}

static void step(struct program *program) {
    int block = (int)(draw(&program->chance) % BLOCKS);
    hold_some_stream(program);
    if (draw(&program->chance) % 12 == 0) replace_stream(program, (int)(draw(&program->chance) % STREAMS));
    if (draw(&program->chance) % 100 == 0) OK(weir_pool_trim(program->pool, LIMIT / 2 * PAGE));
    if (program->blocks[block] == NULL)
        request(program, block);
    else if (draw(&program->chance) % 3 == 0)
        use_elsewhere(program, block);
    else
        give_back(program, block);
}

static struct weir_pool *open_patient_pool(enum weir_policy policy, size_t pages) {
    struct weir_pool *pool = open_pool(policy, pages);
    pool->wait_limit_ns = 60000000000u; /* a wait that it ends is refused, which other addresses follow from */
    return pool;
}

static void run_program(enum weir_policy policy, size_t pages, const struct machine *machine, struct outcome *outcome) {
    struct program program = {.machine = machine, .chance = 77, .held_chance = machine->gates, .outcome = outcome};
    pthread_t opener;
    pthread_mutex_init(&program.lock, NULL);
    program.pool = open_patient_pool(policy, pages);
    OK(weir_event_create(test_device(), false, &program.event));
    for (int i = STREAMS; i-- > 0;) program.streams[i] = make_stream(&program);
    bool opens = !weir__device_takes_turns(test_device());
    if (opens) assert_int_equal(pthread_create(&opener, NULL, open_when_the_host_waits, &program), 0);
    for (int i = 0; i < STEPS; i++) step(&program);
    open_gates(&program);
    __atomic_store_n(&program.ended, true, __ATOMIC_RELEASE);
    if (opens) pthread_join(opener, NULL);
    OK(weir_device_synchronize(test_device()));
    struct weir_pool_stats stats = stats_of(program.pool);
    outcome->device_waits = stats.device_waits;
    outcome->host_waits = stats.host_waits;
    outcome->pages_moved = stats.pages_moved;
    outcome->refused = stats.out_of_memory;
    close_pool(program.pool);
    for (int i = 0; i < STREAMS; i++) OK(weir_stream_destroy(test_device(), program.streams[i]));
    OK(weir_event_destroy(test_device(), program.event));
}

static struct outcome run_on(const struct machine *machine, enum weir_policy policy, size_t pages,
                             const char *options) {
    char emu[128];
    struct outcome outcome = {0};
    int ends[2], status;
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        alarm(120);
        snprintf(emu, sizeof emu, "watch:abort,%s", machine->emu);
        setenv("WEIR_EMU", emu, 1);
        setenv("WEIR_OPTIONS", options, 1);
        run_program(policy, pages, machine, &outcome);
        _exit(write(ends[1], &outcome, sizeof outcome) == sizeof outcome ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(read(ends[0], &outcome, sizeof outcome), sizeof outcome);
    close(ends[0]);
    close(ends[1]);
    return outcome;
}

/* True when some machine gives other addresses than the first one. */
static bool differ(enum weir_policy policy, const char *options, struct outcome *first) {
    *first = run_on(&machines[0], policy, LIMIT, options);
    for (int i = 1; i < MACHINES; i++) {
        struct outcome outcome = run_on(&machines[i], policy, LIMIT, options);
        if (memcmp(outcome.offsets, first->offsets, sizeof outcome.offsets) != 0) return true;
    }
    return false;
}

static void the_same_calls_give_the_same_addresses_whatever_the_device_does(void **state) {
    (void)state;
    const enum weir_policy policies[] = {WEIR_POLICY_LATENCY, WEIR_POLICY_FOOTPRINT};
    for (int i = 0; i < 2; i++) {
        struct outcome first;
        assert_false(differ(policies[i], "deterministic:on", &first));
        assert_true(first.device_waits > 0 && first.host_waits > 0 && first.pages_moved > 0); /* else it was too easy */
    }
}

static void out_of_the_mode_addresses_depend_on_when_work_ends(void **state) {
    (void)state;
    struct outcome first;
    assert_true(differ(WEIR_POLICY_LATENCY, "deterministic:off", &first));
    assert_true(differ(WEIR_POLICY_FOOTPRINT, "deterministic:off", &first));
    assert_true(differ(WEIR_POLICY_PER_STREAM, "deterministic:off", &first));
}

static void one_pool_a_stream_is_deterministic_too(void **state) {
    (void)state;
    struct outcome first;
    assert_false(differ(WEIR_POLICY_PER_STREAM, "deterministic:on", &first));
    assert_true(first.host_waits > 0 && first.requests > first.refused);
}

/* Of virtual clocks, each with another jitter; some with long work, some with streams that are held. */
static struct outcome run_by_seed(unsigned seed, enum weir_policy policy, size_t pages, const char *options) {
    char emu[64];
    snprintf(emu, sizeof emu, "clock:virtual,jitter:0.9,seed:%u", seed);
    const struct machine machine = {emu, seed % 4 * 1e7, seed % 3 == 0 ? seed : 0, seed % 2 == 0};
    return run_on(&machine, policy, pages, options);
}

static void a_hundred_machines_give_the_same_addresses(void **state) {
    (void)state;
    const struct outcome first = run_by_seed(1, WEIR_POLICY_LATENCY, LIMIT, "deterministic:on");
    for (unsigned seed = 2; seed <= SEEDS; seed++) {
        const struct outcome outcome = run_by_seed(seed, WEIR_POLICY_LATENCY, LIMIT, "deterministic:on");
        if (memcmp(outcome.offsets, first.offsets, sizeof outcome.offsets) != 0) fail_msg("not seed %u", seed);
        assert_true(outcome.contents == first.contents);
    }
}

/* Where nothing is refused a program goes the same way whatever the addresses are, and reads the same. */
static void out_of_the_mode_a_hundred_machines_compute_the_same(void **state) {
    (void)state;
    const struct outcome first = run_by_seed(1, WEIR_POLICY_FOOTPRINT, AMPLE, "deterministic:off");
    unsigned elsewhere = 0;
    assert_true(first.contents != 0 && first.device_waits > 0);
    for (unsigned seed = 2; seed <= SEEDS; seed++) {
        const struct outcome outcome = run_by_seed(seed, WEIR_POLICY_FOOTPRINT, AMPLE, "deterministic:off");
        assert_int_equal(outcome.refused, 0);
        if (outcome.contents != first.contents) fail_msg("seed %u computes something else", seed);
        elsewhere += memcmp(outcome.offsets, first.offsets, sizeof outcome.offsets) != 0;
    }
    assert_true(elsewhere > SEEDS / 2);
}

/* ---- what the mode brings with it ------------------------------------------------------------------------------- */

static struct weir_pool *open_deterministic(size_t pages) {
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.size = sizeof options,
                                        .limit_bytes = pages * PAGE,
                                        .wait_limit_ns = 60000000000u,
                                        .trace_path = "",
                                        .deterministic = true};
    OK(weir_pool_create(test_device(), &options, &pool));
    return pool;
}

static bool is_deterministic(const char *text, const struct weir_pool_options *options) {
    struct weir_pool *pool = NULL;
    setenv("WEIR_OPTIONS", text, 1);
    enum weir_status status = weir_pool_create(test_device(), options, &pool);
    unsetenv("WEIR_OPTIONS");
    OK(status);
    bool deterministic = pool->deterministic;
    weir_pool_destroy(pool);
    return deterministic;
}

static void the_mode_is_chosen_by_options_or_environment(void **state) {
    (void)state;
    struct weir_pool_options off = {.size = sizeof off, .trace_path = ""}, on = off, old = on;
    on.deterministic = true;
    old.size = offsetof(struct weir_pool_options, deterministic); /* of a program from before it had the field */
    assert_false(is_deterministic("", &off));
    assert_true(is_deterministic("", &on));
    assert_true(is_deterministic("policy:footprint,deterministic:on", &off));
    assert_true(is_deterministic("deterministic:off", &on));
    assert_false(is_deterministic("deterministic:on,deterministic:off", &off));
    assert_true(is_deterministic("deterministic:on", &old));
    assert_false(is_deterministic("", &old));
}

struct pair {
    struct weir_pool *pool;
    weir_stream stream;
    void *block;
    bool begun;
};

static void *ask_for_halves(void *argument) {
    struct pair *pair = argument;
    pair->block = alloc(pair->pool, HALVES_ASKED * PAGE, pair->stream);
    return NULL;
}

static void *give_back_from_a_thread(void *argument) {
    struct pair *pair = argument;
    __atomic_store_n(&pair->begun, true, __ATOMIC_RELEASE);
    OK(weir_pool_free(pair->pool, pair->block, pair->stream));
    return NULL;
}

/* A request waits for pages; what another thread gives back meanwhile would serve it, but came later. */
static void a_call_that_came_later_has_no_part_in_one_that_waits(void **state) {
    (void)state;
    struct weir_pool *pool = open_deterministic(HALVES_PAGES + 2);
    weir_stream s0 = new_stream(), s1 = new_stream(), s2 = new_stream();
    struct halves halves = make_halves(pool, s1, s2);
    void *later = alloc(pool, 2 * PAGE, s0);
    struct gate *gate = put_gate(s1);
    OK(weir_pool_free(pool, halves.first, s1));
    OK(weir_pool_free(pool, halves.second, s2));
    struct pair asker = {.pool = pool, .stream = s0}, giver = {.pool = pool, .stream = s0, .block = later};
    pthread_t threads[2];
    assert_int_equal(pthread_create(&threads[0], NULL, ask_for_halves, &asker), 0);
    while (stats_of(pool).host_waits == 0) sched_yield();
    assert_int_equal(pthread_create(&threads[1], NULL, give_back_from_a_thread, &giver), 0);
    while (!__atomic_load_n(&giver.begun, __ATOMIC_ACQUIRE)) sched_yield();
    for (int i = 0; i < 1000; i++) sched_yield(); /* time enough to get in between, were it possible */
    open_gate(gate);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    assert_ptr_not_equal(asker.block, later);
    assert_ptr_equal(alloc(pool, 2 * PAGE, s0), later);
    close_pool(pool);
}

static void marks_that_nobody_asks_for_do_not_pile_up(void **state) {
    (void)state;
    enum { HALF = WEIR__MARK_GRANULES / 2 }; /* so that each second free is marked */
    struct weir_pool *pool = open_deterministic(2 * HALF);
    weir_stream stream = new_stream(), other = new_stream();
    struct gate *gate = put_gate(stream);
    for (unsigned i = 0; i < 2 * WEIR__MOST_MARKS; i++) {
        void *halves[2] = {alloc(pool, HALF * PAGE, stream), alloc(pool, HALF * PAGE, stream)};
        for (int k = 0; k < 2; k++) OK(weir_pool_free(pool, halves[k], stream));
    }
    const struct weir__slot *slot = pool->order.slots[weir__order_find(&pool->order, stream)];
    assert_true(slot->mark_count > 0 && slot->mark_count <= WEIR__MOST_MARKS);
    void *all = alloc(pool, 2 * HALF * PAGE, other); /* after what is left of them */
    queue_fill(other, all, 2 * HALF * PAGE, 1);
    open_gate(gate);
    close_pool(pool);
}

static void streams_that_come_and_go_are_forgotten_and_their_memory_is_used_again(void **state) {
    (void)state;
    struct weir_pool *pool = open_deterministic(64);
    for (int i = 0; i < 200; i++) {
        weir_stream stream = new_stream();
        void *block = alloc(pool, 8 * PAGE, stream);
        queue_fill(stream, block, 8 * PAGE, 1);
        OK(weir_pool_free(pool, block, stream));
        OK(weir_stream_destroy(test_device(), stream));
    }
    assert_true(pool->order.count < 50);
    assert_int_equal(stats_of(pool).out_of_memory, 0);
    close_pool(pool);
}

static void one_pool_a_stream_waits_for_noted_uses_before_it_takes_memory(void **state) {
    (void)state;
    setenv("WEIR_OPTIONS", "deterministic:on", 1);
    struct weir_pool *pool = open_pool(WEIR_POLICY_PER_STREAM, 64);
    unsetenv("WEIR_OPTIONS");
    weir_stream stream = new_stream(), other = new_stream(), held = new_stream();
    void *first = alloc(pool, 20 * PAGE, stream), *second = alloc(pool, 20 * PAGE, stream);
    OK(weir_pool_note(pool, first, other));
    OK(weir_pool_note(pool, second, held));
    struct gate *gate = put_gate(held);
    OK(weir_pool_free(pool, first, stream));
    OK(weir_pool_free(pool, second, stream));
    assert_ptr_equal(alloc(pool, 20 * PAGE, stream), first); /* the older one does; the other one is not waited for */
    assert_int_equal(stats_of(pool).held_bytes, 40 * PAGE);
    assert_int_equal(stats_of(pool).host_waits, 1);
    open_gate(gate);
    close_pool(pool);
}

static void trim_waits_for_what_it_gives_back(void **state) {
    (void)state;
    struct weir_pool *pool = open_deterministic(64);
    weir_stream streams[2] = {new_stream(), new_stream()};
    for (int i = 0; i < 2; i++) {
        void *block = alloc(pool, 20 * PAGE, streams[i]);
        queue_fill(streams[i], block, 20 * PAGE, 1);
        OK(weir_pool_free(pool, block, streams[i]));
    }
    OK(weir_pool_trim(pool, 30 * PAGE));
    assert_int_equal(stats_of(pool).held_bytes, 30 * PAGE);
    OK(weir_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held_bytes, 0);
    close_pool(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_calls_give_the_same_addresses_whatever_the_device_does),
        cmocka_unit_test(out_of_the_mode_addresses_depend_on_when_work_ends),
        cmocka_unit_test(one_pool_a_stream_is_deterministic_too),
        cmocka_unit_test(a_hundred_machines_give_the_same_addresses),
        cmocka_unit_test(out_of_the_mode_a_hundred_machines_compute_the_same),
        cmocka_unit_test(the_mode_is_chosen_by_options_or_environment),
        cmocka_unit_test(a_call_that_came_later_has_no_part_in_one_that_waits),
        cmocka_unit_test(marks_that_nobody_asks_for_do_not_pile_up),
        cmocka_unit_test(streams_that_come_and_go_are_forgotten_and_their_memory_is_used_again),
        cmocka_unit_test(one_pool_a_stream_waits_for_noted_uses_before_it_takes_memory),
        cmocka_unit_test(trim_waits_for_what_it_gives_back),
    };
    return cmocka_run_group_tests_name("deterministic", tests, NULL, NULL);
}
