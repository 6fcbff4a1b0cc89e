/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of anybody's within JSON; libc only, so that programs can share it with the library. */
#include "device/json.h"

#include <stdint.h>

size_t weir__utf8_length(const char *text) {
    static const struct {
        unsigned char lead, mask, length;
        uint32_t least;
    } kinds[] = {{0x00, 0x80, 1, 0}, {0xC0, 0xE0, 2, 0x80}, {0xE0, 0xF0, 3, 0x800}, {0xF0, 0xF8, 4, 0x10000}};
    const unsigned char *at = (const unsigned char *)text;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if ((at[0] & kinds[i].mask) != kinds[i].lead) continue;
        uint32_t code = at[0] & (unsigned char)~kinds[i].mask;
        for (size_t k = 1; k < kinds[i].length; k++) {
            if ((at[k] & 0xC0) != 0x80) return 0;
            code = code << 6 | (at[k] & 0x3Fu);
        }
        const int surrogate = code >= 0xD800 && code < 0xE000;
        return code < kinds[i].least || code > 0x10FFFF || surrogate ? 0 : kinds[i].length;
    }
    return 0;
}

void weir__put_json(const char *text, FILE *out) {
    fputc('"', out);
    while (*text != 0) {
        const size_t length = weir__utf8_length(text);
        const unsigned char byte = (unsigned char)*text;
        if (length == 0)
            fputs("\\ufffd", out);
        else if (byte < ' ' || byte == '"' || byte == '\\' || byte == 0x7f)
            fprintf(out, "\\u%04x", (unsigned)byte);
        else
            fwrite(text, 1, length, out);
        text += length == 0 ? 1 : length;
    }
    fputc('"', out);
}
