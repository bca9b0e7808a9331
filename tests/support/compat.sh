#!/bin/sh
# SPDX-License-Identifier: MIT
# compat.sh WORDS - the tests whose paths contain one of these words, against one server after another.
#
# REDIS_SERVER names them, by path or by the command's name; by default Debian's redis-server and its valkey-server.
# One that is not here comes out of its package, unpacked below build/servers: nothing is installed, and no service
# begins. A line for each server, and at the end "N passed, N failed, N skipped" summed up. A server of Debian's that
# is not to be had counts as skipped, a path without one as failed.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/world/root.sh
servers=$(pwd)/build/servers
mkdir -p "$servers"

# An apt of its own that knows Debian's backports, for what this release has nowhere else: it needs no root.
backports() {
    mkdir -p "$servers/lists/partial" "$servers/cache/archives/partial"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) $(host_release)-backports main" \
        >"$servers/sources.list"
    cat >"$servers/apt.conf" <<END
Dir::Etc::SourceList "$servers/sources.list";
Dir::Etc::SourceParts "-";
Dir::State::Lists "$servers/lists";
Dir::Cache "$servers/cache";
END
    APT_CONFIG=$servers/apt.conf apt-get -qq update
}

download() { apt-get -qq -o APT::Sandbox::User=root download "$@"; }

# unpack_server COMMAND: COMMAND's package has the link to the binary, that of its tools the binary
unpack_server() {
    mkdir -p "$servers/$1"
    (
        cd "$servers/$1" || exit 1
        rm -f ./*.deb
        set -- "$1" "${1%-server}-tools"
        download "$@" 2>/dev/null || { backports && APT_CONFIG=$servers/apt.conf download "$@"; } || exit 1
        for package in ./*.deb; do dpkg -x "$package" . || exit 1; done
    )
}

# path_of NAME: that of a server which starts; nothing where there is none
path_of() {
    case $1 in
    /*) found=$1 ;;
    *)
        found=$(command -v "$1") || found=$servers/$1/usr/bin/$1
        [ -x "$found" ] || unpack_server "$1" >&2
        ;;
    esac
    "$found" --version >/dev/null 2>&1 && echo "$found"
}

passed=0 failed=0 skipped=0
lines=
for server in ${REDIS_SERVER:-redis-server valkey-server}; do
    if ! path=$(path_of "$server"); then
        case $server in
        /*) lines="$lines$server: does not start; 0 passed, 1 failed, 0 skipped\n" failed=$((failed + 1)) ;;
        *) lines="$lines$server: SKIPPED, neither here nor in apt\n" skipped=$((skipped + 1)) ;;
        esac
        continue
    fi
    version=$("$path" --version | sed -n 's/^\([A-Za-z]* server v=[^ ]*\).*/\1/p' | sed 's/ server v=/ /')
    echo "=== $version: $path"
    { ${MAKE:-make} test REDIS_SERVER="$path" T="$1" 2>&1; echo "exit $?"; } | tee "$servers/log"
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' "$servers/log" | tail -n 1)
    # What ended early, or without having run anything, is a failure that no test has counted.
    [ "$(tail -n 1 "$servers/log")" = 'exit 0' ] || case $line in
    *", 0 failed,"* | "") line="0 passed, 1 failed, 0 skipped" ;;
    esac
    # shellcheck disable=SC2086
    set -- "$1" $line
    passed=$((passed + $2)) failed=$((failed + $4)) skipped=$((skipped + $6))
    lines="$lines$version ($path): $2 passed, $4 failed, $6 skipped\n"
done
printf '%b' "$lines"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$((passed + skipped))" != 0 ]
