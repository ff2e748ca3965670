/* cr_checkpoint: replaces BLCR's program of that name, for selfckpt-job only. It accepts BLCR's options and refuses
 * unknown ones. It opens the context file and passes it on. The job writes it itself, as BLCR's kernel module lets a
 * process do. The real program's behaviour was recorded (blcr-session in src/test/resources of ppmr-linux):
 *
 *   - It opens with O_DIRECT if the filesystem supports that, and with O_NONBLOCK: a FIFO without a reader is ENXIO, and
 *     a full one ends the checkpoint with EAGAIN. -F accepts a FIFO; an anonymous pipe is EINVAL.
 *   - By default it writes to .NAME.tmp and renames in the end; --clobber and --noclobber write under the name.
 *   - The signal (--stop, --term) is sent when the process has written, even after a failed write.
 *   - A process that is stopped is checkpointed, too.
 *
 * Exit status: 0 if the checkpoint is complete, 1 for usage. Otherwise it is the errno of the failure: 17 the file
 * exists, 3 there was no process to checkpoint, 52 the process runs without BLCR's library, 56 it is traced. The
 * text of the last one was not recorded. */
#define _GNU_SOURCE
#include "selfckpt.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libgen.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { OPTION_ATOMIC = 256, OPTION_CLOBBER, OPTION_NOCLOBBER, OPTION_STOP, OPTION_CONT, OPTION_RUN, OPTION_TERM,
       OPTION_KILL, OPTION_SYNC, OPTION_NOSYNC, OPTION_VERSION };

static const struct option OPTIONS[] = {
    {"pid", no_argument, NULL, 'p'},
    {"process", no_argument, NULL, 'p'},
    {"tree", no_argument, NULL, 'T'},
    {"file", required_argument, NULL, 'f'},
    {"fd", required_argument, NULL, 'F'},
    {"atomic", no_argument, NULL, OPTION_ATOMIC},
    {"clobber", no_argument, NULL, OPTION_CLOBBER},
    {"noclobber", no_argument, NULL, OPTION_NOCLOBBER},
    {"stop", no_argument, NULL, OPTION_STOP},
    {"cont", no_argument, NULL, OPTION_CONT},
    {"run", no_argument, NULL, OPTION_RUN},
    {"term", no_argument, NULL, OPTION_TERM},
    {"kill", no_argument, NULL, OPTION_KILL},
    {"sync", no_argument, NULL, OPTION_SYNC},
    {"nosync", no_argument, NULL, OPTION_NOSYNC},
    {"time", required_argument, NULL, 't'},
    {"quiet", no_argument, NULL, 'q'},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

/* How the context file is created. */
enum policy { POLICY_ATOMIC, POLICY_CLOBBER, POLICY_NOCLOBBER, POLICY_DESCRIPTOR };

static struct selfckpt_request request = {.sync = 1};
static enum policy policy = POLICY_ATOMIC;
static int after; /* the signal that the process gets when it has written, 0 for none */
static char path[PATH_MAX];
static char written_path[PATH_MAX + 8];
static int image_fd = -1;
static long limit_s = 0;

static void usage(void)
{
    fprintf(stderr, "Usage: cr_checkpoint [options] ID\n"
                    "  -p|-T  -f FILE|-F FD  --atomic|--clobber|--noclobber  --stop|--cont|--run|--term|--kill\n"
                    "  -t SEC  --sync|--nosync\n");
    exit(1);
}

static long positive(const char *text)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || value < 0)
        usage();
    return value;
}

static void parse(int argc, char **argv)
{
    int option;
    while ((option = getopt_long(argc, argv, "pTf:F:t:q", OPTIONS, NULL)) != -1) {
        switch (option) {
        case 'p': case 'T': case 'q': break;
        case 'f': snprintf(path, sizeof path, "%s", optarg); break;
        case 'F': image_fd = (int)positive(optarg); policy = POLICY_DESCRIPTOR; break;
        case 't': limit_s = positive(optarg); break;
        case OPTION_ATOMIC: policy = POLICY_ATOMIC; break;
        case OPTION_CLOBBER: policy = POLICY_CLOBBER; break;
        case OPTION_NOCLOBBER: policy = POLICY_NOCLOBBER; break;
        case OPTION_STOP: after = SIGSTOP; break;
        case OPTION_CONT: after = SIGCONT; break;
        case OPTION_RUN: after = 0; break;
        case OPTION_TERM: after = SIGTERM; break;
        case OPTION_KILL: after = SIGKILL; break;
        case OPTION_SYNC: request.sync = 1; break;
        case OPTION_NOSYNC: request.sync = 0; break;
        case OPTION_VERSION: puts("cr_checkpoint version 0.8.6_b4 (ppmr's stand-in for tests)"); exit(0);
        default: usage();
        }
    }
    if (optind != argc - 1)
        usage();
    if (image_fd >= 0 && *path != '\0') {
        fprintf(stderr, "cr_checkpoint: -f and -F exclude each other\n");
        usage();
    }
}

/* Removes an incomplete context file. */
static int fail(int error)
{
    if (*written_path != '\0')
        unlink(written_path);
    return error;
}

