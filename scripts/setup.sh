# What ppmr needs around it, fetched where it is missing. Sourced by the launcher, which gives say, fail,
# leave_out, PPMR_HOME and cache. Sets jdk17, jdk25, PPMR_CRIU and PPMR_PROMTOOL. Quick when nothing is missing.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the launcher gives cache and guest_packages and reads jdk17 and jdk25

jdk17=
jdk25=

# Packages; any one of several names separated by | will do. Where a machine has fuse3 installed, that
# package stands in for fuse (asking for fuse would remove it).
build_packages=(ca-certificates gcc make libc6-dev)
bench_packages=(libfuse-dev iperf3 openssh-server openssh-client sshfs)
# For RDMA. Without the first group the build leaves it out; the second is for its tests, as are guest_packages.
rdma_build_packages=(libibverbs-dev librdmacm-dev)
rdma_test_packages=(ibverbs-providers ibverbs-utils perftest)
run_packages=("fuse|fuse3" "libfuse2|libfuse2t64" util-linux iproute2 procps)

# Slurm, for its test alone: the test starts daemons of its own.
slurm_packages=(munge slurm-client slurmctld slurmd)

# Workers that verify what they do, as jobs of a test.
stress_packages=(stress-ng)

# What makes pods, and keeps them quiet while they are moved.
pod_packages=(crun nftables)

# A server whose pod is moved under load, and what looks at the network meanwhile, for a test.
pod_test_packages=(tcpdump)
pod_test_services=(redis-server)

# The name service's cache, of which a test runs a daemon of its own in a node.
name_cache_packages=(nscd)

# What reads the package for rpm; what looks for mistakes in both, and makes roots to install in.
package_test_packages=(rpm)
package_check_packages=(lintian rpmlint debootstrap)

# The shell whose completion a test tries; the other is bash.
shell_packages=(zsh)

# The browser that a test shows reports in.
page_packages=(chromium)

# MPIs whose ranks are in pods, for a test.
mpi_packages=(openmpi-bin libopenmpi-dev mpich libmpich-dev hpcc)

