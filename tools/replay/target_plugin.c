/* SPDX-License-Identifier: Apache-2.0 */
/* A library with the ABI of PyTorch's pluggable allocators as a target: void *ALLOC(ssize_t bytes, int device,
 * cudaStream_t), void FREE(void *, ssize_t bytes, int device, cudaStream_t), and perhaps void USE(void *,
 * cudaStream_t).
 *
 * FREE gets the stream of the allocation, as from PyTorch. Uses on other streams are told by USE where there is one.
 * Without it the replay makes the allocation's stream wait for them before FREE, as a program must; that costs its
 * host what it costs, and is counted apart from what the library does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "device/emulated.h"
#include "target.h"
#include "tools/plugin/places.h"
#include "tools/plugin/plugin.h"

/* A stream other than the allocation's that uses a block; a list a block, by number from 1. */
struct use {
    uint32_t stream, next;
};

struct plugin {
    struct plugin_calls calls;
    uint32_t *home;        /* by block: the stream of its allocation, */
    uint32_t *first_use;   /* and the uses that the replay must wait for; 0: none */
    bool *noted;           /* by stream: of the block that is being freed; else all false */
    struct places *places; /* of the live blocks */
    struct use *uses;
    uint32_t use_count, use_room, spare_use; /* spare: a list too */
    weir_event event;
    uint64_t memory_calls, order_calls, wait_calls; /* made by the library */
    uint64_t unsupported_before;                    /* calls that the emulated driver does not have, before its time */
    uint64_t uses_not_told;
    char refusal[400]; /* what it could not give, for people */
};

static struct plugin *plugin_of(struct run *run) { return run->target; }

/* ---- what the library does -------------------------------------------------------------------------------------- */

static struct weir_emu_counts counts_now(struct run *run) {
    struct weir_emu_counts counts;
    if (weir__device_counts(run->device, &counts) != WEIR_OK) counts = (struct weir_emu_counts){0};
    return counts;
}

static void add_calls(struct run *run, const struct weir_emu_counts *before) {
    struct plugin *plugin = plugin_of(run);
    const struct weir_emu_counts after = counts_now(run);
    plugin->memory_calls += after.memory_calls - before->memory_calls;
    plugin->order_calls += after.order_calls - before->order_calls;
    plugin->wait_calls += after.wait_calls - before->wait_calls;
}

static void tell_use(struct run *run, void *block, weir_stream stream) {
    const struct weir_emu_counts before = counts_now(run);
    plugin_of(run)->calls.use(block, stream);
    add_calls(run, &before);
}

/* ---- open and close --------------------------------------------------------------------------------------------- */

static bool make_tables(struct run *run, char *why, size_t room) {
    struct plugin *plugin = plugin_of(run);
    const size_t blocks = run->trace->block_count + (size_t)1;
    plugin->home = calloc(blocks, sizeof *plugin->home);
    plugin->first_use = calloc(blocks, sizeof *plugin->first_use);
    plugin->noted = calloc(run->trace->stream_count + (size_t)1, sizeof *plugin->noted);
    plugin->places = places_open(blocks);
    if (plugin->home != NULL && plugin->first_use != NULL && plugin->noted != NULL && plugin->places != NULL)
        return true;
    snprintf(why, room, "no host memory for the tables of %zu blocks", blocks - 1);
    return false;
}

static bool make_event(struct run *run, char *why, size_t room) {
    const CUresult code = run->device->driver->event_create(&plugin_of(run)->event, CU_EVENT_DISABLE_TIMING);
    if (code == CUDA_SUCCESS) return true;
    snprintf(why, room, "no event could be made to wait for uses: the driver's code is %d", (int)code);
    return false;
}

static void plugin_close(struct run *run) {
    struct plugin *plugin = plugin_of(run);
    if (plugin == NULL) return;
    if (plugin->event != NULL) run->device->driver->event_destroy(plugin->event);
    free(plugin->home);
    free(plugin->first_use);
    free(plugin->uses);
    free(plugin->noted);
    places_close(plugin->places);
    free(plugin);
    run->target = NULL; /* the library stays: what it does when it is unloaded is not part of the run */
}

