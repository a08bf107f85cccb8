/* Times each call of an operation by itself, for lab/run profile, which explains the figures.
 *
 *     profile OPERATION CALLS CURVE INPUTS
 *
 * lab/joules/README.md has the protocol. The messages have 1 kB, with their signatures if they are
 * needed. SIGINT ends it early, after a call.   SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE = 1024, SIGNATURE = 80, MOST_CALLS = 2000000, MOST_INPUTS = 1 << 16 };
#define SECOND 1000000000U /* ns */

typedef struct {
    uint8_t message[MESSAGE];
    uint8_t signature[SIGNATURE]; /* DER; 72 bytes at most for a curve of 256 bits */
    size_t signed_bytes;
} input;

static volatile sig_atomic_t stopped;
static EVP_PKEY *pair;
static struct sockaddr_in receiver = {.sin_family = AF_INET};

static void stop(int number)
{
    (void)number;
    stopped = 1;
}

static void need(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "profile: %s failed\n", what);
        exit(1);
    }
}

static uint64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

static void sha256(input *from)
{
    uint8_t digest[32];
    need(EVP_Digest(from->message, MESSAGE, digest, NULL, EVP_sha256(), NULL) == 1, "to hash");
}

static void sign(input *from)
{
    EVP_MD_CTX *const context = EVP_MD_CTX_new();
    from->signed_bytes = SIGNATURE;
    need(context != NULL && EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, pair) == 1 &&
             EVP_DigestSign(context, from->signature, &from->signed_bytes, from->message,
                            MESSAGE) == 1,
         "to sign");
    EVP_MD_CTX_free(context);
}

static void verify(input *from)
{
    EVP_MD_CTX *const context = EVP_MD_CTX_new();
    need(context != NULL && EVP_DigestVerifyInit(context, NULL, EVP_sha256(), NULL, pair) == 1 &&
             EVP_DigestVerify(context, from->signature, from->signed_bytes, from->message,
                              MESSAGE) == 1,
         "to verify");
    EVP_MD_CTX_free(context);
}

/* A connection of its own: it ends when the receiver, which has all of the message, has closed. It
 * closes first, as who does so keeps the port for a minute, and a million calls need more. */
static void tcp_send(input *from)
{
    uint8_t rest;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    need(fd >= 0, "to make a socket");
    need(connect(fd, (const struct sockaddr *)&receiver, sizeof receiver) == 0, "to connect");
    need(send(fd, from->message, MESSAGE, MSG_NOSIGNAL) == MESSAGE, "to send");
    need(recv(fd, &rest, 1, 0) == 0, "to be received");
    close(fd);
}

/* Ends with its parent, at the latest when that does. */
static void receive(int listener)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN);
    for (;;) {
        uint8_t message[MESSAGE];
        const int fd = accept(listener, NULL, NULL);
        need(fd >= 0, "to accept");
        recv(fd, message, sizeof message, MSG_WAITALL);
        close(fd);
    }
}

static void start_receiver(void)
{
    socklen_t length = sizeof receiver;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    receiver.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    need(bind(listener, (const struct sockaddr *)&receiver, sizeof receiver) == 0, "to bind");
    need(listen(listener, 16) == 0, "to listen");
    need(getsockname(listener, (struct sockaddr *)&receiver, &length) == 0, "to know the port");
    const pid_t child = fork();
    need(child >= 0, "to fork");
    if (child == 0)
        receive(listener);
    close(listener);
}

static const struct {
    const char *name;
    void (*call)(input *);
    bool keyed, with_signature, sent;
} operations[] = {
    {"sha256", sha256, false, false, false},
    {"ecdsa-sign", sign, true, false, false},
    {"ecdsa-verify", verify, true, true, false},
    {"tcp-send", tcp_send, false, false, true},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

int main(int argc, char **argv)
{
    need(argc == 5, "to read the arguments");
    const size_t wanted = (size_t)strtoull(argv[2], NULL, 10);
    const size_t inputs = (size_t)strtoull(argv[4], NULL, 10);
    need(wanted > 0 && wanted <= MOST_CALLS && inputs > 0 && inputs <= MOST_INPUTS,
         "to believe the counts");
    size_t which = 0;
    while (which < OPERATIONS && strcmp(operations[which].name, argv[1]) != 0)
        which++;
    need(which < OPERATIONS, "to know the operation");

    /* All memory is had and touched before the first call. */
    input *const all = calloc(inputs, sizeof *all);
    uint64_t *const times = malloc(wanted * sizeof *times);
    need(all != NULL && times != NULL, "to get memory");
    memset(times, 0xFF, wanted * sizeof *times);
    if (operations[which].keyed)
        need((pair = EVP_PKEY_Q_keygen(NULL, NULL, "EC", argv[3])) != NULL, "to make keys");
    for (size_t i = 0; i < inputs; i++) {
        need(RAND_bytes(all[i].message, MESSAGE) == 1, "to make a message");
        if (operations[which].with_signature)
            sign(&all[i]);
    }
    if (operations[which].sent)
        start_receiver();
    operations[which].call(&all[0]); /* the first use of a library sets it up */

    signal(SIGINT, stop);
    puts("ready");
    fflush(stdout);
    (void)getchar();
    size_t calls = 0;
    const uint64_t begun = nanoseconds();
    uint64_t end = begun;
    while (calls < wanted && !stopped) {
        const uint64_t start = nanoseconds();
        operations[which].call(&all[calls % inputs]);
        end = nanoseconds();
        times[calls++] = end - start;
    }
    printf("over %llu\n", (unsigned long long)(end - begun));
    fflush(stdout);
    (void)getchar(); /* the meter is read before the times are written */
    for (size_t i = 0; i < calls; i++)
        printf("%llu\n", (unsigned long long)times[i]);
    return 0;
}
