/* SPDX-License-Identifier: Apache-2.0 */
/* Starting the ranks of a run, and ending all of them.
 *
 * Started by hand, weir-train is the launcher: it starts `mpirun` on itself, passes the ranks' output on, keeps mpirun's
 * own talk out, and says in one sentence which rank died and why. The launcher adopts orphans (a child subreaper), so
 * that nothing outlives it. Started by mpirun, weir-train is a rank. One rank needs no mpirun. */
#ifndef WEIR_TRAINER_LAUNCH_H
#define WEIR_TRAINER_LAUNCH_H

#include <stdbool.h>

#include "trainer/config.h"

/* Whether an mpirun has started this process; the number of ranks is then its to say. */
bool launch_joined(void);
int launch_world(void);      /* 1 when not joined */
int launch_local_rank(void); /* 0 when not joined */

/* Sets what one process needs of MPI when it is not joined; before MPI is initialised. */
void launch_alone(void);

/* Runs `argv` on `ranks` ranks and waits for them. Gives the exit status of the run: the ranks' own, 1 when one was
 * killed, 128 + signal when a signal ended the launcher. Needs: no other thread. */
int launch_run(int64_t ranks, bool progress, char **argv);

/* Says why the input is refused, once, and gives 2. Every rank of a joined run calls it. */
int launch_refuse(const char *sentence);

#endif
