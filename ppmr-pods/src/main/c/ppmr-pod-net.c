/*
 * ppmr-pod-net: what a pod's network needs when the pod moves. It needs root.
 *
 *   ppmr-pod-net look INODE                  lists the sockets of all processes in the network namespace of that inode,
 *                                            one a line: PID DESCRIPTOR SOCKET-INODE DOMAIN TYPE PROTOCOL. Each socket
 *                                            is listed once.
 *   ppmr-pod-net connections INODE           lists the TCP connections of these processes, one a line: PID DESCRIPTOR
 *                                            PEER-ADDRESS PEER-PORT. Without connections that are only requested, and
 *                                            those whose two ends have one address.
 *   ppmr-pod-net query INTERFACE MS ADDRESS...
 *                                            sends one query for the owners of all addresses, as a sender without an
 *                                            address. It uses ARP for IPv4, and neighbour solicitations for IPv6.
 *                                            Prints ADDRESS and MAC address for each answer within that time.
 *   ppmr-pod-net quiet NETWORK INTERFACE     drops the packets that leave that network, a file of a namespace, by that
 *                                            interface, and those between its processes. Prints what is dropped: all,
 *                                            inside (what is between its processes) or nothing.
 *   ppmr-pod-net unplug NETWORK INTERFACE CABLE
 *                                            does the same, then sets the node's end of its cable down, and switches
 *                                            TCP_REPAIR off where a checkpoint left it on
 *   ppmr-pod-net plug NETWORK INTERFACE CABLE BRIDGE ADDRESS...
 *                                            reverts that: the cable is up and a port of the bridge, packets pass, the
 *                                            addresses are announced once, and TCP_REPAIR is off
 *   ppmr-pod-net cables                      does several of these for a checkpoint of a job, which holds pods.
 *                                            It is started before, and reads lines of "NAME unplug ..." and "NAME plug
 *                                            ...", with the arguments as above. Each is done at once, in a process of its
 *                                            own, which then prints "NAME ANSWER": what is dropped, or "in", or "failed".
 *                                            It ends with its input.
 *   ppmr-pod-net announce NETWORK INTERFACE ADDRESS...
 *                                            announces, by ARP or neighbour advertisements, that this interface of that
 *                                            network has the addresses. It sends three announcements after the interface
 *                                            has a carrier. No process of this program is in that network then, so the
 *                                            pod may be moved again.
 *
 * A process is found by its namespace, so no PID is taken on trust. pidfd_getfd(2), tcp(7), packet(7), RFC 5227, RFC
 * 4861.
 *
 * Exit status: 0 for success; 1, with the reason on standard error, for a failure.
 */
#define _GNU_SOURCE
#include "kernel.h"
#include "pod-cable.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/if_ether.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

enum { MAX_SOCKETS = 65536, CABLE_IN_MS = 3000, LOOK_MS = 5 };
enum { LINE_BYTES = 8192, MAX_WORDS = 16 };
enum { MAX_ANNOUNCED = 4, ANNOUNCEMENTS = 3, ANNOUNCEMENTS_APART_MS = 60 };

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "ppmr-pod-net: %s: %s\n", what, strerror(errno));
    exit(1);
}

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void sleep_ms(long ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* ---- the sockets of a namespace -------------------------------------------------------------------------------- */

static unsigned long seen[MAX_SOCKETS];
static int seen_count;

/* True the first time. */
static bool is_new(unsigned long inode)
{
    for (int i = 0; i < seen_count; i++) {
        if (seen[i] == inode)
            return false;
    }
    if (seen_count == MAX_SOCKETS) {
        fprintf(stderr, "ppmr-pod-net: there are more than %d sockets\n", MAX_SOCKETS);
        exit(1);
    }
    seen[seen_count++] = inode;
    return true;
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(fd, level, name, &value, &length) == 0 ? value : -1;
}

typedef int use_of_socket(int pid, int descriptor, unsigned long inode, int fd);

static int show(int pid, int descriptor, unsigned long inode, int fd)
{
    printf("%d %d %lu %d %d %d\n", pid, descriptor, inode, option(fd, SOL_SOCKET, SO_DOMAIN),
           option(fd, SOL_SOCKET, SO_TYPE), option(fd, SOL_SOCKET, SO_PROTOCOL));
    return 1;
}

/* Writes the address as text, an IPv4 address in IPv6 as IPv4, and returns the port. Returns -1 for other families. */
static int read_name(const struct sockaddr_storage *name, char *text, socklen_t size)
{
    const struct sockaddr_in *four = (const struct sockaddr_in *)name;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)name;
    if (name->ss_family == AF_INET)
        return inet_ntop(AF_INET, &four->sin_addr, text, size) == NULL ? -1 : ntohs(four->sin_port);
    if (name->ss_family != AF_INET6)
        return -1;
    bool mapped = IN6_IS_ADDR_V4MAPPED(&six->sin6_addr);
    const void *address = mapped ? six->sin6_addr.s6_addr + 12 : six->sin6_addr.s6_addr;
    return inet_ntop(mapped ? AF_INET : AF_INET6, address, text, size) == NULL ? -1 : ntohs(six->sin6_port);
}

