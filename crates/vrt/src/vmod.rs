// SPDX-License-Identifier: BSD-2-Clause
//! What a VCL module is to the machine. A module declares itself by [`vmod!`](crate::vmod): from its rows come the signatures that the
//! compiler of VCL checks calls by, and the functions here, which hand each body its arguments as types of Rust ([`kinds`]).
//!
//! Below that, arguments come in the order of the signature, one [`Value`] each: defaults filled in by the compiler, an optional
//! argument that was left out is [`Value::Absent`]. STRANDS arrive joined, as STRING.

pub mod kinds;
mod macros;

use std::any::Any;
use std::sync::{Arc, OnceLock};

use tables::vclsubs::Method;
pub use tables::vclsubs::Methods;
pub use tables::vclvars::Type;
pub use tables::vmods::{Default, Func, LeftOut, Module, VmodArg, VmodObjectType as ObjectSignature};

use crate::ctx::{Ctx, VclFailure, VclWait};
use crate::loaded::LoadedVcl;
use crate::value::Value;
pub use kinds::{
    ACL, Answered, BACKEND, BLOB, BOOL, BYTES, CallResult, DURATION, EnumWords, HEADER, HTTP, INT, IP, OptionalArg,
    PROBE, REAL, REGEX, STEVEDORE, STRANDS, STRING, SUB, TIME, VOID, give, wait,
};

/// Result of a module's function.
pub enum ReturnValue {
    /// A value, of the type that the signature says ([`Value::Void`] for VOID).
    Value(Value),
    /// The machine waits for it. The future must not borrow from the transaction.
    Wait(VclWait<Result<Value, VclFailure>>),
}

impl From<Value> for ReturnValue {
    fn from(value: Value) -> Self {
        ReturnValue::Value(value)
    }
}

/// Result of a call, or VCL's failure.
pub type Returned = Result<ReturnValue, VclFailure>;

/// Surroundings of a call.
pub struct VmodCall<'a> {
    /// The transaction that calls.
    pub ctx: &'a mut dyn Ctx,
    /// The subroutine of the machine that runs.
    pub method: Method,
    /// The VCL that runs.
    pub vcl: &'a Arc<LoadedVcl>,
    /// `now` of this subroutine, seconds since 1970.
    pub now: f64,
    /// State that this place in the source keeps for the VCL's life: PRIV_CALL.
    pub site: &'a PrivCell,
    /// State that this module keeps for the VCL's life: PRIV_VCL.
    pub module: &'a PrivCell,
    /// Length in bytes of the first piece of the last concatenated argument.
    pub first_piece: Option<usize>,
}

/// A value that a module keeps; made once, then shared.
#[derive(Default)]
pub struct PrivCell(OnceLock<Arc<dyn Any + Send + Sync>>);

impl PrivCell {
    /// The value, made by the first who asks. Panics when asked for another type than it was made with: one cell belongs
    /// to one function (or one module).
    pub fn get_or<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let any = self.0.get_or_init(|| Arc::new(make())).clone();
        any.downcast().expect("a cell holds one type")
    }
}

impl std::fmt::Debug for PrivCell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.get().is_some() { "PrivCell(set)" } else { "PrivCell" })
    }
}

/// Code of a function.
pub type Function = for<'a> fn(&mut VmodCall<'a>, &[Value]) -> Returned;
/// An object made by `new`; dropped after `vcl_fini`.
pub type VmodObject = Arc<dyn Any + Send + Sync>;
/// A constructor: gets the object's name in VCL.
pub type Constructor = for<'a> fn(&mut VmodCall<'a>, &str, &[Value]) -> Result<VmodObject, VclFailure>;
/// Code of a method.
pub type ObjectMethod = for<'a> fn(&mut VmodCall<'a>, &VmodObject, &[Value]) -> Returned;

/// A type of objects: the code of the signature at the same place.
pub struct ObjectClass {
    /// Makes an object of it.
    pub new: Constructor,
    /// Methods in the order of the signature.
    pub methods: &'static [ObjectMethod],
}

/// A module with its code.
pub struct Vmod {
    /// Declaration of its functions and classes.
    pub signature: Module,
    /// Services that the worker keeps only once a VCL imports the module.
    pub needs: &'static [Need],
    /// Functions in the order of the signature.
    pub functions: &'static [Function],
    /// Types of objects in the order of the signature.
    pub classes: &'static [ObjectClass],
}

/// Services that take memory or time, and so run only once a module needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The index of objects by key.
    Tags,
    /// The keys that the fields xkey and X-HashTwo of a response name.
    KeyFields,
    /// The authorities that the system trusts: the module speaks TLS with servers.
    Authorities,
}

impl Vmod {
    /// The function called `name`.
    pub fn function(&self, name: &str) -> Option<Function> {
        let at = self.signature.functions.iter().position(|function| function.name == name)?;
        self.functions.get(at).copied()
    }

    /// The constructor of the objects of the type `name`.
    pub fn constructor(&self, name: &str) -> Option<Constructor> {
        Some(self.class(name)?.1.new)
    }

    /// A method of the objects of the type `class`.
    pub fn method(&self, class: &str, name: &str) -> Option<ObjectMethod> {
        let (object, class) = self.class(class)?;
        let at = object.methods.iter().position(|method| method.name == name)?;
        class.methods.get(at).copied()
    }

    fn class(&self, name: &str) -> Option<(&'static ObjectSignature, &'static ObjectClass)> {
        let at = self.signature.objects.iter().position(|object| object.name == name)?;
        Some((&self.signature.objects[at], self.classes.get(at)?))
    }
}
