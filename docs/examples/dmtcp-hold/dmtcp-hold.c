/*
 * A plugin of DMTCP 3 that has a process held (SIGSTOP) when its image is written, and its copy when it is restored.
 * DMTCP itself lets both continue at once; ppmr decides first which of them does, and lets that one continue (SIGCONT).
 *
 * It holds only where the file that the variable DMTCP_HOLD names is there at the checkpoint's beginning. Its first line
 * is the directory for the image. So other checkpoints of the same job stay what they were.
 *
 *   gcc -shared -fPIC -o dmtcp-hold.so dmtcp-hold.c
 *   DMTCP_HOLD=/run/solver/hold dmtcp_launch --with-plugin $PWD/dmtcp-hold.so ./solver
 */
#include <dmtcp.h>

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Part of the image: the copy knows by it that it is one which is to be held. */
static int holds;

static void begin(void)
{
    const char *name = getenv("DMTCP_HOLD");
    FILE *file = name == NULL ? NULL : fopen(name, "re");
    char directory[PATH_MAX];

    holds = 0;
    if (file == NULL)
        return;
    if (fgets(directory, sizeof directory, file) != NULL) {
        directory[strcspn(directory, "\n")] = '\0';
        holds = directory[0] == '/';
        if (holds)
            dmtcp_set_ckpt_dir(directory);
    }
    fclose(file);
}

/* On DMTCP's own thread; the job's threads are stopped, and do so until this has returned. */
static void hold(void)
{
    if (!holds)
        return;
    holds = 0;
    kill(getpid(), SIGSTOP);
}

static void on_event(DmtcpEvent_t event, DmtcpEventData_t *data)
{
    (void)data;
    switch (event) {
    case DMTCP_EVENT_PRECHECKPOINT:
        begin();
        break;
    case DMTCP_EVENT_RESUME: /* the original, whose image has its final name by now */
    case DMTCP_EVENT_RESTART: /* the copy */
        hold();
        break;
    default:
        break;
    }
}

static DmtcpPluginDescriptor_t plugin = {
    DMTCP_PLUGIN_API_VERSION, DMTCP_PACKAGE_VERSION, "dmtcp-hold", "ppmr", "", "Holds a process for ppmr", on_event,
};

DMTCP_DECL_PLUGIN(plugin);
