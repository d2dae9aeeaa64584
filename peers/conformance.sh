#!/usr/bin/env bash
# Tests braidnet from the wire, and the kernel for reference: a driver that shares no code with braidnet (peers/conformance) plays more than a thousand short
# exchanges with `braidnet serve` on a TUN device, and with the kernel's own sockets, both at once, each in a network namespace of its own. Prints a line for
# each class of cases, and what failed; fails if a MUST does on either side.
#
#   peers/conformance.sh                        # builds braidnet and the driver, and runs all
#   peers/conformance.sh --only fragments       # cases whose class, source or name has this in it
#   peers/conformance.sh --list
#   ARGUMENTS="--architecture message --processors 2" peers/conformance.sh
#
# Needs root and ip (iproute2). BRAIDNET names a binary that is not built here, SIDES who is tested, ARGUMENTS further ones of serve.
set -euo pipefail

cd "$(dirname "$0")/.."
SIDES=${SIDES:-braidnet linux}
ARGUMENTS=${ARGUMENTS:-}
if [ -z "${BRAIDNET:-}" ]; then
    cargo build -q --release -p braidnet-cli
    BRAIDNET=${CARGO_TARGET_DIR:-target}/release/braidnet
fi
PEERS=${CARGO_TARGET_DIR:-target}/peers
CARGO_TARGET_DIR=$PEERS cargo build -q --locked --manifest-path peers/conformance/Cargo.toml
DRIVER=$PEERS/debug/conformance
case " $* " in *" --list "*) exec "$DRIVER" "$@" ;; esac

outputs=$(mktemp -d)
trap 'rm -r "$outputs"' EXIT
declare -A running
for side in $SIDES; do
    # shellcheck disable=SC2086 # words
    "$DRIVER" --against "$side" --braidnet "$BRAIDNET" "$@" -- $ARGUMENTS >"$outputs/$side" 2>&1 &
    running[$side]=$!
done
result=0
for side in $SIDES; do
    wait "${running[$side]}" || result=1
    cat "$outputs/$side"
done
exit $result
