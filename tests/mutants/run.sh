#!/bin/sh
# SPDX-License-Identifier: MIT
# run.sh - who finds sown bugs? Every mutant of tests/mutants/table against the simulator and against programs
# that use real servers; the matrix of who killed whom.
#
#   sh tests/mutants/run.sh [WORD]      only mutants whose name contains WORD; exit status 1 if one survives
#
# The tree is copied once (what git knows, as it stands, and the objects of BUILD, build/gcc by default). A mutant
# changes one file there, make builds what depends on it, the file comes back. Its programs run until one fails;
# the first test that failed, crashed or hung is the one that found it. Before anything is sown, every program has
# to pass: who fails without a reason finds nothing. Ends with "N passed, N failed"; a mutant that real servers or,
# where it is the simulator's, the simulator let live has failed. So has one whose program was still running after
# TEST_LIMIT_S, the limit of `make test`: a slow machine is told as TIMED OUT, and only a mutant whose name ends with
# "(hangs)" is found by that.
set -u

only=${1:-}
limit_s=${TEST_LIMIT_S:-600}
CC=${CC:-gcc}
BUILD=${BUILD:-build/gcc}
folder=$(pwd)/build/mutants
tree=$folder/tree
table=$tree/tests/mutants/table
unset MAKEFLAGS MFLAGS MAKELEVEL
running=

stop() {
    [ -z "$running" ] || { kill "$running" && wait "$running"; } 2>/dev/null
    running=
}
trap stop EXIT
trap 'exit 130' INT TERM

mutants() {
    grep -v -e '^#' -e '^$' "$table" | if [ -n "$only" ]; then grep -e "^[^|]*$only"; else cat; fi
}

copy_tree() {
    rm -rf "$tree"
    mkdir -p "$tree/$BUILD"
    git ls-files -z | tar --null --ignore-failed-read -T - -cf - | tar -xf - -C "$tree" || exit 2
    [ ! -d "$BUILD" ] || cp -a "$BUILD/." "$tree/$BUILD/"
}

# build PROGRAM...
build() {
    (cd "$tree" && make -j2 CC="$CC" SAN="${SAN:-}" BUILD="$BUILD" $(printf "$BUILD/tests/%s " "$@")) \
        >"$folder/make.log" 2>&1
}

# The first test of a log that failed; the one that was running if the program ended with it.
first_failure() {
    failed=$(sed -n 's/^\[  FAILED  \] \([a-z_0-9]*\)$/\1/p' "$folder/test.log" | head -n 1)
    [ -n "$failed" ] || failed=$(sed -n 's/^\[ RUN      \] \([a-z_0-9]*\)$/\1/p' "$folder/test.log" | tail -n 1)
    echo "${failed:-start}"
}

# run PROGRAM: true if it passes, 124 if it took too long. One that has failed a test is not waited for.
run() {
    (cd "$tree" && CATALOGD=$BUILD/catalogd exec timeout -k 10 "$limit_s" "$BUILD/tests/$1") \
        >"$folder/test.log" 2>&1 &
    running=$!
    while kill -0 "$running" 2>/dev/null && ! grep -q '^\[  FAILED  \]' "$folder/test.log"; do
        sleep 0.2
    done
    if grep -q '^\[  FAILED  \]' "$folder/test.log"; then
        stop
        return 1
    fi
    wait "$running"
    status=$?
    running=
    [ $status != 137 ] || status=124 # it did not end on SIGTERM either
    return $status
}

# judge PROGRAM...: who found it, or nothing; or who took too long
judge() {
    found=
    late=
    for program in "$@"; do
        run "$program"
        case $? in
        0) ;;
        124) late="$program: $(first_failure)" && return ;;
        *) found="$program: $(first_failure)" && return ;;
        esac
    done
}

# is_found NAME
is_found() {
    [ -n "$found" ] && return
    case $1 in
    *'(hangs)') [ -n "$late" ] ;;
    *) false ;;
    esac
}

# sow FILE SCRIPT: false if it changes nothing
sow() {
    cp "$tree/$1" "$folder/unmutated"
    sed "$2" "$folder/unmutated" >"$tree/$1"
    ! cmp -s "$folder/unmutated" "$tree/$1"
}

simulated() {
    case $1:$2 in
    *:guard/flight*.c | *:guard/near*.c | *:guard/permits.c | 'share '*) sed -n "s/^$1: found.*/found/p;s/^$1: SURVIVED.*/SURVIVED/p" "$folder/simulator.log" ;;
    *) echo - ;;
    esac
}

row() {
    printf '%-50s | %-9s | %s\n' "$1" "$2" "$3"
}

mkdir -p "$folder"
copy_tree
echo "== the simulator"
(cd "$tree" && CC=$CC sh tests/sim/mutants.sh) >"$folder/simulator.log" 2>&1
tail -n 1 "$folder/simulator.log"
echo "== nothing sown"
programs=$(mutants | cut -d'|' -f3 | tr ' ' '\n' | sort -u)
build $programs || { cat "$folder/make.log"; exit 2; }
judge $programs
[ -z "$found" ] || { cat "$folder/test.log"; echo "fails without a mutant: $found"; exit 2; }
[ -z "$late" ] || { cat "$folder/test.log"; echo "not over after $limit_s s without a mutant: $late"; exit 2; }
row mutant simulator "real servers"

passed=0
failed=0
mutants >"$folder/mutants"
while IFS='|' read -r name file programs script <&3; do
    sow "$file" "$script" || { echo "$name: changes nothing any more"; exit 2; }
    build $programs || { cat "$folder/make.log"; echo "$name: does not build"; exit 2; }
    judge $programs
    cp "$folder/unmutated" "$tree/$file"
    simulator=$(simulated "$name" "$file")
    verdict=${found:-${late:+TIMED OUT in $late}}
    row "$name" "${simulator:-NOT RUN}" "${verdict:-SURVIVED}"
    if is_found "$name" && { [ "$simulator" = found ] || [ "$simulator" = - ]; }; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
done 3<"$folder/mutants"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
