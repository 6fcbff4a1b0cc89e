/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/routes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

struct header {
    char magic[8];
    int32_t version, layers, tokens, top_k, experts, zero;
};

static struct header header_of(const struct routes *r) {
    struct header h = {.version = 1,
                       .layers = (int32_t)r->layers,
                       .tokens = (int32_t)r->tokens,
                       .top_k = (int32_t)r->top_k,
                       .experts = (int32_t)r->experts};
    memcpy(h.magic, "weirrout", sizeof h.magic);
    return h;
}

/* All ranks write the same header at the same place, so the order among them does not matter; nobody has ids to write
 * before all have opened the file, since the first weights come from all. */
static int open_save(struct routes *r, const char *path) {
    struct header h = header_of(r);
    r->save = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (r->save >= 0 && pwrite(r->save, &h, sizeof h, 0) == (ssize_t)sizeof h) return 0;
    snprintf(r->message, sizeof r->message, "can't write the routes file '%s': %s", path, strerror(errno));
    return 2;
}

static int open_replay(struct routes *r, const char *path) {
    struct header want = header_of(r), h = {{0}, 0, 0, 0, 0, 0, 0};
    r->replay = open(path, O_RDONLY | O_CLOEXEC);
    if (r->replay < 0) {
        snprintf(r->message, sizeof r->message, "can't read the routes file '%s': %s", path, strerror(errno));
        return 2;
    }
    if (pread(r->replay, &h, sizeof h, 0) != (ssize_t)sizeof h || memcmp(h.magic, want.magic, sizeof h.magic) != 0 ||
        h.version != want.version) {
        snprintf(r->message, sizeof r->message, "'%s' is no routes file of version 1", path);
        return 2;
    }
    if (memcmp(&h, &want, sizeof h) == 0) return 0;
    snprintf(
        r->message, sizeof r->message,
        "the routes file '%s' is of %d layers, %d tokens a step, top %d of %d experts; this run has %d, %d, %d of %d",
        path, h.layers, h.tokens, h.top_k, h.experts, want.layers, want.tokens, want.top_k, want.experts);
    return 2;
}

int routes_open(struct routes *r, const char *save, const char *replay) {
    r->save = r->replay = -1;
    r->message[0] = 0;
    int status = *save ? open_save(r, save) : 0;
    if (status == 0 && *replay) status = open_replay(r, replay);
    return status;
}

void routes_close(struct routes *r) {
    if (r->save >= 0) close(r->save);
    if (r->replay >= 0) close(r->replay);
    r->save = r->replay = -1;
}

static off_t place(const struct routes *r, int64_t layer) {
    int64_t token = ((r->step - 1) * r->layers + layer) * r->tokens + r->first;
    return (off_t)sizeof(struct header) + (off_t)(token * r->top_k) * (off_t)sizeof(int32_t);
}

enum weir_status routes_write(struct routes *r, int64_t layer, const int32_t *ids) {
    const char *from = (const char *)ids;
    size_t left = (size_t)(r->count * r->top_k) * sizeof *ids;
    off_t at = place(r, layer);
    while (left > 0) {
        ssize_t done = pwrite(r->save, from, left, at);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            snprintf(r->message, sizeof r->message, "writing the routes file failed: %s", strerror(errno));
            return WEIR_SYSTEM;
        }
        from += done;
        at += done;
        left -= (size_t)done;
    }
    return WEIR_OK;
}

static enum weir_status read_all(struct routes *r, char *to, size_t left, off_t at) {
    while (left > 0) {
        ssize_t done = pread(r->replay, to, left, at);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) {
            snprintf(r->message, sizeof r->message, "reading the routes file failed: %s", strerror(errno));
            return WEIR_SYSTEM;
        }
        if (done == 0) {
            snprintf(r->message, sizeof r->message, "the routes file ends before step %" PRId64, r->step);
            return WEIR_INVALID;
        }
        to += done;
        at += done;
        left -= (size_t)done;
    }
    return WEIR_OK;
}

enum weir_status routes_read(struct routes *r, int64_t layer, int32_t *ids) {
    const int64_t count = r->count * r->top_k;
    enum weir_status status = read_all(r, (char *)ids, (size_t)count * sizeof *ids, place(r, layer));
    for (int64_t i = 0; i < count && status == WEIR_OK; i++)
        if (ids[i] < 0 || ids[i] >= r->experts) {
            snprintf(r->message, sizeof r->message,
                     "the routes file names expert %d in step %" PRId64 "; there are %" PRId64 " experts", ids[i],
                     r->step, r->experts);
            status = WEIR_INVALID;
        }
    return status;
}
