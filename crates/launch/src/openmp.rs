//! OpenMP runtimes: which one a program links, and the variables by which that one binds its threads.
//!
//! A runtime binds its threads itself, and only the variables of the runtime that the program links may be set: with
//! libgomp and libomp in one process, libgomp narrows the main thread's mask at start, and libomp then takes that one
//! CPU for the whole machine and puts every thread there.

use machine::CpuSet;
use object::Endianness;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64};
use object::read::elf::ElfFile;
use object::read::{Object, ObjectSection, ReadCache};
use std::collections::{BTreeSet, HashSet};
use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Every variable by which a user's environment may bind the threads of an OpenMP program.
pub(crate) const BINDING_VARIABLES: [&str; 5] =
    ["GOMP_CPU_AFFINITY", "KMP_AFFINITY", "KMP_HW_SUBSET", "OMP_PLACES", "OMP_PROC_BIND"];

/// An OpenMP runtime whose way of binding we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Runtime {
    /// GCC's libgomp.
    Gnu,
    /// LLVM's libomp, also as Intel's libiomp5.
    Llvm,
}

impl Runtime {
    /// The runtime's library, as messages call it.
    pub(crate) fn library(self) -> &'static str {
        match self {
            Self::Gnu => "libgomp",
            Self::Llvm => "libomp",
        }
    }

    fn from_library(soname: &str) -> Option<Self> {
        let stem = soname.split(".so").next()?;
        match stem {
            "libgomp" => Some(Self::Gnu),
            "libomp" | "libomp5" | "libiomp5" => Some(Self::Llvm),
            _ => None,
        }
    }

    /// The variables that put thread `i` on `slots[i]`.
    ///
    /// `slots` must hold an entry for each thread: beyond its last place libgomp doesn't start again at the first but
    /// deals the threads out in blocks.
    pub(crate) fn variables(self, slots: &[CpuSet]) -> Vec<(&'static str, String)> {
        let single: Option<Vec<String>> = slots.iter().map(|slot| slot.only().map(|cpu| cpu.to_string())).collect();
        let braced = || -> Vec<String> {
            slots
                .iter()
                .map(|slot| {
                    let cpus: Vec<String> = slot.iter().map(|cpu| cpu.to_string()).collect();
                    format!("{{{}}}", cpus.join(","))
                })
                .collect()
        };
        match (self, single) {
            (Self::Gnu, Some(cpus)) => vec![("GOMP_CPU_AFFINITY", cpus.join(" "))],
            (Self::Gnu, None) => vec![("OMP_PLACES", braced().join(",")), ("OMP_PROC_BIND", "close".into())],
            (Self::Llvm, single) => vec![(
                "KMP_AFFINITY",
                format!("explicit,granularity=fine,proclist=[{}]", single.unwrap_or_else(braced).join(",")),
            )],
        }
    }
}

/// The OpenMP runtimes that `executable` links, itself or through its libraries, dynamically or statically.
///
/// Follows `DT_NEEDED` as ld.so(8) does: `DT_RPATH`/`DT_RUNPATH` with `$ORIGIN`, `LD_LIBRARY_PATH`, the directories of
/// `/etc/ld.so.conf`, the system's own. A file that is no 64-bit ELF, such as a script, links nothing; neither can a
/// runtime be seen that the program loads later with `dlopen`.
pub(crate) fn linked_runtimes(executable: &Path) -> BTreeSet<Runtime> {
    let mut linked = BTreeSet::new();
    let mut seen = HashSet::new();
    let mut system = None;
    let mut waiting = vec![executable.to_path_buf()];
    while let Some(path) = waiting.pop() {
        let Some(dynamic) = Dynamic::read(&path) else {
            continue;
        };
        for needed in &dynamic.needed {
            let name = needed.to_string_lossy();
            if !seen.insert(needed.clone()) || part_of_libc(&name) {
                continue;
            }
            match Runtime::from_library(&name) {
                // A runtime may itself need libraries, but never another runtime.
                Some(runtime) => drop(linked.insert(runtime)),
                None => waiting.extend(dynamic.find(needed, system.get_or_insert_with(system_dirs))),
            }
        }
    }
    if linked.is_empty() {
        linked.extend(statically_linked(executable));
    }
    linked
}

/// Libraries that nearly every program needs and that are known to need no OpenMP runtime.
pub(crate) fn part_of_libc(soname: &str) -> bool {
    ["libc", "libm", "libpthread", "libdl", "librt", "libgcc_s", "libstdc++"]
        .iter()
        .any(|stem| soname.strip_prefix(stem).is_some_and(|rest| rest.starts_with(".so")))
        || soname.starts_with("ld-linux")
}

/// The part of an ELF file's dynamic section that says which libraries it needs and where to look.
pub(crate) struct Dynamic {
    /// The libraries, by their names.
    pub(crate) needed: Vec<OsString>,
    dirs: Vec<PathBuf>,
    /// `DT_RPATH` comes before `LD_LIBRARY_PATH`, `DT_RUNPATH` after it.
    dirs_first: bool,
}