static bool plugin_open(struct run *run, char *why, size_t room) {
    run->target = calloc(1, sizeof(struct plugin));
    if (run->target == NULL) {
        snprintf(why, room, "no host memory");
        return false;
    }
    const struct weir_emu_counts before = counts_now(run);
    plugin_of(run)->unsupported_before = before.unsupported_calls;
    const struct setup *setup = run->setup;
    const bool opened = make_tables(run, why, room) && make_event(run, why, room) &&
                        plugin_load(run->device->driver, setup->library, setup->alloc_symbol, setup->free_symbol,
                                    setup->use_symbol, &plugin_of(run)->calls, why, room);
    if (opened)
        add_calls(run, &before);
    else
        plugin_close(run);
    return opened;
}

/* ---- allocation ------------------------------------------------------------------------------------------------- */

static enum weir_status refuse(struct run *run, const struct op *op) {
    struct plugin *plugin = plugin_of(run);
    const struct weir_emu_counts counts = counts_now(run);
    plugin_clear_errors(&plugin->calls);
    if (plugin->memory_calls == 0 && counts.unsupported_calls > plugin->unsupported_before)
        return weir__fail(WEIR_NOT_SUPPORTED, 0, NULL,
                          "%.100s gave no memory and never came to the driver's: it asked for what the emulated driver "
                          "does not have, as NVIDIA's own runtime does; build it with -cudart shared, so that the "
                          "emulated one takes its place",
                          run->setup->library);
    snprintf(
        plugin->refusal, sizeof plugin->refusal,
        "%.100s gave no memory for %llu bytes on stream %llu; it holds %.1f MiB of the device's %.1f MiB, of which "
        "%.1f MiB are live\n",
        run->setup->library, (unsigned long long)op->bytes, (unsigned long long)run->trace->stream_ids[op->stream],
        (double)counts.held_bytes / 0x1p20, (double)run->device->capacity_bytes / 0x1p20,
        (double)run->live_bytes / 0x1p20);
    return WEIR_OUT_OF_MEMORY;
}

static bool is_device_memory(struct run *run, const struct place *place) {
    run_charging(run, false);
    const bool is = plugin_is_device_memory(&plugin_of(run)->calls, run->device->ordinal, place->address, place->bytes);
    run_charging(run, true);
    return is;
}

/* The run has one device: what is device memory is that device's. */
static enum weir_status check_place(struct run *run, const struct place *place) {
    if (!is_device_memory(run, place))
        return weir__fail(WEIR_INVALID, 0, NULL,
                          "%.100s answered %llu bytes with the address 0x%llx; from there on that many bytes are not "
                          "memory of the device",
                          run->setup->library, (unsigned long long)place->bytes, (unsigned long long)place->address);
    const struct place *other = places_overlap(plugin_of(run)->places, place);
    if (other == NULL) return WEIR_OK;
    return weir__fail(WEIR_INVALID, 0, NULL,
                      "%.100s answered %llu bytes with the address 0x%llx, where the block of line %u is live (%llu "
                      "bytes at 0x%llx)",
                      run->setup->library, (unsigned long long)place->bytes, (unsigned long long)place->address,
                      other->line, (unsigned long long)other->bytes, (unsigned long long)other->address);
}

static enum weir_status plugin_alloc(struct run *run, const struct op *op, weir_stream stream) {
    struct plugin *plugin = plugin_of(run);
    run->blocks[op->block] = NULL;
    if (op->bytes == 0) return WEIR_OK; /* no allocator of PyTorch's sees those */
    const struct weir_emu_counts before = counts_now(run);
    void *block = plugin->calls.alloc((ssize_t)op->bytes, 0, stream);
    add_calls(run, &before);
    if (block == NULL) return refuse(run, op);
    const struct place place = {.address = (uintptr_t)block, .bytes = op->bytes, .line = op->line};
    const enum weir_status status = check_place(run, &place);
    if (status != WEIR_OK) return status;
    places_put(plugin->places, op->block, &place);
    run->blocks[op->block] = block;
    plugin->home[op->block] = op->stream;
    return WEIR_OK;
}

