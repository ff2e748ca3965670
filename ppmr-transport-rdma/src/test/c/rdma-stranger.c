/*
 * A foreign host of the fabric that requests connections from an RDMA listener and never establishes one.
 *
 *   rdma-stranger FROM TO PORT COUNT
 *
 * Sends COUNT requests from the address FROM, prints "asked" after the last one, and waits until its input ends. For an
 * id without a queue pair the program itself must make the last step of a connection (rdma_connect(3)), and this one
 * does not. Each answer is printed by name. Each request has a different queue pair number, because the kernel refuses a
 * repeated one as stale.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

enum { RESOLVE_MS = 5000, PATIENCE_MS = 60000 };

static void require(int good, const char *what) {
    if (!good) {
        perror(what);
        exit(1);
    }
}

static struct sockaddr_in address(const char *text, int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    require(inet_pton(AF_INET, text, &at.sin_addr) == 1, text);
    return at;
}

static void expect(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted) {
    struct rdma_cm_event *event;
    require(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
    if (event->event != wanted) {
        fprintf(stderr, "%s instead of %s\n", rdma_event_str(event->event), rdma_event_str(wanted));
        exit(1);
    }
    rdma_ack_cm_event(event);
}

int main(int count, char **words) {
    if (count != 5) {
        fprintf(stderr, "usage: rdma-stranger FROM TO PORT COUNT\n");
        return 2;
    }
    struct sockaddr_in from = address(words[1], 0);
    struct sockaddr_in to = address(words[2], atoi(words[3]));
    struct rdma_event_channel *channel = rdma_create_event_channel();
    require(channel != NULL, "rdma_create_event_channel");
    for (int i = 0; i < atoi(words[4]); i++) {
        struct rdma_event_channel *own = rdma_create_event_channel();
        require(own != NULL, "rdma_create_event_channel");
        struct rdma_cm_id *id;
        require(rdma_create_id(own, &id, NULL, RDMA_PS_TCP) == 0, "rdma_create_id");
        require(
            rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, RESOLVE_MS) == 0,
            "rdma_resolve_addr");
        expect(own, RDMA_CM_EVENT_ADDR_RESOLVED);
        require(rdma_resolve_route(id, RESOLVE_MS) == 0, "rdma_resolve_route");
        expect(own, RDMA_CM_EVENT_ROUTE_RESOLVED);
        require(rdma_migrate_id(id, channel) == 0, "rdma_migrate_id");
        struct rdma_conn_param parameters = {.retry_count = 3, .rnr_retry_count = 3, .qp_num = 0x1000U + (unsigned)i};
        require(rdma_connect(id, &parameters) == 0, "rdma_connect");
    }
    printf("asked\n");
    fflush(stdout);
    struct pollfd waiting[2] = {{.fd = channel->fd, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
    while (poll(waiting, 2, PATIENCE_MS) > 0 && waiting[1].revents == 0) {
        struct rdma_cm_event *event;
        require(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
        printf("%s\n", rdma_event_str(event->event));
        fflush(stdout);
        rdma_ack_cm_event(event);
    }
    return 0;
}
