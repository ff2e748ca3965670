/*
 * image-replay: makes the system calls of a checkpointer or a restart, one after the other, as a script says.
 *
 *   image-replay [--dir DIR] [--pid PID] [--pidfile FILE] SCRIPT
 *
 * A line of the script is one call; '#' starts a comment. The byte at offset o of a file with seed s is a function of o and
 * s alone, so a reader can check every byte. Ends with 0 if every call did as told, else with 1 and one line that
 * says which did not.
 *
 *   seed S                    contents of the files from here on
 *   open NAME FLAGS           r|w, c creat, x excl, t trunc, n nonblock, a append; mode 0600
 *   write LEN [BLOCK]         at the file position, in calls of BLOCK bytes
 *   append LEN [BLOCK]        at the end, whatever the file position, of a file that is opened so
 *   pwrite OFF LEN [BLOCK]    positioned, ascending
 *   descend OFF LEN BLOCK     positioned, blocks from the last to the first
 *   scatter OFF LEN BLOCK R   positioned, blocks in a random order drawn from R
 *   splice LEN BLOCK          through a pipe, as CRIU writes pages
 *   read LEN [BLOCK]          at the file position; short is an error
 *   pread OFF LEN             one preadv of the whole length
 *   skim LEN [BLOCK]          as read, without checking the contents
 *   zeros OFF LEN             a positioned read of a hole
 *   blank LEN [BLOCK]         as read, of a hole
 *   eof                       the next read gives 0
 *   seek OFF | truncate SIZE | fsync | close | use N (of the open files, in order of opening)
 *   size NAME SIZE            what stat(2) must say
 *   rename A B | symlink T NAME | chmod MODE NAME | mkdir NAME | rmdir NAME | unlink NAME | punch OFF LEN | touch NAME
 *   list NAME                 the names in a directory
 *   also SCRIPT               another process, with every file that is open, does what this script says
 *   join                      until all of those have ended well
 *   exists NAME | fsize SIZE  of the open file
 *   forkexit                  a child process that has every file open ends while this one continues
 *   fails ERRNO CALL...       the call must fail with this error number
 *   least MS CALL...          the call must last so long
 *   once NAME CALL...         the call, unless the name exists, which is made (outside the mount)
 *   again NAME CALL...        the call, if the name exists, which is made else
 *   await NAME                until the name exists (outside the mount)
 *   pause MS | work MS        waits, or uses a processor, so long
 *   die                       SIGKILL to itself
 *   stop                      SIGSTOP to PID, until it is stopped
 *   spawn [quietly]           a stopped process of its own session, whose PID goes to FILE, or nowhere
 *   compute LEDGER            for ever: adds a line "STEP SUM PID" to a file, each sum a function of the one before; between
 *                             two steps does what "ask" asks for, itself: one call that fails then, and it aborts
 *   ask LEDGER SCRIPT         the process PID, which computes, runs this script in this directory and stops: it writes its
 *                             image from within, as DMTCP does, and does nothing more behind it
 *   save LEDGER               writes how far that has come at the file position, 64 bytes, and into LEDGER.saved
 *   load LEDGER               reads that; what "spawn" makes then continues from there, and its PID goes to LEDGER.copies
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_OPEN 4096
#define DEFAULT_BLOCK (128 * 1024)

static int files[MAX_OPEN];
static int file_count;
static int current = -1;
static uint64_t seed = 1;
static long pid;
static const char *pidfile;
static const char *line_text;
static int line_number;
static uint64_t step;
static uint64_t sum = 1;
static char loaded[1024];
static bool within;

#define STATE_BYTES 64

static _Noreturn void end_badly(void)
{
    if (within)
        abort();
    exit(1);
}

static void die_saying(const char *what)
{
    fprintf(stderr, "image-replay: line %d '%s': %s: %s\n", line_number, line_text, what, strerror(errno));
    end_badly();
}

static void wrong(const char *what, long long got, long long due)
{
    fprintf(stderr, "image-replay: line %d '%s': %s is %lld where %lld was due\n", line_number, line_text, what, got, due);
    end_badly();
}

static uint64_t word_at(uint64_t index)
{
    uint64_t x = (index + 1) * 0x9E3779B97F4A7C15u ^ seed * 0xD1B54A32D192ED03u;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9u;
    return x ^ x >> 32;
}

static void fill(unsigned char *to, uint64_t offset, size_t length)
{
    size_t i = 0;
    for (; i < length && (offset + i) % 8 != 0; i++)
        to[i] = (unsigned char)(word_at((offset + i) / 8) >> (offset + i) % 8 * 8);
    for (; i + 8 <= length; i += 8) {
        uint64_t word = word_at((offset + i) / 8);
        memcpy(to + i, &word, 8);
    }
    for (; i < length; i++)
        to[i] = (unsigned char)(word_at((offset + i) / 8) >> (offset + i) % 8 * 8);
}

static void check(const unsigned char *got, uint64_t offset, size_t length)
{
    static unsigned char due[65536];
    for (size_t done = 0; done < length;) {
        size_t part = length - done < sizeof due ? length - done : sizeof due;
        fill(due, offset + done, part);
        if (memcmp(got + done, due, part) != 0) {
            size_t at = 0;
            while (got[done + at] == due[at])
                at++;
            fprintf(stderr, "image-replay: line %d '%s': the byte at %llu is %d where %d was due\n", line_number, line_text,
                    (unsigned long long)(offset + done + at), got[done + at], due[at]);
            end_badly();
        }
        done += part;
    }
}

static void *room(size_t length)
{
    static void *memory;
    static size_t have;
    if (length > have) {
        free(memory);
        if (posix_memalign(&memory, 4096, length) != 0)
            die_saying("memory");
        have = length;
    }
    return memory;
}

/* Each of the calls gives 0, or -1 with errno. */

