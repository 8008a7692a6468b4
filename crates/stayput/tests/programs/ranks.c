/* Starts as many processes as its first argument says and waits for them, as a launcher of ranks
 * does. Each has two threads: its main thread works for as much CPU time as the second argument
 * says, in milliseconds, and the other one sleeps meanwhile. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t working = PTHREAD_MUTEX_INITIALIZER;

static void *wait_for_main(void *unused) {
    (void)unused;
    pthread_mutex_lock(&working);
    pthread_mutex_unlock(&working);
    return NULL;
}

static double cpu_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static int rank(double work_ms) {
    pthread_t other;
    volatile unsigned long sum = 0;

    pthread_mutex_lock(&working);
    if (pthread_create(&other, NULL, wait_for_main, NULL))
        return 1;
    while (cpu_ms() < work_ms)
        for (int i = 0; i < 100000; i++)
            sum += i;
    pthread_mutex_unlock(&working);
    pthread_join(other, NULL);
    return 0;
}

int main(int argc, char **argv) {
    int ranks = argc > 2 ? atoi(argv[1]) : 0, failed = 0, status;

    if (ranks < 1)
        return 2;
    for (int started = 0; started < ranks; started++) {
        pid_t child = fork();

        if (child < 0)
            return 1;
        if (child == 0)
            _exit(rank(atof(argv[2])));
    }
    while (wait(&status) > 0)
        failed |= status;
    return failed != 0;
}
