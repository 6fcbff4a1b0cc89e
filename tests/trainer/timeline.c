/* SPDX-License-Identifier: Apache-2.0 */
/* The timeline keeps the fullest moments of a run of any length in bounded room. */
#include "trainer/timeline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct timeline timeline;

static size_t fullness(const struct sample *s) { return s->live[0] + s->idle[0] + s->live[1] + s->idle[1]; }

static void the_fullest_sample_of_each_bucket_is_kept(void **state) {
    (void)state;
    static struct sample all[50000];
    unsigned seed = 3;
    int64_t ns = 0;
    assert_true(timeline_open(&timeline));
    for (int i = 0; i < 50000; i++) {
        ns += rand_r(&seed) % 400000;
        all[i] = (struct sample){.ns = ns, .step = i};
        for (int s = 0; s < 2; s++)
            all[i].live[s] = (size_t)rand_r(&seed) % 1000, all[i].idle[s] = (size_t)rand_r(&seed) % 1000;
        timeline_add(&timeline, &all[i]);
    }
    size_t fullest[TIMELINE_SAMPLES] = {0};
    for (int i = 0; i < 50000; i++) {
        int64_t bucket = i / timeline.bucket;
        assert_in_range(bucket, 0, TIMELINE_SAMPLES - 1);
        if (fullness(&all[i]) > fullest[bucket]) fullest[bucket] = fullness(&all[i]);
    }
    assert_true(50000 / timeline.bucket >= TIMELINE_SAMPLES / 2); /* no coarser than it must be */
    for (int i = 0; i < TIMELINE_SAMPLES; i++) {
        const struct sample *kept = &timeline.buckets[i];
        assert_int_equal(kept->ns < 0 ? 0 : fullness(kept), fullest[i]);
        if (kept->ns >= 0) assert_int_equal(kept->step / timeline.bucket, i);
    }
    timeline_close(&timeline);
}

static void a_short_run_is_kept_whole(void **state) {
    (void)state;
    assert_true(timeline_open(&timeline));
    for (int i = 0; i < TIMELINE_SAMPLES; i++)
        timeline_add(&timeline, &(struct sample){.ns = i / 7, .step = i, .live = {7}});
    for (int i = 0; i < TIMELINE_SAMPLES; i++) assert_int_equal(timeline.buckets[i].step, i);
    timeline_close(&timeline);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fullest_sample_of_each_bucket_is_kept),
        cmocka_unit_test(a_short_run_is_kept_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
