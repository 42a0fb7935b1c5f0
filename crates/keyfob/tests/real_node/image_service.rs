//! containerd's image service behind another socket, which holds requests back.

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    sync::{Arc, Condvar, Mutex},
    thread,
};

use crate::containerd::SOCKET;

const HELD: &str = "/run/real-node/image-service.sock";
/// What a client sends before its first frame (RFC 9113, section 3.4).
const PREFACE: usize = 24;
/// The type of the frame that begins a request.
const HEADERS: u8 = 1;

/// A kubelet's `imageServiceEndpoint`.
pub(crate) struct HeldImageService {
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl HeldImageService {
    /// Lets the first two requests of each connection pass: a kubelet tries the service, and then its first garbage collection
    /// lists images. All others wait.
    pub(crate) fn start() -> Self {
        fs::remove_file(HELD).unwrap_or_default();
        let listener = UnixListener::bind(HELD).unwrap();
        let gate = Arc::<Gate>::default();
        let accepting = Arc::clone(&gate);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let gate = Arc::clone(&accepting);
                thread::spawn(move || gate.pass_on(&client));
            }
        });
        Self { gate }
    }

    pub(crate) fn endpoint() -> String {
        format!("unix://{HELD}")
    }

    /// Lets all requests pass.
    pub(crate) fn release(&self) {
        *self.gate.is_open.lock().unwrap() = true;
        self.gate.opened.notify_all();
    }
}

impl Gate {
    /// Connects a client with containerd until one of them ends.
    fn pass_on(&self, client: &UnixStream) -> io::Result<()> {
        let server = UnixStream::connect(SOCKET)?;
        let (mut answers, mut receiver) = (server.try_clone()?, client.try_clone()?);
        thread::spawn(move || io::copy(&mut answers, &mut receiver));
        self.pass_on_requests(client, &server)
    }

    fn pass_on_requests(&self, mut client: impl Read, mut server: impl Write) -> io::Result<()> {
        let mut preface = [0; PREFACE];
        client.read_exact(&mut preface)?;
        server.write_all(&preface)?;
        loop {
            // A frame: three bytes of length, its type, its flags, and four bytes with the number of its stream.
            let mut head = [0; 9];
            client.read_exact(&mut head)?;
            let [l2, l1, l0, kind, _, s3, s2, s1, s0] = head;
            let mut payload =
                vec![0; usize::from(l2) << 16 | usize::from(l1) << 8 | usize::from(l0)];
            client.read_exact(&mut payload)?;
            // Clients number their streams 1, 3, 5, ….
            if kind == HEADERS && u32::from_be_bytes([s3, s2, s1, s0]) > 3 {
                self.wait();
            }
            server.write_all(&head)?;
            server.write_all(&payload)?;
        }
    }

    fn wait(&self) {
        let is_open = self.is_open.lock().unwrap();
        drop(self.opened.wait_while(is_open, |is_open| !*is_open).unwrap());
    }
}
