//! `sagehost serve`: reads the configuration, opens the graphs, starts the threads, follows the rollout, answers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use sagehost_batcher::ComputePool;
use sagehost_engine::Backend;
use sagehost_engine::cpu::CpuBackend;
use sagehost_engine_wgpu::{Selector, WgpuBackend};
use sagehost_gateway::{Gateway, Settings};
use sagehost_graph::{GraphView, Snapshot};
use sagehost_pipeline::{LiveTable, Runtime};
use sagehost_plugin::PluginHost;
use sagehost_rollout::{Counters, EtcdOptions, EtcdUser, Options, SourceOptions};
use sagehost_telemetry::{LogFormat, Metrics, Readings, init_logs};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{BackendChoice, Config, documentation};
use crate::policies::Policies;
use crate::service::{RolloutPages, Service};
use crate::target::ServerTarget;

/// Jobs that may wait for a thread of a pool before requests are refused: the queues before them are bounded by each
/// release, this bounds their sum.
const POOL_QUEUE: usize = 16_384;

/// Serve the releases of a model repository.
///
/// Example: sagehost serve --config sagehost.toml
#[derive(clap::Args)]
pub(crate) struct Serve {
    /// TOML; docs/configuration.md has every key. Without it the environment alone configures.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Print docs/configuration.md and end.
    #[arg(long)]
    print_config_docs: bool,
    /// Check the configuration and end.
    #[arg(long)]
    check_config: bool,
}

/// Runs the command.
///
/// # Errors
/// A bad configuration (all of it at once), a graph that cannot be opened, an address that is taken.
pub(crate) fn run(args: &Serve) -> anyhow::Result<()> {
    if args.print_config_docs {
        print!("{}", documentation());
        return Ok(());
    }
    let config = Config::read(args.config.as_deref(), std::env::vars())?;
    if args.check_config {
        config.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
        std::fs::read_dir(&config.repository)
            .with_context(|| format!("repository.folder {}", config.repository.display()))?;
        graphs(&config)?;
        println!("the configuration is good");
        return Ok(());
    }
    init_logs(&config.log_level, if config.log_json { LogFormat::Json } else { LogFormat::Text })?;
    config.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(config.io_threads)
        .thread_name("sagehost-io")
        .enable_all()
        .build()
        .context("cannot start the I/O threads")?;
    let ended = runtime.block_on(serve(config));
    // A release that is being loaded need not be: compiling may take longer than anyone wants to wait for the end.
    runtime.shutdown_background();
    ended
}

async fn serve(config: Config) -> anyhow::Result<()> {
    let metrics = Arc::new(Metrics::new(env!("CARGO_PKG_VERSION")));
    let table = Arc::new(LiveTable::default());
    let runtime = Runtime {
        compute: Arc::new(ComputePool::new("sagehost-compute", config.threads, POOL_QUEUE)?),
        guest_threads: config.threads,
        backend: backend(&config)?,
        plugins: PluginHost::new()?,
        metrics: Arc::clone(&metrics),
        graphs: graphs(&config)?,
    };
    tracing::info!(engine = runtime.backend.numerics_id(), threads = config.threads, "the engine is ready");

    let policies = Arc::new(Policies::open(config.state.with_extension("policies.toml")));
    let counters = Arc::new(Counters::default());
    let (counted, plugins) = (Arc::clone(&counters), Arc::clone(&runtime.plugins));
    metrics.read_from(move || Readings {
        plugin_instances: plugins.instances_live(),
        rejections: counted.rejected(),
        source_errors: counted.source_errors(),
    });
    let target = Arc::new(ServerTarget::new(runtime, Arc::clone(&table), Arc::clone(&policies))?);
    let rollout = sagehost_rollout::start(rollout_options(&config), target, counters)?;

    let settings = Settings {
        public: config.listen,
        management: config.admin_listen,
        max_body: config.max_body_bytes,
        max_connections: config.max_connections,
        drain_timeout: config.shutdown,
        request_timeout: config.request_timeout,
        header_timeout: config.header_timeout,
        body_timeout: config.body_timeout,
        unready_for: config.unready,
    };
    let pages = Arc::new(RolloutPages { status: rollout.status(), table: Arc::clone(&table), policies });
    let gateway = Gateway::bind(settings, Arc::new(Service { table }), pages, metrics).await?;
    tracing::info!(inference = %gateway.public_addr(), management = %gateway.management_addr(), "listening");
    let drained = gateway.serve(told_to_stop()).await;
    tracing::info!(?drained, "ended");
    Ok(())
}

/// Ready when the process is asked to end: Ctrl-C, or SIGTERM as an orchestrator sends it.
async fn told_to_stop() {
    let terminate = async {
        match signal(SignalKind::terminate()) {
            Ok(mut terminate) => {
                terminate.recv().await;
            }
            Err(error) => {
                tracing::error!(%error, "SIGTERM cannot be waited for");
                std::future::pending::<()>().await;
            }
        }
    };
    tokio::select! {
        () = terminate => {}
        interrupted = tokio::signal::ctrl_c() => {
            if let Err(error) = interrupted {
                tracing::error!(%error, "Ctrl-C cannot be waited for");
                std::future::pending::<()>().await;
            }
        }
    }
    tracing::info!("asked to stop: unready, draining");
}

fn backend(config: &Config) -> anyhow::Result<Arc<dyn Backend>> {
    let selector = Selector { name_contains: config.adapter.clone(), allow_software: config.adapter.is_some() };
    match config.backend {
        BackendChoice::Cpu => Ok(Arc::new(CpuBackend::new())),
        BackendChoice::Wgpu => Ok(Arc::new(WgpuBackend::new(&selector).context("engine.backend = \"wgpu\"")?)),
        BackendChoice::Auto => match WgpuBackend::new(&selector) {
            Ok(backend) => Ok(Arc::new(backend)),
            Err(reason) => {
                tracing::info!(%reason, "no GPU: the CPU serves");
                Ok(Arc::new(CpuBackend::new()))
            }
        },
    }
}

fn graphs(config: &Config) -> anyhow::Result<BTreeMap<String, Arc<dyn GraphView>>> {
    let open = |(name, folder): (&String, &PathBuf)| {
        let snapshot = Snapshot::open(folder).with_context(|| format!("graph `{name}`"))?;
        tracing::info!(graph = %name, version = %snapshot.version(), nodes = snapshot.num_nodes(), "opened");
        Ok((name.clone(), Arc::new(snapshot) as Arc<dyn GraphView>))
    };
    config.graphs.iter().map(open).collect()
}

fn rollout_options(config: &Config) -> Options {
    let source = match &config.etcd {
        None => SourceOptions::Folder,
        Some(etcd) => SourceOptions::Etcd(EtcdOptions {
            endpoints: etcd.endpoints.clone(),
            prefix: etcd.prefix.clone(),
            user: etcd.login.clone().map(|(name, password)| EtcdUser { name, password }),
            last_good: Some(config.state.clone()),
            ..EtcdOptions::default()
        }),
    };
    Options { settle: config.settle, ..Options::new(config.repository.clone(), source) }
}
