# What the scripts beside it share: network namespaces, and what to find before anything is made. Sourced, with NAME and NAMESPACES set.
BRAIDNET=${BRAIDNET:-$(dirname "${BASH_SOURCE[0]}")/../target/release/braidnet}

say() { echo "$NAME: $*" >&2; }

# The tools that a script needs, and root.
need() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null || { say "$tool is not installed: apt-get install iproute2 iperf3 iputils-ping util-linux socat curl python3 nginx-light wrk"; exit 2; }
    done
    [ "$(id -u)" = 0 ] || { say "namespaces and TUN devices need root"; exit 2; }
    [ -x "$BRAIDNET" ] || { say "no $BRAIDNET: build it first (cargo build --release), or name another in BRAIDNET"; exit 2; }
}

started=()
clean_up() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    for namespace in "${NAMESPACES[@]}"; do ip netns del "$namespace" 2>/dev/null || true; done
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# Waits until somebody answers in a namespace, at an address and port.
await() {
    for _ in $(seq 100); do
        ip netns exec "$1" timeout 2 socat -u /dev/null "TCP:$2:$3,connect-timeout=1" 2>/dev/null && return
        sleep 0.1
    done
    say "nobody answers at $2 port $3"
    exit 1
}

# Mbit/s that arrive in a namespace, from an address and port, for so many seconds.
goodput() {
    { ip netns exec "$1" timeout "$4" socat -u -b 65536 "TCP:$2:$3" - 2>/dev/null || true; } | wc -c |
        awk -v seconds="$4" '{ printf "%.3f", $1 * 8 / seconds / 1e6 }'
}

median() { printf '%s\n' "$@" | sort -n | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2 }'; }
