/* See holder.h. */
#define _GNU_SOURCE
#include "holder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <syslog.h>
#include <unistd.h>

#include "../kernel.h"
#include "../userfaultfd.h"
#include "common.h"

enum {
    HOLDER_LOOK_NS = 20000000,
    /* Any address that every process may have: the holder copies nothing there. */
    PROBED_ADDRESS = 1 << 30,
    KILL_ROUNDS = 1000,
    NAMES_BYTES = 1 << 15
};

#define DESCRIPTOR_KIND "anon_inode:[userfaultfd]"

/* What both processes read, in memory that they share. */
struct guard {
    /* The PID namespace of copies that run; 0 while they are held. */
    uint64_t namespace;
    /* It is this program's own, so /proc shows it with all namespaces within. */
    bool is_own;
    /* All pages are there, so nothing needs to be held. */
    bool whole;
};

static struct {
    pthread_mutex_t lock;
    struct guard *guard;
    pid_t pid;
    bool lost;
    /* It is ended by this program, so no other one is made. */
    bool dismissed;
} held = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The copy itself fails in any case: its source cannot be read. */
bool is_over(int descriptor, const void *unreadable)
{
    struct uffd_copy copy = {.to = PROBED_ADDRESS, .from = (uint64_t)(uintptr_t)unreadable, .length = PAGE};
    return ioctl(descriptor, UFFD_COPY, &copy) != 0 && errno == ESRCH;
}

bool is_userfaultfd(int descriptor)
{
    char path[64];
    char kind[sizeof DESCRIPTOR_KIND] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    ssize_t length = descriptor < 0 ? -1 : readlink(path, kind, sizeof kind - 1);
    return length > 0 && strcmp(kind, DESCRIPTOR_KIND) == 0;
}

void ignore_signals(void)
{
    /* Signals of errors in this program, and of its children, are as ever. */
    static const int kept[] = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS, SIGCHLD};
    for (int number = 1; number <= SIGRTMAX; number++) {
        bool is_kept = false;
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
            is_kept = is_kept || kept[i] == number;
        }
        if (!is_kept) {
            signal(number, SIG_IGN);
        }
    }
}

/*
 * Closes all descriptors but those of copies that live. Returns whether there are any. Nothing here uses memory or locks
 * of the C library: threads of the process from which this one was made may have had them.
 */
static bool keep_living(const void *unreadable)
{
    static char names[NAMES_BYTES];
    bool living = false;
    int own = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (long got = syscall(SYS_getdents64, own, names, sizeof names); got > 0;
         got = syscall(SYS_getdents64, own, names, sizeof names)) {
        for (long at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(names + at);
            at += entry->d_reclen;
            if (entry->d_name[0] == '.') {
                continue;
            }
            int descriptor = (int)strtol(entry->d_name, NULL, 10);
            bool lives = is_userfaultfd(descriptor) && !is_over(descriptor, unreadable);
            living = living || lives;
            if (!lives && descriptor != own) {
                close(descriptor);
            }
        }
    }
    close(own);
    return living;
}

/* Ends when all copies ended. */
__attribute__((noreturn)) static void hold(void)
{
    const void *unreadable = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    while (keep_living(unreadable)) {
        sleep_ns(HOLDER_LOOK_NS);
    }
    _exit(0);
}

/* Kills a process if it is in the guarded namespace. A number may be another process's by now, and a pidfd is not. */
static bool kill_if_guarded(int proc, pid_t pid)
{
    if (held.guard->is_own) {
        /* No process in the namespace can kill a rank's init, which ends with the last process. */
        return kill(pid, SIGKILL) == 0;
    }
    char path[64];
    struct stat space;
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    bool old = process < 0 && errno == ENOSYS;
    snprintf(path, sizeof path, "%d/ns/pid", (int)pid);
    bool guarded = fstatat(proc, path, &space, 0) == 0 && space.st_ino == held.guard->namespace;
    bool killed = false;
    if (guarded && old) {
        killed = kill(pid, SIGKILL) == 0;
    } else if (guarded && process >= 0) {
        killed = syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0) == 0;
    }
    if (process >= 0) {
        close(process);
    }
    return killed;
}

