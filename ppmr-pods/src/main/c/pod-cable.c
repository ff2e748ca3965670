#define _GNU_SOURCE
#include "pod-cable.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* The name is known to the service: it removes the table of a pod that an earlier release held. */
static const char TABLE[] = "ppmr-hold";

/* The headers of kernels before Linux 5.16 have no name for the hook of packets that leave. */
enum { HOOK_INGRESS = 0, HOOK_EGRESS = 1, POLICY_DROP = 0 };
enum { MESSAGE_BYTES = 2048, ANSWER_BYTES = 16384, ANSWER_LIMIT_S = 20 };

static _Noreturn void die_of(const char *what, int number)
{
    fprintf(stderr, "ppmr-pod-net: %s: %s\n", what, strerror(number));
    exit(1);
}

/* ---- messages of netlink(7) ------------------------------------------------------------------------------------ */

/* Messages that are sent at once. The union aligns the bytes. */
struct messages {
    union {
        struct nlmsghdr first;
        char bytes[MESSAGE_BYTES];
    };
    size_t length;
    struct nlmsghdr *last;
    /* The numbers of the first and of the last message that requests an answer. */
    unsigned int first_asked;
    unsigned int last_asked;
};

static void *append(struct messages *all, const void *bytes, size_t length)
{
    size_t padded = NLMSG_ALIGN(length);
    if (padded > sizeof all->bytes - all->length)
        die_of("a message to the kernel", EMSGSIZE);
    char *at = all->bytes + all->length;
    memset(at, 0, padded);
    if (bytes != NULL)
        memcpy(at, bytes, length);
    all->length += padded;
    if (all->last != NULL)
        all->last->nlmsg_len = (uint32_t)(all->bytes + all->length - (char *)all->last);
    return at;
}

/* Begins a message. Each one that requests an answer has a number of its own. */
static void begin(struct messages *all, uint16_t type, uint16_t flags, const void *header, size_t length)
{
    all->last = NULL;
    struct nlmsghdr *message = append(all, NULL, NLMSG_HDRLEN);
    message->nlmsg_type = type;
    message->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
    if ((flags & NLM_F_ACK) != 0) {
        static unsigned int number;
        message->nlmsg_seq = ++number;
        all->last_asked = number;
        if (all->first_asked == 0)
            all->first_asked = number;
    }
    message->nlmsg_len = NLMSG_HDRLEN;
    all->last = message;
    append(all, header, length);
}

static struct nlattr *attribute(struct messages *all, uint16_t type, const void *bytes, size_t length)
{
    struct nlattr head = {.nla_len = (uint16_t)(NLA_HDRLEN + length), .nla_type = type};
    struct nlattr *at = append(all, &head, sizeof head);
    if (length > 0)
        append(all, bytes, length);
    return at;
}

static void text_attribute(struct messages *all, uint16_t type, const char *text)
{
    attribute(all, type, text, strlen(text) + 1);
}

static void number_attribute(struct messages *all, uint16_t type, uint32_t number)
{
    uint32_t network_order = htonl(number);
    attribute(all, type, &network_order, sizeof network_order);
}

static void end_nested(struct messages *all, struct nlattr *nested)
{
    nested->nla_len = (uint16_t)(all->bytes + all->length - (char *)nested);
}

static int open_netlink(int protocol)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    struct timeval limit = {.tv_sec = ANSWER_LIMIT_S};
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

/* Sends the messages, and returns 0 when the kernel has done all of them, or the number of the first error. */
static int request(int fd, const struct messages *all)
{
    union {
        struct nlmsghdr first;
        char bytes[ANSWER_BYTES];
    } answer;
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    if (sendto(fd, all->bytes, all->length, 0, (struct sockaddr *)&kernel, sizeof kernel) < 0)
        return errno;
    unsigned int wanted = all->last_asked - all->first_asked + 1;
    while (wanted > 0) {
        ssize_t length = recv(fd, answer.bytes, sizeof answer.bytes, 0);
        if (length < 0 && errno == EINTR)
            continue;
        if (length <= 0)
            return length == 0 ? EIO : errno;
        int left = (int)length;
        for (struct nlmsghdr *one = &answer.first; NLMSG_OK(one, left); one = NLMSG_NEXT(one, left)) {
            if (one->nlmsg_type != NLMSG_ERROR || one->nlmsg_len < NLMSG_LENGTH(sizeof(struct nlmsgerr)))
                continue;
            const struct nlmsgerr *outcome = NLMSG_DATA(one);
            /* An error that names no message is about all of them: the kernel lacks what the first one is for. */
            bool is_ours = one->nlmsg_seq >= all->first_asked && one->nlmsg_seq <= all->last_asked;
            if (!is_ours && one->nlmsg_seq != 0)
                continue;
            if (outcome->error != 0)
                return -outcome->error;
            wanted -= is_ours ? 1 : 0;
        }
    }
    return 0;
}

/* ---- packets that are dropped ---------------------------------------------------------------------------------- */

static void of_nftables(struct messages *all, uint16_t type, uint16_t flags)
{
    struct nfgenmsg family = {.nfgen_family = NFPROTO_NETDEV, .version = NFNETLINK_V0};
    begin(all, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), (uint16_t)(flags | NLM_F_ACK), &family, sizeof family);
}

