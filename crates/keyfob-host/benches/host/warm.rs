//! Lookups whose answer is in the cache.

use std::hint::black_box;

use keyfob_host::{Host, Pull};

use crate::{
    hosts::{
        ECR, Plugins, account, look_up, mixed, own_host, pull, runtime, ten_thousand, three_clouds,
        warm_up,
    },
    median, row, seconds,
};

const ROUNDS: usize = 41;
const LOOKUPS: u32 = 10_000;

/// Something that is repeated, and what it is called.
struct Subject {
    what: &'static str,
    target: &'static str,
    run: Box<dyn Fn()>,
    /// How often it is repeated in a round.
    repeats: u32,
    times: Vec<f64>,
}

impl Subject {
    /// Seconds for one.
    fn round(&self) -> f64 {
        seconds(|| (0..self.repeats).for_each(|_| (self.run)())) / f64::from(self.repeats)
    }
}

pub(crate) fn measure() {
    let plugins = Plugins::new();
    let mut subjects = subjects(&plugins);
    for _ in 0..ROUNDS {
        for subject in &mut subjects {
            subject.times.push(subject.round());
        }
    }
    let mut first = None;
    for Subject { what, target, times, .. } in subjects {
        let median = median(times);
        let first = *first.get_or_insert(median);
        row(what, &format!("{:.0} ns", median * 1e9), Some(median / first), target);
    }
}

fn subjects(plugins: &Plugins) -> Vec<Subject> {
    let image = format!("{ECR}/team/app:v1");
    let clouds = || plugins.host(three_clouds(), "Registry", &[ECR], "secret");
    let with_parse = clouds();
    warm_up(&with_parse, &pull(&image));
    let parsed = image.clone();
    let mut subjects = vec![
        lookup("warm lookup, 3 providers × 12 patterns", "< 1500 ns", clouds(), &image),
        subject("the same with `Pull::parse`", "< 1500 ns", {
            let image = image.clone();
            move || drop(black_box(look_up(&with_parse, &pull(black_box(&image)))))
        }),
        subject("`Pull::parse` alone", "", move || {
            drop(black_box(Pull::parse(black_box(&parsed))));
        }),
        no_match("no pattern matches, 3 × 12 patterns", clouds(), "quay.example/team/app"),
        no_match("no pattern matches, other length of name", clouds(), "a.b.c.d.e.f.g/team/app"),
    ];
    let all = vec![vec!["*.*.*.*.*.*".to_owned()]; 3];
    let all = plugins.host(all, "Registry", &[ECR], "secret");
    subjects.push(lookup("warm lookup, all 3 providers match", "", all, &image));
    let many = plugins.host(three_clouds(), "Image", &[ECR], "secret");
    subjects.push(many_answers("warm lookup, 100,000 answers, another each time", many));
    subjects.extend(large_configurations(plugins));
    subjects
}

fn large_configurations(plugins: &Plugins) -> [Subject; 6] {
    let twice = "ratio ≤ 2";
    let large = |what, target, pattern: &dyn Fn(usize) -> String, key: &str, image: &str| {
        let host = plugins.host(ten_thousand(pattern), "Registry", &[key], "secret");
        lookup(what, target, host, image)
    };
    [
        large(
            "10,000 patterns: hosts",
            twice,
            &own_host,
            "registry-5000.example",
            "registry-5000.example/team/app:v1",
        ),
        large(
            "10,000 patterns: `*.N.example`",
            twice,
            &|n| format!("*.{n}.example"),
            "*.5000.example",
            "registry.5000.example/team/app:v1",
        ),
        large(
            "10,000 patterns: paths of one host",
            twice,
            &|n| format!("registry.example/team{n}"),
            "registry.example",
            "registry.example/team5000/app:v1",
        ),
        large(
            "10,000 patterns: ECR accounts",
            twice,
            &account,
            &account(5000),
            &format!("{}/team/app", account(5000)),
        ),
        large(
            "10,000 patterns: a mix",
            twice,
            &mixed,
            &account(5000),
            &format!("{}/team/app", account(5000)),
        ),
        Subject {
            repeats: 10,
            ..large(
                "10,000 patterns, no two fixing the same lengths (contrived)",
                "",
                &|n| format!("{}*{}.example", "x".repeat(n / 100), "y".repeat(n % 100)),
                "*.example",
                &format!("{}-{}.example/team/app", "x".repeat(50), "y".repeat(50)),
            )
        },
    ]
}

fn lookup(what: &'static str, target: &'static str, host: Host, image: &str) -> Subject {
    let pull = pull(image);
    warm_up(&host, &pull);
    subject(what, target, move || drop(black_box(look_up(&host, black_box(&pull)))))
}

fn no_match(what: &'static str, host: Host, image: &str) -> Subject {
    let pull = pull(image);
    assert!(look_up(&host, &pull).reports.is_empty(), "a pattern matches");
    subject(what, "", move || drop(black_box(look_up(&host, black_box(&pull)))))
}

fn many_answers(what: &'static str, host: Host) -> Subject {
    let pulls: Vec<Pull> =
        (0..100_000).map(|n| pull(&format!("{ECR}/team/app-{n:06}:v1"))).collect();
    runtime().block_on(async {
        for pull in &pulls {
            drop(host.credentials(pull).await);
        }
    });
    let next = std::cell::Cell::new(0);
    subject(what, "", move || {
        // A prime, so that the order is not the one in which memory was handed out.
        let at = (next.get() + 61_813) % pulls.len();
        next.set(at);
        drop(black_box(look_up(&host, black_box(&pulls[at]))));
    })
}

fn subject(what: &'static str, target: &'static str, once: impl Fn() + 'static) -> Subject {
    Subject { what, target, run: Box::new(once), repeats: LOOKUPS, times: Vec::new() }
}
