/* SPDX-License-Identifier: Apache-2.0 */
/* Every way in which a run can end gives its exit status and one sentence, and leaves a pool that can be asked. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/trainer/model_fixture.h"
#include "trainer/train.h"

static struct weir_device *device;
static char text_path[64], routes_path[64];

/* Failures of the world of one rank, kept. */
static int failed;
static char said[1024];
static const char *lacks; /* of the communication */

static void keep_failure(struct comm *comm, int exit_status, const char *sentence) {
    (void)comm;
    if (failed) return;
    failed = exit_status;
    snprintf(said, sizeof said, "%s", sentence);
}
static int tell_failure(struct comm *comm, char *sentence, size_t room) {
    (void)comm;
    if (room) snprintf(sentence, room, "%s", said);
    return failed;
}
static enum weir_status gather_nothing(struct comm *comm, const char *text, char ***texts) {
    (void)comm;
    *texts = malloc(sizeof **texts);
    (*texts)[0] = strdup(text);
    return WEIR_OK;
}
static uint64_t nothing_sent(struct comm *comm, enum comm_lane lane) {
    (void)comm, (void)lane;
    return 0;
}
static enum weir_status no_barrier(struct comm *comm) {
    (void)comm;
    return WEIR_OK;
}

static int open_all(void **state) {
    (void)state;
    snprintf(text_path, sizeof text_path, "/tmp/weir-text-%ld", (long)getpid());
    snprintf(routes_path, sizeof routes_path, "/tmp/weir-ends-%ld", (long)getpid());
    FILE *text = fopen(text_path, "w");
    assert_non_null(text);
    for (int i = 0; i < 4000; i++) fputc('a' + i * i % 26, text);
    fclose(text);
    OK(weir_device_open(NULL, &device));
    return 0;
}
static int close_all(void **state) {
    (void)state;
    unlink(text_path);
    unlink(routes_path);
    weir_device_close(device);
    return 0;
}

/* Gives the exit status; `stats` the pool's at the end. */
static int train(const struct config *config, struct weir_pool_stats *stats, bool *refused) {
    struct comm comm = comm_alone();
    struct comm_table table = *comm.table;
    struct data data;
    struct weir_pool *pool;
    struct weir_pool_options options = {.size = sizeof options, .limit_bytes = config->limit};
    struct weir_pool_refusal refusal = {.size = sizeof refusal};
    char message[768];
    failed = 0;
    said[0] = 0;
    table.lacks = lacks;
    table.fail = keep_failure;
    table.failure = tell_failure;
    table.gather_text = gather_nothing;
    table.bytes_sent = nothing_sent;
    table.barrier = no_barrier;
    comm.table = &table;
    OK(table.attach(&comm, device));
    OK(weir_pool_create(device, &options, &pool));
    assert_int_equal(data_open(text_path, config->validation, config->seq, &data, message, sizeof message), 0);
    struct report *report = report_open(config, &comm, device, pool, data.bytes, train_parameters(config));
    assert_non_null(report);
    int status = train_run(config, &comm, device, pool, &data, report);
    assert_int_equal(status, failed);
    assert_int_equal(status == 0, said[0] == 0);
    *stats = (struct weir_pool_stats){.size = sizeof *stats};
    OK(weir_pool_get_stats(pool, stats));
    OK(weir_pool_check(pool));
    *refused = weir_pool_get_refusal(pool, &refusal) == WEIR_OK;
    report_close(report, status == 0 ? "completed" : status == 3 ? "out_of_memory" : "failed", 0, said);
    weir_pool_destroy(pool);
    data_close(&data);
    return status;
}

static struct config run_config(void) {
    struct config c = small_config();
    c.validation = 0.1;
    c.steps = 4;
    c.warmup = 2;
    c.eval_every = 2;
    c.eval_batches = 1;
    return c;
}

static void a_run_that_takes_its_steps_ends_with_0(void **state) {
    (void)state;
    struct config c = run_config();
    struct weir_pool_stats stats;
    bool refused;
    assert_int_equal(train(&c, &stats, &refused), 0);
    assert_false(refused);
    c.offload = true;
    assert_int_equal(train(&c, &stats, &refused), 0);
}

