//! The page of a profile: why it matters where a program runs.

use super::figure::{figure, histogram_figure, or_dash, scrolled, swatch, table};
use super::page::{self, Section, document, head, heading, links, reading};
use crate::chart::{CpuRow, Heights, Histogram, Hue, SharedBar, cpu_rows, shared_bars};
use crate::number;
use crate::words::{capital, count, plain};
use ::profile::profile::{EndsPercent, INTERVAL_EDGES_MS, IntervalBins};
use ::profile::trace::CpuTimeline;
use ::profile::{Potential, Profile, Program, text};
use maud::{Markup, html};
use sim::{Intervals, WorkloadFile};
use simulation::TimeBin;

/// Programs that are told one by one at most; the data has all.
const MOST_PROGRAMS: usize = 8;

/// Programs with less of all CPU time aren't in large type.
const LEAST_SHARE: f64 = 0.05;

/// CPUs that are drawn at most.
const MOST_CPUS: usize = 64;

/// CPUs that are drawn at most over time, each with hundreds of bars.
const MOST_CPUS_OVER_TIME: usize = 16;

/// A profile as one HTML file, whose data as JSON is `json`; `version` is Stayput's.
pub fn profile_page(profile: &Profile, json: &str, version: &str) -> String {
    let programs: Vec<&Program> =
        profile.programs.iter().filter(|program| program.cpu_s > 0.0).take(MOST_PROGRAMS).collect();
    let sections: Vec<Section> = [overview(profile, &programs), intervals(&programs), ends(&programs)]
        .into_iter()
        .chain(touched(&programs))
        .chain(profile.timeline.as_ref().map(|timeline| over_time(timeline, &programs)))
        .chain([places(profile, &programs), untold(profile), reading(glossary_entries())])
        .collect();
    let body = html! {
        (answer(profile, &programs, &sections))
        (page::main(&sections))
    };
    let made_by = format!(
        "{version} from what the kernel counted. It holds names of programs and threads, numbers of processes, and the command line that was profiled"
    );
    document(&format!("{}: why it matters where it runs", plain(&profile.target)), "", &body, &made_by, "profile", json)
}

/// How a program is painted.
fn hue(index: usize) -> Hue {
    Hue::Series(index + 1)
}

fn answer(profile: &Profile, programs: &[&Program], sections: &[Section]) -> Markup {
    // What has next to no CPU time has next to nothing to gain, whatever its share of that is.
    let all_s: f64 = profile.programs.iter().map(|program| program.cpu_s).sum();
    let large = programs.iter().filter(|program| program.cpu_s >= LEAST_SHARE * all_s).take(3);
    let answers = html! {
        @for program in large {
            article.answer {
                h2 { (plain(&program.name)) }
                div {
                    p.figure.words { (potential(program)) }
                    p.doubt { "to gain from affinity" }
                    @if let Some(percent) = program.potential_percent {
                        p.doubt.muted { @if program.reload_us.is_none() { "at most " } (format!("{percent:.1} %")) " of its CPU time reloads caches" }
                    }
                }
                div { p.verdict { (capital(&plain(&program.potential_reason))) "." } }
            }
        }
        @if programs.is_empty() { article.answer { h2 { (plain(&profile.target)) } p.verdict { "No thread had a CPU meanwhile." } } }
    };
    let mut notices = Vec::new();
    if profile.lost_events > 0 {
        notices.push(html! {
            (count(profile.lost_events as usize, "event")) " were not told: what they began or ended is missing in all numbers."
        });
    }
    head(html! { "Stayput profile of " (plain(&profile.target)) }, answers, &notices, links(sections))
}

fn potential(program: &Program) -> String {
    let word: &str = program.potential.into();
    let word = match program.potential {
        Potential::Unknown => "can't be told",
        Potential::None => "nothing",
        _ if program.reload_us.is_none() => return format!("At most {word}"),
        _ => word,
    };
    capital(word)
}

