#!/bin/sh
# SPDX-License-Identifier: MIT
# deps.sh - installs the Debian packages that are missing, and nothing else.
#
#   sh load/deps.sh build [COMPILER]   what building, testing and the demo need
#   sh load/deps.sh library [COMPILER] what the library needs, alone
#   sh load/deps.sh client             psql
#   sh load/deps.sh lint | fuzz | valgrind | gate | model | bench | lab | world | docs  what these targets need on top
#   sh load/deps.sh man                what makes manual pages; package-test: what the tests judge them and the rest
#                                      with
#   sh load/deps.sh packaging          all that makes, judges and tries Debian packages, build and man included
#   sh load/deps.sh pgbouncer          the pooler that the tests of the PostgreSQL locks and the lab start
#   sh load/deps.sh mariadb            the server before which the tests put the proxy that counts
#   sh load/deps.sh zookeeper          the server that the tests of the ZooKeeper provider and the lab start
#   sh load/deps.sh hosts              the event loops and servers that the guard is tried in, and what builds
#                                      examples
#   sh load/deps.sh nginx              nginx and what its modules are built with
#   sh load/deps.sh units              what judges the units of app/deploy in the tests; it runs without systemd
#   sh load/deps.sh page-test          what looks at the page of a report in the tests
#   sh load/deps.sh formats            what reads the other formats of a report in the tests
#   sh load/deps.sh alerts             what reads the metrics and the alert rules in the tests
#   sh load/deps.sh peers [PACKAGE...] the caches that make peers compares, or these packages of them
#   sh load/deps.sh --list WHAT        prints the packages, installs nothing
#
# With DEPS_INSTALL=no nothing is installed, and only a library that is too old is refused.
#
# A need is met by a command, header or server binary that is there, however it came; only what is absent
# is installed. Installing leaves the system as it was otherwise: no service is started or enabled at boot,
# no database cluster is created.
set -eu

# package  what proves it: a command, or a file (patterns allowed)  for a library, its module in pkg-config and the
#                                                                   oldest version that the tests are run with
# A package with a ? is not in every release: it is installed where apt knows it.
# A section may begin with others.
needs='
library:
gcc               gcc
libc6-dev         /usr/include/stdlib.h
pkgconf           pkg-config
libhiredis-dev    /usr/include/hiredis/hiredis.h        hiredis 0.14
uthash-dev        /usr/include/uthash.h
libxxhash-dev     /usr/include/xxhash.h                 libxxhash 0.8
build: library
libuv1-dev        /usr/include/uv.h                     libuv 1.44
libmicrohttpd-dev /usr/include/microhttpd.h             libmicrohttpd 0.9.75
libjansson-dev    /usr/include/jansson.h                jansson 2.14
libpq-dev         /usr/include/postgresql/libpq-fe.h    libpq 15
libzookeeper-mt-dev /usr/lib/*/libzookeeper_mt.so
libssl-dev        /usr/include/openssl/ssl.h            openssl 3.0
openssl           openssl
libcmocka-dev     /usr/include/cmocka.h                 cmocka 1.1.5
libsystemd-dev    /usr/include/systemd/sd-daemon.h      libsystemd 252
redis-server      redis-server
postgresql        /usr/lib/postgresql/*/bin/initdb
client:
postgresql-client psql
lint:
clang-format clang-format
clang-tidy   clang-tidy
cppcheck     cppcheck
fuzz:
clang           clang
libclang-rt-dev /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a
valgrind:
valgrind valgrind
gate:
valgrind valgrind
strace   strace
model:
gcc  gcc
tcc  tcc
spin spin
zookeeper:
libzookeeper-java    /usr/share/java/zookeeper.jar
default-jre-headless java
pgbouncer:
pgbouncer pgbouncer
mariadb:
mariadb-server? mariadbd
libmariadb3?    /usr/lib/*/libmariadb.so.3
python3         /usr/bin/python3
bench:
nginx   nginx
varnish varnishd
wrk     wrk
hosts:
libevent-dev    /usr/include/event2/event.h
libev-dev       /usr/include/ev.h
libglib2.0-dev  /usr/include/glib-2.0/glib.h
libcivetweb-dev /usr/include/civetweb.h
libh2o-dev?     /usr/lib/*/libh2o.so
g++             g++
curl            curl
cmake           cmake
apache2-bin     apache2
apache2-dev     /usr/include/apache2/httpd.h
libcurl4-openssl-dev /usr/include/*/curl/curl.h
nginx:
nginx      nginx
nginx-dev? /usr/share/nginx/src/configure
units:
systemd systemd-analyze
man:
help2man  help2man
cmark-gfm cmark-gfm
package-test: man
mandoc          mandoc
man-db          man
bash-completion /usr/share/bash-completion/bash_completion
bsdextrautils   col
cmake           cmake
g++             g++
packaging: build man
build-essential /var/lib/dpkg/info/build-essential.list
debhelper       dh
dpkg-dev        dpkg-buildpackage
lintian         lintian
mmdebstrap      mmdebstrap
nginx-dev       dh_nginx
docs:
cmark-gfm cmark-gfm
world:
git        git
mmdebstrap mmdebstrap
uidmap     newuidmap
page-test:
chromium chromium
formats:
python3   /usr/bin/python3
cmark-gfm cmark-gfm
alerts:
prometheus promtool
peers:
wrk                   wrk
nginx                 nginx
nginx-dev             /usr/share/nginx/src/configure
varnish               varnishd
nodejs                node
npm                   npm
python3               /usr/bin/python3
python3-redis         /usr/lib/python3/dist-packages/redis/__init__.py
python3-waitress      /usr/lib/python3/dist-packages/waitress/__init__.py
python3-dogpile.cache /usr/lib/python3/dist-packages/dogpile/cache/__init__.py
lab: pgbouncer zookeeper
'

# is_met COMMAND-OR-PATTERN
is_met() {
    case $1 in
    /*) for file in $1; do [ -e "$file" ] && return 0; done; return 1 ;;
    *) PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1 ;;
    esac
}

# Those of a section, behind those of the sections that it names.
section() {
    echo "$needs" | awk -v wanted="$1" '
    function put(name,    i, n, others) {
        n = split(with[name], others, " ")
        for (i = 1; i <= n; i++)
            put(others[i])
        printf "%s", rows[name]
    }
    /^[a-z-]+:/ {
        name = $1
        sub(/:/, "", name)
        names = names ", " name
        $1 = ""
        with[name] = $0
        next
    }
    { rows[name] = rows[name] $0 "\n" }
    END {
        if (!(wanted in with)) {
            print "deps.sh: unknown: " wanted " (" substr(names, 3) ")" >"/dev/stderr"
            exit 2
        }
        put(wanted)
    }'
}

needs_of() {
    if [ "$1" = peers ]; then
        shift
        for package in "${@:-.*}"; do section peers | grep "^$package  *[^ ]"; done
        return
    fi
    section "$1" || exit 2
    # With the sanitizers, which the compiler of another release does not bring along.
    case ${2:-gcc} in
    *clang | *clang-[0-9]*)
        compiler=$(basename "$2")
        its=${compiler#clang}
        its=${its#-}
        echo "$compiler $2"
        echo "libclang-rt${its:+-$its}-dev /usr/lib/llvm-${its:-*}/lib/clang/*/lib/linux/libclang_rt.asan-*.a"
        ;;
    esac
}

