//! The picture of a machine: nested boxes for packages, dies, modules and cores, bands for what they share, a cell for each
//! CPU, and in the cell the threads of a placement.
//!
//! The SVG stands alone or inline in HTML, any number of times in a page: it has no ids, its styles apply to its own class
//! only, and it follows the light or dark theme of the reader (or of a page that sets `data-theme` on its root).

use crate::words::short;
use machine::fold::bytes;
use machine::tree::{Object, ObjectIndex};
use machine::{CpuId, CpuSet, Kind, Machine, Placement};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Lengths are in SVG user units, shown as CSS pixels where there is room.
const CELL_WIDTH: f64 = 46.0;
const CELL_HEIGHT: f64 = 36.0;
const BAND_HEIGHT: f64 = 16.0;
const BAND_GAP: f64 = 3.0;
const GAP: f64 = 6.0;
const PADDING: f64 = 6.0;
const TITLE_HEIGHT: f64 = 22.0;
const LINE_HEIGHT: f64 = 16.0;
/// How far each of the two sheets behind a folded box sticks out.
const SHEET: f64 = 4.0;
/// The widest picture that a page shows without shrinking it.
const MAX_WIDTH: f64 = 1220.0;
/// Width over height that boxes are arranged towards.
const ASPECT: f64 = 2.4;
/// Average advance of a character over the font size, for sans-serif fonts; generous.
const ADVANCE: f64 = 0.56;
/// How much wider bold letters are.
const BOLD: f64 = 1.16;
const TITLE_FONT: f64 = 15.0;
const BAND_FONT: f64 = 9.5;
const NAME_FONT: f64 = 11.0;

const STYLE: &str = "\
.stayput-machine{--ink:#1c2330;--soft:#5d6778;--line:#b9c2cf;--box:#ffffff;--deep:#f3f5f8;--cache:#dde7f5;--memory:#dcefe2;\
--unit:#fbe7c6;--cell:#ffffff;font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',sans-serif}\
@media (prefers-color-scheme:dark){:root:not([data-theme=light]) .stayput-machine{--ink:#e8ecf2;--soft:#9aa6b8;--line:#475163;\
--box:#1b212b;--deep:#232b37;--cache:#2b3d57;--memory:#254233;--unit:#513d1c;--cell:#141922}}\
:root[data-theme=dark] .stayput-machine{--ink:#e8ecf2;--soft:#9aa6b8;--line:#475163;--box:#1b212b;--deep:#232b37;--cache:#2b3d57;\
--memory:#254233;--unit:#513d1c;--cell:#141922}\
.stayput-machine text{fill:var(--ink)}.stayput-machine .soft{fill:var(--soft)}\
.stayput-machine .box{fill:var(--box);stroke:var(--line)}.stayput-machine .deep{fill:var(--deep);stroke:var(--line)}\
.stayput-machine .cache{fill:var(--cache)}.stayput-machine .memory{fill:var(--memory)}.stayput-machine .unit{fill:var(--unit)}\
.stayput-machine .cell{fill:var(--cell);stroke:var(--line)}.stayput-machine .off{fill:none;stroke:var(--line);stroke-dasharray:3 2}\
.stayput-machine .busy text{fill:#fff}";

