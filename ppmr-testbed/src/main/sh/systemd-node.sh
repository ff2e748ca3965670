#!/bin/bash
# Has systemd take the place of a test node's init (TestNode.replaceInit). The node gets a cgroup of its own, below the
# place CGROUP of this machine's tree of version 2. Units of this machine's own boot are left out. systemd ends, and the
# node with it, when standard input is closed.
#
#   systemd-node.sh CGROUP
set -e
cgroup=$1
if [ "${2:-}" != own ]; then
    exec >/run/init.log 2>&1
    mkdir /run/cgroups
    mount -t cgroup2 none /run/cgroups
    mkdir "/run/cgroups/$cgroup"
    echo $$ >"/run/cgroups/$cgroup/cgroup.procs"
    exec unshare --cgroup -- bash "$0" "$cgroup" own
fi
umount /run/cgroups
umount -l /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
mount -t tmpfs none /var/log
# systemd writes there, and a node may show this machine's own.
if ! mountpoint -q /etc; then
    mkdir -p /run/etc/upper /run/etc/work
    mount -t overlay -o lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work node /etc
fi
: >/etc/fstab
uname -n >/etc/hostname
# Without one this would be the first boot, which enables units.
[ -s /etc/machine-id ] || tr -d - </proc/sys/kernel/random/uuid >/etc/machine-id
mkdir -p /run/systemd/system
cat >/run/systemd/system/ppmr-node.target <<UNIT
[Unit]
Description=A test node
Requires=dbus.socket systemd-journald.service
After=dbus.socket systemd-journald.service
UNIT
for unit in systemd-remount-fs.service systemd-firstboot.service systemd-update-utmp.service systemd-sysctl.service \
    systemd-random-seed.service systemd-networkd.service systemd-resolved.service systemd-timesyncd.service \
    systemd-machine-id-commit.service systemd-journal-flush.service systemd-binfmt.service systemd-udevd.service \
    systemd-modules-load.service systemd-udev-trigger.service systemd-pstore.service kmod-static-nodes.service \
    systemd-tmpfiles-setup.service systemd-tmpfiles-setup-dev.service systemd-sysusers.service \
    apparmor.service networking.service keyboard-setup.service console-setup.service e2scrub_reap.service \
    timers.target paths.target swap.target remote-fs.target systemd-udevd-control.socket systemd-udevd-kernel.socket \
    tmp.mount dev-hugepages.mount dev-mqueue.mount proc-sys-fs-binfmt_misc.automount proc-sys-fs-binfmt_misc.mount \
    sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-fs-fuse-connections.mount; do
    ln -sf /dev/null "/run/systemd/system/$unit"
done
# The end of input halts the node at once (systemd(1), SIGRTMIN+13).
{
    read -r _ || true
    kill -s RTMIN+13 1
} <&0 &
exec env -i container=ppmr-node PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --unit=ppmr-node.target \
    --show-status=0