fn overview(profile: &Profile, programs: &[&Program]) -> Section {
    let rest = profile.programs.iter().filter(|program| program.cpu_s > 0.0).count() - programs.len();
    heading("programs", "Programs", "Programs").above(html! {
        p {
            (format!("{:.3}", profile.seconds)) " s on " (count(profile.cpus as usize, "CPU")) ", Linux " (plain(&profile.kernel)) "."
            @if rest > 0 { " " (count(rest, "other program")) " had less CPU time: the data has all." }
        }
        (scrolled("Programs", false, html! {
            table.dense {
                thead { tr {
                    th { "program" } th.n { "CPU time, s" } th.n { "threads" } th.n { "switches" } th.n { "effective slice, median ms" }
                    th.n { "wait, median ms" } th.n { "wait, 99 % ms" } th.n { "longest wait, ms" }
                } }
                tbody {
                    @for (index, program) in programs.iter().enumerate() {
                        tr {
                            th scope="row" { (swatch(hue(index), " ")) (plain(&program.name)) }
                            td.n { (format!("{:.3}", program.cpu_s)) } td.n { (program.threads) } td.n { (program.switches) }
                            td.n { (or_dash(program.effective_slice_median_ms, number::seconds)) }
                            td.n { (or_dash(program.wait_ms, |waits| number::seconds(waits.median))) }
                            td.n { (or_dash(program.wait_ms, |waits| number::seconds(waits.p99))) }
                            td.n { (or_dash(program.wait_ms, |waits| number::seconds(waits.longest))) }
                        }
                    }
                }
            }
        }))
    })
}

/// The report's bins of dispatch intervals, those shorter and those longer included.
fn bins(shares: &IntervalBins, intervals: u64) -> Vec<TimeBin> {
    let bin = |from_ms: f64, to_ms: Option<f64>, percent: f64| TimeBin {
        from_ms,
        to_ms,
        percent,
        count: percent / 100.0 * intervals as f64,
    };
    let within =
        shares.edges_ms.windows(2).zip(&shares.percent).map(|(edges, percent)| bin(edges[0], Some(edges[1]), *percent));
    let first = shares.edges_ms.first().copied().unwrap_or_default();
    let last = shares.edges_ms.last().copied().unwrap_or_default();
    std::iter::once(bin(0.0, Some(first), shares.shorter_percent))
        .chain(within)
        .chain([bin(last, None, shares.longer_percent)])
        .collect()
}

/// The report's applications with their dispatch intervals (its Table II).
fn applications() -> Vec<(String, Vec<TimeBin>)> {
    let observed = |name: &str| {
        let workload = WorkloadFile::named(name).ok()?.workload;
        let Some(Intervals::Observed { edges_ms, percent, .. }) = &workload.jobs.first()?.process.intervals else {
            return None;
        };
        let bin = |(edges, percent): (&[f64], &f64)| TimeBin {
            from_ms: edges[0],
            to_ms: Some(edges[1]),
            count: *percent,
            percent: *percent,
        };
        Some((name.to_owned(), edges_ms.windows(2).zip(percent).map(bin).collect()))
    };
    WorkloadFile::applications().filter_map(observed).collect()
}

