#!/bin/bash
# Installs, verifies, upgrades, downgrades and removes the package for distributions with rpm, by rpm itself, in an overlay
# of this machine's own root, in namespaces. The database of rpm is empty, so nothing that the package requires is looked
# for. With one package there is no upgrade. It ends with status 0 when everything was as it must be.
#
#   unshare --mount --net --pid --fork --kill-child --propagation private package-rpm.sh RPM FOLDER-WITH-AN-OPEN-JOURNAL [OLD-RPM]
set -euo pipefail

if [ "${4:-}" != inside ]; then
    mount -t tmpfs -o size=2g,mode=755 package-test /mnt
    mkdir /mnt/upper /mnt/work /mnt/root
    mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work overlay /mnt/root
    mount -t proc proc /mnt/root/proc
    for folder in sys dev; do mount --rbind "/$folder" "/mnt/root/$folder"; done
    mount -t tmpfs package-test /mnt/root/run
    mkdir /mnt/root/scenario
    cp "$1" /mnt/root/scenario/new.rpm
    cp -r "$2" /mnt/root/scenario/open-journal
    [ -z "${3:-}" ] || cp "$3" /mnt/root/scenario/old.rpm
    cp "$0" /mnt/root/scenario/run
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
        chroot /mnt/root /bin/bash /scenario/run - - - inside
fi

cd /scenario
step() { printf '\n== %s\n' "$*"; }
wrong() {
    printf 'WRONG: %s\n' "$*"
    exit 1
}
# Debian's rpm wants to be told that it is meant.
if rpm --help | grep -q -- --force-debian; then force=--force-debian; else force=; fi
# by_rpm ROOT WORD...: rpm, with a database of its own below ROOT.
by_rpm() {
    local root=$1
    shift
    # shellcheck disable=SC2086 # it may be empty
    rpm $force --root "$root" --dbpath /var/lib/package-test-rpm "$@"
}
installed() { by_rpm / -q --qf '%{VERSION}' ppmr; }
# refused WORDS COMMAND...: the command fails, and names the cause.
refused() {
    local words=$1 said
    shift
    if said=$("$@" 2>&1); then wrong "not refused: $*: $said"; fi
    printf '%s\n' "$said"
    case $said in *"$words"*) ;; *) wrong "no '$words' in what $* printed" ;; esac
}
new=$(by_rpm / -qp --qf '%{VERSION}' new.rpm)

step "an empty root: the files alone"
mkdir empty
by_rpm /scenario/empty --nodeps --noscripts -i /scenario/new.rpm
# Sizes, digests, modes, owners, links: rpm prints each path that differs.
by_rpm /scenario/empty -V --nodeps --noscripts ppmr || wrong "rpm -V"
by_rpm / -qlp new.rpm | sort >listed.txt
(cd empty && find . -path ./var/lib/package-test-rpm -prune -o -print | sed 's/^\.//' | sort) >found.txt
[ -z "$(comm -23 listed.txt found.txt)" ] || wrong "missing: $(comm -23 listed.txt found.txt)"
# Directories above what is listed belong to other packages; rpm makes them.
while read -r path; do
    [ -d "empty$path" ] && [ ! -L "empty$path" ] || wrong "$path is not of the package"
done < <(comm -13 listed.txt found.txt)
[ "$(find empty \( ! -uid 0 -o ! -gid 0 -o -perm /6022 ! -type l \) -print)" = "" ] || wrong "owners or modes"
[ "$(readlink empty/usr/bin/ppmr)" = "../lib/ppmr/$new/ppmr" ] || wrong "the link of the command"
by_rpm /scenario/empty --noscripts -e ppmr
(cd empty && find . -name '*ppmr*') >left.txt
[ ! -s left.txt ] || wrong "left: $(cat left.txt)"

# ours: what has ppmr in its name, outside of what is kept.
ours() { find /usr /etc /var/lib -xdev -name '*ppmr*' ! -path '/etc/ppmr*' ! -path '/var/lib/ppmr*' | sort; }
[ ! -e /usr/bin/ppmr ] || wrong "ppmr is installed on this machine"
ours >before.txt
first=new.rpm
[ ! -e old.rpm ] || first=old.rpm

step "install, with the scripts"
by_rpm / --nodeps -i "$first"
getent group ppmr >/dev/null || wrong "the group is missing"
[ "$(stat -c '%a %U' /run/ppmr /var/lib/ppmr /var/lib/ppmr/work | tr '\n' ' ')" = "755 root 711 root 711 root " ] || wrong "modes of the directories"
[ -z "$(ls /etc/ppmr)" ] || wrong "/etc/ppmr has $(ls /etc/ppmr)"
ppmr --version
by_rpm / -V --nodeps ppmr || wrong "rpm -V"

if [ -e old.rpm ]; then
    old=$(by_rpm / -qp --qf '%{VERSION}' old.rpm)
    step "upgrade from $old, downgrade, upgrade, with no migration open"
    [ "$(installed)" = "$old" ] || wrong "$(installed)"
    by_rpm / --nodeps -U new.rpm
    [ "$(installed)" = "$new" ] || wrong "$(installed)"
    [ ! -e "/usr/lib/ppmr/$old" ] || wrong "files of $old are left"
    ppmr --version
    by_rpm / --nodeps -U --oldpackage old.rpm
    [ "$(installed)" = "$old" ] || wrong "$(installed)"
    by_rpm / --nodeps -U new.rpm
fi

step "a migration is open: what would end its job is refused"
cp -r open-journal /var/lib/ppmr/target-journal
refused "ppmr resolve" ppmr held
refused "it is not removed" by_rpm / -e ppmr
[ "$(installed)" = "$new" ] || wrong "$(installed)"
if [ -e old.rpm ]; then
    refused "may not read the journal" by_rpm / --nodeps -U --oldpackage old.rpm
    [ "$(installed)" = "$new" ] || wrong "$(installed)"
    [ ! -e "/usr/lib/ppmr/$old" ] || wrong "files were replaced"
fi
[ -x "/usr/lib/ppmr/$new/ppmr" ] || wrong "files were removed"

step "removal"
rm -r /var/lib/ppmr/target-journal
by_rpm / -e ppmr
[ ! -e /usr/lib/ppmr ] && [ ! -e /usr/bin/ppmr ] && [ ! -e /run/ppmr ] && [ ! -e /var/lib/ppmr/running ] || wrong "left: $(ls -d /usr/lib/ppmr /usr/bin/ppmr /run/ppmr /var/lib/ppmr/*)"
left=$(ours | comm -13 before.txt -)
[ -z "$left" ] || wrong "left: $left"
echo "all as it must be"
