#!/bin/sh
# The hooks of the job ring-job: ring-hook.sh suspend|resume|reconnect DIR. What "suspend" does when it is done stands
# in DIR/suspend-hook: "fail" ends with status 3, "hang" never ends, anything else ends well.
set -eu
what=$1
cd "$2"

# How often the ring has gone on: the number of the newest map.
generation=0
while [ -e "map.$((generation + 1))" ]; do generation=$((generation + 1)); done

await_stop() {
    for rank in $(cut -d ' ' -f 1 "map.$generation"); do
        while [ ! -e "stopped-$rank.$generation" ]; do sleep 0.01; done
    done
}

go_on_by() {
    cp "$1" map.next
    mv map.next "map.$((generation + 1))"
}

case $what in
suspend)
    : >suspend
    await_stop
    case $(cat suspend-hook 2>/dev/null) in
    fail)
        echo "an endpoint is stuck"
        exit 3
        ;;
    hang) exec sleep 600 ;;
    esac
    ;;
resume)
    # Where no rank has seen it yet, taking it back is enough.
    if rm suspend 2>/dev/null; then exit 0; fi
    await_stop
    go_on_by "map.$generation"
    echo "$PPMR_RANKS" >resumed
    ;;
reconnect)
    cp "$PPMR_MAP" reconnect.map
    echo "$PPMR_SHARED" >reconnect.shared
    go_on_by "$PPMR_MAP"
    ;;
esac
