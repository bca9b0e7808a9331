#!/bin/sh
# SPDX-License-Identifier: MIT
# deb.sh FOLDER VERSION - builds the Debian packages of HEAD in FOLDER, which is made anew, and judges them by
# lintian.
#
# Their unit tests do not run here (nocheck): those are `make test`'s. dpkg-buildpackage by hand runs them.
set -eu

[ $# = 2 ] || { echo "usage: sh deb.sh FOLDER VERSION" >&2; exit 2; }
out=$1 version=$2
name=stampede-guard
rm -rf "$out"
mkdir -p "$out"
${MAKE:-make} --no-print-directory dist DIST="$out" >/dev/null
mv "$out/$name-$version.tar.gz" "$out/${name}_$version.orig.tar.gz"
tar -C "$out" -xzf "$out/${name}_$version.orig.tar.gz"
cp -r "$out/$name-$version/.packaging/debian" "$out/$name-$version/"

unset MAKEFLAGS MAKELEVEL MAKEOVERRIDES
(
    cd "$out/$name-$version"
    export DEB_BUILD_OPTIONS="nocheck parallel=$(nproc)"
    dpkg-buildpackage -us -uc -Pnocheck
) >"$out/log" 2>&1 || { tail -n 40 "$out/log" >&2; echo "deb.sh: the whole log is $out/log" >&2; exit 1; }
# The restart of catalogd without a refused connection, its state folder and its user are systemd's: there is no
# script for another init. Not every lintian asks for one, and none takes a word about a tag that it does not know.
# The standards are those of the oldest release that this is packaged for.
but=out-of-date-standards-version
script=package-supports-alternative-init-but-no-init.d-script
! lintian-explain-tags "$script" >/dev/null 2>&1 || but=$but,$script
lintian --allow-root -EvIL +pedantic --tag-display-limit 0 --fail-on error,warning,info \
    --suppress-tags "$but" "$out"/*.changes >"$out/lintian" 2>&1 ||
    { grep '^[EWI]:' "$out/lintian" >&2; echo "deb.sh: the whole judgement is $out/lintian" >&2; exit 1; }
ls "$out"/*.deb
