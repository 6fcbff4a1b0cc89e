/* SPDX-License-Identifier: Apache-2.0 */
/* What objects compiled by nvcc register at program start: images of device code, the kernels in them by the addresses of
 * their host stubs, variables by the addresses of their host shadows. Registering is done under a lock and calls no
 * driver; an image goes to the driver when the first of its kernels is asked for.
 *
 *     a kernel handle given out is in the table too, under its own address: entries take stubs and handles alike */
#include "device/emu/runtime/rt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "device/error.h"

struct managed {
    struct managed *next;
    void **pointer; /* through which the host code finds it */
    const char *name;
    size_t bytes;
    _Atomic(void *) memory;
};

struct rt_module {
    const void *image;
    _Atomic(cudaLibrary_t) library;
    struct kernel *kernels;
    struct managed *managed;
};

struct kernel {
    struct kernel *next_in_bucket, *next_in_module;
    const void *key; /* host stub, or handle */
    const char *name;
    struct rt_module *module; /* NULL: a handle of a library's kernel */
    _Atomic(cudaKernel_t) handle;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kernel **buckets;
static size_t bucket_count, kernel_count;

/* ---- the table -------------------------------------------------------------------------------------------------- */

static struct kernel **bucket_of(struct kernel **table, size_t count, const void *key) {
    return &table[((uintptr_t)key * 0x9E3779B97F4A7C15ull >> 20) % count];
}

static bool grow(void) {
    const size_t count = bucket_count == 0 ? 256 : bucket_count * 2;
    struct kernel **larger = calloc(count, sizeof *larger);
    if (larger == NULL) return false;
    for (size_t i = 0; i < bucket_count; i++) {
        for (struct kernel *kernel = buckets[i], *next; kernel != NULL; kernel = next) {
            next = kernel->next_in_bucket;
            struct kernel **bucket = bucket_of(larger, count, kernel->key);
            kernel->next_in_bucket = *bucket;
            *bucket = kernel;
        }
    }
    free(buckets);
    buckets = larger;
    bucket_count = count;
    return true;
}

static struct kernel *find(const void *key) {
    if (bucket_count == 0) return NULL;
    struct kernel *kernel = *bucket_of(buckets, bucket_count, key);
    while (kernel != NULL && kernel->key != key) kernel = kernel->next_in_bucket;
    return kernel;
}

static void insert(struct kernel *kernel) {
    struct kernel **bucket = bucket_of(buckets, bucket_count, kernel->key);
    kernel->next_in_bucket = *bucket;
    *bucket = kernel;
    kernel_count++;
}

static void take_out(struct kernel *kernel) {
    struct kernel **place = bucket_of(buckets, bucket_count, kernel->key);
    while (*place != kernel) place = &(*place)->next_in_bucket;
    *place = kernel->next_in_bucket;
    kernel_count--;
}

/* False: no host memory. An address that is known already keeps its first meaning. */
static bool add(struct rt_module *module, const void *key, const char *name, cudaKernel_t handle) {
    struct kernel *kernel = calloc(1, sizeof *kernel);
    if (kernel == NULL) return false;
    kernel->key = key;
    kernel->name = name;
    kernel->module = module;
    atomic_init(&kernel->handle, handle);
    pthread_mutex_lock(&lock);
    const bool known = find(key) != NULL, room = kernel_count < bucket_count || grow();
    if (!known && room) {
        insert(kernel);
        if (module != NULL) {
            kernel->next_in_module = module->kernels;
            module->kernels = kernel;
        }
    }
    pthread_mutex_unlock(&lock);
    if (known || !room) free(kernel);
    return known || room;
}

static struct kernel *look_up(const void *key) {
    pthread_mutex_lock(&lock);
    struct kernel *kernel = find(key);
    pthread_mutex_unlock(&lock);
    return kernel;
}

/* ---- from a stub to a kernel ------------------------------------------------------------------------------------ */

/* Another thread may load the image at the same time; the later one's goes again. */
static cudaError_t library_of(struct rt_module *module, cudaLibrary_t *library) {
    *library = atomic_load(&module->library);
    if (*library != NULL) return cudaSuccess;
    cudaLibrary_t loaded;
    const cudaError_t code = RT_CALL(cuLibraryLoadData, (&loaded, module->image, NULL, NULL, 0, NULL, NULL, 0));
    if (code != cudaSuccess) return code;
    if (atomic_compare_exchange_strong(&module->library, library, loaded))
        *library = loaded;
    else
        (void)RT_CALL(cuLibraryUnload, (loaded));
    return cudaSuccess;
}

cudaError_t rt_kernel_given(cudaKernel_t handle) {
    return add(NULL, handle, NULL, handle) ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t rt_find_kernel(const void *stub, cudaKernel_t *handle) {
    struct kernel *kernel = look_up(stub);
    if (kernel == NULL) return cudaErrorInvalidDeviceFunction;
    *handle = atomic_load(&kernel->handle);
    if (*handle != NULL) return cudaSuccess;
    cudaLibrary_t library;
    cudaError_t code = library_of(kernel->module, &library);
    if (code == cudaSuccess) code = RT_CALL(cuLibraryGetKernel, (handle, library, kernel->name));
    if (code == cudaSuccess) code = rt_kernel_given(*handle);
    if (code == cudaSuccess) atomic_store(&kernel->handle, *handle);
    return code == cudaErrorSymbolNotFound ? cudaErrorInvalidDeviceFunction : code;
}

cudaError_t rt_find_function(const void *stub_or_kernel, cudaFunction_t *function) {
    cudaKernel_t kernel = NULL;
    const cudaError_t code = rt_find_kernel(stub_or_kernel, &kernel);
    return code == cudaSuccess ? RT_CALL(cuKernelGetFunction, (function, kernel)) : code;
}

/* ---- registration ----------------------------------------------------------------------------------------------- */

/* nvcc's objects give a wrapper around the image. */
struct wrapper {
    int magic, version;
    const void *image;
    void *file;
};
enum { WRAPPER_MAGIC = 0x466243b1 };

/* There is nobody to tell of a failure: the kernels are not known, and a launch says so. */
void **__cudaRegisterFatBinary(void *wrapped) {
    struct rt_module *module = calloc(1, sizeof *module);
    if (module == NULL) return NULL;
    const struct wrapper *wrapper = wrapped;
    module->image = wrapper->magic == WRAPPER_MAGIC ? wrapper->image : wrapped;
    return (void **)module;
}

void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

/* When a library is closed, or at exit, when the driver may be gone: the image is left to it. */
void __cudaUnregisterFatBinary(void **handle) {
    struct rt_module *module = (struct rt_module *)handle;
    if (module == NULL) return;
    rt_variables_remove(module);
    pthread_mutex_lock(&lock);
    for (struct kernel *kernel = module->kernels, *next; kernel != NULL; kernel = next) {
        next = kernel->next_in_module;
        take_out(kernel);
        free(kernel);
    }
    pthread_mutex_unlock(&lock);
    for (struct managed *managed = module->managed, *next; managed != NULL; managed = next) {
        next = managed->next;
        free(managed);
    }
    free(module);
}

void __cudaRegisterFunction(void **handle, const char *stub, char *device_name, const char *name, int thread_limit,
                            uint3 *thread, uint3 *block, dim3 *block_size, dim3 *grid_size, int *warp_size) {
    (void)device_name, (void)thread_limit, (void)thread, (void)block, (void)block_size, (void)grid_size,
        (void)warp_size;
    if (handle == NULL || !add((struct rt_module *)handle, stub, name, NULL))
        weir__log(WEIR__LOG_ERROR, "emulated runtime: no host memory to register the kernel %s", name);
}

void __cudaRegisterVar(void **handle, char *symbol, char *device_name, const char *name, int external, size_t bytes,
                       int constant, int global) {
    (void)device_name, (void)external, (void)constant, (void)global;
    if (handle != NULL) rt_variable_add((struct rt_module *)handle, symbol, name, bytes, NULL);
}

/* ---- managed variables ------------------------------------------------------------------------------------------ */

void __cudaRegisterManagedVar(void **handle, void **pointer, char *device_name, const char *name, int external,
                              size_t bytes, int constant, int global) {
    (void)device_name, (void)external, (void)constant, (void)global;
    struct rt_module *module = (struct rt_module *)handle;
    struct managed *managed = module != NULL ? calloc(1, sizeof *managed) : NULL;
    if (managed == NULL) return;
    managed->next = module->managed;
    managed->pointer = pointer;
    managed->name = name;
    managed->bytes = bytes;
    module->managed = managed;
}

/* Pinned host memory does as well where the driver has no managed memory: all memory of an emulated device is the
 * host's. Another thread may be at it too: the first one's memory counts, and both return when it is there. */
static cudaError_t give_memory(struct rt_module *module, struct managed *managed) {
    void *none = NULL, *memory = NULL;
    if (atomic_load(&managed->memory) != NULL) return cudaSuccess;
    cudaError_t code = RT_CALL(cuMemAllocManaged, (&memory, managed->bytes, cudaMemAttachGlobal));
    const bool pinned = code == cudaErrorNotSupported;
    if (pinned) code = RT_CALL(cuMemHostAlloc, (&memory, managed->bytes, cudaHostAllocPortable));
    if (code != cudaSuccess) return code;
    memset(memory, 0, managed->bytes);
    if (!atomic_compare_exchange_strong(&managed->memory, &none, memory))
        return pinned ? RT_CALL(cuMemFreeHost, (memory)) : RT_CALL(cuMemFree_v2, (memory));
    rt_variable_add(module, memory, managed->name, managed->bytes, memory);
    return cudaSuccess;
}

/* Called before the host touches a managed variable of the module, once or from several threads at once. */
char __cudaInitModule(void **handle) {
    struct rt_module *module = (struct rt_module *)handle;
    if (module == NULL || module->managed == NULL) return module != NULL;
    cudaError_t code = rt_begin();
    for (struct managed *managed = module->managed; managed != NULL && code == cudaSuccess; managed = managed->next) {
        code = give_memory(module, managed);
        if (code == cudaSuccess) __atomic_store_n(managed->pointer, atomic_load(&managed->memory), __ATOMIC_RELEASE);
    }
    if (code != cudaSuccess)
        weir__log(WEIR__LOG_ERROR, "emulated runtime: no memory for managed variables: %s", cudaGetErrorString(code));
    rt_end(code);
    return code == cudaSuccess;
}
