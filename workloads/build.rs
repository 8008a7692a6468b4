//! Compiles the C programs and links each with the OpenMP runtime of the compiler that compiled it.
//!
//! `STAYPUT_WORKLOADS_CC` chooses the compiler (`gcc` brings libgomp, `clang` libomp); without it the `cc` crate's
//! choice stands (`CC`, then `cc`). `STAYPUT_WORKLOADS_MARCH` chooses the instruction set as `-march` takes it;
//! without it, `native`, and with an empty value the compiler's own portable default.
//!
//! Hybrid versions, of MPI ranks with OpenMP threads, are made once for each MPI whose `mpicc` is there. In the place of the others
//! stands a program that says what was missing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

/// An executable of this package: a `[[bin]]` of `Cargo.toml` without a main of its own.
struct Program {
    executable: &'static str,
    /// The first holds `main` and the kernel.
    sources: &'static [&'static str],
    /// Flags that were measured to help this program, used where the compiler knows them.
    tuning: &'static [&'static str],
}

impl Program {
    /// Whether it is run in virtual machines, too: qemu's emulated CPUs have no AVX-512.
    fn is_for_guests(&self) -> bool {
        self.executable.starts_with("affinity-")
    }
}

/// The instruction set of a program's second copy: what qemu knows, without multiplications and additions in one, which it is slow at.
const IN_GUESTS: [&str; 2] = ["-march=x86-64-v3", "-mno-fma"];

/// The widest vectors, which compilers shun by default.
const WIDE: &[&str] = &["-mprefer-vector-width=512"];

const PROGRAMS: [Program; 15] = [
    Program { executable: "npb-ep", sources: &["npb/ep.c"], tuning: WIDE },
    Program { executable: "npb-cg", sources: &["npb/cg.c"], tuning: &[] },
    Program { executable: "npb-ft", sources: &["npb/ft.c", "npb/diffusion.c", "npb/fft.c"], tuning: WIDE },
    Program { executable: "npb-bt", sources: &["npb/bt.c", "npb/scheme.c", "npb/flow.c"], tuning: WIDE },
    Program { executable: "npb-sp", sources: &["npb/sp.c", "npb/scheme.c", "npb/flow.c"], tuning: WIDE },
    Program { executable: "npb-lu", sources: &["npb/lu.c", "npb/surface.c", "npb/flow.c"], tuning: WIDE },
    Program { executable: "climate", sources: CLIMATE, tuning: WIDE },
    Program { executable: "mva", sources: &["jobs/mva.c"], tuning: WIDE },
    Program { executable: "matrix", sources: &["jobs/matrix.c"], tuning: WIDE },
    Program { executable: "gravity", sources: &["jobs/gravity.c", "jobs/octree.c"], tuning: WIDE },
    Program { executable: "affinity-matrix", sources: &["affinity/matrix.c"], tuning: WIDE },
    Program {
        executable: "affinity-cholesky",
        sources: &[
            "affinity/cholesky.c",
            "affinity/factor.c",
            "affinity/supernodes.c",
            "affinity/ordering.c",
            "affinity/sparse.c",
        ],
        tuning: WIDE,
    },
    Program { executable: "affinity-mp3d", sources: &["affinity/mp3d.c"], tuning: &[] },
    Program { executable: "affinity-pmake", sources: &["affinity/pmake.c", "harness/scratch.c"], tuning: &[] },
    Program { executable: "affinity-oltp", sources: &["affinity/oltp.c", "harness/scratch.c"], tuning: &[] },
];

const CLIMATE: &[&str] = &[
    "climate/climate.c",
    "climate/budget.c",
    "climate/core.c",
    "climate/filter.c",
    "climate/halo.c",
    "climate/sphere.c",
];

/// The programs that have a hybrid version, which is called `climate-openmpi` where Open MPI is what it is linked with.
const HYBRIDS: [Program; 2] = [
    Program { executable: "climate", sources: CLIMATE, tuning: WIDE },
    Program { executable: "npb-ft", sources: &["npb/ft_pencils.c", "npb/diffusion.c", "npb/fft.c"], tuning: WIDE },
];

/// An MPI that hybrid programs are linked with.
struct Mpi {
    /// What the executables' names end with.
    name: &'static str,
    title: &'static str,
    /// Its compiler where Debian has installed several; elsewhere it is called `mpicc`.
    compiler: &'static str,
    package: &'static str,
    /// A macro that its `mpi.h` alone defines.
    mark: &'static str,
}