/* ---- uses ------------------------------------------------------------------------------------------------------- */

static uint32_t new_use(struct plugin *plugin) {
    if (plugin->spare_use != 0) {
        const uint32_t index = plugin->spare_use;
        plugin->spare_use = plugin->uses[index].next;
        return index;
    }
    if (plugin->use_count + 1 >= plugin->use_room) {
        const uint32_t room = plugin->use_room == 0 ? 64 : 2 * plugin->use_room;
        struct use *grown = room > plugin->use_room ? realloc(plugin->uses, room * sizeof *grown) : NULL;
        if (grown == NULL) return 0;
        plugin->uses = grown;
        plugin->use_room = room;
    }
    return ++plugin->use_count;
}

static enum weir_status note_first(struct run *run, uint32_t block, uint32_t stream) {
    struct plugin *plugin = plugin_of(run);
    const uint32_t made = new_use(plugin);
    if (made == 0) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, "realloc", "no host memory to note a use");
    plugin->uses[made] = (struct use){stream, plugin->first_use[block]};
    plugin->first_use[block] = made;
    return WEIR_OK;
}

static enum weir_status note(struct run *run, uint32_t block, uint32_t stream) {
    const struct plugin *plugin = plugin_of(run);
    if (stream == plugin->home[block]) return WEIR_OK;
    for (uint32_t i = plugin->first_use[block]; i != 0; i = plugin->uses[i].next)
        if (plugin->uses[i].stream == stream) return WEIR_OK;
    return note_first(run, block, stream);
}

static void mark_noted(struct plugin *plugin, uint32_t block, bool noted) {
    for (uint32_t i = plugin->first_use[block]; i != 0; i = plugin->uses[i].next)
        plugin->noted[plugin->uses[i].stream] = noted;
}

/* A use that comes to be known: told, or kept until the block is freed. */
static enum weir_status add_use(struct run *run, const struct op *op, uint32_t stream) {
    if (plugin_of(run)->calls.use == NULL) return note(run, op->block, stream);
    tell_use(run, run->blocks[op->block], run->streams[stream]);
    return WEIR_OK;
}

static enum weir_status plugin_use(struct run *run, const struct op *op, weir_stream stream) {
    (void)stream;
    return run->blocks[op->block] != NULL ? add_use(run, op, op->stream) : WEIR_OK;
}

static enum weir_status check(CUresult code, const char *call) {
    if (code == CUDA_SUCCESS) return WEIR_OK;
    return weir__fail(WEIR_DRIVER, (int)code, call, "%s failed with %d, before the plug-in's free", call, (int)code);
}

/* Later work of `home` waits for what `stream` holds now. Of a stream that is gone nothing can be recorded: the host
 * waits for it. */
static enum weir_status wait_for(struct run *run, uint32_t home, uint32_t stream) {
    struct plugin *plugin = plugin_of(run);
    const struct weir__driver *driver = run->device->driver;
    plugin->uses_not_told++;
    if (!run->stream_open[home] || !run->stream_open[stream])
        return check(driver->context_synchronize(), "cuCtxSynchronize");
    const enum weir_status status = check(driver->event_record(plugin->event, run->streams[stream]), "cuEventRecord");
    if (status != WEIR_OK) return status;
    return check(driver->stream_wait(run->streams[home], plugin->event, 0), "cuStreamWaitEvent");
}

static enum weir_status wait_for_uses(struct run *run, uint32_t block) {
    struct plugin *plugin = plugin_of(run);
    enum weir_status status = WEIR_OK;
    for (uint32_t i = plugin->first_use[block]; i != 0 && status == WEIR_OK; i = plugin->uses[i].next)
        status = wait_for(run, plugin->home[block], plugin->uses[i].stream);
    while (plugin->first_use[block] != 0) {
        struct use *use = &plugin->uses[plugin->first_use[block]];
        const uint32_t next = use->next;
        use->next = plugin->spare_use;
        plugin->spare_use = plugin->first_use[block];
        plugin->first_use[block] = next;
    }
    return status;
}

