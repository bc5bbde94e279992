//! `cargo xtask demo`: everything at once, on one machine, with nothing installed by hand.

mod accuracy;
mod swap;
mod talk;

use anyhow::Result;

use crate::run::step;
use crate::stage::{Example, Stage};

/// Build, serve an example, ask it, swap its release under load, and go on serving.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which example.
    #[arg(long, value_enum, default_value = "transfers")]
    data: Example,
    /// End when everything was shown, instead of serving until Ctrl-C.
    #[arg(long)]
    once: bool,
    /// The engine: cpu, wgpu or auto (wgpu where there is a GPU).
    #[arg(long, default_value = "auto")]
    backend: String,
    /// Port of the inference API; the management pages take the next.
    #[arg(long, default_value_t = 8080)]
    port: u16,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    println!(
        "sagehost demo, example `{}`. Each step says what it does; the first run compiles for some ten minutes.",
        args.data.name()
    );
    let stage = Stage::set(args.data)?;
    let listen = [args.port, args.port + 1].map(|port| format!("127.0.0.1:{port}"));
    let server = step("Serve: verify, compile plugins, check golden examples, warm up", || {
        stage.serve(&args.backend, Some(listen))
    })?;
    step("Accuracy through HTTP, on the later part of the data", || accuracy::check(&stage, &server))?;
    step("Requests", || talk::show(&stage, &server))?;
    if args.data == Example::Transfers {
        step("Swap: version 2 into the repository while requests run", || swap::run(&stage, &server))?;
    }
    talk::invitation(&stage, &server);
    if args.once {
        return Ok(());
    }
    println!("Serving until Ctrl-C.");
    server.wait()
}
