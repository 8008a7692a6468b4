//! Screens as text, and what keys do. `INSTA_UPDATE=always` writes the screens anew.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use super::draw::{self, Scene};
use super::tree;
use super::ui::{Asked, Sort, Ui};
use machine::{CpuId, Level, Machine};
use profile::profile::{EndsPercent, INTERVAL_EDGES_MS, IntervalBins, ThreadRow, Waits};
use profile::{Look, Potential, Profile, Program};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use std::collections::BTreeMap;

fn machine() -> Machine {
    Machine::named("pack:2 l3:1 core:2 pu:2").unwrap()
}

fn program(name: &str, cpu_s: f64, potential: Potential, threads: u64) -> Program {
    let row = |tid: u64| ThreadRow {
        pid: 100,
        tid: 100 + tid as i32,
        name: format!("{name}-{tid}"),
        cpu_s: cpu_s / threads as f64 / (1 + tid) as f64,
        switches: 40 * tid,
        migrations: tid,
        wait_s: 0.1,
        block_s: 0.1,
        quantum_percent: 50.0,
        bursts: Vec::new(),
        blocks: Vec::new(),
        last_burst_ms: 0.0,
        began_s: 0.0,
    };
    Program {
        name: name.into(),
        threads,
        cpu_s,
        switches: (cpu_s * 200.0) as u64,
        dispatch_intervals: IntervalBins {
            edges_ms: INTERVAL_EDGES_MS.to_vec(),
            percent: vec![40.0, 20.0, 0.0, 0.0, 10.0, 0.0, 0.0],
            shorter_percent: 25.0,
            longer_percent: 5.0,
        },
        ends_percent: EndsPercent { quantum: 60.0, semaphore: 12.5, system_call: 27.5, ..EndsPercent::default() },
        effective_slice_median_ms: (cpu_s > 0.0).then_some(3.25),
        wait_ms: (cpu_s > 0.0).then_some(Waits { median: 0.0125, p99: 12.5, longest: 120.0 }),
        migrations: BTreeMap::from([(Level::Core, 3), (Level::L3, 12), (Level::Machine, 1)]),
        potential,
        residency_s: BTreeMap::from([(CpuId(0), cpu_s * 0.75), (CpuId(5), cpu_s * 0.25)]),
        by_thread: (0..threads.min(200)).map(row).collect(),
        threads_without_row: threads.saturating_sub(200),
        ..Program::default()
    }
}

fn profile(seconds: f64, programs: Vec<Program>) -> Profile {
    Profile {
        target: "make -j4 a-target-with-a-long-name and-another-one and-one-more".into(),
        kernel: "6.12".into(),
        cpus: 8,
        seconds,
        programs,
        ..Profile::default()
    }
}

/// A second in the life of a build with that many programs.
fn look(more: usize) -> Look {
    let mut programs = vec![
        program("cc1", 0.9, Potential::Moderate, 3),
        program("make", 0.02, Potential::Unknown, 1),
        program("postgres", 0.5, Potential::High, 10_000),
        program("idle-meanwhile", 0.0, Potential::None, 1),
    ];
    programs.extend((0..more).map(|n| program(&format!("sh-{n:05}"), 0.001, Potential::None, 1)));
    let mut whole = programs.clone();
    whole.iter_mut().for_each(|program| program.cpu_s += 1.0);
    Look { whole: profile(12.4, whole), period: profile(1.0, programs) }
}

fn scene(machine: &Machine) -> Scene<'_> {
    Scene { machine, ending: None, has_colour: true }
}

fn drawn(look: &Look, ui: &Ui, scene: Scene<'_>, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::draw(look, ui, scene, frame.buffer_mut())).unwrap();
    terminal
}

fn text(look: &Look, ui: &Ui, scene: Scene<'_>, width: u16, height: u16) -> String {
    let terminal = drawn(look, ui, scene, width, height);
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(usize::from(width)).map(|line| {
        let line: String = line.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned() + "\n"
    });
    lines.collect()
}

fn press(ui: &mut Ui, look: &Look, code: KeyCode) -> Asked {
    ui.press(KeyEvent::new(code, KeyModifiers::NONE), look, 10)
}

#[test]
fn programs_of_usual_and_of_small_screens() {
    let (machine, look, ui) = (machine(), look(40), Ui::default());
    for (width, height) in [(80, 24), (120, 40), (40, 12)] {
        insta::assert_snapshot!(format!("programs_{width}x{height}"), text(&look, &ui, scene(&machine), width, height));
    }
}

#[test]
fn threads_help_and_the_end() {
    let (machine, look) = (machine(), look(0));
    let mut ui = Ui::default();
    insta::assert_snapshot!("help_80x24", text(&look, &Ui { has_help: true, ..ui.clone() }, scene(&machine), 80, 24));
    assert_eq!(press(&mut ui, &look, KeyCode::Enter), Asked::Draw);
    press(&mut ui, &look, KeyCode::Down);
    press(&mut ui, &look, KeyCode::Char(' '));
    insta::assert_snapshot!("threads_80x24", text(&look, &ui, scene(&machine), 80, 24));
    press(&mut ui, &look, KeyCode::Esc);
    let ended = Scene { ending: Some("the command has ended"), ..scene(&machine) };
    insta::assert_snapshot!("ended_80x24", text(&look, &ui, ended, 80, 24));
}

