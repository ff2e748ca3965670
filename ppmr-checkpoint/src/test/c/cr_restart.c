/* cr_restart: replaces BLCR's program of that name, for images of selfckpt-job. It accepts BLCR's options and
 * refuses unknown ones. The restored process reads the stream itself, front to back. The real program was recorded
 * with this behaviour:
 *
 *   - A process whose parent was init when it was checkpointed is restored as init's child, and cr_restart ends with 0
 *     at once. Any other one is cr_restart's child until it ends, and cr_restart ends the same way.
 *   - The restored process has its old PID, or a new one with --no-restore-pid. BLCR's kernel module may assign any
 *     PID; this needs root (clone3(2); before Linux 5.5 /proc/sys/kernel/ns_last_pid, pid_namespaces(7)).
 *
 * Exit status: as above; 1 for usage; 255 if the image cannot be opened; otherwise the errno of the failure: 5 the
 * image is short. */
#define _GNU_SOURCE
#include "selfckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OPTION_RUN = 256, OPTION_STOP, OPTION_RESTORE_PID, OPTION_NO_RESTORE_PID, OPTION_RELOCATE, OPTION_ON_SUCCESS,
       OPTION_ON_FAILURE, OPTION_VERSION, MAX_RELOCATIONS = 16, MAX_ARGUMENTS = 2 * MAX_RELOCATIONS + 10,
       EXIT_NOT_OPENED = 255, PID_TRIES = 1000 };

static const struct option OPTIONS[] = {
    {"file", required_argument, NULL, 'f'},
    {"fd", required_argument, NULL, 'F'},
    {"run", no_argument, NULL, OPTION_RUN},
    {"stop", no_argument, NULL, OPTION_STOP},
    {"restore-pid", no_argument, NULL, OPTION_RESTORE_PID},
    {"no-restore-pid", no_argument, NULL, OPTION_NO_RESTORE_PID},
    /* This is always so here. The opposite is not offered. */
    {"no-restore-pgid", no_argument, NULL, 'q'},
    {"no-restore-sid", no_argument, NULL, 'q'},
    {"relocate", required_argument, NULL, OPTION_RELOCATE},
    {"run-on-success", required_argument, NULL, OPTION_ON_SUCCESS},
    {"run-on-failure", required_argument, NULL, OPTION_ON_FAILURE},
    {"quiet", no_argument, NULL, 'q'},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

static const char *file;
static int image_fd = -1;
static bool stop;
static bool restore_pid = true;
static const char *on_success;
static const char *on_failure;
static char *relocations[MAX_RELOCATIONS];
static int relocation_count;

static void usage(void)
{
    fprintf(stderr, "Usage: cr_restart [options] [checkpoint_file]\n"
                    "  -f FILE|-F FD  --run|--stop  --restore-pid|--no-restore-pid  --relocate OLD=NEW\n"
                    "  --run-on-success=CMD  --run-on-failure=CMD\n");
    exit(1);
}

static void parse(int argc, char **argv)
{
    int option;
    while ((option = getopt_long(argc, argv, "f:F:q", OPTIONS, NULL)) != -1) {
        switch (option) {
        case 'q': break;
        case 'f': file = optarg; break;
        case 'F': image_fd = atoi(optarg); break;
        case OPTION_RUN: stop = false; break;
        case OPTION_STOP: stop = true; break;
        case OPTION_RESTORE_PID: restore_pid = true; break;
        case OPTION_NO_RESTORE_PID: restore_pid = false; break;
        case OPTION_ON_SUCCESS: on_success = optarg; break;
        case OPTION_ON_FAILURE: on_failure = optarg; break;
        case OPTION_RELOCATE:
            if (relocation_count == MAX_RELOCATIONS || strchr(optarg, '=') == NULL)
                usage();
            relocations[relocation_count++] = optarg;
            break;
        case OPTION_VERSION: puts("cr_restart version 0.8.6_b4 (ppmr's stand-in for tests)"); exit(0);
        default: usage();
        }
    }
    if (file == NULL && image_fd < 0 && optind == argc - 1)
        file = argv[optind++];
    if (optind != argc || (file == NULL) == (image_fd < 0))
        usage();
}

static void run_hook(const char *command)
{
    if (command != NULL && system(command) != 0)
        fprintf(stderr, "cr_restart: the command '%s' failed\n", command);
}

static int fail(int error)
{
    fprintf(stderr, "Restart failed: %s\n", strerror(error));
    run_hook(on_failure);
    return error;
}

/* Reads the next piece of the head; an errno, 0 for success. */
static int read_head(void *data, uint32_t expected)
{
    uint32_t length = 0;
    char *parts[] = {(char *)&length, data};
    size_t sizes[] = {sizeof length, expected};
    for (int i = 0; i < 2; i++) {
        for (size_t used = 0; used < sizes[i];) {
            ssize_t got = read(image_fd, parts[i] + used, sizes[i] - used);
            if (got < 0 && errno == EINTR)
                continue;
            if (got <= 0) {
                int error = got == 0 ? EIO : errno;
                fprintf(stderr, "- vfs_read returned %d\n", got == 0 ? 0 : -error);
                return error;
            }
            used += (size_t)got;
        }
        if (length != expected)
            return EINVAL;
    }
    return 0;
}

/* Makes the restored process a selfckpt-job that reads its state from the image. */
static void become_job(int state_fd, int ready_fd)
{
    char program[4096];
    char texts[3][16];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 32);
    if (length < 0)
        _exit(127);
    program[length] = '\0';
    char *slash = strrchr(program, '/');
    snprintf(slash + 1, 32, "selfckpt-job");
    snprintf(texts[0], sizeof texts[0], "%d", image_fd);
    snprintf(texts[1], sizeof texts[1], "%d", state_fd);
    snprintf(texts[2], sizeof texts[2], "%d", ready_fd);
    char *arguments[MAX_ARGUMENTS] = {"selfckpt-job", "--restore-fd", texts[0], "--state-fd", texts[1], "--ready-fd",
                                      texts[2]};
    int count = 7;
    if (stop)
        arguments[count++] = "--stop";
    for (int i = 0; i < relocation_count; i++) {
        arguments[count++] = "--relocate";
        arguments[count++] = relocations[i];
    }
    execv(program, arguments);
    _exit(127);
}