/// Draws `machine`, with the threads of `placement` in the CPUs that they may run on.
///
/// More than four identical siblings without a thread are drawn once, as a stack with their number.
pub fn svg(machine: &Machine, placement: Option<&Placement>) -> String {
    let picture = Picture {
        machine,
        occupied: placement.map(Placement::union).unwrap_or_default(),
        threads: placement.map(threads_by_cpu).unwrap_or_default(),
        thread_count: placement.map_or(0, |placement| placement.slots.len()),
        cell_width: (machine.pus().iter())
            .map(|pu| text_width(&cpu_name(pu.cpu), BAND_FONT) * BOLD + 6.0)
            .fold(CELL_WIDTH, f64::max),
    };
    let root = picture.layout(ObjectIndex::MACHINE, 1);
    let lines = picture.captions(placement);
    let footer = picture.footer();
    let widths = (lines.iter().map(|line| text_width(line, NAME_FONT)))
        .chain(footer.iter().map(|line| text_width(line, BAND_FONT)))
        .chain([text_width(&picture.title(), TITLE_FONT) * BOLD, root.width]);
    let width = widths.fold(0.0, f64::max) + 2.0;
    let top = TITLE_HEIGHT + LINE_HEIGHT * lines.len() as f64 + GAP;
    let height = top + root.height + GAP + LINE_HEIGHT * footer.len() as f64 + 4.0;

    let mut svg = String::new();
    let label = format!("{}. {}", picture.title(), lines.join(". "));
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"stayput-machine\" role=\"img\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" style=\"max-width:100%;height:auto\" aria-label=\"{0}\"><title>{0}</title><style>{STYLE}</style>",
        escape(&label)
    );
    let mut y = 16.0;
    text(&mut svg, 1.0, y, TITLE_FONT, "font-weight=\"600\"", &picture.title());
    y += 1.0;
    for line in &lines {
        y += LINE_HEIGHT;
        text(&mut svg, 1.0, y, NAME_FONT, "class=\"soft\"", line);
    }
    picture.draw(&mut svg, &root, 1.0, top, 0);
    let mut y = top + root.height + GAP;
    for line in &footer {
        y += LINE_HEIGHT;
        text(&mut svg, 1.0, y - 4.0, BAND_FONT, "class=\"soft\"", line);
    }
    svg.push_str("</svg>\n");
    svg
}

fn threads_by_cpu(placement: &Placement) -> BTreeMap<CpuId, Vec<usize>> {
    let mut threads: BTreeMap<CpuId, Vec<usize>> = BTreeMap::new();
    for (thread, slot) in placement.slots.iter().enumerate() {
        for cpu in slot.iter() {
            threads.entry(cpu).or_default().push(thread);
        }
    }
    threads
}

/// What a label stands for.
#[derive(Clone, Copy, PartialEq)]
enum LabelKind {
    Name,
    Memory,
    Cache,
    Unit,
}

/// A name, or a band for something that all CPUs of a box share.
struct Label {
    kind: LabelKind,
    text: String,
}

impl Label {
    /// The least width that shows it whole.
    fn width(&self) -> f64 {
        match self.kind {
            LabelKind::Name => text_width(&self.text, NAME_FONT) * BOLD + 4.0,
            _ => text_width(&self.text, BAND_FONT) + 6.0,
        }
    }
}

/// A box with its size, before it is drawn: a chain of objects around the same CPUs.
struct Frame {
    width: f64,
    height: f64,
    /// Lines of labels, from the top.
    labels: Vec<Vec<Label>>,
    /// Boxes inside, with their places from this one's corner.
    inside: Vec<(f64, f64, Frame)>,
    /// The CPU, when the chain ends in one.
    cpu: Option<CpuId>,
    /// For how many twins this one stands, itself included.
    twins: usize,
    /// Space between the outline and what is inside; without outline there is none.
    padding: f64,
}

struct Picture<'a> {
    machine: &'a Machine,
    occupied: CpuSet,
    threads: BTreeMap<CpuId, Vec<usize>>,
    thread_count: usize,
    /// One width for all cells keeps equal boxes equal.
    cell_width: f64,
}

