/* SPDX-License-Identifier: Apache-2.0 */
/* What the emulated machine of a profile is. */
#ifndef WEIR_REPLAY_MACHINE_H
#define WEIR_REPLAY_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

struct machine {
    size_t page_bytes;
    size_t memory_bytes; /* all that the profile's machine has */
    char name[64];       /* the device's */
};

/* Opens the machine in a process of its own, since the settings of an opened one stand for good, and a run opens
 * another.
 * Gives: false with a sentence; *bad_input when the profile is at fault. */
bool machine_look(const char *profile, struct machine *machine, bool *bad_input, char *why, size_t room);

#endif
