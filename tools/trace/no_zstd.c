/* SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"

const struct codec codec_zstd = {.name = "zstd", .ending = ".zst", .magic = {0x28, 0xb5, 0x2f, 0xfd}, .magic_bytes = 4};
