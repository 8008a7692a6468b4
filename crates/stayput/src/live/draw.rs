//! The screen as a function of what there is to see and what the user has chosen.

use super::tree;
use super::ui::{Ui, moves};
use machine::Machine;
use profile::profile::{INTERVAL_EDGES_MS, ThreadRow};
use profile::{Look, Potential, Program};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// Below this nothing of use can be shown, in columns and lines.
const LEAST: (u16, u16) = (30, 6);

/// Lines from which there is room for the panel below the table.
const PANEL_FROM: u16 = 18;

/// Width of the column of names.
const NAME: usize = 16;

/// Where it is drawn, and what doesn't change.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// The machine of the tree.
    pub machine: &'a Machine,
    /// Why nothing more is counted, if so.
    pub ending: Option<&'a str>,
    /// Whether there are colours.
    pub has_colour: bool,
}

/// A column: its two lines of heading are one here, its width, and what it says of a row.
struct Column<R> {
    title: &'static str,
    width: usize,
    cell: fn(&R, f64) -> String,
}

/// Columns of programs, those that a narrow screen keeps first.
const PROGRAM_COLUMNS: [Column<Program>; 8] = [
    Column { title: "CPU %", width: 6, cell: |program, seconds| percent(program.cpu_s, seconds) },
    Column { title: "gain <=", width: 9, cell: |program, _| gain(program).into() },
    Column { title: "switch/s", width: 9, cell: |program, seconds| rate(program.switches, seconds) },
    Column { title: "slice ms", width: 9, cell: |program, _| ms(program.effective_slice_median_ms) },
    Column { title: "wait ms", width: 8, cell: |program, _| ms(program.wait_ms.map(|waits| waits.median)) },
    Column { title: "99% ms", width: 7, cell: |program, _| ms(program.wait_ms.map(|waits| waits.p99)) },
    Column { title: "moves/s", width: 8, cell: |program, seconds| rate(moves(program), seconds) },
    Column { title: "threads", width: 8, cell: |program, _| program.threads.to_string() },
];

const THREAD_COLUMNS: [Column<ThreadRow>; 6] = [
    Column { title: "CPU %", width: 7, cell: |thread, seconds| percent(thread.cpu_s, seconds) },
    Column { title: "thread", width: 9, cell: |thread, _| thread.tid.to_string() },
    Column { title: "switch/s", width: 9, cell: |thread, seconds| rate(thread.switches, seconds) },
    Column { title: "wait %", width: 8, cell: |thread, seconds| percent(thread.wait_s, seconds) },
    Column { title: "moves/s", width: 8, cell: |thread, seconds| rate(thread.migrations, seconds) },
    Column {
        title: "quantum %",
        width: 10,
        cell: |thread, _| if thread.switches == 0 { "-".into() } else { format!("{:.0}", thread.quantum_percent) },
    },
];

const HELP: [&str; 15] = [
    "up down j k     choose a row (also PgUp, PgDn, Home, End)",
    "Enter           the program's threads; Esc goes back",
    "s S  > <        sort by the next column, the former one",
    "space           freeze; again: go on",
    "+ -             a longer or shorter period",
    "q               quit, and print the profile of all the time",
    "Ctrl-C          the same; a command is interrupted, too",
    "",
    "gain <= what affinity can gain at most, by all the time so far",
    "slice   median time on a CPU with no other thread between",
    "wait    for a CPU, once it could run: median, and 99 %",
    "moves   from one CPU to another",
    "All but gain and threads is of the last period.",
    "Percentages in the tree: CPU time of what is watched.",
    "More: stayput profile --help, docs/profiling.md",
];

/// How many rows of the table are seen in `area`.
pub fn page(area: Rect) -> usize {
    usize::from(area.height.saturating_sub(3 + panel_height(area)))
}

fn panel_height(area: Rect) -> u16 {
    if area.height < PANEL_FROM { 0 } else { (area.height * 2 / 5).max(11) }
}

