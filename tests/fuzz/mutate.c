/* SPDX-License-Identifier: Apache-2.0 */
/* A plain driver for the fuzz targets, without clang: reads a corpus, then changes its files by a fixed seed, so that a
 * run in the test suite is short and always the same. A sanitizer, an assertion or a signal ends it.
 *
 *     fuzz_profile CORPUS-FOLDER ROUNDS [SEED [FILE]]
 *
 * With FILE each input is written there before it is read: after a crash it is the one at fault. */
#include <dirent.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

enum { MOST_FILES = 256, LONGEST = 4096 };

struct input {
    uint8_t data[LONGEST];
    size_t size;
};

static struct input corpus[MOST_FILES];
static size_t count;
static uint64_t state;

/* splitmix64 */
static uint64_t draw(void) {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static size_t below(size_t limit) { return limit == 0 ? 0 : (size_t)(draw() % limit); }

/* ---- changes ---------------------------------------------------------------------------------------------------- */

static void cut(struct input *input, size_t at, size_t bytes) {
    memmove(input->data + at, input->data + at + bytes, input->size - at - bytes);
    input->size -= bytes;
}

static void insert(struct input *input, size_t at, const uint8_t *data, size_t bytes) {
    uint8_t copy[LONGEST]; /* `data` may lie in the input itself */
    if (bytes > LONGEST - input->size) bytes = LONGEST - input->size;
    memcpy(copy, data, bytes);
    memmove(input->data + at + bytes, input->data + at, input->size - at);
    memcpy(input->data + at, copy, bytes);
    input->size += bytes;
}

static void insert_from(struct input *input, const struct input *other) {
    const size_t from = below(other->size), most = other->size - from;
    insert(input, below(input->size + 1), other->data + from, below((most < 40 ? most : 40) + 1));
}

static void insert_word(struct input *input) {
    static const char *const words[] = {
        "0",         "-1",
        "nan",       "inf",
        "1e9",       "18446744073709551616",
        "0.0000001", "=",
        ":",         ",",
        ";",         "@",
        "+",         "-",
        "/",         "#",
        "\n",        " ",
        "%",         "us",
        "B/s",       "GB/s",
        "/page",     "/handle",
        "\xff",      "99999999999999999999999999999999999999999999999999999999999999999999"};
    const char *word = words[below(sizeof words / sizeof *words)];
    insert(input, below(input->size + 1), (const uint8_t *)word, strlen(word));
}

static void change(struct input *input) {
    const size_t at = below(input->size);
    switch (below(6)) {
    case 0:
        if (input->size > 0) input->data[at] ^= (uint8_t)(1u << below(8));
        break;
    case 1:
        if (input->size > 0) input->data[at] = (uint8_t)draw();
        break;
    case 2:
        if (input->size > 0) cut(input, at, below(input->size - at) % 32 + 1);
        break;
    case 3:
        insert_from(input, input);
        break;
    case 4:
        insert_from(input, &corpus[below(count)]);
        break;
    default:
        insert_word(input);
    }
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

static void run(const struct input *input, const char *save) {
    FILE *file = save != NULL ? fopen(save, "wb") : NULL;
    if (file != NULL) {
        fwrite(input->data, 1, input->size, file);
        fclose(file);
    }
    uint8_t *exact = malloc(input->size > 0 ? input->size : 1); /* so that a sanitizer sees a read past the end */
    if (exact == NULL) abort();
    memcpy(exact, input->data, input->size);
    LLVMFuzzerTestOneInput(exact, input->size);
    free(exact);
}

/* In order of names: a folder's own order differs from machine to machine. */
static void read_corpus(const char *folder) {
    struct dirent **entries;
    const int found = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < found; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        FILE *file = entries[i]->d_name[0] != '.' && count < MOST_FILES ? fopen(path, "rb") : NULL;
        if (file != NULL) {
            corpus[count].size = fread(corpus[count].data, 1, LONGEST, file);
            count++;
            fclose(file);
        }
        free(entries[i]);
    }
    if (found >= 0) free(entries);
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: %s CORPUS-FOLDER ROUNDS [SEED [FILE]]\n", argv[0]);
        return 2;
    }
    const unsigned long rounds = strtoul(argv[2], NULL, 10);
    state = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    const char *save = argc > 4 ? argv[4] : NULL;
    read_corpus(argv[1]);
    if (count == 0) {
        fprintf(stderr, "%s: no files in %s\n", argv[0], argv[1]);
        return 2;
    }
    printf("%zu files, %lu rounds, seed %llu\n", count, rounds, (unsigned long long)state);
    for (size_t i = 0; i < count; i++) run(&corpus[i], save);
    for (unsigned long round = 0; round < rounds; round++) {
        static struct input input;
        input = corpus[below(count)];
        for (size_t changes = below(8) + 1; changes > 0; changes--) change(&input);
        run(&input, save);
    }
    return 0;
}
