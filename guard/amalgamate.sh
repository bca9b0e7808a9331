#!/bin/sh
# SPDX-License-Identifier: MIT
# amalgamate.sh FOLDER - the whole guard as FOLDER/guard.c, and its public headers.
#
# Every .c file in turn, each header of ours where it is first included, the licence in front. A name may have only
# one meaning in all files; the compiler tells of a second one. Locks over PostgreSQL and ZooKeeper, which need
# libraries of their own, are left out, and so is what was taken out of this folder: locks/redlock/, or all of locks/.
# TLS to Redis is in it, but asleep: -DGUARD_WITH_TLS, then link with -lssl -lcrypto, too.
#
#     cc -std=c11 -D_GNU_SOURCE -fvisibility=hidden -c guard.c        # link with -lhiredis -pthread
set -eu

out=${1:?the folder is missing: amalgamate.sh FOLDER}
here=$(dirname "$0")
mkdir -p "$out"
trap 'rm -f "$out/guard_scripts.h" "$out/guard_lock_scripts.h"' EXIT
sh "$here/wire/scripts/embed.sh" "$out/guard_scripts.h" "$here"/wire/scripts/*.lua
cp "$here/guard.h" "$here/advanced.h" "$here/guard.hpp" "$here/host.h" "$out"
set -- "$here"/base/*.c "$here"/core/*.c "$here"/redis/*.c "$here"/wire/*.c "$here"/run/*.c "$here/api.c"
if [ -d "$here/locks" ]; then
    sh "$here/wire/scripts/embed.sh" "$out/guard_lock_scripts.h" "$here"/locks/scripts/*.lua
    cp "$here/locks.h" "$out"
    set -- "$@" "$here"/locks/*.c
    [ ! -d "$here/locks/redlock" ] || set -- "$@" "$here"/locks/redlock/*.c
fi
mkdir -p "$out/adapters"
cp "$here"/adapters/*.h "$out/adapters"
version=$(sed -n 's/^#define GUARD_VERSION "\(.*\)"/\1/p' "$here/guard.h")
awk -v here="$here" -v out="$out" -v version="$version" '
# A path in this folder, without its "room/../".
function plain(path) {
    while (sub(/[a-z]+\/\.\.\//, "", path))
        continue
    return path
}

function is_made(name) {
    return name ~ /^guard_(lock_)?scripts\.h$/
}

function is_public(name) {
    return name ~ /^(guard|advanced|host|locks|adapters\/epoll)\.h$/
}

function emit(name,    line, header, path, room) {
    path = (is_made(name) ? out : here) "/" name
    room = substr(name, 1, match(name, /[^\/]*$/) - 1)
    printf "\n/* ======== %s ======== */\n\n", name
    while ((status = (getline line < path)) > 0) {
        if (line ~ /^[ \t]*#[ \t]*include[ \t]+"/) {
            header = line
            sub(/^[^"]*"/, "", header)
            sub(/".*/, "", header)
            if (!is_made(header))
                header = plain(room header)
            if (is_public(header) || header in seen)
                continue
            seen[header] = 1
            emit(header)
            continue
        }
        if (line != "#pragma once")
            print line
    }
    if (status < 0) {
        print "amalgamate.sh: " path " cannot be read" > "/dev/stderr"
        failed = 1
    }
    close(path)
}
BEGIN {
    print "/* SPDX-License-Identifier: MIT */"
    printf "/*\n * stampede-guard %s in one file, made by amalgamate.sh; guard.h is its contract.\n *\n", version
    while ((getline line < (here "/LICENSE")) > 0)
        print line == "" ? " *" : " * " line
    print " */"
    print "#ifndef _GNU_SOURCE\n#define _GNU_SOURCE 1\n#endif\n#include \"adapters/epoll.h\""
    if (ARGV[ARGC - 1] ~ /\/locks\//)
        print "#include \"locks.h\""
    if (ARGV[ARGC - 1] ~ /\/locks\/redlock\//)
        print "#define GUARD_LOCKS_WITH_REDLOCK 1"
    for (i = 1; i < ARGC; i++)
        emit(substr(ARGV[i], length(here) + 2))
    exit failed
}' "$@" >"$out/guard.c"