/* ---- frees ------------------------------------------------------------------------------------------------------ */

static enum weir_status give_back(struct run *run, const struct op *op) {
    struct plugin *plugin = plugin_of(run);
    const uint32_t home = plugin->home[op->block];
    const enum weir_status status = wait_for_uses(run, op->block);
    if (status != WEIR_OK) return status;
    const weir_stream stream = run->stream_open[home] ? run->streams[home] : NULL;
    places_take(plugin->places, op->block);
    const struct weir_emu_counts before = counts_now(run);
    plugin->calls.free(run->blocks[op->block], (ssize_t)op->bytes, 0, stream);
    add_calls(run, &before);
    return WEIR_OK;
}

static enum weir_status plugin_free(struct run *run, const struct op *op, weir_stream stream) {
    (void)stream;
    if (run->blocks[op->block] == NULL) return WEIR_OK;
    enum weir_status status = WEIR_OK;
    if (op->stream != plugin_of(run)->home[op->block]) status = add_use(run, op, op->stream);
    return status == WEIR_OK ? give_back(run, op) : status;
}

/* A look at the list for each stream would take the streams' number squared. */
static enum weir_status use_on_all(struct run *run, const struct op *op) {
    struct plugin *plugin = plugin_of(run);
    enum weir_status status = WEIR_OK;
    mark_noted(plugin, op->block, true);
    for (uint32_t i = 0; i < run->trace->stream_count && status == WEIR_OK; i++) {
        if (!run->stream_open[i] || i == plugin->home[op->block] || plugin->noted[i]) continue;
        if (plugin->calls.use != NULL)
            tell_use(run, run->blocks[op->block], run->streams[i]);
        else
            status = note_first(run, op->block, i);
    }
    mark_noted(plugin, op->block, false);
    return status;
}

static enum weir_status plugin_free_any(struct run *run, const struct op *op, weir_stream stream) {
    (void)stream;
    if (run->blocks[op->block] == NULL) return WEIR_OK;
    const enum weir_status status = use_on_all(run, op);
    return status == WEIR_OK ? give_back(run, op) : status;
}

static enum weir_status plugin_free_after(struct run *run, const struct op *op, weir_stream stream, weir_event event) {
    (void)stream;
    if (run->blocks[op->block] == NULL) return WEIR_OK;
    const uint32_t home = plugin_of(run)->home[op->block];
    enum weir_status status = WEIR_OK;
    if (event != NULL)
        status = run->stream_open[home]
                     ? check(run->device->driver->stream_wait(run->streams[home], event, 0), "cuStreamWaitEvent")
                     : check(run->device->driver->event_synchronize(event), "cuEventSynchronize");
    return status == WEIR_OK ? give_back(run, op) : status;
}

/* ---- figures ---------------------------------------------------------------------------------------------------- */

static void plugin_figures(struct run *run, struct outcome *so_far) {
    const struct plugin *plugin = plugin_of(run);
    so_far->peak_held_bytes = counts_now(run).peak_held_bytes;
    so_far->memory_calls = plugin->memory_calls;
    so_far->order_calls = plugin->order_calls;
    so_far->host_waits = plugin->wait_calls;
    so_far->uses_not_told = plugin->uses_not_told;
    if (plugin->refusal[0] != '\0') snprintf(so_far->report, sizeof so_far->report, "%s", plugin->refusal);
}

const struct target target_plugin = {
    .name = "plug-in",
    .open = plugin_open,
    .close = plugin_close,
    .alloc = plugin_alloc,
    .free = plugin_free,
    .free_any = plugin_free_any,
    .free_after = plugin_free_after,
    .use = plugin_use,
    .figures = plugin_figures,
};
