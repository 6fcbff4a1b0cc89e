/* SPDX-License-Identifier: Apache-2.0 */
/* What the program, WEIR_OPTIONS and the files that it names say of a pool is what the pool gets, or is refused with the
 * place, the key and the value; programs built with an older, shorter struct go on. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc/options.h"
#include "support.h"

static char folder[] = "/tmp/weir-options-XXXXXX";

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static const char *path_of(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path_of("options"));
    unlink(path_of("pipe"));
    return rmdir(folder);
}

static void write_file(const char *text, size_t bytes) {
    FILE *file = fopen(path_of("options"), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static enum weir_status create(const char *environment, const struct weir_pool_options *options,
                               struct weir_pool **pool) {
    assert_int_equal(setenv("WEIR_OPTIONS", environment, 1), 0);
    const enum weir_status status = weir_pool_create(test_device(), options, pool);
    assert_int_equal(unsetenv("WEIR_OPTIONS"), 0);
    return status;
}

static void expect_refused(enum weir_status status, enum weir_status wanted, const char *words) {
    assert_int_equal(status, wanted);
    if (strstr(weir_last_error()->message, words) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", words, weir_last_error()->message);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

static struct weir_pool *create_with_file(const char *text) {
    char environment[600];
    struct weir_pool *pool = NULL;
    write_file(text, strlen(text));
    snprintf(environment, sizeof environment, "limit:25%%,file:%s,wait_limit:3s", path_of("options"));
    OK(create(environment, NULL, &pool));
    return pool;
}

static void a_file_counts_where_it_is_named(void **state) {
    (void)state;
    struct weir_pool *pool = create_with_file("# a pool for the tests\r\n"
                                              "\n"
                                              "  policy = footprint   # waits first\n"
                                              "limit=0.5\n"
                                              "wait_limit = 1ms\n"
                                              "movable = off\n"
                                              "name = of the file");
    assert_int_equal(pool->policy->name, WEIR_POLICY_FOOTPRINT);
    assert_int_equal(pool->limit_bytes, 32u << 20);
    assert_int_equal(pool->wait_limit_ns, 3000000000u); /* stands after the file */
    assert_false(pool->movable);
    assert_string_equal(pool->name, "of the file");
    close_pool(pool);
    pool = create_with_file("\xEF\xBB\xBFname = after a mark");
    assert_string_equal(pool->name, "after a mark");
    weir_pool_destroy(pool);
    pool = create_with_file("");
    assert_int_equal(pool->limit_bytes, 16u << 20);
    close_pool(pool);
}

static void a_malformed_file_is_refused_with_its_line(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } wrong[] = {
        {"policy = latency\n\npolcy = latency\n", ":3: unknown key 'polcy'; did you mean 'policy'?"},
        {"limit = lots", ":1: limit = lots is neither bytes"},
        {"limit = 0.5\nlimit\n", ":2: 'limit' is not key = value"},
        {"policy = latency\nlimit = 100M # or so", ":2: limit = 100M: the pool's limit of 104857600 bytes is above"},
        {"limit = 1", ":1: limit = 1: the pool's limit of 1 bytes is below one page of 16384; the whole device is 1.0"},
        {"movable = maybe # or not\n", ":1: movable = maybe is neither on nor off"},
        {"= 4\n", ":1: unknown key ''"},
        {"name =\n", ":1: name =  is empty"},
        {"file = /etc/passwd\n", ":1: file = /etc/passwd can't stand in a file"},
    };
    char environment[600];
    struct weir_pool *pool = NULL;
    snprintf(environment, sizeof environment, "file:%s", path_of("options"));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_file(wrong[i].text, strlen(wrong[i].text));
        expect_refused(create(environment, NULL, &pool), WEIR_INVALID, wrong[i].words);
        assert_non_null(strstr(weir_last_error()->message, path_of("options")));
        assert_null(pool);
    }
    static const char zeros[] = "limit = 0.5\nwait\0limit = 1s\n";
    write_file(zeros, sizeof zeros - 1);
    expect_refused(create(environment, NULL, &pool), WEIR_INVALID, ":2: the line has a zero byte");
}

