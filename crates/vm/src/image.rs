//! The kernel that a virtual machine boots: the newest that Debian makes for clouds, fetched once and kept.
//!
//! `linux-image-cloud-amd64` always depends on the newest kernel of a suite, so no version stands here. It is fetched by apt,
//! which checks its signature, from lists and a cache of our own: the system's sources and packages stay as they are. What is kept has
//! its checksum beside it, in folders that nobody else can write to.

use nix::unistd::geteuid;
use sha2::{Digest, Sha256};
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The variable that names another kernel.
const KERNEL_VARIABLE: &str = "STAYPUT_KERNEL";
/// The package that depends on the newest kernel.
const META_PACKAGE: &str = "linux-image-cloud-amd64";
/// The first suite whose cloud kernel has sched_ext, and whatever is stable's backports now. Mirrors may be behind with the
/// second, which is only another name; the newer of both is taken.
const SUITES: &str = "trixie-backports stable-backports";
/// Lists of packages are fetched again when they are older.
const LISTS_MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// A Linux kernel to boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The file.
    pub vmlinuz: PathBuf,
    /// What `uname -r` says under it.
    pub release: String,
    /// Why it may not be the newest, where that is so.
    pub note: Option<String>,
}

/// Why there is no kernel to boot.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The file isn't a kernel.
    #[error("{path} is no Linux kernel for x86: {cause}", path = path.display())]
    NotAnImage {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// There is nowhere to keep kernels.
    #[error(
        "cannot keep kernels: neither XDG_CACHE_HOME nor HOME is set; set one, or name a kernel in {KERNEL_VARIABLE}"
    )]
    NoCacheFolder,
    /// A folder or file of the cache can't be used.
    #[error("cannot keep kernels in {path}: {cause}", path = path.display())]
    Cache {
        /// The folder or file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// Somebody else could put another kernel into the cache.
    #[error(
        "{path} can be changed by others, who could put another kernel there: name a folder of your own in XDG_CACHE_HOME, or a \
         kernel in {KERNEL_VARIABLE}",
        path = path.display()
    )]
    Foreign {
        /// The folder.
        path: PathBuf,
    },
    /// A module of the kernel can't be had.
    #[error("the kernel's module for overlay file systems can't be fetched: {cause}")]
    NoModule {
        /// What went wrong.
        cause: String,
    },
    /// It can't be fetched, and none is kept from before.
    #[error("no kernel can be fetched ({cause}) and none is kept from before: name one in {KERNEL_VARIABLE}")]
    NotFetched {
        /// What went wrong.
        cause: String,
    },
}

impl Kernel {
    /// The kernel that the variable `STAYPUT_KERNEL` names, else Debian's newest cloud kernel. Where that can't be fetched, the
    /// one fetched last, and its `note` says so. `say` is told what is fetched, before it is.
    ///
    /// # Errors
    /// [`KernelError`] where there is none.
    pub fn newest(say: &dyn Fn(&str)) -> Result<Self, KernelError> {
        if let Some(path) = env::var_os(KERNEL_VARIABLE) {
            return Self::at(path);
        }
        let cache = Cache::open(say)?;
        cache.newest_fetched().or_else(|cause| {
            let kept = cache.newest_kept().ok_or_else(|| KernelError::NotFetched { cause: cause.to_string() })?;
            let note = format!("the newest kernel can't be fetched ({cause}); {} is from before", kept.release);
            Ok(Self { note: Some(note), ..kept })
        })
    }

    /// The kernel in this file, a `vmlinuz`.
    ///
    /// # Errors
    /// [`KernelError::NotAnImage`] if it is none.
    pub fn at(vmlinuz: impl Into<PathBuf>) -> Result<Self, KernelError> {
        let vmlinuz = vmlinuz.into();
        match read_release(&vmlinuz) {
            Ok(release) => Ok(Self { vmlinuz, release, note: None }),
            Err(cause) => Err(KernelError::NotAnImage { path: vmlinuz, cause }),
        }
    }

