//! That busy threads of several processes were put on one CPU, and what to do about it, in English.

use super::counted;
use crate::words::count;
use crate::words::shape_in_words;
use study::crowding::{Crowd, Crowding};

/// What a headline says first of a subject whose processes took turns.
pub(super) fn qualified(text: &str, crowding: &Crowding) -> String {
    let text = text.strip_suffix('.').unwrap_or(text);
    format!("{} were put on the same CPU under {}: {text}.", processes(&crowding.crowd), place(crowding))
}

/// The whole of it in a sentence of its own.
pub(super) fn sentence(subject: &str, crowding: &Crowding) -> String {
    let Crowding { crowd, trials, of, cells, .. } = crowding;
    let (cpus, idle) = (crowd.cpus.named(), crowd.idle.named());
    let verb = if crowd.idle.len() == 1 { "was" } else { "were" };
    let more = match cells - 1 {
        0 => String::new(),
        more => format!(", and so it was under {}", count(more as usize, "more placement")),
    };
    format!(
        "{subject}: under {}, busy threads of {} processes took turns on {cpus} while {idle} {verb} idle ({trials} of {}){more}. Every process \
         takes the CPUs of a placement from the first on: --unit process gives each process a CPU, and --skip leaves a launcher such \
         as mpirun alone.",
        place(crowding),
        crowd.processes,
        counted(*of, "trial"),
    )
}

/// `busy threads of 2 processes`.
pub(crate) fn processes(crowd: &Crowd) -> String {
    format!("busy threads of {} processes", crowd.processes)
}

fn place(Crowding { threads, placement, .. }: &Crowding) -> String {
    format!("{placement} with {}", shape_in_words(*threads))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowding(idle: &str, cells: u32) -> Crowding {
        let crowd = Crowd { cpus: "0".parse().unwrap(), processes: 2, idle: idle.parse().unwrap() };
        Crowding { threads: 2.into(), placement: "compact".into(), crowd, trials: 8, of: 8, cells }
    }

    #[test]
    fn a_headline_says_first_that_processes_shared_a_cpu() {
        assert_eq!(
            qualified("where its threads run matters, by up to 90.0 %.", &crowding("1", 1)),
            "busy threads of 2 processes were put on the same CPU under compact with 2 threads: where its threads run matters, by up \
             to 90.0 %."
        );
    }

    #[test]
    fn the_warning_says_where_and_what_to_do() {
        let told = sentence("./hyb", &crowding("1", 1));
        let begin = "./hyb: under compact with 2 threads, busy threads of 2 processes took turns on CPU 0 while CPU 1 was idle (8 of 8 trials). ";
        assert!(told.starts_with(begin), "{told}");
        assert!(told.contains("--unit process") && told.contains("--skip"), "{told}");
        let told = sentence("./hyb", &crowding("1-3", 3));
        assert!(
            told.contains("while CPUs 1-3 were idle (8 of 8 trials), and so it was under 2 more placements."),
            "{told}"
        );
    }
}
