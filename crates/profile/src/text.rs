//! A profile as text for a terminal of 80 columns.

use crate::profile::{CallKind, INTERVAL_EDGES_MS, Profile, Program, Source, Waker};
use machine::Level;
use std::fmt::{self, Write};

/// Programs in each table at most.
const MOST_ROWS: usize = 10;

/// Width of the column of names.
const NAME: usize = 16;

/// What programs did, in tables; then what affinity can gain.
pub fn terminal(profile: &Profile) -> String {
    let mut text = String::new();
    // Writing to a string can't fail.
    let _ = write(profile, &mut text);
    text
}

/// Programs that had a CPU, those with the most time first, as far as tables have room.
fn shown(profile: &Profile) -> impl Iterator<Item = &Program> {
    profile.programs.iter().filter(|program| program.cpu_s > 0.0).take(MOST_ROWS)
}

fn write(profile: &Profile, text: &mut String) -> fmt::Result {
    let how = match profile.source {
        Source::Bpf => "counted in the kernel",
        Source::Records => "from the kernel's records of its switches",
    };
    writeln!(text, "{}", profile.target)?;
    let lost = match profile.lost_events {
        0 => "nothing lost".into(),
        1 => "1 event was not told, and what it began or ended is not counted".into(),
        lost => format!("{lost} events were not told, and what they began or ended is not counted"),
    };
    let (seconds, cpus, kernel) = (profile.seconds, profile.cpus, &profile.kernel);
    write_wrapped("", &format!("{seconds:.3} s on {cpus} CPUs, Linux {kernel}; {how}, {lost}"), text)?;
    if let Some(trace) = &profile.trace {
        let lost = match trace.lost_events {
            0 => "none lost".into(),
            lost => format!("{lost} lost, which the tables have all the same; the trace says where"),
        };
        write_wrapped("", &format!("Trace: {} events, {lost}", trace.events), text)?;
    }
    if profile.programs.iter().all(|program| program.cpu_s == 0.0) {
        return writeln!(text, "\nNo thread had a CPU meanwhile.");
    }
    write_overview(profile, text)?;
    write_intervals(profile, text)?;
    write_ends(profile, text)?;
    write_wakers(profile, text)?;
    write_moves(profile, text)?;
    write_touched(profile, text)?;
    write_potentials(profile, text)?;
    writeln!(text, "\nNot told")?;
    profile.untold.iter().try_for_each(|untold| write_wrapped("- ", untold, text))
}

fn write_overview(profile: &Profile, text: &mut String) -> fmt::Result {
    writeln!(text, "\n{:NAME$} {:>9} {:>7} {:>9} {:>9}  {:>24}", "", "CPU", "", "", "slice ms,", "wait ms")?;
    writeln!(
        text,
        "{:NAME$} {:>9} {:>7} {:>9} {:>9}  {:>7} {:>7} {:>8}",
        "program", "s", "threads", "switches", "median", "median", "99 %", "longest"
    )?;
    for program in shown(profile) {
        let slice = program.effective_slice_median_ms.map_or("-".into(), ms);
        let waits = program
            .wait_ms
            .map_or(["-".into(), "-".into(), "-".into()], |waits| [waits.median, waits.p99, waits.longest].map(ms));
        writeln!(
            text,
            "{:NAME$} {:>9.3} {:>7} {:>9} {:>9}  {:>7} {:>7} {:>8}",
            name(program),
            program.cpu_s,
            program.threads,
            program.switches,
            slice,
            waits[0],
            waits[1],
            waits[2]
        )?;
    }
    let rest: Vec<&Program> = profile.programs.iter().filter(|program| program.cpu_s > 0.0).skip(MOST_ROWS).collect();
    if !rest.is_empty() {
        let cpu_s: f64 = rest.iter().map(|program| program.cpu_s).sum();
        writeln!(text, "{} others had {cpu_s:.3} s of CPU time; --json lists them", rest.len())?;
    }
    if let Some(us) = profile.wake_us() {
        writeln!(text, "Whom a thread woke had a CPU that idled after {us:.1} us (median).")?;
    }
    Ok(())
}

