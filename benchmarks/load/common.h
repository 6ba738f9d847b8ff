/* What the load generators share: clocks, files, memory and CPU of the server's processes, running ids,
 * latencies. Every process of a server counts (granian and robyn answer from children). */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_PIDS 64
#define FIRST_ID 1000001L
#define LAST_ID 9999999L
#define MAX_SAMPLES 128

static pid_t pids[MAX_PIDS];
static int n_pids;
static double *latencies;
static long n_latencies, max_latencies = 2000000;
static struct { long calls, rss_kb; } memory[MAX_SAMPLES];
static int n_memory;

static double now(clockid_t clock) {
    struct timespec t;
    if (clock_gettime(clock, &t)) return 0;
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* "17,18": the server's processes. */
__attribute__((unused)) static void read_pids(const char *text) {
    while (*text && n_pids < MAX_PIDS) {
        char *end;
        long pid = strtol(text, &end, 10);
        if (end == text) break;
        if (pid > 0) pids[n_pids++] = (pid_t)pid;
        text = *end ? end + 1 : end;
    }
}

static double server_cpu(void) {
    double sum = 0;
    for (int i = 0; i < n_pids; i++) sum += now((clockid_t)((~(unsigned)pids[i]) << 3 | 2));
    return sum;
}

static long server_rss_kb(void) {
    long sum = 0;
    for (int i = 0; i < n_pids; i++) {
        char path[64], line[256];
        snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pids[i]);
        FILE *f = fopen(path, "r");
        if (!f) continue;
        while (fgets(line, sizeof line, f))
            if (!strncmp(line, "Rss:", 4)) sum += atol(line + 4);
        fclose(f);
    }
    return sum;
}

static void sample_memory(long calls) {
    if (n_memory == MAX_SAMPLES) return;
    memory[n_memory].calls = calls;
    memory[n_memory++].rss_kb = server_rss_kb();
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

/* One processor for the generator, another for the server: who wakes whom is then the same for every subject. */
__attribute__((unused)) static void pin(int processor) {
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void write_id(char *at, long id) {
    for (int i = 6; i >= 0; i--, id /= 10) at[i] = (char)('0' + id % 10);
}

static long after_id(long id) { return id == LAST_ID ? FIRST_ID : id + 1; }

/* The first "id" of a message that is a number of ours, 0 when there is none. */
__attribute__((unused)) static long find_id(const char *text, size_t n) {
    const char *end = text + n, *p = text;
    while ((p = memmem(p, (size_t)(end - p), "\"id\"", 4))) {
        p += 4;
        while (p < end && (*p == ' ' || *p == ':')) p++;
        long id = 0;
        while (p < end && isdigit((unsigned char)*p) && id <= LAST_ID) id = id * 10 + (*p++ - '0');
        if (id >= FIRST_ID && id <= LAST_ID) return id;
    }
    return 0;
}

static void record_latency(double seconds) {
    if (!latencies) latencies = malloc(sizeof(double) * (size_t)max_latencies);
    if (n_latencies < max_latencies) latencies[n_latencies++] = seconds;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double latency_us(int per_mille) {
    return n_latencies ? latencies[n_latencies * per_mille / 1000] * 1e6 : 0;
}

static void print_report(long done, long wrong, long broken, double took, double cpu) {
    if (latencies) qsort(latencies, (size_t)n_latencies, sizeof(double), by_value);
    printf("{\"calls\":%ld,\"wrong\":%ld,\"broken\":%ld,\"seconds\":%.6f,\"per_second\":%.1f,\"server_cpu_us\":%.4f,"
           "\"p50_us\":%.2f,\"p99_us\":%.2f,\"memory\":[",
           done, wrong, broken, took, took > 0 ? done / took : 0, done ? cpu / done * 1e6 : 0, latency_us(500), latency_us(990));
    for (int i = 0; i < n_memory; i++) printf("%s[%ld,%ld]", i ? "," : "", memory[i].calls, memory[i].rss_kb);
    printf("]");
}
