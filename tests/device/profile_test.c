/* SPDX-License-Identifier: Apache-2.0 */
/* What profiles say, without a driver: figures with their units, call costs and laws, and a sentence with line and key
 * for what can't be meant. The folder of the profiles that weir brings is in WEIR_PROFILES. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device/emu/quantity.h"
#include "device/emu/settings.h"

#define LEAST "name = a\ncapacity = 64 MiB\ngranularity = 2 MiB\n" /* lines 1 to 3 */
#define MIB   0x1p20

static char sentence[400];

static bool parse(const char *text, struct emu_profile *profile) {
    FILE *file = fmemopen((void *)text, strlen(text), "r");
    assert_non_null(file);
    const bool read = emu_profile_parse(file, "here", profile, (struct emu_complaint){sentence, sizeof sentence});
    fclose(file);
    return read;
}

static struct emu_profile *read_profile(const char *text) {
    static struct emu_profile profile;
    if (!parse(text, &profile)) fail_msg("%s", sentence);
    return &profile;
}

static void assert_refused(const char *text, const char *expected) {
    struct emu_profile profile;
    if (parse(text, &profile)) fail_msg("\"%s\" is accepted", text);
    if (strstr(sentence, expected) == NULL) fail_msg("\"%s\" says \"%s\", expected \"%s\"", text, sentence, expected);
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-9 * fabs(b); }
#define assert_near(a, b)                                                                                              \
    do {                                                                                                               \
        if (!near((a), (b))) fail_msg("%s is %.17g, expected %.17g", #a, (double)(a), (double)(b));                    \
    } while (0)

static void assert_cost(struct emu_cost cost, double fixed_ns, double handle_ns, double byte_ns) {
    assert_near(cost.fixed_ns, fixed_ns);
    assert_near(cost.handle_ns, handle_ns);
    assert_near(cost.byte_ns, byte_ns);
}

/* ---- figures ---------------------------------------------------------------------------------------------------- */

static void every_figure_is_read_with_its_unit(void **state) {
    (void)state;
    const struct emu_profile *profile =
        read_profile(LEAST "arithmetic = 1.5 PFLOP/s\nmemory_rate = 3.4 TB/s\nto_device_rate = 2 GiB/s\n"
                           "to_host_rate=500 MB/s # slower\nto_device_together = 1 GiB/s\nto_host_together = 250 MB/s\n"
                           "peer_rate = 3 KiB/s\nnetwork_rate = 7 B/s\npeer_latency = 2 us\nnetwork_latency = 1.25 ms\n"
                           "copy_time = 1 ns\nkernel_time = 0 us\nhost_function_time = 2 s\nlaunch_time=3us\n"
                           "wake_time = 10 us\njitter = 12.5 %\nnote = a remark\nintegrated = yes\n");
    assert_true(profile->integrated);
    assert_string_equal(profile->device_name, "a");
    assert_string_equal(profile->note, "a remark");
    assert_int_equal(profile->capacity_bytes, 64 << 20);
    assert_int_equal(profile->granularity_bytes, 2 << 20);
    assert_near(profile->arithmetic_flops, 1.5e15);
    assert_near(profile->memory_rate, 3.4e12);
    assert_near(profile->to_device_rate, 0x2p30);
    assert_near(profile->to_host_rate, 500e6);
    assert_near(profile->to_device_together, 0x1p30);
    assert_near(profile->to_host_together, 250e6);
    assert_near(profile->peer_rate, 3 * 1024.0);
    assert_near(profile->network_rate, 7.0);
    assert_near(profile->peer_latency_ns, 2e3);
    assert_near(profile->network_latency_ns, 1.25e6);
    assert_near(profile->copy_ns, 1.0);
    assert_near(profile->kernel_ns, 0.0);
    assert_near(profile->host_function_ns, 2e9);
    assert_near(profile->launch_ns, 3e3);
    assert_near(profile->wake_ns, 10e3);
    assert_near(profile->jitter, 0.125);
}

static void what_a_profile_leaves_out_is_as_documented(void **state) {
    (void)state;
    const struct emu_profile *profile = read_profile(LEAST "to_device_rate = 5 GB/s\nto_host_rate = 4 GB/s\n");
    assert_near(profile->to_device_together, 5e9); /* as alone */
    assert_near(profile->to_host_together, 4e9);
    assert_near(profile->peer_rate, 4e9); /* through the host */
    assert_near(profile->jitter, 0.0);
    assert_cost(profile->calls[EMU_LAW_MEASURED][EMU_AT_cuMemMap], 0, 0, 0);
}

static void a_profile_has_a_last_line_with_or_without_an_end(void **state) {
    (void)state;
    read_profile("name = a\r\n\r\ncapacity = 2 MiB\r\n\tgranularity\t=\t2 MiB");
}

/* ---- costs ------------------------------------------------------------------------------------------------------ */

static void a_call_costs_a_fixed_part_a_part_a_handle_and_a_part_a_byte(void **state) {
    (void)state;
    const struct emu_profile *profile =
        read_profile("call.cuMemMap = 40 us + 2 us/handle + 1 us/MiB\n" LEAST
                     "call.cuMemUnmap=30us/handle\ncall.cuMemCreate = 8 us / page\ncall.cuMemFree_v2 = 1 ms + 4 ns/B\n"
                     "call.cuMemRelease = 1 us/KiB + 5 us\ncall.cuMemSetAccess = 1 s/GiB\ncall = 0.3 us\n");
    const struct emu_cost *calls = profile->calls[EMU_LAW_MEASURED];
    assert_cost(calls[EMU_AT_cuMemMap], 40e3, 2e3, 1e3 / MIB);
    assert_cost(calls[EMU_AT_cuMemUnmap], 0, 30e3, 0);
    assert_cost(calls[EMU_AT_cuMemCreate], 0, 0, 8e3 / (2 * MIB)); /* a page is a granule, wherever it is said */
    assert_cost(calls[EMU_AT_cuMemFree_v2], 1e6, 0, 4);
    assert_cost(calls[EMU_AT_cuMemRelease], 5e3, 0, 1e3 / 1024);
    assert_cost(calls[EMU_AT_cuMemSetAccess], 0, 0, 1e9 / 0x1p30);
    assert_cost(calls[EMU_AT_cuEventRecord], 300, 0, 0); /* all others */
}

static void a_star_stands_for_the_rest_of_names_and_the_longest_name_counts(void **state) {
    (void)state;
    const struct emu_profile *profile =
        read_profile(LEAST "call.cuMemA* = 1 us\ncall.cuMemAlloc = 3 us\ncall.cu* = 2 us\n"
                           "call = 9 us\ncall.cuMemAddress* = 4 us\n");
    const struct emu_cost *calls = profile->calls[EMU_LAW_MEASURED];
    assert_cost(calls[EMU_AT_cuMemAlloc_v2], 3e3, 0, 0);
    assert_cost(calls[EMU_AT_cuMemAddressFree], 4e3, 0, 0);
    assert_cost(calls[EMU_AT_cuMemMap], 2e3, 0, 0);
    assert_refused(LEAST "call.cuMemx* = 1 us\n", "here:4: call.cuMemx*: no entry of the driver begins so");
    assert_refused(LEAST "call.cuMem* = 1 us\ncall.cuMem* = 1 us\n", "here:5: call.cuMem* is given twice");
    assert_refused(LEAST "call.* = 1 us\n", "here:4: call.*: expected an entry of the driver");
}

static void the_laws_are_the_same_on_every_machine(void **state) {
    (void)state;
    const struct emu_profile *profile =
        read_profile(LEAST "call = 1 us\ncall.cuMemMap = 7 us\ncall.cuMemCreate = 9 us\ncall.cuMemAlloc = 8 us\n");
    const double page = 2 * MIB;
    const struct emu_cost *calls = profile->calls[EMU_LAW_PAGE];
    assert_cost(calls[EMU_AT_cuMemMap], 0, 0, 40e3 / page);
    assert_cost(calls[EMU_AT_cuMemUnmap], 0, 30e3, 0);
    assert_cost(calls[EMU_AT_cuMemCreate], 1e3, 0, 0);   /* what a law does not name costs as much as any call */
    assert_cost(calls[EMU_AT_cuMemAlloc_v2], 8e3, 0, 0); /* of memory without pages it says nothing */
    calls = profile->calls[EMU_LAW_HANDLE];
    assert_cost(calls[EMU_AT_cuMemMap], 0, 40e3, 0);
    assert_cost(calls[EMU_AT_cuMemUnmap], 0, 30e3, 0);
    calls = profile->calls[EMU_LAW_RANGE];
    assert_cost(calls[EMU_AT_cuMemMap], 0, 0, 1e3 / page);
    assert_cost(calls[EMU_AT_cuMemSetAccess], 100e3, 0, 0);
    assert_cost(calls[EMU_AT_cuMemUnmap], 100e3, 0, 1e3 / page);
}

static void a_profile_may_say_a_laws_cost_itself(void **state) {
    (void)state;
    const struct emu_profile *profile = read_profile(LEAST "law.page.cuMemMap = 10 us\nlaw.range.cuMemCreate = 5 us\n");
    assert_cost(profile->calls[EMU_LAW_PAGE][EMU_AT_cuMemMap], 10e3, 0, 0);
    assert_cost(profile->calls[EMU_LAW_PAGE][EMU_AT_cuMemUnmap], 0, 30e3, 0);
    assert_cost(profile->calls[EMU_LAW_RANGE][EMU_AT_cuMemCreate], 5e3, 0, 0);
}

/* ---- what can't be meant ---------------------------------------------------------------------------------------- */

static void a_figure_that_is_none_is_refused(void **state) {
    (void)state;
    const char *const rates[] = {"0 GB/s",   "-1 GB/s",  "nan GB/s", "inf B/s", "1e9 B/s",        "1 GB",
                                 "1",        "GB/s",     "1. GB/s",  ".5 GB/s", "1 gb/s",         "",
                                 "1 GB/s s", "1,5 GB/s", "+1 B/s",   "0x1 B/s", "9999999999 TB/s"};
    char text[200];
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        snprintf(text, sizeof text, LEAST "memory_rate = %s\n", rates[i]);
        assert_refused(text, "here:4: memory_rate = ");
    }
    assert_refused(LEAST "integrated = 1\n", "here:4: integrated = \"1\": expected yes or no");
    assert_refused(LEAST "memory_rate = 0 GB/s\n", "expected a rate above 0, as 55 GB/s or 1.5 GiB/s");
    assert_refused(LEAST "arithmetic = 0 TFLOP/s\n", "here:4: arithmetic = \"0 TFLOP/s\": expected a rate above 0");
    assert_refused(LEAST "wake_time = -1 us\n", "here:4: wake_time = \"-1 us\": expected a time, as 40 us, in ns, us");
    assert_refused(LEAST "wake_time = 1\n", "here:4: wake_time");
    assert_refused(LEAST "wake_time = 1000001 s\n", "here:4: wake_time");
    assert_refused(LEAST "jitter = 100 %\n", "here:4: jitter = \"100 %\": expected a fraction from 0 to below 1");
    assert_refused(LEAST "jitter = 1\n", "here:4: jitter");
    memset(text, '9', sizeof text); /* more digits than a double has room for are infinite, or at least too many */
    memcpy(text, LEAST "wake_time = ", strlen(LEAST "wake_time = "));
    strcpy(text + sizeof text - 5, " us\n");
    assert_refused(text, "here:4: wake_time");
}

