/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of communication and of the launcher run: starts itself on 4 ranks, and plays the scene that its first
 * argument names; with a second one, "local", the ranks are its threads. Exit status 0: the rank saw what it had to. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/watched.h"
#include "trainer/comm_local.h"
#include "trainer/launch.h"

enum { RANKS = 4, EP = 2 };

static _Thread_local struct comm comm;
static _Thread_local struct weir_device *device;
static _Thread_local int wrong;

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "rank %d: %s:%d: %s\n", comm.rank, __FILE__, __LINE__, #condition);                        \
            wrong = 1;                                                                                                 \
        }                                                                                                              \
    } while (0)
#define EXPECT_OK(call) EXPECT((call) == WEIR_OK)

static void *pinned(size_t bytes) {
    void *out = NULL;
    EXPECT_OK(weir_host_alloc(device, bytes + 1, &out));
    memset(out, 0xEE, bytes + 1);
    return out;
}

static weir_stream new_stream(void) {
    weir_stream s = NULL;
    EXPECT_OK(weir_stream_create(device, &s));
    return s;
}

static void wait_for(weir_stream s) { EXPECT_OK(weir_stream_synchronize(device, s)); }

static int world_rank(enum comm_group group, int place) {
    if (group == COMM_EP) return comm.rank / EP * EP + place;
    if (group == COMM_EFSDP) return place * EP + comm.rank % EP;
    return place;
}

/* A value that tells sender, receiver, lane and position apart. */
static int32_t value_of(int from, int to, enum comm_lane lane, int round, int i) {
    return from * 100000000 + to * 10000000 + (int)lane * 1000000 + round * 100000 + i % 100000;
}

/* ---- scenes ------------------------------------------------------------------------------------------------------- */

/* One collective of each kind in each group. */
struct exchange {
    enum comm_group group;
    enum comm_lane lane;
    int round, size;
    int32_t *send, *recv, *gathered;
    double *sums;
};

enum { NUMBERS = 30000 };

static struct exchange queue_exchange(enum comm_group group, enum comm_lane lane, int round, weir_stream s) {
    struct exchange x = {group, lane, round, comm_size(&comm, group), NULL, NULL, NULL, NULL};
    size_t bytes = NUMBERS * sizeof *x.send;
    x.send = pinned((size_t)x.size * bytes);
    x.recv = pinned((size_t)x.size * bytes);
    x.gathered = pinned((size_t)x.size * bytes);
    x.sums = pinned(3 * sizeof *x.sums);
    for (int place = 0; place < x.size; place++)
        for (int i = 0; i < NUMBERS; i++)
            x.send[place * NUMBERS + i] = value_of(comm.rank, world_rank(group, place), lane, round, i);
    for (int i = 0; i < 3; i++) x.sums[i] = 1.0 / (3.0 + comm.rank + i) * (comm.rank % 2 ? 1e16 : 1);
    EXPECT_OK(comm.table->all_to_all(&comm, group, lane, x.send, x.recv, bytes, s));
    EXPECT_OK(comm.table->all_gather(&comm, group, lane, x.send, x.gathered, bytes, s));
    EXPECT_OK(comm.table->all_reduce_double(&comm, group, lane, x.sums, 3, s));
    return x;
}

static void check_exchange(const struct exchange *x) {
    int bad = 0;
    double sums[3] = {0};
    for (int place = 0; place < x->size; place++) {
        int from = world_rank(x->group, place), first = world_rank(x->group, 0);
        for (int i = 0; i < NUMBERS; i++) {
            bad += x->recv[place * NUMBERS + i] != value_of(from, comm.rank, x->lane, x->round, i);
            bad += x->gathered[place * NUMBERS + i] != value_of(from, first, x->lane, x->round, i);
        }
        for (int i = 0; i < 3; i++) sums[i] += 1.0 / (3.0 + from + i) * (from % 2 ? 1e16 : 1);
    }
    EXPECT(bad == 0);
    EXPECT(memcmp(sums, x->sums, sizeof sums) == 0); /* the order is that of the ranks, so the bits are these */
}

