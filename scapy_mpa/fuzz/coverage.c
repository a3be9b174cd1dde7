/*
 * Counts what a peer executes, in a file that the fuzzer reads: link this to a peer that is built with SanitizerCoverage.
 *
 *     clang -fsanitize-coverage=trace-pc-guard -c peer.c      (or: gcc -fsanitize-coverage=trace-pc -c peer.c)
 *     cc -c coverage.c                                        (without that option: it would count itself)
 *     cc peer.o coverage.o -o peer
 *     SCAPY_MPA_COVERAGE=FILE ./peer
 *
 * Without SCAPY_MPA_COVERAGE the peer runs as ever. Processes that it forks count in the same file.
 */

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNTERS 65536 /* as in coverage.py */

static uint8_t unread[COUNTERS];
static uint8_t *counters = unread;

/* Before all constructors of the peer. */
__attribute__((constructor(101))) static void map_counters(void)
{
    const char *name = getenv("SCAPY_MPA_COVERAGE");
    int file = name ? open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;

    if (file < 0)
        return;
    if (ftruncate(file, COUNTERS) == 0) {
        void *mapped = mmap(NULL, COUNTERS, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (mapped != MAP_FAILED)
            counters = mapped;
    }
    close(file);
}

static void count(uintptr_t place)
{
    uint8_t *counter = &counters[place % COUNTERS];

    if (*counter < UINT8_MAX)
        ++*counter;
}

/* clang: each edge has a guard, which is given a number. */
void __sanitizer_cov_trace_pc_guard_init(uint32_t *start, uint32_t *stop)
{
    static uint32_t number;

    if (start != stop && *start == 0)
        while (start < stop)
            *start++ = ++number;
}

void __sanitizer_cov_trace_pc_guard(uint32_t *guard)
{
    count(*guard);
}

/* GCC: a basic block is known by its address, which counts from here, wherever the program was loaded. */
void __sanitizer_cov_trace_pc(void)
{
    count((uintptr_t)__builtin_return_address(0) - (uintptr_t)unread);
}
