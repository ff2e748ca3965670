#!/bin/bash
# class-archive.sh JAVA OPTIONS CLASSPATH NATIVES ARCHIVE: makes the archive of loaded classes with which the system tests
# start services and commands (class data sharing of java(1)). A start takes a third less processor time with it. A JVM
# that cannot use the archive starts without it.
set -euo pipefail
java=$1 class_path=$3 natives=$4 archive=$5
read -r -a options <<<"$2"

folder=$(mktemp -d)
service=
end() {
    if [ -n "$service" ]; then
        kill -KILL "$service" 2>/dev/null || true
        wait "$service" || true
    fi
    umount "$folder/mount" 2>/dev/null || true
    rm -rf "$folder"
}
trap end EXIT

umask 077
head -c 32 /dev/urandom | base64 >"$folder/key"
cat >"$folder/source.toml" <<CONFIG
mount = '$folder/mount'
work_directory = '$folder/work'
journal = '$folder/journal'
key_file = '$folder/key'
control_socket = '$folder/socket'
warm_up_migrations = 1
[target]
address = "127.0.0.1:9"
[checkpointers.one]
type = "command"
checkpoint = ["/bin/true"]
restart = ["/bin/true"]
CONFIG
rm -f "$archive"
mkfifo "$folder/output"
"$java" "${options[@]}" "-XX:ArchiveClassesAtExit=$archive" "-Dppmr.native.dir=$natives" -cp "$class_path" \
    io.ppmr.cli.Main source --config "$folder/source.toml" >"$folder/output" 2>"$folder/log" &
service=$!
# The service says that it is ready; its output ends if it cannot start.
if ! timeout 120 grep -qx ready "$folder/output"; then
    echo "class-archive.sh: the service did not start:" >&2
    cat "$folder/log" >&2
    exit 1
fi
"$java" "${options[@]}" "-Dppmr.native.dir=$natives" -cp "$class_path" io.ppmr.cli.Main status --socket "$folder/socket" >/dev/null
kill -TERM "$service"
for ((i = 0; i < 600; i++)); do
    kill -0 "$service" 2>/dev/null || break
    sleep 0.1
done
wait "$service" || true
service=
[ -f "$archive" ] || { echo "class-archive.sh: the JVM made no $archive" >&2; cat "$folder/log" >&2; exit 1; }
# Jobs' users start commands with it, too.
chmod 644 "$archive"
