/* SPDX-License-Identifier: Apache-2.0 */
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weir/weir.h"

/* What the other process has seen. */
struct seen {
    enum weir_status status;
    struct machine machine;
    char why[400];
};

static struct seen look(const char *profile) {
    char settings[256];
    struct seen seen = {0};
    struct weir_device *device = NULL;
    struct weir_device_info info = {.size = sizeof info};
    struct weir_device_options options = {.size = sizeof options, .machine = "emulated", .emu = settings};
    snprintf(settings, sizeof settings, "profile:%s", profile);
    seen.status = weir_device_open(&options, &device);
    if (seen.status == WEIR_OK) seen.status = weir_device_get_info(device, &info);
    if (seen.status == WEIR_OK) {
        seen.machine.page_bytes = info.granularity_bytes;
        seen.machine.memory_bytes = info.capacity_bytes;
        snprintf(seen.machine.name, sizeof seen.machine.name, "%s", info.name);
    } else {
        snprintf(seen.why, sizeof seen.why, "%s", weir_last_error()->message);
    }
    return seen;
}

static void look_and_tell(const char *profile, int to) {
    unsetenv("WEIR_EMU"); /* the machine is the profile's */
    struct seen seen = look(profile);
    _exit(write(to, &seen, sizeof seen) == (ssize_t)sizeof seen ? 0 : 1);
}

bool machine_look(const char *profile, struct machine *machine, bool *bad_input, char *why, size_t room) {
    int ends[2];
    struct seen seen;
    *bad_input = false;
    pid_t child = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
    if (child < 0) {
        snprintf(why, room, "no process to look at the machine: %s", strerror(errno));
        return false;
    }
    if (child == 0) look_and_tell(profile, ends[1]);
    close(ends[1]);
    ssize_t got;
    do got = read(ends[0], &seen, sizeof seen); /* less than a pipe takes at once */
    while (got < 0 && errno == EINTR);
    close(ends[0]);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    if (got != (ssize_t)sizeof seen) {
        snprintf(why, room, "the emulated machine (profile %.100s) could not be opened: its process ended", profile);
        return false;
    }
    *bad_input = seen.status == WEIR_INVALID;
    *machine = seen.machine;
    if (seen.status != WEIR_OK) snprintf(why, room, "%s", seen.why);
    return seen.status == WEIR_OK && machine->page_bytes > 0;
}