/* A transaction of nf_tables: all of its messages take effect, or none. */
static void of_transaction(struct messages *all, uint16_t type)
{
    struct nfgenmsg family = {
        .nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};
    begin(all, type, 0, &family, sizeof family);
}

/* Deletes the table, also if there is none. */
static void without_table(struct messages *all)
{
    of_nftables(all, NFT_MSG_NEWTABLE, NLM_F_CREATE);
    text_attribute(all, NFTA_TABLE_NAME, TABLE);
    of_nftables(all, NFT_MSG_DELTABLE, 0);
    text_attribute(all, NFTA_TABLE_NAME, TABLE);
}

/* Adds a chain whose policy is to drop. */
static void with_chain(struct messages *all, const char *name, const char *interface, uint32_t hook)
{
    of_nftables(all, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
    text_attribute(all, NFTA_CHAIN_TABLE, TABLE);
    text_attribute(all, NFTA_CHAIN_NAME, name);
    struct nlattr *place = attribute(all, NLA_F_NESTED | NFTA_CHAIN_HOOK, NULL, 0);
    number_attribute(all, NFTA_HOOK_HOOKNUM, hook);
    number_attribute(all, NFTA_HOOK_PRIORITY, 0);
    text_attribute(all, NFTA_HOOK_DEV, interface);
    end_nested(all, place);
    number_attribute(all, NFTA_CHAIN_POLICY, POLICY_DROP);
    text_attribute(all, NFTA_CHAIN_TYPE, "filter");
}

/*
 * Makes the table again, in one transaction. Returns 0, or the number of the error. It has a socket of its own: the kernel
 * answers each message of a transaction that failed, and the rest of these answers is never read.
 */
static int make_table(const char *interface, bool leaving)
{
    struct messages all = {.length = 0};
    int fd = open_netlink(NETLINK_NETFILTER);
    if (fd < 0)
        return errno;
    of_transaction(&all, NFNL_MSG_BATCH_BEGIN);
    without_table(&all);
    of_nftables(&all, NFT_MSG_NEWTABLE, NLM_F_CREATE);
    text_attribute(&all, NFTA_TABLE_NAME, TABLE);
    if (leaving) {
        with_chain(&all, "out", interface, HOOK_EGRESS);
        with_chain(&all, "inside", "lo", HOOK_EGRESS);
    }
    with_chain(&all, "arrives", "lo", HOOK_INGRESS);
    of_transaction(&all, NFNL_MSG_BATCH_END);
    int error = request(fd, &all);
    close(fd);
    return error;
}

static void set_flag(const char *interface, short flag, bool on)
{
    struct ifreq flags;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    memset(&flags, 0, sizeof flags);
    snprintf(flags.ifr_name, sizeof flags.ifr_name, "%s", interface);
    if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &flags) != 0)
        die_of(interface, errno);
    flags.ifr_flags = (short)(on ? flags.ifr_flags | flag : flags.ifr_flags & ~flag);
    if (ioctl(fd, SIOCSIFFLAGS, &flags) != 0)
        die_of(interface, errno);
    close(fd);
}

enum dropped drop_packets(const char *interface)
{
    enum dropped dropped = make_table(interface, true) == 0 ? DROPPED_ALL
                           : make_table(interface, false) == 0 ? DROPPED_INSIDE
                                                               : DROPPED_NOTHING;
    /* With ARP, the kernel would wait silently for the answer to its query. Without, it takes each neighbour as known. */
    if (dropped == DROPPED_ALL)
        set_flag(interface, IFF_NOARP, true);
    return dropped;
}

void pass_packets(const char *interface)
{
    int fd = open_netlink(NETLINK_NETFILTER);
    /* A kernel that has none of it has no table. */
    if (fd >= 0) {
        struct messages all = {.length = 0};
        of_transaction(&all, NFNL_MSG_BATCH_BEGIN);
        without_table(&all);
        of_transaction(&all, NFNL_MSG_BATCH_END);
        int error = request(fd, &all);
        if (error != 0 && error != EOPNOTSUPP)
            die_of("the table that drops packets cannot be deleted", error);
        close(fd);
    }
    set_flag(interface, IFF_NOARP, false);
}

/* ---- the cable ------------------------------------------------------------------------------------------------- */

void set_down(const char *interface)
{
    set_flag(interface, IFF_UP, false);
}

void set_up(const char *interface, const char *bridge)
{
    struct messages all = {.length = 0};
    struct ifinfomsg up = {.ifi_family = AF_UNSPEC,
                           .ifi_index = (int)if_nametoindex(interface),
                           .ifi_flags = IFF_UP,
                           .ifi_change = IFF_UP};
    uint32_t master = if_nametoindex(bridge);
    if (up.ifi_index == 0)
        die_of(interface, errno);
    if (master == 0)
        die_of(bridge, errno);
    int fd = open_netlink(NETLINK_ROUTE);
    if (fd < 0)
        die_of("a socket for links", errno);
    begin(&all, RTM_NEWLINK, NLM_F_ACK, &up, sizeof up);
    attribute(&all, IFLA_MASTER, &master, sizeof master);
    int error = request(fd, &all);
    if (error != 0)
        die_of(interface, error);
    close(fd);
}
