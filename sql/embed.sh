#!/bin/sh
# SPDX-License-Identifier: MIT
#
# embed.sh - SQL statements as C string literals, made at build time.
#
#     sql/embed.sh OUT.h FILE.sql...
#
# sql/load_product.sql becomes the macro SQL_LOAD_PRODUCT. Lines that begin with "--" and empty lines are left
# out; the marker comment, by which the server's statement log is counted, stays. A file must hold exactly one
# statement and no semicolon: it is sent over the extended protocol. OUT.h is replaced as a whole or not at
# all. The Makefile writes app_statements.h, from all files but schema.sql and seed.sql, into the build folder.
set -eu

if [ $# -lt 2 ]; then
    echo "usage: sql/embed.sh OUT.h FILE.sql..." >&2
    exit 2
fi
out=$1
shift
trap 'rm -f "$out.$$"' EXIT

{
    echo '/* Made by sql/embed.sh; edit the .sql files instead. */'
    echo '#ifndef APP_STATEMENTS_H'
    echo '#define APP_STATEMENTS_H'
    for file in "$@"; do
        name=$(basename "$file" .sql | tr '[:lower:]' '[:upper:]' | tr -c 'A-Z0-9\n' '_')
        if grep -v '^ *--' "$file" | grep -q ';'; then
            echo "embed.sh: $file: a semicolon; one statement a file, without one" >&2
            exit 1
        fi
        printf '\n#define SQL_%s' "$name"
        grep -v -e '^ *--' -e '^ *$' "$file" |
            sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^ */&/' |
            while IFS= read -r line; do
                printf ' \\\n    "%s\\n"' "$line"
            done
        printf '\n'
    done
    printf '\n#endif\n'
} >"$out.$$"
mv "$out.$$" "$out"
