//! From a configuration to something that sends requests: addresses, proxies, TLS and time limits.
//!
//! What `kube` makes of a configuration, with two additions: connections can be ended, and the certificate can change.

use std::{error::Error, sync::Arc, time::Duration};

use http::{Request, Response, Uri};
use hyper::{
    body::Incoming,
    rt::{Read, Write},
};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_timeout::TimeoutConnector;
use hyper_util::{
    client::{
        legacy::{
            Client,
            connect::{
                Connection, HttpConnector,
                proxy::{SocksV5, Tunnel},
            },
        },
        proxy::matcher::{Intercept, Matcher},
    },
    rt::TokioExecutor,
};
use kube::client::Body;
use rustls::{ClientConfig, pki_types::ServerName};
use tower::{BoxError, Service, ServiceExt as _, util::BoxCloneSyncService};

use super::{
    ClientError,
    connections::{Connections, Connector},
};
use crate::{Authenticator, Identity, Opened, Rotating, presenting};

/// Sends requests whose addresses are complete.
pub(super) type Http = BoxCloneSyncService<Request<Body>, Response<Incoming>, BoxError>;

/// Everything that a connection depends on but the identity.
#[derive(Clone)]
pub(super) struct Dialer {
    tls: ClientConfig,
    server_name: Option<ServerName<'static>>,
    proxy: Option<Intercept>,
    timeouts: [Option<Duration>; 3],
    reset_reader_on_write: bool,
}

impl Dialer {
    pub(super) fn new(config: &kube::Config, tls: ClientConfig) -> Result<Self, ClientError> {
        let server_name = config
            .tls_server_name
            .as_ref()
            .map(|name| ServerName::try_from(name.clone()).map_err(|_| ClientError::ServerName));
        let proxy = config.proxy_url.as_ref().map(|proxy| {
            // The matcher takes addresses apart: the user in it, and what it is without.
            let matcher = Matcher::builder().all(proxy.to_string()).build();
            matcher.intercept(&config.cluster_url).ok_or(ClientError::Proxy)
        });
        Ok(Self {
            tls,
            server_name: server_name.transpose()?,
            proxy: proxy.transpose()?,
            timeouts: [config.connect_timeout, config.read_timeout, config.write_timeout],
            reset_reader_on_write: config.reset_reader_on_write,
        })
    }

    /// Sends everything as one identity, or as nobody.
    pub(super) fn fixed(&self, identity: Option<&Arc<Identity>>) -> Http {
        self.open(identity).service
    }

    /// Sends everything as whoever the authenticator says, at any time.
    pub(super) fn rotating(self, authenticator: Authenticator) -> Http {
        let rotating = Rotating::new(authenticator, move |identity| self.open(identity));
        BoxCloneSyncService::new(rotating)
    }

    fn open(&self, identity: Option<&Arc<Identity>>) -> Opened<Http> {
        let connections = Connections::default();
        let mut http = HttpConnector::new();
        http.enforce_http(false);
        http.set_nodelay(true);
        http.set_keepalive(Some(Duration::from_secs(30)));
        let connector = Connector { http, connections: connections.clone() };
        let tls = presenting(&self.tls, identity);
        let service = match &self.proxy {
            None => self.over(tls, connector),
            Some(proxy) if proxy.uri().scheme_str().is_some_and(|it| it.starts_with("socks5")) => {
                let mut socks = SocksV5::new(proxy.uri().clone(), connector);
                if let Some((user, password)) = proxy.raw_auth() {
                    socks = socks.with_auth(user.to_owned(), password.to_owned());
                }
                self.over(tls, socks)
            }
            Some(proxy) => {
                // A proxy is told nothing about who we are; its certificate is checked as the server's is.
                let to_proxy = https(presenting(&self.tls, None), None, connector);
                let mut tunnel = Tunnel::new(proxy.uri().clone(), to_proxy);
                if let Some(user) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(user.clone());
                }
                self.over(tls, tunnel)
            }
        };
        Opened { service, close: Box::new(move || connections.close()) }
    }

    fn over<C>(&self, tls: ClientConfig, connector: C) -> Http
    where
        C: Service<Uri> + Clone + Send + Sync + 'static,
        C::Response: Connection + Read + Write + Send + Unpin + 'static,
        C::Future: Send + 'static,
        C::Error: Into<BoxError>,
    {
        let connector = https(tls, self.server_name.clone(), connector);
        let mut connector = TimeoutConnector::new(connector);
        let [connect, read, write] = self.timeouts;
        connector.set_connect_timeout(connect);
        connector.set_read_timeout(read);
        connector.set_write_timeout(write);
        connector.set_reset_reader_on_write(self.reset_reader_on_write);
        let client = Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
        BoxCloneSyncService::new(
            client.map_err(|error| Box::new(error) as Box<dyn Error + Send + Sync>),
        )
    }
}

fn https<C>(
    tls: ClientConfig,
    server_name: Option<ServerName<'static>>,
    connector: C,
) -> HttpsConnector<C> {
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    let builder = match server_name {
        Some(name) => builder.with_server_name_resolver(FixedServerNameResolver::new(name)),
        None => builder,
    };
    builder.enable_http1().wrap_connector(connector)
}
