/* feature-job: a job that has a set of features, and checks all of them repeatedly.
 *
 *   feature-job DIR DISK RANKS FEATURE...
 *   feature-job --list
 *
 * It has two processes, or three. The parent is outside of the job, and has the other end of the job's shared
 * objects. Its children are the ranks. Each leads a session, has /dev/null as its standard streams, and writes its
 * PID to DIR/pid (the second one to DIR/pid.1). Rank 0 makes the features, and then checks every byte, offset and
 * peer of them every 20 ms. Each time it writes the number of that turn to DIR/turns, through no descriptor that
 * stays open. It writes an error to DIR/failed, and ends. DIR is a folder of both nodes. DISK is one of each node.
 * All end when DIR/stop exists, and by themselves after 10 minutes. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
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
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 30000, TURN_NS = 20000000, SECONDS = 600, PAGE = 4096, AREA = 64 * PAGE, MOST = 32, SERVED = 16 };

static const char *directory;
static const char *disk;
static long turn;
static pid_t rank_pids[2];
/* The objects from which the process outside receives, and those that it keeps. */
static int served[SERVED];
static int served_count;

static const char *place(const char *name)
{
    static char paths[4][4096];
    static int last;
    last = (last + 1) % 4;
    snprintf(paths[last], sizeof paths[last], "%s/%s", directory, name);
    return paths[last];
}

