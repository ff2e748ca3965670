/* ppmr-rank-init: a PID and mount namespace for one restored rank, and the init process in it.
 *
 *   ppmr-rank-init [--detach PATH]... [--grace SECONDS] [--pid-file FILE -- COMMAND [ARGUMENT...]]
 *
 * It prints the init's PID in the caller's namespace on standard output when everything is ready, and exits with 0.
 * The init lives on without any tie to the caller: own session, /dev/null as standard streams, / as directory.
 * Before that it writes a record of itself (namespace-record.h), which permits root's programs to enter later.
 * Commands enter with ppmr-launch --enter INIT --directory DIR -- COMMAND.
 *
 * With a command, a new file in a folder of the service receives the PID instead. This process becomes the command,
 * in its old namespaces. So a command in its own namespace needs the start of only one program. The word
 * {init} in the command is replaced by the PID.
 *
 * A restored process needs its old PIDs, which may be in use on this node, by the held original or by any process.
 * In a fresh PID namespace all are free. Tools that enter it need PIDs, too, and would use the low ones that a job
 * from a fresh node has. Therefore the namespace assigns PIDs from a random place in the upper half of the range.
 *
 * Mounts are slaves of the caller's. Later mounts of the node appear inside, but not the other way round. A mount of
 * --detach is removed from the new namespace, so that the copy does not keep it alive after the node has unmounted
 * it. /proc is the namespace's own.
 *
 * The init reaps all children, and detaches from processes that it traces involuntarily. On a kernel without pidfds
 * (before Linux 5.3) it polls ten times a second. It exits when the namespace is empty after a process was in it, or
 * when none entered within the grace period. So a finished job leaves nothing behind. pid_namespaces(7),
 * mount_namespaces(7), pidfd_open(2). */
#define _GNU_SOURCE
#include "kernel.h"
#include "namespace-record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_DETACHED = 16,
    MAX_WATCHED = 256,
    ZOMBIE_POLL_MS = 100,
    GRACE_POLL_MS = 200,
    RECORD_TRIES = 100,
    RECORD_WAIT_US = 10000,
    DEFAULT_GRACE_S = 60
};

static void die(const char *what)
{
    fprintf(stderr, "ppmr-rank-init: %s: %s\n", what, strerror(errno));
    exit(1);
}

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* Moves the next PIDs to a random place between one half and three quarters of the range. */
static void move_pid_cursor(void)
{
    FILE *file = fopen("/proc/sys/kernel/pid_max", "re");
    long pid_max = 32768;
    if (file != NULL) {
        if (fscanf(file, "%ld", &pid_max) != 1)
            pid_max = 32768;
        fclose(file);
    }
    unsigned int random = 0;
    /* This does not use getrandom(2), which kernels before Linux 3.17 lack. */
    int source = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (source < 0 || read(source, &random, sizeof random) != (ssize_t)sizeof random)
        die("/dev/urandom");
    close(source);
    file = fopen("/proc/sys/kernel/ns_last_pid", "we");
    if (file == NULL)
        die("/proc/sys/kernel/ns_last_pid");
    fprintf(file, "%ld", pid_max / 2 + (long)(random % (unsigned int)(pid_max / 4)));
    if (fclose(file) != 0)
        die("/proc/sys/kernel/ns_last_pid");
}

/* Returns whether a process that is not our child has exited and waits for its parent outside of the namespace. */
static bool is_zombie(int pid)
{
    char path[64];
    char text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0)
        return true;
    text[length] = '\0';
    char *end = strrchr(text, ')');
    return end != NULL && (end[2] == 'Z' || end[2] == 'X');
}

struct census {
    int watched;      /* pidfds in fds[1..watched] */
    int unwatched;    /* zombies of others, more processes than there is room for, all where there are no pidfds */
    int total;
};

