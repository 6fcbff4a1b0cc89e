/* SPDX-License-Identifier: Apache-2.0 */
/* A library that ends the process must not make that look like an answer. */
#ifndef WEIR_STRESS_ENDING_H
#define WEIR_STRESS_ENDING_H

/* From here on whatever ends the process says that there is no answer: exit, quick_exit and _exit, with status 1, and what a
 * crash raises, which ends it as it would have. Not what a system call or SIGKILL ends. `threads`: that may end it. */
void ending_guard(unsigned threads);
void ending_allow(void);
/* Ends the process without what anybody has left to be done at its end. */
_Noreturn void ending_now(int status);

#endif
