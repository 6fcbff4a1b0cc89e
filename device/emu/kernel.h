/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels, which are accepted, ordered and costed, and do nothing; and calls of entries that are there by name only.
 *
 * An image is what a program loads, a module or a library; no byte of it is read, so every kernel that is asked for by
 * name is in it. A CUmodule and a CUlibrary are images, a CUfunction and a CUkernel are kernels.
 *
 * All functions need the lock. */
#ifndef WEIR_EMU_KERNEL_H
#define WEIR_EMU_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "device/emu/emu_types.h"
#include "device/emu/slots.h"

struct emu_image {
    struct emu_slot slot;
    CUcontext context; /* a module's; NULL: a library, for all contexts */
    struct emu_kernel *kernels;
};

struct emu_kernel_name;

struct emu_kernel {
    struct emu_slot slot;
    struct emu_image *image;
    struct emu_kernel *next;      /* of the image */
    struct emu_kernel_name *name; /* lives for ever */
    int attributes[CU_FUNC_ATTRIBUTE_MAX];
};

/* NULL: no host memory. */
struct emu_image *emu_image_load(CUcontext context);
/* Its kernels go too; what has been launched still happens. */
void emu_image_unload(struct emu_image *image);
/* The image behind a CUlibrary, or behind a CUmodule: a library is one too, in whichever context is current. NULL:
 * none. */
struct emu_image *emu_image_of(const void *handle, bool module);
/* The context is gone: its modules are unloaded. */
void emu_images_forget(CUcontext context);

/* The kernel of that name, always the same one. NULL: no host memory. */
struct emu_kernel *emu_kernel_get(struct emu_image *image, const char *name);
struct emu_kernel *emu_kernel_of(const void *handle);
const char *emu_kernel_text(const struct emu_kernel *kernel);
/* Queues a launch, which takes what an empty kernel takes. Says once a name that it does nothing. */
struct emu_queue;
CUresult emu_kernel_launch(struct emu_queue *queue, const struct emu_kernel *kernel);

uint64_t emu_idle_kernels(void);
/* Needs no lock. */
uint64_t emu_unsupported_calls(void);

#endif
