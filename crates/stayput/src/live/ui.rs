//! What the user has chosen: a state, and what each key does to it.

use profile::profile::ThreadRow;
use profile::{Look, Program};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::cmp::{Ordering, Reverse};
use std::time::Duration;

/// Times between two looks that keys choose from.
const PERIODS: [Duration; 5] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

/// By what rows are sorted: the most first, but for names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
pub enum Sort {
    /// What affinity can gain; equals by CPU time.
    #[strum(serialize = "gain")]
    Gain,
    /// CPU time in the period.
    #[strum(serialize = "CPU")]
    Cpu,
    /// Switches.
    #[strum(serialize = "switches")]
    Switches,
    /// The median of the effective slices.
    #[strum(serialize = "slice")]
    Slice,
    /// Waits: of programs the 99th percentile, of threads all of the time.
    #[strum(serialize = "wait")]
    Wait,
    /// Moves between CPUs.
    #[strum(serialize = "moves")]
    Moves,
    /// The name.
    #[strum(serialize = "name")]
    Name,
}

/// What a key asks of whoever owns the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing but that it is drawn again.
    Draw,
    /// To leave the view.
    Quit,
    /// To leave it, and to end the command that was started.
    Interrupt,
    /// To stop, until the shell continues us.
    Suspend,
}

/// What the user has chosen.
#[derive(Clone, Debug)]
pub struct Ui {
    /// By what rows are sorted.
    pub sort: Sort,
    /// The name of the chosen program; none is the first.
    pub program: Option<String>,
    /// Whether its threads are shown.
    pub is_inside: bool,
    /// The number of the chosen thread; none is the first.
    pub thread: Option<i32>,
    /// Whether the numbers stand still.
    pub is_frozen: bool,
    /// Whether the help is shown.
    pub has_help: bool,
    /// How long a period is.
    pub period: Duration,
}

impl Default for Ui {
    fn default() -> Self {
        Self {
            sort: Sort::Gain,
            program: None,
            is_inside: false,
            thread: None,
            is_frozen: false,
            has_help: false,
            period: PERIODS[1],
        }
    }
}

