#!/bin/sh
# Installs what Stayput needs from Debian's packages; says what and why; does nothing when all is there.
# Usage: ./setup.sh [build|test|bench|kernel]   (test includes build, bench includes test, kernel includes build)
set -eu

purpose=${1:-build}
build_packages="\
gcc:compiles the workloads (C with OpenMP)
libc6-dev:holds the headers of the C library
libhwloc15:reads the machine's topology
clang-16:compiles the part of the scheduler that runs in the kernel, and brings the libclang that reads its header
make:builds libbpf, which loads it
pkg-config:finds the libraries of libbpf
libelf-dev:reads compiled BPF programs
zlib1g-dev:is what libelf needs"
test_packages="\
clang:compiles OpenMP programs for the other runtime
g++:compiles libFuzzer, to check that the fuzz targets build
libomp-dev:is LLVM's OpenMP runtime, to prove binding and the workloads on it
libclang-rt-dev:runs the workloads under clang's thread sanitizer
clang-format:checks the style of C files
chromium:opens the report as a reader would
python3:runs a threaded Python program, to prove binding
golang-go:builds a Go program, to prove binding"
bench_packages="\
hwloc:gives hwloc-bind, a peer to time against
util-linux:gives taskset, a peer to time against
numactl:is a peer to time against
python3-simpy3:is a simulator to time against"
kernel_packages="\
qemu-system-x86:is the machine that kernels are tested in
busybox-static:is the shell in that machine
debian-archive-keyring:proves that a kernel is Debian's"

case $purpose in
build) packages=$build_packages ;;
test) packages=$(printf '%s\n%s' "$build_packages" "$test_packages") ;;
bench) packages=$(printf '%s\n%s\n%s' "$build_packages" "$test_packages" "$bench_packages") ;;
kernel) packages=$(printf '%s\n%s' "$build_packages" "$kernel_packages") ;;
*)
    echo "setup: unknown purpose \`$purpose'; use build, test, bench or kernel" >&2
    exit 2
    ;;
esac

if ! command -v cargo >/dev/null; then
    echo "setup: Rust is missing; install it with rustup (or Debian's cargo, if it is new enough) and run this again" >&2
    exit 1
fi

# Whether there is a clang, of whatever name, that is new enough for BPF programs of today.
new_clang() {
    for name in clang $(seq -f clang-%g 15 30); do
        major=$("$name" -dumpversion 2>/dev/null | cut -d. -f1)
        [ "${major:-0}" -ge 15 ] && return 0
    done
    return 1
}

# A tool that is already on the PATH from somewhere else need not come from a package.
present() {
    case $1 in
    golang-go) command -v go >/dev/null && return 0 ;;
    qemu-system-x86) command -v qemu-system-x86_64 >/dev/null && return 0 ;;
    busybox-static) command -v busybox >/dev/null && return 0 ;;
    clang-16) new_clang && return 0 ;;
    make | gcc | g++ | clang | clang-format | python3 | chromium | numactl) command -v "$1" >/dev/null && return 0 ;;
    esac
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing=
while IFS=: read -r package reason; do
    present "$package" && continue
    echo "setup: $package is missing: it $reason"
    missing="$missing $package"
done <<END
$(printf '%s\n' "$packages")
END

if [ -z "$missing" ]; then
    echo "setup: nothing to install for $purpose"
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "setup: no apt-get here; install what your system calls:$missing" >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null; then
    as_root=sudo
else
    echo "setup: neither root nor sudo; ask an administrator for: apt-get install$missing" >&2
    exit 1
fi
echo "setup: installing$missing"
$as_root apt-get update -qq
# Debian 12's own clang is too old, and later releases have no clang-16.
apt-cache show clang-16 >/dev/null 2>&1 || missing=$(echo "$missing" | sed 's/clang-16/clang/')
# shellcheck disable=SC2086 # a list of words
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null
echo "setup: done"