/* Kills the processes of the guarded namespace but this one. Returns whether there were any. */
static bool kill_guarded(int proc)
{
    static char names[NAMES_BYTES];
    bool found = false;
    lseek(proc, 0, SEEK_SET);
    for (long got = syscall(SYS_getdents64, proc, names, sizeof names); got > 0;
         got = syscall(SYS_getdents64, proc, names, sizeof names)) {
        for (long at = 0; at < got;) {
            const struct dirent64 *entry = (const struct dirent64 *)(names + at);
            at += entry->d_reclen;
            long pid = strtol(entry->d_name, NULL, 10);
            if (pid > 1 && pid != getpid()) {
                found = kill_if_guarded(proc, (pid_t)pid) || found;
            }
        }
    }
    return found;
}

/* The copies would wait for pages that no process can bring. */
__attribute__((noreturn)) static void end_copies(void)
{
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int round = 0; proc >= 0 && round < KILL_ROUNDS && kill_guarded(proc); round++) {
        sleep_ns(HOLDER_LOOK_NS / 10);
    }
    openlog("ppmr-pages", LOG_PID, LOG_DAEMON);
    syslog(LOG_ERR, "the program that fills the memory of a running copy ended, so the copy was killed, too");
    hold();
}

/* Waits until the other process ended. It ends this one when there is nothing more to hold. */
__attribute__((noreturn)) static void run_holder(pid_t other)
{
    ignore_signals();
    prctl(PR_SET_NAME, "ppmr-holder");
    /* The image directory must not be kept. */
    if (chdir("/") != 0) {
        _exit(1);
    }
    while (getppid() == other) {
        sleep_ns(HOLDER_LOOK_NS);
    }
    if (__atomic_load_n(&held.guard->whole, __ATOMIC_ACQUIRE)) {
        /* The copies continue without it. */
        _exit(0);
    }
    if (__atomic_load_n(&held.guard->namespace, __ATOMIC_ACQUIRE) != 0) {
        end_copies();
    }
    hold();
}

/*
 * Makes the holder. It shares the table of descriptors, so that it has each one in the same moment, also that of a child,
 * which the kernel makes when the report of a fork(2) is read.
 */
static bool make_holder(void)
{
    pid_t other = getpid();
    pid_t made = (pid_t)syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
    if (made == 0) {
        run_holder(other);
    }
    held.pid = made;
    return made > 0;
}

void start_holder(void)
{
    held.guard = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (held.guard == MAP_FAILED || !make_holder()) {
        die("cannot start the holder of the copies' memory");
    }
}

void guard_copies(uint64_t namespace_inode, bool is_own)
{
    held.guard->is_own = is_own;
    __atomic_store_n(&held.guard->namespace, namespace_inode, __ATOMIC_RELEASE);
}

void note_whole(void)
{
    __atomic_store_n(&held.guard->whole, true, __ATOMIC_RELEASE);
}

bool restart_holder(void)
{
    pthread_mutex_lock(&held.lock);
    bool wanted = !held.dismissed;
    bool made = wanted && make_holder();
    pthread_mutex_unlock(&held.lock);
    if (wanted && !made && !__atomic_load_n(&held.guard->whole, __ATOMIC_ACQUIRE)) {
        /* With this program's end the memory of the copies would become empty. */
        end_copies();
    }
    return made;
}

void replace_holder(void)
{
    if (held.lost) {
        (void)make_holder();
    }
}

pid_t holder_pid(void)
{
    pthread_mutex_lock(&held.lock);
    pid_t pid = held.pid;
    pthread_mutex_unlock(&held.lock);
    return pid;
}

void lose_holder(void)
{
    held.lost = true;
}

void dismiss_holder(void)
{
    pthread_mutex_lock(&held.lock);
    held.dismissed = true;
    /* It is this program's child. It may be gone by now. */
    bool ended = kill(held.pid, SIGKILL) == 0 || errno == ESRCH;
    pthread_mutex_unlock(&held.lock);
    if (!ended) {
        die("the holder of the copies' memory cannot be ended");
    }
}

void close_copies(void)
{
    int table = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *all = table < 0 ? NULL : fdopendir(table);
    for (struct dirent *entry = all == NULL ? NULL : readdir(all); entry != NULL; entry = readdir(all)) {
        int descriptor = (int)strtol(entry->d_name, NULL, 10);
        if (entry->d_name[0] != '.' && is_userfaultfd(descriptor)) {
            close(descriptor);
        }
    }
    if (all == NULL) {
        die("/proc/self/fd cannot be read");
    }
    closedir(all);
}
