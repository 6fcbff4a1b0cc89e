/* SPDX-License-Identifier: Apache-2.0 */
/* What Open MPI leaves behind when mpirun itself was killed and can't tidy up: its session folder, and the shared memory
 * of its ranks. */
#ifndef WEIR_TRAINER_LAUNCH_LEFTOVERS_H
#define WEIR_TRAINER_LAUNCH_LEFTOVERS_H

#include <sys/types.h>

/* Removes what belonged to the mpirun that had the number `mpirun`; it and its ranks have ended. */
void launch_remove_leftovers(pid_t mpirun);

#endif
