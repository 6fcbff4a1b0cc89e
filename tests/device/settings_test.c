/* SPDX-License-Identifier: Apache-2.0 */
/* Settings and profiles of the emulated machine: malformed ones are refused with a sentence that names the place, the
 * key, the value and what was expected. Nothing here initialises the driver but the last test. */
#include "tests/device/machine.h"

static void assert_refused(const char *settings, const char *sentence) {
    const struct weir_device_options options = {.size = sizeof options, .machine = "emulated", .emu = settings};
    struct weir_device *device;
    assert_int_equal(weir_device_open(&options, &device), WEIR_INVALID);
    assert_null(device);
    if (strstr(weir_last_error()->message, sentence) == NULL)
        fail_msg("\"%s\" says \"%s\", expected \"%s\"", settings, weir_last_error()->message, sentence);
}

#define KEYS                                                                                                           \
    "profile, capacity, devices, clock, seed, jitter, watch, memory, law, others, cached, refuse, delay or fault"

static void malformed_settings_are_named(void **state) {
    (void)state;
    assert_refused("capcity:1M",
                   "emulated machine: unknown key \"capcity\": expected " KEYS "; did you mean capacity?");
    assert_refused("cached:1M", "cached:1M: profile demo is of no integrated device");
    assert_refused("cached:much", "cached:much: expected bytes, as 64M or 67108864");
    assert_refused("speed:1", "unknown key \"speed\": expected " KEYS "; did you mean seed?");
    assert_refused("capacity", "\"capacity\": expected key:value, with the keys " KEYS);
    assert_refused("capacity:", "capacity:: expected a value");
    assert_refused("capacity:1M,,devices:1", "\"\": expected key:value");
    assert_refused("capacity:1M,", "\"\": expected key:value");
    assert_refused("capacity:12 parsecs", "capacity:12 parsecs: expected bytes, as 64M or 67108864");
    assert_refused("capacity:-1", "capacity:-1: expected bytes");
    assert_refused("capacity:1M,capacity:2M", "capacity is given twice");
    assert_refused("capacity:1M,capacity:1M", "capacity is given twice");
    assert_refused("capacity:100", "capacity:100 is 100 bytes: expected at least one granule of profile demo, 16384");
    assert_refused("devices:0", "devices:0: expected a number from 1 to 64");
    assert_refused("devices:65", "devices:65: expected a number from 1 to 64");
    assert_refused("devices:two", "devices:two: expected a number from 1 to 64");
    assert_refused("devices:18446744073709551617", "expected a number from 1 to 64");
    assert_refused("profile:nosuch", "profile:nosuch is unknown");
    assert_refused("profile:gh20", "profile:gh20 is unknown");
    assert_refused("profile:gh20", "did you mean gh200?");
    assert_refused("profile:/nosuch/file", "profile: can't open /nosuch/file");
}

static void malformed_choices_are_named_with_the_nearest_one(void **state) {
    (void)state;
    assert_refused("clock:vitual", "clock:vitual: expected real or virtual; did you mean virtual?");
    assert_refused("watch:yes", "watch:yes: expected off, on or abort");
    assert_refused("memory:backd", "memory:backd: expected backed or unbacked; did you mean backed?");
    assert_refused("law:pages", "law:pages: expected measured, page, handle or range; did you mean page?");
    assert_refused("refuse:always", "refuse:always: expected full or never");
    assert_refused("clock:REAL", "clock:REAL: expected real or virtual; did you mean real?");
}

static void malformed_figures_are_named(void **state) {
    (void)state;
    assert_refused("seed:x", "seed:x: expected a whole number below 2^64");
    assert_refused("seed:-1", "seed:-1: expected a whole number");
    assert_refused("seed:18446744073709551616", "seed:18446744073709551616: expected a whole number below 2^64");
    assert_refused("jitter:100 %", "jitter:100 %: expected a fraction from 0 to below 1, as 0.05 or 5 %");
    assert_refused("jitter:nan", "jitter:nan: expected a fraction");
    assert_refused("delay:2", "delay:2: expected a time, as 40 us, in ns, us, ms or s");
    assert_refused("delay:-2us", "delay:-2us: expected a time");
    assert_refused("others:x", "others:x: expected bytes, as 64M or 67108864");
    assert_refused("capacity:1M,others:2M",
                   "others:2M is 2097152 bytes: expected at most the device's capacity, 1048576");
    assert_refused("fault:cuMemCreat@1=2", "fault: \"cuMemCreat\" is no entry of the driver");
    assert_refused("fault:cuMemCreate@1=2;cuMemCreate@0=2", "fault: \"0\": expected which calls");
}

static void a_setting_without_effect_is_refused(void **state) {
    (void)state;
    assert_refused("seed:1",
                   "emulated machine: seed:1 has no effect with clock:real: expected clock:virtual beside it");
    assert_refused("clock:real,law:page", "emulated machine: law:page has no effect with clock:real");
    assert_refused("clock:virtual,jitter:5%",
                   "jitter:5% has no effect without a seed: expected seed:N beside it, from 1");
    assert_refused("clock:virtual,seed:0,jitter:5%", "jitter:5% has no effect without a seed");
    setenv("WEIR_EMU", "seed:1", 1);
    assert_refused(NULL, "WEIR_EMU: seed:1 has no effect with clock:real");
    assert_refused("profile:/nosuch/file", "profile: can't open"); /* each text is looked at */
    unsetenv("WEIR_EMU");
}