/// Draws all of it.
pub fn draw(look: &Look, ui: &Ui, scene: Scene<'_>, buffer: &mut Buffer) {
    let area = buffer.area;
    if area.width < LEAST.0 || area.height < LEAST.1 {
        return put(buffer, 0, 0, &format!("too small: {}x{} at least", LEAST.0, LEAST.1), Style::new());
    }
    let bold = Style::new().add_modifier(Modifier::BOLD);
    put(buffer, 0, 0, &heading(look, ui, scene, usize::from(area.width)), bold);
    let last = area.height - 1;
    put(buffer, 0, last, &footer(ui, scene, usize::from(area.width)), Style::new());
    if ui.has_help {
        return HELP.iter().enumerate().for_each(|(at, line)| {
            if (at as u16) + 2 < last {
                put(buffer, 0, at as u16 + 2, line, Style::new());
            }
        });
    }
    let seconds = look.period.seconds;
    let rows = page(area);
    if ui.is_inside {
        let threads = ui.threads(look);
        let at = ui.thread_index(&threads);
        table(buffer, "thread", &THREAD_COLUMNS, &threads, at, seconds, rows, |thread| (&thread.name, Style::new()));
    } else {
        let programs = ui.programs(look);
        let at = ui.program_index(&programs);
        table(buffer, "program", &PROGRAM_COLUMNS, &programs, at, seconds, rows, |program| {
            (&program.name, colour(program.potential, scene.has_colour))
        });
        if programs.is_empty() {
            put(buffer, 0, 2, "No thread had a CPU yet.", Style::new());
        }
    }
    let height = panel_height(area);
    if height > 0 {
        panel(look, ui.chosen(look), scene, Rect { y: last - height, height, ..area }, buffer);
    }
}

fn heading(look: &Look, ui: &Ui, scene: Scene<'_>, width: usize) -> String {
    let lost = match look.whole.lost_events {
        0 => String::new(),
        lost => format!(", {lost} events lost"),
    };
    let sort: &str = ui.sort.into();
    let state = match (ui.is_frozen, scene.ending) {
        (_, Some(_)) => "ENDED".into(),
        (true, None) => "FROZEN".into(),
        (false, None) => format!("every {} s", ui.period.as_secs_f64()),
    };
    let right = format!("{:.0} s{lost}, by {sort}, {state}", look.whole.seconds);
    let left = match ui.program.as_ref().filter(|_| ui.is_inside) {
        Some(name) => match ui.chosen(look) {
            Some(program) if program.threads_without_row > 0 => {
                format!("{name}: the {} busiest threads", program.by_thread.len())
            }
            _ => format!("{name}: threads"),
        },
        None => look.whole.target.clone(),
    };
    let left = terminal::printable(&left).replace(['\n', '\t'], " ");
    let room = width.saturating_sub(right.chars().count() + 2);
    let mut shown: String = left.chars().take(room).collect();
    if left.chars().count() > room && room > 3 {
        shown = left.chars().take(room - 3).collect::<String>() + "...";
    }
    format!("{shown:<room$}  {right}")
}

fn footer(ui: &Ui, scene: Scene<'_>, width: usize) -> String {
    if let Some(ending) = scene.ending {
        return format!("q quit  {ending}: the numbers are those of all its time");
    }
    let dive = if ui.is_inside { "Esc back" } else { "Enter threads" };
    let keys = ["q quit", "? help", dive, "s sort", "space freeze", "+- period", "up/down choose"];
    let mut line = String::new();
    for key in keys {
        if line.len() + key.len() + 2 > width {
            break;
        }
        line = if line.is_empty() { key.into() } else { format!("{line}  {key}") };
    }
    line
}

/// Draws rows of `all` around the chosen one, and only these.
#[expect(clippy::too_many_arguments, reason = "a table has that many parts")]
fn table<'a, R>(
    buffer: &mut Buffer,
    of: &str,
    columns: &[Column<R>],
    all: &[&'a R],
    chosen: usize,
    seconds: f64,
    rows: usize,
    name: impl Fn(&'a R) -> (&'a str, Style),
) {
    let mut room = usize::from(buffer.area.width).saturating_sub(NAME);
    let columns: Vec<&Column<R>> = (columns.iter())
        .take_while(|column| {
            let fits = column.width <= room;
            room = room.saturating_sub(column.width);
            fits
        })
        .collect();
    let titles: String = columns.iter().map(|column| format!("{:>1$}", column.title, column.width)).collect();
    put(buffer, 0, 1, &format!("{of:<NAME$}{titles}"), Style::new().add_modifier(Modifier::UNDERLINED));
    // The chosen row is in the middle, but at the ends of the list.
    let first = chosen.saturating_sub(rows / 2).min(all.len().saturating_sub(rows));
    for (line, (number, row)) in all.iter().enumerate().skip(first).take(rows).enumerate() {
        let (name, mut style) = name(row);
        let cells: String =
            (columns.iter()).map(|column| format!("{:>1$}", (column.cell)(row, seconds), column.width)).collect();
        let name: String = terminal::printable(name).chars().take(NAME).collect();
        if number == chosen {
            style = style.add_modifier(Modifier::REVERSED);
        }
        // Without reverse video, too, one sees which it is.
        let mark = if number == chosen { ">" } else { " " };
        let name: String = format!("{mark}{name}").chars().take(NAME).collect();
        put(buffer, 0, line as u16 + 2, &format!("{name:<NAME$}{cells}"), style);
    }
}

