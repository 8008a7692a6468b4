//! Words and small phrases that every form of the report is made of.

use study::{Shape, Summary, Varied};

/// `text` with what would steer a terminal, or turn the order of a page around, shown as escapes: the name of a subject may be hostile.
pub(crate) fn plain(text: &str) -> String {
    ::terminal::printable(text).into_owned()
}

/// `text` on one line and at most `width` characters long, cut with an ellipsis.
pub(crate) fn short(text: &str, width: usize) -> String {
    let line = plain(text).replace('\n', " ");
    if line.chars().count() <= width {
        return line;
    }
    let mut cut: String = line.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// The same, cut in its middle: names of treatments differ in their last words.
pub(crate) fn short_in_the_middle(text: &str, width: usize) -> String {
    let line = plain(text).replace('\n', " ");
    let letters = line.chars().count();
    if letters <= width {
        return line;
    }
    let kept = width.saturating_sub(1);
    let (head, tail) = (kept / 3, kept - kept / 3);
    line.chars().take(head).chain(['…']).chain(line.chars().skip(letters - tail)).collect()
}

/// `sentence` with its first letter large.
pub(crate) fn capital(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// `1 trial`, `2 trials`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// `8 threads`; of ranks `2 ranks x 4 threads`.
pub(crate) fn shape_in_words(shape: Shape) -> String {
    let threads = count(shape.threads() as usize, "thread");
    match shape.ranks() {
        None => threads,
        Some(ranks) => format!("{} x {threads}", count(ranks as usize, "rank")),
    }
}

/// The names of a cell's placement: `compact = scatter` where it is run for both.
pub(crate) fn names(summary: &Summary) -> String {
    joined(&summary.placement, summary.also.iter())
}

/// `name` and those of its twins: `compact = scatter`.
pub(crate) fn joined<'n>(name: &str, twins: impl Iterator<Item = &'n String>) -> String {
    twins.fold(name.to_owned(), |names, twin| format!("{names} = {twin}"))
}

/// One of what is compared.
pub(crate) fn compared(varied: Varied) -> &'static str {
    match varied {
        Varied::Places => "placement",
        Varied::Treatments => "treatment",
        Varied::Commands => "command",
    }
}

/// Names in a sentence: `standard, light and heavy`.
pub(crate) fn enumerated(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_their_last_words_do_so_when_they_are_cut() {
        let cut = |name: &str| short_in_the_middle(&format!("sched=ext:/opt/schedulers/bin/{name}"), 20);
        assert_eq!([cut("scx_rusty"), cut("scx_flash")], ["sched=…bin/scx_rusty", "sched=…bin/scx_flash"]);
        assert_eq!(short_in_the_middle("sched=heavy", 11), "sched=heavy");
        assert_eq!(short_in_the_middle("ééé", 2), "…é");
        assert_eq!(short_in_the_middle("ééé", 0), "…");
    }
}