static void note(const char *name, const char *text)
{
    char part[64];
    snprintf(part, sizeof part, "%s.part", name);
    const char *from = place(part);
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

static void rest(void)
{
    nanosleep(&(struct timespec){0, TURN_NS}, NULL);
}

static void nothing(void) {}

static pid_t fork_child(void)
{
    pid_t pid = fork();
    require(pid >= 0, "fork");
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

static void *mapped(size_t bytes, int flags, int fd)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
    require(memory != MAP_FAILED, "mmap");
    return memory;
}

static int opened(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    require(fd >= 0, path);
    return fd;
}

/* Returns the byte of a page in a turn. */
static unsigned char due(size_t page, long at)
{
    return (unsigned char)(page * 7 + (size_t)at);
}

static void fill(unsigned char *area, size_t bytes)
{
    for (size_t page = 0; page < bytes / PAGE; page++)
        memset(area + page * PAGE, due(page, 0), PAGE);
}

/* Checks every byte, and changes one of each page for the following turns. */
static void look_at(unsigned char *area, size_t bytes, const char *what)
{
    for (size_t page = 0; page < bytes / PAGE; page++) {
        unsigned char *bytes_of = area + page * PAGE;
        require(bytes_of[0] == due(page, turn), what);
        for (size_t i = 1; i < PAGE; i++)
            require(bytes_of[i] == due(page, 0), what);
        bytes_of[0] = due(page, turn + 1);
    }
}

/* ---- memory ---- */

static unsigned char *anon, *cow, *file_area, *memfd_area, *middle, *locked, *stripes, *child_area, *huge;
static int memfd_fd, memfd_data_fd, shared_file_fd;

static void anon_make(void)
{
    fill(anon = mapped(AREA, MAP_PRIVATE | MAP_ANONYMOUS, -1), AREA);
}

static void anon_look(void)
{
    look_at(anon, AREA, "private memory is another");
}

static int filled_file(const char *name)
{
    static unsigned char page[PAGE];
    int fd = opened(place(name), O_RDWR | O_CREAT | O_TRUNC);
    for (size_t i = 0; i < 4; i++) {
        memset(page, due(i, 0), PAGE);
        require(write(fd, page, PAGE) == PAGE, "a file");
    }
    return fd;
}

static void cow_make(void)
{
    int fd = filled_file("cow");
    cow = mapped(4 * PAGE, MAP_PRIVATE, fd);
    close(fd);
    memset(cow + PAGE, 0xc0, PAGE);
}

static void cow_look(void)
{
    for (size_t i = 0; i < 4 * PAGE; i++)
        require(cow[i] == (i / PAGE == 1 ? 0xc0 : due(i / PAGE, 0)), "a private mapping of a file is another");
}

static void shared_file_make(void)
{
    shared_file_fd = filled_file("mapped");
    file_area = mapped(4 * PAGE, MAP_SHARED, shared_file_fd);
}

static void shared_file_look(void)
{
    unsigned char byte;
    look_at(file_area, 4 * PAGE, "a shared mapping of a file is another");
    require(pread(shared_file_fd, &byte, 1, PAGE) == 1 && byte == due(1, turn + 1), "the mapping is of another file");
}

static void memfd_make(void)
{
    memfd_fd = memfd_create("mapped", MFD_CLOEXEC);
    require(memfd_fd >= 0 && ftruncate(memfd_fd, AREA) == 0, "memfd_create");
    fill(memfd_area = mapped(AREA, MAP_SHARED, memfd_fd), AREA);
}

static void memfd_look(void)
{
    unsigned char byte;
    look_at(memfd_area, AREA, "a memfd is another");
    require(pread(memfd_fd, &byte, 1, 3 * PAGE) == 1 && byte == due(3, turn + 1), "the memfd is not the one mapped");
}

static void memfd_data_make(void)
{
    memfd_data_fd = memfd_create("data", MFD_CLOEXEC);
    require(memfd_data_fd >= 0 && write(memfd_data_fd, "0123456789", 10) == 10, "memfd_create");
    require(lseek(memfd_data_fd, 4, SEEK_SET) == 4, "lseek");
}

static void memfd_data_look(void)
{
    char text[11] = "";
    require(lseek(memfd_data_fd, 0, SEEK_CUR) == 4 && pread(memfd_data_fd, text, 10, 0) == 10
                && strcmp(text, "0123456789") == 0,
            "a memfd that is not mapped is another");
}

static void noaccess_make(void)
{
    size_t bytes = 64UL << 20;
    unsigned char *all = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(all != MAP_FAILED, "mmap");
    middle = all + bytes / 2;
    require(mprotect(middle, 4 * PAGE, PROT_READ | PROT_WRITE) == 0, "mprotect");
    fill(middle, 4 * PAGE);
}

static void noaccess_look(void)
{
    look_at(middle, 4 * PAGE, "memory in a reserved range is another");
}

static void sparse_make(void)
{
    huge = mmap(NULL, 1UL << 36, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(huge != MAP_FAILED, "mmap");
    for (size_t i = 0; i < 5; i++)
        huge[i << 33] = (unsigned char)(i + 1);
}

static void sparse_look(void)
{
    for (size_t i = 0; i < 5; i++)
        require(huge[i << 33] == i + 1, "a page of a large range is another");
    require(huge[(1UL << 33) + (1UL << 20)] == 0, "an empty page is not");
}

static void mlock_make(void)
{
    fill(locked = mapped(8 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1), 8 * PAGE);
    require(mlock(locked, 8 * PAGE) == 0, "mlock");
}

static void mlock_look(void)
{
    look_at(locked, 8 * PAGE, "locked memory is another");
    char line[128];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "re");
    require(status != NULL, "status");
    while (fgets(line, sizeof line, status) != NULL)
        sscanf(line, "VmLck: %ld", &kib);
    fclose(status);
    require(kib >= 32, "the memory is not locked");
}

static void many_maps_make(void)
{
    stripes = mapped(600 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    for (size_t i = 0; i < 600; i++)
        stripes[i * PAGE] = (unsigned char)i;
    for (size_t i = 0; i < 600; i += 2)
        require(mprotect(stripes + i * PAGE, PAGE, PROT_READ) == 0, "mprotect");
}

static void many_maps_look(void)
{
    for (size_t i = 0; i < 600; i++)
        require(stripes[i * PAGE] == (unsigned char)i, "one of many mappings is another");
}

struct link {
    struct link *next;
    long number;
};
static struct link *chain;

static void heap_make(void)
{
    for (long i = 0; i < 2000; i++) {
        struct link *one = malloc(sizeof *one + (size_t)i % 100);
        require(one != NULL, "malloc");
        *one = (struct link){chain, i};
        chain = one;
    }
}

static void heap_look(void)
{
    long number = 2000;
    for (struct link *one = chain; one != NULL; one = one->next)
        require(one->number == --number, "the heap is another");
    require(number == 0, "the heap is cut off");
}

static void child_memory_make(void)
{
    child_area = mapped(2 * PAGE, MAP_SHARED | MAP_ANONYMOUS, -1);
    if (fork_child() == 0)
        for (;; rest())
            child_area[PAGE]++;
}

static void child_memory_look(void)
{
    static unsigned char before;
    if (turn % 10 == 9) {
        require(child_area[PAGE] != before, "a child's writes do not show");
        before = child_area[PAGE];
    }
}

/* ---- threads and processes ---- */

static volatile long counts[3];
static __thread long own_count;
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t served_ball = PTHREAD_COND_INITIALIZER;
static volatile long balls;
static pid_t zombie, stopped;

static void text_of(const char *path, char *text, size_t bytes)
{
    int fd = opened(path, O_RDONLY);
    ssize_t length = read(fd, text, bytes - 1);
    require(length >= 0, path);
    text[length] = '\0';
    close(fd);
}

static void start(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    require((errno = pthread_create(&thread, NULL, run, argument)) == 0, "pthread_create");
}

static void *count(void *number)
{
    unsigned char on_stack[8 * PAGE];
    memset(on_stack, (int)(intptr_t)number + 1, sizeof on_stack);
    for (;; rest()) {
        require(own_count == counts[(intptr_t)number], "a variable of a thread is another");
        for (size_t i = 0; i < sizeof on_stack; i++)
            require(((volatile unsigned char *)on_stack)[i] == (intptr_t)number + 1, "the stack of a thread is another");
        own_count = ++counts[(intptr_t)number];
    }
    return NULL;
}

static void threads_make(void)
{
    for (intptr_t i = 0; i < 3; i++)
        start(count, (void *)i);
}

static void threads_look(void)
{
    static long before[3];
    for (int i = 0; turn % 25 == 24 && i < 3; i++) {
        require(counts[i] > before[i], "a thread is stopped");
        before[i] = counts[i];
    }
}

static void *play(void *side)
{
    for (;;) {
        pthread_mutex_lock(&table);
        while (balls % 2 != (intptr_t)side)
            pthread_cond_wait(&served_ball, &table);
        balls++;
        pthread_cond_broadcast(&served_ball);
        pthread_mutex_unlock(&table);
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
    return NULL;
}

static void condition_make(void)
{
    start(play, (void *)0);
    start(play, (void *)1);
}

static void condition_look(void)
{
    static long before = -1;
    if (turn % 25 == 24) {
        require(balls > before, "two threads wait for each other");
        before = balls;
    }
}

static void family_make(void)
{
    pid_t child = fork_child();
    if (child == 0) {
        setpgid(0, 0);
        pid_t grandchild = fork_child();
        if (grandchild == 0)
            setsid();
        for (;; rest())
            if (grandchild > 0 && waitpid(grandchild, NULL, WNOHANG) != 0)
                _exit(1);
    }
    zombie = fork_child();
    if (zombie == 0)
        _exit(7);
}

static void family_look(void)
{
    siginfo_t info;
    require(waitid(P_PID, (id_t)zombie, &info, WEXITED | WNOWAIT) == 0 && info.si_status == 7, "a child that ended is lost");
}

static void stopped_make(void)
{
    stopped = fork_child();
    if (stopped == 0)
        for (;; rest())
            raise(SIGSTOP);
    int status;
    require(waitpid(stopped, &status, WUNTRACED) == stopped && WIFSTOPPED(status), "a child does not stop");
}

static void stopped_look(void)
{
    char path[64];
    char text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", stopped);
    text_of(path, text, sizeof text);
    /* The name before it can contain anything. */
    const char *name_end = strrchr(text, ')');
    require(name_end != NULL && strncmp(name_end, ") T ", 4) == 0, "the stopped child continues");
}

/* ---- files ---- */

static int read_fd, write_fd, append_fd, unlinked_fd, dup_fds[2], inherited_fd, flags_fd, directory_fd, path_fd, high_fd;
static int device_fds[3], many_fds[60];
static char working[PATH_MAX];

static void digits(int fd)
{
    require(write(fd, "0123456789", 10) == 10, "a file");
}

static void read_make(void)
{
    digits(read_fd = opened(place("read"), O_RDWR | O_CREAT | O_TRUNC));
    close(read_fd);
    read_fd = opened(place("read"), O_RDONLY);
}

static void read_look(void)
{
    char byte;
    off_t at = turn % 10;
    require(lseek(read_fd, 0, SEEK_CUR) == at && read(read_fd, &byte, 1) == 1 && byte == '0' + at, "a file is read elsewhere");
    if (at == 9)
        lseek(read_fd, 0, SEEK_SET);
}

static void write_make(void)
{
    write_fd = opened(place("written"), O_RDWR | O_CREAT | O_TRUNC);
}

static void write_look(void)
{
    long number = turn;
    require(lseek(write_fd, 0, SEEK_CUR) == turn * (off_t)sizeof number, "a file is written elsewhere");
    require(write(write_fd, &number, sizeof number) == sizeof number, "write");
    long back = -1;
    require(turn == 0 || (pread(write_fd, &back, sizeof back, (turn - 1) * (off_t)sizeof back) == sizeof back && back == turn - 1),
            "what was written is another");
}

static void append_make(void)
{
    append_fd = opened(place("appended"), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND);
}

static void append_look(void)
{
    struct stat status;
    require(write(append_fd, "line\n", 5) == 5 && fstat(append_fd, &status) == 0 && status.st_size == (turn + 1) * 5,
            "a line is lost");
}

static void unlinked_make(void)
{
    digits(unlinked_fd = opened(place("unlinked"), O_RDWR | O_CREAT | O_TRUNC));
    require(ftruncate(unlinked_fd, 1 << 18) == 0 && pwrite(unlinked_fd, "end", 3, (1 << 18) - 3) == 3, "a file");
    require(unlink(place("unlinked")) == 0, "unlink");
}

static void unlinked_look(void)
{
    char text[4] = "";
    require(lseek(unlinked_fd, 0, SEEK_CUR) == 10 && pread(unlinked_fd, text, 3, (1 << 18) - 3) == 3
                && strcmp(text, "end") == 0 && pread(unlinked_fd, text, 1, 7) == 1 && text[0] == '7',
            "an unlinked file is another");
}

static void dup_make(void)
{
    digits(dup_fds[0] = opened(place("dup"), O_RDWR | O_CREAT | O_TRUNC));
    dup_fds[1] = fcntl(dup_fds[0], F_DUPFD_CLOEXEC, 0);
}

static void dup_look(void)
{
    off_t at = turn % 7;
    require(lseek(dup_fds[0], at, SEEK_SET) == at && lseek(dup_fds[1], 0, SEEK_CUR) == at, "two descriptors are two files");
}

static void inherited_make(void)
{
    inherited_fd = opened(place("inherited"), O_RDWR | O_CREAT | O_TRUNC);
    if (fork_child() == 0)
        for (;; rest())
            require(write(inherited_fd, "c", 1) == 1, "a child cannot write");
}

static void inherited_look(void)
{
    static off_t before;
    off_t at = lseek(inherited_fd, 0, SEEK_CUR);
    if (turn % 25 == 24) {
        require(at > before, "a child's file is another one");
        before = at;
    }
}

static void flags_make(void)
{
    flags_fd = open(place("flags"), O_RDWR | O_CREAT | O_APPEND | O_NONBLOCK | O_NOATIME, 0600);
    require(flags_fd >= 0 && fcntl(flags_fd, F_SETFD, 0) == 0, "open");
}

static void flags_look(void)
{
    int flags = fcntl(flags_fd, F_GETFL);
    int wanted = O_APPEND | O_NONBLOCK | O_NOATIME;
    require((flags & wanted) == wanted && (flags & O_ACCMODE) == O_RDWR && fcntl(flags_fd, F_GETFD) == 0, "the flags are others");
}

static void folder_make(void)
{
    directory_fd = opened(directory, O_RDONLY | O_DIRECTORY);
}

static void folder_look(void)
{
    require(faccessat(directory_fd, "pid", F_OK, 0) == 0, "the folder is another");
}

static void opath_make(void)
{
    path_fd = opened(directory, O_PATH | O_DIRECTORY);
}

static void opath_look(void)
{
    require(faccessat(path_fd, "pid", F_OK, 0) == 0 && (fcntl(path_fd, F_GETFL) & O_PATH) != 0, "the O_PATH is another");
}

static void devices_make(void)
{
    const char *names[] = {"/dev/null", "/dev/zero", "/dev/urandom"};
    for (int i = 0; i < 3; i++)
        device_fds[i] = opened(names[i], O_RDWR);
}

static void devices_look(void)
{
    char bytes[4] = "abc";
    require(read(device_fds[0], bytes, 4) == 0 && read(device_fds[1], bytes, 4) == 4 && memcmp(bytes, "\0\0\0", 4) == 0
                && read(device_fds[2], bytes, 4) == 4,
            "a device is another");
}

static void high_make(void)
{
    int fd = opened(place("high"), O_RDWR | O_CREAT | O_TRUNC);
    digits(fd);
    high_fd = fcntl(fd, F_DUPFD_CLOEXEC, 900);
    close(fd);
}

static void high_look(void)
{
    char byte;
    require(high_fd >= 900 && pread(high_fd, &byte, 1, 3) == 1 && byte == '3', "a high descriptor is another");
}

static void many_files_make(void)
{
    char name[32];
    for (int i = 0; i < 60; i++) {
        snprintf(name, sizeof name, "many.%d", i);
        many_fds[i] = opened(place(name), O_RDWR | O_CREAT | O_TRUNC);
        require(pwrite(many_fds[i], &i, sizeof i, 0) == sizeof i && lseek(many_fds[i], i, SEEK_SET) == i, "a file");
    }
}

static void many_files_look(void)
{
    for (int i = 0; i < 60; i++) {
        int back = -1;
        require(pread(many_fds[i], &back, sizeof back, 0) == sizeof back && back == i && lseek(many_fds[i], 0, SEEK_CUR) == i,
                "one of many files is another");
    }
}

static void working_make(void)
{
    require((mkdir(place("working"), 0755) == 0 || errno == EEXIST) && chdir(place("working")) == 0, "chdir");
    require(getcwd(working, sizeof working) != NULL, "getcwd");
}

static void working_look(void)
{
    char now[PATH_MAX];
    require(getcwd(now, sizeof now) != NULL && strcmp(now, working) == 0, "the working directory is another");
}

static void umask_make(void)
{
    umask(027);
}

static void umask_look(void)
{
    mode_t now = umask(027);
    require(now == 027, "the umask is another");
}

/* Names with any byte in them. */
static int odd_fd;
static unsigned char *odd_area;

static void odd_name_make(void)
{
    odd_fd = filled_file("odd \n\t\\012 b\xffrr (deleted)");
    odd_area = mapped(4 * PAGE, MAP_SHARED, odd_fd);
}

static void odd_name_look(void)
{
    look_at(odd_area, 4 * PAGE, "a file with an odd name is another");
}

/* ---- pipes, sockets, events ---- */

static int self_pipe[2], fifo_fd, widowed_fd, pair_fds[2], packets[2], name_fds[3], listen_fd, udp_fd;
static int event_fd, epoll_fd, epoll_pipe[2], timer_fd, signal_fd, notify_fd, pty_fds[2];

/* A child returns what it receives. Both directions always contain data. */
static void echo_make(int fds[2], int there[2], int back[2])
{
    if (fork_child() == 0) {
        char byte;
        while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
            continue;
        _exit(1);
    }
    fds[0] = there[1];
    fds[1] = back[0];
    require(write(fds[0], "ab", 2) == 2, "a first message");
}

static void echo_look(const int fds[2])
{
    static const char *lost = "what was sent to a child does not come back";
    char byte;
    require(read(fds[1], &byte, 1) == 1 && (byte == 'a' || byte == 'b') && write(fds[0], &byte, 1) == 1, lost);
}

static int child_pipe[2], child_pair[2], child_unix[2];

static void pipe_child_make(void)
{
    int there[2];
    int back[2];
    require(pipe2(there, O_CLOEXEC) == 0 && pipe2(back, O_CLOEXEC) == 0, "pipe");
    echo_make(child_pipe, there, back);
}

static void pipe_child_look(void)
{
    echo_look(child_pipe);
}

static void pipe_self_make(void)
{
    require(pipe2(self_pipe, O_CLOEXEC) == 0 && write(self_pipe[1], "0123456789", 10) == 10, "pipe");
}

static void cycle(int from, int to, const char *what)
{
    char byte;
    require(read(from, &byte, 1) == 1 && byte == '0' + turn % 10 && write(to, &byte, 1) == 1, what);
}

static void pipe_self_look(void)
{
    cycle(self_pipe[0], self_pipe[1], "the bytes in a pipe are others");
}

static void fifo_make(void)
{
    require(mkfifo(place("fifo"), 0600) == 0 || errno == EEXIST, "mkfifo");
    fifo_fd = opened(place("fifo"), O_RDWR);
    digits(fifo_fd);
}

static void fifo_look(void)
{
    cycle(fifo_fd, fifo_fd, "the bytes in a FIFO are others");
}

static void widowed_make(void)
{
    int ends[2];
    require(pipe2(ends, O_CLOEXEC) == 0 && write(ends[1], "left", 4) == 4, "pipe");
    close(ends[1]);
    widowed_fd = ends[0];
}

static void widowed_look(void)
{
    char bytes[8];
    require(turn < 5 || (turn == 5 ? read(widowed_fd, bytes, 8) == 4 : read(widowed_fd, bytes, 8) == 0), "a pipe does not end");
}

static void pair_make(void)
{
    int pair[2];
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    int swapped[2] = {pair[1], pair[0]};
    echo_make(child_pair, pair, swapped);
    child_pair[0] = child_pair[1] = pair[1];
    close(pair[0]);
}

static void pair_look(void)
{
    echo_look(child_pair);
}

static void queue_make(void)
{
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair_fds) == 0, "socketpair");
    require(write(pair_fds[1], "0123456789", 10) == 10, "write");
}

static void queue_look(void)
{
    cycle(pair_fds[0], pair_fds[1], "the bytes in a socket are others");
}

static void packets_make(void)
{
    require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, packets) == 0, "socketpair");
    require(send(packets[1], "one", 3, 0) == 3 && send(packets[1], "three", 5, 0) == 5, "send");
}

