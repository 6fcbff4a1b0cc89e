/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch: rows go to the ranks that hold their experts, and results come back (sizes and words in model.h).
 *
 * All of it runs on the exchange stream, its buffers and index lists included, as communication libraries do it; the
 * lists live from forward to backward. The plan is made once, in forward, and costs the one host wait of a layer: the
 * host must know how many rows come. Backward uses the plan again. */
#ifndef WEIR_TRAINER_DISPATCH_H
#define WEIR_TRAINER_DISPATCH_H

#include "trainer/model.h"

enum weir_status dispatch_open(struct model *m, struct dispatch *g); /* host memory only */
void dispatch_close(struct dispatch *g);

/* Sorts the assignments of g->ids by expert, and sends the counts. Follows compute. */
enum weir_status dispatch_plan(struct model *m, struct dispatch *g);
/* Waits for the counts and makes the lists of the receiving side. Adds the counts to `load` (E), if not NULL.
 * Fails: as dispatch_plan; WEIR_SYSTEM when another rank has failed. */
enum weir_status dispatch_finish(struct model *m, struct dispatch *g, double *load);
/* Frees the lists after what compute has queued. Needs: compute follows all exchanges. */
enum weir_status dispatch_free(struct model *m, struct dispatch *g);

enum direction { TO_EXPERTS, FROM_EXPERTS };

/* Rows to be sent; where they come from is on compute or older. */
struct rows {
    const real *from; /* (count, width) */
    int64_t count, width;
    int64_t divide; /* TO_EXPERTS: assignments a row of `from` stands for: K for tokens, 1 for gates */
    enum wire type; /* on the wire */
};

/* Sends rows: *out, on the exchange stream, is (R, width) as they came, or (N, width) sorted by expert. Follows compute;
 * `from` is in use until compute awaits the exchange. */
enum weir_status dispatch_rows(struct model *m, const struct dispatch *g, enum direction direction, struct rows rows,
                               void **out);
/* Brings rows that came into grouped order, as real, on compute: *out (R, width); frees `came`. */
enum weir_status dispatch_group(struct model *m, const struct dispatch *g, void *came, enum wire type, int64_t width,
                                real **out);

#endif
