/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/submit.h"

#include "device/emu/capture.h"
#include "device/emu/clock.h"
#include "device/emu/cost.h"
#include "device/emu/event.h"
#include "device/emu/memory.h"

/* ---- copies and sets -------------------------------------------------------------------------------------------- */

static bool fits(size_t bytes, size_t rows, size_t pitch) {
    return (rows == 1 || pitch >= bytes) && (pitch == 0 || rows <= SIZE_MAX / pitch);
}

static bool is_device(enum emu_place place) { return place == EMU_PLACE_DEVICE; }

static bool kind_fits(enum emu_copy_kind kind, enum emu_place to, enum emu_place from) {
    if (kind == EMU_COPY_TO_DEVICE) return is_device(to);
    if (kind == EMU_COPY_TO_HOST) return is_device(from);
    return kind == EMU_COPY_ANY || (is_device(to) && is_device(from));
}

/* What push_copy has found out: which sides are memory of the host, and that a pageable source is staged. */
struct sides {
    bool pageable, host, staged;
};

static CUresult push_copy(struct emu_queue *queue, const struct emu_rows *rows, enum emu_copy_kind kind,
                          struct emu_point *point, struct sides *sides) {
    *point = (struct emu_point){0};
    *sides = (struct sides){0};
    if (rows->bytes == 0 || rows->rows == 0) return CUDA_SUCCESS;
    if (rows->to == 0 || rows->from == 0) return CUDA_ERROR_INVALID_VALUE;
    if (!fits(rows->bytes, rows->rows, rows->to_pitch) || !fits(rows->bytes, rows->rows, rows->from_pitch))
        return CUDA_ERROR_INVALID_VALUE;
    const enum emu_place to = emu_memory_place_rows(rows->to, rows->bytes, rows->rows, rows->to_pitch, true);
    const enum emu_place from = emu_memory_place_rows(rows->from, rows->bytes, rows->rows, rows->from_pitch, false);
    if (to == EMU_PLACE_INVALID || from == EMU_PLACE_INVALID || !kind_fits(kind, to, from))
        return CUDA_ERROR_INVALID_VALUE;
    *sides = (struct sides){.pageable = to == EMU_PLACE_PAGEABLE || from == EMU_PLACE_PAGEABLE,
                            .host = !is_device(to) || !is_device(from),
                            .staged = is_device(to) && from == EMU_PLACE_PAGEABLE && queue->capture == NULL};
    struct emu_operation copy = {.kind = EMU_COPY,
                                 .name = "copy",
                                 .described = true,
                                 .copy = {.to = (void *)rows->to,
                                          .from = (const void *)rows->from,
                                          .bytes = rows->bytes,
                                          .rows = rows->rows,
                                          .to_pitch = rows->to_pitch,
                                          .from_pitch = rows->from_pitch,
                                          .to_device = is_device(to),
                                          .from_device = is_device(from),
                                          .staged = sides->staged}};
    const bool peers = is_device(to) && is_device(from) && emu_memory_device(rows->to) != emu_memory_device(rows->from);
    emu_cost_copy(&copy, to, from, peers);
    return emu_queue_push(queue, &copy, point);
}

/* A synchronous call waits for the stream before it stages the source. Here the copy is over too when it returns, but no
 * program may rely on that: the host has seen what comes before the copy. */
static CUresult wait_for_staging(struct emu_queue *queue, struct emu_point point) {
    struct emu_moment before = emu_watch_now(queue);
    before.position = point.position - 1;
    return emu_point_wait(point, before);
}

CUresult emu_submit_copy(struct emu_queue *queue, const struct emu_rows *rows, enum emu_copy_kind kind) {
    struct emu_point point;
    struct sides sides;
    const CUresult code = push_copy(queue, rows, kind, &point, &sides);
    if (code != CUDA_SUCCESS || !sides.pageable || point.position == 0) return code;
    return sides.staged ? emu_clock->wait(point) : emu_point_wait(point, emu_watch_now(queue));
}

