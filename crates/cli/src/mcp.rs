//! `unstarve mcp`: serves agents.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

/// Serve agents by the Model Context Protocol: explain, compare, predict, plans of fixes
///
/// Reads requests from standard input and answers on standard output, as programs do that an agent starts. Each call runs this
/// program again, so that a damaged recording ends that call alone. Reads only below the directories of --allow, and changes
/// nothing without --allow-fix.
#[derive(Args)]
#[command(after_help = "\
Examples:
  unstarve mcp --allow /var/lib/unstarve
  claude mcp add unstarve -- unstarve mcp --allow /srv/recordings
  unstarve mcp --allow . --http 127.0.0.1:8747 --token-file ~/.config/unstarve/token

What agents get: docs/mcp.md.
Exit code: 0 when the client is gone, 2 if it could not serve.")]
pub struct McpArgs {
    /// Read recordings, snapshots and bundles below this directory; may be repeated
    #[arg(long, value_name = "DIRECTORY", required = true)]
    allow: Vec<PathBuf>,
    /// Let agents carry out plans: by the id that fix_plan gave, and only what `unstarve fix --apply` would do
    #[arg(long)]
    allow_fix: bool,
    /// Serve HTTP here instead, on a loopback address
    #[arg(long, value_name = "ADDRESS:PORT", requires = "token_file")]
    http: Option<SocketAddr>,
    /// The token that clients of --http must send; nobody else may be able to read the file
    #[arg(long, value_name = "FILE", requires = "http")]
    token_file: Option<PathBuf>,
}

#[cfg(feature = "mcp")]
pub fn run(args: McpArgs) -> Result<ExitCode> {
    let http = args.http.zip(args.token_file);
    let config = unstarve_mcp::Config { allowed: args.allow, may_fix: args.allow_fix, http };
    unstarve_mcp::serve(config, |address| note!("unstarve: serving {address}"))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(not(feature = "mcp"))]
pub fn run(args: McpArgs) -> Result<ExitCode> {
    let _ = (args.allow, args.allow_fix, args.http, args.token_file);
    anyhow::bail!("this unstarve was built without the server for agents: cargo install with --features mcp")
}
