//! Service accounts in a file: what `kubectl get serviceaccount -o yaml` prints, one or a list of them.

use std::collections::BTreeMap;

use keyfob_api::document::{Document, FieldError, FieldTable, Item, Reading, documents};

use crate::identity::ServiceAccount;

/// An account by its namespace and name. Where no namespace is given it is `default`, as for kubectl.
pub(super) type Account = ((String, String), ServiceAccount);

/// The accounts of a file. Other objects may stand beside them.
pub(super) fn accounts(text: &[u8]) -> Result<Vec<Account>, String> {
    let mut accounts = Vec::new();
    for text in documents(text) {
        let document = Document::read(text).map_err(|error| error.to_string())?;
        let reading = Reading::default();
        let read = Object::collect(reading.root(&document.root), "", &mut accounts);
        read.map_err(|error| error.to_string())?;
    }
    Ok(accounts)
}

#[derive(Default)]
struct Object {
    kind: String,
    namespace: String,
    name: String,
    uid: String,
    annotations: BTreeMap<String, String>,
}

impl Object {
    const METADATA: &FieldTable<Self> = &[
        ("namespace", |object, item| item.read_text(&mut object.namespace)),
        ("name", |object, item| item.read_text(&mut object.name)),
        ("uid", |object, item| item.read_text(&mut object.uid)),
        ("annotations", Self::annotations),
    ];

    /// Takes the object if it is an account, and those that a list holds. In a list of accounts an item need not say that
    /// it is one.
    fn collect(item: Item<'_>, kind: &str, into: &mut Vec<Account>) -> Result<(), FieldError> {
        let mut object = Self { kind: kind.to_owned(), ..Self::default() };
        item.object(&["kind"], |_, item| item.read_text(&mut object.kind))?;
        let item_kind = match object.kind.as_str() {
            "ServiceAccount" => {
                item.object(&["metadata"], |_, item| {
                    item.read_fields(Self::METADATA, &mut object).map(drop)
                })?;
                into.push(object.account());
                return Ok(());
            }
            "List" => "",
            "ServiceAccountList" => "ServiceAccount",
            _ => return Ok(()),
        };
        item.object(&["items"], |_, items| {
            items.elements(|_, item| Self::collect(item, item_kind, into)).map(drop)
        })?;
        Ok(())
    }

    fn annotations(&mut self, item: Item<'_>) -> Result<(), FieldError> {
        item.entries(|key, value| {
            item_text(value).map(|text| {
                self.annotations.insert(key.expose().clone(), text);
            })
        })?;
        Ok(())
    }

    fn account(self) -> Account {
        let namespace = if self.namespace.is_empty() { "default".into() } else { self.namespace };
        let account = ServiceAccount { uid: self.uid, annotations: self.annotations };
        ((namespace, self.name), account)
    }
}

fn item_text(item: Item<'_>) -> Result<String, FieldError> {
    Ok(item.string()?.map(|text| text.expose().clone()).unwrap_or_default())
}
