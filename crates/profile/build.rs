//! Compiles the kernel's side, makes its skeleton, and makes Rust of the header that both sides read.

use bindgen::callbacks::{DeriveInfo, ItemInfo, ItemKind, ParseCallbacks};
use libbpf_cargo::SkeletonBuilder;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// Versions of clang whose names are tried after the default one. The oldest is the first that compiles BPF for 64-bit
/// enumerators.
const CLANG_VERSIONS: std::ops::RangeInclusive<u32> = 15..=30;

fn main() {
    println!("cargo::rerun-if-changed=src/bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    if let Err(error) = build() {
        println!("cargo::error={}", error.replace('\n', " "));
        exit(1);
    }
}

fn build() -> Result<(), String> {
    let needed = || format!("profiles need clang {} or newer: run `make setup`, or set CLANG", CLANG_VERSIONS.start());
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    SkeletonBuilder::new()
        .source("src/bpf/collector.bpf.c")
        .clang(clang().ok_or_else(needed)?)
        .clang_args(["-O2", "-mcpu=v3", "-Wall"])
        .build_and_generate(out.join("collector.skel.rs"))
        .map_err(|error| format!("the collector can't be compiled: {error:#}"))?;
    interface(&out.join("intf.rs")).map_err(|error| format!("src/bpf/intf.h can't be read: {error}"))
}

fn interface(target: &Path) -> Result<(), Box<dyn std::error::Error>> {
    bindgen::Builder::default()
        .header("src/bpf/intf.h")
        .allowlist_file(".*/intf\\.h")
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .formatter(bindgen::Formatter::None)
        .parse_callbacks(Box::new(RustNames))
        .generate()?
        .write_to_file(target)?;
    Ok(())
}

/// Names structures as Rust does, and has them copied from bytes.
#[derive(Debug)]
struct RustNames;

impl ParseCallbacks for RustNames {
    /// `struct program_stats` is `ProgramStats`.
    fn item_name(&self, item: ItemInfo) -> Option<String> {
        let word = |word: &str| word[..1].to_uppercase() + &word[1..];
        let words = item.name.split('_').filter(|word| !word.is_empty());
        matches!(item.kind, ItemKind::Type).then(|| words.map(word).collect())
    }

    fn add_derives(&self, info: &DeriveInfo<'_>) -> Vec<String> {
        let is_structure = info.kind == bindgen::callbacks::TypeKind::Struct;
        let derives: &[&str] = if is_structure { &["bytemuck::Pod", "bytemuck::Zeroable"] } else { &[] };
        derives.iter().map(|&derive| derive.to_owned()).collect()
    }
}

/// The clang that CLANG names, else the default one or the oldest with its version in its name that is new enough.
fn clang() -> Option<PathBuf> {
    if let Some(named) = env::var_os("CLANG") {
        return Some(named.into());
    }
    let is_new_enough = |name: &PathBuf| {
        let output = Command::new(name).arg("-dumpversion").output().ok();
        let version = output.and_then(|output| String::from_utf8(output.stdout).ok());
        let major = version.and_then(|version| version.trim().split('.').next()?.parse::<u32>().ok());
        major.is_some_and(|major| major >= *CLANG_VERSIONS.start())
    };
    let names = CLANG_VERSIONS.map(|version| format!("clang-{version}"));
    std::iter::once("clang".to_owned()).chain(names).map(PathBuf::from).find(is_new_enough)
}
