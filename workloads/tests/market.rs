//! Matrix Market files given to Cholesky: matrices of five structures, and files that are none.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod built;

use built::{built, lines, number, run, text};
use std::fmt::Write as _;
use std::fs;

/// Numbers in [0, 1), the same in every run: a linear congruential generator with Knuth's constants (TAOCP 3.3.4).
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() * count as f64) as usize
    }
}

/// A positive definite matrix with elements at the places below the diagonal.
fn market(rows: usize, places: &[(usize, usize)]) -> String {
    let mut draws = Draws(17);
    let mut places = places.to_vec();
    places.sort_unstable();
    places.dedup();
    let mut diagonal = vec![1.0; rows];
    let mut file = format!(
        "%%MatrixMarket matrix coordinate real symmetric\n% made by a test\n{rows} {rows} {}\n",
        rows + places.len()
    );
    for (row, column) in places {
        let value = 2.0 * draws.next() - 1.0;
        diagonal[row] += value.abs();
        diagonal[column] += value.abs();
        writeln!(file, "{} {} {value:e}", row + 1, column + 1).unwrap();
    }
    for (row, value) in diagonal.iter().enumerate() {
        writeln!(file, "{0} {0} {value:e}", row + 1).unwrap();
    }
    file
}

/// Row and column of elements below the diagonal.
type Places = Vec<(usize, usize)>;

/// Name, rows, and where elements are.
fn structures() -> Vec<(&'static str, usize, Places)> {
    let mut draws = Draws(4);
    let side = 45;
    let grid = (0..side * side).flat_map(|node| {
        let left = (node % side > 0).then(|| (node, node - 1));
        let above = (node >= side).then(|| (node, node - side));
        left.into_iter().chain(above)
    });
    let random = (1..1500).flat_map(|row| [(row, draws.below(row)), (row, draws.below(row))]);
    vec![
        ("grid", side * side, grid.collect()),
        ("random", 1500, random.collect()),
        ("arrow", 2000, (1..2000).map(|row| (row, 0)).collect()),
        (
            "banded",
            1800,
            (1..1800).flat_map(|row: usize| (row.saturating_sub(9)..row).map(move |c| (row, c))).collect(),
        ),
        ("blocks", 1600, (1..1600).flat_map(|row| (row / 64 * 64..row).map(move |c| (row, c))).collect()),
    ]
}

#[test]
fn matrices_of_five_structures_are_solved_alike_by_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    for (name, rows, places) in structures() {
        let path = folder.path().join(format!("{name}.mtx"));
        fs::write(&path, market(rows, &places)).unwrap();
        let mut residuals = Vec::new();
        for threads in [1, 2, 5, 16] {
            let output = run(built!("affinity-cholesky").executable, &[path.to_str().unwrap()], threads);
            assert_eq!(output.status.code(), Some(0), "{name} with {threads} threads: {output:?}");
            let lines = lines(&output);
            assert_eq!(number(&lines, "rows") as usize, rows, "{name}");
            residuals.push(lines["residual"].to_owned());
        }
        println!("{name}: residual {}", residuals[0]);
        assert!(residuals[0].split_whitespace().next().unwrap().parse::<f64>().unwrap() < 1e-12);
        assert!(residuals.iter().all(|residual| *residual == residuals[0]), "{name}: {residuals:?}");
    }
}

/// Whoever eliminates the arrow's head first has two million elements, and a chain in any order but the best ones has more.
#[test]
fn minimum_degree_leaves_what_has_no_fill_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tree.mtx");
    let arrow: Vec<(usize, usize)> = (1..2000).map(|row| (row, 0)).collect();
    let tree: Vec<(usize, usize)> = (1..2000).map(|row| (row, (row - 1) / 2)).collect();
    for places in [arrow, tree] {
        fs::write(&path, market(2000, &places)).unwrap();
        let output = run(built!("affinity-cholesky").executable, &[path.to_str().unwrap()], 2);
        assert_eq!(number(&lines(&output), "elements of the factor") as usize, 2000 + places.len());
    }
}

#[test]
fn a_pattern_becomes_a_positive_definite_matrix() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pattern.mtx");
    fs::write(&path, "%%MatrixMarket matrix coordinate pattern symmetric\n4 4 4\n2 1\n3 2\n4 3\n4 4\n").unwrap();
    let output = run(built!("affinity-cholesky").executable, &[path.to_str().unwrap()], 2);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(lines(&output)["elements below the diagonal"], "3");
}

