/*
 * A Responder with two crashes that a connection reaches by three messages in order: a Send with Solicited Event, an RDMA
 * Read Request, Immediate Data. A Send and an RDMA Write change nothing; any other message takes it back to the beginning.
 *
 * Behind them an RDMA Write to an STag that is not 0x1000, and a Terminate, end the process. It answers RDMA Read Requests
 * of nothing, and closes on an FPDU with a wrong CRC or DDP version.
 *
 *     covered_peer PORT [MESSAGES [DEATHS]]    MESSAGES: how many of the three it takes; DEATHS: a file, a line for each
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { STARTUP = 20, KEY = 16, LENGTH = 2, CRC = 4, UNTAGGED = 18, TAGGED = 14 };
enum { WRITE = 0, READ_REQUEST = 1, SEND = 3, SEND_SE = 5, TERMINATE = 7, IMMEDIATE = 8 };

static uint8_t fpdu[1 << 17];
static int needed = 3;
static const char *deaths = "/dev/null";

static void die(const char *cause)
{
    FILE *file = fopen(deaths, "a");

    if (file) {
        fprintf(file, "%s\n", cause);
        fclose(file);
    }
    abort();
}

static uint32_t crc32c(const uint8_t *octets, size_t count)
{
    uint32_t crc = ~0u;

    while (count--) {
        crc ^= *octets++;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static int receive(int peer, uint8_t *octets, size_t count)
{
    while (count) {
        ssize_t came = recv(peer, octets, count, 0);
        if (came <= 0)
            return 0;
        octets += came;
        count -= came;
    }
    return 1;
}

/* An RDMA Read Response of nothing. */
static void answer(int peer, const uint8_t *request)
{
    uint8_t response[LENGTH + TAGGED + CRC] = { 0, TAGGED, 0xc1, 0x42 };
    uint32_t crc;

    memcpy(response + 4, request + UNTAGGED, 12);
    crc = crc32c(response, LENGTH + TAGGED);
    memcpy(response + LENGTH + TAGGED, &crc, CRC);
    send(peer, response, sizeof response, MSG_NOSIGNAL);
}

static int startup(int peer)
{
    uint8_t request[STARTUP], reply[STARTUP] = "MPA ID Rep Frame\x40\x01";
    uint16_t length;

    if (!receive(peer, request, sizeof request) || memcmp(request, "MPA ID Req Frame", KEY))
        return 0;
    length = request[18] << 8 | request[19];
    if (request[17] < 1 || request[17] > 2 || length > 512 || !receive(peer, fpdu, length))
        return 0;
    return send(peer, reply, sizeof reply, MSG_NOSIGNAL) == sizeof reply;
}

static void serve(int peer)
{
    int came = 0;

    if (!startup(peer))
        return;
    while (receive(peer, fpdu, LENGTH)) {
        size_t length = fpdu[0] << 8 | fpdu[1], whole = (LENGTH + length + 3) & ~3u;
        const uint8_t *ulpdu = fpdu + LENGTH;
        uint32_t crc;

        if (!receive(peer, fpdu + LENGTH, whole + CRC - LENGTH))
            return;
        memcpy(&crc, fpdu + whole, CRC);
        if (crc32c(fpdu, whole) != crc || length < TAGGED || (ulpdu[0] & 3) != 1 || ulpdu[1] >> 6 != 1)
            return;
        switch (ulpdu[1] & 15) {
        case WRITE:
            if (came >= needed && memcmp(ulpdu + 2, "\0\0\x10", 4))
                die("write");
            break;
        case SEND:
            break;
        case SEND_SE:
            came = 1;
            break;
        case READ_REQUEST:
            came = came == 1 ? 2 : 0;
            if (length >= UNTAGGED + 28 && !memcmp(ulpdu + UNTAGGED + 12, "\0\0\0\0", 4))
                answer(peer, ulpdu);
            break;
        case IMMEDIATE:
            came = came == 2 ? 3 : 0;
            break;
        case TERMINATE:
            if (came >= needed)
                die("terminate");
            return;
        default:
            came = 0;
        }
    }
}

int main(int count, char **words)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct timeval patience = { .tv_sec = 2 };

    address.sin_port = htons(count > 1 ? atoi(words[1]) : 0);
    if (count > 2)
        needed = atoi(words[2]);
    if (count > 3)
        deaths = words[3];
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 5)) {
        perror("bind");
        return 1;
    }
    for (;;) {
        int peer = accept(listener, NULL, NULL);

        setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
        setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        serve(peer);
        close(peer);
    }
}
