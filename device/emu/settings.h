/* SPDX-License-Identifier: Apache-2.0 */
/* What the emulated machine is: settings of the caller, then of WEIR_EMU, over a profile. */
#ifndef WEIR_EMU_SETTINGS_H
#define WEIR_EMU_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "device/emu/entries.h"

/* What a call costs the host: a fixed part, a part a handle, a part a byte. */
struct emu_cost {
    double fixed_ns, handle_ns, byte_ns;
};

/* Cost laws of the memory calls: what the profile measured, or one of three to compare under (docs/emulator.md). */
enum emu_law { EMU_LAW_MEASURED, EMU_LAW_PAGE, EMU_LAW_HANDLE, EMU_LAW_RANGE, EMU_LAWS };
extern const char *const emu_law_names[EMU_LAWS];

/* A machine profile: a file of `key = value unit # comment` lines. Rates are a second, times in nanoseconds. */
struct emu_profile {
    char name[32];
    char device_name[64];
    char note[160];
    bool integrated; /* its memory is the host's */
    size_t capacity_bytes;
    size_t granularity_bytes;
    double arithmetic_flops;                     /* FLOP/s that a large kernel reaches */
    double memory_rate;                          /* bytes/s that a kernel or a set moves in device memory */
    double to_device_rate, to_host_rate;         /* bytes/s of a copy alone in its direction */
    double to_device_together, to_host_together; /* while copies run both ways */
    double peer_rate;                            /* bytes/s from device to device of a host */
    double network_rate;                         /* bytes/s out of a device to other hosts */
    double peer_latency_ns, network_latency_ns;
    double copy_ns, kernel_ns, host_function_ns; /* what each takes beside its bytes and flops */
    double launch_ns;                            /* from the call to the start on an idle stream */
    double wake_ns;                              /* from the end of work to the return of the host that waits for it */
    double pool_call_ns;                         /* of a caching allocator's call, beside the driver calls in it */
    double jitter;                               /* relative deviation that a seed brings, e.g. 0.1 */
    struct emu_cost calls[EMU_LAWS][EMU_ENTRIES];
};

enum emu_clock_kind { EMU_CLOCK_REAL, EMU_CLOCK_VIRTUAL };
enum emu_watch_mode { EMU_WATCH_OFF, EMU_WATCH_ON, EMU_WATCH_ABORT };

struct emu_settings {
    struct emu_profile profile;
    size_t capacity_bytes; /* of each device */
    size_t granularity_bytes;
    size_t others_bytes; /* held by other processes from the start, of each device */
    size_t cached_bytes; /* of an integrated device: page cache of the host, which counts as taken and can be had */
    int devices;
    bool backed;        /* false: addresses only */
    bool never_refuses; /* allocations beyond the capacity succeed */
    enum emu_clock_kind clock;
    enum emu_watch_mode watch;
    enum emu_law law;
    uint64_t seed; /* 0: no jitter, ties in order */
    double jitter;
    uint64_t delay_ns;            /* before each operation of each stream */
    char faults[512];             /* as written; emu_faults_add takes it at cuInit */
    const struct emu_cost *calls; /* (EMU_ENTRIES) under the law */
};

/* Where a sentence about what is wrong goes. */
struct emu_complaint {
    char *text;
    size_t room;
};

/* Writes the sentence; gives false, so that a failing line reads `return emu_complain(...)`. */
bool emu_complain(struct emu_complaint complaint, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Reads a profile: by path when `name` has a '/', else from the folder of profiles that belongs to this driver. */
bool emu_profile_read(const char *name, struct emu_profile *profile, struct emu_complaint complaint);
/* Reads a profile from an open file; `path` is for sentences. All but profile->name. */
bool emu_profile_parse(FILE *file, const char *path, struct emu_profile *profile, struct emu_complaint complaint);

/* Settles the settings from `given` ("key:value,key:value"), then WEIR_EMU. Once they are in use, later calls change
 * nothing. */
bool emu_settings_settle(const char *given, struct emu_complaint complaint);
/* cuInit: from now on the settings stand. False when they can't be settled. */
bool emu_settings_use(struct emu_complaint complaint);
/* Needs: in use. */
const struct emu_settings *emu_settings(void);

#endif
