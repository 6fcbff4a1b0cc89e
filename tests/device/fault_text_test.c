/* SPDX-License-Identifier: Apache-2.0 */
/* Faults, without a driver: which calls they mean, and a sentence for what can't be meant. Calls are counted from the
 * beginning of the process, so each test has an entry of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "device/emu/faults.h"

static char sentence[400];

static void add(const char *text) {
    if (!emu_faults_add(text, (struct emu_complaint){sentence, sizeof sentence})) fail_msg("%s", sentence);
}

static void assert_refused(const char *text, const char *expected) {
    const uint64_t made = emu_faults_made();
    if (emu_faults_check(text, (struct emu_complaint){sentence, sizeof sentence})) fail_msg("\"%s\" is accepted", text);
    if (strstr(sentence, expected) == NULL) fail_msg("\"%s\" says \"%s\", expected \"%s\"", text, sentence, expected);
    assert_false(emu_faults_add(text, (struct emu_complaint){sentence, sizeof sentence}));
    assert_int_equal(emu_faults_count(EMU_AT_cuInit), CUDA_SUCCESS); /* nothing was added */
    assert_int_equal(emu_faults_made(), made);
}

static int take_back(void **state) {
    (void)state;
    add("");
    return 0;
}

static void a_fault_means_one_call(void **state) {
    (void)state;
    add("cuMemCreate@2=CUDA_ERROR_OUT_OF_MEMORY");
    assert_int_equal(emu_faults_count(EMU_AT_cuMemCreate), CUDA_SUCCESS);
    assert_int_equal(emu_faults_count(EMU_AT_cuMemRelease), CUDA_SUCCESS); /* counted apart */
    assert_int_equal(emu_faults_count(EMU_AT_cuMemRelease), CUDA_SUCCESS);
    assert_int_equal(emu_faults_count(EMU_AT_cuMemCreate), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(emu_faults_count(EMU_AT_cuMemCreate), CUDA_SUCCESS);
    assert_int_equal(emu_faults_made(), 1);
}

static void a_fault_means_a_run_of_calls(void **state) {
    (void)state;
    add("cuMemMap@2-3=999");
    const CUresult expected[] = {CUDA_SUCCESS, CUDA_ERROR_UNKNOWN, CUDA_ERROR_UNKNOWN, CUDA_SUCCESS};
    for (int i = 0; i < 4; i++) assert_int_equal(emu_faults_count(EMU_AT_cuMemMap), expected[i]);
}

static void a_fault_means_all_calls_from_one_on(void **state) {
    (void)state;
    add(" cuMemUnmap @ 3+ = CUDA_ERROR_LAUNCH_FAILED ");
    for (int i = 1; i < 10; i++)
        assert_int_equal(emu_faults_count(EMU_AT_cuMemUnmap), i < 3 ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED);
}

static void a_star_counts_all_calls(void **state) {
    (void)state;
    uint64_t before = 0;
    add("*@1000000000000=2"); /* whatever the calls of other tests were */
    for (int i = 0; i < 3; i++) assert_int_equal(emu_faults_count(EMU_AT_cuMemFree_v2), CUDA_SUCCESS);
    add("");
    add("*@1+=CUDA_ERROR_NOT_READY");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(emu_faults_count(i % 2 == 0 ? EMU_AT_cuMemFree_v2 : EMU_AT_cuMemAlloc_v2),
                         CUDA_ERROR_NOT_READY);
        before++;
    }
    assert_int_equal(before, 3);
}

