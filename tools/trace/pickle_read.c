/* SPDX-License-Identifier: Apache-2.0 */
/* The opcodes. What they do: pickletools, in Python's library, documents each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pickle_machine.h"
#include "tools/options/utf8.h"

enum opcode {
    PROTO = 0x80,
    FRAME = 0x95,
    STOP = '.',
    MARK = '(',
    POP = '0',
    POP_MARK = '1',
    DUP = '2',

    NONE = 'N',
    NEWTRUE = 0x88,
    NEWFALSE = 0x89,
    BININT = 'J',
    BININT1 = 'K',
    BININT2 = 'M',
    LONG1 = 0x8a,
    LONG4 = 0x8b,
    BINFLOAT = 'G',
    BINUNICODE = 'X',
    SHORT_BINUNICODE = 0x8c,
    BINUNICODE8 = 0x8d,
    BINSTRING = 'T',
    SHORT_BINSTRING = 'U',
    BINBYTES = 'B',
    SHORT_BINBYTES = 'C',
    BINBYTES8 = 0x8e,
    BYTEARRAY8 = 0x96,

    EMPTY_TUPLE = ')',
    TUPLE = 't',
    TUPLE1 = 0x85,
    TUPLE2 = 0x86,
    TUPLE3 = 0x87,
    EMPTY_LIST = ']',
    LIST = 'l',
    APPEND = 'a',
    APPENDS = 'e',
    EMPTY_DICT = '}',
    DICT = 'd',
    SETITEM = 's',
    SETITEMS = 'u',
    EMPTY_SET = 0x8f,
    ADDITEMS = 0x90,
    FROZENSET = 0x91,

    BINPUT = 'q',
    LONG_BINPUT = 'r',
    MEMOIZE = 0x94,
    BINGET = 'h',
    LONG_BINGET = 'j',
};

enum { LOWEST_PROTOCOL = 2, HIGHEST_PROTOCOL = 5, LONG_BYTES = 8 };

bool pickle_begins(const uint8_t *text, size_t count) {
    return count >= 2 && text[0] == PROTO && text[1] <= HIGHEST_PROTOCOL;
}

/* ---- what is refused -------------------------------------------------------------------------------------------- */

