// Ranks with threads: each rank starts as many as its argument says, beside its main one, and waits
// for the others at the end.

#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *work(void *nothing) {
    usleep(20000);
    return nothing;
}

int main(int argc, char **argv) {
    pthread_t threads[16];
    int count = argc > 1 ? atoi(argv[1]) : 0;

    MPI_Init(&argc, &argv);
    for (int i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