/// Draws what is known of the chosen program: intervals and what ends them; and the machine, as far as there is room.
fn panel(look: &Look, program: Option<&Program>, scene: Scene<'_>, area: Rect, buffer: &mut Buffer) {
    let width = usize::from(area.width);
    let [intervals, ends] = [if width >= 100 { 40 } else { 30 }, 21];
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let mut columns = Vec::new();
    if let Some(program) = program {
        let name = terminal::printable(&program.name);
        columns.push((0, format!("{name}: intervals, ms"), interval_lines(program, intervals - 2)));
        if width >= intervals + ends {
            columns.push((intervals, "ended by, %".into(), end_lines(program, look.period.seconds)));
        }
    }
    let at = intervals + ends;
    if width >= at + 24 {
        let lines = tree::lines(scene.machine, &look.period, width - at, usize::from(area.height) - 1);
        columns.push((at, "CPU time of all watched".into(), lines));
    }
    for (x, title, lines) in columns {
        put(buffer, x as u16, area.y, &title, bold);
        for (line, y) in lines.iter().zip(area.y + 1..area.y + area.height) {
            put(buffer, x as u16, y, line, Style::new());
        }
    }
}

fn interval_lines(program: &Program, width: usize) -> Vec<String> {
    let bins = &program.dispatch_intervals;
    let edges = INTERVAL_EDGES_MS;
    let mut labels = vec![format!("<{}", edges[0])];
    labels.extend(edges.windows(2).map(|edges| format!("{}-{}", edges[0], edges[1])));
    labels.push(format!(">={}", edges[edges.len() - 1]));
    let percents =
        std::iter::once(bins.shorter_percent).chain(bins.percent.iter().copied()).chain([bins.longer_percent]);
    let bar = width.saturating_sub(12);
    let lines = labels.into_iter().zip(percents).map(|(label, percent)| {
        let filled = (percent / 100.0 * bar as f64).round() as usize;
        format!("{label:>5} {:<bar$} {percent:>3.0} %", "#".repeat(filled.min(bar)))
    });
    lines.collect()
}

fn end_lines(program: &Program, seconds: f64) -> Vec<String> {
    let ends = program.ends_percent;
    let named = [
        ("quantum", ends.quantum),
        ("semaphore", ends.semaphore),
        ("yield", ends.synchronization),
        ("sys. call", ends.system_call),
        ("p. fault", ends.tlb_fault),
        ("other", ends.other),
    ];
    let mut lines: Vec<String> = named.iter().map(|(name, percent)| format!("{name:<11}{percent:>6.1}")).collect();
    lines.push("moves/s within".into());
    let levels = program.migrations.iter();
    lines.extend(levels.map(|(level, count)| {
        // Caches are called in capitals.
        let level = format!("{level:?}");
        let level = if level.starts_with('L') { level } else { level.to_lowercase() };
        format!("  {level:<9}{:>6}", rate(*count, seconds))
    }));
    lines
}

fn gain(program: &Program) -> &'static str {
    match program.potential {
        Potential::Unknown => "?",
        known => known.into(),
    }
}

fn colour(potential: Potential, has_colour: bool) -> Style {
    match potential {
        _ if !has_colour => Style::new(),
        Potential::High => Style::new().fg(Color::Red),
        Potential::Moderate => Style::new().fg(Color::Yellow),
        Potential::Low => Style::new().fg(Color::Green),
        Potential::None | Potential::Unknown => Style::new(),
    }
}

/// Of one CPU.
fn percent(part_s: f64, seconds: f64) -> String {
    match 100.0 * part_s / seconds {
        percent if !percent.is_finite() => "-".into(),
        percent if percent < 999.95 => format!("{percent:.1}"),
        percent => format!("{percent:.0}"),
    }
}

fn rate(count: u64, seconds: f64) -> String {
    if seconds <= 0.0 {
        return "-".into();
    }
    match count as f64 / seconds {
        rate if rate < 9.95 => format!("{rate:.1}"),
        rate => format!("{rate:.0}"),
    }
}

/// A time in ms with three digits that tell.
fn ms(ms: Option<f64>) -> String {
    match ms {
        None => "-".into(),
        Some(ms) if ms < 0.0995 => format!("{ms:.3}"),
        Some(ms) if ms < 9.95 => format!("{ms:.2}"),
        Some(ms) if ms < 99.5 => format!("{ms:.1}"),
        Some(ms) => format!("{ms:.0}"),
    }
}

fn put(buffer: &mut Buffer, x: u16, y: u16, text: &str, style: Style) {
    let area = buffer.area;
    if x < area.width && y < area.height {
        buffer.set_stringn(area.x + x, area.y + y, text, usize::from(area.width - x), style);
    }
}
