/* SPDX-License-Identifier: Apache-2.0 */
/* The number that the trainer computes with: float. Tests of gradients build the same sources with double. */
#ifndef WEIR_TRAINER_REAL_H
#define WEIR_TRAINER_REAL_H

#ifndef WEIR_REAL
#define WEIR_REAL float
#endif
typedef WEIR_REAL real;

/* What travels between ranks and what gathered weights are kept in: bf16, or real for exact comparisons. */
enum wire { WIRE_BF16 = 0, WIRE_REAL = 1 };
static inline unsigned wire_bytes(enum wire wire) { return wire == WIRE_BF16 ? 2u : (unsigned)sizeof(real); }

#endif
