//! A mix as it is written: `[at=2s place=0] npb:cg.A*2 + ./app input.dat`.

use crate::bounds::MOST_JOBS;
use crate::mix::OwnTreatment;
use crate::plan::{PlanError, UNBOUND};
use crate::study_file::Span;
use launch::{HugePages, Scheduling};
use machine::Policy;
use std::time::Duration;

/// What stands between two jobs.
const AND: &str = "+";

/// How a mix is written, for whoever wrote something else.
const HOW: &str = "write it as in 'npb:cg.A*2 + [at=2s place=0] ./app input.dat'";

/// What a job may have for itself, before its command.
const OPTIONS: &str =
    "repeat, at=TIME, name=NAME, threads=N, place=PLACE, memory=POLICY, huge-pages=never, sched=batch";

/// A job as it is written, or several of the same.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JobText {
    /// A built-in program, or a command with its arguments.
    pub(crate) words: Vec<String>,
    /// How many there are.
    pub(crate) count: usize,
    /// What it is called; none is what it runs.
    pub(crate) name: Option<String>,
    /// When it starts, after the mix begins.
    pub(crate) start: Duration,
    pub(crate) repeat: bool,
    pub(crate) threads: Option<u32>,
    pub(crate) own: OwnTreatment,
}

/// The jobs that `text` lists.
///
/// # Errors
/// The first thing that is wrong, in a sentence.
pub(crate) fn jobs(text: &str) -> Result<Vec<JobText>, PlanError> {
    let quoted = machine::quoted(text);
    let wrong = |what: String| PlanError(format!("mix `{quoted}`: {what}"));
    let words = shell_words::split(text).map_err(|_| wrong(format!("a quote isn't closed; {HOW}")))?;
    let jobs: Vec<JobText> = words.split(|word| word == AND).map(job).collect::<Result<_, _>>().map_err(wrong)?;
    let count: usize = jobs.iter().map(|job| job.count).sum();
    match count {
        1 => Err(wrong(format!("a mix has two jobs or more; {HOW}"))),
        count if count > MOST_JOBS => Err(wrong(format!("{count} jobs are too many; {MOST_JOBS} are the most"))),
        _ => Ok(jobs),
    }
}

fn job(words: &[String]) -> Result<JobText, String> {
    let mut job = JobText { count: 1, ..JobText::default() };
    let mut rest = words;
    if words.first().is_some_and(|word| word.starts_with('[')) {
        let end = words.iter().position(|word| word.ends_with(']'));
        let end = end.ok_or_else(|| format!("`{}` has no `]`; {HOW}", machine::quoted(&words[0])))?;
        let (options, command) = words.split_at(end + 1);
        let last = options.len() - 1;
        for (position, option) in options.iter().enumerate() {
            let option = if position == 0 { &option[1..] } else { option };
            let option = if position == last { &option[..option.len() - 1] } else { option };
            if !option.is_empty() {
                job.take(option)?;
            }
        }
        rest = command;
    }
    let Some((program, arguments)) = rest.split_first().filter(|(program, _)| !program.is_empty()) else {
        return Err(format!("a job names no program; {HOW}"));
    };
    let (program, count) = match program.rsplit_once('*') {
        Some((program, digits)) if !program.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            let count = digits.parse().ok().filter(|count| (1..=MOST_JOBS).contains(count));
            let count = count.ok_or_else(|| {
                format!("`{}` is no number of jobs; it is 1 to {MOST_JOBS}, as in npb:cg.A*2", machine::quoted(digits))
            })?;
            (program, count)
        }
        _ => (program.as_str(), 1),
    };
    job.count = count;
    job.words = std::iter::once(program.to_owned()).chain(arguments.iter().cloned()).collect();
    Ok(job)
}

