/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/backing.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/emu/settings.h"
#include "device/error.h"

/* ---- the count of mappings -------------------------------------------------------------------------------------- */

/* Linux allows a process so many mappings (vm.max_map_count); an eighth is left to the program itself, whose thread
 * stacks and allocations would otherwise be what fails. */
static size_t mappings, most_mappings;

static void read_most_mappings(void) {
    most_mappings = 65530;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    if (file == NULL) return;
    unsigned long most;
    if (fscanf(file, "%lu", &most) == 1) most_mappings = most;
    fclose(file);
}

static bool room_for_mappings(size_t more) {
    if (most_mappings == 0) read_most_mappings();
    if (mappings + more <= most_mappings - most_mappings / 8) return true;
    weir__log(WEIR__LOG_WARN,
              "emulated driver: out of memory, since %zu mappings are in use and vm.max_map_count is %zu; use larger "
              "pages, or raise it with: sysctl -w vm.max_map_count=%zu",
              mappings, most_mappings, 4 * most_mappings);
    return false;
}

/* ---- addresses -------------------------------------------------------------------------------------------------- */

static void *reserve_at(uintptr_t start, size_t bytes) {
    return mmap((void *)start, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
                0);
}

static bool try_at(uintptr_t start, size_t bytes) {
    void *at = reserve_at(start, bytes);
    if (at == MAP_FAILED) return false;
    if (at == (void *)start) return true;
    munmap(at, bytes); /* a kernel that does not know MAP_FIXED_NOREPLACE takes the address for a hint */
    errno = EEXIST;
    return false;
}

static uintptr_t align_up(uintptr_t value, size_t alignment) { return (value + alignment - 1) & ~(alignment - 1); }

/* Walks up from the base over what is reserved; what else lies there (the program, its libraries) is stepped over. */
static uintptr_t walk_up(const struct emu_ranges *taken, size_t bytes, size_t alignment) {
    enum { MOST_STEPS = 4096 };
    const size_t step = align_up((size_t)1 << 30, alignment);
    uintptr_t at = align_up(EMU_ADDRESS_BASE, alignment);
    for (int steps = 0; steps < MOST_STEPS; steps++) {
        while (emu_ranges_overlap(taken, at, bytes)) {
            const struct emu_range *last = taken->items[emu_ranges_upto(taken, at + bytes - 1) - 1];
            at = align_up(emu_range_end(last), alignment);
        }
        if (try_at(at, bytes)) return at;
        if (errno != EEXIST) return 0;
        at += step;
    }
    return 0;
}

/* Where the base is beyond the machine's addresses, any place is right. */
static uintptr_t anywhere(size_t bytes, size_t alignment) {
    const size_t room = bytes + alignment;
    char *at = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return 0;
    const uintptr_t start = align_up((uintptr_t)at, alignment);
    if (start > (uintptr_t)at) munmap(at, start - (uintptr_t)at);
    const size_t behind = (uintptr_t)at + room - (start + bytes);
    if (behind > 0) munmap((void *)(start + bytes), behind);
    return start;
}

uintptr_t emu_backing_reserve(const struct emu_ranges *taken, uintptr_t wanted, size_t bytes, size_t alignment) {
    if (!room_for_mappings(1)) return 0;
    uintptr_t start = 0;
    if (wanted != 0 && wanted % alignment == 0 && try_at(wanted, bytes)) start = wanted;
    if (start == 0) start = walk_up(taken, bytes, alignment);
    if (start == 0) start = anywhere(bytes, alignment);
    if (start != 0) mappings++;
    return start;
}

void emu_backing_unreserve(uintptr_t start, size_t bytes) {
    munmap((void *)start, bytes);
    mappings--;
}

/* ---- physical memory -------------------------------------------------------------------------------------------- */

/* A device's file. It is sparse and as long as it needs to be, so that no page is refused because free bytes do not
 * lie together; the device's capacity is counted in memory.c. */
struct file {
    bool open;
    int descriptor;
    size_t end;              /* no byte at or after it is in use */
    struct emu_ranges holes; /* free runs below the end; no two touch */
};

static struct file files[EMU_MOST_DEVICES];

