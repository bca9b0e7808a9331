#!/bin/sh
# SPDX-License-Identifier: MIT
# world.sh RELEASE PART... - in a Debian of another release, which is made in build/world: what a newcomer, a copier
# and CI do there, with HEAD. As root, or where a user may have namespaces; elsewhere every part is skipped.
#
#   demo      make demo, where there is nothing but git and make
#   test      make test, in the same root
#   guard     what guard/README.md says, where there is nothing at all
#   machines  guard/ and its unit tests on other machines and on musl: tests/world/machines.sh, in a root of its own
#   ci        what .ci/run has of it: everything compiles without a warning with gcc and clang, and the tests of what
#             differs by release pass
#
# The roots of machines and ci stay, with their packages, and make the next run shorter.
#
# Ends with "N passed, N failed, N skipped", summed up. sid is the canary: it may fail.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/world/root.sh

[ $# -ge 2 ] || { echo "usage: sh world.sh RELEASE PART...; -: the release that this machine has not" >&2; exit 2; }
release=$1
shift
[ "$release" != - ] || release=$(other_release)
world=$(pwd)/build/world
bare=$world/$release.tar
debs=$world/debs-$release
passed=0 failed=0 skipped=0

# The live and e2e tests of HTTP, Redis, PostgreSQL and TLS, and those that read what these write.
ci_tests='unit chaos/loads live/guard/guard_test live/guard/model_test live/guard/script_test live/redis/cluster
    live/redis/redis_ live/redis/sentinel live/redis/tls live/locks/lock_postgres live/locks/lock_test live/app/catalog
    live/app/given live/app/shelf live/app/viewers live/tester/stack install/examples e2e/bad_heads e2e/bad_http e2e/check
    e2e/restart e2e/stampede_test e2e/writes e2e/nginx_test'

# fresh ROOT PACKAGE...
fresh() {
    root=$1
    shift
    unpack "$bare" "$root" &&
        enter "$root" "$debs" "apt-get update -qq
            [ -z '$*' ] || apt-get install --yes -qq --no-install-recommends $* >/dev/null"
}

# clone ROOT: HEAD as /src; a clone that is there goes on, so that only what differs is built anew
clone() {
    if [ -e "$1/src/.git" ]; then
        as_root git -C "$1/src" fetch -q "$(pwd)" HEAD && as_root git -C "$1/src" reset -q --hard FETCH_HEAD
    else
        as_root git clone -q --no-hardlinks "$(pwd)" "$1/src"
    fi
}

# kept ROOT: fresh or as the run before has left it, with HEAD in it
kept() { { [ -e "$1/src/.git" ] || fresh "$1" git make; } && clone "$1"; }

part_demo() {
    remove_root "$world/$release"
    kept "$world/$release" && enter "$world/$release" "$debs" "cd /src; make demo"
}
part_test() { kept "$world/$release" && enter "$world/$release" "$debs" "cd /src; make test"; }

part_machines() {
    kept "$world/machines-$release" &&
        enter "$world/machines-$release" "$debs" "cd /src; sh tests/world/machines.sh"
}

part_ci() {
    kept "$world/ci-$release" && enter "$world/ci-$release" "$debs" "cd /src
        make warnings CC=clang
        make -j2 objects WERROR=1 CFLAGS='-Og -g1'
        make -j2 test WERROR=1 CFLAGS='-Og -g1' T='$(echo $ci_tests)'"
}

# block LANGUAGE: guard/README.md's
block() { sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/{/^\`\`\`/d;p}" guard/README.md; }

part_guard() {
    root=$world/guard-$release
    fresh "$root" || return 1
    mkdir -p "$world/app/third_party"
    git archive HEAD guard | tar -C "$world/app/third_party" -xf -
    block c >"$world/app/server.c"
    block make >"$world/app/Makefile"
    block sh >"$world/app/install"
    as_root cp -r "$world/app" "$root/"
    enter "$root" "$debs" '
        cd /app
        $(cat install) --yes -qq --no-install-recommends >/dev/null
        make
        test "$(./server redis://127.0.0.1:1)" = "hello user:7"
        make -C third_party/guard/example
        sh third_party/guard/amalgamate.sh one
        cc -std=c11 -fvisibility=hidden -c -o one.o one/guard.c
        cc -Ithird_party/guard -o one.bin server.c one.o -lhiredis -pthread
        test "$(./one.bin redis://127.0.0.1:1)" = "hello user:7"'
    status=$?
    remove_root "$root"
    rm -rf "$world/app"
    return $status
}

# run_part NAME: its own totals count, and it as one where it has none
run_part() {
    echo "=== $release: $1"
    began=$(date +%s)
    { "part_$1" 2>&1; echo "exit $?"; } | tee "$world/$1.log"
    set -- "$1" $(awk '/^([a-z0-9]+: )?[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$/ && !/^tests: / {
        sub(/^[a-z0-9]*: /, ""); p += $1; f += $3; s += $5 }
        END { print p + 0, f + 0, s + 0 }' "$world/$1.log")
    ended=$(tail -n 1 "$world/$1.log")
    case $ended,$2,$3 in
    'exit 0',0,0) set -- "$1" 1 0 "$4" ;;
    'exit 0',*) ;;
    *,0) set -- "$1" "$2" 1 "$4" ;;
    esac
    passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
    echo "$release: $1: $2 passed, $3 failed, $4 skipped, $(($(date +%s) - began)) s"
}

for part in "$@"; do
    grep -q "^part_$part()" tests/world/world.sh || { echo "world.sh: there is no part $part" >&2; exit 2; }
done
mkdir -p "$world"
for part in "$@"; do
    if can_have_roots; then
        [ -e "$bare" ] || make_root "$bare" "$release" || exit 1
        run_part "$part"
    else
        echo "$release: $part: SKIPPED, for a root needs root or a user's namespaces"
        skipped=$((skipped + 1))
    fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] || [ "$release" = sid ]
