//! The directory that is served, and nothing else.

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2};
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Why a directory cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// It cannot be opened.
    #[error("the directory {path} cannot be opened: {source}")]
    Open {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system has no `openat2`, which keeps requests inside the directory.
    #[error("files can be served from Linux 5.6 on: this system has no openat2")]
    NoOpenat2,
}

/// An open directory.
#[derive(Debug)]
pub(super) struct Root {
    directory: OwnedFd,
    /// It is on a file system of which [`LOCAL`] knows.
    is_local: bool,
}

/// File systems on disks, which open, look at and close a file whose path is in memory without asking another machine or process, and read without
/// waiting where that is asked for (linux/magic.h).
const LOCAL: [i64; 4] = [
    0xef53,      // ext2, ext3 and ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0xf2f5_2010, // F2FS
];

/// An open file.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) file: OwnedFd,
    pub(super) len: u64,
    pub(super) modified: SystemTime,
}

/// What was found instead of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Missing {
    /// Nothing that may be served.
    NotFound,
    /// A directory that has an index, named without its slash.
    Directory,
    /// The system has no descriptor, memory or disk for it.
    Failed,
}

/// The file that stands for its directory.
const INDEX: &[u8] = b"index.html";

/// How often a look-up is made again that a rename has crossed.
const RETRIES: usize = 16;

impl Root {
    pub(super) fn open(path: &Path) -> Result<Root, DirectoryError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            rustix::fs::open(path, flags, Mode::empty()).map_err(|error| DirectoryError::Open {
                path: path.to_path_buf(),
                source: error.into(),
            })?;
        let kind = rustix::fs::fstatfs(&directory).map(|system| system.f_type);
        let root = Root {
            directory,
            is_local: kind.is_ok_and(|kind| LOCAL.contains(&kind)),
        };
        match root.open_beneath(b".") {
            Ok(_) => Ok(root),
            Err(Errno::NOSYS | Errno::PERM) => Err(DirectoryError::NoOpenat2),
            Err(error) => Err(DirectoryError::Open {
                path: path.to_path_buf(),
                source: error.into(),
            }),
        }
    }

    /// The file at `path`, or the index of the directory there.
    pub(super) fn find(&self, path: &[u8], names_directory: bool) -> Result<Found, Missing> {
        if names_directory {
            return self.index_of(path);
        }
        let here = if path.is_empty() { b"." } else { path };
        let file = self.open_beneath(here).map_err(missing)?;
        let stat = fstat(&file).map_err(missing)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Found::new(file, &stat)),
            FileType::Directory => self.index_of(path).and(Err(Missing::Directory)),
            _ => Err(Missing::NotFound),
        }
    }

    fn index_of(&self, path: &[u8]) -> Result<Found, Missing> {
        let file = self.open_beneath(&index(path)).map_err(missing)?;
        let stat = fstat(&file).map_err(missing)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Found::new(file, &stat)),
            _ => Err(Missing::NotFound),
        }
    }

    /// The same as [`find`](Root::find) where that is a file and nothing has to be waited for. `None` says nothing about what is there.
    pub(super) fn find_cached(&self, path: &[u8], names_directory: bool) -> Option<Found> {
        if !self.is_local {
            return None;
        }
        // Another mount may be of another kind.
        let resolve = BENEATH | ResolveFlags::CACHED | ResolveFlags::NO_XDEV;
        let opened = match names_directory {
            true => self.open_as(&index(path), resolve),
            false => self.open_as(path, resolve),
        };
        let file = opened.ok()?;
        let stat = fstat(&file).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        is_file.then(|| Found::new(file, &stat))
    }

    /// Whether [`find_cached`](Root::find_cached) ever finds anything.
    #[cfg(test)]
    pub(super) fn is_local(&self) -> bool {
        self.is_local
    }

    /// Opens what lies beneath the directory, following only links that stay there. A pipe or a device is opened without
    /// waiting for its other end.
    fn open_beneath(&self, path: &[u8]) -> rustix::io::Result<OwnedFd> {
        let mut result = Err(Errno::AGAIN);
        for _ in 0..RETRIES {
            result = self.open_as(path, BENEATH);
            if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        result
    }

    fn open_as(&self, path: &[u8], resolve: ResolveFlags) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        openat2(&self.directory, path, flags, Mode::empty(), resolve)
    }
}

/// Only links are followed that stay in the directory.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// The index of the directory at `path`.
fn index(path: &[u8]) -> Vec<u8> {
    match path {
        [] => INDEX.to_vec(),
        _ => [path, b"/", INDEX].concat(),
    }
}

impl Found {
    fn new(file: OwnedFd, stat: &Stat) -> Found {
        let modified = match u64::try_from(stat.st_mtime) {
            Ok(seconds) => SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)),
            Err(_) => None,
        };
        Found {
            file,
            len: u64::try_from(stat.st_size).unwrap_or(0),
            modified: modified.unwrap_or(SystemTime::UNIX_EPOCH),
        }
    }
}

/// What the system's errors mean to a client: what may not be read is as good as not there.
fn missing(error: Errno) -> Missing {
    match error {
        Errno::NFILE | Errno::MFILE | Errno::NOMEM | Errno::IO | Errno::AGAIN | Errno::INTR => {
            Missing::Failed
        }
        _ => Missing::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A directory that disappears.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("braidnet-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn there_is_no_way_out() {
        let scratch = Scratch::new("root");
        let www = scratch.0.join("www");
        fs::create_dir_all(www.join("sub/empty")).unwrap();
        fs::create_dir_all(www.join("with")).unwrap();
        fs::write(scratch.0.join("secret"), "secret").unwrap();
        fs::write(www.join("sub/file"), "12345").unwrap();
        fs::write(www.join("with/index.html"), "<p>").unwrap();
        symlink("../secret", www.join("out")).unwrap();
        symlink("/etc/passwd", www.join("absolute")).unwrap();
        symlink("../..", www.join("sub/up")).unwrap();
        symlink("sub/file", www.join("inside")).unwrap();
        symlink("loop", www.join("loop")).unwrap();
        symlink("/proc/self/root", www.join("magic")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, www.join("pipe"), Mode::RUSR).unwrap();
        let root = Root::open(&www).unwrap();
        let rows: [(&str, bool, Result<u64, Missing>); 16] = [
            ("sub/file", false, Ok(5)),
            ("inside", false, Ok(5)),
            ("with", true, Ok(3)),
            ("with", false, Err(Missing::Directory)),
            ("sub/file", true, Err(Missing::NotFound)),
            ("sub", true, Err(Missing::NotFound)),
            ("", true, Err(Missing::NotFound)),
            ("absent", false, Err(Missing::NotFound)),
            ("sub/file/x", false, Err(Missing::NotFound)),
            ("out", false, Err(Missing::NotFound)),
            ("absolute", false, Err(Missing::NotFound)),
            ("sub/up/secret", false, Err(Missing::NotFound)),
            ("../secret", false, Err(Missing::NotFound)),
            ("loop", false, Err(Missing::NotFound)),
            ("magic/etc/passwd", false, Err(Missing::NotFound)),
            ("pipe", false, Err(Missing::NotFound)),
        ];
        for (path, names_directory, expected) in rows {
            let found = root
                .find(path.as_bytes(), names_directory)
                .map(|found| found.len);
            assert_eq!(found, expected, "{path}");
        }
        assert!(matches!(
            Root::open(&scratch.0.join("absent")),
            Err(DirectoryError::Open { .. })
        ));
        assert!(matches!(
            Root::open(&scratch.0.join("secret")),
            Err(DirectoryError::Open { .. })
        ));
    }
}
