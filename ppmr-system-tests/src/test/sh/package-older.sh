#!/bin/bash
# Makes a package for Debian of the same code with a lower number, out of the one that the build made.
#
#   package-older.sh NEW-DEB OLD-VERSION OLD-DEB
set -euo pipefail

given=$1 old=$2 made=$3
new=$(dpkg-deb -f "$given" Version)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
dpkg-deb -R "$given" "$work/tree"
cd "$work/tree"
mv "usr/lib/ppmr/$new" "usr/lib/ppmr/$old"
for file in DEBIAN/* usr/lib/systemd/system/*.service "usr/lib/ppmr/$old/package.properties"; do
    sed -i "s/${new//./\\.}/$old/g" "$file"
done
ln -sfn "../lib/ppmr/$old/ppmr" usr/bin/ppmr
for link in usr/lib/ppmr/*.sh; do ln -sfn "$old/conf/${link##*/}" "$link"; done
cd - >/dev/null
dpkg-deb -Zgzip -z1 -b "$work/tree" "$made" >/dev/null
