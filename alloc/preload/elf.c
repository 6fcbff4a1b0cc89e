/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/preload/elf.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* What of an object's dynamic section is looked at; addresses as they are in memory. */
struct tables {
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Half) * versions;
    const uint32_t *hash; /* GNU's */
};

/* The C library's dynamic linker has added the base to these addresses already, but for the kernel's own object. */
static uintptr_t absolute(uintptr_t base, ElfW(Addr) value) { return value < base ? base + value : value; }

static bool read_tables(uintptr_t base, const ElfW(Dyn) * dynamic, struct tables *tables) {
    *tables = (struct tables){0};
    for (; dynamic != NULL && dynamic->d_tag != DT_NULL; dynamic++) {
        const uintptr_t at = absolute(base, dynamic->d_un.d_ptr);
        switch (dynamic->d_tag) {
        case DT_SYMTAB:
            tables->symbols = (const ElfW(Sym) *)at;
            break;
        case DT_STRTAB:
            tables->names = (const char *)at;
            break;
        case DT_VERSYM:
            tables->versions = (const ElfW(Half) *)at;
            break;
        case DT_GNU_HASH:
            tables->hash = (const uint32_t *)at;
            break;
        default:
            break;
        }
    }
    return tables->symbols != NULL && tables->names != NULL;
}

/* By hand: the first look-ups come before other libraries' functions may be called, those of a sanitizer among them. */
static bool same(const char *a, const char *b) {
    for (; *a != 0 && *a == *b; a++) b++;
    return *a == *b;
}

static const char *file_of(const char *path) {
    const char *file = path;
    for (; path != NULL && *path != 0; path++)
        if (*path == '/') file = path + 1;
    return file;
}

/* ---- a symbol of an object ---------------------------------------------------------------------------------------- */

static uint32_t hash_of(const char *name) {
    uint32_t hash = 5381;
    for (; *name != 0; name++) hash = hash * 33 + (unsigned char)*name;
    return hash;
}

#define HIDDEN_VERSION 0x8000 /* not the default one */

/* GNU's table: count of buckets, first symbol, count of filter words, shift; the filter, the buckets, the chains. */
static const ElfW(Sym) * find_symbol(const struct tables *tables, const char *name) {
    if (tables->hash == NULL) return NULL;
    const uint32_t buckets = tables->hash[0], first = tables->hash[1], filters = tables->hash[2];
    const uint32_t *bucket = tables->hash + 4 + filters * (sizeof(ElfW(Addr)) / 4), *chain = bucket + buckets;
    const uint32_t hash = hash_of(name);
    if (buckets == 0) return NULL;
    for (uint32_t i = bucket[hash % buckets]; i >= first; i++) {
        const ElfW(Sym) *symbol = &tables->symbols[i];
        const bool usual = tables->versions == NULL || (tables->versions[i] & HIDDEN_VERSION) == 0;
        if (((chain[i - first] ^ hash) >> 1) == 0 && usual && symbol->st_shndx != SHN_UNDEF &&
            same(tables->names + symbol->st_name, name))
            return symbol;
        if (chain[i - first] & 1) break;
    }
    return NULL;
}

static bool is_libc(const char *path) {
    return path != NULL && (same(file_of(path), "libc.so.6") || same(file_of(path), "libdl.so.2"));
}

/* By the list that debuggers read. dl_iterate_phdr may be another library's, which may look names up for it, which is what this is
 * for. The C library is in the list before any thread is there, and stays. */
void *weir__elf_libc(const char *symbol) {
    struct tables tables;
    for (const struct link_map *object = _r_debug.r_map; object != NULL; object = object->l_next) {
        if (!is_libc(object->l_name) || !read_tables(object->l_addr, object->l_ld, &tables)) continue;
        const ElfW(Sym) *found = find_symbol(&tables, symbol);
        if (found != NULL) return (void *)(object->l_addr + found->st_value);
    }
    return NULL;
}

static const struct link_map *object_of(const void *address) {
    Dl_info info;
    void *object = NULL;
    return dladdr1(address, &info, &object, RTLD_DL_LINKMAP) != 0 ? object : NULL;
}

/* What comes before an object of the program's start is so too, and stays: later ones are not looked at. */
enum weir__elf_between weir__elf_between(const void *first, const void *second, const char *symbol) {
    const struct link_map *from = object_of(first), *to = object_of(second), *object = _r_debug.r_map;
    enum weir__elf_between between = WEIR__NO_WAY;
    struct tables tables;
    for (; object != NULL && object != to; object = object->l_next) {
        if (between == WEIR__NOBODY && read_tables(object->l_addr, object->l_ld, &tables) &&
            find_symbol(&tables, symbol) != NULL)
            between = WEIR__SOMEBODY;
        if (object == from) between = WEIR__NOBODY;
    }
    return object != NULL ? between : WEIR__NO_WAY;
}

/* ---- where an object lies ----------------------------------------------------------------------------------------- */

bool weir__elf_range(const void *address, uintptr_t *begin, uintptr_t *end) {
    Dl_info info;
    *begin = *end = 0;
    if (dladdr(address, &info) == 0) return false;
    const ElfW(Ehdr) *head = info.dli_fbase;
    const ElfW(Phdr) *part = (const ElfW(Phdr) *)((uintptr_t)head + head->e_phoff);
    *begin = *end = (uintptr_t)head; /* of a library, whose addresses count from 0 */
    for (int i = 0; i < head->e_phnum; i++)
        if (part[i].p_type == PT_LOAD && *begin + part[i].p_vaddr + part[i].p_memsz > *end)
            *end = *begin + part[i].p_vaddr + part[i].p_memsz;
    return true;
}

/* ---- what is found ------------------------------------------------------------------------------------------------ */

/* As mprotect has them; 0: the address is in no part of the object that is loaded. */
static int protection(uintptr_t base, uintptr_t address) {
    const ElfW(Ehdr) *head = (const ElfW(Ehdr) *)base;
    const ElfW(Phdr) *part = (const ElfW(Phdr) *)(base + head->e_phoff);
    for (int i = 0; i < head->e_phnum; i++)
        if (part[i].p_type == PT_LOAD && address - base >= part[i].p_vaddr &&
            address - base < part[i].p_vaddr + part[i].p_memsz)
            return ((part[i].p_flags & PF_R) != 0 ? PROT_READ : 0) | ((part[i].p_flags & PF_W) != 0 ? PROT_WRITE : 0) |
                   ((part[i].p_flags & PF_X) != 0 ? PROT_EXEC : 0);
    return 0;
}

/* Other threads may look the symbol up meanwhile. */
static bool set_value(uintptr_t base, const ElfW(Sym) * symbol, ElfW(Addr) value) {
    ElfW(Addr) *place = (ElfW(Addr) *)(uintptr_t)&symbol->st_value;
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)place / page * page;
    const int before = protection(base, (uintptr_t)place);
    if (before == 0 || mprotect((void *)at, page, before | PROT_WRITE) != 0) return false;
    __atomic_store_n(place, value, __ATOMIC_RELEASE);
    if ((before & PROT_WRITE) == 0) (void)mprotect((void *)at, page, before);
    return true;
}

bool weir__elf_divert(void *handle, const char *symbol, const void *to) {
    struct link_map *object = NULL;
    struct tables tables;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &object) != 0 || !read_tables(object->l_addr, object->l_ld, &tables))
        return false;
    const ElfW(Sym) *found = find_symbol(&tables, symbol);
    return found == NULL || set_value(object->l_addr, found, (uintptr_t)to - object->l_addr);
}
