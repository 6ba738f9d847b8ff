/* A keep-alive HTTP/1.1 load generator: N connections, one request each at a time, every answer checked (status
 * 200, the expected texts, no isError, and the id when the request has a running one). Answers are JSON with a
 * length, chunked, or an event stream that ends. Prints one JSON line.
 *
 * httpload [-n CALLS] [-a TEXT] [-m SAMPLES] [-h MS] [-p] HOST PORT CONNECTIONS SECONDS REQUEST_FILE EXPECTED_TEXT [PIDS]
 *   -n   stop after this many requests (SECONDS is then the bound)
 *   -a   another text that every answer holds (a progress note)
 *   -m   so many samples of the server's memory over the calls (needs -n)
 *   -h   a sample of its memory after so many milliseconds of load: while the calls are held
 *   -p   the generator on the first processor
 * REQUEST_FILE: every text 0000000 in the body is replaced by a running seven-digit id. */
#include "common.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define MAX_IDS 64

typedef struct {
    int fd;
    char *request; /* the common one when it has no running id */
    char *buf;
    size_t n, cap, sent;
    long id; /* the last of its request */
    double started;
} conn;

static char *request;
static size_t request_n, ids[MAX_IDS];
static int n_ids, epfd;
static const char *expected, *also = "";
static long done, wrong, broken, fired, calls, next_id = FIRST_ID;

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void push(conn *c) {
    while (c->sent < request_n) {
        ssize_t w = send(c->fd, c->request + c->sent, request_n - c->sent, MSG_DONTWAIT | MSG_NOSIGNAL);
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
    if (calls && fired == calls) return;
    fired++;
    for (int i = 0; i < n_ids; i++) {
        c->id = next_id;
        write_id(c->request + ids[i], next_id);
        next_id = after_id(next_id);
    }
    c->n = c->sent = 0;
    c->started = now(CLOCK_MONOTONIC);
    ssize_t w = send(c->fd, c->request, request_n, MSG_DONTWAIT | MSG_NOSIGNAL);
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

static int has_id(conn *c) {
    char digits[16];
    snprintf(digits, sizeof digits, "%ld", c->id);
    return memmem(c->buf, c->n, digits, 7) != NULL;
}

static int right(conn *c) {
    size_t top = c->n > 1200 ? 1200 : c->n;
    return !memcmp(c->buf, "HTTP/1.1 200", 12) && memmem(c->buf, c->n, expected, strlen(expected)) &&
           (!*also || memmem(c->buf, c->n, also, strlen(also))) && (!n_ids || has_id(c)) &&
           !memmem(c->buf, top, "\"isError\":true", 14) && !memmem(c->buf, top, "\"isError\": true", 15);
}

int main(int argc, char **argv) {
    long samples = 0, held_ms = 0;
    int option, pinned = 0;
    while ((option = getopt(argc, argv, "+n:a:m:h:p")) != -1) {
        if (option == 'n') calls = atol(optarg);
        if (option == 'a') also = optarg;
        if (option == 'm') samples = atol(optarg);
        if (option == 'h') held_ms = atol(optarg);
        if (option == 'p') pinned = 1;
    }
    argv += optind - 1, argc -= optind - 1;
    if (argc < 7) {
        fprintf(stderr, "usage: httpload [-n CALLS] [-a TEXT] [-m SAMPLES] [-h MS] [-p] HOST PORT CONNECTIONS SECONDS REQUEST_FILE EXPECTED_TEXT [PIDS]\n");
        return 2;
    }
    int connections = atoi(argv[3]);
    double seconds = atof(argv[4]);
    expected = argv[6];
    if (argc > 7) read_pids(argv[7]);
    request = slurp(argv[5], &request_n);
    char *body = memmem(request, request_n, "\r\n\r\n", 4);
    for (char *p = body; p && n_ids < MAX_IDS && (p = memmem(p, request_n - (size_t)(p - request), "0000000", 7)); p += 7)
        ids[n_ids++] = (size_t)(p - request);
    epfd = epoll_create1(0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
    inet_pton(AF_INET, argv[1], &to.sin_addr);
    conn *all = calloc((size_t)connections, sizeof(conn));
    if (pinned) pin(0);
    if (samples || held_ms) sample_memory(0);
    for (int i = 0; i < connections; i++) {
        conn *c = &all[i];
        int one = 1;
        c->fd = socket(AF_INET, SOCK_STREAM, 0);
        if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to)) die("connect");
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        c->cap = 16384;
        c->buf = malloc(c->cap);
        c->request = request;
        if (n_ids) {
            c->request = malloc(request_n);
            memcpy(c->request, request, request_n);
        }
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(epfd, EPOLL_CTL_ADD, c->fd, &ev);
    }
    if (held_ms) usleep(300000), sample_memory(0); /* with its connections, before any call */
    double cpu0 = server_cpu(), start = now(CLOCK_MONOTONIC), stop = start + seconds, t = start;
    long sample_every = samples ? calls / samples : 0;
    int held = 0;
    for (int i = 0; i < connections; i++) fire(&all[i]);
    struct epoll_event evs[256];
    while (t < stop && !(calls && done == calls) && wrong < 100 && broken < connections) {
        int n = epoll_wait(epfd, evs, 256, held_ms && !held ? 20 : 200);
        t = now(CLOCK_MONOTONIC);
        if (held_ms && !held && t - start >= held_ms / 1e3) {
            held = 1;
            sample_memory(fired - done);
        }
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
            if (total < 0 || !right(c)) {
                if (!wrong++) fprintf(stderr, "wrong answer: %.*s\n", (int)(c->n > 600 ? 600 : c->n), c->buf);
            }
            done++;
            record_latency(now(CLOCK_MONOTONIC) - c->started);
            if (sample_every && done % sample_every == 0) sample_memory(done);
            fire(c);
        }
    }
    double used = server_cpu() - cpu0;
    if (held_ms) sample_memory(done);
    print_report(done, wrong, broken, t - start, used);
    printf("}\n");
    return done && !wrong && !broken && (!calls || done == calls || samples) ? 0 : 1;
}
