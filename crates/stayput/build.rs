//! Link options that keep the command's own start short: `stayput run` is started once for each launch.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // At a fixed address the loader has no thousands of relocations to write, and no pages to copy for them.
        println!("cargo:rustc-link-arg-bins=-no-pie");
        println!("cargo:rustc-link-arg-bins=-static-libgcc");
    }
}
