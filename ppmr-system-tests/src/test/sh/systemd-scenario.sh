#!/bin/bash
# Both services under a real systemd, in a guest that it has booted (./ppmr guest --systemd): installed, started, a job
# moved, a service hung, killed, stopped, upgraded and uninstalled, and the job goes on. Prints a line for each thing
# that it has seen; ends with 0 if it has seen all of them. Run by SystemdIT.
#
#   systemd-scenario.sh JAVA HOME     the JDK's java, and the built tree
set -u
java=$1
home=$2
prefix=/opt/ppmr
work=/var/tmp/ppmr-scenario
native_test=$home/ppmr-checkpoint/target/native-test

seen() { echo "seen: $* ($(cut -d' ' -f1 /proc/uptime) s)"; }
fail() {
    echo "FAILED: $*"
    systemctl --no-pager --lines=0 status ppmr-source ppmr-target 2>&1 | head -40
    journalctl --no-pager -o cat -n 120 -u ppmr-source -u ppmr-target
    exit 1
}
# await SECONDS WHAT COMMAND...: until the command succeeds. The time is a quiet machine's; a busy one gets five times that.
await() {
    local deadline=$((SECONDS + 5 * $1)) what=$2
    shift 2
    until "$@"; do
        [ "$SECONDS" -lt "$deadline" ] || fail "$what: not within its time"
        sleep 0.2
    done
}
property() { systemctl show --value -p "$2" "$1"; }
main_pid() { property "$1" MainPID; }
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
checkpoint_program = \"$native_test/cr_checkpoint\"
restart_program = \"$native_test/cr_restart\"
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
rehearsals = 0
silence_limit = "60s"
$tools
$([ -n "${PPMR_CRIU:-}" ] && echo "trusted_users = [$criu_user]")
TOML
cat >/etc/ppmr/source.toml <<TOML
mount = "/run/ppmr/source"
work_directory = "/var/lib/ppmr/work/source"
key_file = "/etc/ppmr/key"
rehearsals = 1
silence_limit = "60s"
trigger_job = "solver"
[target]
address = "127.0.0.1:7411"
connect_deadline = "30s"
$tools
[jobs.solver]
user = 20001
group = 20001
checkpointer = "blcr"
ranks = [{rank = 0, pid_file = "$work/pid"}]
suspend = ["sh", "-c", 'echo "suspend by \$(id -u)" >>$work/hooks']
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
printf '[Service]\nTimeoutStartSec=10min\nTimeoutStopSec=10min\n' >/etc/systemd/system/ppmr-source.service.d/slow.conf
printf '[Service]\nTimeoutStartSec=10min\nTimeoutStopSec=10min\n' >/etc/systemd/system/ppmr-target.service.d/slow.conf
systemctl daemon-reload

setpriv --reuid 20001 --regid 20001 --clear-groups setsid "$native_test/selfckpt-job" --size 4194304 --passes 1000000 \
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
grep -q '^suspend by 20001$' "$work/hooks" || fail "the suspend hook: $(cat "$work/hooks")"
grep -q '^reconnect by 20001: 0 .' "$work/hooks" || fail "the reconnect hook: $(cat "$work/hooks")"
seen "hooks have run as the job's user"
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

# Killed and not started again.
printf '[Service]\nRestart=no\n' >/etc/systemd/system/ppmr-source.service.d/test.conf
systemctl daemon-reload
systemctl kill --kill-whom=main -s KILL ppmr-source
dead() { [ "$(property ppmr-source ActiveState)" = failed ]; }
await 60 "a killed source is over" dead
if grep -q ' /run/ppmr/source ' /proc/mounts; then fail "a killed source has left its mount"; fi
ls /run/ppmr/source >/dev/null || fail "the folder of the killed source's mount does not answer"
seen "a source that was killed and not started again has left no mount"
rm /etc/systemd/system/ppmr-source.service.d/test.conf
systemctl daemon-reload
systemctl start ppmr-source || fail "ppmr-source does not start after it was killed"

systemctl stop ppmr-source ppmr-target || fail "systemctl stop"
if grep -q '/run/ppmr/' /proc/mounts; then fail "a mount is left: $(grep /run/ppmr/ /proc/mounts)"; fi
[ "$(property ppmr-source Result)$(property ppmr-target Result)" = successsuccess ] || fail "they have not ended well"
seen "stopped, and no mount is left"
require_job "stop"

install_tree || fail "ppmr install, once more"
grep -q 'name = "none"\|solver' /etc/ppmr/source.toml || fail "the configuration was overwritten"
require_job "upgrade"
rm -r /etc/systemd/system/ppmr-source.service.d /etc/systemd/system/ppmr-target.service.d
"$prefix/ppmr" uninstall || fail "ppmr uninstall"
[ ! -e "$prefix" ] || fail "$prefix is left: $(find "$prefix" | head)"
[ ! -e /etc/systemd/system/ppmr-source.service ] || fail "a unit is left"
[ -e /etc/ppmr/source.toml ] || fail "the operator's configuration is gone"
seen "uninstalled"
require_job "uninstall"
[ "$(job_pid)" = "$copy" ] || fail "the job is another process by now"
echo "all seen"
