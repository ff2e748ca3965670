/* state-job: a job with process state other than memory and files, for tests of what moves and what is refused.
 *
 *   state-job KIND[,KIND...] DIR
 *
 * It sets the state of its kinds, and stores it as the kernel shows it. A kind with a question mark before it is set
 * only if the kernel has it. Then it writes the number of its turn to DIR/turns every 20 ms and checks that the
 * state is unchanged. It writes a difference to DIR/failed. DIR/kinds has its kinds. It ends by itself after 10
 * minutes, and with 3 if the kernel does not have or permits such state. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/capability.h>
#include <linux/io_uring.h>
#include <linux/landlock.h>
#include <linux/membarrier.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <linux/securebits.h>
#include <linux/userfaultfd.h>
#include <linux/vm_sockets.h>
#include <mqueue.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
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
#include <sys/rseq.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    TURNS = 30000,
    TURN_NS = 20000000,
    TEXT = 1 << 15,
    IDLE_CLASS = 3 << 13,
    INTERLEAVE = 3,
    PAGE = 4096,
    MULTICAST_PORT = 5007,
    MOST_KINDS = 100,
    DETAIL = 400,
    OPTION_BYTES = 16,
    MOST_OPTIONS = 100,
    LONGEST_NAME = 64,
    SCRATCH_MIB = 3,
    SECRET_MEMORY = 447,
    MERGE_MEMORY = 67,
    READ_MERGING = 68,
    DENY_WRITE_EXECUTE = 65,
    READ_DENIED = 66,
    SEAL_MEMORY = 462
};

static const char *directory;
/* A descriptor that a kind may have. It is set before each call of one of its functions. */
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

/* Ends by it, as many programs end by SIGTERM. */
static void end_at_death_signal(int number)
{
    (void)number;
    _exit(0);
}

