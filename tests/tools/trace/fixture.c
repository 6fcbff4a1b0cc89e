/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/trace/input.h"

static const char header[] = "weir-trace 1\n";
static char folder[64];

const char *read_bytes(const void *bytes, size_t length, struct trace *trace) {
    static char why[600];
    struct input *input = input_open_bytes(bytes, length, why, sizeof why);
    if (input == NULL) return why;
    const bool read = trace_read_input(input, "t", trace, why, sizeof why);
    input_close(input);
    return read ? NULL : why;
}

const char *read_lines(const char *lines, size_t length, struct trace *trace) {
    const size_t before = sizeof header - 1;
    char *text = malloc(before + length); /* no byte more, so that a sanitizer sees a read past the end */
    assert_non_null(text);
    memcpy(text, header, before);
    memcpy(text + before, lines, length);
    const char *why = read_bytes(text, before + length, trace);
    free(text);
    return why;
}

void read_good(const char *lines, struct trace *trace) {
    const char *why = read_lines(lines, strlen(lines), trace);
    if (why != NULL) fail_msg("%s", why);
}

/* ---- a folder ---------------------------------------------------------------------------------------------------- */

int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/weir-trace-test-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

int remove_folder(void **state) {
    (void)state;
    DIR *entries = opendir(folder);
    if (entries == NULL) return -1;
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) remove(in_folder(entry->d_name));
    closedir(entries);
    return rmdir(folder);
}

const char *in_folder(const char *name) {
    static char paths[8][400];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void put_file(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

bool is_there(const char *path) { return access(path, F_OK) == 0; }

char *get_file(const char *path, size_t *count) {
    struct stat status;
    FILE *file = fopen(path, "rb");
    if (file == NULL || fstat(fileno(file), &status) != 0) fail_msg("%s can't be read", path);
    char *bytes = malloc((size_t)status.st_size + 1);
    assert_non_null(bytes);
    *count = fread(bytes, 1, (size_t)status.st_size, file);
    bytes[*count] = '\0';
    fclose(file);
    return bytes;
}
