#!/bin/bash
# Installs, upgrades, downgrades, removes and purges the packages for Debian, by dpkg, in an overlay of this machine's own
# root, in namespaces, and shows the demo's first act. There is no systemd in it. It ends with status 0 when everything was as it must be. With "short" it
# leaves out what takes longest: downgrades, other journals, and a removal without Java.
#
#   unshare --mount --net --pid --fork --kill-child --propagation private package-scenario.sh DEB DEMO-DEB FOLDER-WITH-AN-OPEN-JOURNAL [short]
set -euo pipefail

if [ "${5:-}" != inside ]; then
    mount -t tmpfs -o size=2g,mode=755 package-test /mnt
    mkdir /mnt/upper /mnt/work /mnt/root
    mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
    mount -t proc proc /mnt/root/proc
    for folder in sys dev; do mount --rbind "/$folder" "/mnt/root/$folder"; done
    ip link set lo up
    mount -t tmpfs package-test /mnt/root/run
    mkdir /mnt/root/scenario
    cp "$1" /mnt/root/scenario/new.deb
    cp "$2" /mnt/root/scenario/demo.deb
    cp -r "$3" /mnt/root/scenario/open-journal
    cp "$0" /mnt/root/scenario/run
    cp "${0%/*}/package-older.sh" /mnt/root/scenario/older
    # The demo enters namespaces by their roots. So the overlay must be the root itself: a chroot is not enough.
    cd /mnt/root
    mkdir /mnt/root/machine
    pivot_root . machine
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        chroot . /bin/bash -ec 'umount -l /machine; rmdir /machine; exec /bin/bash /scenario/run - - - "$0" inside' "${4:-long}"
fi

cd /scenario
step() { printf '\n== %s\n' "$*"; }
wrong() {
    printf 'WRONG: %s\n' "$*"
    exit 1
}
installed() { dpkg-query -W -f='${db:Status-Status} ${Version}' ppmr 2>/dev/null || true; }
# refused WORDS COMMAND...: the command fails, and names the cause.
refused() {
    local words=$1 said
    shift
    if said=$("$@" 2>&1); then wrong "not refused: $*: $said"; fi
    printf '%s\n' "$said"
    case $said in *"$words"*) ;; *) wrong "no '$words' in what $* printed" ;; esac
}

part=$4
new=$(dpkg-deb -f new.deb Version)
old=0.0.9
[ -z "$(installed)" ] || wrong "ppmr is installed on this machine"

step "a package of the same code with a lower number"
bash older new.deb "$old" old.deb

# ours: what has ppmr in its name, outside of what is kept and of dpkg's own records.
ours() { find /usr /etc /var/lib -xdev -name '*ppmr*' ! -path '/etc/ppmr*' ! -path '/var/lib/dpkg/*' ! -path '/var/lib/ppmr*' | sort; }
ours >before.txt

step "install $old: nothing runs, nothing is configured"
dpkg -i old.deb
[ "$(installed)" = "installed $old" ] || wrong "$(installed)"
[ -z "$(ls /etc/ppmr)" ] || wrong "/etc/ppmr has $(ls /etc/ppmr)"
getent group ppmr >/dev/null || wrong "the group is missing"
[ "$(stat -c '%a %U' /run/ppmr /var/lib/ppmr /var/lib/ppmr/work | tr '\n' ' ')" = "755 root 711 root 711 root " ] || wrong "modes of the directories"
ppmr --version | grep -E "^ppmr [0-9.]+( \([0-9a-f]+\))?, protocol [0-9]+( \([a-z0-9 ]+\))?, journal [0-9]+( \([a-z0-9 ]+\))?\$" || wrong "no version"
[ "$(ppmr held)" = "no migration is open" ] || wrong "held"
ppmr doctor >doctor.txt || true
grep -q "ok    fuse-library" doctor.txt || wrong "doctor: $(cat doctor.txt)"

