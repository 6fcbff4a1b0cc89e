/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 a byte at a time, so that a text may be of any length. All zero: between two characters, where alone a text may end. */
#ifndef WEIR_TOOLS_UTF8_H
#define WEIR_TOOLS_UTF8_H

#include <stdbool.h>
#include <stdint.h>

struct utf8 {
    uint8_t left;        /* bytes of the character that are to come */
    uint8_t least, most; /* bounds of the next of them */
};

/* False: no character goes on or begins so. `surrogates`: halves of pairs are taken, as Python's pickles have them. */
static inline bool utf8_take(struct utf8 *utf8, uint8_t byte, bool surrogates) {
    if (utf8->left > 0) {
        if (byte < utf8->least || byte > utf8->most) return false;
        *utf8 = (struct utf8){(uint8_t)(utf8->left - 1), 0x80, 0xbf};
        return true;
    }
    if (byte < 0x80) return true;
    if (byte < 0xc2 || byte > 0xf4) return false;
    utf8->left = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    utf8->least = byte == 0xe0 ? 0xa0 : byte == 0xf0 ? 0x90 : 0x80;
    utf8->most = byte == 0xed && !surrogates ? 0x9f : byte == 0xf4 ? 0x8f : 0xbf;
    return true;
}

#endif