static void packets_look(void)
{
    char text[16];
    ssize_t due_bytes = turn % 2 == 0 ? 3 : 5;
    require(recv(packets[0], text, sizeof text, MSG_DONTWAIT) == due_bytes
                && send(packets[1], text, (size_t)due_bytes, 0) == due_bytes,
            "the packets in a socket are others");
}

static struct sockaddr_un named(const char *name)
{
    struct sockaddr_un made = {.sun_family = AF_UNIX};
    int length = snprintf(made.sun_path, sizeof made.sun_path, "%s", place(name));
    require(length > 0 && length < (int)sizeof made.sun_path, "the path is too long");
    return made;
}

static void unix_make(void)
{
    struct sockaddr_un address = named("socket");
    unlink(address.sun_path);
    name_fds[2] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(bind(name_fds[2], (struct sockaddr *)&address, sizeof address) == 0 && listen(name_fds[2], 5) == 0
                && connect(client, (struct sockaddr *)&address, sizeof address) == 0,
            "a listening socket");
    int server = accept4(name_fds[2], NULL, NULL, SOCK_CLOEXEC);
    int there[2] = {server, client};
    int back[2] = {client, server};
    echo_make(child_unix, there, back);
}

static void unix_look(void)
{
    echo_look(child_unix);
}

