//! The backend on Mesa's llvmpipe.

mod common;

use common::Driver;

const LLVMPIPE: Driver = Driver {
    manifests: &["/usr/share/vulkan/icd.d/lvp_icd.x86_64.json", "/usr/share/vulkan/icd.d/lvp_icd.json"],
    adapter: "llvmpipe",
    package: "mesa-vulkan-drivers",
    cuts_loops: true,
};

device_tests!(LLVMPIPE);
