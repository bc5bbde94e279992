//! Pre-processor: normalises columns to `(x - mean) / std` and fills missing values.
//!
//! Settings, lists of one length:
//!
//! | name | type | meaning |
//! |---|---|---|
//! | `columns` | texts | the columns to normalise, by name; one that the schema lacks is an error |
//! | `mean` | numbers | subtracted from each |
//! | `std` | numbers | divided by then; above 0 |
//! | `fill` | numbers, optional | the raw value in place of a missing one; without it a missing value is an error |
//!
//! Other columns pass through as they are; missing there is an error. The release's schema must hand missing values over
//! (`plugin_fills = true`).

use std::collections::BTreeMap;

use sagehost_plugin_sdk::{Context, Error, Feature, PreProcessor, Request, Settings, export_pre_processor};

/// The plugin.
#[derive(Debug)]
pub struct Standardize {
    columns: BTreeMap<String, Column>,
}

#[derive(Clone, Copy, Debug)]
struct Column {
    mean: f64,
    std: f64,
    fill: Option<f64>,
}

impl PreProcessor for Standardize {
    fn configure(settings: &mut Settings) -> Result<Self, String> {
        let names = settings.required_texts("columns")?;
        let mean = settings.required_numbers("mean")?;
        let std = settings.required_numbers("std")?;
        let fill = settings.numbers("fill")?;
        settings.finish()?;

        let lengths = [("mean", Some(mean.len())), ("std", Some(std.len())), ("fill", fill.as_ref().map(Vec::len))];
        for (name, length) in lengths {
            if let Some(length) = length.filter(|&length| length != names.len()) {
                return Err(format!("setting `{name}` has {length} numbers for {} columns", names.len()));
            }
        }
        let mut columns = BTreeMap::new();
        for (at, name) in names.into_iter().enumerate() {
            let column = Column { mean: mean[at], std: std[at], fill: fill.as_ref().map(|fill| fill[at]) };
            if column.std <= 0.0 {
                return Err(format!("setting `std`[{at}] (column `{name}`) must be above 0, but is {}", column.std));
            }
            if columns.contains_key(&name) {
                return Err(format!("setting `columns` names `{name}` twice"));
            }
            columns.insert(name, column);
        }
        Ok(Self { columns })
    }

    fn prepare(&self, _: &Context, request: &Request) -> Result<Vec<f32>, Error> {
        let columns: Vec<_> = request.features.iter().map(|feature| self.columns.get(&feature.name)).collect();
        // A column of the settings that the schema lacks would silently leave its twin in the schema unnormalised. Looked
        // for only where the count shows that there is one: each look-up goes through all of the request's columns.
        if columns.iter().flatten().count() < self.columns.len() {
            for name in self.columns.keys() {
                request.column(name)?;
            }
        }
        request.features.iter().zip(columns).map(|(feature, column)| value(feature, column)).collect()
    }
}

fn value(feature: &Feature, column: Option<&Column>) -> Result<f32, Error> {
    let raw = feature.value.map(f64::from).or(column.and_then(|column| column.fill));
    let raw = raw.ok_or_else(|| Error::Missing(format!("feature `{}` is missing", feature.name)))?;
    let prepared = column.map_or(raw, |column| (raw - column.mean) / column.std) as f32;
    if prepared.is_finite() {
        Ok(prepared)
    } else {
        Err(Error::InvalidInput(format!("feature `{}` is out of range: {raw}", feature.name)))
    }
}

export_pre_processor!(Standardize);

#[cfg(test)]
mod tests {
    use super::*;
    use sagehost_plugin_sdk::Setting::{Numbers, Texts};
    use sagehost_plugin_sdk::testing::{context, request, settings};

    fn texts(names: &[&str]) -> sagehost_plugin_sdk::Setting {
        Texts(names.iter().map(ToString::to_string).collect())
    }

    fn plugin() -> Standardize {
        Standardize::configure(&mut settings([
            ("columns", texts(&["age", "income"])),
            ("mean", Numbers(vec![40.0, 1000.0])),
            ("std", Numbers(vec![10.0, 500.0])),
            ("fill", Numbers(vec![40.0, 0.0])),
        ]))
        .expect("good settings")
    }

    #[test]
    fn normalises_and_passes_the_rest_through() {
        let request = request(&[("income", Some(1500.0)), ("amount", Some(7.5)), ("age", Some(20.0))]);
        assert_eq!(plugin().prepare(&context(), &request), Ok(vec![1.0, 7.5, -2.0]));
    }

    #[test]
    fn fills_before_it_normalises() {
        let request = request(&[("age", None), ("income", None)]);
        assert_eq!(plugin().prepare(&context(), &request), Ok(vec![0.0, -2.0]));
    }

    #[test]
    fn a_missing_value_without_a_fill_is_an_error_that_names_it() {
        let passed = request(&[("age", None), ("income", None), ("amount", None)]);
        let missing = Err(Error::Missing("feature `amount` is missing".into()));
        assert_eq!(plugin().prepare(&context(), &passed), missing);

        let mut values =
            settings([("columns", texts(&["age"])), ("mean", Numbers(vec![40.0])), ("std", Numbers(vec![10.0]))]);
        let unfilled = Standardize::configure(&mut values).expect("fill is optional");
        let result = unfilled.prepare(&context(), &request(&[("age", None)]));
        assert_eq!(result, Err(Error::Missing("feature `age` is missing".into())));
    }

    #[test]
    fn refuses_what_does_not_stay_finite() {
        let request = request(&[("age", Some(f32::INFINITY)), ("income", None)]);
        let result = plugin().prepare(&context(), &request);
        assert_eq!(result, Err(Error::InvalidInput("feature `age` is out of range: inf".into())));
    }

    #[test]
    fn a_column_that_the_schema_lacks_is_named() {
        // Before what is missing: its twin in the schema has no `fill` then.
        let result = plugin().prepare(&context(), &request(&[("age", None), ("incom", None)]));
        let Err(Error::Internal(text)) = result else { panic!("{result:?}") };
        assert!(text.contains("the column `income`") && text.ends_with("its columns are `age`, `incom`"), "{text}");
    }

    #[test]
    fn bad_settings_are_refused() {
        let configure = |columns: &[&str], mean: Vec<f64>, std: Vec<f64>| {
            let mut values = settings([("columns", texts(columns)), ("mean", Numbers(mean)), ("std", Numbers(std))]);
            Standardize::configure(&mut values).err().unwrap_or_default()
        };
        assert_eq!(configure(&["a", "b"], vec![0.0], vec![1.0, 1.0]), "setting `mean` has 1 numbers for 2 columns");
        assert_eq!(configure(&["a"], vec![0.0], vec![0.0]), "setting `std`[0] (column `a`) must be above 0, but is 0");
        assert_eq!(configure(&["a", "a"], vec![0.0, 0.0], vec![1.0, 1.0]), "setting `columns` names `a` twice");
    }
}
