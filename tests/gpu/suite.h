/* SPDX-License-Identifier: Apache-2.0 */
/* What a case is written with.
 *
 * Words. case: one statement about the driver, with the place of the documentation that makes it. subject: the cases of
 * one file. A case runs in a process that the runner started for it or for its subject; the process ends with the first
 * case that fails or can't be asked, and the runner starts another for the next, so that no case meets what another
 * left. */
#ifndef GPU_SUITE_H
#define GPU_SUITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"

enum gpu_process {
    GPU_SHARED, /* the driver is initialised, and device 0's primary context is current */
    GPU_APART,  /* the same, in a process of its own: the case may leave the context unusable */
    GPU_BARE,   /* in a process of its own in which nothing has been called */
};

struct gpu_case {
    const char *subject, *name, *reference;
    void (*run)(void);
    enum gpu_process process;
    struct gpu_case *next;
};

void gpu_case_add(struct gpu_case *added);

/* CASE(sentence, "where it is documented") { ... }; a file defines SUBJECT before. */
#define CASE_IN(kind, sentence, where)                                                                                 \
    static void sentence(void);                                                                                        \
    __attribute__((constructor)) static void add_##sentence(void) {                                                    \
        static struct gpu_case added = {SUBJECT, #sentence, where, sentence, kind, NULL};                              \
        gpu_case_add(&added);                                                                                          \
    }                                                                                                                  \
    static void sentence(void)
#define CASE(sentence, where)       CASE_IN(GPU_SHARED, sentence, where)
#define CASE_APART(sentence, where) CASE_IN(GPU_APART, sentence, where)
#define CASE_BARE(sentence, where)  CASE_IN(GPU_BARE, sentence, where)

/* End the case, and the process. */
_Noreturn void gpu_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
_Noreturn void gpu_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

void gpu_expect(const char *file, int line, const char *call, CUresult actual, int count, const CUresult *allowed);
void gpu_refused(const char *file, int line, const char *call, CUresult actual);

/* The call gives one of these codes. Where it gives CUDA_ERROR_NOT_SUPPORTED instead, the case is skipped. */
#define GIVES(call, ...)                                                                                               \
    gpu_expect(__FILE__, __LINE__, #call, (call), (int)(sizeof((CUresult[]){__VA_ARGS__}) / sizeof(CUresult)),         \
               (const CUresult[]){__VA_ARGS__})
#define OK(call) GIVES(call, CUDA_SUCCESS)
/* The call gives an error, whichever. */
#define REFUSED(call) gpu_refused(__FILE__, __LINE__, #call, (call))
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) gpu_fail(__FILE__, __LINE__, "not so: %s", #condition);                                      \
    } while (0)
#define CHECK_EQUAL(expected, actual)                                                                                  \
    do {                                                                                                               \
        const long long check_expected = (long long)(expected), check_actual = (long long)(actual);                    \
        if (check_expected != check_actual)                                                                            \
            gpu_fail(__FILE__, __LINE__, "%s is %lld, expected %lld", #actual, check_actual, check_expected);          \
    } while (0)
#define SKIP_IF(condition, ...)                                                                                        \
    do {                                                                                                               \
        if (condition) gpu_skip(__VA_ARGS__);                                                                          \
    } while (0)

/* ---- support.c: the machine ------------------------------------------------------------------------------------- */

enum { DEVICE = 0 };

/* The primary context of DEVICE, current. */
extern CUcontext primary;
/* The path of the driver under test, as dlopen takes it. */
const char *driver_path(void);
/* Loads the driver. NULL, or what went wrong. */
const char *driver_load(void);
bool driver_has(const char *name);
/* cuInit, the primary context made current, every sort of work done once. */
void machine_begin(void);
/* Checks that the case left the context as it found it. */
void machine_check(void);
bool machine_is_emulated(void);
bool machine_has_virtual_clock(void);

int device_count(void);
int attribute(CUdevice_attribute which);
size_t total_memory(void);
size_t free_memory(void);
/* The least size of virtual memory. */
size_t granule(void);
/* Enough of the device's memory to be seen in the free figure although others use the device too. */
size_t large_amount(void);

/* ---- support.c: work -------------------------------------------------------------------------------------------- */

CUstream new_stream(unsigned flags);
CUevent new_event(void);
CUdeviceptr new_block(size_t bytes);
/* Pinned host memory, zeroed. */
unsigned char *new_pinned(size_t bytes);

/* Queue work: a set, a copy (host addresses as they are). */
void set(CUdeviceptr at, int value, size_t bytes, CUstream stream);
void copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
CUdeviceptr as_device(const void *host);
/* All bytes have the value. */
bool all_are(const unsigned char *bytes, size_t count, int value);
/* The device's bytes, read by a synchronous copy, have the value. */
bool device_all_are(CUdeviceptr at, size_t count, int value);
/* Queues a host function that appends the mark (1 to 9) to the order; marks_are("123") compares, and forgets it. Needs:
 * the work is over. */
void mark(CUstream stream, int value);
bool marks_are(const char *digits);

/* ---- support.c: holding work back ------------------------------------------------------------------------------- */

struct gate;
/* What is queued on the stream from now on waits until the gate is let go. Never two at a time, nor a host function
 * elsewhere that the host waits for while the gate is shut: a driver may run all host functions in one thread. */
struct gate *hold(CUstream stream);
void let_go(struct gate *gate);
/* Lets go that many milliseconds from now, so that the caller can wait in a call meanwhile. */
void let_go_after(struct gate *gate, unsigned milliseconds);

/* Looks again and again for a while: the stream's, the event's work is not over. */
void stays_pending(CUstream stream);
void event_stays_pending(CUevent event);
/* Looks again and again until it is over. When that takes seconds the case is skipped: work that nothing orders behind
 * the held stream may run beside it, says the documentation, not must. */
void becomes_done(CUstream stream);
void event_becomes_done(CUevent event);

/* Runs the function to its end on another thread, which has no context at first. */
void on_another_thread(void (*run)(void *argument), void *argument);
/* Runs the function in a forked process. Gives its exit status, or 128 + the signal that ended it; or begins it, gives
 * its number, and waits for its end later. */
int in_forked_process(void (*run)(void));
int begin_forked_process(void (*run)(void));
int end_of_forked_process(int child);

/* ---- support.c: virtual memory ---------------------------------------------------------------------------------- */

CUmemAllocationProp page_properties(void);
CUmemAccessDesc access_description(CUmemAccess_flags flags);
CUmemGenericAllocationHandle new_page(size_t bytes);
CUdeviceptr new_reservation(size_t bytes);
/* Maps the whole page and lets the device read and write. */
void map_page(CUdeviceptr at, size_t bytes, CUmemGenericAllocationHandle page);
void let_access(CUdeviceptr at, size_t bytes);

/* ---- support.c: graphs ------------------------------------------------------------------------------------------ */

/* A non-blocking stream in capture; the graph of a capture that ends well; it, instantiated; how many nodes it has. */
CUstream new_capture(CUstreamCaptureMode mode);
CUgraph end_capture(CUstream stream);
CUgraphExec made_ready(CUgraph graph);
size_t node_count(CUgraph graph);

#endif