static void a_malformed_environment_is_named(void **state) {
    (void)state;
    setenv("WEIR_EMU", "device:2", 1);
    assert_refused(NULL, "WEIR_EMU: unknown key \"device\": expected " KEYS "; did you mean devices?");
    assert_refused("devices:2", "WEIR_EMU: unknown key \"device\""); /* also beside settings that are well */
    setenv("WEIR_EMU", "devices:2,devices:2", 1);
    assert_refused("devices:2", "WEIR_EMU: devices is given twice");
    unsetenv("WEIR_EMU");
}

static void a_value_that_another_takes_the_place_of_must_be_one_all_the_same(void **state) {
    (void)state;
    setenv("WEIR_EMU", "profile:nosuch", 1);
    assert_refused("profile:gh200", "profile:nosuch is unknown");
    setenv("WEIR_EMU", "clock:vitual", 1);
    assert_refused("clock:real", "clock:vitual: expected real or virtual");
    unsetenv("WEIR_EMU");
}

static void malformed_options_are_named(void **state) {
    (void)state;
    const struct weir_device_options machine = {.size = sizeof machine, .machine = "emulate"};
    const struct weir_device_options size = {.size = sizeof size + 1};
    struct weir_device *device;
    assert_int_equal(weir_device_open(&machine, &device), WEIR_INVALID);
    assert_string_equal(weir_last_error()->message,
                        "machine \"emulate\" is unknown: expected cuda, emulated or auto; did you mean emulated?");
    assert_int_equal(weir_device_open(&size, &device), WEIR_INVALID);
    assert_int_equal(weir_device_open(NULL, NULL), WEIR_INVALID);
}

/* ---- profiles --------------------------------------------------------------------------------------------------- */

static char profile_path[] = "/tmp/weir-profile-XXXXXX";

static int make_file(void **state) {
    (void)state;
    const int descriptor = mkstemp(profile_path);
    return descriptor < 0 ? -1 : close(descriptor);
}

static int remove_file(void **state) {
    (void)state;
    return unlink(profile_path);
}

static const char *write_profile(const char *text) {
    static char settings[64];
    FILE *file = fopen(profile_path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    snprintf(settings, sizeof settings, "profile:%s", profile_path);
    return settings;
}

static void malformed_profiles_are_named_with_their_line(void **state) {
    (void)state;
    assert_refused(write_profile("name = a\ngranularty = 1 MiB\n"),
                   ":2: unknown key \"granularty\"; did you mean granularity?");
    assert_refused(write_profile("# a comment\n\ncapacity 1 MiB\n"), ":3: \"capacity 1 MiB\": expected key = value");
    assert_refused(write_profile("capacity = 16 kB\n"),
                   ":1: capacity = \"16 kB\": expected bytes with a unit, as in 64 "
                   "MiB");
    assert_refused(write_profile("capacity = 0 MiB\n"), ":1: capacity = \"0 MiB\"");
    assert_refused(write_profile("name =\n"), ":1: name = \"\": expected the device's name");
    assert_refused(write_profile("name = a\nname = b\n"), ":2: name is given twice");
    assert_refused(write_profile("name = a\ncapacity = 1 MiB\n"), ": granularity is missing");
    assert_refused(write_profile("name = a\ncapacity = 1 MiB\ngranularity = 48 KiB\n"),
                   ": granularity is 49152 bytes: expected a power of two");
    assert_refused(write_profile("name = a\ncapacity = 1 MiB\ngranularity = 512 # too small\n"),
                   ": granularity is 512 bytes");
    char line[700];
    memset(line, 'x', sizeof line - 1);
    line[sizeof line - 1] = '\0';
    assert_refused(write_profile(line), ":1: the line is longer than");
    assert_refused("profile:/dev/zero", ":1: the line is longer than");
    assert_refused("profile:/", "/: can't be read: Is a directory");
    char virtual_clock[96];
    snprintf(virtual_clock, sizeof virtual_clock, "%s,clock:virtual",
             write_profile("name = a\ncapacity = 1 MiB\ngranularity = 64 KiB\n"));
    assert_refused(virtual_clock, "clock:virtual needs arithmetic, which profile weir-profile-");
}

static void a_profile_of_ones_own_is_read_by_its_path(void **state) {
    (void)state;
    const char *settings = write_profile("name = mine # with a comment\n  capacity=1.5 MiB\ngranularity = 64 KiB\n");
    char with_devices[96];
    snprintf(with_devices, sizeof with_devices, "%s,devices:3", settings);
    setenv("WEIR_EMU", "devices:2,capacity:2M", 1); /* says only what the options leave open */
    const struct weir_device_options options = {
        .size = sizeof options, .machine = "emulated", .ordinal = 2, .emu = with_devices};
    struct weir_device *device;
    struct weir_device_info info = {.size = sizeof info};
    assert_ok(weir_device_open(&options, &device));
    assert_ok(weir_device_get_info(device, &info));
    assert_string_equal(info.name, "mine");
    assert_int_equal(info.capacity_bytes, 2 << 20);
    assert_int_equal(info.granularity_bytes, 64 << 10);
    assert_int_equal(strncmp(info.profile, "weir-profile-", 13), 0);
    weir_device_close(device);
    unsetenv("WEIR_EMU");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_settings_are_named),
        cmocka_unit_test(malformed_choices_are_named_with_the_nearest_one),
        cmocka_unit_test(malformed_figures_are_named),
        cmocka_unit_test(a_setting_without_effect_is_refused),
        cmocka_unit_test(a_malformed_environment_is_named),
        cmocka_unit_test(a_value_that_another_takes_the_place_of_must_be_one_all_the_same),
        cmocka_unit_test(malformed_options_are_named),
        cmocka_unit_test(malformed_profiles_are_named_with_their_line),
        cmocka_unit_test(a_profile_of_ones_own_is_read_by_its_path),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
