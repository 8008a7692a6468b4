//! Placements of ranks x threads: lists worked out by hand, and promises on any machine.

#![expect(clippy::unwrap_used, reason = "in a test, a failed unwrap is a failed test")]

use proptest::prelude::*;
use stayput_machine::{CpuId, Kind, Machine, RankLevel, RankPlacement, RankPolicy, RankShape, RankSyntax};
use std::collections::{BTreeMap, BTreeSet};

fn placed(policy: &str, shape: &str, machine: &str) -> RankPlacement {
    let machine = Machine::named(machine).unwrap();
    policy.parse::<RankPolicy>().unwrap().place(&machine, shape.parse().unwrap()).unwrap()
}

/// Two packages with two L3 each, four cores an L3, two hardware threads a core; NUMA nodes by package.
const NODE: &str = "pack:2 numa:1 l3:2 core:4 pu:2";

#[test]
fn ranks_are_dealt_out_as_the_rule_says() {
    let lists = [
        ("ranks=compact:l3,threads=compact", "4x2", "0,1/2,3/4,5/6,7"),
        ("ranks=scatter:package,threads=compact", "4x2", "0,1/16,17/8,9/24,25"),
        ("ranks=balanced:package,threads=compact", "4x2", "0,1/8,9/16,17/24,25"),
        ("ranks=scatter:l3,threads=scatter", "4x4", "0,2,4,6/16,18,20,22/8,10,12,14/24,26,28,30"),
        ("ranks=balanced:numa,threads=scatter", "2x4", "0,8,2,10/16,24,18,26"),
        ("ranks=balanced,threads=compact", "2x3", "0,1,2/16,17,18"),
        (
            "ranks=balanced:core,threads=compact",
            "16x2",
            "0,1/2,3/4,5/6,7/8,9/10,11/12,13/14,15/16,17/18,19/20,21/22,23/24,25/26,27/28,29/30,31",
        ),
        ("scatter", "2x2", "0,16/8,24"),
        ("compact", "2x2", "0,1/2,3"),
        ("3,5/9,8", "2x2", "3,5/9,8"),
    ];
    for (policy, shape, list) in lists {
        assert_eq!(placed(policy, shape, NODE).to_string(), list, "{policy} {shape}");
    }
}

#[test]
fn what_a_policy_is_called_makes_it_again() {
    for policy in ["ranks=scatter:numa,threads=compact", "ranks=balanced:l2,threads=scatter", "balanced", "0,1/2,3"] {
        assert_eq!(policy.parse::<RankPolicy>().unwrap().to_string(), policy);
    }
    assert_eq!("threads=scatter".parse::<RankPolicy>().unwrap().to_string(), "ranks=balanced:node,threads=scatter");
}

#[test]
fn ranks_per_object_make_the_number_of_ranks() {
    let machine = Machine::named(NODE).unwrap();
    let shape = |level: &str, count, threads| {
        RankPolicy::shape_per(&machine, level.parse::<RankLevel>().unwrap(), count, threads).unwrap().to_string()
    };
    assert_eq!(shape("node", 1, None), "1x32");
    assert_eq!(shape("package", 1, None), "2x16");
    assert_eq!(shape("numa", 2, Some(4)), "4x4");
    assert_eq!(shape("l3", 1, None), "4x8");
    assert_eq!(shape("core", 1, Some(1)), "16x1");
}

#[test]
fn what_can_not_be_is_said_in_a_sentence() {
    let error = |policy: &str| policy.parse::<RankPolicy>().unwrap_err().to_string();
    assert!(error("ranks=spread:numa").contains("does not say where ranks go"));
    assert!(error("ranks=scatter:socket").contains("`socket` is no level of a machine"));
    assert!(error("ranks=scatter,threads=0-3").contains("does not say where ranks go"));
    for text in ["0x4", "4x0", "x", "4", "4x", "-1x2", "4x8x2", "99999999999999999999x1"] {
        assert!(text.parse::<RankShape>().unwrap_err().to_string().contains("is no number of ranks"), "{text}");
    }
    assert!("4096x4096".parse::<RankShape>().unwrap_err().to_string().contains("the most that are placed"));
    let machine = Machine::named("core:4 pu:1").unwrap();
    let place = |policy: &str, shape: &str| {
        policy.parse::<RankPolicy>().unwrap().place(&machine, shape.parse().unwrap()).unwrap_err().to_string()
    };
    assert!(place("ranks=scatter:l3", "2x2").contains("has no l3 with a usable CPU"));
    assert!(place("0,1/2,3", "4x1").contains("has CPUs for 2 ranks of 2 threads, and 4x1 are asked for"));
    assert!(place("0,1/2,9", "2x2").contains("CPU 9"));
}

