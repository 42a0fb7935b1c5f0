//! What names are made of: all that a URL, a glob or an image's name gives a meaning, or refuses.

use std::sync::LazyLock;

use proptest::{
    collection::vec,
    prelude::{Strategy, any},
    prop_oneof,
    sample::{Index, select},
    strategy::BoxedStrategy,
};

const LABELS: &str = "reg registry docker io index localhost a b A Reg eu-west-1 r_1 x--y  -a a- * a* *a *-* \
    ** a*b*c 10 0 127 é %C3%A9 %FF \
    %FF%FE %25 %41 ~ a]b ] abcabcabc library com amazonaws ecr dkr [a-c] \\* a\\";
const ADDRESSES: &str = "::1 :: fe80::1 2001:DB8::1 ::ffff:10.0.0.1 1:2:3:4:5:6:7:8 1:2:3:4:5:6:7:8:9 1:2:3 \
    ::A ::a-c a: abc  1.2.3.4 \
    01.2.3.4 1.2.3.256 1:2:3:4:5:6:1.2.3.4 ::2:3:4:5:6:7:8 1::2::3 ::g 12345:: ::12345 :1 1: fe80::1%25eth0 \
    fe80::1%25 fe80::1%25a-c \
    fe80::1%25a%5Db fe80::1%25a%5Bb fe80::1%25%5B%5D* fe80::1%25a* fe80::1%25a.b fe80::1%25%20 fe80::1%25%2F \
    fe80::1%25%FF fe80::1%25é \
    fe80::1%eth0 ::* fe80::1%25a%5D.b* ::%C3%A9 ::%41 %25a fe80::1%25a%3A80 fe80::1%25]";
const PORTS: &str = "   : :0 :80 :443 :5000 :05000 :99999 :* :80* :a :-1 :５０ :1:2 :80%";
pub(crate) const PATHS: &str = "  / /a /foo /foo/ /foo/bar /foobar /fo /f* /* /foo/* //foo /foo//bar /Foo \
    /foo:v1 /foo@sha256:aa /%66oo /%2566oo \
    /%2F /é /%C3%A9 /%FF /% /%z /%aé /a_b /a__b /a--b /a- /./foo /../foo /[x] /{a} /a\\b /library/nginx /v1/ \
    /v2/ /v1/foo /v2/foo /v2";
const TAILS: &str = "     ? ?x=y ?%zz # #frag #%zz #%4 ?a#b% ?? ##";
const USERS: &str = "       user@ user:pw@ u@v@ u%40x@ u%zz@ usér@ u<@ u:p:q@ u:%@ @ :@ https:// http:// \
    docker:// https:";
/// Names of registries, as they stand in images and in patterns.
pub(crate) const HOSTS: &str = "docker.io index.docker.io localhost localhost:5000 registry.io \
    registry.io:5000 *.io *.registry.io a.registry.io \
    *.*.registry.io a.b.registry.io *.dkr.ecr.*.amazonaws.com 123456789012.dkr.ecr.eu-west-1.amazonaws.com \
    a*.registry.io Registry.io [::1]:5000 *:5000 *";
/// What a slip of the pen may put anywhere.
const SLIPS: &str = "a b z 0 9 A Z - _ . .. : :: / // @ * ** ? # [ ] % %2 %25 %2a %41 %C3%A9 %FF %fe %20 %3A \
    %5B %5D %5C %2F %00 %zz é 日 İ \
    \u{212a} \u{301} \u{ad} \u{200c} \\ ^ | { } ` < > \" ' ! $ & ( ) + , ; = ~ \u{fffd} \
    😀 \u{e000} \t \n \0 \u{7f} aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// One of the words between single blanks; two blanks have an empty one between them.
