/*
 * MPI's own calls spin while they wait. Here all wait by asking whether they are done: for as long
 * as threads of a team spin (progress.h), then sleeping between questions, so that ranks that share
 * CPUs don't take one another's time slices.
 */
#include "ranks.h"

#include "memory.h"
#include "program.h"
#include "progress.h"

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int count = 1, mine;
static MPI_Comm node = MPI_COMM_NULL; /* the ranks on this node */

const char *ranks_library(void) {
    static char name[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    MPI_Get_library_version(name, &length);
    /* One says its name and more behind a comma, the other a table: `MPICH Version:   4.0.2`. */
    name[strcspn(name, ",\n")] = '\0';
    for (char *tab; (tab = strchr(name, '\t')) != NULL;)
        *tab = ' ';
    return name;
}

/* Whether srun started several tasks without telling MPI: each would be a world of its own. */
static bool is_a_world_of_its_own(void) {
    const char *tasks = getenv("SLURM_STEP_NUM_TASKS");
    return count == 1 && tasks != NULL && atoi(tasks) > 1 &&
           getenv("OMPI_COMM_WORLD_SIZE") == NULL && getenv("PMI_SIZE") == NULL;
}

/* What every failure of MPI comes to: its own handler prints why and ends all ranks. */
void ranks_begin(int *argc, char ***argv) {
    int provided;
    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    MPI_Comm_rank(MPI_COMM_WORLD, &mine);
    if (provided < MPI_THREAD_FUNNELED) {
        fprintf(stderr, "%s: this MPI (%s) serves no process with threads\n", PROGRAM.name,
                ranks_library());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (is_a_world_of_its_own()) {
        fprintf(stderr,
                "%s: srun started %s tasks, and MPI (%s) sees one: say --mpi=pmix or --mpi=pmi2 to "
                "srun, whichever that MPI was built for\n",
                PROGRAM.name, getenv("SLURM_STEP_NUM_TASKS"), ranks_library());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, mine, MPI_INFO_NULL, &node);
}

void ranks_end(void) {
    MPI_Comm_free(&node);
    MPI_Finalize();
}

int ranks_count(void) { return count; }

int ranks_mine(void) { return mine; }

int ranks_on_node(void) {
    int ranks;
    MPI_Comm_size(node, &ranks);
    return ranks;
}

/* MPICH says that it writes statuses where it is told to ignore them, which gcc believes. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

static void await_all(int number, MPI_Request *requests) {
    const struct timespec nap = {.tv_nsec = 20000};
    const int most = progress_spins();
    int done = 0;
    for (int asked = 0; MPI_Testall(number, requests, &done, MPI_STATUSES_IGNORE), !done; asked++)
        if (asked < most)
            progress_relax();
        else
            nanosleep(&nap, NULL);
}

void ranks_barrier(void) {
    MPI_Request request;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    await_all(1, &request);
}

static void combine(void *values, int number, MPI_Datatype type, MPI_Op how, MPI_Comm among) {
    MPI_Request request;
    MPI_Iallreduce(MPI_IN_PLACE, values, number, type, how, among, &request);
    await_all(1, &request);
}

double ranks_largest(double value) {
    combine(&value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return value;
}

bool ranks_any(bool value) {
    int any = value;
    combine(&any, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
    return any != 0;
}

uint64_t ranks_total(uint64_t value) {
    combine(&value, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    return value;
}

uint64_t ranks_total_on_node(uint64_t value) {
    combine(&value, 1, MPI_UINT64_T, MPI_SUM, node);
    return value;
}

int ranks_from_first(int value) {
    MPI_Request request;
    MPI_Ibcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD, &request);
    await_all(1, &request);
    return value;
}

void ranks_each(int value, int *of_each) {
    MPI_Request request;
    MPI_Iallgather(&value, 1, MPI_INT, of_each, 1, MPI_INT, MPI_COMM_WORLD, &request);
    await_all(1, &request);
}

void ranks_unite_on_node(void *bits, size_t bytes) {
    combine(bits, (int)bytes, MPI_BYTE, MPI_BOR, node);
}

void ranks_add_to_first(double *values, size_t number) {
    MPI_Request request;
    MPI_Ireduce(mine == 0 ? MPI_IN_PLACE : values, values, (int)number, MPI_DOUBLE, MPI_SUM, 0,
                MPI_COMM_WORLD, &request);
    await_all(1, &request);
}

/* What a rank has for itself, in the order in which both sides list it. */
static void copy_own(const struct ranks_message *sent, int number_sent,
                     const struct ranks_message *received, int number_received) {
    for (int out = 0, in = 0; out < number_sent; out++) {
        if (sent[out].with != mine)
            continue;
        while (in < number_received && received[in].with != mine)
            in++;
        if (in == number_received)
            return;
        memcpy(received[in++].numbers, sent[out].numbers, sent[out].count * sizeof(double));
    }
}

void ranks_exchange(const struct ranks_message *sent, int number_sent,
                    const struct ranks_message *received, int number_received) {
    static MPI_Request *requests;
    static int room;
    if (number_sent + number_received > room) {
        room = number_sent + number_received;
        requests = memory_pages((size_t)room, sizeof(MPI_Request));
        if (requests == NULL)
            return; /* all ranks have been given up */
    }
    int pending = 0;
    for (int i = 0; i < number_received; i++)
        if (received[i].with != mine)
            MPI_Irecv(received[i].numbers, (int)received[i].count, MPI_DOUBLE, received[i].with, 0,
                      MPI_COMM_WORLD, &requests[pending++]);
    for (int i = 0; i < number_sent; i++)
        if (sent[i].with != mine)
            MPI_Isend(sent[i].numbers, (int)sent[i].count, MPI_DOUBLE, sent[i].with, 0,
                      MPI_COMM_WORLD, &requests[pending++]);
    copy_own(sent, number_sent, received, number_received);
    await_all(pending, requests);
}

void ranks_give_up(const char *why) {
    if (count == 1)
        return;
    fprintf(stderr, "%s: rank %d of %d: %s\n", PROGRAM.name, mine, count, why);
    fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    _Exit(1);
}
