/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's own pools, as far as graphs need them. What a stream that captures asks for while a pool is open comes from a
 * sub-pool for graphs.
 *
 * open       between begin and end: its filter tells whose requests are its own
 * capturing  streams have been named to weir_pool_capture_begin for it; ends with the capture, which may be after `open`
 * left       released as often as begun; its memory goes when its last block is freed and no stream is captured */
#ifndef WEIR_ALLOC_FACES_TORCH_POOL_H
#define WEIR_ALLOC_FACES_TORCH_POOL_H

#include "weir/faces.h"

extern unsigned weir__torch_pools_open; /* atomic: how many are open or capturing; */
extern unsigned weir__torch_pools_left; /* and how many are left with blocks */

/* A request on a stream is about to be made: if the stream captures, for an open pool, the pool's graph serves it. */
void weir__torch_pools_join(struct weir_pool *pool, int device, weir_stream stream);
/* A block has been freed: pools that were left with it go. */
void weir__torch_pools_sweep(void);
/* The device's pool is about to end: the graphs' memory goes before it. What PyTorch has begun stays begun, without memory. */
void weir__torch_pools_forget(int device);

#endif
