//! Files by name that must be regular ones. Opening never waits: a FIFO without a writer, a device or a socket in
//! the place of a record is an error like any other.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// What a file of ours permits.
const PRIVATE: u32 = 0o600;

/// Opens a file for reading.
///
/// # Errors
/// When there is none, or it is something else than a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), path)
}

/// Nothing that we keep comes near this size, in bytes.
const SIZE_MAX: u64 = 64 << 20;

/// Reads a file.
///
/// # Errors
/// As [`open`], when the disk refuses, or when the file is longer than any that we keep.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let (file, metadata) = open_regular(OpenOptions::new().read(true), path)?;
    let length = metadata.len();
    if length > SIZE_MAX {
        let message = format!("it is longer than {} MiB, as none of ours is", SIZE_MAX >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length + 1).unwrap_or(0));
    // It may grow while it is read.
    file.take(SIZE_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens, or creates, a file of ours for appending, mode 0600 whatever the umask.
///
/// # Errors
/// As [`private`].
pub fn append(path: &Path) -> io::Result<File> {
    private(OpenOptions::new().create(true).append(true), path)
}

/// Opens, or creates, a file of ours as `options` say, mode 0600 whatever the umask: one may take the owner's bits, too.
///
/// # Errors
/// As [`open`], or when the mode cannot be set.
pub fn private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.mode(PRIVATE);
    let (file, metadata) = match open_regular(options, path) {
        // Whoever made it has not set its mode yet, or has died before that.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && is_ours(path) => {
            fs::set_permissions(path, Permissions::from_mode(PRIVATE))?;
            open_regular(options, path)?
        }
        opened => opened?,
    };
    if metadata.mode() & 0o777 != PRIVATE {
        file.set_permissions(Permissions::from_mode(PRIVATE))?;
    }
    Ok(file)
}

fn is_ours(path: &Path) -> bool {
    let ours = |metadata: Metadata| metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(ours)
}

/// Opens a file as `options` say.
///
/// # Errors
/// As [`open`].
pub fn open_with(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    open_regular(options, path).map(|(file, _)| file)
}

fn open_regular(options: &mut OpenOptions, path: &Path) -> io::Result<(File, Metadata)> {
    // For a regular file the flag means nothing (open(2)).
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    let file = options.custom_flags(flags.cast_signed()).open(path).map_err(|error| match error.raw_os_error() {
        // A socket, or a FIFO that nobody reads.
        Some(code) if code == rustix::io::Errno::NXIO.raw_os_error() => not_regular("a socket or a FIFO"),
        _ => error,
    })?;
    let metadata = file.metadata()?;
    let kind = metadata.file_type();
    if kind.is_file() {
        return Ok((file, metadata));
    }
    Err(not_regular(if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_dir() {
        "a directory"
    } else {
        "a device"
    }))
}

fn not_regular(what: &str) -> io::Error {
    io::Error::other(format!("it is {what}, not a regular file"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    #[test]
    fn nothing_but_a_regular_file_is_opened_and_nobody_waits() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        mknodat(CWD, place("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(place("socket")).unwrap();
        fs::create_dir(place("directory")).unwrap();
        std::os::unix::fs::symlink("/dev/null", place("device")).unwrap();
        for name in ["fifo", "socket", "directory", "device"] {
            for error in [read(&place(name)).unwrap_err(), append(&place(name)).unwrap_err()] {
                let expected = name == "directory" || error.to_string().contains("not a regular file");
                assert!(expected && error.kind() != io::ErrorKind::NotFound, "{name}: {error}");
            }
        }
        // What is not worth reading is not read: a file of holes takes no place on a disk.
        append(&place("holes")).unwrap().set_len(8 << 40).unwrap();
        assert_eq!(read(&place("holes")).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        append(&place("file")).unwrap();
        assert_eq!(read(&place("file")).unwrap(), b"");
        assert_eq!(open(&place("nothing")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
