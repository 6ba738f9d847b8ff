/* A load generator for line servers: starts a command on real pipes, keeps K requests in flight, checks every
 * answer (its id is one in flight, no isError, the expected text). Prints one JSON line.
 *
 * lineload [-n CALLS] [-e TEXT] [-m SAMPLES] [-h MS] [-p] IN_FLIGHT SECONDS PRELUDE_FILE REQUEST_FILE COMMAND...
 *   -n   stop after this many calls (SECONDS is then the bound)
 *   -e   a text that every answer holds ("result" unless another is given)
 *   -m   so many samples of the server's memory over the calls (needs -n)
 *   -h   a sample of its memory after so many milliseconds of load: while the calls are held
 *   -p   the generator on the first processor, the server on the second
 * PRELUDE_FILE: lines to send first; those with "id" are answered before the load starts (may be empty).
 * REQUEST_FILE: one line; the text 0000000 in it is replaced by a running seven-digit id. */
#include "common.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#define STARTS 65536 /* ids in flight whose start is kept: more are in flight only in runs that ask for no latency */
static double started[STARTS];
static uint8_t flying[LAST_ID + 1]; /* by id: a request that is not answered yet */

int main(int argc, char **argv) {
    long calls = 0, samples = 0, held_ms = 0;
    const char *expected = "\"result\"";
    int option, pinned = 0;
    while ((option = getopt(argc, argv, "+n:e:m:h:p")) != -1) {
        if (option == 'n') calls = atol(optarg);
        if (option == 'e') expected = optarg;
        if (option == 'm') samples = atol(optarg);
        if (option == 'h') held_ms = atol(optarg);
        if (option == 'p') pinned = 1;
    }
    argv += optind, argc -= optind;
    if (argc < 5) {
        fprintf(stderr, "usage: lineload [-n CALLS] [-e TEXT] [-m SAMPLES] [-h MS] [-p] IN_FLIGHT SECONDS PRELUDE_FILE REQUEST_FILE COMMAND...\n");
        return 2;
    }
    long in_flight = atol(argv[0]);
    double seconds = atof(argv[1]);
    size_t prelude_n, request_n, expected_n = strlen(expected);
    char *prelude = slurp(argv[2], &prelude_n), *request = slurp(argv[3], &request_n);
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
        if (pinned) pin(1);
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        execvp(argv[4], argv + 4);
        perror(argv[4]);
        _exit(127);
    }
    if (pinned) pin(0);
    pids[n_pids++] = pid;
    close(in[0]), close(out[1]);
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    signal(SIGPIPE, SIG_IGN);

    size_t cap = request_n * (size_t)in_flight + prelude_n + 1, pend = 0, pend_at = 0;
    char *w = malloc(cap), *r = malloc(1 << 20);
    size_t r_cap = 1 << 20, r_n = 0, seen = 0;
    memcpy(w, prelude, prelude_n);
    pend = prelude_n;
    long waiting = 0, done = 0, wrong = 0, sent = 0, next = FIRST_ID, sample_every = samples ? calls / samples : 0;
    for (char *p = prelude; (p = strchr(p, '\n')); p++) {
        char *line = p;
        while (line > prelude && line[-1] != '\n') line--;
        if (memmem(line, (size_t)(p - line), "\"id\"", 4)) waiting++;
    }
    int loaded = 0, stop = 0, held = 0, killed = 0;
    double first = 0, start = born, cpu0 = 0, t = born;
    while (!stop || waiting) {
        if (!loaded && waiting == 0 && pend == 0) {
            loaded = 1;
            if (samples || held_ms) sample_memory(0);
            first = now(CLOCK_MONOTONIC) - born;
            cpu0 = server_cpu();
            start = t = now(CLOCK_MONOTONIC);
        }
        if (loaded && !stop) {
            while (waiting < in_flight && pend + request_n <= cap && !(calls && sent == calls)) {
                memcpy(w + pend, request, request_n);
                write_id(w + pend + at, next);
                flying[next] = 1;
                started[next % STARTS] = t;
                next = after_id(next);
                pend += request_n;
                waiting++, sent++;
            }
            if (calls && sent == calls) stop = 1;
        }
        struct pollfd fds[2] = {{out[0], POLLIN, 0}, {in[1], pend_at < pend ? POLLOUT : 0, 0}};
        if (pend_at < pend) {
            ssize_t k = write(in[1], w + pend_at, pend - pend_at);
            if (k > 0) pend_at += (size_t)k;
            if (pend_at == pend) pend = pend_at = 0;
            else if (pend_at > cap / 2) memmove(w, w + pend_at, pend - pend_at), pend -= pend_at, pend_at = 0;
            fds[1].events = pend_at < pend ? POLLOUT : 0;
            if (!loaded && waiting == 0) continue; /* a prelude of notifications alone */
        }
        int wait_ms = held_ms && loaded && !held ? 20 : 20000;
        int ready = poll(fds, 2, wait_ms);
        if (held_ms && loaded && !held && now(CLOCK_MONOTONIC) - start >= held_ms / 1e3) {
            held = 1;
            sample_memory(sent - done);
        }
        if (ready == 0 && wait_ms > 1000) {
            fprintf(stderr, "no answer for 20 s\n");
            kill(pid, SIGKILL);
            return 1;
        }
        ssize_t k = read(out[0], r + r_n, r_cap - r_n);
        if (k == 0 || (k < 0 && errno != EAGAIN)) {
            fprintf(stderr, "the server ended\n");
            return 1;
        }
        t = now(CLOCK_MONOTONIC);
        if (k < 0) continue;
        r_n += (size_t)k;
        char *line = r, *e;
        while ((e = memchr(r + seen, '\n', r_n - seen))) {
            size_t n = (size_t)(e - line);
            if (!loaded) {
                if (memmem(line, n, "\"id\"", 4)) waiting--;
            } else if (memmem(line, n, "\"id\"", 4)) {
                long id = find_id(line, n);
                int right = id && flying[id] && memmem(line, n, expected, expected_n) &&
                            !memmem(line, n > 400 ? 400 : n, "\"isError\":true", 14) && !memmem(line, n > 400 ? 400 : n, "\"isError\": true", 15);
                if (!right && !wrong++) fprintf(stderr, "wrong answer: %.*s\n", (int)(n > 600 ? 600 : n), line);
                if (id && flying[id]) record_latency(t - started[id % STARTS]);
                flying[id] = 0;
                waiting--;
                done++;
                if (sample_every && done % sample_every == 0) sample_memory(done);
            }
            line = e + 1;
            seen = (size_t)(line - r);
        }
        r_n -= (size_t)(line - r);
        if (line != r) memmove(r, line, r_n);
        seen = r_n;
        if (r_n == r_cap) r = realloc(r, r_cap *= 2);
        if (loaded && t - start >= seconds) stop = 1;
        if (loaded && wrong > 100) break;
    }
    double took = t - start, used = server_cpu() - cpu0;
    if (held_ms || samples) sample_memory(done);
    close(in[1]);
    int status = 0;
    for (int i = 0; i < 300 && !killed && waitpid(pid, &status, WNOHANG) == 0; i++) usleep(10000), killed = kill(pid, 0) != 0;
    if (waitpid(pid, &status, WNOHANG) == 0) kill(pid, SIGKILL), waitpid(pid, &status, 0);
    print_report(done, wrong, 0, took, used);
    printf(",\"first_answer_s\":%.4f}\n", first);
    return done && !wrong ? 0 : 1;
}
