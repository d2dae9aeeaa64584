//! Impairments in a file: as on the command line, or as a table with each word by itself.

use braidnet::device::impair::Impairments;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny};
use std::collections::BTreeMap;

/// What a file may say.
#[derive(serde::Deserialize)]
#[serde(
    untagged,
    expecting = "expected a string such as \"loss=1%,delay=20ms\", or a table of its words, such as loss = \"1%\""
)]
enum Written {
    Text(String),
    Table(BTreeMap<String, Value>),
}

/// What may stand behind a word. Whether it takes that, it says itself, by its name.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Value {
    Number(u64),
    Negative(i64),
    Fraction(f64),
    Switch(bool),
    Text(String),
    Several(IgnoredAny),
}

/// Reads either.
pub fn impairments<'de, D>(from: D) -> Result<Option<Impairments>, D::Error>
where
    D: Deserializer<'de>,
{
    let text = match Written::deserialize(from)? {
        Written::Text(text) => text,
        Written::Table(words) => {
            let said = words.iter().map(|(name, value)| said(name, value));
            let said: Result<Vec<String>, String> = said.collect();
            said.map_err(D::Error::custom)?.join(",")
        }
    };
    text.parse().map(Some).map_err(D::Error::custom)
}

/// A word as it is said on the command line.
fn said(name: &str, value: &Value) -> Result<String, String> {
    let value = match value {
        Value::Number(number) => number.to_string(),
        Value::Negative(number) => number.to_string(),
        Value::Fraction(number) => format!("{number:?}"),
        Value::Switch(switch) => switch.to_string(),
        Value::Text(text) => text.clone(),
        Value::Several(_) => return Err(format!("{name} takes one value")),
    };
    // What separates words there is in none of them.
    match [name, &value].iter().any(|part| part.contains([',', '='])) {
        true => Err(format!("{name} takes one value, not `{value}`")),
        false => Ok(format!("{name}={value}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(serde::Deserialize, Debug)]
    struct File {
        #[serde(deserialize_with = "impairments")]
        impair: Option<Impairments>,
    }

    fn read(text: &str) -> Result<Impairments, String> {
        let file: Result<File, _> = toml::from_str(text);
        let impair = file.map_err(|error| error.message().to_owned())?.impair;
        Ok(impair.expect("it is said"))
    }

    #[test]
    fn a_table_says_what_the_flag_says() {
        let flag = "loss=1%,burst-loss=0.1%:20%:80%,duplicate=2%,corrupt=3%,delay=20ms,jitter=5ms:overtaking,reorder=3%:1ms-5ms,rate=100mbit,burst=64k,queue=1M,ecn=30000,limit=100,seed=7";
        let table = r#"
            [impair]
            loss = "1%"
            burst-loss = "0.1%:20%:80%"
            duplicate = "2%"
            corrupt = "3%"
            delay = "20ms"
            jitter = "5ms:overtaking"
            reorder = "3%:1ms-5ms"
            rate = "100mbit"
            burst = "64k"
            queue = "1M"
            ecn = 30000
            limit = 100
            seed = 7
        "#;
        let expected: Impairments = flag.parse().unwrap();
        assert_eq!(read(table).unwrap(), expected);
        assert_eq!(read(&format!("impair = '{flag}'")).unwrap(), expected);
        assert_eq!(read("[impair]\n").unwrap(), Impairments::none());
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for (text, part) in [
            ("[impair]\nlos = '1%'", "`los` is not known here"),
            ("[impair]\nloss = '2'", "a share"),
            ("[impair]\nloss = '1%,delay=3ms'", "loss takes one value"),
            ("[impair]\n'loss=1%,delay' = '3ms'", "takes one value"),
            ("[impair]\nqueue = '1M'", "queue needs a rate"),
            ("[impair]\nloss = true", "loss takes a share"),
            ("[impair]\nloss = 0.01", "0.05%, not `0.01`"),
            ("[impair]\ndelay = 20", "delay takes a time"),
            ("[impair]\nrate = '1mbit'\necn = -1", "not `-1`"),
            ("[impair]\nseed = 7.0", "seed takes a number, not `7.0`"),
            ("[impair]\nloss = ['1%']", "loss takes one value"),
            ("[impair.loss]\nof = '1%'", "loss takes one value"),
            ("impair = 7", "a table of its words"),
        ] {
            let sentence = read(text).unwrap_err();
            assert!(sentence.contains(part), "{text}: {sentence}");
        }
    }
}
