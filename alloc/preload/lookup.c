/* SPDX-License-Identifier: Apache-2.0 */
/* The ways by which a program, or its runtime, finds the driver's entries: dlsym and dlvsym, and cuGetProcAddress. A look-up for
 * anything but a hooked entry of the driver is made by the C library, for the caller: what it answers may depend on who
 * calls ("next", the caller's own search path). So those are passed on by a jump, with the caller's return address in place. */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "alloc/preload/elf.h"
#include "alloc/preload/hooks.h"
#include "alloc/preload/preload.h"

const struct weir__hook weir__hooks[] = {
#define HOOK(symbol, name, version, own, parameters)                                                                   \
    {#symbol, #name, version, own, (weir__function *)symbol, offsetof(struct weir__real, symbol)},
    WEIR__HOOK_LIST(HOOK)
#undef HOOK
};
const size_t weir__hook_count = sizeof weir__hooks / sizeof *weir__hooks;

/* ISO C has no cast between pointers to functions and to objects; POSIX promises that the bits are the same. */
static void *object(weir__function *function) {
    void *address;
    memcpy(&address, &function, sizeof address);
    return address;
}

static weir__function *function(void *address) {
    weir__function *entry;
    memcpy(&entry, &address, sizeof entry);
    return entry;
}

/* ---- the C library's own ------------------------------------------------------------------------------------------ */

typedef void *dlsym_fn(void *, const char *);
typedef void *dlvsym_fn(void *, const char *, const char *);
typedef void *dlopen_fn(const char *, int);

/* Jumped to from assembler. Hidden, so that no other object's are meant. */
__attribute__((visibility("hidden"))) dlsym_fn *weir__real_dlsym;
__attribute__((visibility("hidden"))) dlvsym_fn *weir__real_dlvsym;
__attribute__((visibility("hidden"))) dlopen_fn *weir__real_dlopen;

/* May be run by two threads at once, as both find the same. */
static void find_libc(void) {
    if (__atomic_load_n(&weir__real_dlopen, __ATOMIC_ACQUIRE) != NULL) return;
    weir__real_dlsym = (dlsym_fn *)function(weir__elf_libc("dlsym"));
    weir__real_dlvsym = (dlvsym_fn *)function(weir__elf_libc("dlvsym"));
    __atomic_store_n(&weir__real_dlopen, (dlopen_fn *)function(weir__elf_libc("dlopen")), __ATOMIC_RELEASE);
}

/* ---- the driver's own --------------------------------------------------------------------------------------------- */

#define DRIVER "libcuda.so.1"

static struct weir__real real;
static bool real_known;
static void *real_driver; /* its handle */
static bool diverted;     /* who looks hooked entries up in the driver finds this library's */

static void *real_of(const struct weir__hook *hook) {
    void *entry;
    memcpy(&entry, (const char *)&real + hook->real, sizeof entry);
    return entry;
}

static const struct weir__hook *hook_of(const char *symbol) {
    if (symbol == NULL || symbol[0] != 'c' || symbol[1] != 'u') return NULL;
    for (size_t i = 0; i < weir__hook_count; i++)
        if (strcmp(weir__hooks[i].symbol, symbol) == 0) return &weir__hooks[i];
    return NULL;
}

/* libweir calls the driver itself. */
static void *find_for_weir(void *library, const char *symbol) {
    const struct weir__hook *hook = library == real_driver ? hook_of(symbol) : NULL;
    return hook != NULL ? real_of(hook) : weir__real_dlsym(library, symbol);
}

static void *find(void *driver, const char *symbol) { return weir__real_dlsym(driver, symbol); }

/* Of two threads the first is right: the other may have looked in the driver when it had been diverted already. */
static void keep_real(void *driver, const struct weir__real *found) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (!real_known) {
        real = *found;
        real_driver = driver;
        __atomic_store_n(&real_known, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
}

static const struct weir__real *load_real(int mode) {
    if (__atomic_load_n(&real_known, __ATOMIC_ACQUIRE)) return &real;
    find_libc();
    void *driver = weir__real_dlopen(DRIVER, RTLD_LAZY | mode);
    if (driver == NULL) return NULL;
    weir__driver_found_by(find_for_weir);
    struct weir__real found;
    void *entry;
#define FIND(symbol)                                                                                                   \
    entry = find(driver, #symbol);                                                                                     \
    memcpy(&found.symbol, &entry, sizeof entry);
#define FIND_HOOKED(symbol, name, version, own, parameters) FIND(symbol)
#define FIND_NEEDED(symbol, parameters)                     FIND(symbol)
    WEIR__HOOK_LIST(FIND_HOOKED)
    WEIR__NEEDED_LIST(FIND_NEEDED)
#undef FIND_HOOKED
#undef FIND_NEEDED
#undef FIND
    keep_real(driver, &found);
    return &real;
}

/* Also before a program calls weir itself. */
__attribute__((constructor)) static void lead_weir(void) {
    find_libc();
    weir__driver_found_by(find_for_weir);
}

const struct weir__real *weir__real(void) { return load_real(RTLD_NOLOAD); }
const struct weir__real *weir__real_needed(void) { return load_real(0); }

/* ---- dlsym, dlvsym ------------------------------------------------------------------------------------------------ */

/* What a look-up is to answer. Two registers, which the assembler looks at. */
struct answer {
    void *found;
    uintptr_t final; /* 0: the C library answers, to the caller itself */
};
static const struct answer pass_on = {NULL, 0};

/* With an explicit handle the C library is asked first, so that somebody's own function of the same name stays what it is. In the
 * global scope it finds this library's, which must not look like a driver where none is loaded. */
static struct answer answer(const struct weir__hook *hook, void *found) {
    if (found != NULL && found != object(hook->ours) && (weir__real() == NULL || found != real_of(hook)))
        return pass_on;
    if (weir__real() != NULL && real_of(hook) != NULL)
        return found != NULL ? (struct answer){object(hook->ours), 1} : pass_on;
    return found != NULL ? (struct answer){weir__real_dlsym(RTLD_NEXT, hook->symbol), 1} : pass_on;
}

#define FROM_ASSEMBLER __attribute__((visibility("hidden"), used))
FROM_ASSEMBLER struct answer weir__answer_dlsym(void *handle, const char *symbol, const void *caller);
FROM_ASSEMBLER struct answer weir__answer_dlvsym(void *handle, const char *symbol, const char *version,
                                                 const void *caller);
FROM_ASSEMBLER struct answer weir__answer_dlopen(const char *path, int mode, const void *caller);

/* "Next" is next to the caller, and can't be asked on its behalf: the C library answers where somebody stands between the caller and
 * this library, and the driver, which is what comes next to ours. To all others it is ours, also to those that stand behind. */
static bool next_is_ours(const struct weir__hook *hook, const void *caller) {
    uintptr_t begin = 0, end = 0;
    if (weir__real() != NULL && real_of(hook) != NULL) weir__elf_range(real_of(hook), &begin, &end);
    return ((uintptr_t)caller < begin || (uintptr_t)caller >= end) &&
           weir__elf_between(caller, object(hook->ours), hook->symbol) != WEIR__SOMEBODY;
}

struct answer weir__answer_dlsym(void *handle, const char *symbol, const void *caller) {
    find_libc();
    const struct weir__hook *hook = hook_of(symbol);
    if (hook == NULL || !weir__preload_on()) return pass_on;
    if (handle != RTLD_NEXT) return answer(hook, weir__real_dlsym(handle, symbol));
    return next_is_ours(hook, caller) ? answer(hook, object(hook->ours)) : pass_on;
}

static const struct look_up {
    const char *name;
    weir__function *ours;
} look_ups[] = {
    {"dlsym", (weir__function *)dlsym}, {"dlvsym", (weir__function *)dlvsym}, {"dlopen", (weir__function *)dlopen}};

static const struct look_up *look_up_of(const char *symbol) {
    for (size_t i = 0; symbol != NULL && i < sizeof look_ups / sizeof *look_ups; i++)
        if (strcmp(symbol, look_ups[i].name) == 0) return &look_ups[i];
    return NULL;
}

/* Wrappers of dlsym ask for what is next by a version of the C library's, which ours have not. */
static struct answer next_look_up(const struct look_up *next, const char *version, const void *caller) {
    const bool good = weir__real_dlvsym(RTLD_NEXT, next->name, version) != NULL &&
                      weir__elf_between(caller, look_ups, next->name) == WEIR__NOBODY;
    return good ? (struct answer){object(next->ours), 1} : pass_on;
}

/* A sanitizer's runtime looks names up before anything else of this process is ready: of those no more is asked than what they are. */
struct answer weir__answer_dlvsym(void *handle, const char *symbol, const char *version, const void *caller) {
    find_libc();
    const struct weir__hook *hook = hook_of(symbol);
    const struct look_up *next = handle == RTLD_NEXT ? look_up_of(symbol) : NULL;
    if ((hook == NULL && next == NULL) || !weir__preload_on()) return pass_on;
    if (next != NULL) return next_look_up(next, version, caller);
    return handle != RTLD_NEXT ? answer(hook, weir__real_dlvsym(handle, symbol, version)) : pass_on;
}

/* ---- dlopen ------------------------------------------------------------------------------------------------------- */

/* Objects that find names in themselves and what they need before the global scope find the driver, and the C library's dlsym. So what
 * they find in the driver is changed, before they are loaded. */
static void divert_driver(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    if (weir__forked() || weir__real_needed() == NULL) return;
    pthread_mutex_lock(&lock);
    bool good = true;
    if (!diverted) {
        __atomic_store_n(&diverted, true, __ATOMIC_RELEASE);
        for (size_t i = 0; i < weir__hook_count; i++)
            if (real_of(&weir__hooks[i]) != NULL)
                good &= weir__elf_divert(real_driver, weir__hooks[i].symbol, object(weir__hooks[i].ours));
    }
    pthread_mutex_unlock(&lock);
    if (!good)
        weir__log(WEIR__LOG_ERROR, "preload: the driver's table of symbols can't be changed: libraries that are loaded "
                                   "with RTLD_DEEPBIND must free by themselves what they allocate");
}

struct answer weir__answer_dlopen(const char *path, int mode, const void *caller) {
    (void)path;
    (void)caller;
    find_libc();
    if ((mode & RTLD_DEEPBIND) != 0 && (mode & RTLD_NOLOAD) == 0 && weir__preload_on()) divert_driver();
    return pass_on;
}

/* Each asks its answer_ function first, with the caller's address as the last argument; without an answer it becomes a jump to the
 * C library's, with everything as the caller left it. */
#if defined(__x86_64__)
#define LOOK_UP(name, place_of_caller)                                                                                 \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n.p2align 4\n" #name ":\n"                            \
            "endbr64\n push %rdi\n push %rsi\n push %rdx\n mov 24(%rsp), %" #place_of_caller "\n"                      \
            "call weir__answer_" #name "\n mov %rdx, %r11\n pop %rdx\n pop %rsi\n pop %rdi\n"                          \
            "test %r11, %r11\n jz 1f\n ret\n"                                                                          \
            "1: jmp *weir__real_" #name "(%rip)\n.size " #name ", .-" #name "\n")
LOOK_UP(dlsym, rdx);
LOOK_UP(dlvsym, rcx);
LOOK_UP(dlopen, rdx);
#elif defined(__aarch64__)
#define LOOK_UP(name, place_of_caller)                                                                                 \
    __asm__(".text\n.globl " #name "\n.type " #name ", %function\n.p2align 4\n" #name ":\n"                            \
            "hint #34\n stp x0, x1, [sp, #-32]!\n stp x2, x30, [sp, #16]\n mov " #place_of_caller ", x30\n"            \
            "bl weir__answer_" #name "\n mov x16, x0\n mov x17, x1\n ldp x2, x30, [sp, #16]\n ldp x0, x1, [sp], #32\n" \
            "cbz x17, 1f\n mov x0, x16\n ret\n"                                                                        \
            "1: adrp x16, weir__real_" #name "\n ldr x16, [x16, #:lo12:weir__real_" #name "]\n br x16\n"               \
            ".size " #name ", .-" #name "\n")
LOOK_UP(dlsym, x2);
LOOK_UP(dlvsym, x3);
LOOK_UP(dlopen, x2);
#else
#error "how to pass a look-up on is not known for this processor"
#endif

/* ---- cuGetProcAddress --------------------------------------------------------------------------------------------- */

/* Of the hooks of this name the newest that is not newer than what was asked for. */
static const struct weir__hook *hook_for(const char *name, int version, bool own_stream) {
    const struct weir__hook *best = NULL;
    bool has_own = false;
    for (size_t i = 0; i < weir__hook_count; i++)
        has_own |= strcmp(weir__hooks[i].name, name) == 0 && weir__hooks[i].own_stream;
    for (size_t i = 0; i < weir__hook_count; i++) {
        const struct weir__hook *hook = &weir__hooks[i];
        if (strcmp(hook->name, name) != 0 || hook->version > version || hook->own_stream != (own_stream && has_own))
            continue;
        if (best == NULL || hook->version > best->version) best = hook;
    }
    return best;
}

/* The driver's answer at the version that the hook is of. */
static void *answer_at(const struct weir__real *driver, const char *name, int version, uint64_t flags) {
    void *entry = NULL;
    CUdriverProcAddressQueryResult status;
    if (driver->cuGetProcAddress_v2 != NULL)
        return driver->cuGetProcAddress_v2(name, &entry, version, flags, &status) == CUDA_SUCCESS ? entry : NULL;
    return driver->cuGetProcAddress(name, &entry, version, flags) == CUDA_SUCCESS ? entry : NULL;
}

/* A driver may have a form of the entry that is newer than this library: that is another function, and is not replaced. */
static void replace(const struct weir__real *driver, const char *name, void **entry, int version, uint64_t flags) {
    const bool own_stream = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    if (!weir__preload_on() || *entry == NULL || name[0] != 'c' || name[1] != 'u') return;
    const struct weir__hook *hook = hook_for(name, version, own_stream);
    if (hook == NULL) return;
    if (answer_at(driver, name, hook->version, flags) == *entry)
        *entry = object(hook->ours);
    else
        weir__preload_unknown(name, version);
}

CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    const struct weir__real *driver = weir__real_needed();
    if (driver == NULL || driver->cuGetProcAddress == NULL) return CUDA_ERROR_NOT_INITIALIZED;
    const CUresult code = driver->cuGetProcAddress(name, function, version, flags);
    if (code == CUDA_SUCCESS) replace(driver, name, function, version, flags);
    return code;
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                             CUdriverProcAddressQueryResult *status) {
    const struct weir__real *driver = weir__real_needed();
    if (driver == NULL || driver->cuGetProcAddress_v2 == NULL) return CUDA_ERROR_NOT_INITIALIZED;
    const CUresult code = driver->cuGetProcAddress_v2(name, function, version, flags, status);
    if (code == CUDA_SUCCESS) replace(driver, name, function, version, flags);
    return code;
}