static void set_handled_death_signal(void)
{
    signal(SIGUSR2, end_at_death_signal);
    set_death_signal();
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

/* Memory that a kind may have, in the same way. */
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

/* Prints the flags of the area in smaps. */
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
            /* Words that only describe the kernel's accounting are left out. */
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

/* Opens a pipe again by its name, as scripts do. */
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

static void set_unicast_interface(void)
{
    uint32_t loopback = htonl(if_nametoindex("lo"));
    open_one = socket(AF_INET, SOCK_DGRAM, 0);
    need(setsockopt(open_one, IPPROTO_IP, IP_UNICAST_IF, &loopback, sizeof loopback) == 0, "IP_UNICAST_IF");
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

/* ---- every option of a socket ---- */

struct socket_kind {
    const char *name;
    int family;
    int type;
    int protocol;
    bool listens;
};

static const struct socket_kind SOCKETS[] = {
    {"every-udp", AF_INET, SOCK_DGRAM, 0, false},
    {"every-udp6", AF_INET6, SOCK_DGRAM, 0, false},
    {"every-tcp", AF_INET, SOCK_STREAM, 0, false},
    {"every-tcp6", AF_INET6, SOCK_STREAM, 0, false},
    {"every-listener", AF_INET, SOCK_STREAM, 0, true},
    {"every-listener6", AF_INET6, SOCK_STREAM, 0, true},
    {"every-raw", AF_INET, SOCK_RAW, IPPROTO_UDP, false},
    {"every-unix-stream", AF_UNIX, SOCK_STREAM, 0, false},
    {"every-unix-dgram", AF_UNIX, SOCK_DGRAM, 0, false},
    {"every-netlink", AF_NETLINK, SOCK_RAW, NETLINK_ROUTE, false},
    {"every-packet", AF_PACKET, SOCK_DGRAM, 0, false},
    {NULL, 0, 0, 0, false}};

static const int LEVELS[] = {SOL_SOCKET, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_RAW, 263, 270};

static const struct socket_kind *chosen_socket;

/* Returns false for options that are no setting, change by themselves, or change the socket, and for refused ones. */
static bool is_setting(int level, int option)
{
    static const int NO_SETTINGS[][2] = {
        {SOL_SOCKET, SO_ERROR},         {SOL_SOCKET, SO_PEERCRED},     {SOL_SOCKET, SO_GET_FILTER},
        {SOL_SOCKET, SO_DETACH_FILTER}, {SOL_SOCKET, SO_PEERNAME},     {SOL_SOCKET, SO_PEERSEC},
        {SOL_SOCKET, SO_INCOMING_CPU},  {SOL_SOCKET, SO_MEMINFO},      {SOL_SOCKET, SO_INCOMING_NAPI_ID},
        {SOL_SOCKET, SO_COOKIE},        {SOL_SOCKET, SO_PEERGROUPS},   {SOL_SOCKET, 71},
        {SOL_SOCKET, 77},               {IPPROTO_IP, IP_MULTICAST_IF}, {IPPROTO_IPV6, IPV6_MULTICAST_IF},
        {IPPROTO_IPV6, IPV6_ADDRFORM},  {IPPROTO_TCP, TCP_INFO},       {IPPROTO_TCP, TCP_REPAIR},
        {IPPROTO_TCP, TCP_REPAIR_QUEUE}, {IPPROTO_TCP, TCP_QUEUE_SEQ}, {IPPROTO_TCP, TCP_TIMESTAMP},
        {IPPROTO_TCP, TCP_CC_INFO},     {IPPROTO_TCP, 29},             {IPPROTO_TCP, 35},
        {IPPROTO_TCP, TCP_FASTOPEN_KEY}, {IPPROTO_TCP, TCP_QUICKACK},  {IPPROTO_UDP, 1},
        {IPPROTO_IP, IP_PKTOPTIONS},    {IPPROTO_IP, IP_UNICAST_IF},    {IPPROTO_IPV6, 76}};
    if (level == SOL_SOCKET && option == SO_REUSEADDR && chosen_socket->family != AF_INET && chosen_socket->family != AF_INET6) {
        return false; /* It means nothing there. */
    }
    if (level == IPPROTO_TCP && option == TCP_FASTOPEN_CONNECT && chosen_socket->listens) {
        return false; /* The same. */
    }
    for (size_t i = 0; i < sizeof NO_SETTINGS / sizeof *NO_SETTINGS; i++) {
        if (NO_SETTINGS[i][0] == level && NO_SETTINGS[i][1] == option) {
            return false;
        }
    }
    return true;
}

static bool is_changed(int level, int option, const void *value, socklen_t bytes, const unsigned char *before)
{
    unsigned char after[OPTION_BYTES] = {0};
    socklen_t length = sizeof after;
    return setsockopt(open_one, level, option, value, bytes) == 0 && getsockopt(open_one, level, option, after, &length) == 0
           && memcmp(before, after, sizeof after) != 0;
}

/* Sets an option to another value, if there is one that the kernel accepts. */
static void change(int level, int option)
{
    static const int NUMBERS[] = {1, 0, 2, 3, 7, 900, 20000, 0x1000000};
    static const int PAIR[] = {1, 7};
    static const struct timeval TIME = {7, 0};
    unsigned char before[OPTION_BYTES] = {0};
    socklen_t length = sizeof before;
    if (getsockopt(open_one, level, option, before, &length) != 0) {
        return;
    }
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        if (is_changed(level, option, &NUMBERS[i], sizeof NUMBERS[i], before)) {
            return;
        }
    }
    if (!is_changed(level, option, PAIR, sizeof PAIR, before)) {
        is_changed(level, option, &TIME, sizeof TIME, before);
    }
}

static void set_every(void)
{
    open_one = socket(chosen_socket->family, chosen_socket->type, chosen_socket->protocol);
    need(open_one >= 0, chosen_socket->name);
    for (size_t i = 0; i < sizeof LEVELS / sizeof *LEVELS; i++) {
        for (int option = 1; option < MOST_OPTIONS; option++) {
            if (is_setting(LEVELS[i], option)) {
                change(LEVELS[i], option);
            }
        }
    }
    if (chosen_socket->listens) {
        struct sockaddr_in6 any = {.sin6_family = (sa_family_t)chosen_socket->family};
        socklen_t length = chosen_socket->family == AF_INET ? sizeof(struct sockaddr_in) : sizeof any;
        need(bind(open_one, (void *)&any, length) == 0 && listen(open_one, 5) == 0, "listen");
    }
}

static void tell_every(char *to, size_t room)
{
    size_t used = 0;
    to[0] = '\0';
    for (size_t i = 0; i < sizeof LEVELS / sizeof *LEVELS; i++) {
        for (int option = 1; option < MOST_OPTIONS; option++) {
            unsigned char value[OPTION_BYTES] = {0};
            socklen_t length = sizeof value;
            if (is_setting(LEVELS[i], option) && getsockopt(open_one, LEVELS[i], option, value, &length) == 0) {
                used += (size_t)snprintf(to + used, room - used, "%d/%d=", LEVELS[i], option);
                for (socklen_t at = 0; at < length && at < OPTION_BYTES; at++) {
                    used += (size_t)snprintf(to + used, room - used, "%02x", value[at]);
                }
                used += (size_t)snprintf(to + used, room - used, ";");
            }
        }
    }
}

/* ---- what CRIU does not write ---- */

static void set_ring(void)
{
    struct io_uring_params parameters = {0};
    open_one = (int)syscall(SYS_io_uring_setup, 8, &parameters);
    need(open_one >= 0, "io_uring_setup");
}

/* Each read decrements it. */
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

/* The sandbox forbids it to make device files, which it does not do anyway. */
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

/* Opens a file by a name that is removed, while it has another one. */
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

/* ---- more of a process ---- */

static void set_real_time(void)
{
    struct sched_param lowest = {.sched_priority = 1};
    need(sched_setscheduler(0, SCHED_RR, &lowest) == 0, "SCHED_RR");
}

static void set_limits(void)
{
    for (int limit = 0; limit < RLIM_NLIMITS; limit++) {
        struct rlimit now;
        need(getrlimit((__rlimit_resource_t)limit, &now) == 0, "getrlimit");
        /* The limit is lower than the default, and more than the job needs. */
        if (limit == RLIMIT_CORE || limit == RLIMIT_MEMLOCK || limit == RLIMIT_NOFILE || limit == RLIMIT_SIGPENDING
            || limit == RLIMIT_MSGQUEUE || limit == RLIMIT_STACK || limit == RLIMIT_LOCKS) {
            now.rlim_cur = now.rlim_cur > 4096 ? now.rlim_cur / 2 : now.rlim_cur;
        } else if (limit == RLIMIT_FSIZE) {
            now.rlim_cur = 1UL << 40;
        }
        need(setrlimit((__rlimit_resource_t)limit, &now) == 0, "setrlimit");
    }
}

static void tell_limits(char *to, size_t room)
{
    read_file("/proc/self/limits", to, room);
}

static void set_secure(void)
{
    need(prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP | SECBIT_KEEP_CAPS) == 0, "PR_SET_SECUREBITS");
}

