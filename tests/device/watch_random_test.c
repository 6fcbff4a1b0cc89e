/* SPDX-License-Identifier: Apache-2.0 */
/* Random programs of driver calls: work, events, waits, copies, host waits and hand-outs on several streams, of which
 * one is the legacy stream, and two pages that come and go at three places. After each call the watch has reported what a search through the whole graph of what was
 * submitted finds, byte by byte; no more, and no less. */
#include "tests/device/watch_model.h"
#include "tests/device/watch_scene.h"

enum { STREAMS = 4, EVENTS = 3, LEGACY = 0, BLOCKING = 1, STEPS = 60 }; /* streams 2 and 3 do not block */

/* A window is two granules of addresses, in each of which a page can be mapped. Work uses what lies around their border:
 * the last bytes of the first one's page, and the first bytes of the second one's. */
enum { WINDOWS = 3, PAGES = 2, SIDE = MODEL_BYTES / PAGES / 2, WINDOW = 2 * SIDE, NOT_MAPPED = -1 };
_Static_assert(WINDOWS *WINDOW == MODEL_ADDRESSES, "the model knows the addresses of all windows");

struct program {
    struct scene *scene;
    struct model model;
    CUdeviceptr window[WINDOWS];
    CUmemGenericAllocationHandle page[PAGES];
    int mapped[WINDOWS][2]; /* a page's number, NOT_MAPPED */
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

/* ---- addresses --------------------------------------------------------------------------------------------------- */

static CUdeviceptr at(const struct program *program, int address) {
    return program->window[address / WINDOW] + SCENE_GRANULE - SIDE + (CUdeviceptr)(address % WINDOW);
}

/* The model's byte that lies there, NOT_MAPPED. */
static int byte_at(const struct program *program, int address) {
    const int half = address % WINDOW / SIDE, page = program->mapped[address / WINDOW][half];
    return page != NOT_MAPPED ? page * 2 * SIDE + (half == 0 ? SIDE : 0) + address % SIDE : NOT_MAPPED;
}

static bool all_mapped(const struct program *program, int start, int bytes) {
    for (int i = start; i < start + bytes; i++)
        if (byte_at(program, i) == NOT_MAPPED) return false;
    return true;
}

/* What is done to bytes, by a node or the host, goes through addresses. */
static void act(struct program *program, void (*do_it)(struct model *, int, int, int), int who, int start, int bytes) {
    for (int i = start; i < start + bytes; i++) {
        const int byte = byte_at(program, i);
        if (byte == NOT_MAPPED) {
            model_use_unmapped(&program->model);
            continue;
        }
        do_it(&program->model, who, byte, 1);
        model_use(&program->model, who, i, 1);
    }
}

static void map(struct program *program, int window, int half, int page) {
    const struct weir__driver *driver = program->scene->driver;
    const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const CUdeviceptr start = program->window[window] + (CUdeviceptr)half * SCENE_GRANULE;
    if (program->mapped[window][half] != NOT_MAPPED) return;
    assert_code(CUDA_SUCCESS, driver->page_map(start, SCENE_GRANULE, 0, program->page[page], 0));
    assert_code(CUDA_SUCCESS, driver->page_set_access(start, SCENE_GRANULE, &access, 1));
    program->mapped[window][half] = page;
}

static void unmap(struct program *program, int window, int half, int halves) {
    const CUdeviceptr start = program->window[window] + (CUdeviceptr)half * SCENE_GRANULE;
    for (int i = half; i < half + halves; i++)
        if (program->mapped[window][i] == NOT_MAPPED) return;
    assert_code(CUDA_SUCCESS, program->scene->driver->page_unmap(start, (size_t)halves * SCENE_GRANULE));
    model_unmap(&program->model, window * WINDOW + half * SIDE, halves * SIDE);
    for (int i = half; i < half + halves; i++) program->mapped[window][i] = NOT_MAPPED;
}

static void new_page(struct program *program, int page) {
    const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    assert_code(CUDA_SUCCESS, program->scene->driver->page_create(&program->page[page], SCENE_GRANULE, &properties, 0));
}

/* The page goes, and one comes that was never used. */
static void renew(struct program *program, int page) {
    for (int slot = 0; slot < 2 * WINDOWS; slot++) {
        if (program->mapped[slot / 2][slot % 2] != page) continue;
        unmap(program, slot / 2, slot % 2, 1);
        compare(program, "a page is unmapped everywhere");
        model_begin(&program->model);
    }
    assert_code(CUDA_SUCCESS, program->scene->driver->page_release(program->page[page]));
    model_forget(&program->model, page * 2 * SIDE, 2 * SIDE);
    new_page(program, page);
}

/* ---- calls ------------------------------------------------------------------------------------------------------- */

static void access_bytes(struct program *program, int stream, bool write, int start, int bytes) {
    const int node = push(program, stream, MODEL_NONE);
    scene_access(program->scene, program->stream[stream], program->name[node], at(program, start), (size_t)bytes,
                 write);
    act(program, write ? model_write : model_read, node, start, bytes);
}

static void copy_bytes(struct program *program, int stream, int from, int to, int bytes) {
    if (!all_mapped(program, from, bytes) || !all_mapped(program, to, bytes)) return;
    const int node = push(program, stream, MODEL_NONE);
    assert_code(CUDA_SUCCESS, program->scene->driver->copy(at(program, to), at(program, from), (size_t)bytes,
                                                           program->stream[stream]));
    act(program, model_read, node, from, bytes);
    act(program, model_write, node, to, bytes);
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
    act(program, write ? model_write : model_read, MODEL_HOST, start, bytes);
}

/* Needs: something has been queued on the stream, so that the hand-out has a node. */
static void hand_out(struct program *program, int stream, int start, int bytes) {
    const int node = program->model.newest[stream];
    if (node < 0) return;
    const void *address = (const void *)(uintptr_t)at(program, start);
    assert_code(CUDA_SUCCESS, program->scene->driver->emu_hand_out(address, (size_t)bytes, program->stream[stream]));
    act(program, model_hand_out, node, start, bytes);
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
    for (int i = start; i < start + bytes; i++) {
        const int byte = byte_at(program, i);
        if (byte == NOT_MAPPED) {
            model_use_unmapped(&program->model);
            continue;
        }
        model_take(&program->model, named, byte, 1);
        model_use_by_take(&program->model, named, i, 1);
    }
}

static void step(struct program *program) {
    const int kind = below(program, 31), stream = below(program, STREAMS), event = below(program, EVENTS);
    const int window = below(program, WINDOWS), skip = below(program, WINDOW), half = below(program, 2);
    const int start = window * WINDOW + skip, bytes = 1 + below(program, WINDOW - skip);
    model_begin(&program->model);
    if (kind < 8)
        access_bytes(program, stream, kind % 2 == 0, start, bytes);
    else if (kind < 10)
        copy_bytes(program, stream, start, below(program, WINDOWS) * WINDOW, bytes);
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
    else if (kind == 23)
        take_back(program, start, bytes);
    else if (kind < 27)
        map(program, window, half, below(program, PAGES));
    else if (kind < 29)
        unmap(program, window, half, 1);
    else if (kind == 29)
        unmap(program, window, 0, 2);
    else
        renew(program, half);
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

/* Both pages are mapped everywhere, and written. */
static void open_windows(struct program *program) {
    const struct weir__driver *driver = program->scene->driver;
    for (int i = 0; i < PAGES; i++) new_page(program, i);
    for (int i = 0; i < WINDOWS; i++) {
        assert_code(CUDA_SUCCESS, driver->address_reserve(&program->window[i], 2 * SCENE_GRANULE, 0, 0, 0));
        for (int half = 0; half < 2; half++) {
            program->mapped[i][half] = NOT_MAPPED;
            map(program, i, half, half);
        }
    }
}

static void close_windows(struct program *program) {
    const struct weir__driver *driver = program->scene->driver;
    for (int i = 0; i < WINDOWS; i++) {
        for (int half = 0; half < 2; half++) unmap(program, i, half, 1);
        assert_code(CUDA_SUCCESS, driver->address_free(program->window[i], 2 * SCENE_GRANULE));
    }
    for (int i = 0; i < PAGES; i++) assert_code(CUDA_SUCCESS, driver->page_release(program->page[i]));
    expect_clean(program->scene);
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
    assert_code(CUDA_SUCCESS, driver->set_bytes(program->window[0], 0, 2 * SCENE_GRANULE, NULL));
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
    open_windows(&program);
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
    close_windows(&program);
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
