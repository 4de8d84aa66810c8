//! The hidden subcommand that asks NVML for the GPU memory of processes, and the lines in which it answers.
//!
//! The driver's library runs in a process of its own, which `runtime/nvidia.rs` starts on a leash: one that crashes,
//! hangs in the driver, or opens devices without `O_CLOEXEC` does so away from the manager and from what that starts.
//! It is asked by a line, any line, and answers each with one. It judges nobody: whose pids these are is told by
//! whoever asked.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead, Write};

use nvml_wrapper::Nvml;
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;

use super::error::Exit;
use crate::lifecycle::identity::Pid;

/// The library by the name that the driver installs; the one without a number comes with developers' packages only.
pub(super) const LIBRARY: &str = "libnvidia-ml.so.1";

/// Bytes of GPU memory by process; `None` is memory that nobody can put a number to.
pub(super) type Usage = BTreeMap<Pid, Option<u64>>;

/// Adds what a process has on one more GPU. What is unknown in part is unknown.
pub(super) fn add(usage: &mut Usage, pid: Pid, bytes: Option<u64>) {
    let sum = usage.entry(pid).or_insert(Some(0));
    *sum = sum.zip(bytes).map(|(sum, bytes)| sum.saturating_add(bytes));
}

/// Answers line by line, until there is none.
pub(super) fn run() -> u8 {
    let mut loaded = None;
    let mut answers = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let answer = to_line(&ask(&mut loaded));
        if line.is_err() || writeln!(answers, "{answer}").and_then(|()| answers.flush()).is_err() {
            break;
        }
    }
    Exit::Ok.code()
}

/// Asks all GPUs. The library is loaded by the first question.
fn ask(loaded: &mut Option<Nvml>) -> Result<Usage, String> {
    let nvml = match loaded {
        Some(nvml) => nvml,
        None => loaded.insert(Nvml::builder().lib_path(OsStr::new(LIBRARY)).init().map_err(words)?),
    };
    let mut usage = Usage::new();
    let (mut told, mut refused) = (false, None);
    for index in 0..nvml.device_count().map_err(words)? {
        match processes(nvml, index) {
            Ok(lists) => {
                told = true;
                for (pid, bytes) in on_one_gpu(&lists) {
                    add(&mut usage, pid, bytes);
                }
            }
            // What cannot be told of one GPU is no reason to be silent about the others.
            Err(error @ (NvmlError::NotSupported | NvmlError::NoPermission | NvmlError::GpuLost)) => {
                refused = refused.or(Some(error));
            }
            Err(error) => return Err(words(error)),
        }
    }
    refused.filter(|_| !told).map_or(Ok(usage), |error| Err(words(error)))
}

/// Returns who computes on a GPU and who draws on it. Of a GPU that does neither there is no list.
fn processes(nvml: &Nvml, index: u32) -> Result<[Vec<ProcessInfo>; 2], NvmlError> {
    let device = nvml.device_by_index(index)?;
    let mut lists = [device.running_compute_processes(), device.running_graphics_processes()];
    if lists.iter().any(|list| matches!(list, Err(NvmlError::InsufficientSize(_)))) {
        // More of them came than there was room for.
        lists = [device.running_compute_processes(), device.running_graphics_processes()];
    }
    match lists {
        [Ok(compute), Ok(graphics)] => Ok([compute, graphics]),
        [Ok(list), Err(NvmlError::NotSupported)] | [Err(NvmlError::NotSupported), Ok(list)] => Ok([list, Vec::new()]),
        [Err(error), _] | [_, Err(error)] => Err(error),
    }
}

/// Adds up what processes have on one GPU. One that computes and draws is in both lists, with the same number; one that
/// is in several instances of a GPU (MIG) has a number in each.
fn on_one_gpu(lists: &[Vec<ProcessInfo>]) -> Usage {
    let mut parts: BTreeMap<_, Option<u64>> = BTreeMap::new();
    for process in lists.iter().flatten() {
        let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::new) else { continue };
        let bytes = match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => Some(bytes),
            UsedGpuMemory::Unavailable => None,
        };
        let part = parts.entry((pid, process.gpu_instance_id, process.compute_instance_id)).or_insert(bytes);
        *part = part.zip(bytes).map(|(a, b)| a.max(b));
    }
    let mut usage = Usage::new();
    for ((pid, ..), bytes) in parts {
        add(&mut usage, pid, bytes);
    }
    usage
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of an error")]
fn words(error: NvmlError) -> String {
    if let NvmlError::LibloadingError(error) = &error {
        return format!("{LIBRARY} cannot be loaded: {error}");
    }
    format!("NVML: {error}")
}

