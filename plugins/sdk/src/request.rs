//! Reading a request's columns by the names that settings or a policy give.

use crate::{Error, Request};

/// Most columns that an error names; a schema may have thousands.
const NAMED: usize = 20;

impl Request {
    /// The raw value of a column: `None` where neither request, graph nor the schema's fill gives one.
    ///
    /// Use it for every column that settings or a policy name: passing over a name that does not exist would switch the
    /// rule off without a word. Every request holds all columns of the release's schema, so a wrong name shows with the
    /// first call.
    ///
    /// # Errors
    /// [`Error::Internal`] where there is no such column: it names the column and those that exist.
    pub fn column(&self, name: &str) -> Result<Option<f32>, Error> {
        let found = self.features.iter().find(|feature| feature.name == name);
        found.map(|feature| feature.value).ok_or_else(|| Error::Internal(self.no_column(name)))
    }

    fn no_column(&self, name: &str) -> String {
        let problem = format!("the settings or the policy name the column `{name}`, which the request does not have");
        if self.features.is_empty() {
            return format!("{problem}: it has none");
        }
        let names: Vec<_> = self.features.iter().take(NAMED).map(|feature| format!("`{}`", feature.name)).collect();
        let rest = match self.features.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{problem}; its columns are {}{rest}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use crate::Error;
    use crate::testing::request;

    #[test]
    fn a_column_without_a_value_is_missing_and_one_that_is_not_there_is_an_error() {
        let request = request(&[("amount", Some(2.5)), ("hour", None)]);
        assert_eq!(request.column("amount"), Ok(Some(2.5)));
        assert_eq!(request.column("hour"), Ok(None));
        let text = "the settings or the policy name the column `amounts`, which the request does not have; \
                    its columns are `amount`, `hour`";
        assert_eq!(request.column("amounts"), Err(Error::Internal(text.into())));
    }

    #[test]
    fn the_error_stays_short() {
        let names: Vec<String> = (0..1433).map(|number| format!("f{number}")).collect();
        let features: Vec<_> = names.iter().map(|name| (name.as_str(), None)).collect();
        let Err(Error::Internal(text)) = request(&features).column("g") else { panic!("there is no such column") };
        assert!(text.ends_with("`f18`, `f19` and 1413 more"), "{text}");
        let none = request(&[]).column("g");
        assert!(matches!(none, Err(Error::Internal(text)) if text.ends_with("it has none")));
    }
}
