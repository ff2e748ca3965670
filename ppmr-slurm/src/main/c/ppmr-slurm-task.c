/*
 * ppmr-slurm-task: what srun starts for each rank in place of the rank itself.
 *
 *   ppmr-slurm-task run --announce DIR --checkpointer NAME [--socket PATH] [--spare HOST:PORT]...
 *                       [--output FILE] [--error FILE] [--doubt-limit SECONDS] -- PROGRAM [ARGUMENT...]
 *   ppmr-slurm-task keep [--unknown-exit N] RANK:PID[,PID...]...
 *
 * "run" starts the program so that it can be checkpointed. The program has a session of its own, /dev/null as its
 * input, and files as its output. In their names "%t" is the rank, "%j" the job, "%N" the node. It has no other
 * descriptor. srun's own task leads no session, and its streams lead to slurmstepd. It announces the rank to the node's
 * source in DIR/jobs/UID/slurm-JOB.STEP/rank-N. Then it waits, and exits with the program's status (128 + signal if a
 * signal ended the program). On a request to its control socket (--socket), the source makes DIR/jobs/UID and transfers
 * it to the user. So no other process can create that name. An end by SIGKILL may be a move. Then the source's record
 * DIR/moves/UID/slurm-JOB.STEP contains the move, and the task exits with 0.
 *
 * "keep" watches a rank that was restored on this node. The task's place in the step selects the rank among its
 * arguments. It is no parent of that process, so it traces it (ptrace(2), PTRACE_SEIZE, which does not stop the
 * process). So it receives the exit status. If Slurm kills this task, the kernel kills the rank, too
 * (PTRACE_O_EXITKILL). If tracing is not permitted, it only waits for the end, and exits with the status for "unknown".
 *
 * Both print events on standard output, which srun passes to its caller, a line each:
 *   ppmr-rank N started JOBNAME NODE | moved ADDRESS PID,PID... | ended STATUS | kept PID | unknown STATUS
 *
 * SIGTERM, SIGINT, SIGHUP and SIGUSR1 are forwarded to the rank. SIGUSR2 is ignored. See signalfd(2), pidfd_open(2).
 * Exit status: the rank's, or 125 if the rank could not be started or watched.
 */
#define _GNU_SOURCE
#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    EXIT_NOT_STARTED = 125,
    SIGNALLED = 128,
    PATH_BYTES = 4096,
    /* The longest value of Slurm's that is taken: no node, job or step has a longer name. */
    MOST_VALUE_BYTES = 255,
    NUMBER_BYTES = 24,
    MAX_PIDS = 1024,
    MAX_SPARES = 64,
    RECORD_BYTES = 1 << 18,
    RECORD_POLL_MS = 200,
    ASK_TRIES = 25,
    ASK_LIMIT_S = 5,
    DEFAULT_DOUBT_S = 600,
    DEFAULT_UNKNOWN = 75
};

static const char *rank_text;

static void die(const char *what)
{
    fprintf(stderr, "ppmr-slurm-task: rank %s: %s: %s\n", rank_text, what, strerror(errno));
    exit(EXIT_NOT_STARTED);
}

static void usage(void)
{
    fprintf(stderr, "usage: ppmr-slurm-task run --announce DIR --checkpointer NAME [--socket PATH]"
                    " [--spare HOST:PORT]... [--output FILE] [--error FILE] [--doubt-limit SECONDS] -- PROGRAM [ARGUMENT...]\n"
                    "       ppmr-slurm-task keep [--unknown-exit N] RANK:PID[,PID...]...\n");
    exit(EXIT_NOT_STARTED);
}

static const char *required(const char *variable)
{
    const char *value = getenv(variable);
    if (value == NULL || *value == '\0') {
        fprintf(stderr, "ppmr-slurm-task: %s is not set: start it with srun, or by ppmr slurm-run\n", variable);
        exit(EXIT_NOT_STARTED);
    }
    if (strlen(value) > MOST_VALUE_BYTES) {
        fprintf(stderr, "ppmr-slurm-task: %s has %zu bytes, and at most %d are taken: start it with srun, which sets it\n",
                variable, strlen(value), MOST_VALUE_BYTES);
        exit(EXIT_NOT_STARTED);
    }
    return value;
}

static long number(const char *text, long least, long most)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || end == text || value < least || value > most) {
        fprintf(stderr, "ppmr-slurm-task: '%s' is not a number from %ld to %ld\n", text, least, most);
        exit(EXIT_NOT_STARTED);
    }
    return value;
}

