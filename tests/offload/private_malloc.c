/* SPDX-License-Identifier: Apache-2.0 */
/* A program that links libweir-offload.so keeps its own malloc and threads: the private jemalloc shows and overrides
 * nothing. */
#include <dlfcn.h>
#include <gnu/lib-names.h>
#include <string.h>

#include "tests/sanitized.h"
#include "world.h"

static void the_programs_malloc_is_the_c_librarys(void **state) {
    (void)state;
    if (SANITIZED) {
        print_message("skipped: a sanitizer has a malloc of its own\n");
        skip();
    }
    void *libc = dlopen(LIBC_SO, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(libc);
    const char *const names[] = {"malloc",        "calloc",         "realloc",        "free",
                                 "aligned_alloc", "posix_memalign", "pthread_create", "malloc_usable_size"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_ptr_equal(dlsym(RTLD_DEFAULT, names[i]), dlsym(libc, names[i]));
    dlclose(libc);
}

static void no_name_of_jemalloc_is_visible(void **state) {
    (void)state;
    const char *const names[] = {"mallocx",          "dallocx",          "mallctl", "malloc_conf",
                                 "weir__je_mallocx", "weir__je_mallctl", "_Znwm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *at = dlsym(RTLD_DEFAULT, names[i]);
        Dl_info info = {0};
        if (at != NULL && dladdr(at, &info) != 0) /* a sanitizer brings a _Znwm */
            assert_null(strstr(info.dli_fname, "libweir"));
    }
    assert_non_null(
        dlsym(RTLD_DEFAULT, "weir_host_pool_alloc")); /* the library is there, so the above says something */
}

static void small_blocks_come_from_the_pool_not_from_malloc(void **state) {
    (void)state;
    struct world world;
    void *block;
    world_open(&world, (struct world_options){0});
    assert_ok(weir_host_pool_alloc(world.host, 100, &block));
    assert_true(weir_host_pool_span(world.host, block) >= 100);
    weir_host_pool_free(world.host, block);
    world_close(&world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_programs_malloc_is_the_c_librarys),
        cmocka_unit_test(no_name_of_jemalloc_is_visible),
        cmocka_unit_test(small_blocks_come_from_the_pool_not_from_malloc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