fn write_intervals(profile: &Profile, text: &mut String) -> fmt::Result {
    writeln!(text, "\nDispatch intervals, in percent")?;
    write_edges(text)?;
    for program in shown(profile).filter(|program| program.histograms.dispatch_interval.count > 0) {
        let bins = &program.dispatch_intervals;
        write!(text, "{:NAME$}", name(program))?;
        let percents = std::iter::once(&bins.shorter_percent).chain(&bins.percent).chain([&bins.longer_percent]);
        percents.into_iter().try_for_each(|percent| write!(text, " {percent:>6.1}"))?;
        writeln!(text)?;
    }
    Ok(())
}

/// The heads of columns, one for each bin of times.
fn write_edges(text: &mut String) -> fmt::Result {
    let edges = INTERVAL_EDGES_MS;
    write!(text, "{:NAME$} {:>6}", "ms", format!("<{}", edges[0]))?;
    edges.windows(2).try_for_each(|edges| write!(text, " {:>6}", format!("{}-{}", edges[0], edges[1])))?;
    writeln!(text, " {:>6}", format!(">={}", edges[edges.len() - 1]))
}

/// What was touched, where it was looked at.
fn write_touched(profile: &Profile, text: &mut String) -> fmt::Result {
    let sets = || shown(profile).filter_map(|program| Some((program, program.working_set.as_ref()?)));
    if sets().next().is_none() {
        return Ok(());
    }
    writeln!(text, "\nTouched while a process had so much CPU time, median in KiB of whole pages")?;
    write_edges(text)?;
    let kib = |median: &Option<f64>| match median {
        None => "-".into(),
        Some(kib) if *kib < 999_999.5 => format!("{kib:.0}"),
        Some(kib) => format!("{:.0}M", kib / 1024.0),
    };
    for (program, set) in sets() {
        write!(text, "{:NAME$}", name(program))?;
        set.median_kib.iter().try_for_each(|median| write!(text, " {:>6}", kib(median)))?;
        writeln!(text)?;
    }
    for (program, set) in sets().filter(|(_, set)| set.huge_pages_kib > 0.0) {
        let words = format!(
            "{}: up to {:.0} KiB of a process's memory were in huge pages, of which one byte that is touched counts as the whole page",
            name(program),
            set.huge_pages_kib
        );
        write_wrapped("", &words, text)?;
    }
    Ok(())
}

fn write_ends(profile: &Profile, text: &mut String) -> fmt::Result {
    writeln!(text, "\nWhat ended them, in percent")?;
    let is_complete = profile.source == Source::Bpf;
    match is_complete {
        true => writeln!(
            text,
            "{:NAME$} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "", "quantum", "semaphore", "yield", "sys. call", "p. fault", "other"
        )?,
        false => writeln!(text, "{:NAME$} {:>9} {:>9}", "", "quantum", "blocked")?,
    }
    for program in shown(profile).filter(|program| program.histograms.dispatch_interval.count > 0) {
        let ends = program.ends_percent;
        write!(text, "{:NAME$}", name(program))?;
        let all = [ends.quantum, ends.semaphore, ends.synchronization, ends.system_call, ends.tlb_fault, ends.other];
        let told = if is_complete { &all[..] } else { &[ends.quantum, ends.other][..] };
        told.iter().try_for_each(|percent| write!(text, " {percent:>9.1}"))?;
        writeln!(text)?;
    }
    for program in shown(profile).filter(|program| program.ends_percent.system_call > 0.0) {
        let kinds = program.system_calls.iter().filter(|(_, count)| **count > 0);
        let kinds: Vec<String> = kinds.map(|(kind, count)| format!("{} {count}", call_name(*kind))).collect();
        write_wrapped("", &format!("{} waited for: {}", name(program), kinds.join(", ")), text)?;
    }
    Ok(())
}

fn write_wakers(profile: &Profile, text: &mut String) -> fmt::Result {
    const MOST_WAKERS: usize = 4;
    fn wakers(program: &Program) -> &[Waker] {
        program.wakers.as_deref().unwrap_or_default()
    }
    if !shown(profile).any(|program| !wakers(program).is_empty()) {
        return Ok(());
    }
    writeln!(text, "\nWoken by")?;
    for program in shown(profile).filter(|program| !wakers(program).is_empty()) {
        let (named, rest) = wakers(program).split_at(wakers(program).len().min(MOST_WAKERS));
        let own = |waker: &Waker| match &waker.program {
            name if *name == program.name => "itself".to_owned(),
            name => name.clone(),
        };
        let mut counts: Vec<String> = named.iter().map(|waker| format!("{} {}", own(waker), waker.count)).collect();
        if !rest.is_empty() {
            counts.push(format!("{} more {}", rest.len(), rest.iter().map(|waker| waker.count).sum::<u64>()));
        }
        write_wrapped("", &format!("{}: {}", name(program), counts.join(", ")), text)?;
    }
    Ok(())
}

