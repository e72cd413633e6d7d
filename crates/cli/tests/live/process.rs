use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A child that cannot outlive the trial nor block it: no terminal, no pipes, killed on drop.
pub struct Running {
    name: String,
    child: Child,
    out: File,
    err: File,
}

/// A child that has ended.
pub struct Done {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Running {
    pub fn start(command: &mut Command) -> Result<Running, String> {
        let name = format!("{command:?}");
        let fail = |error: std::io::Error| format!("{name}: {error}");
        let out = tempfile::tempfile().map_err(fail)?;
        let err = tempfile::tempfile().map_err(fail)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone().map_err(fail)?)
            .stderr(err.try_clone().map_err(fail)?)
            .spawn()
            .map_err(fail)?;
        Ok(Running { name, child, out, err })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end, which must come in time.
    pub fn finish(mut self, limit: Duration) -> Result<Done, String> {
        let end = Instant::now() + limit;
        let status = loop {
            match self.child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < end => thread::sleep(Duration::from_millis(20)),
                Ok(None) => return Err(format!("{} took longer than {limit:?}", self.name)),
                Err(error) => return Err(format!("{}: {error}", self.name)),
            }
        };
        Ok(Done { status, out: text(&mut self.out)?, err: text(&mut self.err)? })
    }

    /// The same, and it must succeed.
    pub fn succeed(self, limit: Duration) -> Result<Done, String> {
        let name = self.name.clone();
        let done = self.finish(limit)?;
        if done.status.success() { Ok(done) } else { Err(format!("{name}: {}\n{}{}", done.status, done.out, done.err)) }
    }
}

fn text(file: &mut File) -> Result<String, String> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail if it has ended already, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
