/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and names as people write and read them. */
#ifndef WEIR_TRAINER_TEXT_H
#define WEIR_TRAINER_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Strict: the whole text is the number, no blanks, nothing lost. False leaves *out alone. */
bool text_integer(const char *text, int64_t *out);
bool text_real(const char *text, double *out);  /* finite */
bool text_bytes(const char *text, size_t *out); /* 64M, 1.5G, 1048576; K, M, G, T count by 1024, "iB" may follow */
bool text_switch(const char *text, bool *out);  /* on|off, true|false, yes|no */
bool text_is_utf8(const char *text);

/* Nearest of `count` names by edit distance, or NULL when none is near enough to be meant. */
const char *text_nearest(const char *given, const char *const *names, size_t count);

/* "41.2 MiB", "1,702"; `out` has room for 32 characters. Give `out`. */
char *text_of_bytes(size_t bytes, char *out);
char *text_of_count(uint64_t count, char *out);
/* Fewest digits that read back to the same number. */
char *text_of_real(double value, char *out);

/* Writes one formatted sentence to `message` and gives `status`, so that a failing line reads `return text_fail(...)`. */
int text_fail(int status, char *message, size_t room, const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
