/* SPDX-License-Identifier: Apache-2.0 */
/* The free allocator: no request costs anything or fails. What is left is the time that the trace takes by itself. */
#include "target.h"

static bool open_free(struct run *run, char *why, size_t room) {
    (void)run;
    (void)why;
    (void)room;
    return true;
}

static void close_free(struct run *run) { (void)run; }

/* Nobody looks at the address; it only says that the block is live. */
static enum weir_status alloc_free(struct run *run, const struct op *op, weir_stream stream) {
    (void)stream;
    run->blocks[op->block] = run;
    return WEIR_OK;
}

static enum weir_status do_nothing(struct run *run, const struct op *op, weir_stream stream) {
    (void)run;
    (void)op;
    (void)stream;
    return WEIR_OK;
}

static enum weir_status do_nothing_after(struct run *run, const struct op *op, weir_stream stream, weir_event event) {
    (void)event;
    return do_nothing(run, op, stream);
}

static void figures_free(struct run *run, struct outcome *so_far) {
    (void)run;
    so_far->memory_calls = so_far->order_calls = so_far->page_moves = so_far->moved_bytes = 0;
    so_far->device_waits = so_far->host_waits = so_far->host_wait_ns = so_far->uses_not_told = 0;
}

const struct target target_free = {.name = "free",
                                   .open = open_free,
                                   .close = close_free,
                                   .alloc = alloc_free,
                                   .free = do_nothing,
                                   .free_any = do_nothing,
                                   .free_after = do_nothing_after,
                                   .use = do_nothing,
                                   .figures = figures_free};
