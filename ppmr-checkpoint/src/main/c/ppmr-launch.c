/* ppmr-launch: starts a command so that it outlives the service, as the job's user on request.
 *
 *   ppmr-launch [--uid UID --gid GID [--groups GID,...] [--capability NUMBER]] [--report FILE] [--env NAME=VALUE]...
 *               [--breakpoints VALUE] [--gate FILE] [--enter PID [--directory DIRECTORY] [--same PATH]...]
 *               -- COMMAND [ARGUMENT...]
 *
 * The command gets its own session and session keyring, and no descriptor above 2. With --uid it gets the groups of
 * --groups, or only the given group. The caller reads the user database. Reading it for each command, with the
 * libraries that it loads, would cost half a millisecond. The process is the same before and after, so its PID is
 * the command's PID. credentials(7), close_range(2), session-keyring(7).
 *
 * With --capability the command keeps only that one capability of root. It is in the permitted, effective,
 * inheritable and ambient sets, so that an ordinary program has it. capabilities(7).
 *
 * With --report it is the main process of a transient service instead. The command is its child, whose PID it
 * prints. From then on its own standard streams and the command's are /dev/null and FILE, so that nothing ties
 * either of them to the requesting program. It ends as the command ends. However, systemd considers a main process
 * that SIGTERM killed as successful, and its caller must not.
 *
 * With --breakpoints it first tests whether a hardware breakpoint stops a traced process. If it does not, as in some
 * virtual machines, the command gets VALUE as CRIU_FAULT in its environment. CRIU sets breakpoints to stop a
 * process, and waits for ever if they have no effect. With 130 it uses system calls instead. ptrace(2).
 *
 * With --gate it then waits until the service unlocks FILE (F_SETLKW). It starts the command if the file has a byte by
 * then. A service that died has written none. So a command can be started in advance, and nothing but execve(2) is left
 * to do when it is needed. fcntl(2).
 *
 * With --enter the command runs in the PID and mount namespace of a rank that was moved here, whose init is PID. It
 * runs in DIRECTORY, which is opened outside. It is then a child of this process, which waits for it outside. Root's
 * programs enter only namespaces that root made. Their init runs ppmr's own program, all its user IDs are 0, and its
 * user namespace is this one's. Its record (namespace-record.h) identifies it. All of this is checked on a process
 * that is held by a descriptor, as are the entered namespaces. So a reused PID does no harm. Before the
 * first execve(2) inside, this program, which is linked statically, checks files. The root directory, the command,
 * its loader, the library folders and each PATH must be the same files as outside. So no file inside
 * can replace root's programs. setns(2).
 *
 * Exit status: the command's; 125 if it could not be started. */
#define _GNU_SOURCE
#include "kernel.h"
#include "namespace-record.h"
#include "same-files.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PR_CAP_AMBIENT
#define PR_CAP_AMBIENT 47
#define PR_CAP_AMBIENT_RAISE 2
#endif

enum { CAPABILITY_BITS = 32 * _LINUX_CAPABILITY_U32S_3 };

enum { EXIT_NOT_STARTED = 125, EXIT_BY_SIGNAL = 128 };

static void die(const char *what)
{
    fprintf(stderr, "ppmr-launch: %s: %s\n", what, strerror(errno));
    exit(EXIT_NOT_STARTED);
}

static long number(const char *text)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || end == text || value < 0 || !is_identity((unsigned long)value)) {
        fprintf(stderr, "ppmr-launch: '%s' is not a user or group number\n", text);
        exit(EXIT_NOT_STARTED);
    }
    return value;
}

static void become(uid_t uid, gid_t gid, char *groups)
{
    static gid_t all[NGROUPS_MAX] = {0};
    size_t count = 0;
    for (char *one = strtok(groups, ","); one != NULL && count < NGROUPS_MAX; one = strtok(NULL, ","))
        all[count++] = (gid_t)number(one);
    if (setgroups(count, all) != 0)
        die("cannot set the groups");
    if (setresgid(gid, gid, gid) != 0)
        die("cannot set the group");
    if (setresuid(uid, uid, uid) != 0)
        die("cannot set the user");
}