impl Picture<'_> {
    fn title(&self) -> String {
        match self.machine.cpu_model() {
            Some(model) => format!("{}: {model}", self.machine.name()),
            None => self.machine.name().to_owned(),
        }
    }

    fn captions(&self, placement: Option<&Placement>) -> Vec<String> {
        let mut lines = vec![self.machine.summary()];
        lines.extend(placement.map(|p| format!("{}: {}", p.policy, p.footprint(self.machine))));
        lines
    }

    /// The legend: one line for each mark that needs one and is in the picture.
    fn footer(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.thread_count > 0 {
            lines.push("A coloured cell is a CPU with its threads, T0 first; colours run from blue for the first thread to orange for the last.".into());
        }
        let forbidden: CpuSet =
            self.machine.pus().iter().filter(|pu| pu.forbidden.is_some()).map(|pu| pu.cpu).collect();
        if !forbidden.is_empty() {
            lines.push(format!("Dashed: not ours to use ({}).", forbidden.named()));
        }
        if !self.machine.offline_cpus().is_empty() {
            lines.push(format!("Not drawn: offline ({}).", self.machine.offline_cpus().named()));
        }
        if !self.machine.hidden_cpus().is_empty() {
            lines.push(format!("Not drawn: offline or hidden ({}).", self.machine.hidden_cpus().named()));
        }
        for kind in self.machine.core_kinds() {
            lines.push(format!("{} cores: {}.", kind.name, kind.cpus.named()));
        }
        lines
    }

    /// Arranges the object and all inside it; it stands for so many twins.
    fn layout(&self, index: ObjectIndex, twins: usize) -> Frame {
        let is_root = index == ObjectIndex::MACHINE;
        let chain = if is_root { vec![index] } else { self.machine.chain(index) };
        let innermost = chain.last().copied().unwrap_or(index);
        let cpu = match self.machine.object(innermost).kind {
            Kind::Pu => Some(self.machine.pus_of(innermost)[0].cpu),
            _ => None,
        };
        let children = (self.machine.folded_children(innermost, &self.occupied).iter())
            .map(|group| self.layout(group[0], group.len()))
            .collect();
        let (mut inside, mut width, mut height) = arrange(children);
        if cpu.is_some() {
            (width, height) = (self.cell_width, CELL_HEIGHT);
        }
        let mut labels: Vec<Label> = self.name(&chain, twins).into_iter().collect();
        labels.extend(chain.iter().flat_map(|&i| self.bands(self.machine.object(i))));
        let needed = labels.iter().map(Label::width).fold(width, f64::max);
        let slack = needed - width;
        let labels = lines(labels, needed);
        let is_core = cpu.is_some() && chain.iter().all(|&i| !is_enclosure(self.machine.object(i).kind));
        let padding = if is_root || is_core { 0.0 } else { PADDING };
        let mut above = labels.len() as f64 * (BAND_HEIGHT + BAND_GAP);
        if !is_core && above > 0.0 {
            above += GAP - BAND_GAP;
        }
        for (x, y, _) in &mut inside {
            *x += padding + slack / 2.0;
            *y += padding + above;
        }
        let sheets = if twins > 1 { 2.0 * SHEET } else { 0.0 };
        Frame {
            width: needed + 2.0 * padding + sheets,
            height: height + above + 2.0 * padding + sheets,
            labels,
            inside,
            cpu,
            twins,
            padding,
        }
    }

    /// What the objects of a chain are called, caches aside; none when that says nothing.
    fn name(&self, chain: &[ObjectIndex], twins: usize) -> Option<Label> {
        let objects = chain.iter().map(|&i| (i, self.machine.object(i)));
        let is_single = chain.last().is_some_and(|&i| self.machine.object(i).kind == Kind::Pu);
        let names: Vec<String> = objects
            .filter_map(|(i, object)| {
                let number = if twins == 1 { format!(" {}", object.logical_index) } else { String::new() };
                match object.kind {
                    kind if is_enclosure(kind) => Some(format!("{kind}{number}")),
                    Kind::Core => {
                        let cpu = self.machine.pus_of(i).first()?.cpu;
                        match self.machine.core_kind(cpu) {
                            Some(kind) if is_single => Some(format!("{} core", kind.name)),
                            Some(kind) => Some(format!("{} core{number}", kind.name)),
                            None if is_single && twins == 1 => None,
                            None => Some(format!("core{number}")),
                        }
                    }
                    _ => None,
                }
            })
            .collect();
        let name = names.join(", ");
        let text = if twins == 1 { name } else { format!("{twins} \u{d7} {name}") };
        (!text.is_empty()).then_some(Label { kind: LabelKind::Name, text })
    }

    /// What all CPUs of an object share.
    fn bands(&self, object: &Object) -> Vec<Label> {
        let of_size = |size: Option<_>| size.map(|size| format!(" {}", bytes(size))).unwrap_or_default();
        let mut bands = Vec::new();
        for &node in &object.numa_nodes {
            let node = self.machine.numa_node(node);
            let forbidden = if node.forbidden { ", not ours to use" } else { "" };
            let text = format!("NUMA node P#{}{}{forbidden}", node.os_index, of_size(node.memory_bytes));
            bands.push(Label { kind: LabelKind::Memory, text });
        }
        if let Some(cache) = &object.cache {
            let text = format!("{}{}", object.kind, of_size(cache.size_bytes));
            bands.push(Label { kind: LabelKind::Cache, text });
        }
        if !object.shared_units.is_empty() {
            let text = format!("shared {}", object.shared_units.join(", "));
            bands.push(Label { kind: LabelKind::Unit, text });
        }
        bands
    }

    /// Who sits on a CPU and where it is.
    fn explanation(&self, cpu: CpuId) -> String {
        let pu = self.machine.pu_index(cpu).map(|index| self.machine.pu(index));
        let place: Vec<String> = (pu.into_iter().flat_map(|pu| self.machine.ancestors(pu.object)))
            .map(|i| self.machine.object(i))
            .filter(|object| matches!(object.kind, Kind::Core | Kind::Module | Kind::Die | Kind::Package))
            .map(|object| format!("{} {}", object.kind, object.logical_index))
            .collect();
        let mut text = cpu_name(cpu);
        if !place.is_empty() {
            let _ = write!(text, " in {}", place.join(", "));
        }
        if let Some(threads) = self.threads.get(&cpu) {
            let list: Vec<String> = threads.iter().map(usize::to_string).collect();
            let _ = write!(text, ": thread {}", list.join(", "));
        }
        if let Some(by) = pu.and_then(|pu| pu.forbidden.as_ref()) {
            let _ = write!(text, ": {by}");
        }
        text
    }

    fn draw(&self, svg: &mut String, frame: &Frame, x: f64, y: f64, depth: usize) {
        let sheets = if frame.twins > 1 { 2.0 * SHEET } else { 0.0 };
        let (width, height) = (frame.width - sheets, frame.height - sheets);
        let class = format!("class=\"{}\"", if depth % 2 == 1 { "deep" } else { "box" });
        if frame.twins > 1 {
            for sheet in [2.0 * SHEET, SHEET] {
                rectangle(svg, x + sheet, y + sheet, width, height, 5.0, &class);
            }
        }
        if frame.padding > 0.0 || frame.twins > 1 {
            rectangle(svg, x, y, width, height, 5.0, &class);
        }
        let (left, room) = (x + frame.padding, width - 2.0 * frame.padding);
        let mut top = y + frame.padding;
        for line in &frame.labels {
            draw_labels(svg, line, left, top, room);
            top += BAND_HEIGHT + BAND_GAP;
        }
        if let Some(cpu) = frame.cpu {
            self.cell(svg, cpu, left, top, room);
        }
        for (dx, dy, inner) in &frame.inside {
            self.draw(svg, inner, x + dx, y + dy, depth + 1);
        }
    }

    fn cell(&self, svg: &mut String, cpu: CpuId, x: f64, y: f64, width: f64) {
        let middle = x + width / 2.0;
        let centred = "text-anchor=\"middle\"";
        let threads = self.threads.get(&cpu);
        let is_usable = self.machine.state(cpu) == machine::CpuState::Usable;
        let group = if threads.is_some() { "<g class=\"busy\">" } else { "<g>" };
        let _ = write!(svg, "{group}<title>{}</title>", escape(&self.explanation(cpu)));
        let number = cpu_name(cpu);
        match threads {
            Some(threads) => {
                let fill = format!("fill=\"{}\"", thread_colour(threads[0], self.thread_count));
                rectangle(svg, x, y, width, CELL_HEIGHT, 4.0, &fill);
                let label = match threads.as_slice() {
                    [one] => format!("T{one}"),
                    [one, other] => format!("T{one} T{other}"),
                    [first, others @ ..] => format!("T{first} +{}", others.len()),
                    [] => String::new(),
                };
                text(svg, middle, y + 17.0, 13.0, &format!("{centred} font-weight=\"700\""), &label);
                text(svg, middle, y + 29.5, 9.5, centred, &number);
            }
            None => {
                // On boxes of either colour alike.
                let class = if is_usable { "class=\"cell\"" } else { "class=\"off\" style=\"fill:var(--deep)\"" };
                rectangle(svg, x, y, width, CELL_HEIGHT, 4.0, class);
                text(svg, middle, y + 22.0, BAND_FONT, &format!("{centred} class=\"soft\""), &number);
            }
        }
        svg.push_str("</g>");
    }
}

