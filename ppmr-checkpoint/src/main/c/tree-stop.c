/* See tree-stop.h. The helper is single-threaded; its globals are its own. */
#define _GNU_SOURCE
#include "tree-stop.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"
#include "userfaultfd.h"

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif
#ifndef PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
#define PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG 0x4211
#endif
#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif

enum {
    MOST_PROCESSES = 1024,
    MOST_THREADS = 1 << 16,
    THREAD_TABLE = 1 << 17,
    STOP_LIMIT_MS = 1000,
    ANSWER_LIMIT_MS = 5000,
    /* The longest stop; a look at a large process takes some seconds. */
    HOLD_LIMIT_MS = 30000,
    LOOK_NS = 50000,
    /* A signal can interrupt an injection, which is tried again. */
    MOST_TRIES = 5,
    STEP_LIMIT_MS = 500,
    XSTATE_ROOM = 16384,
    RED_ZONE = 128,
    XSTATE_ALIGNMENT = 64,
    FX_HEAD = 464,
    FX_BYTES = 512,
    XSTATE_HEADER = 64,
    USER_CODE_SEGMENT = 0x33,
    TRAP_FLAG = 0x100,
    PATH_ROOM = 64,
    /* States of AMX, which a thread has only if it asked for them. */
    FIRST_OPTIONAL_STATE = 17,
    MOST_STATES = 63
};

/* Results of interrupted calls that user programs never see, linux/errno.h. */
enum { ERESTARTSYS = 512, ERESTARTNOINTR = 513, ERESTARTNOHAND = 514, ERESTART_RESTARTBLOCK = 516 };

enum { MESSAGE_STOPPED = 1, MESSAGE_MADE, MESSAGE_FAILED, MESSAGE_END };

/*
 * What the helper sends; the processes follow a message of the first kind, a descriptor comes with the second one. With
 * the last one the helper ends.
 */
struct stop_message {
    uint32_t kind;
    uint32_t count;
    char why[STOP_REASON_BYTES];
};

/* ---- both ------------------------------------------------------------------------------------------------------ */

static bool send_all(int channel, const void *data, size_t length)
{
    const char *at = data;
    while (length > 0) {
        ssize_t sent = send(channel, at, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent <= 0) {
            return false;
        }
        at += sent;
        length -= (size_t)sent;
    }
    return true;
}

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000U + (uint64_t)now.tv_nsec / 1000000U;
}

/* ---- the caller ------------------------------------------------------------------------------------------------ */

/* Receives all of something, with a descriptor if `descriptor` is not NULL. */
static bool receive_all(int channel, void *data, size_t length, int *descriptor)
{
    uint64_t deadline = now_ms() + ANSWER_LIMIT_MS;
    char *at = data;
    while (length > 0) {
        struct pollfd polled = {channel, POLLIN, 0};
        uint64_t now = now_ms();
        int ready = now >= deadline ? 0 : poll(&polled, 1, (int)(deadline - now));
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (ready <= 0) {
            return false;
        }
        union {
            struct cmsghdr head;
            char room[CMSG_SPACE(sizeof(int))];
        } control;
        struct iovec part = {at, length};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.room,
                                 .msg_controllen = sizeof control.room};
        ssize_t got = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return false;
        }
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        if (descriptor != NULL && head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS
            && head->cmsg_len == CMSG_LEN(sizeof(int))) {
            memcpy(descriptor, CMSG_DATA(head), sizeof(int));
        }
        at += got;
        length -= (size_t)got;
    }
    return true;
}

bool holds_tree(const struct tree_stop *stop)
{
    siginfo_t ended = {0};
    return stop->helper > 0 && waitid(P_PID, (id_t)stop->helper, &ended, WEXITED | WNOHANG | WNOWAIT) == 0
        && ended.si_pid == 0;
}

bool continue_tree(struct tree_stop *stop)
{
    if (stop->helper <= 0) {
        return false;
    }
    /* Before the channel is closed, whose end would end the helper. */
    bool held = waitpid(stop->helper, NULL, WNOHANG) == 0;
    close(stop->channel);
    if (held) {
        kill(stop->helper, SIGKILL);
    }
    while (held && waitpid(stop->helper, NULL, 0) < 0 && errno == EINTR) {
        continue;
    }
    stop->helper = 0;
    return held;
}

static void start_helper(int channel, int root, uint64_t root_start, pid_t parent)
{
    char numbers[3][24];
    snprintf(numbers[0], sizeof numbers[0], "%d", channel);
    snprintf(numbers[1], sizeof numbers[1], "%d", root);
    snprintf(numbers[2], sizeof numbers[2], "%" PRIu64, root_start);
    char *words[] = {"ppmr-pages", "stop", numbers[0], numbers[1], numbers[2], NULL};
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent && fcntl(channel, F_SETFD, 0) == 0) {
        execv("/proc/self/exe", words);
    }
    _exit(1);
}

