/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_EMU_RUNTIME_REFUSED_H
#define WEIR_EMU_RUNTIME_REFUSED_H

#include "device/emu/runtime/cudart_abi.h"

/* What an entry that is there by name only answers: cudaErrorNotSupported, as the thread's last error too. */
cudaError_t rt_refuse(const char *name);

#endif
