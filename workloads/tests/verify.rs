//! Runs the built programs: their results, their output lines, their exit codes, their refusals.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod built;

use built::{Built, built, compile, compile_altered, lines, number, refusal, run, text};
use stayput_workloads::Program;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const THREADS: [u32; 6] = [1, 2, 3, 4, 7, 16];

/// All programs whose work is their own. Those that run other people's have their tests in `processes.rs`.
fn all() -> Vec<Built> {
    vec![
        built!("npb-ep"),
        built!("npb-cg"),
        built!("npb-ft"),
        built!("npb-bt"),
        built!("npb-sp"),
        built!("npb-lu"),
        built!("climate"),
        built!("mva"),
        built!("matrix"),
        built!("gravity"),
        built!("affinity-matrix"),
        built!("affinity-cholesky"),
        built!("affinity-mp3d"),
    ]
}

/// And those that run other people's, too.
fn every() -> Vec<Built> {
    all().into_iter().chain([built!("affinity-pmake"), built!("affinity-oltp")]).collect()
}

/// What a run computed: everything but its times.
fn values(output: &Output) -> Vec<String> {
    let timed = [
        "threads",
        "threads with work",
        "seconds",
        "mops",
        "matrix made in",
        "particle-steps a second",
        "shares of a step",
        "particles moved",
        "bound",
    ];
    lines(output)
        .into_iter()
        .filter(|(name, _)| !timed.contains(name) && !name.starts_with("seconds, "))
        .map(|(name, value)| format!("{name}: {value}"))
        .collect()
}

/// Runs a class and returns what it computed.
fn assert_verified(executable: &Path, program: &Program, class: &str, threads: u32) -> Vec<String> {
    let output = run(executable, &[class], threads);
    let what = format!("{} {class} with {threads} threads", executable.display());
    assert_eq!(output.status.code(), Some(0), "{what}: {output:?}");
    assert_eq!(text(&output.stderr), "", "{what}");

    let lines = lines(&output);
    assert_eq!(lines["verification"], "successful", "{what}");
    assert_eq!(lines["class"], class, "{what}");
    assert_eq!(number(&lines, "threads"), f64::from(threads), "{what}");
    let class = program.classes.iter().find(|known| known.name == class).unwrap();
    let working = number(&lines, "threads with work") as u64;
    let useful = u64::from(threads).min(class.threads);
    // Leaves are where bodies are: in this one program there may be work for more.
    let is_right = working == useful || program.name == "gravity" && working > useful;
    assert!(is_right, "{what}: {working} had work, the catalog says that {useful} can");
    let seconds = number(&lines, "seconds");
    assert!(seconds > 0.0, "{what}: {seconds} s");
    // The catalog says how many operations that was. Both factors are printed rounded.
    let counted = number(&lines, "mops") * 1e6 * seconds;
    let stated = class.operations as f64;
    let rounding = 0.005 / number(&lines, "mops") + 0.5e-6 / seconds;
    assert!((counted / stated - 1.0).abs() < 2.0 * rounding, "{what}: counted {counted}, the catalog says {stated}");
    values(&output)
}

/// Teams that divide what there is to do, and some that don't: all of [`THREADS`] take minutes in larger classes.
const THREADS_OF_CLASS_W: [u32; 3] = [1, 2, 7];

#[test]
fn classes_s_w_and_a_verify_under_gcc_with_libgomp() {
    verify_under("gcc", "libgomp", &["W"], &THREADS_OF_CLASS_W);
    verify_under("gcc", "libgomp", &["A"], &[2]);
}

/// Class A takes minutes more, and both compilers meet it in the test below.
#[test]
fn classes_s_and_w_verify_under_clang_with_libomp() {
    verify_under("clang", "libomp", &["S"], &THREADS);
    verify_under("clang", "libomp", &["W"], &[7]);
}

#[test]
#[ignore = "takes minutes: cargo test -p stayput-workloads -- --ignored"]
fn classes_a_and_b_verify_under_both_compilers() {
    for (compiler, runtime) in [("gcc", "libgomp"), ("clang", "libomp")] {
        verify_under(compiler, runtime, &["A"], &THREADS);
        verify_under(compiler, runtime, &["B"], &[2]);
    }
}

