/*
 * ppmr-pod-init: the init of a pod, and what starts a further command in one. Runs as the pod's user, in the pod.
 *
 *   ppmr-pod-init [--detach] [--directory DIR] [--input FILE] [--output FILE] [--error FILE] -- COMMAND [ARGUMENT...]
 *
 * Without --detach it is the pod's PID 1. It opens the files, starts the command in a session of its own, and reaps all
 * processes. It forwards SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGUSR2 to the command. It exits with the command's exit
 * status (128 plus the signal's number if a signal ended the command). Then the kernel kills the remaining processes of
 * the pod.
 *
 * With --detach it starts the command in the same way as a child of the pod's PID 1. It exits with 0 when the command
 * has started. It exits with 1, with the reason on standard error, if the command cannot start.
 *
 * No descriptor from outside of the pod stays open. Standard streams are the pod's own /dev/null unless files are
 * named. The user opens the files here, in the pod. Errors are written to the output's file unless a file is named for
 * them.
 *
 * PID 1 has no channel for the result of its start, so its name (/proc/PID/comm) shows it. The name is ppmr-pod after
 * the command started, and ppmr-pod!XN if it did not start. N is the errno, and X is d, i, o, e or c for directory,
 * input, output, error or command. After a failure it waits to be killed, for 10 s at most. See pid_namespaces(7),
 * proc_pid_comm(5), prctl(2).
 */
#define _GNU_SOURCE
#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    FAILURE_SHOWN_S = 10,
    BY_SIGNAL = 128
};

struct plan {
    const char *directory;
    const char *input;
    const char *output;
    const char *error;
    char **command;
};

/* The step that failed, and the errno. The step is 0 if all steps succeeded. */
struct failure {
    char what;
    int error;
};

static struct failure failed(char what)
{
    return (struct failure){.what = what, .error = errno};
}

