// Ranks with OpenMP threads, as many as the runtime starts.

#include <mpi.h>
#include <unistd.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
#pragma omp parallel
    usleep(20000);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
