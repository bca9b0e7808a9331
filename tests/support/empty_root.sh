#!/bin/sh
# SPDX-License-Identifier: MIT
# empty_root.sh FOLDER - follows guard/README.md in a Debian that has nothing yet, which is made in FOLDER and removed
# again. As root, with mmdebstrap and a mirror. live/copy_test looks at the same lines without one.
set -eu

[ $# = 1 ] && [ ! -e "$1" ] || { echo "usage: sh empty_root.sh FOLDER, which does not exist yet" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "empty_root.sh: only root may make a root" >&2; exit 1; }
root=$1
trap 'rm -rf "$root"' EXIT

# block LANGUAGE: the README's
block() { sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/{/^\`\`\`/d;p}" guard/README.md; }

mmdebstrap --quiet --variant=minbase bookworm "$root" http://deb.debian.org/debian
mkdir -p "$root/app/third_party"
cp -r guard "$root/app/third_party/"
rm -rf "$root/app/third_party/guard/example/build"
block c >"$root/app/server.c"
block make >"$root/app/Makefile"
block sh >"$root/app/install"
chroot "$root" sh -euxc '
    cd /app
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    $(cat install) --yes -qq --no-install-recommends >/dev/null
    make
    test "$(./server redis://127.0.0.1:1)" = "hello user:7"
    make -C third_party/guard/example
    sh third_party/guard/amalgamate.sh one
    cc -std=c11 -fvisibility=hidden -c -o one.o one/guard.c
    cc -Ithird_party/guard -o one.bin server.c one.o -lhiredis -luv -pthread
    test "$(./one.bin redis://127.0.0.1:1)" = "hello user:7"' 2>"$root.log" >&2 || { tail -n 20 "$root.log" >&2; exit 1; }
rm -f "$root.log"
echo "guard/README.md holds in an empty root"