static int write_blocks(uint64_t offset, uint64_t length, size_t block, bool positioned)
{
    unsigned char *data = room(block);
    for (uint64_t done = 0; done < length;) {
        size_t part = length - done < block ? length - done : block;
        fill(data, offset + done, part);
        ssize_t n = positioned ? pwrite(current, data, part, (off_t)(offset + done)) : write(current, data, part);
        if (n < 0)
            return -1;
        if ((size_t)n != part)
            wrong("what write took", n, (long long)part);
        done += part;
    }
    return 0;
}

static int append_blocks(uint64_t length, size_t block)
{
    struct stat status;
    if (fstat(current, &status) != 0)
        return -1;
    return write_blocks((uint64_t)status.st_size, length, block, false);
}

static int write_order(uint64_t offset, uint64_t length, size_t block, long long random)
{
    uint64_t count = (length + block - 1) / block;
    uint64_t *order = malloc(count * sizeof *order);
    if (order == NULL)
        die_saying("memory");
    for (uint64_t i = 0; i < count; i++)
        order[i] = random < 0 ? count - 1 - i : i;
    uint64_t state = (uint64_t)random * 2 + 1;
    for (uint64_t i = count; random >= 0 && i > 1; i--) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t other = (state >> 33) % i;
        uint64_t kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
    int result = 0;
    for (uint64_t i = 0; i < count && result == 0; i++) {
        uint64_t start = order[i] * block;
        uint64_t part = length - start < block ? length - start : block;
        result = write_blocks(offset + start, part, block, true);
    }
    free(order);
    return result;
}

static int splice_blocks(uint64_t length, size_t block)
{
    int ends[2];
    if (pipe(ends) != 0 || fcntl(ends[1], F_SETPIPE_SZ, (int)block) < 0)
        die_saying("pipe");
    uint64_t offset = (uint64_t)lseek(current, 0, SEEK_CUR);
    unsigned char *data = room(block);
    int result = 0;
    for (uint64_t done = 0; done < length && result == 0;) {
        size_t part = length - done < block ? length - done : block;
        fill(data, offset + done, part);
        struct iovec io = {data, part};
        size_t piped = 0;
        while (piped < part && result == 0) {
            io.iov_base = data + piped;
            io.iov_len = part - piped;
            ssize_t in = vmsplice(ends[1], &io, 1, SPLICE_F_NONBLOCK);
            if (in < 0)
                die_saying("vmsplice");
            piped += (size_t)in;
            for (ssize_t left = in; left > 0;) {
                ssize_t n = splice(ends[0], NULL, current, NULL, (size_t)left, SPLICE_F_MOVE);
                if (n <= 0) {
                    result = -1;
                    break;
                }
                left -= n;
            }
        }
        done += part;
    }
    close(ends[0]);
    close(ends[1]);
    return result;
}

