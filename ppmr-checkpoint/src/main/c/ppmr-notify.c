/*
 * ppmr-notify: starts a command that can talk to systemd.
 *
 *   ppmr-notify COMMAND [ARGUMENT...]
 *
 * The socket that NOTIFY_SOCKET names takes datagrams, and the JDK's Unix sockets are streams. So it is connected here and
 * becomes the command's standard input, which a service has no other use for: what the command writes to descriptor 0 is
 * a message, and it comes from the main process itself, so NotifyAccess=main does. The variable is taken away, since
 * nothing that the command starts shall speak for it; PPMR_NOTIFY=stdin tells the command. Without NOTIFY_SOCKET the
 * command is started as it is. sd_notify(3), unix(7).
 *
 * Exit status: the command's; 125 if it could not be started.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { EXIT_NOT_STARTED = 125, SEND_LIMIT_S = 5 };

static int die(const char *what)
{
    fprintf(stderr, "ppmr-notify: %s: %s\n", what, strerror(errno));
    return EXIT_NOT_STARTED;
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, length);
    if (path[0] == '@')
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    struct timeval limit = {.tv_sec = SEND_LIMIT_S};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0
        || connect(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) != 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    return fd;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: ppmr-notify COMMAND [ARGUMENT...]\n");
        return EXIT_NOT_STARTED;
    }
    const char *path = getenv("NOTIFY_SOCKET");
    if (path != NULL) {
        int fd = connect_to(path);
        if (fd < 0 || dup2(fd, 0) < 0)
            return die(path);
        if (fd != 0)
            close(fd);
        if (unsetenv("NOTIFY_SOCKET") != 0 || setenv("PPMR_NOTIFY", "stdin", 1) != 0)
            return die("environment");
    }
    execvp(argv[1], argv + 1);
    return die(argv[1]);
}
