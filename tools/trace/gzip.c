/* SPDX-License-Identifier: Apache-2.0 */
#include "codec.h"

#include <stdlib.h>
#include <zlib.h>

enum { WITH_GZIP_HEADER = 15 + 16, MEMORY_LEVEL = 8 };

static void *open_decoder(void) {
    z_stream *stream = calloc(1, sizeof *stream);
    if (stream != NULL && inflateInit2(stream, WITH_GZIP_HEADER) == Z_OK) return stream;
    free(stream);
    return NULL;
}

static void close_decoder(void *decoder) {
    inflateEnd(decoder);
    free(decoder);
}

static void *open_encoder(void) {
    z_stream *stream = calloc(1, sizeof *stream);
    if (stream != NULL && deflateInit2(stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, WITH_GZIP_HEADER, MEMORY_LEVEL,
                                       Z_DEFAULT_STRATEGY) == Z_OK)
        return stream;
    free(stream);
    return NULL;
}

static void close_encoder(void *encoder) {
    deflateEnd(encoder);
    free(encoder);
}

static void attach(z_stream *stream, const struct codec_span *span) {
    stream->next_in = (z_const Bytef *)(uintptr_t)span->in; /* zlib does not write there */
    stream->avail_in = (uInt)span->in_bytes;
    stream->next_out = span->out;
    stream->avail_out = (uInt)span->out_bytes;
}

static void detach(const z_stream *stream, struct codec_span *span) {
    span->in = stream->next_in;
    span->in_bytes = stream->avail_in;
    span->out = stream->next_out;
    span->out_bytes = stream->avail_out;
}

static enum codec_step decode(void *decoder, struct codec_span *span) {
    attach(decoder, span);
    int result = inflate(decoder, Z_NO_FLUSH);
    detach(decoder, span);
    if (result == Z_STREAM_END) return inflateReset(decoder) == Z_OK ? CODEC_ENDED : CODEC_BROKEN;
    return result == Z_OK || result == Z_BUF_ERROR ? CODEC_GOES_ON : CODEC_BROKEN;
}

static enum codec_step encode(void *encoder, struct codec_span *span, bool last) {
    attach(encoder, span);
    int result = deflate(encoder, last ? Z_FINISH : Z_NO_FLUSH);
    detach(encoder, span);
    if (result == Z_STREAM_END) return CODEC_ENDED;
    if (result != Z_OK && result != Z_BUF_ERROR) return CODEC_BROKEN;
    return !last && span->in_bytes == 0 && span->out_bytes > 0 ? CODEC_ENDED : CODEC_GOES_ON;
}

const struct codec codec_gzip = {.name = "gzip",
                                 .ending = ".gz",
                                 .magic = {0x1f, 0x8b},
                                 .magic_bytes = 2,
                                 .built = true,
                                 .open_decoder = open_decoder,
                                 .decode = decode,
                                 .close_decoder = close_decoder,
                                 .open_encoder = open_encoder,
                                 .encode = encode,
                                 .close_encoder = close_encoder};
