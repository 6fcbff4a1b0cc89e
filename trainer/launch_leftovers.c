/* SPDX-License-Identifier: Apache-2.0 */
/* Open MPI 4 keeps a session in TMPDIR/ompi.HOST.UID/pid.PID; the first number in its contact.txt is mpirun's own job, the
 * ranks' is the next, and their shared memory bears it: /dev/shm/vader_segment.HOST.UID.JOB.RANK. */
#include "trainer/launch_leftovers.h"

#include <ftw.h>
#include <glob.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { OPEN_FOLDERS = 8 };

static int remove_one(const char *path, const struct stat *file, int kind, struct FTW *place) {
    (void)file, (void)kind, (void)place;
    remove(path);
    return 0;
}

static void remove_matching(const char *pattern) {
    glob_t found;
    if (glob(pattern, GLOB_NOSORT, NULL, &found)) return;
    for (size_t i = 0; i < found.gl_pathc; i++) nftw(found.gl_pathv[i], remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
    globfree(&found);
}

static void remove_segments(const char *session) {
    char path[4200], pattern[128];
    uint32_t job;
    snprintf(path, sizeof path, "%s/contact.txt", session);
    FILE *contact = fopen(path, "re");
    if (!contact) return;
    if (fscanf(contact, "%" SCNu32 ".", &job) == 1) {
        snprintf(pattern, sizeof pattern, "/dev/shm/vader_segment.*.%u.%" PRIx32 ".*", (unsigned)geteuid(), job + 1);
        remove_matching(pattern);
    }
    fclose(contact);
}

void launch_remove_leftovers(pid_t mpirun) {
    char pattern[4096];
    const char *folder = getenv("TMPDIR");
    glob_t sessions;
    snprintf(pattern, sizeof pattern, "%s/ompi.*.%u/pid.%d", folder && *folder ? folder : "/tmp", (unsigned)geteuid(),
             (int)mpirun);
    if (glob(pattern, GLOB_NOSORT, NULL, &sessions)) return;
    for (size_t i = 0; i < sessions.gl_pathc; i++) {
        remove_segments(sessions.gl_pathv[i]);
        remove_matching(sessions.gl_pathv[i]);
    }
    globfree(&sessions);
}