fn intervals(programs: &[&Program]) -> Section {
    let own: Vec<(usize, &Program, Vec<TimeBin>)> = programs
        .iter()
        .enumerate()
        .filter(|(_, program)| program.histograms.dispatch_interval.count > 0)
        .map(|(index, program)| {
            let count = program.histograms.dispatch_interval.count;
            (index, *program, bins(&program.dispatch_intervals, count))
        })
        .collect();
    let rows: Vec<Histogram<'_>> = own
        .iter()
        .map(|(index, program, bins)| {
            let median = program.histograms.dispatch_interval.quantile_ms(0.5);
            Histogram {
                label: program.name.clone(),
                figure: median.map_or_else(String::new, |ms| format!("median {} ms", number::seconds(ms))),
                hue: hue(*index),
                bins,
                counted: Some("intervals"),
                median,
            }
        })
        .collect();
    let applications = applications();
    let printed: Vec<Histogram<'_>> = applications
        .iter()
        .map(|(name, bins)| Histogram {
            label: name.clone(),
            figure: String::new(),
            hue: Hue::Neutral,
            bins,
            counted: None,
            median: None,
        })
        .collect();
    let [first, .., last] = INTERVAL_EDGES_MS;
    heading("intervals", "Dispatch intervals", "How long it has a CPU at a time").above(html! {
        p {
            "Dispatch intervals, from one switch to the next, in the bins of the cache-affinity report's Table II: below " (first) " ms, its seven bins, and "
            (last) " ms or longer. Beside them are the report's five applications of 1995, whose intervals also end where the scheduler leaves the process where it is."
        }
        div.charts {
            (histogram_figure("Dispatch intervals of the programs", "How long each program has a CPU from one switch to the next.", &rows,
                Heights::Common(0.0), "no interval was seen whole", ["program", "intervals", "share, %"]))
            (histogram_figure("Those of the report's applications", "The same of the five applications of the report.", &printed,
                Heights::Common(0.0), "the report's intervals are not there", ["application", "share, %", "share, %"]))
        }
    })
}

/// What ends intervals: name, colour and share of each.
fn parts(ends: &EndsPercent) -> Vec<(String, Hue, f64)> {
    let EndsPercent { quantum, semaphore, synchronization, system_call, tlb_fault, other } = *ends;
    [
        ("quantum or preemption", quantum),
        ("semaphore", semaphore),
        ("yield", synchronization),
        ("system call", system_call),
        ("page fault", tlb_fault),
        ("other", other),
    ]
    .into_iter()
    .enumerate()
    .map(|(index, (name, percent))| (name.to_owned(), Hue::Series(index + 1), percent))
    .collect()
}

fn ends(programs: &[&Program]) -> Section {
    let bar = |program: &&Program| SharedBar {
        label: program.name.clone(),
        figure: format!("{:.0} % by itself", 100.0 - program.ends_percent.quantum),
        parts: parts(&program.ends_percent),
    };
    let bars: Vec<SharedBar> = programs.iter().filter(|program| program.switches > 0).map(bar).collect();
    let rows = programs.iter().map(|program| {
        let shares: Vec<String> =
            parts(&program.ends_percent).iter().map(|(_, _, percent)| format!("{percent:.1}")).collect();
        let mut row = [const { String::new() }; 7];
        row[0] = plain(&program.name);
        row.iter_mut().skip(1).zip(shares).for_each(|(cell, share)| *cell = share);
        row
    });
    let data = table(
        &[
            "program",
            "quantum or preemption, %",
            "semaphore, %",
            "yield, %",
            "system call, %",
            "page fault, %",
            "other, %",
        ],
        rows,
    );
    heading("ends", "What ends them", "What ends these times").above(html! {
        p.legend {
            @for (name, hue, _) in parts(&EndsPercent::default()) { span { (swatch(hue, " ")) (name) " " } }
        }
        (figure("What ended dispatch intervals", "Shares of what ended the dispatch intervals of each program.", shared_bars(&bars), "no interval ended", data))
        ul {
            @for program in programs {
                @let kinds: Vec<String> = program.system_calls.iter().filter(|(_, count)| **count > 0)
                    .map(|(kind, count)| format!("{} {count}", text::call_name(*kind))).collect();
                @if !kinds.is_empty() { li { b { (plain(&program.name)) } " waited in system calls for: " (kinds.join(", ")) } }
            }
        }
    })
}