#[test]
fn every_size_is_drawn_and_tiny_ones_say_what_they_are() {
    let (machine, look) = (machine(), look(300));
    for ui in [Ui::default(), Ui { is_inside: true, ..Ui::default() }, Ui { has_help: true, ..Ui::default() }] {
        for (width, height) in
            (1..140).step_by(3).flat_map(|width| (1..60).step_by(3).map(move |height| (width, height)))
        {
            let text = text(&look, &ui, scene(&machine), width, height);
            assert_eq!(
                text.starts_with("t"),
                width < 30 || height < 6 || text.starts_with("th"),
                "{width}x{height}\n{text}"
            );
        }
    }
}

#[test]
fn the_chosen_row_is_always_seen_and_stays_chosen() {
    let (machine, look) = (machine(), look(1_000));
    let mut ui = Ui::default();
    for code in [KeyCode::End, KeyCode::PageUp, KeyCode::Up, KeyCode::Home, KeyCode::PageDown, KeyCode::Char('j')] {
        press(&mut ui, &look, code);
        let chosen = ui.chosen(&look).unwrap().name.clone();
        let seen = text(&look, &ui, scene(&machine), 80, 24);
        assert!(seen.contains(&format!(">{chosen}")), "{chosen}\n{seen}");
        press(&mut ui, &look, KeyCode::Char('s'));
        assert_eq!(ui.chosen(&look).unwrap().name, chosen);
    }
}

#[test]
fn keys_ask_for_what_they_are_said_to() {
    let look = look(0);
    let mut ui = Ui::default();
    assert_eq!(press(&mut ui, &look, KeyCode::Char('?')), Asked::Draw);
    assert_eq!(press(&mut ui, &look, KeyCode::Char('q')), Asked::Draw, "leaves the help first");
    assert_eq!(press(&mut ui, &look, KeyCode::Enter), Asked::Draw);
    assert_eq!(press(&mut ui, &look, KeyCode::Esc), Asked::Draw, "goes back first");
    assert_eq!(press(&mut ui, &look, KeyCode::Esc), Asked::Quit);
    let control = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
    assert_eq!(ui.press(control('c'), &look, 10), Asked::Interrupt);
    assert_eq!(ui.press(control('z'), &look, 10), Asked::Suspend);
    for _ in 0..9 {
        press(&mut ui, &look, KeyCode::Char('+'));
    }
    assert_eq!(ui.period.as_secs(), 10);
    for _ in 0..9 {
        press(&mut ui, &look, KeyCode::Char('-'));
    }
    assert_eq!(ui.period.as_millis(), 500);
}

#[test]
fn rows_are_in_the_order_that_is_named() {
    let look = look(0);
    let order = |sort| {
        let rows = Ui { sort, ..Ui::default() };
        rows.programs(&look).iter().map(|program| program.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(order(Sort::Gain), ["postgres", "cc1", "idle-meanwhile", "make"]);
    assert_eq!(order(Sort::Cpu), ["cc1", "postgres", "make", "idle-meanwhile"]);
    assert_eq!(order(Sort::Name), ["cc1", "idle-meanwhile", "make", "postgres"]);
    assert_eq!(order(Sort::Wait)[3], "idle-meanwhile", "nothing is less than any time");
}

#[test]
fn nothing_of_a_program_s_name_steers_the_terminal() {
    let machine = machine();
    let mut look = look(0);
    for profile in [&mut look.whole, &mut look.period] {
        profile.target = "\u{1b}[2Jx\ny".into();
        profile.programs[0].name = "\u{9b}31m\u{202e}".into();
    }
    for ui in [Ui::default(), Ui { is_inside: true, program: Some("\u{9b}31m\u{202e}".into()), ..Ui::default() }] {
        let seen = text(&look, &ui, scene(&machine), 80, 24);
        assert!(!seen.chars().any(terminal::misleads), "{seen:?}");
    }
}

#[test]
fn without_colours_there_are_none() {
    let (machine, look) = (machine(), look(0));
    for has_colour in [true, false] {
        let terminal = drawn(&look, &Ui::default(), Scene { has_colour, ..scene(&machine) }, 80, 24);
        let coloured = terminal.backend().buffer().content().iter().any(|cell| cell.fg != Color::Reset);
        assert_eq!(coloured, has_colour);
    }
}

#[test]
fn a_tree_is_as_deep_as_there_is_room_and_its_shares_are_means() {
    let machine = Machine::named("pack:4 l3:4 core:8 pu:2").unwrap();
    let period = look(0).period;
    assert_eq!(tree::lines(&machine, &period, 30, 4).len(), 1);
    assert_eq!(tree::lines(&machine, &period, 30, 5).len(), 5);
    assert_eq!(tree::lines(&machine, &period, 30, 21).len(), 21);
    let all = tree::lines(&Machine::named("core:2 pu:1").unwrap(), &period, 30, 9);
    // 1.42 s of one second are a CPU's whole, as far as one can have it, of which the other CPU had nothing.
    assert!(all[0].starts_with("machine") && all[1].contains("CPU 0") && all[1].ends_with("100 %"), "{all:?}");
    assert!(all[2].ends_with("  0 %"), "{all:?}");
}
