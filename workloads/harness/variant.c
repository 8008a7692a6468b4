/*
 * Which copy of a program runs: the one for the machine that compiled it, or where this one lacks
 * its widest vectors, as qemu's emulated CPUs do, the one for most machines.
 */
int main_native(int argc, char **argv);
int main_portable(int argc, char **argv);

int main(int argc, char **argv) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") ? main_native(argc, argv) : main_portable(argc, argv);
}
