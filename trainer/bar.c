/* SPDX-License-Identifier: Apache-2.0 */
#include "trainer/bar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define SENT_LINE                                                                                                      \
    "\x1e"                                                                                                             \
    "bar " /* a record separator, which no text of ours has */

enum { FACTS_WIDTH = 48, WIDEST_BAR = 60 };

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool has_terminal(void) {
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && strcmp(term, "dumb");
}

void bar_open(struct bar *bar, bool wanted) {
    memset(bar, 0, sizeof *bar);
    bar->sends = wanted && getenv(BAR_VARIABLE);
    bar->draws = wanted && !bar->sends && has_terminal();
}

static int width(void) {
    struct winsize size;
    int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
    int room = columns - FACTS_WIDTH;
    return room < 0 ? 0 : room > WIDEST_BAR ? WIDEST_BAR : room;
}

static void print_remaining(const struct bar *bar) {
    int64_t moved = bar->done - bar->first_done;
    if (moved <= 0 || bar->done >= bar->total) return;
    double seconds = (double)(now_ns() - bar->begin_ns) * 1e-9 / (double)moved * (double)(bar->total - bar->done);
    int64_t left = (int64_t)(seconds + 0.5);
    fprintf(stderr, "  %lld:%02lld left", (long long)(left / 60), (long long)(left % 60));
}

void bar_show(struct bar *bar) {
    if (!bar->draws || bar->total <= 0) return;
    const char *no_color = getenv("NO_COLOR");
    bool colour = !no_color || !*no_color;
    int room = width(), filled = (int)((double)room * (double)bar->done / (double)bar->total);
    fprintf(stderr, "\r\033[K%s", colour ? "\033[32m" : "");
    for (int i = 0; i < room; i++) fputc(i < filled ? '=' : i == filled ? '>' : ' ', stderr);
    fprintf(stderr, "%s %3d %%  step %lld of %lld", colour ? "\033[0m" : "",
            (int)(100.0 * (double)bar->done / (double)bar->total), (long long)bar->done, (long long)bar->total);
    print_remaining(bar);
    fflush(stderr);
    bar->shown = true;
}

void bar_hide(struct bar *bar) {
    if (!bar->shown) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    bar->shown = false;
}

void bar_update(struct bar *bar, int64_t done, int64_t total) {
    if (bar->sends) {
        fprintf(stderr, SENT_LINE "%lld %lld\n", (long long)done, (long long)total);
        fflush(stderr);
    }
    if (!bar->begin_ns) bar->begin_ns = now_ns(), bar->first_done = done;
    bar->done = done;
    bar->total = total;
    bar_show(bar);
}

bool bar_take_line(struct bar *bar, const char *line) {
    long long done, total;
    if (strncmp(line, SENT_LINE, strlen(SENT_LINE))) return false;
    if (sscanf(line + strlen(SENT_LINE), "%lld %lld", &done, &total) == 2) bar_update(bar, done, total);
    return true;
}
