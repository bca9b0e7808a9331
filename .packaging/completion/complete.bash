#!/bin/bash
# SPDX-License-Identifier: MIT
# complete.bash FILE WORD... - what the completion in FILE offers for the last WORD of a command, one a line. For tests.
[ $# -ge 3 ] || { echo "usage: bash complete.bash FILE COMMAND WORD..." >&2; exit 2; }
. /usr/share/bash-completion/bash_completion
. "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMP_LINE="$*"
COMP_POINT=${#COMP_LINE}
function=$(complete -p "$1" | sed 's/.*-F \([^ ]*\).*/\1/')
"$function" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\n' "${COMPREPLY[@]}"
