//! The backend on SwiftShader, the strictest device that we know: 256 invocations, subgroups of 4, no f16.

mod common;

use common::Driver;

const SWIFTSHADER: Driver = Driver {
    manifests: &["/usr/lib/chromium/vk_swiftshader_icd.json", "/usr/share/vulkan/icd.d/vk_swiftshader_icd.json"],
    adapter: "SwiftShader",
    package: "chromium",
    cuts_loops: false,
};

device_tests!(SWIFTSHADER);
