/* SPDX-License-Identifier: Apache-2.0 */
/* What entries of several files queue: copies and sets, checked against the books of memory; waits and records, in
 * capture or not; and what the host asks of a stream. All functions need the lock. */
#ifndef WEIR_EMU_SUBMIT_H
#define WEIR_EMU_SUBMIT_H

#include "device/emu/queue.h"

/* `rows` rows of `bytes` bytes. */
struct emu_rows {
    uintptr_t to, from;
    size_t bytes, rows, to_pitch, from_pitch;
};

/* What the call says its addresses are; device memory where it says so, or CUDA_ERROR_INVALID_VALUE. */
enum emu_copy_kind { EMU_COPY_ANY, EMU_COPY_TO_DEVICE, EMU_COPY_TO_HOST, EMU_COPY_WITHIN };

/* A copy that touches pageable memory is over when this returns: a real driver stages it through memory of its own, and
 * programs reuse theirs at once. Nothing is queued for no bytes. */
CUresult emu_submit_copy(struct emu_queue *queue, const struct emu_rows *rows, enum emu_copy_kind kind);
/* As a synchronous copy does: waits when host memory is touched; within device memory it does not. */
CUresult emu_submit_copy_and_wait(struct emu_queue *queue, const struct emu_rows *rows, enum emu_copy_kind kind);
/* Sets `count` units of `unit` bytes in each of `rows` rows `pitch` bytes apart. Device or pinned memory only. */
CUresult emu_submit_set(struct emu_queue *queue, uintptr_t at, uint32_t value, unsigned unit, size_t count, size_t rows,
                        size_t pitch);
/* What a copy would take, alone, or a set (from == 0). Gives: *ns, 0 for no bytes. */
CUresult emu_submit_time(uintptr_t to, uintptr_t from, size_t bytes, double *ns);
CUresult emu_submit_wait(struct emu_queue *queue, CUevent event);
CUresult emu_submit_record(struct emu_queue *queue, CUevent event);

/* In capture all are refused. */
CUresult emu_stream_wait(struct emu_queue *queue);
CUresult emu_context_wait_asked(CUcontext context);
CUresult emu_stream_query(struct emu_queue *queue);

#endif
