/* SPDX-License-Identifier: Apache-2.0 */
/* What the faces share: the pool of a device, how a refusal and a stranger's address are told, what callers got wrong.
 *
 * stranger   an address that is no live block of any pool of a face: foreign, freed already, or inside a block */
#ifndef WEIR_ALLOC_FACES_FACE_H
#define WEIR_ALLOC_FACES_FACE_H

#include "alloc/faces/process.h"

/* `call`: the function of the face, for the log. */

/* Gives: the pool of a device; NULL, logged, when it can't be made. */
struct weir_pool *weir__face_pool(const char *call, int ordinal);
/* The pool among those made that has a live block there; else the first one made, which will say what it is not; NULL without any. */
struct weir_pool *weir__face_pool_of(const void *block);
/* Logs a status that is none of success. Gives: whether it is. */
bool weir__face_ok(const char *call, enum weir_status status);
/* The same for a call that named a block. */
bool weir__face_block_ok(const char *call, enum weir_status status);
/* Takes a block back; `bytes` is what the caller says that it asked for. pool == NULL: a stranger's. */
void weir__face_free(const char *call, struct weir_pool *pool, void *block, size_t bytes, weir_stream stream);
/* The device of the thread's context; 0 without one. */
int weir__face_current_device(void);

#endif
