//! The listener for metrics and the state of the agent, which every user of the node can reach.

use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::rig::{APP, AgentFile, Rig, eventually};

#[tokio::test]
async fn everybody_on_the_node_sees_whether_the_agent_is_alive_and_ready() {
    let rig = Rig::new();
    let agent = rig.start();
    agent.users(APP).await;
    let alive = agent.http_get("/healthz").await;
    assert_eq!((alive.status, &*alive.body), (200, "alive\n"));
    let ready = agent.http_get("/readyz").await;
    let text = "ready\nconfiguration: read at 2030-03-17T17:46:40Z\n";
    assert_eq!((ready.status, &*ready.body), (200, text));
    let metrics = agent.http_get("/metrics").await;
    assert!(metrics.head.contains("content-type: application/openmetrics-text; version=1.0.0"));
    assert!(metrics.body.ends_with("# EOF\n"), "{}", metrics.body);
    for reply in [&alive, &ready, &metrics] {
        assert!(reply.head.contains("cache-control: no-store"), "{}", reply.head);
        assert!(reply.head.contains("x-content-type-options: nosniff"), "{}", reply.head);
        assert!(!reply.body.contains("ada"), "{}", reply.body);
    }
    rig.finish(agent).await;
}

#[tokio::test]
async fn only_names_of_loopback_are_answered() {
    let rig = Rig::new();
    let agent = rig.start();
    let port = agent.http.unwrap().port();
    for host in ["localhost", "127.0.0.1", "[::1]"] {
        for host in [host.to_owned(), format!("{host}:{port}")] {
            assert_eq!(agent.http_call("GET", "/healthz", &host).await.status, 200, "{host}");
        }
    }
    for host in ["evil.example", "localhost:1", "localhost.evil.example", "10.0.0.1"] {
        for path in ["/healthz", "/metrics", "/nothing"] {
            let reply = agent.http_call("GET", path, host).await;
            assert_eq!(reply.status, 421, "{host}{path}");
            assert!(!reply.body.contains("keyfob_agent"), "{}", reply.body);
        }
    }
    assert_ne!(agent.http_call("GET", "/metrics", "").await.status, 200, "no host at all");
    let twice = format!("localhost:{port}\r\nhost: evil.example");
    assert_ne!(agent.http_call("GET", "/metrics", &twice).await.status, 200);
    let whole = agent.http_call("GET", "http://evil.example/metrics", "localhost").await;
    assert_eq!(whole.status, 421, "the request line counts");
    rig.finish(agent).await;
}

#[tokio::test]
async fn nothing_can_be_changed() {
    let rig = Rig::new();
    let agent = rig.start();
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "TRACE"] {
        for path in ["/metrics", "/v1/reload", "/v1/credentials"] {
            let reply = agent.http_call(method, path, "localhost").await;
            // The target of CONNECT is no path.
            assert!([400, 405].contains(&reply.status), "{method} {path}: {}", reply.status);
        }
    }
    let allowed = agent.http_call("POST", "/metrics", "localhost").await;
    assert!(allowed.head.contains("allow: get, head"), "{}", allowed.head);
    for path in ["/v1/status", "/v1/audit", "/v1/credentials", "/v1/docker/list"] {
        assert_eq!(agent.http_get(path).await.status, 404, "{path} is not served here");
    }
    let head = agent.http_call("HEAD", "/metrics", "localhost").await;
    assert_eq!((head.status, &*head.body), (200, ""));
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_rejected_configuration_is_shown_and_the_agent_stays_ready() {
    let rig = Rig::new();
    let agent = rig.start();
    rig.clock.advance(Duration::from_mins(1));
    fs::write(rig.file(), "apiVersion: secret-of-the-file").unwrap();
    agent.agent.reload().unwrap_err();
    let ready = agent.http_get("/readyz").await;
    let text = "ready\nconfiguration: the new configuration was rejected at 2030-03-17T17:47:40Z, and the old one stays in use; \
                `keyfob agent status` says why\n";
    assert_eq!((ready.status, &*ready.body), (200, text));
    rig.write(&AgentFile::default());
    agent.agent.reload().unwrap();
    let ready = agent.http_get("/readyz").await;
    assert_eq!(&*ready.body, "ready\nconfiguration: read at 2030-03-17T17:47:40Z\n");
    rig.finish(agent).await;
}

#[tokio::test]
async fn an_agent_that_stops_is_not_ready_while_requests_are_under_way() {
    let rig = Rig::new();
    let go_on = rig.plugins.hold();
    let agent = rig.start();
    let socket = agent.socket.clone();
    let asking = tokio::spawn(async move { socket.credentials(APP).await.users() });
    eventually("the plugin runs", || async { rig.plugins.running() == 1 }).await;

    agent.begin_to_stop();

    eventually("the agent is not ready", || async {
        agent.http_get("/readyz").await.status == 503
    })
    .await;
    assert!(agent.http_get("/readyz").await.body.starts_with("not ready: the agent stops"));
    assert_eq!(agent.http_get("/healthz").await.status, 200, "it is alive");
    drop(go_on);
    assert_eq!(asking.await.unwrap(), ["ada"]);
    rig.finish(agent).await;
}

#[tokio::test]
async fn a_socket_can_be_used_instead_of_a_port() {
    let rig = Rig::new();
    let path = rig.path("http.sock");
    let http = format!("{{path: {}}}", path.display());
    rig.write(&AgentFile { http, ..AgentFile::default() });
    let agent = rig.start();
    assert_eq!(agent.http, None);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut stream = tokio::net::UnixStream::connect(&path).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nhost: whatever.example\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await.unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 OK") && reply.ends_with("alive\n"), "{reply}");
    rig.finish(agent).await;
    assert!(!path.exists());
}