static void an_entry_is_named_with_or_without_its_version(void **state) {
    (void)state;
    add("cuEventDestroy@1=1;cuStreamDestroy_v2@1=3");
    assert_int_equal(emu_faults_count(EMU_AT_cuEventDestroy_v2), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(emu_faults_count(EMU_AT_cuStreamDestroy_v2), CUDA_ERROR_NOT_INITIALIZED);
    assert_int_equal(emu_entry_find("cuMemFree"), EMU_AT_cuMemFree_v2);
    assert_int_equal(emu_entry_find("cuMemFree_v2"), EMU_AT_cuMemFree_v2);
    assert_int_equal(emu_entry_find("cuMemFree_v"), EMU_ENTRIES);
    assert_int_equal(emu_entry_find("cuMemFre"), EMU_ENTRIES);
    assert_int_equal(emu_entry_find(""), EMU_ENTRIES);
    assert_string_equal(emu_entry_name(EMU_AT_cuMemFree_v2), "cuMemFree_v2");
}

static void the_first_fault_that_means_a_call_has_it(void **state) {
    (void)state;
    add("cuEventRecord@1=2;cuEventRecord@1-2=999");
    add("cuEventRecord@1+=1");
    const CUresult expected[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN, CUDA_ERROR_INVALID_VALUE};
    for (int i = 0; i < 3; i++) assert_int_equal(emu_faults_count(EMU_AT_cuEventRecord), expected[i]);
}

static void what_is_no_fault_is_named(void **state) {
    (void)state;
    assert_refused("cuInit@1+=2;cuInit@1=x", "\"x\" is no error"); /* nothing of it is added */
    assert_refused("cuMemCreate", "fault: \"cuMemCreate\": expected ENTRY@CALL=CODE, as cuMemCreate@3=2");
    assert_refused("cuMemCreate=2@3", "expected ENTRY@CALL=CODE");
    assert_refused("cuMemCreate@3=2;", "fault: \"\": expected ENTRY@CALL=CODE");
    assert_refused(";", "fault: \"\": expected ENTRY@CALL=CODE");
    assert_refused("cuMemCreat@3=2",
                   "fault: \"cuMemCreat\" is no entry of the driver: expected a name as cuMemCreate, or "
                   "*; did you mean cuMemCreate?");
    assert_refused("cuMemFre@3=2", "did you mean cuMemFree?"); /* as the grammar writes it */
    assert_refused("*x@1=2", "fault: \"*x\" is no entry of the driver");
    assert_refused("@1=2", "fault: \"\" is no entry of the driver");
    const char *const ranges[] = {"0",
                                  "-1",
                                  "",
                                  "+",
                                  "3-",
                                  "-3",
                                  "3-2",
                                  "3-+",
                                  "3+4",
                                  "3--4",
                                  "0x3",
                                  "1e3",
                                  "3 4",
                                  "18446744073709551616",
                                  "18446744073709551617",
                                  "1-18446744073709551616"};
    char text[100];
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        snprintf(text, sizeof text, "cuInit@%s=2", ranges[i]);
        assert_refused(text, "expected which calls, counted from 1, as 3, 3-5 or 3+");
    }
    assert_refused("cuInit@1=0",
                   "fault: \"0\" is no error: expected a result's name as CUDA_ERROR_OUT_OF_MEMORY, or its "
                   "number from 1 to 999");
    assert_refused("cuInit@1=CUDA_SUCCESS", "\"CUDA_SUCCESS\" is no error");
    assert_refused("cuInit@1=1000", "\"1000\" is no error");
    assert_refused("cuInit@1=-2", "\"-2\" is no error");
    assert_refused("cuInit@1=", "\"\" is no error");
    assert_refused("cuInit@1=OUT_OF_MEMORY", "did you mean CUDA_ERROR_OUT_OF_MEMORY?");
    assert_refused("cuInit@1=CUDA_ERROR_OUT_OF_MEMROY", "did you mean CUDA_ERROR_OUT_OF_MEMORY?");
}

static void entries_that_ask_nothing_of_the_machine_cant_fail(void **state) {
    (void)state;
    assert_refused("cuGetErrorName@1+=999", "fault: cuGetErrorName can't be made to fail");
    assert_refused("cuGetProcAddress@1=500", "fault: cuGetProcAddress can't be made to fail");
}

static void an_initialisation_fails_by_its_name_alone(void **state) {
    (void)state;
    add("*@1+=2;cuInit@1+=CUDA_ERROR_NO_DEVICE");
    assert_int_equal(emu_faults_count(EMU_AT_cuInit), CUDA_ERROR_NO_DEVICE);
}

static void there_is_an_end_to_faults(void **state) {
    (void)state;
    char text[600] = "*@1=2";
    for (int i = 1; i < 64; i++) strcat(text, ";*@1=2");
    assert_true(emu_faults_check(text, (struct emu_complaint){0}));
    strcat(text, ";*@1=2");
    assert_refused(text, "fault: more than 64 faults");
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_refused(text, "fault: longer than 511 characters");
}

int main(void) {
#define fault_test(function) cmocka_unit_test_setup_teardown(function, take_back, take_back)
    const struct CMUnitTest tests[] = {
        fault_test(a_fault_means_one_call),
        fault_test(a_fault_means_a_run_of_calls),
        fault_test(a_fault_means_all_calls_from_one_on),
        fault_test(a_star_counts_all_calls),
        fault_test(an_entry_is_named_with_or_without_its_version),
        fault_test(the_first_fault_that_means_a_call_has_it),
        fault_test(what_is_no_fault_is_named),
        fault_test(entries_that_ask_nothing_of_the_machine_cant_fail),
        fault_test(an_initialisation_fails_by_its_name_alone),
        fault_test(there_is_an_end_to_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