# find_jdk VERSION: prints the folder of an installed JDK (one with a compiler) of that version.
find_jdk() {
    local wanted=$1 chosen="PPMR_JDK$1" folder version folders
    folders=("${!chosen:-}" "${JAVA_HOME:-}" /usr/lib/jvm/*)
    [ -z "$cache" ] || folders+=("$cache/jdk-$wanted"/usr/lib/jvm/*)
    for folder in "${folders[@]}"; do
        if [ ! -x "$folder/bin/java" ] || [ ! -r "$folder/release" ]; then continue; fi
        [ "$wanted" != 17 ] || [ -x "$folder/bin/javac" ] || continue
        version=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$folder/release")
        if [ "$version" = "$wanted" ]; then
            printf '%s\n' "$folder"
            return
        fi
    done
    return 1
}

# find_java: prints the folder of a Java runtime of version 17 or newer, the oldest of them. No compiler is needed to run.
find_java() {
    local folder version found='' best=
    for folder in "${JAVA_HOME:-}" /usr/lib/jvm/*; do
        if [ ! -x "$folder/bin/java" ] || [ ! -r "$folder/release" ]; then continue; fi
        version=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$folder/release")
        if [ "${version:-0}" -ge 17 ] && { [ -z "$best" ] || [ "$version" -lt "$best" ]; }; then
            best=$version
            found=$folder
        fi
    done
    [ -n "$found" ] && printf '%s\n' "$found"
}

package_installed() {
    command -v dpkg-query >/dev/null || return 1
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# missing_packages NAME|NAME...: prints the first name of each that is not installed under any.
missing_packages() {
    local choice name names
    for choice in "$@"; do
        IFS='|' read -r -a names <<<"$choice"
        for name in "${names[@]}"; do
            package_installed "$name" && continue 2
        done
        printf '%s\n' "${names[0]}"
    done
}

apt_install() { DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"; }

# install_packages NAME|NAME...: installs what is missing. Says which could not be had, and returns 1.
install_packages() {
    local missing package log
    mapfile -t missing < <(missing_packages "$@")
    [ ${#missing[@]} -gt 0 ] || return 0
    if ! command -v apt-get >/dev/null; then
        leave_out "these packages, because apt-get is not here to install them: ${missing[*]}"
        return 1
    fi
    if [ "$(id -u)" -ne 0 ]; then
        leave_out "these packages, because only root can install them: ${missing[*]} (as root: apt-get install ${missing[*]})"
        return 1
    fi
    mkdir -p "$cache"
    log=$cache/apt.log
    say "installing: ${missing[*]}"
    apt-get update -q >"$log" 2>&1 || say "apt-get update complains (see $log); going on"
    apt_install "${missing[@]}" >>"$log" 2>&1 && return 0
    # One that cannot be had must not keep the others away.
    local lost=()
    for package in "${missing[@]}"; do
        apt_install "$package" >>"$log" 2>&1 || lost+=("$package")
    done
    [ ${#lost[@]} -eq 0 ] && return 0
    leave_out "these packages, because apt-get cannot install them: ${lost[*]} (see $log)"
    return 1
}

# install_without_services SERVICE... -- NAME|NAME...: installs packages whose services are neither started nor
# left to start by themselves. A policy-rc.d (invoke-rc.d(8)) that the machine has of its own stays in force.
install_without_services() {
    local services=() service policy=/usr/sbin/policy-rc.d made=false status=0 new=()
    while [ "$1" != -- ]; do
        services+=("$1")
        shift
    done
    shift
    [ -n "$(missing_packages "$@")" ] || return 0
    for service in "${services[@]}"; do
        package_installed "$service" || new+=("$service")
    done
    if [ "$(id -u)" -eq 0 ] && [ ! -e "$policy" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
        made=true
        trap 'rm -f /usr/sbin/policy-rc.d; exit 130' INT TERM
    fi
    install_packages "$@" || status=1
    if $made; then
        rm -f "$policy"
        trap - INT TERM
    fi
    for service in "${new[@]}"; do
        package_installed "$service" || continue
        # Both ways in which a package has its service started at boot; either may be absent.
        if command -v systemctl >/dev/null; then systemctl --quiet disable "$service" >/dev/null 2>&1 || true; fi
        if command -v update-rc.d >/dev/null; then update-rc.d "$service" disable >/dev/null 2>&1 || true; fi
    done
    return "$status"
}

# Fails if a build tool is missing; installs nothing. Sets jdk17.
need_build_tools() {
    local tool
    jdk17=$(find_jdk 17) || fail "there is no JDK 17. Remedy: ./ppmr setup, or PPMR_JDK17"
    for tool in mvn gcc make; do
        command -v "$tool" >/dev/null || fail "$tool is missing. Remedy: ./ppmr setup"
    done
}

# Maven, JDK 17 and a C compiler, without which nothing can be built. Where they did not come as packages they do
# as well, so what counts in the end is that they are here.
require_build_tools() {
    local wanted=("${build_packages[@]}") tool
    command -v mvn >/dev/null || wanted+=(maven)
    find_jdk 17 >/dev/null || wanted+=(openjdk-17-jdk-headless)
    if command -v dpkg-query >/dev/null; then install_packages "${wanted[@]}" || true; fi
    jdk17=$(find_jdk 17) || fail "no JDK 17: install openjdk-17-jdk-headless, or set PPMR_JDK17 to its folder"
    for tool in mvn gcc make; do
        command -v "$tool" >/dev/null || fail "$tool is missing: install the packages ${build_packages[*]} maven"
    done
}

# Sets PPMR_CRIU to the CRIU that a setup has put into the cache, if there is one. Installs nothing.
find_criu() {
    local installer=$PPMR_HOME/ppmr-checkpoint/src/main/sh/install-criu.sh folder
    if installed; then installer=$PPMR_HOME/scripts/install-criu.sh; fi
    if [ -n "${PPMR_CRIU:-}" ] || [ ! -x "$installer" ]; then return 0; fi
    for folder in ${cache:+"$cache/criu"} /var/lib/ppmr/criu; do
        if [ -f "$folder/complete" ] && is_own "$folder"; then
            PPMR_CRIU=$("$installer" "$folder" 2>/dev/null) && [ -n "$PPMR_CRIU" ] && return 0
        fi
    done
    PPMR_CRIU=
}

# CRIU works on today's kernels from 4.1.1 on, and with sockets from 4.2 on; both are newer than Debian 12's.
set_up_criu() {
    local installer=$PPMR_HOME/ppmr-checkpoint/src/main/sh/install-criu.sh
    if [ -n "${PPMR_CRIU:-}" ]; then return; fi
    if [ ! -x "$installer" ]; then
        leave_out "CRIU, because this tree has no installer for it ($installer)"
        return 0
    fi
    mkdir -p "$cache"
    if ! PPMR_CRIU=$("$installer" "$cache/criu" 2>"$cache/criu.log") || [ -z "$PPMR_CRIU" ]; then
        PPMR_CRIU=
        leave_out "CRIU, because it could not be installed: $(tail -n 1 "$cache/criu.log") (see $cache/criu.log)"
    fi
}

# Without CAP_SYS_RESOURCE, which a container's root may lack, CRIU can stream a job's pages only where pipes may have 4 MiB.
set_up_pipes() {
    local limit=/proc/sys/fs/pipe-max-size needed=4194304 capabilities
    [ "$(id -u)" -eq 0 ] || return 0
    capabilities=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
    if [ $((0x$capabilities >> 24 & 1)) -eq 1 ] || [ "$(cat "$limit")" -ge "$needed" ]; then return 0; fi
    if (echo "$needed" >"$limit") 2>/dev/null; then
        say "fs.pipe-max-size is $needed now, for CRIU's streamed pages: this root has no CAP_SYS_RESOURCE"
    else
        leave_out "CRIU's streamed pages, because fs.pipe-max-size is less than $needed and cannot be changed"
    fi
}

# promtool checks metrics in the tests. Out of Debian's package prometheus, which is unpacked and not installed: an
# installation would start its daemon.
set_up_promtool() {
    local folder=$cache/prometheus
    if [ -n "${PPMR_PROMTOOL:-}" ]; then return; fi
    PPMR_PROMTOOL=$(command -v promtool) && return
    if [ ! -x "$folder/usr/bin/promtool" ]; then
        rm -rf "$folder.new"
        mkdir -p "$folder.new"
        # As root apt would hand the download to a user of its own, who may not write here.
        if ! (cd "$folder.new" && apt-get -q -o APT::Sandbox::User= download prometheus &&
            dpkg-deb -x prometheus_*.deb .) >"$cache/prometheus.log" 2>&1; then
            rm -rf "$folder.new"
            PPMR_PROMTOOL=promtool
            leave_out "the check of the metrics by promtool, because Debian's package prometheus cannot be had (see $cache/prometheus.log)"
            return 0
        fi
        rm -f "$folder.new"/prometheus_*.deb
        mv "$folder.new" "$folder"
    fi
    PPMR_PROMTOOL=$folder/usr/bin/promtool
}

# JDK 25: an installed one, else Debian 13's in a private folder, bound to its own C library.
set_up_jdk25() {
    jdk25=$(find_jdk 25) && return
    local root=$cache/jdk-25
    say "fetching JDK 25 from Debian 13 into $root"
    if ! install_packages patchelf; then
        leave_out "JDK 25, because patchelf is missing (or set PPMR_JDK25 to a JDK's folder)"
    elif ! "$PPMR_HOME/scripts/unpack-debian.sh" trixie "$root.new" openjdk-25-jre-headless ||
        ! bind_to_own_libraries "$root.new" "$root"; then
        rm -rf "$root.new"
        leave_out "JDK 25, because it could not be unpacked from Debian 13 (or set PPMR_JDK25 to a JDK's folder)"
    else
        mv "$root.new" "$root"
        jdk25=$(find_jdk 25) || true
        if ! "$jdk25/bin/java" -version >/dev/null 2>&1; then
            jdk25=
            leave_out "JDK 25, because the one unpacked into $root does not run here"
        fi
    fi
}

# bind_to_own_libraries ROOT FINAL: lets the JDK unpacked in ROOT, which will stand in FINAL, start with the
# dynamic loader and libraries that were unpacked with it. By path in the files and not by environment, which
# would reach the system's programs that it starts.
bind_to_own_libraries() {
    local root=$1 final=$2 loader libraries file link to
    loader=$(find "$root/usr/lib" -path '*/*-linux-gnu*/ld-linux-*.so.*' -type f | head -n 1)
    [ -n "$loader" ] || return 1
    loader=$final${loader#"$root"}
    libraries=${loader%/*}
    while IFS= read -r -d '' file; do
        if patchelf --print-interpreter "$file" >/dev/null 2>&1; then
            patchelf --set-interpreter "$loader" "$file" || return 1
        fi
        if patchelf --print-rpath "$file" >/dev/null 2>&1; then
            # shellcheck disable=SC2016 # the dynamic loader expands $ORIGIN
            patchelf --force-rpath --set-rpath '$ORIGIN:$ORIGIN/..:$ORIGIN/../lib:'"$libraries" "$file" || return 1
        fi
    done < <(find "$root"/usr/lib/jvm/*/bin "$root"/usr/lib/jvm/*/lib -type f -print0)
    # Configuration is linked by absolute path into /etc.
    while IFS= read -r -d '' link; do
        to=$(readlink "$link")
        if [ -e "$root$to" ]; then ln -sfn "$final$to" "$link"; fi
    done < <(find "$root/usr/lib/jvm" -type l -lname '/*' -print0)
}

# What a run on this machine needs: set_up_run.
set_up_run() {
    require_build_tools
    install_packages "${rdma_build_packages[@]}" || true
    install_packages "${run_packages[@]}" || true
    set_up_criu
    set_up_pipes
    [ "$(id -u)" -eq 0 ] || leave_out "what only root may do here: namespaces for two nodes, mounts for other users, CRIU"
    [ -e /dev/fuse ] || leave_out "every mount, because /dev/fuse is not here (modprobe fuse; in a container: --device /dev/fuse)"
}

# What the demo needs beside: pods, and an MPI whose ranks live in them.
set_up_demo() {
    set_up_run
    install_packages "${pod_packages[@]}" openmpi-bin libopenmpi-dev || true
}

# What the benchmarks need beside: headers of libfuse for the limit in C, and programs to be compared with.
set_up_bench() {
    set_up_run
    install_without_services ssh -- "${bench_packages[@]}" || true
}

# set_up_tests ALL: what the tests need; JDK 25 where ALL is true.
set_up_tests() {
    set_up_run
    install_without_services munge slurmctld slurmd -- "${slurm_packages[@]}" || true
    install_without_services redis-server -- "${pod_test_services[@]}" || true
    set_up_promtool
    # The guest boots the machine's own systemd.
    [ -x /lib/systemd/systemd ] || install_packages systemd dbus || true
    install_packages "${pod_test_packages[@]}" "${rdma_test_packages[@]}" "${guest_packages[@]}" "${stress_packages[@]}" \
        "${pod_packages[@]}" "${mpi_packages[@]}" "${package_test_packages[@]}" || true
    if $1; then
        install_without_services nscd -- "${name_cache_packages[@]}" || true
        install_packages "${shell_packages[@]}" "${package_check_packages[@]}" || true
        install_packages "${page_packages[@]}" || true
        set_up_bench
        set_up_jdk25
    fi
}