static void tell_secure(char *to, size_t room)
{
    snprintf(to, room, "%x", (unsigned)prctl(PR_GET_SECUREBITS));
}

static void set_ambient(void)
{
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct sets[2];
    need(syscall(SYS_capget, &header, sets) == 0, "capget");
    sets[0].inheritable |= 1U << CAP_NET_RAW;
    need(syscall(SYS_capset, &header, sets) == 0, "capset");
    need(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_RAW, 0, 0) == 0, "PR_CAP_AMBIENT");
}

static void tell_ambient(char *to, size_t room)
{
    snprintf(to, room, "%d", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_NET_RAW, 0, 0));
}

/* Prints the list of robust mutexes, the address for a thread's end, and restartable sequences. */
static void tell_thread_records(char *to, size_t room)
{
    void *head = NULL;
    size_t bytes = 0;
    int *ended = NULL;
    const int *sequences = (const int *)((char *)__builtin_thread_pointer() + __rseq_offset);
    syscall(SYS_get_robust_list, 0, &head, &bytes);
    prctl(PR_GET_TID_ADDRESS, &ended, 0, 0, 0);
    snprintf(to, room, "%p %zu %p %d", head, bytes, (void *)ended, __rseq_size > 0 && sequences[1] >= 0);
}

static void set_nothing(void) {}

/* Each of them fires in some hours, and then each hour. */
static void set_interval_timers(void)
{
    struct itimerval hours = {{3600, 500000}, {7200, 250000}};
    for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++) {
        need(setitimer((__itimer_which_t)which, &hours, NULL) == 0, "setitimer");
    }
}

