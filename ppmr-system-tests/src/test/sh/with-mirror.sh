#!/bin/bash
# Runs a command on a machine whose only source of packages is a directory. The packages in it are those of the suites
# forky and trixie, signed by a key that is made for this; with --untrusted the machine trusts another key.
#
#   unshare --mount --net --propagation private with-mirror.sh [--untrusted] FOLDER-OF-PACKAGES NEW-FOLDER COMMAND...
set -euo pipefail

trusted=mirror
if [ "$1" = --untrusted ]; then
    trusted=other
    shift
fi
packages=$1 mirror=$2
shift 2
mkdir -p "$mirror/pool" "$mirror/keys"
chmod 755 "$mirror"
chmod 700 "$mirror/keys"
cp "$packages"/*.deb "$mirror/pool/"
export GNUPGHOME=$mirror/keys
# gpg starts an agent, which is ended below.
for name in mirror other; do
    gpg --batch --quiet --passphrase '' --quick-generate-key "$name" ed25519 sign never 2>/dev/null
    gpg --batch --export "$name" >"$mirror/$name.gpg"
done
cd "$mirror"
# What the packages require, and what install-criu.sh does not download, is in the list alone: apt only has to find it.
for deb in pool/*.deb; do dpkg-deb -f "$deb" Package; done >had
for deb in pool/*.deb; do dpkg-deb -f "$deb" Depends Pre-Depends; done | sed 's/^[A-Za-z-]*: //; s/, */\n/g' | sort -u |
    awk 'NR == FNR { had[$1] = 1; next }
        { sub(/:any/, ""); gsub(/[()|=<>]/, " ") }
        !($1 in had) { had[$1] = 1; print "Package: " $1 "\nVersion: " (NF > 1 ? $2 : 1) "\nArchitecture: all\nFilename: pool/none\nSize: 1\n" }' had - >listed
for suite in forky trixie; do
    list=dists/$suite/main/binary-$(dpkg --print-architecture)
    mkdir -p "$list"
    dpkg-scanpackages --multiversion pool 2>/dev/null | cat - listed >"$list/Packages"
    {
        printf 'Suite: %s\nCodename: %s\nDate: %s\nArchitectures: %s\nComponents: main\nSHA256:\n' \
            "$suite" "$suite" "$(LC_ALL=C date -u '+%a, %d %b %Y %H:%M:%S UTC')" "$(dpkg --print-architecture)"
        printf ' %s %s %s\n' "$(sha256sum <"$list/Packages" | cut -d ' ' -f 1)" "$(stat -c %s "$list/Packages")" "${list#dists/"$suite"/}/Packages"
    } >"dists/$suite/Release"
    gpg --batch --quiet --local-user mirror --clearsign --output "dists/$suite/InRelease" "dists/$suite/Release"
done
gpgconf --kill gpg-agent
codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
mkdir sources
echo "deb [signed-by=$mirror/$trusted.gpg] file:$mirror $codename main" >sources/mirror.list
mount --bind sources /etc/apt/sources.list.d
[ ! -e /etc/apt/sources.list ] || mount --bind /dev/null /etc/apt/sources.list
cd /
unset GNUPGHOME
exec "$@"
