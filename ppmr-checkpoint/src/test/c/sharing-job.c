/* sharing-job: a rank that shares an object with a process outside of it, for tests of refusals.
 *
 *   sharing-job KIND DIR [RANKS]
 *
 * It makes the objects of its kind and forks. The children are the ranks. Each leads a session, has /dev/null as its
 * standard streams, and writes its PID to DIR/pid (DIR/pid.1 for the second one). Then it writes the number of its
 * turn to DIR/turns every 20 ms, through no descriptor that stays open. It writes an error to DIR/failed. The parent
 * is the process outside, which keeps its part. All end by themselves after 10 minutes. With RANKS 2 there are two
 * ranks, and the parent closes its part. */
#define _GNU_SOURCE
#include <errno.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <time.h>
#include <unistd.h>

enum {
    TURNS = 30000,
    TURN_NS = 20000000,
    SECONDS = 600,
    AREA = 8192,
    MANY_FILES = 12000,
    MANY_MAPPINGS = 40000,
    MANY_THREADS = 1000
};

static const char *directory;
static int ranks = 1;
static long turn;
/* The parts of the rank and of the process outside. */
static int inner = -1;
static int outer = -1;
static unsigned char *area;

static const char *place(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void note(const char *name, const char *text)
{
    char part[64];
    snprintf(part, sizeof part, "%s.part", name);
    char from[4096];
    snprintf(from, sizeof from, "%s", place(part));
    int fd = open(from, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
        _exit(3);
    close(fd);
    if (rename(from, place(name)) != 0)
        _exit(3);
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

static void nothing(void) {}

/* ---- pipes ---- */

static void pipe_out_make(void)
{
    int ends[2];
    require(pipe(ends) == 0, "pipe");
    outer = ends[0];
    inner = ends[1];
}

static void pipe_out_turn(void)
{
    require(write(inner, "step\n", 5) == 5, "the pipe cannot be written");
}

static void pipe_in_make(void)
{
    int ends[2];
    require(pipe(ends) == 0, "pipe");
    inner = ends[0];
    outer = ends[1];
}

static void fifo_make(void)
{
    require(mkfifo(place("fifo"), 0600) == 0, "mkfifo");
    outer = open(place("fifo"), O_RDONLY | O_NONBLOCK);
    inner = open(place("fifo"), O_WRONLY);
    require(inner >= 0 && outer >= 0, "a FIFO");
    fcntl(outer, F_SETFL, 0);
}

/* The other end of the pipe is closed everywhere. */
static void widowed_make(void)
{
    pipe_in_make();
    require(write(outer, "left", 4) == 4, "a pipe");
    close(outer);
    outer = -1;
}

static void widowed_turn(void)
{
    char bytes[8];
    ssize_t length = read(inner, bytes, sizeof bytes);
    require(turn == 0 ? length == 4 : length == 0, "the pipe does not end");
}

/* ---- sockets ---- */

static void pair_make(void)
{
    int pair[2];
    require(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    inner = pair[0];
    outer = pair[1];
}

static struct sockaddr_un address(const char *name)
{
    struct sockaddr_un made = {.sun_family = AF_UNIX};
    int length = snprintf(made.sun_path, sizeof made.sun_path, "%s", place(name));
    require(length > 0 && length < (int)sizeof made.sun_path, "the path is too long");
    return made;
}

static void serve(int type, const char *name)
{
    struct sockaddr_un named = address(name);
    int server = socket(AF_UNIX, type, 0);
    require(server >= 0 && bind(server, (struct sockaddr *)&named, sizeof named) == 0, "a server's socket");
    inner = socket(AF_UNIX, type, 0);
    if (type == SOCK_STREAM)
        require(listen(server, 4) == 0, "listen");
    require(connect(inner, (struct sockaddr *)&named, sizeof named) == 0, "connect");
    if (type == SOCK_STREAM) {
        outer = accept(server, NULL, NULL);
        close(server);
    } else {
        outer = server;
    }
    require(inner >= 0 && outer >= 0, "a connection");
}

static void stream_make(void)
{
    serve(SOCK_STREAM, "names");
}

/* Behaves as the C library does with a connection to a name service that has ended: it connects when it needs one
 * again. */
static void stream_turn(void)
{
    char byte;
    ssize_t length = recv(inner, &byte, 1, MSG_DONTWAIT);
    require(length == 0 || (length < 0 && errno == EAGAIN), "the connection fails");
    if (length == 0)
        note("closed", "");
}

static void log_make(void)
{
    serve(SOCK_DGRAM, "log");
}

static void log_turn(void)
{
    require(send(inner, "a line", 6, MSG_DONTWAIT) == 6 || errno == EAGAIN, "the log cannot be written");
}

/* The rank serves datagrams, and a process outside has connected to it. */
static void served_make(void)
{
    serve(SOCK_DGRAM, "served");
    int swapped = inner;
    inner = outer;
    outer = swapped;
}

static void tcp_make(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    inner = outer = socket(AF_INET, SOCK_STREAM, 0);
    require(inner >= 0 && bind(inner, (struct sockaddr *)&any, sizeof any) == 0 && listen(inner, 4) == 0, "a socket");
}

/* ---- memory ---- */

static void anonymous_make(void)
{
    area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    require(area != MAP_FAILED, "mmap");
}

/* The process outside has only a descriptor of the memory, and the rank a mapping. */
static void memfd_make(void)
{
    outer = memfd_create("shared", MFD_CLOEXEC);
    require(outer >= 0 && ftruncate(outer, AREA) == 0, "memfd_create");
    area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED, outer, 0);
    require(area != MAP_FAILED, "mmap");
}

static void memfd_outer(void)
{
    munmap(area, AREA);
    inner = outer;
}

static void map_file(const char *path, int inner_protection)
{
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    require(fd >= 0 && ftruncate(fd, AREA) == 0, path);
    area = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    fd = open(path, inner_protection == PROT_READ ? O_RDONLY : O_RDWR);
    unsigned char *own = mmap(NULL, AREA, inner_protection, MAP_SHARED, fd, 0);
    require(area != MAP_FAILED && own != MAP_FAILED, "mmap");
    close(fd);
}

static void mapped_make(void)
{
    map_file(place("mapped"), PROT_READ | PROT_WRITE);
}

/* Like the C library with the tables of nscd and sssd: the server writes the file, and the program reads it in its
 * memory. */
static void tables_make(void)
{
    map_file(place("tables"), PROT_READ);
}

static void tables_inner(void)
{
    munmap(area, AREA);
}

/* ---- open files ---- */

static void opened(const char *path, int flags)
{
    inner = outer = open(path, flags, 0600);
    require(inner >= 0, path);
}

static void file_make(void)
{
    opened(place("shared.out"), O_WRONLY | O_CREAT);
}

static void input_make(void)
{
    note("input", "0123456789");
    opened(place("input"), O_RDONLY);
}

static void appended_make(void)
{
    opened(place("appended.out"), O_WRONLY | O_CREAT | O_APPEND);
}

static void appended_turn(void)
{
    require(write(inner, "line\n", 5) == 5, "the file cannot be appended to");
}

static void named_make(void)
{
    note("named", "");
    opened(place("named"), O_PATH);
}

static void folder_make(void)
{
    opened(directory, O_RDONLY | O_DIRECTORY);
}

static void devices_make(void)
{
    const char *paths[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        opened(paths[i], O_RDWR);
}

static void eventfd_make(void)
{
    inner = outer = eventfd(5, 0);
}

/* The rank watches an eventfd that only the process outside has open. */
static void epoll_make(void)
{
    outer = eventfd(0, 0);
    inner = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    require(outer >= 0 && inner >= 0 && epoll_ctl(inner, EPOLL_CTL_ADD, outer, &event) == 0, "epoll");
}

static void unseen_inner(void)
{
    close(outer);
}

static void unseen_outer(void)
{
    close(inner);
}

/* ---- terminals and processes ---- */

static void terminal_make(void)
{
    outer = posix_openpt(O_RDWR | O_NOCTTY);
    require(outer >= 0 && grantpt(outer) == 0 && unlockpt(outer) == 0, "posix_openpt");
    inner = open(ptsname(outer), O_RDWR | O_NOCTTY);
    require(inner >= 0, "the terminal");
}

static void pidfd_make(void)
{
    inner = (int)syscall(SYS_pidfd_open, getpid(), 0);
    require(inner >= 0, "pidfd_open");
}

static void own_pidfd_inner(void)
{
    inner = (int)syscall(SYS_pidfd_open, getpid(), 0);
    require(inner >= 0, "pidfd_open");
}

static pid_t children[2];

static void traced_outer(void)
{
    require(ptrace(PTRACE_SEIZE, children[0], NULL, NULL) == 0, "PTRACE_SEIZE");
}

static void close_outer(void)
{
    if (outer != inner)
        close(outer);
}

static void close_inner(void)
{
    if (outer != inner)
        close(inner);
}

/* Keeps its end open whatever the other process does. */
static void deaf_outer(void)
{
    close(inner);
    inner = outer;
}

/* The rank watches the folder of a service beside its own, and opens a FIFO to the process outside when a migration
 * has begun. */
static void late_make(void)
{
    fifo_make();
    close(inner);
    inner = -1;
}

static void late_turn(void)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/../source-work", directory);
    for (int look = 0; inner < 0 && look < TURN_NS / 1000000; look++) {
        DIR *work = opendir(path);
        struct dirent *entry = NULL;
        while (work != NULL && (entry = readdir(work)) != NULL && entry->d_name[0] == '.')
            continue;
        if (work != NULL)
            closedir(work);
        if (entry != NULL)
            inner = open(place("fifo"), O_WRONLY | O_CLOEXEC);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

/* Many objects of each kind: files with long names, memory, threads. */
static void *idle(void *none)
{
    for (;;)
        pause();
    return none;
}

static void many_inner(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    char name[240];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    for (rlim_t file = 0; file < MANY_FILES && file + 100 < limit.rlim_cur; file++) {
        snprintf(name + 200, 30, "%lu", (unsigned long)file);
        require(open(place(name), O_RDWR | O_CREAT | O_CLOEXEC, 0600) >= 0, "a file");
    }
    for (int mapping = 0; mapping < MANY_MAPPINGS; mapping++)
        require(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED, "mmap");
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 32768);
    for (int thread = 0; thread < MANY_THREADS; thread++) {
        pthread_t started;
        require((errno = pthread_create(&started, &small, idle, NULL)) == 0, "pthread_create");
    }
}

static const struct {
    const char *name;
    void (*make)(void);
    void (*inner)(void);
    void (*outer)(void);
    void (*turn)(void);
} kinds[] = {
    {"pipe-out", pipe_out_make, close_outer, close_inner, pipe_out_turn},
    {"pipe-in", pipe_in_make, close_outer, close_inner, nothing},
    {"fifo", fifo_make, close_outer, close_inner, pipe_out_turn},
    {"widowed", widowed_make, nothing, close_inner, widowed_turn},
    {"pair", pair_make, close_outer, close_inner, nothing},
    {"stream", stream_make, close_outer, close_inner, stream_turn},
    {"deaf", stream_make, close_outer, deaf_outer, stream_turn},
    {"log", log_make, close_outer, close_inner, log_turn},
    {"served", served_make, close_outer, close_inner, nothing},
    {"tcp", tcp_make, nothing, nothing, nothing},
    {"anonymous", anonymous_make, nothing, nothing, nothing},
    {"memfd", memfd_make, close_outer, memfd_outer, nothing},
    {"mapped", mapped_make, nothing, nothing, nothing},
    {"tables", tables_make, tables_inner, nothing, nothing},
    {"file", file_make, nothing, nothing, nothing},
    {"input", input_make, nothing, nothing, nothing},
    {"appended", appended_make, nothing, nothing, appended_turn},
    {"named", named_make, nothing, nothing, nothing},
    {"folder", folder_make, nothing, nothing, nothing},
    {"devices", devices_make, nothing, nothing, nothing},
    {"eventfd", eventfd_make, nothing, nothing, nothing},
    {"epoll", epoll_make, unseen_inner, unseen_outer, nothing},
    {"terminal", terminal_make, close_outer, nothing, nothing},
    {"pidfd", pidfd_make, nothing, nothing, nothing},
    {"own-pidfd", nothing, own_pidfd_inner, nothing, nothing},
    {"late", late_make, close_outer, nothing, late_turn},
    {"many", nothing, many_inner, nothing, nothing},
    {"leader", nothing, nothing, nothing, nothing},
    {"traced", nothing, nothing, traced_outer, nothing},
};

static void *take_turns(void *kind)
{
    char text[32];
    struct timespec rest = {0, TURN_NS};
    for (; turn < TURNS; turn++) {
        kinds[(intptr_t)kind].turn();
        snprintf(text, sizeof text, "%ld\n", turn);
        note("turns", text);
        nanosleep(&rest, NULL);
    }
    _exit(0);
}

static void rank(size_t kind, int number)
{
    setsid();
    signal(SIGPIPE, SIG_IGN);
    kinds[kind].inner();
    char text[32];
    snprintf(text, sizeof text, "%d\n", getpid());
    note(number == 0 ? "pid" : "pid.1", text);
    if (strcmp(kinds[kind].name, "leader") == 0) {
        /* The first thread ends, and another continues. */
        pthread_t other;
        require((errno = pthread_create(&other, NULL, take_turns, (void *)(intptr_t)kind)) == 0, "pthread_create");
        pthread_exit(NULL);
    }
    for (; number > 0;)
        pause();
    take_turns((void *)(intptr_t)kind);
}

/* Receives the rank's data, so that it can continue. It serves a copy in the same way as the original. */
static void outside(void)
{
    struct pollfd from = {.fd = outer, .events = POLLIN};
    char bytes[4096];
    time_t end = time(NULL) + SECONDS;
    while (time(NULL) < end) {
        waitpid(-1, NULL, WNOHANG | __WALL);
        if (outer < 0 || outer == inner) {
            nanosleep(&(struct timespec){0, TURN_NS}, NULL);
        } else if (poll(&from, 1, TURN_NS / 1000000) > 0 && (from.revents & POLLIN)) {
            if (read(outer, bytes, sizeof bytes) == 0) {
                close(outer);
                from.fd = outer = -1;
            }
        }
    }
    _exit(0);
}

int main(int argc, char **argv)
{
    for (size_t kind = 0; argc >= 3 && kind < sizeof kinds / sizeof *kinds; kind++) {
        if (strcmp(kinds[kind].name, argv[1]) != 0)
            continue;
        directory = argv[2];
        ranks = argc > 3 ? atoi(argv[3]) : 1;
        kinds[kind].make();
        for (int number = 0; number < ranks; number++) {
            children[number] = fork();
            require(children[number] >= 0, "fork");
            if (children[number] == 0)
                rank(kind, number);
        }
        kinds[kind].outer();
        if (ranks > 1) {
            close(inner);
            close(outer);
            outer = -1;
            if (area != NULL)
                munmap(area, AREA);
        }
        outside();
    }
    fprintf(stderr, "usage: sharing-job KIND DIR [RANKS]\n");
    return 2;
}
