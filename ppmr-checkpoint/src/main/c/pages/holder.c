/* See holder.h. */
#define _GNU_SOURCE
#include "holder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <syslog.h>
#include <unistd.h>

#include "../userfaultfd.h"
#include "common.h"

enum {
    HOLDER_LOOK_NS = 20000000,
    /* Any address that every process may have: the holder copies nothing there. */
    PROBED_ADDRESS = 1 << 30,
    /* Copies that fork while they are filled have more processes than were restored. */
    MOST_HELD = 16 * MAX_PROCESSES,
    /* New descriptors after which the holder looks for those of ended processes. */
    PRUNED_AFTER = 64,
    KILL_ROUNDS = 1000,
    NAMES_BYTES = 1 << 15
};

/* The descriptors of the copies' memory. */
static struct {
    pthread_mutex_t lock;
    /* The holder's end of the channel is in the holder; -1 while there is no holder. */
    int channel;
    pid_t pid;
    bool lost;
    /* The PID namespace of copies that run; 0 while they are held. */
    uint64_t guarded;
    /* It is this program's own, so /proc shows it with all namespaces within. */
    bool has_own;
    int count;
    int since_pruned;
    int descriptors[MOST_HELD];
} held = {.lock = PTHREAD_MUTEX_INITIALIZER, .channel = -1};

/* The copy itself fails in any case: its source cannot be read. */
bool is_over(int descriptor, const void *unreadable)
{
    struct uffd_copy copy = {.to = PROBED_ADDRESS, .from = (uint64_t)(uintptr_t)unreadable, .length = PAGE};
    return ioctl(descriptor, UFFD_COPY, &copy) != 0 && errno == ESRCH;
}

static void *unreadable_page(void)
{
    return mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Closes the descriptors of ended processes. */
static void prune(void)
{
    void *unreadable = unreadable_page();
    int kept = 0;
    for (int i = 0; i < held.count; i++) {
        if (unreadable != MAP_FAILED && is_over(held.descriptors[i], unreadable)) {
            close(held.descriptors[i]);
        } else {
            held.descriptors[kept++] = held.descriptors[i];
        }
    }
    held.count = kept;
    held.since_pruned = 0;
    if (unreadable != MAP_FAILED) {
        munmap(unreadable, PAGE);
    }
}

/* Ends when all copies ended. */
__attribute__((noreturn)) static void hold(void)
{
    while (held.count > 0) {
        prune();
        sleep_ns(HOLDER_LOOK_NS);
    }
    _exit(0);
}

/* Kills the processes of the guarded namespace but this one. Returns whether there were any. */
static bool kill_guarded(int proc)
{
    static char names[NAMES_BYTES];
    char path[64];
    bool found = false;
    lseek(proc, 0, SEEK_SET);
    for (long got = syscall(SYS_getdents64, proc, names, sizeof names); got > 0;
         got = syscall(SYS_getdents64, proc, names, sizeof names)) {
        for (long at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(names + at);
            at += entry->d_reclen;
            long pid = strtol(entry->d_name, NULL, 10);
            struct stat space;
            snprintf(path, sizeof path, "%ld/ns/pid", pid);
            /* No process in the namespace can kill a rank's init, which ends with the last process. */
            bool guarded = held.has_own || (fstatat(proc, path, &space, 0) == 0 && space.st_ino == held.guarded);
            if (pid > 1 && pid != getpid() && guarded) {
                found = kill((pid_t)pid, SIGKILL) == 0 || found;
            }
        }
    }
    return found;
}

/* The copies would wait for pages that no process can bring. */
__attribute__((noreturn)) static void end_copies(void)
{
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    openlog("ppmr-pages", LOG_PID, LOG_DAEMON);
    syslog(LOG_ERR, "the program that fills the memory of a running copy was killed, so the copy is killed, too");
    for (int round = 0; proc >= 0 && round < KILL_ROUNDS && kill_guarded(proc); round++) {
        sleep_ns(HOLDER_LOOK_NS / 10);
    }
    hold();
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
    /* The image directory must not be kept. */
    if (chdir("/") != 0) {
        _exit(1);
    }
}

ssize_t receive_descriptor(int socket, uint8_t *byte, int *descriptor)
{
    struct iovec data = {byte, 1};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof control.room};
    *descriptor = -1;
    ssize_t got;
    do {
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    /* The sender's credentials may be there, too. */
    struct cmsghdr *head = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    for (; head != NULL; head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS && head->cmsg_len == CMSG_LEN(sizeof(int))) {
            memcpy(descriptor, CMSG_DATA(head), sizeof(int));
        }
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
        if (got > 0 && descriptor >= 0) {
            if (++held.since_pruned >= PRUNED_AFTER || held.count == MOST_HELD) {
                prune();
            }
            if (held.count == MOST_HELD) {
                _exit(1);
            }
            held.descriptors[held.count++] = descriptor;
        } else if (got > 0 && (byte == 'g' || byte == 'o')) {
            held.has_own = byte == 'o';
            if (recv(channel, &held.guarded, sizeof held.guarded, MSG_WAITALL) != (ssize_t)sizeof held.guarded
                || send(channel, &byte, 1, MSG_NOSIGNAL) != 1) {
                _exit(1);
            }
        } else if (got > 0) {
            _exit(byte == 'w' ? 0 : 1);
        } else if (held.guarded != 0) {
            end_copies();
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

void release_held(int descriptor)
{
    pthread_mutex_lock(&held.lock);
    for (int i = 0; i < held.count; i++) {
        if (held.descriptors[i] == descriptor) {
            held.descriptors[i] = held.descriptors[--held.count];
            close(descriptor);
        }
    }
    pthread_mutex_unlock(&held.lock);
}

void guard_copies(uint64_t namespace_inode, bool is_own)
{
    uint8_t byte = is_own ? 'o' : 'g';
    held.guarded = namespace_inode;
    held.has_own = is_own;
    if (send(held.channel, &byte, 1, MSG_NOSIGNAL) != 1
        || send(held.channel, &namespace_inode, sizeof namespace_inode, MSG_NOSIGNAL) != (ssize_t)sizeof namespace_inode
        || recv(held.channel, &byte, 1, 0) != 1) {
        lose_holder();
        die("the holder of the copies' memory ended");
    }
}

void restart_holder(void)
{
    int pair[2];
    make_pair(pair);
    pthread_mutex_lock(&held.lock);
    held.pid = fork();
    if (held.pid == 0) {
        close(pair[0]);
        run_holder(pair[1]);
    }
    if (held.pid > 0) {
        close(held.channel);
        held.channel = pair[0];
    }
    pthread_mutex_unlock(&held.lock);
    close(pair[1]);
    if (held.pid < 0) {
        /* With this program's end the memory of the copies would become empty. */
        end_copies();
    }
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
    if (held.count == MOST_HELD) {
        fail("the copies have more than %d processes while they are filled", (int)MOST_HELD);
    }
    held.descriptors[held.count++] = descriptor;
    ssize_t sent;
    do {
        sent = sendmsg(held.channel, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    bool guarded = held.guarded != 0;
    pthread_mutex_unlock(&held.lock);
    /* A holder that is started again inherits the descriptor. */
    if (sent != 1 && !guarded) {
        lose_holder();
        die("the holder of the copies' memory ended");
    }
}
