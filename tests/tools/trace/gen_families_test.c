/* SPDX-License-Identifier: Apache-2.0 */
/* Every family, at a reduced size, gives a trace that the reader accepts, that ends as it should and that depends on
 * its seed alone; settings are refused with key, value and limit. WEIR_DOCS is the folder of guides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/trace/gen_families.h"
#include "tools/trace/trace.h"

static char folder[] = "/tmp/weir-gen-families-XXXXXX";
static char path[64], other_path[64];

static int make_folder(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(path, sizeof path, "%s/one.trace", folder);
    snprintf(other_path, sizeof other_path, "%s/other.trace", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(path);
    unlink(other_path);
    return rmdir(folder);
}

static struct gen_settings reduced(const struct gen_family *family) {
    struct gen_settings settings;
    char why[256];
    gen_settings_start(&settings, family->model, family->settings);
    assert_true(gen_settings_set(&settings, "layers=4", why, sizeof why));
    assert_true(gen_settings_set(&settings, "iters=2", why, sizeof why));
    return settings;
}

static struct gen_figures generate(const struct gen_family *family, uint64_t seed, const char *to) {
    struct gen_settings settings = reduced(family);
    struct gen_figures figures;
    char why[512];
    if (gen_family_write(family, seed, &settings, to, &figures, why, sizeof why) != 0) fail_msg("%s", why);
    return figures;
}

static void read_trace(const char *from, struct trace *trace) {
    char why[512];
    if (!trace_read(from, trace, why, sizeof why)) fail_msg("%s", why);
}

/* Blocks that are live after all operations. */
static int64_t left_live(const struct trace *trace) {
    int64_t live = 0;
    for (size_t i = 0; i < trace->op_count; i++)
        live += (trace->ops[i].kind == OP_ALLOC) - (trace->ops[i].kind == OP_FREE);
    return live;
}

static bool synchronised_before_the_last_frees(const struct trace *trace) {
    size_t last = trace->op_count;
    while (last > 0 && trace->ops[last - 1].kind == OP_FREE) last--;
    return last > 0 && last < trace->op_count && trace->ops[last - 1].kind == OP_SYNC_DEVICE;
}

static void every_family_gives_a_trace_that_the_reader_accepts(void **state) {
    (void)state;
    for (size_t i = 0; i < gen_family_count; i++) {
        struct gen_figures figures = generate(&gen_families[i], 1, path);
        struct trace trace;
        read_trace(path, &trace);
        assert_int_equal(trace.op_count, figures.operations);
        assert_int_equal(trace.block_count, figures.allocations);
        assert_int_equal(trace.peak_live_bytes, figures.peak_live_bytes);
        assert_int_equal(trace.iteration_count, 2);
        assert_true(trace.has_work);
        assert_int_equal(trace.stream_count <= (gen_families[i].model == GEN_MOE ? 7 : 1), 1);
        assert_string_equal(trace.stream_names[0], "compute");
        assert_int_equal(left_live(&trace), 0);
        assert_true(synchronised_before_the_last_frees(&trace));
        trace_free(&trace);
    }
}

static size_t read_bytes(const char *from, char **content) {
    FILE *file = fopen(from, "rb");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    const size_t bytes = (size_t)ftell(file);
    rewind(file);
    *content = malloc(bytes + 1);
    assert_non_null(*content);
    assert_int_equal(fread(*content, 1, bytes, file), bytes);
    fclose(file);
    return bytes;
}

/* Whether both files say the same after their comments. */
static bool same_operations(void) {
    char *one, *other;
    const size_t bytes = read_bytes(path, &one), other_bytes = read_bytes(other_path, &other);
    one[bytes] = other[other_bytes] = '\0';
    const char *from = strstr(one, "\nm "), *other_from = strstr(other, "\nm ");
    assert_non_null(from);
    assert_non_null(other_from);
    const bool same = strcmp(from, other_from) == 0;
    free(one);
    free(other);
    return same;
}