/* Reduces the permitted set that setresuid(2) has left (PR_SET_KEEPCAPS) to one capability, which execve(2) passes
 * on. */
static void keep_only(long capability)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{0, 0, 0}};
    __u32 bit = 1U << (capability % 32);
    sets[capability / 32] = (struct __user_cap_data_struct){.effective = bit, .permitted = bit, .inheritable = bit};
    if (syscall(SYS_capset, &header, sets) != 0)
        die("cannot keep the capability (the service lacks it, or the kernel does not know it)");
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) != 0)
        die("cannot pass the capability on (a kernel before Linux 4.3, or one that does not know it)");
}

/* Returns in the command's half. The other half stays until the command ends, and ends in the same way. */
static void report(const char *path)
{
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    /* The folder belongs to the service. O_NOFOLLOW refuses a link all the same. */
    int output = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (null < 0 || output < 0)
        die(path);
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child > 0) {
        printf("%d\n", (int)child);
        fflush(stdout);
    }
    if (dup2(null, 0) < 0 || dup2(output, 1) < 0 || dup2(output, 2) < 0)
        die("dup2");
    if (child == 0)
        return;
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            die("waitpid");
    }
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_BY_SIGNAL + WTERMSIG(status));
}

#ifdef __x86_64__
static volatile int reached;

static __attribute__((noinline)) void breakpoint_here(void)
{
    reached = 1;
}

/* Returns false only if a breakpoint was set, and the child ran past it. */
static bool breakpoints_stop(void)
{
    pid_t child = fork();
    if (child < 0)
        return true;
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || raise(SIGSTOP) != 0)
            _exit(0);
        breakpoint_here();
        _exit(reached);
    }
    int status;
    bool stopped = waitpid(child, &status, 0) == child && WIFSTOPPED(status);
    /* Debug register 0 has the address. Bit 0 of register 7 enables it for this process. */
    bool set = stopped && ptrace(PTRACE_POKEUSER, child, offsetof(struct user, u_debugreg[0]), breakpoint_here) == 0
               && ptrace(PTRACE_POKEUSER, child, offsetof(struct user, u_debugreg[7]), 1L) == 0
               && ptrace(PTRACE_CONT, child, NULL, NULL) == 0 && waitpid(child, &status, 0) == child;
    bool past = set && WIFEXITED(status) && WEXITSTATUS(status) == 1;
    if (stopped && !(set && WIFEXITED(status))) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    return !past;
}
#else
static bool breakpoints_stop(void)
{
    return true;
}
#endif

/* Returns when the service has opened the gate, and ends this program if the gate stays closed. */
static void wait_for_gate(const char *path)
{
    struct flock shared = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    char byte;
    int gate = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (gate < 0)
        die(path);
    while (fcntl(gate, F_SETLKW, &shared) != 0) {
        if (errno != EINTR)
            die(path);
    }
    if (read(gate, &byte, 1) != 1) {
        fprintf(stderr, "ppmr-launch: %s was not opened, so the command is not started\n", path);
        exit(EXIT_NOT_STARTED);
    }
    close(gate);
}

/* The arguments of --enter and the options behind it. */
struct entrance {
    const char *init;
    const char *directory;
    struct same_files same;
};

static _Noreturn void refuse(const char *init, const char *why)
{
    fprintf(stderr, "ppmr-launch: PID %s is not the init of a namespace that ppmr has made: %s. Root's programs enter no"
            " other. Remedy: move the rank by a tool that runs outside, or start it in the node's own namespaces\n", init, why);
    exit(EXIT_NOT_STARTED);
}

/* Opens a namespace of a process, whose folder in /proc is given. */
static int open_namespace(int process, const char *name, const char *init)
{
    int namespace = openat(process, name, O_RDONLY | O_CLOEXEC);
    if (namespace < 0)
        refuse(init, "it ended, or cannot be inspected");
    return namespace;
}