/// Writes an answer as one line: `= 4711:1024 12:-`, or `! ` and a reason.
fn to_line(answer: &Result<Usage, String>) -> String {
    let of = |(pid, bytes): (&Pid, &Option<u64>)| {
        format!(" {pid}:{}", bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string()))
    };
    match answer {
        Ok(usage) => format!("={}", usage.iter().map(of).collect::<String>()),
        Err(reason) => format!("! {}", reason.split_whitespace().collect::<Vec<_>>().join(" ")),
    }
}

/// Reads such a line; `None` is a line of somebody else, as a library may print some.
pub(super) fn of_line(line: &str) -> Option<Result<Usage, String>> {
    if let Some(reason) = line.strip_prefix("! ") {
        return Some(Err(reason.to_owned()));
    }
    let of = |word: &str| {
        let (pid, bytes) = word.split_once(':')?;
        let bytes = if bytes == "-" { None } else { Some(bytes.parse().ok()?) };
        Some((pid.parse().ok().and_then(Pid::new)?, bytes))
    };
    line.strip_prefix('=')?.split_whitespace().map(of).collect::<Option<_>>().map(Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pid(raw: i32) -> Pid {
        Pid::new(raw).expect("a pid")
    }

    fn process(pid: u32, used: u64, instance: Option<u32>) -> ProcessInfo {
        let used_gpu_memory = UsedGpuMemory::from(used);
        ProcessInfo { pid, used_gpu_memory, gpu_instance_id: instance, compute_instance_id: instance }
    }

    #[test]
    fn processes_of_one_gpu_are_added_up() {
        let check = |lists: &[&[ProcessInfo]], expected: &[(i32, Option<u64>)]| {
            let lists: Vec<Vec<ProcessInfo>> = lists.iter().map(|list| list.to_vec()).collect();
            let expected: Usage = expected.iter().map(|(raw, bytes)| (pid(*raw), *bytes)).collect();
            assert_eq!(on_one_gpu(&lists), expected, "{lists:?}");
        };
        let unavailable = u64::MAX;
        check(&[&[process(7, 10, None), process(8, 1, None)], &[]], &[(7, Some(10)), (8, Some(1))]);
        // Computes and draws: one number, told twice.
        check(&[&[process(7, 10, None)], &[process(7, 10, None)]], &[(7, Some(10))]);
        check(&[&[process(7, 10, Some(1)), process(7, 5, Some(2))]], &[(7, Some(15))]);
        check(&[&[process(7, unavailable, None)]], &[(7, None)]);
        check(&[&[process(7, 10, Some(1)), process(7, unavailable, Some(2))]], &[(7, None)]);
        check(&[&[process(7, unavailable, None)], &[process(7, 10, None)]], &[(7, None)]);
        check(&[&[process(0, 1, None), process(u32::MAX, 1, None)]], &[]);
    }

    #[test]
    fn what_is_unknown_in_part_is_unknown() {
        let mut usage = Usage::new();
        add(&mut usage, pid(7), Some(3));
        add(&mut usage, pid(7), Some(4));
        assert_eq!(usage[&pid(7)], Some(7));
        add(&mut usage, pid(7), None);
        add(&mut usage, pid(7), Some(1));
        assert_eq!(usage[&pid(7)], None);
        add(&mut usage, pid(8), Some(u64::MAX));
        add(&mut usage, pid(8), Some(1));
        assert_eq!(usage[&pid(8)], Some(u64::MAX));
    }

    #[test]
    fn answers_are_lines() {
        let usage = Usage::from([(pid(12), None), (pid(4711), Some(1024))]);
        assert_eq!(to_line(&Ok(usage.clone())), "= 12:- 4711:1024");
        assert_eq!(of_line("= 12:- 4711:1024"), Some(Ok(usage)));
        assert_eq!(of_line("="), Some(Ok(Usage::new())));
        assert_eq!(to_line(&Err("no\n driver".into())), "! no driver");
        assert_eq!(of_line("! no driver"), Some(Err("no driver".into())));
        for odd in ["", "NVML says hello", "= 12", "= x:1", "= 0:1", "= 12:-1", "= 12:99999999999999999999"] {
            assert_eq!(of_line(odd), None, "{odd}");
        }
    }
}
