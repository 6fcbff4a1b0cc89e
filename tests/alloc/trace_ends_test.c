/* SPDX-License-Identifier: Apache-2.0 */
/* However a recording ends, what had been recorded is there: after a kill, an exit without a word, and on a full disk, where
 * the program goes on. Each case is a child of its own, which opens the device for itself. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/trace_file.h"
#include "support.h"
#include "tools/trace/trace.h"

enum { THREADS = 4 };

static char folder[] = "/tmp/weir_trace_ends_XXXXXX";
static char path[64], log_path[64];

/* What each thread has done, seen by the parent too: calls that have returned. */
struct done {
    size_t allocs[THREADS], frees[THREADS], records[THREADS]; /* atomic */
};
static struct done *done;
static struct weir_pool *pool; /* that is not destroyed: reachable to the end */

struct worker {
    pthread_t thread;
    weir_stream stream;
    int number;
    int until;  /* allocations; 0: for ever */
    int teller; /* a descriptor to write a byte to when there are so many; -1: none */
};
static struct worker workers[THREADS];

static void count(size_t *counter) { __atomic_fetch_add(counter, 1, __ATOMIC_RELEASE); }

static void *record_much(void *argument) {
    struct worker *worker = argument;
    weir_event event;
    OK(weir_event_create(test_device(), false, &event));
    for (int i = 1;; i++) {
        void *block = alloc(pool, 100 * (size_t)(worker->number + 1), worker->stream);
        count(&done->allocs[worker->number]);
        OK(weir_pool_free(pool, block, worker->stream));
        count(&done->frees[worker->number]);
        if (i % 16 == 0) {
            OK(weir_event_record(test_device(), event, worker->stream));
            count(&done->records[worker->number]);
        }
        if (i != worker->until) continue;
        if (worker->teller < 0) return NULL;
        if (write(worker->teller, "", 1) != 1) _exit(1);
    }
}

static void start(int until, int teller) {
    struct weir_pool_options options = {.size = sizeof options, .limit_bytes = 8 * PAGE, .trace_path = path};
    OK(weir_pool_create(test_device(), &options, &pool));
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.stream = new_stream(), .number = i, .until = until, .teller = teller};
        weir_pool_name_stream(pool, workers[i].stream, "worker"); /* number i in the trace */
        if (pthread_create(&workers[i].thread, NULL, record_much, &workers[i]) != 0) _exit(1);
    }
}

static void join(void) {
    for (int i = 0; i < THREADS; i++) pthread_join(workers[i].thread, NULL);
}