pub(crate) fn one_of(words: &'static str) -> impl Strategy<Value = &'static str> {
    select(words.split(' ').collect::<Vec<_>>())
}

/// Whatever `https://` can be put before.
pub(crate) fn url() -> impl Strategy<Value = String> {
    let host = prop_oneof![
        5 => vec(one_of(LABELS), 1..5).prop_map(|labels| labels.join(".")),
        1 => one_of(ADDRESSES).prop_map(|address| format!("[{address}]")),
    ];
    let parts = (one_of(USERS), host, one_of(PORTS), one_of(PATHS), one_of(TAILS));
    let whole =
        parts.prop_map(|(user, host, port, path, tail)| format!("{user}{host}{port}{path}{tail}"));
    prop_oneof![20 => with_slips(whole.boxed()), 1 => soup()]
}

/// Pieces without any order.
pub(crate) fn soup() -> impl Strategy<Value = String> {
    prop_oneof![4 => vec(one_of(SLIPS), 0..10).prop_map(|pieces| pieces.concat()), 1 => any::<String>()]
}

/// A text, now and then with something added, left out or replaced.
pub(crate) fn with_slips(text: BoxedStrategy<String>) -> impl Strategy<Value = String> {
    let slips = prop_oneof![
        3 => vec((any::<Index>(), any::<bool>(), one_of(SLIPS)), 0..=0),
        1 => vec((any::<Index>(), any::<bool>(), one_of(SLIPS)), 1..=3),
    ];
    (text, slips).prop_map(|(mut text, slips)| {
        for (at, replace, with) in slips {
            let at = text.floor_char_boundary(at.index(text.len() + 1));
            let gone =
                text.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
            text.replace_range(at..at + if replace { gone } else { 0 }, with);
        }
        text
    })
}

/// What can be printed of what Unicode assigned after 15.0, which Go's tables are, up to 17.0, which Rust's are.
const NEWER: &str = "88f 897 c5c cdc 1acf-1add 1ae0-1aeb 1b4e-1b4f 1b7f 1c89-1c8a 20c1 2427-2429 2b96 2ffc-2fff 31e4-31e5 \
    31ef a7cb-a7cf a7d2 a7d4 a7da-a7dc a7f1 fbc3-fbd2 fd90-fd91 fdc8-fdce 105c0-105f3 10940-10959 \
    10d40-10d65 10d69-10d85 10d8e-10d8f 10ec2-10ec7 10ed0-10ed8 10efa-10efc 11380-11389 1138b 1138e \
    11390-113b5 113b7-113c0 113c2 113c5 113c7-113ca 113cc-113d5 113d7-113d8 113e1-113e2 116d0-116e3 \
    11b60-11b67 11bc0-11be1 11bf0-11bf9 11db0-11ddb 11de0-11de9 11f5a 13460-143fa 16100-16139 16d40-16d79 \
    16ea0-16eb8 16ebb-16ed3 16ff2-16ff6 187f8-187ff 18cff 18d09-18d1e 18d80-18df2 1cc00-1ccfc 1cd00-1ceb3 \
    1ceba-1ced0 1cee0-1cef0 1e5d0-1e5fa 1e5ff 1e6c0-1e6de 1e6e0-1e6f5 1e6fe-1e6ff 1f6d8 1f777-1f77a \
    1f8b2-1f8bb 1f8c0-1f8c1 1f8d0-1f8d8 1fa54-1fa57 1fa89-1fa8a 1fa8e-1fa8f 1fabe 1fac6 1fac8 1facd 1fadc \
    1fadf 1fae9-1faea 1faef 1fbcb-1fbef 1fbfa 2b73a-2b73f 2cea2-2cead 2ebf0-2ee5d 323b0-33479";

static NEWER_RANGES: LazyLock<Vec<(u32, u32)>> = LazyLock::new(|| {
    let number = |text| u32::from_str_radix(text, 16).expect("a hexadecimal number");
    let range = |text: &'static str| text.split_once('-').unwrap_or((text, text));
    NEWER.split(' ').map(range).map(|(from, to)| (number(from), number(to))).collect()
});

fn is_newer(letter: char) -> bool {
    NEWER_RANGES.iter().any(|(from, to)| (*from..=*to).contains(&u32::from(letter)))
}

pub(crate) fn has_newer_characters(text: &str) -> bool {
    text.chars().any(is_newer)
}

/// Whether two texts differ only in characters that Unicode assigned after Go's tables were made: Go spells them out.
pub(crate) fn differ_in_newer_characters(ours: &str, upstream: &str) -> bool {
    let mut rest = upstream;
    for letter in ours.chars() {
        let spelled_out = match u32::from(letter) {
            _ if !is_newer(letter) => String::from(letter),
            number @ ..=0xffff => format!("\\u{number:04x}"),
            number => format!("\\U{number:08x}"),
        };
        let same = rest.strip_prefix(letter).or_else(|| rest.strip_prefix(&spelled_out));
        let Some(after) = same else { return false };
        rest = after;
    }
    rest.is_empty() && ours != upstream
}
