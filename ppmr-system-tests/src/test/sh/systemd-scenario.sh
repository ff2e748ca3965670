#!/bin/bash
# Both services under a real systemd, in a guest that it has booted (./ppmr guest --systemd): installed, started, a job
# moved, a node fenced, a service hung, killed, stopped, upgraded and uninstalled, and the job goes on. Commands of the
# site ask the guest's simulated management controller (--bmc). Prints a line for each thing that it has seen; ends with
# 0 if it has seen all of them. Run by SystemdIT.
#
#   systemd-scenario.sh JAVA HOME PATIENCE    the JDK's java, the built tree, how many times longer it waits than usual
set -u
java=$1
home=$2
patience=$3
prefix=/opt/ppmr
work=/var/tmp/ppmr-scenario
native_test=$home/ppmr-checkpoint/target/native-test
ask_bmc=$home/ppmr-system-tests/src/test/perl/ask-bmc.pl
site=/usr/local/lib/ppmr-scenario

seen() { echo "seen: $* ($(cut -d' ' -f1 /proc/uptime) s)"; }
fail() {
    echo "FAILED: $*"
    systemctl --no-pager --lines=0 status ppmr-source ppmr-target 2>&1 | head -40
    journalctl --no-pager -o cat -n 120 -u ppmr-source -u ppmr-target
    exit 1
}
# await SECONDS WHAT COMMAND...: until the command succeeds. The time is a quiet machine's; a busy one gets so many times that.
await() {
    local deadline=$((SECONDS + patience * $1)) what=$2
    shift 2
    until "$@"; do
        [ "$SECONDS" -lt "$deadline" ] || fail "$what: not within its time"
        sleep 0.2
    done
}
property() { systemctl show --value -p "$2" "$1"; }
main_pid() { property "$1" MainPID; }
# logged source|target PATTERN
logged() { journalctl --no-pager -o cat -u "ppmr-$1" | grep -q "$2"; }
# The process that has made the job's last pass, and how many passes there are.
job_pid() { tail -n 1 "$work/progress" | cut -d' ' -f4; }
job_passes() { wc -l <"$work/progress"; }
job_runs() { [ "$(job_passes)" -gt "$passes" ]; }
require_job() {
    passes=$(job_passes)
    await 60 "the job goes on after: $1" job_runs
    if [ -n "$criu_moved" ]; then
        criu_passes=$(wc -l <"$work/criu-progress")
        await 60 "the job that CRIU moved goes on after: $1" criu_job_runs
    fi
    seen "the job goes on after: $1${criu_moved:+, and the one that CRIU moved}"
}
criu_moved=
criu_job_runs() { [ "$(wc -l <"$work/criu-progress")" -gt "$criu_passes" ]; }
under_way() { property ppmr-source StatusText | grep -q 'is under way\|being migrated' || moved; }
# From the sources, as ./ppmr install does once it has built them.
install_tree() {
    env PPMR_HOME="$home" "$java" -Xmx96m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 \
        -cp "$home/ppmr-cli/target/classes:$home/ppmr-cli/target/lib/*" io.ppmr.cli.Main install --prefix "$prefix"
}

mkdir -p "$work"
chmod 777 "$work"

# The driver alone, as on a node at whose boot nobody has asked for the device: that is for the units to do.
insmod "/lib/modules/$(uname -r)/ipmi_msghandler.ko" || fail "ipmi_msghandler"
insmod "/lib/modules/$(uname -r)/ipmi_si.ko" || fail "ipmi_si"
[ ! -e /dev/ipmi0 ] || fail "/dev/ipmi0 is there before a unit is started"

