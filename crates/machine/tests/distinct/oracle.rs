//! Classes by brute force: every set of CPUs, put together with its images under symmetries that are found by trying.
//!
//! Nothing of the library's own way is used: a symmetry is a permutation of CPUs and NUMA nodes that keeps what surrounds each
//! of them, how deep in the tree any two of them meet, and the distances between nodes.

use stayput_machine::record::{MachineRecord, ObjectRecord};
use stayput_machine::tree::Kind;
use stayput_machine::{CpuId, Neighbours};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::rc::Rc;

/// A CPU or a NUMA node.
struct Point {
    /// The objects around it, the machine first, each with all that must be the same about its image.
    around: Vec<(usize, Rc<str>)>,
    cpu: Option<(CpuId, bool)>,
    /// Its place among all nodes, and its memory.
    node: Option<(usize, Option<u128>)>,
}

/// The symmetries of a machine of few CPUs.
pub struct Oracle {
    record: MachineRecord,
    points: Vec<Point>,
    /// The usable CPUs; a set of them is a word with their bits.
    pub cpus: Vec<CpuId>,
    /// Permutations of `cpus` that make up all symmetries.
    generators: Vec<Vec<usize>>,
}

/// The smallest of 1, 1.25, 1.5 and 1.75 times the powers of two that is no less, in quarters.
fn memory_class(bytes: NonZeroU64) -> u128 {
    let sizes = (0..64).flat_map(|power| (4..8).map(move |quarters: u128| quarters << power));
    sizes.filter(|&size| size >= 4 * u128::from(bytes.get())).min().unwrap()
}

impl Oracle {
    pub fn new(record: &MachineRecord) -> Self {
        let mut oracle = Self { record: record.clone(), points: Vec::new(), cpus: Vec::new(), generators: Vec::new() };
        oracle.walk(&record.tree, &mut Vec::new(), &mut 0, &mut 0);
        // Nodes first: they decide which objects go where.
        oracle.points.sort_by_key(|point| point.node.is_none());
        let usable: Vec<usize> =
            (0..oracle.points.len()).filter(|&i| oracle.points[i].cpu.is_some_and(|(_, usable)| usable)).collect();
        oracle.cpus = usable.iter().map(|&i| oracle.points[i].cpu.unwrap().0).collect();
        // With the points before it unmoved, one symmetry for each place that a point can newly go to; together they make up all.
        let place = |point: usize| usable.iter().position(|&other| other == point).unwrap();
        let mut found: Vec<Vec<usize>> = Vec::new();
        for point in (0..oracle.points.len()).rev() {
            let mut reached = BTreeSet::from([point]);
            for image in point + 1..oracle.points.len() {
                let mut permutation: Vec<usize> = (0..point).chain([image]).collect();
                if !reached.contains(&image) && oracle.fits(&permutation) && oracle.complete(&mut permutation) {
                    oracle.generators.push(usable.iter().map(|&point| place(permutation[point])).collect());
                    found.push(permutation);
                    while let Some(new) = (reached.iter().flat_map(|&at| found.iter().map(move |p| p[at])))
                        .find(|at| !reached.contains(at))
                    {
                        reached.insert(new);
                    }
                }
            }
        }
        oracle
    }

    /// All that a symmetry keeps inside an object, written down in an order that doesn't depend on that of its children.
    fn facts(&self, object: &ObjectRecord) -> String {
        let mut memories: Vec<Option<u128>> =
            object.numa_nodes.iter().map(|node| node.memory_bytes.map(memory_class)).collect();
        memories.sort_unstable();
        let mut inside: Vec<String> = object.children.iter().map(|child| self.facts(child)).collect();
        inside.sort_unstable();
        let kind = (object.kind == Kind::Pu).then(|| {
            let cpu = CpuId(object.os_index.unwrap());
            self.record.core_kinds.iter().position(|kind| kind.cpus.contains(cpu))
        });
        let forbidden = object.forbidden_by.is_some();
        let own =
            format!("{:?}{:?}{:?}{memories:?}{forbidden}{kind:?}", object.kind, object.cache, object.shared_units);
        format!("{own}({})", inside.join(","))
    }

