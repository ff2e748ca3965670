# The copy of a package's files that its services run out of: an upgrade replaces the package's own while they run. Sourced
# by the launcher of a package, which gives say, fail and PPMR_HOME. docs/internals/packages.md says how it works.
# shellcheck shell=bash
# shellcheck disable=SC2154 # the launcher gives PPMR_HOME

running=/var/lib/ppmr/running

# copy_is_used FOLDER: whether a service holds a copy, or another process runs a program out of it.
copy_is_used() {
    if [ -e "$1/in-use" ] && ! flock -n -x "$1/in-use" true; then return 0; fi
    [ -n "$(find /proc/[0-9]*/exe -maxdepth 0 -lname "$1/*" -print -quit 2>/dev/null)" ]
}

# run_in_copy ARGUMENT...: executes the launcher of the copy, which it makes if it is missing. It returns where this is the
# copy, or where a user who is not root runs a service for himself.
run_in_copy() {
    local copy other fresh
    case $PPMR_HOME in "$running"/*) return 0 ;; esac
    [ "$(id -u)" -eq 0 ] || return 0
    copy=$running/${PPMR_HOME##*/}
    mkdir -p -m 0711 /var/lib/ppmr
    mkdir -p -m 0755 "$running"
    exec 7>"$running/lock"
    flock -w 60 7 || fail "$running/lock has been held for a minute. Remedy: end what holds it: fuser -v $running/lock"
    for other in "$running"/*/; do
        other=${other%/}
        if [ ! -d "$other" ] || [ "$other" = "$copy" ] || copy_is_used "$other"; then continue; fi
        rm -rf --one-file-system "$other"
    done
    # One of the same version can have been installed over it; what runs out of it keeps it.
    if [ -d "$copy" ] && ! cmp -s "$copy/package.properties" "$PPMR_HOME/package.properties"; then
        if copy_is_used "$copy"; then
            copy=$copy-$(sha256sum <"$PPMR_HOME/package.properties" | cut -c 1-8)
        else
            rm -rf --one-file-system "$copy"
        fi
    fi
    if [ ! -d "$copy" ]; then
        fresh=$(mktemp -d "$running/.new.XXXXXXXX")
        # Links need no space, and need one file system.
        cp -al "$PPMR_HOME" "$fresh/tree" 2>/dev/null || {
            rm -rf "$fresh/tree"
            cp -a "$PPMR_HOME" "$fresh/tree"
        }
        : >"$fresh/tree/in-use"
        chmod 0600 "$fresh/tree/in-use"
        mv -T "$fresh/tree" "$copy"
        rmdir "$fresh"
    fi
    # The lock goes to the JVM, which closes it for its children, and ends with it.
    exec 8<"$copy/in-use"
    flock -s -w 60 8 || fail "$copy/in-use is locked. Remedy: end what holds it: fuser -v $copy/in-use"
    exec 7>&-
    exec "$copy/ppmr" "$@"
}
