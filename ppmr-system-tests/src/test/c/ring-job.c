/*
 * ring-job: one process of a job whose processes stand in a ring and talk over TCP.
 *
 *   ring-job --rank R --size N --port BASE --dir DIR [--lie-at ROUND]
 *
 * In each round a rank sends its value to its right neighbour (rank R+1) and makes its next value of its own and its
 * left neighbour's. Every rank computes the whole ring, so it knows what its neighbour must send: any other round or
 * value, and any connection that breaks, ends the process with a line "BROKEN ..." in DIR/log-R. A good round adds
 * "ROUND VALUE PID HOST RIGHT-ADDRESS". --lie-at sends a wrong value once, to show that it is noticed.
 *
 * How it is stopped and continues again; its hooks do the other half. G is how often it has gone on, from 0:
 *
 *   DIR/map.G        a line "RANK ADDRESS" for each rank; a rank listens at port BASE+R and connects by this
 *   DIR/suspend      asks for a stop. Rank 0 takes it by renaming it to stopping.G, and tells the others in what it
 *                    sends at which round all stop: by then everything that was sent has been received
 *   DIR/stopped-R.G  the rank has closed its endpoints; it now waits for map.(G+1)
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_SIZE 64
#define ROUND_MS 10
#define CONNECT_LIMIT_MS 30000
#define SILENCE_LIMIT_S 30

struct message {
    uint64_t round;
    uint64_t value;
    uint64_t stop_at; /* 0 for none */
};

struct hello {
    uint64_t generation;
    uint64_t rank;
};

static int rank = -1;
static int size;
static int base_port;
static const char *directory;
static uint64_t lie_at;
static uint64_t values[MAX_SIZE];
static uint64_t round_number;
static uint64_t generation;
static int to_right = -1;
static int from_left = -1;
static char right_address[INET_ADDRSTRLEN];

static void write_line(const char *format, ...)
{
    char name[4096];
    char line[512];
    snprintf(name, sizeof name, "%s/log-%d", directory, rank);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    FILE *log = fopen(name, "ae");
    if (log == NULL || fputs(line, log) == EOF || fclose(log) != 0)
        _exit(2);
}

static void broken(const char *what, uint64_t got, uint64_t due)
{
    write_line("BROKEN in round %llu: %s: got %llx, due %llx: %s\n", (unsigned long long)round_number, what,
               (unsigned long long)got, (unsigned long long)due, strerror(errno));
    exit(1);
}

static void pause_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static uint64_t mixed(uint64_t own, uint64_t left, uint64_t round)
{
    uint64_t x = own * 31 + left + round;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return x ^ x >> 32;
}

static void compute_round(void)
{
    uint64_t next[MAX_SIZE];
    for (int i = 0; i < size; i++)
        next[i] = mixed(values[i], values[(i + size - 1) % size], round_number);
    memcpy(values, next, sizeof values);
}

static void file_of(char *name, size_t room, const char *format, ...)
{
    int length = snprintf(name, room, "%s/", directory);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name + length, room - (size_t)length, format, arguments);
    va_end(arguments);
}

/* Waits for the map of this generation, and gives the address of a rank in it. */
static void address_of(int wanted, char *address)
{
    char name[4096];
    file_of(name, sizeof name, "map.%llu", (unsigned long long)generation);
    FILE *map;
    while ((map = fopen(name, "re")) == NULL)
        pause_ms(ROUND_MS);
    int found = 0;
    int listed;
    char node[INET_ADDRSTRLEN];
    while (fscanf(map, "%d %15s", &listed, node) == 2)
        if (listed == wanted) {
            memcpy(address, node, sizeof node);
            found = 1;
        }
    fclose(map);
    if (!found)
        broken("no such rank in the map", (uint64_t)wanted, 0);
}

static struct sockaddr_in socket_address(int of_rank, const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(base_port + of_rank))};
    if (inet_pton(AF_INET, address, &to.sin_addr) != 1)
        broken("no address in the map", 0, 0);
    return to;
}

static void send_all(int socket, const void *data, size_t length)
{
    ssize_t sent = send(socket, data, length, MSG_NOSIGNAL);
    if (sent != (ssize_t)length)
        broken("what could be sent", (uint64_t)sent, length);
}

static void receive_all(int socket, void *data, size_t length)
{
    ssize_t got = recv(socket, data, length, MSG_WAITALL);
    if (got != (ssize_t)length)
        broken("what was received", (uint64_t)got, length);
}

static void set_up(int socket)
{
    int on = 1;
    struct timeval silence = {.tv_sec = SILENCE_LIMIT_S};
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
}

