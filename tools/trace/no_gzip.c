/* SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"

const struct codec codec_gzip = {.name = "gzip", .ending = ".gz", .magic = {0x1f, 0x8b}, .magic_bytes = 2};
