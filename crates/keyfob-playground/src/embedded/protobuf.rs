//! Objects in protobuf, which `kubectl` 1.32 and newer send what they create in.
//!
//! Only the kinds that it sends so are known; answers are in JSON, which all clients take. What a table does not name is
//! refused: an object is never taken in by halves.
//!
//! Upstream: `apimachinery/pkg/runtime/serializer/protobuf`, `generated.proto` of the API groups.

mod schema;

use serde_json::{Map, Value, json};

pub(super) use self::schema::{Message, Shape};

/// The media type.
pub(super) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

const MAGIC: &[u8] = b"k8s\0";

/// Why bytes are no object.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Malformed {
    Bytes,
    Kind(String),
    Field(u64),
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes => f.write_str("the body is not protobuf"),
            Self::Kind(kind) => write!(f, "a {kind} is not read from protobuf here: send JSON"),
            Self::Field(number) => {
                write!(f, "field {number} of a message is not read from protobuf here: send JSON")
            }
        }
    }
}

/// An object in its envelope.
pub(super) fn read(body: &[u8]) -> Result<Value, Malformed> {
    let envelope = body.strip_prefix(MAGIC).ok_or(Malformed::Bytes)?;
    let (mut kind, mut version, mut raw) = (String::new(), String::new(), &[][..]);
    each_field(envelope, |number, field| match (number, field) {
        (1, Field::Bytes(bytes)) => each_field(bytes, |number, field| {
            match (number, field) {
                (1, Field::Bytes(bytes)) => version = text(bytes)?,
                (2, Field::Bytes(bytes)) => kind = text(bytes)?,
                _ => {}
            }
            Ok(())
        }),
        (2, Field::Bytes(bytes)) => {
            raw = bytes;
            Ok(())
        }
        _ => Ok(()),
    })?;
    let message = schema::of(&kind).ok_or_else(|| Malformed::Kind(kind.clone()))?;
    let mut object = message_of(raw, message)?;
    object.insert("kind".to_owned(), json!(kind));
    object.insert("apiVersion".to_owned(), json!(version));
    Ok(Value::Object(object))
}

fn message_of(bytes: &[u8], message: &Message) -> Result<Map<String, Value>, Malformed> {
    let mut object = Map::new();
    each_field(bytes, |number, field| {
        let known = message.iter().find(|(each, _, _)| u64::from(*each) == number);
        let (_, name, shape) = known.ok_or(Malformed::Field(number))?;
        put(&mut object, name, shape, field)
    })?;
    Ok(object)
}

/// A field goes where JSON has it; empty texts are left out, as there.
fn put(
    object: &mut Map<String, Value>,
    name: &str,
    shape: &Shape,
    field: Field<'_>,
) -> Result<(), Malformed> {
    let value = match (shape, field) {
        (Shape::Ignored, _) | (Shape::Text, Field::Bytes([])) => return Ok(()),
        (Shape::Text | Shape::Texts, Field::Bytes(bytes)) => json!(text(bytes)?),
        (Shape::Bool, Field::Number(number)) => json!(number != 0),
        (Shape::Integer, Field::Number(number)) => json!(number.cast_signed()),
        (Shape::One(message) | Shape::Many(message), Field::Bytes(bytes)) => {
            Value::Object(message_of(bytes, message)?)
        }
        (Shape::Map, Field::Bytes(bytes)) => return put_entry(object, name, bytes),
        _ => return Err(Malformed::Bytes),
    };
    match shape {
        Shape::Texts | Shape::Many(_) => {
            let list = object.entry(name).or_insert_with(|| json!([]));
            list.as_array_mut().ok_or(Malformed::Bytes)?.push(value);
        }
        _ => drop(object.insert(name.to_owned(), value)),
    }
    Ok(())
}

fn put_entry(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) -> Result<(), Malformed> {
    let (mut key, mut value) = (String::new(), String::new());
    each_field(bytes, |number, field| {
        match (number, field) {
            (1, Field::Bytes(bytes)) => key = text(bytes)?,
            (2, Field::Bytes(bytes)) => value = text(bytes)?,
            _ => return Err(Malformed::Bytes),
        }
        Ok(())
    })?;
    let map = object.entry(name).or_insert_with(|| json!({}));
    map.as_object_mut().ok_or(Malformed::Bytes)?.insert(key, json!(value));
    Ok(())
}

/// What stands on the wire.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn each_field<'a>(
    mut rest: &'a [u8],
    mut each: impl FnMut(u64, Field<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    while !rest.is_empty() {
        let (key, after) = varint(rest)?;
        let (field, after) = match key & 7 {
            0 => varint(after).map(|(number, after)| (Field::Number(number), after))?,
            2 => {
                let (length, after) = varint(after)?;
                let length = usize::try_from(length).map_err(|_| Malformed::Bytes)?;
                let (bytes, after) = after.split_at_checked(length).ok_or(Malformed::Bytes)?;
                (Field::Bytes(bytes), after)
            }
            _ => return Err(Malformed::Bytes),
        };
        rest = after;
        each(key >> 3, field)?;
    }
    Ok(())
}

fn varint(bytes: &[u8]) -> Result<(u64, &[u8]), Malformed> {
    let mut number = 0;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok((number, bytes.get(index + 1..).unwrap_or_default()));
        }
    }
    Err(Malformed::Bytes)
}

fn text(bytes: &[u8]) -> Result<String, Malformed> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Malformed::Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of bytes.
    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        [&[number << 3 | 2, length], content].concat()
    }

    fn envelope(kind: &str, raw: &[u8]) -> Vec<u8> {
        let of = [bytes(1, b"v1"), bytes(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), bytes(1, &of), bytes(2, raw)].concat()
    }

    #[test]
    fn an_object_is_read_as_the_json_it_stands_for() {
        let label = [bytes(1, b"app"), bytes(2, b"web")].concat();
        let metadata = [bytes(1, b"puller"), bytes(3, b""), bytes(8, b""), bytes(11, &label)];
        let raw = [bytes(1, &metadata.concat()), vec![4 << 3, 0]].concat();
        let read = read(&envelope("ServiceAccount", &raw)).unwrap();
        assert_eq!(
            read,
            json!({
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": "puller", "labels": {"app": "web"}},
                "automountServiceAccountToken": false,
            })
        );
    }

    #[test]
    fn numbers_and_lists_are_read() {
        let spec = [bytes(1, b"a"), bytes(1, b""), vec![4 << 3, 0x90, 0x1c]].concat();
        let read = read(&envelope("TokenRequest", &bytes(2, &spec))).unwrap();
        assert_eq!(read["spec"], json!({"audiences": ["a", ""], "expirationSeconds": 3600}));
    }

    #[test]
    fn what_is_not_known_whole_is_refused() {
        let unknown = envelope("ServiceAccount", &bytes(9, b"x"));
        assert_eq!(read(&unknown), Err(Malformed::Field(9)));
        assert_eq!(read(&envelope("Gadget", b"")), Err(Malformed::Kind("Gadget".to_owned())));
        let whole = envelope("ServiceAccount", &bytes(1, &bytes(1, b"puller")));
        for cut in 0..whole.len() {
            // Some are whole messages; none may panic.
            drop(read(&whole[..cut]));
        }
        for garbage in
            [&b"{}"[..], b"k8s\0\xff", b"k8s\0\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"]
        {
            assert_eq!(read(garbage), Err(Malformed::Bytes));
        }
    }
}
