#!/bin/sh
# Puts a private CRIU 4 into DIR and prints, one word a line, the command prefix that starts it.
#
# CRIU 3.17, which Debian 12 carries, fails on kernels since 6.13. The suite forky carries 4.2.1, and trixie 4.1.1, which
# cannot checkpoint a TCP or UDP socket on kernels since 6.16. This script takes the package of forky that was tested,
# which it knows by its hash; where forky has another by now, or cannot be read, it prints that and takes trixie's. It derives
# an apt source for the suite from the machine's own apt source files by changing the suite's name, keeps apt's state in DIR
# (the system's own apt state is not touched), downloads criu with the libraries it needs, and unpacks them into
# DIR/root. Nothing is installed; CRIU is started through the dynamic loader that came with it, so the system's C
# library stays as it is. Signatures are checked with the machine's own archive keyring, which must know the suite's key.
#
# usage: install-criu.sh DIR [SUITE]          with SUITE that one's package is taken, whatever its version
#        install-criu.sh DIR --download-only  puts the packages into DIR, with their hashes (SHA256SUMS), and unpacks nothing
#        install-criu.sh DIR --from FILE...   takes such packages, or all of a folder; nothing is downloaded
# A second call with the same DIR downloads nothing.
set -eu

die() { echo "install-criu.sh: $*" >&2; exit 1; }

usage="usage: install-criu.sh DIR [SUITE | --download-only | --from FILE...]"
[ $# -ge 1 ] || die "$usage"
asked=${2:-any}
tools="apt-get apt-cache dpkg"
case $asked in
    --from)
        [ $# -ge 3 ] || die "$usage"
        tools=
        ;;
    *) [ $# -le 2 ] || die "$usage" ;;
esac
for tool in $tools dpkg-deb awk sed flock sha256sum; do
    command -v "$tool" >/dev/null 2>&1 || die "$tool is missing; this works on Debian only. Remedy: give the configuration a CRIU 4 that is installed otherwise"
done
mkdir -p "$1"
dir=$(cd "$1" && pwd)
root=$dir/root
arch=$(uname -m)
case $arch in
    x86_64) arch=amd64 ;;
    aarch64) arch=arm64 ;;
esac
case $arch in
    amd64) loader=lib64/ld-linux-x86-64.so.2 triplet=x86_64-linux-gnu ;;
    arm64) loader=lib/ld-linux-aarch64.so.1 triplet=aarch64-linux-gnu ;;
    *) die "no private CRIU for architecture $arch. Remedy: give the configuration a CRIU 4 that is installed otherwise" ;;
esac

print_prefix() {
    printf '%s\n' "$root/$loader" --library-path "$root/lib/$triplet:$root/usr/lib/$triplet" "$root/usr/sbin/criu"
}

print_complete() {
    case $asked in --*) return 0 ;; esac
    if [ -f "$dir/complete" ] && [ "$(cat "$dir/complete")" = "$asked" ] && [ -x "$root/usr/sbin/criu" ]; then
        print_prefix
        exit 0
    fi
}
print_complete
# One call at a time works in DIR; a call that has waited finds there what the one before it has made.
exec 9>"$dir/lock"
flock -w 600 9 || die "another call has worked in $dir for 10 minutes. Remedy: end it and call again"
print_complete

# The packages of CRIU that were tested: architecture, version, hash.
tested="amd64 4.2.1 4039578de7dd6480964754c1348416f0f0658fba3eadaa918bfe43e9a5fb9b04
amd64 4.1.1 f3120d90b37d893879213d799c83696d6175ac8df3dc290e4e6c1fd0d2c2f82f"

hash_of() { sha256sum <"$1" | cut -d " " -f 1; }

# is_tested FILE: whether a file is one of them, whatever its name.
is_tested() { printf '%s\n' "$tested" | grep -q "^$arch [^ ]* $(hash_of "$1")\$"; }

