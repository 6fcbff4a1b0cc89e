/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs of driver calls: work, events, waits, copies, host waits and hand-outs on several streams, of which
 * one is the legacy stream. After each call the watch has reported what a search through the whole graph of what was
 * submitted finds, byte by byte; no more, and no less. */
#include "tests/device/watch_model.h"
#include "tests/device/watch_scene.h"

enum { STREAMS = 4, EVENTS = 3, LEGACY = 0, BLOCKING = 1, STEPS = 50 }; /* streams 2 and 3 do not block */

struct program {
    struct scene *scene;
    struct model model;
    CUstream stream[STREAMS];
    CUevent event[EVENTS];
    int recorded[EVENTS];           /* the node of its latest record */
    uint64_t number[STREAMS];       /* as reports name it */
    uint64_t pushed[STREAMS];       /* operations so far, in the queue */
    uint64_t position[MODEL_NODES]; /* of a node */
    char name[MODEL_NODES][16];
    uint64_t seed;
    size_t faults;
};

static uint64_t draw(struct program *program) {
    program->seed = program->seed * 6364136223846793005u + 1442695040888963407u;
    return program->seed >> 33;
}

static int below(struct program *program, int bound) { return (int)(draw(program) % (unsigned)bound); }

/* ---- what both sides do ------------------------------------------------------------------------------------------ */

/* A node for what is about to be pushed on a stream; the legacy stream and those that block wait for each other. */
static int push(struct program *program, int stream, int wait) {
    int waits[3], count = 0;
    if (wait >= 0) waits[count++] = wait;
    if (stream == LEGACY && program->model.newest[BLOCKING] >= 0) waits[count++] = program->model.newest[BLOCKING];
    if (stream == BLOCKING && program->model.newest[LEGACY] >= 0) waits[count++] = program->model.newest[LEGACY];
    const int node = model_push(&program->model, stream, waits, count);
    program->position[node] = ++program->pushed[stream];
    snprintf(program->name[node], sizeof program->name[node], "work %d", node);
    return node;
}

static int node_of(const struct program *program, uint64_t stream, uint64_t position, const char *name) {
    if (strcmp(name, "nobody") == 0) return MODEL_NONE;
    if (stream == UINT64_MAX) return MODEL_HOST;
    for (int i = 0; i < program->model.nodes; i++)
        if (program->number[program->model.queue_of[i]] == stream && program->position[i] == position) return i;
    return MODEL_NONE;
}

static void show(const struct program *program, const char *what) {
    print_error("%s; the watch found:\n", what);
    for (size_t i = 0; i < scene_reports(program->scene); i++)
        print_error("  %s\n", scene_report(program->scene, i).text);
    for (int i = 0; i < program->model.found_count; i++)
        print_error("  the model: %d with node %d, %d bytes\n", program->model.found[i].fault,
                    program->model.found[i].first, program->model.found[i].bytes);
}

/* The same pairs. What is reported is the bytes of one way in which two race: a copy may race by what it reads and by
 * what it writes. The history by itself is compared to the byte in watch_shadow_test. */
static void compare(struct program *program, const char *what) {
    struct scene *scene = program->scene;
    const size_t count = scene_reports(scene);
    bool same = count == (size_t)program->model.found_count;
    for (size_t i = 0; i < count && same; i++) {
        const struct weir_emu_report report = scene_report(scene, i);
        const int first = node_of(program, report.first_stream, report.first_position, report.first);
        const int bytes = model_count(&program->model, (enum model_fault)(report.kind - 1), first);
        same = report.bytes > 0 && (int)report.bytes <= bytes;
    }
    if (!same) show(program, what);
    assert_true(same);
    program->faults += count;
    if (count > 0) assert_code(CUDA_SUCCESS, scene->driver->emu_watch_clear());
}

static CUdeviceptr at(const struct program *program, int start) { return program->scene->block + (CUdeviceptr)start; }

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void access_bytes(struct program *program, int stream, bool write, int start, int bytes) {
    const int node = push(program, stream, MODEL_NONE);
    scene_access(program->scene, program->stream[stream], program->name[node], at(program, start), (size_t)bytes,
                 write);
    if (write)
        model_write(&program->model, node, start, bytes);
    else
        model_read(&program->model, node, start, bytes);
}

