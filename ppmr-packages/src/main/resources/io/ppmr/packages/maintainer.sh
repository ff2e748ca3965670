#!/bin/sh
# What dpkg and rpm call when a package comes, changes or goes: one text for both and for all stages, with the three
# values below. docs/internals/packages.md describes each stage. It needs no systemd, and nothing fails without it.
set -eu
format=@FORMAT@
stage=@STAGE@
version=@VERSION@

# The newest version of a journal that this package reads: MappedJournal.VERSION.
journal=3

units="ppmr-source ppmr-target ppmr-controller"
running=/var/lib/ppmr/running

note() { printf 'ppmr: %s\n' "$*" >&2; }
fail() {
    note "$*"
    exit 1
}

has_systemd() { [ -d /run/systemd/system ] && command -v systemctl >/dev/null; }

# lower ONE OTHER: whether a version is below another.
lower() { [ "$1" != "$2" ] && [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

# free [--config FILE]: whether no rank is held and no migration is open, by the journals of this node's services. The
# program that is installed answers, and names what it finds.
free() {
    command -v ppmr >/dev/null || return 0
    answer=0
    found=$(timeout 120 ppmr held "$@" 2>&1) || answer=$?
    [ "$answer" -ne 0 ] || return 0
    printf '%s\n' "$found" >&2
    if [ "$answer" -ne 4 ]; then
        if ! ls /var/lib/ppmr/*journal* /etc/ppmr/*.toml >/dev/null 2>&1; then return 0; fi
        note "it is unknown whether a rank is held, see above (exit code $answer). Remedy: have ppmr held run, or move" \
            "/etc/ppmr and the journals away if no job of this node is moved"
    fi
    return 1
}

# copy_is_used FOLDER: whether a service or another process runs out of a copy of a version's files.
copy_is_used() {
    [ ! -e "$1/in-use" ] || flock -n -x "$1/in-use" true || return 0
    [ -n "$(find /proc/[0-9]*/exe -maxdepth 0 -lname "$1/*" -print -quit 2>/dev/null)" ]
}

# service_runs FOLDER: whether a service runs out of a copy.
service_runs() { [ -e "$1/in-use" ] && ! flock -n -x "$1/in-use" true; }

prepare() {
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers /usr/lib/sysusers.d/ppmr.conf || note "the group ppmr could not be made; it is for control_group alone"
    elif ! getent group ppmr >/dev/null; then
        groupadd --system ppmr || note "the group ppmr could not be made; it is for control_group alone"
    fi
    install -d -m 0755 /run/ppmr
    install -d -m 0711 /var/lib/ppmr /var/lib/ppmr/work
    if has_systemd; then systemctl daemon-reload || note "systemd did not read the units. Remedy: systemctl daemon-reload"; fi
    if [ -f /opt/ppmr/install.manifest ]; then
        note "the units of /opt/ppmr come before those of this package. Remedy: /opt/ppmr/ppmr uninstall"
    fi
}

# A service that moves or holds something runs on, out of its copy; the others get the new version.
upgraded() {
    has_systemd || return 0
    for unit in $units; do
        systemctl is-active --quiet "$unit" || continue
        if [ "$unit" = ppmr-controller ] || free --config "/etc/ppmr/${unit#ppmr-}.toml"; then
            systemctl try-restart "$unit" || note "$unit did not start again: journalctl -u $unit"
        else
            note "$unit runs on in the version that it was started in. When it is idle: systemctl restart $unit"
        fi
    done
}

removal() {
    free || fail "it is not removed"
    ran=
    if has_systemd; then
        for unit in $units; do
            if systemctl is-active --quiet "$unit"; then ran="$ran $unit"; fi
        done
        # shellcheck disable=SC2086 # words
        [ -z "$ran" ] || systemctl stop $ran || fail "it is not removed: $ran cannot be stopped. Remedy: journalctl -u ppmr-source"
    fi
    for copy in "$running"/*/; do
        if service_runs "${copy%/}"; then
            fail "it is not removed: a service runs out of ${copy%/}. Remedy: end it: fuser -v ${copy}in-use"
        fi
    done
    # One that has begun between the first look and the stop.
    if ! free; then
        # shellcheck disable=SC2086 # words
        [ -z "$ran" ] || systemctl start $ran || true
        fail "it is not removed"
    fi
    for config in /etc/ppmr/source.toml /etc/ppmr/target.toml; do
        [ ! -e "$config" ] || timeout 120 ppmr unmount --config "$config" >/dev/null || note "the mounts of $config may be left"
    done
    if has_systemd; then
        for unit in $units; do
            systemctl --quiet disable "$unit" 2>/dev/null || true
        done
    fi
}

removed() {
    if has_systemd; then systemctl daemon-reload || true; fi
    rm -rf --one-file-system /run/ppmr
    for copy in "$running"/*/; do
        [ -d "$copy" ] || continue
        if copy_is_used "${copy%/}"; then
            note "$copy stays: a process runs out of it"
        else
            rm -rf --one-file-system "$copy"
        fi
    done
    rm -f "$running/lock"
    rmdir "$running" /var/lib/ppmr/work 2>/dev/null || true
    rmdir /var/lib/ppmr 2>/dev/null || true
}

purge() {
    if [ -d "$running" ]; then
        note "/var/lib/ppmr stays, since $running is in use. Remedy: rm -r /var/lib/ppmr when it is not"
    elif [ -e /var/lib/ppmr ]; then
        note "removing /var/lib/ppmr with all journals and the history of migrations"
        rm -rf --one-file-system /var/lib/ppmr
    fi
    if [ -e /etc/ppmr ]; then
        note "removing /etc/ppmr with the configurations and the keys"
        rm -rf --one-file-system /etc/ppmr
    fi
}

# refuse_downgrade FROM TO: an older version may not read what a newer one has written of an open migration.
refuse_downgrade() {
    if lower "$2" "$1" && ! free; then
        fail "$1 is not replaced by $2, which may not read the journal of what is open"
    fi
}

# refuse_newer_journals: a journal that this package cannot read. Nothing of it is open, or the installed package has
# refused before.
refuse_newer_journals() {
    for file in /var/lib/ppmr/*journal*/journal; do
        [ -f "$file" ] || continue
        header=$(head -c 8 "$file" | tr -d '\0')
        case $header in
        PPMRJRN[0-9])
            found=${header#PPMRJRN}
            [ "$found" -le "$journal" ] || fail "$version is not installed: $file is of version $found, and $version" \
                "reads no version above $journal. Remedy: install a newer version, or move $(dirname "$file") away"
            ;;
        esac
    done
}

case $format:$stage:${1:-} in
deb:preinst:upgrade | deb:preinst:install) refuse_newer_journals ;;
rpm:preinst:1) refuse_newer_journals ;;
deb:prerm:upgrade) refuse_downgrade "$version" "$2" ;;
# The installed package has refused; this is the one that was to replace it.
deb:prerm:failed-upgrade) if lower "$version" "$2"; then exit 1; fi ;;
deb:prerm:remove | rpm:prerm:0) removal ;;
rpm:preinst:[2-9])
    installed=$(readlink /usr/bin/ppmr) || installed=
    installed=${installed%/ppmr}
    refuse_downgrade "${installed##*/}" "$version"
    refuse_newer_journals
    ;;
deb:postinst:configure)
    prepare
    [ -z "${2:-}" ] || upgraded
    ;;
rpm:postinst:1) prepare ;;
rpm:postinst:[2-9])
    prepare
    upgraded
    ;;
deb:postrm:remove | rpm:postrm:0) removed ;;
deb:postrm:purge)
    removed
    purge
    ;;
esac
