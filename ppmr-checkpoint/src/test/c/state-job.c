/*
 * state-job: a job with state that a process can have besides memory and files, for trying what of it comes with a move,
 * and what is refused.
 *
 *   state-job KIND[,KIND...] DIR
 *
 * Sets what its kinds are about, and remembers each as the kernel tells it. Then it writes each 20 ms the number of its turn
 * to DIR/turns and looks whether the state is as it was. What is not, it writes to DIR/failed. It ends by itself after 10
 * minutes; with 3 where the kernel has no such state, or denies it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/landlock.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <linux/vm_sockets.h>
#include <mqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    TURNS = 30000,
    TURN_NS = 20000000,
    TEXT = 4096,
    IDLE_CLASS = 3 << 13,
    INTERLEAVE = 3,
    PAGE = 4096,
    MULTICAST_PORT = 5007,
    MOST_KINDS = 100,
    SCRATCH_MIB = 3,
    SECRET_MEMORY = 447,
    MERGE_MEMORY = 67,
    READ_MERGING = 68,
    DENY_WRITE_EXECUTE = 65,
    READ_DENIED = 66
};

static const char *directory;
/* A descriptor that a kind may have; set before each call of one of its functions. */
static int open_one = -1;

static const char *place(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void fail(const char *what, const char *detail)
{
    FILE *file = fopen(place("failed"), "a");
    if (file) {
        fprintf(file, "%s: %s\n", what, detail);
        fclose(file);
    }
}

static void need(bool done, const char *what)
{
    if (!done) {
        perror(what);
        exit(3);
    }
}

static void write_file(const char *path, const char *text)
{
    int file = open(path, O_WRONLY);
    need(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text) && close(file) == 0, path);
}

static void read_file(const char *path, char *to, size_t room)
{
    int file = open(path, O_RDONLY);
    ssize_t length = file < 0 ? -1 : read(file, to, room - 1);
    to[length < 0 ? 0 : length] = '\0';
    if (file >= 0) {
        close(file);
    }
}

/* ---- one kind: how it is set, and what it is like now, in words ---- */

typedef void (*setter)(void);
typedef void (*teller)(char *to, size_t room);

static void set_affinity(void)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((int)sysconf(_SC_NPROCESSORS_ONLN) - 1, &one);
    need(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
}

static volatile pid_t other_thread;

static void *wait_pinned(void *unused)
{
    set_affinity();
    other_thread = (pid_t)syscall(SYS_gettid);
    for (;;) {
        pause();
    }
    return unused;
}

static void start_thread(void *(*body)(void *))
{
    pthread_t thread;
    need(pthread_create(&thread, NULL, body, NULL) == 0, "pthread_create");
    while (!other_thread) {
        usleep(1000);
    }
}

static void set_thread_affinity(void)
{
    start_thread(wait_pinned);
}

static void tell_affinity_of(pid_t thread, char *to, size_t room)
{
    cpu_set_t now;
    CPU_ZERO(&now);
    sched_getaffinity(thread, sizeof now, &now);
    size_t used = 0;
    to[0] = '\0';
    for (int cpu = 0; cpu < CPU_SETSIZE && used + 8 < room; cpu++) {
        if (CPU_ISSET(cpu, &now)) {
            used += (size_t)snprintf(to + used, room - used, "%d ", cpu);
        }
    }
}

static void tell_affinity(char *to, size_t room)
{
    tell_affinity_of(0, to, room);
}

static void tell_thread_affinity(char *to, size_t room)
{
    tell_affinity_of(other_thread, to, room);
}

static void set_io_class(void)
{
    need(syscall(SYS_ioprio_set, 1, 0, IDLE_CLASS) == 0, "ioprio_set");
}

static void set_io_priority(void)
{
    need(syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 6) == 0, "ioprio_set");
}

static void tell_io_class(char *to, size_t room)
{
    snprintf(to, room, "%lx", syscall(SYS_ioprio_get, 1, 0));
}

static void set_batch(void)
{
    struct sched_param none = {0};
    need(sched_setscheduler(0, SCHED_BATCH, &none) == 0, "sched_setscheduler");
}