/// Runs every program as `compiler` builds it, on the OpenMP runtime that was meant. What cargo built is taken where it runs on
/// that one: nothing else comes with a runtime of its own.
fn verify_under(compiler: &str, runtime: &str, classes: &[&str], threads: &[u32]) {
    let runs_on_it = |executable: &Path| {
        let linked = Command::new("ldd").arg(executable).output().unwrap();
        text(&linked.stdout).contains(runtime)
    };
    for built in all() {
        let mut executable = PathBuf::from(built.executable);
        if !runs_on_it(&executable) {
            let name = format!("{}-{compiler}", built.program.executable);
            executable = compile(&built, &name, |arguments| compiler.clone_into(&mut arguments[0]));
            assert!(runs_on_it(&executable), "{} doesn't run on {runtime}", executable.display());
        }
        for class in classes {
            for &threads in threads {
                assert_verified(&executable, built.program, class, threads);
            }
        }
    }
}

#[test]
fn the_catalog_knows_how_many_threads_each_class_has_work_for() {
    for built in every() {
        for class in &built.program.classes {
            let output = run(built.executable, &["--useful-threads", &class.name], 1);
            assert_eq!(text(&output.stdout), format!("{}\n", class.threads), "{} {}", built.executable, class.name);
        }
    }
}

/// More threads than this take long to start on a small machine.
const MANY_THREADS: u32 = 150;

/// Every count up to what is useful and beyond it, or some where those are too many. `assert_verified` counts who had work.
#[test]
fn all_threads_have_work_up_to_what_is_useful_and_none_beyond_it() {
    for built in all() {
        // LU shares its work out in more than one way, of which class S has not all.
        let tested: &[&str] = if built.program.name == "npb:lu" { &["S", "W"] } else { &["S"] };
        for class in built.program.classes.iter().filter(|class| tested.contains(&&*class.name)) {
            let useful = u32::try_from(class.threads).unwrap();
            let sampled = [useful / 2, useful - 1, useful, useful + 1, useful * 2];
            let all = if useful < 20 { (1..=useful + 2).collect() } else { sampled.to_vec() };
            for threads in all.into_iter().filter(|threads| *threads <= MANY_THREADS) {
                assert_verified(Path::new(built.executable), built.program, &class.name, threads);
            }
        }
    }
}

/// As it is built to be looked into by a sanitizer.
fn sanitized(built: &Built, name: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    compile(built, &format!("{}-{name}", built.program.executable), |arguments| {
        arguments[0] = compiler.to_owned();
        arguments.retain(|argument| argument != "-O3");
        arguments.extend(["-O1", "-g"].iter().chain(flags).map(|&flag| flag.to_owned()));
    })
}

/// 12 threads share the planes of BT and SP and the blocks of LU; elsewhere they do what 3 do.
fn threads_to_look_into(program: &Program) -> &'static [u32] {
    if ["npb:bt", "npb:sp", "npb:lu"].contains(&&*program.name) { &[3, 12] } else { &[3] }
}

