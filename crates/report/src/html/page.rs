//! What every page has: the document around it that loads nothing, its head, and sections that the head links to.

use crate::glossary::Entry;
use crate::words::plain;
use base64::Engine;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};
use study::HostFacts;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// What wrote the page, by which it is known as ours.
const GENERATOR: &str = "Stayput";

/// Whether a file that begins with these bytes is a page that Stayput has written.
pub fn is_page(begin: &[u8]) -> bool {
    let head = String::from_utf8_lossy(begin);
    let generator = format!("<meta name=\"generator\" content=\"{GENERATOR}\">");
    // Pages of version 0.1 don't name what wrote them.
    head.contains(&generator) || head.contains(": where its threads run best</title>")
}

/// A part of a page.
pub(super) struct Section {
    heading: Heading,
    body: Markup,
}

/// What stands above a section.
pub(super) struct Heading {
    /// Where links to it lead.
    id: &'static str,
    /// What the link in the page's head says.
    link: &'static str,
    text: String,
}

pub(super) fn heading(id: &'static str, link: &'static str, text: impl Into<String>) -> Heading {
    Heading { id, link, text: text.into() }
}

impl Heading {
    pub(super) fn above(self, body: Markup) -> Section {
        Section { heading: self, body }
    }
}

/// All sections below one another.
pub(super) fn main(sections: &[Section]) -> Markup {
    html! {
        main {
            @for Section { heading, body } in sections {
                section #(heading.id) {
                    h2 { (heading.text) }
                    (body)
                }
            }
        }
    }
}

/// Links to the sections of a page.
pub(super) fn links(sections: &[Section]) -> Markup {
    html! { @for Section { heading, .. } in sections { a href={ "#" (heading.id) } { (heading.link) } } }
}

/// The head of a page: the answers, and the notices that limit them.
pub(crate) fn head(title: Markup, answers: Markup, notices: &[Markup], links: Markup) -> Markup {
    html! {
        header {
            div.bar {
                h1 { (title) }
                button.script-only #theme type="button" hidden { "Dark" }
            }
            div.answers { (answers) }
            @if !notices.is_empty() {
                div.notice { ul { @for notice in notices { li { (notice) } } } }
            }
            nav aria-label="Sections" { (links) }
        }
    }
}

/// The warnings of a study as notices.
pub(super) fn notices(warnings: &[String]) -> impl Iterator<Item = Markup> {
    warnings.iter().map(|warning| html! { (plain(warning)) })
}

/// What whoever passes a page on should know of it.
const HOLDS: &str = "It holds command lines, the last of what runs printed, and variables that reach OpenMP runtimes, allocators and \
                     the loader; values whose names say that they are secret are left out";

/// The page of a study, whose data as JSON is `json`.
pub(super) fn study_page(host: &HostFacts, title: &str, head: &Markup, sections: &[Section], json: &str) -> String {
    let body = html! {
        (head)
        (main(sections))
    };
    let made_by = format!("{} from the study's journal alone. {HOLDS}", host.stayput_version);
    document(title, "", &body, &made_by, "study", json)
}

/// The entries of a glossary.
pub(crate) fn entries(all: impl IntoIterator<Item = Entry>) -> Markup {
    html! { @for (word, meaning) in all { dt { (word) } dd { (meaning) } } }
}

/// The section that explains the page's words, each a `dt` and its `dd`.
pub(super) fn reading(entries: Markup) -> Section {
    heading("reading", "How to read", "How to read this").above(html! { dl.wide { (entries) } })
}

/// A page around `body`, with `style` beside the style of all pages: nothing is loaded, and its data is embedded as the element `id`.
/// `made_by` is the version of Stayput, and of what it made the page.
pub(crate) fn document(title: &str, style: &str, body: &Markup, made_by: &str, id: &str, json: &str) -> String {
    // Only this very script may run and nothing may be loaded: what a subject is called can't change that.
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(SCRIPT));
    let policy = format!("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'");
    // A `<` only ever stands inside JSON's strings, where it may be written as a number.
    let json = json.replace('<', "\\u003c");
    let content = html! {
        (body)
        footer {
            p {
                "Made by Stayput " (made_by) ". The data as JSON is inside this file, in the element " code { "#" (id) } "."
            }
        }
    };
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="generator" content=(GENERATOR);
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(policy);
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(style)) }
            }
            body {
                (PreEscaped(with_percentages_whole(&content.into_string())))
                script type="application/json" id=(id) { (PreEscaped(::terminal::printable_json(&json).as_ref())) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// `markup` with a no-break space between each number and its `%`, but for `<pre>`, which holds commands to paste.
fn with_percentages_whole(markup: &str) -> String {
    let mut whole = String::with_capacity(markup.len());
    for part in markup.split_inclusive("</pre>") {
        let (prose, verbatim) = part.split_at(part.find("<pre").unwrap_or(part.len()));
        for (index, piece) in prose.split(" %").enumerate() {
            if index > 0 {
                whole.push_str(if whole.ends_with(|c: char| c.is_ascii_digit()) { "\u{a0}%" } else { " %" });
            }
            whole.push_str(piece);
        }
        whole.push_str(verbatim);
    }
    whole
}