/* Wherever memory ends, in whatever allocation: the limit is lowered step by step until not even the state fits. */
static void out_of_memory_ends_with_3_wherever_it_comes(void **state) {
    (void)state;
    struct config c = run_config();
    struct weir_pool_stats stats;
    bool refused;
    int seen[4] = {0};
    c.steps = 2;
    assert_int_equal(train(&c, &stats, &refused), 0);
    for (size_t limit = stats.peak_live_bytes + (256 << 10); limit > (64 << 10); limit -= 32 << 10) {
        c.limit = limit;
        c.offload = limit / (32 << 10) % 2;
        int status = train(&c, &stats, &refused);
        assert_true(status == 0 || status == 2 || status == 3);
        assert_int_equal(status == 3, refused);
        seen[status]++;
    }
    assert_true(seen[0] > 0 && seen[2] > 0 && seen[3] > 0);
}

static void a_device_too_small_for_the_state_ends_with_2_before_anything_is_taken(void **state) {
    (void)state;
    struct config c = run_config();
    struct weir_pool_stats stats;
    bool refused;
    c.limit = 64 << 10;
    assert_int_equal(train(&c, &stats, &refused), 2);
    assert_non_null(strstr(said, "too small"));
    assert_non_null(strstr(said, " 65536 "));
    assert_int_equal(stats.allocs, 0);
}

static void a_loss_that_is_no_number_ends_with_1_and_names_the_step(void **state) {
    (void)state;
    struct config c = run_config();
    struct weir_pool_stats stats;
    bool refused;
    c.lr = 1e30;
    c.decay = 1;
    c.steps = 20;
    assert_int_equal(train(&c, &stats, &refused), 1);
    assert_non_null(strstr(said, "norm is"));
    assert_non_null(strstr(said, "in step 2;"));
    assert_non_null(strstr(said, "stopped before the weights were changed"));
}

static void routes_of_another_shape_end_with_2_and_say_what_differs(void **state) {
    (void)state;
    struct config c = run_config();
    struct weir_pool_stats stats;
    bool refused;
    strcpy(c.routes_save, routes_path);
    assert_int_equal(train(&c, &stats, &refused), 0);
    c.routes_save[0] = 0;
    strcpy(c.routes_replay, routes_path);
    assert_int_equal(train(&c, &stats, &refused), 0);
    c.steps = 5;
    assert_int_equal(train(&c, &stats, &refused), 2);
    assert_non_null(strstr(said, "ends before step 5"));
    c.top_k = 1;
    assert_int_equal(train(&c, &stats, &refused), 2);
    assert_non_null(strstr(said, "top 2 of 4 experts"));
    strcpy(c.routes_replay, text_path);
    assert_int_equal(train(&c, &stats, &refused), 2);
    assert_non_null(strstr(said, "is no routes file"));
    strcpy(c.routes_replay, "/nowhere/routes");
    assert_int_equal(train(&c, &stats, &refused), 2);
    assert_non_null(strstr(said, "/nowhere/routes"));
}

static void a_host_budget_below_a_page_ends_with_2(void **state) {
    (void)state;
    struct config c = run_config();
    struct weir_pool_stats stats;
    bool refused;
    c.offload = true;
    c.host_budget = 1;
    assert_int_equal(train(&c, &stats, &refused), 2);
    assert_non_null(strstr(said, "a budget of 1 bytes"));
}

static void what_the_communication_lacks_is_said_at_the_start(void **state) {
    (void)state;
    struct config c = run_config();
    struct weir_pool_stats stats;
    bool refused;
    char text[4096] = "";
    FILE *kept = tmpfile();
    assert_non_null(kept);
    fflush(stdout);
    int before = dup(STDOUT_FILENO);
    dup2(fileno(kept), STDOUT_FILENO);
    lacks = "these ranks can't whistle";
    int status = train(&c, &stats, &refused);
    lacks = NULL;
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    rewind(kept);
    text[fread(text, 1, sizeof text - 1, kept)] = 0;
    fclose(kept);
    assert_int_equal(status, 0);
    assert_non_null(strstr(text, "not yet: these ranks can't whistle\nstep "));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_that_takes_its_steps_ends_with_0),
        cmocka_unit_test(out_of_memory_ends_with_3_wherever_it_comes),
        cmocka_unit_test(a_device_too_small_for_the_state_ends_with_2_before_anything_is_taken),
        cmocka_unit_test(a_loss_that_is_no_number_ends_with_1_and_names_the_step),
        cmocka_unit_test(routes_of_another_shape_end_with_2_and_say_what_differs),
        cmocka_unit_test(a_host_budget_below_a_page_ends_with_2),
        cmocka_unit_test(what_the_communication_lacks_is_said_at_the_start),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