const MPIS: [Mpi; 2] = [
    Mpi {
        name: "openmpi",
        title: "Open MPI",
        compiler: "mpicc.openmpi",
        package: "libopenmpi-dev",
        mark: "OMPI_MAJOR_VERSION",
    },
    Mpi { name: "mpich", title: "MPICH", compiler: "mpicc.mpich", package: "libmpich-dev", mark: "MPICH_VERSION" },
];

/// What programs of an MPI are compiled and linked with, as its compiler says.
struct Wrapped {
    include: Vec<PathBuf>,
    link: Vec<String>,
}

/// Where the interface to the allocator of CPUs is.
const SHARE: &str = "../crates/share/include";

/// The ranks of a program that has no others, and of a hybrid one.
const ALONE: &str = "harness/ranks_alone.c";
const RANKS: &str = "harness/ranks_mpi.c";

/// Linked into every program.
const HARNESS: [&str; 6] = [
    "harness/memory.c",
    "harness/program.c",
    "harness/progress.c",
    "harness/share.c",
    "harness/stage.c",
    "harness/team.c",
];

/// gnu17 for futexes and page sizes. Arithmetic stays IEEE: none of these lets a NaN pass a comparison.
const FLAGS: [&str; 6] = [
    "-std=gnu17",
    "-fopenmp",
    "-fPIE",
    "-ffp-contract=fast",
    "-fno-math-errno",    // sqrt is one instruction
    "-fno-trapping-math", // both sides of a choice may be computed
];

