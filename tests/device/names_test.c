/* SPDX-License-Identifier: Apache-2.0 */
/* Any program links with the emulated driver and finds what it looks up: every name is there, by the version asked for;
 * what nobody has written says so. */
#include "tests/device/machine.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/emu/abi/names.h"
#include "device/emu/abi/versions.h"
#include "device/emu/variants.h"

enum { LATEST = 13000 };

static const struct weir__driver *driver;
static void *library;
static char log_path[] = "/tmp/weir_names_test_XXXXXX";
static CUresult (*look_up)(const char *, void **, int, uint64_t, CUdriverProcAddressQueryResult *);
static CUresult (*look_up_as_before)(const char *, void **, int, uint64_t);

#define NAME(symbol) #symbol,
static const char *const names[] = {EMU_NAME_LIST(NAME)};
#define NAME_3(member, symbol, parameters)           #symbol,
#define NAME_2(symbol, parameters)                   #symbol,
#define NAME_4(symbol, entry, parameters, arguments) #symbol,
static const char *const written[] = {WEIR__DRIVER_LIST(NAME_3) WEIR__EMU_LIST(NAME_3) EMU_ENTRY_LIST(NAME_2)
                                          EMU_VARIANT_LIST(NAME_4)};

static void *find(const char *symbol) {
    void *found = dlsym(library, symbol);
    if (found == NULL) fail_msg("%s is not exported", symbol);
    return found;
}

static bool is_written(const char *symbol) {
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (strcmp(written[i], symbol) == 0) return true;
    return false;
}

/* A weak symbol is a name without an entry. */
static bool is_name_only(const char *symbol) {
    Dl_info info;
    const ElfW(Sym) *found = NULL;
    assert_true(dladdr1(find(symbol), &info, (void **)&found, RTLD_DL_SYMENT) != 0 && found != NULL);
    assert_string_equal(info.dli_sname, symbol);
    return ELF64_ST_BIND(found->st_info) == STB_WEAK;
}

static void every_name_of_the_driver_is_exported(void **state) {
    (void)state;
    assert_true(sizeof names / sizeof *names > 600);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) find(names[i]);
}

static void the_lists_tell_which_entries_are_written(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (is_name_only(written[i])) fail_msg("%s is in a list, and nobody has written it", written[i]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!is_name_only(names[i]) && !is_written(names[i])) fail_msg("%s is written, and in no list", names[i]);
}

static size_t lines_with(const char *text) {
    char line[600];
    size_t count = 0;
    FILE *log = fopen(log_path, "r");
    assert_non_null(log);
    while (fgets(line, sizeof line, log) != NULL) count += strstr(line, text) != NULL;
    fclose(log);
    return count;
}

static uint64_t unsupported_calls(void) {
    struct weir_emu_counts counts = {.size = sizeof counts};
    assert_int_equal(driver->emu_counts(&counts), CUDA_SUCCESS);
    return counts.unsupported_calls;
}