#[test]
fn sanitizers_find_no_wrong_access() {
    for built in all() {
        let memory = sanitized(&built, "asan", "gcc", &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
        for &threads in threads_to_look_into(built.program) {
            assert_verified(&memory, built.program, "S", threads);
        }
    }
}

#[test]
fn sanitizers_find_no_race() {
    let archer = Command::new("clang").arg("-print-file-name=libarcher.so").output().unwrap();
    for built in all() {
        let races = sanitized(&built, "tsan", "clang", &["-fsanitize=thread"]);
        for &threads in threads_to_look_into(built.program) {
            // Archer tells the sanitizer what OpenMP synchronises; the runtime itself is not instrumented.
            let output = Command::new(&races)
                .arg("S")
                .env("OMP_NUM_THREADS", threads.to_string())
                .env("OMP_TOOL_LIBRARIES", text(&archer.stdout).trim())
                .env("TSAN_OPTIONS", "ignore_noninstrumented_modules=1")
                .output()
                .unwrap();
            assert!(output.status.success(), "{} with {threads} threads: {output:?}", races.display());
        }
    }
}

/// What CG sums across threads differs with their number, and with it the last bits.
#[test]
fn what_cargo_built_verifies_and_gives_the_same_bits_with_any_thread_count() {
    for built in all() {
        let mut alone = None;
        // And with more threads than FT, BT and SP have planes, or LU has blocks.
        for threads in THREADS.into_iter().chain([13, 66, 100]) {
            let first = assert_verified(Path::new(built.executable), built.program, "S", threads);
            let expected = match built.program.name.as_str() {
                "npb:cg" => values(&run(built.executable, &["S"], threads)),
                _ => alone.get_or_insert_with(|| first.clone()).clone(),
            };
            assert_eq!(first, expected, "{} with {threads} threads", built.executable);
        }
    }
}

/// Every class has twice the columns and simulates the same days, so the printed errors show the order.
#[test]
fn climate_converges_at_second_order_and_conserves_what_it_should() {
    let outputs = ["S", "W", "A"].map(|class| run(built!("climate").executable, &[class], 2));
    for norm in ["l2", "linf"] {
        let name = format!("case 2, {norm} error of the height");
        let errors: Vec<f64> = outputs
            .iter()
            .map(|output| lines(output)[&*name].split_whitespace().next().unwrap().parse().unwrap())
            .collect();
        for (finer, pair) in errors.windows(2).enumerate() {
            let order = (pair[0] / pair[1]).log2();
            println!("{name}, class {}: {:e}, order {order:.3}", ["W", "A"][finer], pair[1]);
            assert!((1.9..2.1).contains(&order), "{name}: order {order} from {pair:?}");
        }
    }
    for (class, output) in ["S", "W", "A"].iter().zip(&outputs) {
        assert_eq!(lines(output)["verification"], "successful", "class {class}");
        for case in [2, 5, 6] {
            for conserved in ["mass", "energy", "enstrophy"] {
                let is_it = |name: &&&str| name.starts_with(&format!("case {case}")) && name.contains(conserved);
                let lines = lines(output);
                let name =
                    *lines.keys().find(is_it).unwrap_or_else(|| panic!("case {case} does not print {conserved}"));
                println!("class {class}, {name}: {}", lines[name]);
            }
        }
    }
}

/// Monte Carlo: an error falls by half where particles become four times as many. One alone is a draw, so that it is the root
/// mean square over sixteen runs that is followed.
#[test]
fn mp3d_converges_at_order_one_half() {
    let output = run(built!("affinity-mp3d").executable, &["S"], 2);
    let lines = lines(&output);
    for what in ["free-molecular drag", "relaxation"] {
        let name = format!("{what}, order of convergence");
        let order: f64 = lines[&*name].split_whitespace().next().unwrap().parse().unwrap();
        println!("{name}: {order:.3}");
        assert!((0.25..0.75).contains(&order), "{name}: {order}");
        let errors: Vec<&str> = lines[&*format!("{what}, errors")].split(", ").collect();
        assert_eq!(errors.len(), 3, "{errors:?}");
    }
}

#[test]
fn ep_counts_the_annuli_that_the_reference_counts() {
    let counts = [
        ("S", "6140517 5865300 1100361 68546 1648 17 0 0 0 0"),
        ("W", "12281576 11729692 2202726 137368 3371 36 0 0 0 0"),
        ("A", "98257395 93827014 17611549 1110028 26536 245 0 0 0 0"),
    ];
    for (class, expected) in counts {
        let output = run(built!("npb-ep").executable, &[class], 2);
        assert_eq!(lines(&output)["pairs by annulus"], expected, "class {class}");
    }
}

#[test]
fn cg_makes_the_matrix_that_the_reference_makes() {
    for (class, entries) in [("S", "78148"), ("W", "508402"), ("A", "1853104")] {
        let output = run(built!("npb-cg").executable, &[class], 3);
        assert_eq!(lines(&output)["matrix entries"], entries, "class {class}");
    }
}

#[test]
fn a_wrong_constant_fails_the_verification() {
    let alterations = [
        ("npb-ep", "SEED = 271828183;", "SEED = 271828185;"),
        ("npb-ep", "t <= 1.0 ?", "t <= 0.9999 ?"),
        ("npb-cg", "SEED = 314159265;", "SEED = 314159267;"),
        ("npb-cg", "RCOND = 0.1;", "RCOND = 0.1001;"),
        ("npb-cg", "class->shift + 1.0", "class->shift + NAN"),
        ("npb-ft", "SEED = 314159265", "SEED = 314159267"),
        ("npb-ft", "ALPHA = 1.0e-6", "ALPHA = 1.000001e-6"),
        ("npb-ft", "3 * j % class->ny", "2 * j % class->ny"),
        ("npb-bt", ".convection = scale * dt / (2 * flow->h),", ".convection = scale * dt / (2.0001 * flow->h),"),
        ("npb-bt", "moved + 4.0 / 3 * viscous", "moved + 4.0 / 3.001 * viscous"),
        ("npb-bt", "+ 0.5 * square;", "+ 0.4 * square;"),
        ("npb-sp", "SQRT_HALF = 0.70710678118654752440", "SQRT_HALF = 0.7071"),
        ("npb-sp", "dt * FLOW_DISSIPATION * flow_fourth", "dt * 0.24 * flow_fourth"),
        ("npb-sp", "dt_h2 * FLOW_C1C5 * FLOW_C3C4", "dt_h2 * FLOW_C3C4"),
        ("npb-lu", "OMEGA = 1.2;", "OMEGA = 1.3;"),
        ("npb-lu", "z = {2, last};", "z = {1, last};"),
        ("npb-lu", "(4.0 / 3.0 + 1.0 + 1.0)", "(4.0 / 3.0 + 1.0)"),
        ("climate", "+ 0.5 * wind * wind;", "+ 1.0 * wind * wind;"),
        ("climate", "HAURWITZ_RATE = 7.848e-6;", "HAURWITZ_RATE = 7.0e-6;"),
        ("climate", "sin(latitude) * cos(STEADY_TILT) -", "sin(latitude) * cos(STEADY_TILT) +"),
        ("mva", "queue = 1.0 +", "queue = 0.9999999 +"),
        ("mva", "column[l] = tile_column * TILE_COLUMNS - l;", "column[l] = tile_column * TILE_COLUMNS;"),
        ("mva", "in = LANES - 1,", "in = LANES - 2,"),
        ("mva", "throughput[1] * demands->of[1][k] *", "throughput[1] * demands->of[0][k] *"),
        ("matrix", "for (int k = 0; k < BLOCK; k++) {", "for (int k = 1; k < BLOCK; k++) {"),
        ("matrix", "a[k * STRIP_ROWS + i] * row[j];", "a[k * STRIP_ROWS + i] * row[0];"),
        ("matrix", "matrices->a, row, k)", "matrices->a, k, row)"),
        ("gravity", "velocity[d] += 0.5 * step * bodies[i]", "velocity[d] += 1.0 * step * bodies[i]"),
        ("gravity", "OPENING = 0.8;", "OPENING = 1.6;"),
        ("gravity", "(1.5 - 0.5 * r2", "(1.49 - 0.5 * r2"),
        ("gravity", "ax += pull * inverse * inverse * dx;", "ax += pull * inverse * inverse * dy;"),
        ("gravity", "pow(1.0 - q * q, 3.5)", "pow(1.0 - q * q, 2.5)"),
        ("affinity-cholesky", "HEIGHT = 50", "HEIGHT = 49"),
        (
            "affinity-cholesky",
            "strip[j * LANES + i] * strip[j * LANES + k];",
            "strip[j * LANES + i] * strip[j * LANES + j];",
        ),
        ("affinity-cholesky", "(taken - updates) * PANEL,", "0 * PANEL,"),
        ("affinity-cholesky", "begin < source->width; begin += PANEL", "begin < 8; begin += PANEL"),
        ("affinity-cholesky", "x[s][j] *= inverse[j];", "x[s][j] *= inverse[0];"),
        ("affinity-mp3d", "0.5 * n * (n - 1.0) *", "0.5 * n * n *"),
        ("affinity-mp3d", "centre - 0.5 * relative", "centre - 0.49 * relative"),
        ("affinity-mp3d", "side * sqrt(-log(uniform(state)))", "2.0 * side * sqrt(-log(uniform(state)))"),
        ("affinity-mp3d", "inward * SPEED_RATIO : 0.0;", "0.9 * inward * SPEED_RATIO : 0.0;"),
        ("affinity-mp3d", "p->velocity[normal] = inward *", "p->velocity[normal] = -inward *"),
        (
            "affinity-matrix",
            "for (size_t k = 0; k < matrices->blocks; k++)",
            "for (size_t k = 1; k < matrices->blocks; k++)",
        ),
        ("affinity-matrix", "b + column * STRIP_ELEMENTS, BLOCK,", "b + column * STRIP_ELEMENTS, BLOCK - 1,"),
        ("affinity-matrix", "matrices->b, k, column),\n", "matrices->b, column, k),\n"),
        ("affinity-matrix", "row = threads + atomic", "row = threads + 1 + atomic"),
    ];
    for built in all() {
        let altered = alterations.iter().enumerate().filter(|(_, (name, ..))| *name == built.program.executable);
        assert!(altered.clone().count() >= 2, "{} is altered in two places at least", built.program.executable);
        for (position, (name, from, to)) in altered {
            let executable = compile_altered(&built, &format!("{name}-altered-{position}"), from, to);
            let output = run(executable, &["S"], 2);
            let verdict = (lines(&output)["verification"], output.status.code());
            assert_eq!(verdict, ("failed", Some(1)), "{name} with `{to}`");
        }
    }
}

/// What a run makes is checked all the same.
#[test]
fn without_other_problems_a_programs_own_result_is_checked() {
    let own = |executable: &Path, what: &str| {
        Command::new(executable).arg("S").env("OMP_NUM_THREADS", "3").env("STAYPUT_CHECKS", what).output().unwrap()
    };
    for (built, of_others, from, to) in [
        (
            built!("affinity-matrix"),
            "",
            "for (size_t k = 0; k < matrices->blocks; k++)",
            "for (size_t k = 1; k < matrices->blocks; k++)",
        ),
        (built!("affinity-cholesky"), "arrow, residual", "x[s][j] *= inverse[j];", "x[s][j] *= inverse[0];"),
        (built!("affinity-mp3d"), "relaxation, errors", "centre - 0.5 * relative", "centre - 0.49 * relative"),
    ] {
        let output = own(Path::new(built.executable), "own");
        let said = lines(&output);
        assert_eq!((said["verification"], said["checks"]), ("successful", "of its own result alone"), "{output:?}");
        assert!(!said.contains_key(of_others), "{said:?}");
        let all = own(Path::new(built.executable), "all");
        let said = lines(&all);
        assert!(!said.contains_key("checks") && (of_others.is_empty() || said.contains_key(of_others)), "{said:?}");
        let wrong = compile_altered(&built, &format!("{}-own", built.program.executable), from, to);
        let output = own(&wrong, "own");
        assert_eq!((lines(&output)["verification"], output.status.code()), ("failed", Some(1)), "{output:?}");
        let refused = own(Path::new(built.executable), "none");
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains("STAYPUT_CHECKS is `none`; it may be `all`, or `own`"), "{refused:?}");
    }
}