fn main() {
    for watched in ["build.rs", SHARE, "affinity", "climate", "harness", "jobs", "npb"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    for variable in ["STAYPUT_WORKLOADS_CC", "STAYPUT_WORKLOADS_MARCH"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    if let Err(sentence) = build() {
        println!("cargo::error={sentence}");
    }
}

fn build() -> Result<(), String> {
    let out_dir = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo did not set OUT_DIR; build with cargo")?);
    // A missing compiler is said once, by openmp_runtime.
    let compiler =
        base().cargo_warnings(false).try_get_compiler().map_err(|e| format!("no C compiler for the workloads: {e}"))?;
    let runtime = openmp_runtime(&compiler, &out_dir)?;

    for program in &PROGRAMS {
        let compiled = |march: March| {
            let mut build = of_march(march);
            build.files(program.sources).files(HARNESS).file(ALONE);
            for flag in program.tuning {
                build.flag_if_supported(flag);
            }
            let objects = build
                .try_compile_intermediates()
                .map_err(|e| format!("the C program {} does not compile: {e}", program.executable))?;
            Ok::<_, String>((objects, build))
        };
        let (mut objects, build) = compiled(March::Chosen)?;
        if program.is_for_guests() && defines(&compiler, "__FMA__") {
            let native = renamed(&objects, "main_native", program, &out_dir)?;
            let (others, _) = compiled(March::InGuests)?;
            let portable = renamed(&others, "main_portable", program, &out_dir)?;
            let is_wide = if defines(&compiler, "__AVX512F__") { "1" } else { "0" };
            let choice = of_march(March::Portable)
                .file("harness/variant.c")
                .define("NATIVE_IS_WIDE", is_wide)
                .try_compile_intermediates()
                .map_err(|e| format!("harness/variant.c does not compile: {e}"))?;
            objects = [vec![native, portable], choice].concat();
        }
        let link = |argument: &str| println!("cargo::rustc-link-arg-bin={}={argument}", program.executable);
        for object in &objects {
            link(&object.to_string_lossy());
        }
        runtime.iter().for_each(|argument| link(argument));
        link("-lm");

        let sources = program.sources.iter().chain(&HARNESS).chain([&ALONE]);
        write_command(program.executable, &build, sources, &[], &out_dir)?;
    }
    for mpi in &MPIS {
        let wrapped = wrapped(mpi, &compiler);
        for program in &HYBRIDS {
            let executable = format!("{}-{}", program.executable, mpi.name);
            match &wrapped {
                Some(wrapped) => link_hybrid(&executable, program, mpi, wrapped, &runtime, &out_dir)?,
                None => link_refusal(&executable, mpi, &out_dir)?,
            }
        }
        if wrapped.is_none() {
            println!(
                "cargo::warning=there is no {} ({}, of Debian's {}): climate and npb-ft are built without ranks of it",
                mpi.title, mpi.compiler, mpi.package
            );
        }
    }
    Ok(())
}

/// Writes how a program was compiled, one argument a line, for tests that compile an altered copy just as it is compiled here.
fn write_command<'s>(
    executable: &str,
    build: &cc::Build,
    sources: impl Iterator<Item = &'s &'s str>,
    link: &[String],
    out_dir: &Path,
) -> Result<(), String> {
    let compiler = build.get_compiler();
    let mut command = vec![compiler.path().to_string_lossy().into_owned()];
    command.extend(compiler.args().iter().map(|flag| flag.to_string_lossy().into_owned()));
    command.extend(sources.map(|source| (*source).to_owned()));
    command.extend(link.iter().cloned());
    command.push("-lm".into());
    fs::write(out_dir.join(format!("{executable}.command")), command.join("\n"))
        .map_err(|e| format!("cannot write to {}: {e}", out_dir.display()))
}

/// What `mpi`'s own compiler adds to a command line; none where there is no such compiler. Its mpi.h says whose it is, since `mpicc` is
/// anybody's name.
fn wrapped(mpi: &Mpi, compiler: &cc::Tool) -> Option<Wrapped> {
    if env::var_os("HOST") != env::var_os("TARGET") {
        return None;
    }
    [mpi.compiler, "mpicc"].into_iter().find_map(|name| {
        let output = Command::new(name).arg("-show").output().ok().filter(|output| output.status.success())?;
        let line = String::from_utf8_lossy(&output.stdout).into_owned();
        let words = || line.split_whitespace().skip(1);
        let include: Vec<PathBuf> = words().filter_map(|word| word.strip_prefix("-I")).map(PathBuf::from).collect();
        let links = |word: &&str| ["-L", "-l", "-Wl,-rpath"].iter().any(|option| word.starts_with(option));
        let link = words().filter(links).map(String::from).collect();
        let mut preprocessor = compiler.to_command();
        preprocessor.args(include.iter().map(|directory| format!("-I{}", directory.display())));
        preprocessor.args(["-dM", "-E", "-include", "mpi.h", "-x", "c", "/dev/null"]);
        let macros = preprocessor.output().ok().filter(|output| output.status.success())?;
        let is_its = String::from_utf8_lossy(&macros.stdout).contains(&format!("#define {} ", mpi.mark));
        is_its.then_some(Wrapped { include, link })
    })
}

/// Compiles and links the hybrid version of a program.
fn link_hybrid(
    executable: &str,
    program: &Program,
    mpi: &Mpi,
    wrapped: &Wrapped,
    runtime: &[String; 2],
    out_dir: &Path,
) -> Result<(), String> {
    // In a folder of its own: each MPI has its own object of the same source.
    let folder = out_dir.join(mpi.name);
    fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    let mut build = base();
    build.out_dir(&folder).files(program.sources).files(HARNESS).file(RANKS).includes(&wrapped.include);
    for flag in program.tuning {
        build.flag_if_supported(flag);
    }
    let objects = build
        .try_compile_intermediates()
        .map_err(|e| format!("the C program {executable} does not compile with {}: {e}", mpi.title))?;
    let objects = objects.iter().map(|object| object.to_string_lossy().into_owned());
    for argument in objects.chain(wrapped.link.iter().chain(runtime).cloned()).chain(["-lm".into()]) {
        println!("cargo::rustc-link-arg-bin={executable}={argument}");
    }
    let sources = program.sources.iter().chain(&HARNESS).chain([&RANKS]);
    write_command(executable, &build, sources, &wrapped.link, out_dir)
}

/// In its place, a program that says what was missing.
fn link_refusal(executable: &str, mpi: &Mpi, out_dir: &Path) -> Result<(), String> {
    let folder = out_dir.join(executable);
    fs::create_dir_all(&folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    let quoted = |text: &str| format!("\"{text}\"");
    let objects = base()
        .out_dir(&folder)
        .file("harness/without_mpi.c")
        .define("HYBRID_NAME", &*quoted(executable))
        .define("MPI_NAME", &*quoted(mpi.title))
        .define("MPI_PACKAGE", &*quoted(mpi.package))
        .try_compile_intermediates()
        .map_err(|e| format!("harness/without_mpi.c does not compile: {e}"))?;
    for object in &objects {
        println!("cargo::rustc-link-arg-bin={executable}={}", object.display());
    }
    fs::write(out_dir.join(format!("{executable}.command")), "")
        .map_err(|e| format!("cannot write to {}: {e}", out_dir.display()))
}

/// Whether the compiler, asked as it is for programs, makes instructions by which it defines a macro as 1.
fn defines(compiler: &cc::Tool, name: &str) -> bool {
    let mut command = compiler.to_command();
    let output = command.args(["-dM", "-E", "-x", "c", "/dev/null"]).output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(&format!("#define {name} 1")))
}

/// One object of a program's, whose `main` has another name and which shows nothing else, so that it can be linked beside another copy.
fn renamed(objects: &[PathBuf], main: &str, program: &Program, out_dir: &Path) -> Result<PathBuf, String> {
    let object = out_dir.join(format!("{}-{main}.o", program.executable));
    let run = |tool: &str, arguments: &[&std::ffi::OsStr]| {
        let status = std::process::Command::new(tool).args(arguments).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("{tool} failed on {} ({status})", program.executable)),
            Err(error) => Err(format!("{tool}, of the binutils, can't be started: {error}")),
        }
    };
    let mut linked: Vec<&std::ffi::OsStr> = vec!["-r".as_ref(), "-o".as_ref(), object.as_ref()];
    linked.extend(objects.iter().map(|object| object.as_os_str()));
    run("ld", &linked)?;
    let (from_to, keep) = (format!("--redefine-sym=main={main}"), format!("--keep-global-symbol={main}"));
    run("objcopy", &[from_to.as_ref(), keep.as_ref(), object.as_ref()])?;
    Ok(object)
}

