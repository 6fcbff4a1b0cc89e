/* SPDX-License-Identifier: Apache-2.0 */
/* Work in its one form: a kernel launch made at once, or a host function behind a trampoline that owns its argument. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"

WEIR__THREAD_LOCAL bool weir__hosts_here;

/* What a queued host function needs, alive until it has run; a copied argument lies behind it. */
struct call {
    void (*run)(void *argument);
    void *argument;
    max_align_t copy[];
};

static void trampoline(void *argument) {
    struct call *call = argument;
    weir__hosts_here = true;
    call->run(call->argument);
    weir__hosts_here = false;
    free(call);
}

static struct call *new_call(const struct weir_work *work) {
    if (work->argument_bytes > SIZE_MAX - sizeof(struct call)) return NULL;
    struct call *call = malloc(sizeof *call + work->argument_bytes);
    if (call == NULL) return NULL;
    call->run = work->run;
    call->argument = work->argument;
    if (work->argument_bytes > 0) call->argument = memcpy(call->copy, work->argument, work->argument_bytes);
    return call;
}

static void describe(const struct weir_work *work, struct weir_emu_access *accesses) {
    for (size_t i = 0; i < work->access_count; i++)
        accesses[i] =
            (struct weir_emu_access){work->accesses[i].address, work->accesses[i].bytes, work->accesses[i].write};
}

static enum weir_status submit_described(struct weir_device *device, const struct weir_work *work, struct call *call,
                                         weir_stream stream) {
    struct weir_emu_access few[16], *accesses = few;
    if (work->access_count > sizeof few / sizeof *few) accesses = calloc(work->access_count, sizeof *accesses);
    if (accesses == NULL) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, "calloc", "no host memory to describe work");
    describe(work, accesses);
    const struct weir_emu_work described = {.size = sizeof described,
                                            .name = work->name,
                                            .function = trampoline,
                                            .argument = call,
                                            .accesses = work->accesses != NULL ? accesses : NULL,
                                            .access_count = work->access_count,
                                            .flops = work->flops,
                                            .bytes = work->bytes};
    const CUresult code = device->driver->emu_submit(&described, stream);
    if (accesses != few) free(accesses);
    return weir__device_check(device, code, "weirEmuSubmit");
}

static enum weir_status submit_run(struct weir_device *device, const struct weir_work *work, weir_stream stream) {
    struct call *call = new_call(work);
    if (call == NULL)
        return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, "malloc", "no host memory for the %zu bytes of an argument",
                          work->argument_bytes);
    const enum weir_status status =
        device->driver->emulated
            ? submit_described(device, work, call, stream)
            : weir__device_check(device, device->driver->host_function(stream, trampoline, call), "cuLaunchHostFunc");
    if (status != WEIR_OK) free(call);
    return status;
}

static enum weir_status check_work(const struct weir_work *work) {
    if (work == NULL) return WEIR__INVALID("weir_device_submit needs a piece of work, not NULL");
    const char *name = work->name != NULL ? work->name : "(no name)";
    if ((work->run == NULL) == (work->launch == NULL))
        return WEIR__INVALID("work \"%.60s\" sets %s of run and launch: exactly one must be set", name,
                             work->run == NULL ? "neither" : "both");
    if (work->argument_bytes > 0 && work->argument == NULL)
        return WEIR__INVALID("work \"%.60s\" asks for %zu bytes of its argument to be copied, which is NULL", name,
                             work->argument_bytes);
    if (work->access_count > 0 && work->accesses == NULL)
        return WEIR__INVALID("work \"%.60s\" announces %zu accesses, but the list is NULL", name, work->access_count);
    return WEIR_OK;
}

enum weir_status weir_device_submit(struct weir_device *device, const struct weir_work *work, weir_stream stream) {
    enum weir_status status = check_work(work);
    if (status == WEIR_OK) status = weir__device_enter(device);
    if (status != WEIR_OK) return status;
    if (work->launch != NULL)
        status = weir__device_check(device, (CUresult)work->launch(work->argument, stream), "launch");
    else
        status = submit_run(device, work, stream);
    weir__device_leave(device);
    if (status == WEIR_OK) WEIR__DEVICE_TELL(device, work_submitted, (told->self, work, stream));
    return status;
}
