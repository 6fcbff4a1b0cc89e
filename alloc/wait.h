/* SPDX-License-Identifier: Apache-2.0 */
/* Every wait of the pool, and every look at whether something has passed, names its site. In builds with assertions
 * WEIR_MUTATE=SITE[,SITE...] skips those of the sites, or makes them see what they hope for, to show that the tests
 * notice. All of them are needed. */
#ifndef WEIR_ALLOC_WAIT_H
#define WEIR_ALLOC_WAIT_H

#include <stdbool.h>

#include "device/device.h"

#define WEIR__SITE_DEVICE_WAIT   "device_wait"   /* a stream waits for another one's idle block */
#define WEIR__SITE_FREE_AFTER    "free_after"    /* the pool's helper stream waits for the program's event */
#define WEIR__SITE_HOST_WAIT     "host_wait"     /* the host waits for marks */
#define WEIR__SITE_PAGE_MOVE     "page_move"     /* pages are unmapped only once the host saw their tags complete */
#define WEIR__SITE_MARK_PASSED   "mark_passed"   /* the host looks whether a mark has passed, */
#define WEIR__SITE_STREAM_PASSED "stream_passed" /* whether a stream is empty, */
#define WEIR__SITE_STREAM_END    "stream_end"    /* and whether it is when it is destroyed: else it gets a last mark */
#define WEIR__SITE_LOST_STREAM   "lost_stream"   /* the host waits for the whole device: that mark could not be made */
#define WEIR__SITE_POOL_DESTROY  "pool_destroy"  /* the host waits for it before all pages are unmapped */

/* Visible: libweir-offload.so and the trainer name their sites in the same way. */
WEIR_API bool weir__mutated(const char *site);

/* All need the device entered. */
CUresult weir__wait_on_stream(struct weir_device *device, const char *site, weir_stream stream, CUevent event);
CUresult weir__wait_event_query(struct weir_device *device, const char *site, CUevent event);
CUresult weir__wait_stream_query(struct weir_device *device, const char *site, weir_stream stream);
CUresult weir__wait_for_device(struct weir_device *device, const char *site);
/* The same where a stream may capture, to which that would do harm: a free of the driver's own waits for all streams, and does
 * none while the thread's capture mode is relaxed. */
CUresult weir__wait_for_device_in_capture(struct weir_device *device, const char *site);

#endif
