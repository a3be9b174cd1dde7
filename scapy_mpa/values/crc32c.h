/* CRC32c (RFC 3385): by the processor's instruction where there is one, else eight octets at a time by tables. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The polynomial of RFC 3385, its bits reversed. */
#define MPA_POLYNOMIAL 0x82F63B78u
/* Octets of each of three runs whose CRCs are computed side by side: an instruction takes three cycles. */
#define MPA_RUN 128

static uint32_t mpa_table[8][256];
/* What a CRC becomes behind MPA_RUN octets of zero, by each of its four octets. */
static uint32_t mpa_behind[4][256];

static void mpa_crc32c_begin(void)
{
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t crc = n;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ MPA_POLYNOMIAL : crc >> 1;
        mpa_table[0][n] = crc;
    }
    for (int t = 1; t < 8; t++)
        for (int n = 0; n < 256; n++)
            mpa_table[t][n] = mpa_table[t - 1][n] >> 8 ^ mpa_table[0][mpa_table[t - 1][n] & 0xFF];
    for (int octet = 0; octet < 4; octet++)
        for (uint32_t n = 0; n < 256; n++) {
            uint32_t crc = n << 8 * octet;
            for (int zeros = 0; zeros < MPA_RUN; zeros++)
                crc = crc >> 8 ^ mpa_table[0][crc & 0xFF];
            mpa_behind[octet][n] = crc;
        }
}

static uint32_t mpa_by_tables(uint32_t crc, const uint8_t *p, size_t n)
{
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = mpa_table[7][low & 0xFF] ^ mpa_table[6][low >> 8 & 0xFF] ^ mpa_table[5][low >> 16 & 0xFF]
            ^ mpa_table[4][low >> 24] ^ mpa_table[3][p[4]] ^ mpa_table[2][p[5]] ^ mpa_table[1][p[6]] ^ mpa_table[0][p[7]];
    }
    for (; n; p++, n--)
        crc = crc >> 8 ^ mpa_table[0][(crc ^ *p) & 0xFF];
    return crc;
}

#if defined(__x86_64__)
#define MPA_TARGET __attribute__((target("sse4.2")))
#define MPA_EIGHT(crc, value) __builtin_ia32_crc32di((crc), (value))
#define MPA_ONE(crc, value) __builtin_ia32_crc32qi((uint32_t)(crc), (value))
#define MPA_HAS_INSTRUCTION __builtin_cpu_supports("sse4.2")
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#define MPA_TARGET
#define MPA_EIGHT(crc, value) __crc32cd((uint32_t)(crc), (value))
#define MPA_ONE(crc, value) __crc32cb((uint32_t)(crc), (value))
#define MPA_HAS_INSTRUCTION 1
#endif

#ifdef MPA_HAS_INSTRUCTION
static uint32_t mpa_moved(uint32_t crc)
{
    return mpa_behind[0][crc & 0xFF] ^ mpa_behind[1][crc >> 8 & 0xFF] ^ mpa_behind[2][crc >> 16 & 0xFF]
        ^ mpa_behind[3][crc >> 24];
}

MPA_TARGET static uint32_t mpa_by_instruction(uint32_t begin, const uint8_t *p, size_t n)
{
    uint64_t crc = begin, eight;
    for (; n >= 3 * MPA_RUN; p += 3 * MPA_RUN, n -= 3 * MPA_RUN) {
        uint64_t second = 0, third = 0, a, b;
        for (int at = 0; at < MPA_RUN; at += 8) {
            memcpy(&eight, p + at, 8);
            memcpy(&a, p + at + MPA_RUN, 8);
            memcpy(&b, p + at + 2 * MPA_RUN, 8);
            crc = MPA_EIGHT(crc, eight);
            second = MPA_EIGHT(second, a);
            third = MPA_EIGHT(third, b);
        }
        crc = mpa_moved(mpa_moved((uint32_t)crc) ^ (uint32_t)second) ^ (uint32_t)third;
    }
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&eight, p, 8);
        crc = MPA_EIGHT(crc, eight);
    }
    for (; n; p++, n--)
        crc = MPA_ONE(crc, *p);
    return (uint32_t)crc;
}
#endif

static uint32_t mpa_crc32c(const uint8_t *p, size_t n)
{
#ifdef MPA_HAS_INSTRUCTION
    if (MPA_HAS_INSTRUCTION)
        return mpa_by_instruction(0xFFFFFFFFu, p, n) ^ 0xFFFFFFFFu;
#endif
    return mpa_by_tables(0xFFFFFFFFu, p, n) ^ 0xFFFFFFFFu;
}