    /// The kernel's module of overlay file systems, unpacked, where it has one and that can be had: a kernel of Debian's is given
    /// its own, which `say` is told of before it is fetched; another one that of this host, where it is this host's kernel.
    ///
    /// # Errors
    /// [`KernelError`] where a kernel of ours lacks its module, and that can't be fetched.
    pub fn overlay_module(&self, say: &dyn Fn(&str)) -> Result<Option<PathBuf>, KernelError> {
        if env::var_os(KERNEL_VARIABLE).is_some() {
            let beside = self.vmlinuz.with_file_name(format!("{OVERLAY}.ko"));
            let here = || module_below(&Path::new("/lib/modules").join(&self.release), OVERLAY);
            // One that is packed is of no use to the guest, which has nothing to unpack it with.
            return Ok(Some(beside)
                .filter(|path| path.is_file())
                .or_else(here)
                .filter(|path| path.extension() != Some("xz".as_ref())));
        }
        let kept = self.vmlinuz.with_file_name(format!("{OVERLAY}.ko"));
        let cache = Cache::open(say)?;
        if !is_as_fetched(&kept) {
            let not_fetched = |cause: FetchError| KernelError::NoModule { cause: cause.to_string() };
            cache.fetch_module(&self.release, OVERLAY, &kept).map_err(not_fetched)?;
        }
        Ok(Some(kept))
    }

    /// The configuration that the kernel was built with, where it can be had: many loaders of sched_ext look it up. A kernel of Debian's
    /// is given its own, which `say` is told of before it is fetched, or that it can't be; another one what lies beside it.
    pub fn config(&self, say: &dyn Fn(&str)) -> Option<PathBuf> {
        let kept = self.vmlinuz.with_file_name("config");
        if env::var_os(KERNEL_VARIABLE).is_some() {
            return Some(kept).filter(|path| path.is_file());
        }
        let fetched = || Cache::open(say).map_err(FetchError::from)?.fetch_config(&self.release, &kept);
        match if is_as_fetched(&kept) { Ok(()) } else { fetched() } {
            Ok(()) => Some(kept),
            Err(cause) => {
                say(&format!("schedulers that look up the kernel's configuration can't be loaded there: {cause}"));
                None
            }
        }
    }
}

/// The module that a host's file system in a guest takes.
const OVERLAY: &str = "overlay";

/// The release that an image's header names (Documentation/arch/x86/boot.rst: `header` at 0x202, `kernel_version` at 0x20e).
fn read_release(vmlinuz: &Path) -> Result<String, String> {
    let image = fs::read(vmlinuz).map_err(|e| e.to_string())?;
    let Some([b'H', b'd', b'r', b'S', .., low, high]) = image.get(0x202..0x210) else {
        return Err("it has no boot header".into());
    };
    let offset = usize::from(u16::from_le_bytes([*low, *high])) + 0x200;
    let text = image.get(offset..).and_then(|rest| rest.split(|&byte| byte == 0).next()).unwrap_or_default();
    let release = String::from_utf8_lossy(text).split_whitespace().next().map(str::to_owned);
    release.ok_or_else(|| "its boot header names no release".into())
}

/// What went wrong in fetching.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    /// A program can't be started, or failed and said this.
    #[error("{name}: {cause}")]
    Program { name: &'static str, cause: String },
    /// Its packages are not what is expected.
    #[error("{0}")]
    Package(String),
    /// The system doesn't let us keep it.
    #[error(transparent)]
    Keep(#[from] KernelError),
}

/// Says that a file or folder of the cache can't be used.
fn unusable(path: &Path) -> impl Fn(io::Error) -> KernelError {
    move |cause| KernelError::Cache { path: path.to_owned(), cause }
}

/// The folder of what was fetched: `kernels/RELEASE/vmlinuz`, and `apt` with its lists.
struct Cache<'a> {
    folder: PathBuf,
    /// Is told what is fetched.
    say: &'a dyn Fn(&str),
    /// Held while this lives, so that programs started together fetch once.
    _lock: File,
}

impl<'a> Cache<'a> {
    fn open(say: &'a dyn Fn(&str)) -> Result<Self, KernelError> {
        let named = |variable: &str| env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let folder = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")));
        Self::within(&folder.ok_or(KernelError::NoCacheFolder)?, say)
    }

    /// The cache in a folder for caches.
    fn within(caches: &Path, say: &'a dyn Fn(&str)) -> Result<Self, KernelError> {
        let folder = caches.join("stayput");
        for part in ["kernels", "apt/sources", "apt/lists/partial", "apt/archives/partial"] {
            fs::create_dir_all(folder.join(part)).map_err(unusable(&folder))?;
        }
        // As root in the folder of a user (`sudo -E`), too: whatever is there could be replaced at any time.
        if let Some(path) = [caches, &folder, &folder.join("kernels")].into_iter().find(|path| is_foreign(path)) {
            return Err(KernelError::Foreign { path: path.to_owned() });
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).custom_flags(nix::libc::O_NOFOLLOW);
        let lock = options.open(folder.join("kernels/lock")).map_err(unusable(&folder))?;
        lock.lock().map_err(unusable(&folder))?;
        Ok(Self { folder, say, _lock: lock })
    }

