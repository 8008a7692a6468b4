/* Touches 64 MiB, or as many as are named, and says under which policy, on which nodes and in which
 * pages they are.
 *
 * touch [advise] [bind=NODE] [mib=N] [wait] [main-ends | exits]
 *   advise      asks for huge pages
 *   bind=NODE   binds half of the memory to a node by itself
 *   wait        has the memory for a second
 *   main-ends   is a thread that goes on when the main thread has ended
 *   exits       is a thread that ends the program, whose main thread waits
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int touch(int argc, char **argv) {
    size_t bytes = (size_t)64 << 20;
    int advise = 0, node = -1, wait = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "advise"))
            advise = 1;
        else if (!strcmp(argv[i], "wait"))
            wait = 1;
        else if (!strncmp(argv[i], "bind=", 5))
            node = atoi(argv[i] + 5);
        else if (!strncmp(argv[i], "mib=", 4))
            bytes = (size_t)atoi(argv[i] + 4) << 20;
        else if (strcmp(argv[i], "main-ends") && strcmp(argv[i], "exits"))
            return 2;
    }

    int mode = -1;
    unsigned long nodes[16] = {0};
    if (syscall(SYS_get_mempolicy, &mode, nodes, 8 * sizeof nodes, 0, 0) != 0) {
        perror("get_mempolicy");
        return 1;
    }

    char *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    if (advise)
        madvise(memory, bytes, MADV_HUGEPAGE);
    if (node >= 0) {
        unsigned long mask = 1UL << node;
        if (syscall(SYS_mbind, memory, bytes / 2, 2 /* MPOL_BIND */, &mask, 8 * sizeof mask + 1,
                    0) != 0) {
            perror("mbind");
            return 1;
        }
    }
    memset(memory, 1, bytes);

    if (wait)
        sleep(1);

    /* move_pages(2) without nodes only says where pages are. */
    static void *pages[4096];
    static int status[4096];
    long on_node[2] = {0};
    for (size_t at = 0; at < bytes;) {
        unsigned long count = 0;
        for (; count < 4096 && at < bytes; at += 4096)
            pages[count++] = memory + at;
        if (syscall(SYS_move_pages, 0, count, pages, NULL, status, 0) != 0) {
            perror("move_pages");
            return 1;
        }
        for (unsigned long i = 0; i < count; i++)
            if (status[i] == 0 || status[i] == 1)
                on_node[status[i]]++;
    }

    long huge_kib = -1;
    char line[256];
    FILE *maps = fopen("/proc/self/smaps_rollup", "r");
    while (maps && fgets(line, sizeof line, maps))
        sscanf(line, "AnonHugePages: %ld kB", &huge_kib);
    printf("mode %d\nnodes %lu\n", mode, nodes[0]);
    printf("thp_disabled %d\nhuge_bytes %ld\n", prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0),
           huge_kib * 1024);
    printf("node0_bytes %ld\nnode1_bytes %ld\n", on_node[0] * 4096, on_node[1] * 4096);
    return 0;
}

struct arguments {
    int count;
    char **words;
};

static void *thread(void *pointer) {
    struct arguments *arguments = pointer;
    usleep(100000);
    exit(touch(arguments->count, arguments->words));
}

static void *last_thread(void *pointer) {
    struct arguments *arguments = pointer;
    usleep(100000);
    if (touch(arguments->count, arguments->words) != 0)
        _exit(1);
    return NULL;
}

int main(int argc, char **argv) {
    static struct arguments arguments;
    arguments = (struct arguments){argc, argv};
    int ends = argc > 1 && !strcmp(argv[1], "main-ends");
    if (!ends && !(argc > 1 && !strcmp(argv[1], "exits")))
        return touch(argc, argv);
    pthread_t other;
    if (pthread_create(&other, NULL, ends ? last_thread : thread, &arguments) != 0)
        return 1;
    if (ends)
        pthread_exit(NULL);
    pthread_join(other, NULL);
    return 1;
}
