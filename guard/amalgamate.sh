#!/bin/sh
# SPDX-License-Identifier: MIT
# amalgamate.sh FOLDER - the whole guard as FOLDER/guard.c and FOLDER/guard.h.
#
# Every .c file in turn, each header of ours where it is first included, the licence in front. A name may have only one
# meaning in all files; the compiler tells of a second one.
#
#     cc -std=c11 -D_GNU_SOURCE -fvisibility=hidden -c guard.c        # link with -lhiredis -luv -pthread
set -eu

out=${1:?the folder is missing: amalgamate.sh FOLDER}
here=$(dirname "$0")
mkdir -p "$out"
scripts=$out/guard_scripts.h
trap 'rm -f "$scripts"' EXIT
sh "$here/wire/scripts/embed.sh" "$scripts" "$here"/wire/scripts/*.lua
cp "$here/guard.h" "$out/guard.h"
version=$(sed -n 's/^#define GUARD_VERSION "\(.*\)"/\1/p' "$here/guard.h")
awk -v here="$here" -v scripts="$scripts" -v version="$version" '
# A path in this folder, without its "room/../".
function plain(path) {
    while (sub(/[a-z]+\/\.\.\//, "", path))
        continue
    return path
}

function emit(name,    line, header, path, room) {
    path = name == "guard_scripts.h" ? scripts : here "/" name
    room = name ~ /\// ? substr(name, 1, index(name, "/")) : ""
    printf "\n/* ======== %s ======== */\n\n", name
    while ((status = (getline line < path)) > 0) {
        if (line ~ /^[ \t]*#[ \t]*include[ \t]+"/) {
            header = line
            sub(/^[^"]*"/, "", header)
            sub(/".*/, "", header)
            if (header != "guard_scripts.h")
                header = plain(room header)
            if (header == "guard.h" || header in seen)
                continue
            seen[header] = 1
            emit(header)
            continue
        }
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
    print "#ifndef _GNU_SOURCE\n#define _GNU_SOURCE 1\n#endif\n#include \"guard.h\""
    for (i = 1; i < ARGC; i++)
        emit(substr(ARGV[i], length(here) + 2))
    exit failed
}' "$here"/base/*.c "$here"/core/*.c "$here"/redis/*.c "$here"/wire/*.c "$here"/run/*.c "$here"/api.c >"$out/guard.c"