    fn walk(
        &mut self,
        object: &ObjectRecord,
        around: &mut Vec<(usize, Rc<str>)>,
        objects: &mut usize,
        nodes: &mut usize,
    ) {
        around.push((*objects, self.facts(object).into()));
        *objects += 1;
        for node in &object.numa_nodes {
            let node = Some((*nodes, node.memory_bytes.map(memory_class)));
            *nodes += 1;
            self.points.push(Point { around: around.clone(), cpu: None, node });
        }
        if object.kind == Kind::Pu {
            let cpu = Some((CpuId(object.os_index.unwrap()), object.forbidden_by.is_none()));
            self.points.push(Point { around: around.clone(), cpu, node: None });
        }
        for child in &object.children {
            self.walk(child, around, objects, nodes);
        }
        around.pop();
    }

    /// Whether the last point's image is possible, given those before.
    fn fits(&self, permutation: &[usize]) -> bool {
        let last = permutation.len() - 1;
        let (point, image) = (&self.points[last], &self.points[permutation[last]]);
        let meet = |a: usize, b: usize| {
            let (a, b) = (&self.points[a].around, &self.points[b].around);
            a.iter().zip(b).take_while(|((a, _), (b, _))| a == b).count()
        };
        let distance =
            |a: usize, b: usize| match (&self.record.numa_distances, self.points[a].node, self.points[b].node) {
                (Some(rows), Some((a, _)), Some((b, _))) => Some((rows[a][b], rows[b][a])),
                _ => None,
            };
        !permutation[..last].contains(&permutation[last])
            && point.node.map(|(_, memory)| memory) == image.node.map(|(_, memory)| memory)
            && point.around.iter().map(|(_, facts)| facts).eq(image.around.iter().map(|(_, facts)| facts))
            && permutation.iter().enumerate().all(|(other, &other_image)| {
                meet(last, other) == meet(permutation[last], other_image)
                    && distance(last, other) == distance(permutation[last], other_image)
            })
    }

    /// Finds images for the remaining points; false when there are none.
    fn complete(&self, permutation: &mut Vec<usize>) -> bool {
        if permutation.len() == self.points.len() {
            return true;
        }
        for image in 0..self.points.len() {
            permutation.push(image);
            if self.fits(permutation) && self.complete(permutation) {
                return true;
            }
            permutation.pop();
        }
        false
    }

    /// A set of usable CPUs as a word.
    pub fn word(&self, cpus: &[CpuId]) -> usize {
        cpus.iter().map(|cpu| 1 << self.cpus.iter().position(|other| other == cpu).unwrap()).sum()
    }

    /// The CPUs of a word.
    pub fn set(&self, word: usize) -> Vec<CpuId> {
        (0..self.cpus.len()).filter(|bit| word >> bit & 1 == 1).map(|bit| self.cpus[bit]).collect()
    }

    /// For each set of usable CPUs, the smallest of its images.
    pub fn orbits(&self) -> Vec<usize> {
        fn root(parents: &mut [usize], mut word: usize) -> usize {
            while parents[word] != word {
                parents[word] = parents[parents[word]];
                word = parents[word];
            }
            word
        }
        let mut parents: Vec<usize> = (0..1 << self.cpus.len()).collect();
        for generator in &self.generators {
            // The image of a word is that of its lowest bit and that of the rest.
            let mut images = vec![0; parents.len()];
            for word in 1..parents.len() {
                let lowest = word.trailing_zeros() as usize;
                images[word] = images[word & (word - 1)] | 1 << generator[lowest];
            }
            for (word, &image) in images.iter().enumerate() {
                let (a, b) = (root(&mut parents, word), root(&mut parents, image));
                let (small, large) = (a.min(b), a.max(b));
                parents[large] = small;
            }
        }
        (0..parents.len()).map(|word| root(&mut parents, word)).collect()
    }