static int status_of(pid_t child) {
    int status = -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

static struct trace read_back(void) {
    struct trace trace;
    char why[512];
    if (!trace_read(path, &trace, why, sizeof why)) fail_msg("%s", why);
    return trace;
}

static size_t count_of(const struct trace *trace, enum op_kind kind, uint32_t stream) {
    size_t found = 0;
    for (size_t i = 0; i < trace->op_count; i++) found += trace->ops[i].kind == kind && trace->ops[i].stream == stream;
    return found;
}

/* Zero bytes in the file that are not at its end, and at its end. */
static void count_zeros(size_t *inside, size_t *at_end) {
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    *inside = *at_end = 0;
    for (int byte; (byte = getc(file)) != EOF;) {
        if (byte == 0) {
            ++*at_end;
            continue;
        }
        *inside += *at_end;
        *at_end = 0;
    }
    fclose(file);
}

/* ---- killed ------------------------------------------------------------------------------------------------------ */

/* Every call that had returned has its line, and at most one more call of each thread has. */
static void check_complete(const struct trace *trace) {
    assert_true(trace->torn_lines <= THREADS);
    for (uint32_t i = 0; i < THREADS; i++) {
        const size_t allocs = count_of(trace, OP_ALLOC, i), frees = count_of(trace, OP_FREE, i),
                     records = count_of(trace, OP_RECORD, i);
        assert_in_range(allocs, done->allocs[i], done->allocs[i] + 1);
        assert_in_range(frees, done->frees[i], done->frees[i] + 1);
        assert_in_range(records, done->records[i], done->records[i] + 1);
        assert_true(allocs > 0 && records > 0);
    }
}

static void a_killed_process_loses_nothing_that_had_returned(void **state) {
    (void)state;
    enum { KILLS = 3, ENOUGH = 3000 };
    for (int times = 0; times < KILLS; times++) {
        int told[2];
        char byte;
        memset(done, 0, sizeof *done);
        assert_int_equal(pipe(told), 0);
        const pid_t child = fork();
        if (child == 0) {
            start(ENOUGH, told[1]);
            join();
            _exit(1);
        }
        for (int i = 0; i < THREADS; i++) assert_int_equal(read(told[0], &byte, 1), 1);
        kill(child, SIGKILL);
        assert_true(WIFSIGNALED(status_of(child)));
        close(told[0]);
        close(told[1]);
        struct trace trace = read_back();
        check_complete(&trace);
        trace_free(&trace);
    }
}

/* The letter that begins a line is stored last: a line that was cut short before can be told from a whole one. */
static void a_line_that_is_not_whole_begins_with_a_zero_byte(void **state) {
    (void)state;
    struct weir__trace_file file;
    OK(weir__trace_file_open(&file, path));
    weir__trace_file_write(&file, weir__trace_file_reserve(&file, 13), "weir-trace 1\n", 13);
    char *line = weir__trace_file_begin(&file, weir__trace_file_reserve(&file, 8), 8);
    memcpy(line + 1, " 1 10 ", 6);       /* and here it ends */
    weir__trace_file_reserve(&file, 20); /* or before its first byte */
    weir__trace_file_write(&file, weir__trace_file_reserve(&file, 9), "m 2 64 0\n", 9);
    weir__trace_file_close(&file);
    struct trace trace = read_back();
    assert_int_equal(trace.op_count, 1);
    assert_int_equal(trace.torn_lines, 1);
    trace_free(&trace);
}

/* ---- a program that closes what it did not open --------------------------------------------------------------------- */

enum { LINES = 50000, LENGTH = 16 };

static void fill(struct weir__trace_file *file) {
    char line[32];
    for (int i = 0; i < LINES; i++) {
        snprintf(line, sizeof line, "m %6d 64   0\n", i + 1);
        const uint64_t place = weir__trace_file_reserve(file, LENGTH);
        if (place == WEIR__TRACE_NO_PLACE) return;
        weir__trace_file_write(file, place, line, LENGTH);
    }
}

/* Its own file has the number that the trace had. */
static void a_descriptor_that_is_another_ones_by_now_is_left_alone(void **state) {
    char other[80], folder_before[200], line[16] = "";
    struct weir__trace_file file;
    (void)state;
    unlink(path); /* so that this process may record to it again */
    OK(weir__trace_file_open(&file, path));
    weir__trace_file_write(&file, weir__trace_file_reserve(&file, 13), "weir-trace 1\n", 13);
    snprintf(other, sizeof other, "%s/other", folder);
    const int descriptor = open(other, O_CREAT | O_RDWR | O_TRUNC, 0600);
    assert_true(descriptor >= 0);
    assert_int_equal(dup2(descriptor, file.descriptor), file.descriptor);
    const int taken = file.descriptor;
    assert_int_equal(write(taken, "its own\n", 8), 8);
    assert_non_null(getcwd(folder_before, sizeof folder_before));
    assert_int_equal(chdir("/"), 0);
    fill(&file);
    weir__trace_file_close(&file);
    assert_int_equal(chdir(folder_before), 0);
    assert_int_equal(lseek(taken, 0, SEEK_END), 8);
    assert_int_equal(pread(taken, line, sizeof line, 0), 8);
    assert_string_equal(line, "its own\n");
    close(taken);
    close(descriptor);
    unlink(other);
    struct trace trace = read_back();
    assert_int_equal(trace.op_count, LINES);
    trace_free(&trace);
}

static void a_file_that_is_gone_ends_the_recording(void **state) {
    struct weir__trace_file file;
    (void)state;
    unlink(path); /* so that this process may record to it again */
    OK(weir__trace_file_open(&file, path));
    const int descriptor = file.descriptor;
    close(descriptor);
    assert_int_equal(unlink(path), 0);
    fill(&file);
    assert_true(weir__trace_file_ended(&file));
    weir__trace_file_close(&file);
}

static int standard_numbers_taken(void) {
    int taken = 0;
    for (int descriptor = 0; descriptor <= STDERR_FILENO; descriptor++) taken += fcntl(descriptor, F_GETFD) != -1;
    return taken;
}

/* Neither the file as it is opened first, nor again. */
static void a_trace_is_no_standard_stream_of_a_program_that_has_none(void **state) {
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        struct weir__trace_file file;
        for (int descriptor = 0; descriptor <= STDERR_FILENO; descriptor++) close(descriptor);
        if (weir__trace_file_open(&file, path) != WEIR_OK) _exit(1);
        if (standard_numbers_taken() != 0) _exit(2);
        weir__trace_file_write(&file, weir__trace_file_reserve(&file, 13), "weir-trace 1\n", 13);
        close(file.descriptor);
        fill(&file);
        if (standard_numbers_taken() != 0) _exit(3);
        weir__trace_file_close(&file);
        _exit(0);
    }
    assert_int_equal(status_of(child), 0);
    struct trace trace = read_back();
    assert_int_equal(trace.op_count, LINES);
    trace_free(&trace);
}