static void print_event(const char *what, const char *more)
{
    printf("ppmr-rank %s %s%s%s\n", rank_text, what, *more == '\0' ? "" : " ", more);
    fflush(stdout);
}

static int end_with(int status)
{
    char text[NUMBER_BYTES];
    snprintf(text, sizeof text, "%d", status);
    print_event("ended", text);
    return status;
}

static int status_of(int wait_status)
{
    return WIFSIGNALED(wait_status) ? SIGNALLED + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

/* ---- run: start the rank --------------------------------------------------------------------------------------- */

static struct {
    const char *announce;
    const char *checkpointer;
    const char *socket;
    const char *output;
    const char *error;
    long doubt_s;
    const char *spares[MAX_SPARES];
    int spare_count;
} options = {.output = "/dev/null", .doubt_s = DEFAULT_DOUBT_S};

static char job_name[2 * MOST_VALUE_BYTES + 8];
static char job_directory[PATH_BYTES];
static char rank_file[PATH_BYTES];

/* A path that is cut off would be another one. */
static __attribute__((format(printf, 2, 3))) void make_path(char path[PATH_BYTES], const char *format, ...)
{
    va_list values;
    va_start(values, format);
    int length = vsnprintf(path, PATH_BYTES, format, values);
    va_end(values);
    if (length < 0 || length >= PATH_BYTES) {
        errno = ENAMETOOLONG;
        die(path);
    }
}

/* Returns the value of a "%" with the letter behind it, or NULL if the two have no special meaning. */
static const char *meant_by(const char *place)
{
    if (*place != '%')
        return NULL;
    switch (place[1]) {
    case 't':
        return rank_text;
    case 'j':
        return required("SLURM_JOB_ID");
    case 'N':
        return required("SLURMD_NODENAME");
    case '%':
        return "%";
    default:
        return NULL;
    }
}

static void fill(char path[PATH_BYTES], const char *pattern)
{
    size_t used = 0;
    for (const char *next = pattern; *next != '\0'; next++) {
        const char *value = meant_by(next);
        size_t length = value == NULL ? 1 : strlen(value);
        if (length >= PATH_BYTES - used) {
            errno = ENAMETOOLONG;
            die(pattern);
        }
        memcpy(path + used, value == NULL ? next : value, length);
        used += length;
        next += value == NULL ? 0 : 1;
    }
    path[used] = '\0';
}

static int open_output(const char *pattern)
{
    char path[PATH_BYTES];
    fill(path, pattern);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        die(path);
    return fd;
}

static void become_rank(char **command, const sigset_t *mask)
{
    int input = open("/dev/null", O_RDONLY);
    int output = open_output(options.output);
    int error = options.error == NULL || strcmp(options.error, options.output) == 0 ? dup(output)
                                                                                     : open_output(options.error);
    int complaints = fcntl(2, F_DUPFD_CLOEXEC, 64);
    if (input < 0 || error < 0 || complaints < 0 || setsid() < 0)
        die("cannot prepare the rank");
    dup2(input, 0);
    dup2(output, 1);
    dup2(error, 2);
    if (close_descriptors(3, (unsigned int)complaints - 1) != 0
        || close_descriptors((unsigned int)complaints + 1, ~0U) != 0)
        die("the descriptors cannot be closed");
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(command[0], command);
    dprintf(complaints, "ppmr-slurm-task: rank %s: %s: %s\n", rank_text, command[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

/* ---- run: announce it ------------------------------------------------------------------------------------------ */

/* Field 22 of /proc/PID/stat, which distinguishes a later process with the same PID. See proc(5). */
static long long start_ticks(int pid)
{
    char path[64];
    char text[4096];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (length <= 0)
        return -1;
    text[length] = '\0';
    char *field = strrchr(text, ')');
    for (int i = 2; field != NULL && i < 22; i++)
        field = strchr(field + 1, ' ');
    return field == NULL ? -1 : strtoll(field + 1, NULL, 10);
}

/*
 * An announced rank may be moved at once, so it must lead a session of its own by then. Returns when it does, or after
 * it ended.
 */
static void await_session(pid_t rank)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    for (;;) {
        siginfo_t end = {0};
        if (getsid(rank) == rank || waitid(P_PID, (id_t)rank, &end, WEXITED | WNOHANG | WNOWAIT) != 0 || end.si_pid != 0)
            return;
        nanosleep(&pause, NULL);
    }
}

/*
 * Requests the user's own folder from the source. Stores the answer in "answer", which is empty if the source does not
 * answer.
 */
static void ask_for_folder(char *answer, size_t bytes)
{
    static const char request[] = "{\"request\":\"announce\"}\n";
    const struct timeval limit = {.tv_sec = ASK_LIMIT_S};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *answer = '\0';
    snprintf(address.sun_path, sizeof address.sun_path, "%s", options.socket);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    size_t used = 0;
    ssize_t got;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0
        && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0
        && connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
        /* A source that has no connection free for this user answers at once, and reads no request. */
        if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0 && errno != EPIPE)
            *answer = '\0';
        while (used < bytes - 1 && (got = recv(fd, answer + used, bytes - 1 - used, 0)) > 0)
            used += (size_t)got;
    }
    int why = errno;
    close(fd);
    answer[used] = '\0';
    answer[strcspn(answer, "\n")] = '\0';
    errno = why;
}

/* The user's tasks on this node may be more than the source answers at a time: one of them is enough. */
static bool make_job_directory(char *answer, size_t bytes)
{
    const struct timespec pause = {.tv_nsec = 200000000};
    *answer = '\0';
    for (int tries = 0;; tries++) {
        if (mkdir(job_directory, 0755) == 0 || errno == EEXIST)
            return true;
        /* EACCES: the service made the user's folder for another rank, and will transfer it to the user next. */
        if ((errno != ENOENT && errno != EACCES) || options.socket == NULL || tries == ASK_TRIES)
            return false;
        ask_for_folder(answer, bytes);
        if (*answer == '\0')
            return false;
        if (strstr(answer, "\"announcing\"") == NULL)
            nanosleep(&pause, NULL);
    }
}

/* A job that cannot be announced continues. It cannot be moved. */
static void announce(pid_t rank)
{
    char part[sizeof rank_file + 8];
    char answer[512];
    snprintf(part, sizeof part, "%s.part", rank_file);
    FILE *file = make_job_directory(answer, sizeof answer) ? fopen(part, "we") : NULL;
    if (file != NULL) {
        fprintf(file, "pid = %d\nstart_ticks = %lld\ncheckpointer = \"%s\"\n", rank, start_ticks(rank),
                options.checkpointer);
        for (int i = 0; i < options.spare_count; i++)
            fprintf(file, "%s\"%s\"%s", i == 0 ? "spares = [" : ", ", options.spares[i],
                    i == options.spare_count - 1 ? "]\n" : "");
        bool written = fclose(file) == 0;
        if (written && rename(part, rank_file) == 0)
            return;
    }
    fprintf(stderr, "ppmr-slurm-task: rank %s cannot be moved, since it cannot be announced: %s: %s (does this node's"
                    " source run, and has it directory = \"%s\" in [announcements]?) %s\n",
            rank_text, rank_file, strerror(errno), options.announce, answer);
    *rank_file = '\0';
}

static void retract(void)
{
    if (*rank_file == '\0')
        return;
    unlink(rank_file);
    /* The last rank removes the folder. For the other ranks it is not empty. */
    if (rmdir(job_directory) != 0 && errno != ENOTEMPTY && errno != EEXIST && errno != ENOENT)
        fprintf(stderr, "ppmr-slurm-task: %s stays behind: %s\n", job_directory, strerror(errno));
}

/* ---- run: was it moved? ---------------------------------------------------------------------------------------- */

static bool read_record(char *text)
{
    char path[PATH_BYTES];
    make_path(path, "%s/moves/%u/%s", options.announce, (unsigned int)getuid(), job_name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t used = 0;
    ssize_t got;
    while (used < RECORD_BYTES - 1 && (got = read(fd, text + used, RECORD_BYTES - 1 - used)) > 0)
        used += (size_t)got;
    close(fd);
    text[used] = '\0';
    return used > 0;
}

/* Returns the PIDs of this rank in a record, which has a line "rank N PID,PID...", or NULL if there is none. */
static char *pids_in(char *text)
{
    char wanted[MOST_VALUE_BYTES + 16];
    snprintf(wanted, sizeof wanted, "\nrank %s ", rank_text);
    char *found = strstr(text, wanted);
    if (found == NULL)
        return NULL;
    found += strlen(wanted);
    found[strcspn(found, "\n")] = '\0';
    return found;
}

/*
 * The source ends an original with SIGKILL before it writes that the migration has committed. Reports the outcome of a
 * rank that was killed in this way. Returns true if the rank was moved.
 */
static bool was_moved(void)
{
    static char text[RECORD_BYTES];
    bool reported = false;
    for (long waited_ms = 0; waited_ms <= options.doubt_s * 1000; waited_ms += RECORD_POLL_MS) {
        if (!read_record(text))
            return false;
        bool doubt = strncmp(text, "in-doubt", 8) == 0;
        if (strncmp(text, "committed ", 10) == 0) {
            char *pids = pids_in(text);
            if (pids == NULL)
                return false;
            printf("ppmr-rank %s moved %.*s %s\n", rank_text, (int)strcspn(text + 10, "\n"), text + 10, pids);
            fflush(stdout);
            return true;
        }
        if (!doubt && strncmp(text, "underway", 8) != 0)
            return false;
        if (doubt && !reported) {
            reported = true;
            fprintf(stderr, "ppmr-slurm-task: rank %s: its migration is in doubt: it is held on the target and the"
                            " original is gone; waiting %ld s for an operator or the source to decide\n",
                    rank_text, options.doubt_s);
        }
        poll(NULL, 0, RECORD_POLL_MS);
    }
    fprintf(stderr, "ppmr-slurm-task: rank %s: its original was killed during a migration whose end was not written"
                    " within %ld s\n", rank_text, options.doubt_s);
    return false;
}

static int take_signals(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, before);
    /* If the parent ignored it, the kernel would reap in our place. */
    signal(SIGCHLD, SIG_DFL);
    sigset_t taken;
    sigemptyset(&taken);
    int wanted[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        sigaddset(&taken, wanted[i]);
    int fd = signalfd(-1, &taken, SFD_CLOEXEC);
    if (fd < 0)
        die("signalfd");
    return fd;
}

static int run(char **command)
{
    snprintf(job_name, sizeof job_name, "slurm-%s.%s", required("SLURM_JOB_ID"), required("SLURM_STEP_ID"));
    make_path(job_directory, "%s/jobs/%u/%s", options.announce, (unsigned int)getuid(), job_name);
    make_path(rank_file, "%s/rank-%s", job_directory, rank_text);
    sigset_t mask;
    int signals = take_signals(&mask);
    pid_t rank = fork();
    if (rank < 0)
        die("fork");
    if (rank == 0)
        become_rank(command, &mask);
    await_session(rank);
    announce(rank);
    char more[sizeof job_name + MOST_VALUE_BYTES + 2];
    snprintf(more, sizeof more, "%s %s", job_name, required("SLURMD_NODENAME"));
    print_event("started", more);
    int status;
    while (waitpid(rank, &status, WNOHANG) == 0) {
        struct signalfd_siginfo info;
        if (read(signals, &info, sizeof info) != (ssize_t)sizeof info)
            die("signalfd");
        if (info.ssi_signo != SIGCHLD && info.ssi_signo != SIGUSR2)
            kill(-rank, (int)info.ssi_signo);
    }
    retract();
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && was_moved())
        return 0;
    return end_with(status_of(status));
}

/* ---- keep ------------------------------------------------------------------------------------------------------ */

static pid_t pids[MAX_PIDS];
static int pid_count;

static void parse_kept(char *word)
{
    char *colon = strchr(word, ':');
    if (colon == NULL)
        usage();
    *colon = '\0';
    number(word, 0, INT_MAX);
    rank_text = word;
    for (char *next = strtok(colon + 1, ","); next != NULL && pid_count < MAX_PIDS; next = strtok(NULL, ","))
        pids[pid_count++] = (pid_t)number(next, 2, 1 << 30);
    if (pid_count == 0)
        usage();
}

static int unknown(long status, const char *why)
{
    char text[NUMBER_BYTES];
    snprintf(text, sizeof text, "%ld", status);
    fprintf(stderr, "ppmr-slurm-task: rank %s, PID %d: its exit status is not known: %s\n", rank_text, pids[0], why);
    print_event("unknown", text);
    return (int)status;
}

/* Lets a traced process that has stopped continue as it would untraced. */
static void pass(pid_t pid, int status)
{
    int delivered = WSTOPSIG(status);
    if (status >> 16 != PTRACE_EVENT_STOP)
        ptrace(PTRACE_CONT, pid, NULL, (void *)(long)delivered);
    else if (delivered == SIGSTOP || delivered == SIGTSTP || delivered == SIGTTIN || delivered == SIGTTOU)
        ptrace(PTRACE_LISTEN, pid, NULL, NULL);
    else
        ptrace(PTRACE_CONT, pid, NULL, NULL);
}

/* Waits for the end of a rank that cannot be traced. Without pidfds (before Linux 5.3), it polls the start time. */
static void await_end(int signals)
{
    long long start = start_ticks(pids[0]);
    int fd = (int)syscall(SYS_pidfd_open, pids[0], 0);
    bool looks = fd < 0 && errno == ENOSYS;
    struct pollfd waiting[] = {{.fd = fd, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    while (looks ? start >= 0 && start_ticks(pids[0]) == start : fd >= 0 && (waiting[0].revents & POLLIN) == 0) {
        if (poll(waiting, 2, looks ? RECORD_POLL_MS : -1) < 0 && errno != EINTR)
            die("poll");
        struct signalfd_siginfo info;
        if ((waiting[1].revents & POLLIN) != 0 && read(signals, &info, sizeof info) == (ssize_t)sizeof info
            && info.ssi_signo != SIGCHLD && info.ssi_signo != SIGUSR2) {
            for (int i = 0; i < pid_count; i++)
                kill(pids[i], (int)info.ssi_signo);
        }
    }
}

static int keep(long unknown_exit)
{
    sigset_t mask;
    int signals = take_signals(&mask);
    bool traced = false;
    for (int i = 0; i < pid_count; i++) {
        bool seized = ptrace(PTRACE_SEIZE, pids[i], NULL, (void *)PTRACE_O_EXITKILL) == 0;
        if (i == 0)
            traced = seized;
    }
    if (!traced && (errno == ESRCH || kill(pids[0], 0) != 0))
        return unknown(unknown_exit, "it had ended before it could be watched");
    char text[NUMBER_BYTES];
    snprintf(text, sizeof text, "%d", pids[0]);
    print_event("kept", text);
    if (!traced) {
        await_end(signals);
        return unknown(unknown_exit, "it may not be traced here (/proc/sys/kernel/yama/ptrace_scope)");
    }
    for (;;) {
        int status;
        pid_t pid;
        while ((pid = waitpid(-1, &status, __WALL | WNOHANG)) > 0) {
            if (WIFSTOPPED(status))
                pass(pid, status);
            else if (pid == pids[0])
                return end_with(status_of(status));
        }
        struct signalfd_siginfo info;
        if (read(signals, &info, sizeof info) != (ssize_t)sizeof info)
            die("signalfd");
        for (int i = 0; info.ssi_signo != SIGCHLD && info.ssi_signo != SIGUSR2 && i < pid_count; i++)
            kill(pids[i], (int)info.ssi_signo);
    }
}

static int keep_one_of(int argc, char **argv)
{
    long unknown_exit = DEFAULT_UNKNOWN;
    int first = 2;
    if (argc > 3 && strcmp(argv[2], "--unknown-exit") == 0) {
        unknown_exit = number(argv[3], 0, 255);
        first = 4;
    }
    if (first >= argc)
        usage();
    parse_kept(argv[first + number(required("SLURM_PROCID"), 0, argc - first - 1)]);
    return keep(unknown_exit);
}

/* Returns true if the text can be quoted in the announcement. */
static bool is_word(const char *text)
{
    return strpbrk(text, "\"\\\n") == NULL;
}

int main(int argc, char **argv)
{
    rank_text = getenv("SLURM_PROCID") == NULL ? "?" : getenv("SLURM_PROCID");
    if (argc > 2 && strcmp(argv[1], "keep") == 0)
        return keep_one_of(argc, argv);
    int i = 2;
    for (; i < argc && strcmp(argv[i], "--") != 0; i += 2) {
        if (i + 1 >= argc)
            usage();
        if (strcmp(argv[i], "--announce") == 0)
            options.announce = argv[i + 1];
        else if (strcmp(argv[i], "--checkpointer") == 0)
            options.checkpointer = argv[i + 1];
        else if (strcmp(argv[i], "--socket") == 0 && strlen(argv[i + 1]) < sizeof ((struct sockaddr_un *)0)->sun_path)
            options.socket = argv[i + 1];
        else if (strcmp(argv[i], "--output") == 0)
            options.output = argv[i + 1];
        else if (strcmp(argv[i], "--error") == 0)
            options.error = argv[i + 1];
        else if (strcmp(argv[i], "--spare") == 0 && options.spare_count < MAX_SPARES && is_word(argv[i + 1]))
            options.spares[options.spare_count++] = argv[i + 1];
        else if (strcmp(argv[i], "--doubt-limit") == 0)
            options.doubt_s = number(argv[i + 1], 1, 86400);
        else
            usage();
    }
    if (argc < 2 || strcmp(argv[1], "run") != 0 || i + 1 >= argc || options.announce == NULL
        || options.checkpointer == NULL || !is_word(options.checkpointer))
        usage();
    number(required("SLURM_PROCID"), 0, INT_MAX);
    return run(argv + i + 1);
}
