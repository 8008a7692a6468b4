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
hwloc:has lstopo, to prove that it reads our XML
chromium:opens the report as a reader would
python3:runs a threaded Python program, to prove binding
golang-go:builds a Go program, to prove binding
zsh:completes a command line, to prove completion
fish:does the same
postgresql:is a server to study, and brings pgbench, a load for it
redis-server:is a server to study while it runs
redis-tools:has redis-benchmark, the load on it
memcached:is a server to study
libmemcached-tools:has a load for it
wrk:is a load for HTTP servers
apache2-utils:has ab, another one
default-jdk-headless:runs a Java program whose threads have names
openmpi-bin:starts ranks, to prove where their threads are
libopenmpi-dev:compiles programs for it
mpich:is the other launcher of ranks
libmpich-dev:compiles programs for it
slurmctld:is the controller of a cluster of three nodes on this machine, to prove that studies survive what clusters do
slurmd:is the daemon of each of its nodes
slurm-client:submits blocks of studies to it
tmux:is a terminal whose screen can be read, to prove that --live leaves it as it was"
bench_packages="\
util-linux:gives taskset, a peer to time against
numactl:is a peer to time against
python3-simpy3:is a simulator to time against
libopenblas-dev:multiplies matrices, to time ours against
libsuitesparse-dev:has CHOLMOD, to time the factorisation of sparse matrices against"
kernel_packages="\
qemu-system-x86:is the machine that kernels are tested in
busybox-static:is the shell in that machine
virtiofsd:gives it this machine's files, for studies of real programs
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

# What `rustup` installs lands here, and need not be on the PATH yet. The Makefile looks here first, too.
PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
oldest_rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/Cargo.toml")

# Whether there is a cargo that is new enough. Without a toolchain rustup's cargo prints nothing: it may not fetch one unasked.
new_rust() {
    rust=$(cd "$(dirname "$0")" && RUSTUP_AUTO_INSTALL=0 cargo --version 2>/dev/null | cut -d' ' -f2)
    [ -n "$rust" ] && [ "$(printf '%s\n' "$oldest_rust" "$rust" | sort -V | head -n1)" = "$oldest_rust" ]
}

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
    virtiofsd)
        for place in "$(command -v virtiofsd)" /usr/libexec/virtiofsd /usr/lib/qemu/virtiofsd; do
            [ -x "$place" ] && return 0
        done
        ;;
    clang-16) new_clang && return 0 ;;
    postgresql)
        for place in "$(command -v initdb)" /usr/lib/postgresql/*/bin/initdb; do
            [ -x "$place" ] && return 0
        done
        ;;
    redis-tools) command -v redis-benchmark >/dev/null && return 0 ;;
    libmemcached-tools) command -v memcaslap >/dev/null && return 0 ;;
    apache2-utils) command -v ab >/dev/null && return 0 ;;
    default-jdk-headless) command -v javac >/dev/null && return 0 ;;
    make | gcc | g++ | clang | clang-format | python3 | zsh | fish | chromium | numactl | curl | redis-server | memcached | wrk | tmux)
        command -v "$1" >/dev/null && return 0 ;;
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

# May we install packages, and how?
as_root=
may_install=yes
if ! command -v apt-get >/dev/null; then
    may_install="no apt-get here; install what your system calls:"
elif [ "$(id -u)" != 0 ]; then
    as_root=sudo
    command -v sudo >/dev/null || may_install="neither root nor sudo; ask an administrator for: apt-get install"
fi
# Whether this release of Debian has a package.
available() {
    apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [0-9]'
}
updated=
update() {
    [ -n "$updated" ] || $as_root apt-get update -qq
    updated=yes
}

# The servers among packages. Tests start them by themselves, on free ports of this machine alone; as services they would take the
# usual ports, now and after each boot.
services_of() {
    for package in $1; do
        case $package in postgresql | redis-server | memcached) printf '%s ' "$package" ;; esac
    done
}
# Debian's packages ask this script before they start a service. One that is there already has its reasons.
policy=/usr/sbin/policy-rc.d
held=
hold_services() {
    [ ! -e "$policy" ] || return 0
    held=yes
    trap release_services EXIT
    trap 'exit 130' INT TERM
    printf '#!/bin/sh\nexit 101\n' | $as_root tee "$policy" >/dev/null
    $as_root chmod 755 "$policy"
}
release_services() {
    [ -z "$held" ] || $as_root rm -f "$policy"
    held=
}
leave_services_off() {
    release_services
    for service in $services; do
        echo "setup: $service is not started as a service, now or at boot; \`systemctl enable --now $service' would"
        if command -v systemctl >/dev/null; then
            $as_root systemctl --quiet disable "$service" 2>/dev/null
        else
            $as_root update-rc.d "$service" disable
        fi || echo "setup: $service could not be kept from starting at boot" >&2
    done
}

if ! new_rust; then
    echo "setup: Rust $oldest_rust or later is missing${rust:+ (this one is $rust)}: it compiles Stayput"
    if ! command -v rustup >/dev/null; then
        # Debian's rustup would remove Debian's cargo, so it is only for who has none.
        if [ "$may_install" = yes ] && ! command -v cargo >/dev/null && update && available rustup; then
            missing="$missing rustup"
        else
            present curl || missing="$missing curl"
        fi
    fi
    present ca-certificates || missing="$missing ca-certificates"
elif [ -z "$missing" ]; then
    echo "setup: nothing to install for $purpose"
    exit 0
fi

if [ -n "$missing" ]; then
    if [ "$may_install" != yes ]; then
        echo "setup: $may_install$missing" >&2
        exit 1
    fi
    echo "setup: installing$missing"
    update
    # Debian 12's own clang is too old, and later releases have no clang-16.
    available clang-16 || missing=$(echo "$missing" | sed 's/clang-16/clang/')
    # Debian 12 has it with qemu.
    available virtiofsd || missing=$(echo "$missing" | sed 's/virtiofsd/qemu-system-common/')
    services=$(services_of "$missing")
    [ -z "$services" ] || hold_services
    # shellcheck disable=SC2086 # a list of words
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
    [ -z "$services" ] || leave_services_off
fi

if ! new_rust; then
    if ! command -v rustup >/dev/null; then
        installer=https://static.rust-lang.org/rustup/rustup-init.sh
        echo "setup: installing rustup for $(id -un), in ${CARGO_HOME:-$HOME/.cargo}, from $installer"
        script=$(mktemp)
        trap 'rm -f "$script"' EXIT
        curl --proto '=https' --tlsv1.2 -sSf "$installer" -o "$script"
        # An older Rust may be on the PATH: it stays where it is.
        RUSTUP_INIT_SKIP_PATH_CHECK=yes sh "$script" -y -q --no-modify-path --profile minimal --default-toolchain none >/dev/null
    fi
    echo "setup: installing the stable Rust by rustup, for this directory"
    rustup toolchain install stable --profile minimal --component clippy --component rustfmt --no-self-update >/dev/null
    (cd "$(dirname "$0")" && rustup override set stable)
    if ! new_rust; then
        echo "setup: Rust is ${rust:-missing} even so; $oldest_rust or later is needed" >&2
        exit 1
    fi
fi
echo "setup: done"
