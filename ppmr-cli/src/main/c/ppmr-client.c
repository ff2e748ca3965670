/* ppmr-client: the short questions to a service, without the start of a JVM.
 *
 *   ppmr-client HOME ETC RUN status [--json]|cancel ID|pod list [-s SOCKET|--socket SOCKET|--socket=SOCKET]
 *
 *   HOME  the tree of ppmr, for the example configurations in HOME/conf
 *   ETC   the folder of the installed configurations
 *   RUN   the folder of the installed services' control sockets
 *
 * It prints what "ppmr status", "ppmr cancel" and "ppmr pod list" print, and exits with 0. Whatever else is wanted, and
 * whatever goes wrong, is for the command line in Java, which describes it: the exit status is then 64, and nothing was
 * printed. To send such a question again does no harm.
 *
 * PPMR_SOCKET and PPMR_CONFIG are used as by the command line: ppmr(1). The lines of the control socket are described
 * at ControlProtocol. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    OK = 0,
    OTHERWISE = 64,
    ANSWER_SECONDS = 5,
    LONGEST_ID = 256,
    PATH_BYTES = 4096,
    REQUEST_BYTES = 2048,
    PIECE_BYTES = 1 << 16,
    LONGEST_ANSWER_BYTES = 16 << 20,
    CODE_DIGITS = 4,
    FIRST_HIGH_SURROGATE = 0xd800,
    FIRST_LOW_SURROGATE = 0xdc00,
    LAST_LOW_SURROGATE = 0xdfff,
};

/* A side of a migration that this node can have. */
struct side {
    const char *name;
    char socket[sizeof((struct sockaddr_un *)0)->sun_path];
};

static void otherwise(void)
{
    _exit(OTHERWISE);
}

/* Returns whether two files have the same content. */
static bool same_files(const char *one, const char *other)
{
    FILE *a = fopen(one, "re");
    FILE *b = fopen(other, "re");
    bool same = a != NULL && b != NULL;
    while (same) {
        int x = getc_unlocked(a);
        int y = getc_unlocked(b);
        same = x == y;
        if (x == EOF)
            break;
    }
    if (a != NULL)
        fclose(a);
    if (b != NULL)
        fclose(b);
    return same;
}

/* Requires that a text was not cut off. */
static void require_whole(int length, size_t bytes)
{
    if (length < 0 || (size_t)length >= bytes)
        otherwise();
}

/* Returns whether this node uses a side, and sets its socket. A side whose configuration is not the example is used, but
 * its socket is then elsewhere, or its service does not run. */
static bool is_used(struct side *side, const char *home, const char *etc, const char *run)
{
    char file[PATH_BYTES];
    char example[PATH_BYTES];
    require_whole(snprintf(side->socket, sizeof side->socket, "%s/%s.sock", run, side->name), sizeof side->socket);
    if (access(side->socket, F_OK) == 0)
        return true;
    require_whole(snprintf(file, sizeof file, "%s/%s.toml", etc, side->name), sizeof file);
    require_whole(snprintf(example, sizeof example, "%s/conf/%s.toml", home, side->name), sizeof example);
    if (access(file, F_OK) == 0 && !same_files(file, example))
        otherwise();
    return false;
}

static int open_socket(const char *name)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct timeval limit = { .tv_sec = ANSWER_SECONDS };
    if (strlen(name) >= sizeof address.sun_path)
        otherwise();
    strcpy(address.sun_path, name);
    int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connection < 0 || setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0
            || setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0
            || connect(connection, (struct sockaddr *)&address, sizeof address) != 0)
        otherwise();
    return connection;
}

static long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000L + now.tv_nsec / 1000000;
}

