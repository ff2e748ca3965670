/*
 * without-nftables: runs a command as on a kernel without nf_tables.
 *
 *   without-nftables COMMAND [ARGUMENT...]
 *
 * socket(2) for NETLINK_NETFILTER fails with EPROTONOSUPPORT, in the command and in all its children, as where the kernel
 * has no nfnetlink. seccomp(2).
 *
 * Exit status: the command's; 125 if it could not be started.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { EXIT_NOT_STARTED = 125 };

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "without-nftables: %s: %s\n", what, strerror(errno));
    exit(EXIT_NOT_STARTED);
}

int main(int argc, char **argv)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 5),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NETLINK_NETFILTER, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPROTONOSUPPORT),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof rules / sizeof *rules, .filter = rules};
    if (argc < 2) {
        fprintf(stderr, "usage: without-nftables COMMAND [ARGUMENT...]\n");
        return EXIT_NOT_STARTED;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        die("the system calls cannot be filtered");
    execvp(argv[1], argv + 1);
    die(argv[1]);
}
