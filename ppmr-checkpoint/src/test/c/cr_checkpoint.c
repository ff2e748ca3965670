/*
 * cr_checkpoint: stands in for BLCR's program of that name, for selfckpt-job only. It takes BLCR's options and refuses
 * unknown ones; the job writes its context file itself, as BLCR's kernel module has a process do.
 *
 * Exit status: 0 the checkpoint is complete; 1 usage; otherwise the errno of what failed.
 */
#define _GNU_SOURCE
#include "selfckpt.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

static struct selfckpt_request request = {.policy = POLICY_ATOMIC, .after = AFTER_RUN, .sync = 1};
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

static void absolute(const char *path)
{
    char directory[PATH_MAX / 2] = "";
    if (*path != '/' && getcwd(directory, sizeof directory) == NULL) {
        perror("cr_checkpoint: getcwd");
        exit(1);
    }
    int length = *path == '/' ? snprintf(request.path, sizeof request.path, "%s", path)
                              : snprintf(request.path, sizeof request.path, "%s/%s", directory, path);
    if (length >= (int)sizeof request.path) {
        fprintf(stderr, "cr_checkpoint: file name too long\n");
        exit(ENAMETOOLONG);
    }
}

static void parse(int argc, char **argv)
{
    int option;
    while ((option = getopt_long(argc, argv, "pTf:F:t:q", OPTIONS, NULL)) != -1) {
        switch (option) {
        case 'p': case 'T': case 'q': break;
        case 'f': absolute(optarg); break;
        case 'F': image_fd = (int)positive(optarg); request.policy = POLICY_DESCRIPTOR; break;
        case 't': limit_s = positive(optarg); break;
        case OPTION_ATOMIC: request.policy = POLICY_ATOMIC; break;
        case OPTION_CLOBBER: request.policy = POLICY_CLOBBER; break;
        case OPTION_NOCLOBBER: request.policy = POLICY_NOCLOBBER; break;
        case OPTION_STOP: request.after = AFTER_STOP; break;
        case OPTION_CONT: request.after = AFTER_CONT; break;
        case OPTION_RUN: request.after = AFTER_RUN; break;
        case OPTION_TERM: request.after = AFTER_TERM; break;
        case OPTION_KILL: request.after = AFTER_KILL; break;
        case OPTION_SYNC: request.sync = 1; break;
        case OPTION_NOSYNC: request.sync = 0; break;
        case OPTION_VERSION: puts("cr_checkpoint version 0.8.5 (ppmr's stand-in for tests)"); exit(0);
        default: usage();
        }
    }
    if (optind != argc - 1)
        usage();
    if (image_fd >= 0 && *request.path != '\0') {
        fprintf(stderr, "cr_checkpoint: -f and -F exclude each other\n");
        usage();
    }
}

static int connect_to(int pid)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, SELFCKPT_SOCKET_FORMAT, pid);
    int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (connection < 0
        || connect(connection, (struct sockaddr *)&address,
                   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) != 0) {
        /* What BLCR says of a process without its library. */
        fprintf(stderr, "Failed cr_request_checkpoint of PID %d: %s\n", pid,
                errno == ECONNREFUSED ? "checkpoint support missing from application, or no such process" : strerror(errno));
        exit(errno == ECONNREFUSED ? ESRCH : errno);
    }
    return connection;
}

static void send_request(int connection)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {.iov_base = &request, .iov_len = sizeof request};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (image_fd >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &image_fd, sizeof(int));
    }
    if (sendmsg(connection, &message, MSG_NOSIGNAL) != (ssize_t)sizeof request) {
        perror("cr_checkpoint: cannot send the request");
        exit(EIO);
    }
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    int pid = (int)positive(argv[optind]);
    if (image_fd < 0 && *request.path == '\0') {
        char name[64];
        snprintf(name, sizeof name, "context.%d", pid);
        absolute(name);
    }
    int connection = connect_to(pid);
    send_request(connection);

    struct pollfd waiting = {.fd = connection, .events = POLLIN};
    int ready = poll(&waiting, 1, limit_s == 0 ? -1 : (int)(limit_s * 1000));
    if (ready == 0) {
        /* Closing the connection tells the job to give up and go on. */
        fprintf(stderr, "Checkpoint failed: %s\n", strerror(ETIME));
        return ETIME;
    }
    struct selfckpt_reply reply;
    if (ready < 0 || recv(connection, &reply, sizeof reply, 0) != (ssize_t)sizeof reply) {
        fprintf(stderr, "Checkpoint failed: no processes checkpointed (PID %d ended or was being checkpointed already)\n", pid);
        return ESRCH;
    }
    if (reply.error != 0) {
        reply.message[sizeof reply.message - 1] = '\0';
        fprintf(stderr, "Checkpoint failed: %s: %s\n", reply.message, strerror(reply.error));
        return reply.error;
    }
    return 0;
}
