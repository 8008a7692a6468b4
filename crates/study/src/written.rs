//! The numbers of metrics that a run writes, to its output or to a file.

use crate::metric::Metric;
use crate::plan::Subject;
use regex::{Regex, RegexBuilder};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The kernel's clock of files may lag behind by so much: a tick.
const CLOCK_STEP: Duration = Duration::from_millis(20);

/// The most that is read of a file, in bytes.
const MOST_BYTES: u64 = 16 << 20;

/// Where the numbers of a subject's runs are looked for.
#[derive(Debug, Default)]
pub(crate) struct Written(Vec<Sought>);

/// Where the number of one metric is looked for.
#[derive(Debug)]
struct Sought {
    metric: Metric,
    /// The expression, compiled; none where it is in JSON.
    regex: Option<Regex>,
    /// Whether runs are compared by it.
    is_primary: bool,
}

impl Written {
    /// Those of `subject`.
    ///
    /// # Errors
    /// When a regular expression isn't one.
    pub(crate) fn of(subject: &Subject) -> Result<Self, regex::Error> {
        let sought = |(position, metric): (usize, &Metric)| {
            // Output has lines, and `^` and `$` are looked for in each, as who comes from grep or awk expects.
            let by_lines = |pattern| RegexBuilder::new(pattern).multi_line(true).build();
            let regex = metric.regex.as_deref().map(by_lines).transpose()?;
            Ok(Sought { metric: metric.clone(), regex, is_primary: position == 0 })
        };
        let written = subject.all_metrics().enumerate().filter(|(_, metric)| metric.is_written());
        written.map(sought).collect::<Result<_, _>>().map(Self)
    }

    /// The numbers by the names of their metrics, where a run that started at `started_unix_s` printed `texts`, and has files named by
    /// what `named` makes of their names.
    ///
    /// # Errors
    /// Which number is missing, or can't be compared, and why.
    pub(crate) fn numbers(
        &self,
        texts: &[&str],
        started_unix_s: f64,
        named: impl Fn(&str) -> String,
    ) -> Result<BTreeMap<String, f64>, String> {
        let number = |sought: &Sought| {
            let name = &sought.metric.name;
            let number = match &sought.metric.file {
                None => sought.number(texts).map_err(|what| format!("`{name}` is not in its output: {what}")),
                Some(file) => {
                    let file = named(file);
                    let text = text_since(&file, started_unix_s).map_err(|what| format!("`{name}`: {what}"))?;
                    sought.number(&[&text]).map_err(|what| format!("`{name}` is not in {file}: {what}"))
                }
            }?;
            match number {
                _ if !number.is_finite() || number < 0.0 => {
                    Err(format!("`{name}` is {number}, which can't be compared"))
                }
                0.0 if sought.is_primary => Err(format!("`{name}` is 0, and nothing can be compared with that")),
                _ => Ok((name.clone(), number)),
            }
        };
        let is_kept = |(sought, number): &(&Sought, Result<_, String>)| number.is_ok() || !sought.metric.is_optional;
        self.0.iter().map(|sought| (sought, number(sought))).filter(is_kept).map(|(_, number)| number).collect()
    }
}

impl Sought {
    /// The number in the first of `texts` that has it.
    fn number(&self, texts: &[&str]) -> Result<f64, String> {
        let Some(regex) = &self.regex else {
            let pointer = self.metric.json.as_deref().unwrap_or_default();
            let mut documents = texts.iter().filter_map(|text| document(text)).peekable();
            if documents.peek().is_none() {
                return Err("there is no JSON".into());
            }
            let value = documents.find_map(|document| document.pointer(pointer).cloned());
            return match value {
                None => Err(format!("its JSON has no {pointer}")),
                Some(Value::String(text)) => parsed(&text),
                Some(value) => value.as_f64().ok_or_else(|| format!("{pointer} is no number")),
            };
        };
        let captures = texts.iter().find_map(|text| regex.captures(text));
        let captures = captures.ok_or_else(|| format!("nothing matches `{regex}`"))?;
        parsed(captures.get(1).ok_or("its group is empty")?.as_str())
    }
}

fn parsed(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| format!("`{}` is no number", machine::quoted(text.trim())))
}

