/* path-racer: does what an ordinary user can do to names that root is about to use. It runs until it is killed.
 *
 *   path-racer exchange DIRECTORY COUNT   exchanges folder-0 with other-0, and so on, as fast as possible
 *   path-racer plant TARGET NAME...       makes each name a symbolic link to TARGET, repeatedly
 *   path-racer fill DIRECTORY             makes files in it through a descriptor that it keeps open
 *   path-racer deep DIRECTORY COUNT       makes that many directories, each in the previous one, and ends
 *   path-racer lease FILE                 holds a write lease on it, so that an open of it blocks
 *
 * It prints "ready" when it has begun. renameat2(2), fcntl(2). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EXCHANGES_AT_ONCE = 200 };

static void ready(void)
{
    puts("ready");
    fflush(stdout);
}

static void exchange(const char *directory, int count)
{
    ready();
    for (;;) {
        int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
        for (int i = 0; fd >= 0 && i < EXCHANGES_AT_ONCE; i++) {
            char folder[32];
            char other[32];
            snprintf(folder, sizeof folder, "folder-%d", i % count);
            snprintf(other, sizeof other, "other-%d", i % count);
            renameat2(fd, folder, fd, other, RENAME_EXCHANGE);
        }
        if (fd >= 0)
            close(fd);
    }
}

static void plant(const char *target, char **names, int count)
{
    for (int round = 0;; round++) {
        for (int i = 0; i < count; i++) {
            if (symlink(target, names[i]) != 0 && errno == EEXIST)
                unlink(names[i]);
        }
        if (round == 0)
            ready();
    }
}

static void fill(const char *directory)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        perror(directory);
        exit(1);
    }
    ready();
    for (int i = 0;; i++) {
        char name[32];
        snprintf(name, sizeof name, "more-%d", i % 50);
        int file = openat(fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (file >= 0)
            close(file);
        mkdirat(fd, "deeper", 0700);
        mkdirat(fd, "deeper/still", 0700);
    }
}

static int deep(const char *directory, int count)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; fd >= 0 && i < count; i++) {
        int next = mkdirat(fd, "longname", 0700) == 0 ? openat(fd, "longname", O_RDONLY | O_DIRECTORY) : -1;
        close(fd);
        fd = next;
    }
    if (fd < 0)
        perror(directory);
    return fd < 0;
}

static void lease(const char *path)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    signal(SIGIO, SIG_IGN);
    if (fd < 0 || fcntl(fd, F_SETLEASE, F_WRLCK) != 0) {
        perror(path);
        exit(1);
    }
    ready();
    for (;;)
        pause();
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "exchange") == 0 && atoi(argv[3]) > 0) {
        exchange(argv[2], atoi(argv[3]));
    } else if (argc >= 4 && strcmp(argv[1], "plant") == 0) {
        plant(argv[2], argv + 3, argc - 3);
    } else if (argc == 3 && strcmp(argv[1], "fill") == 0) {
        fill(argv[2]);
    } else if (argc == 4 && strcmp(argv[1], "deep") == 0) {
        return deep(argv[2], atoi(argv[3]));
    } else if (argc == 3 && strcmp(argv[1], "lease") == 0) {
        lease(argv[2]);
    }
    fprintf(stderr, "usage: path-racer exchange DIRECTORY COUNT | plant TARGET NAME... | fill DIRECTORY"
            " | deep DIRECTORY COUNT | lease FILE\n");
    return 2;
}
