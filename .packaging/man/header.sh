#!/bin/sh
# SPDX-License-Identifier: MIT
# header.sh HEADER VERSION SECONDS - a public header of guard/ as a manual page of section 3, to stdout: its comments
# are the contract. SECONDS since 1970 is the page's day. Needs cmark-gfm.
set -eu

[ $# = 3 ] || { echo "usage: sh header.sh HEADER VERSION SECONDS" >&2; exit 2; }
header=$1
case $(basename "$header") in
guard.h) page=stampede-guard; about='one load per cache key, fleet-wide: a guard against cache stampedes' ;;
advanced.h) page=stampede-guard-advanced; about='what most users of the guard do without' ;;
locks.h) page=stampede-guard-locks; about='locks that a fleet of hosts shares' ;;
host.h) page=stampede-guard-host; about="the guard and a host's own event loop" ;;
*) echo "header.sh: $header: there is no manual page about it" >&2; exit 2 ;;
esac
included=$(basename "$header" | sed 's/^advanced/guard/')

cat <<END
.\\" SPDX-License-Identifier: MIT
.TH $(echo $page | tr a-z A-Z) 3 "$(LC_ALL=C date -u -d "@$3" '+%Y-%m-%d')" "stampede-guard $2"
.SH NAME
$page \\- $about
.SH SYNOPSIS
.nf
.B #include <$included>
.fi
.PP
.B cc
.I program.c
.B $(printf '$(pkg-config \\-\\-cflags \\-\\-libs stampede-guard)')
.SH DESCRIPTION
The header, which is the contract.
END
# The title goes; its sections are those of the page. Paragraphs of text are filled.
awk -f guard/guide/reference.awk "$header" | sed -e 1d -e '/^<a id=/d' | cmark-gfm -t man |
    sed -e '/^\.SH "*DESCRIPTION/d' -e 's/\\f\[C\]/\\fB/g'
cat <<END
.SH "SEE ALSO"
.BR stampede-guard (3),
.BR stampede-guard-advanced (3),
.BR stampede-guard-locks (3),
.BR stampede-guard-host (3)
.PP
Beside this page: a README to look things up in, a guide from the first call to production, and a cookbook of whole programs.
END