#[test]
fn a_wrong_command_line_is_refused_in_one_sentence() {
    for built in every() {
        let name = &built.program.executable;
        for class in ["Z", "s", "SW", ""] {
            let said = refusal(&run(built.executable, &[class], 1), 2);
            assert_eq!(said, format!("{name}: there is no class `{class}`; choose S, W, A, B, C or D"));
        }
        for arguments in [&[][..], &["S", "W"]] {
            let said = refusal(&run(built.executable, arguments, 1), 2);
            assert_eq!(said, format!("{name}: give one argument, the class: S, W, A, B, C or D"));
        }
    }
}

#[test]
fn a_class_beyond_the_memory_is_refused_before_it_starts() {
    let cg = built!("npb-cg");
    for class in cg.program.classes.iter().filter(|class| class.memory_mib > 100) {
        let output = Command::new("sh")
            .args(["-c", r#"ulimit -v 65536; exec "$0" "$1""#, cg.executable, &class.name])
            .env("OMP_NUM_THREADS", "1")
            .output()
            .unwrap();
        let said = refusal(&output, 1);
        let expected = format!(
            "npb-cg: class {} needs {} MiB of memory but RLIMIT_AS (ulimit -v) leaves ",
            class.name, class.memory_mib
        );
        assert!(said.starts_with(&expected), "{said}");
    }
}

#[test]
fn help_names_the_classes() {
    for built in every() {
        let output = run(built.executable, &["--help"], 1);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains("S, W, A, B, C or D"));
        assert!(text(&output.stdout).starts_with(&format!("{}: {}", built.program.executable, built.program.title)));
    }
}
