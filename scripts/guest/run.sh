# Boots Debian's stock kernel in QEMU over the host's own root (read-only, under an overlay) and runs one command
# there. Sourced by the launcher, which gives say, fail, leave_out, cache and PPMR_HOME, and by nobody else.
# shellcheck shell=bash
# shellcheck disable=SC2154 # the launcher gives PPMR_HOME and cache

guest_unavailable=77
guest_broken=125
guest_packages=(qemu-system-x86 busybox-static cpio kmod iproute2 ibverbs-providers)
# In the order in which they are loaded; what they depend on comes by itself.
guest_modules=(virtio_pci virtio_console 9pnet_virtio 9p overlay crc32_generic rdma_rxe rdma_ucm veth dummy fuse
    virtio_net bridge sch_netem sch_tbf autofs4
    # What CRIU asks the kernel for before it does anything: without nf_tables it gives up.
    nf_tables unix_diag tcp_diag udp_diag netlink_diag af_packet_diag)
# Not loaded, but there for modprobe(8): the drivers of a management controller (--bmc), which a unit of ours asks for, and
# what lists tracked connections, which the kernel loads when CRIU asks that of a pod's network.
guest_optional_modules=(ipmi_si ipmi_devintf nf_conntrack_netlink)

guest_usage() {
    cat <<'TEXT'
usage: ./ppmr guest [options] [--] COMMAND [ARGUMENT...]

Boots Debian's kernel in QEMU with this machine's root (read-only; what is written is lost), with soft-RoCE on
10.77.0.1 (rxe0) and 10.77.0.2 (rxe1), runs the command in the same folder with the same environment, and ends with
its output and exit status.

  --timeout SECONDS   end it after so long, from the boot on (600)
  --memory MIB        memory of the guest (4096)
  --cpus N            processors of the guest (2)
  --share FOLDER      the guest writes this folder of the host itself; may be given several times
  --systemd           boot systemd and run the command as a service of it
  --no-rdma           without soft-RoCE and without the two addresses
  --cable OWN:OTHER   with a network card, eth0, whose cable ends in these two sockets; the guest at its other end names
                      them the other way round
  --bmc               with a simulated management controller; modprobe ipmi_si ipmi_devintf makes /dev/ipmi0 of it
  --console           show the guest's console as well

Examples:
  ./ppmr guest -- uname -r
  ./ppmr guest --memory 2048 --no-rdma -- ./ppmr doctor

Exit status: the command's; 77 the guest cannot be had here, 124 out of time, 125 the guest has failed.
Environment: PPMR_GUEST_KERNEL (name of another kernel package), PPMR_GUEST_ACCEL (kvm or tcg instead of a trial).
TEXT
}

guest_lacks() {
    say "no guest here: $*"
    exit "$guest_unavailable"
}

