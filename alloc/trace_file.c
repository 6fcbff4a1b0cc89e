/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device/error.h"
#include "device/standard.h"

#define LEAST_CHUNK  ((uint64_t)64 << 10)
#define MOST_CHUNK   ((uint64_t)4 << 20)
#define OVERLAP      ((uint64_t)64 << 10) /* of a window with the next: a line, in pages of any size */
#define MOST_NAMES   9999                 /* path.2 to path.9999 */
#define MOST_OPEN    256                  /* of this process, that are cut at exit and closed in a child of fork */
#define WHOLE_WINDOW (WEIR__TRACE_WINDOW_BYTES + OVERLAP)

/* ---- the open ones: cut at exit, closed in a child of fork ------------------------------------------------------- */

static struct weir__trace_file *open_files[MOST_OPEN]; /* atomic each */

static void unmap(struct weir__trace_file *file) {
    for (size_t window = 0; window < WEIR__TRACE_WINDOWS && file->windows[window] != NULL; window++)
        munmap(file->windows[window], WHOLE_WINDOW);
}

static bool is_the_file(const struct weir__trace_file *file, int descriptor) {
    struct stat known;
    return descriptor >= 0 && fstat(descriptor, &known) == 0 && known.st_dev == file->device &&
           known.st_ino == file->inode;
}

/* Programs close descriptors that they know nothing of, as daemons do, and then have others by the same numbers.
 * Gives: -1 where the file can't be opened again. */
static int descriptor_of(struct weir__trace_file *file) {
    if (is_the_file(file, file->descriptor)) return file->descriptor;
    file->descriptor = file->absolute != NULL ? weir__above_standard(open(file->absolute, O_RDWR | O_CLOEXEC)) : -1;
    if (file->descriptor < 0 || is_the_file(file, file->descriptor)) return file->descriptor;
    close(file->descriptor);
    return file->descriptor = -1;
}

static void close_file(struct weir__trace_file *file) {
    if (is_the_file(file, file->descriptor)) close(file->descriptor);
}

/* What the child has of the files would keep the locks, and so the names, after the parent is gone. */
static void close_in_child(void) {
    for (size_t i = 0; i < MOST_OPEN; i++) {
        struct weir__trace_file *file = __atomic_exchange_n(&open_files[i], NULL, __ATOMIC_ACQUIRE);
        if (file == NULL) continue;
        unmap(file);
        close_file(file);
    }
}

static pthread_once_t fork_watched = PTHREAD_ONCE_INIT;
static void watch_fork(void) { pthread_atfork(NULL, NULL, close_in_child); }

