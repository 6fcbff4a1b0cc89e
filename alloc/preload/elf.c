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
    const ElfW(Rela) * relocations[2];
    size_t counts[2];
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
bool weir__elf_defined_between(const void *after, const void *before, const char *symbol) {
    const struct link_map *from = object_of(after), *to = object_of(before), *object = _r_debug.r_map;
    struct tables tables;
    bool defined = false;
    for (bool behind = false; object != NULL && object != to; object = object->l_next) {
        if (behind && read_tables(object->l_addr, object->l_ld, &tables) && find_symbol(&tables, symbol) != NULL)
            defined = true;
        behind |= object == from;
    }
    return defined && object != NULL;
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
    return object->dlpi_name != NULL && strncmp(file_of(object->dlpi_name), "libcuda.so", 10) == 0;
}

static int redirect_object(struct dl_phdr_info *object, size_t size, void *self) {
    struct redirect *redirect = self;
    struct tables tables;
    (void)size;
    const ElfW(Dyn) *dynamic = NULL;
    for (int i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
    if (redirect->seen++ < redirect->skip || is_driver(object) || !read_tables(object->dlpi_addr, dynamic, &tables))
        return 0;
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