/// Breaks labels into lines no longer than `room`.
fn lines(labels: Vec<Label>, room: f64) -> Vec<Vec<Label>> {
    let mut lines: Vec<Vec<Label>> = Vec::new();
    let mut free = 0.0;
    for label in labels {
        let width = label.width();
        match lines.last_mut() {
            Some(line) if width + BAND_GAP <= free => {
                free -= width + BAND_GAP;
                line.push(label);
            }
            _ => {
                free = room - width;
                lines.push(vec![label]);
            }
        }
    }
    lines
}

/// Draws one line of labels; bands share what room is left.
fn draw_labels(svg: &mut String, line: &[Label], x: f64, y: f64, room: f64) {
    let used: f64 = line.iter().map(Label::width).sum::<f64>() + BAND_GAP * (line.len() - 1) as f64;
    let bands = line.iter().filter(|label| label.kind != LabelKind::Name).count();
    let stretch = (room - used).max(0.0) / bands.max(1) as f64;
    let mut x = x;
    for label in line {
        let class = match label.kind {
            LabelKind::Name => {
                text(svg, x + 1.0, y + 12.0, NAME_FONT, "font-weight=\"600\"", &label.text);
                x += label.width() + BAND_GAP;
                continue;
            }
            LabelKind::Memory => "class=\"memory\"",
            LabelKind::Cache => "class=\"cache\"",
            LabelKind::Unit => "class=\"unit\"",
        };
        let width = label.width() + stretch;
        rectangle(svg, x, y, width, BAND_HEIGHT, 3.0, class);
        text(svg, x + width / 2.0, y + BAND_HEIGHT - 4.5, BAND_FONT, "text-anchor=\"middle\"", &label.text);
        x += width + BAND_GAP;
    }
}

