/* The sum of the 16-bit numbers in octets modulo 65535, a zero behind an odd one (RFC 1071): eight octets at a time. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
__attribute__((optimize("O3"))) /* clang vectorizes by itself */
#endif
static uint32_t mpa_sum(const uint8_t *p, size_t n)
{
    uint64_t low = 0, high = 0, eight;
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&eight, p, 8);
        low += eight & 0xFFFFFFFFu;
        high += eight >> 32;
    }
    eight = 0;
    memcpy(&eight, p, n);
    /* Each half is a sum of at most 2^32 numbers of 32 bits, and modulo 65535 their order does not matter. */
    uint64_t sum = low % 0xFFFF + high % 0xFFFF + (eight & 0xFFFFFFFFu) + (eight >> 32);
    const uint16_t one = 1;
    /* What the processor read with the octets of each number exchanged is 256 times as much, modulo 65535. */
    return (uint32_t)(*(const uint8_t *)&one ? sum % 0xFFFF * 256 % 0xFFFF : sum % 0xFFFF);
}
