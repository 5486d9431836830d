// SPDX-License-Identifier: BSD-2-Clause
//! VCL's subroutines and the words that `return` has in each: vcl-step(7) as data. The compiler checks the words. The
//! engine matches a type per subroutine, which has the arguments, too.

use crate::no_hit::NoHit;

/// The subroutines of release 8 that a 304 goes through. A VCL that has none of them treats a 304 as releases up to 7 do.
pub const REFRESH_SUBS: [&str; 5] = [
    "vcl_backend_refresh",
    "vcl_builtin_backend_refresh",
    "vcl_refresh_conditions",
    "vcl_refresh_status",
    "vcl_refresh_valid",
];

/// Status and reason that VCL gives a response made here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VclStatus {
    pub status: u16,
    pub reason: Option<Vec<u8>>,
}

macro_rules! returns {
    ($($word:ident $name:literal $(($argument:ty))? $(=> $no_hit:ident)?;)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[allow(missing_docs)]
        #[repr(u8)]
        pub enum Return {
            $($word),*
        }

        impl Return {
            /// All, in order of name.
            pub const ALL: [Return; Return::COUNT] = [$(Return::$word),*];
            pub const COUNT: usize = [$(Return::$word),*].len();

            /// The word in VCL and in the log's `VCL_return` records.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Return::$word => $name),*
                }
            }

            /// The reason for no hit when a subroutine on the client's side ends so; `None` if such an end gives none.
            pub const fn no_hit(self) -> Option<NoHit> {
                match self {
                    $(Return::$word => no_hit!($($no_hit)?)),*
                }
            }
        }

        /// End of any subroutine.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub enum Action {
            $($word $(($argument))?),*
        }

        impl Action {
            /// The action of a word that has no argument.
            #[inline]
            pub fn of_word(word: Return) -> Option<Action> {
                match word {
                    $(Return::$word => plain_action!($word $($argument)?)),*
                }
            }

            /// The word that `return` has for it.
            #[inline]
            pub const fn word(&self) -> Return {
                match self {
                    $(Action::$word { .. } => Return::$word),*
                }
            }
        }
    };
}

macro_rules! plain_action {
    ($word:ident) => {
        Some(Action::$word)
    };
    ($word:ident $argument:ty) => {
        None
    };
}

macro_rules! no_hit {
    () => {
        None
    };
    ($no_hit:ident) => {
        Some(NoHit::$no_hit)
    };
}

// A word, the type of its argument, and the reason for no hit that it is.
returns! {
    Abandon "abandon";
    Beresp "beresp";
    Deliver "deliver";
    Error "error" (VclStatus);
    Fail "fail" => VclFailed;
    Fetch "fetch";
    Hash "hash";
    Lookup "lookup";
    Merge "merge";
    ObjStale "obj_stale";
    Ok "ok";
    Pass "pass" => Pass;
    Pipe "pipe" => Pipe;
    Purge "purge" => Purge;
    Restart "restart" => Restart;
    Retry "retry";
    Synth "synth" (VclStatus) => Synth;
    Vcl "vcl" (String);
}

impl Return {
    pub fn methods(self) -> Methods {
        let ok = Method::ALL.into_iter().filter(|m| m.allows(self));
        ok.fold(Methods::NONE, |set, m| set.with(m.set()))
    }
}

/// End of one subroutine, with the arguments of its `return`.
pub trait SubAction: Sized {
    const METHOD: Method;

    /// An action of [`SubAction::METHOD`] in its own type. The machine fails a subroutine that ends otherwise.
    fn of(action: Action) -> Self;
}

macro_rules! subroutines {
    ($($(#[$doc:meta])* $method:ident $sub:literal $log:literal $($action:ident)?
        [$($word:ident $(($name:ident: $argument:ty))?),*];)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
        #[allow(missing_docs)]
        #[repr(u8)]
        pub enum Method {
            $($(#[$doc])* $method),*
        }

        impl Method {
            pub const ALL: [Method; Method::COUNT] = [$(Method::$method),*];
            pub const COUNT: usize = [$(Method::$method),*].len();

            /// The subroutine's name in VCL.
            pub const fn sub_name(self) -> &'static str {
                match self {
                    $(Method::$method => $sub),*
                }
            }

            /// The name in the log's `VCL_call` records.
            pub const fn log_name(self) -> &'static str {
                match self {
                    $(Method::$method => $log),*
                }
            }

            /// The words of `return (...)` in this subroutine.
            pub const fn returns(self) -> &'static [Return] {
                match self {
                    $(Method::$method => &[$(Return::$word),*]),*
                }
            }

            /// The same as a set: bit `1 << word` of each.
            pub const fn return_set(self) -> u32 {
                const SETS: [u32; Method::COUNT] = [$(0 $(| 1 << Return::$word as u32)*),*];
                SETS[self as usize]
            }
        }

        $(action_type!($method $sub $($action)? [$($word $(($name: $argument))?),*]);)*
    };
}

macro_rules! action_type {
    ($method:ident $sub:literal [$($word:tt)*]) => {};
    ($method:ident $sub:literal $action:ident [$($word:ident $(($name:ident: $argument:ty))?),*]) => {
        #[doc = concat!("End of `", $sub, "`.")]
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub enum $action {
            $($word $(($argument))?),*
        }

        impl SubAction for $action {
            const METHOD: Method = Method::$method;

            #[inline]
            fn of(action: Action) -> Self {
                match action {
                    $(Action::$word $(($name))? => $action::$word $(($name))?,)*
                    _ => $action::Fail,
                }
            }
        }
    };
}