    fn kept(&self, release: &str) -> PathBuf {
        self.folder.join("kernels").join(release).join("vmlinuz")
    }

    /// The kernel that was fetched last.
    fn newest_kept(&self) -> Option<Kernel> {
        let folders = fs::read_dir(self.folder.join("kernels")).ok()?.flatten();
        let kernels = folders.map(|folder| folder.path().join("vmlinuz")).filter(|vmlinuz| is_as_fetched(vmlinuz));
        let newest = kernels.max_by_key(|vmlinuz| fs::metadata(vmlinuz).and_then(|data| data.modified()).ok())?;
        Kernel::at(newest).ok()
    }

    /// The newest kernel in Debian's lists, which are brought up to date before, if that is possible.
    fn newest_fetched(&self) -> Result<Kernel, FetchError> {
        let updated = self.update_lists();
        match (self.newest_listed(), updated) {
            (Ok(kernel), Err(cause)) => {
                let note =
                    format!("lists of kernels can't be fetched ({cause}); {} is the newest of before", kernel.release);
                Ok(Kernel { note: Some(note), ..kernel })
            }
            (Err(_), Err(cause)) => Err(cause),
            (kernel, Ok(())) => kernel,
        }
    }

    fn newest_listed(&self) -> Result<Kernel, FetchError> {
        let (package, release) = self.newest_package()?;
        let vmlinuz = self.kept(&release);
        if !is_as_fetched(&vmlinuz) {
            self.fetch(&package, &release, &vmlinuz)?;
        }
        Ok(Kernel::at(vmlinuz)?)
    }

    /// A program of apt's that sees nothing but our own sources and lists.
    fn apt(&self, name: &'static str) -> Command {
        let apt = self.folder.join("apt");
        let mut command = Command::new(name);
        let places = [
            ("Dir::State", ""),
            ("Dir::State::lists", "lists"),
            ("Dir::State::status", "status"),
            ("Dir::Cache", ""),
            ("Dir::Cache::archives", "archives"),
            ("Dir::Etc::sourceparts", "sources"),
            ("Dir::Etc::sourcelist", "/dev/null"),
            ("Dir::Etc::preferences", "preferences"),
            ("Dir::Etc::preferencesparts", "/dev/null"),
        ];
        for (option, path) in places {
            command.arg("-o").arg(format!("{option}={}", apt.join(path).display()));
        }
        // Its own user could not write to our folder.
        command.args(["-o", "APT::Sandbox::User=root"]).env("LC_ALL", "C");
        command
    }

