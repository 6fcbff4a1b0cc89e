/* SPDX-License-Identifier: Apache-2.0 */
#include "faults.h"

#include <stdarg.h>
#include <stdio.h>

#define FAULT_KEY(name, key, text)  key,
#define FAULT_TEXT(name, key, text) text,
const char *const fault_keys[FAULT_KINDS] = {FAULT_LIST(FAULT_KEY)};
static const char *const texts[FAULT_KINDS] = {FAULT_LIST(FAULT_TEXT)};

void faults_open(struct faults *faults, uint64_t most) {
    *faults = (struct faults){.most = most};
    pthread_mutex_init(&faults->lock, NULL);
}

/* Needs: the lock. */
static void count(struct faults *faults, enum fault_kind kind, uint64_t more) {
    faults->counts[kind] += more;
    const uint64_t all = atomic_fetch_add(&faults->count, more) + more;
    if (all >= faults->most || kind == FAULT_FAILED || kind == FAULT_STUCK) atomic_store(&faults->enough, true);
}

void faults_add(struct faults *faults, enum fault_kind kind, const char *format, ...) {
    char text[FAULT_ROOM];
    va_list arguments;
    const int length = snprintf(text, sizeof text, "%s: ", texts[kind]);
    va_start(arguments, format);
    vsnprintf(text + length, sizeof text - (size_t)length, format, arguments);
    va_end(arguments);
    pthread_mutex_lock(&faults->lock);
    if (faults->kept < FAULTS_KEPT && !atomic_load(&faults->enough)) {
        snprintf(faults->texts[faults->kept++], FAULT_ROOM, "%s", text);
        fprintf(stderr, "weir-stress: %s\n", text);
    }
    count(faults, kind, 1);
    pthread_mutex_unlock(&faults->lock);
}
