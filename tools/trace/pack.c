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
#include "input.h"
#include "output.h"
#include "tools/options/option_table.h"
#include "trace.h"

enum { EXIT_BAD_INPUT = 2, PIECE_BYTES = 1 << 16 };

struct options {
    char **files; /* the front of the arguments, where they are put together */
    int file_count;
    bool gzip, force, keep;
};

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
    if ((size_t)snprintf(copy, sizeof copy, "%s%s", path, options->gzip ? ".gz" : ".zst") >= sizeof copy)
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

/* ---- the command ------------------------------------------------------------------------------------------------ */

static const struct option table[] = {
    {"gzip", NULL, "FILE.gz instead", OPTION_FLAG(gzip)},
    {"force", NULL, "also when there is a FILE.zst, which is replaced", OPTION_FLAG(force)},
    {"keep", NULL, "FILE stays", OPTION_FLAG(keep)},
    {"help", NULL, NULL, OPTION_HELP},
};

static int take_file(char **words, struct options *options, struct complaint complaint) {
    if (strcmp(words[0], "-") == 0) return complain(complaint, "-: standard input has no file that could be replaced");
    options->files[options->file_count++] = words[0];
    return 1;
}

static bool check_files(struct options *options, struct complaint complaint) {
    return options->file_count > 0 || complain(complaint, "no trace given (--help says how)");
}

static const struct option_table pack_options = {
    .program = "weir-trace pack",
    .usage =
        "usage: weir-trace pack FILE... [--gzip] [--force] [--keep]\n"
        "Checks each trace by reading it, writes FILE.zst, and removes FILE when the copy has been read back and is\n"
        "equal. All programs of weir read it as it is.\n",
    .status = "Exit status: 0 all were packed, 1 failed, 2 bad input; what could not be packed is as it was.\n",
    .options = table,
    .count = sizeof table / sizeof *table,
    .words = take_file,
    .check = check_files,
};

int weir_trace_pack(int count, char **argument) {
    struct options options = {.files = argument};
    int status = options_read(&pack_options, &options, count, argument);
    if (status != OPTIONS_GO_ON) return status;
    status = EXIT_SUCCESS;
    for (int i = 0; i < options.file_count; i++) {
        const int own = pack(options.files[i], &options);
        if (own != EXIT_SUCCESS && status != EXIT_FAILURE) status = own;
    }
    return status;
}
