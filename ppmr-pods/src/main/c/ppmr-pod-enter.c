/*
 * ppmr-pod-enter: runs a further command in a pod that moved here from another node. The runtime does not know such a
 * pod.
 *
 *   ppmr-pod-enter --pid PID --start-ticks N --uid UID --gid GID [--group GID]... [--cgroup DIRECTORY]...
 *                  --environment FILE --seconds N -- COMMAND [ARGUMENT...]
 *
 * It starts as root, outside of the pod. PID is the pod's init. N is its start time (proc(5), field 22 of stat), so
 * that a later process with the same PID is rejected. FILE has the command's environment, each NAME=VALUE followed by a
 * zero byte. A command line would be readable by every process. The command runs in the pod's namespaces and in these
 * cgroups, as the user. It has no capability and cannot gain one. It has the system call filter of every pod, only that
 * environment, and no descriptors except standard input, output and error. Until it runs as the user, no process can
 * inspect or trace it, because it belongs to root.
 *
 * The command is killed after that number of seconds.
 *
 * Exit status: the command's, or 128 plus the signal's number if a signal ended the command. It is 125, with the reason
 * on standard error, if the command could not start. See setns(2), capabilities(7), pid_namespaces(7).
 */
#define _GNU_SOURCE
#include "kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    CANNOT = 125,
    BY_SIGNAL = 128,
    MOST = 8192,
    MOST_ENVIRONMENT_BYTES = 1 << 20,
    START_FIELD = 22,
    LAST_CAPABILITY = 63,
    LOCKED_MEMORY_BYTES = 64 << 10
};

static void die(const char *what)
{
    fprintf(stderr, "ppmr-pod-enter: %s: %s\n", what, strerror(errno));
    _exit(CANNOT);
}

static void refuse(const char *what)
{
    fprintf(stderr, "ppmr-pod-enter: %s\n", what);
    _exit(CANNOT);
}

static unsigned long long number(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *text == '-')
        refuse("a number was expected");
    return value;
}

/* Opens the folder of a process in /proc, which no later one of its number has. */
static int open_process(unsigned long long pid, unsigned long long start_ticks)
{
    char path[64], stat[4096];
    snprintf(path, sizeof path, "/proc/%llu", pid);
    int process = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int file = process < 0 ? -1 : openat(process, "stat", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, stat, sizeof stat - 1);
    if (length <= 0)
        refuse("the pod's init ended");
    close(file);
    stat[length] = '\0';
    /* Field 3 follows the name in parentheses, which may contain blanks. */
    char *at = strrchr(stat, ')');
    for (int field = 2; at != NULL && field < START_FIELD; field++)
        at = strchr(at + 1, ' ');
    if (at == NULL || strtoull(at + 1, NULL, 10) != start_ticks)
        refuse("the pod's init ended");
    return process;
}

/* Reads the variables, which stay in memory. */
static void read_environment(const char *path, char **environment)
{
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat kind;
    if (file < 0 || fstat(file, &kind) != 0)
        die(path);
    if (kind.st_size < 0 || kind.st_size > MOST_ENVIRONMENT_BYTES)
        refuse("the environment is too large");
    size_t bytes = (size_t)kind.st_size;
    char *text = calloc(bytes + 1, 1);
    if (text == NULL || read(file, text, bytes) != (ssize_t)bytes)
        die(path);
    close(file);
    size_t count = 0;
    for (char *at = text; at < text + bytes; at += strlen(at) + 1) {
        if (count == MOST)
            refuse("the environment has too many variables");
        environment[count++] = at;
    }
}

/* Sets the runtime's value, independently of this process's start. */
static void reset_oom_score(void)
{
    int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file < 0 || write(file, "0", 1) != 1)
        die("/proc/self/oom_score_adj");
    close(file);
}

static void out_of_time(int signal_number)
{
    (void)signal_number;
}

static int open_namespace(int process, const char *name)
{
    char path[32];
    snprintf(path, sizeof path, "ns/%s", name);
    int namespace = openat(process, path, O_RDONLY | O_CLOEXEC);
    /*
     * Kernels before Linux 4.6 have no cgroup namespaces, and kernels before Linux 5.6 have no time namespaces. An
     * ending process has only its PID namespace, and a namespace that is not entered is the node's. Therefore the other
     * namespaces must exist. The last one is entered after these two.
     */
    if (namespace < 0 && (errno != ENOENT || (strcmp(name, "cgroup") != 0 && strcmp(name, "time") != 0)))
        die(path);
    return namespace;
}

static void limit(int resource, rlim_t value)
{
    struct rlimit both = {value, value};
    if (setrlimit(resource, &both) != 0)
        die("setrlimit");
}

/*
 * The system calls that are denied to processes of a pod. io.ppmr.daemon.pods.PodSeccomp has the same list, with the
 * reasons. No program of this machine uses another calling convention.
 */
static const struct convention {
    unsigned int arch, clone, unshare, setns;
} conventions[] = {
#if defined(__x86_64__)
    {AUDIT_ARCH_X86_64, SYS_clone, SYS_unshare, SYS_setns},
    {AUDIT_ARCH_I386, 120, 310, 346},
#elif defined(__aarch64__)
    {AUDIT_ARCH_AARCH64, SYS_clone, SYS_unshare, SYS_setns},
    {AUDIT_ARCH_ARM, 120, 337, 375},
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
    {AUDIT_ARCH_PPC64LE, SYS_clone, SYS_unshare, SYS_setns},
#elif defined(__riscv) && __riscv_xlen == 64
    {AUDIT_ARCH_RISCV64, SYS_clone, SYS_unshare, SYS_setns},
#else
#error "the numbers of this machine's system calls are not known here"
#endif
};
/* These numbers are the same in all conventions. */
enum { CLONE3 = 435, LANDLOCK_CREATE_RULESET = 444 };
/* The numbers of x86-64's convention with short pointers have this bit. */
#define X32_BIT 0x40000000U

