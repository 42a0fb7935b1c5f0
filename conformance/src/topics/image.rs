//! How is an image's name read?

use keyfob_api::{ImageError, ImageRef};
use proptest::{
    collection::vec,
    prelude::{Just, Strategy},
    prop_oneof,
    strategy::BoxedStrategy,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::words::{differ_in_newer_characters, has_newer_characters, one_of, soup, with_slips};
use crate::Topic;

pub(crate) struct Image;

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Question {
    image: String,
}

impl Topic for Image {
    const NAME: &'static str = "image";
    const QUESTIONS: u32 = 100_000;
    type Question = Question;

    fn questions() -> BoxedStrategy<Question> {
        names().prop_map(|image| Question { image }).boxed()
    }

    fn ours(question: &Question) -> Value {
        match ImageRef::parse(&question.image) {
            Err(error) => json!({"error": error.to_string()}),
            Ok(image) => json!({
                "repository": image.repository(),
                "tag": image.tag().unwrap_or_default(),
                "digest": image.digest().unwrap_or_default(),
            }),
        }
    }

    fn difference(question: &Question, ours: &Value, upstream: &Value) -> Option<&'static str> {
        let (ours, upstream) = (ours.get("error")?.as_str()?, upstream.get("error")?.as_str()?);
        let says_more = match ImageRef::parse(&question.image) {
            Err(ImageError::Malformed { fault, .. }) => format!(": {fault}"),
            Err(ImageError::Uppercase { image, repository }) => {
                return is_of_newer_case([&image, &repository], ours, upstream)
                    .then_some("newer-unicode");
            }
            _ => String::new(),
        };
        match ours.strip_suffix(&says_more)? {
            begin if begin == upstream => Some("image-error-says-more"),
            begin => differ_in_newer_characters(begin, upstream).then_some("newer-unicode"),
        }
    }
}

/// Whether two answers differ because Go does not know the case of newer characters. Then it finds no upper-case letter, or does
/// not take the first component for a registry.
fn is_of_newer_case([image, repository]: [&str; 2], ours: &str, upstream: &str) -> bool {
    if !upstream.ends_with("must be lowercase") {
        return has_newer_characters(repository);
    }
    let first = image.split('/').next().unwrap_or_default();
    let with_first = ours.replace(&format!("({repository})"), &format!("({first}/{repository})"));
    differ_in_newer_characters(ours, upstream)
        || has_newer_characters(first) && differ_in_newer_characters(&with_first, upstream)
}

const REGISTRIES: &str = "     docker.io/ index.docker.io/ index.docker.io:443/ localhost/ localhost:5000/ \
    Localhost/ reg.io/ reg.io:5000/ r_1.io/ R_1.io/ \
    r_1.io:80/ [::1]/ [::1]:5000/ [a:]/ [abc]/ [abc]:1/ [::g]/ [1.2.3.4]/ reg.io:/ reg.io:5:6/ -a.io/ a-.io/ \
    a..io/ .io/ io./ É.io/ é/ \u{212a}.io/ \
    İ/ u@r.io/ http:// / *.io/ team/ TEAM/ a__b.c/ a.-b/ user/ library/";
const COMPONENTS: &str = "a foo nginx team app a a_b a__b a___b a-b a---b a.b a..b a._b -a a- A Foo é  * 0 \
    %41 index.docker.io library";
const TAGS: &str = "    :v1 :V1.2-rc_3 :_x :.x :-x : :latest :é :\u{212a} :a:b :a/b";
const ALGORITHMS: &str =
    "sha256 sha256 sha256 sha384 sha512 SHA256 md5 foo+bar foo.Bar_b-c 9a a..b  sha256+b64 é";

/// The row of an error about a name that begins as upstream's, and then says what is wrong.
pub(super) fn error_says_more(ours: &Value, upstream: &Value) -> Option<&'static str> {
    let (ours, upstream) = (ours.get("error")?.as_str()?, upstream.get("error")?.as_str()?);
    let more = ours.strip_prefix(upstream)?;
    let said = upstream.ends_with("invalid reference format") && more.starts_with(": ");
    said.then_some("image-error-says-more")
}

/// Names of images, odd ones above all.
pub(super) fn names() -> impl Strategy<Value = String> {
    prop_oneof![10 => usual(), 20 => with_slips(name().boxed()), 1 => soup()]
}

/// Names without anything odd in them, mostly.
fn usual() -> impl Strategy<Value = String> {
    let registry =
        one_of("   docker.io/ localhost:5000/ registry.io/ a.registry.io:5000/ [::1]:5000/ team/");
    let path = vec(one_of("a foo nginx team app a_b a__b a-b a.b 0"), 1..4);
    let digest =
        prop_oneof![3 => Just(String::new()), 1 => Just(format!("@sha256:{}", hexadecimal(64)))];
    (registry, path, one_of("   :v1 :V1.2-rc_3 :_x :latest"), digest).prop_map(
        |(registry, path, tag, digest)| format!("{registry}{}{tag}{digest}", path.join("/")),
    )
}

fn name() -> impl Strategy<Value = String> {
    let component = prop_oneof![
        30 => one_of(COMPONENTS).prop_map(str::to_owned),
        1 => (230_usize..270).prop_map(|length| "a".repeat(length)),
        1 => (60_usize..70).prop_map(hexadecimal),
    ];
    let path = vec(component, 1..4).prop_map(|components| components.join("/"));
    let tag = prop_oneof![
        20 => one_of(TAGS).prop_map(str::to_owned),
        1 => (126_usize..131).prop_map(|length| format!(":{}", "t".repeat(length))),
    ];
    let length = prop_oneof![Just(64_usize), Just(96), Just(128), 30_usize..70];
    let digest = (one_of(ALGORITHMS), length)
        .prop_map(|(a, length)| format!("@{a}:{}", hexadecimal(length)));
    let digest = prop_oneof![3 => Just(String::new()), 2 => digest];
    (one_of(REGISTRIES), path, tag, digest)
        .prop_map(|(registry, path, tag, digest)| format!("{registry}{path}{tag}{digest}"))
}

fn hexadecimal(length: usize) -> String {
    "e3b0c44298fc1c149afbf4c8996fb924".chars().cycle().take(length).collect()
}
