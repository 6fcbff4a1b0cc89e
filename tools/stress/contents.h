/* SPDX-License-Identifier: Apache-2.0 */
/* What is in the blocks. Each is filled in the order of its stream, with a pattern of its own; later, in the order of whichever
 * stream uses it, it is copied to pinned host memory, and compared there once the copy has passed. So memory that others
 * write before a stream is done with it shows, however the host's calls lay in time.
 *
 * The pattern of a block: 64 KiB of random bytes from a place on that its number says, over and over. Of a place where other
 * bytes are found, the blocks that lay there tell whose they are. */
#ifndef WEIR_STRESS_CONTENTS_H
#define WEIR_STRESS_CONTENTS_H

#include "device/device.h"
#include "faults.h"
#include "live.h"
#include "random.h"

enum contents_check { CONTENTS_FULL, CONTENTS_SAMPLE, CONTENTS_NONE };

enum {
    CONTENTS_PIECE = 65536, /* of one copy to the host */
    CONTENTS_SLOTS = 32,    /* copies of a thread under way */
    CONTENTS_SAMPLES = 16,  /* pieces that are looked at, of a large block */
};

/* Of all threads. */
struct contents {
    struct weir_device *device;
    struct faults *faults;
    struct live *live;
    unsigned char *pattern; /* pinned; NULL: nothing is filled and compared */
    enum contents_check check;
    bool told; /* without a pattern the watch is told that blocks are written and read, which they are not */
};

/* A copy under way. */
struct slot {
    weir_event event;
    unsigned char *bytes;
    bool under_way;
    struct past block;
    size_t offset, length; /* in the block */
    uint32_t stream;       /* the copy's */
};

/* Of one thread. */
struct checker {
    struct contents *contents;
    struct random random;
    struct slot slots[CONTENTS_SLOTS];
    unsigned char *bytes; /* the slots', pinned */
    unsigned next;
    uint64_t compared_bytes;
    uint64_t told; /* number of the last block that was told of: once is enough */
};

/* False: no memory, weir_last_error() says why. Closed in any case. */
bool contents_open(struct contents *contents, uint64_t seed);
void contents_close(struct contents *contents);
bool checker_open(struct checker *checker, struct contents *contents, uint64_t seed);
void checker_close(struct checker *checker);

/* Each gives WEIR_OK, or what the device's call gave. A difference is no failure: it is added to the faults. */
enum weir_status contents_fill(const struct contents *contents, const struct block *block, weir_stream stream);
/* The same from byte `from` on, the bytes before it being there. */
enum weir_status contents_fill_rest(const struct contents *contents, const struct block *block, size_t from,
                                    weir_stream stream);
/* Queues the comparison; of copies that have to pass for it, it waits for the oldest. */
enum weir_status checker_look(struct checker *checker, const struct block *block, weir_stream stream, uint32_t number);
/* Waits for all that is under way. */
enum weir_status checker_finish(struct checker *checker);

#endif
