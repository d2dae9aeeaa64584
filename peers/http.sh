#!/usr/bin/env bash
# How many requests for a small file a second are answered, with connections kept: `braidnet serve --http` over a TUN device, and nginx on the
# kernel's sockets across a veth, each with one processor to itself and wrk on another, in interleaved rounds. Prints the medians, and braidnet's
# requests as a part of nginx's.
#
#   cargo build --release
#   peers/http.sh                                  # 64 connections, 1 KiB, 7 rounds of 3 s
#   CONNECTIONS=1 BYTES=65536 ROUNDS=15 peers/http.sh
#
# nginx has its defaults, but one worker and no log of accesses. Needs root, ip (iproute2), taskset (util-linux), wrk, nginx and socat, and two processors. BRAIDNET names
# another binary; SIDES, ROUNDS, SECONDS_EACH, SERVER_PROCESSOR, CLIENT_PROCESSOR, ARGUMENTS (of serve) say what is run.
set -euo pipefail

NAME=http
SIDES=${SIDES:-braidnet nginx}
CONNECTIONS=${CONNECTIONS:-64}
BYTES=${BYTES:-1024}
ROUNDS=${ROUNDS:-7}
SECONDS_EACH=${SECONDS_EACH:-3}
SERVER_PROCESSOR=${SERVER_PROCESSOR:-1}
CLIENT_PROCESSOR=${CLIENT_PROCESSOR:-0}
ARGUMENTS=${ARGUMENTS:-}
HOST=bn-host-$$ FAR=bn-far-$$
NAMESPACES=("$HOST" "$FAR")
source "$(dirname "$0")/beside-linux.sh"
need ip taskset wrk nginx socat
[ "$(nproc --all)" -ge 2 ] || { say "one processor is not enough: the servers and wrk need one each"; exit 2; }

folder=$(mktemp -d)
trap 'clean_up; rm -rf "$folder"' EXIT
chmod 755 "$folder"
head -c "$BYTES" /dev/zero | tr '\0' x >"$folder/page"
cat >"$folder/nginx.conf" <<CONFIG
daemon off;
worker_processes 1;
pid $folder/pid;
events {}
http {
    access_log off;
    client_body_temp_path $folder/body;
    proxy_temp_path $folder/proxy;
    fastcgi_temp_path $folder/fastcgi;
    uwsgi_temp_path $folder/uwsgi;
    scgi_temp_path $folder/scgi;
    server {
        listen 80;
        root $folder;
    }
}
CONFIG
ip netns add "$HOST"
ip netns add "$FAR"
ip netns exec "$HOST" ip link set lo up
ip -n "$HOST" link add veth-host type veth peer name veth-far netns "$FAR"
ip -n "$HOST" addr add 10.95.3.1/24 dev veth-host
ip -n "$FAR" addr add 10.95.3.2/24 dev veth-far
ip -n "$HOST" link set veth-host up
ip -n "$FAR" link set veth-far up

# Starts a server; its address is in $address.
start() {
    case $1 in
    braidnet)
        address=10.95.1.2
        # shellcheck disable=SC2086 # several arguments
        ip netns exec "$HOST" taskset -c "$SERVER_PROCESSOR" "$BRAIDNET" serve --tun bnt --host 10.95.1.1/24 --address $address/24 \
            --http 80="$folder" $ARGUMENTS >/dev/null &
        ;;
    nginx)
        address=10.95.3.2
        ip netns exec "$FAR" taskset -c "$SERVER_PROCESSOR" nginx -e stderr -p "$folder" -c "$folder/nginx.conf" &
        ;;
    *) say "there is no side $1: braidnet, nginx"; exit 2 ;;
    esac
    server=$!
    started=("$server")
    await "$HOST" "$address" 80
}

stop() {
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    started=()
}

# One measurement: requests a second, and µs of the median and the 99th percentile.
measure() {
    ip netns exec "$HOST" taskset -c "$CLIENT_PROCESSOR" wrk -t1 -c"$CONNECTIONS" -d"${SECONDS_EACH}s" --latency "http://$address/page" |
        awk '
            function us(time) { return time * (time ~ /us$/ ? 1 : time ~ /ms$/ ? 1e3 : 1e6) }
            /Socket errors|Non-2xx/ { print > "/dev/stderr"; exit failed = 1 }
            $1 == "50%" { p50 = us($2) }
            $1 == "99%" { p99 = us($2) }
            $1 == "Requests/sec:" { rate = $2 }
            END { if (failed || !rate) exit 1; print rate, p50, p99 }'
}

# Part of the time that a processor has been busy between two looks.
busy() { awk -v name="cpu$1" '$1 == name { print $2 + $3 + $4 + $7 + $8 + $9, $5 + $6 }' /proc/stat; }

declare -A rates p50s p99s
for round in $(seq "$ROUNDS"); do
    for side in $SIDES; do
        start "$side"
        read -r busy_before idle_before <<<"$(busy "$SERVER_PROCESSOR")"
        measured=$(measure) || { say "$side: wrk failed"; exit 1; }
        read -r busy_after idle_after <<<"$(busy "$SERVER_PROCESSOR")"
        stop
        read -r rate p50 p99 <<<"$measured"
        rates[$side]+=" $rate" p50s[$side]+=" $p50" p99s[$side]+=" $p99"
        used=$(awk -v b=$((busy_after - busy_before)) -v i=$((idle_after - idle_before)) 'BEGIN { printf "%.2f", b / (b + i) }')
        printf 'round %-3s %-9s %9.0f/s  p50 %6.0f µs  p99 %6.0f µs  of its processor %s\n' "$round" "$side" "$rate" "$p50" "$p99" "$used"
    done
done

own=
for side in $SIDES; do
    # shellcheck disable=SC2086 # several numbers
    rate=$(median ${rates[$side]}) p50=$(median ${p50s[$side]}) p99=$(median ${p99s[$side]})
    own=${own:-$rate}
    printf '%-9s %9.0f/s  p50 %6.0f µs  p99 %6.0f µs' "$side" "$rate" "$p50" "$p99"
    [ "$side" = "${SIDES%% *}" ] || awk -v own="$own" -v other="$rate" 'BEGIN { printf "  (%.2f)", own / other }'
    echo
done
