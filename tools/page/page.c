/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/page/page.h"

#include <stddef.h>

/* Made from page.css when the program is built. */
extern const char page_css[];

void page_head(const char *title, const char *css, FILE *out) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta "
          "charset=\"utf-8\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
          "<meta name=\"color-scheme\" content=\"light dark\"/>\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
          "script-src 'unsafe-inline'\"/>\n<title>",
          out);
    page_text(title, out);
    fprintf(out, "</title>\n<style>\n%s%s</style>\n</head>\n", page_css, css);
}

void page_text(const char *text, FILE *out) {
    for (; *text; text++) {
        switch (*text) {
        case '<':
            fputs("&#60;", out);
            break;
        case '>':
            fputs("&#62;", out);
            break;
        case '&':
            fputs("&#38;", out);
            break;
        case '"':
            fputs("&#34;", out);
            break;
        default:
            /* other control characters are none of XML's */
            if ((unsigned char)*text >= 0x20 || *text == '\n' || *text == '\t') fputc(*text, out);
        }
    }
}

/* Bytes of the UTF-8 character that begins there; 0: none does. Overlong forms and surrogates are left to the
 * reader. */
static size_t character(const char *text) {
    const unsigned char lead = (unsigned char)*text;
    const size_t bytes = lead < 0x80                   ? 1
                         : lead >= 0xc2 && lead < 0xe0 ? 2
                         : (lead & 0xf0) == 0xe0       ? 3
                         : lead >= 0xf0 && lead < 0xf5 ? 4
                                                       : 0;
    for (size_t i = 1; i < bytes; i++)
        if (((unsigned char)text[i] & 0xc0) != 0x80) return 0;
    return bytes;
}

void page_json(const char *text, FILE *out) {
    fputc('"', out);
    while (*text) {
        const size_t bytes = character(text);
        if (bytes == 0)
            fputs("\\ufffd", out);
        else if (bytes == 1 &&
                 ((unsigned char)*text < 0x20 || *text == '"' || *text == '\\' || *text == '<' || *text == '&'))
            fprintf(out, "\\u%04x", (unsigned)(unsigned char)*text);
        else
            fwrite(text, 1, bytes, out);
        text += bytes == 0 ? 1 : bytes;
    }
    fputc('"', out);
}