static int show_connection(int pid, int descriptor, unsigned long inode, int fd)
{
    struct tcp_info info;
    struct sockaddr_storage own;
    struct sockaddr_storage peer;
    socklen_t info_length = sizeof info;
    socklen_t own_length = sizeof own;
    socklen_t peer_length = sizeof peer;
    char own_text[INET6_ADDRSTRLEN];
    char peer_text[INET6_ADDRSTRLEN];
    (void)inode;
    memset(&info, 0, sizeof info);
    if (option(fd, SOL_SOCKET, SO_PROTOCOL) != IPPROTO_TCP
        || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_length) != 0)
        return 0;
    /* A restart repeats a request for a connection. */
    if (info.tcpi_state == TCP_LISTEN || info.tcpi_state == TCP_CLOSE || info.tcpi_state == TCP_SYN_SENT)
        return 0;
    /* A connection that ended since has no peer. */
    if (getsockname(fd, (struct sockaddr *)&own, &own_length) != 0
        || getpeername(fd, (struct sockaddr *)&peer, &peer_length) != 0)
        return 0;
    int port = read_name(&peer, peer_text, sizeof peer_text);
    if (port < 0 || read_name(&own, own_text, sizeof own_text) < 0 || strcmp(own_text, peer_text) == 0)
        return 0;
    printf("%d %d %s %d\n", pid, descriptor, peer_text, port);
    return 1;
}

static int mend(int pid, int descriptor, unsigned long inode, int fd)
{
    int off = 0;
    (void)inode;
    if (option(fd, SOL_SOCKET, SO_PROTOCOL) != IPPROTO_TCP || option(fd, IPPROTO_TCP, TCP_REPAIR) != 1)
        return 0;
    if (setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &off, sizeof off) != 0) {
        fprintf(stderr, "ppmr-pod-net: descriptor %d of PID %d: ", descriptor, pid);
        die("TCP_REPAIR cannot be switched off");
    }
    return 1;
}

/* Skips processes and sockets that ended during the scan. */
static int each_socket_of(int pid, use_of_socket *use, bool once)
{
    char path[64];
    int done = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *open_ones = opendir(path);
    int process = (int)syscall(SYS_pidfd_open, pid, 0);
    if (open_ones == NULL || process < 0) {
        if (errno != ENOENT && errno != ESRCH)
            die(path);
        if (open_ones != NULL)
            closedir(open_ones);
        return 0;
    }
    for (struct dirent *entry = readdir(open_ones); entry != NULL; entry = readdir(open_ones)) {
        char target[64];
        unsigned long inode;
        ssize_t length = readlinkat(dirfd(open_ones), entry->d_name, target, sizeof target - 1);
        if (length <= 0)
            continue;
        target[length] = '\0';
        if (sscanf(target, "socket:[%lu]", &inode) != 1 || (once && !is_new(inode)))
            continue;
        int descriptor = atoi(entry->d_name);
        int fd = (int)syscall(SYS_pidfd_getfd, process, descriptor, 0);
        if (fd < 0) {
            if (errno != ESRCH && errno != EBADF)
                die("pidfd_getfd");
            continue;
        }
        done += use(pid, descriptor, inode, fd);
        close(fd);
    }
    close(process);
    closedir(open_ones);
    return done;
}

