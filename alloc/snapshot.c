/* SPDX-License-Identifier: Apache-2.0 */
/* The pool's memory as a file that PyTorch's memory viewer opens (docs/snapshot.md): what there is, and was, is copied under the lock,
 * and written without it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc/history.h"
#include "alloc/pickle.h"
#include "alloc/pool.h"
#include "device/path.h"
#include "device/standard.h"
#include "weir/weir.h"

/* Words that come again: keys of segments and blocks, and states. */
#define WORD_LIST(X)                                                                                                   \
    X(ADDRESS, "address")                                                                                              \
    X(TOTAL_SIZE, "total_size")                                                                                        \
    X(ALLOCATED_SIZE, "allocated_size")                                                                                \
    X(ACTIVE_SIZE, "active_size")                                                                                      \
    X(REQUESTED_SIZE, "requested_size")                                                                                \
    X(SIZE, "size")                                                                                                    \
    X(STATE, "state")                                                                                                  \
    X(STREAM, "stream")                                                                                                \
    X(DEVICE, "device")                                                                                                \
    X(SEGMENT_TYPE, "segment_type")                                                                                    \
    X(SEGMENT_POOL_ID, "segment_pool_id")                                                                              \
    X(IS_EXPANDABLE, "is_expandable")                                                                                  \
    X(FRAMES, "frames")                                                                                                \
    X(BLOCKS, "blocks")                                                                                                \
    X(NAME, "name")                                                                                                    \
    X(LARGE, "large")                                                                                                  \
    X(SMALL, "small")                                                                                                  \
    X(ALLOCATED, "active_allocated")                                                                                   \
    X(PENDING, "active_pending_free")                                                                                  \
    X(INACTIVE, "inactive")

enum word {
#define WORD_ENUM(word, text) word,
    WORD_LIST(WORD_ENUM)
#undef WORD_ENUM
};

static void put_word(struct weir__pickle *pickle, enum word word) {
    static const char *const texts[] = {
#define WORD_TEXT(word, text) text,
        WORD_LIST(WORD_TEXT)
#undef WORD_TEXT
    };
    weir__pickle_word(pickle, (uint8_t)word, texts[word]);
}

/* ---- the copy --------------------------------------------------------------------------------------------------- */

struct piece {
    uintptr_t address;
    size_t bytes, requested_bytes;
    uint32_t slot; /* whose block it is, or in whose index */
    uint8_t state; /* a word */
    bool small;
};

struct segment {
    uintptr_t address;
    size_t first, count; /* pieces; they tile it */
    bool expandable;     /* a part of the arena */
};

struct copy {
    struct piece *pieces;
    struct segment *segments;
    struct weir_stream_stats *streams;
    weir_stream *stream_of; /* by slot */
    size_t piece_count, piece_room, segment_count, segment_room, stream_count;
    struct weir_pool_stats stats;
    struct weir__past_event *past;
    size_t past_count;
    bool overflowed; /* there were more */
    bool failed;     /* no host memory */
};

/* Room for one entry more; doubled, so that a million cost as many steps. NULL without host memory, `array` is kept. */
static void *grow(void *array, size_t count, size_t *room, size_t bytes) {
    if (count < *room) return array;
    const size_t wanted = *room == 0 ? 256 : *room * 2;
    void *larger = realloc(array, wanted * bytes);
    if (larger != NULL) *room = wanted;
    return larger;
}

static void begin_segment(struct copy *copy, uintptr_t address, bool expandable) {
    struct segment *segments = grow(copy->segments, copy->segment_count, &copy->segment_room, sizeof *copy->segments);
    copy->failed = copy->failed || segments == NULL;
    if (copy->failed) return;
    copy->segments = segments;
    segments[copy->segment_count++] =
        (struct segment){.address = address, .first = copy->piece_count, .expandable = expandable};
}

/* Beside a history, whose frees are over at once, nothing is pending: the viewer would draw it in every moment before too,
 * and where its addresses have no pages yet it draws nothing at all. */
