/* SPDX-License-Identifier: Apache-2.0 */
/* Writing `weir-trace 1`: what gen and convert do. The file is compressed as its name ends (.gz, .zst), else plain; "-"
 * is standard output. It appears under its name only when it is whole: until then it is NAME.part.
 *
 * The first write that fails is remembered and ends the writing; trace_writer_close tells it. */
#ifndef WEIR_TRACE_WRITE_H
#define WEIR_TRACE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct trace_writer;

/* Writes the header. Gives: NULL with a sentence in `why`. */
struct trace_writer *trace_writer_open(const char *path, char *why, size_t room);
/* False with a sentence in `why` when anything could not be written; there is no file then. */
bool trace_writer_close(struct trace_writer *writer, char *why, size_t room);
/* Leaves no file. */
void trace_writer_abandon(struct trace_writer *writer);

/* All numbers are ids. */
void trace_put_alloc(struct trace_writer *writer, uint64_t block, uint64_t bytes, uint64_t stream); /* m */
void trace_put_live(struct trace_writer *writer, uint64_t block, uint64_t bytes, uint64_t stream);  /* p */
void trace_put_align(struct trace_writer *writer, uint64_t block, uint64_t align);                  /* a */
void trace_put_free(struct trace_writer *writer, uint64_t block);                                   /* f ID */
void trace_put_free_on(struct trace_writer *writer, uint64_t block, uint64_t stream);               /* f ID S */
void trace_put_free_any(struct trace_writer *writer, uint64_t block);                               /* f ID * */
void trace_put_free_after(struct trace_writer *writer, uint64_t block, uint64_t event);             /* f ID @E */
void trace_put_use(struct trace_writer *writer, uint64_t block, uint64_t stream);                   /* u */
void trace_put_work(struct trace_writer *writer, uint64_t stream, double us);                       /* k; one decimal */
void trace_put_record(struct trace_writer *writer, uint64_t event, uint64_t stream);                /* e */
void trace_put_wait(struct trace_writer *writer, uint64_t event, uint64_t stream);                  /* w */
void trace_put_sync_stream(struct trace_writer *writer, uint64_t stream);                           /* s */
void trace_put_sync_device(struct trace_writer *writer);                                            /* d */
void trace_put_host_wait(struct trace_writer *writer, uint64_t event);                              /* h */
void trace_put_destroy_stream(struct trace_writer *writer, uint64_t stream);                        /* x */
void trace_put_destroy_event(struct trace_writer *writer, uint64_t event);                          /* y */
void trace_put_iteration(struct trace_writer *writer);                                              /* i */
void trace_put_stream_name(struct trace_writer *writer, uint64_t stream, const char *name); /* # stream N NAME */
void trace_put_comment(struct trace_writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
