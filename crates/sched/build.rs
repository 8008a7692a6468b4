//! Compiles the BPF side, makes its skeleton, and makes Rust of the header that both sides read.

use bindgen::callbacks::{
    AttributeInfo, DeriveInfo, EnumVariantCustomBehavior, EnumVariantValue, ItemInfo, ItemKind, ParseCallbacks,
    TypeKind,
};
use libbpf_cargo::SkeletonBuilder;
use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};

/// The oldest clang whose BPF programs have 64-bit enumerators, which the kernel's are.
const OLDEST_CLANG: u32 = 15;
/// The newest that is looked for by a name with its version.
const NEWEST_CLANG: u32 = 30;

fn main() {
    println!("cargo::rerun-if-changed=src/bpf");
    println!("cargo::rerun-if-changed=../../policy/affinity.h");
    println!("cargo::rerun-if-env-changed=CLANG");
    if let Err(error) = build() {
        println!("cargo::error={}", error.replace('\n', " "));
        exit(1);
    }
    // For the tests, which run parts of the BPF side on the host.
    cc::Build::new().file("src/bpf/host.c").flag("-Wno-unused").flag("-Wno-unused-parameter").compile("stayput_host");
}

fn build() -> Result<(), String> {
    let needed = || format!("the BPF scheduler needs clang {OLDEST_CLANG} or newer: run `make setup`, or set CLANG");
    let out = env::var("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    SkeletonBuilder::new()
        .source("src/bpf/scheduler.bpf.c")
        .clang(clang().ok_or_else(needed)?)
        .clang_args(["-O2", "-mcpu=v3", "-DBPF_NO_KFUNC_PROTOTYPES", "-Wall", "-Wno-unused-function"])
        .build_and_generate(out.join("scheduler.skel.rs"))
        .map_err(|error| format!("the BPF scheduler can't be compiled: {error:#}"))?;
    interface(&out.join("intf.rs")).map_err(|error| format!("src/bpf/intf.h can't be read: {error}"))
}

/// Makes Rust of the header that both sides read.
fn interface(target: &Path) -> Result<(), Box<dyn Error>> {
    bindgen::Builder::default()
        .header("src/bpf/intf.h")
        .allowlist_file(".*/intf\\.h")
        .rustified_enum(".*")
        .derive_default(true)
        .formatter(bindgen::Formatter::None)
        .parse_callbacks(Box::new(RustNames))
        .generate()?
        .write_to_file(target)?;
    Ok(())
}

/// Names types and enumerators as Rust does, and has structures copied from and to bytes, and enumerators listed and named.
#[derive(Debug)]
struct RustNames;

impl ParseCallbacks for RustNames {
    fn item_name(&self, item: ItemInfo) -> Option<String> {
        matches!(item.kind, ItemKind::Type).then(|| camel_case(item.name))
    }

    /// `COUNTER_MOVES_LOST` of `enum counter` is `Counter::MovesLost`.
    fn enum_variant_name(&self, enumeration: Option<&str>, name: &str, _: EnumVariantValue) -> Option<String> {
        let prefix = enumeration?.trim_start_matches("enum ").to_uppercase() + "_";
        Some(camel_case(name.strip_prefix(&prefix)?))
    }

    /// The last enumerator, such as `COUNTERS`, is how many there are.
    fn enum_variant_behavior(
        &self,
        enumeration: Option<&str>,
        name: &str,
        _: EnumVariantValue,
    ) -> Option<EnumVariantCustomBehavior> {
        let last = enumeration?.trim_start_matches("enum ").to_uppercase() + "S";
        (name == last).then_some(EnumVariantCustomBehavior::Hide)
    }

    fn add_derives(&self, info: &DeriveInfo<'_>) -> Vec<String> {
        let is_copied = matches!(info.name, "Times" | "CpuStats");
        let derives: &[&str] = if is_copied { &["PartialEq", "bytemuck::Pod", "bytemuck::Zeroable"] } else { &[] };
        derives.iter().map(|&derive| derive.to_owned()).collect()
    }

    /// A derive as an attribute, since attributes come before other derives, and this one's before it would be an error.
    fn add_attributes(&self, info: &AttributeInfo<'_>) -> Vec<String> {
        let derive = "#[derive(strum::EnumCount, strum::IntoStaticStr, strum::VariantArray)]";
        let attributes = [derive, "#[strum(serialize_all = \"snake_case\")]"];
        attributes.iter().filter(|_| info.kind == TypeKind::Enum).map(|&attribute| attribute.to_owned()).collect()
    }
}

/// `idle_dispatches`, in whatever case, as `IdleDispatches`.
fn camel_case(name: &str) -> String {
    let word = |word: &str| word[..1].to_uppercase() + &word[1..].to_lowercase();
    name.split('_').filter(|part| !part.is_empty()).map(word).collect()
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