static void a_cost_that_is_none_is_refused(void **state) {
    (void)state;
    const char *const costs[] = {"",
                                 "40",
                                 "40 us +",
                                 "+ 40 us",
                                 "40 us + 1 us",
                                 "1 us/handles",
                                 "1 us/",
                                 "/handle",
                                 "1 us/MiB/page",
                                 "1 us/MiB + 2 us/KiB",
                                 "us/MiB",
                                 "1 us/MB",
                                 "1 us - 1 us",
                                 "1 us * 2",
                                 "1 us + + 2 us/B",
                                 "nan us"};
    char text[200];
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        snprintf(text, sizeof text, LEAST "call.cuMemMap = %s\n", costs[i]);
        assert_refused(text, "here:4: call.cuMemMap = ");
        assert_refused(text, "expected parts as 40 us + 2 us/handle + 1 us/MiB (or /B, /KiB, /GiB, /page), each once");
    }
    assert_refused(LEAST "call = 1 us/MiB\n", "here:4: call = \"1 us/MiB\": expected a time");
}

static void an_unknown_key_is_named_with_the_nearest_one(void **state) {
    (void)state;
    assert_refused(LEAST "memory-rate = 1 GB/s\n", "here:4: unknown key \"memory-rate\"; did you mean memory_rate?");
    assert_refused(LEAST "xyzzy = 1\n",
                   "here:4: unknown key \"xyzzy\": expected one of name, note, integrated, capacity, ");
    assert_refused(LEAST "xyzzy = 1\n", "jitter, call, call.ENTRY, law.LAW.ENTRY");
    assert_refused(LEAST "call.cuMemMapp = 1 us\n",
                   "here:4: call.cuMemMapp: expected an entry of the driver, as cuMemMap; did you mean cuMemMap?");
    assert_refused(LEAST "call.malloc = 1 us\n", "here:4: call.malloc: expected an entry of the driver, as cuMemMap");
    assert_refused(LEAST "law.pages.cuMemMap = 1 us\n", "expected law.page.ENTRY, law.handle.ENTRY or law.range.ENTRY; "
                                                        "did you mean law.page?");
    assert_refused(LEAST "law.measured.cuMemMap = 1 us\n", "here:4: law.measured.cuMemMap: expected law.page.ENTRY");
    assert_refused(LEAST "law.page = 1 us\n", "here:4: law.page: expected law.page.ENTRY");
}