/// How much they touched, where that was looked at.
fn touched(programs: &[&Program]) -> Option<Section> {
    let sets: Vec<_> =
        programs.iter().filter_map(|program| Some((&program.name, program.working_set.as_ref()?))).collect();
    let edges = INTERVAL_EDGES_MS;
    let within = edges.windows(2).map(|edges| format!("{} to {} ms", edges[0], edges[1]));
    let bins = std::iter::once(format!("less than {} ms", edges[0]))
        .chain(within)
        .chain([format!("{} ms and more", edges[edges.len() - 1])]);
    let bins: Vec<String> = bins.collect();
    let kib = |kib: f64| format!("{kib:.0}");
    (!sets.is_empty()).then(|| {
        heading("touched", "Touched", "How much it touches").above(html! {
            p { "Median of what a process touched while it had so much CPU time, in KiB. A page of which a byte was touched is all in it, a huge page as well." }
            (scrolled("Touched", false, html! {
                table.dense {
                    thead { tr {
                        th { "program" } @for bin in &bins { th.n { (bin) } } th.n { "huge pages" }
                    } }
                    tbody {
                        @for (name, set) in &sets {
                            tr {
                                th scope="row" { (plain(name)) }
                                @for median in &set.median_kib { td.n { (or_dash(*median, kib)) } }
                                td.n { (kib(set.huge_pages_kib)) }
                            }
                        }
                    }
                }
            }))
        })
    })
}

/// Who had which CPU when, over a second.
fn over_time(timeline: &CpuTimeline, programs: &[&Program]) -> Section {
    let hue_of = |name: &str| programs.iter().position(|program| program.name == name).map_or(Hue::Neutral, hue);
    let holder = |number: u32| {
        let name = timeline.programs.get(number as usize).map_or("", |name| name.as_str());
        (plain(name), hue_of(name))
    };
    let row = |(cpu, stretches): (&u32, &Vec<(Option<u32>, u32)>)| CpuRow {
        label: format!("CPU {cpu}"),
        stretches: stretches.iter().map(|&(program, columns)| (program.map(holder), columns)).collect(),
    };
    let rows: Vec<CpuRow> = timeline.cpus.iter().take(MOST_CPUS_OVER_TIME).map(row).collect();
    let others = timeline.programs.iter().map(String::as_str).filter(|name| hue_of(name) == Hue::Neutral);
    let others: Vec<&str> = others.collect();
    let data = rows.iter().flat_map(|row| {
        let ms = |column: u32| (f64::from(column) * timeline.column_ms).to_string();
        row.stretches.iter().scan(0, move |column, (holder, length)| {
            let from = std::mem::replace(column, *column + length);
            let name = holder.as_ref().map_or_else(|| "idle".to_owned(), |(name, _)| name.clone());
            Some([row.label.clone(), name, ms(from), ms(*column)])
        })
    });
    let data = table(&["CPU", "program", "from, ms", "to, ms"], data);
    heading("over-time", "Over time", "Who had the CPUs, over a second").above(html! {
        p {
            "From " (number::seconds(timeline.from_s)) " s on: of the seconds of the trace the one in which programs shared the CPUs most nearly as they did in all of it. "
            "Each bar is of the program that had the CPU for most of " (timeline.column_ms) " ms; nobody had it where there is none, or nothing was told."
        }
        p.legend {
            @for (index, program) in programs.iter().enumerate() { span { (swatch(hue(index), " ")) (plain(&program.name)) " " } }
            @if !others.is_empty() { span { (swatch(Hue::Neutral, " ")) (others.iter().take(MOST_PROGRAMS).map(|name| plain(name)).collect::<Vec<_>>().join(", ")) @if others.len() > MOST_PROGRAMS { " and others" } } }
        }
        @if timeline.cpus.len() > MOST_CPUS_OVER_TIME { p { "The first " (MOST_CPUS_OVER_TIME) " of " (timeline.cpus.len()) " CPUs." } }
        (figure("Who had each CPU", "Which program had each CPU, in a second that stands for all.", cpu_rows(&rows, timeline.column_ms), "nobody had a CPU", data))
    })
}