static bool is_roots(int process)
{
    char text[PROC_FILE_BYTES];
    unsigned int ids[4] = {1, 1, 1, 1};
    char *line = read_text_at(process, "status", text, sizeof text) ? strstr(text, "\nUid:") : NULL;
    return line != NULL && sscanf(line + 1, "Uid:%u%u%u%u", &ids[0], &ids[1], &ids[2], &ids[3]) == 4
           && (ids[0] | ids[1] | ids[2] | ids[3]) == 0;
}

/* Ends this program unless the process, whose folder in /proc is given, is an init that ppmr-rank-init has recorded. */
static void prove(int process, const char *init)
{
    int self = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (self < 0)
        die("/proc/self");
    /* On a kernel without user namespaces neither process has one. */
    if (namespace_inode(process, "ns/user") != namespace_inode(self, "ns/user"))
        refuse(init, "it has another user namespace than this service");
    close(self);
    if (!is_roots(process))
        refuse(init, "it does not belong to root");
    char found[RECORD_BYTES], recorded[RECORD_BYTES], name[RECORD_NAME_BYTES];
    if (!describe_init(process, found, name))
        refuse(init, strerror(errno));
    int records = open_records(false);
    if (records < 0)
        refuse(init, "there is no folder " RECORD_FOLDER " that only root can change");
    if (!read_text_at(records, name, recorded, sizeof recorded))
        refuse(init, "it has no record in " RECORD_FOLDER);
    close(records);
    if (strcmp(found, recorded) != 0)
        refuse(init, "its record in " RECORD_FOLDER " belongs to another process");
}

/* Finds a program as execvp(3) does, so that the same file is run inside. */
static const char *find_program(const char *name)
{
    static char path[PATH_MAX];
    const char *folders = getenv("PATH");
    if (strchr(name, '/') != NULL)
        return name;
    char *all = strdup(folders != NULL ? folders : "/usr/sbin:/usr/bin:/sbin:/bin");
    if (all == NULL)
        die("strdup");
    char *rest;
    for (char *folder = strtok_r(all, ":", &rest); folder != NULL; folder = strtok_r(NULL, ":", &rest)) {
        int length = snprintf(path, sizeof path, "%s/%s", folder, name);
        if (*folder == '/' && length > 0 && (size_t)length < sizeof path && access(path, X_OK) == 0) {
            free(all);
            return path;
        }
    }
    errno = ENOENT;
    die(name);
    exit(EXIT_NOT_STARTED);
}

static void note(struct same_files *same, const char *path)
{
    if (!note_same(same, path, 0))
        die(path);
}

/* Enters the namespaces, and returns in a child inside. This process waits outside and ends as the child ends. */
static const char *enter(struct entrance *into, const char *command)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld", number(into->init));
    int process = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (process < 0)
        refuse(into->init, "it ended");
    int pids = open_namespace(process, "ns/pid", into->init);
    int mounts = open_namespace(process, "ns/mnt", into->init);
    prove(process, into->init);
    close(process);
    int directory = open(into->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        die(into->directory);
    const char *program = find_program(command);
    if (!note_system(&into->same))
        die("libraries");
    note(&into->same, program);
    if (setns(pids, CLONE_NEWPID) != 0 || setns(mounts, CLONE_NEWNS) != 0)
        die("the rank's namespaces cannot be entered");
    close(pids);
    close(mounts);
    const char *other = find_other(&into->same);
    if (other != NULL) {
        fprintf(stderr, "ppmr-launch: %s is another file in the rank's mount namespace than outside, so nothing is started"
                " there. Remedy: unmount what lies there, or end the rank\n", other);
        exit(EXIT_NOT_STARTED);
    }
    pid_t child = fork();
    if (child < 0)
        die("fork");
    if (child == 0) {
        if (fchdir(directory) != 0)
            die(into->directory);
        close(directory);
        return program;
    }
    /* The waiting process must not keep a mount of the node. */
    close(directory);
    int status;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            die("waitpid");
    }
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_BY_SIGNAL + WTERMSIG(status));
}