static struct sockaddr_in local(void)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void listen_make(void)
{
    struct sockaddr_in address = local();
    listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(bind(listen_fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(listen_fd, 5) == 0, "a listening socket");
}

static void listen_look(void)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    require(getsockname(listen_fd, (struct sockaddr *)&address, &length) == 0, "getsockname");
    if (turn % 10 != 9)
        return;
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    connect(client, (struct sockaddr *)&address, length);
    struct pollfd wait = {.fd = listen_fd, .events = POLLIN};
    require(poll(&wait, 1, 5000) == 1, "nobody can connect");
    int server = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    require(server >= 0, "accept");
    struct linger now = {1, 0};
    setsockopt(client, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(client);
    close(server);
}

static void udp_make(void)
{
    struct sockaddr_in address = local();
    udp_fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    require(bind(udp_fd, (struct sockaddr *)&address, sizeof address) == 0, "a UDP socket");
}

static void udp_look(void)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    char byte;
    require(getsockname(udp_fd, (struct sockaddr *)&address, &length) == 0
                && sendto(udp_fd, "x", 1, 0, (struct sockaddr *)&address, length) == 1 && recv(udp_fd, &byte, 1, 0) == 1,
            "a datagram is lost");
}

static void eventfd_make(void)
{
    event_fd = eventfd(5, EFD_CLOEXEC | EFD_NONBLOCK);
}

static void eventfd_look(void)
{
    uint64_t value = 0;
    require(read(event_fd, &value, 8) == 8 && value == 5 && write(event_fd, &value, 8) == 8, "an eventfd is another");
}

static int semaphore_fd;

static void semaphore_make(void)
{
    semaphore_fd = eventfd(5, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
}

static void semaphore_look(void)
{
    uint64_t one = 0;
    require(read(semaphore_fd, &one, 8) == 8 && one == 1 && write(semaphore_fd, &one, 8) == 8,
            "an eventfd is no semaphore any more");
}

static void epoll_make(void)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0x1234567890};
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    require(pipe2(epoll_pipe, O_CLOEXEC) == 0 && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, epoll_pipe[0], &event) == 0, "epoll");
}

static void epoll_look(void)
{
    struct epoll_event event;
    char byte;
    require(epoll_wait(epoll_fd, &event, 1, 0) == 0 && write(epoll_pipe[1], "x", 1) == 1
                && epoll_wait(epoll_fd, &event, 1, 0) == 1 && event.data.u64 == 0x1234567890
                && read(epoll_pipe[0], &byte, 1) == 1,
            "epoll shows another event");
}

static void timerfd_make(void)
{
    struct itimerspec late = {{0, 0}, {1000, 0}};
    timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    require(timerfd_settime(timer_fd, 0, &late, NULL) == 0, "timerfd");
}

static void timerfd_look(void)
{
    static long before = 1001000;
    struct itimerspec left;
    require(timerfd_gettime(timer_fd, &left) == 0, "timerfd");
    long ms = left.it_value.tv_sec * 1000 + left.it_value.tv_nsec / 1000000;
    require(ms > 0 && ms <= before, "a timer has another time");
    before = ms;
}

