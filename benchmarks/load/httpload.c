/* A keep-alive HTTP/1.1 load generator: N connections, one request each at a time, the same bytes every
 * time, every answer checked (status 200 and a given text in the body). Prints one JSON line.
 *
 * httpload HOST PORT CONNECTIONS SECONDS REQUEST_FILE EXPECTED_TEXT [PID_TO_MEASURE] */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    int fd;
    char *buf;
    size_t n, cap, sent;
    double started;
} conn;

static char *request;
static size_t request_n;
static const char *expected;
static int epfd;
static long done, wrong, broken;
static double *samples;
static long n_samples, max_samples = 2000000;

static double now(clockid_t clock) {
    struct timespec t;
    if (clock_gettime(clock, &t)) return 0;
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void push(conn *c) {
    while (c->sent < request_n) {
        ssize_t w = send(c->fd, request + c->sent, request_n - c->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (w < 0) {
            if (errno == EAGAIN) break;
            broken++;
            return;
        }
        c->sent += (size_t)w;
    }
    struct epoll_event ev = {.events = EPOLLIN | (c->sent < request_n ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(epfd, EPOLL_CTL_MOD, c->fd, &ev);
}

static void fire(conn *c) {
    c->n = c->sent = 0;
    c->started = now(CLOCK_MONOTONIC);
    ssize_t w = send(c->fd, request, request_n, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (w == (ssize_t)request_n) {
        c->sent = request_n;
        return;
    }
    if (w > 0) c->sent = (size_t)w;
    push(c);
}

/* Length of the whole answer once it is all there, 0 before, -1 when it cannot be understood. */
static ssize_t whole(conn *c) {
    char *end = memmem(c->buf, c->n, "\r\n\r\n", 4);
    if (!end) return 0;
    size_t head = (size_t)(end - c->buf) + 4;
    char *p = c->buf;
    while (p < end) {
        char *e = memmem(p, (size_t)(end + 2 - p), "\r\n", 2);
        if (!strncasecmp(p, "content-length:", 15)) {
            size_t total = head + strtoul(p + 15, NULL, 10);
            return c->n >= total ? (ssize_t)total : 0;
        }
        if (!strncasecmp(p, "transfer-encoding:", 18))
            return c->n >= head + 5 && !memcmp(c->buf + c->n - 5, "0\r\n\r\n", 5) ? (ssize_t)c->n : 0;
        p = e + 2;
    }
    return -1;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc < 7) {
        fprintf(stderr, "usage: httpload HOST PORT CONNECTIONS SECONDS REQUEST_FILE EXPECTED_TEXT [PID]\n");
        return 2;
    }
    int connections = atoi(argv[3]);
    double seconds = atof(argv[4]);
    expected = argv[6];
    pid_t pid = argc > 7 ? atoi(argv[7]) : 0;
    FILE *f = fopen(argv[5], "rb");
    if (!f) die(argv[5]);
    fseek(f, 0, SEEK_END);
    request_n = (size_t)ftell(f);
    rewind(f);
    request = malloc(request_n + 1);
    if (fread(request, 1, request_n, f) != request_n) die("read");
    fclose(f);
    samples = malloc(sizeof(double) * (size_t)max_samples);
    epfd = epoll_create1(0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
    inet_pton(AF_INET, argv[1], &to.sin_addr);
    conn *all = calloc((size_t)connections, sizeof(conn));
    for (int i = 0; i < connections; i++) {
        conn *c = &all[i];
        int one = 1;
        c->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(c->fd, (struct sockaddr *)&to, sizeof to)) die("connect");
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        c->cap = 16384;
        c->buf = malloc(c->cap);
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(epfd, EPOLL_CTL_ADD, c->fd, &ev);
    }
    clockid_t cpu = (clockid_t)((~(unsigned)pid) << 3 | 2);
    double cpu0 = pid ? now(cpu) : 0, start = now(CLOCK_MONOTONIC), stop = start + seconds, t = start;
    for (int i = 0; i < connections; i++) fire(&all[i]);
    struct epoll_event evs[256];
    while (t < stop) {
        int n = epoll_wait(epfd, evs, 256, 200);
        t = now(CLOCK_MONOTONIC);
        for (int i = 0; i < n; i++) {
            conn *c = evs[i].data.ptr;
            if (evs[i].events & EPOLLOUT) push(c);
            if (!(evs[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))) continue;
            if (c->n == c->cap) c->buf = realloc(c->buf, c->cap *= 2);
            ssize_t r = recv(c->fd, c->buf + c->n, c->cap - c->n, MSG_DONTWAIT);
            if (r < 0 && errno == EAGAIN) continue;
            if (r <= 0) {
                broken++;
                epoll_ctl(epfd, EPOLL_CTL_DEL, c->fd, NULL);
                continue;
            }
            c->n += (size_t)r;
            ssize_t total = whole(c);
            if (total == 0) continue;
            if (total < 0 || memcmp(c->buf, "HTTP/1.1 200", 12) || !memmem(c->buf, c->n, expected, strlen(expected))) {
                if (!wrong++) fprintf(stderr, "wrong answer: %.*s\n", (int)(c->n > 600 ? 600 : c->n), c->buf);
            }
            done++;
            if (n_samples < max_samples) samples[n_samples++] = now(CLOCK_MONOTONIC) - c->started;
            fire(c);
        }
    }
    double took = t - start, used = pid ? now(cpu) - cpu0 : 0;
    qsort(samples, (size_t)n_samples, sizeof(double), by_value);
    printf("{\"calls\":%ld,\"wrong\":%ld,\"broken\":%ld,\"seconds\":%.4f,\"per_second\":%.1f,\"server_cpu_us\":%.3f,"
           "\"p50_us\":%.1f,\"p99_us\":%.1f}\n",
           done, wrong, broken, took, done / took, done ? used / done * 1e6 : 0,
           n_samples ? samples[n_samples / 2] * 1e6 : 0, n_samples ? samples[n_samples * 99 / 100] * 1e6 : 0);
    return done && !wrong && !broken ? 0 : 1;
}