bool stop_tree(struct tree_stop *stop, int root, uint64_t root_start, struct stopped_process **list, size_t *count,
               char why[STOP_REASON_BYTES])
{
    int pair[2];
    pid_t parent = getpid();
    *list = NULL;
    *count = 0;
    stop->helper = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        snprintf(why, STOP_REASON_BYTES, "no pair of sockets can be made: %s", strerror(errno));
        return false;
    }
    pid_t helper = fork();
    if (helper == 0) {
        start_helper(pair[1], root, root_start, parent);
    }
    close(pair[1]);
    if (helper < 0) {
        close(pair[0]);
        snprintf(why, STOP_REASON_BYTES, "no process can be made: %s", strerror(errno));
        return false;
    }
    *stop = (struct tree_stop){helper, pair[0]};
    struct stop_message message;
    bool answered = receive_all(stop->channel, &message, sizeof message, NULL);
    if (answered && message.kind == MESSAGE_STOPPED && message.count > 0 && message.count <= MOST_PROCESSES) {
        *list = calloc(message.count, sizeof **list);
        if (*list != NULL && receive_all(stop->channel, *list, message.count * sizeof **list, NULL)) {
            *count = message.count;
            return true;
        }
        answered = false;
    }
    if (answered) {
        message.why[STOP_REASON_BYTES - 1] = '\0';
        memcpy(why, message.why, STOP_REASON_BYTES);
    } else {
        snprintf(why, STOP_REASON_BYTES, "the helper that stops the processes ended");
    }
    free(*list);
    *list = NULL;
    continue_tree(stop);
    return false;
}

int make_userfaultfd(struct tree_stop *stop, int pid, char why[STOP_REASON_BYTES])
{
    int32_t wanted = pid;
    struct stop_message message;
    int made = -1;
    if (stop->helper <= 0 || !send_all(stop->channel, &wanted, sizeof wanted)
        || !receive_all(stop->channel, &message, sizeof message, &made)) {
        snprintf(why, STOP_REASON_BYTES, "the helper that stops the processes ended");
        /* A late answer must not be taken for that of another process. */
        continue_tree(stop);
        return -1;
    }
    if (message.kind == MESSAGE_MADE && made >= 0) {
        return made;
    }
    message.why[STOP_REASON_BYTES - 1] = '\0';
    memcpy(why, message.why, STOP_REASON_BYTES);
    if (message.kind == MESSAGE_END) {
        continue_tree(stop);
    }
    return -1;
}

#ifdef __x86_64__

/* ---- the helper: threads --------------------------------------------------------------------------------------- */

struct thread {
    int tid;
    int pid;
    bool stopped;
    bool gone;
};

static struct thread threads[MOST_THREADS];
static size_t thread_count;
/* Places of threads by their number; 0 is none. */
static uint32_t thread_table[THREAD_TABLE];
static struct stopped_process processes[MOST_PROCESSES];
static size_t process_count;
static int channel_to_caller;

__attribute__((noreturn, format(printf, 1, 2))) static void give_up(const char *format, ...)
{
    struct stop_message message = {.kind = MESSAGE_END};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message.why, sizeof message.why, format, arguments);
    va_end(arguments);
    send_all(channel_to_caller, &message, sizeof message);
    _exit(1);
}

static uint32_t *table_place(int tid)
{
    uint32_t at = (uint32_t)tid * 2654435761U % THREAD_TABLE;
    while (thread_table[at] != 0 && threads[thread_table[at] - 1].tid != tid) {
        at = (at + 1) % THREAD_TABLE;
    }
    return &thread_table[at];
}

static struct thread *find_thread(int tid)
{
    uint32_t place = *table_place(tid);
    return place == 0 ? NULL : &threads[place - 1];
}

/* The time at which a process was started, the 22nd field of its stat; 0 if it is gone. proc(5). */
static uint64_t start_of(int pid, char *state)
{
    char path[PATH_ROOM];
    char text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) {
        close(file);
    }
    if (length <= 0) {
        return 0;
    }
    text[length] = '\0';
    char *at = strrchr(text, ')');
    if (at == NULL || at[1] == '\0') {
        return 0;
    }
    at += 2;
    *state = *at;
    for (int field = 3; field < 22 && at != NULL; field++) {
        at = strchr(at, ' ');
        at = at == NULL ? NULL : at + 1;
    }
    return at == NULL ? 0 : strtoull(at, NULL, 10);
}

/* The number of a process in its own namespace; 0 if it is gone. */
static int inner_of(int pid)
{
    char path[PATH_ROOM];
    char line[256];
    int inner = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *status = fopen(path, "re");
    while (status != NULL && inner == 0 && fgets(line, sizeof line, status) != NULL) {
        char *last = strrchr(line, '\t');
        if (strncmp(line, "NSpid:", 6) == 0 && last != NULL) {
            inner = atoi(last + 1);
        }
    }
    if (status != NULL) {
        fclose(status);
    }
    return inner;
}

