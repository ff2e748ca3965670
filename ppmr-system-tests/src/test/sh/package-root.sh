#!/bin/bash
# Makes a root of a release of Debian, installs the packages for Debian there by apt with all that they require, runs the
# demo, and removes them. No Java, FUSE or systemd is in that root before. The sources of packages are the machine's own, for
# that release. It ends with status 0 when everything was as it must be, and with 77 where no root can be made.
#
#   unshare --mount --propagation private package-root.sh SUITE DEB DEMO-DEB FOLDER
set -euo pipefail

suite=$1 deb=$2 demo=$3 folder=$4
wrong() {
    printf 'WRONG: %s\n' "$*"
    exit 1
}
# The first of the machine's sources that has Debian's own release.
mirror=$(grep -rhoE '^(URIs:|deb) .*' /etc/apt/sources.list /etc/apt/sources.list.d/ 2>/dev/null |
    grep -oE '[a-z+]+:/[^ ]*' | grep -E '/debian/?$' | head -n 1) || true
[ -n "$mirror" ] || { echo "no source of this machine has Debian's packages"; exit 77; }
mkdir -p "$folder"
mount -t tmpfs -o size=3g,mode=755 package-root "$folder"
debootstrap --variant=minbase "$suite" "$folder" "$mirror" >"$folder.log" 2>&1 || {
    tail -n 5 "$folder.log"
    exit 77
}
for place in proc sys dev; do mount --rbind "/$place" "$folder/$place"; done
mount -t tmpfs package-root "$folder/run"
cp -r /etc/apt/apt.conf.d/. "$folder/etc/apt/apt.conf.d/"
[ ! -e /etc/resolv.conf ] || cp /etc/resolv.conf "$folder/etc/"
cp "$deb" "$folder/ppmr.deb"
cp "$demo" "$folder/ppmr-demo.deb"
inside() {
    chroot "$folder" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}
if inside bash -c 'command -v java || ls /lib/x86_64-linux-gnu/libfuse.so.2' 2>/dev/null; then wrong "the root is not bare"; fi
# What another package manager of this machine hooks in is not there.
rm -f "$folder"/etc/apt/apt.conf.d/{20packagekit,50appstream}
inside apt-get -q update >"$folder.log" 2>&1 || { tail -n 5 "$folder.log"; exit 77; }
inside apt-get -q -y install --no-install-recommends /ppmr.deb /ppmr-demo.deb >"$folder.log" 2>&1 || { tail -n 20 "$folder.log"; wrong "apt does not install it"; }
inside ppmr --version
inside ppmr doctor >"$folder.log" || true
cat "$folder.log"
for check in jdk native fuse-library; do
    grep -q "^  ok    $check " "$folder.log" || wrong "doctor: $check"
done
[ "$(inside ppmr held)" = "no migration is open" ] || wrong "held"
[ ! -e "$folder/run/systemd" ] || wrong "something of systemd runs"
# The demo enters namespaces by their roots, so the folder must be the root.
# shellcheck disable=SC2016 # the shell inside expands these
unshare --mount --propagation private bash -ec '
    cd "$1"
    mkdir machine
    pivot_root . machine
    exec chroot . /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        sh -c "umount -l /machine && rmdir /machine && exec ppmr demo"' bash "$folder" >"$folder.log" 2>&1 || { cat "$folder.log"; wrong "the demo"; }
cat "$folder.log"
results="continued from where it was, the original is gone; result equals that of an undisturbed run"
[ "$(grep -c "$results" "$folder.log")" -eq 4 ] || wrong "the demo's results"
grep -q "^Left out: ordinary processes with CRIU, because" "$folder.log" || wrong "CRIU is not in this root"
inside apt-get -q -y purge ppmr ppmr-demo
[ ! -e "$folder/usr/lib/ppmr" ] && [ ! -e "$folder/usr/lib/ppmr-demo" ] && [ ! -e "$folder/etc/ppmr" ] && [ ! -e "$folder/var/lib/ppmr" ] || wrong "files are left"
echo "all as it must be"
