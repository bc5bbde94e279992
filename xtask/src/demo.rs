//! `cargo xtask demo`: everything at once, on one machine, with nothing installed by hand.

mod accuracy;
mod swap;
mod talk;

use anyhow::Result;

use crate::run::step;
use crate::stage::{Example, Stage, USUAL_PORT};

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
    /// Port of the inference API; the management pages take the next. Each port has its folder: `.demo/NAME` for 8080, else
    /// `.demo/NAME-PORT`.
    #[arg(long, default_value_t = USUAL_PORT, value_parser = clap::value_parser!(u16).range(1..=65534))]
    port: u16,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    println!(
        "sagehost demo, example `{}`. Each step says what it does. The first run compiles everything, in about ten minutes on \
         two cores; later ones take half a minute.",
        args.data.name()
    );
    let mut stage = Stage::set(args.data, args.port)?;
    let server = step("Serve: verify, compile plugins, check golden examples, warm up", || stage.serve(&args.backend))?;
    step("Accuracy through HTTP, on the part of the data that training did not see", || {
        accuracy::check(&stage, &server)
    })?;
    step("Requests", || talk::show(&stage, &server))?;
    if args.data == Example::Transfers {
        step("Swap: version 2 into the repository while requests run", || swap::run(&stage, &server))?;
    }
    if args.once {
        println!("\nThat was all, and the server ends. Its files stay in {}.", stage.folder().display());
        return Ok(());
    }
    talk::invitation(&stage, &server)?;
    println!("Serving until Ctrl-C.");
    server.wait()
}