static void open_endpoints(void)
{
    address_of((rank + 1) % size, right_address);
    int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in here = socket_address(rank, "0.0.0.0");
    if (bind(listener, (struct sockaddr *)&here, sizeof here) != 0 || listen(listener, 1) != 0)
        broken("the port cannot be had", 0, (uint64_t)(base_port + rank));
    struct sockaddr_in right = socket_address((rank + 1) % size, right_address);
    for (int waited = 0;; waited += ROUND_MS) {
        to_right = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(to_right, (struct sockaddr *)&right, sizeof right) == 0)
            break;
        if (waited > CONNECT_LIMIT_MS)
            broken("the right neighbour is not reached", 0, 0);
        close(to_right);
        pause_ms(ROUND_MS);
    }
    set_up(to_right);
    struct hello mine = {generation, (uint64_t)rank};
    send_all(to_right, &mine, sizeof mine);
    set_up(listener);
    from_left = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (from_left < 0)
        broken("the left neighbour does not connect", 0, 0);
    close(listener);
    set_up(from_left);
    struct hello left;
    receive_all(from_left, &left, sizeof left);
    if (left.rank != (uint64_t)((rank + size - 1) % size) || left.generation != generation)
        broken("the left neighbour", left.rank << 32 | left.generation, generation);
}

/* Everything that was sent has been received: nothing is lost in the network. */
static void close_endpoints(void)
{
    char rest;
    shutdown(to_right, SHUT_WR);
    ssize_t got = recv(from_left, &rest, 1, 0);
    if (got != 0)
        broken("something is left in the connection", (uint64_t)got, 0);
    close(from_left);
    close(to_right);
    char name[4096];
    file_of(name, sizeof name, "stopped-%d.%llu", rank, (unsigned long long)generation);
    FILE *mark = fopen(name, "we");
    if (mark == NULL || fprintf(mark, "%llu\n", (unsigned long long)round_number) < 0 || fclose(mark) != 0)
        broken("the mark cannot be written", 0, 0);
}

static int asked_to_stop(void)
{
    char asked[4096];
    char taken[4096];
    file_of(asked, sizeof asked, "suspend");
    file_of(taken, sizeof taken, "stopping.%llu", (unsigned long long)generation);
    return rank == 0 && rename(asked, taken) == 0;
}

/* Rounds until all stop. */
static void go_round(void)
{
    uint64_t stop_at = 0;
    char host[64];
    do {
        pause_ms(ROUND_MS);
        round_number++;
        if (stop_at == 0 && asked_to_stop())
            stop_at = round_number + (uint64_t)size;
        struct message mine = {round_number, values[rank] ^ (round_number == lie_at), stop_at};
        send_all(to_right, &mine, sizeof mine);
        struct message left;
        receive_all(from_left, &left, sizeof left);
        if (left.round != round_number)
            broken("the left neighbour's round", left.round, round_number);
        uint64_t due = values[(rank + size - 1) % size];
        if (left.value != due)
            broken("the left neighbour's value", left.value, due);
        if (stop_at == 0)
            stop_at = left.stop_at;
        compute_round();
        gethostname(host, sizeof host);
        write_line("%llu %016llx %d %s %s\n", (unsigned long long)round_number, (unsigned long long)values[rank],
                   (int)getpid(), host, right_address);
    } while (round_number != stop_at);
}

int main(int argc, char **argv)
{
    for (int at = 1; at + 1 < argc; at += 2) {
        if (strcmp(argv[at], "--rank") == 0) rank = atoi(argv[at + 1]);
        else if (strcmp(argv[at], "--size") == 0) size = atoi(argv[at + 1]);
        else if (strcmp(argv[at], "--port") == 0) base_port = atoi(argv[at + 1]);
        else if (strcmp(argv[at], "--dir") == 0) directory = argv[at + 1];
        else if (strcmp(argv[at], "--lie-at") == 0) lie_at = strtoull(argv[at + 1], NULL, 10);
        else { fprintf(stderr, "ring-job: unknown option %s\n", argv[at]); return 2; }
    }
    if (rank < 0 || size < 2 || size > MAX_SIZE || rank >= size || base_port <= 0 || directory == NULL) {
        fprintf(stderr, "ring-job: --rank, --size, --port and --dir are needed\n");
        return 2;
    }
    if (setsid() < 0 && getpid() != getsid(0))
        return 2;
    for (int i = 0; i < size; i++)
        values[i] = (uint64_t)i + 1;
    for (;; generation++) {
        open_endpoints();
        go_round();
        close_endpoints();
    }
}
