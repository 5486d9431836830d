// SPDX-License-Identifier: BSD-2-Clause
//! Points and choices.

use super::super::simple::tests::{NOW, RecordingCtx, stub};
use super::param::own_mut;
use super::ring::{Member, Task};
use super::*;
use backend::AdminHealth;
use vrt::Privates;

struct Bed {
    shard: Shard,
    members: Vec<Arc<dyn Director>>,
}

fn task(backend: &Arc<dyn Director>, rampup: Option<f64>, weight: f64) -> Task {
    Task::Add(Member { backend: backend.clone(), ident: None, rampup, replicas: 0 }, weight)
}

fn bed(names: &[&str], replicas: i64) -> Bed {
    let shard = Shard::new(DirectorBase::new("vcl1", "vd", Real(0.0)));
    let members: Vec<_> = names.iter().map(|name| stub(name)).collect();
    let tasks: Vec<_> = members.iter().map(|member| task(member, None, 1.0)).collect();
    assert_eq!(shard.ring.write().reconfigure(&tasks, replicas), (vec![], true));
    Bed { shard, members }
}

impl Bed {
    fn pick(&self, layer: Layer) -> String {
        self.pick_with(layer, 0.5)
    }

    fn pick_with(&self, layer: Layer, dice: f64) -> String {
        let fake = RecordingCtx { dice, ..RecordingCtx::default() };
        let source = KeySource { digest: None, url: b"/" };
        let found = self.shard.pick(wish(layer, &source), &mut BackendChoice { ctx: &fake, name: "vd" });
        let said = fake.asked.into_inner();
        found.map_or(String::new(), |member| member.name().to_owned()) + &said
    }

    fn set(&self, at: usize, health: AdminHealth) {
        self.members[at].base().set_admin(health, NOW);
    }
}

fn key(key: u32) -> Layer {
    Layer { by: Some(By::Key(key)), ..Layer::default() }
}

#[test]
fn points_are_sha256_of_name_and_number() {
    assert_eq!(hash32(&[b"s1", b"0"]), hash32(&[b"s10"]));
    assert_eq!(hash32(&[b""]), 0x55b8_5278);
    assert_eq!(hash32(&[b"eishoSu2"]), 0xd5dd_c1f3);
}

#[test]
fn keys_find_the_next_point() {
    let bed = bed(&["s1", "s2", "s3"], 25);
    let mut points: Vec<(u32, &str)> = ["s1", "s2", "s3"]
        .iter()
        .flat_map(|name| (0..25).map(move |n: u32| (hash32(&[name.as_bytes(), n.to_string().as_bytes()]), *name)))
        .collect();
    points.sort_unstable();
    for (at, (point, name)) in points.iter().enumerate() {
        assert_eq!(bed.pick(key(*point)), *name);
        let Some((before, _)) = at.checked_sub(1).map(|at| points[at]) else { continue };
        assert_eq!(bed.pick(key(before + (point - before) / 2 + 1)), *name);
    }
    // Beyond the last point stands the last, not the first.
    assert_eq!(bed.pick(key(u32::MAX)), points.last().expect("some").1);
    assert_eq!(bed.pick(key(0)), points[0].1);
}

#[test]
fn alternatives_and_health() {
    let bed = bed(&["s1", "s2", "s3"], 25);
    let alt = |alt| bed.pick(Layer { alt: Some(alt), ..key(0) });
    let mut order = [alt(0), alt(1), alt(2)];
    let first = order[0].clone();
    order.sort();
    assert_eq!(order, ["s1", "s2", "s3"]);
    assert!(alt(3).ends_with("vmod_directors: shard vd: parameter alt=3 limited to 2"));
    let at = bed.members.iter().position(|member| *member.name() == *first).expect("one of them");
    bed.set(at, AdminHealth::Sick);
    assert_ne!(bed.pick(key(0)), first);
    assert_eq!(bed.pick(Layer { healthy: Some(Healthy::Ignore), ..key(0) }), first);
    (0..3).for_each(|at| bed.set(at, AdminHealth::Sick));
    assert_eq!(bed.pick(key(0)), "");
    assert_eq!(bed.shard.summary(NOW), Summary { good: 0, of: 3, healthy: false });
}

