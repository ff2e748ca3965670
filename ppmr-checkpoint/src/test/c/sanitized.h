/* Included before each program that is built with the sanitizers. They write their findings into files whose names
 * begin with FINDINGS, because most programs run with their own environment and streams. Memory that a program has
 * at its end is no finding, because its end frees all of it. */
#ifndef PPMR_SANITIZED_H
#define PPMR_SANITIZED_H

__attribute__((weak)) const char *__asan_default_options(void);
__attribute__((weak)) const char *__ubsan_default_options(void);

__attribute__((weak)) const char *__asan_default_options(void)
{
    return "detect_leaks=0:log_path=" FINDINGS;
}

__attribute__((weak)) const char *__ubsan_default_options(void)
{
    return "print_stacktrace=1:log_path=" FINDINGS;
}

#endif