#[test]
fn launchers_are_told_in_their_own_words() {
    // On this machine the kernel numbers the second hardware threads after all first ones.
    let machine = Machine::named("xeon-e5620").unwrap();
    let placement = "0,4/1,5".parse::<RankPolicy>().unwrap().place(&machine, "2x2".parse().unwrap()).unwrap();
    let texts: Vec<(RankSyntax, &str)> = vec![
        (RankSyntax::List, "0,4/1,5"),
        (
            RankSyntax::Openmpi4,
            "# mpirun -n 2 --mca rmaps_rank_file_physical 1 --rankfile FILE ./app\nrank 0=localhost slot=0,4\nrank 1=localhost slot=1,5",
        ),
        (RankSyntax::Mpich, "mpiexec -n 2 -bind-to user:0+4,1+5"),
        (RankSyntax::IntelMpi, "I_MPI_PIN=1 I_MPI_PIN_DOMAIN=\"[11,22]\" mpiexec -n 2"),
        (RankSyntax::Slurm, "srun -n2 -c2 --cpu-bind=mask_cpu:0x11,0x22"),
        (
            RankSyntax::Sbatch,
            "#!/bin/sh\n#SBATCH --nodes=1\n#SBATCH --exclusive\n#SBATCH --ntasks=2\n#SBATCH --overcommit\n\
             # 0,4/1,5: the CPUs of each thread, rank by rank, of a node of the kind that this was made for.\n\
             # sbatch FILE ./app input.dat\n\
             srun --nodes=1 --ntasks=2 --overcommit --cpu-bind=mask_cpu:0x11,0x22 sh -c 'case $SLURM_LOCALID in \
             0) p=\"{0},{4}\";; 1) p=\"{1},{5}\";; esac; \
             exec env OMP_NUM_THREADS=2 OMP_PROC_BIND=close OMP_PLACES=\"$p\" \"$@\"' sh \"$@\"",
        ),
        (RankSyntax::Flux, "flux run -n 2 -c 2 -o cpu-affinity='map:0,4;1,5'"),
    ];
    for (syntax, text) in texts {
        assert_eq!(syntax.text(&placement, &machine), text);
        assert_eq!(syntax.to_string().parse::<RankSyntax>().unwrap(), syntax);
    }
    let error = "ompi".parse::<RankSyntax>().unwrap_err().to_string();
    assert!(error.contains("list, openmpi4, openmpi5, mpich, intel-mpi, slurm, sbatch, flux, json"), "{error}");
}

#[test]
fn open_mpi_5_counts_hardware_threads_in_tree_order() {
    let machine = Machine::named("opteron-6272").unwrap();
    let placement = "scatter".parse::<RankPolicy>().unwrap().place(&machine, "2x1".parse().unwrap()).unwrap();
    let logical = |cpu: u32| machine.pus().iter().position(|pu| pu.cpu == CpuId(cpu)).unwrap();
    let text = RankSyntax::Openmpi5.text(&placement, &machine);
    assert!(
        text.ends_with(&format!("rank 0=localhost slot={}\nrank 1=localhost slot={}", logical(0), logical(16))),
        "{text}"
    );
}

fn loads(placement: &RankPlacement, machine: &Machine, kind: Kind) -> Vec<usize> {
    let mut loads: BTreeMap<_, usize> =
        machine.objects().filter(|(_, object)| object.kind == kind).map(|(index, _)| (index, 0)).collect();
    for cpu in placement.row().cpus().unwrap() {
        *loads.get_mut(&machine.enclosing(cpu, kind).unwrap()).unwrap() += 1;
    }
    loads.into_values().collect()
}

