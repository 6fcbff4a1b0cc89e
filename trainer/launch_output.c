/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/launch_output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_DASHES = 60 };

/* How mpirun's blocks begin that say no more than the launcher says itself. */
static const char *const known_blocks[] = {"Primary job  terminated normally, but", "mpirun noticed that process rank",
                                           "mpirun detected that one or more", "MPI_ABORT was invoked on rank",
                                           "mpirun has exited due to process rank"};

void output_open(struct output *o, int out, int err, bool progress) {
    memset(o, 0, sizeof *o);
    o->out = (struct lines){.from = out, .to = STDOUT_FILENO};
    o->err = (struct lines){.from = err, .to = STDERR_FILENO, .filtered = true};
    o->dead_rank = -1;
    bar_open(&o->bar, progress);
}

/* Gives: false when it could not be written. */
static bool write_all(int to, const char *text, size_t length) {
    while (length) {
        ssize_t written = write(to, text, length);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false; /* nobody listens; the run goes on */
        text += written;
        length -= (size_t)written;
    }
    return true;
}

static void pass(struct output *o, int to, const char *text, size_t length) {
    bar_hide(&o->bar);
    if (to == o->err.to) o->told = true;
    if (!write_all(to, text, length) && to == o->out.to) o->lost = true;
    if (length && text[length - 1] == '\n') bar_show(&o->bar);
}

static bool is_dashes(const char *line) {
    size_t dashes = strspn(line, "-");
    return dashes >= LEAST_DASHES && !strcmp(line + dashes, "\n");
}

static void learn_of_death(struct output *o) {
    const char *who = strstr(o->block, "process rank "), *how = strstr(o->block, "exited on signal ");
    if (!who || !how || o->dead_rank >= 0) return;
    if (sscanf(who, "process rank %d", &o->dead_rank) != 1) return;
    sscanf(how, "exited on signal %d", &o->dead_signal);
}

static void end_block(struct output *o) {
    static const char dashes[] = "--------------------------------------------------------------------------\n";
    learn_of_death(o);
    for (size_t i = 0; i < sizeof known_blocks / sizeof *known_blocks; i++)
        if (!strncmp(o->block, known_blocks[i], strlen(known_blocks[i]))) return;
    pass(o, o->err.to, dashes, strlen(dashes));
    pass(o, o->err.to, o->block, o->block_used);
    pass(o, o->err.to, dashes, strlen(dashes));
}

static void add_to_block(struct output *o, const char *line) {
    size_t length = strlen(line), room = sizeof o->block - 1 - o->block_used;
    if (length > room) length = room;
    memcpy(o->block + o->block_used, line, length);
    o->block[o->block_used += length] = 0;
}

/* A line that mpirun may have written. */
static void filter_line(struct output *o, const char *line) {
    if (is_dashes(line)) {
        if (o->in_block) end_block(o);
        o->in_block = !o->in_block;
        o->block_used = 0;
        o->block[0] = 0;
    } else if (o->in_block) {
        add_to_block(o, line);
    } else if (strncmp(line, "mpirun: ", 8) && strncmp(line, "mpirun noticed ", 15) && !bar_take_line(&o->bar, line)) {
        pass(o, o->err.to, line, strlen(line));
    }
}

static void take_line(struct output *o, struct lines *l, size_t length) {
    char line[sizeof l->text + 1];
    memcpy(line, l->text, length);
    line[length] = 0;
    if (l->filtered && !memchr(line, 0, length))
        filter_line(o, line);
    else
        pass(o, l->to, line, length);
    l->used -= length;
    memmove(l->text, l->text + length, l->used);
}

void output_pass(struct output *o, struct lines *l) {
    ssize_t got = read(l->from, l->text + l->used, sizeof l->text - l->used);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got > 0) l->used += (size_t)got;
    for (char *end; (end = memchr(l->text, '\n', l->used));) take_line(o, l, (size_t)(end - l->text) + 1);
    if (l->used == sizeof l->text || (got <= 0 && l->used)) take_line(o, l, l->used);
    if (got > 0) return;
    close(l->from);
    l->from = -1;
    bar_hide(&o->bar);
}
