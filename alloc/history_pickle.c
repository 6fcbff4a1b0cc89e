/* SPDX-License-Identifier: Apache-2.0 */
/* A pool's last events as the entries of a snapshot's device_traces. */
#include "alloc/history.h"
#include "alloc/pickle.h"

#define FIRST_WORD 128 /* snapshot.c has those before it */

#define WORD_LIST(X)                                                                                                   \
    X(ACTION, "action")                                                                                                \
    X(ADDR, "addr")                                                                                                    \
    X(DEVICE_FREE, "device_free")                                                                                      \
    X(SIZE, "size")                                                                                                    \
    X(STREAM, "stream")                                                                                                \
    X(TIME_US, "time_us")                                                                                              \
    X(FRAMES, "frames")                                                                                                \
    X(ALLOC, "alloc")                                                                                                  \
    X(FREE_REQUESTED, "free_requested")                                                                                \
    X(FREE_COMPLETED, "free_completed")                                                                                \
    X(SEGMENT_MAP, "segment_map")                                                                                      \
    X(SEGMENT_UNMAP, "segment_unmap")                                                                                  \
    X(SEGMENT_ALLOC, "segment_alloc")                                                                                  \
    X(SEGMENT_FREE, "segment_free")                                                                                    \
    X(OOM, "oom")                                                                                                      \
    X(SNAPSHOT, "snapshot")

enum word {
#define WORD_ENUM(word, text) word,
    WORD_LIST(WORD_ENUM)
#undef WORD_ENUM
};

static const enum word actions[] = {
    [WEIR__PAST_ALLOC] = ALLOC,         [WEIR__PAST_FREE] = FREE_REQUESTED,
    [WEIR__PAST_MAPPED] = SEGMENT_MAP,  [WEIR__PAST_UNMAPPED] = SEGMENT_UNMAP,
    [WEIR__PAST_TAKEN] = SEGMENT_ALLOC, [WEIR__PAST_GIVEN_BACK] = SEGMENT_FREE,
    [WEIR__PAST_REFUSED] = OOM,         [WEIR__PAST_SNAPSHOT] = SNAPSHOT,
};

static void put_word(struct weir__pickle *pickle, enum word word) {
    static const char *const texts[] = {
#define WORD_TEXT(word, text) text,
        WORD_LIST(WORD_TEXT)
#undef WORD_TEXT
    };
    weir__pickle_word(pickle, (uint8_t)(FIRST_WORD + word), texts[word]);
}

static void put_number(struct weir__pickle *pickle, enum word key, uint64_t number) {
    put_word(pickle, key);
    weir__pickle_number(pickle, number);
}

static void put_entry(struct weir__pickle *pickle, const struct weir__past_event *event, enum word action) {
    size_t none;
    weir__pickle_dict(pickle);
    put_word(pickle, ACTION);
    put_word(pickle, action);
    put_number(pickle, action == OOM ? DEVICE_FREE : ADDR, event->address);
    put_number(pickle, SIZE, event->bytes);
    put_number(pickle, STREAM, (uintptr_t)event->stream);
    put_number(pickle, TIME_US, event->ns / 1000);
    put_word(pickle, FRAMES);
    weir__pickle_list(pickle, &none);
    weir__pickle_list_end(pickle);
    weir__pickle_dict_end(pickle);
}

/* A free is over when it is made: from then on the memory is there for all, and who gets it waits for what has to be waited for. */
void weir__history_pickle(struct weir__pickle *pickle, const struct weir__past_event *events, size_t count) {
    size_t items;
    weir__pickle_list(pickle, &items);
    for (size_t i = 0; i < count; i++) {
        weir__pickle_item(pickle, &items);
        put_entry(pickle, &events[i], actions[events[i].kind]);
        if (events[i].kind != WEIR__PAST_FREE) continue;
        weir__pickle_item(pickle, &items);
        put_entry(pickle, &events[i], FREE_COMPLETED);
    }
    weir__pickle_list_end(pickle);
}
