#!/bin/bash
# Unpacks Debian packages of another suite, with all they need, into a folder of their own. The system's
# packages and its lists of packages stay as they are, and no root is needed.
#
#   unpack-debian.sh SUITE FOLDER PACKAGE...
#
# Where to fetch from is taken from the machine's own apt sources: each Debian source of the running
# release is copied with SUITE in the place of that release's name, so mirrors, proxies and keys stay.
# FOLDER appears only when it is complete. Exit status: 0 unpacked (or already there), 1 not, with the reason.
set -euo pipefail

fail() {
    printf 'unpack-debian: %s\n' "$*" >&2
    exit 1
}

[ $# -ge 3 ] || fail "usage: unpack-debian.sh SUITE FOLDER PACKAGE..."
suite=$1
folder=$2
shift 2
[ ! -e "$folder" ] || exit 0
command -v apt-get >/dev/null || fail "apt-get is not here: only Debian's packages can be unpacked"
# shellcheck source=/dev/null
release=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
[ -n "$release" ] || fail "/etc/os-release does not name this release (VERSION_CODENAME)"

mkdir -p "$(dirname "$folder")"
work=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/etc/parts" "$work/state/lists/partial" "$work/cache/archives/partial" "$work/root"
touch "$work/state/status"

# Entries whose suite is the release's bare name, or its updates or security, and no third party's.
derive_sources() {
    local file
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -r "$file" ] || continue
        sed -nE "/^deb(-src)?[[:space:]]/{/^deb-src/d; s#([[:space:]])$release(-updates|-security|/updates)?([[:space:]])#\1$suite\2\3#p}" "$file"
    done >"$work/etc/parts/derived.list"
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -r "$file" ] || continue
        awk -v from="$release" -v to="$suite" '
            BEGIN { RS = ""; ORS = "\n\n" }
            {
                lines = split($0, line, "\n"); text = ""; wanted = 0
                for (i = 1; i <= lines; i++) {
                    if (tolower(line[i]) ~ /^suites:/) {
                        count = split(line[i], word, /[ \t]+/); kept = "Suites:"
                        for (j = 2; j <= count; j++) {
                            rest = substr(word[j], length(from) + 1)
                            if (index(word[j], from) == 1 && rest ~ /^(|-updates|-security)$/) {
                                kept = kept " " to rest; wanted = 1
                            }
                        }
                        line[i] = kept
                    }
                    text = text (i > 1 ? "\n" : "") line[i]
                }
                if (wanted) print text
            }' "$file" >"$work/etc/parts/$(basename "$file")"
    done
    # An empty file of sources is an error to apt.
    find "$work/etc/parts" -type f -size 0 -delete
}

derive_sources
[ -n "$(ls -A "$work/etc/parts")" ] || fail "no apt source of this machine names its own release, $release: nothing to derive $suite from"

options=(
    -o "Dir::Etc::SourceList=/dev/null"
    -o "Dir::Etc::SourceParts=$work/etc/parts"
    -o "Dir::State=$work/state"
    -o "Dir::State::status=$work/state/status"
    -o "Dir::Cache=$work/cache"
    -o "Debug::NoLocking=1"
    -o "APT::Sandbox::User="
    -o "APT::Install-Recommends=0"
    -o "APT::Update::Post-Invoke-Success="
    -o "APT::Update::Post-Invoke="
    -o "DPkg::Post-Invoke="
)
apt-get -q "${options[@]}" update >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; fail "the lists of $suite could not be fetched"; }
apt-get -q -y "${options[@]}" --download-only install "$@" >"$work/log" 2>&1 ||
    { tail -n 5 "$work/log" >&2; fail "$suite does not give: $*"; }
for package in "$work"/cache/archives/*.deb; do
    dpkg-deb -x "$package" "$work/root"
done
mv "$work/root" "$folder"
