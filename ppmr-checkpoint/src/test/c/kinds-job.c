/* kinds-job: a process of one kind, for tests of a checkpointer's abilities.
 *
 *   kinds-job KIND DIR
 *
 * It makes the objects of its kind, and then checks every 20 ms that all of them are unchanged and still work. Each
 * time it writes the number of that turn to DIR/turns, through no descriptor that stays open. It writes an error to
 * DIR/failed, and ends. It ends by itself after 10 minutes. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 30000, TURN_NS = 20000000, AREA = 4 << 20, THREADS = 3, TEXT = 64 };

static const char *directory;
static long turn;
static int fds[8];
static pid_t child;
static unsigned char *area;
static volatile long counts[THREADS];
static volatile sig_atomic_t ticks;

static void note(const char *name, const char *text)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        _exit(3);
    close(fd);
}

static void require(bool good, const char *what)
{
    if (good)
        return;
    char text[256];
    snprintf(text, sizeof text, "turn %ld: %s (%s)\n", turn, what, strerror(errno));
    note("failed", text);
    _exit(1);
}

static const char *place(const char *name)
{
    static char path[100];
    require(snprintf(path, sizeof path, "%s/%s", directory, name) < (int)sizeof path, "the path is too long");
    return path;
}

static void rest(void)
{
    struct timespec pause = {0, TURN_NS};
    nanosleep(&pause, NULL);
}

static void *mapped(int flags, int fd)
{
    void *memory = mmap(NULL, AREA, PROT_READ | PROT_WRITE, flags, fd, 0);
    require(memory != MAP_FAILED, "mmap");
    return memory;
}

static pid_t fork_child(void)
{
    pid_t pid = fork();
    require(pid >= 0, "fork");
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

static void require_child(void)
{
    require(waitpid(child, NULL, WNOHANG) == 0, "the child has ended");
}

/* ---- memory, threads, processes ---- */

