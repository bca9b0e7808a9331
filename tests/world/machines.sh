#!/bin/sh
# SPDX-License-Identifier: MIT
# machines.sh [MACHINE...] - guard/ and its unit tests on other machines and on another C library: arm64, i386, musl.
#
# Runs inside a root that world.sh has made: it adds architectures to the Debian around it and installs there. arm64
# runs under qemu, and so does i386 if the kernel runs no 32-bit programs. For musl, which Debian has no libraries
# for, hiredis, libuv and cmocka are built from Debian's sources; TLS and the locks' providers are left out there, as
# a copier may.
set -eu
export DEBIAN_FRONTEND=noninteractive
libraries=/opt/musl

# A root without the network's names: the tests resolve this one.
grep -q localhost /etc/hosts 2>/dev/null || echo '127.0.0.1 localhost' >>/etc/hosts

install() { apt-get install --yes -qq --no-install-recommends "$@" >/dev/null; }

# libraries_for ARCHITECTURE
libraries_for() {
    for package in libc6-dev libhiredis-dev libuv1-dev libcmocka-dev libssl-dev libxxhash-dev; do echo "$package:$1"; done
}

# source_of PACKAGE: what upstream has released, as Debian has it, below $libraries/PACKAGE
source_of() {
    mkdir -p "$libraries/$1"
    apt-get --print-uris -qq source "$1" | sed -n "s/^'\([^']*\)' \([^ ]*orig\.tar\.[gx]z\) [0-9]* \(.*\)/\1 \2 \3/p" |
        while read -r uri file sum; do
            /usr/lib/apt/apt-helper -qq download-file "$uri" "$libraries/$file" "$sum" </dev/null
            tar -xf "$libraries/$file" --strip-components=1 -C "$libraries/$1"
        done
}

musl_libraries() {
    [ ! -e $libraries/ready ] || return 0
    sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >/etc/apt/sources.list.d/sources.list
    apt-get update -qq
    mkdir -p $libraries/include
    # The kernel's headers and those that need no library.
    for name in linux asm-generic uthash.h utlist.h xxhash.h; do ln -sfn /usr/include/$name $libraries/include/; done
    ln -sfn "/usr/include/$(gcc -print-multiarch)/asm" $libraries/include/
    for package in hiredis libuv1 cmocka; do source_of $package; done
    make -s -C $libraries/hiredis CC=musl-gcc PREFIX=$libraries install >/dev/null
    for package in libuv1 cmocka; do
        cmake -S $libraries/$package -B $libraries/build-$package -Wno-dev -DCMAKE_C_COMPILER=musl-gcc \
            -DCMAKE_C_FLAGS="-idirafter $libraries/include" -DCMAKE_INSTALL_PREFIX=$libraries -DCMAKE_INSTALL_LIBDIR=lib \
            -DBUILD_SHARED_LIBS=OFF -DLIBUV_BUILD_SHARED=OFF -DBUILD_TESTING=OFF -DWITH_EXAMPLES=OFF >/dev/null 2>&1
        make -s -C $libraries/build-$package install >/dev/null
    done
    rm -f $libraries/lib/*.so* # of libraries only the C library stays a shared one
    touch $libraries/ready
}

# try NAME VARIABLE...: the closing line is that of run.sh
try() {
    name=$1
    shift
    echo "== guard/ on $name"
    make -s -j"$(nproc)" -f tests/world/machine.mk BUILD="build/$name" "$@" test >"build/$name.log" 2>&1 ||
        { grep -E 'error:|FAILED|undefined|exit status' "build/$name.log" | head -n 40; failed="$failed $name"; }
    tail -n 1 "build/$name.log" | sed "s/^/$name: /"
}

failed=
mkdir -p build
install make gcc libc6-dev uthash-dev pkg-config
for machine in ${*:-arm64 i386 musl}; do
    case $machine in
    arm64 | i386)
        dpkg --add-architecture $machine
        apt-get update -qq
        ;;
    esac
    case $machine in
    arm64)
        # The locks' providers are compiled, too: of libpq's headers only one architecture's fit beside each other.
        install gcc-aarch64-linux-gnu qemu-user $(libraries_for arm64) libpq-dev:arm64 libzookeeper-mt-dev:arm64
        try arm64 CC=aarch64-linux-gnu-gcc TEST_RUN=qemu-aarch64
        ;;
    i386)
        install gcc-i686-linux-gnu $(libraries_for i386)
        echo 'int main(void) { return 0; }' | i686-linux-gnu-gcc -x c -o build/nothing -
        run=
        build/nothing 2>/dev/null || { install qemu-user; run=qemu-i386; }
        try i386 CC=i686-linux-gnu-gcc CFLAGS='-Og -g1' TEST_RUN=$run
        ;;
    musl)
        install musl-tools cmake libxxhash-dev xz-utils
        musl_libraries
        try musl CC=musl-gcc CFLAGS='-Og -g1' CPPFLAGS="-isystem $libraries/include" LDFLAGS="-L$libraries/lib" GUARD_TLS= \
            GUARD_LOCKS_WITH=
        ;;
    *)
        echo "machines.sh: unknown: $machine (arm64, i386, musl)" >&2
        exit 2
        ;;
    esac
done
[ -z "$failed" ] || { echo "machines.sh: failed on$failed" >&2; exit 1; }
