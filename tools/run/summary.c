/* SPDX-License-Identifier: Apache-2.0 */
#include "summary.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/preload/counts.h"
#include "device/json.h"
#include "weir/pool.h"

char *summary_read(const char *path) {
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    char part[4096];
    if (out == NULL || file == NULL) {
        if (out != NULL) fclose(out);
        if (file != NULL) fclose(file);
        return text; /* a file that is gone tells nothing */
    }
    for (size_t got; (got = fread(part, 1, sizeof part, file)) > 0;) fwrite(part, 1, got, out);
    fclose(file);
    if (fclose(out) == 0) return text;
    free(text);
    return NULL;
}

/* ---- reading ------------------------------------------------------------------------------------------------------ */

/* A part of the text. The lines are the library's own, so a key and its colon stand side by side; what is
 * escaped in a text is so by its code (device/json.h), which leaves no quotes in it. */
struct part {
    const char *at;
    size_t length;
};

static const char *behind_key(struct part part, const char *key) {
    char name[64];
    const int length = snprintf(name, sizeof name, "\"%s\":", key);
    const char *found = memmem(part.at, part.length, name, (size_t)length);
    return found == NULL ? NULL : found + length;
}

static uint64_t number(struct part part, const char *key) {
    const char *at = behind_key(part, key);
    return at == NULL ? 0 : strtoull(at, NULL, 10);
}

struct counts {
#define MEMBER(name, text) uint64_t name;
    WEIR__PRELOAD_COUNTS(MEMBER)
#undef MEMBER
};

static struct counts counts_of(struct part line) {
    struct counts counts;
#define READ(name, text) counts.name = number(line, #name);
    WEIR__PRELOAD_COUNTS(READ)
#undef READ
    return counts;
}

static bool had_to_do(const struct counts *counts) {
    uint64_t sum = 0;
#define ADD(name, text) sum += counts->name;
    WEIR__PRELOAD_COUNTS(ADD)
#undef ADD
    return sum > 0;
}

/* Gives: false when there is no other; *pool is moved on to the next. */
static bool next_pool(struct part line, struct part *pool) {
    const char *from = pool->at == NULL ? line.at : pool->at + pool->length, *end = line.at + line.length;
    const char *at = memmem(from, (size_t)(end - from), "{\"device\":", 10);
    if (at == NULL) return false;
    const char *close = memchr(at, '}', (size_t)(end - at));
    *pool = (struct part){at, (size_t)((close == NULL ? end : close + 1) - at)};
    return true;
}

/* ---- words -------------------------------------------------------------------------------------------------------- */

/* "62.81 GiB": by hand, so that the point is one in every locale. */
static void put_bytes(FILE *out, uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    unsigned unit = 0;
    uint64_t scale = 1;
    for (; bytes / scale >= 1024 && unit < 5; unit++) scale *= 1024;
    if (unit == 0)
        fprintf(out, "%" PRIu64 " B", bytes);
    else
        fprintf(out, "%" PRIu64 ".%02" PRIu64 " %s", bytes / scale, (bytes % scale) * 100 / scale, units[unit]);
}

static bool says(struct part part, const char *key, const char *value) {
    const char *at = behind_key(part, key);
    return at != NULL && strncmp(at, value, strlen(value)) == 0;
}

/* "1 allocation", "2 allocations". */
static void put_number(FILE *out, uint64_t number, const char *what) {
    fprintf(out, "%" PRIu64 " %s%s", number, what, number == 1 ? "" : "s");
}

/* Under per-stream that memory was out of reach; under the other policies a request gets it before it is refused. */
static void put_stranded(struct part pool, FILE *out) {
    const uint64_t bytes = number(pool, "peak_stranded_bytes");
    if (bytes == 0) return;
    fputs("; idle on other streams when more was taken, ", out);
    fputs(says(pool, "policy", "\"per-stream\"") ? "and stranded: " : "and within reach: ", out);
    put_bytes(out, bytes);
}

static void put_calls(struct part pool, FILE *out) {
    const uint64_t calls = number(pool, "memory_calls"), allocs = number(pool, "allocs"), frees = number(pool, "frees");
    fputs("\n  ", out);
    put_number(out, allocs, "allocation");
    fputs(" and ", out);
    put_number(out, frees, "free");
    fputs(" took ", out);
    put_number(out, calls, "memory call");
    fputs(" of the driver: ", out);
    put_number(out, allocs + frees > calls ? allocs + frees - calls : calls - allocs - frees, "call");
    fputs(allocs + frees >= calls ? " saved\n" : " more than without\n", out);
}