static void of_a_long_path_the_end_is_said(void **state) {
    (void)state;
    char name[241], path[512], environment[600];
    struct weir_pool *pool = NULL;
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    snprintf(path, sizeof path, "%s", path_of(name));
    write_file("zzzzzzzz = 1\n", 13);
    assert_int_equal(rename(path_of("options"), path), 0);
    snprintf(environment, sizeof environment, "file:%s", path);
    expect_refused(create(environment, NULL, &pool), WEIR_INVALID,
                   "nnn:1: unknown key 'zzzzzzzz'; known are policy, limit, wait_limit, deterministic");
    assert_memory_equal(weir_last_error()->message, "...nnn", 6);
    unlink(path);
}

static void a_file_has_a_longest_line_and_a_largest_size(void **state) {
    (void)state;
    static char text[WEIR__LARGEST_FILE + 1];
    char environment[600];
    struct weir_pool *pool = NULL;
    snprintf(environment, sizeof environment, "file:%s", path_of("options"));
    memset(text, ' ', sizeof text);
    text[0] = '#';
    write_file(text, WEIR__LONGEST_VALUE);
    OK(create(environment, NULL, &pool));
    close_pool(pool);
    write_file(text, WEIR__LONGEST_VALUE + 1);
    expect_refused(create(environment, NULL, &pool), WEIR_INVALID,
                   ":1: the line is 1024 characters long, the limit is 1023");
    memset(text, '\n', sizeof text);
    write_file(text, WEIR__LARGEST_FILE);
    OK(create(environment, NULL, &pool));
    close_pool(pool);
    write_file(text, WEIR__LARGEST_FILE + 1);
    expect_refused(create(environment, NULL, &pool), WEIR_INVALID, "is larger than 65536 bytes");
}

static void what_is_no_ordinary_file_is_refused(void **state) {
    (void)state;
    char environment[2000], value[1500];
    struct weir_pool *pool = NULL;
    expect_refused(create("file:/nowhere/at/all", NULL, &pool), WEIR_SYSTEM,
                   "file:/nowhere/at/all can't be opened: No");
    expect_refused(create("file:/tmp", NULL, &pool), WEIR_INVALID, "file:/tmp is a directory");
    expect_refused(create("file:/dev/zero", NULL, &pool), WEIR_INVALID, "file:/dev/zero is not an ordinary file");
    expect_refused(create("file:", NULL, &pool), WEIR_INVALID, "names no file");
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    snprintf(environment, sizeof environment, "file:%s", path_of("pipe"));
    expect_refused(create(environment, NULL, &pool), WEIR_INVALID, "is not an ordinary file");
    memset(value, 'x', sizeof value);
    value[sizeof value - 1] = 0;
    snprintf(environment, sizeof environment, "file:%s", value);
    expect_refused(create(environment, NULL, &pool), WEIR_INVALID, "is 1504 characters long, the limit is 1023");
    snprintf(environment, sizeof environment, "file:/%.1000s", value); /* the sentence is not lost behind the path */
    expect_refused(create(environment, NULL, &pool), WEIR_SYSTEM, "can't be opened: File name too long");
    assert_null(pool);
}

/* ---- the program's struct ---------------------------------------------------------------------------------------- */

static void a_limit_may_be_a_fraction_of_the_capacity(void **state) {
    (void)state;
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.size = sizeof options, .trace_path = "", .limit_fraction = 0.25};
    OK(create("limit:0.5", &options, &pool));
    assert_int_equal(pool->limit_bytes, 16u << 20);
    close_pool(pool);
    options.limit_fraction = 1;
    OK(create("limit:0.5", &options, &pool));
    assert_int_equal(pool->limit_bytes, 64u << 20);
    close_pool(pool);
    static const double wrong[] = {-0.5, 1.0000001, 1e300, -1e-300, (double)NAN};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        options.limit_fraction = wrong[i];
        expect_refused(create("", &options, &pool), WEIR_INVALID, "limit_fraction is");
    }
    options.limit_fraction = 1e-9;
    expect_refused(create("", &options, &pool), WEIR_INVALID, "below one page of 16384");
    options.limit_fraction = 0.5;
    options.limit_bytes = 32u << 20;
    expect_refused(create("", &options, &pool), WEIR_INVALID, "only one may be given");
    assert_null(pool);
}