/* Begins to stop a thread. Returns true if it was not known. */
static bool seize(int pid, int tid)
{
    uint32_t *place = table_place(tid);
    if (*place != 0) {
        return false;
    }
    if (thread_count == MOST_THREADS) {
        give_up("the job has more than %d threads", (int)MOST_THREADS);
    }
    struct thread *thread = &threads[thread_count++];
    *thread = (struct thread){tid, pid, false, false};
    *place = (uint32_t)thread_count;
    if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) != 0 || ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) != 0) {
        if (errno == ESRCH) {
            thread->gone = true;
            return true;
        }
        char state = '?';
        if (start_of(tid, &state) == 0 || state == 'Z' || state == 'X') {
            thread->gone = true;
            return true;
        }
        give_up("thread %d of PID %d cannot be traced: %s. Remedy: end the debugger that traces it", tid, pid,
                strerror(errno));
    }
    /* Its number is its own from now on. Before, another process's thread could have taken it. */
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "/proc/%d/task/%d", pid, tid);
    if (access(path, F_OK) != 0) {
        give_up("thread %d is no longer one of PID %d", tid, pid);
    }
    return true;
}

/* Seizes all threads of a process that are not known. Returns true if there was one. */
static bool seize_process(int pid)
{
    char path[PATH_ROOM];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL) {
        return false;
    }
    for (struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks)) {
        int tid = atoi(entry->d_name);
        if (tid > 0 && seize(pid, tid)) {
            found = true;
        }
    }
    closedir(tasks);
    return found;
}

static bool add_process(int pid)
{
    for (size_t i = 0; i < process_count; i++) {
        if (processes[i].pid == pid) {
            return false;
        }
    }
    char state = '?';
    uint64_t start = start_of(pid, &state);
    if (start == 0) {
        return false;
    }
    if (process_count == MOST_PROCESSES) {
        give_up("the job has more than %d processes", (int)MOST_PROCESSES);
    }
    processes[process_count++] = (struct stopped_process){pid, 0, start};
    return true;
}

/* Adds the children of a process that are not known. Returns true if there was one. */
static bool add_children(int pid)
{
    char path[PATH_ROOM];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL) {
        return false;
    }
    for (struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks)) {
        char name[PATH_ROOM + NAME_MAX];
        int child;
        if (entry->d_name[0] == '.') {
            continue;
        }
        snprintf(name, sizeof name, "/proc/%d/task/%s/children", pid, entry->d_name);
        FILE *children = fopen(name, "re");
        while (children != NULL && fscanf(children, "%d", &child) == 1) {
            found |= add_process(child);
        }
        if (children != NULL) {
            fclose(children);
        }
    }
    closedir(tasks);
    return found;
}

/* Has the kernel start a call again that would return EINTR although no signal is handled. */
static void restart_call(int tid)
{
    struct user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, tid, NULL, &registers) != 0 || registers.cs != USER_CODE_SEGMENT) {
        return;
    }
    long call = (long)registers.orig_rax;
    bool waits = call == SYS_epoll_wait || call == SYS_epoll_pwait || call == SYS_epoll_pwait2;
    if (waits && (long)registers.rax == -EINTR) {
        registers.rax = (unsigned long long)-ERESTARTNOHAND;
        ptrace(PTRACE_SETREGS, tid, NULL, &registers);
    }
}

/* Takes one report of a thread. */
static void take_report(int tid, int status)
{
    struct thread *thread = find_thread(tid);
    if (thread == NULL) {
        return;
    }
    if (!WIFSTOPPED(status)) {
        thread->gone = true;
    } else if (status >> 16 == PTRACE_EVENT_STOP) {
        thread->stopped = true;
        restart_call(tid);
    } else {
        /* A signal is on its way to the thread. It is delivered, and the thread stops behind that. */
        int signal = status >> 16 == 0 && (WSTOPSIG(status) & 0x80) == 0 ? WSTOPSIG(status) : 0;
        ptrace(PTRACE_CONT, tid, NULL, (void *)(intptr_t)signal);
    }
}

static const struct thread *first_running(void)
{
    for (size_t i = 0; i < thread_count; i++) {
        if (!threads[i].stopped && !threads[i].gone) {
            return &threads[i];
        }
    }
    return NULL;
}

static void await_stop(uint64_t deadline)
{
    const struct thread *running;
    while ((running = first_running()) != NULL) {
        int status;
        pid_t tid = waitpid(-1, &status, __WALL | WNOHANG);
        if (tid > 0) {
            take_report(tid, status);
            continue;
        }
        if (tid < 0 && errno != EINTR) {
            give_up("the threads cannot be waited for: %s", strerror(errno));
        }
        if (now_ms() > deadline) {
            give_up("thread %d of PID %d has not stopped within %d ms: it waits in the kernel", running->tid,
                    running->pid, (int)STOP_LIMIT_MS);
        }
        struct timespec pause = {0, LOOK_NS};
        nanosleep(&pause, NULL);
    }
}