static bool is_gone(pid_t pid)
{
    return kill(pid, 0) != 0 && errno == ESRCH;
}

/* Forks a child with that PID, by clone3(2). No other process can get the PID in between. ENOSYS or E2BIG if the
 * kernel is older than Linux 5.5. */
static pid_t clone_as(pid_t wanted)
{
    pid_t pids[] = {wanted};
    struct clone_args arguments = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)pids, .set_tid_size = 1};
    return (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
}

/* Forks a child with that PID on an older kernel, where another process may get the PID between the write and the
 * fork. */
static pid_t fork_after_last_pid(pid_t wanted)
{
    for (int tries = 0; tries < PID_TRIES; tries++) {
        if (!is_gone(wanted)) {
            errno = EBUSY;
            return -1;
        }
        FILE *last = fopen("/proc/sys/kernel/ns_last_pid", "we");
        if (last == NULL)
            return -1;
        fprintf(last, "%d", (int)wanted - 1);
        if (fclose(last) != 0)
            return -1;
        pid_t child = fork();
        if (child < 0 || (child == 0 ? getpid() : child) == wanted)
            return child;
        if (child == 0)
            _exit(0);
        waitpid(child, NULL, 0);
    }
    errno = EBUSY;
    return -1;
}

/* Forks a child with that PID, or any PID for 0. */
static pid_t fork_as(pid_t wanted)
{
    if (wanted == 0)
        return fork();
    const struct timespec pause = {.tv_nsec = 2000000};
    for (int tries = 0; tries < PID_TRIES; tries++) {
        pid_t cloned = clone_as(wanted);
        if (cloned >= 0)
            return cloned;
        if (errno == ENOSYS || errno == E2BIG)
            return fork_after_last_pid(wanted);
        if (errno != EEXIST)
            return -1;
        /* Since Linux 6.15 a process that was reaped is gone from /proc shortly before its PID is free. */
        if (!is_gone(wanted))
            break;
        nanosleep(&pause, NULL);
    }
    errno = EBUSY;
    return -1;
}

