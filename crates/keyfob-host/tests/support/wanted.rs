//! What a kubelet asks for when the pod `cart-1` pulls.

use keyfob_host::{PodReference, TokenRequest};

pub(crate) fn wanted() -> TokenRequest {
    TokenRequest {
        namespace: "shop".into(),
        service_account: "cart".into(),
        service_account_uid: "u-sa".into(),
        audiences: vec!["registry.example".into()],
        expiration_seconds: None,
        pod: Some(PodReference { name: "cart-1".into(), uid: "u-pod".into() }),
    }
}
