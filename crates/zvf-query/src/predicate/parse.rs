//! The text form of a condition: a tokenizer, then one function per line of the grammar.
//!
//! ```text
//! any     = all { "or" all }
//! all     = one { "and" one }
//! one     = "not" one | "(" any ")" | "true" | "false" | test
//! test    = value sign column [ sign value ]
//!         | column sign value
//!         | column [ "not" ] "in" "(" value { "," value } ")"
//!         | column "is" [ "not" ] "null"
//! column  = [ scope "." ] name [ "[" digits "]" ]
//! value   = number | "text" | 'text' | true | false
//! ```
//!
//! Depth and length are limited, so that no text can exhaust the stack.

use std::str::FromStr;

use thiserror::Error;
use zvf_format::Vocabulary as _;
use zvf_model::Value;

use super::{ColumnRef, Comparison, Predicate, Scope};

impl FromStr for Predicate {
    type Err = BadPredicate;

    fn from_str(text: &str) -> Result<Self, BadPredicate> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(BadPredicate {
                at: MAX_TEXT_BYTES,
                expected: "a condition of at most 64 KiB",
            });
        }
        let mut parser = Parser { words: words(text)?, next: 0, depth: 0, end: text.len() };
        let condition = parser.parse_any()?;
        match parser.words.get(parser.next) {
            Some((at, _)) => Err(BadPredicate { at: *at, expected: "and, or, or the end" }),
            None => Ok(condition),
        }
    }
}

/// A text that is not a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("cannot read the condition at character {at}: expected {expected}")]
pub struct BadPredicate {
    /// Bytes from the start of the text.
    pub at: usize,
    /// The expected token.
    pub expected: &'static str,
}

impl From<BadPredicate> for zvf_error::Error {
    fn from(error: BadPredicate) -> Self {
        Self::from_cause(zvf_format::Class::InvalidArgument, error).with_op("query")
    }
}

/// Returns whether `name` needs no backquotes: it has only letters, digits and `_`, and is not a
/// keyword.
pub(super) fn is_plain_name(name: &str) -> bool {
    let mut chars = name.chars();
    let first = chars.next().is_some_and(is_name_start);
    first && chars.all(is_name_part) && !RESERVED.contains(&name)
}

/// The expectation in the error for a character that starts no token.
pub(super) const ODD_CHARACTER: &str = "a name, a value or a comparison; a column whose name has \
    other characters is written in backquotes: `a%b`";
const MAX_TEXT_BYTES: usize = 65_536;
const MAX_DEPTH: u32 = 64;
const RESERVED: [&str; 8] = ["and", "or", "not", "in", "is", "null", "true", "false"];

#[derive(PartialEq)]
enum Word {
    Name(String),
    Quoted(String), // a name in backquotes
    Value(Value),
    Sign(Comparison),
    Mark(char),
}

fn is_name_start(c: char) -> bool {
    c == '_' || c.is_alphabetic()
}

fn is_name_part(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn words(text: &str) -> Result<Vec<(usize, Word)>, BadPredicate> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let at = text.len() - rest.len();
        let (word, after) = match first {
            '(' | ')' | ',' | '[' | ']' | '.' => (Word::Mark(first), skip(rest, 1)),
            '"' | '\'' => {
                let (text, after) = parse_quoted(rest, first)
                    .ok_or(BadPredicate { at, expected: "a closing quote" })?;
                (Word::Value(Value::Text(text)), after)
            }
            '`' => {
                let (name, after) = parse_quoted(rest, '`')
                    .ok_or(BadPredicate { at, expected: "a closing backquote" })?;
                (Word::Quoted(name), after)
            }
            '0'..='9' | '-' | '+' => {
                number(rest).ok_or(BadPredicate { at, expected: "a number" })?
            }
            c if is_name_start(c) => {
                let end = rest.find(|c| !is_name_part(c)).unwrap_or(rest.len());
                let (name, after) = rest.split_at(end);
                (Word::Name(name.to_owned()), after)
            }
            _ => sign(rest).ok_or(BadPredicate { at, expected: ODD_CHARACTER })?,
        };
        words.push((at, word));
        rest = after.trim_start();
    }
    Ok(words)
}