static bool has_stopped_thread(int pid)
{
    for (size_t i = 0; i < thread_count; i++) {
        if (threads[i].pid == pid && threads[i].stopped && !threads[i].gone) {
            return true;
        }
    }
    return false;
}

/* The PID namespace of a process; 0 if it is gone. */
static uint64_t namespace_of(int pid)
{
    char path[PATH_ROOM];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/ns/pid", pid);
    return stat(path, &status) == 0 ? status.st_ino : 0;
}

/*
 * Leaves out processes that ended, and are not waited for yet; and those of other PID namespaces, whose numbers there
 * could be those of processes of the root's namespace. No process is of another time than when it was listed.
 */
static void keep_living(void)
{
    size_t kept = 0;
    uint64_t namespace = namespace_of(processes[0].pid);
    for (size_t i = 0; i < process_count; i++) {
        char state = '?';
        uint64_t start = start_of(processes[i].pid, &state);
        if (start != 0 && start != processes[i].start) {
            give_up("PID %d is another process by now", processes[i].pid);
        }
        if (has_stopped_thread(processes[i].pid) && namespace_of(processes[i].pid) == namespace) {
            processes[kept] = processes[i];
            processes[kept].inner = inner_of(processes[kept].pid);
            kept++;
        }
    }
    process_count = kept;
    if (process_count == 0) {
        give_up("the job ended");
    }
}

static void stop_all(int root, uint64_t root_start)
{
    uint64_t deadline = now_ms() + STOP_LIMIT_MS;
    if (!add_process(root) || processes[0].start != root_start) {
        give_up("PID %d ended", root);
    }
    bool found = true;
    while (found) {
        found = false;
        for (size_t i = 0; i < process_count; i++) {
            found |= seize_process(processes[i].pid);
        }
        await_stop(deadline);
        /* Stopped threads make no new ones. */
        for (size_t i = 0; i < process_count; i++) {
            found |= add_children(processes[i].pid);
        }
        if (now_ms() > deadline) {
            give_up("the job makes new threads or processes for more than %d ms", (int)STOP_LIMIT_MS);
        }
    }
    keep_living();
}

/* ---- the helper: injection -------------------------------------------------------------------------------------- */

/* struct sigcontext_64 and struct ucontext of the kernel, asm/sigcontext.h. */
struct signal_context {
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags;
    uint16_t cs, gs, fs, ss;
    uint64_t error, trap, old_mask, cr2, state;
    uint64_t reserved[8];
};

struct signal_frame {
    uint64_t returns_to;
    uint64_t flags;
    uint64_t link;
    uint64_t stack;
    int32_t stack_flags;
    int32_t padding;
    uint64_t stack_bytes;
    struct signal_context context;
    uint64_t mask;
};

_Static_assert(sizeof(struct signal_context) == 256 && offsetof(struct signal_frame, context) == 48,
               "the kernel reads frames of this layout, sigreturn(2)");

enum {
    FRAME_HAS_STATE = 1,
    FRAME_HAS_SS = 2,
    FRAME_STRICT_SS = 4,
    /* An alternate stack that sigaltstack(2) refuses: the thread keeps its own. */
    NO_STACK_CHANGE = 0x7fff
};

#define STATE_MAGIC1 0x46505853U
#define STATE_MAGIC2 0x46505845U

/*
 * What the thread runs: it makes the descriptor, closes it, and returns to the point where it was stopped. It does all
 * of that without the tracer if the tracer ends.
 *   syscall; xchg edi,eax; mov eax,3; syscall; mov eax,15; syscall
 */
static const uint8_t CODE[] = {0x0f, 0x05, 0x97, 0xb8, 0x03, 0x00, 0x00, 0x00, 0x0f, 0x05,
                               0xb8, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05};

/* The code from here on closes the descriptor in rax. */
enum { CLOSE_OFFSET = 2 };

/* struct ptrace_rseq_configuration, and the place of rseq_cs in struct rseq. */
struct rseq_configuration {
    uint64_t address;
    uint32_t size;
    uint32_t signature;
    uint32_t flags;
    uint32_t padding;
};

enum { GET_RSEQ_CONFIGURATION = 0x420f, RSEQ_SEQUENCE = 8 };

/* A mapping of a process. */
struct area {
    uint64_t start;
    uint64_t end;
    bool executable;
    bool is_stack;
    bool is_heap;
};

static struct area *areas;
static size_t area_count;