# Commands of the site. Each says where it runs, and what the management controller answers.
mkdir -p "$site/blcr"
# A unit's service runs as root nothing that others could change, as whoever has built the tree could.
cp "$native_test/cr_checkpoint" "$native_test/cr_restart" "$native_test/selfckpt-job" "$site/blcr"
cat >"$site/says" <<SH
#!/bin/sh
echo "\$* by \$(id -u) in \$(sed -n 's|^0::/system.slice/||p' /proc/self/cgroup): \$(perl $ask_bmc 2>&1)"
SH
cat >"$site/health" <<SH
#!/bin/sh
# A device that the units do not name, which root may write: were it open, that of the controller would prove nothing.
if true 2>/dev/null >/dev/kmsg; then echo "health: /dev/kmsg is open" >>$work/health; fi
$site/says health >>$work/health
tail -n 1 $work/health | grep -q 'the management controller answers'
SH
# A node that is off has no processes.
cat >"$site/fence" <<SH
#!/bin/sh
$site/says "fence \$1" >>$work/fence
tail -n 1 $work/fence | grep -q 'the management controller answers' || exit 2
test -e $work/power-off || exit 1
kill -9 \$(cat $work/fenced-pid)
SH
# cr_restart, which says that it has restored only when it may.
cat >"$site/cr_restart" <<SH
#!/bin/bash
words=()
for word in "\$@"; do
    case \$word in
    --run-on-success=*) word="--run-on-success=until test -e $work/go; do sleep 0.2; done; \${word#*=}" ;;
    esac
    words+=("\$word")
done
exec $site/blcr/cr_restart "\${words[@]}"
SH
chmod 755 "$site"/* "$site"/blcr/*

install_tree || fail "ppmr install"
[ -d /run/ppmr ] || fail "tmpfiles has not made /run/ppmr"
getent group ppmr >/dev/null || fail "sysusers has not made the group ppmr"
seen "installed"
systemd-analyze verify /etc/systemd/system/ppmr-source.service /etc/systemd/system/ppmr-target.service >"$work/verify" 2>&1 ||
    fail "systemd-analyze verify: $(cat "$work/verify")"
[ ! -s "$work/verify" ] || fail "systemd-analyze verify: $(cat "$work/verify")"
seen "systemd-analyze verify is content"

(umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >/etc/ppmr/key)
tools="[checkpointers.blcr]
type = \"blcr\"
checkpoint_program = \"$site/blcr/cr_checkpoint\"
restart_program = \"$site/blcr/cr_restart\"
kernel_module = false
[checkpointers.waiting]
type = \"blcr\"
checkpoint_program = \"$site/blcr/cr_checkpoint\"
restart_program = \"$site/cr_restart\"
kernel_module = false"
# The words that start CRIU, one a line in PPMR_CRIU; empty where it cannot be had.
if [ -n "${PPMR_CRIU:-}" ]; then
    tools="$tools
[checkpointers.criu]
type = \"criu\"
program = [$(printf '%s\n' "$PPMR_CRIU" | sed 's/.*/"&"/' | paste -sd,)]"
fi
# Where nobody may read other users' limits (CAP_SYS_RESOURCE, in a container), CRIU moves root's processes alone.
criu_user=20001
if [ $((0x$(sed -n 's/^CapBnd:[[:space:]]*//p' /proc/1/status) >> 24 & 1)) -eq 0 ]; then criu_user=0; fi
cat >/etc/ppmr/target.toml <<TOML
allow_root_jobs = $([ "$criu_user" -eq 0 ] && echo true || echo false)
unknown_users = true
listen = "127.0.0.1:7411"
mount = "/run/ppmr/target"
work_directory = "/var/lib/ppmr/work/target"
key_file = "/etc/ppmr/key"
warm_up_migrations = 0
silence_limit = "60s"
stall_limit = "10m"
[fence]
command = ["$site/fence", "{node}"]
delay = "1s"
deadline = "60s"
$tools
$([ -n "${PPMR_CRIU:-}" ] && echo "trusted_users = [$criu_user]")
TOML
cat >/etc/ppmr/source.toml <<TOML
mount = "/run/ppmr/source"
work_directory = "/var/lib/ppmr/work/source"
key_file = "/etc/ppmr/key"
warm_up_migrations = 1
silence_limit = "60s"
trigger_job = "solver"
[target]
address = "127.0.0.1:7411"
connect_deadline = "30s"
[triggers]
health = ["$site/health"]
health_interval = "2m"
health_deadline = "2m"
health_dry_run = true
$tools
[jobs.fenced]
user = 20001
group = 20001
checkpointer = "waiting"
ranks = [{rank = 0, pid_file = "$work/fenced-pid"}]
[jobs.solver]
user = 20001
group = 20001
checkpointer = "blcr"
ranks = [{rank = 0, pid_file = "$work/pid"}]
suspend = ["sh", "-c", '$site/says suspend >>$work/hooks']
reconnect = ["sh", "-c", 'echo "reconnect by \$(id -u): \$(cat "\$PPMR_MAP")" >>$work/hooks']
TOML
if [ -n "${PPMR_CRIU:-}" ]; then
    cat >>/etc/ppmr/source.toml <<TOML
