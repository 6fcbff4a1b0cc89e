/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_EMU_ATTRIBUTES_H
#define WEIR_EMU_ATTRIBUTES_H

#include "device/emu/emu.h"

/* The device's attribute, by its number; 0 for what the emulated device does not have. Needs: settings in use. */
int emu_attribute(int name, CUdevice device);

#endif