int main(int argc, char **argv)
{
    static struct entrance entrance = {.directory = "/"};
    long uid = -1;
    long gid = -1;
    long capability = -1;
    char *gid_text = NULL;
    char *groups = NULL;
    const char *report_file = NULL;
    const char *without_breakpoints = NULL;
    const char *gate = NULL;
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i += 2) {
        if (i + 1 < argc && strcmp(argv[i], "--uid") == 0) {
            uid = number(argv[i + 1]);
        } else if (i + 1 < argc && strcmp(argv[i], "--gid") == 0) {
            gid = number(argv[i + 1]);
            gid_text = argv[i + 1];
        } else if (i + 1 < argc && strcmp(argv[i], "--groups") == 0) {
            groups = argv[i + 1];
        } else if (i + 1 < argc && strcmp(argv[i], "--capability") == 0) {
            capability = number(argv[i + 1]);
        } else if (i + 1 < argc && strcmp(argv[i], "--report") == 0) {
            report_file = argv[i + 1];
        } else if (i + 1 < argc && strcmp(argv[i], "--breakpoints") == 0) {
            without_breakpoints = argv[i + 1];
        } else if (i + 1 < argc && strcmp(argv[i], "--gate") == 0) {
            gate = argv[i + 1];
        } else if (i + 1 < argc && strcmp(argv[i], "--enter") == 0) {
            entrance.init = argv[i + 1];
        } else if (i + 1 < argc && strcmp(argv[i], "--directory") == 0) {
            entrance.directory = argv[i + 1];
        } else if (i + 1 < argc && strcmp(argv[i], "--same") == 0) {
            note(&entrance.same, argv[i + 1]);
        } else if (i + 1 < argc && strcmp(argv[i], "--env") == 0 && strchr(argv[i + 1], '=') != NULL) {
            if (putenv(argv[i + 1]) != 0)
                die("putenv");
        } else {
            break;
        }
    }
    if (i + 1 >= argc || strcmp(argv[i], "--") != 0 || (uid < 0) != (gid < 0)
        || ((capability >= 0 || groups != NULL) && uid < 0) || capability >= CAPABILITY_BITS) {
        fprintf(stderr, "usage: ppmr-launch [--uid UID --gid GID [--groups GID,...] [--capability NUMBER]]"
                " [--report FILE] [--env NAME=VALUE]... [--breakpoints VALUE] [--gate FILE]"
                " [--enter PID [--directory DIRECTORY] [--same PATH]...] -- COMMAND [ARGUMENT...]\n");
        return EXIT_NOT_STARTED;
    }
    if (close_descriptors(3, ~0U) != 0)
        die("the descriptors cannot be closed");
    if (report_file != NULL)
        report(report_file);
    if (without_breakpoints != NULL && !breakpoints_stop() && setenv("CRIU_FAULT", without_breakpoints, 1) != 0)
        die("setenv");
    if (setsid() < 0 && errno != EPERM)
        die("setsid");
    if (leave_session_keyring() != 0)
        die("a session keyring cannot be made");
    if (gate != NULL)
        wait_for_gate(gate);
    const char *program = argv[i + 1];
    if (entrance.init != NULL) {
        program = enter(&entrance, program);
        /* The command leads a session inside, because CRIU joins the session of a process that leads none. */
        if (setsid() < 0)
            die("setsid");
    }
    if (capability >= 0 && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0)
        die("PR_SET_KEEPCAPS");
    if (uid >= 0)
        become((uid_t)uid, (gid_t)gid, groups != NULL ? groups : gid_text);
    if (capability >= 0)
        keep_only(capability);
    execvp(program, argv + i + 1);
    die(program);
}
