/* SPDX-License-Identifier: Apache-2.0 */
/* weir-trace: makes, reads and changes traces. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "device/error.h"
#include "device/standard.h"
#include "weir/weir.h"

enum { EXIT_BAD_INPUT = 2 };

struct command {
    const char *name;
    int (*run)(int count, char **argument);
    const char *text;
};

#define ROW(name, function, text) {#name, function, text},
static const struct command commands[] = {TRACE_COMMANDS(ROW){NULL, NULL, NULL}};

static void put_usage(FILE *out) {
    fprintf(
        out,
        "usage: weir-trace COMMAND [options]\n"
        "Traces of the format weir-trace 1: what a program asked of a device's memory. weir-replay replays them.\n\n");
    for (const struct command *command = commands; command->name != NULL; command++)
        fprintf(out, "  %-9s %s\n", command->name, command->text);
    fprintf(out, "\n  --help    behind a COMMAND: what it does, and its options\n  --version\n");
}

static int unknown(const char *name) {
    const char *names[sizeof commands / sizeof *commands] = {0};
    size_t known = 0;
    for (; commands[known].name != NULL; known++) names[known] = commands[known].name;
    const char *nearest = weir__nearest(name, names, known);
    fprintf(stderr, "weir-trace: unknown command '%.60s'", name);
    if (nearest != NULL) fprintf(stderr, "; did you mean %s?\n", nearest);
    if (nearest == NULL) fprintf(stderr, " (--help lists them)\n");
    return EXIT_BAD_INPUT;
}

static int run(int count, char **argument) {
    if (count < 2) {
        put_usage(stderr);
        return EXIT_BAD_INPUT;
    }
    if (strcmp(argument[1], "--help") == 0) {
        put_usage(stdout);
        return 0;
    }
    if (strcmp(argument[1], "--version") == 0) {
        printf("weir-trace %s\n", weir_version());
        return 0;
    }
    for (const struct command *command = commands; command->name != NULL; command++)
        if (strcmp(argument[1], command->name) == 0) return command->run(count - 1, argument + 1);
    return unknown(argument[1]);
}

int main(int count, char **argument) {
    weir__take_closed_standard();
    signal(SIGXFSZ, SIG_IGN); /* a file that would grow too large is an error, to be told */
    return weir__end_standard("weir-trace", run(count, argument));
}