[jobs.unaware]
user = $criu_user
group = $criu_user
checkpointer = "criu"
ranks = [{rank = 0, pid_file = "$work/criu-pid"}]
TOML
fi

# Under emulation the JVM's second compiler would take more time than it saves.
printf 'JAVA_TOOL_OPTIONS=-XX:TieredStopAtLevel=1\nPPMR_JAVA_HOME=%s\n' "${java%/bin/java}" >/etc/ppmr/environment
export JAVA_TOOL_OPTIONS=-XX:TieredStopAtLevel=1 PPMR_JAVA_HOME=${java%/bin/java}

# Emulated beside other work a service is slow.
mkdir -p /etc/systemd/system/ppmr-source.service.d /etc/systemd/system/ppmr-target.service.d
printf '[Service]\nTimeoutStartSec=10min\nTimeoutStopSec=10min\nWatchdogSec=10min\n' \
    >/etc/systemd/system/ppmr-source.service.d/slow.conf
printf '[Service]\nTimeoutStartSec=10min\nTimeoutStopSec=10min\n' >/etc/systemd/system/ppmr-target.service.d/slow.conf
systemctl daemon-reload

setpriv --reuid 20001 --regid 20001 --clear-groups setsid "$site/blcr/selfckpt-job" --size 4194304 --passes 1000000 \
    --seed 7 --out "$work/out" --progress "$work/progress" --pace 200 </dev/null >"$work/job.log" 2>&1 &
echo $! >"$work/pid"
await 30 "the job computes" test -s "$work/progress"
first=$(job_pid)
echo "$first" >"$work/pid"

systemctl start --no-block ppmr-source
systemctl start ppmr-target || fail "ppmr-target does not start"
grep -q " /run/ppmr/target fuse" /proc/mounts || fail "ready, and no mount"
seen "ppmr-target is ready: $(property ppmr-target StatusText)"
systemctl start ppmr-source || fail "ppmr-source does not start"
seen "ppmr-source is ready: $(property ppmr-source StatusText)"

# The units have had the device made, and reach it, and none that they do not name.
true >/dev/kmsg || fail "nobody may write /dev/kmsg, so that a unit cannot says nothing of the unit"
bmc_answers='the management controller answers'
await 60 "the health command is asked" test -s "$work/health"
grep -q "^health by 0 in ppmr-source.service: $bmc_answers" "$work/health" ||
    fail "the health command: $(cat "$work/health")"
if grep -q kmsg "$work/health"; then fail "the source's unit reaches /dev/kmsg"; fi
await 30 "the answer of the health command is believed" logged source '^health command: well'
# What is a child of the target's unit, such as a command of a site that has PPMR_COMMANDS=direct.
in_target() { sh -c "echo \$\$ >/sys/fs/cgroup/system.slice/ppmr-target.service/cgroup.procs; $*"; }
in_target "$site/says child" >"$work/child"
grep -q "^child by 0 in ppmr-target.service: $bmc_answers" "$work/child" ||
    fail "in the target's unit: $(cat "$work/child")"
if in_target "true 2>/dev/null >/dev/kmsg"; then fail "the target's unit reaches /dev/kmsg"; fi
seen "$(tail -n 1 "$work/health"); $(cat "$work/child")"
# For the hook, which runs as the job's user: a site may give a user such a device.
chown 20001 /dev/ipmi0

# Cold and emulated, two services may take longer for their first handshake than the 5 s that it may last; then the job
# goes on where it is, and is asked for again.
moved() { [ "$(job_pid)" != "$first" ] && [ ! -e "/proc/$first" ]; }
moved_or_not() { moved || property ppmr-source StatusText | grep -q 'rolled_back$'; }
for try in 1 2 3 4; do
    systemctl kill --kill-whom=main -s USR2 ppmr-source || fail "systemctl kill"
    await 30 "the migration begins" under_way
    await 120 "the job has moved" moved_or_not
    if moved; then break; fi
    echo "try $try: $(journalctl --no-pager -o cat -u ppmr-source | grep 'ROLLED_BACK' | tail -n 1)"
