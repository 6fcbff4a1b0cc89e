/* SPDX-License-Identifier: Apache-2.0 */
/* The entries that the emulated driver has beyond the real one's; found by dlsym, absent on a real driver.
 * docs/emulator.md tells what they are for. Each gives a CUresult; threads: any, unless it says otherwise. */
#ifndef WEIR_EMU_ABI_H
#define WEIR_EMU_ABI_H

#include <stddef.h>
#include <stdint.h>

#include "device/cuda_abi.h"

struct weir_emu_access {
    const void *address;
    size_t bytes;
    int write;
};

/* A host function with the description of what it stands for. */
struct weir_emu_work {
    size_t size; /* sizeof(struct weir_emu_work) */
    const char *name;
    CUhostFn function; /* may be NULL: work that only takes time */
    void *argument;
    const struct weir_emu_access *accesses;
    size_t access_count;
    double flops, bytes;
    double alone_ns; /* > 0: takes exactly so long, on no engine, whatever flops and bytes say */
};

/* A gate is shut until it is opened, once. Streams and host threads wait at it. */
struct weir_emu_gate;

enum weir_emu_gate_flags {
    WEIR_EMU_GATE_PLAIN = 0,
    WEIR_EMU_GATE_OPENS_WHEN_HOST_WAITS = 1, /* by itself, when a host thread comes to wait in the driver */
};

/* Names no stream: usable on any at once. */
#define WEIR_EMU_ANY_STREAM ((CUstream) ~(uintptr_t)0)

enum weir_emu_report_kind {
    WEIR_EMU_RACE = 1,          /* two accesses without order, of which one writes */
    WEIR_EMU_USE_AFTER_FREE,    /* a use of bytes that were freed, taken back, or unmapped */
    WEIR_EMU_UNINITIALISED_READ /* a read of bytes never written */
};

/* One finding of the watch: `second` came to be submitted and is at fault with `first`. */
struct weir_emu_report {
    size_t size; /* in: sizeof(struct weir_emu_report) */
    enum weir_emu_report_kind kind;
    int device;          /* whose bytes; -1: host memory */
    const void *address; /* the first byte concerned, as `second` names it */
    size_t bytes;        /* how many */
    char first[96];      /* what it was: the work's name, or "cuMemUnmap by the host" */
    char second[96];
    uint64_t first_stream, first_position; /* stream number as in weirEmuStreamNumber; the host is ~0 */
    uint64_t second_stream, second_position;
    char text[400]; /* the whole in one sentence */
};

/* What the machine in force is; a later version adds members at the end. */
struct weir_emu_machine {
    size_t size; /* in: sizeof(struct weir_emu_machine) */
    int backed;  /* 0: device memory is addresses only, and is not to be touched */
    int virtual_clock;
    uint64_t seed;
    double peer_rate, network_rate; /* bytes/s out of a device to others of its host, to other hosts */
    double peer_latency_ns, network_latency_ns;
    double jitter;       /* how far durations deviate under a seed other than 0 */
    char law[16];        /* what calls that map memory cost: "measured", ... */
    double pool_call_ns; /* what a call of a caching allocator costs the host, beside the driver calls in it */
    double wake_ns;      /* from the end of work to the return of the host that waits for it */
    int watched;         /* 0: what pools tell is not looked at */
};

/* What happened so far; a later version adds members at the end. */
struct weir_emu_counts {
    size_t size;                /* in: sizeof(struct weir_emu_counts) */
    uint64_t calls;             /* of entries */
    uint64_t operations;        /* queued on streams */
    uint64_t idle_kernels;      /* kernels that were accepted, ordered, and did nothing */
    uint64_t unwatched;         /* pieces of work without a description while the watch is on */
    uint64_t reports;           /* of the watch */
    uint64_t faults;            /* calls that were made to fail */
    uint64_t unsupported_calls; /* of entries that are refused whatever is asked */
    /* Of `calls`, whoever made them and whatever came of them: those that take, give back or map device memory; those
     * that order streams (event record, stream wait); and those by which the host waits for work. */
    uint64_t memory_calls, order_calls, wait_calls;
    uint64_t held_bytes, peak_held_bytes; /* of device 0's memory, taken by this process; and the most so far */
};

