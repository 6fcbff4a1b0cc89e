/* SPDX-License-Identifier: Apache-2.0 */
/* weir-profile as a program. On the emulated device under the virtual clock it gives back the profile that the device
 * follows; what it writes, the emulated device reads. WEIR_PROFILE is the program, WEIR_PROFILES the folder of weir's
 * profiles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/emu/faults.h"
#include "device/emu/settings.h"

static char folder[] = "/tmp/weir-profile-test-XXXXXX";
static char path[64], log_path[64];
static char text[1 << 16];

static int make_folder(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(path, sizeof path, "%s/measured.profile", folder);
    snprintf(log_path, sizeof log_path, "%s/log", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    unlink(log_path);
    return rmdir(folder);
}

static const char *read_file(const char *name) {
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* Runs the program; gives its exit status. Standard error goes to the log, standard output too unless the arguments say
 * otherwise. */
static int run(const char *emu, const char *arguments) {
    char command[1500];
    setenv("WEIR_EMU", emu, 1);
    snprintf(command, sizeof command, "'%s' %s >'%s' 2>&1", getenv("WEIR_PROFILE"), arguments, log_path);
    const int status = system(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void assert_status(int expected, const char *emu, const char *arguments, const char *sentence) {
    const int status = run(emu, arguments);
    const char *said = read_file(log_path);
    if (status != expected) fail_msg("%s: exit status %d, expected %d: %s", arguments, status, expected, said);
    if (strstr(said, sentence) == NULL) fail_msg("%s says \"%s\", expected \"%s\"", arguments, said, sentence);
}

static void read_profile(const char *name, struct emu_profile *profile) {
    char sentence[400];
    if (!emu_profile_read(name, profile, (struct emu_complaint){sentence, sizeof sentence})) fail_msg("%s", sentence);
}

/* ---- it gives back what it measured ----------------------------------------------------------------------------- */

static void assert_close(const char *what, double measured, double real) {
    if (fabs(measured - real) > 0.02 * real + 2) /* the clock counts whole nanoseconds */
        fail_msg("%s: %.6g, the machine's is %.6g", what, measured, real);
}

#define CLOSE(member) assert_close(#member, measured->member, real->member)
static void assert_figures_are_close(const struct emu_profile *measured, const struct emu_profile *real) {
    CLOSE(arithmetic_flops);
    CLOSE(memory_rate);
    CLOSE(to_device_rate);
    CLOSE(to_host_rate);
    CLOSE(to_device_together);
    CLOSE(to_host_together);
    CLOSE(copy_ns);
    CLOSE(kernel_ns);
    CLOSE(host_function_ns);
    CLOSE(launch_ns);
    CLOSE(wake_ns);
    CLOSE(pool_call_ns); /* not measured, the same in all of them */
    assert_true(measured->granularity_bytes == real->granularity_bytes);
}

static double cost_of(const struct emu_profile *profile, enum emu_law law, enum emu_entry entry, double handles,
                      double bytes) {
    const struct emu_cost *cost = &profile->calls[law][entry];
    return cost->fixed_ns + cost->handle_ns * handles + cost->byte_ns * bytes;
}

/* What is measured under a law, the profile says as measured. */
static void assert_costs_are_close(const struct emu_profile *measured, const struct emu_profile *real,
                                   enum emu_law law) {
    static const struct {
        enum emu_entry entry;
        bool many; /* a call can be about many handles */
    } calls[] = {
        {EMU_AT_cuMemAddressReserve, false}, {EMU_AT_cuMemAddressFree, false},   {EMU_AT_cuMemCreate, false},
        {EMU_AT_cuMemRelease, false},        {EMU_AT_cuMemMap, false},           {EMU_AT_cuMemSetAccess, true},
        {EMU_AT_cuMemUnmap, true},           {EMU_AT_cuMemAlloc_v2, false},      {EMU_AT_cuMemFree_v2, false},
        {EMU_AT_cuMemHostAlloc, false},      {EMU_AT_cuMemFreeHost, false},      {EMU_AT_cuMemHostRegister_v2, false},
        {EMU_AT_cuMemHostUnregister, false}, {EMU_AT_cuMemcpyAsync, false},      {EMU_AT_cuMemsetD8Async, false},
        {EMU_AT_cuLaunchHostFunc, false},    {EMU_AT_cuLaunchKernel, false},     {EMU_AT_cuStreamWaitEvent, false},
        {EMU_AT_cuEventRecord, false},       {EMU_AT_cuEventCreate, false},      {EMU_AT_cuEventDestroy_v2, false},
        {EMU_AT_cuStreamCreate, false},      {EMU_AT_cuStreamDestroy_v2, false}, {EMU_AT_cuEventQuery, false},
        {EMU_AT_cuStreamQuery, false},       {EMU_AT_cuMemGetInfo_v2, false}};
    const double page = (double)real->granularity_bytes;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (double handles = 1; handles <= (calls[i].many ? 8 : 1); handles += 7)
            for (double bytes = page; bytes <= 16 * page; bytes *= 16)
                assert_close(emu_entry_name(calls[i].entry),
                             cost_of(measured, EMU_LAW_MEASURED, calls[i].entry, handles, handles * bytes),
                             cost_of(real, law, calls[i].entry, handles, handles * bytes));
}

static void assert_gives_back(const char *name, const char *more, enum emu_law law) {
    char emu[200], arguments[200], own[1000];
    struct emu_profile measured, real;
    snprintf(own, sizeof own, "%s/%s.profile", getenv("WEIR_PROFILES"), name);
    snprintf(emu, sizeof emu, "profile:%s,clock:virtual,memory:unbacked,watch:off%s", name, more);
    snprintf(arguments, sizeof arguments, "--repeats 2 --out '%s'", path);
    assert_status(0, emu, arguments, "weir-profile: the device is emulated (profile ");
    read_profile(path, &measured);
    read_profile(own, &real);
    assert_string_equal(measured.device_name, real.device_name);
    assert_figures_are_close(&measured, &real);
    assert_costs_are_close(&measured, &real, law);
    assert_int_equal(strncmp(measured.note, "emulated: measured on profile ", 30), 0);
    assert_non_null(strstr(read_file(path), "# EMULATED: "));
}

static void the_profile_of_the_virtual_clock_is_given_back(void **state) {
    (void)state;
    assert_gives_back("demo", "", EMU_LAW_MEASURED);
    assert_gives_back("gh200", "", EMU_LAW_MEASURED);
    assert_gives_back("laptop", "", EMU_LAW_MEASURED);
}

static void the_law_in_force_is_given_back(void **state) {
    (void)state;
    assert_gives_back("h200", ",law:page", EMU_LAW_PAGE);
    assert_gives_back("h100", ",law:handle", EMU_LAW_HANDLE);
    assert_gives_back("demo", ",law:range", EMU_LAW_RANGE);
}

static void the_seeds_jitter_is_given_back(void **state) {
    (void)state;
    char arguments[200];
    struct emu_profile measured;
    snprintf(arguments, sizeof arguments, "--repeats 2 --out '%s'", path);
    assert_int_equal(run("profile:gh200,clock:virtual,memory:unbacked,watch:off,seed:1,jitter:20%", arguments), 0);
    read_profile(path, &measured);
    if (fabs(measured.jitter - 0.2) > 0.06) fail_msg("jitter %g, expected 0.2", measured.jitter);
}

/* ---- what it writes ---------------------------------------------------------------------------------------------- */

static void what_it_writes_is_a_machine(void **state) {
    (void)state;
    char arguments[200], emu[200];
    snprintf(arguments, sizeof arguments, "--repeats 1 --out '%s'", path);
    assert_status(0, "profile:demo,capacity:8M", arguments, "profile demo, real clock");
    snprintf(emu, sizeof emu, "profile:%s,clock:virtual,memory:unbacked", path);
    assert_status(2, emu, "--repeats 1", "clock:virtual needs arithmetic, which profile measured does not say");
    snprintf(arguments, sizeof arguments, "--repeats 1 --arithmetic=660TFLOP/s --out '%s'", path);
    assert_status(0, "profile:demo,capacity:8M", arguments, "");
    assert_status(0, emu, "--repeats 1", "arithmetic               = 660.0 TFLOP/s");
}

static void the_json_has_the_same_figures(void **state) {
    (void)state;
    assert_status(0, "profile:demo,clock:virtual,memory:unbacked", "--repeats 1 --json",
                  "\"to_device_bytes_per_s\": 2.");
    assert_non_null(strstr(text, "\"emulated\": true,\n  \"profile\": \"demo\",\n  \"clock\": \"virtual\""));
    assert_non_null(strstr(text, "\"cuMemSetAccess\": {\"fixed_ns\": 0, \"handle_ns\": 40000, \"byte_ns\": 0"));
    assert_null(strstr(text, "# EMULATED")); /* alone */
    char arguments[200];
    snprintf(arguments, sizeof arguments, "--repeats 1 --json='%s'", path);
    assert_status(0, "profile:demo,clock:virtual,memory:unbacked", arguments, "# EMULATED: ");
    assert_non_null(strstr(read_file(path), "\"granularity_bytes\": 16384"));
}

/* ---- bad input --------------------------------------------------------------------------------------------------- */

static void bad_input_is_named(void **state) {
    (void)state;
    assert_status(0, "", "--help", "usage: weir-profile [options]");
    assert_status(0, "", "--version", "weir-profile 0.");
    assert_status(2, "", "--devcie 1", "unknown option --devcie; did you mean --device?");
    assert_status(2, "", "--xyzzy", "unknown option --xyzzy (--help lists them)");
    assert_status(2, "", "gh200", "'gh200' is not an option");
    assert_status(2, "", "--device", "--device needs a value");
    assert_status(2, "", "--device -1", "--device -1: expected a whole number from 0 to 1023");
    assert_status(2, "", "--device 1x", "--device 1x: expected a whole number from 0 to 1023");
    assert_status(2, "", "--repeats 0", "--repeats 0: expected a whole number from 1 to 100");
    assert_status(2, "", "--help=yes", "--help takes no value");
    assert_status(2, "", "--arithmetic 660", "--arithmetic 660: expected a rate above 0, as 400 TFLOP/s");
    assert_status(2, "profile:demo,speed:2", "", "WEIR_EMU: unknown key \"speed\"");
}

static void a_failure_is_named(void **state) {
    (void)state;
    assert_status(1, "profile:demo,clock:virtual,memory:unbacked", "--repeats 1 --out /nosuch/folder/x",
                  "can't write /nosuch/folder/x: No such file");
    assert_status(1, "profile:demo,capacity:8M,fault:cuMemMap@5=CUDA_ERROR_LAUNCH_FAILED", "--repeats 1",
                  "weir-profile: cuMemMap failed with 719, CUDA_ERROR_LAUNCH_FAILED");
    assert_status(1, "profile:demo,capacity:8M,fault:cuMemcpyAsync@9=2", "--repeats 1",
                  "cuMemcpyAsync failed with 2, ");
    assert_int_not_equal(run("profile:demo", "--device 3"), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_profile_of_the_virtual_clock_is_given_back),
        cmocka_unit_test(the_law_in_force_is_given_back),
        cmocka_unit_test(the_seeds_jitter_is_given_back),
        cmocka_unit_test(what_it_writes_is_a_machine),
        cmocka_unit_test(the_json_has_the_same_figures),
        cmocka_unit_test(bad_input_is_named),
        cmocka_unit_test(a_failure_is_named),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
