//! From flags, study file and defaults to a plan.

use super::{Guarantee, RaceArgs, StopArgs, StudyArgs};
use crate::UsageError;
use machine::{Machine, PlaceError, Policy};
use papers::{Paper, departures};
use stats::RaceRule;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use study::candidates;
use study::model_file::ModelFile;
use study::plan::{Plan, Subject, Treatment, UNBOUND};
use study::study_file::{BeyondMachine, StopTable, StudyFile, SubjectTable};
use study::{Comparison, Kind, Race, RaceStop, StopRule};

const DEFAULT_BUDGET: Duration = Duration::from_secs(600);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(600);
const DEFAULT_CUT_OFF: f64 = 1.5;

/// The plan of a study that runs programs, or models of them.
pub(super) enum CellPlan {
    Comparison(Comparison),
    Race(Race),
}

/// Makes the plan from study file, flags and defaults, in falling order: a flag beats the file.
pub(super) fn make(args: &StudyArgs, machine: &Machine) -> anyhow::Result<CellPlan> {
    let (file, tables) = asked_for(args)?;
    of(args, file, tables, machine)
}

/// Makes the plan of a study file and of what it or the command line names to be run, as tables of such a file.
pub(super) fn of(
    args: &StudyArgs,
    file: StudyFile,
    mut tables: Vec<SubjectTable>,
    machine: &Machine,
) -> anyhow::Result<CellPlan> {
    let model = args.race.subject_model.as_deref().map(ModelFile::read).transpose().map_err(UsageError::from)?;
    let mut departures = Vec::new();
    if let Some(class) = &args.class {
        departures.extend(with_class(&mut tables, class)?);
    }
    let mut subjects = tables.iter().map(subject).collect::<anyhow::Result<Vec<_>>>()?;
    subjects.extend(model.iter().map(|model| Subject { name: model.name.clone(), ..Subject::default() }));
    if subjects.is_empty() {
        return Err(UsageError::from(
            "nothing to study: name a built-in such as npb:cg.W, a study file, or a program after --",
        ));
    }
    let usable = machine.usable_cpus().len() as u32;
    let mut threads = thread_counts(either(&args.threads, &file.threads, &["all"]), usable)?;
    if file.beyond_machine == BeyondMachine::LeaveOut {
        let too_many: Vec<u32> = threads.extract_if(.., |count| *count > usable).collect();
        if threads.is_empty() {
            return Err(UsageError::from(format!(
                "this machine has {}, too few for any thread count of the study; give others with -n",
                departures::count(usable, "usable CPU")
            )));
        }
        departures.extend(departures::left_out(&too_many, usable));
    }
    let races = args.race.best || args.race.max_loss.is_some();
    let named = if races {
        either(&args.placements, &file.placements, &[])
    } else {
        either(&args.placements, &file.placements, &["unbound,compact,scatter"])
    };
    let named = placement_names(named);
    let (treatments, race_stop) = if races {
        let (treatments, stop) = race(&args.race, named, &threads, machine)?;
        (treatments, Some(stop))
    } else {
        (treatments(&named, &threads, machine)?, None)
    };
    if file.paper.is_some() {
        departures.extend(departures::placements(&threads, &treatments, machine));
    }
    let warmup_blocks = if model.is_some() { 0 } else { 1 };
    let mut plan = Plan {
        subjects,
        treatments,
        threads,
        warmup_blocks: args.stop.warmup.or(file.warmup_blocks).unwrap_or(warmup_blocks),
        timeout: args.stop.timeout.or(file.timeout).map_or(DEFAULT_TIMEOUT, |span| span.0),
        budget: Some(args.stop.budget.or(file.budget).map_or(DEFAULT_BUDGET, |span| span.0)),
        seed: args.stop.seed.or(file.seed).unwrap_or(1),
        paper: file.paper,
        departures,
    };
    plan.merge_same_placements();
    if let Some(model) = model {
        plan.budget = args.stop.budget.map(|span| span.0);
        plan.subjects[0].model = Some(model.for_plan(&plan, machine).map_err(UsageError::from)?);
    }
    Ok(match race_stop {
        Some(stop) => CellPlan::Race(checked(Race { plan, stop })?),
        None => CellPlan::Comparison(checked(Comparison { plan, stop: stop_rule(&args.stop, file.stop)? })?),
    })
}

