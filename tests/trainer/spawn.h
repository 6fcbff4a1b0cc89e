/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program and keeps what it says. */
#ifndef WEIR_TESTS_TRAINER_SPAWN_H
#define WEIR_TESTS_TRAINER_SPAWN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

struct spawned {
    pid_t pid;
    int out, err;   /* pipes */
    int status;     /* exit status, or 128 + signal */
    double seconds; /* from start to end */
    double begin;
    char out_text[65536]; /* what it wrote */
    char err_text[65536];
};

/* Starts argv[0]; spawn_finish reads all it says and waits for it. */
void spawn_start(struct spawned *s, char *const *argv);
void spawn_finish(struct spawned *s);
/* Reads its standard output until `text` has come; fails the test when it ends before. */
void spawn_read_until(struct spawned *s, const char *text);
/* Processes whose command line has `word`, zombies not counted. */
int spawn_count(const char *word);
/* One process that runs `program` and has `word` in its command line, but is not `except`; 0: none. */
pid_t spawn_find(const char *program, const char *word, pid_t except);

/* A group's set-up and teardown: an English text of some 20 KB for weir-train, at `spawn_text`. */
extern char spawn_text[64];
int spawn_text_write(void **state);
int spawn_text_remove(void **state);

#define SPAWN(s, ...)                                                                                                  \
    do {                                                                                                               \
        spawn_start(s, (char *const[]){__VA_ARGS__, NULL});                                                            \
        spawn_finish(s);                                                                                               \
    } while (0)

/* Both texts go to the test's own output when it does not hold. */
#define ASSERT_SAYS(s, where, text) spawn_assert(s, (s)->where##_text, text, __FILE__, __LINE__)
#define ASSERT_STATUS(s, wanted)    spawn_assert_status(s, wanted, __FILE__, __LINE__)
/* It has not hung; a few seconds where nothing else runs. */
#define ASSERT_SOON(s) assert_true((s)->seconds < 120)
void spawn_assert(const struct spawned *s, const char *where, const char *text, const char *file, int line);
void spawn_assert_status(const struct spawned *s, int wanted, const char *file, int line);

#endif
