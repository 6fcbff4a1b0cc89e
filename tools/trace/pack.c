/* SPDX-License-Identifier: Apache-2.0 */
/* weir-trace pack: compresses what was recorded. The order is what makes it safe: the trace is read and checked, the
 * copy is written under another name until it is whole, read back and compared, and only then the original goes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "device/error.h"
#include "input.h"
#include "output.h"
#include "trace.h"

enum { EXIT_BAD_INPUT = 2, PIECE_BYTES = 1 << 16 };

struct options {
    const char *ending;
    bool force, keep;
};

static const char usage[] =
    "usage: weir-trace pack FILE... [--gzip] [--force] [--keep]\n"
    "Checks each trace by reading it, writes FILE.zst, and removes FILE when the copy has been read back and is "
    "equal.\n"
    "All programs of weir read it as it is.\n"
    "\n"
    "  --gzip    FILE.gz instead\n"
    "  --force   also when there is a FILE.zst, which is replaced\n"
    "  --keep    FILE stays\n"
    "  --help\n"
    "\n"
    "Exit status: 0 all were packed, 1 failed, 2 bad input; what could not be packed is as it was.\n";

static int say(int status, const char *path, const char *reason) {
    fprintf(stderr, "weir-trace pack: %s%s%s\n", path, path[0] != 0 ? ": " : "", reason);
    return status;
}

/* ---- one file --------------------------------------------------------------------------------------------------- */

static bool check(const char *path, char *why, size_t room) {
    struct trace trace;
    if (!trace_read(path, &trace, why, room)) return false;
    trace_free(&trace);
    return true;
}

static bool compress(const char *path, const char *copy, char *why, size_t room) {
    char piece[PIECE_BYTES];
    struct input *input = input_open(path, why, room);
    struct output *output = input != NULL ? output_open(copy, why, room) : NULL;
    bool whole = output != NULL;
    if (whole) {
        for (size_t count; (count = input_read(input, piece, sizeof piece)) > 0;) output_put(output, piece, count);
        if (input_failure(input) != NULL) output_fail(output, "%s: %s", path, input_failure(input));
        whole = output_close(output, true, why, room);
    }
    if (input != NULL) input_close(input);
    return whole;
}

/* input_read gives what there is: fewer bytes than asked for are no end. */
static size_t read_full(struct input *input, char *piece, size_t room) {
    size_t had = 0;
    for (size_t count = 1; count > 0 && had < room; had += count) count = input_read(input, piece + had, room - had);
    return had;
}

static bool are_equal(const char *path, const char *copy, char *why, size_t room) {
    char ours[PIECE_BYTES], theirs[PIECE_BYTES];
    struct input *original = input_open(path, why, room);
    struct input *packed = original != NULL ? input_open(copy, why, room) : NULL;
    bool equal = packed != NULL;
    for (size_t count = 1; equal && count > 0;) {
        count = read_full(original, ours, sizeof ours);
        equal = read_full(packed, theirs, sizeof theirs) == count && memcmp(ours, theirs, count) == 0 &&
                input_failure(original) == NULL && input_failure(packed) == NULL;
        if (!equal) snprintf(why, room, "%s: the copy, read back, is not equal to it; is it being written?", path);
    }
    if (packed != NULL) input_close(packed);
    if (original != NULL) input_close(original);
    return equal;
}

/* The copy may be read by whom the original may, and is as old. */
static void keep_mode_and_time(const struct stat *original, const char *copy) {
    const struct timespec times[2] = {original->st_atim, original->st_mtim};
    if (chmod(copy, original->st_mode & 0777) != 0 || utimensat(AT_FDCWD, copy, times, 0) != 0)
        say(0, copy, "mode or time could not be kept");
}

/* What must be so before anything is written; gives the exit status. */
static int may_pack(const char *path, const char *copy, const struct options *options, struct stat *original) {
    char why[600];
    struct input *input = input_open(path, why, sizeof why);
    if (input == NULL) return say(EXIT_BAD_INPUT, "", why);
    const struct codec *codec = input_codec(input);
    input_close(input);
    if (stat(path, original) != 0) return say(EXIT_BAD_INPUT, path, strerror(errno));
    if (!S_ISREG(original->st_mode)) return say(EXIT_BAD_INPUT, path, "it is no regular file");
    if (codec != NULL) return say(EXIT_BAD_INPUT, path, "it is compressed already");
    if (output_is_input(copy, path)) return say(EXIT_BAD_INPUT, copy, "it is the trace itself, by another name");
    if (!options->force && access(copy, F_OK) == 0)
        return say(EXIT_BAD_INPUT, copy, "it is there already (--force replaces it)");
    return check(path, why, sizeof why) ? EXIT_SUCCESS : say(EXIT_BAD_INPUT, "", why);
}

static int pack(const char *path, const struct options *options) {
    char why[600], copy[4096];
    struct stat original, packed;
    if ((size_t)snprintf(copy, sizeof copy, "%s%s", path, options->ending) >= sizeof copy)
        return say(EXIT_BAD_INPUT, "", "a path is too long");
    const int status = may_pack(path, copy, options, &original);
    if (status != EXIT_SUCCESS) return status;
    if (!compress(path, copy, why, sizeof why)) return say(EXIT_FAILURE, "", why);
    if (!are_equal(path, copy, why, sizeof why)) {
        unlink(copy);
        return say(EXIT_FAILURE, "", why);
    }
    keep_mode_and_time(&original, copy);
    if (!options->keep && unlink(path) != 0) return say(EXIT_FAILURE, path, strerror(errno));
    if (stat(copy, &packed) == 0)
        printf("%s: %lld bytes, %lld before\n", copy, (long long)packed.st_size, (long long)original.st_size);
    return EXIT_SUCCESS;
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

static int unknown(const char *argument) {
    static const char *const names[] = {"--gzip", "--force", "--keep", "--help"};
    char sentence[200];
    const char *nearest = weir__nearest(argument, names, sizeof names / sizeof *names);
    snprintf(sentence, sizeof sentence,
             nearest != NULL ? "unknown option %.60s; did you mean %s?" : "unknown option %.60s", argument, nearest);
    return say(EXIT_BAD_INPUT, "", sentence);
}

int weir_trace_pack(int count, char **argument) {
    struct options options = {.ending = ".zst"};
    int files = 0, status = EXIT_SUCCESS;
    for (int i = 1; i < count; i++) {
        const char *text = argument[i];
        if (strcmp(text, "--help") == 0) {
            fputs(usage, stdout);
            return EXIT_SUCCESS;
        }
        if (strcmp(text, "--gzip") == 0)
            options.ending = ".gz";
        else if (strcmp(text, "--force") == 0)
            options.force = true;
        else if (strcmp(text, "--keep") == 0)
            options.keep = true;
        else if (text[0] == '-')
            return unknown(text);
        else
            files++;
    }
    if (files == 0) return say(EXIT_BAD_INPUT, "", "no trace given (--help says how)");
    for (int i = 1; i < count; i++) {
        if (argument[i][0] == '-') continue;
        const int own = pack(argument[i], &options);
        if (own != EXIT_SUCCESS && status != EXIT_FAILURE) status = own;
    }
    return status;
}
