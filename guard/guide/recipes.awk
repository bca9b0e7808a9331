# SPDX-License-Identifier: MIT
# recipes.awk - takes the programs out of cookbook.md: awk -v to=FOLDER -f recipes.awk cookbook.md
#
# A block of C or C++ begins with the name of its file; the block of text below it shows the command and then what it
# prints.
# Leaves NAME.c or NAME.cpp and NAME.prints, and prints each NAME with the arguments that it takes beside a Redis.
/^```c(pp)?$/       { kind = "program"; name = ""; next }
/^```text$/    { kind = "text"; first = 1; next }
/^```$/        { close(file); kind = ""; next }
kind == "program" && name == "" { file = to "/" $2; name = $2; sub(/\.c(pp)?$/, "", name); printf "" >(to "/" name ".prints") }
kind == "program" { print >file }
kind == "text" && first { print name, NF - 3; first = 0; file = to "/" name ".prints"; next }
kind == "text" { print >file }
