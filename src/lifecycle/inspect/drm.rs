//! GPU memory of processes, as the drivers of the kernel tell it: the `drm-*` keys of `/proc/<pid>/fdinfo/<fd>`
//! (Documentation/gpu/drm-usage-stats.rst, Linux 5.19; memory by region in most drivers since 6.5).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::Inspector;
use crate::lifecycle::identity::Pid;

/// Returns the device memory of those processes that have any, in bytes. A client that several of them share is
/// counted once. Processes whose descriptors may not be read have none here. What `nvidia-drm` says of those that
/// NVIDIA's own tools have told of is left out.
pub fn drm_memory(
    inspector: &Inspector,
    pids: impl IntoIterator<Item = Pid>,
    told_by_nvidia: &BTreeSet<Pid>,
) -> BTreeMap<Pid, u64> {
    let Inspector::Procfs(procfs) = inspector else { return BTreeMap::new() };
    if !has_drm(inspector) {
        return BTreeMap::new();
    }
    let mut known = BTreeSet::new();
    let mut found = BTreeMap::new();
    for pid in pids {
        for text in clients(procfs.root(), pid) {
            let Some(client) = parse(&text) else { continue };
            if client.key[0] == "nvidia-drm" && told_by_nvidia.contains(&pid) {
                continue;
            }
            if client.bytes > 0 && known.insert(client.key) {
                let sum: &mut u64 = found.entry(pid).or_default();
                *sum = sum.saturating_add(client.bytes);
            }
        }
    }
    found
}

/// Tells whether there is a graphics device of which a driver could tell.
pub fn has_drm(inspector: &Inspector) -> bool {
    let Inspector::Procfs(procfs) = inspector else { return false };
    // Another root is a made-up one, whose processes have what it says.
    procfs.root() != Path::new("/proc") || Path::new("/dev/dri").exists()
}

/// Returns what the kernel says of each open graphics device of a process.
fn clients(root: &Path, pid: Pid) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root.join(format!("{pid}/fd"))) else { return Vec::new() };
    let is_device = |entry: &fs::DirEntry| fs::read_link(entry.path()).is_ok_and(|to| to.starts_with("/dev/dri"));
    let devices = entries.flatten().filter(is_device);
    let info = |entry: fs::DirEntry| root.join(format!("{pid}/fdinfo")).join(entry.file_name());
    devices.filter_map(|entry| fs::read_to_string(info(entry)).ok()).collect()
}

/// One client of one device.
struct Client {
    /// Driver, device and number: unique while it is open.
    key: [String; 3],
    bytes: u64,
}

fn parse(text: &str) -> Option<Client> {
    let fields: BTreeMap<&str, &str> =
        text.lines().filter_map(|line| line.split_once(':')).map(|(key, value)| (key, value.trim())).collect();
    let of = |key: &str| fields.get(key).map(|value| (*value).to_owned());
    let key = [of("drm-driver")?, of("drm-pdev").unwrap_or_default(), of("drm-client-id")?];
    // What is resident is what others lack; older kernels of amdgpu call it `memory`.
    let mut regions: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for (name, value) in &fields {
        let kinds = ["drm-total-", "drm-memory-", "drm-resident-"].into_iter().enumerate();
        for (rank, region) in kinds.filter_map(|(rank, kind)| Some((rank, name.strip_prefix(kind)?))) {
            let best = regions.get(region).is_none_or(|(known, _)| *known < rank);
            if let Some(bytes) = bytes(value).filter(|_| best && is_on_device(region)) {
                regions.insert(region, (rank, bytes));
            }
        }
    }
    let bytes = regions.values().fold(0, |sum: u64, (_, bytes)| sum.saturating_add(*bytes));
    Some(Client { key, bytes })
}

/// Tells whether a region is memory of the device, and not of the system: amdgpu and xe say `vram`, i915 `local`,
/// devices with one kind of memory `memory`.
fn is_on_device(region: &str) -> bool {
    ["vram", "local", "memory"].contains(&region.trim_end_matches(|c: char| c.is_ascii_digit()))
}