fn checked<K: Kind>(study: K) -> anyhow::Result<K> {
    study.check().map_err(UsageError::from)?;
    Ok(study)
}

/// The treatments of a race, and how it is run.
fn race(
    args: &RaceArgs,
    named: Vec<String>,
    threads: &[u32],
    machine: &Machine,
) -> anyhow::Result<(Vec<Treatment>, RaceStop)> {
    let kept = args.max_loss.as_ref().map(|most| {
        let first = || named.iter().find(|name| *name != UNBOUND).map_or(UNBOUND, String::as_str).to_owned();
        most.placement.clone().unwrap_or_else(first)
    });
    if kept.is_some() && threads.len() > 1 {
        return Err(UsageError::from("--max-loss compares at one thread count; give one with -n"));
    }
    let mut racing = named;
    racing.extend(kept.clone());
    let treatments = candidates::treatments(args.among.unwrap_or_default(), args.ordered, &racing, threads, machine)
        .map_err(UsageError::from)?;
    let cells: usize = treatments
        .iter()
        .map(|t| if t.is_unbound() { threads.len() } else { t.placements.iter().flatten().count() })
        .sum();
    let search = match args.guarantee {
        Some(Guarantee { epsilon, delta }) => {
            RaceRule::Guarantee { epsilon, delta, max_runs: args.runs.unwrap_or(100 * cells as u32 + 1000) }
        }
        None => RaceRule::Halving { runs: args.runs.unwrap_or(2 * cells as u32 + 40) },
    };
    Ok((treatments, RaceStop { search, cut_off: args.cut_off.unwrap_or(DEFAULT_CUT_OFF), kept }))
}

/// The study file, where one is named, and what is to be run: all of it as tables of such a file.
fn asked_for(args: &StudyArgs) -> anyhow::Result<(StudyFile, Vec<SubjectTable>)> {
    let mut file = StudyFile::default();
    let mut tables = Vec::new();
    for name in &args.subjects {
        if name.ends_with(".toml") {
            if args.subjects.len() > 1 || !args.command.is_empty() {
                return Err(UsageError::from(format!("study file {name} can't be mixed with other subjects")));
            }
            file = StudyFile::read(Path::new(name), &Paper::names().collect::<Vec<_>>()).map_err(UsageError::from)?;
            tables.append(&mut file.subjects);
        } else {
            tables.push(SubjectTable { builtin: Some(name.clone()), ..SubjectTable::default() });
        }
    }
    if !args.command.is_empty() {
        tables.push(SubjectTable {
            builtin: None,
            command: Some(args.command.clone()),
            name: args.words.name.clone(),
            time_regex: args.words.time_regex.clone(),
            verified_regex: args.words.verified_regex.clone(),
        });
    }
    Ok((file, tables))
}

/// Gives every built-in program of `tables` the class `class`, and keeps one of those that are then the same. Says what it did.
fn with_class(tables: &mut Vec<SubjectTable>, class: &str) -> anyhow::Result<Option<String>> {
    let mut replaced: Vec<String> = Vec::new();
    for name in tables.iter_mut().filter_map(|table| table.builtin.as_mut()) {
        let (program, old) = name.rsplit_once('.').unwrap_or((name, class));
        if old != class && !replaced.iter().any(|other| other == old) {
            replaced.push(old.to_owned());
        }
        *name = format!("{program}.{class}");
    }
    if tables.iter().all(|table| table.builtin.is_none()) {
        return Err(UsageError::from(format!("--class {class} is for built-in programs, and there is none here")));
    }
    let (mut seen, asked) = (BTreeSet::new(), tables.len());
    tables.retain(|table| match &table.builtin {
        Some(name) if table.name.is_none() => seen.insert(name.clone()),
        _ => true,
    });
    let once = match asked - tables.len() {
        0 => String::new(),
        _ => format!("; what differs in nothing else is run once, so that {asked} subjects become {}", tables.len()),
    };
    let sentence = || format!("Class {class} takes the place of {}{once}.", departures::list(&replaced));
    Ok((!replaced.is_empty()).then(sentence))
}