static void set_reset_on_fork(void)
{
    struct sched_param none = {0};
    need(sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none) == 0, "sched_setscheduler");
}

static void set_idle(void)
{
    struct sched_param none = {0};
    need(sched_setscheduler(0, SCHED_IDLE, &none) == 0, "sched_setscheduler");
}

static void tell_scheduler(char *to, size_t room)
{
    snprintf(to, room, "%x", (unsigned)sched_getscheduler(0));
}

static void set_nice(void)
{
    need(setpriority(PRIO_PROCESS, 0, 7) == 0, "setpriority");
}

static void tell_nice(char *to, size_t room)
{
    snprintf(to, room, "%d", getpriority(PRIO_PROCESS, 0));
}

static void set_oom(void)
{
    write_file("/proc/self/oom_score_adj", "321");
}

static void tell_oom(char *to, size_t room)
{
    read_file("/proc/self/oom_score_adj", to, room);
}

static void set_core_filter(void)
{
    write_file("/proc/self/coredump_filter", "0x7");
}

static void tell_core_filter(char *to, size_t room)
{
    read_file("/proc/self/coredump_filter", to, room);
}

static void set_slack(void)
{
    need(prctl(PR_SET_TIMERSLACK, 77777, 0, 0, 0) == 0, "PR_SET_TIMERSLACK");
}

static void tell_slack(char *to, size_t room)
{
    snprintf(to, room, "%d", prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0));
}

static void set_personality(void)
{
    need(personality(ADDR_NO_RANDOMIZE) >= 0, "personality");
}

static void tell_personality(char *to, size_t room)
{
    snprintf(to, room, "%x", (unsigned)personality(0xffffffff));
}

static void set_huge(void)
{
    need(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0, "PR_SET_THP_DISABLE");
}