static void remember(struct weir__trace_file *file) {
    pthread_once(&fork_watched, watch_fork);
    for (size_t i = 0; i < MOST_OPEN; i++) {
        struct weir__trace_file *none = NULL;
        if (__atomic_compare_exchange_n(&open_files[i], &none, file, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) return;
    }
}

static void forget(struct weir__trace_file *file) {
    for (size_t i = 0; i < MOST_OPEN; i++) {
        struct weir__trace_file *it = file;
        if (__atomic_compare_exchange_n(&open_files[i], &it, NULL, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return;
    }
}

/* ---- open -------------------------------------------------------------------------------------------------------- */

static enum weir_status fail(const char *call, const char *path, const char *reason) {
    return weir__fail(WEIR_SYSTEM, 0, call, "trace %s: %s", path, reason);
}

/* False: the file is not the one at the path any more, which somebody has removed or replaced meanwhile. */
static bool still_there(int descriptor, const char *path) {
    struct stat opened, named;
    return fstat(descriptor, &opened) == 0 && stat(path, &named) == 0 && opened.st_dev == named.st_dev &&
           opened.st_ino == named.st_ino;
}

/* Opens and locks one name. Gives: *descriptor, -1 where another one is writing it. */
static enum weir_status try_name(const char *path, int *descriptor) {
    struct stat known;
    *descriptor = weir__above_standard(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (*descriptor < 0) return fail("open", path, strerror(errno));
    enum weir_status status = WEIR_OK;
    if (fstat(*descriptor, &known) != 0)
        status = fail("fstat", path, strerror(errno));
    else if (!S_ISREG(known.st_mode))
        status = fail("open", path, "it is no regular file, and a trace is written through a mapping");
    if (status == WEIR_OK && flock(*descriptor, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) {
            close(*descriptor);
            *descriptor = -1;
            return WEIR_OK;
        }
        weir__log(WEIR__LOG_WARN, "trace %s: it can't be locked (%s); another recording to it would spoil both", path,
                  strerror(errno));
    }
    if (status == WEIR_OK) return WEIR_OK;
    close(*descriptor);
    *descriptor = -1;
    return status;
}

/* ---- what this process has recorded ------------------------------------------------------------------------------ */

/* A program that makes its pool anew keeps what the first one recorded: a name is written once a process. */
struct name {
    struct name *next;
    char path[];
};

static struct name *names; /* atomic; only added to, and never freed */

static bool was_recorded(const char *path) {
    struct stat known;
    for (const struct name *name = __atomic_load_n(&names, __ATOMIC_ACQUIRE); name != NULL; name = name->next)
        if (strcmp(name->path, path) == 0) return stat(path, &known) == 0; /* one that was removed is free again */
    return false;
}

/* Without host memory the name is not remembered. */
static void remember_name(const char *path) {
    const size_t length = strlen(path) + 1;
    struct name *name = malloc(sizeof *name + length);
    if (name == NULL) return;
    memcpy(name->path, path, length);
    name->next = __atomic_load_n(&names, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&names, &name->next, name, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) continue;
}

/* ---- which name -------------------------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end) {
    const size_t length = strlen(text), rest = strlen(end);
    return length >= rest && strcmp(text + length - rest, end) == 0;
}

static void tell_of_name(const struct weir__trace_file *file, const char *path) {
    if (strcmp(file->path, path) != 0)
        weir__log(WEIR__LOG_WARN,
                  "trace %s is being recorded by another pool, or was by this process; this one goes to %s", path,
                  file->path);
    if (ends_with(path, ".zst") || ends_with(path, ".gz"))
        weir__log(WEIR__LOG_WARN,
                  "trace %s is recorded as plain text, whatever its name ends with; `weir-trace pack` compresses it",
                  file->path);
}

static void know_again(struct weir__trace_file *file) {
    struct stat known;
    if (fstat(file->descriptor, &known) != 0) return;
    file->device = known.st_dev;
    file->inode = known.st_ino;
    file->absolute = realpath(file->path, NULL);
}

static enum weir_status open_free_name(struct weir__trace_file *file, const char *path) {
    const size_t room = strlen(path) + 8;
    file->path = malloc(room);
    if (file->path == NULL) return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory to record to %s", path);
    for (int number = 1; number <= MOST_NAMES;) {
        snprintf(file->path, room, number == 1 ? "%s" : "%s.%d", path, number);
        if (was_recorded(file->path)) {
            number++;
            continue;
        }
        const enum weir_status status = try_name(file->path, &file->descriptor);
        if (status != WEIR_OK) return status;
        if (file->descriptor < 0) {
            number++;
            continue;
        }
        if (!still_there(file->descriptor, file->path)) {
            close(file->descriptor);
            continue;
        }
        tell_of_name(file, path);
        know_again(file);
        return WEIR_OK;
    }
    return fail("flock", path, "it and its 9998 successors are all being recorded, or were by this process");
}

static int add_chunk(struct weir__trace_file *file);

static void release(struct weir__trace_file *file) {
    close_file(file);
    pthread_mutex_destroy(&file->lock);
    free(file->path);
    free(file->absolute);
}

enum weir_status weir__trace_file_open(struct weir__trace_file *file, const char *path) {
    *file = (struct weir__trace_file){.most = WEIR__TRACE_WINDOW_BYTES * WEIR__TRACE_WINDOWS,
                                      .end = UINT64_MAX,
                                      .process = getpid(),
                                      .descriptor = -1};
    pthread_mutex_init(&file->lock, NULL);
    enum weir_status status = open_free_name(file, path);
    if (status == WEIR_OK && ftruncate(file->descriptor, 0) != 0)
        status = fail("ftruncate", file->path, strerror(errno));
    const int code = status == WEIR_OK ? add_chunk(file) : 0;
    if (code != 0) status = fail("posix_fallocate", file->path, strerror(code));
    if (status == WEIR_OK) {
        remember(file);
        remember_name(file->path);
    } else {
        release(file);
    }
    return status;
}

/* ---- room -------------------------------------------------------------------------------------------------------- */

static void end_at(struct weir__trace_file *file, uint64_t place) {
    pthread_mutex_lock(&file->lock);
    if (place < file->end) file->end = place;
    pthread_mutex_unlock(&file->lock);
}

/* Needs the lock. */
static void end(struct weir__trace_file *file, const char *reason) {
    if (file->ended) return;
    weir__log(WEIR__LOG_ERROR, "trace %s: %s; recording ends here, what was recorded stays", file->path, reason);
    __atomic_store_n(&file->ended, true, __ATOMIC_RELAXED);
}

void weir__trace_file_end(struct weir__trace_file *file, const char *reason) {
    pthread_mutex_lock(&file->lock);
    end(file, reason);
    pthread_mutex_unlock(&file->lock);
}

/* Allocating past the process's limit of a file's size would send it a signal that ends it. */
static int allocate(struct weir__trace_file *file, uint64_t bytes) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && file->room + bytes > limit.rlim_cur)
        return EFBIG;
    const int descriptor = descriptor_of(file);
    int code;
    do code = descriptor < 0 ? ENOENT : posix_fallocate(descriptor, (off_t)file->room, (off_t)bytes);
    while (code == EINTR);
    return code;
}

/* Windows that are behind are given back to the system, but for their addresses: a thread that is still to write there
 * gets its page again. */
static int map_window(struct weir__trace_file *file, size_t window) {
    if (file->windows[window] != NULL) return 0;
    void *at = mmap(NULL, WHOLE_WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, file->descriptor,
                    (off_t)(window * WEIR__TRACE_WINDOW_BYTES));
    if (at == MAP_FAILED) return errno;
    __atomic_store_n(&file->windows[window], at, __ATOMIC_RELEASE);
    if (window >= 2) madvise(file->windows[window - 2], WHOLE_WINDOW, MADV_DONTNEED);
    return 0;
}

/* Needs the lock. Gives: 0, or what errno would say. */
static int add_chunk(struct weir__trace_file *file) {
    uint64_t chunk = file->room < LEAST_CHUNK ? LEAST_CHUNK : file->room;
    if (chunk > MOST_CHUNK) chunk = MOST_CHUNK;
    int code = file->room + chunk > file->most ? EFBIG : allocate(file, chunk);
    if (code == 0) code = map_window(file, (size_t)(file->room / WEIR__TRACE_WINDOW_BYTES));
    if (code != 0) return code;
    __atomic_store_n(&file->room, file->room + chunk, __ATOMIC_RELEASE);
    __atomic_store_n(&file->mark, file->room - chunk / 2, __ATOMIC_RELAXED);
    return 0;
}

static bool make_room(struct weir__trace_file *file, uint64_t needed) {
    pthread_mutex_lock(&file->lock);
    while (file->room < needed && !file->ended) {
        const int code = add_chunk(file);
        if (code != 0) end(file, file->room < file->most ? strerror(code) : "that is as long as a recording gets");
    }
    const bool made = file->room >= needed;
    pthread_mutex_unlock(&file->lock);
    return made;
}

/* Before it is needed: others go on meanwhile. If it can't be had, whoever needs it tries again. */
static void make_room_ahead(struct weir__trace_file *file, uint64_t room) {
    pthread_mutex_lock(&file->lock);
    if (file->room == room && !file->ended) add_chunk(file);
    pthread_mutex_unlock(&file->lock);
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

uint64_t weir__trace_file_reserve(struct weir__trace_file *file, size_t length) {
    if (weir__trace_file_ended(file)) return WEIR__TRACE_NO_PLACE;
    const uint64_t place = __atomic_fetch_add(&file->position, length, __ATOMIC_RELAXED), after = place + length;
    const uint64_t mark = __atomic_load_n(&file->mark, __ATOMIC_RELAXED);
    const uint64_t room = __atomic_load_n(&file->room, __ATOMIC_ACQUIRE);
    if (after <= room) {
        if (place < mark && after >= mark) make_room_ahead(file, room);
        return place;
    }
    if (make_room(file, after)) return place;
    end_at(file, place);
    return WEIR__TRACE_NO_PLACE;
}

char *weir__trace_file_begin(struct weir__trace_file *file, uint64_t place, size_t length) {
    char *window = __atomic_load_n(&file->windows[place / WEIR__TRACE_WINDOW_BYTES], __ATOMIC_ACQUIRE);
    char *line = window + place % WEIR__TRACE_WINDOW_BYTES;
    line[length - 1] = '\n';
    __atomic_signal_fence(__ATOMIC_SEQ_CST); /* who dies between two stores has made those before */
    return line;
}

void weir__trace_file_write(struct weir__trace_file *file, uint64_t place, const char *line, size_t length) {
    char *to = weir__trace_file_begin(file, place, length);
    memcpy(to + 1, line + 1, length - 2);
    weir__trace_file_commit(to, *line);
}

/* ---- close ------------------------------------------------------------------------------------------------------- */

static uint64_t length_of(const struct weir__trace_file *file) {
    const uint64_t position = __atomic_load_n(&file->position, __ATOMIC_RELAXED);
    const uint64_t most = file->end < file->room ? file->end : file->room;
    return position < most ? position : most;
}

void weir__trace_file_close(struct weir__trace_file *file) {
    forget(file);
    unmap(file);
    if (ftruncate(descriptor_of(file), (off_t)length_of(file)) != 0)
        weir__log(WEIR__LOG_WARN, "trace %s: zero bytes stay at its end: %s", file->path, strerror(errno));
    flock(descriptor_of(file), LOCK_UN); /* a child of fork by other means than fork() may have the descriptor too */
    release(file);
}

/* Threads may still be running, and writing: what they would write past the end goes nowhere. */
static void cut_at_exit(struct weir__trace_file *file) {
    pthread_mutex_lock(&file->lock);
    __atomic_store_n(&file->ended, true, __ATOMIC_RELAXED); /* nothing is mapped from here on */
    const uint64_t length = length_of(file), page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t last = (length + page - 1) / page * page;
    bool safe = true;
    for (size_t window = 0; window < WEIR__TRACE_WINDOWS && file->windows[window] != NULL; window++) {
        const uint64_t begin = window * WEIR__TRACE_WINDOW_BYTES, keep = last > begin ? last - begin : 0;
        if (keep >= WHOLE_WINDOW) continue;
        safe = mmap(file->windows[window] + keep, WHOLE_WINDOW - keep, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED &&
               safe;
    }
    if (safe && ftruncate(descriptor_of(file), (off_t)length) != 0)
        weir__log(WEIR__LOG_WARN, "trace %s: zero bytes stay at its end: %s", file->path, strerror(errno));
    pthread_mutex_unlock(&file->lock);
}

/* Programs end without destroying their pools. */
static void cut_all_at_exit(void) __attribute__((destructor));
static void cut_all_at_exit(void) {
    for (size_t i = 0; i < MOST_OPEN; i++) {
        struct weir__trace_file *file = __atomic_exchange_n(&open_files[i], NULL, __ATOMIC_ACQUIRE);
        if (file != NULL && file->process == getpid()) cut_at_exit(file);
    }
}
