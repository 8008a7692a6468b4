//! `--sweep phi=0-24/2`: a parameter and the values that it goes through.

use std::str::FromStr;

/// More points than anyone would look at.
const MOST_POINTS: usize = 1_000;

/// A parameter and its values, in the order given.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sweep {
    /// Its name.
    pub parameter: String,
    /// At least one, each once, all finite and none negative.
    pub values: Vec<f64>,
}

impl FromStr for Sweep {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let bad =
            || format!("`{text}` is no sweep; write a parameter and its values, as phi=0-24/2 or quantum_ms=10,30,100");
        let (parameter, list) = text.split_once('=').ok_or_else(bad)?;
        let mut values: Vec<f64> = Vec::new();
        for word in list.split(',').map(str::trim) {
            for value in range(word).ok_or_else(bad)? {
                if values.len() == MOST_POINTS {
                    return Err(format!("`{text}` has more than {MOST_POINTS} points; take larger steps"));
                }
                if !values.contains(&value) {
                    values.push(value);
                }
            }
        }
        // The flags of the same name have hyphens.
        Ok(Self { parameter: parameter.trim().replace('-', "_"), values })
    }
}

/// The values of `3`, `0-24` or `0-24/2`.
fn range(word: &str) -> Option<impl Iterator<Item = f64>> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| (0.0..=1e12).contains(value));
    let (ends, step) = word.split_once('/').map_or((word, Some(1.0)), |(ends, step)| (ends, number(step)));
    let (first, last, step) = match ends.split_once('-') {
        Some((first, last)) => (number(first)?, number(last)?, step?),
        // A step leads nowhere from a single value.
        None => (number(word)?, number(word)?, 1.0),
    };
    // Decimal steps aren't exact: what they lead to is rounded to what was meant.
    let at = move |index: usize| ((first + index as f64 * step) * 1e9).round() / 1e9;
    (step > 0.0 && first <= last).then(|| (0..).map(at).take_while(move |&value| value <= last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbers_ranges_and_steps() {
        let values = |text: &str| text.parse::<Sweep>().unwrap().values;
        assert_eq!(values("phi=0-24/6"), [0.0, 6.0, 12.0, 18.0, 24.0]);
        assert_eq!(values("phi=0-3"), [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(values("quantum_ms=10, 30,100"), [10.0, 30.0, 100.0]);
        assert_eq!(values("caches=0.1-0.5/0.2,0.5,1-2"), [0.1, 0.3, 0.5, 1.0, 2.0]);
        assert_eq!("phi = 1".parse::<Sweep>().unwrap().parameter, "phi");
        assert_eq!("quantum-ms=10".parse::<Sweep>().unwrap().parameter, "quantum_ms");
    }

    #[test]
    fn what_is_no_sweep_is_refused_with_an_example() {
        for text in [
            "phi",
            "phi=",
            "phi=a",
            "phi=3-1",
            "phi=0-24/0",
            "phi=-1",
            "phi=0-24/-2",
            "phi=1/2",
            "phi=nan",
            "phi=1-inf",
        ] {
            let error = text.parse::<Sweep>().unwrap_err();
            assert!(error.contains("as phi=0-24/2"), "{text}: {error}");
        }
        assert!("phi=0-1000000".parse::<Sweep>().unwrap_err().contains("more than 1000 points"));
    }
}
