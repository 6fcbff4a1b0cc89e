/* SPDX-License-Identifier: Apache-2.0 */
/* Variables in device memory. Each gets zeroed memory of its size on a device when it is first asked for there; initial
 * values lie in the image of the device code, which is not read. */
#include "device/emu/runtime/rt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "device/error.h"

struct variable {
    struct variable *next;
    struct rt_module *module;
    const void *symbol; /* its host shadow */
    const char *name;
    size_t bytes;
    void *anywhere; /* a managed one's memory, of all devices; or NULL */
    _Atomic(struct placed *) placed[RT_MOST_DEVICES];
};

/* Its memory on a device, until the device is reset; then there is another one before it in the list. */
struct placed {
    struct placed *earlier;
    void *address;
    unsigned generation; /* of the device */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct variable *variables;

void rt_variable_add(struct rt_module *module, const void *symbol, const char *name, size_t bytes, void *anywhere) {
    struct variable *variable = calloc(1, sizeof *variable);
    if (variable == NULL) {
        weir__log(WEIR__LOG_ERROR, "emulated runtime: no host memory to register the variable %s", name);
        return;
    }
    variable->module = module;
    variable->symbol = symbol;
    variable->name = name;
    variable->bytes = bytes;
    variable->anywhere = anywhere;
    pthread_mutex_lock(&lock);
    variable->next = variables;
    variables = variable;
    pthread_mutex_unlock(&lock);
}

static void forget(struct variable *variable) {
    for (int device = 0; device < RT_MOST_DEVICES; device++) {
        for (struct placed *placed = atomic_load(&variable->placed[device]), *earlier; placed != NULL;
             placed = earlier) {
            earlier = placed->earlier;
            free(placed);
        }
    }
    free(variable);
}

/* Its device memory goes with the context: at exit, the usual time, there is no driver any more to free it. */
void rt_variables_remove(struct rt_module *module) {
    pthread_mutex_lock(&lock);
    for (struct variable **place = &variables; *place != NULL;) {
        struct variable *variable = *place;
        if (variable->module == module) {
            *place = variable->next;
            forget(variable);
        } else {
            place = &variable->next;
        }
    }
    pthread_mutex_unlock(&lock);
}

static struct variable *find(const void *symbol) {
    pthread_mutex_lock(&lock);
    struct variable *variable = variables;
    while (variable != NULL && variable->symbol != symbol) variable = variable->next;
    pthread_mutex_unlock(&lock);
    return variable;
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

static cudaError_t zeroed(size_t bytes, void **address) {
    void *zeros = calloc(1, bytes);
    if (zeros == NULL) return cudaErrorMemoryAllocation;
    cudaError_t code = RT_CALL(cuMemAlloc_v2, (address, bytes));
    if (code == cudaSuccess) {
        code = RT_CALL(cuMemcpy, (*address, zeros, bytes));
        if (code != cudaSuccess) (void)RT_CALL(cuMemFree_v2, (*address));
    }
    free(zeros);
    return code;
}

/* Another thread may be at it too: the first one's memory counts. */
static cudaError_t place(struct variable *variable, int device, void **address) {
    const unsigned generation = rt_generation(device);
    struct placed *before = atomic_load(&variable->placed[device]);
    if (before != NULL && before->generation == generation) {
        *address = before->address;
        return cudaSuccess;
    }
    struct placed *now = malloc(sizeof *now);
    if (now == NULL) return cudaErrorMemoryAllocation;
    const cudaError_t code = zeroed(variable->bytes != 0 ? variable->bytes : 1, address);
    *now = (struct placed){.earlier = before, .address = *address, .generation = generation};
    if (code == cudaSuccess && atomic_compare_exchange_strong(&variable->placed[device], &before, now)) return code;
    if (code == cudaSuccess) {
        (void)RT_CALL(cuMemFree_v2, (*address));
        *address = before->address;
    }
    free(now);
    return code;
}

static cudaError_t find_placed(const void *symbol, void **address, size_t *bytes) {
    int device = 0;
    cudaError_t code = rt_begin();
    if (code == cudaSuccess) code = rt_device(&device);
    if (code != cudaSuccess) return code;
    struct variable *variable = find(symbol);
    if (variable == NULL) return cudaErrorInvalidSymbol;
    *bytes = variable->bytes;
    *address = variable->anywhere;
    return *address != NULL ? cudaSuccess : place(variable, device, address);
}

/* ---- entries ---------------------------------------------------------------------------------------------------- */

cudaError_t cudaGetSymbolAddress(void **address, const void *symbol) {
    size_t bytes;
    return rt_end(address != NULL ? find_placed(symbol, address, &bytes) : cudaErrorInvalidValue);
}

cudaError_t cudaGetSymbolSize(size_t *bytes, const void *symbol) {
    const cudaError_t code = rt_begin();
    if (code != cudaSuccess || bytes == NULL) return rt_end(code != cudaSuccess ? code : cudaErrorInvalidValue);
    const struct variable *variable = find(symbol);
    if (variable == NULL) return rt_end(cudaErrorInvalidSymbol);
    *bytes = variable->bytes;
    return cudaSuccess;
}

/* The place of [offset, offset + bytes) in the variable. */
static cudaError_t part_of(const void *symbol, size_t offset, size_t bytes, char **part) {
    void *address = NULL;
    size_t whole = 0;
    const cudaError_t code = find_placed(symbol, &address, &whole);
    if (code != cudaSuccess) return code;
    if (offset > whole || bytes > whole - offset) return cudaErrorInvalidValue;
    *part = (char *)address + offset;
    return cudaSuccess;
}

static cudaError_t to_symbol(const void *symbol, const void *from, size_t bytes, size_t offset,
                             enum cudaMemcpyKind kind, cudaStream_t stream, enum rt_wait wait) {
    char *to = NULL;
    if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost) return rt_end(cudaErrorInvalidMemcpyDirection);
    const cudaError_t code = part_of(symbol, offset, bytes, &to);
    return rt_end(code == cudaSuccess ? rt_copy(to, from, bytes, kind, stream, wait) : code);
}

static cudaError_t from_symbol(void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind,
                               cudaStream_t stream, enum rt_wait wait) {
    char *from = NULL;
    if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost) return rt_end(cudaErrorInvalidMemcpyDirection);
    const cudaError_t code = part_of(symbol, offset, bytes, &from);
    return rt_end(code == cudaSuccess ? rt_copy(to, from, bytes, kind, stream, wait) : code);
}

cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t bytes, size_t offset,
                               enum cudaMemcpyKind kind) {
    return to_symbol(symbol, from, bytes, offset, kind, NULL, RT_WAITS);
}
cudaError_t cudaMemcpyToSymbol_ptds(const void *symbol, const void *from, size_t bytes, size_t offset,
                                    enum cudaMemcpyKind kind) {
    return to_symbol(symbol, from, bytes, offset, kind, cudaStreamPerThread, RT_WAITS);
}
cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t bytes, size_t offset,
                                    enum cudaMemcpyKind kind, cudaStream_t stream) {
    return to_symbol(symbol, from, bytes, offset, kind, stream, RT_ASYNC);
}
cudaError_t cudaMemcpyToSymbolAsync_ptsz(const void *symbol, const void *from, size_t bytes, size_t offset,
                                         enum cudaMemcpyKind kind, cudaStream_t stream) {
    return to_symbol(symbol, from, bytes, offset, kind, rt_per_thread(stream), RT_ASYNC);
}
cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t bytes, size_t offset, enum cudaMemcpyKind kind) {
    return from_symbol(to, symbol, bytes, offset, kind, NULL, RT_WAITS);
}
cudaError_t cudaMemcpyFromSymbol_ptds(void *to, const void *symbol, size_t bytes, size_t offset,
                                      enum cudaMemcpyKind kind) {
    return from_symbol(to, symbol, bytes, offset, kind, cudaStreamPerThread, RT_WAITS);
}
cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t bytes, size_t offset,
                                      enum cudaMemcpyKind kind, cudaStream_t stream) {
    return from_symbol(to, symbol, bytes, offset, kind, stream, RT_ASYNC);
}
cudaError_t cudaMemcpyFromSymbolAsync_ptsz(void *to, const void *symbol, size_t bytes, size_t offset,
                                           enum cudaMemcpyKind kind, cudaStream_t stream) {
    return from_symbol(to, symbol, bytes, offset, kind, rt_per_thread(stream), RT_ASYNC);
}
