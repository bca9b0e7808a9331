# SPDX-License-Identifier: MIT
# root.sh - to be sourced: bare Debians in folders, by mmdebstrap, as root or where a user may have namespaces.
#
# Packages come from the mirror of this machine's own apt, with what its configuration says of proxies and dates.

# What is already here says its release; the other one is what it is tried on.
host_release() { sed -n 's/^VERSION_CODENAME=//p' /etc/os-release; }
other_release() { if [ "$(host_release)" = trixie ]; then echo bookworm; else echo trixie; fi; }

mirror() {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | awk '/^(URIs:|deb )/ {
        for (i = 2; i <= NF; i++) if ($i ~ /^https?:.*\/debian\/?$/) { print $i; exit } }' | grep .
}

# as_root COMMAND...: as root, if only of a namespace with the ids of this user
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else unshare --map-root-user --map-auto "$@"; fi
}

# A container may give namespaces, and no /proc in them.
can_have_roots() { as_root unshare --mount --pid --fork mount -t proc proc /proc 2>/dev/null; }

# make_root TAR RELEASE: a Debian that has nothing but apt yet
make_root() {
    made=${1%.tar}.part.tar
    apt-config dump | grep -E '^Acquire::(Check-|Retries|https?::)' >"$made.conf" || true
    mmdebstrap --quiet --variant=minbase --skip=output/dev --aptopt="$made.conf" --dpkgopt=force-unsafe-io \
        --setup-hook='mkdir -p "$1/etc"; echo "127.0.0.1 localhost" >"$1/etc/hosts"' \
        "$2" "$made" "$(mirror)" || return 1
    rm -f "$made.conf"
    mv "$made" "$1"
}

# unpack TAR FOLDER
unpack() {
    remove_root "$2"
    mkdir -p "$2"
    as_root tar -C "$2" --numeric-owner -xf "$1"
}

remove_root() { [ ! -e "$1" ] || as_root rm -rf --one-file-system "$1"; }

# enter ROOT DEBS COMMAND: in its shell, with /proc and devices; all that it has started ends with it. DEBS: a folder
# for what apt downloads.
enter() {
    mkdir -p "$2"
    as_root unshare --mount --pid --fork --kill-child sh -euc '
        root=$1
        mkdir -p "$root/dev/shm" "$root/dev/pts"
        mount -t proc proc "$root/proc"
        for node in null zero full random urandom tty; do
            : >>"$root/dev/$node"
            mount --bind "/dev/$node" "$root/dev/$node"
        done
        mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
        mount -t devpts -o newinstance,ptmxmode=666 pts "$root/dev/pts"
        ln -sf pts/ptmx "$root/dev/ptmx"
        ln -sfn /proc/self/fd "$root/dev/fd"
        mount --bind "$2" "$root/var/cache/apt/archives"
        exec chroot "$root" env -i HOME=/root USER=root TERM=dumb LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -euc "$3"' sh "$@"
}