    /// Every symmetry, as permutations of the usable CPUs.
    pub fn group(&self) -> BTreeSet<Vec<usize>> {
        let identity: Vec<usize> = (0..self.cpus.len()).collect();
        let mut group = BTreeSet::from([identity.clone()]);
        let mut new = vec![identity];
        while let Some(permutation) = new.pop() {
            for generator in &self.generators {
                let product: Vec<usize> = permutation.iter().map(|&cpu| generator[cpu]).collect();
                if group.insert(product.clone()) {
                    new.push(product);
                }
            }
        }
        group
    }

    /// The smallest image of CPUs in thread order.
    pub fn smallest(&self, group: &BTreeSet<Vec<usize>>, cpus: &[CpuId]) -> Vec<usize> {
        let places: Vec<usize> =
            cpus.iter().map(|cpu| self.cpus.iter().position(|other| other == cpu).unwrap()).collect();
        group.iter().map(|permutation| places.iter().map(|&place| permutation[place]).collect()).min().unwrap()
    }

    /// The CPUs of a set in each order that a choice for each kind of object gives.
    pub fn sequences(&self, set: &[CpuId]) -> Vec<Vec<CpuId>> {
        fn kinds(object: &ObjectRecord, into: &mut BTreeSet<Kind>) {
            into.insert(object.kind);
            object.children.iter().for_each(|child| kinds(child, into));
        }
        fn within(object: &ObjectRecord, set: &[CpuId], choice: &BTreeMap<Kind, Neighbours>) -> Vec<CpuId> {
            if object.kind == Kind::Pu {
                let cpu = CpuId(object.os_index.unwrap());
                return if set.contains(&cpu) { vec![cpu] } else { vec![] };
            }
            let mut children: Vec<Vec<CpuId>> =
                object.children.iter().map(|child| within(child, set, choice)).collect();
            children.sort_by_key(|child| std::cmp::Reverse(child.len()));
            if choice[&object.kind] == Neighbours::Together {
                return children.concat();
            }
            let turns = (0..set.len()).map(|turn| children.iter().filter_map(move |child| child.get(turn)));
            turns.flatten().copied().collect()
        }
        let mut all = BTreeSet::new();
        kinds(&self.record.tree, &mut all);
        (0..1_usize << all.len())
            .map(|choices| {
                let neighbours = |bit| if choices >> bit & 1 == 1 { Neighbours::Apart } else { Neighbours::Together };
                let choice = all.iter().enumerate().map(|(bit, &kind)| (kind, neighbours(bit))).collect();
                within(&self.record.tree, set, &choice)
            })
            .collect()
    }

    /// A family of disjoint sets of CPUs: their words in rising order, for which the order of ranks and threads is nothing.
    pub fn family(&self, ranks: &[Vec<CpuId>]) -> Vec<usize> {
        let mut words: Vec<usize> = ranks.iter().map(|cpus| self.word(cpus)).collect();
        words.sort_unstable();
        words
    }

    /// Every family of so many disjoint sets of so many CPUs, with the smallest of its images.
    pub fn families(&self, ranks: usize, threads: usize) -> BTreeMap<Vec<usize>, Vec<usize>> {
        let sets: Vec<usize> =
            (0..1 << self.cpus.len()).filter(|word: &usize| word.count_ones() as usize == threads).collect();
        let mut families: Vec<Vec<usize>> = vec![Vec::new()];
        for _ in 0..ranks {
            let longer = families.iter().flat_map(|family| {
                let fits = |set: &usize| {
                    family.last().is_none_or(|last| last < set) && family.iter().all(|other| other & set == 0)
                };
                sets.iter().copied().filter(fits).map(|set| [family.as_slice(), &[set]].concat()).collect::<Vec<_>>()
            });
            families = longer.collect();
        }
        let group = self.group();
        let image = |permutation: &[usize], family: &[usize]| {
            let moved = |word: usize| -> usize {
                (0..permutation.len()).filter(|bit| word >> bit & 1 == 1).map(|bit| 1 << permutation[bit]).sum()
            };
            let mut image: Vec<usize> = family.iter().map(|&word| moved(word)).collect();
            image.sort_unstable();
            image
        };
        let smallest = |family: &Vec<usize>| group.iter().map(|permutation| image(permutation, family)).min().unwrap();
        families.iter().map(|family| (family.clone(), smallest(family))).collect()
    }
}
