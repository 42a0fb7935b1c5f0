//! Objects that are read by a table of their fields.

use crate::document::{FieldError, Item};

/// The fields of an object, each with the function that reads it.
///
/// A field without a function does not compile, so a name that is added to a table cannot be read as another field.
pub(super) type Fields<T> = [(&'static str, ReadField<T>)];

/// Reads one field into its place.
pub(super) type ReadField<T> = fn(&mut T, Item<'_>) -> Result<(), FieldError>;

/// Reads the fields of an object in the order of the text; `null` is an object without any.
pub(super) fn read_fields<T>(
    fields: &Fields<T>,
    target: &mut T,
    object: Item<'_>,
) -> Result<(), FieldError> {
    let names: Vec<&str> = fields.iter().map(|field| field.0).collect();
    object.object(&names, |name, item| {
        let mut matching = fields.iter().filter(|field| field.0 == name);
        matching.try_for_each(|(_, read)| read(target, item))
    })?;
    Ok(())
}
