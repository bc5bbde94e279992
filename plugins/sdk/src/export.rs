//! Macros that export a plugin type as a component. They keep the configured value for the life of the instance and turn
//! a panic's message, which wasm32 would swallow, into a line of the host's log.

/// What the macros call; not for plugins.
#[doc(hidden)]
pub mod glue {
    use std::sync::OnceLock;

    use crate::{Error, NamedSetting, Settings, log};

    pub fn configure<P>(
        plugin: &OnceLock<P>,
        settings: Vec<NamedSetting>,
        read: fn(&mut Settings) -> Result<P, String>,
    ) -> Result<(), String> {
        std::panic::set_hook(Box::new(|info| log::error(&info.to_string())));
        let mut settings = Settings::new(settings)?;
        plugin.set(read(&mut settings)?).map_err(|_| "configured twice".to_owned())
    }

    pub fn configured<P>(plugin: &OnceLock<P>) -> Result<&P, Error> {
        plugin.get().ok_or_else(|| Error::Internal("called before it was configured".to_owned()))
    }
}

/// Exports a [`Sampler`](crate::Sampler).
#[macro_export]
macro_rules! export_sampler {
    ($plugin:ty) => {
        $crate::__export!(SAMPLER, $plugin, $crate::Sampler, sampling, __export_sagehost_plugin_sampling_0_1_0_cabi, {
            fn sample(
                ctx: $crate::BatchContext,
                seeds: $crate::Frontier,
                hops: Vec<$crate::Hop>,
                growth: $crate::Growth,
            ) -> Result<Vec<$crate::Block>, $crate::Error> {
                let plugin = $crate::glue::configured(&PLUGIN)?;
                $crate::Sampler::sample(plugin, &ctx, &$crate::HostGraph, seeds, &hops, growth)
            }
        });
    };
}

/// Exports an [`EdgeWeigher`](crate::EdgeWeigher).
#[macro_export]
macro_rules! export_edge_weigher {
    ($plugin:ty) => {
        $crate::__export!(
            EDGE_WEIGHER,
            $plugin,
            $crate::EdgeWeigher,
            weighing,
            __export_sagehost_plugin_weighing_0_1_0_cabi,
            {
                fn weigh(
                    ctx: $crate::BatchContext,
                    layer: u32,
                    block: $crate::Block,
                ) -> Result<Vec<f32>, $crate::Error> {
                    let plugin = $crate::glue::configured(&PLUGIN)?;
                    $crate::EdgeWeigher::weigh(plugin, &ctx, &$crate::HostGraph, layer, &block)
                }
            }
        );
    };
}

/// Exports a [`Reducer`](crate::Reducer).
#[macro_export]
macro_rules! export_reducer {
    ($plugin:ty) => {
        $crate::__export!(REDUCER, $plugin, $crate::Reducer, reducing, __export_sagehost_plugin_reducing_0_1_0_cabi, {
            fn reduce(
                ctx: $crate::BatchContext,
                layer: u32,
                dim: u32,
                offsets: Vec<u32>,
                rows: Vec<f32>,
            ) -> Result<Vec<f32>, $crate::Error> {
                let plugin = $crate::glue::configured(&PLUGIN)?;
                $crate::Reducer::reduce(plugin, &ctx, layer, dim as usize, &offsets, &rows)
            }
        });
    };
}

/// Exports a [`PreProcessor`](crate::PreProcessor).
#[macro_export]
macro_rules! export_pre_processor {
    ($plugin:ty) => {
        $crate::__export!(
            PRE_PROCESSOR,
            $plugin,
            $crate::PreProcessor,
            preparing,
            __export_sagehost_plugin_preparing_0_1_0_cabi,
            {
                fn prepare(ctx: $crate::Context, request: $crate::Request) -> Result<Vec<f32>, $crate::Error> {
                    let plugin = $crate::glue::configured(&PLUGIN)?;
                    $crate::PreProcessor::prepare(plugin, &ctx, &request)
                }
            }
        );
    };
}

/// Exports a [`PostProcessor`](crate::PostProcessor).
#[macro_export]
macro_rules! export_post_processor {
    ($plugin:ty) => {
        $crate::__export!(
            POST_PROCESSOR,
            $plugin,
            $crate::PostProcessor,
            deciding,
            __export_sagehost_plugin_deciding_0_1_0_cabi,
            {
                fn decide(
                    ctx: $crate::Context,
                    request: $crate::Request,
                    prepared: Vec<f32>,
                    output: $crate::ModelOutput,
                    evidence: $crate::Evidence,
                    policy: $crate::Policy,
                ) -> Result<$crate::Decision, $crate::Error> {
                    let plugin = $crate::glue::configured(&PLUGIN)?;
                    $crate::PostProcessor::decide(plugin, &ctx, &request, &prepared, &output, &evidence, &policy)
                }
            }
        );
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __export {
    ($world:ident, $plugin:ty, $role:path, $interface:ident, $export:ident, { $($method:item)* }) => {
        #[cfg(target_arch = "wasm32")]
        #[allow(unsafe_code, reason = "the generated macros define the component's raw functions")]
        mod __sagehost_export {
            use super::*;

            static PLUGIN: ::std::sync::OnceLock<$plugin> = ::std::sync::OnceLock::new();
            struct Component;

            impl $crate::wit::exports::sagehost::plugin::configure::Guest for Component {
                fn configure(settings: Vec<$crate::NamedSetting>) -> Result<(), String> {
                    $crate::glue::configure(&PLUGIN, settings, <$plugin as $role>::configure)
                }
            }

            impl $crate::wit::exports::sagehost::plugin::$interface::Guest for Component {
                $($method)*
            }

            $crate::wit::exports::sagehost::plugin::configure::__export_sagehost_plugin_configure_0_1_0_cabi!(
                Component with_types_in $crate::wit::exports::sagehost::plugin::configure
            );
            $crate::wit::exports::sagehost::plugin::$interface::$export!(
                Component with_types_in $crate::wit::exports::sagehost::plugin::$interface
            );

            #[unsafe(link_section = concat!("component-type:sagehost:", stringify!($world)))]
            static WORLD: [u8; $crate::wit::$world.len()] = $crate::wit::$world;
        }
    };
}