static void scene_collectives(void) {
    enum { ROUNDS = 3 };
    struct exchange all[COMM_LANES][ROUNDS];
    weir_stream s[COMM_LANES];
    for (int lane = 0; lane < COMM_LANES; lane++) s[lane] = new_stream();
    for (int round = 0; round < ROUNDS; round++)
        for (int lane = 0; lane < COMM_LANES; lane++)
            all[lane][round] =
                queue_exchange((enum comm_group)((round + lane) % COMM_GROUPS), (enum comm_lane)lane, round, s[lane]);
    for (int lane = 0; lane < COMM_LANES; lane++) wait_for(s[lane]);
    for (int lane = 0; lane < COMM_LANES; lane++)
        for (int round = 0; round < ROUNDS; round++) check_exchange(&all[lane][round]);
    uint64_t gathered = 0;
    for (int round = 0; round < ROUNDS; round++) { /* an all-to-all and an all-gather send the same bytes */
        uint64_t peers = (uint64_t)all[LANE_REDUCE][round].size - 1;
        gathered += peers * (2 * NUMBERS * sizeof(int32_t) + 3 * sizeof(double));
    }
    EXPECT(comm.table->bytes_sent(&comm, LANE_REDUCE) == gathered);
}

enum { ROW = 8 }; /* numbers of a row */

/* counts (size, size): rows that place i sends place j. Sends them there, checks them, sends them back, checks again. */
static void exchange_rows(enum comm_group group, const int *counts, weir_stream s) {
    int size = comm_size(&comm, group), own = comm_place(&comm, group);
    size_t out[RANKS], in[RANKS], sent = 0, received = 0;
    for (int place = 0; place < size; place++) {
        sent += out[place] = (size_t)counts[own * size + place] * ROW * sizeof(float);
        received += in[place] = (size_t)counts[place * size + own] * ROW * sizeof(float);
    }
    float *rows = pinned(sent), *there = pinned(received), *back = pinned(sent), *at = rows;
    for (int place = 0; place < size; place++)
        for (int i = 0; i < counts[own * size + place] * ROW; i++) *at++ = (float)(own * 1000 + place * 100 + i);
    EXPECT_OK(comm.table->all_to_all_v(&comm, group, LANE_EXCHANGE, rows, out, there, in, s));
    EXPECT_OK(comm.table->all_to_all_v(&comm, group, LANE_EXCHANGE, there, in, back, out, s));
    wait_for(s);
    at = there;
    int bad = 0;
    for (int place = 0; place < size; place++)
        for (int i = 0; i < counts[place * size + own] * ROW; i++)
            bad += *at++ != (float)(place * 1000 + own * 100 + i);
    EXPECT(bad == 0);
    EXPECT(memcmp(rows, back, sent) == 0);
    EXPECT(((unsigned char *)there)[received] == 0xEE && ((unsigned char *)back)[sent] == 0xEE);
}

