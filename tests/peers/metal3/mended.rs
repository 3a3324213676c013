//! The API server at hand, mended so that it can be written objects of a custom resource.
//!
//! It was built of Kubernetes 1.20 with Go 1.19. The library with which it writes JSON (reflect2 1.0.1)
//! calls `reflect.mapiterinit` as it was before Go 1.18: without the iterator that it now has to bring.
//! What is taken for one then lies in the description of the map's type, and the second map of a type
//! with anything in it ends the server with a segmentation fault; each custom resource has such a map. So
//! its six calls go through a few instructions that bring an iterator, and `reflect.mapiterinit` gives it
//! back, as the library expects. Any other build is used as it is.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{shared, skip, turn};

/// Where the first byte of the file lies in memory.
const ORIGIN: usize = 0x40_0000;
/// `reflect.mapiterinit`.
const BEGIN: usize = 0x46_5d80;
/// The calls of the library.
const CALLS: [usize; 6] = [
    0x83_2020, 0x83_2107, 0x87_18a4, 0x87_1ee3, 0x87_2191, 0x87_2de3,
];
/// Unused bytes behind the code, in its last page.
const FREE: usize = 0x33e_db10;
/// Unused memory in the last page of the data: which iterator is next.
const NEXT: usize = 0x6d5_3800;
/// Memory behind the data: [`COUNT`] iterators of 128 bytes, used one after the other.
const ITERATORS: usize = 0x6d5_4000;
/// A power of two, and more than begin while a list is written out: the list's own is in use until its end,
/// each object in it has a dozen, and many lists are written at the same time.
const COUNT: u32 = 1 << 18;
/// Where the file says how long the data is in memory, and what it says.
const LENGTH: (usize, u64) = (64 + 4 * 56 + 40, 0x11_34f0);
/// Where the data begins in memory.
const DATA: usize = 0x6c4_0000;

/// The folder of the servers; `None`, said loudly, if there are none.
pub(crate) fn assets() -> Option<PathBuf> {
    let script = shared("peers")?.join("kube-assets.sh");
    let _turn = turn("kube-up.sh");
    let output = match Command::new(script).output() {
        Ok(output) if output.status.success() => output,
        other => {
            skip(&format!("kube-assets.sh fails: {other:?}"));
            return None;
        }
    };
    let found = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    let server = found.join("kube-apiserver");
    let Some(mended) = mend(std::fs::read(&server).unwrap()) else {
        return Some(found);
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mended-kube-assets");
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["etcd", "kube-controller-manager", "kubectl"] {
        // Another test may have made it.
        let _ = std::os::unix::fs::symlink(found.join(name), folder.join(name));
    }
    let place = folder.join("kube-apiserver");
    if std::fs::read(&place).is_ok_and(|there| there == mended) {
        return Some(folder);
    }
    let new = folder.join(format!("kube-apiserver.{}", std::process::id()));
    std::fs::write(&new, mended).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&new, &place).unwrap();
    Some(folder)
}

/// The mended server; `None` if it is another build.
fn mend(mut server: Vec<u8>) -> Option<Vec<u8>> {
    // It keeps the iterator if it kept its frame pointer, and gives it back.
    let keeps = b"\x48\x89\x4c\x24\x18\x0f\x1f\x44\x00\x00";
    put(
        &mut server,
        0x46_5d8a,
        b"\x48\x89\x6c\x24\x18\x48\x8d\x6c\x24\x18",
        keeps,
    )?;
    put(
        &mut server,
        0x46_5d99,
        b"\x48\x8b\x6c\x24\x18",
        b"\x48\x8b\x44\x24\x18",
    )?;
    let mut code = vec![0xb9, 1, 0, 0, 0]; // mov $1,%ecx
    relative(&mut code, b"\xf0\x0f\xc1\x0d", NEXT); // lock xadd %ecx,NEXT
    code.extend(b"\x81\xe1"); // and $COUNT-1,%ecx
    code.extend((COUNT - 1).to_le_bytes());
    code.extend(b"\xc1\xe1\x07"); // shl $7,%ecx
    relative(&mut code, b"\x48\x8d\x15", ITERATORS); // lea ITERATORS,%rdx
    code.extend(b"\x48\x01\xd1"); // add %rdx,%rcx
    code.extend(b"\x44\x0f\x11\x39"); // movups %xmm15,(%rcx): zeros, and 16 bytes on
    for offset in [0x10, 0x20, 0x30, 0x40, 0x50] {
        code.extend([0x44, 0x0f, 0x11, 0x79, offset]);
    }
    relative(&mut code, b"\xe9", BEGIN); // jmp
    put(&mut server, FREE, &vec![0; code.len()], &code)?;
    for call in CALLS {
        let to = |target: usize| {
            let distance = target as i64 - (call as i64 + 5);
            let distance = i32::try_from(distance).unwrap().to_le_bytes();
            [&[0xe8][..], &distance].concat()
        };
        put(&mut server, call, &to(BEGIN), &to(FREE))?;
    }
    let (at, before) = LENGTH;
    let after = (ITERATORS + COUNT as usize * 128 - DATA) as u64;
    put(
        &mut server,
        ORIGIN + at,
        &before.to_le_bytes(),
        &after.to_le_bytes(),
    )?;
    Some(server)
}

/// Puts bytes in the place of others; `None` if the others are not there.
fn put(server: &mut [u8], address: usize, old: &[u8], new: &[u8]) -> Option<()> {
    let start = address - ORIGIN;
    let place = server.get_mut(start..start + old.len())?;
    (place == old).then(|| place.copy_from_slice(new))
}

/// An instruction of [`FREE`] that names an address by its distance.
fn relative(code: &mut Vec<u8>, instruction: &[u8], target: usize) {
    code.extend(instruction);
    let next = FREE + code.len() + 4;
    let distance = i32::try_from(target as i64 - next as i64).unwrap();
    code.extend(distance.to_le_bytes());
}
