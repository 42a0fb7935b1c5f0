//! The ways in which a server or a program may repeat a secret.

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD},
};

/// A secret in every encoding in which it may come back, each with a name. What is hostile says one of these; whatever
/// is said of it then must pass a [`LeakCheck`](crate::LeakCheck).
///
/// ```
/// use keyfob_testkit::echoes;
///
/// let echoes = echoes("hunter2");
/// assert!(echoes.contains(&("base64", "aHVudGVyMg==".to_owned())));
/// assert!(echoes.contains(&("hex with colons", "68:75:6e:74:65:72:32".to_owned())));
/// ```
pub fn echoes(secret: &str) -> Vec<(&'static str, String)> {
    let base64 = BASE64_STANDARD.encode(secret);
    let percent = each_byte(secret, |byte| format!("%{byte:02X}"));
    let single = vec![
        ("plain", secret.to_owned()),
        ("lower case", secret.to_ascii_lowercase()),
        ("percent-encoded", percent.clone()),
        ("percent-encoded in lower case", each_byte(secret, |byte| format!("%{byte:02x}"))),
        ("percent-encoded as a form", form(secret)),
        ("a form with plus signs", form(secret).replace("%20", "+")),
        ("percent-encoded in part", partly(secret)),
        ("percent-encoded twice", percent.replace('%', "%25")),
        ("base64", base64.clone()),
        ("base64 without padding", BASE64_STANDARD_NO_PAD.encode(secret)),
        ("base64 for URLs", BASE64_URL_SAFE.encode(secret)),
        ("base64 for URLs without padding", BASE64_URL_SAFE_NO_PAD.encode(secret)),
        ("base64 of a login", BASE64_STANDARD.encode(format!("ada:{secret}"))),
        ("base64 of something longer", BASE64_STANDARD_NO_PAD.encode(format!("a:{secret};b"))),
        ("base64 for URLs of something longer", BASE64_URL_SAFE.encode(format!("ab:{secret};cd"))),
        ("base64 in lines", folded(&base64, "\r\n")),
        ("base64 in escaped lines", folded(&base64, "\\n")),
        ("percent-encoded base64", form(&base64)),
        ("base64 of percent-encoding", BASE64_STANDARD.encode(form(secret))),
        ("base64 of hex", BASE64_STANDARD.encode(each_byte(secret, |byte| format!("{byte:02x}")))),
        ("hex", each_byte(secret, |byte| format!("{byte:02x}"))),
        ("hex in upper case", each_byte(secret, |byte| format!("{byte:02X}"))),
        ("hex with colons", joined(secret, ":", |byte| format!("{byte:02x}"))),
        ("hex with spaces", joined(secret, " ", |byte| format!("{byte:02X}"))),
        ("hex with prefixes", joined(secret, ", ", |byte| format!("0x{byte:02x}"))),
        ("hex escapes", each_byte(secret, |byte| format!("\\x{byte:02x}"))),
        ("hex of base64", each_byte(&base64, |byte| format!("{byte:02x}"))),
        ("octal escapes", each_byte(secret, |byte| format!("\\{byte:03o}"))),
        ("numbers", format!("[{}]", joined(secret, ", ", |byte| byte.to_string()))),
        ("JSON escapes", each_unit(secret)),
        ("a JSON string", quoted(secret)),
        ("Rust escapes", each_char(secret, |c| format!("\\u{{{:x}}}", u32::from(c)))),
        ("HTML entities", each_char(secret, |c| format!("&#{};", u32::from(c)))),
        ("HTML entities without semicolons", each_char(secret, |c| format!("&#{}", u32::from(c)))),
        ("quoted-printable", each_byte(secret, |byte| format!("={byte:02X}"))),
        ("HTML entities in hex", each_char(secret, |c| format!("&#x{:X};", u32::from(c)))),
        ("percent-encoded four times", percent.replace('%', "%252525")),
        ("base64 of every byte percent-encoded", BASE64_STANDARD.encode(&percent)),
        ("base64 of UTF-16", BASE64_STANDARD.encode(utf16(secret))),
        ("hex of UTF-16", utf16_hex(secret)),
        ("hex with slashes", joined(secret, " / ", |byte| format!("{byte:02x}"))),
        ("coloured", between(secret, "\u{1b}[1;31m")),
        ("with an 8-bit control sequence", between(secret, "\u{9b}0m")),
        ("with a terminal's title", between(secret, "\u{1b}]0;t\u{7}")),
        ("with zero-width spaces", between(secret, "\u{200b}")),
        ("with soft hyphens and marks", between(secret, "\u{ad}\u{feff}\u{202e}")),
        ("with combining characters", between(secret, "\u{332}\u{34f}\u{180b}")),
        ("with fillers and musical marks", between(secret, "\u{3164}\u{1d173}\u{fff9}")),
        ("hex with plus signs", joined(secret, "+", |byte| format!("{byte:02x}"))),
        ("hex with stars", joined(secret, " * ", |byte| format!("{byte:02x}"))),
        ("hex with middle dots", joined(secret, "\u{b7}", |byte| format!("{byte:02x}"))),
        ("hex in parentheses", each_byte(secret, |byte| format!("({byte:02x})"))),
        ("hex with suffixes", joined(secret, " ", |byte| format!("{byte:02X}h"))),
        ("hex as Rust prints it", joined(secret, ",", |byte| format!("0x{byte:02x}u8"))),
        ("numbers of three digits", joined(secret, " ", |byte| format!("{byte:03}"))),
    ];
    single.into_iter().chain(nested(secret, &base64)).collect()
}

