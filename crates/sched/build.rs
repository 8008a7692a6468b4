//! Compiles the BPF side, and makes its skeleton.

use libbpf_cargo::SkeletonBuilder;
use std::env;
use std::path::PathBuf;
use std::process::{Command, exit};

/// The oldest clang whose BPF programs have 64-bit enumerators, which the kernel's are.
const OLDEST_CLANG: u32 = 15;
/// The newest that is looked for by a name with its version.
const NEWEST_CLANG: u32 = 30;

fn main() {
    let Some(clang) = clang() else {
        println!("cargo::error=the BPF scheduler needs clang {OLDEST_CLANG} or newer: run `make setup`, or set CLANG");
        exit(1);
    };
    let target = env::var("OUT_DIR").map(PathBuf::from).unwrap_or_default().join("scheduler.skel.rs");
    let built = SkeletonBuilder::new()
        .source("src/bpf/scheduler.bpf.c")
        .clang(clang)
        .clang_args(["-O2", "-mcpu=v3", "-DBPF_NO_KFUNC_PROTOTYPES", "-Wall", "-Wno-unused-function"])
        .build_and_generate(&target);
    if let Err(error) = built {
        println!("cargo::error=the BPF scheduler can't be compiled: {}", format!("{error:#}").replace('\n', " "));
        exit(1);
    }
    // For the tests, which hold the keys against the rule.
    cc::Build::new().file("src/bpf/key.c").compile("stayput_key");
    println!("cargo::rerun-if-changed=src/bpf");
    println!("cargo::rerun-if-changed=../../policy/affinity.h");
    println!("cargo::rerun-if-env-changed=CLANG");
}

/// A clang that is new enough: the one that CLANG names, the default one, or the oldest with its version in its name.
fn clang() -> Option<PathBuf> {
    if let Some(named) = env::var_os("CLANG") {
        return Some(named.into());
    }
    let versioned = (OLDEST_CLANG..=NEWEST_CLANG).map(|version| format!("clang-{version}"));
    std::iter::once("clang".to_owned()).chain(versioned).map(PathBuf::from).find(|name| {
        let output = Command::new(name).arg("-dumpversion").output().ok();
        let version = output.and_then(|output| String::from_utf8(output.stdout).ok());
        let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
        major.is_some_and(|major| major >= OLDEST_CLANG)
    })
}
