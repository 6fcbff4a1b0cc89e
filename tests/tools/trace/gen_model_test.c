/* SPDX-License-Identifier: Apache-2.0 */
/* Generated traces against those of the Python model of the same steps. With all that is random switched off both give
 * the same operations, one by one. With it, as many of each kind within 2 %, and a peak of live bytes that other seeds
 * have too. WEIR_SHARED is the folder with the model and some of its traces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/trace/gen_families.h"
#include "tools/trace/trace.h"

enum { KINDS = OP_ITERATION + 1, SEEDS = 6 };

static char folder[] = "/tmp/weir-gen-model-XXXXXX";
static char ours_path[64];

static int make_folder(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(ours_path, sizeof ours_path, "%s/ours.trace", folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    unlink(ours_path);
    return rmdir(folder);
}

static void need(const char *what, bool there) {
    if (there) return;
    print_message("%s is not there: SKIPPED\n", what);
    skip();
}

static void read_trace(const char *from, struct trace *trace) {
    char why[512];
    if (!trace_read(from, trace, why, sizeof why)) fail_msg("%s", why);
}

/* ---- without what is random -------------------------------------------------------------------------------------- */

static const char *const even[GEN_MODELS] = {
    "imbalance=0 hot=0 small=0 muon=False varlen=False layers=3 iters=2 prefetch=2",
    "varlen=None evals=0 layers=2 iters=2",
};
static const char *const even_accumulated[GEN_MODELS] = {
    "imbalance=0 hot=0 small=0 muon=False varlen=False layers=3 iters=2 accum=2 shared=0 ce_chunks=1 ep_meta=True "
    "offload=True offload_keep=1",
    "varlen=None evals=0 layers=3 iters=2 accum=2 pbytes=4 ce_fp32=False ac=False",
};

/* Has the model write FAMILY.trace into the folder for each of its families, under these settings. */
static void generate_theirs(const char *const changes[GEN_MODELS]) {
    static const char program[] =
        "import sys, ast\n"
        "sys.dont_write_bytecode = True\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "import tracegen\n"
        "def value(text):\n"
        "    try: return ast.literal_eval(text)\n"
        "    except (ValueError, SyntaxError): return text\n"
        "def settings(text): return {k: value(v) for k, v in (word.split(\"=\") for word in text.split())}\n"
        "for name, (model, *rest) in tracegen.FAMILIES.items():\n"
        "    with open(f\"{sys.argv[2]}/{name}.trace\", \"w\") as out:\n"
        "        tracegen.generate(name, 1, out, settings(sys.argv[3 if model is tracegen.MoE else 4]))\n";
    char command[2500];
    snprintf(command, sizeof command, "python3 -c '%s' '%s' '%s' '%s' '%s'", program, getenv("WEIR_SHARED"), folder,
             changes[GEN_MOE], changes[GEN_DENSE]);
    const int status = system(command);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail_msg("%s", command);
}

static void generate_ours(const struct gen_family *family, const char *changes) {
    char together[1000], why[512];
    struct gen_settings settings;
    struct gen_figures figures;
    snprintf(together, sizeof together, "%s %s", family->settings, changes);
    gen_settings_start(&settings, family->model, together);
    if (gen_family_write(family, 1, &settings, ours_path, &figures, why, sizeof why) != 0) fail_msg("%s", why);
}

/* Times are written with one decimal, and may be rounded otherwise. */
static bool same_op(const struct op *ours, const struct op *theirs) {
    if (ours->kind != theirs->kind || ours->stream != theirs->stream) return false;
    if (ours->block != theirs->block || ours->event != theirs->event) return false;
    const uint64_t larger = ours->bytes > theirs->bytes ? ours->bytes : theirs->bytes;
    return 2 * larger - ours->bytes - theirs->bytes <= (ours->kind == OP_WORK ? 100 : 0);
}

/* Removes their trace. */
static void assert_same_operations(const char *name) {
    struct trace ours, theirs;
    char theirs_path[200];
    snprintf(theirs_path, sizeof theirs_path, "%s/%s.trace", folder, name);
    read_trace(ours_path, &ours);
    read_trace(theirs_path, &theirs);
    unlink(theirs_path);
    for (size_t i = 0; i < ours.op_count && i < theirs.op_count; i++)
        if (!same_op(&ours.ops[i], &theirs.ops[i]))
            fail_msg("%s differs: line %u here, line %u there", name, ours.ops[i].line, theirs.ops[i].line);
    if (ours.op_count != theirs.op_count) fail_msg("%s: %zu and %zu operations", name, ours.op_count, theirs.op_count);
    assert_int_equal(ours.peak_live_bytes, theirs.peak_live_bytes);
    trace_free(&ours);
    trace_free(&theirs);
}

