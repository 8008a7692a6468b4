//! The shared objects that a program brings along: those that its loader finds outside of the system's folders.

use crate::openmp::{Dynamic, part_of_libc, system_dirs};
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where libraries are the system's, and change with it.
const SYSTEM: [&str; 6] = ["/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64"];

/// The shared objects that `executable` needs, itself or through others, as ld.so(8) would find them now: in the order in which they are
/// found, each once, without those in the system's folders. What a program loads later with `dlopen` can't be seen.
pub fn own_libraries(executable: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut seen = HashSet::new();
    let mut system = None;
    let mut waiting = vec![executable.to_path_buf()];
    while let Some(path) = waiting.pop() {
        let Some(dynamic) = Dynamic::read(&path) else { continue };
        for needed in &dynamic.needed {
            if !seen.insert(needed.clone()) || part_of_libc(&needed.to_string_lossy()) {
                continue;
            }
            let Some(library) = dynamic.find(needed, system.get_or_insert_with(system_dirs)) else { continue };
            if !is_of_system(&library) {
                found.push(library.clone());
            }
            waiting.push(library);
        }
    }
    found
}

fn is_of_system(library: &Path) -> bool {
    let real = fs::canonicalize(library).unwrap_or_else(|_| library.into());
    SYSTEM.iter().any(|folder| real.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_the_system_are_not_a_programs_own() {
        assert_eq!(own_libraries(Path::new("/bin/sh")), Vec::<PathBuf>::new());
        assert_eq!(own_libraries(Path::new("/nowhere/at/all")), Vec::<PathBuf>::new());
        assert!(is_of_system(Path::new("/usr/lib/x86_64-linux-gnu/libz.so.1")));
        assert!(!is_of_system(Path::new("/home/me/project/libz.so.1")) && !is_of_system(Path::new("/libz.so.1")));
    }
}