/// The CPUs of each rank, read from an export by the grammar of its launcher, with all that is around them as it has to be.
///
/// - Open MPI 4, mpirun(1): `rank <N>=<host> slot=<list>`, by the kernel's numbers with `rmaps_rank_file_physical`; Open MPI 5,
///   prterun(1): the same, by positions in hwloc's tree, of hardware threads with `hwtcpus`.
/// - Hydra, `mpiexec -bind-to -help`: `user:<cpu>[+<cpu>...][,...]`.
/// - Intel MPI, developer reference, I_MPI_PIN_DOMAIN: `[<mask>,...]`, each hexadecimal, bit i for CPU i.
/// - Slurm, srun(1): `mask_cpu:<mask>,...`, hexadecimal with or without `0x`.
/// - Flux, flux-shell(1): `map:<list>;...`, each a list or a mask in hwloc's form.
fn read(syntax: RankSyntax, text: &str, machine: &Machine, shape: RankShape) -> Option<Vec<BTreeSet<u32>>> {
    let list = |text: &str, separator: char| {
        text.split(separator).map(|cpu| cpu.parse::<u32>().ok()).collect::<Option<BTreeSet<u32>>>()
    };
    let mask = |text: &str| {
        let digits: Vec<u32> = text.chars().rev().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
        let bits = |(at, digit): (usize, &u32)| {
            (0..4).filter(|bit| digit >> bit & 1 == 1).map(|bit| 4 * at as u32 + bit).collect::<Vec<_>>()
        };
        Some(digits.iter().enumerate().flat_map(bits).collect::<BTreeSet<u32>>())
    };
    let (n, threads) = (shape.ranks, shape.threads);
    match syntax {
        RankSyntax::Openmpi4 | RankSyntax::Openmpi5 => {
            let command = match syntax {
                RankSyntax::Openmpi4 => {
                    format!("# mpirun -n {n} --mca rmaps_rank_file_physical 1 --rankfile FILE ./app")
                }
                _ => format!("# mpirun -n {n} --map-by rankfile:file=FILE:hwtcpus ./app"),
            };
            let mut lines = text.lines();
            assert_eq!(lines.next(), Some(command.as_str()));
            let of_rank = |(rank, line): (usize, &str)| {
                let numbers = list(line.strip_prefix(&format!("rank {rank}=localhost slot="))?, ',')?;
                let cpu = |number: u32| match syntax {
                    RankSyntax::Openmpi4 => number,
                    _ => machine.pus()[number as usize].cpu.0,
                };
                Some(numbers.into_iter().map(cpu).collect())
            };
            lines.enumerate().map(of_rank).collect()
        }
        RankSyntax::Mpich => {
            let lists = text.strip_prefix(&format!("mpiexec -n {n} -bind-to user:"))?;
            lists.split(',').map(|of_rank| list(of_rank, '+')).collect()
        }
        RankSyntax::IntelMpi => {
            let masks =
                text.strip_prefix("I_MPI_PIN=1 I_MPI_PIN_DOMAIN=\"[")?.strip_suffix(&format!("]\" mpiexec -n {n}"))?;
            masks.split(',').map(mask).collect()
        }
        RankSyntax::Slurm => {
            let masks = text.strip_prefix(&format!("srun -n{n} -c{threads} --cpu-bind=mask_cpu:"))?;
            masks.split(',').map(|text| mask(text.strip_prefix("0x")?)).collect()
        }
        RankSyntax::Flux => {
            let lists = text
                .strip_prefix(&format!("flux run -n {n} -c {threads} -o cpu-affinity='map:"))?
                .strip_suffix('\'')?;
            lists.split(';').map(|of_rank| list(of_rank, ',')).collect()
        }
        RankSyntax::Sbatch => {
            let line = text.lines().last()?;
            let masks = line.strip_prefix(&format!("srun --nodes=1 --ntasks={n} --overcommit --cpu-bind=mask_cpu:"))?;
            let masks = masks.split_once(' ')?.0.split(',').map(|text| mask(text.strip_prefix("0x")?));
            let masks: Vec<BTreeSet<u32>> = masks.collect::<Option<_>>()?;
            // The places of a rank's threads are what its mask has.
            for (rank, mask) in masks.iter().enumerate() {
                let places = line.split(&format!(" {rank}) p=\"")).nth(1)?.split('"').next()?;
                let places: Vec<&str> = places.split("},").map(|place| place.trim_matches(['{', '}'])).collect();
                assert_eq!(places.len(), threads, "{line}");
                let cpus = places.iter().map(|place| list(place, ',')).collect::<Option<Vec<_>>>()?;
                assert_eq!(&cpus.into_iter().flatten().collect::<BTreeSet<u32>>(), mask, "{line}");
            }
            Some(masks)
        }
        RankSyntax::List | RankSyntax::Json => None,
    }
}

