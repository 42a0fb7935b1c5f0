//! Asks the agent, and distinguishes the three ways in which that can fail: the agent is down, which a fallback is for; it
//! answered with an error, which is final; or something else is wrong, which somebody must repair.
//!
//! An agent that is slow is not down: with 500 pods waiting for one plugin, a fallback would run that plugin 500 times at once, which is
//! what the agent's limits prevent. So whoever has a fallback asks, on a second connection, whether the agent is alive. That it accepts
//! connections proves nothing: the kernel does that for a process that is stopped.

use std::{io, time::Duration};

use rustix::io::Errno;

use crate::{
    args::AgentOptions,
    connection::{Connection, Deadline, WaitOutcome},
    http::{Response, ResponseError, read_response, request},
    json::{ErrorDocument, error_document},
    text::on_one_line,
};

/// Why the agent gave no result.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) enum AskError {
    /// Nobody listens, or nobody answered. To a caller with a fallback: nobody said on a second connection that the agent is alive, either.
    Down(Reason),
    /// The agent answered with an HTTP status of 400 or more.
    Refused { status: u16, reason: Reason },
    /// The socket cannot be used, or what answered there is not an agent.
    Failed(Reason),
}

/// What is wrong, and what to do about it.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(crate) struct Reason {
    message: String,
    help: Option<String>,
}

impl Reason {
    pub(crate) fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: Some(help.into()) }
    }

    /// `MESSAGE; HELP`
    pub(crate) fn one_line(&self) -> String {
        let message = on_one_line(&self.message);
        match &self.help {
            Some(help) => format!("{message}; {}", on_one_line(help)),
            None => message,
        }
    }

    fn two_lines(&self) -> String {
        let help = self.help.as_deref().map(|help| format!("help: {}\n", on_one_line(help)));
        format!("keyfob-relay: {}\n{}", on_one_line(&self.message), help.unwrap_or_default())
    }
}

impl AskError {
    pub(crate) fn reason(&self) -> &Reason {
        match self {
            Self::Down(reason) | Self::Failed(reason) | Self::Refused { reason, .. } => reason,
        }
    }

    /// What is written to stderr.
    pub(crate) fn report(&self) -> String {
        match self {
            Self::Refused { reason, .. } => reason.two_lines(),
            Self::Down(reason) | Self::Failed(reason) => {
                format!("keyfob-relay: {}\n", reason.one_line())
            }
        }
    }
}

impl AgentOptions {
    /// Sends a body and returns the body of the response.
    pub(crate) fn post(
        &self,
        path: &str,
        content_type: &str,
        body: &[u8],
    ) -> Result<Vec<u8>, AskError> {
        self.ask(&request("POST", path, content_type, body), self.timeout)
    }

    pub(crate) fn get(&self, path: &str, timeout: Duration) -> Result<Vec<u8>, AskError> {
        self.ask(&request("GET", path, "application/json", b""), timeout)
    }

    /// Posts for a caller with a fallback. It waits until the timeout for an agent that goes on to say that it is alive, and `Down`
    /// means that it does not.
    pub(crate) fn post_unless_down(
        &self,
        path: &str,
        content_type: &str,
        body: &[u8],
        down_after: Duration,
    ) -> Result<Vec<u8>, AskError> {
        let request = request("POST", path, content_type, body);
        let deadline = Deadline::after(self.timeout);
        // An agent that was killed has closed its connections, and the next one may already be there.
        for _ in 0..2 {
            if let Some(body) = self.ask_while_alive(&request, down_after, deadline)? {
                return Ok(body);
            }
            if !self.is_alive(down_after, deadline)? {
                return Err(AskError::Down(self.no_answer(None, down_after)));
            }
        }
        Err(AskError::Failed(self.no_answer(None, down_after)))
    }

    fn ask(&self, request: &[u8], timeout: Duration) -> Result<Vec<u8>, AskError> {
        let mut connection = Connection::open(&self.socket, timeout, Deadline::after(timeout))
            .map_err(|errno| self.connect_error(errno, timeout))?;
        let sent = connection.write_all(request);
        self.read(&mut connection, sent, timeout)
    }