done
await 60 "the job has moved" moved
copy=$(job_pid)
unit=$(sed -n 's|^0::/system.slice/||p' "/proc/$copy/cgroup")
case $unit in
ppmr-blcr-restart-0-*.service) seen "the job has moved, from PID $first to $copy, in a service of its own: ${unit%-*}" ;;
*) fail "the copy's group is $unit" ;;
esac
[ "$(tr '\0' '\n' <"/proc/$copy/environ" | grep -c '^NOTIFY_SOCKET')" -eq 0 ] || fail "the copy may speak for the service"
committed() { property ppmr-source StatusText | grep -q 'idle; last: job solver committed'; }
await 20 "the source says how it went" committed
seen "status of the source: $(property ppmr-source StatusText)"
# Hooks run as the job's user, which the service's own capabilities do not allow, and read the map.
grep -q "^suspend by 20001 in ppmr-.*\.service: $bmc_answers" "$work/hooks" ||
    fail "the suspend hook: $(cat "$work/hooks")"
grep -q '^reconnect by 20001: 0 .' "$work/hooks" || fail "the reconnect hook: $(cat "$work/hooks")"
seen "hooks have run as the job's user: $(head -n 1 "$work/hooks")"
# The journal knows what each entry is about.
migration=$(journalctl --no-pager -o cat -u ppmr-source | sed -n 's/^migration \([0-9a-f-]*\): COMMITTED.*/\1/p' | tail -n 1)
journalctl --no-pager -o json PPMR_MIGRATION="$migration" >"$work/journal"
for field in '"_SYSTEMD_UNIT":"ppmr-source.service"' '"_SYSTEMD_UNIT":"ppmr-target.service"' '"PPMR_RANK":"0"' \
    '"PPMR_PEER":"127.0.0.1:7411"' '"SYSLOG_IDENTIFIER":"ppmr-target"' '"CODE_FILE":"SourceService.java"' '"PRIORITY":"6"'; do
    grep -qF "$field" "$work/journal" || fail "no entry of migration $migration has $field: $(cat "$work/journal")"
done
journalctl --no-pager -o cat PPMR_MIGRATION="$migration" PPMR_RANK=0 | grep -q 'rank 0 is restored and held' ||
    fail "the journal finds nothing by the rank"
seen "the journal finds $(wc -l <"$work/journal") entries by the migration"
[ "$(property ppmr-source NRestarts)$(property ppmr-target NRestarts)" = 00 ] || fail "a service was started anew"
require_job "the move"

# A job that knows nothing of checkpoints, moved by CRIU, with units of its own.
criu_log() { find /var/lib/ppmr/work -type f | while read -r file; do echo "== $file"; tail -n 30 "$file"; done; }
if [ -n "${PPMR_CRIU:-}" ]; then
    setpriv --reuid "$criu_user" --regid "$criu_user" --clear-groups setsid "$native_test/plain-job" --size 4194304 \
        --passes 1000000 --seed 8 --out "$work/criu-out" --progress "$work/criu-progress" --pace 200 </dev/null \
        >"$work/criu-job.log" 2>&1 &
    unaware=$!
    echo "$unaware" >"$work/criu-pid"
    await 30 "the second job computes" test -s "$work/criu-progress"
    for try in 1 2 3; do
        "$prefix/ppmr" migrate --config /etc/ppmr/source.toml unaware >"$work/criu-migrate" 2>&1 && break
        echo "try $try: $(tail -n 3 "$work/criu-migrate")"
    done
    grep -q '^committed' "$work/criu-migrate" || fail "CRIU: $(cat "$work/criu-migrate") $(criu_log)"
    [ ! -e "/proc/$unaware" ] || fail "the original of the second job is there still"
    unit=$(grep -l 'ppmr-criu-' /proc/[0-9]*/cgroup 2>/dev/null | while read -r group; do
        if tr '\0' ' ' <"${group%cgroup}cmdline" | grep -q -- '--seed 8'; then
            sed -n 's|^0::/system.slice/||p' "$group"
        fi
    done | sort -u)
    case $unit in
    ppmr-criu-restore-0-*.service) seen "the second job has been moved by CRIU, in a service of its own: ${unit%-*}" ;;
    *) fail "the group of the second job's copy is '$unit': $(systemd-cgls --no-pager | cat)" ;;
    esac
    criu_moved=yes
    require_job "the second move"
