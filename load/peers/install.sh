#!/bin/sh
# SPDX-License-Identifier: MIT
# install.sh FOLDER [WORD...] - what these peers and contests need, without any word all of them: Debian's packages,
# and npm's into the folder. One that cannot be had does not stop the others; build/peers reports the peer that lacks
# it as not run. Where a word is no peer, contest or option nothing is installed: build/peers refuses it. Always exits
# with 0 but for a folder that cannot be made.
set -u

here=$(dirname "$0")
deps=$here/../deps.sh
folder=${1:?usage: install.sh FOLDER [WORD...]}
shift

# packages WORD: of a peer or a contest
packages() {
    python='python3 python3-waitress'
    case $1 in
    module) echo nginx nginx-dev ;;
    nginx | varnish) echo "$1" ;;
    bentocache | dedupe) echo nodejs npm ;;
    dogpile) echo "$python" python3-redis python3-dogpile.cache ;;
    guide) echo "$python" python3-redis ;;
    hits) echo wrk ;;
    esac
}

# Where no word is a peer all peers run; and so with contests.
words=$*
peers='module nginx varnish bentocache dedupe dogpile guide'
contests=hits
for word in $words; do
    case $word in
    catalogd | module | nginx | varnish | bentocache | dedupe | dogpile | guide) peers= ;;
    burst | rolling | hits | faults) contests= ;;
    --* | [0-9]*) ;;
    *) exit 0 ;; # build/peers says so
    esac
done
words="$words $peers $contests"
wanted=$(for word in $words; do packages "$word"; done | tr ' ' '\n' | sort -u)

# All at once is quick; one by one finds those that can be had.
# shellcheck disable=SC2086
[ -z "$wanted" ] || sh "$deps" peers $wanted || for package in $wanted; do
    sh "$deps" peers "$package" 2>/dev/null || echo "peers: cannot install Debian's $package" >&2
done

# A module finds its packages from where it lies, so ours are copied beside them.
mkdir -p "$folder" || exit 1
folder=$(cd "$folder" && pwd)
for file in "$here"/node/*.mjs "$here"/node/package.json "$here"/node/package-lock.json; do
    cmp -s "$file" "$folder/${file##*/}" || cp "$file" "$folder/"
done

# Not wanted, or installed already, for this very lock file?
echo "$wanted" | grep -qx npm || exit 0
cmp -s "$folder/package-lock.json" "$folder/node_modules/.peers" && exit 0
command -v npm >/dev/null 2>&1 || { echo 'there is no npm' >"$folder/failure"; exit 0; }
echo 'installing: the packages of load/peers/node/package-lock.json, from the npm registry' >&2
if (cd "$folder" && timeout 300 npm ci --fetch-retries=1 --ignore-scripts --no-audit --no-fund --loglevel=error) >"$folder/npm.log" 2>&1; then
    cp "$folder/package-lock.json" "$folder/node_modules/.peers"
    rm -f "$folder/failure"
else
    echo "npm ci failed, see $folder/npm.log" >"$folder/failure"
    echo "peers: npm ci failed; $folder/npm.log ends:" >&2
    tail -n 5 "$folder/npm.log" >&2
fi
exit 0