fn skip(text: &str, bytes: usize) -> &str {
    text.get(bytes..).unwrap_or("")
}

/// Parses a quoted text with `\` as escape character; also returns the rest.
fn parse_quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut inside = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == quote {
            return Some((inside, skip(text, at.checked_add(1)?)));
        }
        inside.push(if c == '\\' { chars.next()?.1 } else { c });
    }
    None
}

fn number(text: &str) -> Option<(Word, &str)> {
    let mut previous = ' ';
    let end = text.find(|c: char| {
        let sign_of_exponent = matches!(c, '+' | '-') && matches!(previous, ' ' | 'e' | 'E');
        previous = c;
        !(sign_of_exponent || c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E'))
    });
    let (digits, after) = text.split_at(end.unwrap_or(text.len()));
    let value = match (digits.parse::<i64>(), digits.parse::<u64>()) {
        (Ok(n), _) => Value::Int(n),
        (_, Ok(n)) => Value::UInt(n),
        _ => Value::Float(digits.parse::<f64>().ok().filter(|x| x.is_finite())?),
    };
    Some((Word::Value(value), after))
}

fn sign(text: &str) -> Option<(Word, &str)> {
    const SIGNS: [(&str, Comparison); 8] = [
        ("<=", Comparison::AtMost),
        (">=", Comparison::AtLeast),
        ("!=", Comparison::Unequal),
        ("<>", Comparison::Unequal),
        ("==", Comparison::Equal),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
        ("=", Comparison::Equal),
    ];
    let (sign, comparison) = SIGNS.into_iter().find(|(sign, _)| text.starts_with(sign))?;
    Some((Word::Sign(comparison), skip(text, sign.len())))
}

struct Parser {
    words: Vec<(usize, Word)>,
    next: usize,
    depth: u32,
    end: usize, // length of the text
}

impl Parser {
    fn parse_any(&mut self) -> Result<Predicate, BadPredicate> {
        let mut list = vec![self.parse_all()?];
        while self.takes_name("or") {
            list.push(self.parse_all()?);
        }
        Ok(join_conditions(list, Predicate::Any))
    }

    fn parse_all(&mut self) -> Result<Predicate, BadPredicate> {
        let mut list = vec![self.parse_term()?];
        while self.takes_name("and") {
            list.push(self.parse_term()?);
        }
        Ok(join_conditions(list, Predicate::All))
    }

    fn parse_term(&mut self) -> Result<Predicate, BadPredicate> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.refuse("at most 64 conditions inside each other");
        }
        let condition = if self.takes_name("not") {
            Predicate::Not(Box::new(self.parse_term()?))
        } else if self.takes_mark('(') {
            let inside = self.parse_any()?;
            self.mark(')', "a closing parenthesis")?;
            inside
        } else {
            self.test()?
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn test(&mut self) -> Result<Predicate, BadPredicate> {
        let Some(value) = self.takes_value() else {
            let column = self.column()?;
            return self.parse_test(column);
        };
        let Some(sign) = self.takes_sign() else {
            return match value {
                Value::Bool(true) => Ok(Predicate::All(Vec::new())),
                Value::Bool(false) => Ok(Predicate::Any(Vec::new())),
                Value::Null | Value::Int(_) | Value::UInt(_) | Value::Float(_) | Value::Text(_) => {
                    self.refuse("a comparison")
                }
            };
        };
        let column = self.column()?;
        let first = Predicate::Compare(column.clone(), sign.swap_sides(), value);
        let Some(sign) = self.takes_sign() else { return Ok(first) };
        let second = Predicate::Compare(column, sign, self.value()?);
        Ok(Predicate::All(vec![first, second]))
    }

    fn parse_test(&mut self, column: ColumnRef) -> Result<Predicate, BadPredicate> {
        if let Some(sign) = self.takes_sign() {
            return Ok(Predicate::Compare(column, sign, self.value()?));
        }
        if self.takes_name("is") {
            let negated = self.takes_name("not");
            if !self.takes_name("null") {
                return self.refuse("null");
            }
            return Ok(negate_if(negated, Predicate::IsNull(column)));
        }
        let negated = self.takes_name("not");
        if !self.takes_name("in") {
            return self.refuse("a comparison, in, or is null");
        }
        self.mark('(', "a list in parentheses")?;
        let mut values = vec![self.value()?];
        while self.takes_mark(',') {
            values.push(self.value()?);
        }
        self.mark(')', "a comma or a closing parenthesis")?;
        Ok(negate_if(negated, Predicate::In(column, values)))
    }

    fn column(&mut self) -> Result<ColumnRef, BadPredicate> {
        let mut name = self.name()?;
        let mut scope = Scope::Vertex;
        if self.takes_mark('.') {
            let Some(named_scope) = Scope::from_word(&name) else {
                self.next -= 2;
                return self.refuse("vertex, fragment, object, group or link before the dot");
            };
            (scope, name) = (named_scope, self.name()?);
        }
        let mut index = 0;
        if self.takes_mark('[') {
            index = match self.takes_value() {
                Some(Value::Int(n)) => u32::try_from(n).or_else(|_| self.refuse("an index"))?,
                _ => return self.refuse("an index"),
            };
            self.mark(']', "a closing bracket")?;
        }
        Ok(ColumnRef { scope, name, index })
    }

    fn name(&mut self) -> Result<String, BadPredicate> {
        let name = self.take(|word| match word {
            Word::Quoted(name) => Some(zvf_metadata::path_segment(name).into_owned()),
            Word::Name(name) => (!RESERVED.contains(&name.as_str())).then(|| name.clone()),
            Word::Value(_) | Word::Sign(_) | Word::Mark(_) => None,
        });
        let expected = "the name of a column, which is in backquotes unless it is a plain word";
        name.map_or_else(|| self.refuse(expected), Ok)
    }

    fn value(&mut self) -> Result<Value, BadPredicate> {
        let value = self.takes_value();
        value.map_or_else(|| self.refuse("a number, a text in quotes, true or false"), Ok)
    }

    /// Takes the next token if `test` accepts it.
    fn take<T>(&mut self, test: impl Fn(&Word) -> Option<T>) -> Option<T> {
        let found = self.words.get(self.next).and_then(|(_, word)| test(word))?;
        self.next += 1;
        Some(found)
    }

    fn takes_value(&mut self) -> Option<Value> {
        self.take(|word| match word {
            Word::Value(value) => Some(value.clone()),
            Word::Name(name) if name == "true" => Some(Value::Bool(true)),
            Word::Name(name) if name == "false" => Some(Value::Bool(false)),
            Word::Name(_) | Word::Quoted(_) | Word::Sign(_) | Word::Mark(_) => None,
        })
    }

    fn takes_sign(&mut self) -> Option<Comparison> {
        self.take(|word| if let Word::Sign(sign) = word { Some(*sign) } else { None })
    }

    fn takes_name(&mut self, expected: &str) -> bool {
        let is_it = |word: &Word| matches!(word, Word::Name(name) if name == expected);
        self.take(|word| is_it(word).then_some(())).is_some()
    }

    fn takes_mark(&mut self, expected: char) -> bool {
        self.take(|word| (*word == Word::Mark(expected)).then_some(())).is_some()
    }

    fn mark(&mut self, expected: char, name: &'static str) -> Result<(), BadPredicate> {
        if self.takes_mark(expected) { Ok(()) } else { self.refuse(name) }
    }

    fn refuse<T>(&self, expected: &'static str) -> Result<T, BadPredicate> {
        let at = self.words.get(self.next).map_or(self.end, |(at, _)| *at);
        Err(BadPredicate { at, expected })
    }
}

fn join_conditions(mut list: Vec<Predicate>, join: fn(Vec<Predicate>) -> Predicate) -> Predicate {
    if list.len() == 1 { list.swap_remove(0) } else { join(list) }
}

fn negate_if(negated: bool, condition: Predicate) -> Predicate {
    if negated { Predicate::Not(Box::new(condition)) } else { condition }
}