static enum word state_of(const struct weir_pool *pool, const struct weir__extent *extent) {
    if (extent->state == WEIR__USED && !extent->kept) return ALLOCATED;
    if (pool->history != NULL) return INACTIVE;
    if (extent->state == WEIR__PENDING && !extent->alone) return PENDING;
    if (extent->kept && extent->kept_tick > pool->order.slots[extent->home]->complete) return PENDING;
    return weir__order_extent_is_complete(&pool->order, extent) ? INACTIVE : PENDING;
}

static void add_piece(const struct weir_pool *pool, const struct weir__extent *extent, struct copy *copy) {
    struct piece *pieces = grow(copy->pieces, copy->piece_count, &copy->piece_room, sizeof *copy->pieces);
    copy->failed = copy->failed || pieces == NULL;
    if (copy->failed) return;
    copy->pieces = pieces;
    pieces[copy->piece_count++] =
        (struct piece){.address = extent->address,
                       .bytes = extent->bytes,
                       .requested_bytes = extent->state == WEIR__USED && !extent->kept ? extent->requested_bytes : 0,
                       .slot = extent->home,
                       .state = (uint8_t)state_of(pool, extent),
                       .small = extent->small};
    copy->segments[copy->segment_count - 1].count++;
}

static bool is_bare(const struct weir__extent *extent) {
    return extent->state == WEIR__BARE || (extent->state == WEIR__MOVING && extent->was == WEIR__BARE);
}

/* A segment is a run of addresses that have pages. */
static void copy_arena(const struct weir_pool *pool, struct copy *copy) {
    bool inside = false;
    for (const struct weir__extent *extent = pool->first; extent != NULL && !copy->failed; extent = extent->next) {
        const bool bare = is_bare(extent);
        if (!bare && !inside) begin_segment(copy, extent->address, true);
        if (!bare && !copy->failed) add_piece(pool, extent, copy);
        inside = !bare;
    }
}

/* Of the per-stream pool; or a block alone. */
static void copy_segment(void *self, const struct weir_pool *pool, const struct weir__extent *first) {
    struct copy *copy = self;
    begin_segment(copy, first->address, false);
    for (const struct weir__extent *extent = first; extent != NULL && !copy->failed; extent = extent->next)
        add_piece(pool, extent, copy);
}

static void copy_streams(const struct weir_pool *pool, struct copy *copy) {
    const uint32_t count = pool->order.count;
    copy->streams = calloc(count, sizeof *copy->streams);
    copy->stream_of = calloc(count, sizeof *copy->stream_of);
    copy->failed = copy->failed || copy->streams == NULL || copy->stream_of == NULL;
    if (copy->failed) return;
    copy->stream_count = weir__tell_streams(pool, sizeof *copy->streams, copy->streams, count);
    for (uint32_t i = 0; i < count; i++) copy->stream_of[i] = weir__slot_stream(pool->order.slots[i]);
}

static void copy_past(struct weir_pool *pool, struct copy *copy) {
    if (copy->past == NULL) return;
    weir__history_add(pool, WEIR__PAST_SNAPSHOT, 0, copy->stats.live_bytes, WEIR__SLOT_NONE);
    copy->past_count = weir__history_copy(pool->history, copy->past);
    copy->overflowed = pool->history->count > pool->history->room;
}

/* What has passed by now is looked at first, where that may be. */
static void take_copy(struct weir_pool *pool, struct copy *copy) {
    if (pool->history != NULL) copy->past = malloc(pool->history->room * sizeof *copy->past);
    copy->failed = pool->history != NULL && copy->past == NULL;
    weir__pool_lock(pool);
    weir__fronts_drain(pool); /* so that their streams are asked too */
    if (!weir__in_host_function()) weir__order_poll_streams(&pool->order);
    weir__fronts_show(pool);
    copy_arena(pool, copy);
    weir__per_stream_each_segment(pool, copy_segment, copy);
    weir__alone_tell(pool, copy_segment, copy);
    copy_streams(pool, copy);
    copy->stats = weir__tell_stats(pool);
    copy_past(pool, copy);
    weir__fronts_hide(pool);
    weir__pool_unlock(pool);
}

