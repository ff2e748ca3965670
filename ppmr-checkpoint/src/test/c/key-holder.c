/* key-holder: a service whose session keyring has a secret, and a job that searches for it.
 *
 *   key-holder hold COMMAND [ARGUMENT...]   runs the command with a session keyring that has a key
 *   key-holder look                         prints the key's secret, or "none"
 *
 * Exit status: 0; 2 if keys are unavailable. */
#define _GNU_SOURCE
#include <linux/keyctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char NAME[] = "ppmr-test-secret";

static int look(void)
{
    char secret[64];
    long key = syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", NAME, 0);
    long length = key < 0 ? -1 : syscall(SYS_keyctl, KEYCTL_READ, key, secret, sizeof secret);
    if (length < 0)
        puts("none");
    else
        printf("%.*s\n", (int)length, secret);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "look") == 0)
        return look();
    if (argc < 3 || strcmp(argv[1], "hold") != 0) {
        fprintf(stderr, "usage: key-holder hold COMMAND [ARGUMENT...] | look\n");
        return 2;
    }
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0
        || syscall(SYS_add_key, "user", NAME, "hidden", 6, KEY_SPEC_SESSION_KEYRING) < 0) {
        perror("key-holder: keys cannot be had");
        return 2;
    }
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    return 2;
}