# The folder that holds the guest's kernel and initramfs, made if it is not there. Sets guest_folder.
set_up_guest() {
    local tool package release kernels lists=false
    # Trees on one machine that want other modules do not take each other's kernel away.
    kernels=$cache/guest/$(guest_wants | sha256sum | cut -c 1-12)
    mkdir -p "$kernels"
    # Of several that start at once, one fetches and the others wait.
    exec 8>"$cache/guest/lock"
    flock -w 600 8 || guest_lacks "another call has been setting the guest up for ten minutes"
    export PATH=$PATH:/usr/sbin:/sbin
    [ "$(uname -m)" = x86_64 ] || guest_lacks "it is made for x86_64, this machine is $(uname -m)"
    for tool in qemu-system-x86_64 busybox cpio modprobe depmod; do
        command -v "$tool" >/dev/null || guest_lacks "$tool is missing. Remedy: ./ppmr setup, or apt-get install ${guest_packages[*]}"
    done
    package=${PPMR_GUEST_KERNEL:-}
    if [ -z "$package" ]; then
        # Whatever was fetched before does, so that a run needs no network.
        guest_folder=$(find "$kernels" -mindepth 1 -maxdepth 1 -type d -name 'linux-image-*' ! -name '*.new' 2>/dev/null | sort -V | tail -n 1)
        if [ -n "$guest_folder" ]; then
            package=${guest_folder##*/}
        else
            command -v apt-cache >/dev/null || guest_lacks "without apt there is no kernel package to unpack"
            package=$(guest_kernel_package)
            if [ -z "$package" ]; then
                lists=true
                apt-get update -q >/dev/null 2>&1 || true
                package=$(guest_kernel_package)
            fi
            [ -n "$package" ] || guest_lacks "apt knows no linux-image-amd64"
        fi
    fi
    guest_folder=$kernels/$package
    fetch_guest_kernel "$package" "$lists"
    release=$(cat "$guest_folder/release")
    make_initramfs "$release"
    exec 8>&-
}

# The package that Debian's kernel package depends on, in the release's own version (not a backport).
guest_kernel_package() {
    apt-cache show linux-image-amd64 2>/dev/null | sed -n 's/^Depends: \(linux-image-[^ ,]*\).*/\1/p' | sed -n 1p
}

# What a kernel that is fetched has to have.
guest_wants() { printf '%s\n' "${guest_modules[*]}" "${guest_optional_modules[*]}"; }

fetch_guest_kernel() {
    local package=$1 lists=$2 work
    if [ -e "$guest_folder/release" ]; then return 0; fi
    say "fetching $package for the guest into $guest_folder"
    rm -rf "$guest_folder.new"
    mkdir "$guest_folder.new"
    work=$guest_folder.new
    if ! (cd "$work" && apt-get download "$package") >"$cache/guest/apt.log" 2>&1; then
        if ! $lists; then apt-get update -q >>"$cache/guest/apt.log" 2>&1 || true; fi
        (cd "$work" && apt-get download "$package") >>"$cache/guest/apt.log" 2>&1 ||
            { rm -rf "$work"; guest_lacks "$package cannot be fetched: $(tail -n 1 "$cache/guest/apt.log") (see $cache/guest/apt.log)"; }
    fi
    dpkg-deb -x "$work"/*.deb "$work/root" || guest_lacks "$package cannot be unpacked"
    local release
    release=$(basename "$work/root"/lib/modules/*)
    depmod -b "$work/root" "$release"
    mv "$work/root/boot/vmlinuz-$release" "$work/vmlinuz"
    local file optional=$work/optional/lib/modules/$release
    mkdir -p "$work/modules" "$optional"
    guest_module_files "$work/root" "$release" "${guest_modules[@]}" | while IFS= read -r file; do
        cp "$file" "$work/modules/"
        basename "$file"
    done >"$work/order"
    mv "$work/order" "$work/modules/order"
    guest_module_files "$work/root" "$release" "${guest_optional_modules[@]}" | while IFS= read -r file; do
        cp "$file" "$optional/"
    done
    cp "$work/root/lib/modules/$release"/modules.{order,builtin,builtin.modinfo} "$optional/"
    depmod -b "$work/optional" "$release"
    rm -rf "$work/root" "$work"/*.deb
    printf '%s\n' "$release" >"$work/release"
    rm -rf "$guest_folder"
    mv "$work" "$guest_folder"
}

# guest_module_files ROOT RELEASE MODULE...: prints the files of the modules and of what they depend on, in the order in
# which they are loaded.
guest_module_files() {
    local root=$1 release=$2 module
    shift 2
    for module in "$@"; do
        modprobe -d "$root" -S "$release" --show-depends "$module" ||
            guest_lacks "the kernel $release has no module $module"
    done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++'
}

# The initramfs: busybox, the modules, and our init, which is part of its name.
make_initramfs() {
    local init=$PPMR_HOME/scripts/guest/init work
    guest_initramfs=$guest_folder/initramfs-$(sha256sum "$init" | cut -c 1-12)
    [ ! -e "$guest_initramfs" ] || return 0
    work=$(mktemp -d "$guest_folder/root.XXXXXX")
    mkdir -p "$work/bin"
    cp "$(command -v busybox)" "$work/bin/busybox"
    cp -r "$guest_folder/modules" "$guest_folder/optional" "$work/"
    install -m 755 "$init" "$work/init"
    (cd "$work" && find . | cpio --quiet -o -H newc) >"$guest_initramfs.$$"
    rm -rf "$work"
    mv "$guest_initramfs.$$" "$guest_initramfs"
}

# Hardware acceleration only where it runs this kernel: having /dev/kvm is not enough. Found out once a boot of the
# host. Prints kvm or tcg.
guest_accelerator() {
    local known trial
    known=$cache/guest/accelerator-$(cat /proc/sys/kernel/random/boot_id)
    if [ -n "${PPMR_GUEST_ACCEL:-}" ]; then
        printf '%s\n' "$PPMR_GUEST_ACCEL"
    elif [ -s "$known" ]; then
        cat "$known"
    else
        trial=tcg
        # The trial's kernel finds no root and resets, by which QEMU ends with 0.
        if [ -w /dev/kvm ] && timeout -k 1 15 qemu-system-x86_64 -accel kvm -cpu host -m 512 -nodefaults \
            -display none -no-reboot -kernel "$guest_folder/vmlinuz" -append "panic=-1 quiet root=none" \
            >/dev/null 2>&1 </dev/null; then
            trial=kvm
        fi
        rm -f "$cache"/guest/accelerator-*
        printf '%s\n' "$trial" | tee "$known"
    fi
}

# guest OPTION... [--] COMMAND...: the launcher's command "guest"; ends with the command's status.
guest() {
    local timeout_seconds=600 memory=4096 cpus=2 systemd=false rdma=true bmc=false console=false cable= shares=()
    while [ $# -gt 0 ]; do
        case $1 in
        --timeout | --memory | --cpus | --share | --cable)
            [ $# -gt 1 ] || fail "$1 needs a value"
            case $1 in
            --timeout) timeout_seconds=$2 ;;
            --memory) memory=$2 ;;
            --cpus) cpus=$2 ;;
            --cable) cable=$2 ;;
            --share) shares+=("$(readlink -f -- "$2")") ;;
            esac
            shift
            ;;
        --systemd) systemd=true ;;
        --no-rdma) rdma=false ;;
        --bmc) bmc=true ;;
        --console) console=true ;;
        --help | -h)
            guest_usage
            exit 0
            ;;
        --)
            shift
            break
            ;;
        -*)
            guest_usage >&2
            exit 2
            ;;
        *) break ;;
        esac
        shift
    done
    if [ $# -eq 0 ] && ! $console; then
        guest_usage >&2
        exit 2
    fi
    local value
    for value in "$timeout_seconds" "$memory" "$cpus"; do
        [[ $value =~ ^[1-9][0-9]*$ ]] || fail "not a number above 0: $value"
    done
    [[ -z $cable || $cable == *:* ]] || fail "--cable takes two sockets with a colon between them, not $cable"
    if $systemd && [ ! -x /lib/systemd/systemd ]; then
        guest_lacks "systemd is not installed on this machine, whose files the guest has. Remedy: apt-get install systemd dbus"
    fi
    set_up_guest
    run_guest "$@"
}

# Uses the options of its caller.
run_guest() {
    local accelerator run tag=0 share status=0 options=()
    accelerator=$(guest_accelerator)
    run=$(mktemp -d "${TMPDIR:-/tmp}/ppmr-guest.XXXXXX")
    guest_run=$run
    trap 'end_qemu; rm -rf "$guest_run"' EXIT
    trap 'exit 143' TERM
    trap 'exit 130' INT
    write_command "$run" "$@"
    cp "$PPMR_HOME/scripts/guest/inside.sh" "$run/start"
    if $rdma; then : >"$run/rdma"; fi
    if $systemd; then : >"$run/systemd"; fi
    : >"$run/shares"
    for share in "${shares[@]}"; do
        tag=$((tag + 1))
        printf 'share%s %s\n' "$tag" "$share" >>"$run/shares"
        options+=(-fsdev "local,id=share$tag,path=$share,security_model=none,multidevs=remap"
            -device "virtio-9p-pci,fsdev=share$tag,mount_tag=share$tag")
    done
    if [ -n "$cable" ]; then
        # A MAC address that this end has alone.
        options+=(-netdev "dgram,id=cable,local.type=unix,local.path=${cable%%:*},remote.type=unix,remote.path=${cable#*:}"
            -device "virtio-net-pci,netdev=cable,mac=$(printf %s "${cable%%:*}" | sha256sum | sed 's/\(..\)\(..\)\(..\)\(..\).*/52:54:\1:\2:\3:\4/')")
    fi
    if $bmc; then options+=(-device ipmi-bmc-sim,id=bmc0 -device isa-ipmi-kcs,bmc=bmc0); fi
    local cpu=max accel=tcg,thread=multi
    if [ "$accelerator" = kvm ]; then cpu=host accel=kvm; fi
    if $console; then options+=(-serial file:/dev/stderr); else options+=(-serial "file:$run/console"); fi
    : >"$run/console"
    # Descriptors for QEMU, which may not open ours by name (a socket, say).
    timeout --kill-after=5 "$timeout_seconds" qemu-system-x86_64 -accel "$accel" -cpu "$cpu" -smp "$cpus" -m "$memory" \
        -nodefaults -display none -no-reboot -kernel "$guest_folder/vmlinuz" -initrd "$guest_initramfs" \
        -append "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off systemd.unified_cgroup_hierarchy=1 systemd.condition-needs-update=0" \
        -fsdev local,id=host,path=/,security_model=none,readonly=on,multidevs=remap \
        -device virtio-9p-pci,fsdev=host,mount_tag=host \
        -fsdev "local,id=run,path=$run,security_model=none,multidevs=remap" \
        -device virtio-9p-pci,fsdev=run,mount_tag=run \
        -device virtio-serial-pci \
        -add-fd fd=3,set=1 -chardev file,id=out,path=/dev/fdset/1,append=on -device virtserialport,chardev=out,name=ppmr.out \
        -add-fd fd=4,set=2 -chardev file,id=err,path=/dev/fdset/2,append=on -device virtserialport,chardev=err,name=ppmr.err \
        "${options[@]}" </dev/null 3>&1 4>&2 >"$run/qemu.log" 2>&1 &
    qemu_pid=$!
    wait "$qemu_pid" || status=$?
    qemu_pid=
    if [ -s "$run/status" ]; then
        exit "$(cat "$run/status")"
    fi
    if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
        say "the guest was ended after $timeout_seconds s$(guest_says "$run")"
        exit 124
    fi
    say "the guest has failed: $(cat "$run/failure" 2>/dev/null || echo "no status came from it")$(guest_says "$run")"
    exit "$guest_broken"
}

guest_says() {
    local line
    while IFS= read -r line; do
        printf '\n  | %s' "$line"
    done < <(tail -n 15 "$1/qemu.log" "$1/console" 2>/dev/null | tr -d '\r\033')
}

end_qemu() {
    if [ -n "${qemu_pid:-}" ]; then
        kill "$qemu_pid" 2>/dev/null || true
        wait "$qemu_pid" 2>/dev/null || true
    fi
}

# The command as a script with the environment and folder of the caller.
write_command() {
    local run=$1
    shift
    {
        export -p
        # A folder of the guest's own: it sees the host's /tmp, and not the locks that the host's processes hold there.
        printf 'mkdir -p -m 1777 /tmp/ppmr-guest && export TMPDIR=/tmp/ppmr-guest\ncd %q\n' "$PWD"
        printf '%q ' "$@"
        printf '\n'
    } >"$run/command"
}
