//! Every export syntax, for threads 0..3 on CPUs 0, 8, 1, 9.

use stayput_machine::{CpuId, CpuSet, ExportError, Placement, Syntax};
use strum::VariantArray;

fn example() -> Placement {
    Placement::from_cpus("list", [0, 8, 1, 9].map(CpuId))
}

#[test]
fn every_syntax_says_the_example_in_its_own_words() {
    let line = |syntax: &Syntax| format!("{syntax:<16} {}", syntax.line(&example()).unwrap());
    let all: Vec<String> = Syntax::VARIANTS.iter().map(line).collect();
    insta::assert_snapshot!(all.join("\n"), @r#"
    list             0,8,1,9
    gomp             GOMP_CPU_AFFINITY="0 8 1 9"
    kmp              KMP_AFFINITY="explicit,granularity=fine,proclist=[0,8,1,9]"
    omp-places       OMP_PLACES="{0},{8},{1},{9}" OMP_PROC_BIND=close
    taskset          taskset -c 0,8,1,9
    numactl          numactl -C 0,8,1,9
    likwid           likwid-pin -c 0,8,1,9
    hwloc            hwloc-bind -p pu:0 pu:8 pu:1 pu:9 --
    slurm-map        srun -n4 --cpu-bind=map_cpu:0,8,1,9
    slurm-mask       srun -n1 -c4 --cpu-bind=mask_cpu:0x303
    sbatch           #!/bin/sh
    #SBATCH --nodes=1
    #SBATCH --exclusive
    #SBATCH --ntasks=1
    #SBATCH --overcommit
    # 0,8,1,9: the CPUs of each thread, rank by rank, of a node of the kind that this was made for.
    # sbatch FILE ./app input.dat
    srun --nodes=1 --ntasks=1 --overcommit --cpu-bind=mask_cpu:0x303 sh -c 'case $SLURM_LOCALID in 0) p="{0},{8},{1},{9}";; esac; exec env OMP_NUM_THREADS=4 OMP_PROC_BIND=close OMP_PLACES="$p" "$@"' sh "$@"
    openmpi-rankfile rank 0=localhost slot=0
    rank 1=localhost slot=8
    rank 2=localhost slot=1
    rank 3=localhost slot=9
    systemd          CPUAffinity=0 8 1 9
    docker           docker run --cpuset-cpus=0,1,8,9
    json             {"cpus":[0,8,1,9],"policy":"list","slots":[[0],[8],[1],[9]],"threads":4}
    "#);
}

#[test]
fn only_the_value_is_printed_for_gomp() {
    assert_eq!(Syntax::Gomp.value(&example()).unwrap(), "0 8 1 9");
    assert_eq!(Syntax::Kmp.value(&example()).unwrap(), Syntax::Kmp.line(&example()).unwrap());
}

#[test]
fn sets_lose_the_order() {
    let lost: Vec<_> = Syntax::VARIANTS.iter().filter(|syntax| !syntax.keeps_order()).map(Syntax::to_string).collect();
    assert_eq!(lost, ["taskset", "numactl", "hwloc", "slurm-mask", "systemd", "docker"]);
}

#[test]
fn json_reads_back_as_the_placement() {
    let json = Syntax::Json.line(&example()).unwrap();
    assert_eq!(serde_json::from_str::<Placement>(&json).unwrap(), example());
}

#[test]
fn masks_may_be_longer_than_any_integer() {
    let placement = Placement::from_cpus("list", [200, 3].map(CpuId));
    let line = Syntax::SlurmMask.line(&placement).unwrap();
    assert_eq!(line, format!("srun -n1 -c2 --cpu-bind=mask_cpu:0x1{}8", "0".repeat(49)));
}

#[test]
fn threads_with_several_cpus_fit_places_and_sets_only() {
    let pair: CpuSet = "4-5".parse().unwrap();
    let placement = Placement { policy: "list".into(), slots: vec![CpuSet::from(CpuId(0)), pair] };
    assert_eq!(Syntax::OmpPlaces.line(&placement).unwrap(), "OMP_PLACES=\"{0},{4,5}\" OMP_PROC_BIND=close");
    assert_eq!(Syntax::Taskset.line(&placement).unwrap(), "taskset -c 0,4,5");
    assert_eq!(Syntax::Gomp.line(&placement), Err(ExportError::SeveralCpus { syntax: Syntax::Gomp, thread: 1 }));
}