/* Opens what the command gets as its standard streams, above those that this process has. */
static struct failure open_streams(const struct plan *plan, int streams[3])
{
    if (chdir(plan->directory) != 0)
        return failed('d');
    streams[0] = open(plan->input, O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (streams[0] < 0)
        return failed('i');
    streams[1] = open(plan->output, O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_CLOEXEC, 0666);
    if (streams[1] < 0)
        return failed('o');
    streams[2] = plan->error == NULL ? fcntl(streams[1], F_DUPFD_CLOEXEC, 0)
                                     : open(plan->error, O_WRONLY | O_CREAT | O_APPEND | O_NOCTTY | O_CLOEXEC, 0666);
    if (streams[2] < 0)
        return failed('e');
    return (struct failure){0};
}

static _Noreturn void become(const struct plan *plan, const int streams[3], int failures)
{
    sigset_t none;
    setsid();
    for (int fd = 0; fd <= 2; fd++) {
        if (dup2(streams[fd], fd) < 0)
            _exit(1);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(plan->command[0], plan->command);
    struct failure failure = failed('c');
    if (write(failures, &failure, sizeof failure) != (ssize_t)sizeof failure)
        _exit(1);
    _exit(1);
}

/* Starts the command, waits until it has started, and stores its PID in child. */
static struct failure start(const struct plan *plan, pid_t *child)
{
    int streams[3];
    int failures[2];
    struct failure failure = open_streams(plan, streams);
    if (failure.what != 0)
        return failure;
    if (pipe2(failures, O_CLOEXEC) != 0)
        return failed('c');
    *child = fork();
    if (*child < 0)
        return failed('c');
    if (*child == 0)
        become(plan, streams, failures[1]);
    close(failures[1]);
    for (int fd = 0; fd <= 2; fd++)
        close(streams[fd]);
    /* The kernel closes the pipe when the command starts. */
    ssize_t got;
    do
        got = read(failures[0], &failure, sizeof failure);
    while (got < 0 && errno == EINTR);
    close(failures[0]);
    return got == (ssize_t)sizeof failure ? failure : (struct failure){0};
}

/* Replaces this process's standard streams by the pod's own /dev/null, and closes all other descriptors. */
static bool forget_descriptors(void)
{
    int null = open("/dev/null", O_RDWR | O_NOCTTY);
    if (null < 0)
        return false;
    for (int fd = 0; fd <= 2; fd++) {
        if (dup2(null, fd) < 0)
            return false;
    }
    return close_descriptors(3, ~0U) == 0;
}

static int status_of(int ended)
{
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : BY_SIGNAL + WTERMSIG(ended);
}

/* Reaps children and forwards signals until the command ends. */
static int watch_over(pid_t child, const sigset_t *signals)
{
    for (;;) {
        siginfo_t info;
        int number = sigwaitinfo(signals, &info);
        if (number > 0 && number != SIGCHLD)
            kill(child, number);
        int ended;
        pid_t pid;
        while ((pid = waitpid(-1, &ended, WNOHANG)) > 0) {
            if (pid == child)
                return status_of(ended);
        }
    }
}

/* Shows the failure as this process's name, until the service has read it and ends this process. */
static _Noreturn void show(struct failure failure)
{
    char name[16];
    sigset_t end;
    struct timespec shown = {.tv_sec = FAILURE_SHOWN_S, .tv_nsec = 0};
    snprintf(name, sizeof name, "ppmr-pod!%c%d", failure.what, failure.error);
    prctl(PR_SET_NAME, name);
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    sigtimedwait(&end, NULL, &shown);
    exit(1);
}

static int run_init(const struct plan *plan)
{
    static const int watched[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    sigset_t signals;
    pid_t child = -1;
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof watched / sizeof watched[0]; i++)
        sigaddset(&signals, watched[i]);
    sigprocmask(SIG_SETMASK, &signals, NULL);
    setsid();
    if (!forget_descriptors())
        show(failed('i'));
    struct failure failure = start(plan, &child);
    if (failure.what != 0)
        show(failure);
    prctl(PR_SET_NAME, "ppmr-pod");
    return watch_over(child, &signals);
}

static const char *word(char what)
{
    switch (what) {
    case 'd':
        return "the directory";
    case 'i':
        return "the input";
    case 'o':
        return "the output";
    case 'e':
        return "the error output";
    default:
        return "the command";
    }
}

/* This process is no child of the pod's PID 1. Its child becomes one when this process ends. */
static int run_detached(const struct plan *plan)
{
    pid_t child = -1;
    if (close_descriptors(3, ~0U) != 0) {
        fprintf(stderr, "ppmr-pod-init: the descriptors cannot be closed: %s\n", strerror(errno));
        return 1;
    }
    struct failure failure = start(plan, &child);
    if (failure.what != 0) {
        fprintf(stderr, "ppmr-pod-init: %s: %s\n", word(failure.what), strerror(failure.error));
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct plan plan = {.directory = "/tmp", .input = "/dev/null", .output = "/dev/null", .error = NULL};
    bool detach = false;
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--detach") == 0)
            detach = true;
        else if (more && strcmp(argv[i], "--directory") == 0)
            plan.directory = argv[++i];
        else if (more && strcmp(argv[i], "--input") == 0)
            plan.input = argv[++i];
        else if (more && strcmp(argv[i], "--output") == 0)
            plan.output = argv[++i];
        else if (more && strcmp(argv[i], "--error") == 0)
            plan.error = argv[++i];
        else
            i = argc;
    }
    if (i + 1 >= argc || (!detach && getpid() != 1)) {
        fprintf(stderr, "usage, as PID 1 of a pod or with --detach: ppmr-pod-init [--detach] [--directory DIR]"
                " [--input FILE] [--output FILE] [--error FILE] -- COMMAND [ARGUMENT...]\n");
        return 2;
    }
    plan.command = argv + i + 1;
    return detach ? run_detached(&plan) : run_init(&plan);
}