/* Sends a request, and returns the line of its answer without its end. */
static char *answer(const char *socket, const char *request)
{
    int connection = open_socket(socket);
    size_t length = strlen(request);
    if (send(connection, request, length, MSG_NOSIGNAL) != (ssize_t)length)
        otherwise();
    char *line = malloc(LONGEST_ANSWER_BYTES + 1);
    if (line == NULL)
        otherwise();
    size_t used = 0;
    long end = now_ms() + ANSWER_SECONDS * 1000L;
    char *last = NULL;
    while (last == NULL) {
        size_t room = LONGEST_ANSWER_BYTES - used;
        ssize_t got = recv(connection, line + used, room < PIECE_BYTES ? room : PIECE_BYTES, 0);
        if (got <= 0 || now_ms() > end)
            otherwise();
        last = memchr(line + used, '\n', (size_t)got);
        used += (size_t)got;
    }
    *last = '\0';
    close(connection);
    return line;
}

/* Returns the value of an object of one key, without the object's end. */
static char *value(char *line, const char *key)
{
    size_t length = strlen(key);
    size_t all = strlen(line);
    if (all < length + 5 || strncmp(line, "{\"", 2) != 0 || strncmp(line + 2, key, length) != 0
            || strncmp(line + 2 + length, "\":", 2) != 0 || line[all - 1] != '}')
        otherwise();
    line[all - 1] = '\0';
    return line + length + 4;
}

static unsigned code(const char *digits)
{
    unsigned found = 0;
    for (int i = 0; i < CODE_DIGITS; i++) {
        char digit = digits[i];
        int part = digit >= '0' && digit <= '9' ? digit - '0'
            : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
            : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
        if (part < 0)
            otherwise();
        found = found << 4 | (unsigned)part;
    }
    return found;
}

/* Writes a character in UTF-8. Control characters would be obeyed by the terminal. */
static char *put(char *to, unsigned character)
{
    if (character < ' ' || (character >= 0x7f && character < 0xa0)) {
        *to++ = '?';
    } else if (character < 0x80) {
        *to++ = (char)character;
    } else if (character < 0x800) {
        *to++ = (char)(0xc0 | character >> 6);
        *to++ = (char)(0x80 | (character & 0x3f));
    } else if (character < 0x10000) {
        *to++ = (char)(0xe0 | character >> 12);
        *to++ = (char)(0x80 | (character >> 6 & 0x3f));
        *to++ = (char)(0x80 | (character & 0x3f));
    } else {
        *to++ = (char)(0xf0 | character >> 18);
        *to++ = (char)(0x80 | (character >> 12 & 0x3f));
        *to++ = (char)(0x80 | (character >> 6 & 0x3f));
        *to++ = (char)(0x80 | (character & 0x3f));
    }
    return to;
}

/* Reads a text of JSON in its place, and ends it with NUL. Returns what follows it. */
static char *text(char *from, char **found)
{
    if (*from++ != '"')
        otherwise();
    *found = from;
    char *to = from;
    while (*from != '"') {
        unsigned character = (unsigned char)*from++;
        if (character == '\0')
            otherwise();
        if (character != '\\') {
            // Bytes of UTF-8 stay as they are.
            *to++ = character < ' ' || character == 0x7f ? '?' : (char)character;
            continue;
        }
        character = (unsigned char)*from++;
        if (character != 'u') {
            if (character == '\0')
                otherwise();
            to = put(to, strchr("\"\\/", (int)character) != NULL ? character : ' ');
            continue;
        }
        character = code(from);
        from += CODE_DIGITS;
        if (character >= FIRST_HIGH_SURROGATE && character < FIRST_LOW_SURROGATE && from[0] == '\\' && from[1] == 'u') {
            unsigned low = code(from + 2);
            if (low >= FIRST_LOW_SURROGATE && low <= LAST_LOW_SURROGATE) {
                character = 0x10000 + ((character - FIRST_HIGH_SURROGATE) << 10) + (low - FIRST_LOW_SURROGATE);
                from += CODE_DIGITS + 2;
            }
        }
        if (character >= FIRST_HIGH_SURROGATE && character <= LAST_LOW_SURROGATE)
            character = '?';
        to = put(to, character);
    }
    from++;
    *to = '\0';
    return from;
}

