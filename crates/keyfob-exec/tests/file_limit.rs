//! In a process of its own, because it changes the process.

use keyfob_exec::{
    Invocation, ProcessRunner, Program, Runner as _, Stdin, SystemEnvironment, raise_file_limit,
};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[tokio::test]
async fn a_program_has_the_limit_of_files_that_this_process_had() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(123), maximum }).unwrap();
    for _ in 0..2 {
        raise_file_limit().unwrap();
        assert_eq!(getrlimit(Resource::Nofile), Rlimit { current: maximum, maximum });
    }

    // Not all of this fits into a pipe, so the shell has read everything only when the runner feeds it, which has set the limit by then.
    let invocation = Invocation::new(Program::at("/bin/sh").unwrap())
        .args(["-c", "cat > /dev/null; ulimit -S -n; ulimit -H -n"])
        .stdin(Stdin::bytes("x".repeat(4 << 20)));
    let finished = ProcessRunner::new(SystemEnvironment).run(&invocation).await.unwrap();

    let maximum = maximum.map_or("unlimited".to_owned(), |limit| limit.to_string());
    assert_eq!(finished.stdout.expose(), format!("123\n{maximum}\n").as_bytes());
}
