//! Typed reading of a plugin's settings, with errors that a release's author can act on.

use std::collections::BTreeSet;

use crate::{NamedSetting, Setting};

/// The settings of a release's plugin, or the values of a policy document. Each reader returns `None` where the setting is
/// absent and an error where it has another type; [`Settings::finish`] refuses whatever was never asked for.
#[derive(Debug)]
pub struct Settings {
    values: Vec<NamedSetting>,
    asked: BTreeSet<String>,
}

impl Settings {
    /// Wraps what the host handed over.
    ///
    /// # Errors
    /// A setting that appears twice.
    pub fn new(values: Vec<NamedSetting>) -> Result<Self, String> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = values.iter().find(|value| !seen.insert(value.name.as_str())) {
            return Err(format!("setting `{}` is given twice", twice.name));
        }
        Ok(Self { values, asked: BTreeSet::new() })
    }

    fn get(&mut self, name: &str) -> Option<&Setting> {
        self.asked.insert(name.to_owned());
        self.values.iter().find(|value| value.name == name).map(|value| &value.value)
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// Another type.
    pub fn flag(&mut self, name: &str) -> Result<Option<bool>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Setting::Flag(flag)) => Ok(Some(*flag)),
            Some(other) => Err(mistyped(name, "true or false", other)),
        }
    }

    /// A finite number.
    ///
    /// # Errors
    /// Another type, an infinity, NaN.
    pub fn number(&mut self, name: &str) -> Result<Option<f64>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Setting::Number(number)) if number.is_finite() => Ok(Some(*number)),
            Some(Setting::Number(number)) => Err(format!("setting `{name}` must be finite, but is {number}")),
            Some(other) => Err(mistyped(name, "a number", other)),
        }
    }

    /// A whole number of 0 or more.
    ///
    /// # Errors
    /// Another type, a fraction, a negative number, one above `u32::MAX`.
    pub fn count(&mut self, name: &str) -> Result<Option<u32>, String> {
        match self.number(name)? {
            None => Ok(None),
            Some(number) if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) => {
                Ok(Some(number as u32))
            }
            Some(number) => Err(format!("setting `{name}` must be a whole number of 0 or more, but is {number}")),
        }
    }

    /// A text.
    ///
    /// # Errors
    /// Another type.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Setting::Text(text)) => Ok(Some(text.clone())),
            Some(other) => Err(mistyped(name, "a text", other)),
        }
    }

    /// A list of finite numbers.
    ///
    /// # Errors
    /// Another type, an infinity, NaN.
    pub fn numbers(&mut self, name: &str) -> Result<Option<Vec<f64>>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Setting::Numbers(numbers)) => match numbers.iter().position(|number| !number.is_finite()) {
                None => Ok(Some(numbers.clone())),
                Some(at) => Err(format!("setting `{name}`[{at}] must be finite, but is {}", numbers[at])),
            },
            // The host cannot know what an empty list would have held.
            Some(Setting::Texts(texts)) if texts.is_empty() => Ok(Some(Vec::new())),
            Some(other) => Err(mistyped(name, "a list of numbers", other)),
        }
    }

    /// A list of texts.
    ///
    /// # Errors
    /// Another type.
    pub fn texts(&mut self, name: &str) -> Result<Option<Vec<String>>, String> {
        match self.get(name) {
            None => Ok(None),
            Some(Setting::Texts(texts)) => Ok(Some(texts.clone())),
            Some(Setting::Numbers(numbers)) if numbers.is_empty() => Ok(Some(Vec::new())),
            Some(other) => Err(mistyped(name, "a list of texts", other)),
        }
    }

    /// To be called when all was read: refuses settings that nobody asked for, so that a misspelt name does not pass
    /// unnoticed.
    ///
    /// # Errors
    /// The unknown names, and the known ones.
    pub fn finish(&mut self) -> Result<(), String> {
        let unknown: Vec<_> =
            self.values.iter().map(|value| &value.name).filter(|name| !self.asked.contains(*name)).collect();
        if unknown.is_empty() {
            return Ok(());
        }
        let unknown = quoted(unknown.into_iter());
        if self.asked.is_empty() {
            return Err(format!("unknown setting {unknown}: this plugin takes none"));
        }
        Err(format!("unknown setting {unknown}; this plugin takes {}", quoted(self.asked.iter())))
    }
}

/// The value, or the error that names the setting.
pub(crate) fn required<T>(name: &str, value: Option<T>) -> Result<T, String> {
    value.ok_or_else(|| format!("setting `{name}` is required"))
}

impl Settings {
    /// Like [`Settings::number`], and absent is an error.
    ///
    /// # Errors
    /// As there, or absent.
    pub fn required_number(&mut self, name: &str) -> Result<f64, String> {
        let value = self.number(name)?;
        required(name, value)
    }

