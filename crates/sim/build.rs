//! Compiles the affinity rule, so that the simulator calls exactly what a kernel would run.

fn main() {
    for watched in ["src/rule.c", "../../policy/affinity.h"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    let compiled = cc::Build::new()
        .file("src/rule.c")
        .include("../../policy")
        .flag("-std=c11")
        .flag("-ffreestanding")
        // It is called at every simulated dispatch; an unoptimised rule would make debug builds of tests crawl.
        .opt_level(2)
        .warnings(true)
        .extra_warnings(true)
        .try_compile("stayput_rule");
    if let Err(cause) = compiled {
        println!("cargo::error=the affinity rule (policy/affinity.h) does not compile: {cause}");
    }
}
