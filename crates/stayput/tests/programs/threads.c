/* Creates threads in the way that its second argument names; each prints its index and the CPUs it
 * may run on. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t printing = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t all_created;
static const char *way;

static void print_cpus(long thread) {
    cpu_set_t cpus;

    sched_getaffinity(0, sizeof(cpus), &cpus);
    pthread_mutex_lock(&printing);
    printf("%ld", thread);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &cpus))
            printf(" %d", cpu);
    putchar('\n');
    pthread_mutex_unlock(&printing);
}

static void *run(void *thread) {
    if (strcmp(way, "reset") == 0) {
        cpu_set_t every;

        memset(&every, 0xff, sizeof(every));
        sched_setaffinity(0, sizeof(every), &every);
    }
    if (strcmp(way, "short") != 0)
        pthread_barrier_wait(&all_created);
    print_cpus((long)thread);
    return NULL;
}

int main(int argc, char **argv) {
    long count = argc > 2 ? atol(argv[1]) : 0;
    pthread_t *threads = calloc(count + 1, sizeof(*threads));

    if (!threads || count < 1)
        return 2;
    way = argv[2];
    pthread_barrier_init(&all_created, NULL, count + 1);
    for (long thread = 1; thread <= count; thread++) {
        if (strcmp(way, "late") == 0)
            usleep(30000);
        if (pthread_create(&threads[thread], NULL, run, (void *)thread))
            return 1;
        if (strcmp(way, "short") == 0)
            pthread_join(threads[thread], NULL);
    }
    if (strcmp(way, "short") != 0) {
        pthread_barrier_wait(&all_created);
        for (long thread = 1; thread <= count; thread++)
            pthread_join(threads[thread], NULL);
    }
    print_cpus(0);
    /* A main thread that ends before the process does. */
    if (strcmp(way, "leave") == 0)
        pthread_exit(NULL);
    return 0;
}