static void read_areas(int pid)
{
    char path[PATH_ROOM];
    char *line = NULL;
    size_t room = 0;
    size_t area_room = 0;
    free(areas);
    areas = NULL;
    area_count = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "re");
    while (maps != NULL && getline(&line, &room, maps) > 0) {
        struct area area = {0};
        char rights[8];
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s", &area.start, &area.end, rights) != 3) {
            continue;
        }
        area.executable = rights[2] == 'x';
        area.is_stack = strstr(line, " [stack]\n") != NULL;
        area.is_heap = strstr(line, " [heap]\n") != NULL;
        if (area_count == area_room) {
            area_room = area_room == 0 ? 256 : 2 * area_room;
            areas = reallocarray(areas, area_room, sizeof *areas);
            if (areas == NULL) {
                give_up("no memory for the mappings of PID %d", pid);
            }
        }
        areas[area_count++] = area;
    }
    free(line);
    if (maps != NULL) {
        fclose(maps);
    }
}

static const struct area *area_of(uint64_t address)
{
    for (size_t i = 0; i < area_count; i++) {
        if (areas[i].start <= address && address < areas[i].end) {
            return &areas[i];
        }
    }
    return NULL;
}

static uint64_t entry_of(int pid)
{
    char path[PATH_ROOM];
    Elf64_auxv_t item;
    uint64_t entry = 0;
    snprintf(path, sizeof path, "/proc/%d/auxv", pid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    while (file >= 0 && entry == 0 && read(file, &item, sizeof item) == (ssize_t)sizeof item) {
        entry = item.a_type == AT_ENTRY ? item.a_un.a_val : 0;
    }
    if (file >= 0) {
        close(file);
    }
    return entry;
}

/* The bytes of the state components that the thread uses, in the standard format of XSAVE. */
static uint32_t state_bytes(const uint8_t *state, uint64_t *features)
{
    uint64_t enabled;
    uint64_t used;
    memcpy(&enabled, state + FX_HEAD, sizeof enabled);
    memcpy(&used, state + FX_BYTES, sizeof used);
    uint32_t bytes = FX_BYTES + XSTATE_HEADER;
    *features = 0;
    for (unsigned component = 0; component < MOST_STATES; component++) {
        uint64_t bit = UINT64_C(1) << component;
        if ((enabled & bit) == 0 || (component >= FIRST_OPTIONAL_STATE && (used & bit) == 0)) {
            continue;
        }
        *features |= bit;
        unsigned size;
        unsigned offset;
        unsigned unused1;
        unsigned unused2;
        if (component >= 2 && __get_cpuid_count(0xd, component, &size, &offset, &unused1, &unused2) != 0
            && offset + size > bytes) {
            bytes = offset + size;
        }
    }
    return bytes;
}

/* The registers with which the thread continues if the helper ended: the kernel's restart of a call is done here. */
static struct signal_context context_of(const struct user_regs_struct *of)
{
    struct signal_context context = {
        .r8 = of->r8, .r9 = of->r9, .r10 = of->r10, .r11 = of->r11, .r12 = of->r12, .r13 = of->r13,
        .r14 = of->r14, .r15 = of->r15, .rdi = of->rdi, .rsi = of->rsi, .rbp = of->rbp, .rbx = of->rbx,
        .rdx = of->rdx, .rax = of->rax, .rcx = of->rcx, .rsp = of->rsp, .rip = of->rip, .flags = of->eflags,
        .cs = (uint16_t)of->cs, .ss = (uint16_t)of->ss};
    if ((long)of->orig_rax >= 0) {
        switch (-(long)of->rax) {
        case ERESTARTSYS:
        case ERESTARTNOINTR:
        case ERESTARTNOHAND:
            context.rax = of->orig_rax;
            context.rip -= 2;
            break;
        case ERESTART_RESTARTBLOCK:
            context.rax = SYS_restart_syscall;
            context.rip -= 2;
            break;
        default:
            break;
        }
    }
    return context;
}

/* A thread in which a descriptor is made. */
struct subject {
    int tid;
    int pid;
    int memory;
    uint64_t entry;
    uint8_t code[sizeof CODE];
    /* Its descriptor's number in the process, which is still to be closed there; or -1. */
    int number;
    /* The process may make none. */
    bool refused;
    struct user_regs_struct registers;
    uint8_t state[XSTATE_ROOM];
};

static bool write_memory(const struct subject *of, uint64_t address, const void *data, size_t length)
{
    return pwrite(of->memory, data, length, (off_t)address) == (ssize_t)length;
}

/* Writes the frame below the stack pointer; returns the stack pointer of sigreturn(2), or 0. */
static uint64_t write_frame(struct subject *of, const struct area *stack)
{
    struct iovec state = {of->state, sizeof of->state};
    uint64_t mask;
    if (ptrace(PTRACE_GETREGSET, of->tid, (void *)NT_X86_XSTATE, &state) != 0
        || state.iov_len < FX_BYTES + XSTATE_HEADER
        || ptrace(PTRACE_GETSIGMASK, of->tid, (void *)sizeof mask, &mask) != 0) {
        return 0;
    }
    uint64_t features;
    uint32_t bytes = state_bytes(of->state, &features);
    if (bytes > state.iov_len || bytes + sizeof(uint32_t) > XSTATE_ROOM) {
        return 0;
    }
    uint32_t head[12] = {STATE_MAGIC1, bytes + (uint32_t)sizeof(uint32_t)};
    uint32_t end = STATE_MAGIC2;
    memcpy(&head[2], &features, sizeof features);
    head[4] = bytes;
    memcpy(of->state + FX_HEAD, head, sizeof head);
    memcpy(of->state + bytes, &end, sizeof end);
    uint64_t top = of->registers.rsp - RED_ZONE;
    uint64_t state_at = (top - bytes - sizeof end) / XSTATE_ALIGNMENT * XSTATE_ALIGNMENT;
    uint64_t frame_at = (state_at - sizeof(struct signal_frame)) / XSTATE_ALIGNMENT * XSTATE_ALIGNMENT;
    if (frame_at < stack->start || frame_at > of->registers.rsp) {
        return 0;
    }
    struct signal_frame frame = {.flags = FRAME_HAS_STATE | FRAME_HAS_SS | FRAME_STRICT_SS,
                                 .stack_flags = NO_STACK_CHANGE,
                                 .context = context_of(&of->registers),
                                 .mask = mask};
    frame.context.state = state_at;
    bool written = write_memory(of, state_at, of->state, bytes + sizeof end)
        && write_memory(of, frame_at, &frame, sizeof frame);
    return written ? frame_at + offsetof(struct signal_frame, flags) : 0;
}

/* Waits for the next stop of a thread; returns its status, or -1. */
static int next_stop(int tid)
{
    uint64_t deadline = now_ms() + STEP_LIMIT_MS;
    for (;;) {
        int status;
        pid_t got = waitpid(tid, &status, __WALL | WNOHANG);
        if (got == tid) {
            return WIFSTOPPED(status) ? status : -1;
        }
        if ((got < 0 && errno != EINTR) || now_ms() > deadline) {
            return -1;
        }
        struct timespec pause = {0, LOOK_NS};
        nanosleep(&pause, NULL);
    }
}

static bool is_call_stop(int status)
{
    return status != -1 && status >> 16 == 0 && WSTOPSIG(status) == (SIGTRAP | 0x80);
}

static bool is_event_stop(int status)
{
    return status != -1 && status >> 16 == PTRACE_EVENT_STOP;
}

/*
 * Restores a thread's registers, and stops it as it was stopped before. A signal that came in between is delivered to the
 * restored thread.
 */
static bool restore(const struct subject *of, int status)
{
    for (int tries = 0; tries < 2 * MOST_TRIES && status != -1; tries++) {
        if (is_event_stop(status)) {
            return ptrace(PTRACE_SETREGS, of->tid, NULL, &of->registers) == 0;
        }
        int signal = is_call_stop(status) ? 0 : WSTOPSIG(status);
        if (ptrace(PTRACE_INTERRUPT, of->tid, NULL, NULL) != 0) {
            return false;
        }
        /* At the stop of a call the registers are of no use yet: the kernel would not restart the interrupted call. */
        if (signal != 0 && ptrace(PTRACE_SETREGS, of->tid, NULL, &of->registers) != 0) {
            return false;
        }
        if (ptrace(PTRACE_CONT, of->tid, NULL, (void *)(intptr_t)signal) != 0) {
            return false;
        }
        status = next_stop(of->tid);
        if (signal != 0) {
            /* The thread continues in the signal's handler. */
            return is_event_stop(status);
        }
    }
    return false;
}

enum outcome { MADE, AGAIN, REFUSED, LOST };

/* Runs to the next stop of a call. */
static int run_to_call(const struct subject *of)
{
    return ptrace(PTRACE_SYSCALL, of->tid, NULL, NULL) == 0 ? next_stop(of->tid) : -1;
}

/* Has the thread make its descriptor, which this process takes. Returns the thread's status. */
static int make_descriptor(struct subject *of, int *made, char *why)
{
    int status = run_to_call(of);
    if (!is_call_stop(status)) {
        return status;
    }
    struct user_regs_struct registers;
    status = run_to_call(of);
    if (!is_call_stop(status) || ptrace(PTRACE_GETREGS, of->tid, NULL, &registers) != 0) {
        return status;
    }
    long number = (long)registers.rax;
    if (number < 0) {
        snprintf(why, STOP_REASON_BYTES, "PID %d cannot make a userfaultfd: %s", of->pid, strerror((int)-number));
        of->refused = true;
        return status;
    }
    of->number = (int)number;
    int process = (int)syscall(SYS_pidfd_open, of->pid, 0);
    *made = process < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, process, of->number, 0);
    if (*made < 0) {
        snprintf(why, STOP_REASON_BYTES, "the userfaultfd of PID %d cannot be taken: %s", of->pid, strerror(errno));
        of->refused = true;
    }
    if (process >= 0) {
        close(process);
    }
    return status;
}

