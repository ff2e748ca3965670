/* See holder.h. */
#define _GNU_SOURCE
#include "holder.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../userfaultfd.h"
#include "common.h"

enum {
    HOLDER_LOOK_NS = 20000000,
    /* Any address that every process may have: the holder copies nothing there. */
    PROBED_ADDRESS = 1 << 30
};

/* The descriptors of the copies' memory. */
static struct {
    pthread_mutex_t lock;
    /* The holder's end of the channel is in the holder; -1 while there is no holder. */
    int channel;
    pid_t pid;
    bool lost;
    int count;
    int descriptors[MAX_PROCESSES];
} held = {.lock = PTHREAD_MUTEX_INITIALIZER, .channel = -1};

/* Whether the memory behind a descriptor is gone. The copy itself fails in any case: its source cannot be read. */
static bool is_over(int descriptor, const void *unreadable)
{
    struct uffd_copy copy = {.to = PROBED_ADDRESS, .from = (uint64_t)(uintptr_t)unreadable, .length = PAGE};
    return ioctl(descriptor, UFFD_COPY, &copy) != 0 && errno == ESRCH;
}

/* Ends when all copies ended. */
__attribute__((noreturn)) static void hold(void)
{
    void *unreadable = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    while (held.count > 0) {
        if (unreadable != MAP_FAILED && is_over(held.descriptors[held.count - 1], unreadable)) {
            close(held.descriptors[--held.count]);
        } else {
            sleep_ns(HOLDER_LOOK_NS);
        }
    }
    _exit(0);
}

static bool is_held(int descriptor)
{
    for (int i = 0; i < held.count; i++) {
        if (held.descriptors[i] == descriptor) {
            return true;
        }
    }
    return false;
}

/* Leaves a forked child nothing but the descriptors that it holds, and one more. Safe in a child of a process of threads. */
static void keep_only(int channel)
{
    int none = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int standard = 0; standard <= 2; standard++) {
        if (none >= 0) {
            dup2(none, standard);
        }
    }
    long most = sysconf(_SC_OPEN_MAX);
    for (int descriptor = 3; descriptor < most && descriptor < (1 << 16); descriptor++) {
        if (descriptor != channel && !is_held(descriptor)) {
            close(descriptor);
        }
    }
    prctl(PR_SET_NAME, "ppmr-holder");
}

ssize_t receive_descriptor(int socket, uint8_t *byte, int *descriptor)
{
    struct iovec data = {byte, 1};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    *descriptor = -1;
    ssize_t got;
    do {
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS
        && head->cmsg_len == CMSG_LEN(sizeof(int))) {
        memcpy(descriptor, CMSG_DATA(head), sizeof(int));
    }
    return got;
}

/* The holder collects descriptors until all pages are there, or the other process ended. */
__attribute__((noreturn)) static void run_holder(int channel)
{
    keep_only(channel);
    for (;;) {
        uint8_t byte = 0;
        int descriptor;
        ssize_t got = receive_descriptor(channel, &byte, &descriptor);
        if (got > 0 && descriptor >= 0 && held.count < MAX_PROCESSES) {
            held.descriptors[held.count++] = descriptor;
        } else if (got > 0) {
            _exit(byte == 'w' ? 0 : 1);
        } else {
            close(channel);
            hold();
        }
    }
}

void start_holder(void)
{
    int pair[2];
    make_pair(pair);
    held.pid = fork();
    if (held.pid < 0) {
        die("cannot start the holder of the copies' memory");
    }
    if (held.pid == 0) {
        close(pair[0]);
        run_holder(pair[1]);
    }
    close(pair[1]);
    held.channel = pair[0];
}

void replace_holder(void)
{
    if (held.lost && held.count > 0 && fork() == 0) {
        keep_only(-1);
        hold();
    }
}

pid_t holder_pid(void)
{
    return held.pid;
}

void lose_holder(void)
{
    pthread_mutex_lock(&held.lock);
    held.lost = true;
    pthread_mutex_unlock(&held.lock);
}

void dismiss_holder(void)
{
    if (send(held.channel, "w", 1, MSG_NOSIGNAL) != 1) {
        die("the holder of the copies' memory cannot be ended");
    }
}

void share_with_holder(int descriptor)
{
    uint8_t byte = 'd';
    struct iovec data = {&byte, 1};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &descriptor, sizeof(int));
    pthread_mutex_lock(&held.lock);
    held.descriptors[held.count++] = descriptor;
    pthread_mutex_unlock(&held.lock);
    ssize_t sent;
    do {
        sent = sendmsg(held.channel, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent != 1) {
        lose_holder();
        die("the holder of the copies' memory ended");
    }
}
