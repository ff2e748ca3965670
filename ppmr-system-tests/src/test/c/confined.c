/*
 * confined: tries to make and to enter a user namespace, and to make a Landlock domain, by each call and each calling
 * convention that the machine may have. Prints a line "CALL ERROR" for each, with the error's number, or 0 if it worked.
 *
 * What succeeds does so in a child that ends at once. user_namespaces(7), landlock(7).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Only machines that have a convention of 32 bits need low addresses. */
#ifndef MAP_32BIT
#define MAP_32BIT 0
#endif

enum { CLONE3 = 435, LANDLOCK_CREATE_RULESET = 444, LANDLOCK_VERSION = 1, KILLED = 255, X32 = 0x40000000 };

struct clone3_arguments {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls;
};

/* By the convention of 32 bits, where pointers are of 32 bits, too. */
static long call_32(long number, long first, long second, long third)
{
#ifdef __x86_64__
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(first), "c"(second), "d"(third), "S"(0L), "D"(0L)
                     : "memory", "r8", "r9", "r10", "r11");
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
#else
    (void)number, (void)first, (void)second, (void)third;
    errno = ENOSYS;
    return -1;
#endif
}

static void try_it(const char *name, int bits, long number, long first, long second, long third)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        pid_t self = getpid();
        long result = bits == 32 ? call_32(number, first, second, third) : syscall(number, first, second, third, 0L, 0L);
        if (getpid() != self)
            _exit(0);
        _exit(result < 0 ? errno : 0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        exit(1);
    printf("%s %d\n", name, WIFEXITED(status) ? WEXITSTATUS(status) : KILLED);
}

int main(void)
{
    struct clone3_arguments *arguments = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (arguments == MAP_FAILED)
        return 1;
    memset(arguments, 0, sizeof *arguments);
    arguments->flags = CLONE_NEWUSER;
    arguments->exit_signal = SIGCHLD;
    int own = open("/proc/self/ns/user", O_RDONLY);
    int other = open("/proc/self/ns/uts", O_RDONLY);
    if (own < 0 || other < 0)
        return 1;
    long user = CLONE_NEWUSER;
    try_it("clone", 64, SYS_clone, user | SIGCHLD, 0, 0);
    try_it("clone3", 64, CLONE3, (long)arguments, sizeof *arguments, 0);
    try_it("unshare", 64, SYS_unshare, user, 0, 0);
    try_it("unshare-all", 64, SYS_unshare, user | CLONE_NEWNS | CLONE_NEWNET, 0, 0);
    try_it("setns", 64, SYS_setns, own, CLONE_NEWUSER, 0);
    try_it("setns-any", 64, SYS_setns, other, 0, 0);
    try_it("landlock", 64, LANDLOCK_CREATE_RULESET, 0, 0, LANDLOCK_VERSION);
    /* Those of i386. */
    try_it("clone-32", 32, 120, user | SIGCHLD, 0, 0);
    try_it("clone3-32", 32, CLONE3, (long)arguments, sizeof *arguments, 0);
    try_it("unshare-32", 32, 310, user, 0, 0);
    try_it("landlock-32", 32, LANDLOCK_CREATE_RULESET, 0, 0, LANDLOCK_VERSION);
    try_it("unshare-x32", 64, X32 | SYS_unshare, user, 0, 0);
    /* What programs use of the same calls. */
    try_it("getpid-32", 32, 20, 0, 0, 0);
    try_it("fork-by-clone", 64, SYS_clone, SIGCHLD, 0, 0);
    try_it("unshare-files", 64, SYS_unshare, CLONE_FILES | CLONE_FS, 0, 0);
    return 0;
}
