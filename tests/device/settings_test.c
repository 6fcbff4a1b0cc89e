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

static void malformed_settings_are_named(void **state) {
    (void)state;
    assert_refused("capcity:1M",
                   "emulated machine: unknown key \"capcity\": expected profile, capacity or devices; did "
                   "you mean capacity?");
    assert_refused("seed:1", "unknown key \"seed\": expected profile, capacity or devices");
    assert_refused("capacity", "\"capacity\": expected key:value");
    assert_refused("capacity:", "capacity:: expected a value");
    assert_refused("capacity:12 parsecs", "capacity:12 parsecs: expected bytes, as 64M or 67108864");
    assert_refused("capacity:-1", "capacity:-1: expected bytes");
    assert_refused("capacity:1M,capacity:2M", "capacity is given twice");
    assert_refused("capacity:100", "capacity:100 is 100 bytes: expected at least one granule of profile demo, 16384");
    assert_refused("devices:0", "devices:0: expected a number from 1 to 16");
    assert_refused("devices:17", "devices:17: expected a number from 1 to 16");
    assert_refused("devices:two", "devices:two: expected a number from 1 to 16");
    assert_refused("profile:nosuch", "profile:nosuch is unknown");
    assert_refused("profile:/nosuch/file", "profile: can't open /nosuch/file");
}

static void a_malformed_environment_is_named(void **state) {
    (void)state;
    setenv("WEIR_EMU", "device:2", 1);
    assert_refused(NULL,
                   "WEIR_EMU: unknown key \"device\": expected profile, capacity or devices; did you mean devices?");
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
                   ":2: unknown key \"granularty\": expected name, note, "
                   "capacity or granularity; did you mean granularity?");
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
        cmocka_unit_test(a_malformed_environment_is_named),
        cmocka_unit_test(malformed_options_are_named),
        cmocka_unit_test(malformed_profiles_are_named_with_their_line),
        cmocka_unit_test(a_profile_of_ones_own_is_read_by_its_path),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
