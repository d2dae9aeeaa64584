#!/usr/bin/env bash
# A virtual machine whose network is `braidnet serve --qemu`: real qemu, a Linux guest with virtio-net and nothing but busybox in its initramfs. The guest pings the stack, with
# fragments too, fetches files over HTTP, sends to echo and discard, and all that comes back is compared. Once for each way in which qemu frames its stream.
#
#   cargo build --release && peers/qemu.sh
#   KERNEL=/boot/vmlinuz-6.1.0-1-amd64 peers/qemu.sh     # its modules below /lib/modules, or MODULES
#   LINKS=stream ARGUMENTS="--processors 2 --pcap guest.pcapng" peers/qemu.sh
#
# Needs qemu-system-x86_64, a static busybox, and a kernel: without KERNEL Debian's for virtual machines is fetched by apt-get (27 MB). No privilege. BRAIDNET names
# another binary, LINKS (stream, socket: the latter needs socat) the qemu netdevs, ARGUMENTS further ones of serve, ACCELERATOR (tcg, kvm) who runs the guest, PATIENCE seconds of it.
set -euo pipefail

NAME=qemu
say() { echo "$NAME: $*" >&2; }
BRAIDNET=${BRAIDNET:-$(dirname "$0")/../target/release/braidnet}
LINKS=${LINKS:-stream socket}
ARGUMENTS=${ARGUMENTS:-}
ACCELERATOR=${ACCELERATOR:-tcg}
PATIENCE=${PATIENCE:-300}
STACK=10.98.0.1 GUEST=10.98.0.2

missing=()
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need qemu-system-x86_64 qemu-system-x86
need busybox busybox-static
need xz xz-utils
need zstd zstd
case " $LINKS " in *" socket "*) need socat socat ;; esac
[ "${#missing[@]}" = 0 ] || { say "not installed: apt-get install --no-install-recommends ${missing[*]}"; exit 2; }
BUSYBOX=$(command -v busybox)
[ -x "$BRAIDNET" ] || { say "no $BRAIDNET: build it first (cargo build --release), or name another in BRAIDNET"; exit 2; }

work=$(mktemp -d)
started=()
clean_up() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    rm -r "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# The kernel, and its modules.
if [ -z "${KERNEL:-}" ]; then
    command -v apt-get >/dev/null || { say "no apt-get to fetch a kernel by: name one in KERNEL"; exit 2; }
    package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | awk '/Depends:/ { print $2; exit }')
    [ -n "$package" ] || { say "apt-get knows no linux-image-cloud-amd64 (apt-get update?): name a kernel in KERNEL"; exit 2; }
    (cd "$work" && apt-get download -qq "$package" 2>/dev/null && dpkg-deb -x ./*.deb kernel && rm ./*.deb) || { say "$package cannot be fetched: name a kernel in KERNEL"; exit 2; }
    KERNEL=$(echo "$work"/kernel/boot/vmlinuz-*)
    # None but its own.
    MODULES=$(echo "$work"/kernel/lib/modules/*)
fi
MODULES=${MODULES:-/lib/modules/${KERNEL##*/vmlinuz-}}
[ -r "$KERNEL" ] || { say "no kernel can be read at $KERNEL"; exit 2; }

# What the guest is made of. A module that is not there is built in.
root=$work/root
mkdir -p "$root"/{bin,proc,sys,dev,tmp,modules}
cp "$BUSYBOX" "$root/bin/busybox"
order=0
for module in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci failover net_failover virtio_net; do
    file=$(find "$MODULES" -name "$module.ko" -o -name "$module.ko.xz" -o -name "$module.ko.zst" 2>/dev/null | head -n 1)
    order=$((order + 1))
    case $file in
    *.ko) cp "$file" "$root/modules/$order.ko" ;;
    *.xz) xz -dc "$file" >"$root/modules/$order.ko" ;;
    *.zst) zstd -qdc "$file" >"$root/modules/$order.ko" ;;
    esac
