/* Each thread of one parallel region prints its OpenMP number and the CPUs it may run on. */
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdio.h>

int main(void) {
#pragma omp parallel
    {
        cpu_set_t cpus;

        sched_getaffinity(0, sizeof(cpus), &cpus);
#pragma omp critical
        {
            printf("%d", omp_get_thread_num());
            for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
                if (CPU_ISSET(cpu, &cpus))
                    printf(" %d", cpu);
            putchar('\n');
        }
    }
    return 0;
}
