/* SPDX-License-Identifier: Apache-2.0 */
#include "pickle_machine.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KIND_BITS = 4, MEMO_BYTES = 64 /* at most, of what finds an entry */ };
#define MOST_ITEMS (UINT32_MAX / 2) /* of one container */

bool pickle_fail(struct pickle *pickle, const char *format, ...) {
    if (pickle->failed) return false;
    pickle->failed = true;
    char what[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    snprintf(pickle->why, pickle->why_room, "%s: byte %" PRIu64 ": %s", pickle->name, pickle->offset, what);
    return false;
}

/* ---- bytes ------------------------------------------------------------------------------------------------------ */

static bool refill(struct pickle *pickle) {
    pickle->buffer_offset += pickle->filled;
    pickle->at = 0;
    pickle->filled = input_read(pickle->input, pickle->buffer, sizeof pickle->buffer);
    if (pickle->filled > 0) return true;
    const char *failure = input_failure(pickle->input);
    pickle->offset = pickle->buffer_offset;
    return pickle_fail(pickle, "%s", failure != NULL ? failure : "the text ends within the pickle");
}

bool pickle_byte(struct pickle *pickle, uint8_t *byte) {
    if (pickle->at == pickle->filled && !refill(pickle)) return false;
    *byte = pickle->buffer[pickle->at++];
    return true;
}

bool pickle_little(struct pickle *pickle, unsigned bytes, uint64_t *number) {
    uint8_t byte;
    *number = 0;
    for (unsigned i = 0; i < bytes; i++) {
        if (!pickle_byte(pickle, &byte)) return false;
        *number |= (uint64_t)byte << 8 * i;
    }
    return true;
}

bool pickle_take(struct pickle *pickle, uint64_t count, uint8_t *kept, size_t room) {
    while (count > 0) {
        if (pickle->at == pickle->filled && !refill(pickle)) return false;
        const size_t left = pickle->filled - pickle->at, piece = count < left ? (size_t)count : left;
        const size_t keep = piece < room ? piece : room;
        if (keep > 0) {
            memcpy(kept, pickle->buffer + pickle->at, keep);
            kept += keep;
            room -= keep;
        }
        pickle->at += piece;
        count -= piece;
    }
    return true;
}

/* ---- host memory ------------------------------------------------------------------------------------------------ */

static bool charge(struct pickle *pickle, uint64_t bytes) {
    if (bytes <= pickle->most_bytes - pickle->bytes) {
        pickle->bytes += bytes;
        return true;
    }
    return pickle_fail(pickle, "what is to be kept of the pickle needs more than the limit of %" PRIu64 " bytes",
                       pickle->most_bytes);
}

static bool grow(struct pickle *pickle, void **array, size_t *room, size_t needed, size_t size) {
    if (needed <= *room) return true;
    const size_t larger = *room * 2 > needed ? *room * 2 : needed;
    if (!charge(pickle, (larger - *room) * size)) return false;
    void *moved = realloc(*array, larger * size);
    if (moved == NULL) return pickle_fail(pickle, "no host memory for the pickle");
    *array = moved;
    *room = larger;
    return true;
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

struct pickle_value pickle_of(enum pickle_kind kind, uint64_t what) {
    return (struct pickle_value){what << KIND_BITS | kind};
}

struct pickle_value pickle_of_number(int64_t number) {
    const int64_t most = INT64_MAX >> KIND_BITS;
    if (number > most || number < -most) return pickle_of(PICKLE_WIDE, 0);
    return pickle_of(PICKLE_NUMBER, (uint64_t)number);
}

enum pickle_kind pickle_kind(struct pickle_value value) {
    return (enum pickle_kind)(value.bits & ((1u << KIND_BITS) - 1));
}

int64_t pickle_number(struct pickle_value value) { return (int64_t)value.bits >> KIND_BITS; }

static size_t index_of(struct pickle_value value) { return (size_t)(value.bits >> KIND_BITS); }

size_t pickle_word(struct pickle_value value) { return pickle_kind(value) == PICKLE_WORD ? index_of(value) : SIZE_MAX; }

bool pickle_is_container(struct pickle_value value) { return pickle_kind(value) >= PICKLE_LIST; }

static struct pickle_container *container_of(const struct pickle *pickle, struct pickle_value value) {
    return &pickle->containers[index_of(value)];
}

size_t pickle_length(const struct pickle *pickle, struct pickle_value list) {
    if (pickle_kind(list) != PICKLE_LIST && pickle_kind(list) != PICKLE_TUPLE) return 0;
    return container_of(pickle, list)->count + container_of(pickle, list)->empties;
}

struct pickle_value pickle_item(const struct pickle *pickle, struct pickle_value list, size_t at) {
    const struct pickle_container *container = container_of(pickle, list);
    return container->empties > 0 ? container->first : container->items[at];
}

struct pickle_value pickle_get(const struct pickle *pickle, struct pickle_value dict, size_t word) {
    if (pickle_kind(dict) != PICKLE_DICT) return pickle_of(PICKLE_ABSENT, 0);
    const struct pickle_container *container = container_of(pickle, dict);
    for (uint32_t i = 0; i < container->count; i++)
        if (container->pairs[i].key == word) return container->pairs[i].value;
    return pickle_of(PICKLE_ABSENT, 0);
}

uint64_t pickle_offset(const struct pickle *pickle, struct pickle_value value) {
    return pickle_is_container(value) ? container_of(pickle, value)->offset : 0;
}

/* ---- the stack -------------------------------------------------------------------------------------------------- */

static bool add(struct pickle *pickle, struct pickle_values *values, struct pickle_value value) {
    void *all = values->all;
    const bool grown = grow(pickle, &all, &values->room, values->count + 1, sizeof value);
    values->all = all;
    if (grown) values->all[values->count++] = value;
    return grown;
}

bool pickle_push(struct pickle *pickle, struct pickle_value value) { return add(pickle, &pickle->stack, value); }

bool pickle_has(struct pickle *pickle, size_t count) {
    const size_t mark = pickle->mark_count > 0 ? pickle->marks[pickle->mark_count - 1] : 0;
    return pickle->stack.count - mark >= count || pickle_fail(pickle, "the opcode takes more values than there are");
}

struct pickle_value pickle_top(const struct pickle *pickle) {
    return pickle->stack.all[pickle->stack.count - 1];
}

void pickle_drop(struct pickle *pickle, size_t count) { pickle->stack.count -= count; }

bool pickle_mark(struct pickle *pickle) {
    void *marks = pickle->marks;
    const bool grown = grow(pickle, &marks, &pickle->mark_room, pickle->mark_count + 1, sizeof *pickle->marks);
    pickle->marks = marks;
    if (grown) pickle->marks[pickle->mark_count++] = pickle->stack.count;
    return grown;
}

bool pickle_end_mark(struct pickle *pickle, size_t *count) {
    if (pickle->mark_count == 0) return pickle_fail(pickle, "the opcode ends a mark, and there is none");
    *count = pickle->stack.count - pickle->marks[--pickle->mark_count];
    return true;
}

/* ---- the memo --------------------------------------------------------------------------------------------------- */

bool pickle_memo_put(struct pickle *pickle, uint64_t name) {
    if (!pickle_has(pickle, 1)) return false;
    if (name == SIZE_MAX) name = pickle->memo.count;
    const uint32_t number = ids_find(&pickle->memo_numbers, name);
    if (number != IDS_NONE) {
        pickle->memo.all[number] = pickle_top(pickle);
        return true;
    }
    if (!charge(pickle, MEMO_BYTES)) return false;
    if (!ids_put(&pickle->memo_numbers, name, (uint32_t)pickle->memo.count))
        return pickle_fail(pickle, "no host memory for the pickle");
    return add(pickle, &pickle->memo, pickle_top(pickle));
}

bool pickle_memo_get(struct pickle *pickle, uint64_t name) {
    const uint32_t number = ids_find(&pickle->memo_numbers, name);
    if (number == IDS_NONE)
        return pickle_fail(pickle, "entry %" PRIu64 " of the memo is used before it is there", name);
    return pickle_push(pickle, pickle->memo.all[number]);
}

/* ---- containers ------------------------------------------------------------------------------------------------- */

/* Python refuses those without a hash. */
static bool is_key(struct pickle *pickle, struct pickle_value key) {
    const enum pickle_kind kind = pickle_kind(key);
    if (kind != PICKLE_LIST && kind != PICKLE_DICT) return true;
    return pickle_fail(pickle, "a %s is the key of a dictionary", kind == PICKLE_LIST ? "list" : "dictionary");
}

/* Of the same key the last pair counts. There are as many keys as words, at most. */
static bool set_pair(struct pickle *pickle, struct pickle_container *dict, struct pickle_value key,
                     struct pickle_value value) {
    if (pickle_kind(key) != PICKLE_WORD) return is_key(pickle, key);
    if (dict->in_list)
        return pickle_fail(pickle, "%s comes into a dictionary that a list had before, without it",
                           pickle->words[pickle_word(key)]);
    uint32_t at = 0;
    while (at < dict->count && dict->pairs[at].key != pickle_word(key)) at++;
    if (at == dict->count) {
        void *pairs = dict->pairs;
        size_t room = dict->room;
        const bool grown = grow(pickle, &pairs, &room, at + (size_t)1, sizeof *dict->pairs);
        dict->pairs = pairs;
        dict->room = (uint32_t)room;
        if (!grown) return false;
        dict->count++;
    }
    dict->pairs[at] = (struct pickle_pair){value, (uint8_t)pickle_word(key)};
    return true;
}

static bool set_pairs(struct pickle *pickle, struct pickle_container *dict, const struct pickle_value *from,
                      size_t count) {
    if (count % 2 != 0) return pickle_fail(pickle, "a key of a dictionary has no value");
    for (size_t i = 0; i < count; i += 2)
        if (!set_pair(pickle, dict, from[i], from[i + 1])) return false;
    return true;
}

static bool says_nothing(const struct pickle *pickle, struct pickle_value value) {
    return pickle_kind(value) == PICKLE_DICT && container_of(pickle, value)->count == 0;
}

/* Dictionaries without a pair, where the list has nothing else: false, there is something else. */
static bool append_empties(struct pickle *pickle, struct pickle_container *list, const struct pickle_value *from,
                           size_t count) {
    size_t empties = 0;
    while (empties < count && says_nothing(pickle, from[empties])) empties++;
    if (list->count > 0 || empties < count) return false;
    if (list->empties == 0) list->first = from[0];
    list->empties += (uint32_t)count;
    return true;
}

static bool append(struct pickle *pickle, struct pickle_container *list, const struct pickle_value *from,
                   size_t count) {
    if (count > MOST_ITEMS - list->count - list->empties)
        return pickle_fail(pickle, "a list of more than %u items", MOST_ITEMS);
    for (size_t i = 0; i < count; i++)
        if (says_nothing(pickle, from[i])) container_of(pickle, from[i])->in_list = true;
    if (append_empties(pickle, list, from, count)) return true;
    const struct pickle_value first = list->first;
    void *items = list->empties > 0 ? NULL : list->items;
    size_t room = list->room;
    const bool grown = grow(pickle, &items, &room, list->count + list->empties + count, sizeof *from);
    if (items == NULL) return false;
    list->items = items;
    list->room = (uint32_t)room;
    for (; list->empties > 0; list->empties--) list->items[list->count++] = first;
    if (!grown) return false;
    memcpy(list->items + list->count, from, count * sizeof *from);
    list->count += (uint32_t)count;
    return true;
}

static bool put_all(struct pickle *pickle, struct pickle_value into, size_t count) {
    const struct pickle_value *from = pickle->stack.all + pickle->stack.count - count;
    struct pickle_container *container = container_of(pickle, into);
    if (container->kind == PICKLE_DICT) return set_pairs(pickle, container, from, count);
    return append(pickle, container, from, count);
}

bool pickle_make(struct pickle *pickle, enum pickle_kind kind, size_t count) {
    void *containers = pickle->containers;
    const bool grown =
        grow(pickle, &containers, &pickle->container_room, pickle->container_count + 1, sizeof *pickle->containers);
    pickle->containers = containers;
    if (!grown) return false;
    const struct pickle_value made = pickle_of(kind, pickle->container_count);
    pickle->containers[pickle->container_count++] =
        (struct pickle_container){.offset = pickle->offset, .kind = (uint8_t)kind};
    if (count > 0 && !put_all(pickle, made, count)) return false;
    pickle_drop(pickle, count);
    return pickle_push(pickle, made);
}

bool pickle_fill(struct pickle *pickle, enum pickle_kind kind, size_t count) {
    if (!pickle_has(pickle, count + 1)) return false;
    const struct pickle_value into = pickle->stack.all[pickle->stack.count - count - 1];
    if (pickle_kind(into) != kind)
        return pickle_fail(pickle, "items are put into what is no %s", kind == PICKLE_DICT ? "dictionary" : "list");
    if (count > 0 && !put_all(pickle, into, count)) return false;
    pickle_drop(pickle, count);
    return true;
}