static struct census count_processes(struct pollfd *fds)
{
    struct census census = {0, 0, 0};
    DIR *proc = opendir("/proc");
    if (proc == NULL)
        exit(1);
    for (struct dirent *entry = readdir(proc); entry != NULL; entry = readdir(proc)) {
        int pid = atoi(entry->d_name);
        if (pid <= 1)
            continue;
        census.total++;
        int fd = -1;
        if (census.watched < MAX_WATCHED && !is_zombie(pid))
            fd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (fd < 0) {
            census.unwatched++;
        } else {
            census.watched++;
            fds[census.watched] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
    }
    closedir(proc);
    return census;
}

/* Reaps ended children, and returns whether there was a child. A process may request to be traced by its parent
 * (PTRACE_TRACEME) after the parent ended. A child of CRIU may do so when CRIU is killed. Then its new parent, this
 * init, traces it, and it stops for ever at its first signal. Therefore it is continued untraced, with its signal,
 * except for the one that only reports that it is ready to be traced. */
static bool reap(void)
{
    bool found = false;
    int status;
    for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
        found = true;
        if (WIFSTOPPED(status)) {
            int signal = WSTOPSIG(status);
            long passed = signal == SIGSTOP || signal == SIGTRAP ? 0 : signal;
            /* This fails only if it was killed in the meantime. Then it is reaped next. */
            (void)ptrace(PTRACE_DETACH, pid, NULL, (void *)passed);
        }
    }
    return found;
}

/* Reaps and waits until the namespace is empty. It sleeps until a process ends, so an idle rank costs no CPU time. */
static void watch_over(int signals, long long grace_ms)
{
    static struct pollfd fds[MAX_WATCHED + 1];
    long long last_call = now_ms() + grace_ms;
    bool inhabited = false;
    int times_empty = 0;
    fds[0] = (struct pollfd){.fd = signals, .events = POLLIN};
    for (;;) {
        struct signalfd_siginfo info;
        while (read(signals, &info, sizeof info) > 0)
            continue;
        inhabited |= reap();
        struct census census = count_processes(fds);
        int timeout_ms = -1;
        if (census.total > 0) {
            inhabited = true;
            times_empty = 0;
            if (census.unwatched > 0)
                timeout_ms = ZOMBIE_POLL_MS;
        } else if (inhabited) {
            /* Two empty scans are needed, because one scan of /proc may miss a new process. */
            if (++times_empty == 2)
                return;
            continue;
        } else if (now_ms() >= last_call) {
            return;
        } else {
            timeout_ms = GRACE_POLL_MS;
        }
        if (poll(fds, (nfds_t)census.watched + 1, timeout_ms) < 0 && errno != EINTR)
            exit(1);
        for (int i = 1; i <= census.watched; i++)
            close(fds[i].fd);
    }
}

static bool is_named(int records, const char *name, int file)
{
    struct stat named, open;
    return fstatat(records, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && fstat(file, &open) == 0
           && named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

/* Removes a record whose init ended, so that the lock is free. */
static void prune_record(int records, const char *name)
{
    int file = openat(records, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return;
    if (flock(file, LOCK_EX | LOCK_NB) == 0 && is_named(records, name, file))
        unlinkat(records, name, 0);
    close(file);
}

/* Opens the folder of records, without those of inits that ended. */
static int open_pruned_records(void)
{
    int records = open_records(true);
    if (records < 0)
        die(RECORD_FOLDER " cannot be used (each folder of this path must be root's, and no other process may write there)");
    DIR *all = fdopendir(dup(records));
    if (all == NULL)
        die(RECORD_FOLDER);
    for (struct dirent *entry = readdir(all); entry != NULL; entry = readdir(all)) {
        if (entry->d_name[0] != '.')
            prune_record(records, entry->d_name);
    }
    closedir(all);
    return records;
}

/* Records that this process is the init of its namespaces. The record is locked until it ends. flock(2). */
static void write_record(int records)
{
    char record[RECORD_BYTES], name[RECORD_NAME_BYTES];
    int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (self < 0 || !describe_init(self, record, name))
        die("/proc/self");
    close(self);
    for (int tries = 0; tries < RECORD_TRIES; tries++) {
        /* The namespace is new, so a record of its number belongs to an earlier one, and another start may be
         * removing it. */
        prune_record(records, name);
        int file = openat(records, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file < 0 && errno != EEXIST)
            die(RECORD_FOLDER);
        if (file >= 0 && flock(file, LOCK_EX) == 0 && is_named(records, name, file)) {
            if (write(file, record, strlen(record)) != (ssize_t)strlen(record))
                die(RECORD_FOLDER);
            close(records);
            return;
        }
        if (file >= 0)
            close(file);
        usleep(RECORD_WAIT_US);
    }
    errno = EEXIST;
    die(RECORD_FOLDER);
}

static void run_init(char **detached, int detached_count, long long grace_ms, int ready, int records)
{
    if (setsid() < 0)
        die("setsid");
    if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0)
        die("cannot make the mounts slaves");
    for (int i = 0; i < detached_count; i++) {
        if (umount2(detached[i], MNT_DETACH) != 0 && errno != EINVAL)
            die(detached[i]);
    }
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0)
        die("cannot mount /proc");
    move_pid_cursor();
    write_record(records);

    sigset_t all;
    sigset_t child;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    int signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signals < 0)
        die("signalfd");
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || chdir("/") != 0)
        die("/dev/null");
    if (write(ready, "r", 1) != 1)
        die("cannot report");
    for (int fd = 0; fd <= 2; fd++)
        dup2(null, fd);
    close(null);
    close(ready);
    watch_over(signals, grace_ms);
    exit(0);
}

