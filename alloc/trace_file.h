/* SPDX-License-Identifier: Apache-2.0 */
/* A text file that many threads append lines to, through a shared mapping.
 *
 * Words. place: the range of the file that a line gets by one atomic add on `position`; so the order is global, and a line
 * whose place was taken after another call had returned stands after that call's line. room: the length of the file that
 * is really there: blocks are allocated ahead, so that a full disk is an answer and never a signal. window: a piece of the
 * file that is mapped; it overlaps with the next, so that no line is cut in two.
 *
 * What has been written is in the system's page cache: it survives the death of the process, whatever kills it (not that
 * of the machine). The line feed of a line is stored first and its first byte last, so that a line that was cut short
 * begins with a zero byte, and ends where its place ends if it shows at all. Zero bytes stand at the end of the file too,
 * until it is closed or the program exits.
 *
 * When room can't be made the writing ends, once, with one logged sentence: what stands before stays, whole.
 * Threads: any, for put, reserve and write. Fork: a child has neither mapping nor descriptor, and must not write. */
#ifndef WEIR_ALLOC_TRACE_FILE_H
#define WEIR_ALLOC_TRACE_FILE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "weir/status.h"

#define WEIR__TRACE_LONGEST_LINE ((size_t)256)
#define WEIR__TRACE_WINDOW_BYTES ((uint64_t)16 << 20)
#define WEIR__TRACE_WINDOWS      ((size_t)256) /* 4 GiB in all: more lines than a reader takes are of no use */
#define WEIR__TRACE_NO_PLACE     UINT64_MAX

struct weir__trace_file {
    _Alignas(64) uint64_t position; /* atomic: where the next line goes */
    _Alignas(64) uint64_t room;     /* atomic; grows under the lock */
    uint64_t mark;                  /* atomic: whoever takes the place across it makes more room, before it is needed */
    bool ended;                     /* atomic */
    char *windows[WEIR__TRACE_WINDOWS]; /* atomic each; NULL: not mapped yet. Those below `room` are */
    pthread_mutex_t lock;               /* room, mark, end; mapping */
    uint64_t most;                      /* bytes that the file may have */
    uint64_t end;                       /* where the first line begins that found no room */
    int descriptor;                     /* as long as it is still the file's: see descriptor_of */
    dev_t device;                       /* by which the file is known again */
    ino_t inode;
    pid_t process;  /* that opened it */
    char *path;     /* where it really is */
    char *absolute; /* the same, from the root; NULL: not known */
};

/* Opens `path`, or "path.2", "path.3"... where that is being written by another one, of this process or of any other; says
 * so in the log. A file that nobody writes is emptied.
 * Fails: WEIR_SYSTEM with the path and the reason, WEIR_OUT_OF_HOST_MEMORY; nothing is left. */
enum weir_status weir__trace_file_open(struct weir__trace_file *file, const char *path);
/* Cuts the file to its length. Needs: nobody writes any more. */
void weir__trace_file_close(struct weir__trace_file *file);

/* Takes a place for `length` <= WEIR__TRACE_LONGEST_LINE bytes. Gives: where, or WEIR__TRACE_NO_PLACE when the writing has
 * ended. */
uint64_t weir__trace_file_reserve(struct weir__trace_file *file, size_t length);
/* Gives: where a line is to be written that got this place; its line feed stands there. The caller writes all but the
 * first byte, and that one last, by commit. */
char *weir__trace_file_begin(struct weir__trace_file *file, uint64_t place, size_t length);
static inline void weir__trace_file_commit(char *line, char first) { __atomic_store_n(line, first, __ATOMIC_RELEASE); }
/* Both in one: `line` is whole. */
void weir__trace_file_write(struct weir__trace_file *file, uint64_t place, const char *line, size_t length);
/* Ends the writing before its time: the reason goes to the log. */
void weir__trace_file_end(struct weir__trace_file *file, const char *reason);

static inline bool weir__trace_file_ended(const struct weir__trace_file *file) {
    return __atomic_load_n(&file->ended, __ATOMIC_RELAXED);
}

#endif
