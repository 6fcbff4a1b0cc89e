/* SPDX-License-Identifier: Apache-2.0 */
#include "weir/weir.h"

#define TEXT(x)          #x
#define VERSION(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)
_Static_assert(sizeof WEIR_VERSION_STRING == sizeof VERSION(WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR, WEIR_VERSION_PATCH),
               "the version's text and numbers agree");

const char *weir_version(void) { return WEIR_VERSION_STRING; }
