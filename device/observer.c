/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "device/device.h"

void weir__device_observe(struct weir_device *device, struct weir__observer *observer) {
    pthread_rwlock_wrlock(&device->observers_lock);
    observer->next = device->observers;
    device->observers = observer;
    pthread_rwlock_unlock(&device->observers_lock);
}

void weir__device_unobserve(struct weir_device *device, struct weir__observer *observer) {
    pthread_rwlock_wrlock(&device->observers_lock);
    struct weir__observer **link = &device->observers;
    while (*link != NULL && *link != observer) link = &(*link)->next;
    assert(*link == observer && "an observer that was never registered");
    if (*link != NULL) *link = observer->next;
    pthread_rwlock_unlock(&device->observers_lock);
}