# unpack FILE...: puts packages into the root, and tries the CRIU there. Ends the shell where it fails.
unpack() {
    rm -rf "$root.new"
    mkdir -p "$root.new"
    for deb in "$@"; do
        dpkg-deb --extract "$deb" "$root.new" || die "$deb cannot be unpacked. Remedy: remove it and repeat"
    done
    # Since Debian 13 the top-level lib directories are links that another package makes.
    for link in lib lib64; do
        if [ ! -e "$root.new/$link" ] && [ -d "$root.new/usr/$link" ]; then
            ln -s "usr/$link" "$root.new/$link"
        fi
    done
    rm -rf "$dir/complete" "$root"
    mv "$root.new" "$root"
    # shellcheck disable=SC2046
    $(print_prefix) --version >> "$log" 2>&1 || { tail -n 20 "$log" >&2; die "the unpacked criu does not start (see $log)"; }
}

log=$dir/install.log
if [ "$asked" = --from ]; then
    shift 2
    : > "$log"
    mkdir -p "$dir/debs"
    rm -f "$dir"/debs/*.deb
    again="Remedy: make the folder with ppmr install-criu --download-only DIR on a machine with a mirror, and copy all of it"
    found=none
    for given in "$@"; do
        [ -e "$given" ] || die "$given does not exist. $again"
        if [ -d "$given" ]; then set -- "$given"/*.deb; else set -- "$given"; fi
        for file in "$@"; do
            [ -f "$file" ] || die "$file is no package. $again"
            # The copy is checked and unpacked: the file itself can change after the check.
            cp "$file" "$dir/debs/"
            copy=$dir/debs/${file##*/}
            case ${file##*/} in
                criu_*)
                    is_tested "$copy" || die "$file is not a CRIU that was tested: its SHA-256 is $(hash_of "$copy"). $again"
                    found=criu
                    ;;
                *)
                    sums=$(dirname "$file")/SHA256SUMS
                    [ -f "$sums" ] || die "there is no $sums, by which $file is known. $again"
                    grep -qxF "$(hash_of "$copy")  ${file##*/}" "$sums" || die "$file is not the file that $sums names. $again"
                    ;;
            esac
        done
    done
    [ "$found" = criu ] || die "no package of CRIU is among these files. $again"
    unpack "$dir"/debs/*.deb
    echo any > "$dir/complete"
    print_prefix
    exit 0
fi

codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
[ -n "$codename" ] || die "/etc/os-release names no VERSION_CODENAME, so no source can be derived"

# The private apt state: lists and package cache survive a repeated call.
state=$dir/apt
debs=$dir/debs
if [ "$asked" = --download-only ]; then
    # DIR keeps the packages alone.
    state=$(mktemp -d)
    # It stays where something fails: the message names it.
    log=$(mktemp)
    debs=$dir
    trap 'rm -rf "$state" "$dir/lock"' EXIT
fi
mkdir -p "$state/etc/sources.list.d" "$state/etc/preferences.d" "$state/lists/partial" "$state/cache/archives/partial" "$debs"
: > "$state/status"

# fetch SUITE [any]: downloads the packages of a suite; without "any" no CRIU is taken but one that was tested. Ends the
# shell where it fails.
fetch() {
    suite=$1
    # Of each source that has the machine's own release suite, a copy for the newer suite. Both source formats are read.
    found=0
    : > "$state/etc/sources.list"
    rm -f "$state"/etc/sources.list.d/*
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -f "$file" ] || continue
        sed -n "s/^\(deb[[:space:]].*[[:space:]]\)$codename\([[:space:]].*\)\$/\1$suite\2/p" "$file" >> "$state/etc/sources.list"
    done
    [ -s "$state/etc/sources.list" ] && found=1
    number=0
    for file in /etc/apt/sources.list.d/*.sources; do
        [ -f "$file" ] || continue
        number=$((number + 1))
        # Paragraphs whose Suites name the release itself; -updates and -security are not needed for one package.
        awk -v RS= -v ORS='\n\n' -v old="$codename" -v new="$suite" '
            {
                n = split($0, line, "\n"); keep = 0; text = ""
                for (i = 1; i <= n; i++) {
                    if (line[i] ~ /^#/) continue
                    if (line[i] ~ /^Suites:/) {
                        m = split(line[i], word, /[ \t]+/)
                        for (j = 2; j <= m; j++) if (word[j] == old) keep = 1
                        line[i] = "Suites: " new
                    }
                    text = text line[i] "\n"
                }
                if (keep) print text
            }' "$file" > "$state/etc/sources.list.d/derived-$number.sources"
        if [ -s "$state/etc/sources.list.d/derived-$number.sources" ]; then
            found=1
        else
            rm -f "$state/etc/sources.list.d/derived-$number.sources"
        fi
    done
    [ "$found" = 1 ] || die "no apt source of this machine names the suite $codename, so none can be derived for $suite. Remedy: give the configuration a CRIU 4 that is installed otherwise"

    apt_private() {
        command=$1
        shift
        "$command" -q \
            -o Dir::Etc::sourcelist="$state/etc/sources.list" -o Dir::Etc::sourceparts="$state/etc/sources.list.d" \
            -o Dir::Etc::preferences=/dev/null -o Dir::Etc::preferencesparts="$state/etc/preferences.d" \
            -o Dir::State="$state" -o Dir::State::lists="$state/lists" -o Dir::State::status="$state/status" \
            -o Dir::Cache="$state/cache" -o Dir::Cache::archives="$state/cache/archives" \
            -o APT::Sandbox::User="$(id -un)" -o APT::Get::List-Cleanup=0 -o APT::Install-Recommends=0 -o Debug::NoLocking=1 "$@"
}

apt_private apt-get update > "$log" 2>&1 || {
    tail -n 20 "$log" >&2
    die "apt cannot read the suite $suite (see $log). Remedy: check the network; a signature error means that the archive keyring is too old: upgrade the package debian-archive-keyring"
}
grep -Eq '^(W|E): .*(NO_PUBKEY|not signed)' "$log" && {
    tail -n 20 "$log" >&2
    die "the suite $suite is not signed by a key that this machine trusts. Remedy: upgrade the package debian-archive-keyring"
}

# With an empty status file apt resolves the whole closure down to the C library; that is what the private root needs.
packages=$(apt_private apt-get install --simulate --no-install-recommends criu 2>>"$log" | awk '$1 == "Inst" { print $2 }')
[ -n "$packages" ] || { tail -n 20 "$log" >&2; die "apt finds no package criu in $suite (see $log)"; }

# Python, Perl and their like are for criu's helper scripts only: the program itself needs shared libraries.
wanted=
for package in $packages; do
    case $package in
        criu | libc6 | libgcc-s1 | lib*) case $package in *python* | *perl*) ;; *) wanted="$wanted $package" ;; esac ;;
    esac
done
rm -f "$debs"/*.deb
(cd "$debs" && apt_private apt-get download $wanted >> "$log" 2>&1) || {
    tail -n 20 "$log" >&2
    die "downloading$wanted failed (see $log). Remedy: check the network and repeat"
}
if [ "${2:-}" != any ]; then
    for file in "$debs"/criu_*.deb; do
        is_tested "$file" || die "the suite $suite has ${file##*/}, which is not the package that was tested"
    done
fi
}

if [ "$asked" = any ] || [ "$asked" = --download-only ]; then
    # In a shell of its own, since it may fail; "set -e" does not hold in a list that goes on when it does.
    set +e
    (
        trap - EXIT
        set -e
        fetch forky
    )
    tried=$?
    set -e
    if [ "$tried" -ne 0 ]; then
        echo "install-criu.sh: taking CRIU 4.1.1 of the suite trixie instead" >&2
        fetch trixie
    fi
else
    fetch "$asked" any
fi
if [ "$asked" = --download-only ]; then
    (cd "$debs" && sha256sum ./*.deb | sed 's# \./# #' > SHA256SUMS)
    rm -f "$log"
    printf '%s\n' "$debs"/*.deb
    exit 0
fi
unpack "$debs"/*.deb
echo "$asked" > "$dir/complete"
print_prefix
