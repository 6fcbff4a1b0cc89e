/* SPDX-License-Identifier: Apache-2.0 */
/* The suite's own declarations have the Toolkit's values and layouts. */
#include <stdio.h>

#include "api_rows.h"

int main(void) {
    size_t own_count, toolkit_count;
    const struct api_row *own = api_own_rows(&own_count), *toolkit = api_toolkit_rows(&toolkit_count);
    int wrong = own_count != toolkit_count || own_count == 0;
    for (size_t i = 0; i < own_count && !wrong; i++) {
        if (own[i].value == toolkit[i].value) continue;
        wrong = 1;
        printf("%s is %lld, in the Toolkit's header %lld\n", own[i].name, own[i].value, toolkit[i].value);
    }
    printf("%zu values and layouts compared\n", own_count);
    return wrong;
}