static void tell_interval_timers(char *to, size_t room)
{
    size_t used = 0;
    for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++) {
        struct itimerval now = {0};
        getitimer((__itimer_which_t)which, &now);
        used += (size_t)snprintf(to + used, room - used, "%ld.%06ld %d ", now.it_interval.tv_sec, now.it_interval.tv_usec,
                                 now.it_value.tv_sec > 6000 && now.it_value.tv_sec <= 7200);
    }
}

static timer_t posix_timers[3];

static void set_posix_timers(void)
{
    static const clockid_t CLOCKS[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME};
    struct itimerspec hours = {{3600, 5000}, {7200, 0}};
    for (int i = 0; i < 3; i++) {
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG, .sigev_value.sival_int = i};
        need(timer_create(CLOCKS[i], &event, &posix_timers[i]) == 0, "timer_create");
        need(timer_settime(posix_timers[i], 0, &hours, NULL) == 0, "timer_settime");
    }
}

static void tell_posix_timers(char *to, size_t room)
{
    char text[TEXT];
    size_t used = 0;
    for (int i = 0; i < 3; i++) {
        struct itimerspec now = {0};
        timer_gettime(posix_timers[i], &now);
        used += (size_t)snprintf(to + used, room - used, "%ld.%09ld %d ", now.it_interval.tv_sec, now.it_interval.tv_nsec,
                                 now.it_value.tv_sec > 6000 && now.it_value.tv_sec <= 7200);
    }
    read_file("/proc/self/timers", text, sizeof text);
    snprintf(to + used, room - used, "%s", text);
}

static void set_timer_descriptor(void)
{
    struct itimerspec hours = {{3600, 5000}, {0, 0}};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    hours.it_value.tv_sec = now.tv_sec + 7200;
    open_one = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);
    need(open_one >= 0, "timerfd_create");
    need(timerfd_settime(open_one, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &hours, NULL) == 0, "timerfd_settime");
}

static void tell_timer_descriptor(char *to, size_t room)
{
    char path[64];
    char text[TEXT];
    struct itimerspec now = {0};
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", open_one);
    read_file(path, text, sizeof text);
    timerfd_gettime(open_one, &now);
    const char *flags = strstr(text, "settime flags");
    snprintf(to, room, "%ld.%09ld %d %.20s %x", now.it_interval.tv_sec, now.it_interval.tv_nsec,
             now.it_value.tv_sec > 6000 && now.it_value.tv_sec <= 7200, flags ? flags : "", fcntl(open_one, F_GETFL));
}

static void set_signals(void)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR2);
    sigaddset(&blocked, SIGRTMIN + 3);
    need(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0, "sigprocmask");
    signal(SIGHUP, SIG_IGN);
    /* The first is for the process, the second for this thread. */
    union sigval value = {.sival_int = 77};
    need(sigqueue(getpid(), SIGRTMIN + 3, value) == 0, "sigqueue");
    need(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR2) == 0, "tgkill");
}

static void tell_signals(char *to, size_t room)
{
    char text[TEXT];
    size_t used = 0;
    to[0] = '\0';
    read_file("/proc/self/status", text, sizeof text);
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        if (strncmp(line, "Sig", 3) == 0 || strncmp(line, "ShdPnd", 6) == 0) {
            used += (size_t)snprintf(to + used, room - used, "%s ", strncmp(line, "SigQ", 4) == 0 ? "" : line);
        }
    }
}

static void set_barrier(void)
{
    need(syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0, "membarrier");
}

static void tell_barrier(char *to, size_t room)
{
    snprintf(to, room, "%ld", syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0));
}

static void set_async(void)
{
    int ends[2];
    need(pipe(ends) == 0, "pipe");
    open_one = ends[0];
    need(fcntl(open_one, F_SETOWN, getpid()) == 0 && fcntl(open_one, F_SETFL, O_ASYNC | O_NONBLOCK) == 0, "O_ASYNC");
    signal(SIGIO, SIG_IGN);
}

static void tell_async(char *to, size_t room)
{
    snprintf(to, room, "%x %d", fcntl(open_one, F_GETFL), fcntl(open_one, F_GETOWN));
}