static void free_copy(struct copy *copy) {
    free(copy->pieces);
    free(copy->segments);
    free(copy->streams);
    free(copy->stream_of);
    free(copy->past);
}

/* ---- segments and blocks ---------------------------------------------------------------------------------------- */

struct sums {
    size_t total, allocated, active, requested;
    weir_stream stream; /* of all blocks, or 0; a part of the arena is no stream's */
};

static struct sums sums_of(const struct copy *copy, const struct segment *segment) {
    const struct piece *pieces = copy->pieces + segment->first;
    struct sums sums = {.stream = copy->stream_of[pieces->slot]};
    for (size_t i = 0; i < segment->count; i++) {
        sums.total += pieces[i].bytes;
        if (pieces[i].state == ALLOCATED) sums.allocated += pieces[i].bytes;
        if (pieces[i].state != INACTIVE) sums.active += pieces[i].bytes;
        sums.requested += pieces[i].requested_bytes;
        if (segment->expandable || copy->stream_of[pieces[i].slot] != sums.stream) sums.stream = NULL;
    }
    return sums;
}

static void put_number(struct weir__pickle *pickle, enum word key, uint64_t number) {
    put_word(pickle, key);
    weir__pickle_number(pickle, number);
}

static void put_no_frames(struct weir__pickle *pickle) {
    size_t none;
    put_word(pickle, FRAMES);
    weir__pickle_list(pickle, &none);
    weir__pickle_list_end(pickle);
}

static void put_block(struct weir__pickle *pickle, const struct copy *copy, const struct piece *piece) {
    weir__pickle_dict(pickle);
    put_number(pickle, ADDRESS, piece->address);
    put_number(pickle, SIZE, piece->bytes);
    put_number(pickle, REQUESTED_SIZE, piece->requested_bytes);
    put_word(pickle, STATE);
    put_word(pickle, (enum word)piece->state);
    put_number(pickle, STREAM, (uintptr_t)copy->stream_of[piece->slot]);
    put_no_frames(pickle);
    weir__pickle_dict_end(pickle);
}

static void put_blocks(struct weir__pickle *pickle, const struct copy *copy, const struct segment *segment) {
    size_t count;
    put_word(pickle, BLOCKS);
    weir__pickle_list(pickle, &count);
    for (size_t i = 0; i < segment->count; i++) {
        weir__pickle_item(pickle, &count);
        put_block(pickle, copy, &copy->pieces[segment->first + i]);
    }
    weir__pickle_list_end(pickle);
}

static void put_segment(struct weir__pickle *pickle, const struct weir_pool *pool, const struct copy *copy,
                        const struct segment *segment) {
    const struct sums sums = sums_of(copy, segment);
    weir__pickle_dict(pickle);
    put_number(pickle, DEVICE, (uint64_t)pool->device->ordinal);
    put_number(pickle, ADDRESS, segment->address);
    put_number(pickle, TOTAL_SIZE, sums.total);
    put_number(pickle, ALLOCATED_SIZE, sums.allocated);
    put_number(pickle, ACTIVE_SIZE, sums.active);
    put_number(pickle, REQUESTED_SIZE, sums.requested);
    put_number(pickle, STREAM, (uintptr_t)sums.stream);
    put_word(pickle, SEGMENT_TYPE);
    put_word(pickle, copy->pieces[segment->first].small ? SMALL : LARGE);
    put_word(pickle, SEGMENT_POOL_ID);
    weir__pickle_no_pair(pickle);
    put_word(pickle, IS_EXPANDABLE);
    weir__pickle_bool(pickle, segment->expandable);
    put_no_frames(pickle);
    put_blocks(pickle, copy, segment);
    weir__pickle_dict_end(pickle);
}

static void put_segments(struct weir__pickle *pickle, const struct weir_pool *pool, const struct copy *copy) {
    size_t count;
    weir__pickle_text(pickle, "segments");
    weir__pickle_list(pickle, &count);
    for (size_t i = 0; i < copy->segment_count; i++) {
        weir__pickle_item(pickle, &count);
        put_segment(pickle, pool, copy, &copy->segments[i]);
    }
    weir__pickle_list_end(pickle);
}