/// The first JSON object or list in `text`, which other lines may come before or after.
fn document(text: &str) -> Option<Value> {
    let at_start_of_line = |at: &usize| *at == 0 || text.as_bytes()[at - 1] == b'\n';
    let starts = text.match_indices(['{', '[']).map(|(at, _)| at).filter(at_start_of_line);
    let read = |at| serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>().next()?.ok();
    // What looks like JSON and isn't, may do so in every line.
    starts.take(1000).find_map(read)
}

/// What `file` holds that was written since then.
fn text_since(file: &str, unix_s: f64) -> Result<String, String> {
    let fails = |error: std::io::Error| format!("{file} can't be read: {error}");
    let data = std::fs::metadata(file).map_err(fails)?;
    if !data.is_file() {
        return Err(format!("{file} is no file"));
    }
    let since = UNIX_EPOCH + Duration::try_from_secs_f64(unix_s).unwrap_or_default();
    let written = data.modified().unwrap_or_else(|_| SystemTime::now());
    if written + CLOCK_STEP < since {
        return Err(format!("{file} is older than this run, which did not write it"));
    }
    let mut text = Vec::new();
    let opened = std::fs::File::open(file).map_err(fails)?;
    opened.take(MOST_BYTES).read_to_end(&mut text).map_err(fails)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(metrics: &[&str]) -> Written {
        let mut metrics = metrics.iter().map(|text| text.parse().unwrap());
        let subject = Subject { metric: metrics.next().unwrap(), metrics: metrics.collect(), ..Subject::default() };
        Written::of(&subject).unwrap()
    }

    fn numbers(metrics: &[&str], texts: &[&str]) -> Result<Vec<(String, f64)>, String> {
        Ok(written(metrics).numbers(texts, 0.0, str::to_owned)?.into_iter().collect())
    }

    #[test]
    fn numbers_are_found_on_either_stream_and_in_json_among_other_lines() {
        let tps = r#"tps higher = "tps = ([0-9.]+)""#;
        let p95 = "p95 [ms] lower = json:/latency/0/p95";
        let out = "start\n[not json\n{\"latency\": [{\"p95\": \"1.5\"}]}\nend\n";
        let found = numbers(&[tps, p95], &[out, "tps = 12.5 (x)\ntps = 9"]).unwrap();
        assert_eq!(found, [("p95".to_owned(), 1.5), ("tps".to_owned(), 12.5)]);
        let rate = numbers(&["rate higher = ^rate (.*)$"], &["no rate 1\nrate 2\nrate 3\n"]).unwrap();
        assert_eq!(rate, [("rate".to_owned(), 2.0)], "of a line");
    }

    #[test]
    fn what_is_missing_or_cannot_be_compared_is_told() {
        let told = |metrics: &[&str], text: &str| numbers(metrics, &[text]).unwrap_err();
        let tps = "tps higher = tps: (.*)";
        let json = "p lower = json:/p";
        assert_eq!(told(&[tps], "none"), "`tps` is not in its output: nothing matches `tps: (.*)`");
        assert_eq!(told(&[tps], "tps: many"), "`tps` is not in its output: `many` is no number");
        assert_eq!(told(&[tps], "tps: -1"), "`tps` is -1, which can't be compared");
        assert_eq!(told(&[tps], "tps: inf"), "`tps` is inf, which can't be compared");
        assert_eq!(told(&[tps], "tps: 0"), "`tps` is 0, and nothing can be compared with that");
        assert_eq!(told(&[json], "p: 1"), "`p` is not in its output: there is no JSON");
        assert_eq!(told(&[json], "{\"q\": 1}"), "`p` is not in its output: its JSON has no /p");
        assert_eq!(told(&[json], "{\"p\": {}}"), "`p` is not in its output: /p is no number");
        let zero = numbers(&[tps, json], &["tps: 1\n{\"p\": 0}"]).unwrap();
        assert_eq!(zero, [("p".to_owned(), 0.0), ("tps".to_owned(), 1.0)], "counts besides may be 0");
    }

    #[test]
    fn a_file_counts_if_this_run_wrote_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rate.json");
        let metric = format!("rate higher = file:{}:json:/rate", file.display());
        let written = written(&[&metric]);
        let numbers = |since| written.numbers(&[], since, str::to_owned);
        assert!(numbers(0.0).unwrap_err().contains("can't be read"));
        std::fs::write(&file, "{\"rate\": 7}").unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        assert_eq!(numbers(now - 1.0).unwrap()["rate"], 7.0);
        assert!(numbers(now + 1.0).unwrap_err().contains("older than this run"));
    }
}