    /// Nothing if the connection was closed without an answer.
    fn ask_while_alive(
        &self,
        request: &[u8],
        down_after: Duration,
        deadline: Deadline,
    ) -> Result<Option<Vec<u8>>, AskError> {
        let mut connection = Connection::open(&self.socket, down_after, deadline)
            .map_err(|errno| self.connect_error(errno, down_after))?;
        let sent = connection.write_all(request);
        loop {
            match connection.wait(down_after) {
                Ok(WaitOutcome::Data) => break,
                Ok(WaitOutcome::Closed) => return Ok(None),
                Ok(WaitOutcome::Silence) if self.is_alive(down_after, deadline)? => {}
                Ok(WaitOutcome::Silence) => {
                    let error = io::ErrorKind::TimedOut.into();
                    return Err(AskError::Down(self.no_answer(Some(&error), down_after)));
                }
                Err(_) => return Err(AskError::Failed(self.busy())),
            }
        }
        self.read(&mut connection, sent, self.timeout).map(Some)
    }

    /// Whether the agent does anything: it answers, whatever it is, or it closes the connection, as it does if it has too many. If the
    /// deadline leaves it less than the whole limit, it counts as busy.
    fn is_alive(&self, limit: Duration, deadline: Deadline) -> Result<bool, AskError> {
        if !deadline.time_left().is_ok_and(|left| left >= limit) {
            return Err(AskError::Failed(self.busy()));
        }
        let request = request("GET", "/v1/alive", "application/json", b"");
        let probe = || {
            let connection = Connection::open(&self.socket, limit, Deadline::after(limit))?;
            // This fails if the connection is closed already, which is then noticed below.
            connection.write_all(&request).unwrap_or_default();
            connection.wait(limit)
        };
        Ok(matches!(probe(), Ok(WaitOutcome::Data | WaitOutcome::Closed)))
    }

    fn read(
        &self,
        connection: &mut Connection,
        sent: Result<(), Errno>,
        timeout: Duration,
    ) -> Result<Vec<u8>, AskError> {
        // An agent may answer before it has read everything, for example if the request is too large, and then close the
        // connection. So a failed write does not mean that there is no answer.
        match read_response(connection) {
            Ok(response) => self.result(response),
            Err(ResponseError::NoAnswer(error)) => {
                let error = sent.err().map(io::Error::from).or(error);
                Err(AskError::Down(self.no_answer(error.as_ref(), timeout)))
            }
            Err(ResponseError::Interrupted(error)) if is_timeout(&error) => {
                Err(self.invalid(&format!("it is not complete after {timeout:?}")))
            }
            Err(ResponseError::Interrupted(_)) => Err(self.invalid("it is truncated")),
            Err(ResponseError::Invalid(what)) => Err(self.invalid(what)),
        }
    }

    /// A socket that is missing or that nobody listens on means that the agent is down. Everything else, such as missing
    /// permission, has another cause.
    fn connect_error(&self, errno: Errno, timeout: Duration) -> AskError {
        let socket = self.socket.display();
        let cause = describe(errno);
        match errno {
            Errno::NOENT | Errno::CONNREFUSED => AskError::Down(Reason::new(
                format!("the agent is not running: {socket}: {cause}"),
                "start it with: systemctl start keyfob-agent",
            )),
            Errno::AGAIN | Errno::TIMEDOUT | Errno::CONNRESET => {
                AskError::Down(self.no_answer(Some(&errno.into()), timeout))
            }
            Errno::ACCESS | Errno::PERM => AskError::Failed(Reason::new(
                format!("no access to the agent: {socket}: {cause}"),
                "its configuration sets the mode of the socket: listeners.agent.mode in /etc/keyfob/agent.yaml",
            )),
            _ => AskError::Failed(Reason::new(
                format!("cannot connect to the agent: {socket}: {cause}"),
                "give the path of its socket with --socket or KEYFOB_AGENT_SOCKET",
            )),
        }
    }

    fn no_answer(&self, error: Option<&io::Error>, timeout: Duration) -> Reason {
        let socket = self.socket.display();
        let message = match error {
            Some(error) if is_timeout(error) => {
                format!("the agent did not answer within {timeout:?}: {socket}")
            }
            _ => format!("the agent closed the connection without an answer: {socket}"),
        };
        Reason::new(message, "its log may tell why: journalctl -u keyfob-agent")
    }

    fn busy(&self) -> Reason {
        Reason::new(
            format!(
                "the agent is busy: it is alive and has not answered within {:?}: {}",
                self.timeout,
                self.socket.display()
            ),
            "see which provider is slow: keyfob agent status",
        )
    }