static void copy_bytes(struct program *program, int stream, int from, int to, int bytes) {
    const int node = push(program, stream, MODEL_NONE);
    assert_code(CUDA_SUCCESS, program->scene->driver->copy(at(program, to), at(program, from), (size_t)bytes,
                                                           program->stream[stream]));
    model_read(&program->model, node, from, bytes);
    model_write(&program->model, node, to, bytes);
}

static void record(struct program *program, int stream, int event) {
    assert_code(CUDA_SUCCESS, program->scene->driver->event_record(program->event[event], program->stream[stream]));
    program->recorded[event] = push(program, stream, MODEL_NONE);
}

static void wait(struct program *program, int stream, int event) {
    assert_code(CUDA_SUCCESS, program->scene->driver->stream_wait(program->stream[stream], program->event[event], 0));
    push(program, stream, program->recorded[event]);
}

static void host_waits(struct program *program, int stream, int event) {
    const struct weir__driver *driver = program->scene->driver;
    if (below(program, 2)) {
        assert_code(CUDA_SUCCESS, driver->stream_synchronize(program->stream[stream]));
        model_host_saw(&program->model, program->model.newest[stream]);
    } else {
        assert_code(CUDA_SUCCESS, driver->event_synchronize(program->event[event]));
        model_host_saw(&program->model, program->recorded[event]);
    }
}

static void host_access(struct program *program, bool write, int start, int bytes) {
    const void *address = (const void *)(uintptr_t)at(program, start);
    assert_code(CUDA_SUCCESS, program->scene->driver->emu_host_access(address, (size_t)bytes, write));
    if (write)
        model_write(&program->model, MODEL_HOST, start, bytes);
    else
        model_read(&program->model, MODEL_HOST, start, bytes);
}

/* Needs: something has been queued on the stream, so that the hand-out has a node. */
static void hand_out(struct program *program, int stream, int start, int bytes) {
    const int node = program->model.newest[stream];
    if (node < 0) return;
    const void *address = (const void *)(uintptr_t)at(program, start);
    assert_code(CUDA_SUCCESS, program->scene->driver->emu_hand_out(address, (size_t)bytes, program->stream[stream]));
    model_hand_out(&program->model, node, start, bytes);
}

static void take_back(struct program *program, int start, int bytes) {
    bool named[MODEL_QUEUES] = {false};
    CUstream streams[STREAMS];
    size_t count = 0;
    for (int i = 0; i < STREAMS; i++)
        if (program->model.newest[i] >= 0 && below(program, 2)) {
            named[i] = true;
            streams[count++] = program->stream[i];
        }
    if (count == 0) return;
    const void *address = (const void *)(uintptr_t)at(program, start);
    assert_code(CUDA_SUCCESS, program->scene->driver->emu_take_back(address, (size_t)bytes, streams, count, NULL));
    model_take(&program->model, named, start, bytes);
}

static void step(struct program *program) {
    const int kind = below(program, 24), stream = below(program, STREAMS), event = below(program, EVENTS);
    const int start = below(program, MODEL_BYTES), bytes = 1 + below(program, MODEL_BYTES - start);
    model_begin(&program->model);
    if (kind < 8)
        access_bytes(program, stream, kind % 2 == 0, start, bytes);
    else if (kind < 10)
        copy_bytes(program, stream, below(program, 24), 48 + below(program, 24), 1 + below(program, 24));
    else if (kind < 14)
        record(program, stream, event);
    else if (kind < 19)
        wait(program, stream, event);
    else if (kind < 21)
        host_waits(program, stream, event);
    else if (kind == 21)
        host_access(program, below(program, 2), start, bytes);
    else if (kind == 22)
        hand_out(program, stream, start, bytes);
    else
        take_back(program, start, bytes);
    char what[96];
    snprintf(what, sizeof what, "kind %d on stream %d, event %d, bytes %d to %d", kind, stream, event, start,
             start + bytes);
    compare(program, what);
}

/* ---- the test ---------------------------------------------------------------------------------------------------- */

