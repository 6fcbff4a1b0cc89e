/* SPDX-License-Identifier: Apache-2.0 */
/* Names of files and of streams may be any bytes; a terminal obeys some of them. */
#ifndef WEIR_TOOLS_PLAIN_H
#define WEIR_TOOLS_PLAIN_H

/* In place: each byte of a control character, a line's end too, and each that is no UTF-8 becomes '?'. Gives: `text`. */
char *plain(char *text);

#endif
