//! Enumerations whose variants have names. One list declares each variant with its name.

/// A closed set of words: an enumeration declared by [`vocabulary!`](crate::vocabulary).
pub trait Vocabulary: Copy + 'static {
    /// All words with their spelling, in order.
    const WORDS: &'static [(&'static str, Self)];

    /// Returns the spelling.
    fn word(self) -> &'static str;

    /// Finds the word spelled `text`.
    fn from_word(text: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(spelling, _)| *spelling == text).map(|(_, word)| *word)
    }
}

/// Declares an enumeration whose variants have names, with `ALL`, a function that returns the name,
/// `Display`, and [`Vocabulary`].
///
/// ```
/// use zvf_format::Vocabulary as _;
///
/// zvf_format::vocabulary! {
///     /// A direction.
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub enum Direction {
///         /// Away from the root.
///         Down => "down",
///         /// Towards the root.
///         Up => "up",
///     }
///     /// Returns the word for it.
///     fn token;
/// }
///
/// assert_eq!((Direction::ALL.len(), Direction::Up.token()), (2, "up"));
/// assert_eq!(Direction::from_word("down"), Some(Direction::Down));
/// assert_eq!(format!("{:>4}", Direction::Up), "  up");
/// ```
#[macro_export]
macro_rules! vocabulary {
    (
        $(#[$attribute:meta])*
        $visible:vis enum $Name:ident {
            $($(#[$about:meta])* $Variant:ident => $word:literal,)+
        }
        $(#[$about_word:meta])*
        fn $name:ident;
    ) => {
        $(#[$attribute])*
        $visible enum $Name {
            $($(#[$about])* $Variant,)+
        }

        impl $Name {
            /// All of them, in order.
            $visible const ALL: &'static [Self] = &[$(Self::$Variant,)+];

            $(#[$about_word])*
            #[must_use]
            $visible const fn $name(self) -> &'static str {
                match self {
                    $(Self::$Variant => $word,)+
                }
            }
        }

        impl $crate::Vocabulary for $Name {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$Variant),)+];

            fn word(self) -> &'static str {
                self.$name()
            }
        }

        impl ::core::fmt::Display for $Name {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.pad(self.$name())
            }
        }
    };
}
