/* SPDX-License-Identifier: Apache-2.0 */
/* What a bench finds beside itself: the programs that it calls, and the emulated driver and runtime for them. */
#ifndef WEIR_BENCH_BESIDE_H
#define WEIR_BENCH_BESIDE_H

#include <limits.h>
#include <stdbool.h>

/* The path of a file from the folder of this program. False: it can't be told, or is too long. */
bool beside_path(const char *name, char path[PATH_MAX]);
/* In the environment: the emulated driver and runtime come before any other ones, and neither they nor PyTorch warn. */
void beside_put_emulator_first(void);

#endif