/* Makes the restored process, a child of init for an orphan. Returns its PID, or -1 with errno. */
static pid_t make_job(pid_t wanted, bool orphan, int state_fd, int ready_fd)
{
    if (!orphan) {
        pid_t child = fork_as(wanted);
        if (child == 0)
            become_job(state_fd, ready_fd);
        return child;
    }
    int born[2];
    if (pipe2(born, O_CLOEXEC) != 0)
        return -1;
    pid_t parent = fork();
    if (parent == 0) {
        pid_t child = fork_as(wanted);
        if (child == 0)
            become_job(state_fd, ready_fd);
        int answer[] = {child, child < 0 ? errno : 0};
        _exit(write(born[1], answer, sizeof answer) == (ssize_t)sizeof answer ? 0 : 1);
    }
    int answer[] = {-1, ECHILD};
    close(born[1]);
    if (parent > 0) {
        if (read(born[0], answer, sizeof answer) != (ssize_t)sizeof answer)
            answer[0] = -1;
        waitpid(parent, NULL, 0);
    }
    close(born[0]);
    errno = answer[1];
    return answer[0];
}

/* Returns whether a process that is not our child stops within ten seconds; proc(5). */
static bool stops(pid_t pid)
{
    const struct timespec pause = {.tv_nsec = 2000000};
    for (int looks = 0; looks < 5000; looks++) {
        char path[64];
        char text[512];
        snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
        if (fd >= 0)
            close(fd);
        if (length <= 0)
            return false;
        text[length] = '\0';
        char *name_end = strrchr(text, ')');
        if (name_end != NULL && name_end[2] == 'T')
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

static int end_like(int status)
{
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    if (file != NULL) {
        image_fd = open(file, O_RDONLY);
        if (image_fd < 0) {
            int denied = errno == EACCES;
            fprintf(stderr, "Failed to open(%s, O_RDONLY): %s\n", file, strerror(errno));
            run_hook(on_failure);
            return denied ? EACCES : EXIT_NOT_OPENED;
        }
    }
    struct image_header header;
    struct job_state state;
    int error = read_head(&header, sizeof header);
    if (error == 0 && (memcmp(header.magic, SELFCKPT_MAGIC, sizeof header.magic) != 0 || header.version != 2))
        error = EINVAL;
    if (error == 0)
        error = read_head(&state, sizeof state);
    if (error != 0)
        return fail(error);
    bool orphan = header.orphan != 0;
    int ready[2];
    int states[2];
    if (pipe(ready) != 0 || pipe(states) != 0)
        return fail(errno);
    fcntl(ready[0], F_SETFD, FD_CLOEXEC);
    if (write(states[1], &state, sizeof state) != (ssize_t)sizeof state)
        return fail(errno);
    close(states[1]);
    pid_t job = make_job(restore_pid ? (pid_t)header.pid : 0, orphan, states[0], ready[1]);
    if (job < 0)
        return fail(errno);
    close(states[0]);
    close(ready[1]);
    close(image_fd);

    int32_t answer = 0;
    int status = 0;
    if (read(ready[0], &answer, sizeof answer) != (ssize_t)sizeof answer)
        answer = ECHILD;
    close(ready[0]);
    if (answer == 0 && stop && !(orphan ? stops(job) : waitpid(job, &status, WUNTRACED) == job))
        answer = ECHILD;
    if (answer != 0) {
        kill(job, SIGKILL);
        if (!orphan)
            waitpid(job, &status, 0);
        return fail(answer);
    }
    run_hook(on_success);
    if (orphan)
        return 0;
    /* A process that should stop may have ended in the meantime. */
    bool ended = stop && !WIFSTOPPED(status);
    if (!ended && waitpid(job, &status, 0) != job)
        return fail(errno);
    return end_like(status);
}
