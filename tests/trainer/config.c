/* SPDX-License-Identifier: Apache-2.0 */
/* What a configuration takes, and the sentence with which it refuses the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "trainer/config.h"

static struct config config;
static char message[512];

static int parse(const char *const *flags) {
    char *argv[16] = {"weir-train"};
    int argc = 1;
    for (; flags[argc - 1]; argc++) argv[argc] = (char *)(uintptr_t)flags[argc - 1];
    memset(message, 0, sizeof message);
    return config_parse(&config, argc, argv, message, sizeof message);
}

#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})

static void write_file(char *path, const char *text, size_t length) {
    strcpy(path, "/tmp/weir-config-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, length), length);
    close(fd);
}

static int read_yaml(const char *text) {
    char path[64];
    write_file(path, text, strlen(text));
    config_defaults(&config);
    memset(message, 0, sizeof message);
    int status = config_read_yaml(&config, path, message, sizeof message);
    unlink(path);
    return status;
}

static void says(const char *what) {
    if (!strstr(message, what)) fail_msg("wanted \"%s\", but the sentence is \"%s\"", what, message);
    assert_null(strchr(message, '\n'));
}

static void flags_set_what_they_name(void **state) {
    (void)state;
    assert_int_equal(PARSE("--steps=7", "--lr", "3e-4", "--kv-heads=4", "--limit=1.5G", "--capacity", "48M",
                           "--offload", "--no-progress", "--policy=per-stream", "--timeline=on", "--data=a b"),
                     0);
    assert_int_equal(config.steps, 7);
    assert_true(config.lr == 3e-4);
    assert_int_equal(config.kv_heads, 4);
    assert_int_equal(config.limit, (size_t)3 << 29);
    assert_int_equal(config.capacity, 48 << 20);
    assert_true(config.offload && !config.progress && config.timeline);
    assert_string_equal(config.policy, "per-stream");
    assert_string_equal(config.data, "a b");
    assert_int_equal(config.seq, 128); /* what is not named keeps its default */
    assert_true(config.validation == 0.05);
}

static void flags_win_over_the_file_wherever_they_stand(void **state) {
    (void)state;
    char path[64], flag[80];
    const char *text = "train: { steps: 5, batch: 3 }\n";
    write_file(path, text, strlen(text));
    snprintf(flag, sizeof flag, "--config=%s", path);
    assert_int_equal(PARSE("--steps=9", flag), 0);
    assert_int_equal(config.steps, 9);
    assert_int_equal(config.batch, 3);
    assert_int_equal(PARSE("--config", path, "--batch=8"), 0);
    assert_int_equal(config.steps, 5);
    assert_int_equal(config.batch, 8);
    unlink(path);
}

