/* SPDX-License-Identifier: Apache-2.0 */
/* Peers run in processes of their own (peers/main.c), so that none replaces another one's malloc, or weir's. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/pool.h"

/* Where this program lies, with a '/' at the end; "" when it can't be told. */
static void own_folder(char folder[PATH_MAX]) {
    const ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    folder[length > 0 ? length : 0] = 0;
    char *slash = strrchr(folder, '/');
    if (slash != NULL) slash[1] = 0;
}

/* The emulated driver and runtime come before any other ones. */
static void put_emulator_first(const char *folder) {
    char path[2 * PATH_MAX];
    const char *before = getenv("LD_LIBRARY_PATH");
    snprintf(path, sizeof path, "%s../lib/emu%s%s", folder, before != NULL ? ":" : "", before != NULL ? before : "");
    setenv("LD_LIBRARY_PATH", path, 1);
    setenv("WEIR_EMU", "profile:gh200,memory:unbacked,clock:real,capacity:16G", 1);
}

struct program {
    const char *kind, *argument; /* as peers/main.c takes them */
    const char *preload;         /* NULL: none */
};

static _Noreturn void become(const struct program *program, int in, int out) {
    char folder[PATH_MAX], path[PATH_MAX + 32];
    own_folder(folder);
    snprintf(path, sizeof path, "%sweir-bench-peer", folder);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (program->preload != NULL) setenv("LD_PRELOAD", program->preload, 1);
    if (program->preload == NULL) put_emulator_first(folder);
    if (dup2(in, 0) >= 0 && dup2(out, 1) >= 0) execl(path, path, program->kind, program->argument, (char *)NULL);
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
    if (strcmp(peer->why, "ready") != 0) stop(peer);
}

void peers_open(struct peer peers[PEERS], const char *torch_library) {
    static const struct program of_malloc[] = {{"malloc", "mallocx", "libjemalloc.so.2"},
                                               {"malloc", "mi_version", "libmimalloc.so.2"}};
    const struct program torch = {"library", torch_library, NULL};
    signal(SIGPIPE, SIG_IGN); /* a peer that ends is a figure that is not known */
    for (int i = 0; i < PEERS; i++) peers[i] = (struct peer){.why = "it was not asked for"};
    open_peer(&peers[JEMALLOC - FIRST_PEER], &of_malloc[0]);
    open_peer(&peers[MIMALLOC - FIRST_PEER], &of_malloc[1]);
    if (torch_library != NULL) open_peer(&peers[TORCH - FIRST_PEER], &torch);
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