static void assert_same_under(const char *const changes[GEN_MODELS]) {
    char model[300];
    snprintf(model, sizeof model, "%s/tracegen.py", getenv("WEIR_SHARED"));
    need(model, access(model, R_OK) == 0);
    need("python3", system("python3 -c '' 2>/dev/null") == 0);
    generate_theirs(changes);
    for (size_t i = 0; i < gen_family_count; i++) {
        generate_ours(&gen_families[i], changes[gen_families[i].model]);
        assert_same_operations(gen_families[i].name);
    }
}

static void without_randomness_the_operations_are_those_of_the_model(void **state) {
    (void)state;
    assert_same_under(even);
}

static void also_with_accumulation_and_less_usual_settings(void **state) {
    (void)state;
    assert_same_under(even_accumulated);
}

/* ---- with it ----------------------------------------------------------------------------------------------------- */

static void count_kinds(const char *from, size_t counts[KINDS], uint64_t *peak_bytes) {
    struct trace trace;
    read_trace(from, &trace);
    memset(counts, 0, KINDS * sizeof *counts);
    for (size_t i = 0; i < trace.op_count; i++) counts[trace.ops[i].kind]++;
    *peak_bytes = trace.peak_live_bytes;
    trace_free(&trace);
}

static uint64_t generate(const struct gen_family *family, uint64_t seed, const char *to) {
    struct gen_settings settings;
    struct gen_figures figures;
    char why[512];
    gen_settings_start(&settings, family->model, family->settings);
    if (gen_family_write(family, seed, &settings, to, &figures, why, sizeof why) != 0) fail_msg("%s", why);
    return (uint64_t)figures.peak_live_bytes;
}

/* The model's peak lies where those of some seeds lie, give or take 2 %, or 6 % where lengths vary: a run has a
 * handful of steps, and the largest makes the peak. Without randomness it is the same. */
static void assert_peak(const struct gen_family *family, uint64_t theirs) {
    const uint64_t parts = strstr(family->settings, "varlen") != NULL ? 16 : 50;
    uint64_t least = UINT64_MAX, most = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const uint64_t peak = generate(family, seed, "/dev/null");
        if (peak < least) least = peak;
        if (peak > most) most = peak;
    }
    if (least == most) assert_int_equal(theirs, least);
    if (theirs < least - least / parts || theirs > most + most / parts)
        fail_msg("%s: peak %ju, expected from %ju to %ju", family->name, (uintmax_t)theirs, (uintmax_t)least,
                 (uintmax_t)most);
}

static void assert_counts(const struct gen_family *family, const char *from) {
    size_t ours[KINDS], theirs[KINDS];
    uint64_t our_peak, their_peak;
    generate(family, 1, ours_path);
    count_kinds(ours_path, ours, &our_peak);
    count_kinds(from, theirs, &their_peak);
    for (int kind = 0; kind < KINDS; kind++) {
        const double apart = (double)ours[kind] - (double)theirs[kind], allowed = family->model == GEN_MOE ? 0.02 : 0;
        if (apart > allowed * (double)theirs[kind] || -apart > allowed * (double)theirs[kind])
            fail_msg("%s: %zu operations of kind %d, the model has %zu", family->name, ours[kind], kind, theirs[kind]);
    }
    assert_peak(family, their_peak);
}

static void whole_traces_have_the_counts_and_peaks_of_the_model_s(void **state) {
    (void)state;
    char directory[300], from[600];
    snprintf(directory, sizeof directory, "%s/traces/gen", getenv("WEIR_SHARED"));
    DIR *traces = opendir(directory);
    need(directory, traces != NULL);
    int compared = 0;
    for (struct dirent *entry; (entry = readdir(traces)) != NULL;) {
        char *ending = strstr(entry->d_name, "-s1.trace.gz");
        if (ending == NULL) continue;
        snprintf(from, sizeof from, "%s/%s", directory, entry->d_name);
        *ending = '\0';
        const char *nearest;
        const struct gen_family *family = gen_family_find(entry->d_name, &nearest);
        if (family == NULL) fail_msg("no family %s", entry->d_name);
        assert_counts(family, from);
        compared++;
    }
    closedir(traces);
    need("a trace of the model", compared > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_randomness_the_operations_are_those_of_the_model),
        cmocka_unit_test(also_with_accumulation_and_less_usual_settings),
        cmocka_unit_test(whole_traces_have_the_counts_and_peaks_of_the_model_s),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
