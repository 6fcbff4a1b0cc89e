/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/preload/elf.h"

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
    const ElfW(Rela) * relocations[2];
    size_t counts[2];
};

/* The C library's dynamic linker has added the base to these addresses already, but for the kernel's own object. */
static uintptr_t absolute(uintptr_t base, ElfW(Addr) value) { return value < base ? base + value : value; }

static bool read_tables(const struct dl_phdr_info *object, struct tables *tables) {
    const ElfW(Dyn) *dynamic = NULL;
    *tables = (struct tables){0};
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
    for (; dynamic != NULL && dynamic->d_tag != DT_NULL; dynamic++) {
        const uintptr_t at = absolute(object->dlpi_addr, dynamic->d_un.d_ptr);
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
        case DT_RELA:
            tables->relocations[0] = (const ElfW(Rela) *)at;
            break;
        case DT_RELASZ:
            tables->counts[0] = dynamic->d_un.d_val / sizeof(ElfW(Rela));
            break;
        case DT_JMPREL:
            tables->relocations[1] = (const ElfW(Rela) *)at;
            break;
        case DT_PLTRELSZ:
            tables->counts[1] = dynamic->d_un.d_val / sizeof(ElfW(Rela));
            break;
        default:
            break;
        }
    }
    return tables->symbols != NULL && tables->names != NULL;
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
            strcmp(tables->names + symbol->st_name, name) == 0)
            return symbol;
        if (chain[i - first] & 1) break;
    }
    return NULL;
}

struct search {
    const char *symbol;
    void *found;
};

static int look_in_libc(struct dl_phdr_info *object, size_t size, void *self) {
    struct search *search = self;
    struct tables tables;
    (void)size;
    const char *name = object->dlpi_name == NULL ? NULL : strrchr(object->dlpi_name, '/');
    if (name == NULL || (strcmp(name, "/libc.so.6") != 0 && strcmp(name, "/libdl.so.2") != 0)) return 0;
    if (!read_tables(object, &tables)) return 0;
    const ElfW(Sym) *symbol = find_symbol(&tables, search->symbol);
    if (symbol == NULL) return 0;
    search->found = (void *)(object->dlpi_addr + symbol->st_value);
    return 1;
}

void *weir__elf_libc(const char *symbol) {
    struct search search = {.symbol = symbol};
    dl_iterate_phdr(look_in_libc, &search);
    return search.found;
}

/* ---- where an object lies ----------------------------------------------------------------------------------------- */

struct range {
    uintptr_t inside, begin, end;
};

static int look_around(struct dl_phdr_info *object, size_t size, void *self) {
    struct range *range = self;
    uintptr_t begin = UINTPTR_MAX, end = 0;
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_LOAD) continue;
        const uintptr_t at = object->dlpi_addr + part->p_vaddr;
        if (at < begin) begin = at;
        if (at + part->p_memsz > end) end = at + part->p_memsz;
    }
    if (range->inside < begin || range->inside >= end) return 0;
    range->begin = begin;
    range->end = end;
    return 1;
}

bool weir__elf_range(const void *address, uintptr_t *begin, uintptr_t *end) {
    struct range range = {.inside = (uintptr_t)address};
    const bool found = dl_iterate_phdr(look_around, &range) == 1;
    *begin = range.begin;
    *end = range.end;
    return found;
}

/* ---- calls that go elsewhere -------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define IS_CALL(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#elif defined(__aarch64__)
#define IS_CALL(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#else
#error "which relocations are calls is not known for this processor"
#endif

struct redirect {
    size_t skip, seen, count, changed;
    const char *const *names;
    void *const *ours;
};

/* The linker makes whole pages of the object read-only when it is done with them; that they are again afterwards. */
static bool is_sealed(const struct dl_phdr_info *object, uintptr_t at, uintptr_t page) {
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        const uintptr_t begin = object->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_GNU_RELRO && at >= begin && at < (begin + part->p_memsz) / page * page) return true;
    }
    return false;
}

static bool write_slot(const struct dl_phdr_info *object, void **slot, void *value) {
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)slot / page * page;
    const bool sealed = is_sealed(object, (uintptr_t)slot, page);
    if (*slot == value || (sealed && mprotect((void *)at, page, PROT_READ | PROT_WRITE) != 0)) return false;
    __atomic_store_n(slot, value, __ATOMIC_RELEASE);
    if (sealed) (void)mprotect((void *)at, page, PROT_READ);
    return true;
}

/* The driver's calls of itself are its own affair. */
static bool is_driver(const struct dl_phdr_info *object) {
    const char *slash = object->dlpi_name == NULL ? NULL : strrchr(object->dlpi_name, '/');
    return slash != NULL && strncmp(slash, "/libcuda.so", 11) == 0;
}

static int redirect_object(struct dl_phdr_info *object, size_t size, void *self) {
    struct redirect *redirect = self;
    struct tables tables;
    (void)size;
    if (redirect->seen++ < redirect->skip || is_driver(object) || !read_tables(object, &tables)) return 0;
    for (int list = 0; list < 2; list++) {
        for (size_t i = 0; i < tables.counts[list]; i++) {
            const ElfW(Rela) *relocation = &tables.relocations[list][i];
            if (!IS_CALL(ELF64_R_TYPE(relocation->r_info))) continue;
            const char *name = tables.names + tables.symbols[ELF64_R_SYM(relocation->r_info)].st_name;
            for (size_t n = 0; n < redirect->count; n++)
                if (strcmp(name, redirect->names[n]) == 0)
                    redirect->changed +=
                        write_slot(object, (void **)(object->dlpi_addr + relocation->r_offset), redirect->ours[n]);
        }
    }
    return 0;
}

size_t weir__elf_redirect(size_t skip, const char *const *names, void *const *ours, size_t count) {
    struct redirect redirect = {.skip = skip, .count = count, .names = names, .ours = ours};
    dl_iterate_phdr(redirect_object, &redirect);
    return redirect.changed;
}

static int count_object(struct dl_phdr_info *object, size_t size, void *self) {
    (void)object;
    (void)size;
    ++*(size_t *)self;
    return 0;
}

size_t weir__elf_count(void) {
    size_t count = 0;
    dl_iterate_phdr(count_object, &count);
    return count;
}