static void put_pool(struct part pool, FILE *out) {
    fprintf(out, "  device %" PRIu64 "%s: peak live ", number(pool, "device"),
            says(pool, "reset", "true") ? ", until its reset" : "");
    put_bytes(out, number(pool, "peak_live_bytes"));
    fputs(", held ", out);
    put_bytes(out, number(pool, "peak_held_bytes"));
    fputs(" of ", out);
    put_bytes(out, number(pool, "capacity_bytes"));
    put_stranded(pool, out);
    put_calls(pool, out);
}

/* A text in its quotes, with its codes as what they are. */
static void put_text(const char *quoted, FILE *out) {
    if (quoted == NULL || *quoted != '"') return;
    for (const char *at = quoted + 1; *at != 0 && *at != '"';) {
        unsigned code = 0;
        const bool escaped = at[0] == '\\' && sscanf(at, "\\u%4x", &code) == 1;
        if (!escaped)
            fputc(*at, out);
        else if (code == 0xfffd)
            fputs("\xef\xbf\xbd", out);
        else
            fputc(code < ' ' || code == 0x7f ? '?' : (int)code, out);
        at += escaped ? 6 : 1;
    }
}

static void put_host(const struct counts *counts, FILE *out) {
    const uint64_t asked = counts->host_allocs + counts->host_frees;
    if (asked == 0) return;
    fputs("  pinned host memory: peak live ", out);
    put_bytes(out, counts->host_peak_live_bytes);
    fputs(", held ", out);
    put_bytes(out, counts->host_peak_held_bytes);
    fprintf(out,
            "\n  %" PRIu64 " allocations and %" PRIu64 " frees of it took %" PRIu64
            " calls of the driver that pin or unpin: %" PRIu64 " saved\n",
            counts->host_allocs, counts->host_frees, counts->host_calls,
            asked > counts->host_calls ? asked - counts->host_calls : 0);
}

static void put_process(struct part line, const struct counts *counts, FILE *out) {
    struct part pool = {0};
    fputs("weir-run: ", out);
    put_text(behind_key(line, "command"), out);
    fprintf(out, " (process %" PRIu64 ")\n", number(line, "pid"));
    while (next_pool(line, &pool)) put_pool(pool, out);
    put_host(counts, out);
#define LEFT(name, text)                                                                                               \
    if (counts->name > 0) {                                                                                            \
        fputs("  left to the driver: ", out);                                                                          \
        put_number(out, counts->name, "request");                                                                      \
        fputs(", " text "\n", out);                                                                                    \
    }
    WEIR__PRELOAD_LEFT(LEFT)
#undef LEFT
    if (counts->foreign_frees > 0)
        fprintf(out, "  frees of memory that is not weir's: %" PRIu64 "\n", counts->foreign_frees);
    if (counts->refused > 0) fprintf(out, "  requests answered with out of memory: %" PRIu64 "\n", counts->refused);
}

void summary_words(const char *lines, FILE *out) {
    unsigned told = 0;
    for (const char *at = lines; *at != 0;) {
        const char *end = strchr(at, '\n');
        const struct part line = {at, end == NULL ? strlen(at) : (size_t)(end - at)};
        const struct counts counts = counts_of(line);
        if (had_to_do(&counts)) {
            put_process(line, &counts, out);
            told++;
        }
        at += line.length + (end != NULL);
    }
    if (told == 0)
        fputs("weir-run: no process told of device memory (one that a signal or _exit ends tells nothing, nor one that "
              "no "
              "library is loaded into)\n",
              out);
}

/* ---- JSON --------------------------------------------------------------------------------------------------------- */

/* The lines are objects already. */
void summary_json(const char *lines, const char *program, int status, FILE *out) {
    bool first = true;
    fputs("{\"program\":", out);
    weir__put_json(program, out);
    fprintf(out, ",\"status\":%d,\"processes\":[", status);
    for (const char *at = lines; *at != 0;) {
        const size_t length = strcspn(at, "\n");
        if (at[length] == '\n') { /* whole */
            fprintf(out, "%s\n%.*s", first ? "" : ",", (int)length, at);
            first = false;
        }
        at += length + (at[length] != 0);
    }
    fputs("]}\n", out);
}