/* A signal can end a try at any step. The next try begins where this one ended. */
static enum outcome run_code(struct subject *of, uint64_t stack, int *made, char *why)
{
    bool is_made = of->number >= 0;
    struct user_regs_struct registers = of->registers;
    registers.rax = is_made ? (unsigned)of->number : SYS_userfaultfd;
    registers.orig_rax = (unsigned long long)-1;
    registers.rdi = O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY;
    registers.rip = of->entry + (is_made ? CLOSE_OFFSET : 0);
    registers.rsp = stack;
    registers.eflags &= ~(unsigned long long)TRAP_FLAG;
    if (ptrace(PTRACE_SETREGS, of->tid, NULL, &registers) != 0) {
        return LOST;
    }
    int status = is_made ? 0 : make_descriptor(of, made, why);
    bool closes = of->number >= 0 && (is_made || is_call_stop(status));
    for (int stops = 0; closes && stops < 2; stops++) {
        status = run_to_call(of);
        closes = is_call_stop(status);
    }
    if (closes) {
        of->number = -1;
    }
    if (!restore(of, status)) {
        return LOST;
    }
    return of->refused && of->number < 0 ? REFUSED : closes ? MADE : AGAIN;
}

/* Whether code of its own kind may run in a thread, on a stack that is certain. */
static const struct area *usable_stack(struct subject *of)
{
    if (ptrace(PTRACE_GETREGS, of->tid, NULL, &of->registers) != 0 || of->registers.cs != USER_CODE_SEGMENT) {
        return NULL;
    }
    uint64_t dispatch[4] = {0};
    if (ptrace(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, of->tid, (void *)sizeof dispatch, dispatch) == 0
        && dispatch[0] != 0) {
        return NULL;
    }
    if (of->registers.rip >= of->entry && of->registers.rip < of->entry + sizeof CODE) {
        return NULL;
    }
    /* The kernel would forget that the thread is in a restartable sequence, rseq(2). */
    struct rseq_configuration rseq = {0};
    uint64_t sequence = 0;
    if (ptrace((enum __ptrace_request)GET_RSEQ_CONFIGURATION, of->tid, (void *)sizeof rseq, &rseq) > 0
        && rseq.address != 0
        && (pread(of->memory, &sequence, sizeof sequence, (off_t)(rseq.address + RSEQ_SEQUENCE)) != sizeof sequence
            || sequence != 0)) {
        return NULL;
    }
    /* A thread's stack by pthread_create(3) ends at its thread-local storage. What lies in the heap is no such stack. */
    const struct area *stack = area_of(of->registers.rsp);
    if (stack == NULL
        || (!stack->is_stack
            && (stack->is_heap || stack != area_of(of->registers.fs_base) || of->registers.fs_base < of->registers.rsp))) {
        return NULL;
    }
    return stack;
}

