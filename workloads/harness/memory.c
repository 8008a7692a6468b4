#include "memory.h"

#include "ranks.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void tighten(struct memory_left *left, uint64_t bytes, const char *limit) {
    if (bytes < left->bytes)
        *left = (struct memory_left){bytes, limit};
}

/* Reads the number that follows `key` at the start of a line; "" matches the first line. */
static bool read_number(const char *path, const char *key, uint64_t *number) {
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    char line[256];
    bool found = false;
    const size_t key_length = strlen(key);
    while (!found && fgets(line, sizeof line, file) != NULL) {
        unsigned long long value;
        if (strncmp(line, key, key_length) == 0 &&
            sscanf(line + key_length, " %llu", &value) == 1) {
            *number = value;
            found = true;
        } else if (key_length == 0) {
            break; /* "max": no limit */
        }
    }
    fclose(file);
    return found;
}

/* The files in which one version of the memory controller keeps its books. */
struct cgroup_files {
    const char *mount, *maximum, *current, *stat_inactive, *limit;
};

static const struct cgroup_files CGROUP_V1 = {
    "/sys/fs/cgroup/memory",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    "total_inactive_file ",
    "the cgroup's memory.limit_in_bytes",
};
static const struct cgroup_files CGROUP_V2 = {
    "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file ", "the cgroup's memory.max",
};

/* Tightens `left` by the cgroup at `path` (as /proc/self/cgroup names it) and all its ancestors. */
static void tighten_by_cgroup(struct memory_left *left, const struct cgroup_files *files,
                              const char *path) {
    char directory[4096];
    if (snprintf(directory, sizeof directory, "%s%s", files->mount, path) >= (int)sizeof directory)
        return;
    const size_t mount_length = strlen(files->mount);
    for (;;) {
        char file[sizeof directory + 64];
        uint64_t maximum, current, inactive = 0;
        snprintf(file, sizeof file, "%s/%s", directory, files->maximum);
        const bool limited = read_number(file, "", &maximum);
        snprintf(file, sizeof file, "%s/%s", directory, files->current);
        if (limited && read_number(file, "", &current)) {
            /* Page cache that nobody uses is given back before anyone is killed. */
            snprintf(file, sizeof file, "%s/memory.stat", directory);
            read_number(file, files->stat_inactive, &inactive);
            const uint64_t used = current > inactive ? current - inactive : 0;
            tighten(left, maximum > used ? maximum - used : 0, files->limit);
        }
        char *slash = strrchr(directory, '/');
        if (slash == NULL || (size_t)(slash - directory) < mount_length)
            return;
        *slash = '\0';
    }
}

static void tighten_by_cgroups(struct memory_left *left) {
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (file == NULL)
        return;
    char line[4096];
    while (fgets(line, sizeof line, file) != NULL) { /* hierarchy:controllers:path */
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (path == NULL)
            continue;
        *path++ = '\0';
        if (strcmp(controllers + 1, "") == 0)
            tighten_by_cgroup(left, &CGROUP_V2, path);
        else if (strstr(controllers + 1, "memory") != NULL)
            tighten_by_cgroup(left, &CGROUP_V1, path);
    }
    fclose(file);
}

static void tighten_by_address_space(struct memory_left *left, int processes) {
    struct rlimit limit;
    uint64_t pages;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return;
    if (!read_number("/proc/self/statm", "", &pages))
        return;
    const uint64_t used = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t of_each = limit.rlim_cur > used ? limit.rlim_cur - used : 0;
    uint64_t of_all;
    if (!__builtin_mul_overflow(of_each, (uint64_t)processes, &of_all))
        tighten(left, of_all, "RLIMIT_AS (ulimit -v)");
}

struct memory_left memory_left(int processes) {
    struct memory_left left = {UINT64_MAX, "no limit"};
    uint64_t available_kib;
    if (read_number("/proc/meminfo", "MemAvailable:", &available_kib))
        tighten(&left, available_kib * 1024, "MemAvailable in /proc/meminfo");
    tighten_by_cgroups(&left);
    tighten_by_address_space(&left, processes);
    return left;
}

/* What stands at the end of allocated pages, where it doesn't move what they are for. */
struct block {
    void *pages;
    struct block *before;
};

static struct block *last_block;
static _Atomic bool refused;

void *memory_pages(size_t count, size_t element_bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes;
    char *pages = NULL;
    if (!__builtin_mul_overflow(count, element_bytes, &bytes) && bytes <= SIZE_MAX / 2) {
        bytes = (bytes + sizeof(struct block) + page - 1) / page * page;
        pages = aligned_alloc(page, bytes);
    }
    if (pages == NULL) {
        refused = true;
        ranks_give_up("the system refused the memory that the class needs");
        return NULL;
    }
    struct block *block = (struct block *)(pages + bytes) - 1;
    block->pages = pages;
#pragma omp critical(memory)
    {
        block->before = last_block;
        last_block = block;
    }
    return pages;
}

bool memory_refused(void) { return refused; }

void memory_give_back(void) {
    for (struct block *block = last_block; block != NULL;) {
        struct block *before = block->before;
        free(block->pages);
        block = before;
    }
    last_block = NULL;
}