/* X(member, symbol, parameters).
 *
 * emu_configure: before cuInit, settings as in WEIR_EMU ("profile:demo,capacity:64M"); WEIR_EMU applies where it says
 *   nothing. CUDA_ERROR_INVALID_VALUE with a sentence in message when malformed. After cuInit it changes nothing.
 * emu_submit: as cuLaunchHostFunc, with the description; it is read during the call only.
 * emu_profile, emu_machine: the profile, the machine in force; after cuInit.
 *
 * emu_work_time: what a piece of work would take, alone. emu_copy_time: what a copy would; from == 0: what a set would.
 *
 * emu_charging: from now on the calling thread's calls cost it what the profile says (on; as at first), or nothing: for
 *   instruments that are not part of what is measured. What it queues then needs no time to be launched either.
 *
 * emu_now: the clock's time. emu_pause: the calling thread does nothing for so long. emu_next: when the device will next
 *   begin or end something, as far as is known and if no thread does anything; CUDA_ERROR_NOT_FOUND: never; only under
 *   the virtual clock. emu_event_time: when the latest record of an event with timing passed, to the nanosecond;
 *   CUDA_ERROR_NOT_READY: it has not. emu_thread_begin, emu_thread_end:
 *   the calling thread takes part in the virtual clock (the thread that calls cuInit does already). The names, copied,
 *   decide ties. Threads that begin together wait for one another, so that it does not matter which comes first; 1: at
 *   once. A thread that is to wait for others by any means but the driver's (a join) ends first and begins again
 *   afterwards.
 *
 * emu_gate_hold: what is queued on the stream later waits at the gate. emu_gate_wait: the calling thread waits.
 *   emu_gate_open: may be called in a host function too, and before anything waits; under the virtual clock it opens
 *   delay_ns later. emu_gate_destroy: whoever waits still passes when it is open; opening it must come first.
 * emu_delay: each later operation of the stream starts so much later than it could.
 * emu_fault: adds faults, written as in WEIR_EMU's fault: ("cuMemCreate@3=CUDA_ERROR_OUT_OF_MEMORY"; ';' between).
 *   "" takes all back. The sentence of what is wrong goes to message.
 * emu_others: another process holds so many bytes of the device now; CUDA_ERROR_INVALID_VALUE beyond what is free.
 *
 * emu_hand_out: a pool gives [address, address + bytes) to a stream: contents undefined, nothing else may be using it.
 * emu_take_back: the pool has them back. The free named `count` streams (and `event`, or NULL): every use so far must be
 *   ordered before their positions now, or the event's record.
 * emu_host_access: the host itself reads or writes the bytes now.
 * emu_watch_report: report number `index` of those kept, from 0; CUDA_ERROR_NOT_FOUND beyond the last. emu_watch_clear:
 *   forgets them. emu_stream_number: the number by which reports name the stream.
 * emu_counts: see above. */
#define WEIR__EMU_LIST(X)                                                                                              \
    X(emu_configure, weirEmuConfigure, (const char *settings, char *message, size_t room))                             \
    X(emu_submit, weirEmuSubmit, (const struct weir_emu_work *work, CUstream stream))                                  \
    X(emu_profile, weirEmuProfile, (char *name, size_t room, size_t *granularity_bytes))                               \
    X(emu_machine, weirEmuMachine, (struct weir_emu_machine * machine))                                                \
    X(emu_work_time, weirEmuWorkTime, (const struct weir_emu_work *work, double *ns))                                  \
    X(emu_copy_time, weirEmuCopyTime, (CUdeviceptr to, CUdeviceptr from, size_t bytes, double *ns))                    \
    X(emu_charging, weirEmuCharging, (int on))                                                                         \
    X(emu_now, weirEmuNow, (uint64_t * ns))                                                                            \
    X(emu_pause, weirEmuPause, (uint64_t ns))                                                                          \
    X(emu_next, weirEmuNext, (uint64_t * ns))                                                                          \
    X(emu_event_time, weirEmuEventTime, (CUevent event, uint64_t * ns))                                                \
    X(emu_thread_begin, weirEmuThreadBegin, (const char *name, unsigned together))                                     \
    X(emu_thread_end, weirEmuThreadEnd, (void))                                                                        \
    X(emu_gate_create, weirEmuGateCreate, (struct weir_emu_gate * *gate, unsigned flags))                              \
    X(emu_gate_hold, weirEmuGateHold, (struct weir_emu_gate * gate, CUstream stream))                                  \
    X(emu_gate_wait, weirEmuGateWait, (struct weir_emu_gate * gate))                                                   \
    X(emu_gate_open, weirEmuGateOpen, (struct weir_emu_gate * gate, uint64_t delay_ns))                                \
    X(emu_gate_destroy, weirEmuGateDestroy, (struct weir_emu_gate * gate))                                             \
    X(emu_delay, weirEmuDelay, (CUstream stream, uint64_t ns))                                                         \
    X(emu_fault, weirEmuFault, (const char *faults, char *message, size_t room))                                       \
    X(emu_others, weirEmuOthers, (CUdevice device, size_t bytes))                                                      \
    X(emu_hand_out, weirEmuHandOut, (const void *address, size_t bytes, CUstream stream))                              \
    X(emu_take_back, weirEmuTakeBack,                                                                                  \
      (const void *address, size_t bytes, const CUstream *streams, size_t count, CUevent event))                       \
    X(emu_host_access, weirEmuHostAccess, (const void *address, size_t bytes, int write))                              \
    X(emu_watch_report, weirEmuWatchReport, (size_t index, struct weir_emu_report * report))                           \
    X(emu_watch_clear, weirEmuWatchClear, (void))                                                                      \
    X(emu_stream_number, weirEmuStreamNumber, (CUstream stream, uint64_t * number))                                    \
    X(emu_counts, weirEmuCounts, (struct weir_emu_counts * counts))

#endif