fn either(flags: &[String], file: &[String], default: &[&str]) -> Vec<String> {
    match (flags, file) {
        ([], []) => default.iter().map(|&word| word.to_owned()).collect(),
        ([], file) => file.to_vec(),
        (flags, _) => flags.to_vec(),
    }
}

fn stop_rule(flags: &StopArgs, file: StopTable) -> anyhow::Result<StopRule> {
    // The kind of rule is chosen as a whole: a flag for one beats a file that asks for the other.
    let (width, relative_sd) = match (flags.width, flags.relative_sd) {
        (None, None) => (file.width, file.relative_sd),
        chosen => chosen,
    };
    let least = flags.min_runs.or(file.min_runs);
    let most = flags.max_runs.or(file.max_runs);
    if let Some((least, most)) = least.zip(most).filter(|(least, most)| least > most) {
        return Err(UsageError::from(format!("at least {least} runs and at most {most} can't both hold")));
    }
    let most = most.unwrap_or(stats::DEFAULT_MAX_BLOCKS.max(least.unwrap_or(0)));
    Ok(match relative_sd {
        Some(share) => StopRule::RelativeSd {
            relative_sd: share.0,
            min_runs: least.unwrap_or(stats::PAPERS_MIN_RUNS).min(most),
            max_runs: most,
        },
        None => StopRule::Paired {
            width: width.map_or(stats::DEFAULT_WIDTH, |share| share.0),
            min_blocks: least.unwrap_or(stats::DEFAULT_MIN_BLOCKS).min(most),
            max_blocks: most,
        },
    })
}

fn subject(table: &SubjectTable) -> anyhow::Result<Subject> {
    let mut subject = match (&table.builtin, &table.command) {
        (Some(name), _) => builtin(name)?,
        (None, Some(command)) => Subject { name: command.join(" "), argv: command.clone(), ..Subject::default() },
        (None, None) => return Err(UsageError::from("a subject needs `builtin` or `command`")),
    };
    if let Some(name) = &table.name {
        subject.name.clone_from(name);
    }
    subject.time_regex = table.time_regex.clone().or(subject.time_regex);
    subject.verified_regex = table.verified_regex.clone().or(subject.verified_regex);
    Ok(subject)
}

/// A built-in program with a class.
fn builtin(name: &str) -> anyhow::Result<Subject> {
    let builtin = workloads::resolve(name).map_err(UsageError::from)?;
    let program = crate::workloads::beside(&builtin.program);
    let build = build(&program);
    let mut argv = vec![program];
    argv.extend(builtin.args);
    Ok(Subject {
        name: name.to_owned(),
        argv,
        time_regex: Some(builtin.time_regex),
        verified_regex: Some(builtin.verified_regex),
        build,
        ..Subject::default()
    })
}

/// What a built-in program says of itself: name, version, and the compiler that it was made by. None where it can't be
/// started, which its first trial will tell.
fn build(program: &str) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let line = String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned();
    (output.status.success() && !line.is_empty()).then_some(line)
}

/// Thread counts from words such as `1`, `2-8` and `all`; each once, in the order given.
fn thread_counts(words: Vec<String>, usable: u32) -> anyhow::Result<Vec<u32>> {
    const MOST: u32 = 65_536;
    let bad = |word: &str| {
        UsageError::from(format!("`{word}` is not a thread count; write 4, 1-8 or all (here {usable}), at most {MOST}"))
    };
    let mut counts: Vec<u32> = Vec::new();
    for word in words.iter().flat_map(|word| word.split(',')).map(str::trim) {
        let number = |text: &str| match text {
            "all" => Ok(usable),
            digits => digits.parse::<u32>().ok().filter(|n| (1..=MOST).contains(n)).ok_or_else(|| bad(word)),
        };
        let (first, last) = match word.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(word)?, number(word)?),
        };
        if first > last {
            return Err(bad(word));
        }
        counts.extend((first..=last).filter(|n| !counts.contains(n)).collect::<Vec<_>>());
    }
    Ok(counts)
}

