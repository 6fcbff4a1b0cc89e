/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 300 };

static char folder[64];

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)info;
    (void)kind;
    (void)place;
    return remove(path);
}

static void remove_folder(void) { nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS); }

const char *scratch(void) {
    if (folder[0] != 0) return folder;
    snprintf(folder, sizeof folder, "/tmp/weir-preload-XXXXXX");
    assert_non_null(mkdtemp(folder));
    chmod(folder, 0755);
    atexit(remove_folder);
    return folder;
}

static void path_of(const char *name, char path[128]) { snprintf(path, 128, "%s/%s", scratch(), name); }

static void read_all(const char *name, char *text, size_t room) {
    char path[128];
    path_of(name, path);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    text[fread(text, 1, room - 1, file)] = 0;
    fclose(file);
}

static int make_file(const char *name) {
    char path[128];
    path_of(name, path);
    const int file = open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0666);
    assert_true(file >= 0);
    fchmod(file, 0666);
    return file;
}

static void set(const char *setting) {
    const char *equals = strchr(setting, '=');
    if (equals == NULL) {
        unsetenv(setting);
        return;
    }
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(equals - setting), setting);
    setenv(name, equals + 1, 1);
}

static void become(const char *const *arguments, const char *const *settings, const char *const *more, int out,
                   int err) {
    char summary[160], path[128];
    path_of("summary", path);
    snprintf(summary, sizeof summary, "WEIR_RUN_SUMMARY=%s", path);
    dup2(out, 1);
    dup2(err, 2);
    alarm(SECONDS);
    set(summary);
    for (; *settings != NULL; settings++) set(*settings);
    for (; more != NULL && *more != NULL; more++) set(*more);
    execv(arguments[0], (char *const *)(uintptr_t)arguments);
    dprintf(2, "%s: %s\n", arguments[0], strerror(errno));
    _exit(127);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void run(const char *const *arguments, const char *const *settings, const char *const *more,
                struct outcome *outcome) {
    const int out = make_file("out"), err = make_file("err");
    int status = 0;
    close(make_file("summary"));
    const double began = now();
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) become(arguments, settings, more, out, err);
    assert_int_equal(waitpid(child, &status, 0), child);
    outcome->seconds = now() - began;
    outcome->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    close(out);
    close(err);
    read_all("out", outcome->out, sizeof outcome->out);
    read_all("err", outcome->err, sizeof outcome->err);
    read_all("summary", outcome->summary, sizeof outcome->summary);
}

#define OURS "WEIR_DEVICE", "WEIR_LOG", "LD_LIBRARY_PATH=" TEST_DRIVER, "WEIR_EMU=devices:2,watch:abort"

#ifdef TEST_LINKED
#define WITHOUT "WEIR_PRELOAD=off"
#define WITH    "LD_PRELOAD"
#else
#define WITHOUT "LD_PRELOAD"
#define WITH    "LD_PRELOAD=" TEST_LIBRARY
#endif

void run_plain(const char *const *arguments, const char *const *more, struct outcome *outcome) {
    run(arguments, (const char *const[]){OURS, WITHOUT, NULL}, more, outcome);
}

void run_preloaded(const char *const *arguments, const char *const *more, struct outcome *outcome) {
    run(arguments, (const char *const[]){OURS, WITH, NULL}, more, outcome);
}

uint64_t counted(const struct outcome *outcome, const char *name) {
    char key[64];
    uint64_t sum = 0;
    snprintf(key, sizeof key, "\"%s\":", name);
    for (const char *at = outcome->summary; (at = strstr(at, key)) != NULL;) {
        at += strlen(key);
        sum += strtoull(at, NULL, 10);
    }
    return sum;
}

uint64_t counted_allocs(const struct outcome *outcome) {
    return counted(outcome, "plain_allocs") + counted(outcome, "stream_allocs");
}

uint64_t counted_frees(const struct outcome *outcome) {
    return counted(outcome, "plain_frees") + counted(outcome, "stream_frees");
}

void check_ended(int expected, const struct outcome *outcome, const char *file, int line) {
    if (outcome->status == expected && outcome->err[0] == 0) return;
    print_error("%s:%d: ended with %d, expected %d; it wrote\n%s\nand on standard error\n%s\n", file, line,
                outcome->status, expected, outcome->out, outcome->err);
    fail();
}
