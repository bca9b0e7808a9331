#!/bin/sh
# SPDX-License-Identifier: MIT
# deb_test.sh FOLDER [RELEASE] - installs the packages in FOLDER in a Debian that has nothing yet, of this machine's
# release or another one, uses them as their tests/ do, removes and purges them. As root, with mmdebstrap and a
# mirror. Nothing of the packages may be left at the end.
set -eu
. tests/world/root.sh

[ $# -ge 1 ] && ls "$1"/*.deb >/dev/null ||
    { echo "usage: sh deb_test.sh FOLDER [RELEASE]: make deb fills the folder" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "deb_test.sh: only root may make a root" >&2; exit 1; }
debs=$1 release=${2:-$(host_release)}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"

needs=$(sed -n 's/^Depends: //p' .packaging/debian/tests/control | tr -d ' ' | tr ',' '\n' |
    grep -vx 'catalogd\|fleetlock\|stampede-tester\|lib[a-z-]*stampede[a-z-]*' | sort -u | paste -sd,)
# Nothing is started in there, whoever asks. The needs of the tests first, so that what the packages bring is seen.
mmdebstrap --quiet --variant=apt --include="$needs,logrotate" --setup-hook='mkdir -p "$1/etc/postgresql-common/createcluster.d" &&
    echo "create_main_cluster = false" >"$1/etc/postgresql-common/createcluster.d/none.conf"' \
    "$release" "$root" "$(mirror)"
mkdir "$root/debs"
cp "$debs"/*.deb "$root/debs/"
rm -f "$root"/debs/*-dbgsym_*
cp -r .packaging/debian/tests "$root/tests"
state() { chroot "$root" sh -c "find / -xdev -not -path '/proc*' -not -path '/sys*' -not -path '/dev/*' -not -path '/tmp/*' \
    -not -path '/debs/*' -not -path '/var/lib/dpkg/*' -not -path '/var/cache/*' -not -path '/var/log/*' -not -path '/run/*' \
    -not -path '/var/lib/apt/*' -not -path '/var/lib/systemd/*' -not -path '/root*' | sort"; }

chroot "$root" apt-get update -qq
state >"$root.before"
trap 'rm -rf "$root" "$root".before "$root".after' EXIT
# The programs look for themselves in /proc, PostgreSQL for its memory in /dev/shm; both are gone with the namespace.
unshare --mount --pid --fork sh -euc 'mount -t proc proc "$1/proc"; mkdir -p "$1/dev/shm"; mount -t tmpfs shm "$1/dev/shm"
    exec chroot "$1" sh -euxc "$2"' sh "$root" '
    export DEBIAN_FRONTEND=noninteractive
    apt-get install --yes -qq --no-install-recommends /debs/*.deb
    test ! -e /etc/systemd/system/multi-user.target.wants/catalogd.service
    test ! -e /etc/systemd/system/sockets.target.wants/catalogd.socket
    test "$(stat -c %a:%U /etc/catalogd/catalogd.env)" = 600:root
    logrotate -d /etc/logrotate.d/catalogd
    for test in $(sed -n "s/^Tests: //p" /tests/control); do
        export AUTOPKGTEST_TMP=/tmp/$test
        mkdir -m 777 $AUTOPKGTEST_TMP
        /tests/$test
    done
    ours="catalogd fleetlock stampede-tester libstampede-guard0.3 libstampede-guard0.3-postgres
        libstampede-guard0.3-zookeeper libstampede-guard-dev libnginx-mod-http-stampede"
    dpkg -V $ours
    apt-get purge --autoremove --yes -qq $ours' \
    >"$debs/test.log" 2>&1 || { tail -n 30 "$debs/test.log" >&2; echo "deb_test.sh: the whole log is $debs/test.log" >&2; exit 1; }
state >"$root.after"
diff "$root.before" "$root.after" || { echo "deb_test.sh: this is left of the packages" >&2; exit 1; }
echo "the packages hold in an empty root"