done
cat >"$root/init" <<GUEST
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
said() { echo "guest: \$*"; }
for module in /modules/*.ko; do [ ! -e "\$module" ] || insmod "\$module"; done
ip link set lo up
ip link set eth0 up
ip addr add $GUEST/24 dev eth0
# A bit for each feature (virtio 1.2 §5.1.3), the lowest first: checksums both ways, segments cut by the device.
features=\$(cat /sys/class/net/eth0/device/features)
said offloads "\$(echo "\$features" | cut -c1,2,12)"
said mtu "\$(cat /sys/class/net/eth0/mtu)"
for length in 56 1472 1473 8000; do
    said ping "\$length" "\$(ping -q -c 10 -i 0.05 -W 5 -s "\$length" $STACK | awk '/received/ { print \$4 }')"
done
for file in small large; do
    said http "\$file" "\$(wget -q -O - "http://$STACK/\$file" | sha256sum | cut -d' ' -f1)"
done
dd if=/dev/urandom of=/tmp/sent bs=1M count=4 2>/dev/null
said sent "\$(sha256sum </tmp/sent | cut -d' ' -f1)"
said echo "\$(nc -w 60 $STACK 7 </tmp/sent | head -c 4194304 | sha256sum | cut -d' ' -f1)"
dd if=/dev/zero bs=1M count=16 2>/dev/null | nc -w 60 $STACK 9
said discard \$?
said refused "\$(nc -w 5 $STACK 4 </dev/null >/dev/null 2>&1; echo \$?)"
said done
poweroff -f
GUEST
chmod +x "$root/init"
(cd "$root" && find . | "$BUSYBOX" cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initramfs"

mkdir "$work/files"
head -c 1024 /dev/urandom >"$work/files/small"
head -c 8388608 /dev/urandom >"$work/files/large"
sum() { sha256sum "$1" | cut -d' ' -f1; }

# Waits until a socket is there.
await() {
    for _ in $(seq 600); do
        [ ! -S "$1" ] || return 0
        kill -0 "$2" 2>/dev/null || break
        sleep 0.1
    done
    say "braidnet serve made no socket"
    return 1
}

failed=0
# What the guest has said of something must be this.
expect() {
    local got
    got=$(sed -n "s/^guest: $2 //p" "$1" | tr -d '\r')
    if [ "$got" = "$3" ]; then
        printf '  %-14s %s\n' "$2" "${got:0:16}"
    else
        printf '  %-14s FAILED: %s, not %s\n' "$2" "${got:-nothing}" "$3"
        failed=1
    fi
}

# A guest on a stack of its own, by this netdev of qemu's.
run() {
    local socket=$work/$1.socket console=$work/$1.console netdev server relay='' status=0
    # shellcheck disable=SC2086 # words
    "$BRAIDNET" serve --qemu "$socket" --address "$STACK/24" --echo 7 --discard 9 --http "80=$work/files" $ARGUMENTS >"$work/$1.serve" 2>&1 &
    server=$!
    started=("$server")
    await "$socket" "$server" || { cat "$work/$1.serve" >&2; exit 1; }
    case $1 in
    stream) netdev="stream,id=net,server=off,addr.type=unix,addr.path=$socket" ;;
    socket)
        # It connects by TCP only: somebody carries its bytes to the socket.
        local port=$((20000 + $$ % 10000))
        socat "TCP-LISTEN:$port,bind=127.0.0.1,nodelay" "UNIX-CONNECT:$socket" &
        relay=$!
        started+=("$relay")
        for _ in $(seq 100); do grep -q "^ *[0-9]*: 0100007F:$(printf %04X "$port") " /proc/net/tcp && break; sleep 0.1; done
        sleep 0.1
        kill -0 "$relay" 2>/dev/null || { say "socat could not listen on 127.0.0.1:$port: try again"; exit 1; }
        netdev="socket,id=net,connect=127.0.0.1:$port"
        ;;
    *) say "there is no link $1: stream, socket"; exit 2 ;;
    esac
    local begun=$SECONDS
    timeout "$PATIENCE" qemu-system-x86_64 -accel "$ACCELERATOR" -m 256 -nodefaults -display none -no-reboot \
        -kernel "$KERNEL" -initrd "$work/initramfs" -append "console=ttyS0 quiet panic=-1" -serial "file:$console" \
        -netdev "$netdev" -device virtio-net-pci,netdev=net,romfile= >"$work/$1.qemu" 2>&1 </dev/null &
    started+=($!)
    wait $! || status=$?
    kill -TERM "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    [ -z "$relay" ] || kill "$relay" 2>/dev/null || true
    started=()
    echo "$1: $((SECONDS - begun)) s"
    if [ "$status" != 0 ] || ! grep -q '^guest: done' "$console"; then
        say "the guest did not come to its end (qemu: $status); its last lines, qemu's and braidnet's:"
        tail -n 20 "$console" "$work/$1.qemu" "$work/$1.serve" >&2 || true
        failed=1
    fi
    expect "$console" offloads 000
    expect "$console" mtu 1500
    for length in 56 1472 1473 8000; do expect "$console" "ping $length" 10; done
    for file in small large; do expect "$console" "http $file" "$(sum "$work/files/$file")"; done
    expect "$console" echo "$(sed -n 's/^guest: sent //p' "$console" | tr -d '\r')"
    expect "$console" discard 0
    expect "$console" refused 1
    # What the stack has counted.
    sed -n '/^served/,$s/^/  /p' "$work/$1.serve"
}

for link in $LINKS; do run "$link"; done
exit $failed