/* Whether a filter of system calls, seccomp(2), would see the calls of the code. */
static bool is_filtered(int tid)
{
    char path[PATH_ROOM];
    char line[256];
    bool filtered = true;
    snprintf(path, sizeof path, "/proc/%d/status", tid);
    FILE *status = fopen(path, "re");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        if (strncmp(line, "Seccomp:", 8) == 0) {
            filtered = atoi(line + 8) != 0;
        }
    }
    if (status != NULL) {
        fclose(status);
    }
    return filtered;
}

static enum outcome inject(struct subject *of, int *made, char *why)
{
    const struct area *stack = usable_stack(of);
    uint64_t frame = stack == NULL ? 0 : write_frame(of, stack);
    if (frame == 0) {
        return REFUSED;
    }
    long options = PTRACE_O_TRACESYSGOOD | (is_filtered(of->tid) ? (long)PTRACE_O_SUSPEND_SECCOMP : 0);
    if (ptrace(PTRACE_SETOPTIONS, of->tid, NULL, (void *)options) != 0) {
        snprintf(why, STOP_REASON_BYTES, "the system call filter of PID %d cannot be suspended: %s", of->pid,
                 strerror(errno));
        return REFUSED;
    }
    if (pread(of->memory, of->code, sizeof of->code, (off_t)of->entry) != (ssize_t)sizeof of->code
        || !write_memory(of, of->entry, CODE, sizeof CODE)) {
        snprintf(why, STOP_REASON_BYTES, "the code of PID %d cannot be written: %s", of->pid, strerror(errno));
        return REFUSED;
    }
    enum outcome outcome = AGAIN;
    for (int tries = 0; tries < MOST_TRIES && outcome == AGAIN; tries++) {
        if (tries > 0) {
            stack = usable_stack(of);
            frame = stack == NULL ? 0 : write_frame(of, stack);
        }
        outcome = frame == 0 ? REFUSED : run_code(of, frame, made, why);
    }
    /* A lost thread may still run the code, which then stays: nothing else uses the entry again. */
    if (outcome != LOST && !write_memory(of, of->entry, of->code, sizeof of->code)) {
        outcome = LOST;
    }
    ptrace(PTRACE_SETOPTIONS, of->tid, NULL, NULL);
    return outcome;
}

