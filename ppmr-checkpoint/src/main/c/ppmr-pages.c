/*
 * ppmr-pages: sends the memory pages of held processes through an image directory into their held copies.
 *
 *   ppmr-pages source --images DIR --scratch DIR --root PID --pid PID [--pid PID]... -- CRIU dump ARGUMENT...
 *   ppmr-pages source --images DIR --scratch DIR --root PID --rounds START -- CRIU dump ARGUMENT...
 *   ppmr-pages target --images DIR --work DIR --pids-file FILE
 *                     [--store BYTES [--account FILE] [--behind FILE --namespace own|other]] -- CRIU restore ARGUMENT...
 *   ppmr-pages check-rounds
 *
 * The pages are CRIU's lazy pages. `criu dump --lazy-pages` writes everything else into its images, reports that on its
 * status descriptor, and then waits in its page server. The processes stay in ptrace-stop until then, so that even a
 * SIGCONT leaves them stopped. The source reads the pages from the processes' memory during this wait, and then closes
 * the connection to the page server: CRIU ends as after a transfer. CRIU's exit status proves nothing about the pages.
 *
 * The source writes the lazy pages of all processes into one file, pages.stream, which the target reads while it is
 * written. The page maps define the order: a block of each process in turn, and the root's blocks last. pages.list
 * names the processes with their numbers of pages, the root last. It gets its name by a rename when all other images
 * are whole: the target waits for that name.
 *
 * The target takes the place of `criu lazy-pages`. CRIU's restored processes send their userfaultfd descriptors over
 * lazy-pages.socket, and the target copies each page into its process once (UFFDIO_COPY, ioctl_userfaultfd(2)). A fault
 * on a page that is not there yet waits for its turn. The root's pages must be last: the root registers its memory when
 * all other processes are restored, and they can need their own pages for that. Any other order can wait for ever.
 *
 * A second process, the holder, has all descriptors, too. If this program ends early, the memory stays registered until
 * the copies ended: a copy that is continued then waits for its page, and never runs on zeros.
 *
 * The target succeeds when each lazy page was copied once, CRIU has sent its final word, and the restore ended with 0.
 *
 * With --rounds the processes run, and their memory is sent in rounds before they are held (rounds.h); START is the time
 * at which the root was started. With --store the target keeps these pages until it can fill the copies (store.h). The
 * limit is that of all programs with the same account, a file of the caller's, which the first one makes.
 * check-rounds succeeds if this kernel can do that.
 *
 * With --behind the target succeeds as soon as all pages are in the store and the restore ended. Another process of it
 * continues to fill the copies, which may run by then (filling.h); FILE gets its number and that of the holder. If it is
 * killed before all pages are there, the holder kills all processes of the copies' PID namespace: this program's own, or
 * another one.
 *
 * Images are read here, and what is written into the image directory cannot be read back. So CRIU is led to write the
 * page maps and the memory maps into the scratch directory, by links of their names, and they are copied.
 *
 * The caller has stopped the original's processes (SIGSTOP), so that they stay stopped if CRIU fails.
 *
 * Exit status: 0, or 1 with a message on standard error.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pages/common.h"
#include "pages/source.h"
#include "pages/target.h"
#include "tree-stop.h"
#include "write-tracker.h"

static int usage(void)
{
    fputs("usage: ppmr-pages source --images DIR --scratch DIR --root PID --pid PID... -- DUMP...\n"
          "       ppmr-pages source --images DIR --scratch DIR --root PID --rounds START -- DUMP...\n"
          "       ppmr-pages target --images DIR --work DIR --pids-file FILE [--store BYTES [--account FILE]] -- RESTORE...\n"
          "       ppmr-pages check-rounds\n",
          stderr);
    return 1;
}

static uint64_t number_of(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number == 0) {
        fail("'%s' is no number above 0", text);
    }
    return number;
}

int main(int count, char **words)
{
    const char *images = NULL;
    const char *scratch = NULL;
    const char *work = NULL;
    const char *pids_file = NULL;
    static int pids[MAX_PROCESSES];
    size_t pid_count = 0;
    int root = 0;
    uint64_t root_start = 0;
    uint64_t store_bytes = 0;
    const char *account = NULL;
    const char *fillers = NULL;
    const char *namespace = NULL;
    if (count < 2) {
        return usage();
    }
    mode = words[1];
    /* The helper that this program starts itself. */
    if (strcmp(mode, "stop") == 0 && count == 5) {
        return run_stop(pid_of(words[2]), pid_of(words[3]), number_of(words[4]));
    }
    if (strcmp(mode, "check-rounds") == 0 && count == 2) {
        char why[STOP_REASON_BYTES];
        if (find_tracking(why, sizeof why) == TRACK_NOTHING) {
            fail("%s", why);
        }
        return 0;
    }
    int i = 2;
    for (; i + 1 < count && strcmp(words[i], "--") != 0; i += 2) {
        const char *value = words[i + 1];
        if (strcmp(words[i], "--images") == 0) {
            images = value;
        } else if (strcmp(words[i], "--scratch") == 0) {
            scratch = value;
        } else if (strcmp(words[i], "--work") == 0) {
            work = value;
        } else if (strcmp(words[i], "--pids-file") == 0) {
            pids_file = value;
        } else if (strcmp(words[i], "--root") == 0) {
            root = pid_of(value);
        } else if (strcmp(words[i], "--rounds") == 0) {
            root_start = number_of(value);
        } else if (strcmp(words[i], "--store") == 0) {
            store_bytes = number_of(value);
        } else if (strcmp(words[i], "--account") == 0) {
            account = value;
        } else if (strcmp(words[i], "--behind") == 0) {
            fillers = value;
        } else if (strcmp(words[i], "--namespace") == 0 && (strcmp(value, "own") == 0 || strcmp(value, "other") == 0)) {
            namespace = value;
        } else if (strcmp(words[i], "--pid") == 0 && pid_count < MAX_PROCESSES) {
            pids[pid_count++] = pid_of(value);
        } else {
            return usage();
        }
    }
    if (images == NULL || i + 1 >= count) {
        return usage();
    }
    char **command = &words[i + 1];
    if (strcmp(mode, "source") == 0 && scratch != NULL && root > 0 && (pid_count > 0) != (root_start > 0)) {
        return run_source(images, scratch, root, root_start, pids, pid_count, command);
    }
    if (strcmp(mode, "target") == 0 && work != NULL && pids_file != NULL && (fillers == NULL) == (namespace == NULL)
        && ((fillers == NULL && account == NULL) || store_bytes > 0)) {
        bool apart = namespace != NULL && strcmp(namespace, "other") == 0;
        struct target_orders orders = {images, work, pids_file, fillers, apart, store_bytes, account};
        return run_target(&orders, command);
    }
    return usage();
}