/// Where they ran, and from where to where they moved.
fn places(profile: &Profile, programs: &[&Program]) -> Section {
    let mut cpus: Vec<_> = profile.programs.iter().flat_map(|program| program.residency_s.keys().copied()).collect();
    cpus.sort_unstable();
    cpus.dedup();
    let share = |s: f64| 100.0 * s / profile.seconds.max(1e-9);
    let bar = |cpu: &machine::CpuId| {
        let on_it = |program: &Program| program.residency_s.get(cpu).copied().unwrap_or_default();
        let all: f64 = profile.programs.iter().map(on_it).sum();
        let told: f64 = programs.iter().map(|program| on_it(program)).sum();
        let parts = programs
            .iter()
            .enumerate()
            .map(|(index, program)| (program.name.clone(), hue(index), share(on_it(program))))
            .chain([("other programs".to_owned(), Hue::Neutral, share((all - told).max(0.0)))]);
        SharedBar { label: format!("CPU {}", cpu.0), figure: format!("{:.0} %", share(all)), parts: parts.collect() }
    };
    let bars: Vec<SharedBar> = cpus.iter().take(MOST_CPUS).map(bar).collect();
    let rows = programs.iter().flat_map(|program| {
        let residency = program.residency_s.iter();
        residency.map(|(cpu, s)| [plain(&program.name), cpu.0.to_string(), format!("{s:.3}")])
    });
    let data = table(&["program", "CPU", "CPU time, s"], rows);
    heading("places", "Where it ran", "Where it ran, and how often it moved").above(html! {
        p.legend {
            @for (index, program) in programs.iter().enumerate() { span { (swatch(hue(index), " ")) (plain(&program.name)) " " } }
        }
        @if cpus.len() > MOST_CPUS { p { "The first " (MOST_CPUS) " of " (cpus.len()) " CPUs." } }
        (figure("Time of each CPU, by program", "Which program of those that were profiled had each CPU for which share of the time.", shared_bars(&bars), "no thread had a CPU", data))
        (scrolled("Moves", false, html! {
            table.dense {
                thead { tr { th { "program" } th { "moves, by what both CPUs share" } th.n { "former CPU busy" } th.n { "came back to its CPU undisturbed" } } }
                tbody {
                    @for program in programs {
                        @let moves: Vec<String> = program.migrations.iter().map(|(level, count)| format!("{} {count}", text::level_name(*level))).collect();
                        @let returns = program.intervening.none + program.intervening.turns.iter().sum::<u64>();
                        tr {
                            th scope="row" { (plain(&program.name)) }
                            td { (moves.join(", ")) }
                            td.n { (or_dash(program.former_cpu_busy_percent, |percent| format!("{percent:.0} %"))) }
                            td.n { (or_dash((returns > 0).then(|| 100.0 * program.intervening.none as f64 / returns as f64), |percent| format!("{percent:.0} %"))) }
                        }
                    }
                }
            }
        }))
    })
}

fn untold(profile: &Profile) -> Section {
    heading("untold", "Not told", "What this can't tell").above(html! {
        ul { @for sentence in &profile.untold { li { (capital(&plain(sentence))) "." } } }
    })
}

