/* SPDX-License-Identifier: Apache-2.0 */
/* Which machine is chosen: the library never emulates unasked; "auto" emulates only without a driver or a device.
 * A driver is loaded once a process, so each case runs in a child. The stand-in driver (fake_driver.c) lies in the
 * folder that FAKE_DRIVER names; whether it is found is up to LD_LIBRARY_PATH, so the child is started anew. */
#include "tests/device/machine.h"

#include <dlfcn.h>
#include <sys/wait.h>

static const char *program, *fake_folder;

/* How a child ends: the status of the open, and what was opened. */
enum { EMULATED = 100, REAL = 101, WRONG = 102 };

/* The child: opens the machine of its argument, says on standard output what failed. */
static int open_and_tell(const char *machine) {
    const struct weir_device_options options = {.size = sizeof options,
                                                .machine = strcmp(machine, "-") == 0 ? NULL : machine};
    struct weir_device *device;
    struct weir_device_info info = {.size = sizeof info};
    const enum weir_status status = weir_device_open(&options, &device);
    if (status != WEIR_OK) {
        printf("%s\n", weir_last_error()->message);
        return device == NULL ? -(int)status : WRONG;
    }
    if (weir_device_get_info(device, &info) != WEIR_OK) return WRONG;
    weir_device_close(device);
    return info.emulated ? EMULATED : REAL;
}

struct ending {
    int status;
    char message[400];
};

/* Starts a child. fake: what the stand-in's cuInit gives, NULL: there is no stand-in. device: WEIR_DEVICE, or NULL. */
static struct ending start(const char *machine, const char *device, const char *fake) {
    struct ending ending = {.status = WRONG};
    char command[1200];
    const int length = snprintf(command, sizeof command, "%s%s %s%s LD_LIBRARY_PATH=%s exec %s open %s",
                                device != NULL ? "WEIR_DEVICE=" : "unset WEIR_DEVICE;", device != NULL ? device : "",
                                fake != NULL ? "FAKE_CUINIT=" : "", fake != NULL ? fake : "",
                                fake != NULL ? fake_folder : "/nowhere", program, machine);
    assert_true(length < (int)sizeof command);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    const size_t read = fread(ending.message, 1, sizeof ending.message - 1, output);
    ending.message[read] = '\0';
    const int status = pclose(output);
    if (WIFEXITED(status)) ending.status = WEXITSTATUS(status);
    return ending;
}

static void assert_ending(struct ending ending, int status, const char *sentence) {
    if (ending.status != status || strstr(ending.message, sentence) == NULL)
        fail_msg("ended with %d, \"%s\"; expected %d, \"%s\"", ending.status, ending.message, status, sentence);
}

/* A machine with a driver of its own has no case "without a driver". */
static void skip_with_a_real_driver(void) {
    void *real = dlopen("libcuda.so.1", RTLD_LAZY);
    if (real == NULL) return;
    print_message("skipped: this machine has a CUDA driver\n");
    skip();
}

static void without_a_driver_the_library_says_that_there_is_no_device(void **state) {
    (void)state;
    skip_with_a_real_driver();
    assert_ending(start("-", NULL, NULL), -WEIR_NO_DEVICE, "no CUDA driver: libcuda.so.1: cannot open shared object");
    assert_ending(start("cuda", "emulated", NULL), -WEIR_NO_DEVICE, "no CUDA driver");
    assert_ending(start("-", "cuda", NULL), -WEIR_NO_DEVICE, "WEIR_DEVICE=emulated runs without a GPU");
}

static void without_a_driver_auto_emulates(void **state) {
    (void)state;
    skip_with_a_real_driver();
    assert_ending(start("auto", NULL, NULL), EMULATED, "");
    assert_ending(start("-", "auto", NULL), EMULATED, "");
}

static void emulated_is_emulated_whatever_driver_there_is(void **state) {
    (void)state;
    assert_ending(start("emulated", "cuda", "0"), EMULATED, "");
    assert_ending(start("-", "emulated", "999"), EMULATED, "");
}

static void a_driver_without_a_device_is_no_device_and_auto_emulates(void **state) {
    (void)state;
    assert_ending(start("cuda", NULL, "100"), -WEIR_NO_DEVICE, "the CUDA driver finds no device");
    assert_ending(start("auto", NULL, "100"), EMULATED, "");
}

static void any_other_error_of_the_driver_stops(void **state) {
    (void)state;
    assert_ending(start("auto", NULL, "803"), -WEIR_DRIVER, "cuInit failed with 803");
    assert_ending(start("auto", NULL, "34"), -WEIR_DRIVER, "cuInit failed with 34");
    assert_ending(start("cuda", NULL, "999"), -WEIR_DRIVER, "cuInit failed with 999");
}

static void a_driver_that_works_is_taken_by_auto(void **state) {
    (void)state;
    assert_ending(start("auto", NULL, "0"), -WEIR_DRIVER, "cuDeviceGetCount failed"); /* the stand-in can no more */
}

static void an_unknown_machine_in_the_environment_is_named(void **state) {
    (void)state;
    assert_ending(start("-", "gpu", NULL), -WEIR_INVALID,
                  "machine \"gpu\" is unknown: expected cuda, emulated or auto");
}

/* The emulated driver that this process has in use must not pass for a CUDA driver. */
static void cuda_after_emulated_does_not_emulate(void **state) {
    (void)state;
    skip_with_a_real_driver();
    const struct weir__driver *driver;
    assert_ok(weir__driver_load("emulated", NULL, &driver));
    assert_true(driver->emulated);
    assert_int_equal(weir__driver_load("cuda", NULL, &driver), WEIR_NO_DEVICE);
    assert_null(driver);
    assert_ok(weir__driver_load("auto", NULL, &driver));
    assert_true(driver->emulated);
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "open") == 0) return open_and_tell(argv[2]);
    program = argv[0];
    fake_folder = getenv("FAKE_DRIVER");
    if (fake_folder == NULL) {
        fprintf(stderr, "FAKE_DRIVER must name the folder of the stand-in driver\n");
        return 2;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_driver_the_library_says_that_there_is_no_device),
        cmocka_unit_test(without_a_driver_auto_emulates),
        cmocka_unit_test(emulated_is_emulated_whatever_driver_there_is),
        cmocka_unit_test(a_driver_without_a_device_is_no_device_and_auto_emulates),
        cmocka_unit_test(any_other_error_of_the_driver_stops),
        cmocka_unit_test(a_driver_that_works_is_taken_by_auto),
        cmocka_unit_test(an_unknown_machine_in_the_environment_is_named),
        cmocka_unit_test(cuda_after_emulated_does_not_emulate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
