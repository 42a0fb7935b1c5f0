//! Requests to the API server as its administrator.

use std::{sync::Arc, time::Duration};

use http::Request;
use kube::{
    Client, Config, Error,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

/// A client that blocks, and that any thread may use.
#[derive(Clone)]
pub(crate) struct Api {
    runtime: Arc<Runtime>,
    client: Client,
}

/// What the server says instead of an answer; the code is 0 if it says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: u16,
    pub(crate) message: String,
}

impl Api {
    pub(crate) fn new(kubeconfig: &str) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
        let client = runtime.block_on(async {
            let options = KubeConfigOptions::default();
            let mut config = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
            // A server or node that was killed shall not hold a test up for minutes.
            config.connect_timeout = Some(Duration::from_secs(5));
            config.read_timeout = Some(Duration::from_secs(20));
            Client::try_from(config).unwrap()
        });
        Self { runtime: Arc::new(runtime), client }
    }

    pub(crate) fn get(&self, path: &str) -> Result<Value, Refusal> {
        let text = self.text(path)?;
        Ok(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}")))
    }

    /// An answer that need not be JSON.
    pub(crate) fn text(&self, path: &str) -> Result<String, Refusal> {
        self.send(Request::get(path).body(Vec::new()).unwrap())
    }

    pub(crate) fn post(&self, path: &str, object: &Value) -> Result<Value, Refusal> {
        let request = Request::post(path).header("content-type", "application/json");
        let text = self.send(request.body(object.to_string().into_bytes()).unwrap())?;
        Ok(serde_json::from_str(&text).unwrap())
    }

    /// Deletes an object; a pod after so many seconds, or at once and without waiting for its node if there are none.
    pub(crate) fn delete(&self, path: &str, seconds: u32) -> Result<(), Refusal> {
        let options =
            json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": seconds});
        let request = Request::delete(path).header("content-type", "application/json");
        self.send(request.body(options.to_string().into_bytes()).unwrap())?;
        Ok(())
    }

    /// The server's opinion of a token: the status of a `TokenReview`.
    pub(crate) fn review_token(&self, token: &str, audience: &str) -> Value {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience]},
        });
        let reviewed = self.post("/apis/authentication.k8s.io/v1/tokenreviews", &review);
        reviewed.unwrap()["status"].clone()
    }

    fn send(&self, request: Request<Vec<u8>>) -> Result<String, Refusal> {
        self.runtime.block_on(self.client.request_text(request)).map_err(|error| match error {
            Error::Api(status) => Refusal { code: status.code, message: status.message },
            error => Refusal { code: 0, message: error.to_string() },
        })
    }
}