enum contents { DUE, ANY, ZEROS };

static int read_blocks(uint64_t length, size_t block, enum contents contents)
{
    unsigned char *data = room(block);
    uint64_t offset = (uint64_t)lseek(current, 0, SEEK_CUR);
    for (uint64_t done = 0; done < length;) {
        size_t part = length - done < block ? length - done : block;
        ssize_t n = read(current, data, part);
        if (n < 0)
            return -1;
        if ((size_t)n != part)
            wrong("what read gave", n, (long long)part);
        if (contents == DUE)
            check(data, offset + done, part);
        for (size_t i = 0; contents == ZEROS && i < part; i++)
            if (data[i] != 0)
                wrong("a byte of a hole", data[i], 0);
        done += part;
    }
    return 0;
}

static int read_at(uint64_t offset, size_t length, bool zeros)
{
    unsigned char *data = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED)
        die_saying("memory");
    memset(data, 1, length);
    struct iovec io = {data, length};
    ssize_t n = preadv(current, &io, 1, (off_t)offset);
    if (n >= 0) {
        if ((size_t)n != length)
            wrong("what preadv gave", n, (long long)length);
        for (size_t i = 0; zeros && i < length; i++)
            if (data[i] != 0)
                wrong("a byte of a hole", data[i], 0);
        if (!zeros)
            check(data, offset, length);
    }
    munmap(data, length);
    return n < 0 ? -1 : 0;
}