/* With once, a socket that has several descriptors is used once, and there may be MAX_SOCKETS of them. */
static int each_socket(unsigned long namespace, use_of_socket *use, bool once)
{
    int done = 0;
    DIR *proc = opendir("/proc");
    if (proc == NULL)
        die("/proc");
    for (struct dirent *entry = readdir(proc); entry != NULL; entry = readdir(proc)) {
        char path[64];
        struct stat status;
        int pid = atoi(entry->d_name);
        if (pid <= 0)
            continue;
        snprintf(path, sizeof path, "/proc/%d/ns/net", pid);
        if (stat(path, &status) == 0 && status.st_ino == namespace)
            done += each_socket_of(pid, use, once);
    }
    closedir(proc);
    return done;
}

/* ---- ARP and neighbour discovery ------------------------------------------------------------------------------- */

struct place {
    int fd;
    bool six;
    struct sockaddr_ll link;
    struct in_addr address;
    struct in6_addr address6;
};

static struct place open_place(const char *interface, const char *address)
{
    bool six = strchr(address, ':') != NULL;
    int protocol = htons(six ? ETH_P_IPV6 : ETH_P_ARP);
    struct place place = {.fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, protocol), .six = six};
    struct ifreq request;
    if (place.fd < 0)
        die("a socket for packets");
    if (inet_pton(six ? AF_INET6 : AF_INET, address, six ? (void *)&place.address6 : &place.address) != 1) {
        errno = EINVAL;
        die(address);
    }
    memset(&request, 0, sizeof request);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
    if (ioctl(place.fd, SIOCGIFINDEX, &request) != 0)
        die(interface);
    place.link = (struct sockaddr_ll){.sll_family = AF_PACKET, .sll_protocol = (unsigned short)protocol,
                                      .sll_ifindex = request.ifr_ifindex, .sll_hatype = htons(ARPHRD_ETHER),
                                      .sll_halen = ETH_ALEN};
    if (bind(place.fd, (struct sockaddr *)&place.link, sizeof place.link) != 0)
        die(interface);
    /*
     * Answers to a sender without an address are multicast to all nodes. If IPv6 is off, no other process joined that
     * group.
     */
    struct packet_mreq all = {.mr_ifindex = request.ifr_ifindex, .mr_type = PACKET_MR_ALLMULTI};
    if (six && setsockopt(place.fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all) != 0)
        die("PACKET_MR_ALLMULTI");
    if (ioctl(place.fd, SIOCGIFHWADDR, &request) != 0)
        die(interface);
    memcpy(place.link.sll_addr, request.ifr_hwaddr.sa_data, ETH_ALEN);
    return place;
}

/*
 * Sends a request from this interface about the address. It announces that the sender has the address, or that the
 * sender has none yet.
 */
static void request(const struct place *place, bool has_it)
{
    struct ether_arp packet;
    struct sockaddr_ll all = place->link;
    memset(&packet, 0, sizeof packet);
    packet.arp_hrd = htons(ARPHRD_ETHER);
    packet.arp_pro = htons(ETH_P_IP);
    packet.arp_hln = ETH_ALEN;
    packet.arp_pln = sizeof place->address;
    packet.arp_op = htons(ARPOP_REQUEST);
    memcpy(packet.arp_sha, place->link.sll_addr, ETH_ALEN);
    if (has_it)
        memcpy(packet.arp_spa, &place->address, sizeof place->address);
    memcpy(packet.arp_tpa, &place->address, sizeof place->address);
    memset(all.sll_addr, 0xff, ETH_ALEN);
    if (sendto(place->fd, &packet, sizeof packet, 0, (struct sockaddr *)&all, sizeof all) < 0)
        die("ARP");
}

/* A neighbour solicitation or advertisement, and the option with the sender's MAC address. */
struct neighbour {
    struct ip6_hdr ip;
    struct nd_neighbor_solicit about;
    struct nd_opt_hdr option;
    unsigned char mac[ETH_ALEN];
};
_Static_assert(sizeof(struct neighbour) == 72, "no gaps");

