#!/bin/sh
# SPDX-License-Identifier: MIT
# warnings.sh CLANG FLAG... <FILES - compiles no file, and says what clang warns of in each; exit status 1 if it does
#
# The driver starts a process for each file, which takes longer than to read most of them. What it would start, as
# -### has it, takes any number of files. An error is an error of all, so -Werror belongs to the flags.
set -eu
command=$("$@" -fsyntax-only '-###' -x c /dev/null 2>&1 | tail -n 1)
case $command in
*'"-cc1"'*'"/dev/null"') ;;
*) echo "warnings.sh: $1 is no clang: $command" >&2; exit 2 ;;
esac
xargs -P "$(nproc)" -n 60 sh -c "${command%\"/dev/null\"} "'"$@"' warnings