#[test]
fn warmup_and_rampup_use_the_second() {
    let bed = bed(&["s1", "s2", "s3"], 25);
    let (first, second) = (bed.pick(key(0)), bed.pick(Layer { alt: Some(1), ..key(0) }));
    let warm = Layer { warmup: Some(0.3), ..key(0) };
    assert_eq!((bed.pick_with(warm, 0.2), bed.pick_with(warm, 0.4)), (second.clone(), first.clone()));
    bed.shard.ring.write().warmup = 0.3;
    assert_eq!(bed.pick_with(key(0), 0.2), second);
    bed.shard.ring.write().warmup = 0.0;
    // The first came back just now.
    bed.shard.ring.write().rampup = 10.0;
    let at = bed.members.iter().position(|member| *member.name() == *first).expect("one of them");
    bed.set(at, AdminHealth::Healthy);
    assert_eq!(bed.pick(key(0)), second);
    assert_eq!(bed.pick(Layer { rampup: Some(false), ..key(0) }), first);
}

#[test]
fn members_come_and_go() {
    let bed = bed(&["s1", "s2"], 5);
    let mut ring = bed.shard.ring.write();
    let again = [task(&bed.members[0], None, 1.0)];
    assert_eq!(ring.reconfigure(&again, 5), (vec!["backend s1 already exists - skipping".into()], true));
    assert_eq!(ring.reconfigure(&[Task::Remove(Some(bed.members[0].clone()), None)], 5), (vec![], true));
    assert_eq!(ring.reconfigure(&[Task::Remove(None, Some((*b"s2").into()))], 5), (vec![], false));
    let named = Member { backend: bed.members[0].clone(), ident: Some((*b"x").into()), rampup: None, replicas: 0 };
    let tasks = [Task::Clear, Task::Add(named.clone(), 2.0), Task::Add(named, 1.0)];
    assert_eq!(ring.reconfigure(&tasks, 5), (vec!["backend s1/x already exists - skipping".into()], true));
    assert_eq!(ring.members[0].replicas, 10);
    drop(ring);
    assert_eq!(bed.pick(key(7)), "s1");
    assert_eq!(bed.shard.ring.write().reconfigure(&[Task::Clear], 5), (vec![], false));
    assert_eq!(bed.pick(key(7)), "vmod_directors: shard vd: no backends");
}

