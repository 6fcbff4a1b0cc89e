/* SPDX-License-Identifier: Apache-2.0 */
/* What the emulated machine is: settings of the caller, then of WEIR_EMU, over a profile. */
#ifndef WEIR_EMU_SETTINGS_H
#define WEIR_EMU_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

/* A machine profile: a file of `key = value unit # comment` lines. */
struct emu_profile {
    char name[32];
    char device_name[64];
    char note[160];
    size_t capacity_bytes;
    size_t granularity_bytes;
};

struct emu_settings {
    struct emu_profile profile;
    size_t capacity_bytes; /* of each device */
    size_t granularity_bytes;
    int devices;
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

/* Settles the settings from `given` ("key:value,key:value"), then WEIR_EMU. Once they are in use, later calls change
 * nothing. */
bool emu_settings_settle(const char *given, struct emu_complaint complaint);
/* cuInit: from now on the settings stand. False when they can't be settled. */
bool emu_settings_use(struct emu_complaint complaint);
/* Needs: in use. */
const struct emu_settings *emu_settings(void);

#endif
