//! What the placement papers' texts say, judged by what they print.

use papers::paper::{Paper, Quantity};
use papers::placement;
use papers::reproduction::{JudgedClaim, Verdict};
use std::collections::BTreeSet;

fn judged(paper: &Paper, check: &str) -> JudgedClaim {
    let number = paper.claims.iter().position(|claim| claim.check == check).unwrap();
    placement(paper, None).unwrap().claims.swap_remove(number)
}

/// Verdict and reason of a claim of a paper as it is.
fn verdict(name: &str, check: &str) -> (Verdict, String) {
    let claim = judged(Paper::named(name).unwrap(), check);
    (claim.verdict, claim.why)
}

/// What becomes of a claim when other times are printed in its first table: benchmark, placement, threads, seconds.
fn verdict_with(name: &str, check: &str, times_s: &[(&str, &str, u32, &str)]) -> Verdict {
    let mut paper = Paper::named(name).unwrap().clone();
    let table = &mut paper.tables[0];
    for (benchmark, placement, threads, time_s) in times_s {
        let column = table.threads.iter().position(|count| count == threads).unwrap();
        let row = table.rows.iter_mut().find(|row| {
            (row.benchmark.as_str(), row.placement.as_deref(), row.quantity)
                == (benchmark, Some(placement), Quantity::Time)
        });
        row.unwrap().printed[column] = Some(time_s.parse().unwrap());
    }
    judged(&paper, check).verdict
}

#[test]
fn every_claim_has_a_check_of_its_own_that_computes() {
    for name in Paper::names() {
        let paper = Paper::named(name).unwrap();
        let checks: BTreeSet<&str> = paper.claims.iter().map(|claim| claim.check.as_str()).collect();
        assert_eq!(checks.len(), paper.claims.len(), "{name}");
        for claim in placement(paper, None).unwrap().claims {
            assert_ne!(claim.why, "nothing is computed for it", "{name}: {claim:?}");
            assert!(!claim.why.is_empty() && !claim.why.contains("NaN"), "{name}: {claim:?}");
        }
    }
}

#[test]
fn what_the_tables_contradict_fails() {
    let contradicted = [
        ("pires-2016", "compact-faster-only-with-8", "EP.B with 2 threads"),
        ("pires-2016", "small-gains", "FT.B with 8 threads 3.6"),
        ("pires-2017", "most-with-32-and-64", "SP.C"),
        ("pires-2017", "modules-rarely-shared", "16 threads share a module: 91.9"),
        ("pires-2017", "class-a-over-c", "A less C with 32 threads -8"),
        ("pires-2017", "all-gain-with-32-and-64", "EP.C with 64 threads"),
        ("pires-2017", "only-sp-notable", "CG.A with 2 threads"),
        ("weber-2010", "mappings-exist", "balanced has as sets 16 of 2 CPUs, 0 of 4 CPUs, 0 of 8 CPUs"),
        ("weber-2010", "figure-printed", "numbers that have come down to us, of 16: 0"),
        ("weber-2010", "runs-introduced", "\"these 10 runs\", but no number of runs is told before"),
        ("pires-2016", "compact-generally-slower", "EP.B with 2 threads -0.45"),
        ("pires-2016", "gains-over-deviation", "LU.B with 8 threads 1.6"),
        ("pires-2016", "measured-anew", "12 of 12"),
        ("pires-2016", "more-threads-help", "BT.B unbound takes 81.6 s with 4 and 95.6 s with 8 threads"),
        ("pires-2016", "uniform-memory", "memory nodes in our preset xeon-e5620: 2"),
        ("pires-2016", "cited-exist", "there is no Figure 4"),
        ("pires-2017", "uniform-memory", "memory nodes in our preset opteron-6272: 8"),
        ("pires-2017", "shared-caches", "8192 KiB, shared by 8"),
        ("pires-2017", "lists-called-right", "is scatter with 7"),
        ("pires-2017", "class-a-in-l1", "FT.A keeps one array of 128 MiB"),
    ];
    for (paper, check, deciding) in contradicted {
        let (verdict, why) = verdict(paper, check);
        assert_eq!(verdict, Verdict::Fails, "{paper}, {check}: {why}");
        assert!(why.contains(deciding), "{paper}, {check}: {why}");
    }
}