/// Sets boxes in rows, as text flows, to the length that brings the whole nearest the wanted shape with least left empty.
///
/// Returns them with their places, and the size of the whole.
fn arrange(frames: Vec<Frame>) -> (Vec<(f64, f64, Frame)>, f64, f64) {
    let sizes: Vec<(f64, f64)> = frames.iter().map(|frame| (frame.width, frame.height)).collect();
    let filled: f64 = sizes.iter().map(|(width, height)| width * height).sum();
    let cost = |flow: &Flow| {
        let empty = 1.0 - filled / (flow.width * flow.height);
        let too_wide = if flow.width > MAX_WIDTH { flow.width } else { 0.0 };
        (flow.width / flow.height / ASPECT).ln().abs() + 2.5 * empty + too_wide
    };
    // A row is best as long as so many boxes from the start, or to the end, need.
    let sum = |row: &[(f64, f64)]| row.iter().map(|(width, _)| width + GAP).sum::<f64>() - GAP;
    let rooms = (1..=sizes.len()).flat_map(|n| [sum(&sizes[..n]), sum(&sizes[n - 1..])]);
    let widest = sizes.iter().map(|(width, _)| *width).fold(0.0, f64::max);
    let best = (rooms.map(|room| flow(&sizes, room.max(widest)))).min_by(|a, b| cost(a).total_cmp(&cost(b)));
    let Some(best) = best else {
        return (Vec::new(), 0.0, 0.0);
    };
    let placed = best.places.into_iter().zip(frames).map(|((x, y), frame)| (x, y, frame)).collect();
    (placed, best.width, best.height)
}