/// Splits `unbound,compact,0,8,1,9` into `unbound`, `compact` and the CPU list `0,8,1,9`.
fn placement_names(words: Vec<String>) -> Vec<String> {
    let is_list = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    let mut names: Vec<String> = Vec::new();
    for word in &words {
        let mut open_list = false;
        for part in word.split(',').map(str::trim) {
            match names.last_mut() {
                Some(list) if open_list && is_list(part) => {
                    list.push(',');
                    list.push_str(part);
                }
                _ => names.push(part.to_owned()),
            }
            open_list = is_list(part);
        }
    }
    names
}

/// Resolves every placement at every thread count; the reference comes first.
fn treatments(names: &[String], threads: &[u32], machine: &Machine) -> anyhow::Result<Vec<Treatment>> {
    let mut treatments: Vec<Treatment> = Vec::new();
    for name in names {
        if treatments.iter().any(|treatment| treatment.name == *name) {
            continue;
        }
        if name == UNBOUND {
            treatments.insert(0, Treatment::unbound());
            continue;
        }
        let policy: Policy = name.parse()?;
        let place = |&n: &u32| policy.place(machine, n as usize).map(Some);
        let placements = threads.iter().map(place).collect::<Result<Vec<_>, PlaceError>>()?;
        treatments.push(Treatment::new(name.clone(), placements));
    }
    Ok(treatments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        placement_names(vec![text.to_owned()])
    }

    #[test]
    fn a_class_replaces_those_of_built_in_programs_and_only_theirs() {
        let builtin = |name: &str| SubjectTable { builtin: Some(name.into()), ..SubjectTable::default() };
        let command = SubjectTable { command: Some(vec!["./app.A".into()]), ..SubjectTable::default() };
        let mut tables = ["npb:bt.A", "npb:cg.A", "npb:bt.C", "npb:cg.W", "npb:ep"].map(builtin).to_vec();
        tables.push(command.clone());
        assert_eq!(
            with_class(&mut tables, "W").unwrap().unwrap(),
            "Class W takes the place of A and C; what differs in nothing else is run once, so that 6 subjects become 4."
        );
        let mut expected = ["npb:bt.W", "npb:cg.W", "npb:ep.W"].map(builtin).to_vec();
        expected.push(command.clone());
        assert_eq!(tables, expected);
        assert_eq!(with_class(&mut tables, "W").unwrap(), None, "nothing is replaced");
        let error = with_class(&mut vec![command], "W").unwrap_err().to_string();
        assert_eq!(error, "--class W is for built-in programs, and there is none here");
    }

    #[test]
    fn a_cpu_list_keeps_its_commas_among_placements() {
        assert_eq!(names("unbound,compact,0,8,1,9"), ["unbound", "compact", "0,8,1,9"]);
        assert_eq!(names("0-3,scatter,4-7"), ["0-3", "scatter", "4-7"]);
        assert_eq!(placement_names(vec!["0,1".into(), "2,3".into()]), ["0,1", "2,3"]);
    }

    #[test]
    fn thread_counts_are_numbers_ranges_and_all() {
        let counts = |text: &str| thread_counts(vec![text.to_owned()], 8);
        assert_eq!(counts("1,2-4,all,3").unwrap(), [1, 2, 3, 4, 8]);
        assert_eq!(counts("2-all").unwrap(), [2, 3, 4, 5, 6, 7, 8]);
        for text in ["0", "", "4-2", "-1", "x", "1-", "99999999999"] {
            assert!(counts(text).is_err(), "{text}");
        }
    }
}
