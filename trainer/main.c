/* SPDX-License-Identifier: Apache-2.0 */
/* weir-train: reads the configuration, starts the ranks, or is one of them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/standard.h"
#include "trainer/comm_local.h"
#include "trainer/launch.h"
#include "trainer/text.h"
#include "trainer/train.h"
#include "weir/weir.h"

enum { SENTENCE = 768 };

/* What one rank holds; opened in this order, closed in the other. */
struct rank {
    struct weir_device *device;
    struct comm comm;
    struct weir_pool *pool;
    struct data data;
    struct report *report;
};

static int fail(struct rank *r, int status, const char *what) {
    char sentence[SENTENCE];
    snprintf(sentence, sizeof sentence, "rank %d: %s: %s", r->comm.rank, what, weir_last_error()->message);
    r->comm.table->fail(&r->comm, status, sentence);
    return status;
}

static bool is_local(const struct config *c) { return strcmp(c->comm, "local") == 0; }

__attribute__((format(printf, 3, 4))) static void add_setting(char *text, size_t room, const char *format, ...) {
    va_list arguments;
    size_t length = strlen(text);
    if (length > 0) text[length++] = ',';
    va_start(arguments, format);
    vsnprintf(text + length, room - length, format, arguments);
    va_end(arguments);
}

static enum weir_status open_device(const struct config *c, int ordinal, struct weir_device **out) {
    char emu[640] = "";
    const char *wanted = getenv("WEIR_DEVICE"), *machine = c->device;
    if (!strcmp(machine, "auto") && wanted && *wanted) machine = wanted;
    if (*c->profile) add_setting(emu, sizeof emu, "profile:%s", c->profile);
    if (c->capacity) add_setting(emu, sizeof emu, "capacity:%zu", c->capacity);
    if (is_local(c)) add_setting(emu, sizeof emu, "devices:%d", (int)c->ranks);
    struct weir_device_options options = {.size = sizeof options, .machine = machine, .emu = emu};
    options.ordinal = ordinal;
    enum weir_status status = weir_device_open(&options, out);
    if (status != WEIR_NO_DEVICE || !ordinal || is_local(c)) return status;
    /* every process has an emulated machine of its own, with one device; GPUs are not shared */
    struct weir_device_info info = {.size = sizeof info};
    options.ordinal = 0;
    if (weir_device_open(&options, out) == WEIR_OK) {
        if (weir_device_get_info(*out, &info) == WEIR_OK && info.emulated) return WEIR_OK;
        weir_device_close(*out);
    }
    options.ordinal = ordinal;
    return weir_device_open(&options, out);
}

static enum weir_status open_pool(const struct config *c, struct rank *r) {
    static const char *const names[] = {"", "latency", "footprint", "per-stream"};
    char path[600];
    const char *trace = *c->trace ? c->trace : getenv("WEIR_TRACE");
    struct weir_pool_options options = {.size = sizeof options, .limit_bytes = c->limit};
    while (strcmp(names[options.policy], c->policy)) options.policy++;
    snprintf(path, sizeof path, "%s.rank%d", trace ? trace : "", r->comm.rank);
    if (trace && *trace) options.trace_path = path;
    return weir_pool_create(r->device, &options, &r->pool);
}

/* Everything that a rank needs. Gives an exit status; when not 0, a failure is told. */
static int open_rank(const struct config *c, struct rank *r, enum weir_status device) {
    char sentence[SENTENCE];
    if (device != WEIR_OK) return fail(r, device == WEIR_INVALID ? 2 : 1, "the device can't be opened");
    if (r->comm.table->attach(&r->comm, r->device) != WEIR_OK) return 1;
    enum weir_status pool = open_pool(c, r);
    if (pool != WEIR_OK) return fail(r, pool == WEIR_INVALID ? 2 : 1, "the pool can't be made");
    if (data_open(c->data, c->validation, c->seq, &r->data, sentence, sizeof sentence)) {
        r->comm.table->fail(&r->comm, 2, sentence);
        return 2;
    }
    r->report = report_open(c, &r->comm, r->device, r->pool, r->data.bytes, train_parameters(c));
    return r->report ? 0 : fail(r, 1, "the report can't be opened");
}

/* The communication is closed before the pool: a transfer cut short by a failure may still touch the pool's memory. The
 * device is the caller's. */
static int close_rank(struct rank *r, int status) {
    char sentence[SENTENCE] = "";
    int failure = r->comm.table->failure(&r->comm, sentence, sizeof sentence);
    const char *outcome = failure == 3 ? "out_of_memory" : failure ? "failed" : "completed";
    if (!r->report && failure && r->comm.rank == 0) fprintf(stderr, "weir-train: %s\n", sentence);
    if (!report_close(r->report, outcome, 0, sentence) && !status) status = 1;
    r->comm.table->close(&r->comm);
    weir_pool_destroy(r->pool);
    data_close(&r->data);
    return failure ? failure : status;
}

