#!/bin/bash
# In the guest, in the host's root: lays out what a machine has, loads soft-RoCE, runs the command, tells its status.
#
#   inside.sh first      PID 1: mounts; goes on with "command", or starts systemd where the run wants that
#   inside.sh command    runs the command of this run and powers the guest off
#
# The folder of the run, /run/ppmr-guest, is the host's: command (a script), status, and the marks rdma and systemd.
set -u
run=/run/ppmr-guest
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

end_guest() {
    sync
    # Asked to reset, QEMU ends (-no-reboot); quicker than a shutdown, and there is nothing to keep.
    echo b >/proc/sysrq-trigger
    sleep 60
}

give_up() {
    echo "ppmr guest: $*" >/dev/console
    printf '%s\n' "$*" >"$run/failure"
    end_guest
}

# The device of one of the two virtio ports that carry the command's output to the host.
port() {
    local entry
    for entry in /sys/class/virtio-ports/*; do
        if [ "$(cat "$entry/name")" = "ppmr.$1" ]; then
            printf '/dev/%s\n' "${entry##*/}"
            return
        fi
    done
    give_up "the port for $1 is missing"
}

# Two addresses on the ends of a veth pair, with a soft-RoCE device on each. What one sends to the other goes over the
# pair and not by the loopback device, so that a link that is taken down is down.
set_up_network() {
    ip link set lo up
    ip link add v0 type veth peer name v1
    local end other
    for end in 0 1; do
        other=$((1 - end))
        ip addr add "10.77.0.$((end + 1))/24" dev "v$end"
        ip link set "v$end" mtu 4200 up
        sysctl -qw "net.ipv4.conf.v$end.accept_local=1" "net.ipv4.conf.v$end.rp_filter=0" \
            "net.ipv4.conf.v$end.arp_ignore=1" "net.ipv4.conf.v$end.arp_announce=2" \
            "net.ipv6.conf.v$end.disable_ipv6=1"
        ip rule add pref 1 iif "v$end" lookup local
        ip route add table 77 "10.77.0.$((other + 1))" dev "v$end" src "10.77.0.$((end + 1))"
    done
    sysctl -qw net.ipv4.conf.all.rp_filter=0
    ip rule add pref 2 lookup 77
    ip rule add pref 3 lookup local
    ip rule del pref 0
    for end in 0 1; do
        rdma link add "rxe$end" type rxe netdev "v$end" || give_up "soft-RoCE cannot be set up on v$end"
    done
    # The ends find each other once, so that no test waits for it.
    local tries=0
    until grep -q ACTIVE /sys/class/infiniband/rxe0/ports/1/state && grep -q ACTIVE /sys/class/infiniband/rxe1/ports/1/state; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || give_up "soft-RoCE does not become active"
        sleep 0.1
    done
}

first() {
    mkdir -p /dev/pts
    mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
    ln -sf pts/ptmx /dev/ptmx
    ln -sfn /proc/self/fd /dev/fd
    ln -sf fd/0 /dev/stdin
    ln -sf fd/1 /dev/stdout
    ln -sf fd/2 /dev/stderr
    mkdir -p /dev/shm
    mount -t tmpfs -o mode=1777 shm /dev/shm
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
    chmod 666 /dev/fuse
    hostname ppmr-guest 2>/dev/null || echo ppmr-guest >/proc/sys/kernel/hostname
    if [ ! -e "$run/systemd" ]; then
        command_and_end
    fi
    umount /sys/fs/cgroup
    mkdir -p /run/systemd/system
    cat >/run/systemd/system/ppmr-guest.service <<UNIT
[Unit]
Description=The command of this run
Requires=dbus.socket
After=sysinit.target dbus.socket basic.target
Wants=sysinit.target basic.target
[Service]
Type=exec
ExecStart=/bin/bash $run/start command
StandardOutput=journal+console
KillMode=process
TimeoutStartSec=infinity
LimitMEMLOCK=infinity
UNIT
    cat >/run/systemd/system/ppmr-guest.target <<UNIT
[Unit]
Description=One command, then the end
Requires=ppmr-guest.service
After=ppmr-guest.service
UNIT
    # What belongs to the host's own boot is left out; the host's devices and disks are not here.
    local unit
    for unit in systemd-remount-fs.service systemd-firstboot.service systemd-update-utmp.service \
        systemd-random-seed.service systemd-networkd.service systemd-resolved.service systemd-timesyncd.service \
        systemd-machine-id-commit.service systemd-journal-flush.service systemd-binfmt.service \
        systemd-modules-load.service systemd-udev-trigger.service systemd-pstore.service kmod-static-nodes.service \
        apparmor.service networking.service keyboard-setup.service console-setup.service e2scrub_reap.service \
        timers.target paths.target swap.target remote-fs.target \
        tmp.mount dev-hugepages.mount proc-sys-fs-binfmt_misc.automount proc-sys-fs-binfmt_misc.mount \
        sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount; do
        ln -sf /dev/null "/run/systemd/system/$unit"
    done
    # Nor is the host's /tmp emptied, as a boot would: the sources may lie there.
    mkdir -p /run/tmpfiles.d
    ln -sf /dev/null /run/tmpfiles.d/tmp.conf
    : >/run/fstab
    mount --bind /run/fstab /etc/fstab 2>/dev/null || : >/etc/fstab
    exec env -i container= PATH="$PATH" /lib/systemd/systemd --unit=ppmr-guest.target --show-status=0 ||
        give_up "systemd does not start"
}

command_and_end() {
    if [ -e "$run/rdma" ]; then
        set_up_network >/dev/console 2>&1
    else
        ip link set lo up
    fi
    local status=0 out err
    out=$(port out)
    err=$(port err)
    : >"$run/started"
    setsid /bin/bash "$run/command" </dev/null >"$out" 2>"$err" || status=$?
    printf '%s\n' "$status" >"$run/status"
    end_guest
}

case ${1:-first} in
first) first ;;
command) command_and_end ;;
esac
