/* SPDX-License-Identifier: Apache-2.0 */
/* The emulated CUDA runtime from inside: what its files share.
 *
 * It is a thin layer: nearly every entry makes the device's primary context current, passes the call on to the driver,
 * and keeps a failure as the thread's last error. State of its own: each thread's device and last error; what programs
 * have registered of kernels and variables. It knows the driver by its exported entries only.
 *
 *     rt.c         finding the driver; contexts; last errors          errors.c     names and texts
 *     device.c     devices                 memory.c pool.c             memory
 *     copy.c set.c copies and sets         stream.c graph.c            streams, events, captures, graphs
 *     module.c     what nvcc's objects register                        launch.c library.c     kernels
 *     symbol.c     variables               lookup.c                    the driver's entries, versions
 *     refused.c    the rest                version_12.c version_13.c   what differs between the two */
#ifndef WEIR_EMU_RUNTIME_RT_H
#define WEIR_EMU_RUNTIME_RT_H

#include <stdbool.h>

#include "device/emu/runtime/driver_calls.h"
#include "device/emu/runtime/entries.h"

#define RT_API __attribute__((visibility("default")))

enum { RT_MOST_DEVICES = 64 };

#define RT_DECLARE(name, parameters)             RT_API cudaError_t name parameters;
#define RT_DECLARE_OTHER(type, name, parameters) RT_API type name parameters;
#define RT_DECLARE_PTSZ(name)                    extern RT_API __typeof__(name) name##_ptsz;
#define RT_DECLARE_PTDS(name)                    extern RT_API __typeof__(name) name##_ptds;
RT_COMMON_LIST(RT_DECLARE)
RT_OTHER_LIST(RT_DECLARE_OTHER)
RT_PTSZ_LIST(RT_DECLARE_PTSZ)
RT_PTDS_LIST(RT_DECLARE_PTDS)

/* CUDART_VERSION of the one that this is: version_12.c, version_13.c. */
extern const int rt_version;

/* ---- rt.c ------------------------------------------------------------------------------------------------------- */

/* Begins a call that needs the driver, but no context. */
cudaError_t rt_begin_without_context(void);
/* The same for one about a device, by its number. */
cudaError_t rt_begin_with_device(int device);
/* Begins a call that needs a context: the thread's own, else its device's primary one is made current. */
cudaError_t rt_begin(void);
/* Ends a call: keeps a failure as the thread's last error, and gives it. */
cudaError_t rt_end(cudaError_t code);
/* The same for results that are no errors: cudaErrorNotReady. */
cudaError_t rt_end_query(cudaError_t code);

extern struct rt_driver rt_driver;
/* Says once that the driver has no such entry. */
cudaError_t rt_missing(const char *symbol);
/* Calls the driver; begin must have succeeded. */
#define RT_CALL(symbol, arguments) (rt_driver.symbol != NULL ? rt_driver.symbol arguments : rt_missing(#symbol))

/* A whole entry that passes its call on. */
#define RT_PASS(name, parameters, symbol, arguments)                                                                   \
    cudaError_t name parameters {                                                                                      \
        const cudaError_t begun = rt_begin();                                                                          \
        return rt_end(begun == cudaSuccess ? RT_CALL(symbol, arguments) : begun);                                      \
    }

/* The same for an entry about a device, which needs no context. */
#define RT_PASS_DEVICE(name, parameters, device, symbol, arguments)                                                    \
    cudaError_t name parameters {                                                                                      \
        const cudaError_t begun = rt_begin_with_device(device);                                                        \
        return rt_end(begun == cudaSuccess ? RT_CALL(symbol, arguments) : begun);                                      \
    }

/* The thread's device: that of its current context, else the one it has set. */
cudaError_t rt_device(int *device);
/* The primary context of the device, which is made active and stays so. */
cudaError_t rt_primary_context(int device, rt_context *context);
/* cudaDeviceReset: what was kept of the device's primary context is gone. */
void rt_forget_context(int device);
/* Counts resets of the device, so that what lived in its context can be told from what does. */
unsigned rt_generation(int device);
cudaError_t rt_set_device(int device);
int rt_device_count(void);

/* A stream as the _ptsz entries mean it. */
static inline cudaStream_t rt_per_thread(cudaStream_t stream) { return stream == NULL ? cudaStreamPerThread : stream; }

/* ---- copy.c ----------------------------------------------------------------------------------------------------- */

enum rt_wait { RT_ASYNC, RT_WAITS };
cudaError_t rt_copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream,
                    enum rt_wait wait);

/* ---- module.c --------------------------------------------------------------------------------------------------- */

/* The kernel behind a host stub's address, or behind a handle that was given out. */
cudaError_t rt_find_kernel(const void *stub, cudaKernel_t *kernel);
/* Keeps a handle that was given out, so that entries take it in place of a stub. */
cudaError_t rt_kernel_given(cudaKernel_t handle);
/* The function of a kernel handle or host stub in the current context. */
cudaError_t rt_find_function(const void *stub_or_kernel, cudaFunction_t *function);

/* ---- symbol.c --------------------------------------------------------------------------------------------------- */

struct rt_module;
/* Registers a variable: it gets memory when it is first used on a device, unless it is managed and has memory for all. */
void rt_variable_add(struct rt_module *module, const void *symbol, const char *name, size_t bytes, void *anywhere);
void rt_variables_remove(struct rt_module *module);

#endif