static void a_key_is_given_once(void **state) {
    (void)state;
    assert_refused(LEAST "jitter = 1 %\njitter = 1 %\n", "here:5: jitter is given twice");
    assert_refused(LEAST "call.cuMemFree = 1 us\ncall.cuMemFree_v2 = 1 us\n",
                   "here:5: call.cuMemFree_v2 is given twice");
    assert_refused(LEAST "law.page.cuMemMap = 1 us\nlaw.page.cuMemMap = 1 us\n",
                   "here:5: law.page.cuMemMap is given twice");
}

static void figures_that_contradict_each_other_are_refused(void **state) {
    (void)state;
    assert_refused(LEAST "to_device_rate = 1 GB/s\nto_device_together = 2 GB/s\n",
                   "here: to_device_together is 2e+09 B/s: expected at most to_device_rate, 1e+09 B/s");
    assert_refused(LEAST "to_host_together = 2 GB/s\n", "here: to_host_together is 2e+09 B/s: expected at most");
    assert_refused("name = a\ncapacity = 1 MiB\ngranularity = 2 MiB\n",
                   "here: capacity is 1048576 bytes: expected at least the granularity, 2097152");
    assert_refused("name = a\ncapacity = 1 MiB\n", "here: granularity is missing: expected bytes with a unit");
    assert_refused("name = a\ncapacity = 99999999999999999999 TiB\n", "here:2: capacity = ");
}

