//! Lines for the host's log. The host bounds their length and rate. Natively they go to standard error.

#[doc(inline)]
pub use crate::wit::sagehost::plugin::log::Level;

/// Writes one line.
pub fn write(level: Level, message: &str) {
    #[cfg(target_arch = "wasm32")]
    crate::wit::sagehost::plugin::log::write(level, message);
    #[cfg(not(target_arch = "wasm32"))]
    eprintln!("{level:?}: {message}");
}

/// For whoever develops the plugin.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

/// For whoever runs the host.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Something odd that was got over.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

/// Something that failed.
pub fn error(message: &str) {
    write(Level::Error, message);
}
