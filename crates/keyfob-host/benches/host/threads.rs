//! Two threads against one. On a machine with less than two free cores the ratio says nothing about the host.

use std::{hint::black_box, thread};

use keyfob_host::{Host, Pull};

use crate::{
    hosts::{ECR, Plugins, look_up, pull, three_clouds, warm_up},
    median, row, seconds,
};

const ROUNDS: usize = 9;
/// Many, because a scheduler takes a while to move a new thread to a core of its own.
const LOOKUPS: u32 = 200_000;

pub(crate) fn measure() {
    let plugins = Plugins::new();
    let host = plugins.host(three_clouds(), "Image", &[ECR, "gcr.io"], "secret");
    let images = [format!("{ECR}/team/a"), format!("{ECR}/team/b"), "gcr.io/team/c".to_owned()];
    let other = plugins.host(three_clouds(), "Image", &[ECR, "gcr.io"], "secret");
    let [a, b, c] = images.map(|image| pull(&image));
    for pull in [&a, &b, &c] {
        warm_up(&host, pull);
        warm_up(&other, pull);
    }
    let pairs = [
        ("two threads, two hosts (what the machine can do)", [(&host, &a), (&other, &c)]),
        ("two threads, one image", [(&host, &a), (&host, &a)]),
        ("two threads, two images of one provider", [(&host, &a), (&host, &b)]),
        ("two threads, two providers", [(&host, &a), (&host, &c)]),
    ];
    let mut ratios = pairs.map(|_| Vec::new());
    let mut both = pairs.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (at, (_, [first, second])) in pairs.iter().enumerate() {
            let alone = seconds(|| repeat(first)) + seconds(|| repeat(second));
            let together = seconds(|| {
                thread::scope(|scope| {
                    scope.spawn(|| repeat(first));
                    repeat(second);
                });
            });
            ratios[at].push(alone / together);
            both[at].push(together);
        }
    }
    for (((what, _), ratios), both) in pairs.iter().zip(ratios).zip(both) {
        let per_second = 2.0 * f64::from(LOOKUPS) / median(both);
        row(what, &format!("{:.2} M/s", per_second / 1e6), Some(median(ratios)), "2 is ideal");
    }
}

fn repeat((host, pull): &(&Host, &Pull)) {
    for _ in 0..LOOKUPS {
        drop(black_box(look_up(host, black_box(pull))));
    }
}