static void pages_are_movable_unless_someone_says_not(void **state) {
    (void)state;
    static const struct {
        const char *environment;
        enum weir_movable given;
        bool movable;
    } cases[] = {
        {"", WEIR_MOVABLE_DEFAULT, true},           {"movable:off", WEIR_MOVABLE_DEFAULT, false},
        {"movable:off", WEIR_MOVABLE_ON, true},     {"movable:on", WEIR_MOVABLE_OFF, false},
        {"movable:on", WEIR_MOVABLE_DEFAULT, true},
    };
    struct weir_pool_options options = {.size = sizeof options, .trace_path = ""};
    struct weir_pool *pool = NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        options.movable = cases[i].given;
        OK(create(cases[i].environment, &options, &pool));
        assert_int_equal(pool->movable, cases[i].movable);
        close_pool(pool);
    }
    options.movable = (enum weir_movable)3;
    expect_refused(create("", &options, &pool), WEIR_INVALID, "movable is 3");
}

static void a_name_is_one_short_line(void **state) {
    (void)state;
    char longest[WEIR__NAME_ROOM + 1];
    struct weir_pool_options options = {.size = sizeof options, .trace_path = ""};
    struct weir_pool *pool = NULL;
    OK(create("", &options, &pool));
    assert_string_equal(pool->name, "pool");
    close_pool(pool);
    options.name = "weights";
    OK(create("name:other", &options, &pool));
    assert_string_equal(pool->name, "weights");
    close_pool(pool);
    memset(longest, 'n', sizeof longest);
    longest[WEIR__NAME_ROOM - 1] = 0;
    options.name = longest;
    OK(create("", &options, &pool));
    assert_string_equal(pool->name, longest);
    close_pool(pool);
    longest[WEIR__NAME_ROOM - 1] = 'n';
    longest[WEIR__NAME_ROOM] = 0;
    expect_refused(create("", &options, &pool), WEIR_INVALID, "is longer than 63 characters");
    options.name = "";
    expect_refused(create("", &options, &pool), WEIR_INVALID, "is empty");
    options.name = "two\nlines";
    expect_refused(create("", &options, &pool), WEIR_INVALID, "has a control character");
}

static void a_history_is_a_whole_number(void **state) {
    (void)state;
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.size = sizeof options, .trace_path = ""};
    OK(create("history:1048576", &options, &pool));
    assert_int_equal(pool->history_room, 1048576);
    close_pool(pool);
    options.history = 3;
    OK(create("history:4", &options, &pool));
    assert_int_equal(pool->history_room, 3);
    close_pool(pool);
    static const char *const wrong[] = {"history:",    "history:-1",      "history:1k",
                                        "history:1.5", "history:1048577", "history:99999999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_refused(create(wrong[i], &options, &pool), WEIR_INVALID, "is not a whole number from 0 to 1048576");
    options.history = 1048577;
    expect_refused(create("", &options, &pool), WEIR_INVALID, "history is 1048577, the limit is 1048576");
}