static void pause_ms(long ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static int open_file(const char *name, const char *flags)
{
    int bits = strchr(flags, 'w') ? (strchr(flags, 'r') ? O_RDWR : O_WRONLY) : O_RDONLY;
    bits |= (strchr(flags, 'c') ? O_CREAT : 0) | (strchr(flags, 'x') ? O_EXCL : 0) | (strchr(flags, 't') ? O_TRUNC : 0);
    bits |= (strchr(flags, 'n') ? O_NONBLOCK : 0) | (strchr(flags, 'a') ? O_APPEND : 0);
    int opened = open(name, bits, 0600);
    if (opened < 0)
        return -1;
    if (file_count == MAX_OPEN)
        wrong("the number of open files", file_count, MAX_OPEN - 1);
    files[file_count++] = opened;
    current = opened;
    return 0;
}

static int list_names(const char *name)
{
    DIR *directory = opendir(name);
    if (directory == NULL)
        return -1;
    errno = 0;
    while (readdir(directory) != NULL)
        continue;
    int failure = errno;
    closedir(directory);
    errno = failure;
    return failure == 0 ? 0 : -1;
}

static int fork_and_exit(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    int status;
    return child < 0 || waitpid(child, &status, 0) != child ? -1 : 0;
}

static int await_stopped(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    for (int tries = 0; tries < 5000; tries++) {
        char text[512] = "";
        FILE *stat_file = fopen(path, "r");
        if (stat_file == NULL || fgets(text, sizeof text, stat_file) == NULL)
            return -1;
        fclose(stat_file);
        const char *state = strrchr(text, ')');
        if (state != NULL && state[2] == 'T')
            return 0;
        pause_ms(1);
    }
    errno = ETIMEDOUT;
    return -1;
}

static int stop_process(void)
{
    return kill((pid_t)pid, SIGSTOP) != 0 ? -1 : await_stopped();
}

static void run_script(FILE *script);

/* Does what "ask" has asked for, if it has. */
static void answer(const char *ledger)
{
    char asked[1100];
    char words[2200];
    snprintf(asked, sizeof asked, "%s.ask", ledger);
    FILE *in = fopen(asked, "re");
    if (in == NULL)
        return;
    within = true;
    char *space = fgets(words, sizeof words, in) == NULL ? NULL : strchr(words, ' ');
    fclose(in);
    if (space == NULL)
        die_saying("what was asked for");
    *space = 0;
    space[1 + strcspn(space + 1, "\n")] = 0;
    FILE *script = fopen(space + 1, "re");
    if (script == NULL || chdir(words) != 0)
        die_saying("what was asked for");
    const char *outer_text = line_text;
    int outer_number = line_number;
    run_script(script);
    fclose(script);
    line_text = outer_text;
    line_number = outer_number;
    file_count = 0;
    if (chdir("/") != 0 || unlink(asked) != 0)
        die_saying("the answer");
    within = false;
    raise(SIGSTOP);
}

static int ask(const char *ledger, const char *script)
{
    char asked[1100];
    char part[1200];
    char words[2200];
    char here[1024];
    snprintf(asked, sizeof asked, "%s.ask", ledger);
    snprintf(part, sizeof part, "%s.part", asked);
    if (getcwd(here, sizeof here) == NULL)
        return -1;
    int length = snprintf(words, sizeof words, "%s %s\n", here, script);
    int out = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (out < 0 || write(out, words, (size_t)length) != length || close(out) != 0 || rename(part, asked) != 0)
        return -1;
    while (access(asked, F_OK) == 0) {
        if (kill((pid_t)pid, 0) != 0)
            return -1;
        pause_ms(2);
    }
    return await_stopped();
}

static int compute(const char *where)
{
    char ledger[1024];
    snprintf(ledger, sizeof ledger, "%s", where);
    int out = open(ledger, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (out < 0)
        return -1;
    char end[1100];
    snprintf(end, sizeof end, "%s.end", ledger);
    for (; access(end, F_OK) != 0; pause_ms(10)) {
        step++;
        sum = word_at(step) ^ sum * 31;
        char text[STATE_BYTES];
        int length = snprintf(text, sizeof text, "%llu %016llx %d\n", (unsigned long long)step, (unsigned long long)sum,
                              (int)getpid());
        if (write(out, text, (size_t)length) != length)
            return -1;
        answer(ledger);
    }
    return 0;
}

static int note(const char *ledger, const char *suffix, const char *text)
{
    char name[1100];
    snprintf(name, sizeof name, "%s%s", ledger, suffix);
    int out = open(name, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (out < 0)
        return -1;
    ssize_t n = write(out, text, strlen(text));
    close(out);
    return n == (ssize_t)strlen(text) ? 0 : -1;
}

static int save_state(const char *ledger)
{
    char state[STATE_BYTES] = "0 1\n";
    char text[STATE_BYTES];
    FILE *in = fopen(ledger, "re");
    while (in != NULL && fgets(text, sizeof text, in) != NULL)
        memcpy(state, text, sizeof state);
    if (in != NULL)
        fclose(in);
    if (note(ledger, ".saved", state) != 0)
        return -1;
    return write(current, state, sizeof state) == sizeof state ? 0 : -1;
}

static int load_state(const char *ledger)
{
    char state[STATE_BYTES];
    if (read(current, state, sizeof state) != sizeof state)
        return -1;
    unsigned long long saved_step;
    unsigned long long saved_sum;
    if (sscanf(state, "%llu %llx", &saved_step, &saved_sum) != 2)
        wrong("what was saved", 0, 2);
    step = saved_step;
    sum = saved_sum;
    snprintf(loaded, sizeof loaded, "%s", ledger);
    return 0;
}

static int spawn_stopped(bool quietly)
{
    pid_t child = fork();
    if (child < 0)
        return -1;
    if (child == 0) {
        setsid();
        if (chdir("/") != 0)
            _exit(1);
        /* A kernel before Linux 5.9 has no such call. */
        bool closed = syscall(SYS_close_range, 0U, ~0U, 0U) == 0;
        for (int fd = 0; !closed && fd < MAX_OPEN + 8; fd++)
            close(fd);
        raise(SIGSTOP);
        if (loaded[0] != 0)
            _exit(compute(loaded) == 0 ? 0 : 1);
        while (true)
            pause();
    }
    int status;
    if (waitpid(child, &status, WUNTRACED) != child || !WIFSTOPPED(status))
        return -1;
    char text[STATE_BYTES];
    snprintf(text, sizeof text, "%d\n", (int)child);
    if (loaded[0] != 0 && note(loaded, ".copies", text) != 0)
        return -1;
    if (quietly)
        return 0;
    FILE *out = fopen(pidfile, "w");
    if (out == NULL)
        return -1;
    fprintf(out, "%d\n", child);
    return fclose(out);
}

static uint64_t number(char **words, int count, int at, uint64_t otherwise)
{
    if (at >= count)
        return otherwise;
    char *end;
    uint64_t value = strtoull(words[at], &end, 0);
    switch (*end) {
    case 'k': return value << 10;
    case 'm': return value << 20;
    case 'g': return value << 30;
    default: return value;
    }
}

static int run_also(const char *name)
{
    FILE *script = fopen(name, "re");
    if (script == NULL)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        within = false;
        run_script(script);
        _exit(0);
    }
    fclose(script);
    return child < 0 ? -1 : 0;
}

static int join_all(void)
{
    int status;
    while (wait(&status) > 0)
        if (status != 0)
            wrong("the status of another process", status, 0);
    return errno == ECHILD ? 0 : -1;
}

static int64_t now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static int call(char **w, int n)
{
    const char *op = w[0];
#define IS(name) (strcmp(op, name) == 0)
#define NUM(at, otherwise) number(w, n, at, otherwise)
    if (IS("least")) {
        int64_t start = now_ms();
        int result = call(w + 2, n - 2);
        int64_t lasted = now_ms() - start;
        if (result == 0 && lasted < (int64_t)NUM(1, 0))
            wrong("how long it lasted", lasted, (long long)NUM(1, 0));
        return result;
    }
    if (IS("once") || IS("again")) {
        int mark = open(w[1], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (mark < 0 && errno != EEXIST)
            return -1;
        bool made = mark >= 0;
        if (made)
            close(mark);
        return made == IS("once") ? call(w + 2, n - 2) : 0;
    }
    if (IS("list")) return list_names(w[1]);
    if (IS("forkexit")) return fork_and_exit();
    if (IS("also")) return run_also(w[1]);
    if (IS("join")) return join_all();
    if (IS("exists")) return access(w[1], F_OK);
    if (IS("fsize")) {
        struct stat status;
        if (fstat(current, &status) != 0)
            return -1;
        if ((uint64_t)status.st_size != NUM(1, 0))
            wrong("the size", status.st_size, (long long)NUM(1, 0));
        return 0;
    }
    if (IS("seed")) { seed = NUM(1, 1); return 0; }
    if (IS("open")) return open_file(w[1], w[2]);
    if (IS("write")) return write_blocks((uint64_t)lseek(current, 0, SEEK_CUR), NUM(1, 0), NUM(2, DEFAULT_BLOCK), false);
    if (IS("append")) return append_blocks(NUM(1, 0), NUM(2, DEFAULT_BLOCK));
    if (IS("pwrite")) return write_blocks(NUM(1, 0), NUM(2, 0), NUM(3, DEFAULT_BLOCK), true);
    if (IS("descend")) return write_order(NUM(1, 0), NUM(2, 0), NUM(3, DEFAULT_BLOCK), -1);
    if (IS("scatter")) return write_order(NUM(1, 0), NUM(2, 0), NUM(3, DEFAULT_BLOCK), (long long)NUM(4, 1));
    if (IS("splice")) return splice_blocks(NUM(1, 0), NUM(2, DEFAULT_BLOCK));
    if (IS("read")) return read_blocks(NUM(1, 0), NUM(2, DEFAULT_BLOCK), DUE);
    if (IS("skim")) return read_blocks(NUM(1, 0), NUM(2, DEFAULT_BLOCK), ANY);
    if (IS("blank")) return read_blocks(NUM(1, 0), NUM(2, DEFAULT_BLOCK), ZEROS);
    if (IS("pread")) return read_at(NUM(1, 0), NUM(2, 0), false);
    if (IS("zeros")) return read_at(NUM(1, 0), NUM(2, 0), true);
    if (IS("eof")) {
        char byte;
        ssize_t got = read(current, &byte, 1);
        if (got > 0)
            wrong("what read gave at the end", got, 0);
        return (int)got;
    }
    if (IS("seek")) return lseek(current, (off_t)NUM(1, 0), SEEK_SET) < 0 ? -1 : 0;
    if (IS("truncate")) return ftruncate(current, (off_t)NUM(1, 0));
    if (IS("fsync")) return fsync(current);
    if (IS("close")) return close(current);
    if (IS("use")) { current = files[NUM(1, 0)]; return 0; }
    if (IS("size")) {
        struct stat status;
        if (stat(w[1], &status) != 0)
            return -1;
        if ((uint64_t)status.st_size != NUM(2, 0))
            wrong("the size", status.st_size, (long long)NUM(2, 0));
        return 0;
    }
    if (IS("rename")) return rename(w[1], w[2]);
    if (IS("symlink")) return symlink(w[1], w[2]);
    if (IS("chmod")) return chmod(w[2], (mode_t)strtol(w[1], NULL, 8));
    if (IS("mkdir")) return mkdir(w[1], 0700);
    if (IS("rmdir")) return rmdir(w[1]);
    if (IS("unlink")) return unlink(w[1]);
    if (IS("punch")) return fallocate(current, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)NUM(1, 0), (off_t)NUM(2, 0));
    if (IS("touch")) { int made = open(w[1], O_WRONLY | O_CREAT, 0666); return made < 0 ? -1 : close(made); }
    if (IS("await")) {
        while (access(w[1], F_OK) != 0)
            pause_ms(2);
        return 0;
    }
    if (IS("pause")) { pause_ms((long)NUM(1, 0)); return 0; }
    if (IS("work")) {
        struct timespec now, end;
        clock_gettime(CLOCK_MONOTONIC, &end);
        end.tv_sec += (time_t)(NUM(1, 0) / 1000);
        do
            clock_gettime(CLOCK_MONOTONIC, &now);
        while (now.tv_sec < end.tv_sec || (now.tv_sec == end.tv_sec && now.tv_nsec < end.tv_nsec));
        return 0;
    }
    if (IS("die")) { raise(SIGKILL); return 0; }
    if (IS("stop")) return stop_process();
    if (IS("spawn")) return spawn_stopped(n > 1);
    if (IS("compute")) return compute(w[1]);
    if (IS("ask")) return ask(w[1], w[2]);
    if (IS("save")) return save_state(w[1]);
    if (IS("load")) return load_state(w[1]);
    fprintf(stderr, "image-replay: line %d: no such call: %s\n", line_number, op);
    end_badly();
}

static void run_script(FILE *script)
{
    line_number = 0;
    char line[4096];
    char shown[4096];
    while (fgets(line, sizeof line, script) != NULL) {
        line_number++;
        line[strcspn(line, "#\n")] = 0;
        memcpy(shown, line, sizeof shown);
        line_text = shown;
        char *words[16];
        int count = 0;
        for (char *word = strtok(line, " "); word != NULL && count < 15; word = strtok(NULL, " "))
            words[count++] = word;
        words[count] = NULL;
        if (count == 0)
            continue;
        bool must_fail = strcmp(words[0], "fails") == 0;
        int skipped = must_fail ? 2 : 0;
        int result = call(words + skipped, count - skipped);
        if (must_fail && (result == 0 || errno != atoi(words[1])))
            wrong("the error number", result == 0 ? 0 : errno, atoi(words[1]));
        if (!must_fail && result != 0)
            die_saying("fails");
    }
}

int main(int argc, char **argv)
{
    const char *directory = NULL;
    int at = 1;
    for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
        if (strcmp(argv[at], "--dir") == 0) directory = argv[at + 1];
        else if (strcmp(argv[at], "--pid") == 0) pid = atol(argv[at + 1]);
        else if (strcmp(argv[at], "--pidfile") == 0) pidfile = argv[at + 1];
        else { fprintf(stderr, "image-replay: unknown option %s\n", argv[at]); return 2; }
    }
    FILE *script = at < argc ? fopen(argv[at], "re") : NULL;
    if (script == NULL) {
        fprintf(stderr, "image-replay: no script\n");
        return 2;
    }
    if (directory != NULL && chdir(directory) != 0) {
        perror(directory);
        return 1;
    }
    struct rlimit open_files;
    if (getrlimit(RLIMIT_NOFILE, &open_files) == 0) {
        open_files.rlim_cur = open_files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &open_files);
    }
    run_script(script);
    return 0;
}