static void open_streams(struct program *program) {
    const struct weir__driver *driver = program->scene->driver;
    CUstream blocking;
    assert_code(CUDA_SUCCESS, driver->stream_create(&blocking, CU_STREAM_DEFAULT));
    const CUstream streams[STREAMS] = {NULL, blocking, program->scene->b, program->scene->c};
    for (int i = 0; i < STREAMS; i++) {
        program->stream[i] = streams[i];
        assert_code(CUDA_SUCCESS, driver->emu_stream_number(streams[i], &program->number[i]));
    }
    for (int i = 0; i < EVENTS; i++) {
        assert_code(CUDA_SUCCESS, driver->event_create(&program->event[i], CU_EVENT_DISABLE_TIMING));
        program->recorded[i] = MODEL_NONE;
    }
}

/* Queues serve one program after another: a first piece of work tells at which position each stands. */
static void find_positions(struct program *program) {
    const struct weir__driver *driver = program->scene->driver;
    for (int i = 0; i < STREAMS; i++) {
        scene_access(program->scene, program->stream[i], "probe", program->scene->block + 4096, 1, true);
        assert_code(CUDA_SUCCESS, driver->emu_hand_out((const void *)(uintptr_t)(program->scene->block + 8192), 1,
                                                       program->stream[i]));
        scene_access(program->scene, program->stream[i], "probe", program->scene->block + 8192, 1, false);
        program->pushed[i] = scene_report(program->scene, scene_reports(program->scene) - 1).second_position;
    }
    assert_code(CUDA_SUCCESS, driver->context_synchronize());
    assert_code(CUDA_SUCCESS, driver->set_bytes(program->scene->block, 0, SCENE_BYTES, NULL));
    assert_code(CUDA_SUCCESS, driver->context_synchronize());
    program->pushed[LEGACY]++;
    assert_code(CUDA_SUCCESS, driver->emu_watch_clear());
}

static size_t play(struct weir_device *device, uint64_t seed, bool held) {
    struct scene scene;
    static struct program program;
    scene_open(&scene, device, false);
    program = (struct program){.scene = &scene, .seed = seed};
    model_start(&program.model, true);
    open_streams(&program);
    find_positions(&program);
    struct weir_emu_gate *gate;
    const struct weir__driver *driver = scene.driver;
    assert_code(CUDA_SUCCESS, driver->emu_gate_create(&gate, WEIR_EMU_GATE_OPENS_WHEN_HOST_WAITS));
    if (!held) assert_code(CUDA_SUCCESS, driver->emu_gate_open(gate, 0));
    for (int i = 0; i < STREAMS; i++) {
        assert_code(CUDA_SUCCESS, driver->emu_gate_hold(gate, program.stream[i]));
        push(&program, i, MODEL_NONE);
    }
    for (int i = 0; i < STEPS; i++) step(&program);
    assert_code(CUDA_SUCCESS, driver->context_synchronize());
    for (int i = 0; i < EVENTS; i++) assert_code(CUDA_SUCCESS, driver->event_destroy(program.event[i]));
    assert_code(CUDA_SUCCESS, driver->stream_destroy(program.stream[BLOCKING]));
    assert_code(CUDA_SUCCESS, driver->emu_gate_destroy(gate));
    scene_close(&scene);
    return program.faults;
}

static void the_watch_finds_what_a_search_through_the_graph_finds(void **state) {
    const char *given = getenv("WEIR_TEST_SEED");
    const uint64_t first = given != NULL ? strtoull(given, NULL, 0) : 1;
    const uint64_t programs = given != NULL ? 1 : 300;
    size_t faults = 0;
    print_message("seeds from %llu on (WEIR_TEST_SEED names one)\n", (unsigned long long)first);
    for (uint64_t seed = first; seed < first + programs; seed++) {
        const size_t free = play(*state, seed, false), held = play(*state, seed, true);
        assert_int_equal(free, held);
        faults += free;
    }
    print_message("%zu faults in %llu programs\n", faults, (unsigned long long)programs);
    assert_true(given != NULL || faults > programs);
}

int main(void) {
    const struct CMUnitTest tests[] = {device_test(the_watch_finds_what_a_search_through_the_graph_finds)};
    return cmocka_run_group_tests_name("watch_random", tests, NULL, NULL);
}