/* A program's own header says how long its struct is; what lies behind is not read. */
static void a_shorter_struct_is_one_of_an_older_program(void **state) {
    (void)state;
    static const size_t sizes[] = {
        offsetof(struct weir_pool_options, limit_bytes),
        offsetof(struct weir_pool_options, trace_path),
        offsetof(struct weir_pool_options, deterministic),
        offsetof(struct weir_pool_options, deterministic) + 1,
        offsetof(struct weir_pool_options, limit_fraction),
        offsetof(struct weir_pool_options, movable),
        offsetof(struct weir_pool_options, name),
        offsetof(struct weir_pool_options, history),
        sizeof(struct weir_pool_options),
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct weir_pool_options *given = malloc(sizes[i]); /* exactly, so that a sanitizer sees a read behind it */
        const struct weir_pool_options whole = {.size = sizes[i], .policy = WEIR_POLICY_FOOTPRINT, .trace_path = ""};
        struct weir_pool *pool = NULL;
        assert_non_null(given);
        memcpy(given, &whole, sizes[i]);
        OK(create("", given, &pool));
        free(given);
        assert_int_equal(pool->policy->name, WEIR_POLICY_FOOTPRINT);
        assert_int_equal(pool->limit_bytes, 64u << 20);
        close_pool(pool);
    }
    struct weir_pool *pool = NULL;
    struct weir_pool_options options = {.trace_path = ""};
    static const size_t wrong[] = {0, 3, 8, 9, 17, 45, sizeof options + 8, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        options.size = wrong[i];
        expect_refused(create("", &options, &pool), WEIR_INVALID, "options->size is");
    }
}

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static void every_default_is_read_by_its_own_reader(void **state) {
    (void)state;
    struct weir__options options = {0};
#define READ_DEFAULT(key, kind, fallback, help)                                                                        \
    if (*(fallback) != 0) OK(weir__options_parse(#key ":" fallback, &options));
    WEIR__OPTION_LIST(READ_DEFAULT)
#undef READ_DEFAULT
    const struct weir__options defaults = weir__options_default();
    assert_int_equal(options.policy, WEIR_POLICY_LATENCY);
    assert_int_equal(options.wait_limit, defaults.wait_limit);
    assert_int_equal(defaults.wait_limit, 10000000000u);
    assert_string_equal(defaults.name, "pool");
    assert_int_equal(defaults.history, 0);
    assert_true(defaults.movable && !defaults.deterministic && defaults.limit.fraction == 1);
}

static void the_help_names_every_key(void **state) {
    (void)state;
#define IS_NAMED(key, kind, fallback, help)                                                                            \
    assert_non_null(strstr(weir_pool_options_help(), "\n  " #key ": " WEIR__OPTION_VALUE_##kind));
    WEIR__OPTION_LIST(IS_NAMED)
#undef IS_NAMED
}

static void a_text_can_be_checked_without_a_pool(void **state) {
    (void)state;
    OK(weir_pool_options_check(NULL));
    OK(weir_pool_options_check("policy:footprint,limit:0.5"));
    assert_int_equal(weir_pool_options_check("limit:150%"), WEIR_INVALID);
    assert_non_null(strstr(weir_last_error()->message, "limit:150% must be above 0 and at most 1"));
    assert_int_equal(weir_pool_options_check("file:/nosuch"), WEIR_SYSTEM);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_can_be_checked_without_a_pool),
        cmocka_unit_test(a_file_counts_where_it_is_named),
        cmocka_unit_test(a_malformed_file_is_refused_with_its_line),
        cmocka_unit_test(of_a_long_path_the_end_is_said),
        cmocka_unit_test(a_file_has_a_longest_line_and_a_largest_size),
        cmocka_unit_test(what_is_no_ordinary_file_is_refused),
        cmocka_unit_test(a_limit_may_be_a_fraction_of_the_capacity),
        cmocka_unit_test(pages_are_movable_unless_someone_says_not),
        cmocka_unit_test(a_name_is_one_short_line),
        cmocka_unit_test(a_history_is_a_whole_number),
        cmocka_unit_test(a_shorter_struct_is_one_of_an_older_program),
        cmocka_unit_test(every_default_is_read_by_its_own_reader),
        cmocka_unit_test(the_help_names_every_key),
    };
    return cmocka_run_group_tests_name("options", tests, make_folder, remove_folder);
}