#[test]
fn files_that_are_no_such_matrix_are_one_sentence() {
    const REAL: &str = "%%MatrixMarket matrix coordinate real symmetric\n";
    let real = |rest: &str| format!("{REAL}{rest}");
    let cases = [
        (String::new(), "line 1 isn't `%%MatrixMarket matrix coordinate real symmetric'"),
        ("1 1 1\n".into(), "line 1 isn't `%%MatrixMarket"),
        ("%%MatrixMarket matrix array real symmetric\n1 1\n1\n".into(), "it is a `matrix array'"),
        ("%%MatrixMarket matrix coordinate complex symmetric\n1 1 1\n1 1 1 0\n".into(), "its elements are `complex'"),
        ("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n".into(), "it is `general'"),
        ("%%MatrixMarket matrix coordinate real skew-symmetric\n1 1 1\n1 1 1\n".into(), "it is `skew-symmetric'"),
        (real("% only a comment\n"), "it ends before its line of sizes"),
        (real("3 3\n1 1 1\n"), "line 2 isn't `rows columns elements'"),
        (real("0 0 0\n"), "line 2 isn't `rows columns elements'"),
        (real("-3 3 3\n"), "line 2 isn't `rows columns elements'"),
        (real("99999999999999999999 1 1\n1 1 1\n"), "line 2 isn't `rows columns elements'"),
        (real("2 3 2\n1 1 1\n2 2 1\n"), "it has 2 rows and 3 columns, and must be square"),
        (
            real("1000000000 1000000000 1000000000\n1 1 1\n"),
            "line 2 tells of 1000000000 elements, more than the file has",
        ),
        (real("2000000000 2000000000 1\n1 1 1\n"), "it has 1 elements in 2000000000 rows"),
        (real("2 2 3\n1 1 4\n2 1 1\n"), "it ends after 2 of its 3 elements"),
        (real("2 2 2\n1 1 4\n2 2 4\n2 1 1\n"), "line 5 comes after its last element"),
        (real("2 2 2\n1 1 nan\n2 2 4\n"), "line 3 has no finite number"),
        (real("2 2 2\n1 1 1e999\n2 2 4\n"), "line 3 has no finite number"),
        (real("2 2 2\n1 1\n2 2 4\n"), "line 3 has no finite number"),
        (real("2 2 2\n1 1 4 5\n2 2 4\n"), "line 3 goes on behind its element"),
        (real("2 2 2\n1 1 4\n3 2 4\n"), "line 4 doesn't begin with a row and a column from 1 to 2"),
        (real("2 2 2\n1 2 4\n2 2 4\n"), "line 3 has an element above the diagonal"),
        (real("2 2 3\n1 1 4\n2 2 4\n2 2 4\n"), "row 2 of column 2 comes twice"),
        (real("2 2 2\n1 1 4\n2 1 4\n"), "column 2 has no diagonal element"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.mtx");
    for (file, expected) in cases {
        fs::write(&path, &file).unwrap();
        let output = run(built!("affinity-cholesky").executable, &[path.to_str().unwrap()], 2);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{file}: {output:?}");
        let sentence = format!("affinity-cholesky: {}: {expected}", path.display());
        assert!(said.starts_with(&sentence) && said.lines().count() == 1, "{file}: {said}");
    }
    let output = run(built!("affinity-cholesky").executable, &["./no-such-file.mtx"], 2);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "affinity-cholesky: ./no-such-file.mtx: it can't be opened: No such file or directory\n"
    );
}

#[test]
fn a_matrix_that_is_not_positive_definite_is_told_with_its_column_by_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("indefinite.mtx");
    // Of 400 rows in a chain, 250 has a negative pivot whatever comes before it; others follow from it or not.
    let mut file = market(400, &(1..400).map(|row| (row, row - 1)).collect::<Vec<_>>());
    let diagonal = file.lines().position(|line| line.starts_with("250 250 ")).unwrap();
    let lines: Vec<&str> = file.lines().collect();
    file = lines
        .iter()
        .enumerate()
        .map(|(i, line)| if i == diagonal { "250 250 -3\n".into() } else { format!("{line}\n") })
        .collect();
    fs::write(&path, file).unwrap();
    let mut said = Vec::new();
    for threads in [1, 2, 7, 16] {
        let output = run(built!("affinity-cholesky").executable, &[path.to_str().unwrap()], threads);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        said.push(text(&output.stderr).to_owned());
    }
    assert!(said[0].contains("the matrix isn't positive definite: the pivot of column 250 is -"), "{said:?}");
    assert!(said.iter().all(|sentence| *sentence == said[0]), "{said:?}");
}