/// The expected lists are those of varnishd 7.1.1's `backend.list -p`.
#[test]
fn who_comes_takes_the_place_of_one_who_went() {
    let members: Vec<_> = ["1", "2", "3", "4", "5", "6", "7", "4a", "5a"].iter().map(|name| stub(name)).collect();
    let add = |at: usize| task(&members[at], None, 1.0);
    let remove = |at: usize| Task::Remove(Some(members[at].clone()), None);
    let order = |changes: &[Task]| {
        let mut ring = Ring::default();
        let _ = ring.reconfigure(&(0..7).map(add).collect::<Vec<_>>(), 1);
        let _ = ring.reconfigure(changes, 1);
        ring.members.iter().map(|member| member.backend.name()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(order(&[remove(3), remove(4), add(7), add(8)]), "1 2 3 4a 5a 6 7");
    assert_eq!(order(&[remove(4), remove(3), add(7), add(8)]), "1 2 3 4a 5a 6 7");
    assert_eq!(order(&[remove(3), remove(4), add(7)]), "1 2 3 4a 7 6");
    assert_eq!(order(&[remove(1), remove(6)]), "1 6 3 4 5");
    assert_eq!(order(&[remove(5), remove(6), add(7)]), "1 2 3 4 5 4a");
}

#[test]
fn a_task_may_have_its_own_parameters() {
    let bed = bed(&["s1", "s2", "s3"], 25);
    let param = Arc::new(Param::new("p"));
    *param.vcl.lock() = Layer { by: Some(By::Url), ..Layer::default() };
    *bed.shard.associated.write() = Some(param.clone());
    let mut task = Privates::default();
    *own_mut(&mut task, &*param) = Layer { alt: Some(1), ..Layer::default() };
    assert_eq!(bed.shard.layer(&task), Layer { by: Some(By::Url), alt: Some(1), ..Layer::default() });
    *own_mut(&mut task, &bed.shard) = DeferredArgs { layer: key(9), param: None };
    assert_eq!(bed.shard.layer(&task), Layer { by: Some(By::Key(9)), alt: Some(1), ..Layer::default() });
    assert_eq!(bed.shard.layer(&Privates::default()), Layer { by: Some(By::Url), ..Layer::default() });
}

#[test]
fn keys_come_from_hash_or_url() {
    let digest = Some([0x12; 32]);
    assert_eq!(KeySource { digest, url: b"/" }.key(By::Hash), 0x1212_1212);
    assert_eq!(KeySource { digest, url: b"/" }.key(By::Url), hash32(&[b"/"]));
    assert_eq!(KeySource { digest: None, url: b"/" }.key(By::Hash), hash32(&[b"/"]));
}

#[test]
fn the_list_shows_rampup() {
    let bed = bed(&["s1"], 5);
    bed.shard.ring.write().rampup = 10.0;
    bed.members[0].base().set_admin(AdminHealth::Healthy, Real(NOW.0 - 5.0));
    let mut text = String::new();
    bed.shard.details(NOW, &mut text);
    let want = "\n\n\tBackend\tIdent\tHealth\tRampup  Remaining\n\ts1\ts1\thealthy\t 50.00%    5.000s\n";
    assert_eq!(text, want);
}

/// Choices of varnishd 7.1.1 for a ring of s1, s2 (weight 2) and s3 (as "x") with 25 replicas: a key, its first and
/// second choice; then by the text `keyN` (N is the line): its key, first and second choice.
const CHOICES: &[(u32, &str, &str, u32, &str, &str)] = &[
    (2675342405, "s1", "s2", 1331256745, "s1", "s2"),
    (3185950873, "s2", "s1", 806716350, "s3", "s2"),
    (4051686260, "s1", "s2", 2644098280, "s1", "s2"),
    (2787324501, "s3", "s1", 1708675391, "s2", "s1"),
    (3869338171, "s2", "s1", 347580944, "s2", "s1"),
    (486215926, "s2", "s1", 99770212, "s1", "s2"),
    (1059022248, "s2", "s3", 3669483470, "s3", "s2"),
    (2335435112, "s2", "s1", 2975866943, "s2", "s3"),
    (2465058629, "s3", "s1", 486038225, "s2", "s1"),
    (930847394, "s2", "s3", 1233014294, "s2", "s1"),
    (1200367645, "s2", "s1", 2979082335, "s2", "s3"),
    (3288765765, "s2", "s1", 4291506935, "s1", "s2"),
    (3423720279, "s2", "s3", 2622830845, "s3", "s1"),
    (2651938379, "s1", "s2", 1607791609, "s2", "s1"),
    (544169062, "s2", "s1", 3591001431, "s2", "s3"),
    (3742654890, "s2", "s3", 2713840339, "s1", "s2"),
    (4219466551, "s1", "s2", 2387612360, "s3", "s1"),
    (3746962816, "s2", "s3", 4285529465, "s1", "s2"),
    (1242556253, "s2", "s1", 2430498213, "s3", "s1"),
    (4129516530, "s1", "s2", 1108782932, "s3", "s2"),
    (879521323, "s2", "s3", 3392301442, "s2", "s1"),
    (2966284567, "s2", "s3", 3907381335, "s2", "s1"),
    (3838591282, "s3", "s2", 3633493520, "s3", "s2"),
    (1283288560, "s1", "s2", 1426687430, "s1", "s2"),
    (1551298954, "s1", "s2", 4175255896, "s1", "s2"),
    (625784932, "s2", "s3", 713418846, "s2", "s1"),
    (279772928, "s2", "s3", 3713887714, "s2", "s3"),
    (1451255993, "s2", "s1", 624108614, "s2", "s3"),
    (0, "s1", "s2", 4168519826, "s1", "s2"),
    (4294967295, "s1", "s2", 3499085287, "s2", "s3"),
];

#[test]
fn choices_are_varnishs() {
    let shard = Shard::new(DirectorBase::new("vcl1", "vd", Real(0.0)));
    let members: Vec<_> = ["s1", "s2", "s3"].iter().map(|name| stub(name)).collect();
    let named = Member { backend: members[2].clone(), ident: Some((*b"x").into()), rampup: None, replicas: 0 };
    let tasks = [task(&members[0], None, 1.0), task(&members[1], None, 2.0), Task::Add(named, 1.0)];
    assert_eq!(shard.ring.write().reconfigure(&tasks, 25), (vec![], true));
    let bed = Bed { shard, members };
    let both = |number| [0, 1].map(|alt| bed.pick(Layer { alt: Some(alt), ..key(number) }));
    for (line, (number, first, second, text_key, text_first, text_second)) in CHOICES.iter().enumerate() {
        assert_eq!(both(*number), [*first, *second], "{number}");
        assert_eq!(hash32(&[format!("key{line}").as_bytes()]), *text_key);
        assert_eq!(both(*text_key), [*text_first, *text_second], "{text_key}");
    }
}