static int refuse_ranks(const struct weir_device_info *info, enum weir_status status) {
    if (!info->emulated && status == WEIR_NOT_SUPPORTED)
        return launch_refuse("the device is a GPU, and this weir-train is built without CUDA (nvcc, cuBLAS, NCCL); "
                             "build it with the preset cuda, or give --device=emulated");
    fprintf(stderr, "weir-train: the ranks can't be joined: %s\n", weir_status_text(status));
    return 1;
}

static int play_rank(const struct config *c, struct rank *r, enum weir_status device) {
    int status = open_rank(c, r, device);
    if (!status && r->comm.table->barrier(&r->comm) == WEIR_OK)
        status = train_run(c, &r->comm, r->device, r->pool, &r->data, r->report);
    return close_rank(r, status);
}

/* Whether the ranks talk over MPI alone: on an emulated device, unless the configuration says otherwise. */
static bool takes_mpi(const struct config *c, const struct weir_device_info *info) {
    return strcmp(c->comm, "auto") == 0 ? info->emulated : strcmp(c->comm, "mpi") == 0;
}

static int run_rank(const struct config *c, int argc, char **argv) {
    struct rank r = {0};
    struct weir_device_info info = {.size = sizeof info, .emulated = true};
    enum weir_status device = open_device(c, launch_local_rank(), &r.device);
    if (device == WEIR_OK) weir_device_get_info(r.device, &info);
    enum weir_status opened = takes_mpi(c, &info) ? comm_open_mpi(&argc, &argv, (int)c->ep, &r.comm)
                                                  : comm_open_nccl(&argc, &argv, (int)c->ep, &r.comm);
    if (opened != WEIR_OK) return refuse_ranks(&info, opened);
    const int status = play_rank(c, &r, device);
    weir_device_close(r.device);
    return status;
}

/* ---- ranks as threads ------------------------------------------------------------------------------------------- */

static int run_seated(struct comm *comm, struct weir_device *device, void *argument) {
    struct rank r = {.device = device, .comm = *comm};
    return play_rank(argument, &r, WEIR_OK);
}

/* The devices are opened and closed here, so that no rank waits for another one's lock. */
static int run_local(struct config *c) {
    struct weir_device *device[COMM_LOCAL_MOST] = {NULL};
    struct comm_local *local = NULL;
    enum weir_status status = WEIR_OK;
    int opened = 0;
    for (; opened < c->ranks && status == WEIR_OK; opened++) status = open_device(c, opened, &device[opened]);
    /* without arithmetic nobody reads what collectives bring, but for the counts of replayed routes */
    const bool moves = strcmp(c->ops, "cost") != 0 || *c->routes_replay;
    if (status == WEIR_OK) status = comm_local_create((int)c->ranks, (int)c->ep, moves, &local);
    int answer = status == WEIR_OK ? comm_local_run(local, device, run_seated, c) : status == WEIR_INVALID ? 2 : 1;
    if (status != WEIR_OK) fprintf(stderr, "weir-train: the ranks can't be started: %s\n", weir_last_error()->message);
    if (answer < 0) fprintf(stderr, "weir-train: the threads of the ranks can't be started\n");
    comm_local_destroy(local);
    for (int i = 0; i < opened; i++) weir_device_close(device[i]);
    return answer < 0 ? 1 : answer;
}

/* ---- start ------------------------------------------------------------------------------------------------------ */

/* All that can be refused before a rank is started. */
static int check(struct config *c, char *message, size_t room) {
    struct data data;
    if (launch_joined()) c->ranks = launch_world();
    int status = config_check(c, message, room);
    if (!status) status = report_check(c, message, room);
    if (!status) status = data_open(c->data, c->validation, c->seq, &data, message, room);
    if (!status) data_close(&data);
    return status;
}

static int run(int argc, char **argv) {
    struct config config;
    char message[SENTENCE];
    int status = config_parse(&config, argc, argv, message, sizeof message);
    if (status == 1) return 0;
    if (!status) status = check(&config, message, sizeof message);
    if (status) return launch_refuse(message);
    if (is_local(&config) && launch_joined())
        return launch_refuse("--comm=local starts its ranks itself, as threads; it is not started by mpirun");
    if (is_local(&config)) return run_local(&config);
    if (!launch_joined() && config.ranks > 1) return launch_run(config.ranks, config.progress, argv);
    if (!launch_joined()) launch_alone();
    return run_rank(&config, argc, argv);
}

int main(int argc, char **argv) {
    weir__take_closed_standard();
    return weir__end_standard("weir-train", run(argc, argv));
}