enum { CONVENTIONS = sizeof conventions / sizeof *conventions, RULES_EACH = 14 };

static void filter_calls(void)
{
    struct sock_filter rules[1 + CONVENTIONS * RULES_EACH + 1];
    size_t count = 0;
    rules[count++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    for (size_t i = 0; i < CONVENTIONS; i++) {
        const struct convention *calls = &conventions[i];
        const struct sock_filter block[RULES_EACH] = {
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls->arch, 0, RULES_EACH - 1),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
            BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~X32_BIT),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls->clone, 5, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls->unshare, 4, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls->setns, 5, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CLONE3, 5, 0),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, LANDLOCK_CREATE_RULESET, 4, 0),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
            BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
            BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWUSER, 0, 2),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
            BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        memcpy(rules + count, block, sizeof block);
        count += RULES_EACH;
    }
    rules[count++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS);
    struct sock_fprog program = {.len = (unsigned short)count, .filter = rules};
    /* Before Linux 4.17 there is no such flag, and what it is against is not done either. */
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program) != 0
        && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0)
        die("its system calls cannot be filtered");
}

static void become(uid_t uid, gid_t gid, const gid_t *groups, size_t group_count)
{
    if (leave_session_keyring() != 0)
        die("a session keyring cannot be made");
    for (int capability = 0; capability <= LAST_CAPABILITY; capability++) {
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno != EINVAL)
            die("a capability cannot be dropped");
    }
    if (setgroups(group_count, groups) != 0 || setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0)
        die("it cannot become the pod's user");
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0, 0, 0}};
    if (syscall(SYS_capset, &head, none) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        die("privileges cannot be dropped");
    /* No process of the user's can trace this one before the next execve(2), so none can keep it from this. */
    filter_calls();
}

int main(int argc, char **argv)
{
    static char *environment[MOST + 1];
    static gid_t groups[MOST];
    static int cgroups[MOST];
    size_t group_count = 0, cgroup_count = 0;
    unsigned long long pid = 0, start_ticks = 0, uid = 0, gid = 0, seconds = 0;
    int i = 1;
    for (; i + 1 < argc && strcmp(argv[i], "--") != 0; i += 2) {
        char *value = argv[i + 1];
        if (strcmp(argv[i], "--pid") == 0) {
            pid = number(value);
        } else if (strcmp(argv[i], "--start-ticks") == 0) {
            start_ticks = number(value);
        } else if (strcmp(argv[i], "--uid") == 0) {
            uid = number(value);
        } else if (strcmp(argv[i], "--gid") == 0) {
            gid = number(value);
        } else if (strcmp(argv[i], "--seconds") == 0) {
            seconds = number(value);
        } else if (strcmp(argv[i], "--group") == 0 && group_count < MOST) {
            unsigned long long group = number(value);
            if (!is_identity(group))
                refuse("a group's number was expected");
            groups[group_count++] = (gid_t)group;
        } else if (strcmp(argv[i], "--environment") == 0) {
            read_environment(value, environment);
        } else if (strcmp(argv[i], "--cgroup") == 0 && cgroup_count < MOST) {
            char path[PATH_MAX];
            snprintf(path, sizeof path, "%s/cgroup.procs", value);
            cgroups[cgroup_count] = open(path, O_WRONLY | O_CLOEXEC);
            if (cgroups[cgroup_count++] < 0)
                die(path);
        } else {
            refuse("see its source for what it takes");
        }
    }
    if (i + 1 >= argc || pid == 0 || uid == 0 || seconds == 0 || seconds > UINT_MAX || !is_identity(uid) || !is_identity(gid))
        refuse("a process, a user who is not root, and a command are wanted");
    int process = open_process(pid, start_ticks);
    /* CRIU creates a time namespace for the processes that it restores. */
    static const char *const names[] = {"net", "ipc", "uts", "cgroup", "time", "mnt"};
    int namespaces[sizeof names / sizeof *names];
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        namespaces[n] = open_namespace(process, names[n]);
    /* This one is its children's alone. */
    if (setns(open_namespace(process, "pid"), CLONE_NEWPID) != 0)
        die("the pod cannot be entered");
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child > 0) {
        int status;
        struct sigaction wakes = {.sa_handler = out_of_time};
        sigaction(SIGALRM, &wakes, NULL);
        alarm((unsigned int)seconds);
        while (waitpid(child, &status, 0) < 0) {
            if (errno != EINTR)
                die("waitpid");
            kill(child, SIGKILL);
        }
        return WIFEXITED(status) ? WEXITSTATUS(status) : BY_SIGNAL + WTERMSIG(status);
    }
    reset_oom_score();
    for (size_t n = 0; n < cgroup_count; n++) {
        if (write(cgroups[n], "0", 1) != 1)
            die("the pod's cgroup does not take it");
    }
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        if (namespaces[n] >= 0 && setns(namespaces[n], 0) != 0)
            die("the pod cannot be entered");
    }
    if (chdir("/") != 0)
        die("/");
    umask(022);
    setsid();
    sigset_t no_signals;
    sigemptyset(&no_signals);
    for (int signal_number = 1; signal_number < NSIG; signal_number++)
        signal(signal_number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &no_signals, NULL);
    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_MEMLOCK, LOCKED_MEMORY_BYTES);
    if (close_descriptors(3, ~0U) != 0)
        die("descriptors cannot be closed");
    become((uid_t)uid, (gid_t)gid, groups, group_count);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
        die("PR_SET_PDEATHSIG");
    environ = environment;
    execvp(argv[i + 1], &argv[i + 1]);
    die(argv[i + 1]);
}