subroutines! {
    Recv "vcl_recv" "RECV" RecvAction [Fail, Synth(of: VclStatus), Restart, Pass, Pipe, Hash, Purge, Vcl(label: String)];
    Pipe "vcl_pipe" "PIPE" PipeAction [Fail, Synth(of: VclStatus), Pipe];
    Pass "vcl_pass" "PASS" PassAction [Fail, Synth(of: VclStatus), Restart, Fetch];
    Hash "vcl_hash" "HASH" HashAction [Fail, Lookup];
    Purge "vcl_purge" "PURGE" PurgeAction [Fail, Synth(of: VclStatus), Restart];
    Miss "vcl_miss" "MISS" MissAction [Fail, Synth(of: VclStatus), Restart, Pass, Fetch];
    // Fetch is 4.0's; 7.1 doesn't have it any more.
    Hit "vcl_hit" "HIT" HitAction [Fail, Synth(of: VclStatus), Restart, Pass, Deliver, Fetch];
    Deliver "vcl_deliver" "DELIVER" DeliverAction [Fail, Synth(of: VclStatus), Restart, Deliver];
    Synth "vcl_synth" "SYNTH" SynthAction [Fail, Restart, Deliver];
    BackendFetch "vcl_backend_fetch" "BACKEND_FETCH" BackendFetchAction [Fail, Fetch, Abandon, Error(of: VclStatus)];
    BackendResponse "vcl_backend_response" "BACKEND_RESPONSE" BackendResponseAction
        [Fail, Deliver, Retry, Abandon, Pass, Error(of: VclStatus)];
    BackendError "vcl_backend_error" "BACKEND_ERROR" BackendErrorAction [Fail, Deliver, Retry, Abandon];
    /// Only of a VCL that says something of it: see [`REFRESH_SUBS`].
    BackendRefresh "vcl_backend_refresh" "BACKEND_REFRESH" BackendRefreshAction
        [Fail, Retry, Abandon, Error(of: VclStatus), Merge, ObjStale, Beresp];
    Init "vcl_init" "INIT" [Ok, Fail];
    Fini "vcl_fini" "FINI" [Ok];
}

impl Method {
    pub const fn set(self) -> Methods {
        Methods(1 << self as u16)
    }

    pub const fn allows(self, word: Return) -> bool {
        self.return_set() & 1 << word as u32 != 0
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Methods(pub u16);

impl Methods {
    pub const NONE: Methods = Methods(0);
    /// The client side: everything but `vcl_backend_*`, `vcl_init` and `vcl_fini`.
    pub const CLIENT: Methods = Methods(0x01ff);
    pub const BACKEND: Methods = Methods(0x1e00);
    pub const HOUSEKEEPING: Methods = Methods(0x6000);
    pub const ALL: Methods = Methods(0x7fff);

    pub const fn has(self, method: Method) -> bool {
        self.0 & (1 << method as u16) != 0
    }

    pub const fn with(self, other: Methods) -> Methods {
        Methods(self.0 | other.0)
    }

    pub const fn and(self, other: Methods) -> Methods {
        Methods(self.0 & other.0)
    }

    pub const fn without(self, method: Method) -> Methods {
        Methods(self.0 & !method.set().0)
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = Method> {
        Method::ALL.into_iter().filter(move |m| self.has(*m))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_agree_with_their_names() {
        assert!(Methods::CLIENT.has(Method::Recv) && Methods::CLIENT.has(Method::Synth));
        assert!(!Methods::CLIENT.has(Method::BackendFetch) && !Methods::BACKEND.has(Method::Init));
        assert_eq!(Methods::ALL, Methods::CLIENT.with(Methods::BACKEND).with(Methods::HOUSEKEEPING));
        assert_eq!(Methods::ALL.iter().count(), Method::COUNT);
    }

    #[test]
    fn actions_know_their_subroutines() {
        assert!(Return::Vcl.methods() == Method::Recv.set());
        assert!(Return::Fail.methods().has(Method::Init) && !Return::Fail.methods().has(Method::Fini));
        assert!(Return::ALL.is_sorted_by_key(|word| word.name()));
        for method in Method::ALL {
            let allowed = Return::ALL.into_iter().filter(|word| method.allows(*word));
            let mut listed = method.returns().to_vec();
            listed.sort();
            assert_eq!(allowed.collect::<Vec<_>>(), listed);
        }
    }

    #[test]
    fn a_subroutine_gets_its_own_end_with_what_vcl_gave() {
        let status = VclStatus { status: 404, reason: Some(b"No".to_vec()) };
        assert_eq!(HitAction::of(Action::Synth(status.clone())), HitAction::Synth(status));
        assert_eq!(RecvAction::of(Action::Vcl("blog".into())), RecvAction::Vcl("blog".into()));
        assert_eq!(BackendRefreshAction::METHOD, Method::BackendRefresh);
        assert_eq!(Action::of_word(Return::Merge).map(|action| action.word()), Some(Return::Merge));
        assert_eq!(Action::of_word(Return::Error), None);
    }
}
