/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tools/demo/fixture.h"

#include <stdlib.h>

json_t *fixture_json(const char *name) {
    char path[512];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", FIXTURES, name);
    json_t *json = json_load_file(path, 0, &error);
    if (!json) fail_msg("%s: %s", path, error.text);
    return json;
}

struct run fixture_run(const char *file, const char *name) {
    struct run run;
    char message[DEMO_MESSAGE_ROOM] = "";
    json_t *json = fixture_json(file);
    if (!run_read(&run, json, message)) fail_msg("%s: %s", file, message);
    json_decref(json);
    snprintf(run.name, sizeof run.name, "%s", name);
    return run;
}

void fixture_demo_make(struct fixture_demo *fixture) {
    *fixture = (struct fixture_demo){
        .measured = fixture_run("run_completed.json", "measuring"),
        .per_stream = fixture_run("run_out_of_memory.json", "per-stream"),
        .weir = fixture_run("run_completed.json", "weir"),
        .offload = fixture_run("run_completed.json", "weir+offload"),
        .without = fixture_run("run_out_of_memory.json", "weir, batch 10"),
    };
    fixture->per_stream.min_capacity_ratio = 1.41;
    fixture->weir.min_capacity_ratio = 1.004;
    fixture->offload.batch = fixture->without.batch = 10;
    fixture->offload.offload = true;
    fixture->demo = (struct demo){
        .runs = {&fixture->per_stream, &fixture->weir, &fixture->offload, &fixture->without},
        .measured = &fixture->measured,
        .loss_runs = {&fixture->measured, &fixture->per_stream, &fixture->weir, &fixture->offload, &fixture->without},
        .loss_run_count = 5,
        .capacity_bytes = 100 * MIB,
        .page_bytes = 16 << 10,
        .seconds = 61.0,
        .command_count = 1,
        .commands = {"weir-train --config=configs/demo.yaml --name='a & b'"},
    };
}

void fixture_demo_free(struct fixture_demo *fixture) {
    run_free(&fixture->measured);
    run_free(&fixture->per_stream);
    run_free(&fixture->weir);
    run_free(&fixture->offload);
    run_free(&fixture->without);
}

char *fixture_written(const struct demo *demo, void (*write)(const struct demo *demo, FILE *out)) {
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    write(demo, out);
    fclose(out);
    if (!text) fail_msg("no memory for what is written");
    return text;
}

static void say_line(void *to, const char *sentence) { fprintf(to, "%s\n", sentence); }
static void words_write(const struct demo *demo, FILE *out) { demo_words(demo, say_line, out); }
char *fixture_words(const struct demo *demo) { return fixture_written(demo, words_write); }