impl Dynamic {
    /// That of the file at `path`; none of what is no 64-bit ELF file, or links nothing.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let elf = ElfFile::<FileHeader64<Endianness>, _>::parse(&cache).ok()?;
        let table = elf.elf_dynamic_table().ok()?;
        let strings = |tag| {
            let table = &table;
            table
                .iter()
                .filter(move |entry| entry.tag == tag)
                .filter_map(|entry| Some(OsString::from_vec(table.string(entry).ok()?.to_vec())))
        };
        let origin = path.parent().unwrap_or(Path::new("/"));
        let expand = |list: OsString| -> Vec<PathBuf> {
            env::split_paths(&list).map(|dir| expand_origin(&dir, origin)).collect()
        };
        let run: Vec<PathBuf> = strings(DT_RUNPATH).flat_map(expand).collect();
        let dirs_first = run.is_empty();
        Some(Self {
            needed: strings(DT_NEEDED).collect(),
            dirs: if dirs_first { strings(DT_RPATH).flat_map(expand).collect() } else { run },
            dirs_first,
        })
    }

    /// Where the loader finds `library`.
    pub(crate) fn find(&self, library: &OsString, system: &[PathBuf]) -> Option<PathBuf> {
        if library.as_bytes().contains(&b'/') {
            return Some(library.into());
        }
        let preset: Vec<PathBuf> =
            env::var_os("LD_LIBRARY_PATH").map(|list| env::split_paths(&list).collect()).unwrap_or_default();
        let (first, second) = if self.dirs_first { (&self.dirs, &preset) } else { (&preset, &self.dirs) };
        first.iter().chain(second).chain(system).map(|dir| dir.join(library)).find(|path| path.is_file())
    }
}

fn expand_origin(dir: &Path, origin: &Path) -> PathBuf {
    let Some(dir) = dir.to_str() else {
        return dir.into();
    };
    let origin = origin.to_string_lossy();
    dir.replace("$ORIGIN", &origin).replace("${ORIGIN}", &origin).into()
}

/// Where ld.so looks when nothing else says: what `/etc/ld.so.conf` and the files that it includes name, then its own.
pub(crate) fn system_dirs() -> Vec<PathBuf> {
    let mut files = vec![PathBuf::from("/etc/ld.so.conf")];
    if let Ok(included) = fs::read_dir("/etc/ld.so.conf.d") {
        files.extend(included.flatten().map(|entry| entry.path()));
    }
    let configured = files.into_iter().filter_map(|file| fs::read_to_string(file).ok()).flat_map(|text| {
        text.lines()
            .map(|line| line.split('#').next().unwrap_or_default().trim().to_owned())
            .filter(|line| line.starts_with('/'))
            .collect::<Vec<_>>()
    });
    configured.chain(["/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(String::from)).map(PathBuf::from).collect()
}

/// The runtime whose entry points are among the executable's own symbols; none once they are stripped.
fn statically_linked(executable: &Path) -> Option<Runtime> {
    let cache = ReadCache::new(File::open(executable).ok()?);
    let elf = ElfFile::<FileHeader64<Endianness>, _>::parse(&cache).ok()?;
    let names = elf.section_by_name(".strtab")?.data().ok()?;
    let names = |symbol: &str| memchr::memmem::find(names, symbol.as_bytes()).is_some();
    // libomp comes first: for GCC's sake it answers to libgomp's names too.
    if names("\0__kmpc_fork_call\0") {
        Some(Runtime::Llvm)
    } else if names("\0GOMP_parallel\0") {
        Some(Runtime::Gnu)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Placement;
    use machine::cpu::parse_cpu_list;

    fn slots(lists: &[&str]) -> Vec<CpuSet> {
        lists.iter().map(|list| list.parse().unwrap()).collect()
    }

    #[test]
    fn variables_keep_the_order_of_the_threads() {
        let slots = Placement::from_cpus("list", parse_cpu_list("0,8,1,9").unwrap()).slots;
        assert_eq!(Runtime::Gnu.variables(&slots), [("GOMP_CPU_AFFINITY", "0 8 1 9".to_owned())]);
        assert_eq!(
            Runtime::Llvm.variables(&slots),
            [("KMP_AFFINITY", "explicit,granularity=fine,proclist=[0,8,1,9]".to_owned())]
        );
    }

    #[test]
    fn slots_of_several_cpus_become_places() {
        let slots = slots(&["0-1", "8"]);
        assert_eq!(
            Runtime::Gnu.variables(&slots),
            [("OMP_PLACES", "{0,1},{8}".to_owned()), ("OMP_PROC_BIND", "close".to_owned())]
        );
        assert_eq!(
            Runtime::Llvm.variables(&slots),
            [("KMP_AFFINITY", "explicit,granularity=fine,proclist=[{0,1},{8}]".to_owned())]
        );
    }

    #[test]
    fn libraries_are_told_apart_by_name() {
        for (soname, runtime) in [
            ("libgomp.so.1", Some(Runtime::Gnu)),
            ("libomp.so.5", Some(Runtime::Llvm)),
            ("libomp5.so", Some(Runtime::Llvm)),
            ("libiomp5.so", Some(Runtime::Llvm)),
            ("libgomp-plugin-nvptx.so.1", None),
            ("libompd.so", None),
            ("libcurl.so.4", None),
        ] {
            assert_eq!(Runtime::from_library(soname), runtime, "{soname}");
        }
        assert!(part_of_libc("libc.so.6") && !part_of_libc("libcurl.so.4"));
    }

    #[test]
    fn what_is_no_program_links_nothing() {
        for path in ["/dev/null", "/etc/passwd", "/nowhere/at/all"] {
            assert_eq!(linked_runtimes(Path::new(path)), BTreeSet::new(), "{path}");
        }
    }
}