# is_known PACKAGE: apt could install it
is_known() {
    apt-cache policy "$1" 2>/dev/null | grep -q '^  Candidate: [^(]'
}

missing_of() {
    needs_of "$@" | while read -r package proof module; do
        [ -n "$package" ] && ! is_met "$proof" || continue
        case $package in
        *\?) ! is_known "${package%?}" || echo "${package%?}" ;;
        *) echo "$package" ;;
        esac
    done
}

# One line for each library that is there and of no use.
refuse_old_ones() {
    old=$(needs_of "$@" | while read -r package proof module version; do
        [ -n "$module" ] && is_met "$proof" && ! pkg-config --exists "$module >= $version" || continue
        echo "$package: $module $version or later is needed, and pkg-config knows" \
            "$(pkg-config --modversion "$module" 2>/dev/null || echo none)"
    done)
    [ -z "$old" ] || { echo "$old" >&2; exit 1; }
}

if [ "${1:-}" = --list ]; then
    needs_of "${2:-build}" | while read -r package proof; do [ -z "$package" ] || echo "${package%\?}"; done
    exit 0
fi

# Who builds a package has its own list, and installs nothing by the way.
missing=
[ "${DEPS_INSTALL:-yes}" = no ] || missing=$(missing_of "$@" | tr '\n' ' ')
[ -n "$missing" ] || { refuse_old_ones "$@"; exit 0; }

# with_versions: of the missing packages, those that are libraries with what they must be
with_versions() {
    needs_of "$@" | while read -r package proof module version; do
        case " $missing" in
        *" $package "*) printf '%s' "$package${version:+ ($module $version or later)}, " ;;
        esac
    done | sed 's/, $//'
}
named=$(with_versions "$@")

refuse() {
    echo "$1: $named; apt-get install --no-install-recommends ${missing% }" >&2
    exit 1
}

command -v apt-get >/dev/null 2>&1 || refuse "Packages are missing and there is no apt-get here"
as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || refuse "Packages are missing, and there is no sudo to install them with"
    as_root=sudo
    if ! sudo -n true 2>/dev/null; then
        [ -t 0 ] || refuse "Packages are missing, and sudo wants a password"
    fi
fi

echo "installing: $missing" >&2

# The rest runs as root in one shell, so that sudo asks at most once. Two temporary files keep the packages
# quiet while they are set up: policy-rc.d (answer 101) is Debian's way to say "start nothing", a drop-in in
# createcluster.d its way to say "create no cluster". Where the administrator has a policy-rc.d of their own
# it stays untouched, whatever it says. Both files are gone again when this ends, however it ends.
# shellcheck disable=SC2016,SC2086
$as_root sh -euc '
policy=/usr/sbin/policy-rc.d
clusters=/etc/postgresql-common/createcluster.d
made=
# What a package enables at boot is a link in here, whichever package and unit it is, also if another one fails.
enabled() { find /etc/systemd/system -type l 2>/dev/null || true; }
before=$(enabled)
leave() {
    enabled | while read -r link; do echo "$before" | grep -qxF "$link" || rm -f "$link"; done
    rm -f $made
}
trap leave EXIT
trap "exit 1" HUP INT TERM
if [ ! -e "$policy" ]; then
    made="$made $policy"
    printf "#!/bin/sh\nexit 101\n" >"$policy"
    chmod 755 "$policy"
fi
mkdir -p "$clusters"
made="$made $clusters/stampede-guard.conf"
echo "create_main_cluster = false" >"$clusters/stampede-guard.conf"

export DEBIAN_FRONTEND=noninteractive
install() {
    apt-get -qq -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120 install --yes --no-install-recommends "$@"
}
install "$@" || { apt-get -qq update && install "$@"; }
' deps.sh $missing >&2 || refuse "Packages are missing and apt-get failed"

still=$(missing_of "$@" | tr '\n' ' ')
[ -z "$still" ] || refuse "apt-get succeeded, but ${still% } is still missing. All that was"
refuse_old_ones "$@"
