#!/usr/bin/env bash
# How fast a kernel client and a server in user space talk over a TUN device: `braidnet serve`, smoltcp with its segmentation offload
# and without, and, for the ceiling, the kernel itself across a veth, all with the same client and the same three services, in
# interleaved rounds. Prints the medians and braidnet's as a part of each other's.
#
#   cargo build --release && (cd peers/over-tun && cargo build --release)
#   peers/tun-speed.sh                          # all loads, 7 rounds of 3 s
#   LOADS="send echo" ROUNDS=15 peers/tun-speed.sh
#
# Loads: send and receive (as the client sees it; Gbit/s), their eightfold (send8, receive8), echo (one byte there and back; µs).
# Needs root and ip (iproute2). BRAIDNET and OVER_TUN name other binaries, SIDES, LOADS, ROUNDS, SECONDS_EACH, ARGUMENTS (of serve: two processors) what is run.
set -euo pipefail

NAME=tun-speed
SIDES=${SIDES:-braidnet smoltcp smoltcp-plain kernel}
LOADS=${LOADS:-send receive send8 receive8 echo}
ROUNDS=${ROUNDS:-7}
SECONDS_EACH=${SECONDS_EACH:-3}
ARGUMENTS=${ARGUMENTS---processors 2}
HOST=bn-host-$$ FAR=bn-far-$$
NAMESPACES=("$HOST" "$FAR")
source "$(dirname "$0")/beside-linux.sh"
OVER_TUN=${OVER_TUN:-$(dirname "$0")/over-tun/target/release/over-tun}
need ip awk
[ -x "$OVER_TUN" ] || { say "no $OVER_TUN: build it first (cd peers/over-tun && cargo build --release), or name another in OVER_TUN"; exit 2; }

ip netns add "$HOST"
ip netns add "$FAR"
ip netns exec "$HOST" ip link set lo up

# Starts a server; its address is in $address.
start() {
    case $1 in
    braidnet)
        address=10.95.1.2
        ip netns exec "$HOST" "$BRAIDNET" serve --tun bnt --host 10.95.1.1/24 --address $address/24 \
            --discard 9 --chargen 19 --echo 7 $ARGUMENTS >/dev/null &
        ;;
    smoltcp | smoltcp-plain)
        address=10.95.2.2
        local vnet=vnet_hdr plain=
        [ "$1" = smoltcp ] || { vnet= plain=--plain; }
        ip netns exec "$HOST" ip tuntap add dev smt mode tun $vnet
        ip netns exec "$HOST" ip addr add 10.95.2.1/24 dev smt
        ip netns exec "$HOST" ip link set smt up
        ip netns exec "$HOST" "$OVER_TUN" smoltcp --tun smt --address $address $plain &
        ;;
    kernel)
        address=10.95.3.2
        ip -n "$HOST" link add veth-host type veth peer name veth-far netns "$FAR"
        ip -n "$HOST" addr add 10.95.3.1/24 dev veth-host
        ip -n "$FAR" addr add $address/24 dev veth-far
        ip -n "$HOST" link set veth-host up
        ip -n "$FAR" link set veth-far up
        ip netns exec "$FAR" "$OVER_TUN" kernel --address $address &
        ;;
    *) say "there is no side $1: braidnet, smoltcp, smoltcp-plain, kernel"; exit 2 ;;
    esac
    server=$!
    started=("$server")
}

stop() {
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    started=()
    case $1 in
    smoltcp*) ip netns exec "$HOST" ip tuntap del dev smt mode tun ;;
    kernel) ip -n "$HOST" link del veth-host ;;
    esac
}

# One measurement: Gbit/s, or µs of the median and the 99th percentile.
measure() {
    local connections=1 load=${1%8}
    [ "$load" = "$1" ] || connections=8
    ip netns exec "$HOST" timeout $((SECONDS_EACH + 10)) "$OVER_TUN" client --to "$address" --seconds "$SECONDS_EACH" --connections $connections "$load"
}

# Waits until the server answers.
await_server() {
    for _ in $(seq 100); do
        ip netns exec "$HOST" timeout 2 "$OVER_TUN" client --to "$address" --seconds 0.1 echo >/dev/null 2>&1 && return
        sleep 0.05
    done
    say "nobody answers at $address"
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
        stop "$side"
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
