/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_DEVICE_JSON_H
#define WEIR_DEVICE_JSON_H

#include <stddef.h>
#include <stdio.h>

/* Bytes of the character of UTF-8 that begins there; 0: none does. */
size_t weir__utf8_length(const char *text);
/* Writes a JSON string in its quotes. File names and the like may be any bytes: what is no UTF-8 becomes U+FFFD. */
void weir__put_json(const char *text, FILE *out);

#endif