proptest! {
    /// Machines whose kernel numbers second hardware threads last, so that numbers aren't positions, and more than 64 CPUs among them.
    #[test]
    fn every_export_says_in_its_grammar_where_the_ranks_are(
        packages in 1_usize..5, cores in 1_usize..13, pus in 1_usize..3, preset in 0_usize..4,
        ranks in 1_usize..9, threads in 1_usize..5, order in 0_usize..3,
    ) {
        let machine = match preset {
            0 => Machine::named("xeon-e5620").unwrap(),
            1 => Machine::named("opteron-6272").unwrap(),
            _ => Machine::named(&format!("pack:{packages} l3:1 core:{cores} pu:{pus}")).unwrap(),
        };
        let shape = RankShape::new(ranks, threads).unwrap();
        let policy = format!("ranks={}:package,threads=scatter", ["compact", "scatter", "balanced"][order]);
        let placement = policy.parse::<RankPolicy>().unwrap().place(&machine, shape).unwrap();
        let expected: Vec<BTreeSet<u32>> = placement.ranks.iter().map(|rank| rank.union().iter().map(|cpu| cpu.0).collect()).collect();
        use RankSyntax::{Flux, IntelMpi, Mpich, Openmpi4, Openmpi5, Sbatch, Slurm};
        for syntax in [Openmpi4, Openmpi5, Mpich, IntelMpi, Slurm, Sbatch, Flux] {
            let text = syntax.text(&placement, &machine);
            let read = read(syntax, &text, &machine, shape);
            prop_assert_eq!(read.as_ref(), Some(&expected), "{}: {}", syntax, text);
        }
    }

    #[test]
    fn nobody_shares_a_cpu_while_there_is_room_and_all_levels_are_even(
        packages in 1_usize..4, caches in 1_usize..4, cores in 1_usize..5, pus in 1_usize..3,
        ranks in 1_usize..13, threads in 1_usize..7, order in 0_usize..3, level in 0_usize..4, inner in 0_usize..2,
    ) {
        let machine = Machine::named(&format!("pack:{packages} numa:1 l3:{caches} core:{cores} pu:{pus}")).unwrap();
        let order = ["compact", "scatter", "balanced"][order];
        let levels = [("node", 1), ("package", packages), ("numa", packages), ("l3", packages * caches)];
        let (level, objects) = levels[level];
        let policy = format!("ranks={order}:{level},threads={}", ["compact", "scatter"][inner]);
        let shape = RankShape::new(ranks, threads).unwrap();
        let placement = policy.parse::<RankPolicy>().unwrap().place(&machine, shape).unwrap();
        prop_assert_eq!(placement.ranks.len(), ranks);
        prop_assert!(placement.ranks.iter().all(|rank| rank.slots.len() == threads));
        let cpus = packages * caches * cores * pus;
        let fits_whole = ranks <= objects * (cpus / objects / threads);
        if fits_whole {
            prop_assert_eq!(placement.doubled_up(), 0, "{} {} {}", &policy, shape, placement);
            // Each rank is inside one object of the level.
            if let Some(kind) = match level { "l3" => Some(Kind::Cache(3)), "node" => None, _ => Some(Kind::Package) } {
                for rank in &placement.ranks {
                    let of = |cpu: CpuId| machine.enclosing(cpu, kind);
                    let all = rank.cpus().unwrap();
                    prop_assert!(all.iter().all(|&cpu| of(cpu) == of(all[0])), "{} {} {}", &policy, shape, placement);
                }
                if order != "compact" {
                    let loads = loads(&placement, &machine, kind);
                    let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
                    prop_assert!(most - least <= threads, "{} {} {}", &policy, shape, placement);
                }
            }
        }
    }
}