/// Encodings of encodings.
fn nested(secret: &str, base64: &str) -> Vec<(&'static str, String)> {
    let hex = |separator: &str| joined(secret, separator, |byte| format!("{byte:02x}"));
    let numbers = format!("{:?}", secret.as_bytes());
    let entities = each_char(secret, |c| format!("&#{};", u32::from(c)));
    let inner = |text: &str| BASE64_STANDARD.encode(text);
    vec![
        ("base64 of base64", inner(base64)),
        ("base64 three times", inner(&inner(base64))),
        ("base64 of hex with colons", inner(&hex(":"))),
        ("base64 of hex with prefixes", inner(&format!("0x{}", hex(" 0x")))),
        ("base64 of numbers", inner(&numbers)),
        ("base64 of HTML entities", inner(&entities)),
        ("base64 of JSON escapes", inner(&each_unit(secret))),
        ("base64 of a JSON document", inner(&serde_json::json!({"p": secret}).to_string())),
        ("base64 for URLs of base64 of numbers", BASE64_URL_SAFE.encode(inner(&numbers))),
        ("hex of hex", each_byte(&hex(""), |byte| format!("{byte:02x}"))),
        ("hex of numbers", each_byte(&numbers, |byte| format!("{byte:02X}"))),
        ("hex of HTML entities", each_byte(&entities, |byte| format!("{byte:02x}"))),
    ]
}

/// What gives a secret away wherever it stands: the encodings without what depends on their surroundings.
pub(crate) fn traces(secret: &str) -> Vec<String> {
    /// Anything shorter stands in innocent texts.
    const SHORTEST: usize = 8;
    let mut traces: Vec<String> = (0..3)
        .flat_map(|before| {
            let padded = [vec![0; before], secret.into()].concat();
            let part = (before * 8).div_ceil(6)..(before + secret.len()) * 8 / 6;
            [BASE64_STANDARD.encode(&padded), BASE64_URL_SAFE.encode(&padded)]
                .map(|encoded| encoded.get(part.clone()).unwrap_or_default().to_owned())
        })
        .collect();
    let encodings = echoes(secret).into_iter();
    traces.extend(
        encodings
            .filter(|(name, _)| !name.contains("base64") && *name != "lower case")
            .map(|(_, text)| text),
    );
    traces.retain(|trace| trace.len() >= SHORTEST);
    traces.push(secret.to_owned());
    traces
}

fn each_byte(text: &str, encode: impl Fn(u8) -> String) -> String {
    text.bytes().map(encode).collect()
}

fn each_char(text: &str, encode: impl Fn(char) -> String) -> String {
    text.chars().map(encode).collect()
}

fn each_unit(text: &str) -> String {
    let escaped = text.encode_utf16().map(|unit| format!("\\u{unit:04x}"));
    escaped.collect::<Vec<_>>().concat()
}

fn between(text: &str, inserted: &str) -> String {
    let characters: Vec<String> = text.chars().map(String::from).collect();
    characters.join(inserted)
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn utf16_hex(text: &str) -> String {
    let bytes: Vec<String> = utf16(text).iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.concat()
}

fn joined(text: &str, separator: &str, encode: impl Fn(u8) -> String) -> String {
    text.bytes().map(encode).collect::<Vec<_>>().join(separator)
}

fn form(text: &str) -> String {
    each_byte(text, |byte| match byte {
        b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    })
}

fn partly(text: &str) -> String {
    let encode = |(at, byte): (usize, u8)| match byte {
        byte if at % 2 == 0 && byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02x}"),
    };
    text.bytes().enumerate().map(encode).collect()
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().trim_matches('"').replace('/', "\\/")
}

fn folded(text: &str, line_break: &str) -> String {
    const WIDTH: usize = 5;
    let lines = text.as_bytes().chunks(WIDTH).map(String::from_utf8_lossy);
    lines.collect::<Vec<_>>().join(line_break)
}
