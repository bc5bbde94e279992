//! Reads a verified folder into memory. Each file is digested after it was read: what is handed out is what the manifest
//! names, even where the folder changed since it was inspected.

use std::collections::BTreeMap;

use sagehost_types::{Digest, ReleaseId};

use crate::error::ReleaseError;
use crate::folder::ReleaseFolder;
use crate::golden::Golden;
use crate::manifest::{GOLDEN_FILE, SPEC_FILE, WEIGHTS_FILE};
use crate::spec::{PluginRole, PluginSpec, ReleaseSpec};
use crate::validate::{parse_golden, parse_spec};

/// A release's content.
#[derive(Clone, Debug)]
pub struct LoadedFiles {
    /// Its identity.
    pub id: ReleaseId,
    /// Part of every sample's random key.
    pub salt: String,
    /// `release.toml`, validated.
    pub spec: ReleaseSpec,
    /// `weights.safetensors`, as it is: whether its tensors fit the model is the engine's to say.
    pub weights: Vec<u8>,
    /// `golden.json`, validated against the spec.
    pub golden: Golden,
    /// The plugins that the spec names.
    pub plugins: BTreeMap<PluginRole, LoadedPlugin>,
}

/// A plugin of a release.
#[derive(Clone, Debug)]
pub struct LoadedPlugin {
    /// What the spec says of it.
    pub spec: PluginSpec,
    /// The component.
    pub bytes: Vec<u8>,
    /// Its digest.
    pub digest: Digest,
}

impl ReleaseFolder {
    /// Reads, verifies and validates the release. Blocking.
    ///
    /// # Errors
    /// [`ReleaseError::Changed`] where a file is not (or no longer) what the manifest says; else what is wrong with
    /// `release.toml` or `golden.json`, or a plugin that the manifest does not list.
    pub fn load(&self) -> Result<LoadedFiles, ReleaseError> {
        let (spec, _) = self.read(SPEC_FILE)?;
        let spec = parse_spec(SPEC_FILE, &utf8(SPEC_FILE, spec)?)?;
        let (golden, _) = self.read(GOLDEN_FILE)?;
        let golden = parse_golden(GOLDEN_FILE, &golden, &spec)?;
        let (weights, _) = self.read(WEIGHTS_FILE)?;
        let mut plugins = BTreeMap::new();
        for (role, plugin) in &spec.plugins {
            if !self.manifest.files.contains_key(&plugin.file) {
                return Err(ReleaseError::MissingPlugin {
                    role: role.as_str(),
                    file: plugin.file.clone(),
                    searched: "the manifest".into(),
                });
            }
            let (bytes, digest) = self.read(&plugin.file)?;
            plugins.insert(*role, LoadedPlugin { spec: plugin.clone(), bytes, digest });
        }
        let salt = self.manifest.salt.clone();
        Ok(LoadedFiles { id: self.id.clone(), salt, spec, weights, golden, plugins })
    }

    fn read(&self, path: &str) -> Result<(Vec<u8>, Digest), ReleaseError> {
        let changed = || ReleaseError::Changed { file: path.into() };
        let entry = self.manifest.files.get(path).ok_or_else(changed)?;
        let bytes = crate::folder::read_inside(&self.root, path, entry.size)
            .map_err(|reason| ReleaseError::NotComplete { folder: self.root.clone(), reason })?;
        let digest = Digest::of(&bytes);
        if digest == entry.sha256 { Ok((bytes, digest)) } else { Err(changed()) }
    }
}

pub(crate) fn utf8(file: &str, bytes: Vec<u8>) -> Result<String, ReleaseError> {
    String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let (line, column) = crate::validate::position(&String::from_utf8_lossy(good), good.len());
        ReleaseError::Syntax { file: file.into(), line, column, message: "not UTF-8".into() }
    })
}
