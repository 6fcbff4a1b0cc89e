/* SPDX-License-Identifier: Apache-2.0 */
/* Peers run in processes of their own (peers/main.c), so that none replaces another one's malloc, or weir's. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/beside.h"
#include "bench/pool.h"

#define READY "ready" /* what a peer says first */

struct program {
    const char *kind, *argument; /* as peers/main.c takes them */
    const char *preload;         /* NULL: none */
    const char *set, *value;     /* a setting of its environment; NULL: none */
};

static _Noreturn void become(const struct program *program, int in, int out) {
    char path[PATH_MAX];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (program->set != NULL) setenv(program->set, program->value, 1);
    if (program->preload != NULL) setenv("LD_PRELOAD", program->preload, 1);
    if (program->preload == NULL) {
        beside_put_emulator_first();
        setenv("WEIR_EMU", "profile:gh200,memory:unbacked,clock:real,capacity:16G", 1);
    }
    if (beside_path("weir-bench-peer", path) && dup2(in, 0) >= 0 && dup2(out, 1) >= 0)
        execl(path, path, program->kind, program->argument, (char *)NULL);
    _exit(127);
}

static void start(struct peer *peer, const struct program *program) {
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0) return;
    if (pipe2(out, O_CLOEXEC) != 0) {
        close(in[0]);
        close(in[1]);
        return;
    }
    peer->process = fork();
    if (peer->process == 0) become(program, in[0], out[1]);
    close(in[0]);
    close(out[1]);
    peer->to = fdopen(in[1], "w");
    peer->from = fdopen(out[0], "r");
    if (peer->process < 0) peer->process = 0;
}

static void stop(struct peer *peer) {
    if (peer->to != NULL) fclose(peer->to);
    if (peer->from != NULL) fclose(peer->from);
    peer->to = peer->from = NULL;
    while (peer->process > 0 && waitpid(peer->process, NULL, 0) < 0 && errno == EINTR) continue;
    peer->process = 0;
}

static void open_peer(struct peer *peer, const struct program *program) {
    start(peer, program);
    if (peer->process > 0 && fgets(peer->why, sizeof peer->why, peer->from) == NULL)
        snprintf(peer->why, sizeof peer->why, "it could not be started\n");
    peer->why[strcspn(peer->why, "\n")] = 0;
    if (strncmp(peer->why, READY, strlen(READY)) != 0)
        stop(peer);
    else if (peer->why[strlen(READY)] == ' ')
        snprintf(peer->version, sizeof peer->version, "%.31s", peer->why + strlen(READY) + 1);
}

bool peers_take_uses(enum subject peer) { return peer == TORCH || peer == TORCH_EXPANDABLE || peer == TORCH_SPLIT; }

void peers_open(struct peer peers[PEERS], const char *torch_library, const char *rmm_library) {
    static const char torch_settings[] = "PYTORCH_ALLOC_CONF", rmm_kind[] = "WEIR_PEER_RMM";
    const struct program programs[PEERS] = {
        [JEMALLOC - FIRST_PEER] = {"malloc", "mallocx", "libjemalloc.so.2", NULL, NULL},
        [MIMALLOC - FIRST_PEER] = {"malloc", "mi_version", "libmimalloc.so.2", NULL, NULL},
        [TORCH - FIRST_PEER] = {"library", torch_library, NULL, torch_settings, ""},
        [TORCH_EXPANDABLE - FIRST_PEER] = {"library", torch_library, NULL, torch_settings, "expandable_segments:True"},
        [TORCH_SPLIT - FIRST_PEER] = {"library", torch_library, NULL, torch_settings, "max_split_size_mb:128"},
        [RMM_POOL - FIRST_PEER] = {"library", rmm_library, NULL, rmm_kind, "pool"},
        [RMM_ARENA - FIRST_PEER] = {"library", rmm_library, NULL, rmm_kind, "arena"},
    };
    signal(SIGPIPE, SIG_IGN); /* a peer that ends is a figure that is not known */
    for (int i = 0; i < PEERS; i++) {
        peers[i] = (struct peer){.why = "no library was given"};
        if (programs[i].argument != NULL) open_peer(&peers[i], &programs[i]);
    }
}

void peers_close(struct peer peers[PEERS]) {
    for (int i = 0; i < PEERS; i++) stop(&peers[i]);
}

double peer_ns(struct peer *peer, const struct loop *loop) {
    double ns = (double)NAN;
    if (peer->process == 0) return ns;
    fprintf(peer->to, "%u %zu %d %d\n", (unsigned)loop->kind, loop->bytes, loop->threads, loop->steps);
    if (fflush(peer->to) == 0 && fscanf(peer->from, "%lf", &ns) == 1) return ns;
    snprintf(peer->why, sizeof peer->why, "it ended");
    stop(peer);
    return (double)NAN;
}
