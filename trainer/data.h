/* SPDX-License-Identifier: Apache-2.0 */
/* The text: bytes of one file, mapped; its end is kept for validation.
 *
 * A batch is named by the global index of its sequences, never by rank, so that any number of ranks trains on the same
 * global batch. Sequence i of training is a window whose start is a hash of (seed, i); sequence i of validation is the
 * i-th of the consecutive windows, and starts again after the last. A tail shorter than a sequence is left out.
 *
 * bytes: [0, train_bytes) is for training, [train_bytes, bytes) for validation; a window reads seq + 1 bytes. */
#ifndef WEIR_TRAINER_DATA_H
#define WEIR_TRAINER_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct data {
    char path[512];
    const unsigned char *text; /* (bytes) */
    int64_t bytes;
    int64_t train_bytes;
    int64_t seq;
};

/* The file that `path` names, or for "" the default text beside the program (../data/kjv.txt from its folder). */
void data_path(const char *path, char *out, size_t room);

/* Opens the file. `validation` is a fraction; 0 keeps nothing for validation. Threads: any, on different `out`.
 * Gives 0, or 2 with one sentence that names the file, the bytes it has and the bytes that are needed. */
int data_open(const char *path, double validation, int64_t seq, struct data *out, char *message, size_t room);
void data_close(struct data *data);

/* Different validation windows; 0 without validation text. */
int64_t data_validation_sequences(const struct data *data);

/* ids (seq), targets (seq): the byte after each; host memory. */
void data_batch(const struct data *data, bool validation, int64_t sequence, uint64_t seed, int32_t *ids,
                int32_t *targets);

#endif