/* ---- exit -------------------------------------------------------------------------------------------------------- */

static void a_program_that_exits_without_destroying_its_pool_leaves_a_file_of_the_right_length(void **state) {
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        start(500, -1);
        join();
        exit(0);
    }
    assert_int_equal(status_of(child), 0);
    size_t inside, at_end;
    count_zeros(&inside, &at_end);
    assert_int_equal(inside, 0);
    assert_int_equal(at_end, 0);
    struct trace trace = read_back();
    for (uint32_t i = 0; i < THREADS; i++) assert_int_equal(count_of(&trace, OP_ALLOC, i), 500);
    trace_free(&trace);
}

static void *write_lines(void *argument) {
    struct weir__trace_file *file = argument;
    for (;;) {
        const uint64_t place = weir__trace_file_reserve(file, 9);
        if (place != WEIR__TRACE_NO_PLACE) weir__trace_file_write(file, place, "# a line\n", 9);
    }
    return NULL;
}

/* A thread that was about to take a place when the file was cut, and now writes there. */
static struct weir__trace_file *late;
static void write_late(void) __attribute__((destructor(101))); /* after the library's own */
static void write_late(void) {
    if (late == NULL) return;
    const uint64_t position = __atomic_load_n(&late->position, __ATOMIC_RELAXED);
    weir__trace_file_write(late, position + 20000, "# a line\n", 9);
}

/* As is usual: other threads are still at it when the program exits. */
static void threads_that_still_record_at_exit_do_no_harm(void **state) {
    (void)state;
    for (int times = 0; times < 5; times++) {
        const pid_t child = fork();
        if (child == 0) {
            static struct weir__trace_file file;
            pthread_t thread;
            if (weir__trace_file_open(&file, path) != WEIR_OK) _exit(1);
            weir__trace_file_write(&file, weir__trace_file_reserve(&file, 13), "weir-trace 1\n", 13);
            for (int i = 0; i < THREADS; i++) pthread_create(&thread, NULL, write_lines, &file);
            late = &file;
            while (__atomic_load_n(&file.position, __ATOMIC_RELAXED) < 100000) {
            }
            exit(0);
        }
        assert_int_equal(status_of(child), 0);
        struct trace trace = read_back();
        assert_true(trace.torn_lines <= THREADS);
        trace_free(&trace);
    }
}

/* ---- a full disk ------------------------------------------------------------------------------------------------- */

static size_t lines_in_log(const char *words) {
    char line[512];
    size_t lines = 0;
    FILE *log = fopen(log_path, "r");
    if (log == NULL) return 0;
    while (fgets(line, sizeof line, log) != NULL) lines += strstr(line, words) != NULL;
    fclose(log);
    return lines;
}

/* A limit on the size of files stands for a full disk: to the recorder it is the same, room that can't be had. The signal
 * that the system sends to who passes the limit is not ignored here: it must not come. */
