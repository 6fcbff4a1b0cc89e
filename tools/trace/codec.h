/* SPDX-License-Identifier: Apache-2.0 */
/* The two compressions of traces, as a table: gzip.c, zstd.c; no_gzip.c, no_zstd.c in a build without the library.
 *
 * Words. member: what can stand behind another of its kind in one file: a gzip member, a zstd frame. */
#ifndef WEIR_TRACE_CODEC_H
#define WEIR_TRACE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is left to take and to fill; a step moves all four. */
struct codec_span {
    const uint8_t *in;
    size_t in_bytes;
    uint8_t *out;
    size_t out_bytes;
};

enum codec_step {
    CODEC_GOES_ON, /* there can be more to give out: call again, with more room or more to take */
    CODEC_ENDED,   /* decoding: a member ended; encoding: all was taken and, with `last`, given out */
    CODEC_BROKEN,  /* not data of this kind, or no host memory */
};

struct codec {
    const char *name, *ending; /* "gzip", ".gz" */
    uint8_t magic[4];          /* what a member begins with */
    size_t magic_bytes;
    bool built; /* false: the functions are NULL */
    void *(*open_decoder)(void);
    enum codec_step (*decode)(void *decoder, struct codec_span *span);
    void (*close_decoder)(void *decoder);
    void *(*open_encoder)(void);
    enum codec_step (*encode)(void *encoder, struct codec_span *span, bool last);
    void (*close_encoder)(void *encoder);
};

extern const struct codec codec_gzip, codec_zstd;

#endif
