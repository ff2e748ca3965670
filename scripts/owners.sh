# Who can change what lies at a path, and where downloads go. Sourced by the launcher, which gives fail, PPMR_HOME, installed
# and started_by_unit, and reads cache.
# shellcheck shell=bash
# shellcheck disable=SC2034 # the launcher reads cache

# changed_by_others PATH GROUP USER...: prints the first folder, link or file on the way to PATH, links followed, that belongs
# to none of these users, or that others can write; with GROUP true also one that its group can write. Returns 1 where there
# is none.
changed_by_others() {
    local path=$1 group=$2
    shift 2
    { namei -l -- "$path" 2>&1 || true; } | awk -v group="$group" -v users=" $* " '
        NR > 1 {
            link = $1 ~ /^l/
            writable = substr($1, 9, 1) == "w" || (group == "true" && substr($1, 6, 1) == "w")
            if (length($1) < 10 || index(users, " " $2 " ") == 0 || (!link && writable)) {
                found = $0
                exit
            }
        }
        END {
            if (NR < 2) found = "nothing"
            if (found == "") exit 1
            sub(/^ +/, "", found)
            print found
        }'
}

# require_roots PROGRAM: fails where somebody but root could have put there what is run.
require_roots() {
    local other
    if other=$(changed_by_others "$1" true root); then
        fail "root does not run $1, since others than root can change it, or what leads to it: $other. Remedy: name a JDK of root's in PPMR_JAVA_HOME"
    fi
}

# Whether what lies at a path, which may be missing, can have been put there by this user and root alone.
is_own() {
    local path=$1
    case $path in /*) ;; *) return 1 ;; esac
    while [ ! -e "$path" ] && [ ! -L "$path" ]; do
        path=${path%/*}
        path=${path:-/}
    done
    ! changed_by_others "$path" false root "$(id -un 2>/dev/null || id -u)" >/dev/null
}

# Sets cache to the folder of downloads, for commands of the sources: one that no other user can have made, since root
# runs what lies there.
find_cache() {
    local folder home
    cache=
    if installed || started_by_unit; then return 0; fi
    home=$(getent passwd "$(id -u)" | cut -d : -f 6) || home=
    for folder in "${XDG_CACHE_HOME:-}" "${HOME:+$HOME/.cache}" "${home:+$home/.cache}" "$PPMR_HOME/target/cache"; do
        if [ -n "$folder" ] && is_own "$folder"; then
            cache=$folder/ppmr
            return 0
        fi
    done
    fail "there is no folder for downloads that no other user can change. Remedy: name one in XDG_CACHE_HOME"
}