static bool open_file(CUdevice device) {
    struct file *file = &files[device];
    if (file->open || !emu_settings()->backed) return true;
    char name[32];
    snprintf(name, sizeof name, "weir-emu-%d", device);
    file->descriptor = memfd_create(name, MFD_CLOEXEC);
    file->open = file->descriptor >= 0;
    if (!file->open) weir__log(WEIR__LOG_ERROR, "emulated driver: memfd_create: %s", strerror(errno));
    return file->open;
}

static bool take_hole(struct file *file, size_t bytes, size_t *offset) {
    for (size_t i = 0; i < file->holes.count; i++) {
        struct emu_range *hole = file->holes.items[i];
        if (hole->bytes < bytes) continue;
        *offset = hole->start;
        hole->start += bytes;
        hole->bytes -= bytes;
        if (hole->bytes == 0) {
            memmove(&file->holes.items[i], &file->holes.items[i + 1],
                    (file->holes.count - i - 1) * sizeof *file->holes.items);
            file->holes.count--;
            free(hole);
        }
        return true;
    }
    return false;
}

bool emu_backing_take(CUdevice device, size_t bytes, size_t *offset) {
    struct file *file = &files[device];
    if (!open_file(device)) return false;
    if (take_hole(file, bytes, offset)) return true;
    if (emu_settings()->backed && ftruncate(file->descriptor, (off_t)(file->end + bytes)) != 0) {
        weir__log(WEIR__LOG_ERROR, "emulated driver: ftruncate to %zu: %s", file->end + bytes, strerror(errno));
        return false;
    }
    *offset = file->end;
    file->end += bytes;
    return true;
}

/* Without host memory for a hole's record its bytes are not used again; the file is sparse, so they cost nothing. */
static void add_hole(struct file *file, size_t offset, size_t bytes) {
    const size_t upto = emu_ranges_upto(&file->holes, offset);
    struct emu_range *before = upto > 0 ? file->holes.items[upto - 1] : NULL;
    struct emu_range *after = upto < file->holes.count ? file->holes.items[upto] : NULL;
    if (after != NULL && after->start == offset + bytes) {
        bytes += after->bytes;
        emu_ranges_remove(&file->holes, after);
        free(after);
    }
    if (before != NULL && emu_range_end(before) == offset) {
        before->bytes += bytes;
        return;
    }
    struct emu_range *hole = malloc(sizeof *hole);
    if (hole == NULL) return;
    *hole = (struct emu_range){offset, bytes};
    if (!emu_ranges_insert(&file->holes, hole)) free(hole);
}

void emu_backing_give(CUdevice device, size_t offset, size_t bytes) {
    struct file *file = &files[device];
    if (emu_settings()->backed &&
        fallocate(file->descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes) != 0)
        weir__log(WEIR__LOG_WARN, "emulated driver: fallocate: %s; released memory stays resident", strerror(errno));
    add_hole(file, offset, bytes);
}

/* ---- mappings --------------------------------------------------------------------------------------------------- */

bool emu_backing_map(uintptr_t start, size_t bytes, CUdevice device, size_t offset, unsigned splits) {
    if (!emu_settings()->backed) return true;
    if (!room_for_mappings(splits)) return false;
    void *at = mmap((void *)start, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, files[device].descriptor, (off_t)offset);
    if (at == MAP_FAILED) {
        weir__log(WEIR__LOG_ERROR, "emulated driver: mmap of %zu bytes: %s", bytes, strerror(errno));
        return false;
    }
    mappings += splits;
    return true;
}

void emu_backing_unmap(uintptr_t start, size_t bytes, unsigned splits) {
    if (!emu_settings()->backed) return;
    void *at = mmap((void *)start, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (at == MAP_FAILED) weir__log(WEIR__LOG_ERROR, "emulated driver: mmap of %zu bytes: %s", bytes, strerror(errno));
    mappings -= splits;
}

void emu_backing_protect(uintptr_t start, size_t bytes, CUmemAccess_flags access) {
    if (!emu_settings()->backed) return;
    int protection = PROT_NONE;
    if (access == CU_MEM_ACCESS_FLAGS_PROT_READ) protection = PROT_READ;
    if (access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) protection = PROT_READ | PROT_WRITE;
    if (mprotect((void *)start, bytes, protection) != 0)
        weir__log(WEIR__LOG_ERROR, "emulated driver: mprotect of %zu bytes: %s", bytes, strerror(errno));
}
