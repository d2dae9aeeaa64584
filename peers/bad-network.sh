#!/usr/bin/env bash
# What braidnet and Linux send over the same bad network: bulk data from each in turn to a Linux receiver, through `braidnet relay`
# between two TUN devices in network namespaces of their own. Prints the goodput of each pair of runs, the medians and their ratio.
#
#   cargo build --release
#   peers/bad-network.sh                                         # 1 % loss, 20 ms, 20 pairs of 8 s
#   IMPAIR=loss=0%,delay=10ms,reorder=3%:5ms peers/bad-network.sh
#
# Needs root, ip (iproute2) and socat. BRAIDNET names another binary, PAIRS, SECONDS_EACH, IMPAIR, BACK, LEAST what is run.
set -euo pipefail

NAME=bad-network
PAIRS=${PAIRS:-20}
SECONDS_EACH=${SECONDS_EACH:-8}
IMPAIR=${IMPAIR:-loss=1%,delay=10ms,rate=50mbit,queue=128k}
BACK=${BACK:-delay=10ms}
# Ratio of the medians, braidnet to Linux, below which this fails.
LEAST=${LEAST:-0}
# What both go by.
CONTROL=cubic
LEFT=bn-left-$$ RIGHT=bn-right-$$
NAMESPACES=("$LEFT" "$RIGHT")
source "$(dirname "$0")/beside-linux.sh"
need ip socat

ip netns add "$LEFT"
ip netns add "$RIGHT"
"$BRAIDNET" relay --from "tun:bnr@$RIGHT" --from-host 10.91.0.2/24 --to "tun:bnl@$LEFT" --to-host 10.91.0.1/24 \
    --impair "$IMPAIR" --impair-back "$BACK" >/dev/null &
started+=($!)
ip netns exec "$RIGHT" sysctl -qw net.ipv4.ip_forward=1
# Linux sends from the right, by the congestion control of the same name (TCP_CONGESTION is option 13 of level 6).
ip netns exec "$RIGHT" socat -u /dev/zero "TCP-LISTEN:9100,fork,reuseaddr,setsockopt-string=6:13:$CONTROL" 2>/dev/null &
started+=($!)
# So does braidnet, one hop behind.
ip netns exec "$RIGHT" "$BRAIDNET" serve --tun bns --host 10.92.0.1/24 --address 10.92.0.2/24 --chargen 9100 >/dev/null &
started+=($!)
for _ in $(seq 100); do
    ip netns exec "$LEFT" ip link show bnl up 2>/dev/null | grep -q bnl && break
    sleep 0.1
done
ip netns exec "$LEFT" ip route add 10.92.0.0/24 via 10.91.0.2
await "$LEFT" 10.91.0.2 9100
await "$LEFT" 10.92.0.2 9100

linux=() ours=()
for pair in $(seq "$PAIRS"); do
    linux+=("$(goodput "$LEFT" 10.91.0.2 9100 "$SECONDS_EACH")")
    ours+=("$(goodput "$LEFT" 10.92.0.2 9100 "$SECONDS_EACH")")
    printf 'pair %2d   Linux %8s   braidnet %8s Mbit/s\n' "$pair" "${linux[-1]}" "${ours[-1]}"
done
awk -v linux="$(median "${linux[@]}")" -v ours="$(median "${ours[@]}")" -v impair="$IMPAIR" -v least="$LEAST" 'BEGIN {
    ratio = linux > 0 ? ours / linux : 0
    printf "%s: medians Linux %.2f, braidnet %.2f Mbit/s, ratio %.2f\n", impair, linux, ours, ratio
    exit ratio < least
}'