static void memory_make(void)
{
    area = mapped(MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static void memory_look(void)
{
    for (long i = 0; i < AREA; i += 4096) {
        require(area[i] == (unsigned char)(turn + i / 4096), "a page is another");
        area[i]++;
    }
}

static void memory_first(void)
{
    memory_make();
    for (long i = 0; i < AREA; i += 4096)
        area[i] = (unsigned char)(i / 4096);
}

static void *count(void *number)
{
    for (;; rest())
        counts[(intptr_t)number]++;
    return NULL;
}

static void threads_make(void)
{
    for (intptr_t i = 0; i < THREADS; i++) {
        pthread_t thread;
        require((errno = pthread_create(&thread, NULL, count, (void *)i)) == 0, "pthread_create");
    }
}

static void threads_look(void)
{
    static long before[THREADS];
    for (int i = 0; turn % 10 == 9 && i < THREADS; i++) {
        require(counts[i] > before[i], "a thread is stopped");
        before[i] = counts[i];
    }
}

/* A child in its own process group, whose child has its own session. */
static void children_make(void)
{
    child = fork_child();
    if (child == 0) {
        setpgid(0, 0);
        pid_t grandchild = fork_child();
        if (grandchild == 0)
            setsid();
        for (;; rest())
            if (grandchild > 0 && waitpid(grandchild, NULL, WNOHANG) != 0)
                _exit(1);
    }
}

static void zombie_make(void)
{
    child = fork_child();
    if (child == 0)
        _exit(7);
}

static void zombie_look(void)
{
    siginfo_t info;
    require(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0 && info.si_status == 7, "the zombie is lost");
}

/* ---- files ---- */

static void file_make(void)
{
    fds[0] = open(place("own"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    require(fds[0] >= 0 && write(fds[0], "0123456789", 10) == 10 && lseek(fds[0], 4, SEEK_SET) == 4, "a file");
}

static void file_look(void)
{
    char byte;
    require(lseek(fds[0], 0, SEEK_CUR) == 4 && pread(fds[0], &byte, 1, 4) == 1 && byte == '4', "the file is another");
    require(pwrite(fds[0], "9", 1, 9) == 1, "the file cannot be written");
}

static void unlinked_make(void)
{
    file_make();
    require(unlink(place("own")) == 0, "unlink");
}

static void roots_make(void)
{
    fds[0] = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    require(fds[0] >= 0, "/etc/passwd");
}

static void roots_look(void)
{
    char text[4];
    require(pread(fds[0], text, 4, 0) == 4 && memcmp(text, "root", 4) == 0, "/etc/passwd cannot be read");
}

/* Its standard output is a file that root has opened and that its user cannot open for writing. */
static void inherited_look(void)
{
    require(pwrite(1, "x", 1, 0) == 1, "standard output cannot be written");
}

static void locks_make(void)
{
    file_make();
    require(flock(fds[0], LOCK_EX | LOCK_NB) == 0, "flock");
}

static void locks_look(void)
{
    int other = open(place("own"), O_RDWR | O_CLOEXEC);
    require(other >= 0 && flock(other, LOCK_EX | LOCK_NB) != 0, "the lock is lost");
    close(other);
}

/* ---- pipes and sockets ---- */

/* A child returns what it receives. Both directions contain data when the image is written. */
static void echo_make(int there[2], int back[2])
{
    child = fork_child();
    if (child == 0) {
        char byte;
        while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
            continue;
        _exit(1);
    }
    fds[0] = there[1];
    fds[1] = back[0];
    require(write(fds[0], "ab", 2) == 2, "a first message");
}

static void echo_look(void)
{
    char byte;
    require(read(fds[1], &byte, 1) == 1 && (byte == 'a' || byte == 'b') && write(fds[0], &byte, 1) == 1,
            "what was sent does not come back");
}

static void pipe_make(void)
{
    int there[2];
    int back[2];
    require(pipe(there) == 0 && pipe(back) == 0, "pipe");
    echo_make(there, back);
}

static void fifo_make(void)
{
    const char *path = place("fifo");
    require(mkfifo(path, 0600) == 0 || errno == EEXIST, "mkfifo");
    fds[0] = fds[1] = open(path, O_RDWR | O_CLOEXEC);
    require(fds[0] >= 0 && write(fds[0], "ab", 2) == 2, "a FIFO");
}

static void pair_make(void)
{
    int pair[2];
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    int swapped[2] = {pair[1], pair[0]};
    echo_make(pair, swapped);
    fds[0] = fds[1] = pair[1];
    close(pair[0]);
}

static void connect_both(int family, const struct sockaddr *address, socklen_t length)
{
    fds[2] = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(fds[2] >= 0 && bind(fds[2], address, length) == 0 && listen(fds[2], 5) == 0, "a listening socket");
    struct sockaddr_storage bound;
    socklen_t bound_length = sizeof bound;
    require(getsockname(fds[2], (struct sockaddr *)&bound, &bound_length) == 0, "getsockname");
    int client = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(client >= 0 && connect(client, (struct sockaddr *)&bound, bound_length) == 0, "connect");
    int server = accept(fds[2], NULL, NULL);
    require(server >= 0, "accept");
    int there[2] = {server, client};
    int back[2] = {client, server};
    echo_make(there, back);
}

static void unix_make(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, place("socket"));
    unlink(address.sun_path);
    connect_both(AF_UNIX, (struct sockaddr *)&address, sizeof address);
}

static struct sockaddr_in local(void)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void tcp_make(void)
{
    struct sockaddr_in address = local();
    connect_both(AF_INET, (struct sockaddr *)&address, sizeof address);
}

static void listen_make(void)
{
    struct sockaddr_in address = local();
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(fds[0] >= 0 && bind(fds[0], (struct sockaddr *)&address, sizeof address) == 0 && listen(fds[0], 5) == 0,
            "a listening TCP socket");
}

static void listen_look(void)
{
    int listening = 0;
    socklen_t length = sizeof listening;
    require(getsockopt(fds[0], SOL_SOCKET, SO_ACCEPTCONN, &listening, &length) == 0 && listening, "it does not listen");
}

static void udp_make(void)
{
    struct sockaddr_in address = local();
    fds[0] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    require(fds[0] >= 0 && bind(fds[0], (struct sockaddr *)&address, sizeof address) == 0, "a UDP socket");
}

static void udp_look(void)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    require(getsockname(fds[0], (struct sockaddr *)&address, &length) == 0 && address.sin_port != 0, "it has no port");
}

/* ---- shared memory ---- */

static void shared_child(void)
{
    child = fork_child();
    if (child == 0)
        for (;; rest())
            area[4096]++;
}

static void shared_look(void)
{
    static unsigned char before;
    require_child();
    if (turn % 10 == 9) {
        require(area[4096] != before, "the child's writes do not show");
        before = area[4096];
    }
}

static void shared_make(void)
{
    area = mapped(MAP_SHARED | MAP_ANONYMOUS, -1);
    shared_child();
}

static void shm_make(void)
{
    char name[64];
    snprintf(name, sizeof name, "/dev/shm/kinds-job-%d", getpid());
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    require(fd >= 0 && ftruncate(fd, AREA) == 0, name);
    area = mapped(MAP_SHARED, fd);
    close(fd);
    shared_child();
}

static void memfd_make(void)
{
    fds[0] = memfd_create("kinds", MFD_CLOEXEC);
    require(fds[0] >= 0 && ftruncate(fds[0], AREA) == 0, "memfd_create");
    area = mapped(MAP_SHARED, fds[0]);
    shared_child();
}

static void sysv_make(void)
{
    int id = shmget(IPC_PRIVATE, AREA, IPC_CREAT | 0600);
    require(id >= 0 && (area = shmat(id, NULL, 0)) != (void *)-1 && shmctl(id, IPC_RMID, NULL) == 0, "shmget");
    shared_child();
}

/* ---- events, signals, time ---- */

static void events_make(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigprocmask(SIG_BLOCK, &set, NULL);
    fds[0] = eventfd(5, EFD_CLOEXEC | EFD_NONBLOCK);
    fds[1] = epoll_create1(EPOLL_CLOEXEC);
    fds[2] = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    fds[3] = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN};
    struct itimerspec late = {{0, 0}, {1000, 0}};
    require(fds[0] >= 0 && fds[1] >= 0 && fds[2] >= 0 && fds[3] >= 0 && timerfd_settime(fds[2], 0, &late, NULL) == 0
                && epoll_ctl(fds[1], EPOLL_CTL_ADD, fds[0], &event) == 0,
            "event descriptors");
}

static void events_look(void)
{
    uint64_t value;
    struct epoll_event event;
    struct signalfd_siginfo info;
    require(epoll_wait(fds[1], &event, 1, 0) == 1, "epoll shows nothing");
    require(read(fds[0], &value, sizeof value) == sizeof value && value == 5, "the eventfd is another");
    require(write(fds[0], &value, sizeof value) == sizeof value, "the eventfd cannot be written");
    static long seconds = 1000;
    static long nanoseconds;
    struct itimerspec left;
    require(timerfd_gettime(fds[2], &left) == 0
                && (left.it_value.tv_sec < seconds
                    || (left.it_value.tv_sec == seconds && left.it_value.tv_nsec < nanoseconds)),
            "the timerfd is stopped");
    seconds = left.it_value.tv_sec;
    nanoseconds = left.it_value.tv_nsec;
    require(seconds > 0, "the timerfd has lost its time");
    require(kill(getpid(), SIGUSR2) == 0 && read(fds[3], &info, sizeof info) == sizeof info, "the signalfd is silent");
}

static void inotify_make(void)
{
    fds[0] = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    require(fds[0] >= 0 && inotify_add_watch(fds[0], directory, IN_CREATE) >= 0, "inotify");
}

/* CRIU drops queued events during the checkpoint, so an event may be lost between its cause and its reading. The
 * next one is not. */
static void inotify_look(void)
{
    static int lost;
    char event[4096];
    unlink(place("watched"));
    note("watched", "");
    lost = read(fds[0], event, sizeof event) > 0 ? 0 : lost + 1;
    require(lost < 2, "inotify is silent");
}

static void tick(int number)
{
    (void)number;
    ticks++;
}

static void timers_make(void)
{
    signal(SIGALRM, tick);
    signal(SIGUSR1, tick);
    struct itimerval often = {{0, 2000}, {0, 2000}};
    struct itimerspec often_too = {{0, 2000000}, {0, 2000000}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t timer;
    require(setitimer(ITIMER_REAL, &often, NULL) == 0 && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0
                && timer_settime(timer, 0, &often_too, NULL) == 0,
            "timers");
}

static void timers_look(void)
{
    static sig_atomic_t before;
    if (turn % 10 == 9) {
        require(ticks > before, "the timers are stopped");
        before = ticks;
    }
}

static void pending_make(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    require(raise(SIGUSR1) == 0, "raise");
}

static void pending_look(void)
{
    sigset_t set;
    require(sigpending(&set) == 0 && sigismember(&set, SIGUSR1), "the pending signal is lost");
}

/* ---- a terminal, rights, limits ---- */

static void terminal_make(void)
{
    fds[0] = posix_openpt(O_RDWR | O_NOCTTY);
    require(fds[0] >= 0 && grantpt(fds[0]) == 0 && unlockpt(fds[0]) == 0, "posix_openpt");
    fds[1] = open(ptsname(fds[0]), O_RDWR | O_NOCTTY);
    require(fds[1] >= 0, "the terminal");
}

static void terminal_look(void)
{
    char line[8];
    require(write(fds[0], "x\n", 2) == 2 && read(fds[1], line, sizeof line) == 2, "the terminal is silent");
    struct pollfd echo = {.fd = fds[0], .events = POLLIN};
    char text[TEXT];
    while (poll(&echo, 1, 0) > 0 && read(fds[0], text, sizeof text) > 0)
        continue;
}

static void seccomp_make(void)
{
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, all};
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0,
            "seccomp");
}

