#!/usr/bin/env bash
# What Linux makes of the paths of braidnet's goodput grid (crates/braidnet-tcp/tests/goodput/grid.txt): one flow from one namespace to
# another through `braidnet relay`, which loses, delays and queues by the code that the grid goes by. Prints the same table, in real time.
#
#   cargo build --release
#   peers/linux-grid.sh > crates/braidnet-tcp/tests/goodput/linux.txt
#   CONTROLS=bbr ROUND_TRIPS=40 BUFFERS=100 peers/linux-grid.sh        # a part of it
#
# Needs root, ip (iproute2), chrt (util-linux), iperf3 and ping (iputils-ping). BRAIDNET names another binary. AT_ONCE is how many points are measured at a time
# (8), RUNS of how many runs the median is taken (3): 216 points take 20 minutes.
set -euo pipefail

NAME=linux-grid
AT_ONCE=${AT_ONCE:-8}
RUNS=${RUNS:-3}
CONTROLS=${CONTROLS:-cubic reno bbr}
ROUND_TRIPS=${ROUND_TRIPS:-10 40 200}
BUFFERS=${BUFFERS:-25 100}
# As in the grid: Mbit/s of the bottleneck, seconds until a flow counts as steady, and for how long it is measured then.
RATE=20
BEFORE=2
STEADY=10
LOSSES=(0 0.1 1 3)
LATE=(0:0 3:5 3:20)
NAMESPACES=()
source "$(dirname "$0")/beside-linux.sh"
need ip chrt iperf3 ping

results=$(mktemp -d)
trap 'clean_up; rm -rf "$results"' EXIT

# One run at one point, on namespaces and a relay of its own; they end with the shell that it runs in.
# control, round trip in ms, buffer in % of what the path holds, loss in %, share and milliseconds of what comes late, seed
point() {
    local control=$1 rtt=$2 buffer=$3 loss=$4 share=${5%:*} late=${5#*:} seed=$6
    local queue=$((RATE * 125 * rtt * buffer / 100))
    local impair="seed=$seed,loss=$loss%,delay=$((rtt * 500))us,rate=${RATE}mbit,queue=$((queue > 6000 ? queue : 6000))"
    [ "$share" = 0 ] || impair+=",reorder=$share%:${late}ms"
    local left=bn-gl-$BASHPID right=bn-gr-$BASHPID
    NAMESPACES=("$left" "$right")
    started=()
    trap clean_up EXIT
    ip netns add "$left"
    ip netns add "$right"
    # Before all else that runs: what it holds up it holds up on time.
    chrt -f 10 "$BRAIDNET" relay --from "tun:bnl@$left" --from-host 10.91.0.1/24 --to "tun:bnr@$right" --to-host 10.91.0.2/24 \
        --impair "$impair" --impair-back "delay=$((rtt * 500))us" >/dev/null &
    started+=($!)
    ip netns exec "$right" iperf3 --server --one-off >/dev/null 2>&1 &
    started+=($!)
    for _ in $(seq 100); do
        ip netns exec "$left" ping -c 1 -W 2 10.91.0.2 >/dev/null 2>&1 && break
        sleep 0.1
    done
    ip netns exec "$left" iperf3 --client 10.91.0.2 --congestion "$control" --omit "$BEFORE" --time "$STEADY" --format k |
        awk '/receiver/ { printf "%.2f\n", $7 / 1000; found = 1 } END { exit !found }'
}

# Every run of every point, some at a time.
running=0
for control in $CONTROLS; do for rtt in $ROUND_TRIPS; do for buffer in $BUFFERS; do
    for loss in "${LOSSES[@]}"; do for late in "${LATE[@]}"; do for run in $(seq "$RUNS"); do
        [ "$running" -lt "$AT_ONCE" ] || { wait -n || { say "a run failed"; exit 1; }; running=$((running - 1)); }
        (point "$control" "$rtt" "$buffer" "$loss" "$late" "$run" > "$results/$control-$rtt-$buffer-$loss-$late-$run") &
        running=$((running + 1))
    done; done; done
done; done; done
while [ "$running" -gt 0 ]; do
    wait -n || { say "a run failed"; exit 1; }
    running=$((running - 1))
done

printf 'Steady goodput in Mbit/s of one flow of Linux %s over a bottleneck of %s Mbit/s, median of %s runs\n\n' \
    "$(uname -r | grep -o '^[0-9]*\.[0-9]*')" "$RATE" "$RUNS"
for control in $CONTROLS; do for rtt in $ROUND_TRIPS; do for buffer in $BUFFERS; do
    printf '%s, round trip %s ms, buffer %s %% of it\n' "${control/#reno/new-reno}" "$rtt" "$buffer"
    printf '%14s%16s%16s%16s\n' loss 'in order' '3 % by 5 ms' '3 % by 20 ms'
    for loss in "${LOSSES[@]}"; do
        printf '%12.1f %%' "$loss"
        for late in "${LATE[@]}"; do
            # shellcheck disable=SC2046
            printf '%16.2f' "$(median $(cat "$results/$control-$rtt-$buffer-$loss-$late"-*))"
        done
        printf '\n'
    done
    printf '\n'
done; done; done
