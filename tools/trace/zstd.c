/* SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"

#include <zstd.h>

/* A frame's header claims the memory to read it with; zstd itself asks for leave beyond the same 128 MiB. */
enum { LEVEL = 6, MOST_WINDOW_LOG = 27 };

static void *open_decoder(void) {
    ZSTD_DCtx *context = ZSTD_createDCtx();
    if (context != NULL) ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, MOST_WINDOW_LOG);
    return context;
}

static void close_decoder(void *decoder) { ZSTD_freeDCtx(decoder); }

static void *open_encoder(void) {
    ZSTD_CCtx *context = ZSTD_createCCtx();
    if (context == NULL) return NULL;
    ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, LEVEL);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    return context;
}

static void close_encoder(void *encoder) { ZSTD_freeCCtx(encoder); }

static void move(struct codec_span *span, const ZSTD_inBuffer *in, const ZSTD_outBuffer *out) {
    span->in += in->pos;
    span->in_bytes -= in->pos;
    span->out += out->pos;
    span->out_bytes -= out->pos;
}

static enum codec_step decode(void *decoder, struct codec_span *span) {
    ZSTD_inBuffer in = {span->in, span->in_bytes, 0};
    ZSTD_outBuffer out = {span->out, span->out_bytes, 0};
    size_t result = ZSTD_decompressStream(decoder, &out, &in);
    move(span, &in, &out);
    if (ZSTD_isError(result)) return CODEC_BROKEN;
    return result == 0 ? CODEC_ENDED : CODEC_GOES_ON;
}

static enum codec_step encode(void *encoder, struct codec_span *span, bool last) {
    ZSTD_inBuffer in = {span->in, span->in_bytes, 0};
    ZSTD_outBuffer out = {span->out, span->out_bytes, 0};
    size_t result = ZSTD_compressStream2(encoder, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
    move(span, &in, &out);
    if (ZSTD_isError(result)) return CODEC_BROKEN;
    return span->in_bytes == 0 && (last ? result == 0 : span->out_bytes > 0) ? CODEC_ENDED : CODEC_GOES_ON;
}

const struct codec codec_zstd = {.name = "zstd",
                                 .ending = ".zst",
                                 .magic = {0x28, 0xb5, 0x2f, 0xfd},
                                 .magic_bytes = 4,
                                 .built = true,
                                 .open_decoder = open_decoder,
                                 .decode = decode,
                                 .close_decoder = close_decoder,
                                 .open_encoder = open_encoder,
                                 .encode = encode,
                                 .close_encoder = close_encoder};
