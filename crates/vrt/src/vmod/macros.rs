// SPDX-License-Identifier: BSD-2-Clause
//! A module's declaration: signatures, texts and bodies in one place. See [`vmod!`](crate::vmod).

/// A module: what it has, said once, and which code does it.
///
/// ```
/// use vrt::vmod::VmodCall;
///
/// vrt::words! {
///     enum Case { Lower = "LOWER", Upper = "UPPER" }
/// }
///
/// vrt::vmod! {
///     /// Texts
///     static VMOD = texts;
///
///     functions {
///         /// s in capitals, or in small letters
///         fn change(case: Case = Upper, s: STRANDS, most: [INT]) -> STRING, pure = change;
///     }
/// }
///
/// fn change(_: &mut VmodCall<'_>, case: Case, s: &[u8], most: Option<i64>) -> Vec<u8> {
///     let most = most.and_then(|most| usize::try_from(most).ok()).unwrap_or(s.len());
///     let s = &s[..most.min(s.len())];
///     match case {
///         Case::Lower => s.to_ascii_lowercase(),
///         Case::Upper => s.to_ascii_uppercase(),
///     }
/// }
/// ```
///
/// A doc comment is the text of the manual. Arguments are `name: KIND`, `name: [KIND]` for one that may be left out and whose body is
/// to see that, `_: KIND` for one without a name; each may have a default behind a `=` (a word of an `ENUM` by its variant, a negative
/// number in parentheses, `null` for unset). A list of many is a struct of [`vmod_args!`](crate::vmod_args): `(..List)`. Behind the result's kind stands how the
/// function runs, by the names of `tables::vmods::Func`'s methods: `pure`, `local`, `waits`, `blocks`, `only(METHODS)`, `restrict(METHODS)`. A function
/// that is neither `pure` nor `local` has effects outside of its transaction, and isn't called in a trial. `needs { .. }` names what the worker is to keep for it ([`Need`](crate::vmod::Need)).
///
/// A body takes the call, then the arguments, each as one of the types that [`TakeArg`](crate::vmod::kinds::TakeArg) has for its kind; it
/// gives what [`Give`](crate::vmod::kinds::Give) has for the result's. A method takes its object before the call, a constructor the call and the
/// object's name in VCL.
#[macro_export]
macro_rules! vmod {
    (
        $(#[doc = $text:literal])*
        $vis:vis static $static:ident = $module:ident;
        $(needs { $($need:ident),* })?
        $(functions { $(
            $(#[doc = $func_text:literal])*
            fn $func:tt $func_args:tt -> $func_ret:ident $(, $func_how:ident $(($func_where:expr))?)* = $func_body:expr;
        )* })?
        $(
            $(#[doc = $class_text:literal])*
            object $class:tt $class_args:tt -> $this:ty = $new:expr, methods { $(
                $(#[doc = $method_text:literal])*
                fn $method:tt $method_args:tt -> $method_ret:ident $(, $method_how:ident $(($method_where:expr))?)* = $method_body:expr;
            )* }
        )*
        $(left_out { $($left:literal => $instead:literal;)* })?
    ) => {
        $(#[doc = $text])*
        $vis static $static: $crate::vmod::Vmod = $crate::vmod::Vmod {
            needs: &[$($($crate::vmod::Need::$need),*)?],
            signature: $crate::vmod::Module {
                name: stringify!($module),
                text: $crate::vmod::kinds::doc(concat!($($text),*)),
                functions: const { &[$($(
                    $crate::vmod::Func::new(
                        <$crate::__vmod_kind!($func_ret) as $crate::vmod::kinds::VclType>::TYPE,
                        stringify!($func),
                        $crate::__vmod_args!($func_args),
                        $crate::vmod::kinds::doc(concat!($($func_text),*)),
                    )$(.$func_how($($func_where)?))*
                ),*)?] },
                objects: &[$($crate::vmod::ObjectSignature {
                    name: stringify!($class),
                    text: $crate::vmod::kinds::doc(concat!($($class_text),*)),
                    args: $crate::__vmod_args!($class_args),
                    methods: const { &[$(
                        $crate::vmod::Func::new(
                            <$crate::__vmod_kind!($method_ret) as $crate::vmod::kinds::VclType>::TYPE,
                            stringify!($method),
                            $crate::__vmod_args!($method_args),
                            $crate::vmod::kinds::doc(concat!($($method_text),*)),
                        )$(.$method_how($($method_where)?))*
                    ),*] },
                }),*],
                left_out: &[$($($crate::vmod::LeftOut($left, $instead)),*)?],
            },
            functions: &[$($(
                |call, values| $crate::vmod::kinds::outcome::<$crate::__vmod_kind!($func_ret), _>(
                    $crate::__vmod_call!($func_body, (call), values, $func_args)
                )
            ),*)?],
            classes: &[$($crate::vmod::ObjectClass {
                new: |call, name, values| $crate::vmod::kinds::made::<$this>(
                    $crate::__vmod_call!($new, (call, name), values, $class_args)
                ),
                methods: &[$(
                    |call, object, values| $crate::vmod::kinds::outcome::<$crate::__vmod_kind!($method_ret), _>(
                        $crate::__vmod_call!($method_body, ($crate::vmod::kinds::this::<$this>(object), call), values, $method_args)
                    )
                ),*],
            }),*],
        };
    };
}

/// A list of many arguments as a struct, which a constructor of [`vmod!`](crate::vmod) takes by `(..List)`: each field with its kind, and
/// the type that the body takes it as.
#[macro_export]
macro_rules! vmod_args {
    (
        $(#[$meta:meta])*
        $vis:vis struct $list:ident $(<$life:lifetime>)? { $($arg:ident: $kind:tt as $ty:ty $(= $default:tt)?),* $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug)]
        $vis struct $list $(<$life>)? { $($vis $arg: $ty),* }

        impl<'args $(, $life)?> $crate::vmod::kinds::ArgList<'args> for $list $(<$life>)? $(where 'args: $life)? {
            const ARGS: &'static [$crate::vmod::VmodArg] = &[$($crate::__vmod_arg!($arg $kind $($default)?)),*];

            fn take(values: &'args [$crate::Value]) -> Self {
                let mut values = values.iter();
                $list { $($arg: $crate::vmod::kinds::next::<$crate::__vmod_kind!($kind), _>(&mut values)),* }
            }
        }
    };
}

/// The words of an `ENUM` as an enum of Rust.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$on:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(clippy::enum_variant_names)]
        $vis enum $name { $($(#[$on])* $variant),* }

        impl $crate::vmod::kinds::VclType for $name {
            const TYPE: $crate::vmod::Type = $crate::vmod::Type::Enum;
            const WORDS: &'static [&'static str] = &[$($word),*];
        }

        impl $crate::vmod::kinds::EnumWords for $name {
            fn word(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }
        }

        impl<'a> $crate::vmod::kinds::TakeArg<'a, $name> for $name {
            fn take(value: &'a $crate::Value) -> Self {
                match value {
                    $($crate::Value::Enum($word) => $name::$variant,)*
                    other => $crate::vmod::kinds::forbidden(Some(other)),
                }
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __vmod_kind {
    ([$kind:ident]) => { $crate::vmod::kinds::OptionalArg<$crate::__vmod_kind!($kind)> };
    (VOID) => { $crate::vmod::kinds::VOID };
    (BOOL) => { $crate::vmod::kinds::BOOL };
    (INT) => { $crate::vmod::kinds::INT };
    (BYTES) => { $crate::vmod::kinds::BYTES };
    (REAL) => { $crate::vmod::kinds::REAL };
    (DURATION) => { $crate::vmod::kinds::DURATION };
    (TIME) => { $crate::vmod::kinds::TIME };
    (STRING) => { $crate::vmod::kinds::STRING };
    (STRANDS) => { $crate::vmod::kinds::STRANDS };
    (IP) => { $crate::vmod::kinds::IP };
    (BLOB) => { $crate::vmod::kinds::BLOB };
    (BACKEND) => { $crate::vmod::kinds::BACKEND };
    (HEADER) => { $crate::vmod::kinds::HEADER };
    (HTTP) => { $crate::vmod::kinds::HTTP };
    (REGEX) => { $crate::vmod::kinds::REGEX };
    (ACL) => { $crate::vmod::kinds::ACL };
    (STEVEDORE) => { $crate::vmod::kinds::STEVEDORE };
    (PROBE) => { $crate::vmod::kinds::PROBE };
    (SUB) => { $crate::vmod::kinds::SUB };
    ($words:ident) => { $words };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __vmod_args {
    ((..$list:ty)) => { <$list as $crate::vmod::kinds::ArgList<'_>>::ARGS };
    (($($arg:tt: $kind:tt $(= $default:tt)?),* $(,)?)) => {
        const { &[$($crate::__vmod_arg!($arg $kind $($default)?)),*] }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __vmod_arg {
    (_ $kind:tt $($default:tt)?) => { $crate::__vmod_arg!(@ "", $kind $($default)?) };
    (@ $name:expr, [$kind:ident] $($default:tt)?) => {
        $crate::__vmod_arg!(@ $name, $kind $($default)?).opt()
    };
    (@ $name:expr, $kind:ident $($default:tt)?) => {
        $crate::vmod::VmodArg {
            values: <$crate::__vmod_kind!($kind) as $crate::vmod::kinds::VclType>::WORDS,
            ..$crate::vmod::VmodArg::new(<$crate::__vmod_kind!($kind) as $crate::vmod::kinds::VclType>::TYPE, $name)
        }$(.or($crate::__vmod_default!($kind $default)))?
    };
    ($name:tt $kind:tt $($default:tt)?) => {
        $crate::__vmod_arg!(@ $crate::vmod::kinds::name(stringify!($name)), $kind $($default)?)
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __vmod_default {
    ($kind:ident null) => {
        $crate::vmod::Default::Null
    };
    (STRING $value:tt) => {
        $crate::vmod::Default::Str($value)
    };
    (STRANDS $value:tt) => {
        $crate::vmod::Default::Str($value)
    };
    (BOOL $value:tt) => {
        $crate::vmod::Default::Bool($value)
    };
    (INT $value:tt) => {
        $crate::vmod::Default::Int($value)
    };
    (BYTES $value:tt) => {
        $crate::vmod::Default::Int($value)
    };
    (REAL $value:tt) => {
        $crate::vmod::Default::Real($value)
    };
    (DURATION $value:tt) => {
        $crate::vmod::Default::Real($value)
    };
    ($words:ident $variant:ident) => {
        $crate::vmod::Default::Enum(<$words as $crate::vmod::kinds::VclType>::WORDS[$words::$variant as usize])
    };
}

/// A body, called with its arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! __vmod_call {
    ($body:expr, ($($first:expr),*), $values:ident, (..$list:ty)) => {
        ($body)($($first,)* <$list as $crate::vmod::kinds::ArgList<'_>>::take($values))
    };
    ($body:expr, ($($first:expr),*), $values:ident, ()) => {{
        let _ = $values;
        ($body)($($first),*)
    }};
    ($body:expr, ($($first:expr),*), $values:ident, ($($arg:tt: $kind:tt $(= $default:tt)?),* $(,)?)) => {{
        let mut values = $values.iter();
        ($body)($($first,)* $($crate::vmod::kinds::next::<$crate::__vmod_kind!($kind), _>(&mut values)),*)
    }};
}