/// Where boxes come to lie, and the size of the whole.
struct Flow {
    places: Vec<(f64, f64)>,
    width: f64,
    height: f64,
}

/// Lays boxes of these widths and heights side by side, in as many rows as `room` asks for.
fn flow(sizes: &[(f64, f64)], room: f64) -> Flow {
    let (mut x, mut y, mut row_height) = (0.0_f64, 0.0_f64, 0.0_f64);
    let mut flow = Flow { places: Vec::with_capacity(sizes.len()), width: 0.0, height: 0.0 };
    for &(width, height) in sizes {
        if x > 0.0 && x + width > room + 0.01 {
            (x, y, row_height) = (0.0, y + row_height + GAP, 0.0);
        }
        flow.places.push((x, y));
        flow.width = flow.width.max(x + width);
        x += width + GAP;
        row_height = row_height.max(height);
        flow.height = y + row_height;
    }
    flow
}

/// Whether objects of this kind always have an outline and a name.
fn is_enclosure(kind: Kind) -> bool {
    matches!(kind, Kind::Package | Kind::Die | Kind::Group | Kind::Module)
}

fn cpu_name(cpu: CpuId) -> String {
    format!("CPU {cpu}")
}

fn text_width(text: &str, font: f64) -> f64 {
    text.chars().count() as f64 * font * ADVANCE
}

fn rectangle(svg: &mut String, x: f64, y: f64, width: f64, height: f64, radius: f64, attributes: &str) {
    let _ = write!(
        svg,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{radius}\" {attributes}/>"
    );
}

fn text(svg: &mut String, x: f64, y: f64, font: f64, attributes: &str, content: &str) {
    let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{font}\" {attributes}>{}</text>", escape(content));
}

/// A colour on which white text can be read: hue from blue (215 degrees) over magenta to orange (385).
fn thread_colour(thread: usize, threads: usize) -> String {
    let share = thread as f64 / threads.saturating_sub(1).max(1) as f64;
    let hue = (215.0 + 170.0 * share) % 360.0;
    let (saturation, lightness) = (0.66, 0.44);
    // CSS Color Module Level 4, section 7.1: HSL to sRGB.
    let channel = |n: f64| {
        let k = (n + hue / 30.0) % 12.0;
        let a = saturation * f64::min(lightness, 1.0 - lightness);
        let value = lightness - a * f64::min(k - 3.0, 9.0 - k).clamp(-1.0, 1.0);
        (value * 255.0).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(0.0), channel(8.0), channel(4.0))
}

