/*
 * Goes in front of each program that is built with the sanitizers: they write what they find into files whose names begin
 * with FINDINGS, since most programs run with an environment and streams of their own. Memory that a program has at its
 * end is no finding: these programs end by giving all of it back.
 */
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