static void scene_empty_parts(void) {
    static const int one_silent[] = {1, 1, 0, 0}, all_zero[RANKS * RANKS] = {0};
    static const int nothing_for_2[] = {1, 2, 0, 3, 2, 0, 0, 1, 1, 1, 0, 1, 4, 0, 0, 2};
    static const int two_of_four[] = {1, 2, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    weir_stream s = new_stream();
    exchange_rows(COMM_EP, one_silent, s);
    exchange_rows(COMM_EFSDP, one_silent, s);
    exchange_rows(COMM_WORLD, nothing_for_2, s);
    exchange_rows(COMM_WORLD, two_of_four, s);
    exchange_rows(COMM_WORLD, all_zero, s);
    exchange_rows(COMM_EP, all_zero, s);
}

/* Rank 0 sends rank 1 `sent` rows, rank 1 expects `expected`; everything else is empty. */
static void mismatch(size_t sent, size_t expected) {
    char sentence[512];
    size_t out[RANKS] = {0}, in[RANKS] = {0};
    weir_stream s = new_stream();
    if (comm.rank == 0) out[1] = sent * ROW * sizeof(float);
    if (comm.rank == 1) in[0] = expected * ROW * sizeof(float);
    EXPECT_OK(comm.table->all_to_all_v(&comm, COMM_WORLD, LANE_EXCHANGE, pinned(256), out, pinned(256), in, s));
    /* a rank whose own part was in order learns of it in its next collective */
    EXPECT_OK(comm.table->all_gather(&comm, COMM_WORLD, LANE_EXCHANGE, pinned(8), pinned(32), 8, s));
    wait_for(s);
    EXPECT(comm.table->barrier(&comm) != WEIR_OK);
    EXPECT(comm.table->failure(&comm, sentence, sizeof sentence) == 1);
    EXPECT(comm.failed_rank == 1);
    printf("rank %d knows: %s\n", comm.rank, sentence);
}

static void scene_too_few(void) { mismatch(1, 2); }
static void scene_too_many(void) { mismatch(2, 1); }
static void scene_unexpected(void) { mismatch(1, 0); }
static void scene_missing(void) { mismatch(0, 1); }

static void check_texts(char **texts, size_t filling) {
    for (int rank = 0; rank < RANKS; rank++) {
        EXPECT(texts && texts[rank] && strlen(texts[rank]) == (size_t)rank * filling);
        EXPECT(texts && texts[rank] && strspn(texts[rank], (char[]){(char)('a' + rank), 0}) == strlen(texts[rank]));
    }
}

static void gather(size_t filling) {
    char **texts = NULL, *own = calloc((size_t)comm.rank * filling + 1, 1);
    memset(own, 'a' + comm.rank, (size_t)comm.rank * filling);
    EXPECT_OK(comm.table->gather_text(&comm, own, &texts));
    if (comm.rank == 0) check_texts(texts, filling);
    EXPECT(comm.rank == 0 || !texts);
    free(own);
}

static void scene_host(void) {
    double values[2] = {1.5 + comm.rank, -comm.rank};
    EXPECT_OK(comm.table->reduce_host(&comm, '+', values, 2));
    EXPECT(values[0] == 12 && values[1] == -6);
    values[0] = values[1] = comm.rank;
    EXPECT_OK(comm.table->reduce_host(&comm, '<', values, 1));
    EXPECT_OK(comm.table->reduce_host(&comm, '>', values + 1, 1));
    EXPECT(values[0] == 0 && values[1] == 3);
    for (int root = 0; root < RANKS; root++) {
        int word = comm.rank;
        EXPECT_OK(comm.table->broadcast_host(&comm, &word, sizeof word, root));
        EXPECT(word == root);
    }
    EXPECT_OK(comm.table->barrier(&comm));
    gather(0);
    gather(700000);
    gather(3);
}

/* Rank 2 fails instead of joining what the others wait for on every lane. */
static void scene_failure(void) {
    char sentence[512];
    weir_stream s[COMM_LANES];
    for (int lane = 0; lane < COMM_LANES; lane++) s[lane] = new_stream();
    if (comm.rank == 2) {
        comm.table->fail(&comm, 3, "rank 2: the tank is empty");
        comm.table->fail(&comm, 1, "rank 2: a later failure");
    } else {
        for (int lane = 0; lane < COMM_LANES; lane++)
            EXPECT_OK(comm.table->all_gather(&comm, COMM_WORLD, (enum comm_lane)lane, pinned(1 << 20), pinned(4 << 20),
                                             1 << 20, s[lane]));
    }
    for (int lane = 0; lane < COMM_LANES; lane++) wait_for(s[lane]);
    EXPECT(comm.table->barrier(&comm) != WEIR_OK);
    EXPECT(comm.table->failure(&comm, sentence, sizeof sentence) == 3);
    EXPECT(comm.failed_rank == 2 && strcmp(sentence, "rank 2: the tank is empty") == 0);
    gather(100000);
    gather(5);
}

/* Rank 2 fails, and rank 1 hangs: it neither tells its text nor says farewell. */
static void scene_silent(void) {
    char **texts = NULL;
    if (comm.rank == 2) comm.table->fail(&comm, 3, "rank 2: the tank is empty");
    if (comm.rank == 1)
        for (;;) pause();
    EXPECT(comm.table->barrier(&comm) != WEIR_OK);
    EXPECT_OK(comm.table->gather_text(&comm, "a text", &texts));
    for (int rank = 0; comm.rank == 0 && rank < RANKS; rank++)
        EXPECT(strcmp(texts[rank], rank == 1 ? "" : "a text") == 0);
    if (comm.rank == 0) printf("rank 0 has what it can have\n");
}

/* Rank 2 ends without a word while the others wait for it. */
static void scene_killed(void) {
    weir_stream s = new_stream();
    EXPECT_OK(comm.table->barrier(&comm));
    if (comm.rank == 2) raise(SIGKILL);
    EXPECT_OK(comm.table->all_gather(&comm, COMM_WORLD, LANE_GATHER, pinned(8), pinned(32), 8, s));
    wait_for(s);
}

/* Rank 2 leaves while the others wait for it: only the virtual clock can see that nothing will come. */
static void scene_leaver(void) {
    char sentence[512];
    weir_stream s = new_stream();
    if (comm.rank == 2) return;
    EXPECT_OK(comm.table->all_gather(&comm, COMM_WORLD, LANE_GATHER, pinned(8), pinned(32), 8, s));
    EXPECT(weir_stream_synchronize(device, s) == WEIR_DRIVER);
    comm.table->fail(&comm, 1, "nobody comes");
    EXPECT(comm.table->failure(&comm, sentence, sizeof sentence) == 1);
    wait_for(s);
}

/* Rank 1 calls another collective than the others, on a stream and on the host. */
static void scene_other_collective(void) {
    char sentence[512];
    weir_stream s = new_stream();
    if (comm.rank == 1)
        EXPECT_OK(comm.table->all_to_all(&comm, COMM_WORLD, LANE_GATHER, pinned(32), pinned(32), 8, s));
    else
        EXPECT_OK(comm.table->all_gather(&comm, COMM_WORLD, LANE_GATHER, pinned(8), pinned(32), 8, s));
    wait_for(s);
    EXPECT(comm.table->barrier(&comm) != WEIR_OK);
    EXPECT(comm.table->failure(&comm, sentence, sizeof sentence) == 1);
    printf("rank %d knows: %s\n", comm.rank, sentence);
}

static void scene_other_host_collective(void) {
    char sentence[512];
    double number = 1;
    EXPECT((comm.rank == 3 ? comm.table->broadcast_host(&comm, &number, sizeof number, 0)
                           : comm.table->reduce_host(&comm, '+', &number, 1)) != WEIR_OK);
    EXPECT(comm.table->failure(&comm, sentence, sizeof sentence) == 1);
    printf("rank %d knows: %s\n", comm.rank, sentence);
}

static void scene_wait(void) {
    EXPECT_OK(comm.table->barrier(&comm));
    if (comm.rank == 0) printf("all ranks wait\n");
    fflush(stdout);
    for (;;) pause();
}

static void scene_talk(void) {
    printf("rank %d on standard output\n", comm.rank);
    fprintf(stderr, "rank %d on standard error\n", comm.rank);
    if (comm.rank == 0)
        fprintf(stderr, "\x1e"
                        "bar 3 4\n");
    if (comm.rank == 0) fprintf(stderr, "no line's end");
}

static _Thread_local int32_t *left; /* memory that the rank uses for something else once it has closed */

static void scene_left(void) { left = queue_exchange(COMM_WORLD, LANE_REDUCE, 0, new_stream()).recv; }

static const struct {
    const char *name;
    void (*play)(void);
} scenes[] = {{"collectives", scene_collectives},
              {"empty_parts", scene_empty_parts},
              {"too_few", scene_too_few},
              {"too_many", scene_too_many},
              {"unexpected", scene_unexpected},
              {"missing", scene_missing},
              {"host", scene_host},
              {"failure", scene_failure},
              {"killed", scene_killed},
              {"silent", scene_silent},
              {"leaver", scene_leaver},
              {"other_collective", scene_other_collective},
              {"other_host_collective", scene_other_host_collective},
              {"wait", scene_wait},
              {"talk", scene_talk},
              {"left", scene_left}};

/* ---- a rank ------------------------------------------------------------------------------------------------------- */

static struct weir_device *open_device(const char *emu, int ordinal) {
    struct weir_device_options options = {
        .size = sizeof options, .machine = "emulated", .emu = emu, .ordinal = ordinal};
    struct weir_device *opened = NULL;
    EXPECT_OK(weir_device_open(&options, &opened));
    return opened;
}

static int play(const char *name) {
    EXPECT_OK(comm.table->attach(&comm, device));
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++)
        if (strcmp(scenes[i].name, name) == 0) scenes[i].play();
    fflush(NULL);
    int failure = comm.table->failure(&comm, NULL, 0);
    comm.table->close(&comm);
    if (left) weir__device_host_access(device, left, sizeof *left, true);
    return wrong ? 99 : failure;
}