static void tell_huge(char *to, size_t room)
{
    snprintf(to, room, "%d", prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
}

static void set_death_signal(void)
{
    need(prctl(PR_SET_PDEATHSIG, SIGUSR2, 0, 0, 0) == 0, "PR_SET_PDEATHSIG");
}

static void tell_death_signal(char *to, size_t room)
{
    int signal = 0;
    prctl(PR_GET_PDEATHSIG, &signal, 0, 0, 0);
    snprintf(to, room, "%d", signal);
}

static void set_reaper(void)
{
    need(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0, "PR_SET_CHILD_SUBREAPER");
}

static void tell_reaper(char *to, size_t room)
{
    int on = 0;
    prctl(PR_GET_CHILD_SUBREAPER, &on, 0, 0, 0);
    snprintf(to, room, "%d", on);
}

static void set_undumpable(void)
{
    need(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0, "PR_SET_DUMPABLE");
}

static void tell_undumpable(char *to, size_t room)
{
    snprintf(to, room, "%d", prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
}

static void set_memory_failure(void)
{
    need(prctl(PR_MCE_KILL, PR_MCE_KILL_SET, PR_MCE_KILL_EARLY, 0, 0) == 0, "PR_MCE_KILL");
}

static void tell_memory_failure(char *to, size_t room)
{
    snprintf(to, room, "%d", prctl(PR_MCE_KILL_GET, 0, 0, 0, 0));
}

static void set_speculation(void)
{
    need(prctl(PR_SET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, PR_SPEC_DISABLE, 0, 0) == 0, "PR_SET_SPECULATION_CTRL");
}

static void tell_speculation(char *to, size_t room)
{
    snprintf(to, room, "%d", prctl(PR_GET_SPECULATION_CTRL, PR_SPEC_STORE_BYPASS, 0, 0, 0));
}

static void set_timestamps(void)
{
    need(prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0, "PR_SET_TSC");
}

static void tell_timestamps(char *to, size_t room)
{
    int mode = 0;
    prctl(PR_GET_TSC, &mode, 0, 0, 0);
    snprintf(to, room, "%d", mode);
}

static void set_merging(void)
{
    need(prctl(MERGE_MEMORY, 1, 0, 0, 0) == 0, "PR_SET_MEMORY_MERGE");
}

static void tell_merging(char *to, size_t room)
{
    snprintf(to, room, "%d", prctl(READ_MERGING, 0, 0, 0, 0));
}

static void set_denial(void)
{
    need(prctl(DENY_WRITE_EXECUTE, 1, 0, 0, 0) == 0, "PR_SET_MDWE");
}

static void tell_denial(char *to, size_t room)
{
    snprintf(to, room, "%d", prctl(READ_DENIED, 0, 0, 0, 0));
}

static void set_memory_policy(void)
{
    unsigned long first = 1;
    need(syscall(SYS_set_mempolicy, INTERLEAVE, &first, 8) == 0, "set_mempolicy");
}

static void tell_memory_policy(char *to, size_t room)
{
    int mode = -1;
    unsigned long nodes[16] = {0};
    syscall(SYS_get_mempolicy, &mode, nodes, sizeof nodes * 8, 0, 0);
    snprintf(to, room, "%d %lx", mode, nodes[0]);
}

static unsigned char *area;

static void make_area(void)
{
    area = mmap(NULL, PAGE * 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(area != MAP_FAILED, "mmap");
    memset(area, 7, PAGE * 16);
}

static void set_area_policy(void)
{
    unsigned long first = 1;
    make_area();
    need(syscall(SYS_mbind, area, PAGE * 16, INTERLEAVE, &first, 8, 0) == 0, "mbind");
}

static void tell_area_policy(char *to, size_t room)
{
    int mode = -1;
    unsigned long nodes[16] = {0};
    syscall(SYS_get_mempolicy, &mode, nodes, sizeof nodes * 8, area, 2);
    snprintf(to, room, "%d %lx", mode, nodes[0]);
}

/* The flags of the area in smaps. */
static void tell_area(char *to, size_t room)
{
    char line[TEXT];
    unsigned long start;
    bool inside = false;
    FILE *smaps = fopen("/proc/self/smaps", "r");
    to[0] = '\0';
    while (smaps && fgets(line, sizeof line, smaps)) {
        if (sscanf(line, "%lx-", &start) == 1 && strchr(line, '-') && strchr(line, '-') < line + 17) {
            inside = start == (unsigned long)area;
        } else if (inside && strncmp(line, "VmFlags:", 8) == 0) {
            /* What only tells how the kernel accounts is left out. */
            for (char *word = strtok(line + 8, " \n"); word; word = strtok(NULL, " \n")) {
                if (strcmp(word, "sd") != 0 && strcmp(word, "ac") != 0) {
                    snprintf(to + strlen(to), room - strlen(to), "%s ", word);
                }
            }
        }
    }
    if (smaps) {
        fclose(smaps);
    }
}

static void set_not_inherited(void)
{
    make_area();
    need(madvise(area, PAGE * 16, MADV_DONTFORK) == 0, "MADV_DONTFORK");
}

static void set_wiped(void)
{
    make_area();
    need(madvise(area, PAGE * 16, MADV_WIPEONFORK) == 0, "MADV_WIPEONFORK");
}

static void set_undumped(void)
{
    make_area();
    need(madvise(area, PAGE * 16, MADV_DONTDUMP) == 0, "MADV_DONTDUMP");
}

static void set_locked(void)
{
    make_area();
    need(mlock(area, PAGE * 16) == 0, "mlock");
}

static void set_key(void)
{
    make_area();
    int key = pkey_alloc(0, 0);
    need(key > 0 && pkey_mprotect(area, PAGE * 16, PROT_READ | PROT_WRITE, key) == 0, "pkey_mprotect");
}

static void tell_key(char *to, size_t room)
{
    char line[TEXT];
    unsigned long start;
    bool inside = false;
    FILE *smaps = fopen("/proc/self/smaps", "r");
    to[0] = '\0';
    while (smaps && fgets(line, sizeof line, smaps)) {
        if (sscanf(line, "%lx-", &start) == 1 && strchr(line, '-') && strchr(line, '-') < line + 17) {
            inside = start == (unsigned long)area;
        } else if (inside && strncmp(line, "ProtectionKey:", 14) == 0) {
            snprintf(to, room, "%s", line + 14);
        }
    }
    if (smaps) {
        fclose(smaps);
    }
}

static void set_umask(void)
{
    umask(027);
}

static void tell_umask(char *to, size_t room)
{
    mode_t now = umask(0);
    umask(now);
    snprintf(to, room, "%o", now);
}

static void set_name(void)
{
    need(prctl(PR_SET_NAME, "other name", 0, 0, 0) == 0, "PR_SET_NAME");
}

static void tell_name(char *to, size_t room)
{
    char name[17] = {0};
    prctl(PR_GET_NAME, name, 0, 0, 0);
    snprintf(to, room, "%s", name);
}

static void set_no_new(void)
{
    need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
}

static void tell_no_new(char *to, size_t room)
{
    snprintf(to, room, "%d", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
}

static void set_owner(void)
{
    int ends[2];
    struct f_owner_ex me = {F_OWNER_PID, getpid()};
    need(pipe(ends) == 0, "pipe");
    open_one = ends[0];
    need(fcntl(open_one, F_SETOWN_EX, &me) == 0 && fcntl(open_one, F_SETSIG, SIGURG) == 0, "F_SETOWN_EX");
}

static void tell_owner(char *to, size_t room)
{
    struct f_owner_ex owner = {0, 0};
    fcntl(open_one, F_GETOWN_EX, &owner);
    snprintf(to, room, "%d %d %d", owner.type, owner.pid, fcntl(open_one, F_GETSIG));
}

static void set_pipe_size(void)
{
    int ends[2];
    need(pipe(ends) == 0, "pipe");
    open_one = ends[0];
    need(fcntl(open_one, F_SETPIPE_SZ, 1 << 18) > 0, "F_SETPIPE_SZ");
}

static void tell_pipe_size(char *to, size_t room)
{
    snprintf(to, room, "%d", fcntl(open_one, F_GETPIPE_SZ));
}

/* A pipe, opened again by its name as scripts do. */
static void tell_pipe_owner(char *to, size_t room)
{
    struct stat found = {0};
    fstat(open_one, &found);
    snprintf(to, room, "%u %u %o", found.st_uid, found.st_gid, found.st_mode);
}

/* ---- sockets ---- */

static void join4(void)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(MULTICAST_PORT)};
    struct ip_mreqn group = {.imr_multiaddr.s_addr = inet_addr("239.1.2.3"), .imr_ifindex = (int)if_nametoindex("lo")};
    int on = 1;
    open_one = socket(AF_INET, SOCK_DGRAM, 0);
    setsockopt(open_one, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    need(bind(open_one, (void *)&any, sizeof any) == 0, "bind");
    need(setsockopt(open_one, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group) == 0, "IP_ADD_MEMBERSHIP");
}

static void join6(void)
{
    struct ipv6_mreq group = {.ipv6mr_interface = if_nametoindex("lo")};
    inet_pton(AF_INET6, "ff15::5007", &group.ipv6mr_multiaddr);
    open_one = socket(AF_INET6, SOCK_DGRAM, 0);
    need(setsockopt(open_one, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group) == 0, "IPV6_JOIN_GROUP");
}

static void tell_member4(char *to, size_t room)
{
    struct {
        struct group_filter filter;
        struct sockaddr_storage more[4];
    } of = {.filter = {.gf_interface = if_nametoindex("lo"), .gf_numsrc = 0}};
    struct sockaddr_in *group = (void *)&of.filter.gf_group;
    socklen_t length = sizeof of;
    group->sin_family = AF_INET;
    group->sin_addr.s_addr = inet_addr("239.1.2.3");
    snprintf(to, room, "%d", getsockopt(open_one, IPPROTO_IP, MCAST_MSFILTER, &of, &length));
}

static void tell_member6(char *to, size_t room)
{
    struct {
        struct group_filter filter;
        struct sockaddr_storage more[4];
    } of = {.filter = {.gf_interface = if_nametoindex("lo"), .gf_numsrc = 0}};
    struct sockaddr_in6 *group = (void *)&of.filter.gf_group;
    socklen_t length = sizeof of;
    group->sin6_family = AF_INET6;
    inet_pton(AF_INET6, "ff15::5007", &group->sin6_addr);
    snprintf(to, room, "%d", getsockopt(open_one, IPPROTO_IPV6, MCAST_MSFILTER, &of, &length));
}

struct socket_option {
    const char *name;
    int family;
    int type;
    int level;
    int option;
    int value;
};

static const struct socket_option OPTIONS[] = {
    {"so-broadcast", AF_INET, SOCK_DGRAM, SOL_SOCKET, SO_BROADCAST, 1},
    {"so-keepalive", AF_INET, SOCK_STREAM, SOL_SOCKET, SO_KEEPALIVE, 1},
    {"so-oobinline", AF_INET, SOCK_STREAM, SOL_SOCKET, SO_OOBINLINE, 1},
    {"so-priority", AF_INET, SOCK_DGRAM, SOL_SOCKET, SO_PRIORITY, 3},
    {"so-rcvlowat", AF_INET, SOCK_STREAM, SOL_SOCKET, SO_RCVLOWAT, 100},
    {"so-sndbuf", AF_INET, SOCK_DGRAM, SOL_SOCKET, SO_SNDBUF, 50000},
    {"so-rcvbuf", AF_INET, SOCK_DGRAM, SOL_SOCKET, SO_RCVBUF, 50000},
    {"so-timestamp", AF_INET, SOCK_DGRAM, SOL_SOCKET, SO_TIMESTAMP, 1},
    {"so-timestampns", AF_INET, SOCK_DGRAM, SOL_SOCKET, SO_TIMESTAMPNS, 1},
    {"so-peek-off", AF_UNIX, SOCK_DGRAM, SOL_SOCKET, SO_PEEK_OFF, 16},
    {"so-busy-poll", AF_INET, SOCK_DGRAM, SOL_SOCKET, SO_BUSY_POLL, 10},
    {"so-rxq-ovfl", AF_INET, SOCK_DGRAM, SOL_SOCKET, SO_RXQ_OVFL, 1},
    {"so-zerocopy", AF_INET, SOCK_STREAM, SOL_SOCKET, SO_ZEROCOPY, 1},
    {"so-incoming-cpu", AF_INET, SOCK_DGRAM, SOL_SOCKET, SO_INCOMING_CPU, 1},
    {"so-passcred", AF_UNIX, SOCK_DGRAM, SOL_SOCKET, SO_PASSCRED, 1},
    {"ip-tos", AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_TOS, 0x10},
    {"ip-ttl", AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_TTL, 33},
    {"ip-pktinfo", AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_PKTINFO, 1},
    {"ip-recverr", AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_RECVERR, 1},
    {"ip-recvtos", AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_RECVTOS, 1},
    {"ip-recvttl", AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_RECVTTL, 1},
    {"ip-mtu-discover", AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT},
    {"ip-multicast-ttl", AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_MULTICAST_TTL, 9},
    {"ip-multicast-loop", AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_MULTICAST_LOOP, 0},
    {"ip-multicast-all", AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_MULTICAST_ALL, 0},
    {"ip-freebind", AF_INET, SOCK_DGRAM, IPPROTO_IP, IP_FREEBIND, 1},
    {"ipv6-unicast-hops", AF_INET6, SOCK_DGRAM, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 33},
    {"ipv6-multicast-hops", AF_INET6, SOCK_DGRAM, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 9},
    {"ipv6-tclass", AF_INET6, SOCK_DGRAM, IPPROTO_IPV6, IPV6_TCLASS, 16},
    {"ipv6-recvpktinfo", AF_INET6, SOCK_DGRAM, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1},
    {"ipv6-v6only", AF_INET6, SOCK_DGRAM, IPPROTO_IPV6, IPV6_V6ONLY, 1},
    {"tcp-nodelay", AF_INET, SOCK_STREAM, IPPROTO_TCP, TCP_NODELAY, 1},
    {"tcp-keepidle", AF_INET, SOCK_STREAM, IPPROTO_TCP, TCP_KEEPIDLE, 33},
    {"tcp-user-timeout", AF_INET, SOCK_STREAM, IPPROTO_TCP, TCP_USER_TIMEOUT, 33000},
    {"tcp-maxseg", AF_INET, SOCK_STREAM, IPPROTO_TCP, TCP_MAXSEG, 900},
    {"tcp-syncnt", AF_INET, SOCK_STREAM, IPPROTO_TCP, TCP_SYNCNT, 3},
    {"tcp-linger2", AF_INET, SOCK_STREAM, IPPROTO_TCP, TCP_LINGER2, 7},
    {"tcp-defer-accept", AF_INET, SOCK_STREAM, IPPROTO_TCP, TCP_DEFER_ACCEPT, 7},
    {"tcp-window-clamp", AF_INET, SOCK_STREAM, IPPROTO_TCP, TCP_WINDOW_CLAMP, 20000},
    {"tcp-notsent-lowat", AF_INET, SOCK_STREAM, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 20000},
    {"tcp-fastopen-connect", AF_INET, SOCK_STREAM, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1},
    {"udp-segment", AF_INET, SOCK_DGRAM, IPPROTO_UDP, 103, 1000},
    {"udp-gro", AF_INET, SOCK_DGRAM, IPPROTO_UDP, 104, 1},
    {NULL, 0, 0, 0, 0, 0}};

static const struct socket_option *chosen;

static void set_option(void)
{
    open_one = socket(chosen->family, chosen->type, 0);
    need(open_one >= 0, "socket");
    need(setsockopt(open_one, chosen->level, chosen->option, &chosen->value, sizeof chosen->value) == 0, chosen->name);
}

static void tell_option(char *to, size_t room)
{
    int value = -1;
    socklen_t length = sizeof value;
    getsockopt(open_one, chosen->level, chosen->option, &value, &length);
    snprintf(to, room, "%d", value);
}

static void set_congestion(void)
{
    open_one = socket(AF_INET, SOCK_STREAM, 0);
    need(setsockopt(open_one, IPPROTO_TCP, TCP_CONGESTION, "reno", 4) == 0, "TCP_CONGESTION");
}

static void tell_congestion(char *to, size_t room)
{
    char name[17] = {0};
    socklen_t length = sizeof name - 1;
    getsockopt(open_one, IPPROTO_TCP, TCP_CONGESTION, name, &length);
    snprintf(to, room, "%s", name);
}

/* ---- what CRIU does not write ---- */

static void set_ring(void)
{
    struct io_uring_params parameters = {0};
    open_one = (int)syscall(SYS_io_uring_setup, 8, &parameters);
    need(open_one >= 0, "io_uring_setup");
}

/* Each read takes one of it. */
static void set_semaphore(void)
{
    open_one = eventfd(5, EFD_SEMAPHORE | EFD_CLOEXEC);
    need(open_one >= 0, "eventfd");
}

static void set_mapped_ring(void)
{
    struct io_uring_params parameters = {0};
    int ring = (int)syscall(SYS_io_uring_setup, 8, &parameters);
    need(ring >= 0, "io_uring_setup");
    size_t bytes = parameters.sq_off.array + parameters.sq_entries * 4;
    need(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING) != MAP_FAILED, "mmap");
    close(ring);
}

static void set_faults(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    open_one = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    need(open_one >= 0 && ioctl(open_one, UFFDIO_API, &api) == 0, "userfaultfd");
}

static void set_counter(void)
{
    struct perf_event_attr counter = {.type = PERF_TYPE_SOFTWARE,
                                      .size = sizeof counter,
                                      .config = PERF_COUNT_SW_TASK_CLOCK,
                                      .exclude_kernel = 1};
    open_one = (int)syscall(SYS_perf_event_open, &counter, 0, -1, -1, 0);
    need(open_one >= 0, "perf_event_open");
}

static void set_guest_socket(void)
{
    open_one = socket(AF_VSOCK, SOCK_STREAM, 0);
    need(open_one >= 0, "AF_VSOCK");
}

static void set_rules(void)
{
    struct landlock_ruleset_attr rules = {.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE};
    open_one = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
    need(open_one >= 0, "landlock_create_ruleset");
}

/* It may make no device files, which it does not want to either. */
static void set_sandbox(void)
{
    struct landlock_ruleset_attr rules = {.handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_BLOCK};
    int set = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
    need(set >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "landlock_create_ruleset");
    need(syscall(SYS_landlock_restrict_self, set, 0) == 0, "landlock_restrict_self");
    close(set);
}

static void set_secret(void)
{
    open_one = (int)syscall(SECRET_MEMORY, O_CLOEXEC);
    need(open_one >= 0, "memfd_secret");
}

static void set_message_queue(void)
{
    open_one = mq_open("/state-job", O_CREAT | O_RDWR, 0600, NULL);
    need(open_one >= 0 && mq_unlink("/state-job") == 0, "mq_open");
}

static void set_device(void)
{
    open_one = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    need(open_one >= 0, "/dev/fuse");
}

static void set_scratch(void)
{
    static char piece[1 << 20];
    memset(piece, 5, sizeof piece);
    open_one = open(place("scratch"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    need(open_one >= 0 && unlink(place("scratch")) == 0, "scratch");
    for (int i = 0; i < SCRATCH_MIB; i++) {
        need(write(open_one, piece, sizeof piece) == sizeof piece, "scratch");
    }
}

static void set_mapped_scratch(void)
{
    set_scratch();
    need(mmap(NULL, SCRATCH_MIB << 20, PROT_READ, MAP_PRIVATE, open_one, 0) != MAP_FAILED, "mmap");
    close(open_one);
    open_one = -1;
}

/* A file that was opened by a name that is gone, and has another one. */
static void set_renamed(void)
{
    char other[4096];
    open_one = open(place("one-name"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    snprintf(other, sizeof other, "%s", place("other-name"));
    need(open_one >= 0 && link(place("one-name"), other) == 0 && unlink(place("one-name")) == 0, "link");
}

/* It signals the first thread, an hour from now. */
static void set_thread_timer(void)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGURG};
    struct itimerspec once = {.it_value = {.tv_sec = 3600}};
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    need(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create");
    need(timer_settime(timer, 0, &once, NULL) == 0, "timer_settime");
}

static void tell_nothing(char *to, size_t room)
{
    snprintf(to, room, "%s", "");
}

static struct sockaddr_in address_of_node(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    char text[64];
    read_file(place("address"), text, sizeof text);
    need(inet_pton(AF_INET, text, &address.sin_addr) == 1, "DIR/address");
    return address;
}

static void set_bound(void)
{
    struct sockaddr_in address = address_of_node();
    open_one = socket(AF_INET, SOCK_STREAM, 0);
    need(bind(open_one, (void *)&address, sizeof address) == 0, "bind");
}

/* Its peer has reset the connection. */
static void set_reset(void)
{
    struct sockaddr_in address = address_of_node();
    struct linger reset = {1, 0};
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    need(bind(listener, (void *)&address, length) == 0 && listen(listener, 1) == 0, "listen");
    getsockname(listener, (void *)&address, &length);
    open_one = socket(AF_INET, SOCK_STREAM, 0);
    need(connect(open_one, (void *)&address, length) == 0, "connect");
    int other = accept(listener, NULL, NULL);
    setsockopt(other, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(other);
    close(listener);
    char byte;
    need(recv(open_one, &byte, 1, 0) < 0, "recv");
}

struct kind {
    const char *name;
    setter set;
    teller tell;
};

static const struct kind KINDS[] = {
    {"affinity", set_affinity, tell_affinity},
    {"thread-affinity", set_thread_affinity, tell_thread_affinity},
    {"io-class", set_io_class, tell_io_class},
    {"io-priority", set_io_priority, tell_io_class},
    {"batch", set_batch, tell_scheduler},
    {"reset-on-fork", set_reset_on_fork, tell_scheduler},
    {"idle", set_idle, tell_scheduler},
    {"nice", set_nice, tell_nice},
    {"oom", set_oom, tell_oom},
    {"core-filter", set_core_filter, tell_core_filter},
    {"slack", set_slack, tell_slack},
    {"personality", set_personality, tell_personality},
    {"huge-pages", set_huge, tell_huge},
    {"death-signal", set_death_signal, tell_death_signal},
    {"reaper", set_reaper, tell_reaper},
    {"undumpable", set_undumpable, tell_undumpable},
    {"memory-failure", set_memory_failure, tell_memory_failure},
    {"speculation", set_speculation, tell_speculation},
    {"timestamps", set_timestamps, tell_timestamps},
    {"merging", set_merging, tell_merging},
    {"denial", set_denial, tell_denial},
    {"memory-policy", set_memory_policy, tell_memory_policy},
    {"area-policy", set_area_policy, tell_area_policy},
    {"not-inherited", set_not_inherited, tell_area},
    {"wiped", set_wiped, tell_area},
    {"undumped", set_undumped, tell_area},
    {"locked", set_locked, tell_area},
    {"key", set_key, tell_key},
    {"umask", set_umask, tell_umask},
    {"name", set_name, tell_name},
    {"no-new-privileges", set_no_new, tell_no_new},
    {"owner", set_owner, tell_owner},
    {"pipe-size", set_pipe_size, tell_pipe_size},
    {"pipe-owner", set_pipe_size, tell_pipe_owner},
    {"member", join4, tell_member4},
    {"member6", join6, tell_member6},
    {"congestion", set_congestion, tell_congestion},
    {"ring", set_ring, tell_nothing},
    {"semaphore", set_semaphore, tell_nothing},
    {"mapped-ring", set_mapped_ring, tell_nothing},
    {"faults", set_faults, tell_nothing},
    {"counter", set_counter, tell_nothing},
    {"guest-socket", set_guest_socket, tell_nothing},
    {"rules", set_rules, tell_nothing},
    {"sandbox", set_sandbox, tell_nothing},
    {"secret", set_secret, tell_nothing},
    {"message-queue", set_message_queue, tell_nothing},
    {"device", set_device, tell_nothing},
    {"scratch", set_scratch, tell_nothing},
    {"mapped-scratch", set_mapped_scratch, tell_nothing},
    {"renamed", set_renamed, tell_nothing},
    {"thread-timer", set_thread_timer, tell_nothing},
    {"bound", set_bound, tell_nothing},
    {"reset", set_reset, tell_nothing},
    {NULL, NULL, NULL}};

/* A kind that this job has. */
struct instance {
    const struct kind *kind;
    const struct socket_option *option;
    int descriptor;
    bool failed;
    char before[TEXT];
};

static struct instance instances[MOST_KINDS];
static int count;

static void add(const char *name)
{
    static const struct kind option = {"option", set_option, tell_option};
    struct instance *one = &instances[count++];
    for (const struct kind *kind = KINDS; kind->name; kind++) {
        if (strcmp(kind->name, name) == 0) {
            one->kind = kind;
        }
    }
    for (const struct socket_option *known = OPTIONS; known->name; known++) {
        if (strcmp(known->name, name) == 0) {
            one->kind = &option;
            one->option = known;
        }
    }
    if (!one->kind) {
        fprintf(stderr, "state-job: no kind '%s'\n", name);
        exit(4);
    }
}

static void look(struct instance *one)
{
    static char now[TEXT];
    char detail[TEXT];
    chosen = one->option;
    open_one = one->descriptor;
    one->kind->tell(now, sizeof now);
    if (!one->failed && strcmp(one->before, now) != 0) {
        snprintf(detail, sizeof detail, "was '%.1500s', is '%.1500s'", one->before, now);
        fail(one->option ? one->option->name : one->kind->name, detail);
        one->failed = true;
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: state-job KIND[,KIND...] DIR\n");
        return 4;
    }
    directory = argv[2];
    for (char *name = strtok(argv[1], ","); name && count < MOST_KINDS; name = strtok(NULL, ",")) {
        add(name);
    }
    for (int i = 0; i < count; i++) {
        open_one = -1;
        chosen = instances[i].option;
        instances[i].kind->set();
        instances[i].descriptor = open_one;
    }
    for (int i = 0; i < count; i++) {
        open_one = instances[i].descriptor;
        chosen = instances[i].option;
        instances[i].kind->tell(instances[i].before, sizeof instances[i].before);
    }
    for (long turn = 0; turn < TURNS; turn++) {
        struct timespec pause = {0, TURN_NS};
        for (int i = 0; i < count; i++) {
            look(&instances[i]);
        }
        FILE *turns = fopen(place("turns"), "a");
        if (turns) {
            fprintf(turns, "%ld\n", turn);
            fclose(turns);
        }
        while (nanosleep(&pause, &pause) != 0 && errno == EINTR) {
        }
    }
    return 0;
}