step "what the pages lead to is in the package"
broken=$(cd /usr/share/doc/ppmr && for page in admin/*.md user/*.md reference/*.md; do
    { grep -o ']([^):#]*' "$page" || true; } | cut -c 3- | while read -r link; do
        case $link in '' | http | https) continue ;; esac
        [ -e "$(dirname "$page")/$link" ] || echo "$page: $link"
    done
done)
# These two are of the tree of sources.
[ "$broken" = "$(printf '%s\n' 'admin/security.md: ../../SECURITY.md' 'reference/configuration.md: ../../conf')" ] || wrong "$broken"
[ -s /usr/share/doc/ppmr/monitoring/ppmr-alerts.yml ] || wrong "the alert rules are missing"

step "start a target"
cat >/etc/ppmr/target.toml <<'TOML'
listen = "127.0.0.1:17411"
mount = "/run/ppmr/target"
key_file = "/etc/ppmr/key"

[checkpointers.own]
type = "command"
checkpoint = ["/bin/false"]
restart = ["/bin/false"]
TOML
ppmr keygen /etc/ppmr/key
cp /etc/ppmr/target.toml target.toml
# start LOG: starts a target, waits until it is ready, and sets service.
start() {
    ppmr target --config /etc/ppmr/target.toml >"$1" 2>&1 &
    service=$!
    for _ in $(seq 240); do
        if grep -qx ready "$1"; then return; fi
        kill -0 "$service" 2>/dev/null || break
        sleep 0.25
    done
    wrong "the target is not ready: $(cat "$1")"
}
# Prints the names of the service's open files. One that is closed in the meantime has none.
open_files() {
    local fd
    for fd in "/proc/$service/fd/"*; do
        readlink "$fd" || true
    done
}
start target-old.log
open_files | grep "^/var/lib/ppmr/running/$old/" >/dev/null || wrong "the target does not run out of its copy"
if open_files | grep "^/usr/lib/ppmr/" >/dev/null ; then wrong "the target has files of the package open"; fi
[ "$(stat -c %i "/usr/lib/ppmr/$old/ppmr")" = "$(stat -c %i "/var/lib/ppmr/running/$old/ppmr")" ] || echo "(copied: another file system)"

step "upgrade to $new while it runs"
dpkg -i new.deb
[ "$(installed)" = "installed $new" ] || wrong "$(installed)"
[ ! -e "/usr/lib/ppmr/$old" ] || wrong "files of $old are left"
kill -0 "$service" || wrong "the target was ended"
cmp /etc/ppmr/target.toml target.toml || wrong "the configuration"
# The new client talks to the old service, which loads what it needs for that now.
ppmr status --json --config /etc/ppmr/target.toml | grep '"role":"target"' >/dev/null || wrong "status"
ppmr status --config /etc/ppmr/target.toml >status.txt
cat status.txt
grep -q "^idle" status.txt || wrong "status for people"
grep -q "^version $new is installed, and waits" status.txt || wrong "status does not name the version that waits"
ppmr doctor --config /etc/ppmr/target.toml >doctor.txt || true
grep -q "version .*and $new is installed" doctor.txt || wrong "doctor does not name the version that waits: $(cat doctor.txt)"
ls "/var/lib/ppmr/running/$old/lib" | grep '^ppmr-daemon' >/dev/null || wrong "the copy is gone"
if open_files | grep -E "^/usr/lib/ppmr/|deleted"; then wrong "the target has files of a package open"; fi

step "a removal is refused while a service runs"
refused "a service runs out of /var/lib/ppmr/running/$old" dpkg -r ppmr
[ -x "/usr/lib/ppmr/$new/ppmr" ] || wrong "files were removed"
# dpkg leaves a package whose removal was refused as it was.
[ "$(installed)" = "installed $new" ] || wrong "$(installed)"
kill "$service"
wait "$service" || true

step "a start of the new version takes the old copy away"
start target-new.log
[ ! -e "/var/lib/ppmr/running/$old" ] || wrong "the copy of $old is left"
if ppmr status --config /etc/ppmr/target.toml | grep "waits"; then wrong "a version waits that runs"; fi
[ "$(ls /var/lib/ppmr/running | tr '\n' ' ')" = "$new lock " ] || wrong "copies: $(ls /var/lib/ppmr/running)"
kill "$service"
wait "$service" || true

step "the demo, which has a package of its own"
refused "ppmr-demo of version $new" ppmr demo
refused "ppmr-demo_${new}_amd64.deb" ppmr demo --help
dpkg -i demo.deb
ppmr help >help.txt
grep -q "^  demo " help.txt || wrong "help does not list the demo: $(cat help.txt)"
ppmr help demo >demo-help.txt
grep -q -- "--checkpointer" demo-help.txt || wrong "the demo's help: $(cat demo-help.txt)"
ppmr demo --checkpointer blcr --processes 2 --size 16m --json demo.json | tee demo.txt
[ "$(grep -c "continued from where it was, the original is gone; result equals that of an undisturbed run" demo.txt)" -eq 2 ] ||
    wrong "the demo's results"
grep -q '"outcome" : "committed"' demo.json || wrong "the demo's file"
left=$(find /var/lib/ppmr -maxdepth 1 -name 'ppmr-testbed-*')
[ -z "$left" ] || wrong "the demo left $left"
refused "ppmr-demo depends on ppmr" dpkg -r ppmr
dpkg -P ppmr-demo
[ ! -e /usr/lib/ppmr-demo ] && [ ! -e /usr/share/doc/ppmr-demo ] || wrong "files of the demo are left"
refused "ppmr-demo of version $new" ppmr demo

if [ "$part" = long ]; then
step "downgrade and upgrade while no migration is open"
dpkg -i old.deb
[ "$(installed)" = "installed $old" ] || wrong "$(installed)"
dpkg -i new.deb

step "a journal is of a version that only a later release reads: refused"
mv /var/lib/ppmr/target-journal closed-journal
mkdir /var/lib/ppmr/target-journal
printf 'PPMRJRN9' >/var/lib/ppmr/target-journal/journal
refused "is of version '9', and this release reads versions" dpkg -i old.deb
refused "is of version 9, and $new reads no version above" dpkg -i new.deb
rm -r /var/lib/ppmr/target-journal
mv closed-journal /var/lib/ppmr/target-journal
dpkg -i new.deb
[ "$(installed)" = "installed $new" ] || wrong "$(installed)"
fi

step "a migration is open: removal and downgrade are refused"
mv /var/lib/ppmr/target-journal closed-journal
cp -r open-journal /var/lib/ppmr/target-journal
refused "ppmr resolve" ppmr held
refused "it is not removed" dpkg -r ppmr
[ "$(installed)" = "installed $new" ] || wrong "$(installed)"
refused "may not read the journal" dpkg -i old.deb
[ "$(installed)" = "installed $new" ] || wrong "$(installed)"
[ -x "/usr/lib/ppmr/$new/ppmr" ] && [ ! -e "/usr/lib/ppmr/$old" ] || wrong "files were replaced"
ppmr --version >/dev/null
if [ "$part" = long ]; then
# An upgrade is not: the new version reads what is open.
dpkg -i new.deb

step "no java can run, and a journal is there: refused"
mv /usr/lib/jvm /usr/lib/jvm-away
refused "it is unknown whether a rank is held" dpkg -r ppmr
mv /usr/lib/jvm-away /usr/lib/jvm
fi

step "removal"
rm -r /var/lib/ppmr/target-journal
mv closed-journal /var/lib/ppmr/target-journal
dpkg -r ppmr
[ ! -e /usr/lib/ppmr ] && [ ! -e /usr/bin/ppmr ] && [ ! -e /run/ppmr ] && [ ! -e /var/lib/ppmr/running ] || wrong "left: $(ls -d /usr/lib/ppmr /usr/bin/ppmr /run/ppmr /var/lib/ppmr/*)"
if grep -q ppmr /proc/self/mounts; then wrong "mounts: $(grep ppmr /proc/self/mounts)"; fi
[ -e /etc/ppmr/key ] && [ -e /etc/ppmr/target.toml ] || wrong "the configuration was removed"
left=$(ours | comm -13 before.txt -)
[ -z "$left" ] || wrong "left: $left"

step "purge"
dpkg -P ppmr 2>&1 | tee purge.txt
grep -q "with the configurations and the keys" purge.txt && grep -q "with all journals" purge.txt || wrong "purge does not name what it takes"
[ ! -e /etc/ppmr ] && [ ! -e /var/lib/ppmr ] || wrong "left: $(ls -d /etc/ppmr /var/lib/ppmr)"
[ -z "$(installed)" ] || wrong "$(installed)"
echo "all as it must be"
