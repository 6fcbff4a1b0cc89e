/* SPDX-License-Identifier: Apache-2.0 */
/* Standard streams that are closed. A program may be started without descriptor 0, 1 or 2; whatever is opened then takes that
 * number, and what is printed later, by whoever prints, lands in it. */
#ifndef WEIR_DEVICE_STANDARD_H
#define WEIR_DEVICE_STANDARD_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* For a library, which has no say about its process: what was opened to be written, by a number that nobody prints to.
 * Takes `descriptor`; a negative one is given back. Gives: -1 and errno where there is no other number. */
static inline int weir__above_standard(int descriptor) {
    if (descriptor < 0 || descriptor > STDERR_FILENO) return descriptor;
    const int above = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), code = errno;
    close(descriptor);
    errno = code;
    return above;
}

/* For a program, as main's first call: takes the numbers that are closed, with what can neither be read nor written, nor opened
 * to be written as /dev/stdout. So printing fails as it did; and what the program starts finds them closed, too. */
static inline void weir__take_closed_standard(void) {
    int taken;
    do taken = open("/", O_PATH | O_CLOEXEC);
    while (taken >= 0 && taken <= STDERR_FILENO);
    if (taken >= 0) close(taken);
}

/* For a program, as main's last call. Gives: the status to end with; what could not be written was not said. */
static inline int weir__end_standard(const char *program, int status) {
    errno = 0; /* it stays so where an earlier write failed, and there is nothing left to write */
    if ((fflush(stdout) == 0 && !ferror(stdout)) || status != EXIT_SUCCESS) return status;
    fprintf(stderr, "%s: standard output can't be written%s%s\n", program, errno != 0 ? ": " : "",
            errno != 0 ? strerror(errno) : "");
    return EXIT_FAILURE;
}

#endif
