/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "device/device.h"
#include "device/emulated.h"

/* Under the virtual clock who tells observers may wait for its turn, which this thread may have. */
static void lock_observers(struct weir_device *device) {
    while (weir__device_takes_turns(device)) {
        if (pthread_rwlock_trywrlock(&device->observers_lock) == 0) return;
        weir__device_pause(device, 1000);
    }
    pthread_rwlock_wrlock(&device->observers_lock);
}

void weir__device_observe(struct weir_device *device, struct weir__observer *observer) {
    lock_observers(device);
    observer->next = device->observers;
    device->observers = observer;
    pthread_rwlock_unlock(&device->observers_lock);
}

void weir__device_unobserve(struct weir_device *device, struct weir__observer *observer) {
    lock_observers(device);
    struct weir__observer **link = &device->observers;
    while (*link != NULL && *link != observer) link = &(*link)->next;
    assert(*link == observer && "an observer that was never registered");
    if (*link != NULL) *link = observer->next;
    pthread_rwlock_unlock(&device->observers_lock);
}