/// An instruction set.
#[derive(Clone, Copy, PartialEq)]
enum March {
    /// As `STAYPUT_WORKLOADS_MARCH` says, or this machine's.
    Chosen,
    /// What emulated CPUs have.
    InGuests,
    /// The compiler's own default.
    Portable,
}

/// The compiler and flags that all programs share.
fn base() -> cc::Build {
    of_march(March::Chosen)
}

/// The same for an instruction set.
fn of_march(march: March) -> cc::Build {
    let mut build = cc::Build::new();
    if let Some(compiler) = env::var_os("STAYPUT_WORKLOADS_CC").filter(|name| !name.is_empty()) {
        build.compiler(compiler);
    }
    // Optimised in every profile: an unoptimised benchmark would answer another question.
    build.opt_level(3).pic(false).warnings(true).extra_warnings(true);
    build
        .includes(["harness", "npb", "climate", "jobs", "affinity", SHARE])
        .define("STAYPUT_VERSION", concat!("\"", env!("CARGO_PKG_VERSION"), "\""));
    for flag in FLAGS {
        build.flag(flag);
    }
    match march {
        March::Chosen => {}
        March::InGuests => {
            build.flags(IN_GUESTS);
            return build;
        }
        March::Portable => return build,
    }
    let cross = env::var_os("HOST") != env::var_os("TARGET");
    match env::var("STAYPUT_WORKLOADS_MARCH").ok() {
        Some(march) if march.is_empty() => {}
        Some(march) => {
            build.flag(format!("-march={march}"));
        }
        None if cross => {}
        None => {
            build.flag_if_supported("-march=native");
        }
    }
    build
}

/// Link arguments for the OpenMP runtime that the compiler itself links. rustc's linker may belong to another compiler,
/// so they name the runtime's own file, seen in the linker's trace of a small program, and record its directory.
fn openmp_runtime(compiler: &cc::Tool, out_dir: &Path) -> Result<[String; 2], String> {
    let name = compiler.path().display();
    let source = out_dir.join("openmp_check.c");
    fs::write(&source, "#include <omp.h>\nint main(void) { return omp_get_max_threads() == 0; }\n")
        .map_err(|e| format!("cannot write to {}: {e}", out_dir.display()))?;
    let mut link = compiler.to_command();
    link.arg(&source).arg("-Wl,--trace").arg("-o").arg(out_dir.join("openmp_check"));
    let output = link.output().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => format!(
            "the C compiler `{name}` was not found: install gcc, or set STAYPUT_WORKLOADS_CC to a compiler with OpenMP"
        ),
        _ => format!("the C compiler `{name}` could not be started: {e}"),
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let reason = said.lines().find(|line| line.contains("error")).unwrap_or("it gave no reason");
        return Err(format!(
            "the C compiler `{name}` cannot build OpenMP programs ({reason}): \
             install its OpenMP runtime (Debian: libomp-dev for clang) or set STAYPUT_WORKLOADS_CC=gcc"
        ));
    }
    let is_runtime = |file: &&Path| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        ["libgomp.so", "libomp.so", "libiomp5.so"].iter().any(|runtime| name.starts_with(runtime))
    };
    let trace = String::from_utf8_lossy(&output.stdout);
    let runtime = trace.lines().map(Path::new).find(is_runtime).and_then(|file| file.canonicalize().ok());
    let file = runtime.ok_or_else(|| {
        format!("the C compiler `{name}` links no libgomp, libomp or libiomp5: set STAYPUT_WORKLOADS_CC=gcc")
    })?;
    let directory = file.parent().unwrap_or(Path::new("/"));
    Ok([file.to_string_lossy().into_owned(), format!("-Wl,-rpath,{}", directory.display())])
}
