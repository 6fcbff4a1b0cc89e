/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/emulated.h"
#include "profile.h"

/* A real device has no gates: a host function that waits holds its stream. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool open;
};

double bench_now(const struct bench *bench) { return (double)weir__device_now_ns(bench->device); }

bool bench_check(struct bench *bench, CUresult code, const char *entry) {
    if (code == CUDA_SUCCESS) return true;
    const char *name = NULL;
    if (bench->driver->error_name(code, &name) != CUDA_SUCCESS || name == NULL) name = "an unknown error";
    snprintf(bench->why, sizeof bench->why, "%s failed with %d, %s", entry, (int)code, name);
    return false;
}

static bool check_status(struct bench *bench, enum weir_status status) {
    if (status == WEIR_OK) return true;
    snprintf(bench->why, sizeof bench->why, "%s", weir_last_error()->message);
    return false;
}

/* ---- the gate --------------------------------------------------------------------------------------------------- */

static void wait_at_gate(void *argument) {
    struct gate *gate = argument;
    pthread_mutex_lock(&gate->lock);
    while (!gate->open) pthread_cond_wait(&gate->opened, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

bool bench_hold(struct bench *bench, CUstream stream) {
    if (bench->driver->emulated)
        return check_status(bench, weir__gate_create(bench->device, &bench->emu_gate)) &&
               check_status(bench, weir__gate_hold(bench->device, bench->emu_gate, stream));
    bench->gate->open = false; /* the last one has passed: whoever holds has waited for the stream */
    return DO(host_function, cuLaunchHostFunc, stream, wait_at_gate, bench->gate);
}

bool bench_release(struct bench *bench) {
    if (bench->driver->emulated) {
        struct weir_emu_gate *gate = bench->emu_gate;
        if (gate == NULL) return true;
        bench->emu_gate = NULL;
        return check_status(bench, weir__gate_open(bench->device, gate, 0)) &&
               check_status(bench, weir__gate_destroy(bench->device, gate));
    }
    pthread_mutex_lock(&bench->gate->lock);
    bench->gate->open = true;
    pthread_cond_broadcast(&bench->gate->opened);
    pthread_mutex_unlock(&bench->gate->lock);
    return true;
}

/* ---- a kernel that does nothing --------------------------------------------------------------------------------- */

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry weir_nothing() { ret; }\n";

/* ISO C has no cast from an object pointer to a function pointer; POSIX promises that the bits are the same. */
static bool find_entry(void *library, const char *symbol, void *member) {
    void *entry = dlsym(library, symbol);
    memcpy(member, &entry, sizeof entry);
    return entry != NULL;
}

/* Without one a set's figures stand for a kernel's. */
static void load_kernel(struct bench *bench) {
    CUresult (*load)(void **module, const void *image);
    CUresult (*get)(void **function, void *module, const char *name);
    void *library = dlopen(bench->driver->path, RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL) return;
    const bool found =
        find_entry(library, "cuModuleLoadData", &load) && find_entry(library, "cuModuleGetFunction", &get) &&
        find_entry(library, "cuModuleUnload", &bench->unload) && find_entry(library, "cuLaunchKernel", &bench->launch);
    if (found && load(&bench->module, ptx) == CUDA_SUCCESS &&
        get(&bench->kernel, bench->module, "weir_nothing") == CUDA_SUCCESS &&
        bench->launch(bench->kernel, 1, 1, 1, 1, 1, 1, 0, bench->stream, NULL, NULL) == CUDA_SUCCESS &&
        bench->driver->stream_synchronize(bench->stream) == CUDA_SUCCESS)
        return;
    bench->launch = NULL;
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static bool make_handles(struct bench *bench) {
    return DO(stream_create, cuStreamCreate, &bench->stream, CU_STREAM_NON_BLOCKING) &&
           DO(stream_create, cuStreamCreate, &bench->other, CU_STREAM_NON_BLOCKING) &&
           DO(event_create, cuEventCreate, &bench->begin, CU_EVENT_DEFAULT) &&
           DO(event_create, cuEventCreate, &bench->end, CU_EVENT_DEFAULT) &&
           DO(event_create, cuEventCreate, &bench->held, CU_EVENT_DISABLE_TIMING);
}

static bool make_gate(struct bench *bench) {
    bench->gate = malloc(sizeof *bench->gate);
    if (bench->gate == NULL) {
        snprintf(bench->why, sizeof bench->why, "no host memory");
        return false;
    }
    pthread_mutex_init(&bench->gate->lock, NULL);
    pthread_cond_init(&bench->gate->opened, NULL);
    return true;
}

static void measure_clock(struct bench *bench) {
    enum { TIMES = 101 };
    double took[TIMES];
    for (int i = 0; i < TIMES; i++) {
        const double begin = bench_now(bench);
        took[i] = bench_now(bench) - begin;
    }
    bench->clock_ns = median(took, TIMES);
}

bool bench_open(struct bench *bench, int ordinal, int repeats, bool *bad_input) {
    const char *machine = getenv("WEIR_DEVICE");
    const struct weir_device_options options = {
        .size = sizeof options, .machine = machine != NULL && *machine != '\0' ? machine : "auto", .ordinal = ordinal};
    *bench = (struct bench){.repeats = repeats};
    const enum weir_status status = weir_device_open(&options, &bench->device);
    *bad_input = status == WEIR_INVALID;
    if (!check_status(bench, status)) return false;
    bench->driver = bench->device->driver;
    bench->page_bytes = bench->device->granularity_bytes;
    bench->capacity_bytes = bench->device->capacity_bytes;
    if (!make_gate(bench) || !DO(context_push, cuCtxPushCurrent, bench->device->context) || !make_handles(bench))
        return false;
    load_kernel(bench);
    measure_clock(bench);
    return true;
}

void bench_close(struct bench *bench) {
    if (bench->device == NULL) return;
    if (bench->gate != NULL) bench_release(bench); /* a measurement has failed behind it */
    const struct weir__driver *driver = bench->driver;
    CUcontext context;
    if (bench->module != NULL) bench->unload(bench->module);
    if (bench->held != NULL) driver->event_destroy(bench->held);
    if (bench->end != NULL) driver->event_destroy(bench->end);
    if (bench->begin != NULL) driver->event_destroy(bench->begin);
    if (bench->other != NULL) driver->stream_destroy(bench->other);
    if (bench->stream != NULL) driver->stream_destroy(bench->stream);
    driver->context_pop(&context);
    weir_device_close(bench->device);
    free(bench->gate);
}
