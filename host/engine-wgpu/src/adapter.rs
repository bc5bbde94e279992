//! Which device to use: listing and choosing Vulkan adapters.

use sagehost_engine::EngineError;

/// What is asked of an adapter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Part of the adapter's name, in any case (`"h200"`, `"llvmpipe"`). `None`: the first of the best kind.
    pub name_contains: Option<String>,
    /// Whether a software rasteriser (llvmpipe, SwiftShader) will do. Slower than the CPU backend: for tests.
    pub allow_software: bool,
}

/// One adapter that the Vulkan loader offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterSummary {
    /// The device's name.
    pub name: String,
    /// The driver's name and version.
    pub driver: String,
    /// Runs on the CPU.
    pub software: bool,
    /// 0 is best: discrete, integrated, virtual, other, software.
    rank: u8,
}

impl AdapterSummary {
    fn of(info: &wgpu::AdapterInfo) -> Self {
        let rank = match info.device_type {
            wgpu::DeviceType::DiscreteGpu => 0,
            wgpu::DeviceType::IntegratedGpu => 1,
            wgpu::DeviceType::VirtualGpu => 2,
            wgpu::DeviceType::Other => 3,
            wgpu::DeviceType::Cpu => 4,
        };
        let driver = format!("{} {}", info.driver, info.driver_info).trim().to_string();
        Self { name: info.name.clone(), driver, software: info.device_type == wgpu::DeviceType::Cpu, rank }
    }

    /// `wgpu/<backend>/<adapter>/<driver>/<kernel generation>`. A software adapter compiles for the CPU that it runs on, so
    /// that its name alone does not promise equal bits: the vector extensions are added to it.
    pub(crate) fn numerics_id(&self, backend: wgpu::Backend) -> String {
        let on = if self.software { format!(" on {}", cpu_features()) } else { String::new() };
        format!("wgpu/{backend}/{}{on}/{}/{}", self.name, self.driver, crate::KERNEL_GENERATION)
    }
}

fn cpu_features() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        let has = [
            ("avx2", std::is_x86_feature_detected!("avx2")),
            ("fma", std::is_x86_feature_detected!("fma")),
            ("avx512f", std::is_x86_feature_detected!("avx512f")),
        ];
        has.iter().filter(|(_, yes)| *yes).fold("x86_64".to_string(), |text, (name, _)| format!("{text}+{name}"))
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        std::env::consts::ARCH.to_string()
    }
}

/// Every adapter that the Vulkan loader offers, software ones included.
#[must_use]
pub fn adapters() -> Vec<AdapterSummary> {
    enumerate().iter().map(|a| AdapterSummary::of(&a.get_info())).collect()
}

fn enumerate() -> Vec<wgpu::Adapter> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends: wgpu::Backends::VULKAN,
        // Neither validation layers nor debug labels, in any build: errors come from wgpu's own validation.
        flags: wgpu::InstanceFlags::empty(),
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    pollster::block_on(instance.enumerate_adapters(wgpu::Backends::VULKAN))
}

/// The adapter that `selector` asks for.
pub(crate) fn find(selector: &Selector) -> Result<(wgpu::Adapter, AdapterSummary), EngineError> {
    let mut found = enumerate();
    let summaries: Vec<_> = found.iter().map(|a| AdapterSummary::of(&a.get_info())).collect();
    let index = choose(&summaries, selector)?;
    Ok((found.swap_remove(index), summaries[index].clone()))
}

/// The index of the best adapter that fits; among equals the loader's first.
fn choose(found: &[AdapterSummary], selector: &Selector) -> Result<usize, EngineError> {
    let wanted = selector.name_contains.as_ref().map(|name| name.to_lowercase());
    let fits = |adapter: &AdapterSummary| {
        (selector.allow_software || !adapter.software)
            && wanted.as_ref().is_none_or(|name| adapter.name.to_lowercase().contains(name))
    };
    let best = found.iter().enumerate().filter(|(_, a)| fits(a)).min_by_key(|(i, a)| (a.rank, *i));
    best.map(|(i, _)| i).ok_or_else(|| EngineError::Device(refusal(found, selector)))
}

fn refusal(found: &[AdapterSummary], selector: &Selector) -> String {
    let name = selector.name_contains.as_ref().map_or(String::new(), |name| format!(" whose name contains `{name}`"));
    let kind = if selector.allow_software { "" } else { " on a GPU" };
    if found.is_empty() {
        return format!(
            "no Vulkan adapter{kind}{name}: the Vulkan loader offers none; install the device's Vulkan driver"
        );
    }
    let list: Vec<_> = found
        .iter()
        .map(|a| format!("`{}` ({}{})", a.name, a.driver, if a.software { ", software" } else { "" }))
        .collect();
    format!("no Vulkan adapter{kind}{name}; there are: {}", list.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(name: &str, rank: u8) -> AdapterSummary {
        AdapterSummary { name: name.into(), driver: "d 1".into(), software: rank == 4, rank }
    }

    #[test]
    fn prefers_the_strongest_kind_and_the_first_of_it() {
        let found = [adapter("llvmpipe", 4), adapter("Iris", 1), adapter("H200", 0), adapter("H100", 0)];
        let any = Selector { name_contains: None, allow_software: true };
        assert_eq!(choose(&found, &any).unwrap(), 2);
        let named = Selector { name_contains: Some("iris".into()), allow_software: false };
        assert_eq!(choose(&found, &named).unwrap(), 1);
    }

    #[test]
    fn software_only_where_allowed_and_a_refusal_lists_what_there_is() {
        let found = [adapter("llvmpipe", 4)];
        let strict = Selector::default();
        let message = choose(&found, &strict).unwrap_err().to_string();
        assert!(message.contains("llvmpipe") && message.contains("software"), "{message}");
        assert_eq!(choose(&found, &Selector { allow_software: true, ..strict.clone() }).unwrap(), 0);
        let none = choose(&[], &strict).unwrap_err().to_string();
        assert!(none.contains("install"), "{none}");
    }

    #[test]
    fn numerics_id_names_everything_that_bits_depend_on() {
        let id = adapter("H200", 0).numerics_id(wgpu::Backend::Vulkan);
        assert_eq!(id, format!("wgpu/vulkan/H200/d 1/{}", crate::KERNEL_GENERATION));
        assert!(adapter("llvmpipe", 4).numerics_id(wgpu::Backend::Vulkan).contains("llvmpipe on "));
    }
}