/* Makes the namespaces, and leaves this process in the mount namespace. Returns the init's PID, or ends this
 * process. */
static pid_t make_init(char **detached, int detached_count, long long grace_ms)
{
    int ready[2];
    if (pipe2(ready, O_CLOEXEC) != 0)
        die("pipe");
    int records = open_pruned_records();
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0)
        die("cannot make a PID and mount namespace (this needs root)");
    pid_t init = fork();
    if (init < 0)
        die("fork");
    if (init == 0) {
        close(ready[0]);
        run_init(detached, detached_count, grace_ms, ready[1], records);
    }
    close(records);
    close(ready[1]);
    char byte;
    if (read(ready[0], &byte, 1) != 1) {
        /* The child's own message is on standard error already. */
        waitpid(init, NULL, 0);
        exit(1);
    }
    return init;
}

/* Makes the namespaces by a child, so that this process stays in its own. */
static pid_t make_init_beside(char **detached, int detached_count, long long grace_ms)
{
    int report[2];
    if (pipe2(report, O_CLOEXEC) != 0)
        die("pipe");
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        pid_t made = make_init(detached, detached_count, grace_ms);
        exit(write(report[1], &made, sizeof made) == (ssize_t)sizeof made ? 0 : 1);
    }
    close(report[1]);
    pid_t init;
    bool whole = read(report[0], &init, sizeof init) == (ssize_t)sizeof init;
    close(report[0]);
    while (waitpid(child, NULL, 0) < 0) {
        if (errno != EINTR)
            die("waitpid");
    }
    if (!whole)
        exit(1);
    return init;
}

static _Noreturn void become(char **command, const char *pid_file, pid_t init)
{
    static char text[16];
    int length = snprintf(text, sizeof text, "%d\n", (int)init);
    int file = open(pid_file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0 || write(file, text, (size_t)length) != length || close(file) != 0) {
        kill(init, SIGKILL);
        die(pid_file);
    }
    text[length - 1] = '\0';
    for (int i = 0; command[i] != NULL; i++) {
        if (strcmp(command[i], "{init}") == 0)
            command[i] = text;
    }
    execvp(command[0], command);
    int failure = errno;
    kill(init, SIGKILL);
    errno = failure;
    die(command[0]);
    exit(1);
}

int main(int argc, char **argv)
{
    char *detached[MAX_DETACHED];
    int detached_count = 0;
    long long grace_ms = DEFAULT_GRACE_S * 1000LL;
    const char *pid_file = NULL;
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i += 2) {
        if (i + 1 < argc && strcmp(argv[i], "--detach") == 0 && detached_count < MAX_DETACHED) {
            detached[detached_count++] = argv[i + 1];
        } else if (i + 1 < argc && strcmp(argv[i], "--grace") == 0 && atoll(argv[i + 1]) > 0) {
            grace_ms = atoll(argv[i + 1]) * 1000LL;
        } else if (i + 1 < argc && strcmp(argv[i], "--pid-file") == 0) {
            pid_file = argv[i + 1];
        } else {
            argc = 0;
        }
    }
    bool has_command = argc > 0 && i < argc;
    if (argc == 0 || has_command != (pid_file != NULL) || (has_command && i + 1 == argc)) {
        fprintf(stderr, "usage: ppmr-rank-init [--detach PATH]... [--grace SECONDS]"
                " [--pid-file FILE -- COMMAND [ARGUMENT...]]\n");
        return 2;
    }
    if (close_descriptors(3, ~0U) != 0)
        die("the descriptors cannot be closed");
    if (has_command)
        become(argv + i + 1, pid_file, make_init_beside(detached, detached_count, grace_ms));
    printf("%d\n", make_init(detached, detached_count, grace_ms));
    return fflush(stdout) == 0 ? 0 : 1;
}
