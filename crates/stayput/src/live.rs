//! `stayput profile --live`: the profile as it comes about, on a screen of its own.

mod draw;
mod screen;
#[cfg(test)]
mod tests;
mod tree;
mod ui;

use crate::UsageError;
use draw::Scene;
use machine::Machine;
use nix::sys::signal::Signal;
use profile::{Live, ProfileError, Profiled, Target};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{Clear, ClearType};
use ratatui::layout::Rect;
use screen::Streams;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal};
use std::panic;
use std::thread;
use std::time::{Duration, Instant};
use ui::{Asked, Ui};

/// How long at most a key, a signal, or the target's end goes unnoticed.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// The terminal and its guardian: made before there is any other thread.
pub struct View {
    streams: Streams,
}

impl View {
    /// Makes sure that there is a terminal, and that somebody gives it back. Only a child process returns.
    ///
    /// # Errors
    /// [`UsageError`] where there is no screen to draw on; what the kernel refused.
    pub fn prepare() -> anyhow::Result<Self> {
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        if is_dumb || !io::stdout().is_terminal() {
            let why = if is_dumb { "TERM says that this one can't be drawn on" } else { "standard output is none" };
            return Err(UsageError(format!("--live needs a terminal, but {why}; leave --live out")).into());
        }
        Ok(Self { streams: screen::guard()? })
    }

    /// Profiles `target`, and shows it until the user quits.
    ///
    /// # Errors
    /// As [`profile::profile`]; what the terminal failed by is beside the profile.
    pub fn profile(
        mut self,
        target: &Target,
        at_most: Option<Duration>,
        machine: &Machine,
    ) -> Result<(Profiled, io::Result<()>), ProfileError> {
        let is_command = matches!(target, Target::Command(_));
        let streams = &mut self.streams;
        let mut collected = Ok(());
        let before = streams.give_back_at_panic();
        if is_command {
            // Before it is started, so that the command has them.
            collected = streams.collect();
        }
        let terminal = streams.terminal();
        let view = |live: &mut Live<'_>| {
            collected?;
            let terminal = terminal?;
            screen::take(terminal.try_clone()?)?;
            let shown = show(live, terminal, is_command);
            screen::give_back();
            shown
        };
        let profiled = profile::live::profile(target, at_most, machine, view, |is_over| {
            let _ = streams.give_back();
            let _ = streams.pass_on();
            if !is_over() {
                eprintln!("stayput: counting is over; the command goes on to its end (Ctrl-C ends it)");
            }
            while !is_over() {
                thread::sleep(BETWEEN_LOOKS);
                let _ = streams.pass_on();
            }
            let _ = streams.pass_on();
        });
        if is_command {
            let _ = streams.give_back();
            let _ = streams.pass_on();
        }
        drop(before);
        profiled
    }
}

impl Streams {
    /// Lets a panic be read where it would have been without the view.
    fn give_back_at_panic(&self) -> PanicHook {
        let former = panic::take_hook();
        let stderr = self.error();
        panic::set_hook(Box::new(move |info| {
            screen::give_back();
            if let Ok(stderr) = &stderr {
                let _ = nix::unistd::dup2_stderr(stderr);
            }
            former(info);
        }));
        PanicHook
    }
}

/// Puts the usual hook back.
struct PanicHook;

impl Drop for PanicHook {
    fn drop(&mut self) {
        if !thread::panicking() {
            let _ = panic::take_hook();
        }
    }
}

/// An empty screen, of which all is drawn next. (`Terminal::clear` asks the terminal where its cursor is, and waits for the answer.)
fn fresh(on: &File) -> io::Result<Terminal<CrosstermBackend<BufWriter<File>>>> {
    let mut cleared = on.try_clone()?;
    execute!(cleared, Clear(ClearType::All))?;
    Terminal::new(CrosstermBackend::new(BufWriter::with_capacity(1 << 16, cleared)))
}

/// Draws, and obeys keys, until the user quits.
fn show(live: &mut Live<'_>, on: File, is_command: bool) -> io::Result<()> {
    let has_colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut terminal = fresh(&on)?;
    let mut ui = Ui::default();
    let mut looked = Instant::now();
    let mut look = live.look().map_err(io::Error::other)?;
    let mut ending = None;
    let mut is_stale = true;
    let mut drawn_on = terminal.size()?;
    loop {
        if live.is_interrupted() {
            return Ok(());
        }
        // A busy machine's terminal may not tell that it was resized.
        let size = terminal.size()?;
        if size != drawn_on {
            terminal = fresh(&on)?;
            (drawn_on, is_stale) = (size, true);
        }
        if ending.is_none() {
            ending = live.ending().map_err(io::Error::other)?;
            let is_due = !ui.is_frozen && looked.elapsed() >= ui.period;
            if is_due || ending.is_some() {
                look = live.look().map_err(io::Error::other)?;
                if ending.is_some() {
                    // What is looked at from now on is the run, and not its last moment.
                    look.period = look.whole.clone();
                }
                looked = Instant::now();
                is_stale = true;
            }
        }
        if is_stale {
            let scene = Scene { machine: live.machine(), ending, has_colour };
            terminal.draw(|frame| draw::draw(&look, &ui, scene, frame.buffer_mut()))?;
            is_stale = false;
        }
        if !event::poll(BETWEEN_LOOKS)? {
            continue;
        }
        is_stale = true;
        let key = match event::read()? {
            Event::Key(key) => key,
            Event::Resize(..) => {
                // Also where it has the former size again: what was on it need not be there.
                terminal = fresh(&on)?;
                continue;
            }
            _ => continue,
        };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        let size = terminal.size()?;
        match ui.press(key, &look, draw::page(Rect::new(0, 0, size.width, size.height))) {
            Asked::Draw => {}
            Asked::Quit => return Ok(()),
            Asked::Interrupt => {
                if is_command && ending.is_none() {
                    screen::give_back();
                    screen::signal_group(Signal::SIGINT)?;
                }
                return Ok(());
            }
            // The command would have to stop with us, and both go on together.
            Asked::Suspend if is_command => {}
            Asked::Suspend => {
                screen::suspend(on.try_clone()?)?;
                terminal = fresh(&on)?;
            }
        }
    }
}
