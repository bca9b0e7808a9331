#!/bin/sh
# SPDX-License-Identifier: MIT
# install.sh [--remove] TABLE... - puts the files of the tables, .packaging/files or files.library, where they belong
# below $DESTDIR, or takes them away again.
#
# The names in a table come from the environment, which `make install` fills. Nothing is built here. A folder is
# removed if it is one of ours and nothing else is in it. Runs as any user that may write there.
set -eu

task=install
[ "$1" != --remove ] || { task=$1; shift; }
names='BUILD GUARD_LIB GUARD_SHARED GUARD_PLUGINS GUARD_ABI GUARD_SONAME GUARD_LIBS_PRIVATE VERSION PREFIX
    BINDIR LIBDIR INCLUDEDIR DATADIR MANDIR DOCDIR BASHCOMPDIR UNITDIR SYSCONFDIR PC_LIBDIR PC_INCLUDEDIR
    PC_PRIVATE GUARD_LIBS_PUBLIC'
fill=
for name in $names; do
    eval "value=\${$name?is not set: use make install}"
    fill="$fill;s|@$name@|$value|g"
done
fill=${fill#;}
# The units are whole files, with Debian's paths.
move="s|/usr/bin/catalogd|$BINDIR/catalogd|g;s|/etc/catalogd|$SYSCONFDIR/catalogd|g"

# aim SOURCE PLACE: sets $target, where this file goes
aim() {
    target=$DESTDIR$2
    case $2 in
    */) name=${1##*/}; target=$target${name%.in} ;;
    esac
}

# put MODE SOURCE TARGET
put() {
    case $1 in
    *[?]) [ ! -e "$3" ] || return 0 ;;
    esac
    [ -d "${3%/*}" ] || mkdir -p "${3%/*}"
    rm -f "$3"
    case $1 in
    link) ln -s "$2" "$3" ;;
    *+) sed "$fill;$move" "$2" >"$3" && chmod "${1%+}" "$3" ;;
    *) install -m "${1%[?]}" "$2" "$3" ;;
    esac
}

# remove TARGET: and the folders that were made for it
remove() {
    rm -f "$1"
    folder=${1%/*}
    while case $folder in */stampede-guard | */stampede-guard/* | */catalogd) true ;; *) false ;; esac; do
        rmdir "$folder" 2>/dev/null || break
        folder=${folder%/*}
    done
}

sed -e '/^#/d' -e '/^$/d' -e "$fill" "$@" | while read -r mode rest; do
    place=${rest##* }
    sources=${rest%"$place"} # there may be none
    for source in $sources; do
        aim "$source" "$place"
        case $task$mode in
        --remove*[?]) ;;
        --remove*) remove "$target" ;;
        *) put "$mode" "$source" "$target" ;;
        esac
    done
done