/// Parses `1234`, `1234 KiB` or `1234 MiB`.
fn bytes(value: &str) -> Option<u64> {
    let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
    let factor = match unit.trim() {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use crate::text::noise::{cases, damaged};

    use std::os::unix::fs::symlink;

    use super::super::Procfs;
    use super::*;

    fn check(text: &str, expected: Option<u64>) {
        assert_eq!(parse(text).map(|client| client.bytes), expected, "{text}");
    }

    #[test]
    fn regions_of_the_device_are_added_up() {
        let head = "pos:\t0\nflags:\t02100002\ndrm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t7\n";
        let with = |rest: &str| format!("{head}{rest}");
        check(&with("drm-memory-vram:\t2048 KiB\ndrm-memory-gtt: \t512 KiB\n"), Some(2 << 20));
        check(&with("drm-total-vram0:\t9 MiB\ndrm-resident-vram0:\t3 MiB\ndrm-total-system:\t1 MiB\n"), Some(3 << 20));
        check(&with("drm-resident-local0:\t100\ndrm-resident-local1:\t1 KiB\n"), Some(1124));
        check(&with("drm-engine-gfx:\t25 ns\n"), Some(0));
        check(&with("drm-memory-vram:\tmany\n"), Some(0));
        check("pos:\t0\nflags:\t0\n", None);
    }

    #[test]
    fn a_client_that_is_shared_counts_once() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("sys/kernel/random")).unwrap();
        fs::write(root.join("sys/kernel/random/boot_id"), "b00t\n").unwrap();
        let open_by = |driver: &str, pid: i32, fd: &str, to: &str, client: u32, kib: u64| {
            let place = root.join(pid.to_string());
            fs::create_dir_all(place.join("fd")).unwrap();
            fs::create_dir_all(place.join("fdinfo")).unwrap();
            symlink(to, place.join("fd").join(fd)).unwrap();
            let text = format!(
                "drm-driver:\t{driver}\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t{client}\ndrm-resident-vram0:\t{kib} KiB\n"
            );
            fs::write(place.join("fdinfo").join(fd), text).unwrap();
        };
        let open = |pid, fd: &str, to: &str, client, kib| open_by("xe", pid, fd, to, client, kib);
        open(42, "3", "/dev/dri/renderD128", 1, 8);
        open(42, "4", "/dev/dri/renderD128", 1, 8);
        open(42, "5", "/dev/dri/renderD128", 2, 4);
        open(43, "3", "/dev/dri/renderD128", 1, 8);
        open(44, "3", "/dev/null", 9, 64);
        let inspector = Inspector::Procfs(Procfs::open(root).unwrap());
        let pid = |raw| Pid::new(raw).unwrap();
        let none = BTreeSet::new();
        let found = drm_memory(&inspector, [42, 43, 44, 45].map(pid), &none);
        assert_eq!(found, BTreeMap::from([(pid(42), 12 << 10)]));
        assert_eq!(drm_memory(&inspector, [pid(43)], &none), BTreeMap::from([(pid(43), 8 << 10)]));
        assert_eq!(drm_memory(&Inspector::None, [pid(42)], &none), BTreeMap::new());
        open_by("nvidia-drm", 43, "4", "/dev/dri/renderD129", 3, 2);
        assert_eq!(drm_memory(&inspector, [pid(43)], &none), BTreeMap::from([(pid(43), 10 << 10)]));
        let told = BTreeSet::from([pid(43)]);
        assert_eq!(drm_memory(&inspector, [pid(43)], &told), BTreeMap::from([(pid(43), 8 << 10)]), "told already");
    }

    proptest! {
        #![proptest_config(cases(300))]

        #[test]
        fn any_text_is_a_client_or_none(bytes in damaged(
            b"drm-driver:\txe\ndrm-client-id:\t7\ndrm-total-vram0:\t9 MiB\ndrm-resident-vram1:\t18446744073709551615\n".to_vec(),
        )) {
            let _any = parse(&String::from_utf8_lossy(&bytes));
        }
    }

    /// A driver that talks nonsense of two regions stops nobody.
    #[test]
    fn more_memory_than_there_is_does_not_overflow() {
        let most = u64::MAX;
        let regions = format!("drm-total-vram0:\t{most}\ndrm-total-vram1:\t{most}\n");
        check(&format!("drm-driver:\tx\ndrm-client-id:\t7\n{regions}"), Some(most));
    }
}