static void signalfd_make(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void signalfd_look(void)
{
    struct signalfd_siginfo info;
    union sigval value = {.sival_int = (int)turn};
    require(sigqueue(getpid(), SIGRTMIN + 1, value) == 0 && read(signal_fd, &info, sizeof info) == sizeof info
                && info.ssi_int == (int)turn,
            "a signalfd is silent");
}

static void inotify_make(void)
{
    notify_fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    require(inotify_add_watch(notify_fd, directory, IN_CREATE) >= 0, "inotify");
}

/* CRIU drops queued events during the checkpoint, so one event may be lost between its cause and its reading. The
 * next one is not. */
static void inotify_look(void)
{
    static int lost;
    char event[4096];
    lost = read(notify_fd, event, sizeof event) > 0 || turn == 0 ? 0 : lost + 1;
    require(lost < 3, "inotify is silent");
}

static void pty_make(void)
{
    pty_fds[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    require(pty_fds[0] >= 0 && grantpt(pty_fds[0]) == 0 && unlockpt(pty_fds[0]) == 0, "posix_openpt");
    pty_fds[1] = opened(ptsname(pty_fds[0]), O_RDWR | O_NOCTTY);
}

static void pty_look(void)
{
    char line[64];
    require(write(pty_fds[0], "x\n", 2) == 2 && read(pty_fds[1], line, sizeof line) == 2, "a terminal is silent");
    struct pollfd echo = {.fd = pty_fds[0], .events = POLLIN};
    while (poll(&echo, 1, 0) > 0 && read(pty_fds[0], line, sizeof line) > 0)
        continue;
}

/* ---- the older asynchronous I/O: its ring is a mapping of a name of its own ---- */

static aio_context_t aio;
static int aio_fd;

static void aio_make(void)
{
    require(syscall(SYS_io_setup, 8, &aio) == 0, "io_setup");
    aio_fd = opened(place("aio"), O_RDWR | O_CREAT);
}

static void aio_look(void)
{
    static unsigned char bytes[PAGE];
    memset(bytes, due(0, turn), sizeof bytes);
    struct iocb one = {.aio_lio_opcode = IOCB_CMD_PWRITE,
                       .aio_fildes = (uint32_t)aio_fd,
                       .aio_buf = (uintptr_t)bytes,
                       .aio_nbytes = sizeof bytes};
    struct iocb *all[] = {&one};
    struct io_event event = {0};
    unsigned char written = 0;
    require(syscall(SYS_io_submit, aio, 1, all) == 1 && syscall(SYS_io_getevents, aio, 1, 1, &event, NULL) == 1
                && event.res == PAGE && pread(aio_fd, &written, 1, PAGE - 1) == 1 && written == due(0, turn),
            "asynchronous I/O does nothing");
}

/* ---- clocks since the boot, which each node counts from another moment ---- */

static struct timespec clock_before[2];
static const clockid_t CLOCKS[] = {CLOCK_MONOTONIC, CLOCK_BOOTTIME};

static void clocks_make(void)
{
    for (int i = 0; i < 2; i++)
        clock_gettime(CLOCKS[i], &clock_before[i]);
}

/* A deadline of such a clock must come neither at once nor days later. */
static void clocks_look(void)
{
    for (int i = 0; i < 2; i++) {
        struct timespec now;
        clock_gettime(CLOCKS[i], &now);
        long long passed = (now.tv_sec - clock_before[i].tv_sec) * 1000000000LL + now.tv_nsec - clock_before[i].tv_nsec;
        require(passed > 0 && passed < 300 * 1000000000LL, "a clock has jumped");
        clock_before[i] = now;
    }
}

/* ---- whose it is ---- */

enum { OWNED = 16 };

static int owned[OWNED];
static int owned_count;
static struct stat owned_before[OWNED];
static int owner_listen, owner_tcp;

static void own(int fd)
{
    require(fd >= 0 && owned_count < OWNED, "a descriptor");
    owned[owned_count++] = fd;
}

/* Makes every kind of unnamed object that has an owner in the kernel. */
static void owners_make(void)
{
    int ends[2];
    struct sockaddr_in address = local();
    struct sockaddr_un name = named("owner-socket");
    require(pipe2(ends, O_CLOEXEC) == 0, "pipe");
    own(ends[0]);
    own(ends[1]);
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    own(ends[0]);
    own(ends[1]);
    owner_listen = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(bind(owner_listen, (struct sockaddr *)&name, sizeof name) == 0 && listen(owner_listen, 5) == 0, "listen");
    own(owner_listen);
    owner_tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(bind(owner_tcp, (struct sockaddr *)&address, sizeof address) == 0 && listen(owner_tcp, 5) == 0, "listen");
    own(owner_tcp);
    own(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    own(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    own(memfd_create("owned", MFD_CLOEXEC));
    own(eventfd(1, EFD_CLOEXEC));
    own(epoll_create1(EPOLL_CLOEXEC));
    for (int i = 0; i < owned_count; i++)
        require(fstat(owned[i], &owned_before[i]) == 0, "fstat");
}

enum { LISTINGS = 20 };

/*
 * Returns true if the kernel counts a socket to the user, as firewalls do. A listing takes several reads, and misses an
 * entry if others before it go in between. So a socket that is in no listing is looked for again; one that is listed as
 * another user's is not.
 */
static bool is_listed_as(uid_t uid, ino_t inode)
{
    for (int i = 0; i < LISTINGS; i++) {
        FILE *table = fopen("/proc/net/tcp", "re");
        require(table != NULL, "/proc/net/tcp");
        char line[512];
        bool listed = false;
        unsigned owner = 0;
        while (!listed && fgets(line, sizeof line, table) != NULL) {
            unsigned user;
            unsigned long number;
            if (sscanf(line, "%*d: %*s %*s %*s %*s %*s %*s %u %*u %lu", &user, &number) == 2 && number == inode) {
                listed = true;
                owner = user;
            }
        }
        fclose(table);
        if (listed)
            return owner == uid;
    }
    require(false, "a TCP socket is in no listing of the kernel");
    return false;
}

static void owners_look(void)
{
    struct stat now;
    struct ucred peer = {0};
    socklen_t length = sizeof peer;
    for (int i = 0; i < owned_count; i++)
        require(fstat(owned[i], &now) == 0 && now.st_uid == owned_before[i].st_uid && now.st_gid == owned_before[i].st_gid
                    && now.st_mode == owned_before[i].st_mode,
                "a descriptor's owner or mode is another");
    require(fstat(owner_tcp, &now) == 0 && is_listed_as(geteuid(), now.st_ino), "a TCP socket is another user's");
    struct sockaddr_un name = named("owner-socket");
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(connect(client, (struct sockaddr *)&name, sizeof name) == 0
                && getsockopt(client, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid()
                && peer.gid == getegid(),
            "a listening socket is another user's");
    int server = accept4(owner_listen, NULL, NULL, SOCK_CLOEXEC);
    require(server >= 0, "accept");
    close(server);
    close(client);
}

/* ---- signals, timers, limits, rights ---- */

static volatile sig_atomic_t alarms, ticks, on_stack;
static unsigned char *alternative;

static void on_alarm(int number)
{
    (void)number;
    alarms++;
}

static void on_tick(int number)
{
    (void)number;
    ticks++;
}

static void itimer_make(void)
{
    signal(SIGALRM, on_alarm);
    struct itimerval often = {{0, 5000}, {0, 5000}};
    require(setitimer(ITIMER_REAL, &often, NULL) == 0, "setitimer");
}

static void itimer_look(void)
{
    static sig_atomic_t before;
    if (turn % 10 == 9) {
        require(alarms > before, "an interval timer is stopped");
        before = alarms;
    }
}

static void ptimer_make(void)
{
    signal(SIGUSR1, on_tick);
    struct itimerspec often = {{0, 5000000}, {0, 5000000}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t timer;
    require(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 && timer_settime(timer, 0, &often, NULL) == 0, "timer_create");
}

static void ptimer_look(void)
{
    static sig_atomic_t before;
    if (turn % 10 == 9) {
        require(ticks > before, "a POSIX timer is stopped");
        before = ticks;
    }
}

static void pending_make(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    sigaddset(&set, SIGRTMIN + 2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 3; i++)
        require(sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = i}) == 0, "sigqueue");
    require(kill(getpid(), SIGUSR2) == 0, "kill");
}

static void pending_look(void)
{
    sigset_t set;
    require(sigpending(&set) == 0 && sigismember(&set, SIGUSR2) && sigismember(&set, SIGRTMIN + 2), "a pending signal is lost");
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 2);
    siginfo_t info;
    struct timespec now = {0, 0};
    require(sigtimedwait(&set, &info, &now) == SIGRTMIN + 2 && info.si_value.sival_int == turn % 3
                && sigqueue(getpid(), SIGRTMIN + 2, info.si_value) == 0,
            "a queued signal is another");
}

static void on_signal_stack(int number)
{
    unsigned char here = (unsigned char)number;
    on_stack = &here >= alternative && &here < alternative + 16 * PAGE;
}

static void sigaltstack_make(void)
{
    alternative = mapped(16 * PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    stack_t stack = {.ss_sp = alternative, .ss_size = 16 * PAGE};
    struct sigaction action = {.sa_handler = on_signal_stack, .sa_flags = SA_ONSTACK};
    require(sigaltstack(&stack, NULL) == 0 && sigaction(SIGWINCH, &action, NULL) == 0, "sigaltstack");
}

static void sigaltstack_look(void)
{
    on_stack = 0;
    require(raise(SIGWINCH) == 0 && on_stack == 1, "the stack for signals is another");
}

static void nice_make(void)
{
    require(setpriority(PRIO_PROCESS, 0, 7) == 0, "setpriority");
}

static void nice_look(void)
{
    require(getpriority(PRIO_PROCESS, 0) == 7, "the nice value is another");
}

static void batch_make(void)
{
    require(sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0}) == 0, "sched_setscheduler");
}

static void batch_look(void)
{
    require(sched_getscheduler(0) == SCHED_BATCH, "the scheduling policy is another");
}

static void limit_make(void)
{
    require(setrlimit(RLIMIT_CORE, &(struct rlimit){4096, 8192}) == 0, "setrlimit");
}

static void limit_look(void)
{
    struct rlimit limit;
    require(getrlimit(RLIMIT_CORE, &limit) == 0 && limit.rlim_cur == 4096 && limit.rlim_max == 8192, "a limit is another");
}

static void nnp_make(void)
{
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
}

static void nnp_look(void)
{
    require(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "no_new_privs is lost");
}

static void seccomp_make(void)
{
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {1, all};
    nnp_make();
    require(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0, "seccomp");
}

static void seccomp_look(void)
{
    require(prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_FILTER, "the filter is lost");
}

static void name_make(void)
{
    require(prctl(PR_SET_NAME, "odd) R 1 (\n", 0, 0, 0) == 0 && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0, "prctl");
}

static void name_look(void)
{
    char now[17] = "";
    int reaps = 0;
    require(prctl(PR_GET_NAME, now, 0, 0, 0) == 0 && strcmp(now, "odd) R 1 (\n") == 0, "the name is another");
    require(prctl(PR_GET_CHILD_SUBREAPER, &reaps, 0, 0, 0) == 0 && reaps == 1, "it is no reaper any more");
}

static void oom_make(void)
{
    int fd = opened("/proc/self/oom_score_adj", O_WRONLY);
    require(write(fd, "300", 3) == 3, "oom_score_adj");
    close(fd);
}

static void oom_look(void)
{
    char text[32];
    text_of("/proc/self/oom_score_adj", text, sizeof text);
    require(atoi(text) == 300, "oom_score_adj is another");
}

static char command_line[4096];

static void words_make(void)
{
    text_of("/proc/self/cmdline", command_line, sizeof command_line);
    require(setenv("FEATURE", "odd=\n", 1) == 0, "setenv");
}

static void words_look(void)
{
    char now[4096];
    text_of("/proc/self/cmdline", now, sizeof now);
    require(strcmp(now, command_line) == 0 && strcmp(getenv("FEATURE"), "odd=\n") == 0, "arguments or environment are others");
}

static void affinity_make(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    require(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

static void affinity_look(void)
{
    cpu_set_t set;
    require(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1 && CPU_ISSET(0, &set), "the affinity is lost");
}

static void slack_make(void)
{
    require(prctl(PR_SET_TIMERSLACK, 123456, 0, 0, 0) == 0, "PR_SET_TIMERSLACK");
}

static void slack_look(void)
{
    require(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 123456, "the timer slack is lost");
}

static int member_fd;

static void multicast_make(void)
{
    struct ip_mreq group = {.imr_multiaddr.s_addr = htonl(0xe0010101), .imr_interface.s_addr = htonl(INADDR_LOOPBACK)};
    udp_make();
    member_fd = udp_fd;
    require(setsockopt(member_fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group) == 0, "IP_ADD_MEMBERSHIP");
}

static void multicast_look(void)
{
    struct ip_mreq group = {.imr_multiaddr.s_addr = htonl(0xe0010101), .imr_interface.s_addr = htonl(INADDR_LOOPBACK)};
    errno = 0;
    require(setsockopt(member_fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group) != 0 && errno == EADDRINUSE,
            "the membership of a group is lost");
}

/* ---- much of something, for jobs of their own ---- */

enum { LONG_MAPS = 1500, CROWD = 1000, CELLS = 3000 };

static unsigned char *long_maps[LONG_MAPS];
static volatile long crowd_counts[CROWD];
static unsigned char *range;
static size_t range_step;

static void long_maps_make(void)
{
    char name[240];
    memset(name, 's', sizeof name);
    for (int i = 0; i < LONG_MAPS; i++) {
        snprintf(name + 200, 30, "%d", i);
        int fd = opened(place(name), O_RDWR | O_CREAT);
        require(ftruncate(fd, PAGE) == 0, "ftruncate");
        long_maps[i] = mapped(PAGE, MAP_SHARED, fd);
        long_maps[i][0] = (unsigned char)i;
        close(fd);
    }
}

static void long_maps_look(void)
{
    for (int i = 0; i < LONG_MAPS; i++)
        require(long_maps[i][0] == (unsigned char)i, "one of many mapped files is another");
}

static void *stand(void *number)
{
    for (;; nanosleep(&(struct timespec){0, 200000000}, NULL))
        crowd_counts[(intptr_t)number]++;
    return NULL;
}

static void crowd_make(void)
{
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (intptr_t i = 0; i < CROWD; i++) {
        pthread_t thread;
        require((errno = pthread_create(&thread, &small, stand, (void *)i)) == 0, "pthread_create");
    }
}

static void crowd_look(void)
{
    static long before[CROWD];
    for (int i = 0; turn % 50 == 49 && i < CROWD; i++) {
        require(crowd_counts[i] > before[i], "one of many threads is stopped");
        before[i] = crowd_counts[i];
    }
}

static unsigned char *cell(size_t number)
{
    return range + (number * range_step & ~(size_t)(PAGE - 1));
}

static void tebibytes_make(void)
{
    size_t bytes = 8UL << 40;
    range = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(range != MAP_FAILED, "mmap");
    range_step = bytes / CELLS;
    for (size_t i = 0; i < CELLS; i++)
        *cell(i) = (unsigned char)(i * 7 + 1);
}

static void tebibytes_look(void)
{
    for (size_t i = 0; i < CELLS; i++)
        require(*cell(i) == (unsigned char)(i * 7 + 1), "a page of 8 TiB is another");
}

/* ---- what cannot be moved ---- */

/* The names of the process and of a locked file look like lines of a log, and like control sequences of a terminal. */
static void forged_make(void)
{
    require(prctl(PR_SET_NAME, "x\x1b[31m)\nroot ok", 0, 0, 0) == 0, "prctl");
    int fd = opened(place("d\x1b[2J\x1b[1;1H\n2026-11-28.12:00:00.000Z [migration] INFO SourceService - migration m: COMMITTED"),
                    O_RDWR | O_CREAT);
    require(flock(fd, LOCK_EX | LOCK_NB) == 0, "flock");
}

static int flock_fd, record_fd, local_fd, cut_pipe[2], tcp_fds[3];
static unsigned char *sysv;

static void flock_make(void)
{
    flock_fd = opened(place("flock"), O_RDWR | O_CREAT);
    require(flock(flock_fd, LOCK_EX | LOCK_NB) == 0, "flock");
}

static void flock_look(void)
{
    int other = opened(place("flock"), O_RDWR);
    require(flock(other, LOCK_EX | LOCK_NB) != 0, "the lock is lost");
    close(other);
}

static void record_make(void)
{
    record_fd = opened(place("record"), O_RDWR | O_CREAT);
    struct flock lock = {.l_type = F_WRLCK};
    require(fcntl(record_fd, F_SETLK, &lock) == 0, "F_SETLK");
}

static void sysv_make(void)
{
    int id = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600);
    require(id >= 0 && (sysv = shmat(id, NULL, 0)) != (void *)-1 && shmctl(id, IPC_RMID, NULL) == 0, "shmget");
    sysv[0] = 7;
}

static void sysv_look(void)
{
    require(sysv[0] == 7, "System V memory is another");
}

static void packet_pipe_make(void)
{
    require(pipe2(cut_pipe, O_DIRECT | O_CLOEXEC) == 0, "pipe2");
}

static void established_make(void)
{
    struct sockaddr_in address = local();
    socklen_t length = sizeof address;
    tcp_fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    tcp_fds[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(bind(tcp_fds[0], (struct sockaddr *)&address, sizeof address) == 0 && listen(tcp_fds[0], 5) == 0
                && getsockname(tcp_fds[0], (struct sockaddr *)&address, &length) == 0
                && connect(tcp_fds[1], (struct sockaddr *)&address, length) == 0,
            "a TCP connection");
    tcp_fds[2] = accept4(tcp_fds[0], NULL, NULL, SOCK_CLOEXEC);
    require(tcp_fds[2] >= 0, "accept");
}

static void established_look(void)
{
    char byte;
    require(write(tcp_fds[1], "x", 1) == 1 && read(tcp_fds[2], &byte, 1) == 1, "a TCP connection is lost");
}

static const char *on_disk(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", disk, name);
    return path;
}

static void local_write_make(void)
{
    local_fd = opened(on_disk("feature-job.out"), O_RDWR | O_CREAT);
}

static void local_write_look(void)
{
    require(pwrite(local_fd, "x", 1, 0) == 1, "a local file cannot be written");
}

static void local_folder_make(void)
{
    require((mkdir(on_disk("feature-job"), 0755) == 0 || errno == EEXIST) && chdir(on_disk("feature-job")) == 0, "chdir");
}

/* ---- shared with a process outside: before the fork, then in the rank, then in the process outside ---- */

static int out_pipe[2], in_pipe[2], out_fifo[2], out_pair[2], out_stream[3], out_log[2], out_memfd, out_file, out_input;
static int out_event, out_epoll[2], out_pty[2], out_tcp, out_pidfd, out_append, rank_file, rank_pipe[2];
static unsigned char *out_anon, *out_memory, *out_mapped;

static void serve(int fd)
{
    require(served_count < SERVED, "too many are served");
    served[served_count++] = fd;
}

static void pipe_out_before(void) { require(pipe(out_pipe) == 0, "pipe"); }
static void pipe_out_inner(void) { close(out_pipe[0]); }
static void pipe_out_outer(void) { close(out_pipe[1]); serve(out_pipe[0]); }
static void pipe_out_look(void) { require(write(out_pipe[1], "x", 1) == 1, "nobody reads"); }
static void pipe_in_before(void) { require(pipe(in_pipe) == 0, "pipe"); }
static void pipe_in_inner(void) { close(in_pipe[1]); }
static void pipe_in_outer(void) { close(in_pipe[0]); }
static void fifo_out_before(void)
{
    require(mkfifo(place("fifo.out"), 0600) == 0, "mkfifo");
    out_fifo[0] = opened(place("fifo.out"), O_RDONLY | O_NONBLOCK);
    out_fifo[1] = opened(place("fifo.out"), O_WRONLY);
}
static void fifo_out_inner(void) { close(out_fifo[0]); }
static void fifo_out_outer(void) { close(out_fifo[1]); serve(out_fifo[0]); }
static void pair_out_before(void) { require(socketpair(AF_UNIX, SOCK_STREAM, 0, out_pair) == 0, "socketpair"); }
static void pair_out_inner(void) { close(out_pair[1]); }
static void pair_out_outer(void) { close(out_pair[0]); serve(out_pair[1]); }
static void stream_out_before(void)
{
    struct sockaddr_un address = named("names");
    out_stream[0] = socket(AF_UNIX, SOCK_STREAM, 0);
    out_stream[1] = socket(AF_UNIX, SOCK_STREAM, 0);
    require(bind(out_stream[1], (struct sockaddr *)&address, sizeof address) == 0 && listen(out_stream[1], 4) == 0
                && connect(out_stream[0], (struct sockaddr *)&address, sizeof address) == 0,
            "a server");
    out_stream[2] = accept(out_stream[1], NULL, NULL);
}
static void stream_out_inner(void) { close(out_stream[1]); close(out_stream[2]); }
static void stream_out_outer(void) { close(out_stream[0]); }
static void log_out_before(void)
{
    struct sockaddr_un address = named("log");
    out_log[0] = socket(AF_UNIX, SOCK_DGRAM, 0);
    out_log[1] = socket(AF_UNIX, SOCK_DGRAM, 0);
    require(bind(out_log[1], (struct sockaddr *)&address, sizeof address) == 0
                && connect(out_log[0], (struct sockaddr *)&address, sizeof address) == 0,
            "a log");
}
static void log_out_inner(void) { close(out_log[1]); }
static void log_out_outer(void) { close(out_log[0]); serve(out_log[1]); }
static void anon_out_before(void) { out_anon = mapped(PAGE, MAP_SHARED | MAP_ANONYMOUS, -1); }
static void memfd_out_before(void)
{
    out_memfd = memfd_create("shared", 0);
    require(out_memfd >= 0 && ftruncate(out_memfd, PAGE) == 0, "memfd_create");
    out_memory = mapped(PAGE, MAP_SHARED, out_memfd);
}
static void memfd_out_inner(void) { close(out_memfd); }
static void memfd_out_outer(void) { munmap(out_memory, PAGE); }
static void mapped_out_before(void)
{
    int fd = opened(place("mapped.out"), O_RDWR | O_CREAT);
    require(ftruncate(fd, PAGE) == 0, "ftruncate");
    out_mapped = mapped(PAGE, MAP_SHARED, fd);
    close(fd);
}
static void file_out_before(void) { out_file = opened(place("file.out"), O_WRONLY | O_CREAT); }
static void input_out_before(void)
{
    digits(out_input = opened(place("input.out"), O_RDWR | O_CREAT));
    close(out_input);
    out_input = opened(place("input.out"), O_RDONLY);
}
static void append_out_before(void) { out_append = opened(place("append.out"), O_WRONLY | O_CREAT | O_APPEND); }
static void append_out_look(void) { require(write(out_append, "line\n", 5) == 5, "a line is lost"); }
static void event_out_before(void) { out_event = eventfd(5, 0); }
static void epoll_out_before(void)
{
    struct epoll_event event = {.events = EPOLLIN};
    out_epoll[0] = epoll_create1(0);
    out_epoll[1] = eventfd(0, 0);
    require(epoll_ctl(out_epoll[0], EPOLL_CTL_ADD, out_epoll[1], &event) == 0, "epoll");
}
static void epoll_out_inner(void) { close(out_epoll[1]); }
static void epoll_out_outer(void) { close(out_epoll[0]); }
static void pty_out_before(void)
{
    out_pty[0] = posix_openpt(O_RDWR | O_NOCTTY);
    require(out_pty[0] >= 0 && grantpt(out_pty[0]) == 0 && unlockpt(out_pty[0]) == 0, "posix_openpt");
    out_pty[1] = opened(ptsname(out_pty[0]), O_RDWR | O_NOCTTY);
}
static void pty_out_inner(void) { close(out_pty[0]); }
static void pty_out_outer(void) { close(out_pty[1]); }
static void tcp_out_before(void)
{
    struct sockaddr_in address = local();
    out_tcp = socket(AF_INET, SOCK_STREAM, 0);
    require(bind(out_tcp, (struct sockaddr *)&address, sizeof address) == 0 && listen(out_tcp, 4) == 0, "a socket");
}
static void pidfd_out_before(void)
{
    out_pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    require(out_pidfd >= 0, "pidfd_open");
}
static void pidfd_out_outer(void) { close(out_pidfd); }
static void traced_outer(void) { require(ptrace(PTRACE_SEIZE, rank_pids[0], NULL, NULL) == 0, "PTRACE_SEIZE"); }
/* Two ranks have one file, and one of them does not append to it. */
static void rank_file_before(void) { rank_file = opened(place("both.out"), O_WRONLY | O_CREAT); }
static void rank_file_outer(void) { close(rank_file); }
static void rank_pipe_before(void) { require(pipe(rank_pipe) == 0, "pipe"); }
static void rank_pipe_inner(void) { close(rank_pipe[0]); }
static void rank_pipe_outer(void) { close(rank_pipe[0]); close(rank_pipe[1]); }

/* Functions before the fork; in rank 0; in the process outside; in each turn. */
static const struct feature {
    const char *name;
    void (*before)(void);
    void (*inner)(void);
    void (*outer)(void);
    void (*look)(void);
} features[] = {
    {"plain", nothing, nothing, nothing, nothing},
    {"anon", nothing, anon_make, nothing, anon_look},
    {"cow", nothing, cow_make, nothing, cow_look},
    {"shared-file", nothing, shared_file_make, nothing, shared_file_look},
    {"memfd", nothing, memfd_make, nothing, memfd_look},
    {"memfd-data", nothing, memfd_data_make, nothing, memfd_data_look},
    {"noaccess", nothing, noaccess_make, nothing, noaccess_look},
    {"sparse", nothing, sparse_make, nothing, sparse_look},
    {"mlock", nothing, mlock_make, nothing, mlock_look},
    {"many-maps", nothing, many_maps_make, nothing, many_maps_look},
    {"heap", nothing, heap_make, nothing, heap_look},
    {"child-memory", nothing, child_memory_make, nothing, child_memory_look},
    {"threads", nothing, threads_make, nothing, threads_look},
    {"condition", nothing, condition_make, nothing, condition_look},
    {"family", nothing, family_make, nothing, family_look},
    {"stopped", nothing, stopped_make, nothing, stopped_look},
    {"read", nothing, read_make, nothing, read_look},
    {"write", nothing, write_make, nothing, write_look},
    {"append", nothing, append_make, nothing, append_look},
    {"unlinked", nothing, unlinked_make, nothing, unlinked_look},
    {"dup", nothing, dup_make, nothing, dup_look},
    {"inherited", nothing, inherited_make, nothing, inherited_look},
    {"flags", nothing, flags_make, nothing, flags_look},
    {"folder", nothing, folder_make, nothing, folder_look},
    {"o-path", nothing, opath_make, nothing, opath_look},
    {"devices", nothing, devices_make, nothing, devices_look},
    {"high", nothing, high_make, nothing, high_look},
    {"many-files", nothing, many_files_make, nothing, many_files_look},
    {"working", nothing, working_make, nothing, working_look},
    {"umask", nothing, umask_make, nothing, umask_look},
    {"odd-name", nothing, odd_name_make, nothing, odd_name_look},
    {"pipe-child", nothing, pipe_child_make, nothing, pipe_child_look},
    {"pipe-self", nothing, pipe_self_make, nothing, pipe_self_look},
    {"fifo", nothing, fifo_make, nothing, fifo_look},
    {"widowed", nothing, widowed_make, nothing, widowed_look},
    {"pair", nothing, pair_make, nothing, pair_look},
    {"queue", nothing, queue_make, nothing, queue_look},
    {"packets", nothing, packets_make, nothing, packets_look},
    {"unix", nothing, unix_make, nothing, unix_look},
    {"listen", nothing, listen_make, nothing, listen_look},
    {"udp", nothing, udp_make, nothing, udp_look},
    {"eventfd", nothing, eventfd_make, nothing, eventfd_look},
    {"eventfd-semaphore", nothing, semaphore_make, nothing, semaphore_look},
    {"epoll", nothing, epoll_make, nothing, epoll_look},
    {"timerfd", nothing, timerfd_make, nothing, timerfd_look},
    {"signalfd", nothing, signalfd_make, nothing, signalfd_look},
    {"inotify", nothing, inotify_make, nothing, inotify_look},
    {"pty", nothing, pty_make, nothing, pty_look},
    {"aio", nothing, aio_make, nothing, aio_look},
    {"clocks", nothing, clocks_make, nothing, clocks_look},
    {"owners", nothing, owners_make, nothing, owners_look},
    {"itimer", nothing, itimer_make, nothing, itimer_look},
    {"posix-timer", nothing, ptimer_make, nothing, ptimer_look},
    {"pending", nothing, pending_make, nothing, pending_look},
    {"sigaltstack", nothing, sigaltstack_make, nothing, sigaltstack_look},
    {"nice", nothing, nice_make, nothing, nice_look},
    {"batch", nothing, batch_make, nothing, batch_look},
    {"limit", nothing, limit_make, nothing, limit_look},
    {"no-new-privs", nothing, nnp_make, nothing, nnp_look},
    {"seccomp", nothing, seccomp_make, nothing, seccomp_look},
    {"name", nothing, name_make, nothing, name_look},
    {"oom", nothing, oom_make, nothing, oom_look},
    {"words", nothing, words_make, nothing, words_look},
    {"affinity", nothing, affinity_make, nothing, affinity_look},
    {"timer-slack", nothing, slack_make, nothing, slack_look},
    {"multicast", nothing, multicast_make, nothing, multicast_look},
    {"append-out", append_out_before, nothing, nothing, append_out_look},
    {"long-maps", nothing, long_maps_make, nothing, long_maps_look},
    {"crowd", nothing, crowd_make, nothing, crowd_look},
    {"tebibytes", nothing, tebibytes_make, nothing, tebibytes_look},
    {"forged", nothing, forged_make, nothing, nothing},
    {"flock", nothing, flock_make, nothing, flock_look},
    {"record-lock", nothing, record_make, nothing, nothing},
    {"sysv", nothing, sysv_make, nothing, sysv_look},
    {"packet-pipe", nothing, packet_pipe_make, nothing, nothing},
    {"established", nothing, established_make, nothing, established_look},
    {"local-write", nothing, local_write_make, nothing, local_write_look},
    {"local-folder", nothing, local_folder_make, nothing, nothing},
    {"pipe-out", pipe_out_before, pipe_out_inner, pipe_out_outer, pipe_out_look},
    {"pipe-in", pipe_in_before, pipe_in_inner, pipe_in_outer, nothing},
    {"fifo-out", fifo_out_before, fifo_out_inner, fifo_out_outer, nothing},
    {"pair-out", pair_out_before, pair_out_inner, pair_out_outer, nothing},
    {"stream-out", stream_out_before, stream_out_inner, stream_out_outer, nothing},
    {"log-out", log_out_before, log_out_inner, log_out_outer, nothing},
    {"anon-out", anon_out_before, nothing, nothing, nothing},
    {"memfd-out", memfd_out_before, memfd_out_inner, memfd_out_outer, nothing},
    {"mapped-out", mapped_out_before, nothing, nothing, nothing},
    {"file-out", file_out_before, nothing, nothing, nothing},
    {"input-out", input_out_before, nothing, nothing, nothing},
    {"eventfd-out", event_out_before, nothing, nothing, nothing},
    {"epoll-out", epoll_out_before, epoll_out_inner, epoll_out_outer, nothing},
    {"pty-out", pty_out_before, pty_out_inner, pty_out_outer, nothing},
    {"tcp-out", tcp_out_before, nothing, nothing, nothing},
    {"pidfd-out", pidfd_out_before, nothing, pidfd_out_outer, nothing},
    {"traced", nothing, nothing, traced_outer, nothing},
    {"rank-file", rank_file_before, nothing, rank_file_outer, nothing},
    {"rank-pipe", rank_pipe_before, rank_pipe_inner, rank_pipe_outer, nothing},
};

static const struct feature *chosen[MOST];
static int chosen_count;

static void end_if_told(void)
{
    if (access(place("stop"), F_OK) == 0)
        _exit(0);
}

static void note_pid(const char *name)
{
    char text[32];
    snprintf(text, sizeof text, "%d\n", getpid());
    note(name, text);
}

static void rank(int number)
{
    setsid();
    signal(SIGPIPE, SIG_IGN);
    /* This precedes the threads, any of which would receive another one's pending signals. */
    sigset_t left_pending;
    sigemptyset(&left_pending);
    sigaddset(&left_pending, SIGUSR2);
    sigaddset(&left_pending, SIGRTMIN + 1);
    sigaddset(&left_pending, SIGRTMIN + 2);
    sigprocmask(SIG_BLOCK, &left_pending, NULL);
    if (number > 0) {
        close(rank_pipe[1]);
        note_pid("pid.1");
        for (time_t end = time(NULL) + SECONDS; time(NULL) < end; rest())
            end_if_told();
        _exit(0);
    }
    /* Objects shared with the outside come first, so that no child of the rank inherits the other end. */
    for (int i = 0; i < chosen_count; i++)
        if (chosen[i]->before != nothing)
            chosen[i]->inner();
    for (int i = 0; i < chosen_count; i++)
        if (chosen[i]->before == nothing)
            chosen[i]->inner();
    note_pid("pid");
    char text[32];
    for (; turn < TURNS; turn++) {
        end_if_told();
        for (int i = 0; i < chosen_count; i++)
            chosen[i]->look();
        snprintf(text, sizeof text, "%ld\n", turn);
        note("turns", text);
        rest();
    }
    _exit(0);
}

static void fork_rank(int number)
{
    rank_pids[number] = fork();
    require(rank_pids[number] >= 0, "fork");
    if (rank_pids[number] == 0)
        rank(number);
}

/* Receives the ranks' data, so that they can continue. */
static void outside(void)
{
    char bytes[4096];
    for (time_t end = time(NULL) + SECONDS; time(NULL) < end; rest()) {
        end_if_told();
        int status;
        pid_t child = waitpid(-1, &status, WNOHANG | __WALL);
        /* A tracer must pass signals on. */
        if (child > 0 && WIFSTOPPED(status))
            ptrace(status >> 16 == 0 ? PTRACE_CONT : PTRACE_LISTEN, child, NULL,
                   (void *)(intptr_t)(status >> 16 == 0 ? WSTOPSIG(status) : 0));
        for (int i = 0; i < served_count; i++) {
            struct pollfd from = {.fd = served[i], .events = POLLIN};
            if (poll(&from, 1, 0) > 0 && (from.revents & POLLIN) != 0 && read(served[i], bytes, sizeof bytes) <= 0)
                served[i] = -1;
        }
    }
    _exit(0);
}

static const struct feature *find(const char *name)
{
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (strcmp(features[i].name, name) == 0)
            return &features[i];
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < sizeof features / sizeof *features; i++)
            puts(features[i].name);
        return 0;
    }
    for (int i = 4; i < argc && chosen_count < MOST; i++)
        if ((chosen[chosen_count++] = find(argv[i])) == NULL)
            argc = 0;
    if (argc < 5 || argc > 4 + MOST) {
        fprintf(stderr, "usage: feature-job DIR DISK RANKS FEATURE... | --list\n");
        return 2;
    }
    directory = argv[1];
    disk = argv[2];
    bool share = false;
    for (int i = 0; i < chosen_count; i++)
        share |= strncmp(chosen[i]->name, "rank-", 5) == 0;
    bool two = strcmp(argv[3], "2") == 0;
    /* Ranks without shared objects are made before there is anything to share. */
    if (two && !share)
        fork_rank(1);
    for (int i = 0; i < chosen_count; i++)
        chosen[i]->before();
    fork_rank(0);
    if (two && share)
        fork_rank(1);
    /* The rank has children by then, which do not concern the process outside. */
    for (int i = 0; i < chosen_count; i++)
        chosen[i]->outer();
    outside();
}