/* RFC 4443, 2.3: over the addresses, the length, the protocol, and the message. */
static unsigned short checksum(const struct ip6_hdr *ip, const void *message, size_t length)
{
    unsigned long sum = (unsigned long)length + IPPROTO_ICMPV6;
    const unsigned char *parts[] = {(const unsigned char *)&ip->ip6_src, (const unsigned char *)&ip->ip6_dst, message};
    size_t lengths[] = {sizeof ip->ip6_src, sizeof ip->ip6_dst, length};
    for (int part = 0; part < 3; part++) {
        for (size_t i = 0; i + 1 < lengths[part]; i += 2)
            sum += (unsigned long)parts[part][i] << 8 | parts[part][i + 1];
    }
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    return htons((unsigned short)~sum);
}

static void send_neighbour(const struct place *place, bool has_it)
{
    struct neighbour packet;
    struct sockaddr_ll to = place->link;
    /* A sender without an address sends no MAC address either. */
    size_t length = has_it ? sizeof packet : sizeof packet.ip + sizeof packet.about;
    memset(&packet, 0, sizeof packet);
    packet.ip.ip6_vfc = 6 << 4;
    packet.ip.ip6_plen = htons((unsigned short)(length - sizeof packet.ip));
    packet.ip.ip6_nxt = IPPROTO_ICMPV6;
    packet.ip.ip6_hlim = 255;
    packet.about.nd_ns_type = has_it ? ND_NEIGHBOR_ADVERT : ND_NEIGHBOR_SOLICIT;
    packet.about.nd_ns_target = place->address6;
    unsigned char *group = packet.ip.ip6_dst.s6_addr;
    group[0] = 0xff;
    group[1] = 0x02;
    group[15] = 1;
    if (has_it) {
        packet.ip.ip6_src = place->address6;
        packet.about.nd_ns_reserved = ND_NA_FLAG_OVERRIDE;
        packet.option.nd_opt_type = ND_OPT_TARGET_LINKADDR;
        packet.option.nd_opt_len = 1;
        memcpy(packet.mac, place->link.sll_addr, ETH_ALEN);
    } else {
        group[11] = 1;
        group[12] = 0xff;
        memcpy(group + 13, place->address6.s6_addr + 13, 3);
    }
    packet.about.nd_ns_cksum = checksum(&packet.ip, &packet.about, length - sizeof packet.ip);
    to.sll_addr[0] = 0x33;
    to.sll_addr[1] = 0x33;
    memcpy(to.sll_addr + 2, group + 12, 4);
    if (sendto(place->fd, &packet, length, 0, (struct sockaddr *)&to, sizeof to) < 0)
        die("neighbour discovery");
}

static void print_answer(const char *address, const unsigned char *mac)
{
    printf("%s %02x:%02x:%02x:%02x:%02x:%02x\n", address, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5]);
}

static void receive_answer(const struct place *place, const char *address)
{
    union {
        struct ether_arp arp;
        struct neighbour neighbour;
    } packet;
    struct sockaddr_ll from;
    socklen_t from_length = sizeof from;
    memset(&from, 0, sizeof from);
    ssize_t length = recvfrom(place->fd, &packet, sizeof packet, MSG_DONTWAIT, (struct sockaddr *)&from, &from_length);
    if (from.sll_pkttype == PACKET_OUTGOING)
        return;
    if (place->six) {
        const struct neighbour *answer = &packet.neighbour;
        if (length >= (ssize_t)(sizeof answer->ip + sizeof answer->about) && answer->ip.ip6_nxt == IPPROTO_ICMPV6
            && answer->ip.ip6_hlim == 255 && answer->about.nd_ns_type == ND_NEIGHBOR_ADVERT
            && memcmp(&answer->about.nd_ns_target, &place->address6, sizeof place->address6) == 0) {
            bool names_mac = length == (ssize_t)sizeof *answer && answer->option.nd_opt_type == ND_OPT_TARGET_LINKADDR;
            print_answer(address, names_mac ? answer->mac : from.sll_addr);
        }
    } else if (length == (ssize_t)sizeof packet.arp && ntohs(packet.arp.arp_op) == ARPOP_REPLY
               && memcmp(packet.arp.arp_spa, &place->address, sizeof place->address) == 0) {
        print_answer(address, packet.arp.arp_sha);
    }
}

