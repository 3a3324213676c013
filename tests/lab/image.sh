#!/usr/bin/env bash
# Makes what a machine of the lab boots: the image of its disk, and the disc that installs that.
#
#   image.sh FOLDER KERNELS IMAGE...      FOLDER/IMAGE.disk.gz and FOLDER/IMAGE.iso, for each IMAGE
#
# Both are a kernel of Debian, busybox and the script `guest`, started by GRUB from the BIOS. KERNELS keeps the kernel,
# which is got once. Needs: busybox-static, cpio, grub-common, grub-pc-bin, xorriso.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
folder="$1" kernels="$2"; shift 2
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

if ! [ -e "$kernels/ready" ]; then
  mkdir -p "$kernels"
  package="$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)"
  (cd "$work" && apt-get download -qq "$package" 2>"$work/log") || { cat "$work/log" >&2; exit 1; }
  rm -rf "$kernels/tree" && dpkg -x "$work/$package"*.deb "$kernels/tree"
  touch "$kernels/ready"
fi
kernel="$(ls "$kernels"/tree/boot/vmlinuz-*)"

# The one file system of both, in memory. The modules are in the order in which they need each other.
root="$work/root"
mkdir -p "$root"/{bin,proc,sys,dev,modules}
cp "$(command -v busybox)" "$root/bin/busybox"
cp "$here/guest" "$root/init"
chmod +x "$root/init"
at=100
for module in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk failover net_failover virtio_net button evdev; do
  found="$(find "$kernels/tree/lib/modules" -name "$module.ko" | head -n 1)"
  [ -z "$found" ] || cp "$found" "$root/modules/$((at++))-$module.ko"
done
(cd "$root" && find . | cpio -o -H newc -R 0:0 --quiet | gzip -9) >"$work/initrd"

sectors() { echo $((($(stat -L -c %s "$1") + 511) / 512)); }

for image in "$@"; do
  words="console=ttyS0 quiet panic=5 lab.image=$image"

  # The disk: the boot sector, GRUB behind it, kernel and initrd at fixed places, and no file system.
  first=2048
  second=$((first + $(sectors "$kernel")))
  printf 'linux (hd0)%d+%d %s lab.role=system\ninitrd (hd0)%d+%d\nboot\n' \
    "$first" "$(sectors "$kernel")" "$words" "$second" "$(sectors "$work/initrd")" >"$work/grub.cfg"
  grub-mkimage -O i386-pc -p / -c "$work/grub.cfg" -o "$work/core.img" biosdisk linux
  cp /usr/lib/grub/i386-pc/boot.img "$work/disk"
  for part in "core.img 1" "kernel $first" "initrd $second"; do
    name="${part% *}" at="${part#* }" file="$work/${part% *}"
    [ "$name" != kernel ] || file="$kernel"
    dd if="$file" of="$work/disk" bs=512 seek="$at" conv=notrunc,sync status=none
  done
  gzip -1 <"$work/disk" >"$folder/$image.disk.gz"

  # The disc.
  disc="$work/disc"
  rm -rf "$disc" && mkdir "$disc"
  printf 'search --file /initrd --set=root\nlinux /kernel %s lab.role=installer\ninitrd /initrd\nboot\n' "$words" >"$work/grub.cfg"
  grub-mkimage -O i386-pc-eltorito -p / -c "$work/grub.cfg" -o "$disc/boot" biosdisk iso9660 search linux
  ln -s "$kernel" "$disc/kernel"
  ln -s "$work/initrd" "$disc/initrd"
  xorriso -as mkisofs -f -quiet -r -V LAB -b boot -no-emul-boot -boot-load-size 4 -boot-info-table \
    -o "$folder/$image.iso" "$disc" 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
done