fn escape(text: &str) -> String {
    maud::html! { (short(text, usize::MAX)) }.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Policy;

    fn picture(machine: &str, policy: Option<(Policy, usize)>) -> String {
        let machine = Machine::named(machine).unwrap();
        let placement = policy.map(|(policy, threads)| policy.place(&machine, threads).unwrap());
        svg(&machine, placement.as_ref())
    }

    #[test]
    fn every_thread_is_drawn_once_on_its_cpu() {
        let svg = picture("opteron-6272", Some((Policy::Scatter, 8)));
        for (thread, cpu) in [0, 16, 32, 48, 8, 24, 40, 56].into_iter().enumerate() {
            assert_eq!(svg.matches(&format!(">T{thread}</text>")).count(), 1, "T{thread}");
            assert_eq!(svg.matches(&format!(": thread {thread}</title>")).count(), 1, "thread {thread}");
            assert_eq!(svg.matches(&format!(">CPU {cpu}</text>")).count(), 1, "CPU {cpu}");
        }
    }

    #[test]
    fn twins_are_folded_unless_they_carry_a_thread() {
        let empty = picture("pack:2 l3:1 core:12 pu:2", None);
        assert_eq!(empty.matches("12 \u{d7} core").count(), 2);
        let placed = picture("pack:2 l3:1 core:12 pu:2", Some((Policy::Scatter, 3)));
        assert_eq!(placed.matches("10 \u{d7} core").count(), 1);
        assert_eq!(placed.matches("11 \u{d7} core").count(), 1);
        assert_eq!(placed.matches("<g class=\"busy\">").count(), 3);
    }

    #[test]
    fn threads_that_share_a_cpu_share_its_cell() {
        let svg = picture("core:2 pu:1", Some((Policy::Compact, 5)));
        assert!(svg.contains(">T0 +2</text>") && svg.contains(">T1 T3</text>"), "{svg}");
    }

    #[test]
    fn several_fit_in_one_page_and_each_says_what_it_shows() {
        let svg = picture("xeon-e5405", Some((Policy::Balanced, 2)));
        assert!(!svg.contains(" id=") && !svg.contains("url(") && !svg.contains("href"), "{svg}");
        assert!(svg.contains("role=\"img\"") && svg.contains("<title>xeon-e5405: Intel(R) Xeon(R) CPU E5405"));
        assert!(svg.contains("balanced: 2 threads on 2 packages, 2 L2, 2 cores"));
        for rule in STYLE.split('}').filter(|rule| !rule.is_empty()) {
            assert!(rule.contains(".stayput-machine"), "a style for the whole page: {rule}");
        }
    }

    #[test]
    fn forbidden_cells_look_alike_in_every_box_and_memory_without_cpus_is_drawn() {
        let xml = |name: &str| {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../machine/tests/corpus/");
            Machine::named(&format!("{folder}{name}.xml")).unwrap()
        };
        let forbidden = svg(&xml("offline-and-disallowed"), None);
        assert_eq!(forbidden.matches("class=\"off\"").count(), 2);
        assert_eq!(forbidden.matches("class=\"off\" style=\"fill:var(--deep)\"").count(), 2);
        let memory = svg(&xml("memory-only"), None);
        assert!(memory.contains("NUMA node P#2 64 GiB") && memory.contains("NUMA node P#1 16 GiB, not ours to use"));
        assert!(svg(&xml("hidden-by-cgroup"), None).contains("Not drawn: offline or hidden (CPUs 0,5)."));
    }

    #[test]
    fn names_cannot_break_out_of_the_picture() {
        let mut record = machine::record::MachineRecord::from(Machine::named("pack:1 core:1 pu:1").unwrap());
        record.name = "</svg><script>\"&\u{1}".into();
        let svg = svg(&Machine::try_from(record).unwrap(), None);
        assert!(svg.contains("&lt;/svg&gt;&lt;script&gt;&quot;&amp;\\u{1}"));
        assert_eq!(svg.matches("</svg>").count(), 1);
    }

    #[test]
    fn colours_run_from_blue_to_orange() {
        assert_eq!(thread_colour(0, 1), thread_colour(0, 8));
        let blue_and_orange = (thread_colour(0, 64), thread_colour(63, 64));
        assert_eq!(blue_and_orange, ("#2664ba".to_owned(), "#ba6426".to_owned()));
    }
}
