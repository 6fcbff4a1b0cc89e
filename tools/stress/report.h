/* SPDX-License-Identifier: Apache-2.0 */
/* What weir-stress answers. */
#ifndef WEIR_STRESS_REPORT_H
#define WEIR_STRESS_REPORT_H

#include "stress.h"

/* What all threads did together. */
struct answer {
    const struct stress *stress;
    struct counts counts;
    uint64_t operations, compared_bytes, peak_bytes, usable_bytes, digest;
    double seconds;           /* of the device's clock */
    uint64_t peak_held_bytes; /* weir's pool; 0: a library's */
    bool backed, interrupted;
    struct weir_device_info info;
};

/* One line: what is tested, where, with which seed. */
void report_begin(const struct answer *answer, FILE *out);
void report_words(const struct answer *answer, FILE *out);
void report_json(const struct answer *answer, FILE *out);

#endif