static void query(const char *interface, long limit_ms, char **addresses, int count)
{
    struct place *places = calloc((size_t)count, sizeof *places);
    struct pollfd *waits = calloc((size_t)count, sizeof *waits);
    if (places == NULL || waits == NULL)
        die("memory for the addresses");
    for (int i = 0; i < count; i++) {
        places[i] = open_place(interface, addresses[i]);
        waits[i] = (struct pollfd){.fd = places[i].fd, .events = POLLIN};
    }
    long long end = now_ms() + limit_ms;
    long long next = 0;
    for (long long now = now_ms(); now < end; now = now_ms()) {
        if (now >= next) {
            for (int i = 0; i < count; i++) {
                if (places[i].six)
                    send_neighbour(&places[i], false);
                else
                    request(&places[i], false);
            }
            next = now + limit_ms / 3;
        }
        long long until = next < end ? next : end;
        if (poll(waits, (nfds_t)count, (int)(until - now)) > 0) {
            for (int i = 0; i < count; i++) {
                if (waits[i].revents != 0)
                    receive_answer(&places[i], addresses[i]);
            }
        }
    }
    free(places);
    free(waits);
}

/* Waits with a socket of the network that the interface is in. */
static void wait_for_cable(int fd, const char *interface)
{
    struct ifreq flags;
    long long end = now_ms() + CABLE_IN_MS;
    memset(&flags, 0, sizeof flags);
    snprintf(flags.ifr_name, sizeof flags.ifr_name, "%s", interface);
    for (;;) {
        if (ioctl(fd, SIOCGIFFLAGS, &flags) != 0)
            die(interface);
        if ((flags.ifr_flags & IFF_RUNNING) != 0)
            break;
        if (now_ms() >= end) {
            errno = ENETDOWN;
            die(interface);
        }
        sleep_ms(LOOK_MS);
    }
}

static void send_announcements(const struct place *places, int count)
{
    for (int i = 0; i < count; i++) {
        if (places[i].six)
            send_neighbour(&places[i], true);
        else
            request(&places[i], true);
    }
}

/* ---- a pod that is held ---------------------------------------------------------------------------------------- */

/* Opens a namespace, and returns its number too. */
static int open_namespace(const char *path, unsigned long *number)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0)
        die(path);
    *number = status.st_ino;
    return fd;
}

static void enter(int namespace)
{
    if (setns(namespace, CLONE_NEWNET) != 0)
        die("the network namespace");
}

/* Returns the word for what is dropped, and the number of the network. */
static const char *quiet(const char *network, const char *interface, unsigned long *number)
{
    static const char *const WORDS[] = {
        [DROPPED_ALL] = "all", [DROPPED_INSIDE] = "inside", [DROPPED_NOTHING] = "nothing"};
    unsigned long own;
    int here = open_namespace("/proc/self/ns/net", &own);
    int pod = open_namespace(network, number);
    enter(pod);
    const char *word = WORDS[drop_packets(interface)];
    enter(here);
    close(here);
    close(pod);
    return word;
}

static const char *unplug(const char *network, const char *interface, const char *cable)
{
    unsigned long number;
    const char *word = quiet(network, interface, &number);
    set_down(cable);
    each_socket(number, mend, false);
    return word;
}

/* Opens sockets in the pod's network for its addresses, and one more, which it returns. */
static int open_places(int pod, const char *interface, char **addresses, struct place *places, int count)
{
    unsigned long own;
    int here = open_namespace("/proc/self/ns/net", &own);
    enter(pod);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die("a socket");
    for (int i = 0; i < count; i++)
        places[i] = open_place(interface, addresses[i]);
    enter(here);
    close(here);
    return fd;
}

static void plug(const char *network, const char *interface, const char *cable, const char *bridge, char **addresses,
                 int count)
{
    struct place places[MAX_ANNOUNCED] = {0};
    unsigned long number;
    int pod = open_namespace(network, &number);
    int fd = open_places(pod, interface, addresses, places, count);
    set_up(cable, bridge);
    wait_for_cable(fd, interface);
    enter(pod);
    pass_packets(interface);
    send_announcements(places, count);
    each_socket(number, mend, false);
}