/* ---- the rest of the file --------------------------------------------------------------------------------------- */

/* One list a device, as the viewer wants them: the last is the pool's. */
static void put_traces(struct weir__pickle *pickle, const struct copy *copy, int device) {
    size_t count;
    weir__pickle_text(pickle, "device_traces");
    weir__pickle_list(pickle, &count);
    for (int i = 0; i <= device; i++) {
        weir__pickle_item(pickle, &count);
        weir__history_pickle(pickle, copy->past, i == device ? copy->past_count : 0);
    }
    weir__pickle_list_end(pickle);
}

static void put_text(struct weir__pickle *pickle, const char *key, const char *text) {
    weir__pickle_text(pickle, key);
    weir__pickle_text(pickle, text);
}

static void put_flag(struct weir__pickle *pickle, const char *key, bool flag) {
    weir__pickle_text(pickle, key);
    weir__pickle_bool(pickle, flag);
}

static void put_settings(struct weir__pickle *pickle, const struct weir_pool *pool, const struct copy *copy) {
    weir__pickle_text(pickle, "allocator_settings");
    weir__pickle_dict(pickle);
    put_text(pickle, "backend", "weir");
    put_text(pickle, "version", weir_version());
    put_text(pickle, "pool", pool->name);
    put_text(pickle, "policy", pool->policy->text);
    weir__pickle_text(pickle, "limit_bytes");
    weir__pickle_number(pickle, copy->stats.limit_bytes);
    weir__pickle_text(pickle, "granularity_bytes");
    weir__pickle_number(pickle, pool->granule);
    put_flag(pickle, "movable", pool->movable);
    put_flag(pickle, "deterministic", pool->deterministic);
    put_flag(pickle, "emulated", pool->device->driver->emulated);
    put_flag(pickle, "expandable_segments", pool->policy->name != WEIR_POLICY_PER_STREAM);
    weir__pickle_dict_end(pickle);
}

