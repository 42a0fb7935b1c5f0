//! Sequences that nobody thought of: few images, ids, secrets and accounts, so that they meet; files that are almost right;
//! and little memory.

mod files;

use std::iter;

use proptest::{
    collection::vec,
    option,
    prelude::{Just, Strategy},
    prop_oneof,
    sample::select,
    strategy::BoxedStrategy,
};

use super::{
    super::words::one_of, Access, Coordinates, File, Image, Question, Secret, Step, Wanted,
};

/// Names that are one without tag and digest, names that would be one if they were normalised, and names that are none.
const IMAGES: &str = "nginx:1 nginx:1 nginx:1 nginx:1 nginx:1 nginx:1 nginx:1 nginx:1 nginx:1 nginx:2 nginx:2 nginx nginx docker.io/library/nginx:1 \
    nginx:1@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 \
    nginx@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 a.io/x a.io/x:1 a.io/xy:1 \
    a.io:5000/x:1 Nginx:1 a.io/X:1  nginx: \
    e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const IDS: &str = "id1 id1 id1 id1 id1 id1 id1 id2 id2 id3 nginx:1 ";
/// The mapping's names in files.
const NAMES: &str =
    "nginx nginx nginx nginx nginx nginx nginx docker.io/library/nginx nginx:1 a.io/x Nginx ";
/// Neither near the time of the run.
const TIMES: &str = "2001-01-01T00:00:00Z 2020-05-05T05:05:05Z 2020-05-05T05:05:05.5Z 2020-05-05T05:05:06Z 2040-01-01T00:00:00Z";
const POLICIES: &str = "NeverVerify NeverVerifyPreloadedImages NeverVerifyPreloadedImages NeverVerifyPreloadedImages \
    NeverVerifyPreloadedImages NeverVerifyAllowlistedImages AlwaysVerify AlwaysVerify AlwaysVerify";

pub(super) fn questions() -> BoxedStrategy<Question> {
    let size = || prop_oneof![4 => 1_usize..=4, 1 => Just(100)];
    let allowlist = vec(one_of("nginx a.io/* a.io/x docker.io/library/*"), 0..=2);
    (one_of(POLICIES), allowlist, (size(), size()), start(), vec(steps(), 1..=10))
        .prop_map(|(policy, allowlist, (intents, records), start, steps)| Question {
            policy: policy.to_owned(),
            allowlist: owned(allowlist),
            intents,
            records,
            steps: with_intents(iter::once(start).chain(steps.into_iter().flatten())),
        })
        .boxed()
}

/// Every end of a pull has its beginning, as upstream demands: what comes of others is nobody's promise.
fn with_intents(steps: impl Iterator<Item = Step>) -> Vec<Step> {
    let (mut all, mut begun) = (Vec::new(), Vec::new());
    for step in steps {
        match &step {
            Step::Start { .. } => begun.clear(),
            Step::Intent(image) => begun.push(image.clone()),
            Step::Pulled { image, .. } | Step::Failed(image) => {
                match begun.iter().position(|other| other == image) {
                    Some(at) => drop(begun.swap_remove(at)),
                    None => all.push(Step::Intent(image.clone())),
                }
            }
            Step::Must(_) | Step::Prune { .. } => {}
        }
        all.push(step);
    }
    all
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop_oneof![2 => step().prop_map(|step| vec![step]), 1 => pull_and_want()]
}

/// An image is pulled, and then wanted by one whose credentials may be others.
fn pull_and_want() -> impl Strategy<Value = Vec<Step>> {
    (image(), id(), access(), vec(wanted(), 1..=2)).prop_map(|(image, id, access, wanted)| {
        let wanted =
            wanted.into_iter().map(|wanted| Step::Must(Wanted { id: id.clone(), ..wanted }));
        let pulled = Step::Pulled { image: image.clone(), id: id.clone(), access };
        [Step::Intent(image), pulled].into_iter().chain(wanted).collect()
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        10 => wanted().prop_map(Step::Must),
        4 => image().prop_map(Step::Intent),
        5 => (image(), id(), access())
            .prop_map(|(image, id, access)| Step::Pulled { image, id, access }),
        2 => image().prop_map(Step::Failed),
        2 => (vec(id(), 0..=3), one_of(TIMES))
            .prop_map(|(images, until)| Step::Prune { images, until: until.to_owned() }),
        2 => start(),
    ]
}

fn start() -> impl Strategy<Value = Step> {
    let names = || prop_oneof![2 => vec(image(), 0..=1), 1 => vec(image(), 2..=4)];
    let local =
        (id(), names(), names()).prop_map(|(id, tags, digests)| Image { id, tags, digests });
    let files = prop_oneof![1 => Just(Vec::new()), 3 => vec(files::file(), 1..=5)];
    (files, vec(local, 0..=3)).prop_map(|(files, images)| Step::Start { files, images })
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let secrets =
        prop_oneof![1 => Just(Vec::new()), 3 => vec(secret(), 1..=1), 1 => vec(secret(), 2..=4)];
    (image(), id(), secrets, option::of(coordinates()), select(vec![false, false, false, true]))
        .prop_map(|(image, id, secrets, account, unknown)| Wanted {
            image,
            id,
            secrets,
            account,
            unknown,
        })
}

fn access() -> impl Strategy<Value = Option<Access>> {
    let access = |secrets, accounts, node| Access { secrets, accounts, node };
    let one_secret = secret().prop_map(move |secret| access(vec![secret], vec![], false));
    let one_account = coordinates().prop_map(move |account| access(vec![], vec![account], false));
    prop_oneof![
        2 => Just(None),
        2 => Just(Some(access(vec![], vec![], true))),
        1 => Just(Some(Access::default())),
        6 => one_secret.prop_map(Some),
        4 => one_account.prop_map(Some),
        2 => any_access().prop_map(Some),
    ]
}

fn any_access() -> impl Strategy<Value = Access> {
    (vec(secret(), 0..=4), vec(coordinates(), 0..=3), select(vec![false, false, false, true]))
        .prop_map(|(secrets, accounts, node)| Access { secrets, accounts, node })
}

/// The same coordinates have other hashes, and others the same; some stand in records that have many.
fn secret() -> impl Strategy<Value = Secret> {
    let one_of_many = Just(("a", "s", "u001")).prop_map(Coordinates::from);
    let coordinates = prop_oneof![5 => coordinates().boxed(), 1 => one_of_many.boxed()];
    (coordinates, one_of("h1 h1 h1 h2 h2 h3 g1 g2 "))
        .prop_map(|(secret, hash)| Secret { secret, hash: hash.to_owned() })
}

fn coordinates() -> impl Strategy<Value = Coordinates> {
    (one_of("a a a a b"), one_of("s s s s t "), one_of("1 1 1 1 2 u001"))
        .prop_map(Coordinates::from)
}

impl From<(&str, &str, &str)> for Coordinates {
    fn from((namespace, name, uid): (&str, &str, &str)) -> Self {
        let [namespace, name, uid] = [namespace, name, uid].map(str::to_owned);
        Self { namespace, name, uid }
    }
}

fn image() -> impl Strategy<Value = String> {
    one_of(IMAGES).prop_map(str::to_owned)
}

fn id() -> impl Strategy<Value = String> {
    one_of(IDS).prop_map(str::to_owned)
}

fn owned(words: Vec<&str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}