    /// Fetches the lists of packages, at most once a day.
    fn update_lists(&self) -> Result<(), FetchError> {
        let apt = self.folder.join("apt");
        let stamp = apt.join("updated");
        let age = fs::metadata(&stamp).and_then(|data| data.modified()).ok().and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age < LISTS_MAX_AGE) {
            return Ok(());
        }
        let sources = format!(
            "Types: deb\nURIs: http://deb.debian.org/debian\nSuites: {SUITES}\nComponents: main\nArchitectures: amd64\n\
             Targets: Packages\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
        );
        // Else apt would prefer an older kernel of a suite that it trusts more than backports.
        let preferences = "Package: *\nPin: release *\nPin-Priority: 500\n";
        for (name, text) in [("sources/debian.sources", sources.as_str()), ("preferences", preferences), ("status", "")]
        {
            fs::write(apt.join(name), text).map_err(unusable(&apt.join(name)))?;
        }
        (self.say)(&format!("fetching the list of Debian's kernels ({SUITES}) into {}", apt.display()));
        let mut update = self.apt("apt-get");
        update.args(["-o", "Acquire::http::Timeout=20", "-o", "APT::Update::Error-Mode=any", "-qq", "update"]);
        stdout("apt-get", &mut update)?;
        Ok(fs::write(&stamp, "").map_err(unusable(&stamp))?)
    }

    /// The package that holds the newest kernel, and the kernel's release: the last package of kernels on which the meta-package
    /// depends, through however many others.
    fn newest_package(&self) -> Result<(String, String), FetchError> {
        let mut package = META_PACKAGE.to_owned();
        let mut newest = None;
        loop {
            let depends = stdout("apt-cache", self.apt("apt-cache").args(["depends", "--important", &package]))?;
            let next =
                depends.lines().filter_map(|line| line.trim_start().strip_prefix("Depends: ")).find_map(|name| {
                    let release = name.strip_prefix("linux-image-").or_else(|| name.strip_prefix("linux-binary-"))?;
                    (name != package).then(|| (name.to_owned(), release.to_owned()))
                });
            let Some(next) = next else { break };
            package.clone_from(&next.0);
            newest = Some(next);
        }
        newest.ok_or_else(|| FetchError::Package(format!("Debian's {META_PACKAGE} depends on no kernel")))
    }

    fn fetch(&self, package: &str, release: &str, vmlinuz: &Path) -> Result<(), FetchError> {
        let folder = self.unpacked("kernel", package)?;
        let places = [format!("usr/lib/modules/{release}/vmlinuz"), format!("boot/vmlinuz-{release}")];
        let unpacked = places.iter().map(|place| folder.path().join(place)).find(|path| path.is_file());
        let unpacked = unpacked.ok_or_else(|| FetchError::Package(format!("{package} holds no kernel")))?;
        keep(&unpacked, vmlinuz)
    }

    /// A folder with what a package holds, which is fetched; `what` it is.
    fn unpacked(&self, what: &str, package: &str) -> Result<TempDir, FetchError> {
        let folder = tempfile::tempdir_in(self.folder.join("kernels")).map_err(unusable(&self.folder))?;
        let shown = stdout("apt-cache", self.apt("apt-cache").args(["show", "--no-all-versions", package]))?;
        let size = size_mib(&shown).map_or_else(|| "of unknown size".to_owned(), |mib| format!("{mib} MiB"));
        (self.say)(&format!("fetching the {what} {package}, {size}, into {}", self.folder.join("kernels").display()));
        stdout("apt-get", self.apt("apt-get").args(["-qq", "download", package]).current_dir(&folder))?;
        let mut files = fs::read_dir(&folder).map_err(unusable(folder.path()))?.flatten().map(|file| file.path());
        let archive = files.find(|path| path.extension().is_some_and(|extension| extension == "deb"));
        let archive = archive.ok_or_else(|| FetchError::Package(format!("apt-get has downloaded no {package}")))?;
        stdout("dpkg-deb", Command::new("dpkg-deb").arg("--extract").arg(archive).arg(folder.path()))?;
        Ok(folder)
    }

    /// Fetches the module `name` of a kernel of ours, and keeps it unpacked at `kept`.
    fn fetch_module(&self, release: &str, name: &str, kept: &Path) -> Result<(), FetchError> {
        let package = format!("linux-modules-{release}");
        let folder = self.unpacked("kernel's modules", &package)?;
        let found = module_below(&folder.path().join("usr/lib/modules").join(release), name);
        let found = found.ok_or_else(|| FetchError::Package(format!("{package} holds no {name}")))?;
        let plain = folder.path().join(name);
        unpack_module(&found, &plain)?;
        keep(&plain, kept)
    }

    /// Fetches the configuration of a kernel of ours, and keeps it at `kept`.
    fn fetch_config(&self, release: &str, kept: &Path) -> Result<(), FetchError> {
        let package = format!("linux-base-{release}");
        let folder = self.unpacked("kernel's configuration", &package)?;
        let config = folder.path().join("usr/lib/modules").join(release).join("config");
        if !config.is_file() {
            return Err(FetchError::Package(format!("{package} holds no configuration")));
        }
        keep(&config, kept)
    }
}

/// Where a module is below the folder of a kernel's modules.
fn module_below(modules: &Path, name: &str) -> Option<PathBuf> {
    let folder = modules.join("kernel/fs").join(format!("{name}fs"));
    ["ko", "ko.xz"].map(|ending| folder.join(format!("{name}.{ending}"))).into_iter().find(|path| path.is_file())
}

/// Unpacks a module, which a kernel may have packed by xz, into the file `plain`.
fn unpack_module(module: &Path, plain: &Path) -> Result<(), FetchError> {
    if module.extension().is_some_and(|ending| ending == "ko") {
        return fs::copy(module, plain).map(drop).map_err(|cause| unusable(plain)(cause).into());
    }
    let output = Command::new("busybox").arg("xzcat").arg(module).output();
    let output = output.map_err(|cause| FetchError::Program { name: "busybox", cause: cause.to_string() })?;
    if !output.status.success() {
        let cause = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(FetchError::Program { name: "busybox", cause });
    }
    fs::write(plain, output.stdout).map_err(|cause| unusable(plain)(cause).into())
}

/// Moves what was unpacked to where it is kept, with its checksum.
fn keep(unpacked: &Path, kept: &Path) -> Result<(), FetchError> {
    let folder = kept.parent().unwrap_or(kept);
    fs::create_dir_all(folder).map_err(unusable(folder))?;
    let sum = checksum(unpacked).map_err(unusable(unpacked))?;
    fs::rename(unpacked, kept).map_err(unusable(kept))?;
    Ok(fs::write(checksum_path(kept), sum).map_err(unusable(kept))?)
}

