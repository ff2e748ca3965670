/* bits32-job: a 32-bit process without a C library. It writes a dot to descriptor 3 every 50 ms, and ends by itself
 * after 10 minutes. */
enum { EXIT = 1, WRITE = 4, NANOSLEEP = 162, TURNS = 12000, TURN_NS = 50000000 };

static int call(int number, int first, int second, int third)
{
    int result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(first), "c"(second), "d"(third) : "memory");
    return result;
}

void _start(void)
{
    int rest[2] = {0, TURN_NS};
    for (int turn = 0; turn < TURNS; turn++) {
        if (call(WRITE, 3, (int)(long)".", 1) != 1)
            call(EXIT, 1, 0, 0);
        call(NANOSLEEP, (int)(long)rest, 0, 0);
    }
    call(EXIT, 0, 0, 0);
}
