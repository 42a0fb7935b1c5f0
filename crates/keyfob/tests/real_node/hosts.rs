//! Every host on the internet that a scenario needs, served with TLS on loopback by its own name.
//!
//! The names are added to `/etc/hosts` and the certificate authority to the system's trust store, both of which are private to the
//! test. So the documented commands, the kubelet, containerd and the plugins need no option to find and trust these hosts.

use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    io::Write as _,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use keyfob_testkit::{Internet, Request, Response};

type Handler = Arc<dyn Fn(&Request) -> Response + Send + Sync>;

/// The hosts by their names.
#[derive(Clone)]
pub(crate) struct Hosts {
    handlers: Arc<Mutex<BTreeMap<String, Handler>>>,
    internet: Arc<Internet>,
}

impl Hosts {
    pub(crate) fn start() -> Self {
        let handlers: Arc<Mutex<BTreeMap<String, Handler>>> = Arc::default();
        let lookup = Arc::clone(&handlers);
        let internet =
            Internet::start_at(SocketAddr::from(([127, 0, 0, 1], 443)), move |request| {
                let handler = lookup.lock().unwrap().get(&request.host).cloned();
                handler.map_or_else(|| Response::status(404), |handler| handler(request))
            });
        append("/etc/ssl/certs/ca-certificates.crt", internet.ca_pem());
        Self { handlers, internet: Arc::new(internet) }
    }

    /// Serves `https://NAME`, in the place of whoever served it before. Each request gets a thread, so a handler may block.
    pub(crate) fn serve(
        &self,
        name: &str,
        handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) {
        let before = self.handlers.lock().unwrap().insert(name.to_owned(), Arc::new(handler));
        if before.is_none() {
            append("/etc/hosts", &format!("127.0.0.1 {name}\n"));
        }
    }

    /// What was asked of a host since the start of the test program.
    pub(crate) fn requests(&self, name: &str) -> Vec<Request> {
        self.internet.requests().into_iter().filter(|request| request.host == name).collect()
    }
}

fn append(path: &str, text: &str) {
    OpenOptions::new().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}
