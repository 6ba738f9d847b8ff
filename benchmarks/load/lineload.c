/* A load generator for line servers: starts a command on real pipes, keeps K requests in flight, checks
 * that every answer carries a result. Prints one JSON line with the server's own CPU time.
 *
 * lineload IN_FLIGHT SECONDS PRELUDE_FILE REQUEST_FILE COMMAND...
 * PRELUDE_FILE: lines to send first; those with "id" are answered before the load starts (may be empty).
 * REQUEST_FILE: one line; the text 0000000 in it is replaced by a running seven-digit id. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(clockid_t clock) {
    struct timespec t;
    if (clock_gettime(clock, &t)) return 0;
    return t.tv_sec + t.tv_nsec / 1e9;
}

static char *slurp(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(1);
    }
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *b = malloc(*n + 1);
    if (fread(b, 1, *n, f) != *n) exit(1);
    b[*n] = 0;
    fclose(f);
    return b;
}

int main(int argc, char **argv) {
    if (argc < 6) {
        fprintf(stderr, "usage: lineload IN_FLIGHT SECONDS PRELUDE_FILE REQUEST_FILE COMMAND...\n");
        return 2;
    }
    long in_flight = atol(argv[1]);
    double seconds = atof(argv[2]);
    size_t prelude_n, request_n;
    char *prelude = slurp(argv[3], &prelude_n), *request = slurp(argv[4], &request_n);
    char *digits = strstr(request, "0000000");
    if (!digits) {
        fprintf(stderr, "the request has no 0000000\n");
        return 2;
    }
    size_t at = (size_t)(digits - request);
    int in[2], out[2];
    if (pipe(in) || pipe(out)) return 1;
    double born = now(CLOCK_MONOTONIC);
    pid_t pid = fork();
    if (!pid) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        execvp(argv[5], argv + 5);
        perror(argv[5]);
        _exit(127);
    }
    close(in[0]), close(out[1]);
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    signal(SIGPIPE, SIG_IGN);

    size_t cap = request_n * (size_t)in_flight + prelude_n + 1, pend = 0, pend_at = 0;
    char *w = malloc(cap), *r = malloc(1 << 20);
    size_t r_cap = 1 << 20, r_n = 0;
    memcpy(w, prelude, prelude_n);
    pend = prelude_n;
    long waiting = 0, done = 0, wrong = 0, next = 1000001;
    for (char *p = prelude; (p = strchr(p, '\n')); p++) {
        char *line = p;
        while (line > prelude && line[-1] != '\n') line--;
        if (memmem(line, (size_t)(p - line), "\"id\"", 4)) waiting++;
    }
    int loaded = waiting == 0;
    double first = 0, start = now(CLOCK_MONOTONIC), cpu0 = 0, t = start;
    clockid_t cpu = (clockid_t)((~(unsigned)pid) << 3 | 2);
    int stop = 0;
    if (loaded) cpu0 = now(cpu);
    while (!stop || waiting) {
        if (loaded && !stop) {
            while (waiting < in_flight && pend + request_n <= cap) {
                memcpy(w + pend, request, request_n);
                for (long v = next++, i = 6; i >= 0; i--, v /= 10) w[pend + at + (size_t)i] = (char)('0' + v % 10);
                pend += request_n;
                waiting++;
            }
        }
        struct pollfd fds[2] = {{out[0], POLLIN, 0}, {in[1], pend_at < pend ? POLLOUT : 0, 0}};
        if (pend_at < pend) {
            ssize_t k = write(in[1], w + pend_at, pend - pend_at);
            if (k > 0) pend_at += (size_t)k;
            if (pend_at == pend) pend = pend_at = 0;
            else if (pend_at > cap / 2) memmove(w, w + pend_at, pend - pend_at), pend -= pend_at, pend_at = 0;
            fds[1].events = pend_at < pend ? POLLOUT : 0;
        }
        if (poll(fds, 2, 10000) == 0) {
            fprintf(stderr, "no answer for 10 s\n");
            return 1;
        }
        ssize_t k = read(out[0], r + r_n, r_cap - r_n);
        if (k == 0 || (k < 0 && errno != EAGAIN)) {
            fprintf(stderr, "the server ended\n");
            return 1;
        }
        t = now(CLOCK_MONOTONIC);
        if (k < 0) continue;
        size_t from = r_n;
        r_n += (size_t)k;
        char *line = r, *e;
        while ((e = memchr(from < (size_t)(line - r) ? line : r + from, '\n', (size_t)(r + r_n - (from < (size_t)(line - r) ? line : r + from))))) {
            if (memmem(line, (size_t)(e - line), "\"id\"", 4)) {
                if (!memmem(line, (size_t)(e - line), "\"result\"", 8) || memmem(line, (size_t)(e - line), "\"isError\":true", 14))
                    if (!wrong++) fprintf(stderr, "wrong answer: %.*s\n", (int)(e - line > 600 ? 600 : e - line), line);
                waiting--;
                if (loaded) done++;
            }
            line = e + 1;
            from = (size_t)(line - r);
        }
        r_n -= (size_t)(line - r);
        memmove(r, line, r_n);
        if (r_n == r_cap) r = realloc(r, r_cap *= 2);
        if (!loaded && waiting == 0) {
            loaded = 1;
            first = t - born;
            start = t;
            cpu0 = now(cpu);
        }
        if (loaded && t - start >= seconds) stop = 1;
    }
    double took = t - start, used = now(cpu) - cpu0;
    close(in[1]);
    int status = 0;
    for (int i = 0; i < 300 && waitpid(pid, &status, WNOHANG) == 0; i++) usleep(10000);
    if (waitpid(pid, &status, WNOHANG) == 0) kill(pid, SIGKILL), waitpid(pid, &status, 0);
    printf("{\"calls\":%ld,\"wrong\":%ld,\"broken\":0,\"seconds\":%.4f,\"per_second\":%.1f,\"server_cpu_us\":%.3f,\"first_answer_s\":%.4f}\n",
           done, wrong, took, done / took, done ? used / done * 1e6 : 0, first);
    return done && !wrong ? 0 : 1;
}