/* ---- those that weir brings ------------------------------------------------------------------------------------- */

/* A line with a figure names where it is from. */
static void assert_sourced(const char *path) {
    char line[256];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        const char *equals = strchr(line, '='), *hash = strchr(line, '#');
        if (line[0] == '#' || equals == NULL || strncmp(line, "name", 4) == 0 || strncmp(line, "note", 4) == 0)
            continue;
        if (hash == NULL || strlen(hash) < sizeof "# x") fail_msg("%s: no source: %s", path, line);
    }
    fclose(file);
}

static bool sensible(const struct emu_profile *profile) {
    return profile->arithmetic_flops > 0 && profile->memory_rate > profile->to_device_rate &&
           profile->to_host_rate > 0 && profile->network_rate > 0 && profile->wake_ns > 0 && profile->jitter > 0 &&
           profile->calls[EMU_LAW_MEASURED][EMU_AT_cuMemMap].fixed_ns > 0;
}

static void every_profile_of_weir_is_whole_and_names_its_sources(void **state) {
    (void)state;
    const char *folder = getenv("WEIR_PROFILES");
    assert_non_null(folder);
    DIR *entries = opendir(folder);
    assert_non_null(entries);
    int found = 0;
    for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        if (strstr(entry->d_name, ".profile") == NULL) continue;
        char path[1000];
        struct emu_profile profile;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (!emu_profile_read(path, &profile, (struct emu_complaint){sentence, sizeof sentence}))
            fail_msg("%s", sentence);
        if (!sensible(&profile)) fail_msg("%s leaves figures out", path);
        assert_sourced(path);
        found++;
    }
    closedir(entries);
    assert_int_equal(found, 5); /* demo, gh200, h100, h200, laptop */
}