static void a_name_without_an_entry_says_so_once_and_is_counted(void **state) {
    (void)state;
    CUresult (*call)(void **);
    void *found = find("cuTexRefCreate"), *texture;
    memcpy(&call, &found, sizeof call);
    const uint64_t before = unsupported_calls();
    assert_int_equal(call(&texture), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(call(&texture), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(unsupported_calls(), before + 2);
    assert_int_equal(lines_with("cuTexRefCreate is there by name only"), 1);
}

static void expect(const char *entry, int version, uint64_t flags, const char *symbol) {
    void *found = NULL;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    assert_int_equal(look_up(entry, &found, version, flags, &status), CUDA_SUCCESS);
    assert_int_equal(status, CU_GET_PROC_ADDRESS_SUCCESS);
    if (found != find(symbol)) fail_msg("%s of %d with flags %d is not %s", entry, version, (int)flags, symbol);
    assert_int_equal(look_up(entry, &found, version, flags, NULL), CUDA_SUCCESS);
    found = NULL;
    assert_int_equal(look_up_as_before(entry, &found, version, flags), CUDA_SUCCESS);
    assert_ptr_equal(found, find(symbol));
}

static void an_entry_is_found_by_its_version(void **state) {
    (void)state;
    expect("cuMemAlloc", 2000, CU_GET_PROC_ADDRESS_DEFAULT, "cuMemAlloc");
    expect("cuMemAlloc", 3010, CU_GET_PROC_ADDRESS_DEFAULT, "cuMemAlloc");
    expect("cuMemAlloc", 3020, CU_GET_PROC_ADDRESS_DEFAULT, "cuMemAlloc_v2");
    expect("cuMemAlloc", LATEST, CU_GET_PROC_ADDRESS_LEGACY_STREAM, "cuMemAlloc_v2");
    expect("cuCtxCreate", 11030, CU_GET_PROC_ADDRESS_DEFAULT, "cuCtxCreate_v2");
    expect("cuCtxCreate", 11040, CU_GET_PROC_ADDRESS_DEFAULT, "cuCtxCreate_v3");
    expect("cuCtxCreate", 12050, CU_GET_PROC_ADDRESS_DEFAULT, "cuCtxCreate_v4");
    expect("cuGetProcAddress", 11030, CU_GET_PROC_ADDRESS_DEFAULT, "cuGetProcAddress");
    expect("cuGetProcAddress", 12000, CU_GET_PROC_ADDRESS_DEFAULT, "cuGetProcAddress_v2");
    expect("cuTexRefCreate", LATEST, CU_GET_PROC_ADDRESS_DEFAULT, "cuTexRefCreate"); /* a name only is found too */
}

static void the_per_thread_variant_is_found_when_asked_for(void **state) {
    (void)state;
    const uint64_t own = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    expect("cuMemcpyAsync", LATEST, own, "cuMemcpyAsync_ptsz");
    expect("cuMemcpyAsync", LATEST, CU_GET_PROC_ADDRESS_LEGACY_STREAM, "cuMemcpyAsync");
    expect("cuMemcpyAsync", LATEST, CU_GET_PROC_ADDRESS_DEFAULT, "cuMemcpyAsync");
    expect("cuMemcpyAsync", 4000, own, "cuMemcpyAsync"); /* older than the variant */
    expect("cuMemcpyHtoD", 7000, own, "cuMemcpyHtoD_v2_ptds");
    expect("cuMemAlloc", LATEST, own, "cuMemAlloc_v2"); /* has none */
    expect("cuStreamBeginCapture", 10000, own, "cuStreamBeginCapture_ptsz");
    expect("cuStreamBeginCapture", 10010, own, "cuStreamBeginCapture_v2_ptsz");
}

static void every_version_of_every_entry_is_found(void **state) {
    (void)state;
#define EXPECT(entry, variant, version, symbol) expect(#entry, version, variant, #symbol);
#define EMU_PLAIN                               CU_GET_PROC_ADDRESS_LEGACY_STREAM
#define EMU_PER_THREAD                          CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
    EMU_VERSION_LIST(EXPECT)
}

static void expect_none(const char *entry, int version, CUdriverProcAddressQueryResult why) {
    void *found = &found;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SUCCESS;
    assert_int_equal(look_up(entry, &found, version, 0, &status), CUDA_SUCCESS);
    assert_null(found);
    assert_int_equal(status, why);
    found = &found;
    assert_int_equal(look_up_as_before(entry, &found, version, 0), CUDA_ERROR_NOT_FOUND);
    assert_null(found);
}

static void what_is_not_there_is_told_from_what_comes_later(void **state) {
    (void)state;
    expect_none("cuMemAllocAsync", 11010, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    expect_none("cuMemAlloc", 1000, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    expect_none("cuNoSuchEntry", LATEST, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    expect_none("cuMemAlloc_v2", LATEST, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND); /* names are looked up without one */
    expect_none("", LATEST, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
}

static void a_malformed_look_up_is_refused(void **state) {
    (void)state;
    void *found;
    assert_int_equal(look_up("cuInit", &found, LATEST + 10, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(look_up("cuInit", &found, LATEST, 4, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(look_up("cuInit", &found, LATEST, 3, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(look_up(NULL, &found, LATEST, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(look_up("cuInit", NULL, LATEST, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(look_up_as_before("cuInit", &found, LATEST + 10, 0), CUDA_ERROR_INVALID_VALUE);
}

/* A program, or what is loaded before the driver, may define entries of its own, as interposers and another driver
 * do. */
__attribute__((visibility("default"))) CUresult cuDriverGetVersion(int *version);
static int decoy_calls;

CUresult cuDriverGetVersion(int *version) {
    decoy_calls++;
    *version = 1;
    return CUDA_SUCCESS;
}

static void the_driver_finds_its_own_entries_where_others_have_the_name(void **state) {
    (void)state;
    CUresult (*decoy)(int *) = cuDriverGetVersion;
    void *seen = dlsym(RTLD_DEFAULT, "cuDriverGetVersion");
    assert_memory_equal(&seen, &decoy, sizeof seen); /* the decoy is what others find */
    expect("cuDriverGetVersion", LATEST, 0, "cuDriverGetVersion");
    assert_int_equal(decoy_calls, 0);
}

static void the_undocumented_tables_are_refused_with_the_cure(void **state) {
    (void)state;
    CUresult (*table_of)(const void **, const CUuuid *);
    void *found = find("cuGetExportTable");
    memcpy(&table_of, &found, sizeof table_of);
    const CUuuid id = {{1, 2, 3}};
    const void *table = &id;
    const uint64_t before = unsupported_calls();
    assert_int_equal(table_of(&table, &id), CUDA_ERROR_NOT_SUPPORTED);
    assert_int_equal(unsupported_calls(), before + 1);
    assert_null(table);
    assert_int_equal(table_of(NULL, &id), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(lines_with("-cudart shared"), 1);
}

static int load(void **state) {
    (void)state;
    const int file = mkstemp(log_path);
    if (file < 0) return -1;
    close(file);
    char asked[64];
    snprintf(asked, sizeof asked, "warn:%s", log_path);
    setenv("WEIR_LOG", asked, 1);
    if (weir__driver_load("emulated", NULL, &driver) != WEIR_OK) return -1;
    library = dlopen(driver->path, RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL) return -1;
    void *found = dlsym(library, "cuGetProcAddress_v2");
    memcpy(&look_up, &found, sizeof found);
    found = dlsym(library, "cuGetProcAddress");
    memcpy(&look_up_as_before, &found, sizeof found);
    return 0;
}

static int unload(void **state) {
    (void)state;
    return unlink(log_path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_of_the_driver_is_exported),
        cmocka_unit_test(the_lists_tell_which_entries_are_written),
        cmocka_unit_test(a_name_without_an_entry_says_so_once_and_is_counted),
        cmocka_unit_test(an_entry_is_found_by_its_version),
        cmocka_unit_test(the_per_thread_variant_is_found_when_asked_for),
        cmocka_unit_test(every_version_of_every_entry_is_found),
        cmocka_unit_test(what_is_not_there_is_told_from_what_comes_later),
        cmocka_unit_test(a_malformed_look_up_is_refused),
        cmocka_unit_test(the_driver_finds_its_own_entries_where_others_have_the_name),
        cmocka_unit_test(the_undocumented_tables_are_refused_with_the_cure),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
