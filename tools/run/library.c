/* SPDX-License-Identifier: Apache-2.0 */
#include "library.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PRELOADED "libweir-preload.so.0"
#define NEEDED    "libweir.so.0"
#define DRIVER    "emu"

/* Where libraries lie, seen from this program: in the build tree, and installed. */
static const char *const places[] = {"../lib", "../" WEIR_LIBDIR};
/* Where the emulated driver lies, seen from there. */
static const char *const drivers[] = {"emu", "weir/emu"};

static bool is_there(const char *folder, const char *name, char *path, size_t room) {
    return snprintf(path, room, "%s/%s", folder, name) < (int)room && access(path, R_OK) == 0;
}

static bool find_folder(char *folder, size_t room) {
    char path[4200], *self = realpath("/proc/self/exe", NULL);
    bool found = false;
    const char *here = self == NULL ? "." : dirname(self);
    for (size_t i = 0; i < sizeof places / sizeof *places && !found; i++) {
        snprintf(path, sizeof path, "%s/%s", here, places[i]);
        char *real = realpath(path, NULL);
        found = real != NULL && is_there(real, PRELOADED, path, sizeof path) &&
                snprintf(folder, room, "%s", real) < (int)room;
        free(real);
    }
    free(self);
    return found;
}

/* What separates, and what the linker puts something in place of. */
static bool is_odd(const char *path) { return strpbrk(path, " \t\n:;$") != NULL; }

static bool make_run_folder(struct library *library) {
    const char *given = getenv("TMPDIR");
    if (given == NULL || given[0] != '/' || is_odd(given) || strlen(given) > 200) given = "/tmp";
    snprintf(library->folder, sizeof library->folder, "%s/weir-run-XXXXXX", given);
    return mkdtemp(library->folder) != NULL;
}

/* Each library looks for what it needs beside itself, by the path by which it was found. */
static bool link_libraries(struct library *library, const char *folder) {
    static const char *const names[] = {PRELOADED, NEEDED};
    for (size_t i = 0; i < 2; i++) {
        char from[4200], to[300];
        snprintf(from, sizeof from, "%s/%s", folder, names[i]);
        snprintf(to, sizeof to, "%s/%s", library->folder, names[i]);
        if (symlink(from, to) != 0) return false;
    }
    return true;
}

/* Of the folders that may have the emulated driver the first one that does; through a link where its name is odd. */
static bool find_driver(struct library *library, const char *folder) {
    char path[4200], file[4300], link[300];
    for (size_t i = 0; i < sizeof drivers / sizeof *drivers; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, drivers[i]);
        if (!is_there(path, "libcuda.so.1", file, sizeof file)) continue;
        snprintf(link, sizeof link, "%s/" DRIVER, library->folder);
        snprintf(library->driver, sizeof library->driver, "%.4095s", is_odd(path) ? link : path);
        return !is_odd(path) || symlink(path, link) == 0;
    }
    return true;
}

bool library_open(struct library *library, char *why, size_t room) {
    char folder[4000];
    *library = (struct library){0};
    if (!find_folder(folder, sizeof folder)) {
        snprintf(why, room, "there is no " PRELOADED " in %s or %s beside weir-run's own folder", places[0], places[1]);
        return false;
    }
    if (!make_run_folder(library) || (is_odd(folder) && !link_libraries(library, folder)) ||
        !find_driver(library, folder)) {
        snprintf(why, room, "%s: %s", library->folder, strerror(errno));
        return false;
    }
    snprintf(library->path, sizeof library->path, "%s/" PRELOADED, is_odd(folder) ? library->folder : folder);
    return true;
}

void library_close(const struct library *library) {
    static const char *const names[] = {PRELOADED, NEEDED, DRIVER, "summary"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[300];
        snprintf(path, sizeof path, "%s/%s", library->folder, names[i]);
        unlink(path);
    }
    rmdir(library->folder);
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

static bool is_program(const char *path) {
    struct stat file;
    return stat(path, &file) == 0 && S_ISREG(file.st_mode) && access(path, X_OK) == 0;
}

bool program_find(const char *name, char *path, size_t path_room, int *status, char *why, size_t room) {
    const char *at = getenv("PATH");
    if (at == NULL || *at == 0) at = "/usr/local/bin:/usr/bin:/bin";
    const bool named = strchr(name, '/') != NULL;
    if (named) snprintf(path, path_room, "%s", name);
    for (; !named; at++) {
        const int length = (int)strcspn(at, ":");
        snprintf(path, path_room, "%.*s%s%s", length, at, length > 0 ? "/" : "./", name);
        if (*name != 0 && is_program(path)) return true;
        at += length;
        if (*at == 0) break;
    }
    if (named && is_program(path)) return true;
    const bool there = named && access(path, F_OK) == 0;
    *status = there ? 126 : 127;
    snprintf(why, room, "%.200s: %s", name,
             !named   ? "no program of that name is found in PATH"
             : !there ? strerror(errno)
                      : "it is no program, or not to be started by this user");
    return false;
}

static bool has_interpreter(int file, const Elf64_Ehdr *head) {
    for (int i = 0; i < head->e_phnum; i++) {
        Elf64_Phdr part;
        if (pread(file, &part, sizeof part, (off_t)(head->e_phoff + (size_t)i * sizeof part)) != sizeof part)
            return true;
        if (part.p_type == PT_INTERP) return true;
    }
    return false;
}

/* Scripts and what can't be read are not judged. */
static const char *judge(int file) {
    Elf64_Ehdr head;
    struct stat info;
    if (pread(file, &head, sizeof head, 0) != sizeof head || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return NULL;
    if (head.e_ident[EI_CLASS] != ELFCLASS64) return "is a program of 32 bits, which loads no libraries of 64";
    if (!has_interpreter(file, &head)) return "is linked statically, so no library is loaded before it";
    if (fstat(file, &info) != 0) return NULL;
    const bool other_user = (info.st_mode & S_ISUID) != 0 && info.st_uid != geteuid();
    const bool other_group = (info.st_mode & S_ISGID) != 0 && info.st_gid != getegid();
    return other_user || other_group ? "gets more rights than its user has (set-uid or set-gid), so no library is "
                                       "loaded before it"
                                     : NULL;
}

const char *program_refuses(const char *path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return NULL;
    const char *why = judge(file);
    close(file);
    return why;
}