static void seccomp_look(void)
{
    require(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER, "the filter is lost");
}

static void nnp_make(void)
{
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
}

static void nnp_look(void)
{
    require(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "no_new_privs is lost");
}

static void undumpable_make(void)
{
    require(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0, "PR_SET_DUMPABLE");
}

static void nice_make(void)
{
    require(setpriority(PRIO_PROCESS, 0, 7) == 0, "setpriority");
}

static void nice_look(void)
{
    require(getpriority(PRIO_PROCESS, 0) == 7, "the nice value is another");
}

static void locked_make(void)
{
    memory_first();
    require(mlock(area, 32768) == 0, "mlock");
}

static void limit_make(void)
{
    struct rlimit limit = {50, 60};
    require(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
}

static void limit_look(void)
{
    struct rlimit limit;
    require(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 50 && limit.rlim_max == 60,
            "the limit is another");
}

static void nothing(void) {}

static const struct {
    const char *name;
    void (*make)(void);
    void (*look)(void);
} kinds[] = {
    {"memory", memory_first, memory_look},
    {"threads", threads_make, threads_look},
    {"children", children_make, require_child},
    {"zombie", zombie_make, zombie_look},
    {"file", file_make, file_look},
    {"unlinked", unlinked_make, file_look},
    {"roots-file", roots_make, roots_look},
    {"inherited", nothing, inherited_look},
    {"locks", locks_make, locks_look},
    {"pipe", pipe_make, echo_look},
    {"fifo", fifo_make, echo_look},
    {"socketpair", pair_make, echo_look},
    {"unix", unix_make, echo_look},
    {"tcp-listening", listen_make, listen_look},
    {"tcp-established", tcp_make, echo_look},
    {"udp", udp_make, udp_look},
    {"shared", shared_make, shared_look},
    {"shm", shm_make, shared_look},
    {"memfd", memfd_make, shared_look},
    {"sysv", sysv_make, shared_look},
    {"events", events_make, events_look},
    {"inotify", inotify_make, inotify_look},
    {"timers", timers_make, timers_look},
    {"pending", pending_make, pending_look},
    {"terminal", terminal_make, terminal_look},
    {"seccomp", seccomp_make, seccomp_look},
    {"no-new-privs", nnp_make, nnp_look},
    {"undumpable", undumpable_make, nothing},
    {"nice", nice_make, nice_look},
    {"locked", locked_make, memory_look},
    {"limit", limit_make, limit_look},
    {"plain", nothing, nothing},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 3 && i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, argv[1]) != 0)
            continue;
        directory = argv[2];
        kinds[i].make();
        for (; turn < TURNS; turn++) {
            kinds[i].look();
            char text[32];
            snprintf(text, sizeof text, "%ld\n", turn);
            note("turns", text);
            rest();
        }
        return 0;
    }
    fprintf(stderr, "usage: kinds-job KIND DIR\n");
    return 2;
}