#[test]
fn what_the_tables_bear_out_holds() {
    let borne_out = [
        ("pires-2016", "one-thread"),
        ("pires-2016", "compact-often-slower"),
        ("pires-2016", "times-as-fast"),
        ("pires-2016", "compact-is-scatter"),
        ("pires-2017", "one-thread"),
        ("pires-2017", "little-change"),
        ("pires-2017", "ratios-of-times"),
        ("pires-2016", "distributed-memory"),
        ("pires-2017", "distributed-memory"),
        ("pires-2016", "shared-caches"),
        ("pires-2016", "lists-called-right"),
        ("pires-2017", "cited-exist"),
    ];
    for (paper, check) in borne_out {
        let (verdict, why) = verdict(paper, check);
        assert_eq!(verdict, Verdict::Holds, "{paper}, {check}: {why}");
    }
    assert!(verdict("pires-2016", "compact-is-scatter").1.contains("12 of 12 are printed alike"));
    assert!(verdict("pires-2017", "ratios-of-times").1.starts_with("so of all 70; 5 differ"));
}

#[test]
fn what_rounding_or_a_missing_figure_leaves_open_is_undecidable() {
    for (paper, check) in [
        ("pires-2016", "scatter-over-compact"),
        ("weber-2010", "speed-ups"),
        ("weber-2010", "balanced-first"),
        ("weber-2010", "bound-varies-less"),
    ] {
        let (verdict, why) = verdict(paper, check);
        assert_eq!(verdict, Verdict::Undecidable, "{paper}, {check}: {why}");
    }
}

#[test]
fn a_verdict_follows_the_printed_number() {
    let ft_and_lu_swapped =
        [("FT", "unbound", 8, "13.94"), ("FT", "compact", 8, "13.80"), ("LU", "unbound", 8, "45.4")];
    assert_eq!(verdict_with("pires-2016", "small-gains", &ft_and_lu_swapped), Verdict::Holds);
    let only_with_8 =
        |time_s| verdict_with("pires-2016", "compact-faster-only-with-8", &[("EP", "compact", 2, time_s)]);
    assert_eq!(only_with_8("44.4"), Verdict::Holds);
    assert_eq!(only_with_8("44.3"), Verdict::Undecidable, "equal but for rounding");
    let other_time = [("CG", "unbound", 64, "0.30")];
    assert_eq!(verdict_with("pires-2017", "ratios-of-times", &other_time), Verdict::Fails);
}

/// What becomes of a claim of a paper that says something else.
fn verdict_if(name: &str, check: &str, otherwise: impl Fn(&mut Paper)) -> (Verdict, String) {
    let mut paper = Paper::named(name).unwrap().clone();
    otherwise(&mut paper);
    let claim = judged(&paper, check);
    (claim.verdict, claim.why)
}

#[test]
fn a_verdict_follows_what_the_text_says() {
    let holds = |name: &str, check: &str, otherwise: &dyn Fn(&mut Paper)| {
        let (verdict, why) = verdict_if(name, check, otherwise);
        assert_eq!(verdict, Verdict::Holds, "{name}, {check}: {why}");
    };
    holds("pires-2016", "cited-exist", &|paper| paper.references.cited[1] = "Figure 1".into());
    holds("pires-2017", "lists-called-right", &|paper| paper.cpu_lists[0].called = "scatter".into());
    holds("pires-2017", "uniform-memory", &|paper| paper.machine = "xeon-e5405".into());
    holds("pires-2017", "class-a-in-l1", &|paper| {
        paper.arrays.iter_mut().for_each(|array| array.grid = vec![32, 32, 32])
    });
    holds("weber-2010", "runs-introduced", &|paper| {
        let mut before = paper.run_mentions[0].clone();
        before.refers_back = false;
        paper.run_mentions.insert(0, before);
    });
}

#[test]
fn tables_that_differ_in_the_last_digit_may_have_been_measured_anew() {
    let off_by_a_digit = |paper: &mut Paper| {
        for row in &mut paper.tables[1].rows {
            for cell in row.printed.iter_mut().flatten() {
                cell.value += 0.1;
            }
        }
    };
    let (verdict, why) = verdict_if("pires-2016", "measured-anew", off_by_a_digit);
    assert_eq!(verdict, Verdict::Holds, "{why}");
    assert!(why.starts_with("0 of 12"), "{why}");
}

#[test]
fn times_that_fall_with_threads_contradict_nothing() {
    let bt = [("BT", "unbound", 8, "47.0")];
    assert_eq!(verdict_with("pires-2016", "more-threads-help", &bt), Verdict::Holds);
    let slower = [("EP", "compact", 2, "46.0"), ("BT", "compact", 2, "163.0"), ("LU", "compact", 2, "155.0")];
    assert_eq!(verdict_with("pires-2016", "compact-generally-slower", &slower), Verdict::Holds);
    assert_eq!(verdict_with("pires-2016", "gains-over-deviation", &[("LU", "unbound", 8, "46.0")]), Verdict::Holds);
}