fi

hung=$(main_pid ppmr-target)
kill -STOP "$hung"
again() { [ "$(property ppmr-target NRestarts)" -ge 1 ] && systemctl is-active --quiet ppmr-target; }
await 150 "the watchdog ends a target that hangs, and it starts again" again
journalctl --no-pager -o cat -u ppmr-target | grep -q 'Watchdog timeout' || fail "it was not the watchdog"
stat /run/ppmr/target >/dev/null || fail "the mount of the new one does not answer"
seen "the watchdog has ended a target that hung, and it is ready again"
require_job "the watchdog"

killed=$(main_pid ppmr-source)
systemctl kill --kill-whom=all -s KILL ppmr-source
anew() { [ "$(main_pid ppmr-source)" != "$killed" ] && systemctl is-active --quiet ppmr-source; }
await 150 "a killed source starts again" anew
stat /run/ppmr/source >/dev/null || fail "the mount of the new one does not answer"
[ "$(grep -c ' /run/ppmr/source fuse' /proc/mounts)" -eq 1 ] || fail "the old mount is there still"
seen "a killed source has started again, and has cleared its mount"
require_job "kill -9"

# Killed and not started again, when the target has voted for a copy: its node is to be fenced.
printf '[Service]\nRestart=no\n' >/etc/systemd/system/ppmr-source.service.d/test.conf
systemctl daemon-reload
setpriv --reuid 20001 --regid 20001 --clear-groups setsid "$site/blcr/selfckpt-job" --size 4194304 --passes 1000000 \
    --seed 9 --out "$work/fenced-out" --progress "$work/fenced-progress" --pace 200 \
    </dev/null >"$work/fenced.log" 2>&1 &
await 30 "the third job computes" test -s "$work/fenced-progress"
fenced=$(tail -n 1 "$work/fenced-progress" | cut -d' ' -f4)
echo "$fenced" >"$work/fenced-pid"
[ ! -e "$work/fence" ] || fail "a node was fenced that is well: $(cat "$work/fence")"
ppmr() { "$prefix/ppmr" "$@" >"$work/ppmr" 2>&1; }
# is_at source|target PATTERN: what the service says of the migration on SIGUSR1, which is quicker here than a command.
is_at() {
    systemctl kill --kill-whom=main -s USR1 "ppmr-$1"
    sleep 0.5
    logged "$1" "^state: migration ${migration%%-*}.*$2"
}
rolled_back() { logged source "^migration $migration: ROLLED_BACK"; }
# Once its image is whole the source waits for the target's word.
written_or_not() { is_at source 'step=RESTART' || rolled_back; }
for try in 1 2 3 4; do
    ppmr migrate --no-wait --config /etc/ppmr/source.toml fenced || fail "the third job: $(cat "$work/ppmr")"
    migration=$(sed -n 's/^migration \([^ ]*\) of job.*/\1/p' "$work/ppmr")
    await 60 "the third job's image is whole" written_or_not
    if ! rolled_back; then break; fi
    echo "try $try: $(journalctl --no-pager -o cat -u ppmr-source | grep "^migration $migration: ROLLED_BACK")"
done
if rolled_back; then fail "the third job does not leave"; fi
systemctl kill --kill-whom=main -s STOP ppmr-source
touch "$work/go"
await 60 "the target has voted" is_at target ' held '
systemctl kill --kill-whom=main -s KILL ppmr-source
dead() { [ "$(property ppmr-source ActiveState)" = failed ]; }
await 60 "a killed source is over" dead
if grep -q ' /run/ppmr/source ' /proc/mounts; then fail "a killed source has left its mount"; fi
ls /run/ppmr/source >/dev/null || fail "the folder of the killed source's mount does not answer"
seen "a source that was killed and not started again has left no mount"
rm /etc/systemd/system/ppmr-source.service.d/test.conf
systemctl daemon-reload

