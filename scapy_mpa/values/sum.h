/* The sum of the 16-bit numbers in octets modulo 65535, a zero behind an odd one (RFC 1071): four octets at a time. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The sum of numbers of 32 bits, as the processor reads them: modulo 65535 their order does not matter. */
static inline uint64_t mpa_add(const uint8_t *p, size_t n)
{
    uint64_t sum = 0;
    uint32_t four;
    uint8_t rest[4] = {0, 0, 0, 0};
    size_t last = n & ~(size_t)3;
    for (size_t at = 0; at < last; at += 4) {
        memcpy(&four, p + at, 4);
        sum += four;
    }
    for (size_t at = last; at < n; at++)
        rest[at - last] = p[at];
    memcpy(&four, rest, 4);
    return sum + four;
}

/* Others vectorize by themselves, or cannot choose by the processor that they run on. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
__attribute__((optimize("O3"), target_clones("avx2", "default")))
#endif
static uint64_t mpa_add_many(const uint8_t *p, size_t n)
{
    return mpa_add(p, n);
}

/* What the processor reads with the octets of each number exchanged is this many times as much, modulo 65535. */
static inline uint32_t mpa_exchanged(void)
{
    const uint16_t one = 1;
    return *(const uint8_t *)&one ? 256 : 1;
}

/* Of at most 2^32 numbers of 32 bits. */
static inline uint32_t mpa_modulo(uint64_t sum)
{
    return (uint32_t)(sum % 0xFFFF * mpa_exchanged() % 0xFFFF);
}

/* Whether such a sum and another number are 0 together: both are taken as many times. */
static inline int mpa_is_zero_with(uint64_t sum, uint32_t number)
{
    return (sum % 0xFFFF + (uint64_t)number * mpa_exchanged()) % 0xFFFF == 0;
}
