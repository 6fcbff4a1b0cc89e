/* SPDX-License-Identifier: Apache-2.0 */
#include "convert_fixture.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/trace/convert.h"
#include "tools/trace/input.h"

char folder[] = "/tmp/weir-convert-test-XXXXXX";
char in_path[64], out_path[64], log_path[64], json_path[64];
static char content[1 << 17];

int make_folder(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(in_path, sizeof in_path, "%s/in.csv", folder);
    snprintf(out_path, sizeof out_path, "%s/out.trace", folder);
    snprintf(log_path, sizeof log_path, "%s/log", folder);
    snprintf(json_path, sizeof json_path, "%s/out.json", folder);
    return 0;
}

int remove_folder(void **state) {
    (void)state;
    unlink(in_path);
    unlink(out_path);
    unlink(log_path);
    unlink(json_path);
    return rmdir(folder);
}

const char *read_file(const char *path) {
    FILE *file = fopen(path, "r");
    if (file == NULL) fail_msg("%s is not there", path);
    content[fread(content, 1, sizeof content - 1, file)] = '\0';
    fclose(file);
    return content;
}

void write_file(const char *path, const void *log, size_t bytes) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(log, 1, bytes, file), bytes);
    fclose(file);
}

int run_shell(const char *command) {
    const int status = system(command);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

int convert(const char *arguments, ...) {
    char line[1200], command[1500];
    va_list values;
    va_start(values, arguments);
    vsnprintf(line, sizeof line, arguments, values);
    va_end(values);
    snprintf(command, sizeof command, "'%s' convert >'%s' 2>&1 %s", getenv("WEIR_TRACE_PROGRAM"), log_path, line);
    return run_shell(command);
}

void assert_says(const char *sentence) {
    const char *said = read_file(log_path);
    if (strstr(said, sentence) == NULL) fail_msg("says \"%s\", expected \"%s\"", said, sentence);
}

void assert_converts(int status) {
    if (status != 0) fail_msg("exit status %d: %s", status, read_file(log_path));
}

void read_back(struct trace *trace) {
    char why[500];
    if (!trace_read(out_path, trace, why, sizeof why)) fail_msg("%s", why);
}

const char *fixture(const char *name) {
    static char paths[8][300];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", getenv("WEIR_FIXTURES"), name);
    return path;
}

void assert_same_steps(const char *steps, const char *expected) {
    char kept[2][4096] = {"", ""};
    const char *from[2] = {steps, expected};
    for (int i = 0; i < 2; i++)
        for (const char *at = from[i]; *at != '\0';) {
            const size_t length = strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n');
            if (*at != '#') strncat(kept[i], at, length);
            at += length;
        }
    assert_string_equal(kept[0], kept[1]);
}

void assert_makes(const void *log, size_t bytes, const char *steps) {
    write_file(in_path, log, bytes);
    assert_converts(convert("%s -o %s", in_path, out_path));
    assert_same_steps(read_file(out_path), steps);
}

void assert_refused(const void *table, size_t bytes, const char *sentence) {
    unlink(out_path);
    write_file(in_path, table, bytes);
    const int status = convert("%s -o %s", in_path, out_path);
    const char *said = read_file(log_path);
    if (status != 2) fail_msg("'%.100s': exit status %d, expected 2: %s", (const char *)table, status, said);
    if (strstr(said, sentence) == NULL)
        fail_msg("'%.100s': says \"%s\", expected \"%s\"", (const char *)table, said, sentence);
    if (strstr(said, in_path) == NULL) fail_msg("'%.100s': does not name the file: %s", (const char *)table, said);
    if (strlen(said) - strcspn(said, "\n") != 1) fail_msg("more than one sentence: %s", said);
    assert_int_equal(access(out_path, F_OK), -1);
}

void assert_cut_refused(const void *log, size_t bytes, size_t from, const char *sentence) {
    static struct conversion conversion;
    const struct convert_settings settings = {.device = CONVERT_ANY_DEVICE};
    char why[1000];
    for (size_t cut = from; cut < bytes; cut++) {
        const struct convert_input input = {"NAME", input_open_bytes(log, cut, why, sizeof why)};
        assert_non_null(input.input);
        if (convert_tables(&conversion, &input, 1, &settings, why, sizeof why)) fail_msg("%zu bytes are taken", cut);
        if (strstr(why, sentence) == NULL || strncmp(why, "NAME: byte ", 11) != 0)
            fail_msg("of %zu bytes: says \"%s\", expected \"%s\"", cut, why, sentence);
        convert_free(&conversion);
        input_close(input.input);
    }
}

const char *shared(const char *name) {
    static char path[300];
    snprintf(path, sizeof path, "%s/traces/%s", getenv("WEIR_SHARED"), name);
    if (access(path, R_OK) == 0) return path;
    print_message("%s is not there: SKIPPED\n", path);
    skip();
    return NULL;
}

void assert_completes(const char *trace, const char *peak, size_t more) {
    char command[600], sentence[64];
    const size_t page = 2 << 20, bytes = (strtoull(peak, NULL, 10) + more) / page * page;
    snprintf(command, sizeof command, "'%s' '%s' --capacity=%zu --json='%s' >'%s' 2>&1", getenv("WEIR_REPLAY_PROGRAM"),
             trace, bytes, json_path, log_path);
    assert_converts(run_shell(command));
    snprintf(sentence, sizeof sentence, "\"peak_live_bytes\":%s,", peak);
    if (strstr(read_file(json_path), sentence) == NULL) fail_msg("expected %s in %s", sentence, content);
    if (strstr(content, "\"outcome\":\"completed\"") == NULL) fail_msg("on %zu bytes: %s", bytes, content);
}

/* ---- pickles ---------------------------------------------------------------------------------------------------- */

enum { MOST_TEXTS = 100 };

struct writer {
    uint8_t *to, *end;
    const char *at;
    int protocol;
    struct {
        const char *text;
        size_t length;
    } texts[MOST_TEXTS]; /* by what the memo calls them */
    size_t text_count;
};

static void put(struct writer *writer, int byte) {
    assert_true(writer->to < writer->end);
    *writer->to++ = (uint8_t)byte;
}

static void put_bytes(struct writer *writer, const void *bytes, size_t count) {
    for (size_t i = 0; i < count; i++) put(writer, ((const uint8_t *)bytes)[i]);
}

static void put_text(struct writer *writer, const char *text, size_t length) {
    for (size_t i = 0; i < writer->text_count; i++)
        if (writer->texts[i].length == length && memcmp(writer->texts[i].text, text, length) == 0) {
            put(writer, 'h');
            put(writer, (int)i);
            return;
        }
    put(writer, writer->protocol >= 4 ? 0x8c : 'X');
    put(writer, (int)length);
    if (writer->protocol < 4) put_bytes(writer, "\0\0", 3);
    put_bytes(writer, text, length);
    assert_true(writer->text_count < MOST_TEXTS);
    writer->texts[writer->text_count].text = text;
    writer->texts[writer->text_count].length = length;
    if (writer->protocol >= 4) {
        put(writer, 0x94);
    } else {
        put(writer, 'q');
        put(writer, (int)writer->text_count);
    }
    writer->text_count++;
}

static void put_integer(struct writer *writer) {
    const bool negative = *writer->at == '-';
    const size_t digits = strspn(writer->at + negative, "0123456789");
    uint64_t number = strtoull(writer->at + negative, NULL, 10);
    uint8_t bytes[16] = {0};
    writer->at += digits + negative;
    if (negative) number = -number;
    memcpy(bytes, &number, sizeof number); /* this machine's order is the pickle's */
    if (digits > 18) bytes[15] = 1;
    if (digits > 18) {
        put_bytes(writer, "\x8a\x10", 2);
        put_bytes(writer, bytes, 16);
    } else if (number < 256) {
        put(writer, 'K');
        put(writer, bytes[0]);
    } else if (number < 65536) {
        put(writer, 'M');
        put_bytes(writer, bytes, 2);
    } else if (negative || number < (unsigned)1 << 31) {
        put(writer, 'J');
        put_bytes(writer, bytes, 4);
    } else {
        put_bytes(writer, "\x8a\x08", 2);
        put_bytes(writer, bytes, 8);
    }
}

static void put_value(struct writer *writer);

/* Up to and with the closing bracket. */
static void put_items(struct writer *writer, char close) {
    put(writer, '(');
    while (*writer->at != close) {
        if (strchr(", :", *writer->at) != NULL)
            writer->at++;
        else
            put_value(writer);
    }
    writer->at++;
}

static void put_value(struct writer *writer) {
    const char *from = writer->at++;
    if (*from == '{') {
        put(writer, '}');
        put_items(writer, '}');
        put(writer, 'u');
    } else if (*from == '[') {
        put(writer, ']');
        put_items(writer, ']');
        put(writer, 'e');
    } else if (*from == '(') {
        put_items(writer, ')');
        put(writer, 't');
    } else if (*from == 'T' || *from == 'F' || *from == 'N') {
        put(writer, *from == 'N' ? 'N' : *from == 'T' ? 0x88 : 0x89);
    } else if (*from >= 'a' && *from <= 'z') {
        writer->at = from + strspn(from, "abcdefghijklmnopqrstuvwxyz_");
        put_text(writer, from, (size_t)(writer->at - from));
    } else {
        writer->at--;
        assert_true(*from == '-' || (*from >= '0' && *from <= '9'));
        put_integer(writer);
    }
}

size_t write_pickle(uint8_t *to, size_t room, int protocol, const char *notation) {
    struct writer writer = {.to = to, .end = to + room, .at = notation, .protocol = protocol};
    put(&writer, 0x80);
    put(&writer, protocol);
    if (protocol >= 4) put_bytes(&writer, "\x95\0\0\0\0\0\0\0", 9); /* a frame of no bytes */
    put_value(&writer);
    put(&writer, '.');
    return (size_t)(writer.to - to);
}