await 60 "the fence command has failed" logged target 'the fence command does not prove the source off'
fence_ran() { [ "$(grep -c "^fence 127.0.0.1 by 0 in ppmr-fence-.*\.service: $bmc_answers" "$work/fence")" -eq "$1" ]; }
fence_ran 1 || fail "the fence command: $(cat "$work/fence")"
copy_passes() { [ "$(tail -n 1 "$work/fenced-progress" | cut -d' ' -f4)" != "$fenced" ]; }
if copy_passes; then fail "the copy runs, and nothing has proved the source's node off"; fi
touch "$work/power-off"
ppmr resolve "$migration" --commit --yes --config /etc/ppmr/target.toml || fail "resolve: $(cat "$work/ppmr")"
fence_ran 2 || fail "the fence command, run by resolve: $(cat "$work/fence")"
[ ! -e "/proc/$fenced" ] || fail "the fence has not ended the original"
await 60 "the copy runs, as the source's node is proved off" copy_passes
seen "$(tail -n 1 "$work/fence"); believed when it failed and when it succeeded"
systemctl start ppmr-source || fail "ppmr-source does not start after it was killed"

systemctl stop ppmr-source ppmr-target || fail "systemctl stop"
if grep -q '/run/ppmr/' /proc/mounts; then fail "a mount is left: $(grep /run/ppmr/ /proc/mounts)"; fi
[ "$(property ppmr-source Result)$(property ppmr-target Result)" = successsuccess ] || fail "they have not ended well"
seen "stopped, and no mount is left"
require_job "stop"

# A controller of a cluster. Its unit has two of root's capabilities.
grep -q '^listen' /etc/ppmr/controller.toml || fail "ppmr install has put no controller.toml there"
cat >/etc/ppmr/controller.toml <<TOML
listen = "127.0.0.1:7413"
key_file = "/etc/ppmr/key"
controller_key_file = "/etc/ppmr/controller-key"
TOML
mkdir -p /etc/systemd/system/ppmr-controller.service.d
printf '[Service]\nTimeoutStartSec=10min\nTimeoutStopSec=10min\nWatchdogSec=10min\n' \
    >/etc/systemd/system/ppmr-controller.service.d/slow.conf
systemctl daemon-reload
systemd-analyze verify /etc/systemd/system/ppmr-controller.service >"$work/verify" 2>&1 ||
    fail "systemd-analyze verify: $(cat "$work/verify")"
ppmr keygen /etc/ppmr/controller-key || fail "keygen: $(cat "$work/ppmr")"
systemctl start ppmr-controller || fail "ppmr-controller does not start: $(journalctl --no-pager -o cat -n 40 -u ppmr-controller)"
cluster() { journalctl --no-pager -o cat -u ppmr-controller | sed -n 's/.*controller of cluster \([^ ]*\) .*/\1/p'; }
controller_answers() { ppmr nodes --config /etc/ppmr/controller.toml; }
await 60 "the controller answers" controller_answers
seen "ppmr-controller is ready, and ppmr nodes has an answer"
killed=$(main_pid ppmr-controller)
systemctl kill --kill-whom=all -s KILL ppmr-controller
controller_restarted() { [ "$(main_pid ppmr-controller)" != "$killed" ] && systemctl is-active --quiet ppmr-controller; }
await 150 "a killed controller starts again" controller_restarted
await 60 "the controller answers again" controller_answers
[ "$(cluster | sort -u | wc -l)" -eq 1 ] || fail "the cluster has another name: $(cluster)"
systemctl stop ppmr-controller || fail "systemctl stop ppmr-controller"
[ "$(property ppmr-controller Result)" = success ] || fail "the controller has not ended well"
seen "a killed controller has started again with the same cluster"

install_tree || fail "ppmr install, once more"
grep -q 'name = "none"\|solver' /etc/ppmr/source.toml || fail "the configuration was overwritten"
require_job "upgrade"
rm -r /etc/systemd/system/ppmr-{source,target,controller}.service.d
"$prefix/ppmr" uninstall --yes || fail "ppmr uninstall"
[ ! -e "$prefix" ] || fail "$prefix is left: $(find "$prefix" | head)"
[ ! -e /etc/systemd/system/ppmr-source.service ] || fail "a unit is left"
[ -e /etc/ppmr/source.toml ] || fail "the operator's configuration is gone"
seen "uninstalled"
require_job "uninstall"
[ "$(job_pid)" = "$copy" ] || fail "the job is another process by now"
echo "all seen"
