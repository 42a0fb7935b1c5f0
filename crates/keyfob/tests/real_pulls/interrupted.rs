//! A registry that dies in the middle of a layer, and comes back.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use crate::{
    docker_registry::{PASSWORD, Registry, USER},
    is_wanted, login,
    node::{Node, keyfob},
};

const LAYER: usize = 8_000_000;
/// When the registry dies: this many bytes have come.
const CUT: usize = 3_000_000;

/// A way to a registry, on which it is killed once, and started again for whoever comes next.
fn treacherous_way(registry: Arc<Mutex<Registry>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let come = Arc::new(Mutex::new(0_usize));
        for client in listener.incoming().map_while(Result::ok) {
            let server = TcpStream::connect(&registry.lock().unwrap().address).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || {
                drop(std::io::copy(&mut from, &mut to));
                drop(to.shutdown(Shutdown::Both));
            });
            let (registry, come) = (Arc::clone(&registry), Arc::clone(&come));
            thread::spawn(move || bring(server, client, &registry, &come));
        }
    });
    address
}

fn bring(mut from: TcpStream, mut to: TcpStream, registry: &Mutex<Registry>, come: &Mutex<usize>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        {
            let mut come = come.lock().unwrap();
            let before = *come;
            *come += length;
            if before < CUT && *come >= CUT {
                let mut registry = registry.lock().unwrap();
                registry.stop();
                registry.come_back();
                break;
            }
        }
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    drop(to.shutdown(Shutdown::Both));
}

#[test]
fn a_layer_is_taken_up_where_the_registry_died() {
    if !is_wanted() {
        return;
    }
    let registry = Registry::start();
    let digest = registry.push("team/app:v1", Some(&login()), &[LAYER]);
    let address = treacherous_way(Arc::new(Mutex::new(registry)));
    let image = format!("{address}/team/app:v1");
    let node = Node::new().answering("plugin", &[&address], &[[&address, USER, PASSWORD]]);
    let dest = node.path("oci");

    let said = node.run("pull", &[&image, dest.to_str().unwrap(), "-v"]);

    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    assert!(said.stdout.contains(&digest), "{}", said.stdout);
    assert!(said.stderr.to_lowercase().contains("resum"), "{}", said.stderr);
    let listed = keyfob(&["records", "list", dest.to_str().unwrap()]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
}
