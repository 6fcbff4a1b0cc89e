/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/options/plain.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "tools/options/utf8.h"

/* Bytes of the character that begins there; 0: none does. */
static size_t length_of(const char *text) {
    struct utf8 utf8 = {0};
    size_t length = 0;
    do {
        if (!utf8_take(&utf8, (unsigned char)text[length++], false)) return 0;
    } while (utf8.left > 0);
    return length;
}

char *plain(char *text) {
    for (char *at = text; *at != '\0';) {
        const unsigned char byte = (unsigned char)*at;
        const size_t length = length_of(at), bytes = length == 0 ? 1 : length;
        const bool control = byte < ' ' || byte == 0x7f || (byte == 0xc2 && (unsigned char)at[1] < 0xa0);
        if (control || length == 0) memset(at, '?', bytes);
        at += bytes;
    }
    return text;
}
