/*
 * What a hybrid program is where its MPI was missing when it was built: build.rs names program and
 * MPI.
 */
#include <stdio.h>

int main(void) {
    fprintf(stderr, HYBRID_NAME ": " MPI_NAME
                                " was missing when it was built; install it (Debian: " MPI_PACKAGE
                                "), and build again after `touch workloads/build.rs`\n");
    return 1;
}
