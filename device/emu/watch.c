/* SPDX-License-Identifier: Apache-2.0 */
/* The order of what is submitted: what each queue, each event and the host know to come before. */
#include "device/emu/watch.h"

#include <stdatomic.h>

#include "device/emu/queue.h"
#include "device/emu/settings.h"
#include "device/emu/watch_inside.h"
#include "device/error.h"

static struct emu_known *host;    /* what the host has seen pass */
static uint64_t host_version = 1; /* changes whenever that does */
static atomic_bool given_up;      /* read without the lock too */

bool emu_watch_on(void) {
    return emu_settings()->watch != EMU_WATCH_OFF && !atomic_load_explicit(&given_up, memory_order_relaxed);
}

void emu_watch_give_up(void) {
    if (!atomic_exchange(&given_up, true))
        weir__log(WEIR__LOG_ERROR, "watch: no host memory for its books; it sees nothing from here on");
}

/* ---- moments ---------------------------------------------------------------------------------------------------- */

struct emu_moment emu_watch_now(struct emu_queue *queue) {
    if (!emu_watch_on()) return (struct emu_moment){0};
    return (struct emu_moment){queue, queue->pushed, emu_known_keep(queue->known)};
}

struct emu_moment emu_watch_copy(struct emu_moment moment) {
    emu_known_keep(moment.known);
    return moment;
}

void emu_watch_drop(struct emu_moment *moment) {
    emu_known_drop(moment->known);
    *moment = (struct emu_moment){0};
}

/* ---- who knows what --------------------------------------------------------------------------------------------- */

/* Whoever knows a position knows all that comes before it: clocks are only ever joined as wholes. Gives true when
 * *known has changed. */
static bool learn(struct emu_known **known, const struct emu_queue *queue, uint64_t position,
                  struct emu_known *before) {
    if (position > 0 ? emu_known_of(*known, queue->index) >= position : before == NULL) return false;
    if (!emu_known_join(known, before) || !emu_known_raise(known, queue->index, position)) emu_watch_give_up();
    return true;
}

void emu_watch_join(struct emu_queue *queue, struct emu_moment moment) {
    if (!emu_watch_on() || moment.queue == NULL || moment.queue == queue) return;
    learn(&queue->known, moment.queue, moment.position, moment.known);
}

void emu_watch_join_queue(struct emu_queue *queue, struct emu_queue *other) {
    if (!emu_watch_on() || other == queue) return;
    learn(&queue->known, other, other->pushed, other->known);
}

void emu_watch_host_saw(struct emu_moment moment) {
    if (!emu_watch_on() || moment.queue == NULL) return;
    if (learn(&host, moment.queue, moment.position, moment.known)) host_version++;
}

bool emu_watch_host_knows(struct emu_queue *queue) {
    return !emu_watch_on() || emu_known_of(host, queue->index) >= queue->pushed;
}

bool emu_watch_queue_made(struct emu_queue *queue) {
    queue->known = NULL;
    queue->host_seen = 0;
    return true;
}

struct emu_known *emu_watch_host(void) {
    return host;
}

void emu_watch_refresh(struct emu_queue *queue) {
    if (queue->host_seen == host_version) return;
    if (!emu_known_join(&queue->known, host)) emu_watch_give_up();
    queue->host_seen = host_version;
}