impl JobText {
    /// Takes an option such as `at=2s`.
    fn take(&mut self, option: &str) -> Result<(), String> {
        let quoted = machine::quoted(option);
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let is_new = |was_given: bool| match was_given {
            true => Err(format!("`{key}` is given twice; give it once")),
            false => Ok(()),
        };
        if key == "repeat" && value.is_empty() && !option.contains('=') {
            is_new(self.repeat)?;
            self.repeat = true;
            return Ok(());
        }
        if !["at", "name", "threads", "place", "memory", "huge-pages", "sched"].contains(&key) {
            return Err(format!("`{quoted}` is no option of a job; these are {OPTIONS}"));
        }
        if value.is_empty() {
            return Err(format!("`{quoted}` has no value; {HOW}"));
        }
        let own = &mut self.own;
        match key {
            "at" => {
                is_new(!self.start.is_zero())?;
                // Unlike other durations it may be 0.
                let is_zero = value.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse() == Ok(0.0);
                self.start = if is_zero { Duration::ZERO } else { value.parse::<Span>()?.0 };
            }
            "name" => {
                is_new(self.name.is_some())?;
                self.name = Some(value.to_owned());
            }
            "threads" => {
                is_new(self.threads.is_some())?;
                let count = value.parse().ok().filter(|count| (1..=machine::MAX_THREADS as u32).contains(count));
                let most = machine::MAX_THREADS;
                self.threads = Some(count.ok_or_else(|| format!("`{quoted}`: a job has 1 to {most} threads"))?);
            }
            "place" => {
                is_new(own.place.is_some())?;
                if value != UNBOUND {
                    value.parse::<Policy>().map_err(|wrong| format!("place: {wrong}"))?;
                }
                own.place = Some(value.to_owned());
            }
            "memory" => {
                is_new(own.memory.is_some())?;
                own.memory = Some(value.parse().map_err(|wrong: String| format!("memory: {wrong}"))?);
            }
            "huge-pages" => {
                is_new(own.huge_pages.is_some())?;
                let huge_pages = value.parse().map_err(|wrong: String| format!("huge-pages: {wrong}"))?;
                if huge_pages == HugePages::Always {
                    let instead = "give --huge-pages always for the whole mix";
                    return Err(format!("`{quoted}` is the whole machine's, and no job's alone; {instead}"));
                }
                own.huge_pages = Some(huge_pages);
            }
            _ => {
                is_new(own.scheduling.is_some())?;
                let scheduling: Scheduling = value.parse().map_err(|wrong: String| format!("sched: {wrong}"))?;
                if !scheduling.is_inherited() {
                    let instead = format!("give it to the whole mix by --sched {value}");
                    return Err(format!("`{quoted}` is not for one job alone; {instead}"));
                }
                own.scheduling = Some(scheduling);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_have_counts_arguments_and_options_of_their_own() {
        let jobs =
            jobs("npb:cg.A*2 + [at=2s repeat name=noise] ./app 'two words' x*3 + [place=0,1 sched=batch] y").unwrap();
        assert_eq!((jobs[0].words.as_slice(), jobs[0].count), (&["npb:cg.A".to_owned()][..], 2));
        assert_eq!((jobs[1].words.join("|"), jobs[1].count), ("./app|two words|x*3".to_owned(), 1));
        assert_eq!(
            (jobs[1].start, jobs[1].repeat, jobs[1].name.as_deref()),
            (Duration::from_secs(2), true, Some("noise"))
        );
        assert_eq!(jobs[2].own.place.as_deref(), Some("0,1"));
        assert_eq!(jobs[2].own.scheduling, Some(Scheduling::Batch));
        assert_eq!(jobs[2].words, ["y"]);
    }

    #[test]
    fn what_is_wrong_is_named_with_what_to_write() {
        let told = |text: &str| jobs(text).unwrap_err().0;
        for (text, part) in [
            ("./app", "two jobs or more"),
            ("", "a job names no program"),
            ("./app + ", "a job names no program"),
            ("+ ./app", "a job names no program"),
            ("a + [at=2s]", "a job names no program"),
            ("a + [at=2s b", "has no `]`"),
            ("a + [soon] b", "`soon` is no option of a job; these are repeat, at=TIME"),
            ("a + [repeat=yes] b", "`repeat=yes` is no option"),
            ("a + [at=soon] b", "`soon` is not a duration"),
            ("a + [at=] b", "`at=` has no value"),
            ("a + [threads=0] b", "a job has 1 to"),
            ("a + [place=nowhere] b", "place: "),
            ("a + [place=0 place=1] b", "`place` is given twice"),
            ("a + [memory=far] b", "memory: `far`"),
            ("a + [huge-pages=always] b", "--huge-pages always for the whole mix"),
            ("a + [sched=light] b", "--sched light"),
            ("a + [sched=attached] b", "--sched attached"),
            ("a*0 + b", "`0` is no number of jobs"),
            ("a*101", "`101` is no number of jobs"),
            ("a*60 + b*60", "120 jobs are too many"),
            ("a + 'b", "a quote isn't closed"),
        ] {
            assert!(told(text).contains(part), "{text}: {}", told(text));
        }
    }
}