static int play_seated(struct comm *given, struct weir_device *its_device, void *name) {
    comm = *given;
    device = its_device;
    return play(name);
}

static int play_local(char *name) {
    struct comm_local *local;
    struct weir_device *devices[RANKS];
    for (int rank = 0; rank < RANKS; rank++) devices[rank] = open_device("profile:demo,devices:4", rank);
    if (comm_local_create(RANKS, strcmp(name, "uneven") ? EP : 3, true, &local) != WEIR_OK) {
        fprintf(stderr, "refused\n");
        return 97;
    }
    int status = comm_local_run(local, devices, play_seated, name);
    printf("order %016llx\n", (unsigned long long)comm_local_digest(local));
    comm_local_destroy(local);
    for (int rank = 0; rank < RANKS; rank++) weir_device_close(devices[rank]);
    return status;
}

int main(int argc, char **argv) {
    if (argc < 2) return 98;
    if (argc > 2 && strcmp(argv[2], "local") == 0) return play_local(argv[1]);
    if (!launch_joined()) return launch_run(RANKS, true, argv);
    if (comm_open_mpi(&argc, &argv, strcmp(argv[1], "uneven") ? EP : 3, &comm) != WEIR_OK) {
        fprintf(stderr, "rank %d: refused\n", comm.rank);
        return 97;
    }
    device = open_device("profile:demo", 0);
    int status = play(argv[1]);
    weir_device_close(device);
    return status;
}
