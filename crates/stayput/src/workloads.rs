//! `stayput workloads`: the built-in programs, what they stress, what each class takes and has work for, and their task graphs.

use crate::UsageError;
use std::fmt::Write;
use workloads::{Class, Program};

/// List the built-in programs: what each is, what it stresses, what its classes take
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct WorkloadsArgs {
    /// Programs to describe in full; without any, a short list of all
    #[arg(add = crate::shell::names(|| workloads::catalog().iter().map(|program| program.name.clone()).collect()))]
    names: Vec<String>,
    /// The form of the list
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Run one program with one thread, several times, and write its task graph for this class (see docs/graph-files.md)
    #[arg(long, value_name = "CLASS", conflicts_with = "format")]
    graph: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

const HELP: &str = "\
A program and a class make a subject:
  stayput study npb:cg.W
  stayput workloads npb:cg     how it is verified, where it is defined, flops, bytes and useful threads of each class

Threads are those that can all find work; more of them only wait.

The graph of a program's tasks, for stayput simulate space-sharing:
  stayput workloads mva --graph A > mine.toml";

/// Prints the list, or derives a graph.
///
/// # Errors
/// A [`UsageError`] for a name that no program has; else a failure to write, or what became of a program that was run.
pub fn run(args: &WorkloadsArgs) -> anyhow::Result<()> {
    let programs: Vec<&Program> = if args.names.is_empty() {
        workloads::catalog().iter().collect()
    } else {
        args.names.iter().map(|name| workloads::program(name).map_err(UsageError::from)).collect::<Result<_, _>>()?
    };
    if let Some(class) = &args.graph {
        let [program] = programs[..] else {
            return Err(UsageError::from(
                "--graph is of one program: name one, as in `stayput workloads mva --graph W`",
            ));
        };
        return crate::print(&workloads::graph(program, class)?);
    }
    let text = match args.format {
        Format::Json => serde_json::to_string_pretty(&programs)? + "\n",
        Format::Text if args.names.is_empty() => overview(&programs),
        Format::Text => programs.iter().map(|program| details(program)).collect::<Vec<_>>().join("\n"),
    };
    crate::print(&text)
}

/// Four lines a program.
fn overview(programs: &[&Program]) -> String {
    let widest = programs.iter().map(|program| program.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for program in programs {
        let classes: Vec<String> =
            program.classes.iter().map(|class| format!("{} {}", class.name, memory(class))).collect();
        let _ = writeln!(text, "{:widest$}  {}", program.name, program.title);
        let _ = writeln!(text, "{:widest$}  stresses {}", "", program.stresses);
        let threads: Vec<String> =
            program.classes.iter().map(|class| format!("{} {}", class.name, class.threads)).collect();
        let _ = writeln!(text, "{:widest$}  classes {}", "", classes.join(", "));
        let _ = writeln!(text, "{:widest$}  threads {}", "", threads.join(", "));
    }
    text
}

/// All that is known of a program.
fn details(program: &Program) -> String {
    let mut text = format!(
        "{}: {}\n{}\n\n  stresses    {}\n  verified    {}\n  operations  {}\n  defined     {}\n  executable  {}\n",
        program.name,
        program.title,
        program.description,
        program.stresses,
        program.verification,
        program.operations,
        program.definition,
        program.executable
    );
    if let (Some(graph), Some(class)) = (&program.graph, program.classes.first()) {
        let _ = writeln!(
            text,
            "  graph       {graph}: `stayput workloads {} --graph {}` derives it",
            program.name, class.name
        );
    }
    if let (true, Some(class)) = (program.hybrid, program.classes.first()) {
        let _ = writeln!(
            text,
            "  ranks       `stayput study -n 1x2,2x1 --mpi openmpi {}.{}` divides it into MPI ranks and threads",
            program.name, class.name
        );
    }
    let _ = writeln!(text, "\n  class    memory  threads  operations     flops     bytes  flops a byte");
    for class in &program.classes {
        let intensity = if class.bytes == 0 {
            "no bytes".to_owned()
        } else {
            format!("{:.2}", class.flops as f64 / class.bytes as f64)
        };
        let _ = writeln!(
            text,
            "  {:5} {:>9} {:>8} {:>11} {:>9} {:>9} {intensity:>13}",
            class.name,
            memory(class),
            class.threads,
            scaled(class.operations),
            scaled(class.flops),
            scaled(class.bytes)
        );
    }
    text
}

fn memory(class: &Class) -> String {
    match class.memory_mib {
        mib if mib < 10 * 1024 => format!("{mib} MiB"),
        mib => format!("{} GiB", mib.div_ceil(1024)),
    }
}

/// Three digits and a decimal prefix: `1.86 G`.
fn scaled(count: u64) -> String {
    const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let mut value = count as f64;
    let mut prefix = 0;
    while value >= 999.5 {
        value /= 1000.0;
        prefix += 1;
    }
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    if prefix == 0 { count.to_string() } else { format!("{value:.decimals$} {}", PREFIXES[prefix]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        let texts = [0, 999, 1_000, 9_994, 9_996, 99_960, 999_600, 63_400_000, u64::MAX].map(scaled);
        assert_eq!(texts, ["0", "999", "1.00 k", "9.99 k", "10.0 k", "100 k", "1.00 M", "63.4 M", "18.4 E"]);
    }

    #[test]
    fn the_overview_names_every_program_and_class() {
        let programs: Vec<&Program> = workloads::catalog().iter().collect();
        let text = overview(&programs);
        assert_eq!(text.lines().count(), 4 * programs.len());
        for program in &programs {
            assert!(text.contains(&program.name) && text.contains(&program.stresses), "{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 160), "{text}");
    }

    #[test]
    fn the_details_have_a_row_a_class() {
        for program in workloads::catalog() {
            let text = details(program);
            for class in &program.classes {
                let row =
                    text.lines().find(|line| line.trim_start().starts_with(&format!("{}  ", class.name))).unwrap();
                assert!(row.contains(&memory(class)) && row.contains(&scaled(class.flops)), "{row}");
                assert_eq!(row.split_whitespace().nth(3), Some(&*class.threads.to_string()), "{row}");
            }
            assert!(text.contains(&program.verification) && text.contains(&program.definition));
            assert_eq!(text.contains("--graph"), program.graph.is_some());
            assert_eq!(text.contains("--mpi"), program.hybrid);
        }
    }
}
