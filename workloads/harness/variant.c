/*
 * Which copy of a program runs: the one for the machine that compiled it, or the one for most
 * machines, where this one is emulated or lacks the widest vectors of the other.
 */
#include <cpuid.h>
#include <stdbool.h>
#include <string.h>

int main_native(int argc, char **argv);
int main_portable(int argc, char **argv);

/* Where a virtual machine says what runs it. */
enum { HYPERVISOR_LEAF = 0x40000000 };

/* Whether qemu translates what runs here. */
static bool is_emulated(void) {
    unsigned eax, ebx, ecx, edx;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & 1U << 31))
        return false;
    unsigned signature[3];
    __cpuid(HYPERVISOR_LEAF, eax, signature[0], signature[1], signature[2]);
    return memcmp(signature, "TCGTCGTCGTCG", sizeof signature) == 0;
}

int main(int argc, char **argv) {
    __builtin_cpu_init();
    const bool is_narrow = NATIVE_IS_WIDE && !__builtin_cpu_supports("avx512f");
    return is_narrow || is_emulated() ? main_portable(argc, argv) : main_native(argc, argv);
}
