/* SPDX-License-Identifier: Apache-2.0 */
/* The answer: a machine profile (docs/profiles.md), or JSON. */
#include <math.h>
#include <string.h>

#include "profile.h"
#include "weir/weir.h"

/* ---- numbers with units ----------------------------------------------------------------------------------------- */

struct unit {
    const char *name;
    double value;
};

static const struct unit times[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
static const struct unit rates[] = {{"B/s", 1}, {"kB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}};
static const struct unit flops[] = {
    {"FLOP/s", 1}, {"MFLOP/s", 1e6}, {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}};

/* Four digits or so, never an exponent: the reader takes none. */
static const char *with_unit(double value, const struct unit *units, size_t count, char *text, size_t room) {
    size_t unit = 0;
    while (unit + 1 < count && value >= 1000 * units[unit].value) unit++;
    const double shown = value / units[unit].value;
    snprintf(text, room, "%.*f %s", shown >= 100 ? 1 : shown >= 10 ? 2 : shown >= 0.1 ? 3 : 6, shown, units[unit].name);
    return text;
}
#define WITH_UNIT(value, units, text) with_unit((value), (units), sizeof(units) / sizeof *(units), (text), sizeof(text))

/* What a call of a caching allocator costs the host, beside the driver calls in it (docs/profiles.md). */
#define POOL_CALL_NS 250.0

static bool is_figure(double value) { return isfinite(value) && value > 0; }

/* ---- the profile ------------------------------------------------------------------------------------------------ */

static void put_rate(FILE *out, const char *key, double value, const char *source) {
    char text[64];
    if (is_figure(value))
        fprintf(out, "%-24s = %-18s # %s\n", key, WITH_UNIT(value, rates, text), source);
    else
        fprintf(out, "# %s was not measured\n", key);
}

static void put_time(FILE *out, const char *key, double value, const char *source) {
    char text[64];
    fprintf(out, "%-24s = %-18s # %s\n", key, WITH_UNIT(isfinite(value) ? fmax(value, 0) : 0, times, text), source);
}

/* One of them was measured, and stands for all of its kind. */
static const char *kind_of(enum call call) {
    switch (call) {
    case CALL_COPY:
        return "cuMemcpy*";
    case CALL_SET:
        return "cuMemset*";
    case CALL_LAUNCH:
        return "cuLaunchKernel*";
    default:
        return call_names[call];
    }
}

static void put_cost(FILE *out, enum call call, const struct call_cost *cost) {
    char key[64], text[200] = "", part[64];
    const struct fit *fit = &cost->fit;
    const double a_mebibyte = fit->byte_ns * 0x1p20;
    if (fit->fixed_ns > 0 || (fit->handle_ns <= 0 && a_mebibyte <= 0))
        snprintf(text, sizeof text, "%s", WITH_UNIT(fit->fixed_ns, times, part));
    if (fit->handle_ns > 0)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s/handle", text[0] ? " + " : "",
                 WITH_UNIT(fit->handle_ns, times, part));
    if (a_mebibyte > 0)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s/MiB", text[0] ? " + " : "",
                 WITH_UNIT(a_mebibyte, times, part));
    snprintf(key, sizeof key, "call.%s", kind_of(call));
    if (cost->samples > 1)
        fprintf(out, "%-24s = %-18s # of %zu sizes the worst is off by %.0f %%\n", key, text, cost->samples,
                100 * fit->worst);
    else
        fprintf(out, "%-24s = %-18s # %s\n", key, text, call_names[call]);
}

static void put_head(FILE *out, const struct subject *subject) {
    fprintf(out, "# Measured by weir-profile %s on device %d, %s; medians of %d repeats; driver of CUDA %d.%d.\n",
            weir_version(), subject->ordinal, subject->name, subject->repeats, subject->driver_version / 1000,
            subject->driver_version % 1000 / 10);
    if (subject->emulated)
        fprintf(out, "# EMULATED: these are figures of the emulated driver (profile %s, %s clock), not of a device.\n",
                subject->profile, subject->virtual_clock ? "virtual" : "real");
    fprintf(out, "%-24s = %s\n", "name", subject->name);
    if (subject->emulated)
        fprintf(out, "%-24s = emulated: measured on profile %s by its %s clock\n", "note", subject->profile,
                subject->virtual_clock ? "virtual" : "real");
    else
        fprintf(out, "%-24s = measured by weir-profile\n", "note");
    if (subject->integrated) fprintf(out, "%-24s = yes # as the driver reports it\n", "integrated");
    fprintf(out, "%-24s = %zu B # as the driver reports it\n", "capacity", subject->capacity_bytes);
    fprintf(out, "%-24s = %zu B # the least, as the driver reports it\n\n", "granularity", subject->page_bytes);
}

static void put_arithmetic(FILE *out, const struct subject *subject, const struct figures *figures) {
    char text[64];
    if (subject->arithmetic != NULL)
        fprintf(out, "%-24s = %-18s # as given by --arithmetic\n", "arithmetic", subject->arithmetic);
    else if (is_figure(figures->arithmetic_flops))
        fprintf(out, "%-24s = %-18s # described work\n", "arithmetic",
                WITH_UNIT(figures->arithmetic_flops, flops, text));
    else
        fprintf(out,
                "# arithmetic was not measured: say what a large product of matrices reaches, with --arithmetic\n");
}

static void put_figures(FILE *out, const struct figures *figures) {
    char source[160], text[64];
    snprintf(source, sizeof source, "a copy within the device, read and written; sets alone: %s",
             is_figure(figures->set_rate) ? WITH_UNIT(figures->set_rate, rates, text) : "not measured");
    put_rate(out, "memory_rate", figures->memory_rate, source);
    put_rate(out, "to_device_rate", figures->to_device_rate, "copies of pinned memory, alone");
    put_rate(out, "to_host_rate", figures->to_host_rate, "copies to pinned memory, alone");
    put_rate(out, "to_device_together", figures->to_device_together, "while copies run the other way");
    put_rate(out, "to_host_together", figures->to_host_together, "while copies run the other way");
    fprintf(out, "# peer_rate, peer_latency, network_rate and network_latency were not measured\n");
    put_time(out, "copy_time", figures->copy_ns, "a copy of 512 bytes in a series");
    put_time(out, "kernel_time", figures->kernel_ns,
             figures->kernel_launched ? "a kernel that does nothing, in a series" : "a set of 512 bytes in a series");
    put_time(out, "host_function_time", figures->host_function_ns, "one that does nothing, in a series");
    put_time(out, "launch_time", figures->launch_ns, "from the call's return to the start on an idle stream");
    put_time(out, "wake_time", figures->wake_ns, "from a host function to the return of the host that waits");
    put_time(out, "pool_call", POOL_CALL_NS, "not of the device, and not measured: as in the shipped profiles");
    fprintf(out, "%-24s = %.1f %%%-13s # spread of single sets\n\n", "jitter",
            isfinite(figures->jitter) ? 100 * figures->jitter : 0, "");
}

void write_profile(FILE *out, const struct subject *subject, const struct figures *figures,
                   const struct call_cost costs[CALLS]) {
    char text[64];
    put_head(out, subject);
    put_arithmetic(out, subject, figures);
    put_figures(out, figures);
    fprintf(out, "%-24s = %-18s # cuStreamQuery stands for all others\n", "call",
            WITH_UNIT(costs[CALL_ANY].fit.fixed_ns, times, text));
    for (enum call call = 0; call < CALL_ANY; call++) {
        if (costs[call].samples > 0)
            put_cost(out, call, &costs[call]);
        else
            fprintf(out, "# call.%s was not measured\n", call_names[call]);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void put_text(FILE *out, const char *key, const char *text) {
    fprintf(out, "  \"%s\": \"", key);
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') fputc('\\', out);
        if ((unsigned char)*text < 0x20)
            fprintf(out, "\\u%04x", (unsigned)(unsigned char)*text);
        else
            fputc(*text, out);
    }
    fprintf(out, "\",\n");
}

static void put_number(FILE *out, const char *key, double value) {
    if (isfinite(value))
        fprintf(out, "  \"%s\": %.9g,\n", key, value);
    else
        fprintf(out, "  \"%s\": null,\n", key);
}

static void put_rate_or_null(FILE *out, const char *key, double value) {
    put_number(out, key, is_figure(value) ? value : NAN);
}

static void put_json_figures(FILE *out, const struct figures *figures) {
    put_rate_or_null(out, "arithmetic_flops", figures->arithmetic_flops);
    put_rate_or_null(out, "memory_bytes_per_s", figures->memory_rate);
    put_rate_or_null(out, "set_bytes_per_s", figures->set_rate);
    put_rate_or_null(out, "to_device_bytes_per_s", figures->to_device_rate);
    put_rate_or_null(out, "to_host_bytes_per_s", figures->to_host_rate);
    put_rate_or_null(out, "to_device_together_bytes_per_s", figures->to_device_together);
    put_rate_or_null(out, "to_host_together_bytes_per_s", figures->to_host_together);
    put_number(out, "copy_ns", figures->copy_ns);
    put_number(out, "kernel_ns", figures->kernel_ns);
    put_number(out, "host_function_ns", figures->host_function_ns);
    put_number(out, "launch_ns", figures->launch_ns);
    put_number(out, "wake_ns", figures->wake_ns);
    put_number(out, "jitter", figures->jitter);
}

void write_json(FILE *out, const struct subject *subject, const struct figures *figures,
                const struct call_cost costs[CALLS]) {
    fprintf(out, "{\n");
    put_text(out, "device", subject->name);
    fprintf(out, "  \"emulated\": %s,\n", subject->emulated ? "true" : "false");
    if (subject->emulated) {
        put_text(out, "profile", subject->profile);
        put_text(out, "clock", subject->virtual_clock ? "virtual" : "real");
    }
    fprintf(out, "  \"ordinal\": %d,\n  \"repeats\": %d,\n  \"capacity_bytes\": %zu,\n  \"granularity_bytes\": %zu,\n",
            subject->ordinal, subject->repeats, subject->capacity_bytes, subject->page_bytes);
    put_json_figures(out, figures);
    fprintf(out, "  \"calls\": {");
    const char *separator = "\n";
    for (enum call call = 0; call < CALLS; call++) {
        const struct fit *fit = &costs[call].fit;
        if (costs[call].samples == 0) continue;
        fprintf(out,
                "%s    \"%s\": {\"fixed_ns\": %.9g, \"handle_ns\": %.9g, \"byte_ns\": %.9g, \"samples\": %zu, "
                "\"worst_relative_error\": %.4f}",
                separator, call_names[call], fit->fixed_ns, fit->handle_ns, fit->byte_ns, costs[call].samples,
                fit->worst);
        separator = ",\n";
    }
    fprintf(out, "\n  }\n}\n");
}
