/* SPDX-License-Identifier: Apache-2.0 */
/* A plug-in that comes to the driver by itself. */
#include "driver.h"

__attribute__((visibility("default"))) void plugin(void);

void plugin(void) {
    find_all(13000, 0);
    use_device(0);
    three_blocks("plug-in");
}
