/* SPDX-License-Identifier: Apache-2.0 */
#include "device/emu/cost.h"

#include "device/emu/settings.h"

static const struct emu_profile *profile(void) { return &emu_settings()->profile; }

static double ns_at(double amount, double rate) { return rate > 0 ? amount / rate * 1e9 : 0; }

/* A kernel is bound by arithmetic or by memory, whichever takes longer (the roofline model). */
double emu_cost_kernel(double flops, double bytes) {
    const double arithmetic = ns_at(flops, profile()->arithmetic_flops), memory = ns_at(bytes, profile()->memory_rate);
    return profile()->kernel_ns + (arithmetic > memory ? arithmetic : memory);
}

/* Host to host copies run at the pace of a link, like any other; within a device a copy reads and writes its memory. */
void emu_cost_copy(struct emu_operation *copy, enum emu_place to, enum emu_place from, bool peers) {
    const double bytes = (double)copy->copy.bytes * (double)copy->copy.rows;
    const bool into = to == EMU_PLACE_DEVICE, out = from == EMU_PLACE_DEVICE;
    if (into && out) {
        copy->engine = peers ? EMU_ENGINE_NONE : EMU_ENGINE_COMPUTE;
        copy->alone_ns = peers ? profile()->peer_latency_ns + ns_at(bytes, profile()->peer_rate)
                               : profile()->copy_ns + ns_at(2 * bytes, profile()->memory_rate);
        return;
    }
    copy->engine = out ? EMU_ENGINE_TO_HOST : EMU_ENGINE_TO_DEVICE;
    copy->alone_ns = profile()->copy_ns + ns_at(bytes, out ? profile()->to_host_rate : profile()->to_device_rate);
}

void emu_cost_set(struct emu_operation *set) {
    const double bytes = (double)set->set.count * set->set.unit * (double)set->set.rows;
    set->engine = EMU_ENGINE_COMPUTE;
    set->alone_ns = profile()->kernel_ns + ns_at(bytes, profile()->memory_rate);
}
