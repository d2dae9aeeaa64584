#!/usr/bin/env bash
# How fast two stacks of one kind talk over a veth pair, each in a network namespace: braidnet's by XDP sockets, by packet sockets without offloads, and, for what those are
# worth, with them, and smoltcp's by packet sockets, in interleaved rounds. Prints the medians, and the first's as a part of each other's.
#
#   cargo build --release && (cd peers/over-veth && cargo build --release)
#   peers/over-veth.sh                          # all loads, 7 rounds of 3 s
#   LOADS="send echo" ROUNDS=15 peers/over-veth.sh
#
# Loads: send and receive (as the client sees it; Gbit/s), echo (one byte there and back; µs).
# Needs root and ip (iproute2). BRAIDNET and OVER_VETH name other binaries, SIDES, LOADS, ROUNDS, SECONDS_EACH, ARGUMENTS (of serve), BUFFER (smoltcp's) what is run.
set -euo pipefail

NAME=over-veth
SIDES=${SIDES:-xdp packet smoltcp packet-offload}
LOADS=${LOADS:-send receive echo}
ROUNDS=${ROUNDS:-7}
SECONDS_EACH=${SECONDS_EACH:-3}
ARGUMENTS=${ARGUMENTS:-}
BUFFER=${BUFFER:-$((4 << 20))}
NEAR=bn-near-$$ FAR=bn-far-$$
NAMESPACES=("$NEAR" "$FAR")
source "$(dirname "$0")/beside-linux.sh"
OVER_VETH=${OVER_VETH:-$(dirname "$0")/over-veth/target/release/over-veth}
need ip awk
[ -x "$OVER_VETH" ] || { say "no $OVER_VETH: build it first (cd peers/over-veth && cargo build --release), or name another in OVER_VETH"; exit 2; }

ip netns add "$NEAR"
ip netns add "$FAR"

# A pair of interfaces, and a server at the far end.
start() {
    ip -n "$NEAR" link add veth-near type veth peer name veth-far netns "$FAR"
    ip -n "$NEAR" link set veth-near up
    ip -n "$FAR" link set veth-far up
    case $1 in
    xdp) serve=(--xdp veth-far) client=(--by xdp) ;;
    packet) serve=(--packet veth-far --offload off) client=(--by packet) ;;
    packet-offload) serve=(--packet veth-far) client=(--by packet --offload) ;;
    smoltcp) serve=() client=(--by smoltcp --buffer "$BUFFER") ;;
    *) say "there is no side $1: xdp, packet, packet-offload, smoltcp"; exit 2 ;;
    esac
    if [ "$1" = smoltcp ]; then
        ip netns exec "$FAR" "$OVER_VETH" smoltcp --interface veth-far --address 10.96.0.2 --buffer "$BUFFER" &
    else
        # shellcheck disable=SC2086 # words
        ip netns exec "$FAR" "$BRAIDNET" serve "${serve[@]}" --address 10.96.0.2/24 --discard 9 --chargen 19 --echo 7 $ARGUMENTS >/dev/null &
    fi
    server=$!
    started=("$server")
}

stop() {
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    started=()
    ip -n "$NEAR" link del veth-near
}

# One measurement: Gbit/s, or µs of the median and the 99th percentile.
measure() {
    ip netns exec "$NEAR" timeout $((SECONDS_EACH + 10)) "$OVER_VETH" client --interface veth-near "${client[@]}" \
        --address 10.96.0.1 --to 10.96.0.2 --seconds "${2:-$SECONDS_EACH}" "$1"
}

# Waits until the server answers.
await_server() {
    for _ in $(seq 20); do
        measure echo 0.1 >/dev/null 2>&1 && return
        sleep 0.05
    done
    say "nobody answers"
    exit 1
}

declare -A results
for round in $(seq "$ROUNDS"); do
    for side in $SIDES; do
        start "$side"
        await_server
        for load in $LOADS; do
            value=$(measure "$load")
            results[$side.$load]+=" ${value%% *}"
            printf 'round %-3s %-14s %-9s %s\n' "$round" "$side" "$load" "$value"
        done
        stop
    done
done

for load in $LOADS; do
    unit=Gbit/s
    [ "$load" = echo ] && unit=µs
    printf '%-9s' "$load"
    own=
    for side in $SIDES; do
        # shellcheck disable=SC2086 # several numbers
        middle=$(median ${results[$side.$load]})
        own=${own:-$middle}
        printf '  %s %.2f' "$side" "$middle"
        [ "$side" = "${SIDES%% *}" ] || awk -v own="$own" -v other="$middle" 'BEGIN { printf " (%.2f)", own / other }'
    done
    printf ' %s\n' "$unit"
done