fn write_moves(profile: &Profile, text: &mut String) -> fmt::Result {
    let moved = |program: &&Program| program.migrations.values().any(|&count| count > 0);
    if !shown(profile).any(|program| moved(&program)) {
        return writeln!(text, "\nNo thread moved from one CPU to another.");
    }
    writeln!(text, "\nMoves between CPUs, by what both share")?;
    for program in shown(profile).filter(moved) {
        let counts = program.migrations.iter().filter(|(_, count)| **count > 0);
        let counts: Vec<String> = counts.map(|(level, count)| format!("{} {count}", level_name(*level))).collect();
        let busy = program
            .former_cpu_busy_percent
            .map_or(String::new(), |percent| format!("; another thread had the former CPU in {percent:.0} % of them"));
        write_wrapped("", &format!("{}: {}{busy}", name(program), counts.join(", ")), text)?;
    }
    Ok(())
}

fn write_potentials(profile: &Profile, text: &mut String) -> fmt::Result {
    writeln!(text, "\nWhat affinity can gain")?;
    for program in shown(profile) {
        let word: &str = program.potential.into();
        let bound = match (program.potential_percent, program.reload_us) {
            (Some(_), None) if word != "none" => "at most ",
            _ => "",
        };
        write_wrapped("", &format!("{}: {bound}{word}: {}", name(program), program.potential_reason), text)?;
    }
    Ok(())
}

/// Writes `words` in lines of 80 columns at most, the first after `mark`.
fn write_wrapped(mark: &str, words: &str, text: &mut String) -> fmt::Result {
    const WIDTH: usize = 80;
    let mut line = mark.to_owned();
    for word in words.split_whitespace() {
        if line.chars().count() + word.chars().count() + 1 > WIDTH && line.trim() != mark.trim() {
            writeln!(text, "{}", line.trim_end())?;
            line = "  ".into();
        }
        line.push_str(word);
        line.push(' ');
    }
    writeln!(text, "{}", line.trim_end())
}

/// Its name in a column's width.
fn name(program: &Program) -> String {
    program.name.chars().take(NAME).collect()
}

/// A time in ms with three digits that tell.
fn ms(ms: f64) -> String {
    match ms {
        ms if ms < 0.0995 => format!("{ms:.3}"),
        ms if ms < 9.95 => format!("{ms:.2}"),
        ms if ms < 99.5 => format!("{ms:.1}"),
        ms => format!("{ms:.0}"),
    }
}

/// What a system call waited for, in words.
pub fn call_name(kind: CallKind) -> &'static str {
    match kind {
        CallKind::Poll => "several descriptors",
        CallKind::Process => "a child",
        CallKind::Timer => "a time",
        kind => kind.into(),
    }
}

/// What two CPUs share, in a word.
pub fn level_name(level: Level) -> &'static str {
    match level {
        Level::Pu => "CPU",
        Level::Core => "core",
        Level::L2 => "L2",
        Level::L3 => "L3",
        Level::Node => "node",
        Level::Package => "package",
        Level::Group => "group",
        Level::Machine => "machine",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_longer_than_80_columns() {
        let program = Program {
            name: "a-name-of-15-by".into(),
            threads: 1_000_000,
            cpu_s: 12_345.678,
            switches: 123_456_789,
            potential_reason: "words ".repeat(40),
            ..Program::default()
        };
        let profile = Profile {
            target: "app".into(),
            kernel: "6.18.44-cloud-amd64".into(),
            cpus: 4_096,
            seconds: 12_345.678,
            programs: vec![program],
            trace: None,
            untold: vec!["words ".repeat(40)],
            ..Profile::default()
        };
        let text = terminal(&profile);
        let longest = text.lines().max_by_key(|line| line.len()).unwrap();
        assert!(longest.len() <= 80, "{longest}");
    }
}