static void wrong_flags_are_refused_in_one_sentence(void **state) {
    (void)state;
    static const struct {
        const char *flags[3], *sentence;
    } cases[] = {
        {{"--stepps=3"}, "unknown option --stepps; the nearest known one is --steps"},
        {{"--polcy", "latency"}, "unknown option --polcy; the nearest known one is --policy"},
        {{"--kv_heads=2"}, "unknown option --kv_heads; the nearest known one is --kv-heads"},
        {{"--no-offlaod"}, "unknown option --no-offlaod"},
        {{"--zzzzzzzzzz"}, "unknown option --zzzzzzzzzz; weir-train --help"},
        {{"--steps=many"}, "--steps is \"many\", but a whole number is expected"},
        {{"--steps=3.5"}, "--steps is \"3.5\", but a whole number is expected"},
        {{"--steps="}, "--steps is \"\", but a whole number is expected"},
        {{"--steps= 3"}, "but a whole number is expected"},
        {{"--steps=3 "}, "but a whole number is expected"},
        {{"--steps=0x10"}, "but a whole number is expected"},
        {{"--steps=99999999999999999999"}, "but a whole number is expected"},
        {{"--steps=-1"}, "--steps is -1, outside its range 0 to 1e+09 steps"},
        {{"--steps"}, "--steps needs a value"},
        {{"--layers=0"}, "--layers is 0, outside its range 1 to 512 layers"},
        {{"--lr=nan"}, "--lr is \"nan\", but a number is expected"},
        {{"--lr=inf"}, "but a number is expected"},
        {{"--lr=1e999"}, "but a number is expected"},
        {{"--lr=2"}, "--lr is 2, outside its range 0 to 1"},
        {{"--validation=0.6"}, "--validation is 0.6, outside its range 0 to 0.5 fraction"},
        {{"--limit=12Q"}, "--limit is \"12Q\", but bytes are expected"},
        {{"--limit=-5"}, "but bytes are expected"},
        {{"--limit=1e300G"}, "but bytes are expected"},
        {{"--limit=0.3"}, "but bytes are expected"},
        {{"--policy=fast"}, "--policy is \"fast\", but it is one of latency|footprint|per-stream"},
        {{"--policy=lat"}, "but it is one of"},
        {{"--policy=latency|footprint"}, "but it is one of"},
        {{"--policy="}, "but it is one of"},
        {{"--offload=maybe"}, "--offload is \"maybe\", but it is on or off"},
        {{"--no-offload=on"}, "--no-offload takes no value"},
        {{"train"}, "unexpected argument \"train\""},
        {{"--"}, "unexpected argument \"--\""},
        {{"-x"}, "unexpected argument \"-x\""},
        {{"--config"}, "--config needs the name of a file"},
        {{"--config=/no/such/file"}, "/no/such/file can't be read: No such file or directory"},
        {{"--config=/tmp"}, "/tmp is not an ordinary file, which a configuration has to be"},
        {{"--data=\xff\xfe"}, "--data is not UTF-8 text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(parse(cases[i].flags), 2);
        says(cases[i].sentence);
    }
}

static void a_value_that_is_too_long_is_refused(void **state) {
    (void)state;
    char flag[2000] = "--data=";
    memset(flag + 7, 'x', 600);
    assert_int_equal(PARSE(flag), 2);
    says("--data has 600 characters, more than the 511 that it may have");
    memcpy(flag, "--stepx", 7);
    assert_int_equal(PARSE(flag), 2);
    memcpy(flag, "--steps=", 8);
    assert_int_equal(PARSE(flag), 2);
    says("xxx...\", but a whole number is expected");
}

static void wrong_files_are_refused_with_line_and_key(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"train:\n  stepps: 3\n", "line 2: unknown key \"stepps\" in section train; the nearest known one is steps"},
        {"trian: { steps: 3 }\n", "line 1: unknown section \"trian\"; the nearest known one is train"},
        {"model: { steps: 3 }\n", "line 1: key \"steps\" stands in section model, but it belongs to train"},
        {"train:\n  steps: 3\n  lr: 1e-3\n  steps: 4\n", "line 4: key train.steps is given twice; first in line 2"},
        {"train: { steps: 3 }\ntrain: { steps: 4 }\n", "line 2: key train.steps is given twice; first in line 1"},
        {"train:\n  steps: [1, 2]\n", "line 2: train.steps is a list, but one value is expected"},
        {"train:\n  steps: { a: 1 }\n", "line 2: train.steps is a mapping, but one value is expected"},
        {"train:\n  steps: three\n", "line 2: train.steps is \"three\", but a whole number is expected"},
        {"train:\n  steps:\n", "train.steps is \"\", but a whole number is expected"},
        {"train:\n  lr: 7\n", "line 2: train.lr is 7, outside its range 0 to 1"},
        {"train: 5\n", "line 1: section train is one value, but a mapping of keys is expected"},
        {"train: [steps]\n", "line 1: section train is a list, but a mapping of keys is expected"},
        {"- train\n", "line 1: sections are expected"},
        {"steps\n", "line 1: sections are expected"},
        {"[a]: { steps: 3 }\n", "a section's name is a list"},
        {"train: { steps: 3 }\n---\ntrain: { steps: 4 }\n", "line 2: a second document starts"},
        {"train: { steps: *many }\n", "train.steps is an alias"},
        {"train: { steps: 3\n", "this is not YAML"},
        {"train:\n\tsteps: 3\n", "line 2: this is not YAML"},
        {"\xff\xff\n", "this is not YAML"},
        {"train: { \"a\\0b\": 3 }\n", "a key has a zero byte in it"},
        {"report: { json: \"a\\0b\" }\n", "report.json has a zero byte in it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(read_yaml(cases[i][0]), 2);
        says(cases[i][1]);
    }
}

static void files_without_anything_to_say_are_taken(void **state) {
    (void)state;
    static const char *const cases[] = {"", "# nothing\n", "---\n", "train:\n", "train: {}\n", "{}\n"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) assert_int_equal(read_yaml(cases[i]), 0);
}

static void a_file_without_end_is_refused(void **state) {
    (void)state;
    char path[64], *text = malloc(3 << 20);
    memset(text, ' ', 3 << 20);
    memcpy(text, "#", 1);
    write_file(path, text, 3 << 20);
    assert_int_equal(config_read_yaml(&config, path, message, sizeof message), 2);
    says("is larger than the 1048576 bytes that a configuration may have");
    unlink(path);
    free(text);
}

/* The launcher would take what the ranks then lack. */
static void what_can_be_read_only_once_is_refused(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/tmp/weir-pipe-%ld", (long)getpid());
    assert_int_equal(mkfifo(path, 0600), 0);
    const char *const cases[] = {"/dev/zero", "/dev/null", "/tmp", path};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(config_read_yaml(&config, cases[i], message, sizeof message), 2);
        says("is not an ordinary file");
    }
    unlink(path);
}

