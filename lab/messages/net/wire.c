/* Sends messages and takes their answers, over UDP, TCP or TLS 1.3: what lab-wire counts.
 *
 *     wire server udp|tcp|tls ADDRESS PORT [CERTIFICATE KEY]
 *     wire client udp|tcp|tls ADDRESS PORT COUNT [CERTIFICATE GROUP]
 *
 * Over UDP a message is a heartbeat, which nobody answers. Over the others it is 1,024 bytes, which
 * are answered with one. A client that sends no message does not connect either. The server serves
 * one client, and ends. With WIRE_TIME in its environment a client prints how many µs there were
 * from before it connected to its last answer.   SPDX-License-Identifier: MIT
 */
#define OPENSSL_SUPPRESS_DEPRECATED /* RAND_set_rand_method: nothing newer is as short */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dumpulse.h"

enum { MESSAGE = 1024, ANSWER = 1 };

static void need(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "wire: %s failed\n", what);
        exit(1);
    }
}

/* The same random numbers each time, so that the instructions can be compared. */
static int not_random(unsigned char *bytes, int count)
{
    static uint32_t state = 0x9E3779B9U;
    for (int i = 0; i < count; i++) {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        bytes[i] = (unsigned char)(state >> 24);
    }
    return 1;
}

static int seeded(void)
{
    return 1;
}

static const RAND_METHOD repeatable = {
    .bytes = not_random, .pseudorand = not_random, .status = seeded};

/* A connection: plain where there is no ssl. */
typedef struct {
    int fd;
    SSL *ssl;
} channel;

static void put(channel *to, const uint8_t *bytes, int length)
{
    const int sent = to->ssl != NULL ? SSL_write(to->ssl, bytes, length)
                                     : (int)send(to->fd, bytes, (size_t)length, 0);
    need(sent == length, "to send");
}

/* False at the end of the connection. */
static bool take(channel *from, uint8_t *bytes, int length)
{
    for (int have = 0; have < length;) {
        const int got = from->ssl != NULL
                            ? SSL_read(from->ssl, bytes + have, length - have)
                            : (int)recv(from->fd, bytes + have, (size_t)(length - have), 0);
        if (got <= 0)
            return false;
        have += got;
    }
    return true;
}

static SSL_CTX *context(bool server, const char *certificate, const char *key_or_group)
{
    need(RAND_set_rand_method(&repeatable) == 1, "to set the random numbers");
    SSL_CTX *const made = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());
    need(made != NULL && SSL_CTX_set_min_proto_version(made, TLS1_3_VERSION), "TLS 1.3");
    if (server) {
        need(SSL_CTX_use_certificate_file(made, certificate, SSL_FILETYPE_PEM) == 1,
             "the certificate");
        need(SSL_CTX_use_PrivateKey_file(made, key_or_group, SSL_FILETYPE_PEM) == 1, "the key");
    } else {
        need(SSL_CTX_load_verify_locations(made, certificate, NULL) == 1, "the certificate");
        need(SSL_CTX_set1_groups_list(made, key_or_group) == 1, "the group");
        SSL_CTX_set_verify(made, SSL_VERIFY_PEER, NULL);
    }
    return made;
}

static void handshake(channel *with, SSL_CTX *tls, int (*shake)(SSL *))
{
    const int on = 1;
    setsockopt(with->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (tls != NULL) {
        with->ssl = SSL_new(tls);
        need(with->ssl != NULL && SSL_set_fd(with->ssl, with->fd) && shake(with->ssl) == 1,
             "the handshake");
    }
}

static void serve(int fd, SSL_CTX *tls)
{
    channel client = {.fd = accept(fd, NULL, NULL)};
    need(client.fd >= 0, "to accept");
    handshake(&client, tls, SSL_accept);
    for (uint8_t message[MESSAGE]; take(&client, message, MESSAGE);)
        put(&client, message, ANSWER);
    if (tls != NULL)
        SSL_shutdown(client.ssl);
    close(client.fd);
}

static void ask(int fd, SSL_CTX *tls, int count)
{
    channel server = {.fd = fd};
    handshake(&server, tls, SSL_connect);
    uint8_t message[MESSAGE] = {0}, answer[ANSWER];
    while (count-- > 0) {
        put(&server, message, MESSAGE);
        need(take(&server, answer, ANSWER), "the answer");
    }
}

/* Until the server has closed its side, too: then all packets have been there. */
static void part(int fd)
{
    uint8_t rest[MESSAGE];
    shutdown(fd, SHUT_WR);
    while (recv(fd, rest, sizeof rest, 0) > 0)
        ;
}

static void send_heartbeats(int fd, int count)
{
    while (count-- > 0) {
        uint8_t packet[DUMPULSE_PACKET_SIZE];
        dumpulse_make_heartbeat(packet, 3, 76, 9);
        need(send(fd, packet, sizeof packet, 0) == sizeof packet, "to send");
    }
}

int main(int argc, char **argv)
{
    need(argc >= 5, "to read the arguments");
    const bool server = strcmp(argv[1], "server") == 0, udp = strcmp(argv[2], "udp") == 0;
    const int count = server ? 0 : atoi(argv[5]);
    char **const files = argv + (server ? 5 : 6);
    SSL_CTX *const tls = strcmp(argv[2], "tls") == 0 ? context(server, files[0], files[1]) : NULL;
    if (!server && count == 0)
        return 0;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(argv[4]))};
    need(inet_pton(AF_INET, argv[3], &address.sin_addr) == 1, "the address");
    const int fd = socket(AF_INET, udp ? SOCK_DGRAM : SOCK_STREAM, 0), on = 1;
    const struct sockaddr *const at = (const struct sockaddr *)&address;
    if (server) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        need(bind(fd, at, sizeof address) == 0, "to bind");
        need(udp || listen(fd, 1) == 0, "to listen");
        puts("ready");
        fflush(stdout);
        if (udp)
            pause();
        serve(fd, tls);
        return 0;
    }
    need(connect(fd, at, sizeof address) == 0, "to connect");
    if (udp)
        send_heartbeats(fd, count);
    else
        ask(fd, tls, count);
    if (!udp)
        part(fd);
    close(fd);
    return 0;
}
