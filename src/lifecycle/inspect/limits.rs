//! Limits of our own process that bear on how it may look.

/// Returns how many descriptors this process may have open (the soft `RLIMIT_NOFILE`, getrlimit(2)).
pub fn open_files_limit() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX)
}