    fn invalid(&self, what: &str) -> AskError {
        AskError::Failed(Reason::new(
            format!("the agent's response is invalid: {what}: {}", self.socket.display()),
            "check that this is the socket of keyfob-agent, and its log: journalctl -u keyfob-agent",
        ))
    }

    fn result(&self, response: Response) -> Result<Vec<u8>, AskError> {
        match response.status {
            200 if response.body.is_empty() => Err(self.invalid("it is empty")),
            200 => Ok(response.body),
            status @ 400.. => {
                Err(AskError::Refused { status, reason: self.refusal(status, &response.body) })
            }
            status => Err(self.invalid(&format!("HTTP status {status}"))),
        }
    }

    /// Nothing but the two texts of the document is used, whatever else the body contains.
    fn refusal(&self, status: u16, body: &[u8]) -> Reason {
        match error_document(body) {
            Some(ErrorDocument { message, help }) => Reason { message, help },
            None => Reason::new(
                format!(
                    "the agent answered with HTTP status {status} and no reason: {}",
                    self.socket.display()
                ),
                "check that this is the socket of keyfob-agent, and its log: journalctl -u keyfob-agent",
            ),
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// The text without Rust's `(os error N)`.
fn describe(errno: Errno) -> String {
    let text = io::Error::from(errno).to_string();
    text.split_once(" (os error").map_or_else(|| text.clone(), |(text, _)| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent() -> AgentOptions {
        AgentOptions { socket: "/run/a\nb.sock".into(), timeout: Duration::from_secs(55) }
    }

    #[test]
    fn only_an_agent_that_does_not_listen_or_answer_is_down() {
        let kind = |errno| match agent().connect_error(errno, Duration::from_secs(1)) {
            AskError::Down(_) => "down",
            AskError::Failed(_) => "failed",
            AskError::Refused { .. } => "refused",
        };
        let down =
            [Errno::NOENT, Errno::CONNREFUSED, Errno::AGAIN, Errno::TIMEDOUT, Errno::CONNRESET];
        assert_eq!(down.map(kind), ["down"; 5]);
        let failed = [Errno::ACCESS, Errno::PERM, Errno::NOTDIR, Errno::NAMETOOLONG, Errno::MFILE];
        assert_eq!(failed.map(kind), ["failed"; 5]);
    }

    #[test]
    fn a_report_says_on_one_line_what_is_wrong_and_what_to_do() {
        let report = |errno| agent().connect_error(errno, Duration::from_millis(1500)).report();
        assert_eq!(
            report(Errno::NOENT),
            "keyfob-relay: the agent is not running: /run/a\\nb.sock: No such file or directory; start it with: \
             systemctl start keyfob-agent\n"
        );
        assert_eq!(
            report(Errno::AGAIN),
            "keyfob-relay: the agent did not answer within 1.5s: /run/a\\nb.sock; its log may tell why: journalctl -u \
             keyfob-agent\n"
        );
    }

    #[test]
    fn a_refusal_shows_its_reason_and_nothing_else_of_the_body() {
        let report = |status, body: &str| {
            agent().result(Response { status, body: body.into() }).unwrap_err().report()
        };
        assert_eq!(
            report(
                403,
                r#"{"error":{"code":"denied","message":"no\u001brule","help":"add\none"},"x":"hunter2"}"#
            ),
            "keyfob-relay: no\\u{1b}rule\nhelp: add\\none\n"
        );
        assert_eq!(report(503, r#"{"error":{"message":"busy"}}"#), "keyfob-relay: busy\n");
        for body in ["", "hunter2", r#"{"error":"hunter2"}"#] {
            assert_eq!(
                report(502, body),
                "keyfob-relay: the agent answered with HTTP status 502 and no reason: /run/a\\nb.sock\nhelp: check that \
                 this is the socket of keyfob-agent, and its log: journalctl -u keyfob-agent\n"
            );
        }
    }

    #[test]
    fn a_result_is_a_complete_200() {
        let result = |status, body: &str| agent().result(Response { status, body: body.into() });
        assert_eq!(result(200, "{}"), Ok(b"{}".to_vec()));
        for (status, body, what) in [
            (200, "", "it is empty"),
            (204, "", "HTTP status 204"),
            (302, "hunter2", "HTTP status 302"),
        ] {
            assert_eq!(result(status, body), Err(agent().invalid(what)));
        }
    }
}
