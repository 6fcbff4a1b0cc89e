/* SPDX-License-Identifier: Apache-2.0 */
/* Children of fork that exec, leave at once, try to allocate, and leave by exit; threads allocate all the while. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scenes.h"

enum { THREADS = 4, CHILDREN = 100, SECONDS = 120 }; /* five where nothing else runs */

static atomic_bool over;

static void *work(void *argument) {
    void *block;
    (void)argument;
    while (!over) {
        CUDA(cudaMalloc(&block, MEBI));
        CUDA(cudaFree(block));
    }
    return NULL;
}

static void child(int number) {
    void *block;
    alarm(SECONDS); /* one that hangs ends by a signal */
    if (number % 4 == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(9);
    }
    if (number % 4 == 1) _exit(0);
    if (number % 4 == 2) exit(cudaMalloc(&block, MEBI) == cudaErrorInitializationError ? 0 : 8);
    exit(0);
}

int main(void) {
    pthread_t thread[THREADS];
    void *block;
    int wrong = 0;
    CUDA(cudaMalloc(&block, MEBI));
    fill(block, 4);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, work, NULL) == 0);
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        const pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) child(i);
        CHECK(waitpid(pid, &status, 0) == pid);
        wrong += status != 0;
    }
    over = true;
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    holds(block, 4);
    CUDA(cudaFree(block));
    printf("%d children ended wrong\n", wrong);
    return 0;
}