static void put_stream(struct weir__pickle *pickle, const struct weir_stream_stats *stream) {
    weir__pickle_dict(pickle);
    put_word(pickle, NAME);
    weir__pickle_text(pickle, stream->name);
    put_number(pickle, STREAM, (uintptr_t)stream->stream);
#define PUT_STAT(type, field, text)                                                                                    \
    weir__pickle_text(pickle, #field);                                                                                 \
    weir__pickle_number(pickle, stream->field);
    WEIR_STREAM_STATS_LIST(PUT_STAT)
#undef PUT_STAT
    weir__pickle_dict_end(pickle);
}

/* What the viewer does not ask for: the statistics of the same moment. */
static void put_own(struct weir__pickle *pickle, const struct copy *copy) {
    size_t count;
    weir__pickle_text(pickle, "weir");
    weir__pickle_dict(pickle);
    weir__pickle_text(pickle, "stats");
    weir__pickle_dict(pickle);
#define PUT_STAT(type, field, text)                                                                                    \
    weir__pickle_text(pickle, #field);                                                                                 \
    weir__pickle_number(pickle, copy->stats.field);
    WEIR_POOL_STATS_LIST(PUT_STAT)
#undef PUT_STAT
    weir__pickle_dict_end(pickle);
    weir__pickle_text(pickle, "streams");
    weir__pickle_list(pickle, &count);
    for (size_t i = 0; i < copy->stream_count; i++) {
        weir__pickle_item(pickle, &count);
        put_stream(pickle, &copy->streams[i]);
    }
    weir__pickle_list_end(pickle);
    weir__pickle_dict_end(pickle);
}

/* Gives: 0 or an errno. */
static int write_copy(const struct weir_pool *pool, const struct copy *copy, FILE *out) {
    struct weir__pickle pickle;
    weir__pickle_begin(&pickle, out);
    weir__pickle_dict(&pickle);
    put_segments(&pickle, pool, copy);
    put_traces(&pickle, copy, pool->device->ordinal);
    put_flag(&pickle, "trace_alloc_overflowed", copy->overflowed);
    weir__pickle_text(&pickle, "trace_alloc_max_entries");
    weir__pickle_number(&pickle, pool->history_room);
    put_settings(&pickle, pool, copy);
    put_own(&pickle, copy);
    weir__pickle_dict_end(&pickle);
    weir__pickle_end(&pickle);
    return pickle.failed;
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

/* Gives: 0 or an errno. The file is closed. */
static int write_and_close(const struct weir_pool *pool, const struct copy *copy, int file) {
    FILE *out = fdopen(file, "w");
    if (out == NULL) {
        const int failed = errno;
        close(file);
        return failed;
    }
    errno = 0;
    int failed = write_copy(pool, copy, out);
    if (fclose(out) != 0 && failed == 0) failed = errno;
    return failed;
}

/* A name beside the path that no other call has. */
static char *name_beside(const char *path) {
    static unsigned calls;
    const size_t room = strlen(path) + 48;
    char *name = malloc(room);
    if (name != NULL)
        snprintf(name, room, "%s.%ld.%u.part", path, (long)getpid(), __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED));
    return name;
}

static int write_ordinary(const struct weir_pool *pool, const struct copy *copy, const char *path, const char *beside) {
    const int file = weir__above_standard(open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (file < 0) return errno;
    int failed = write_and_close(pool, copy, file);
    if (failed == 0 && rename(beside, path) != 0) failed = errno;
    if (failed != 0) unlink(beside);
    return failed;
}

/* A pipe whose reader has gone is an error of the call, and no signal of the program's. */
static int write_pipe(const struct weir_pool *pool, const struct copy *copy, const char *path) {
    const int file = weir__above_standard(open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY));
    if (file < 0) return errno;
    sigset_t broken, before, pending;
    sigemptyset(&broken);
    sigaddset(&broken, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &broken, &before);
    const int failed = write_and_close(pool, copy, file);
    if (failed == EPIPE && !sigismember(&pending, SIGPIPE)) sigtimedwait(&broken, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

/* Into a file beside it that then takes its name, so that nobody sees half a snapshot; what is not an ordinary file (a pipe,
 * a device) is written as it is. */
static enum weir_status write_file(const struct weir_pool *pool, const struct copy *copy, const char *path) {
    struct stat about;
    int failed = 0;
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) {
        failed = write_pipe(pool, copy, path);
    } else {
        char *behind = weir__behind_links(path), *beside = behind != NULL ? name_beside(behind) : NULL;
        failed = beside != NULL ? write_ordinary(pool, copy, behind, beside) : ENOMEM;
        free(beside);
        free(behind);
        if (failed == ENOMEM)
            return weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory to write the snapshot %.250s", path);
    }
    if (failed == 0) return WEIR_OK;
    return weir__fail(WEIR_SYSTEM, 0, "write", "weir_pool_snapshot: %.250s can't be written: %s", path,
                      strerror(failed));
}

static int by_address(const void *one, const void *other) {
    const uintptr_t a = ((const struct segment *)one)->address, b = ((const struct segment *)other)->address;
    return (a > b) - (a < b);
}

enum weir_status weir_pool_snapshot(struct weir_pool *pool, const char *path) {
    enum weir_status status = weir__pool_usable(pool, "weir_pool_snapshot");
    if (status != WEIR_OK) return status;
    if (path == NULL || *path == 0)
        return WEIR__INVALID("weir_pool_snapshot: path is %s", path == NULL ? "NULL" : "empty");
    struct copy copy = {0};
    take_copy(pool, &copy);
    if (copy.failed) {
        status = weir__fail(WEIR_OUT_OF_HOST_MEMORY, 0, NULL, "no host memory to copy the pool's %llu blocks",
                            (unsigned long long)copy.stats.live_blocks);
    } else {
        if (copy.segment_count > 0) qsort(copy.segments, copy.segment_count, sizeof *copy.segments, by_address);
        status = write_file(pool, &copy, path);
    }
    free_copy(&copy);
    return status;
}