static bool refuse(struct pickle *pickle, uint8_t opcode) {
    static const struct {
        uint8_t opcode;
        const char *name;
    } code[] = {{'c', "GLOBAL"}, {'R', "REDUCE"},       {'b', "BUILD"},           {'i', "INST"},
                {'o', "OBJ"},    {0x81, "NEWOBJ"},      {0x92, "NEWOBJ_EX"},      {0x93, "STACK_GLOBAL"},
                {'P', "PERSID"}, {'Q', "BINPERSID"},    {0x82, "EXT1"},           {0x83, "EXT2"},
                {0x84, "EXT4"},  {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"}};
    for (size_t i = 0; i < sizeof code / sizeof *code; i++)
        if (code[i].opcode == opcode)
            return pickle_fail(pickle, "opcode %s names code, or what is not in the file: only data is read",
                               code[i].name);
    if (opcode != 0 && strchr("FILSVgp", opcode) != NULL)
        return pickle_fail(pickle, "opcode '%c' is of protocol 0: protocols 2 to 5 are read", opcode);
    return pickle_fail(pickle, "0x%02x is no opcode", opcode);
}

/* ---- atoms ------------------------------------------------------------------------------------------------------ */

static bool push_kind(struct pickle *pickle, enum pickle_kind kind) { return pickle_push(pickle, pickle_of(kind, 0)); }

static bool push_unsigned(struct pickle *pickle, unsigned bytes) {
    uint64_t number;
    return pickle_little(pickle, bytes, &number) && pickle_push(pickle, pickle_of_number((int64_t)number));
}

static bool push_int(struct pickle *pickle) {
    uint64_t number;
    return pickle_little(pickle, 4, &number) && pickle_push(pickle, pickle_of_number((int32_t)(uint32_t)number));
}

/* Two's complement, the lowest byte first. */
static bool push_long(struct pickle *pickle, unsigned length_bytes) {
    uint8_t bytes[LONG_BYTES] = {0};
    uint64_t length, number = 0;
    if (!pickle_little(pickle, length_bytes, &length)) return false;
    if (length > INT32_MAX) return pickle_fail(pickle, "an integer of a negative length");
    if (!pickle_take(pickle, length, bytes, sizeof bytes)) return false;
    if (length > sizeof bytes) return push_kind(pickle, PICKLE_WIDE);
    const bool negative = length > 0 && bytes[length - 1] >= 0x80;
    for (unsigned i = 0; i < sizeof bytes; i++)
        number |= (uint64_t)(i < length ? bytes[i] : negative ? 0xff : 0) << 8 * i;
    return pickle_push(pickle, pickle_of_number((int64_t)number));
}

static bool push_bytes(struct pickle *pickle, unsigned length_bytes) {
    uint64_t length;
    return pickle_little(pickle, length_bytes, &length) && pickle_take(pickle, length, NULL, 0) &&
           push_kind(pickle, PICKLE_OTHER);
}

/* `text` gets the first of its bytes. Python takes halves of surrogates here. */
static bool take_text(struct pickle *pickle, uint64_t length, uint8_t text[PICKLE_LONGEST_WORD]) {
    struct utf8 utf8 = {0};
    uint8_t piece[256];
    for (uint64_t taken = 0; taken < length;) {
        const size_t bytes = length - taken < sizeof piece ? (size_t)(length - taken) : sizeof piece;
        if (!pickle_take(pickle, bytes, piece, bytes)) return false;
        if (taken == 0) memcpy(text, piece, bytes < PICKLE_LONGEST_WORD ? bytes : PICKLE_LONGEST_WORD);
        for (size_t i = 0; i < bytes; i++)
            if (!utf8_take(&utf8, piece[i], true)) return pickle_fail(pickle, "a text that is no UTF-8");
        taken += bytes;
    }
    return utf8.left == 0 || pickle_fail(pickle, "a text that is no UTF-8");
}

static bool push_text(struct pickle *pickle, unsigned length_bytes) {
    uint8_t text[PICKLE_LONGEST_WORD];
    uint64_t length;
    if (!pickle_little(pickle, length_bytes, &length) || !take_text(pickle, length, text)) return false;
    for (size_t i = 0; i < pickle->word_count; i++)
        if (pickle->lengths[i] == length && memcmp(pickle->words[i], text, length) == 0)
            return pickle_push(pickle, pickle_of(PICKLE_WORD, i));
    return push_kind(pickle, PICKLE_TEXT);
}

/* ---- containers, stack, memo ------------------------------------------------------------------------------------ */

static bool make_of(struct pickle *pickle, enum pickle_kind kind, size_t count) {
    return pickle_has(pickle, count) && pickle_make(pickle, kind, count);
}

static bool make_to_mark(struct pickle *pickle, enum pickle_kind kind) {
    size_t count;
    return pickle_end_mark(pickle, &count) && pickle_make(pickle, kind, count);
}

static bool fill_to_mark(struct pickle *pickle, enum pickle_kind kind) {
    size_t count;
    return pickle_end_mark(pickle, &count) && pickle_fill(pickle, kind, count);
}

/* Sets are of no use here: what is in one is let go. */
static bool drop_to_mark(struct pickle *pickle) {
    size_t count;
    if (!pickle_end_mark(pickle, &count)) return false;
    pickle_drop(pickle, count);
    return true;
}

static bool add_to_set(struct pickle *pickle) {
    if (!drop_to_mark(pickle) || !pickle_has(pickle, 1)) return false;
    return pickle_kind(pickle_top(pickle)) == PICKLE_OTHER || pickle_fail(pickle, "items are put into what is no set");
}

static bool pop(struct pickle *pickle) {
    if (pickle->mark_count > 0 && pickle->marks[pickle->mark_count - 1] == pickle->stack.count)
        return drop_to_mark(pickle);
    if (!pickle_has(pickle, 1)) return false;
    pickle_drop(pickle, 1);
    return true;
}

static bool memo(struct pickle *pickle, bool put, unsigned bytes) {
    uint64_t name;
    if (!pickle_little(pickle, bytes, &name)) return false;
    return put ? pickle_memo_put(pickle, name) : pickle_memo_get(pickle, name);
}

static bool protocol(struct pickle *pickle) {
    uint64_t version;
    if (!pickle_little(pickle, 1, &version)) return false;
    if (version >= LOWEST_PROTOCOL && version <= HIGHEST_PROTOCOL) return true;
    return pickle_fail(pickle, "protocol %u: protocols 2 to 5 are read", (unsigned)version);
}

static bool stop(struct pickle *pickle) {
    if (!pickle_has(pickle, 1)) return false;
    pickle->root = pickle_top(pickle);
    return pickle->stopped = true;
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static bool run_atom(struct pickle *pickle, uint8_t opcode) {
    uint64_t length;
    switch (opcode) {
    case NONE:
        return push_kind(pickle, PICKLE_OTHER);
    case NEWTRUE:
        return push_kind(pickle, PICKLE_TRUE);
    case NEWFALSE:
        return push_kind(pickle, PICKLE_FALSE);
    case BININT:
        return push_int(pickle);
    case BININT1:
        return push_unsigned(pickle, 1);
    case BININT2:
        return push_unsigned(pickle, 2);
    case LONG1:
        return push_long(pickle, 1);
    case LONG4:
        return push_long(pickle, 4);
    case BINFLOAT:
        return pickle_little(pickle, 8, &length) && push_kind(pickle, PICKLE_OTHER);
    case SHORT_BINUNICODE:
    case SHORT_BINSTRING:
        return push_text(pickle, 1);
    case BINUNICODE:
    case BINSTRING:
        return push_text(pickle, 4);
    case BINUNICODE8:
        return push_text(pickle, 8);
    case SHORT_BINBYTES:
        return push_bytes(pickle, 1);
    case BINBYTES:
        return push_bytes(pickle, 4);
    case BINBYTES8:
    case BYTEARRAY8:
        return push_bytes(pickle, 8);
    default:
        return refuse(pickle, opcode);
    }
}

static bool run(struct pickle *pickle, uint8_t opcode) {
    uint64_t frame;
    switch (opcode) {
    case PROTO:
        return protocol(pickle);
    case FRAME:
        return pickle_little(pickle, 8, &frame);
    case STOP:
        return stop(pickle);
    case MARK:
        return pickle_mark(pickle);
    case POP:
        return pop(pickle);
    case POP_MARK:
        return drop_to_mark(pickle);
    case DUP:
        return pickle_has(pickle, 1) && pickle_push(pickle, pickle_top(pickle));
    case EMPTY_TUPLE:
        return pickle_make(pickle, PICKLE_TUPLE, 0);
    case TUPLE1:
        return make_of(pickle, PICKLE_TUPLE, 1);
    case TUPLE2:
        return make_of(pickle, PICKLE_TUPLE, 2);
    case TUPLE3:
        return make_of(pickle, PICKLE_TUPLE, 3);
    case TUPLE:
        return make_to_mark(pickle, PICKLE_TUPLE);
    case EMPTY_LIST:
        return pickle_make(pickle, PICKLE_LIST, 0);
    case LIST:
        return make_to_mark(pickle, PICKLE_LIST);
    case APPEND:
        return pickle_fill(pickle, PICKLE_LIST, 1);
    case APPENDS:
        return fill_to_mark(pickle, PICKLE_LIST);
    case EMPTY_DICT:
        return pickle_make(pickle, PICKLE_DICT, 0);
    case DICT:
        return make_to_mark(pickle, PICKLE_DICT);
    case SETITEM:
        return pickle_fill(pickle, PICKLE_DICT, 2);
    case SETITEMS:
        return fill_to_mark(pickle, PICKLE_DICT);
    case EMPTY_SET:
        return push_kind(pickle, PICKLE_OTHER);
    case ADDITEMS:
        return add_to_set(pickle);
    case FROZENSET:
        return drop_to_mark(pickle) && push_kind(pickle, PICKLE_OTHER);
    case BINPUT:
        return memo(pickle, true, 1);
    case LONG_BINPUT:
        return memo(pickle, true, 4);
    case MEMOIZE:
        return pickle_memo_put(pickle, SIZE_MAX);
    case BINGET:
        return memo(pickle, false, 1);
    case LONG_BINGET:
        return memo(pickle, false, 4);
    default:
        return run_atom(pickle, opcode);
    }
}

static bool run_all(struct pickle *pickle) {
    uint8_t opcode;
    while (!pickle->stopped) {
        pickle->offset = pickle->buffer_offset + pickle->at;
        if (!pickle_byte(pickle, &opcode) || !run(pickle, opcode)) return false;
    }
    return true;
}

/* What only reading needs. */
static void free_machine(struct pickle *pickle) {
    free(pickle->stack.all);
    free(pickle->memo.all);
    free(pickle->marks);
    ids_free(&pickle->memo_numbers);
    pickle->stack = pickle->memo = (struct pickle_values){0};
    pickle->marks = NULL;
}

struct pickle *pickle_read(const char *name, struct input *input, const char *const *words, size_t count,
                           uint64_t most_bytes, char *why, size_t room) {
    struct pickle *pickle = calloc(1, sizeof *pickle);
    if (pickle == NULL) {
        snprintf(why, room, "%s: no host memory to read it", name);
        return NULL;
    }
    pickle->name = name;
    pickle->input = input;
    pickle->words = words;
    pickle->word_count = count;
    pickle->most_bytes = most_bytes;
    for (size_t i = 0; i < count; i++) pickle->lengths[i] = (uint8_t)strlen(words[i]);
    pickle->why = why;
    pickle->why_room = room;
    const bool read = run_all(pickle);
    free_machine(pickle);
    if (read) return pickle;
    pickle_free(pickle);
    return NULL;
}

void pickle_free(struct pickle *pickle) {
    if (pickle == NULL) return;
    for (size_t i = 0; i < pickle->container_count; i++)
        if (pickle->containers[i].room > 0) free(pickle->containers[i].items);
    free(pickle->containers);
    free(pickle);
}

struct pickle_value pickle_root(const struct pickle *pickle) {
    return pickle->root;
}
