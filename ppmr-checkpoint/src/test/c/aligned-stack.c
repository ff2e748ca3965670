/* aligned-stack MIB: waits for ever with that much private memory and its stack pointer at the first byte of a page.
 * CRIU (to 4.2) then considers all of its memory a stack. For x86-64. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    size_t bytes = (size_t)(argc > 1 ? atol(argv[1]) : 1) << 20;
    char *memory = malloc(bytes);
    if (!memory)
        return 1;
    memset(memory, 7, bytes);
    puts("waits");
    fflush(stdout);
    for (;;) {
#ifdef __x86_64__
        __asm__ volatile("mov %%rsp, %%r12\n\tand $-4096, %%rsp\n\tmov %0, %%eax\n\tsyscall\n\tmov %%r12, %%rsp"
                         :
                         : "i"(SYS_pause)
                         : "rax", "rcx", "r11", "r12", "memory");
#else
        syscall(SYS_pause);
#endif
    }
}