/* Every key differs from its default and is awkward where it can be. */
static void a_dump_reads_back_to_the_same_configuration(void **state) {
    (void)state;
    assert_int_equal(PARSE("--data=a \"b\" \\ #: 'c'\t\n\x01 \xc3\xbc\xe2\x80\xa8\xf0\x9f\x98\x80",
                           "--name= leading, [x]: {y}", "--lr=0.1", "--decay=0.30000000000000004", "--clip=1e-7",
                           "--limit=1234567890123", "--policy=footprint", "--offload", "--no-progress",
                           "--seed=2147483647", "--wire=fp32"),
                     0);
    struct config given = config;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    config_dump(&given, out);
    fclose(out);
    assert_int_equal(read_yaml(text), 0);
    assert_memory_equal(&given, &config, sizeof config);
    free(text);
}

static void the_help_names_every_option_with_its_default(void **state) {
    (void)state;
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    config_help(out);
    fclose(out);
    static const char *const lines[] = {"--steps=N",
                                        "training steps [steps, 0 to 1000000000; default 200]",
                                        "--[no-]offload",
                                        "[default off]",
                                        "latency|footprint|per-stream; default latency",
                                        "--kv-heads=N",
                                        "\nmemory:\n",
                                        "default 0.05",
                                        "--data=FILE"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        if (!strstr(text, lines[i])) fail_msg("\"%s\" is not in the help", lines[i]);
#define IN_HELP(section, key, ...) assert_non_null(strstr(text, "\n" #section ":\n"));
    CONFIG_LIST(IN_HELP, IN_HELP, IN_HELP, IN_HELP, IN_HELP, IN_HELP)
#undef IN_HELP
    free(text);
}

static void values_that_do_not_go_together_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *flags[3], *sentence;
    } cases[] = {
        {{"--ranks=6", "--ep=4"}, "--ep is 4, which does not divide --ranks, 6"},
        {{"--experts=7"}, "--ep is 2, which does not divide --experts, 7"},
        {{"--heads=3"}, "--heads is 3, which does not divide --dim, 128"},
        {{"--kv-heads=3"}, "--kv-heads is 3, which does not divide --heads, 4"},
        {{"--dim=12", "--heads=4"}, "gives heads of width 3; rotary embedding needs an even width"},
        {{"--top-k=9"}, "--top-k is 9, more than --experts, 8"},
        {{"--validation=0"}, "--validation is 0, so that no text is left"},
        {{"--timeline"}, "--timeline is kept in the report of --json, which is not given"},
        {{"--routes-save=r", "--routes-replay=r"}, "--routes-save and --routes-replay are both r; it would be emptied"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(parse(cases[i].flags), 0);
        assert_int_equal(config_check(&config, message, sizeof message), 2);
        says(cases[i].sentence);
    }
    config_defaults(&config);
    assert_int_equal(config_check(&config, message, sizeof message), 0);
}

/* Changed copies of a good file are taken or refused in one sentence; the sanitizers watch. WEIR_SEED sets the seed. */
static void changed_files_never_do_harm(void **state) {
    (void)state;
    static const char good[] = "# a run\ntrain:\n  steps: 30\n  lr: 2e-3\n  optimizer: \"muon\"\nmemory: {offload: on, "
                               "limit: 1.5G, policy: per-stream}\nreport:\n  name: 'it''s'\n  json: |\n    a\n";
    const char *seed_text = getenv("WEIR_SEED");
    unsigned seed = seed_text ? (unsigned)atoi(seed_text) : 1, taken = 0;
    print_message("WEIR_SEED=%u\n", seed);
    for (int round = 0; round < 2000; round++) {
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        for (int change = 0; change < 1 + round % 4; change++) {
            size_t at = (size_t)rand_r(&seed) % (sizeof good - 1);
            text[at] =
                (char)(rand_r(&seed) % 3 ? good[(size_t)rand_r(&seed) % (sizeof good - 1)] : 1 + rand_r(&seed) % 255);
        }
        int status = read_yaml(text);
        assert_true(status == 0 || (status == 2 && *message && !strchr(message, '\n')));
        taken += status == 0;
    }
    assert_true(taken > 20 && taken < 1900); /* else the changes are too wild, or nothing is refused */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags_set_what_they_name),
        cmocka_unit_test(flags_win_over_the_file_wherever_they_stand),
        cmocka_unit_test(wrong_flags_are_refused_in_one_sentence),
        cmocka_unit_test(a_value_that_is_too_long_is_refused),
        cmocka_unit_test(wrong_files_are_refused_with_line_and_key),
        cmocka_unit_test(files_without_anything_to_say_are_taken),
        cmocka_unit_test(a_file_without_end_is_refused),
        cmocka_unit_test(what_can_be_read_only_once_is_refused),
        cmocka_unit_test(a_dump_reads_back_to_the_same_configuration),
        cmocka_unit_test(the_help_names_every_option_with_its_default),
        cmocka_unit_test(values_that_do_not_go_together_are_refused),
        cmocka_unit_test(changed_files_never_do_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
