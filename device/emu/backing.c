/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/backing.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/emu/settings.h"
#include "device/error.h"
#include "device/standard.h"

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
            const struct emu_range *last = emu_ranges_item(taken, emu_ranges_upto(taken, at + bytes - 1) - 1);
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
    bool lent;               /* records of exported pages lie far behind the pages: the file is long enough */
    size_t end;              /* no byte at or after it is in use */
    struct emu_ranges holes; /* free runs below the end; no two touch */
};

static struct file files[EMU_MOST_DEVICES];
static const char file_name[] = "weir-emu-"; /* and the device's number */

static bool open_file(CUdevice device) {
    struct file *file = &files[device];
    if (file->open || !emu_settings()->backed) return true;
    char name[32];
    snprintf(name, sizeof name, "%s%d", file_name, device);
    file->descriptor = weir__above_standard(memfd_create(name, MFD_CLOEXEC));
    file->open = file->descriptor >= 0;
    if (!file->open) weir__log(WEIR__LOG_ERROR, "emulated driver: memfd_create: %s", strerror(errno));
    return file->open;
}

static bool take_hole(struct file *file, size_t bytes, size_t *offset) {
    for (size_t i = 0; i < file->holes.count; i++) {
        struct emu_range *hole = emu_ranges_item(&file->holes, i);
        if (hole->bytes < bytes) continue;
        *offset = hole->start;
        hole->start += bytes;
        hole->bytes -= bytes;
        if (hole->bytes == 0) {
            emu_ranges_remove(&file->holes, hole);
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
    if (emu_settings()->backed && !file->lent && ftruncate(file->descriptor, (off_t)(file->end + bytes)) != 0) {
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
    struct emu_range *before = upto > 0 ? emu_ranges_item(&file->holes, upto - 1) : NULL;
    struct emu_range *after = upto < file->holes.count ? emu_ranges_item(&file->holes, upto) : NULL;
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

/* ---- pages of several processes --------------------------------------------------------------------------------- */

/* An exported page is a descriptor of the device's file: its position says which page, its own open file holds a read
 * lock on the page's bytes, and so does every process that has imported it. The kernel drops the locks with the last
 * descriptor, however a process ends; the page is free when nobody but this process could be holding one. What the
 * position does not say stands in a record that lies in the same file, far behind the pages. */
enum { RECORD_UNIT = 4096 };
#define RECORDS ((uint64_t)1 << 46)

struct record {
    char magic[8];
    uint64_t offset, bytes;
    int32_t device;
    uint32_t capable; /* of RDMA, as its maker asked */
};

static off_t record_place(size_t offset) { return (off_t)(RECORDS + offset / RECORD_UNIT * sizeof(struct record)); }

static bool lock_bytes(int descriptor, short type, size_t offset, size_t bytes) {
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)offset, .l_len = (off_t)bytes};
    return fcntl(descriptor, F_OFD_SETLK, &range) == 0;
}

/* An open file of its own: one that is only duplicated shares its position and its locks. */
static int open_again(int descriptor) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    return weir__above_standard(open(path, O_RDWR | O_CLOEXEC));
}

int emu_backing_export(CUdevice device, size_t offset, size_t bytes, bool rdma_capable) {
    struct file *file = &files[device];
    const struct record record = {"weirpage", offset, bytes, device, rdma_capable};
    const int descriptor = open_again(file->descriptor);
    if (descriptor < 0) goto failed;
    if (pwrite(descriptor, &record, sizeof record, record_place(offset)) != sizeof record) goto failed;
    file->lent = true;
    if (!lock_bytes(descriptor, F_RDLCK, offset, bytes)) goto failed;
    if (lseek(descriptor, (off_t)offset, SEEK_SET) < 0) goto failed;
    return descriptor;
failed:
    weir__log(WEIR__LOG_ERROR, "emulated driver: a page can't be exported: %s", strerror(errno));
    if (descriptor >= 0) close(descriptor);
    return -1;
}

bool emu_backing_in_use(CUdevice device, size_t offset, size_t bytes) {
    const int descriptor = files[device].descriptor;
    if (!lock_bytes(descriptor, F_WRLCK, offset, bytes)) return true;
    lock_bytes(descriptor, F_UNLCK, offset, bytes);
    return false;
}

static bool is_ours(int descriptor) {
    char path[64], name[64] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    return readlink(path, name, sizeof name - 1) > 0 && strstr(name, file_name) != NULL;
}

static CUdevice device_of_file(int descriptor) {
    struct stat given, own;
    if (fstat(descriptor, &given) != 0) return -1;
    for (CUdevice device = 0; device < EMU_MOST_DEVICES; device++)
        if (files[device].open && fstat(files[device].descriptor, &own) == 0 && own.st_ino == given.st_ino &&
            own.st_dev == given.st_dev)
            return device;
    return -1;
}

bool emu_backing_import(int descriptor, struct emu_import *out) {
    struct record record;
    const off_t offset = lseek(descriptor, 0, SEEK_CUR);
    if (offset < 0 || !is_ours(descriptor)) return false;
    if (pread(descriptor, &record, sizeof record, record_place((size_t)offset)) != sizeof record) return false;
    if (memcmp(record.magic, "weirpage", sizeof record.magic) != 0 || record.offset != (uint64_t)offset) return false;
    *out = (struct emu_import){.descriptor = -1,
                               .own_device = device_of_file(descriptor),
                               .device = record.device,
                               .offset = record.offset,
                               .bytes = record.bytes,
                               .rdma_capable = record.capable != 0};
    if (out->own_device >= 0) return true;
    out->descriptor = open_again(descriptor);
    if (out->descriptor < 0 || !lock_bytes(out->descriptor, F_RDLCK, record.offset, record.bytes)) {
        if (out->descriptor >= 0) close(out->descriptor);
        return false;
    }
    return true;
}

void emu_backing_close(int descriptor) { close(descriptor); }

/* ---- mappings --------------------------------------------------------------------------------------------------- */

bool emu_backing_map(uintptr_t start, size_t bytes, CUdevice device, int descriptor, size_t offset, unsigned splits) {
    if (!emu_settings()->backed) return true;
    if (!room_for_mappings(splits)) return false;
    if (descriptor < 0) descriptor = files[device].descriptor;
    void *at = mmap((void *)start, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, descriptor, (off_t)offset);
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