static void announce(const char *network, const char *interface, char **addresses, int count)
{
    struct place places[MAX_ANNOUNCED] = {0};
    unsigned long number;
    int pod = open_namespace(network, &number);
    int fd = open_places(pod, interface, addresses, places, count);
    /* The file can be unmounted from here on: the pod may end. */
    close(pod);
    wait_for_cable(fd, interface);
    for (int i = 0; i < ANNOUNCEMENTS; i++) {
        if (i > 0)
            sleep_ms(ANNOUNCEMENTS_APART_MS);
        send_announcements(places, count);
    }
}

/* ---- the cables of a node's pods ------------------------------------------------------------------------------- */

/* Does what the words of a line are for, and returns the answer; NULL if they are not understood. */
static const char *do_line(char **words, int count)
{
    if (count == 5 && strcmp(words[1], "unplug") == 0)
        return unplug(words[2], words[3], words[4]);
    if (count >= 7 && count < 7 + MAX_ANNOUNCED && strcmp(words[1], "plug") == 0) {
        plug(words[2], words[3], words[4], words[5], words + 6, count - 6);
        return "in";
    }
    return NULL;
}

/* The process of a line has a child, since what fails ends a process. */
static void serve_line(char **words, int count)
{
    pid_t child = fork();
    if (child == 0) {
        const char *answer = do_line(words, count);
        if (answer == NULL)
            _exit(1);
        dprintf(STDOUT_FILENO, "%s %s\n", words[0], answer);
        _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        dprintf(STDOUT_FILENO, "%s failed\n", words[0]);
}

static void serve_cables(void)
{
    static char line[LINE_BYTES];
    /* This process does not wait for the process of a line. */
    signal(SIGCHLD, SIG_IGN);
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *words[MAX_WORDS];
        char *rest = line;
        int count = 0;
        for (char *word = strsep(&rest, " \n"); word != NULL && count < MAX_WORDS; word = strsep(&rest, " \n")) {
            if (*word != '\0')
                words[count++] = word;
        }
        if (count == 0)
            continue;
        pid_t process = fork();
        if (process == 0) {
            signal(SIGCHLD, SIG_DFL);
            serve_line(words, count);
            _exit(0);
        }
        if (process < 0)
            dprintf(STDOUT_FILENO, "%s failed\n", words[0]);
    }
}

static _Noreturn void usage(void)
{
    fprintf(stderr, "usage: ppmr-pod-net look|connections INODE | query INTERFACE MS ADDRESS... | cables"
                    " | quiet NETWORK INTERFACE | unplug NETWORK INTERFACE CABLE"
                    " | plug NETWORK INTERFACE CABLE BRIDGE ADDRESS... | announce NETWORK INTERFACE ADDRESS...\n");
    exit(2);
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "";
    if (argc == 3 && strcmp(command, "look") == 0) {
        each_socket(strtoul(argv[2], NULL, 10), show, true);
    } else if (argc == 3 && strcmp(command, "connections") == 0) {
        each_socket(strtoul(argv[2], NULL, 10), show_connection, true);
    } else if (argc >= 5 && strcmp(command, "query") == 0) {
        query(argv[2], strtol(argv[3], NULL, 10), argv + 4, argc - 4);
    } else if (argc == 4 && strcmp(command, "quiet") == 0) {
        unsigned long number;
        puts(quiet(argv[2], argv[3], &number));
    } else if (argc == 5 && strcmp(command, "unplug") == 0) {
        puts(unplug(argv[2], argv[3], argv[4]));
    } else if (argc == 2 && strcmp(command, "cables") == 0) {
        serve_cables();
    } else if (argc >= 7 && argc < 7 + MAX_ANNOUNCED && strcmp(command, "plug") == 0) {
        plug(argv[2], argv[3], argv[4], argv[5], argv + 6, argc - 6);
    } else if (argc >= 5 && argc < 5 + MAX_ANNOUNCED && strcmp(command, "announce") == 0) {
        announce(argv[2], argv[3], argv + 4, argc - 4);
    } else {
        usage();
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