    /// Like [`Settings::count`], and absent is an error.
    ///
    /// # Errors
    /// As there, or absent.
    pub fn required_count(&mut self, name: &str) -> Result<u32, String> {
        let value = self.count(name)?;
        required(name, value)
    }

    /// Like [`Settings::numbers`], and absent is an error.
    ///
    /// # Errors
    /// As there, or absent.
    pub fn required_numbers(&mut self, name: &str) -> Result<Vec<f64>, String> {
        let value = self.numbers(name)?;
        required(name, value)
    }

    /// Like [`Settings::texts`], and absent is an error.
    ///
    /// # Errors
    /// As there, or absent.
    pub fn required_texts(&mut self, name: &str) -> Result<Vec<String>, String> {
        let value = self.texts(name)?;
        required(name, value)
    }
}

fn quoted<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn mistyped(name: &str, wanted: &str, got: &Setting) -> String {
    let got = match got {
        Setting::Flag(_) => "true or false",
        Setting::Number(_) => "a number",
        Setting::Text(_) => "a text",
        Setting::Numbers(_) => "a list of numbers",
        Setting::Texts(_) => "a list of texts",
    };
    format!("setting `{name}` must be {wanted}, but is {got}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::setting;

    fn settings(values: Vec<NamedSetting>) -> Settings {
        Settings::new(values).expect("no duplicates")
    }

    #[test]
    fn reads_every_type() {
        let mut settings = settings(vec![
            setting("a", Setting::Flag(true)),
            setting("b", Setting::Number(1.5)),
            setting("c", Setting::Text("x".into())),
            setting("d", Setting::Numbers(vec![1.0, 2.0])),
            setting("e", Setting::Texts(vec!["y".into()])),
            setting("f", Setting::Number(7.0)),
        ]);
        assert_eq!(settings.flag("a"), Ok(Some(true)));
        assert_eq!(settings.number("b"), Ok(Some(1.5)));
        assert_eq!(settings.text("c"), Ok(Some("x".into())));
        assert_eq!(settings.numbers("d"), Ok(Some(vec![1.0, 2.0])));
        assert_eq!(settings.texts("e"), Ok(Some(vec!["y".into()])));
        assert_eq!(settings.count("f"), Ok(Some(7)));
        assert_eq!(settings.number("absent"), Ok(None));
        assert_eq!(settings.finish(), Ok(()));
    }

    #[test]
    fn names_what_is_unknown_and_what_is_known() {
        let mut settings = settings(vec![setting("halflife", Setting::Number(1.0))]);
        assert_eq!(settings.number("half_life"), Ok(None));
        assert_eq!(settings.finish(), Err("unknown setting `halflife`; this plugin takes `half_life`".into()));
    }

    #[test]
    fn says_that_none_are_taken() {
        let error = settings(vec![setting("x", Setting::Flag(true))]).finish();
        assert_eq!(error, Err("unknown setting `x`: this plugin takes none".into()));
    }

    #[test]
    fn names_the_type_that_it_wants() {
        let mut settings = settings(vec![setting("k", Setting::Text("5".into())), setting("n", Setting::Number(-1.0))]);
        assert_eq!(settings.number("k"), Err("setting `k` must be a number, but is a text".into()));
        assert_eq!(settings.numbers("k"), Err("setting `k` must be a list of numbers, but is a text".into()));
        assert!(settings.count("n").is_err_and(|error| error.contains("whole number")));
    }

    #[test]
    fn refuses_duplicates_and_numbers_that_are_none() {
        let twice = vec![setting("k", Setting::Flag(true)), setting("k", Setting::Flag(false))];
        assert_eq!(Settings::new(twice).err(), Some("setting `k` is given twice".into()));
        let mut settings = settings(vec![
            setting("a", Setting::Number(f64::NAN)),
            setting("b", Setting::Numbers(vec![0.0, f64::INFINITY])),
        ]);
        assert_eq!(settings.number("a"), Err("setting `a` must be finite, but is NaN".into()));
        assert_eq!(settings.numbers("b"), Err("setting `b`[1] must be finite, but is inf".into()));
    }

    #[test]
    fn an_empty_list_is_a_list_of_either_type() {
        let mut settings = settings(vec![setting("a", Setting::Numbers(vec![])), setting("b", Setting::Texts(vec![]))]);
        assert_eq!(settings.texts("a"), Ok(Some(vec![])));
        assert_eq!(settings.numbers("b"), Ok(Some(vec![])));
    }

    #[test]
    fn required_settings_are_named() {
        assert_eq!(settings(vec![]).required_number("scale"), Err("setting `scale` is required".into()));
    }
}