static void a_full_disk_ends_the_recording_and_the_program_goes_on(void **state) {
    (void)state;
    enum { MOST_BYTES = 200000, EACH = 5000 }; /* more than the emulated memory, which is a file too */
    memset(done, 0, sizeof *done);
    unlink(log_path);
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {MOST_BYTES, MOST_BYTES};
        test_device();
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
        start(EACH, -1);
        join();
        close_pool(pool);
        exit(0);
    }
    assert_int_equal(status_of(child), 0);
    for (int i = 0; i < THREADS; i++) assert_int_equal(done->frees[i], EACH);
    assert_int_equal(lines_in_log("recording ends here"), 1);
    struct stat known;
    assert_int_equal(stat(path, &known), 0);
    assert_in_range(known.st_size, MOST_BYTES / 2, MOST_BYTES);
    size_t inside, at_end;
    count_zeros(&inside, &at_end);
    assert_int_equal(inside + at_end, 0);
    struct trace trace = read_back();
    assert_int_equal(trace.torn_lines, 0);
    assert_in_range(trace.block_count, 1000, THREADS * EACH);
    trace_free(&trace);
}

static void a_recording_has_a_longest_length(void **state) {
    (void)state;
    unlink(log_path);
    const pid_t child = fork();
    if (child == 0) {
        struct weir__trace_file file;
        uint64_t lines = 0;
        if (weir__trace_file_open(&file, path) != WEIR_OK) _exit(1);
        file.most = 1 << 20;
        for (uint64_t place; (place = weir__trace_file_reserve(&file, 9)) != WEIR__TRACE_NO_PLACE; lines++)
            weir__trace_file_write(&file, place, "# a line\n", 9);
        weir__trace_file_close(&file);
        _exit(lines == (1 << 20) / 9 ? 0 : 1);
    }
    assert_int_equal(status_of(child), 0);
    assert_int_equal(lines_in_log("as long as a recording gets; recording ends here"), 1);
    struct stat known;
    assert_int_equal(stat(path, &known), 0);
    assert_int_equal(known.st_size, (1 << 20) / 9 * 9);
}

static void a_disk_that_is_full_from_the_start_is_said_at_once(void **state) {
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {100, 100};
        struct weir_pool_options options = {.size = sizeof options, .limit_bytes = 8 * PAGE, .trace_path = path};
        test_device();
        if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(1);
        assert_int_equal(weir_pool_create(test_device(), &options, &pool), WEIR_SYSTEM);
        assert_non_null(strstr(weir_last_error()->message, "File too large"));
        _exit(0);
    }
    assert_int_equal(status_of(child), 0);
}

/* ------------------------------------------------------------------------------------------------------------------ */

static int make_folder(void **state) {
    (void)state;
    char log[80];
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(path, sizeof path, "%s/trace", folder);
    snprintf(log_path, sizeof log_path, "%s/log", folder);
    snprintf(log, sizeof log, "error:%s", log_path);
    done = mmap(NULL, sizeof *done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return done == MAP_FAILED ? -1 : setenv("WEIR_LOG", log, 1);
}

static int remove_folder(void **state) {
    (void)state;
    munmap(done, sizeof *done);
    unlink(path);
    unlink(log_path);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_process_loses_nothing_that_had_returned),
        cmocka_unit_test(a_program_that_exits_without_destroying_its_pool_leaves_a_file_of_the_right_length),
        cmocka_unit_test(threads_that_still_record_at_exit_do_no_harm),
        cmocka_unit_test(a_full_disk_ends_the_recording_and_the_program_goes_on),
        cmocka_unit_test(a_recording_has_a_longest_length),
        cmocka_unit_test(a_disk_that_is_full_from_the_start_is_said_at_once),
        cmocka_unit_test(a_line_that_is_not_whole_begins_with_a_zero_byte),
        cmocka_unit_test(a_descriptor_that_is_another_ones_by_now_is_left_alone),
        cmocka_unit_test(a_file_that_is_gone_ends_the_recording),
        cmocka_unit_test(a_trace_is_no_standard_stream_of_a_program_that_has_none),
    };
    return cmocka_run_group_tests_name("trace ends", tests, make_folder, remove_folder);
}