fn glossary_entries() -> Markup {
    page::entries([
        ("dispatch interval", "time of a thread on a CPU from one switch to the next"),
        (
            "effective slice",
            "time of a thread on a CPU with no other thread in between; the kernel's own threads don't end one",
        ),
        ("wait", "from when a thread could run until it did: woken, or preempted"),
        ("quantum or preemption", "it could have gone on: its time was used up, or another thread took the CPU"),
        ("semaphore", "it waited on a futex or a System V semaphore"),
        ("yield", "it called sched_yield, as locks and barriers that spin do"),
        (
            "to gain from affinity",
            "by the share of CPU time in which caches are reloaded: below 0.5 % nothing, below 5 % low, below 25 % moderate, else high",
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::profile::profile::{Histograms, WorkingSet};
    use ::profile::{Histogram as Times, TimeBin as Bin};
    use machine::CpuId;
    use std::collections::BTreeMap;

    fn profile(name: &str) -> Profile {
        let program = Program {
            name: name.to_owned(),
            threads: 2,
            cpu_s: 1.5,
            switches: 100,
            potential: Potential::Moderate,
            potential_reason: "it is so".into(),
            potential_percent: Some(6.5),
            dispatch_intervals: IntervalBins {
                edges_ms: INTERVAL_EDGES_MS.to_vec(),
                percent: vec![60.0, 10.0, 0.0, 0.0, 0.0, 0.0, 0.0],
                shorter_percent: 20.0,
                longer_percent: 10.0,
            },
            ends_percent: EndsPercent { quantum: 75.0, system_call: 25.0, ..EndsPercent::default() },
            residency_s: BTreeMap::from([(CpuId(0), 1.0), (CpuId(1), 0.5)]),
            histograms: Histograms {
                dispatch_interval: Times {
                    count: 100,
                    total_ms: 200.0,
                    longest_ms: 40.0,
                    bins: vec![Bin { from_us: 2_000.0, to_us: 2_100.0, count: 100 }],
                },
                ..Histograms::default()
            },
            ..Program::default()
        };
        Profile {
            target: "make -j4".into(),
            seconds: 2.0,
            cpus: 2,
            lost_events: 3,
            programs: vec![program],
            ..Profile::default()
        }
    }

    #[test]
    fn the_page_says_what_was_found_and_what_was_lost() {
        let page = profile_page(&profile("cc1"), "{}", "1.0").replace('\u{a0}', " ");
        for what in [
            "<h2>cc1</h2>",
            "At most moderate",
            "at most 6.5 %",
            "It is so.",
            "3 events were not told",
            "cc1, 1 ms to 5 ms: 60.00 %, 60.0 intervals",
            "cc1, system call: 25.0 %",
            "CPU 1, cc1: 25.0 %",
            "CPU 0, cc1: 50.0 %",
            "Matrix",
            "Oracle",
        ] {
            assert!(page.contains(what), "{what}");
        }
        assert!(is_page(page.as_bytes()));
    }

    #[test]
    fn what_was_touched_is_told_where_it_was_looked_at() {
        let mut profile = profile("cc1");
        assert!(!profile_page(&profile, "{}", "1.0").contains("How much it touches"));
        let mut median_kib = vec![None; INTERVAL_EDGES_MS.len() + 1];
        median_kib[1] = Some(4_140.2);
        profile.programs[0].working_set =
            Some(WorkingSet { median_kib, huge_pages_kib: 2_048.0, ..WorkingSet::default() });
        let page = profile_page(&profile, "{}", "1.0");
        for what in ["How much it touches", "1 to 5 ms", ">4140<", ">2048<"] {
            assert!(page.contains(what), "{what}");
        }
    }

    #[test]
    fn of_a_trace_a_second_is_drawn_in_the_colours_of_its_programs() {
        let mut profile = profile("cc1");
        assert!(!profile_page(&profile, "{}", "1.0").contains("Over time"));
        profile.timeline = Some(CpuTimeline {
            from_s: 12.0,
            column_ms: 2.0,
            programs: vec!["kernel".into(), "cc1".into()],
            cpus: BTreeMap::from([(0, vec![(Some(1), 3), (None, 1), (Some(0), 1)]), (1, vec![(None, 5)])]),
        });
        let page = profile_page(&profile, "{}", "1.0").replace('\u{a0}', " ");
        for what in [
            "From 12.00 s on",
            "CPU 0, cc1: 0 to 6 ms",
            "CPU 0, kernel: 8 to 10 ms",
            "<td>idle</td><td>6</td><td>8</td>",
        ] {
            assert!(page.contains(what), "{what}: {page}");
        }
    }

    #[test]
    fn names_of_programs_do_nothing_to_the_page() {
        let page = profile_page(&profile("<script>alert(1)</script>"), "{\"a\":\"</script>\"}", "1.0");
        assert!(!page.contains("<script>alert(1)") && page.contains("&lt;script&gt;alert(1)"));
        assert_eq!(page.matches("</script>").count(), 2);
    }

    #[test]
    fn nothing_that_ran_is_a_page_too() {
        let empty = Profile { target: "true".into(), ..Profile::default() };
        assert!(profile_page(&empty, "{}", "1.0").contains("No thread had a CPU meanwhile."));
    }

    use crate::html::page::is_page;
}
