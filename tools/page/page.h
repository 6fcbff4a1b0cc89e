/* SPDX-License-Identifier: Apache-2.0 */
/* What programs share that write a page for people: one file that needs nothing from elsewhere, light and dark, and is
 * well-formed XML. */
#ifndef WEIR_PAGE_PAGE_H
#define WEIR_PAGE_PAGE_H

#include <stdio.h>

/* From the first line to the end of <head>: the shared style sheet, then the page's own. */
void page_head(const char *title, const char *css, FILE *out);
/* Text with the characters that HTML and XML keep for themselves replaced, and without control characters. */
void page_text(const char *text, FILE *out);
/* Text as a JSON string, in its quotes, that is safe within a <script>; what is no UTF-8 becomes U+FFFD. */
void page_json(const char *text, FILE *out);

#endif
