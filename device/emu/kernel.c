/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/kernel.h"

#include <stdlib.h>
#include <string.h>

#include "device/emu/cost.h"
#include "device/emu/queue.h"
#include "device/error.h"

static struct emu_slots images = EMU_SLOTS_INITIALIZER(struct emu_image);
static struct emu_slots kernels = EMU_SLOTS_INITIALIZER(struct emu_kernel);
static uint64_t idle_kernels;

uint64_t emu_idle_kernels(void) { return idle_kernels; }

/* ---- names ------------------------------------------------------------------------------------------------------ */

/* Operations and reports name kernels after their images are gone, so names are kept; a program has few thousand. */
struct emu_kernel_name {
    struct emu_kernel_name *next; /* of the bucket */
    bool said;
    char text[];
};

enum { BUCKETS = 1024 };
static struct emu_kernel_name *buckets[BUCKETS];

static size_t bucket_of(const char *text) {
    size_t hash = 5381;
    for (; *text != '\0'; text++) hash = hash * 33 + (unsigned char)*text;
    return hash % BUCKETS;
}

static struct emu_kernel_name *keep_name(const char *text) {
    struct emu_kernel_name **bucket = &buckets[bucket_of(text)];
    for (struct emu_kernel_name *each = *bucket; each != NULL; each = each->next)
        if (strcmp(each->text, text) == 0) return each;
    const size_t length = strlen(text) + 1;
    struct emu_kernel_name *made = malloc(sizeof *made + length);
    if (made == NULL) return NULL;
    made->said = false;
    memcpy(made->text, text, length);
    made->next = *bucket;
    *bucket = made;
    return made;
}

/* ---- images ----------------------------------------------------------------------------------------------------- */

struct emu_image *emu_image_load(CUcontext context) {
    struct emu_image *image = emu_slots_take(&images);
    if (image == NULL) return NULL;
    image->context = context;
    image->kernels = NULL;
    return image;
}

void emu_image_unload(struct emu_image *image) {
    for (struct emu_kernel *kernel = image->kernels, *next; kernel != NULL; kernel = next) {
        next = kernel->next;
        emu_slots_give(&kernels, kernel);
    }
    emu_slots_give(&images, image);
}

struct emu_image *emu_image_of(const void *handle, bool module) {
    struct emu_image *image = (struct emu_image *)(uintptr_t)handle;
    return emu_slots_alive(&images, handle) && (module || image->context == NULL) ? image : NULL;
}

void emu_images_forget(CUcontext context) {
    for (struct emu_image *image = emu_slots_next(&images, NULL); image != NULL; image = emu_slots_next(&images, image))
        if (image->context == context) emu_image_unload(image);
}

/* ---- kernels ---------------------------------------------------------------------------------------------------- */

/* What a small kernel without shared memory has on a device of compute capability 9.0. */
static void set_attributes(int *attributes) {
    memset(attributes, 0, CU_FUNC_ATTRIBUTE_MAX * sizeof *attributes);
    attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024;
    attributes[CU_FUNC_ATTRIBUTE_NUM_REGS] = 32;
    attributes[CU_FUNC_ATTRIBUTE_PTX_VERSION] = 90;
    attributes[CU_FUNC_ATTRIBUTE_BINARY_VERSION] = 90;
    attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 48 * 1024;
    attributes[CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT] = -1;
}

struct emu_kernel *emu_kernel_get(struct emu_image *image, const char *name) {
    struct emu_kernel_name *kept = keep_name(name);
    if (kept == NULL) return NULL;
    for (struct emu_kernel *each = image->kernels; each != NULL; each = each->next)
        if (each->name == kept) return each;
    struct emu_kernel *kernel = emu_slots_take(&kernels);
    if (kernel == NULL) return NULL;
    kernel->image = image;
    kernel->name = kept;
    set_attributes(kernel->attributes);
    kernel->next = image->kernels;
    image->kernels = kernel;
    return kernel;
}

struct emu_kernel *emu_kernel_of(const void *handle) {
    return emu_slots_alive(&kernels, handle) ? (struct emu_kernel *)(uintptr_t)handle : NULL;
}

const char *emu_kernel_text(const struct emu_kernel *kernel) { return kernel->name->text; }

CUresult emu_kernel_launch(struct emu_queue *queue, const struct emu_kernel *kernel) {
    struct emu_kernel_name *name = kernel->name;
    const struct emu_operation launch = {
        .kind = EMU_KERNEL, .engine = EMU_ENGINE_COMPUTE, .name = name->text, .alone_ns = emu_cost_kernel(0, 0)};
    struct emu_point point;
    const CUresult code = emu_queue_push(queue, &launch, &point);
    if (code != CUDA_SUCCESS) return code;
    idle_kernels++;
    if (!name->said)
        weir__log(WEIR__LOG_WARN, "emulated driver: kernel %.200s is ordered and takes its time, but computes nothing",
                  name->text);
    name->said = true;
    return CUDA_SUCCESS;
}
