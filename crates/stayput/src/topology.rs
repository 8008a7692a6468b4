//! `stayput topology`: the machine as a tree, for people and for programs.

use crate::place::policy_placement;
use crate::{UsageError, shell};
use machine::{Machine, Placement, Policy};
use serde::Serialize;

/// Show a machine as a tree: packages, caches, cores, CPUs, memory, and which CPUs may be used
#[derive(clap::Args)]
pub struct TopologyArgs {
    #[arg(long, value_name = "MACHINE", default_value = "host", help = machine_help(), add = shell::machines())]
    machine: String,
    /// text and svg fold more than four identical siblings; xml is hwloc's format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Show where the threads of a placement sit: a policy as in `stayput place`, or a CPU list
    #[arg(long, value_name = "POLICY", add = shell::names(shell::placements))]
    place: Option<String>,
    /// How many threads to place; without it, one for each usable CPU or for each CPU of the list
    #[arg(short = 'n', long = "threads", value_name = "N", requires = "place")]
    threads: Option<usize>,
}

/// What `--machine` takes, wherever it takes any machine.
pub(crate) fn machine_help() -> String {
    let presets = machine::preset::names().collect::<Vec<_>>().join(", ");
    format!("host, a preset ({presets}), an hwloc XML file, or an hwloc synthetic string")
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
    Xml,
    Svg,
}

/// What `--format json` prints.
#[derive(Serialize)]
struct Shown<'a> {
    machine: &'a Machine,
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<&'a Placement>,
}

/// Prints the machine.
///
/// # Errors
/// A [`UsageError`] for a machine, policy or number of threads that can't be; else a failure to write.
pub fn run(args: &TopologyArgs) -> anyhow::Result<()> {
    if args.format == Format::Xml && args.place.is_some() {
        return Err(UsageError::from("hwloc's XML has no place for a placement; use --format json, text or svg"));
    }
    let machine = Machine::named(&args.machine).map_err(UsageError::from)?;
    let policy = args.place.as_deref().map(str::parse::<Policy>).transpose().map_err(UsageError::from)?;
    let placement = policy.map(|policy| policy_placement(&policy, args.threads, &machine)).transpose()?;
    let placement = placement.as_ref();
    let text = match args.format {
        Format::Text => return crate::print(&machine.to_text(placement)),
        Format::Json => {
            terminal::printable_json(&serde_json::to_string_pretty(&Shown { machine: &machine, placement })?)
                .into_owned()
                + "\n"
        }
        Format::Xml => machine.to_xml(),
        Format::Svg => report::svg(&machine, placement),
    };
    crate::print_exactly(&text)
}