/// Whether others than root and the present user may change what is in a folder.
fn is_foreign(folder: &Path) -> bool {
    const STICKY: u32 = 0o1000;
    const OTHERS_WRITE: u32 = 0o002;
    fs::metadata(folder).map_or(true, |data| {
        let is_open = data.mode() & OTHERS_WRITE != 0 && data.mode() & STICKY == 0;
        is_open || ![0, geteuid().as_raw()].contains(&data.uid())
    })
}

/// Where the checksum of a kernel or module is kept.
fn checksum_path(kept: &Path) -> PathBuf {
    kept.with_extension("sha256")
}

fn checksum(file: &Path) -> io::Result<String> {
    let sum = Sha256::digest(fs::read(file)?);
    Ok(sum.iter().map(|byte| format!("{byte:02x}")).chain(["\n".into()]).collect())
}

/// Whether a kernel or module is there, and is what was fetched.
fn is_as_fetched(file: &Path) -> bool {
    let kept = fs::read_to_string(checksum_path(file));
    matches!((kept, checksum(file)), (Ok(kept), Ok(sum)) if kept == sum)
}

/// The size that `apt-cache show` tells of a package, in MiB.
fn size_mib(shown: &str) -> Option<u64> {
    let bytes: u64 = shown.lines().find_map(|line| line.strip_prefix("Size: "))?.trim().parse().ok()?;
    Some(bytes.div_ceil(1 << 20))
}

/// What a program wrote; if it failed, the first error that it names.
fn stdout(name: &'static str, command: &mut Command) -> Result<String, FetchError> {
    let failed = |cause| FetchError::Program { name, cause };
    let output = command.output().map_err(|e| failed(e.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let first = errors.lines().find_map(|line| line.strip_prefix("E: ")).or_else(|| errors.lines().next());
    Err(failed(first.map_or_else(|| output.status.to_string(), |line| line.trim().to_owned())))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_kernel_that_is_not_as_it_was_fetched_is_not_kept() {
        let caches = tempfile::tempdir().unwrap();
        let cache = Cache::within(caches.path(), &|_| {}).unwrap();
        let vmlinuz = cache.kept("7.0.1");
        fs::create_dir_all(vmlinuz.parent().unwrap()).unwrap();
        let mut image = vec![0; 0x300];
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x20e..0x210].copy_from_slice(&[0, 0]);
        image[0x200..0x202].copy_from_slice(b"7\0");
        fs::write(&vmlinuz, &image).unwrap();
        assert_eq!(cache.newest_kept(), None, "it has no checksum");
        fs::write(checksum_path(&vmlinuz), checksum(&vmlinuz).unwrap()).unwrap();
        assert_eq!(cache.newest_kept().map(|kernel| kernel.vmlinuz), Some(vmlinuz.clone()));
        image[0x2ff] = 1;
        fs::write(&vmlinuz, &image).unwrap();
        assert_eq!(cache.newest_kept(), None, "it has changed");
    }

    #[test]
    fn a_cache_that_others_can_change_is_refused_and_a_lock_that_is_a_link_is_not_followed() {
        let caches = tempfile::tempdir().unwrap();
        drop(Cache::within(caches.path(), &|_| {}).unwrap());
        let lock = caches.path().join("stayput/kernels/lock");
        fs::remove_file(&lock).unwrap();
        let victim = caches.path().join("victim");
        std::os::unix::fs::symlink(&victim, &lock).unwrap();
        assert!(matches!(Cache::within(caches.path(), &|_| {}), Err(KernelError::Cache { .. })));
        assert!(!victim.exists());
        fs::remove_file(&lock).unwrap();
        let kernels = caches.path().join("stayput/kernels");
        for (mode, refused) in [(0o777, true), (0o755, false), (0o1777, false)] {
            fs::set_permissions(&kernels, fs::Permissions::from_mode(mode)).unwrap();
            let is_refused = matches!(Cache::within(caches.path(), &|_| {}), Err(KernelError::Foreign { .. }));
            assert_eq!(is_refused, refused, "{mode:o}");
        }
        if geteuid().is_root() {
            std::os::unix::fs::chown(&kernels, Some(12345), None).unwrap();
            assert!(matches!(Cache::within(caches.path(), &|_| {}), Err(KernelError::Foreign { .. })));
        }
    }

    #[test]
    fn the_size_of_a_package_is_told_in_mib() {
        let shown = "Package: linux-image\nInstalled-Size: 999\nSize: 25000000\n";
        assert_eq!(size_mib(shown), Some(24));
        assert_eq!(size_mib("Package: linux-image\n"), None);
    }
}