static void set_locked_on_fault(void)
{
    make_area();
    need(mlock2(area, PAGE * 16, MLOCK_ONFAULT) == 0, "mlock2");
}

static void set_lock_of_later(void)
{
    need(mlockall(MCL_FUTURE) == 0, "mlockall");
}

static void tell_lock_of_later(char *to, size_t room)
{
    unsigned char *saved = area;
    area = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tell_area(to, room);
    munmap(area, PAGE);
    area = saved;
}

static void set_unreserved(void)
{
    area = mmap(NULL, PAGE * 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    need(area != MAP_FAILED, "mmap");
}

static void set_sealed(void)
{
    make_area();
    need(syscall(SEAL_MEMORY, area, PAGE * 16, 0) == 0, "mseal");
}

static void set_named_area(void)
{
    make_area();
    need(prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, area, PAGE * 16, "ours") == 0, "PR_SET_VMA_ANON_NAME");
}

static void tell_named_area(char *to, size_t room)
{
    static char maps[1 << 16];
    int file = open("/proc/self/maps", O_RDONLY);
    size_t length = 0;
    for (ssize_t got = 1; file >= 0 && got > 0 && length < sizeof maps - 1; length += got > 0 ? (size_t)got : 0) {
        got = read(file, maps + length, sizeof maps - 1 - length);
    }
    close(file);
    maps[length] = '\0';
    snprintf(to, room, "%d", strstr(maps, "[anon:ours]") != NULL);
}

static void set_scheduling_group(void)
{
    need(prctl(PR_SCHED_CORE, PR_SCHED_CORE_CREATE, 0, 0, 0) == 0, "PR_SCHED_CORE");
}

static void tell_scheduling_group(char *to, size_t room)
{
    unsigned long cookie = 0;
    prctl(PR_SCHED_CORE, PR_SCHED_CORE_GET, 0, 0, &cookie);
    snprintf(to, room, "%d", cookie != 0);
}