static void a_granule_of_the_scale_model_costs_what_two_mebibytes_cost(void **state) {
    (void)state;
    struct emu_profile model, real;
    char path[1000];
    snprintf(path, sizeof path, "%s/demo.profile", getenv("WEIR_PROFILES"));
    assert_true(emu_profile_read(path, &model, (struct emu_complaint){0}));
    snprintf(path, sizeof path, "%s/gh200.profile", getenv("WEIR_PROFILES"));
    assert_true(emu_profile_read(path, &real, (struct emu_complaint){0}));
    const double scale = (double)real.granularity_bytes / (double)model.granularity_bytes;
    const double rates[][2] = {{model.arithmetic_flops, real.arithmetic_flops},
                               {model.memory_rate, real.memory_rate},
                               {model.to_device_rate, real.to_device_rate},
                               {model.to_host_rate, real.to_host_rate},
                               {model.to_device_together, real.to_device_together},
                               {model.to_host_together, real.to_host_together},
                               {model.peer_rate, real.peer_rate},
                               {model.network_rate, real.network_rate}};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (fabs(rates[i][0] * scale / rates[i][1] - 1) > 0.01) fail_msg("rate %zu of demo is not 1/128 of gh200's", i);
    for (int law = 0; law < EMU_LAWS; law++)
        for (int entry = 0; entry < EMU_ENTRIES; entry++) {
            const struct emu_cost *of_model = &model.calls[law][entry], *of_real = &real.calls[law][entry];
            assert_cost(*of_model, of_real->fixed_ns, of_real->handle_ns, of_real->byte_ns * scale);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_figure_is_read_with_its_unit),
        cmocka_unit_test(what_a_profile_leaves_out_is_as_documented),
        cmocka_unit_test(a_profile_has_a_last_line_with_or_without_an_end),
        cmocka_unit_test(a_call_costs_a_fixed_part_a_part_a_handle_and_a_part_a_byte),
        cmocka_unit_test(a_star_stands_for_the_rest_of_names_and_the_longest_name_counts),
        cmocka_unit_test(the_laws_are_the_same_on_every_machine),
        cmocka_unit_test(a_profile_may_say_a_laws_cost_itself),
        cmocka_unit_test(a_figure_that_is_none_is_refused),
        cmocka_unit_test(a_cost_that_is_none_is_refused),
        cmocka_unit_test(an_unknown_key_is_named_with_the_nearest_one),
        cmocka_unit_test(a_key_is_given_once),
        cmocka_unit_test(figures_that_contradict_each_other_are_refused),
        cmocka_unit_test(every_profile_of_weir_is_whole_and_names_its_sources),
        cmocka_unit_test(a_granule_of_the_scale_model_costs_what_two_mebibytes_cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