CUresult emu_submit_copy_and_wait(struct emu_queue *queue, const struct emu_rows *rows, enum emu_copy_kind kind) {
    struct emu_point point;
    struct sides sides;
    CUresult legal = emu_capture_check_host(queue);
    if (legal == CUDA_SUCCESS) legal = emu_capture_check_unsafe();
    if (legal != CUDA_SUCCESS) return legal;
    const CUresult code = push_copy(queue, rows, kind, &point, &sides);
    if (code != CUDA_SUCCESS || !sides.host || point.position == 0) return code;
    return sides.staged ? wait_for_staging(queue, point) : emu_point_wait(point, emu_watch_now(queue));
}

CUresult emu_submit_set(struct emu_queue *queue, uintptr_t at, uint32_t value, unsigned unit, size_t count, size_t rows,
                        size_t pitch) {
    if (count == 0 || rows == 0) return CUDA_SUCCESS;
    if (count > SIZE_MAX / unit || at % unit != 0 || pitch % unit != 0) return CUDA_ERROR_INVALID_VALUE;
    if (!fits(count * unit, rows, pitch)) return CUDA_ERROR_INVALID_VALUE;
    const enum emu_place place = emu_memory_place_rows(at, count * unit, rows, pitch, true);
    if (place != EMU_PLACE_DEVICE && place != EMU_PLACE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    struct emu_operation set = {
        .kind = EMU_SET, .name = "set", .described = true, .set = {(void *)at, count, rows, pitch, value, unit}};
    emu_cost_set(&set);
    struct emu_point point;
    return emu_queue_push(queue, &set, &point);
}

CUresult emu_submit_time(uintptr_t to, uintptr_t from, size_t bytes, double *ns) {
    struct emu_operation operation = {0};
    *ns = 0;
    if (bytes == 0) return CUDA_SUCCESS;
    const enum emu_place into = emu_memory_place(to, bytes, true);
    const enum emu_place out = from != 0 ? emu_memory_place(from, bytes, false) : EMU_PLACE_DEVICE;
    if (into == EMU_PLACE_INVALID || out == EMU_PLACE_INVALID) return CUDA_ERROR_INVALID_VALUE;
    if (from == 0) {
        operation.set.count = bytes;
        operation.set.unit = 1;
        operation.set.rows = 1;
        emu_cost_set(&operation);
    } else {
        operation.copy.bytes = bytes;
        operation.copy.rows = 1;
        emu_cost_copy(&operation, into, out,
                      is_device(into) && is_device(out) && emu_memory_device(to) != emu_memory_device(from));
    }
    *ns = operation.alone_ns;
    return CUDA_SUCCESS;
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

CUresult emu_submit_wait(struct emu_queue *queue, CUevent event) {
    if (event->captured || queue->capture != NULL) return emu_capture_wait(queue, event);
    struct emu_moment moment =
        emu_watch_copy(event->moment); /* it may be recorded anew while the push waits for room */
    const struct emu_operation wait = {
        .kind = EMU_WAIT, .described = true, .after = {emu_event_point(event)}, .moment = &moment};
    struct emu_point point;
    const CUresult code = emu_queue_push(queue, &wait, &point);
    emu_watch_drop(&moment);
    return code;
}

CUresult emu_submit_record(struct emu_queue *queue, CUevent event) {
    if (queue->capture != NULL) return emu_capture_record(queue, event);
    return emu_event_record(event, queue);
}

/* ---- what the host asks ----------------------------------------------------------------------------------------- */

CUresult emu_stream_wait(struct emu_queue *queue) {
    const CUresult legal = emu_capture_check_host(queue);
    return legal != CUDA_SUCCESS ? legal : emu_queue_wait(queue);
}

CUresult emu_context_wait_asked(CUcontext context) {
    const CUresult legal = emu_capture_check_context(context);
    return legal != CUDA_SUCCESS ? legal : emu_context_wait(context);
}

CUresult emu_stream_query(struct emu_queue *queue) {
    const CUresult legal = emu_capture_check_host(queue);
    if (legal != CUDA_SUCCESS) return legal;
    if (!emu_point_passed(emu_queue_end(queue))) {
        emu_clock->looked();
        return CUDA_ERROR_NOT_READY;
    }
    struct emu_moment moment = emu_watch_now(queue);
    emu_watch_host_saw(moment);
    emu_watch_drop(&moment);
    return CUDA_SUCCESS;
}