static bool has_random_part(const struct gen_family *family) {
    return family->model == GEN_MOE || strstr(family->settings, "varlen=") != NULL;
}

static void the_same_seed_gives_the_same_bytes_and_another_seed_others(void **state) {
    (void)state;
    for (size_t i = 0; i < gen_family_count; i++) {
        char *one, *other;
        generate(&gen_families[i], 7, path);
        generate(&gen_families[i], 7, other_path);
        const size_t bytes = read_bytes(path, &one), other_bytes = read_bytes(other_path, &other);
        assert_int_equal(bytes, other_bytes);
        assert_memory_equal(one, other, bytes);
        free(one);
        free(other);
        if (!has_random_part(&gen_families[i])) continue;
        generate(&gen_families[i], 9, other_path);
        if (same_operations()) fail_msg("%s", gen_families[i].name);
    }
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static void assert_refused(enum gen_model model, const char *assignment, const char *sentence) {
    struct gen_settings settings, before;
    char why[256] = "", changed[256];
    gen_settings_start(&settings, model, "");
    gen_settings_start(&before, model, "");
    assert_false(gen_settings_set(&settings, assignment, why, sizeof why));
    assert_string_equal(why, sentence);
    gen_settings_difference(&settings, &before, changed, sizeof changed);
    assert_string_equal(changed, "");
}

static void a_value_past_its_limits_is_refused_with_key_value_and_limit(void **state) {
    (void)state;
    assert_refused(GEN_MOE, "layers=1000000", "layers is '1000000', expected a whole number from 1 to 1024");
    assert_refused(GEN_MOE, "batch=0", "batch is '0', expected a whole number from 1 to 4096");
    assert_refused(GEN_MOE, "iters=5x", "iters is '5x', expected a whole number from 1 to 100000");
    assert_refused(GEN_MOE, "iters=99999999999999999999",
                   "iters is '99999999999999999999', expected a whole number from 1 to 100000");
    assert_refused(GEN_MOE, "imbalance=nan", "imbalance is 'nan', expected a number from 0 to 4");
    assert_refused(GEN_MOE, "hot=-0.1", "hot is '-0.1', expected a number from 0 to 4");
    assert_refused(GEN_MOE, "record=maybe", "record is 'maybe', expected True or False");
    assert_refused(GEN_MOE, "fsdp=fsdp3", "fsdp is 'fsdp3', expected fsdp1 or fsdp2");
    assert_refused(GEN_MOE, "varlen=6.6,0.8", "varlen is '6.6,0.8', expected True or False");
    assert_refused(GEN_DENSE, "varlen=True", "varlen is 'True', expected MEAN,DEVIATION, each from 0 to 100, or None");
    assert_refused(GEN_DENSE, "varlen=(6.6,0.8",
                   "varlen is '(6.6,0.8', expected MEAN,DEVIATION, each from 0 to 100, or None");
    assert_refused(GEN_MOE, "seq=", "seq is '', expected a whole number from 1 to 16777216");
}

static void an_unknown_key_is_refused_with_the_nearest_of_the_model(void **state) {
    (void)state;
    assert_refused(GEN_MOE, "layer=3", "a mixture of experts has no parameter 'layer'; did you mean layers?");
    assert_refused(GEN_MOE, "rank=3", "a mixture of experts has no parameter 'rank' (--help lists them)");
    assert_refused(GEN_DENSE, "qqqqqq=3", "a GPT has no parameter 'qqqqqq' (--help lists them)");
    assert_refused(GEN_DENSE, "layers", "--set is 'layers', expected KEY=VALUE");
    assert_refused(GEN_DENSE, "=3", "--set is '=3', expected KEY=VALUE");
}

static void lengths_are_read_with_or_without_brackets(void **state) {
    (void)state;
    const char *const forms[] = {"varlen=6.6,0.8", "varlen=(6.6, 0.8)"};
    for (int i = 0; i < 2; i++) {
        struct gen_settings settings;
        char why[256];
        gen_settings_start(&settings, GEN_DENSE, "");
        assert_false(settings.varlen.vary);
        if (!gen_settings_set(&settings, forms[i], why, sizeof why)) fail_msg("%s", why);
        assert_true(settings.varlen.vary && settings.varlen.mean == 6.6 && settings.varlen.deviation == 0.8);
    }
}

static void more_tokens_than_a_trace_can_hold_are_refused(void **state) {
    (void)state;
    struct gen_settings settings;
    char why[256];
    gen_settings_start(&settings, GEN_MOE, "seq=16777216 batch=17");
    assert_false(gen_settings_check(&settings, why, sizeof why));
    assert_string_equal(why, "seq=16777216 times batch=17 is 285212672 tokens, expected at most 268435456");
    gen_settings_start(&settings, GEN_MOE, "seq=16777216 batch=16");
    assert_true(gen_settings_check(&settings, why, sizeof why));
    gen_settings_start(&settings, GEN_DENSE, "maxlen=1048576 batch=257");
    assert_false(gen_settings_check(&settings, why, sizeof why));
}

static void a_trace_that_would_be_too_large_leaves_no_file(void **state) {
    (void)state;
    struct gen_settings settings;
    struct gen_figures figures;
    char why[512];
    unlink(path);
    gen_settings_start(&settings, GEN_MOE, "seq=16777216 batch=16 d=131072 layers=64");
    const struct gen_family *family = &gen_families[0];
    assert_int_equal(gen_family_write(family, 1, &settings, path, &figures, why, sizeof why), 2);
    assert_non_null(strstr(why, "live at once"));
    assert_int_equal(access(path, F_OK), -1);
}

static void the_difference_names_what_was_set_and_can_be_read_again(void **state) {
    (void)state;
    struct gen_settings settings, base;
    char text[512];
    gen_settings_start(&base, GEN_DENSE, "varlen=6.6,0.8");
    gen_settings_start(&settings, GEN_DENSE, "varlen=(7.5,0.25) layers=3 ac=1 train=lora");
    gen_settings_difference(&settings, &base, text, sizeof text);
    assert_string_equal(text, " --set layers=3 --set varlen=7.5,0.25 --set ac=True --set train=lora");
    gen_settings_difference(&base, &base, text, sizeof text);
    assert_string_equal(text, "");
}

/* ---- the guide --------------------------------------------------------------------------------------------------- */

static void the_guide_names_every_family_and_every_parameter(void **state) {
    (void)state;
    char guide[300], *content, word[80];
    snprintf(guide, sizeof guide, "%s/gen.md", getenv("WEIR_DOCS"));
    const size_t bytes = read_bytes(guide, &content);
    content[bytes] = '\0';
    for (size_t i = 0; i < gen_family_count; i++) {
        snprintf(word, sizeof word, "`%s`", gen_families[i].name);
        if (strstr(content, word) == NULL) fail_msg("%s", word);
    }
#define KEY(type, key, ...)                                                                                            \
    if (strstr(content, "`" #key "`") == NULL) fail_msg("%s", #key);
    GEN_PARAMETERS(KEY)
    free(content);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_family_gives_a_trace_that_the_reader_accepts),
        cmocka_unit_test(the_same_seed_gives_the_same_bytes_and_another_seed_others),
        cmocka_unit_test(a_value_past_its_limits_is_refused_with_key_value_and_limit),
        cmocka_unit_test(an_unknown_key_is_refused_with_the_nearest_of_the_model),
        cmocka_unit_test(lengths_are_read_with_or_without_brackets),
        cmocka_unit_test(more_tokens_than_a_trace_can_hold_are_refused),
        cmocka_unit_test(a_trace_that_would_be_too_large_leaves_no_file),
        cmocka_unit_test(the_difference_names_what_was_set_and_can_be_read_again),
        cmocka_unit_test(the_guide_names_every_family_and_every_parameter),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
