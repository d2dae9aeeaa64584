#!/usr/bin/env bash
# What a SYN flood over a TUN device leaves of `braidnet serve`: the goodput of an established bulk connection while forged SYNs arrive
# at the rate, as a part of what it is while as many go to nobody, in interleaved pairs; and how many honest requests to
# the port under attack are answered meanwhile.
#
#   cargo build --release
#   peers/syn-flood.sh                     # 50,000 a second, 10 pairs of 4 s
#   RATE=100000 PAIRS=20 peers/syn-flood.sh
#
# Needs root, ip and ss (iproute2), socat, curl and python3. BRAIDNET names another binary, RATE, PAIRS, SECONDS_EACH, ARGUMENTS (of serve), LEAST what is run.
set -euo pipefail

NAME=syn-flood
RATE=${RATE:-50000}
PAIRS=${PAIRS:-10}
SECONDS_EACH=${SECONDS_EACH:-4}
ARGUMENTS=${ARGUMENTS:-}
# Part of the bulk connection's goodput below which this fails.
LEAST=${LEAST:-0}
HOST=bn-host-$$
NAMESPACES=("$HOST")
source "$(dirname "$0")/beside-linux.sh"
need ip ss socat curl python3

files=$(mktemp -d)
trap 'clean_up; rm -rf "$files"' EXIT
echo "still here" >"$files/page"

# A recording of SYNs to an address: forged sources (those set apart for benchmarks, RFC 2544), ports and sequence numbers, options as Linux
# sends them, at the rate, for somewhat longer than a measurement.
record() {
    python3 - "$1" "$RATE" "$((SECONDS_EACH + 2))" >"$2" <<'PYTHON'
import random, socket, struct, sys

target, rate, seconds = socket.inet_aton(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
out, draw = sys.stdout.buffer, random.Random(7)
options = bytes([2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7])

def checksum(data):
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF

out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 101))
for number in range(rate * seconds):
    source = struct.pack("!BBH", 198, 18 | draw.getrandbits(1), draw.getrandbits(16))
    head = struct.pack("!BBHHHBBH", 0x45, 0, 60, 0, 0x4000, 64, 6, 0) + source + target
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    segment = struct.pack("!HHIIBBHHH", draw.randrange(1024, 65536), 8080, draw.getrandbits(32), 0, 0xA0, 2, 65535, 0, 0) + options
    sealed = checksum(source + target + struct.pack("!HH", 6, len(segment)) + segment)
    when = number * 1_000_000 // rate
    out.write(struct.pack("<IIII", when // 1_000_000, when % 1_000_000, 60, 60))
    out.write(head + segment[:16] + struct.pack("!H", sealed) + segment[18:])
PYTHON
}

# What has come of the bulk connection so far, in bytes.
arrived() {
    ip netns exec "$HOST" ss -tinH dst 10.92.0.2:9100 | grep -o 'bytes_received:[0-9]*' | cut -d: -f2
}

# The bulk connection's Mbit/s while a recording is sent.
while_sending() {
    ip netns exec "$HOST" "$BRAIDNET" replay --to tun:bnf "$1" >"$files/replay" 2>&1 &
    local sender=$! before after from to
    started+=("$sender")
    sleep 0.5
    before=$(arrived) && from=$(date +%s%N)
    sleep "$SECONDS_EACH"
    after=$(arrived) && to=$(date +%s%N)
    awk -v bytes="$((after - before))" -v nanos="$((to - from))" 'BEGIN { printf "%.3f", bytes * 8000 / nanos }'
    wait "$sender"
}

# Asks for the page every quarter of a second, and writes what came of it, until it is stopped.
ask_on() {
    while :; do
        ip netns exec "$HOST" curl -s -o "$files/got" --max-time 10 -w '%{http_code}\n' http://10.92.0.2:8080/page >>"$files/asked" || true
        sleep 0.25
    done
}

record 10.92.0.2 "$files/attack" &
record 10.94.0.2 "$files/nobody"
wait
ip netns add "$HOST"
# shellcheck disable=SC2086 # words on purpose
ip netns exec "$HOST" "$BRAIDNET" serve --tun bns --host 10.92.0.1/24 --address 10.92.0.2/24 --chargen 9100 --http "8080=$files" $ARGUMENTS >"$files/serve" &
started+=($!)
ip netns exec "$HOST" ip tuntap add bnf mode tun
ip netns exec "$HOST" ip addr add 10.93.0.1/24 dev bnf
ip netns exec "$HOST" ip link set bnf up
ip netns exec "$HOST" ip route add blackhole 10.94.0.0/24
# What is answered to forged addresses goes nowhere.
ip netns exec "$HOST" ip route add blackhole 198.18.0.0/15
ip netns exec "$HOST" sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.bnf.rp_filter=0
await "$HOST" 10.92.0.2 9100

ip netns exec "$HOST" socat -u -b 65536 TCP:10.92.0.2:9100 /dev/null &
started+=($!)
sleep 1

alone=() attacked=()
for pair in $(seq "$PAIRS"); do
    alone+=("$(while_sending "$files/nobody")")
    ask_on &
    asking=$!
    started+=("$asking")
    attacked+=("$(while_sending "$files/attack")")
    kill "$asking" && wait "$asking" 2>/dev/null || true
    printf 'pair %2d   alone %8s   attacked %8s Mbit/s\n' "$pair" "${alone[-1]}" "${attacked[-1]}"
done
answered=$(grep -c 200 "$files/asked" || true)
awk -v alone="$(median "${alone[@]}")" -v attacked="$(median "${attacked[@]}")" -v rate="$RATE" -v least="$LEAST" \
    -v asked="$(wc -l <"$files/asked")" -v answered="$answered" 'BEGIN {
    part = alone > 0 ? attacked / alone : 0
    printf "%d SYNs a second: medians alone %.0f, attacked %.0f Mbit/s, part %.2f; %d of %d honest requests answered\n",
        rate, alone, attacked, part, answered, asked
    exit part < least || answered < asked
}'