static void set_write_hint(void)
{
    uint64_t hint = 3;
    open_one = open(place("hinted"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    need(open_one >= 0 && fcntl(open_one, F_SET_RW_HINT, &hint) == 0, "F_SET_RW_HINT");
}

static void tell_write_hint(char *to, size_t room)
{
    uint64_t hint = 0;
    fcntl(open_one, F_GET_RW_HINT, &hint);
    snprintf(to, room, "%d", (int)hint);
}

static volatile sig_atomic_t directory_changes;

static void on_change(int number)
{
    (void)number;
    directory_changes++;
}

static void set_directory_watch(void)
{
    struct sigaction action = {.sa_handler = on_change, .sa_flags = SA_RESTART};
    sigaction(SIGRTMIN + 5, &action, NULL);
    mkdir(place("watched"), 0700);
    open_one = open(place("watched"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    need(open_one >= 0 && fcntl(open_one, F_SETSIG, SIGRTMIN + 5) == 0, "F_SETSIG");
    need(fcntl(open_one, F_NOTIFY, DN_CREATE | DN_MULTISHOT) == 0, "F_NOTIFY");
}

static void tell_directory_watch(char *to, size_t room)
{
    int before = directory_changes;
    unlink(place("watched/file"));
    close(open(place("watched/file"), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    snprintf(to, room, "%d", directory_changes > before);
}

/* The ring of the older asynchronous I/O. */
static aio_context_t aio;

static void set_aio(void)
{
    need(syscall(SYS_io_setup, 8, &aio) == 0, "io_setup");
    open_one = open(place("aio"), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    need(open_one >= 0, "aio");
}

/* Makes a write by it, and waits for it. */
static void tell_aio(char *to, size_t room)
{
    static char bytes[512];
    struct iocb one = {.aio_lio_opcode = IOCB_CMD_PWRITE,
                       .aio_fildes = (uint32_t)open_one,
                       .aio_buf = (uintptr_t)bytes,
                       .aio_nbytes = sizeof bytes};
    struct iocb *all[] = {&one};
    struct io_event event = {0};
    long sent = syscall(SYS_io_submit, aio, 1, all);
    long ended = syscall(SYS_io_getevents, aio, 1, 1, &event, NULL);
    snprintf(to, room, "%lx %ld %ld %lld", (unsigned long)aio, sent, ended, (long long)event.res);
}

static void set_keyring(void)
{
    need(syscall(SYS_keyctl, 1, NULL) >= 0, "KEYCTL_JOIN_SESSION_KEYRING");
    need(syscall(SYS_add_key, "user", "state-job", "bytes", 5, -3) > 0, "add_key");
}

static void tell_keyring(char *to, size_t room)
{
    snprintf(to, room, "%d", syscall(SYS_keyctl, 10, -3, "user", "state-job", 0) > 0);
}

/* ---- calls that wait, each in a thread of its own for an hour ---- */

enum { MOST_WAITS = 8 };

struct wait {
    const char *name;
    int (*call)(void);
    /* How it ended; 0 as long as it has not. */
    volatile int ended;
};

static int wait_in_nanosleep(void)
{
    struct timespec hour = {3600, 0};
    return nanosleep(&hour, NULL);
}

static int wait_in_poll(void)
{
    return poll(NULL, 0, 3600 * 1000);
}

static int wait_in_semaphore(void)
{
    static sem_t semaphore;
    struct timespec end;
    sem_init(&semaphore, 0, 0);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 3600;
    return sem_timedwait(&semaphore, &end);
}

static int wait_in_select(void)
{
    struct timeval hour = {3600, 0};
    return select(0, NULL, NULL, NULL, &hour);
}

static int wait_until(void)
{
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += 3600;
    errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
    return errno ? -1 : 0;
}

static int wait_in_condition(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 3600;
    pthread_mutex_lock(&lock);
    errno = pthread_cond_timedwait(&condition, &lock, &end);
    return errno ? -1 : 0;
}

static int wait_in_read(void)
{
    int ends[2];
    char byte;
    return pipe(ends) != 0 || read(ends[0], &byte, 1) < 0 ? -1 : 0;
}

/* CRIU ends these early. */
static struct wait limited[MOST_WAITS] = {
    {"nanosleep", wait_in_nanosleep, 0}, {"poll", wait_in_poll, 0}, {"sem_timedwait", wait_in_semaphore, 0}, {NULL, NULL, 0}};

static struct wait others[MOST_WAITS] = {{"select", wait_in_select, 0},
                                         {"clock_nanosleep", wait_until, 0},
                                         {"pthread_cond_timedwait", wait_in_condition, 0},
                                         {"read", wait_in_read, 0},
                                         {NULL, NULL, 0}};

static void *wait_once(void *one)
{
    struct wait *wait = one;
    wait->ended = wait->call() < 0 ? errno : -1;
    return NULL;
}

static void start_waits(struct wait *waits)
{
    for (struct wait *one = waits; one->name; one++) {
        pthread_t thread;
        need(pthread_create(&thread, NULL, wait_once, one) == 0, "pthread_create");
    }
}

static void tell_waits(const struct wait *waits, char *to, size_t room)
{
    size_t used = 0;
    for (const struct wait *one = waits; one->name; one++) {
        used += (size_t)snprintf(to + used, room - used, "%s %s, ", one->name,
                                 one->ended == 0 ? "waits" : one->ended < 0 ? "is over" : strerror(one->ended));
    }
}

static void set_limited_waits(void)
{
    start_waits(limited);
}

static void tell_limited_waits(char *to, size_t room)
{
    tell_waits(limited, to, room);
}

static void set_waits(void)
{
    start_waits(others);
}

static void tell_other_waits(char *to, size_t room)
{
    tell_waits(others, to, room);
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
    {"handled-death-signal", set_handled_death_signal, tell_death_signal},
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
    {"real-time", set_real_time, tell_scheduler},
    {"limits", set_limits, tell_limits},
    {"secure-bits", set_secure, tell_secure},
    {"ambient", set_ambient, tell_ambient},
    {"thread-records", set_nothing, tell_thread_records},
    {"interval-timers", set_interval_timers, tell_interval_timers},
    {"posix-timers", set_posix_timers, tell_posix_timers},
    {"timer-descriptor", set_timer_descriptor, tell_timer_descriptor},
    {"signals", set_signals, tell_signals},
    {"barrier", set_barrier, tell_barrier},
    {"async", set_async, tell_async},
    {"locked-on-fault", set_locked_on_fault, tell_area},
    {"lock-of-later", set_lock_of_later, tell_lock_of_later},
    {"unreserved", set_unreserved, tell_area},
    {"sealed", set_sealed, tell_area},
    {"named-area", set_named_area, tell_named_area},
    {"scheduling-group", set_scheduling_group, tell_scheduling_group},
    {"write-hint", set_write_hint, tell_write_hint},
    {"directory-watch", set_directory_watch, tell_directory_watch},
    {"aio", set_aio, tell_aio},
    {"keyring", set_keyring, tell_keyring},
    {"limited-waits", set_limited_waits, tell_limited_waits},
    {"waits", set_waits, tell_other_waits},
    {"unicast-interface", set_unicast_interface, tell_nothing},
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
    const struct socket_kind *socket;
    int descriptor;
    unsigned char *area;
    bool failed;
    char before[TEXT];
};

static struct instance instances[MOST_KINDS];
static int count;

static void choose(const struct instance *one)
{
    chosen = one->option;
    chosen_socket = one->socket;
    open_one = one->descriptor;
    area = one->area;
}

/* Tries a kind in a child, which ends by need() if the kernel has no such state. */
static bool is_here(const struct instance *one)
{
    int status = 0;
    pid_t trial = fork();
    if (trial == 0) {
        choose(one);
        one->kind->set();
        _exit(0);
    }
    return trial > 0 && waitpid(trial, &status, 0) == trial && status == 0;
}

/* A name with a question mark before it is left out if the kernel has no such state. */
static void add(const char *asked)
{
    const char *name = asked + (asked[0] == '?');
    static const struct kind option = {"option", set_option, tell_option};
    static const struct kind every = {"every", set_every, tell_every};
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
    for (const struct socket_kind *known = SOCKETS; known->name; known++) {
        if (strcmp(known->name, name) == 0) {
            one->kind = &every;
            one->socket = known;
        }
    }
    if (!one->kind) {
        fprintf(stderr, "state-job: no kind '%s'\n", name);
        exit(4);
    }
    one->descriptor = -1;
    if (name != asked && !is_here(one)) {
        *one = (struct instance){0};
        count--;
    }
}

static const char *name_of(const struct instance *one)
{
    return one->option ? one->option->name : one->socket ? one->socket->name : one->kind->name;
}

/* Prints the differing options, and for all else the whole. */
static void complain(const struct instance *one, char *now)
{
    char detail[2 * DETAIL + LONGEST_NAME] = "";
    size_t used = 0;
    if (!one->socket) {
        snprintf(detail, sizeof detail, "was '%.*s', is '%.*s'", DETAIL, one->before, DETAIL, now);
        fail(name_of(one), detail);
        return;
    }
    for (char *word = strtok(now, ";"); word && used < sizeof detail; word = strtok(NULL, ";")) {
        char whole[LONGEST_NAME];
        snprintf(whole, sizeof whole, "%s;", word);
        const char *same = strstr(one->before, whole);
        if (!same || (same != one->before && same[-1] != ';')) {
            char *value = strchr(word, '=');
            snprintf(whole, sizeof whole, "%.*s=", (int)(value - word), word);
            const char *had = strstr(one->before, whole);
            while (had && had != one->before && had[-1] != ';') {
                had = strstr(had + 1, whole);
            }
            used += (size_t)snprintf(detail + used, sizeof detail - used, "%s (was %.*s) ", word,
                                     had ? (int)strcspn(had, ";") : 1, had ? had : "-");
        }
    }
    fail(name_of(one), detail);
}

static void look(struct instance *one)
{
    static char now[TEXT];
    choose(one);
    one->kind->tell(now, sizeof now);
    if (!one->failed && strcmp(one->before, now) != 0) {
        complain(one, now);
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
        choose(&instances[i]);
        instances[i].kind->set();
        instances[i].descriptor = open_one;
        instances[i].area = area;
    }
    for (int i = 0; i < count; i++) {
        choose(&instances[i]);
        instances[i].kind->tell(instances[i].before, sizeof instances[i].before);
    }
    FILE *kinds = fopen(place("kinds"), "w");
    for (int i = 0; kinds && i < count; i++) {
        fprintf(kinds, "%s\n", name_of(&instances[i]));
    }
    if (kinds) {
        fclose(kinds);
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
