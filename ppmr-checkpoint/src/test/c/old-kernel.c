/* old-kernel: runs a command with the kernel interface of Linux 3.10.
 *
 *   old-kernel [--without NAME] COMMAND [ARGUMENT...]
 *
 * Every system call numbered 314 or higher fails with ENOSYS, in the command and in all its children: seccomp(2), by
 * prctl(2) as it was then. old-kernel-proc.so in this program's folder (LD_PRELOAD) hides later fields and files of
 * /proc. It also hides /proc/PID/NAME, such as map_files, which depends on the kernel's configuration. x86-64 only,
 * because elsewhere system calls have other numbers.
 *
 * Exit status: the command's; 125 if it could not be started. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { EXIT_NOT_STARTED = 125, FIRST_MISSING = 314 };

static void die(const char *what)
{
    fprintf(stderr, "old-kernel: %s: %s\n", what, strerror(errno));
    exit(EXIT_NOT_STARTED);
}

static void refuse_new_calls(void)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FIRST_MISSING, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof rules / sizeof *rules, .filter = rules};
    /* Root needs no promise to gain no privileges, and jobs that change their user must not have given it. */
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0
        && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0))
        die("the system calls cannot be filtered");
}

static void hide_new_files(void)
{
    char library[4096];
    ssize_t length = readlink("/proc/self/exe", library, sizeof library - 16);
    if (length < 0)
        die("/proc/self/exe");
    strcpy(library + length, "-proc.so");
    if (access(library, R_OK) != 0)
        die(library);
    if (setenv("LD_PRELOAD", library, 1) != 0)
        die("setenv");
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: old-kernel [--without NAME] COMMAND [ARGUMENT...]\n");
        return EXIT_NOT_STARTED;
    }
#ifndef __x86_64__
    fprintf(stderr, "old-kernel: the numbers of system calls are those of x86-64\n");
    return EXIT_NOT_STARTED;
#endif
    if (strcmp(argv[1], "--without") == 0) {
        if (argc < 4 || setenv("OLD_KERNEL_WITHOUT", argv[2], 1) != 0)
            die("--without NAME COMMAND");
        argv += 2;
    }
    hide_new_files();
    refuse_new_calls();
    execvp(argv[1], argv + 1);
    die(argv[1]);
}