static bool is_userfaultfd(int descriptor)
{
    char path[PATH_ROOM];
    char kind[PATH_ROOM] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    return readlink(path, kind, sizeof kind - 1) > 0 && strcmp(kind, "anon_inode:[userfaultfd]") == 0;
}

/* Makes a userfaultfd in one of a process's threads; -1 with the reason. */
static int make_in(int pid, char *why)
{
    static struct subject subject;
    char path[PATH_ROOM];
    int made = -1;
    subject.pid = pid;
    subject.number = -1;
    subject.refused = false;
    subject.entry = entry_of(pid);
    read_areas(pid);
    const struct area *code = area_of(subject.entry);
    snprintf(path, sizeof path, "/proc/%d/mem", pid);
    subject.memory = open(path, O_RDWR | O_CLOEXEC);
    snprintf(why, STOP_REASON_BYTES, "PID %d has no thread that can make a userfaultfd: none is a 64-bit one with a known"
             " stack", pid);
    if (subject.memory < 0 || code == NULL || !code->executable || subject.entry + sizeof CODE > code->end) {
        snprintf(why, STOP_REASON_BYTES, "PID %d has no code at its entry", pid);
    } else {
        enum outcome outcome = REFUSED;
        for (size_t i = 0; i < thread_count && outcome != MADE && outcome != LOST && !subject.refused; i++) {
            if (threads[i].pid == pid && threads[i].stopped && !threads[i].gone) {
                subject.tid = threads[i].tid;
                outcome = inject(&subject, &made, why);
            }
        }
        if (outcome == LOST) {
            /* The end of this process lets the thread return by its frame. */
            give_up("a thread of PID %d did not stop again after its userfaultfd was made", pid);
        }
    }
    if (subject.memory >= 0) {
        close(subject.memory);
    }
    if (made >= 0 && subject.number >= 0) {
        close(made);
        snprintf(why, STOP_REASON_BYTES, "PID %d has not closed its userfaultfd", pid);
        made = -1;
    } else if (made >= 0 && !is_userfaultfd(made)) {
        close(made);
        snprintf(why, STOP_REASON_BYTES, "PID %d has replaced its userfaultfd by another descriptor", pid);
        made = -1;
    }
    return made;
}

static void answer(int made, const char *why)
{
    struct stop_message message = {.kind = made >= 0 ? MESSAGE_MADE : MESSAGE_FAILED};
    struct iovec data = {&message, sizeof message};
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr sent = {.msg_iov = &data, .msg_iovlen = 1};
    memset(&control, 0, sizeof control);
    if (made >= 0) {
        sent.msg_control = control.room;
        sent.msg_controllen = sizeof control.room;
        struct cmsghdr *head = CMSG_FIRSTHDR(&sent);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &made, sizeof(int));
    } else {
        snprintf(message.why, sizeof message.why, "%s", why);
    }
    if (sendmsg(channel_to_caller, &sent, MSG_NOSIGNAL) != (ssize_t)sizeof message) {
        _exit(1);
    }
}

int run_stop(int channel, int root, uint64_t root_start)
{
    channel_to_caller = channel;
    fcntl(channel, F_SETFD, FD_CLOEXEC);
    stop_all(root, root_start);
    struct stop_message stopped = {.kind = MESSAGE_STOPPED, .count = (uint32_t)process_count};
    if (!send_all(channel, &stopped, sizeof stopped)
        || !send_all(channel, processes, process_count * sizeof processes[0])) {
        return 1;
    }
    for (;;) {
        int32_t pid;
        struct pollfd polled = {channel, POLLIN, 0};
        int ready = poll(&polled, 1, HOLD_LIMIT_MS);
        if (ready == 0) {
            /* The caller is stopped, or hangs: the job continues. */
            return 1;
        }
        ssize_t got = ready < 0 ? -1 : recv(channel, &pid, sizeof pid, MSG_WAITALL);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got != (ssize_t)sizeof pid) {
            return 0;
        }
        char why[STOP_REASON_BYTES] = "";
        int made = make_in(pid, why);
        answer(made, why);
        if (made >= 0) {
            close(made);
        }
    }
}

#else

/* Pages are streamed only on x86-64, so no service starts this. */
int run_stop(int channel, int root, uint64_t root_start)
{
    struct stop_message message = {.kind = MESSAGE_FAILED};
    snprintf(message.why, sizeof message.why, "PID %d (started at %" PRIu64 ") is not of x86-64", root, root_start);
    return send_all(channel, &message, sizeof message) ? 0 : 1;
}

#endif