static void open_image(void)
{
    if (policy == POLICY_DESCRIPTOR) {
        char link[64];
        char name[64] = "";
        snprintf(link, sizeof link, "/proc/self/fd/%d", image_fd);
        if (readlink(link, name, sizeof name - 1) < 0 || strncmp(name, "pipe:", 5) == 0) {
            fprintf(stderr, "Checkpoint failed: %s\n", strerror(EINVAL));
            exit(EINVAL);
        }
        return;
    }
    char folder[PATH_MAX];
    char name[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    snprintf(name, sizeof name, "%s", path);
    int length = policy == POLICY_ATOMIC
        ? snprintf(written_path, sizeof written_path, "%s/.%s.tmp", dirname(folder), basename(name))
        : snprintf(written_path, sizeof written_path, "%s", path);
    int flags = O_WRONLY | O_CREAT | O_NONBLOCK | O_CLOEXEC | (policy == POLICY_NOCLOBBER ? O_EXCL : O_TRUNC);
    errno = ENAMETOOLONG;
    if (length < (int)sizeof written_path)
        image_fd = open(written_path, flags | O_DIRECT, 0400);
    if (image_fd < 0 && errno == EINVAL)
        image_fd = open(written_path, flags & ~O_EXCL, 0400);
    if (image_fd < 0) {
        int error = errno;
        fprintf(stderr, "Unable to open file '%s': %s\nFailed to open checkpoint file '%s'\n", written_path,
                strerror(error), path);
        exit(error);
    }
    struct stat status;
    if (fstat(image_fd, &status) != 0 || S_ISFIFO(status.st_mode))
        *written_path = '\0';
}

static void refuse_traced(int pid)
{
    char name[64];
    char line[256];
    int tracer = 0;
    snprintf(name, sizeof name, "/proc/%d/status", pid);
    FILE *status = fopen(name, "re");
    if (status == NULL)
        return;
    while (fgets(line, sizeof line, status) != NULL && sscanf(line, "TracerPid: %d", &tracer) != 1)
        ;
    fclose(status);
    if (tracer != 0) {
        fprintf(stderr, "Checkpoint failed: %s\n", strerror(EBADRQC));
        exit(fail(EBADRQC));
    }
}

static int connect_to(int pid)
{
    refuse_traced(pid);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, SELFCKPT_SOCKET_FORMAT, pid);
    int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connection < 0
        || connect(connection, (struct sockaddr *)&address,
                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) != 0) {
        int error = errno;
        if (error != ECONNREFUSED) {
            fprintf(stderr, "Checkpoint failed: %s\n", strerror(error));
            exit(fail(error));
        }
        if (kill(pid, 0) != 0 && errno == ESRCH) {
            fprintf(stderr, "Checkpoint failed: no processes checkpointed\n");
            exit(fail(ESRCH));
        }
        fprintf(stderr, "Checkpoint failed: support missing from application\n");
        exit(fail(EBADE));
    }
    return connection;
}

/* BLCR's kernel module makes a stopped process write as well. A job that writes itself must run for that. */
static void wake_stopped(int pid)
{
    char name[64];
    char state = 0;
    snprintf(name, sizeof name, "/proc/%d/stat", pid);
    FILE *stat = fopen(name, "re");
    if (stat == NULL)
        return;
    if (fscanf(stat, "%*d (%*[^)]) %c", &state) == 1 && state == 'T')
        kill(pid, SIGCONT);
    fclose(stat);
}

static void send_request(int connection)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {.iov_base = &request, .iov_len = sizeof request};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &image_fd, sizeof(int));
    if (sendmsg(connection, &message, MSG_NOSIGNAL) != (ssize_t)sizeof request) {
        perror("cr_checkpoint: cannot send the request");
        exit(fail(EIO));
    }
    close(image_fd);
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    int pid = (int)positive(argv[optind]);
    if (image_fd < 0 && *path == '\0')
        snprintf(path, sizeof path, "context.%d", pid);
    open_image();
    request.waits = after != 0;
    int connection = connect_to(pid);
    send_request(connection);
    wake_stopped(pid);

    struct pollfd waiting = {.fd = connection, .events = POLLIN};
    int ready = poll(&waiting, 1, limit_s == 0 ? -1 : (int)(limit_s * 1000));
    if (ready == 0) {
        /* Closing the connection makes the job give up and continue. */
        fprintf(stderr, "Checkpoint failed: %s\n", strerror(ETIME));
        return fail(ETIME);
    }
    struct selfckpt_reply reply;
    if (ready < 0 || recv(connection, &reply, sizeof reply, 0) != (ssize_t)sizeof reply) {
        fprintf(stderr, "Checkpoint failed: no processes checkpointed\n");
        return fail(ESRCH);
    }
    int error = reply.error;
    if (error == 0 && policy == POLICY_ATOMIC && rename(written_path, path) != 0)
        error = errno;
    /* The job does not continue before the connection ends. */
    if (after != 0)
        kill(pid, after);
    if (error != 0)
        fprintf(stderr, "Checkpoint failed: %s\n", strerror(error));
    return error == 0 ? 0 : fail(error);
}
