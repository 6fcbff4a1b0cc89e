/* SPDX-License-Identifier: Apache-2.0 */
/* Objects of the process as the dynamic linker has loaded them. Nothing here calls dlsym, which the library itself stands
 * before. */
#ifndef WEIR_ALLOC_PRELOAD_ELF_H
#define WEIR_ALLOC_PRELOAD_ELF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The address of a function that an object of the C library (libc.so.6, libdl.so.2) defines, in its default version; NULL: none
 * does. */
void *weir__elf_libc(const char *symbol);

/* Addresses [begin, end) of the loaded object that an address lies in; false: in none. */
bool weir__elf_range(const void *address, uintptr_t *begin, uintptr_t *end);

/* What stands between two objects of the program's start, which are given by addresses. */
enum weir__elf_between {
    WEIR__NO_WAY,  /* the first does not come before the second */
    WEIR__NOBODY,  /* who defines the symbol */
    WEIR__SOMEBODY /* does */
};
enum weir__elf_between weir__elf_between(const void *first, const void *second, const char *symbol);

/* Whoever looks the symbol up in the library from now on finds `to`, however he does it. One that it lacks is no failure. Fails
 * where its table can't be changed. Needs: a library (no program), loaded for good. */
bool weir__elf_divert(void *handle, const char *symbol, const void *to);

#endif
