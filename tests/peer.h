/* SPDX-License-Identifier: Apache-2.0 */
/* A process beside the test's that does what it is told by a socket, with a descriptor or without: an order is a letter, and so
 * is the answer. */
#ifndef WEIR_TESTS_PEER_H
#define WEIR_TESTS_PEER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum order { IMPORT = 'i', READ = 'r', WRITE = 'w', GIVE_UP = 'g', END = 'e' };

static int to_peer = -1;
static pid_t peer;

static inline bool send_order(int socket, char order, int descriptor) {
    struct iovec data = {&order, 1};
    char control[CMSG_SPACE(sizeof descriptor)] = {0};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1};
    if (descriptor >= 0) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof descriptor);
        memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    }
    return sendmsg(socket, &message, 0) == 1;
}

static inline char receive_order(int socket, int *descriptor) {
    char order = END, control[CMSG_SPACE(sizeof *descriptor)] = {0};
    struct iovec data = {&order, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    *descriptor = -1;
    if (recvmsg(socket, &message, 0) != 1) return END;
    const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header != NULL) memcpy(descriptor, CMSG_DATA(header), sizeof *descriptor);
    return order;
}

/* Forks the peer, which gets itself ready and obeys until it is told to end or is alone. Before the driver is there: what a fork
 * copies is not usable. */
static inline void start_peer(bool (*get_ready)(void), bool (*obey)(char order, int descriptor)) {
    int ends[2], descriptor;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) abort();
    peer = fork();
    to_peer = ends[0];
    if (peer != 0) {
        close(ends[1]);
        return;
    }
    close(ends[0]);
    if (!get_ready()) _exit(1);
    for (char order = receive_order(ends[1], &descriptor); order != END; order = receive_order(ends[1], &descriptor))
        if (!send_order(ends[1], obey(order, descriptor) ? 'y' : 'n', -1)) _exit(1);
    _exit(0);
}

static inline void ask_peer(char order, int descriptor) {
    int none;
    assert_true(send_order(to_peer, order, descriptor));
    assert_int_equal(receive_order(to_peer, &none), 'y');
}

/* Gives: whether it ends well, now that it is alone. */
static inline bool end_peer(void) {
    int status = 1;
    close(to_peer);
    return waitpid(peer, &status, 0) == peer && status == 0;
}

#endif