/* Prints a list of lines, once all of it has been read. */
static void print_lines(char *list)
{
    // A line is never longer than its text in JSON.
    char *all = list;
    char *end = list;
    if (*list++ != '[')
        otherwise();
    while (*list != ']') {
        char *line;
        list = text(list, &line);
        size_t length = strlen(line);
        memmove(end, line, length);
        end += length;
        *end++ = '\n';
        if (*list == ',')
            list++;
        else if (*list != ']')
            otherwise();
    }
    if (list[1] != '\0')
        otherwise();
    fwrite(all, 1, (size_t)(end - all), stdout);
}

/* Appends an ID to a request. The characters of a migration's name need no escape. */
static void cancel_request(char *to, size_t bytes, const char *id)
{
    if (id[0] == '\0' || strlen(id) > LONGEST_ID
            || strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != strlen(id))
        otherwise();
    snprintf(to, bytes, "{\"id\":\"%s\",\"request\":\"cancel\"}\n", id);
}

static void print_cancelled(char *line, const char *id)
{
    char *cancelled;
    if (*text(value(line, "cancelling"), &cancelled) != '\0')
        otherwise();
    if (strcmp(id, "waiting") == 0)
        printf("not moved by this trigger: %s\n", cancelled);
    else
        printf("migration %s is being rolled back\n", cancelled);
}

/* Sends a request to a service, and prints its answer. */
static void show(const char *socket, const char *question, bool json)
{
    char request[REQUEST_BYTES];
    snprintf(request, sizeof request, "{\"lines\":%s,\"request\":\"%s\"}\n", json ? "false" : "true", question);
    char *line = answer(socket, request);
    if (json)
        puts(value(line, question));
    else
        print_lines(value(line, "lines"));
    free(line);
}

int main(int argc, char **argv)
{
    enum { HOME = 1, ETC, RUN, COMMAND, FIRST };
    const char *named = NULL;
    const char *id = NULL;
    bool json = false;
    if (argc <= COMMAND)
        otherwise();
    const char *command = argv[COMMAND];
    int at = FIRST;
    if (strcmp(command, "pod") == 0 && (argc <= at || strcmp(argv[at++], "list") != 0))
        otherwise();
    for (; at < argc; at++) {
        const char *word = argv[at];
        if (strcmp(word, "--json") == 0)
            json = true;
        else if ((strcmp(word, "-s") == 0 || strcmp(word, "--socket") == 0) && at + 1 < argc && named == NULL)
            named = argv[++at];
        else if (strncmp(word, "--socket=", 9) == 0 && named == NULL)
            named = word + 9;
        else if (strcmp(command, "cancel") == 0 && word[0] != '-' && id == NULL)
            id = word;
        else
            otherwise();
    }
    if (named == NULL)
        named = getenv("PPMR_SOCKET");
    if (named == NULL && getenv("PPMR_CONFIG") != NULL)
        otherwise();
    bool cancels = strcmp(command, "cancel") == 0;
    bool status = strcmp(command, "status") == 0;
    if ((!cancels && !status && strcmp(command, "pod") != 0) || (json && !status))
        otherwise();

    struct side sides[] = { { .name = "source" }, { .name = "target" } };
    bool used[] = { false, false };
    if (named == NULL) {
        for (int i = 0; i < 2; i++)
            used[i] = is_used(&sides[i], argv[HOME], argv[ETC], argv[RUN]);
        if (used[0] == used[1] || (cancels && !used[0]))
            // None is here; or each answer has a title; or it is not known which one is meant.
            otherwise();
        named = sides[used[0] ? 0 : 1].socket;
    }
    if (cancels) {
        char request[REQUEST_BYTES];
        if (id == NULL)
            otherwise();
        cancel_request(request, sizeof request, id);
        print_cancelled(answer(named, request), id);
    } else {
        show(named, status ? "status" : "pod_list", json);
    }
    return fflush(stdout) == 0 ? OK : EXIT_FAILURE;
}
