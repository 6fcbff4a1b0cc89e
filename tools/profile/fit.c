/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double quantile(double *values, size_t count, double share) {
    qsort(values, count, sizeof *values, compare);
    const double at = share * (double)(count - 1);
    const size_t below = (size_t)at, above = below + 1 < count ? below + 1 : below;
    return values[below] + (at - (double)below) * (values[above] - values[below]);
}

double median(double *values, size_t count) { return quantile(values, count, 0.5); }

/* ---- least squares ---------------------------------------------------------------------------------------------- */

enum { PARTS = 3 }; /* fixed, handles, bytes */

/* A sample's row, over what it measured: relative errors count, since sizes span decades. Bytes are counted in MiB, to
 * keep the sums of one size. Gives what the row is to come to: 1, less for what takes no time. */
static double row_of(const struct sample *sample, double row[PARTS]) {
    const double ns = fmax(sample->ns, 1);
    row[0] = 1 / ns;
    row[1] = sample->handles / ns;
    row[2] = sample->bytes / 0x1p20 / ns;
    return sample->ns / ns;
}

/* Solves a symmetric system of `size` by elimination with pivots on the diagonal. False: it has no single solution. */
static bool solve(double a[PARTS][PARTS + 1], int size) {
    for (int column = 0; column < size; column++) {
        int pivot = column;
        for (int row = column + 1; row < size; row++)
            if (fabs(a[row][column]) > fabs(a[pivot][column])) pivot = row;
        if (fabs(a[pivot][column]) < 1e-12) return false;
        double kept[PARTS + 1];
        memcpy(kept, a[pivot], sizeof kept);
        memcpy(a[pivot], a[column], sizeof kept);
        memcpy(a[column], kept, sizeof kept);
        for (int row = 0; row < size; row++) {
            if (row == column) continue;
            const double factor = a[row][column] / a[column][column];
            for (int i = column; i <= size; i++) a[row][i] -= factor * a[column][i];
        }
    }
    return true;
}

/* The best values of the parts in `set` (bit p: part p). False: none, or a negative one. */
static bool fit_set(const struct sample *samples, size_t count, unsigned set, double value[PARTS]) {
    double a[PARTS][PARTS + 1] = {{0}}, scale[PARTS] = {0};
    int part[PARTS], size = 0;
    for (int p = 0; p < PARTS; p++)
        if (set & 1u << p) part[size++] = p;
    for (int i = 0; i < size; i++) {
        for (size_t s = 0; s < count; s++) {
            double row[PARTS];
            (void)row_of(&samples[s], row);
            scale[i] += row[part[i]] * row[part[i]];
        }
        scale[i] = sqrt(scale[i]);
        if (!(scale[i] > 0)) return false;
    }
    for (size_t s = 0; s < count; s++) {
        double row[PARTS];
        const double wanted = row_of(&samples[s], row);
        for (int i = 0; i < size; i++) {
            for (int j = 0; j < size; j++) a[i][j] += row[part[i]] / scale[i] * (row[part[j]] / scale[j]);
            a[i][size] += row[part[i]] / scale[i] * wanted;
        }
    }
    if (!solve(a, size)) return false;
    memset(value, 0, PARTS * sizeof *value);
    for (int i = 0; i < size; i++) {
        value[part[i]] = a[i][size] / a[i][i] / scale[i];
        if (value[part[i]] < 0) return false;
    }
    return true;
}

static double error_of(const struct sample *sample, const double value[PARTS]) {
    double row[PARTS];
    const double wanted = row_of(sample, row);
    return row[0] * value[0] + row[1] * value[1] + row[2] * value[2] - wanted;
}

static double rms(const struct sample *samples, size_t count, const double value[PARTS]) {
    double sum = 0;
    for (size_t s = 0; s < count; s++) sum += error_of(&samples[s], value) * error_of(&samples[s], value);
    return sqrt(sum / (double)count);
}

/* A part more is taken when it explains more than this of what was measured: else it is noise. */
#define WORTH 0.01

struct fit fit_cost(const struct sample *samples, size_t count, unsigned parts) {
    static const unsigned sets[] = {1, 2, 4, 3, 5, 6, 7}; /* the fewest parts first */
    double best[PARTS] = {0}, best_error = INFINITY;
    int best_size = PARTS + 1;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        double value[PARTS];
        if ((sets[i] & 2 && !(parts & FIT_HANDLES)) || (sets[i] & 4 && !(parts & FIT_BYTES))) continue;
        if (!fit_set(samples, count, sets[i], value)) continue;
        const double error = rms(samples, count, value);
        const int size = __builtin_popcount(sets[i]);
        if (size > best_size ? error >= best_error - WORTH : error >= best_error) continue;
        memcpy(best, value, sizeof best);
        best_error = error;
        best_size = size;
    }
    struct fit fit = {best[0], best[1], best[2] / 0x1p20, 0};
    for (size_t s = 0; s < count; s++) fit.worst = fmax(fit.worst, fabs(error_of(&samples[s], best)));
    return fit;
}