impl Ui {
    /// Does what `key` says; `page` is how many rows are seen at once.
    pub fn press(&mut self, key: KeyEvent, look: &Look, page: usize) -> Asked {
        let has_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if has_control => return Asked::Interrupt,
            KeyCode::Char('z') if has_control => return Asked::Suspend,
            // The terminal may have been written to by others.
            KeyCode::Char(_) if has_control => return Asked::Draw,
            KeyCode::Esc | KeyCode::Char('q') if self.has_help => self.has_help = false,
            KeyCode::Char('q') => return Asked::Quit,
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left | KeyCode::Char('h') if self.is_inside => {
                self.is_inside = false;
            }
            KeyCode::Esc => return Asked::Quit,
            KeyCode::Char('?') => self.has_help = !self.has_help,
            KeyCode::Enter | KeyCode::Right | KeyCode::Char('l') if !self.is_inside => {
                self.program = self.chosen(look).map(|program| program.name.clone());
                self.is_inside = self.program.is_some();
                self.thread = None;
            }
            KeyCode::Char('s' | '>') => self.sort = self.neighbour(1),
            KeyCode::Char('S' | '<') => self.sort = self.neighbour(-1),
            KeyCode::Char(' ') => self.is_frozen = !self.is_frozen,
            KeyCode::Char('+') => self.step_period(1),
            KeyCode::Char('-') => self.step_period(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(look, 1),
            KeyCode::Up | KeyCode::Char('k') => self.step(look, -1),
            KeyCode::PageDown => self.step(look, page.max(1) as isize),
            KeyCode::PageUp => self.step(look, -(page.max(1) as isize)),
            KeyCode::Home | KeyCode::Char('g') => self.step(look, isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.step(look, isize::MAX),
            _ => {}
        }
        Asked::Draw
    }

    fn neighbour(&self, step: isize) -> Sort {
        use strum::VariantArray;
        let all = Sort::VARIANTS;
        let at = all.iter().position(|sort| *sort == self.sort).unwrap_or(0) as isize;
        all[(at + step).rem_euclid(all.len() as isize) as usize]
    }

    fn step_period(&mut self, step: isize) {
        let at = PERIODS.iter().position(|period| *period == self.period).unwrap_or(1);
        self.period = PERIODS[at.saturating_add_signed(step).min(PERIODS.len() - 1)];
    }

    fn step(&mut self, look: &Look, step: isize) {
        if self.is_inside {
            let rows = self.threads(look);
            let at = self.thread_index(&rows).saturating_add_signed(step).min(rows.len().saturating_sub(1));
            self.thread = rows.get(at).map(|row| row.tid);
        } else {
            let rows = self.programs(look);
            let at = self.program_index(&rows).saturating_add_signed(step).min(rows.len().saturating_sub(1));
            self.program = rows.get(at).map(|row| row.name.clone());
        }
    }

    /// Programs that had a CPU since the beginning, as they are sorted.
    pub fn programs<'a>(&self, look: &'a Look) -> Vec<&'a Program> {
        let had_cpu: std::collections::HashSet<&str> = (look.whole.programs.iter())
            .filter(|program| program.cpu_s > 0.0)
            .map(|program| program.name.as_str())
            .collect();
        let mut rows: Vec<&Program> =
            look.period.programs.iter().filter(|program| had_cpu.contains(program.name.as_str())).collect();
        rows.sort_by(|a, b| {
            let first = match self.sort {
                Sort::Gain => b.potential.cmp(&a.potential),
                Sort::Cpu => Ordering::Equal,
                Sort::Switches => b.switches.cmp(&a.switches),
                Sort::Slice => descending(a.effective_slice_median_ms, b.effective_slice_median_ms),
                Sort::Wait => descending(a.wait_ms.map(|waits| waits.p99), b.wait_ms.map(|waits| waits.p99)),
                Sort::Moves => moves(b).cmp(&moves(a)),
                Sort::Name => a.name.cmp(&b.name),
            };
            first.then_with(|| b.cpu_s.total_cmp(&a.cpu_s)).then_with(|| a.name.cmp(&b.name))
        });
        rows
    }

    /// Where the chosen one is among `rows`.
    pub fn program_index(&self, rows: &[&Program]) -> usize {
        self.program.as_ref().and_then(|name| rows.iter().position(|row| row.name == *name)).unwrap_or(0)
    }

    /// The chosen program.
    pub fn chosen<'a>(&self, look: &'a Look) -> Option<&'a Program> {
        let rows = self.programs(look);
        rows.get(self.program_index(&rows)).copied()
    }

    /// Threads of the chosen program, as they are sorted.
    pub fn threads<'a>(&self, look: &'a Look) -> Vec<&'a ThreadRow> {
        let mut rows: Vec<_> = self.chosen(look).map(|program| program.by_thread.iter().collect()).unwrap_or_default();
        rows.sort_by(|a, b| {
            let first = match self.sort {
                Sort::Gain | Sort::Cpu | Sort::Slice => Ordering::Equal,
                Sort::Switches => b.switches.cmp(&a.switches),
                Sort::Wait => b.wait_s.total_cmp(&a.wait_s),
                Sort::Moves => b.migrations.cmp(&a.migrations),
                Sort::Name => a.name.cmp(&b.name),
            };
            first.then_with(|| b.cpu_s.total_cmp(&a.cpu_s)).then_with(|| a.tid.cmp(&b.tid))
        });
        rows
    }

    /// Where the chosen one is among `rows`.
    pub fn thread_index(&self, rows: &[&ThreadRow]) -> usize {
        self.thread.and_then(|tid| rows.iter().position(|row| row.tid == tid)).unwrap_or(0)
    }
}

/// How often threads of it moved.
pub fn moves(program: &Program) -> u64 {
    program.migrations.values().sum()
}

fn descending(a: Option<f64>, b: Option<f64>) -> Ordering {
    // Nothing is less than any time; times are not negative, whose bits are ordered as they are.
    let bits = |time: Option<f64>| time.map(|time| time.max(0.0).to_bits());
    Reverse(bits(a)).cmp(&Reverse(bits(b)))
}
