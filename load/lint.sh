#!/bin/sh
# SPDX-License-Identifier: MIT
# lint.sh - who may include whom: guard/ nothing of ours outside its own folder, app/ only guard/guard.h of
# guard/ and nothing of load/, load/ nothing of the two; load/lab/ alone sets guard/guard.h beside other locks.
set -u

found=0

# forbid FOLDER PATTERN EXCEPT WHY
forbid() {
    bad=$(grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]+[\"<]$2" "$1"/*.[ch] /dev/null | grep -vE "[\"<]$3[\">]")
    [ -z "$bad" ] || { echo "$bad" >&2; echo "lint: $4" >&2; found=1; }
}

none='nothing is excepted'
forbid guard '(guard|app|load|sql|tests)/' "$none" 'guard/ must be copyable: include its own files by bare name, nothing else of ours'
forbid guard '\.\./' "$none" 'guard/ must be copyable: nothing above it'
for folder in app app/*/; do
    forbid "${folder%/}" 'guard/' 'guard/guard\.h' 'app/ may use only guard/guard.h of guard/'
    forbid "${folder%/}" '(load|tests)/' "$none" 'app/ may not include load/ or tests/'
done
for folder in load load/base load/stack load/herd load/witness load/report load/play load/bench load/peers; do
    forbid $folder '(guard|app|tests)/' "$none" 'load/ speaks HTTP, Redis and SQL only'
done
forbid load/lab 'guard/' 'guard/guard\.h' 'load/lab/ may use only guard/guard.h of guard/'
forbid load/lab '(app|tests)/' "$none" 'load/lab/ may not include app/ or tests/'
exit $found
