// SPDX-License-Identifier: BSD-2-Clause
//! JSON as templates and VCL look at it: values by number, so that a place in it is a number, too.

use serde_json::Value as Json;

#[derive(Debug)]
pub(crate) enum ValueNode {
    Null,
    Bool(bool),
    Number(f64, String),
    Text(String),
    Array(Vec<Id>),
    Object(Vec<(String, Id)>),
}

pub(crate) type Id = u32;

#[derive(Default, Debug)]
pub(crate) struct Values {
    nodes: Vec<ValueNode>,
    /// The documents, in the order in which they are searched.
    pub(crate) roots: Vec<Id>,
}

impl Values {
    /// Another document; what is no JSON is `null`, and false is said.
    pub(crate) fn add(&mut self, text: &[u8]) -> bool {
        let json = serde_json::from_slice(text);
        let is_json = json.is_ok();
        let id = self.put(json.unwrap_or(Json::Null));
        self.roots.push(id);
        is_json
    }

    pub(crate) fn replace(&mut self, root: usize, text: &[u8]) {
        let id = self.put(serde_json::from_slice(text).unwrap_or(Json::Null));
        self.roots[root] = id;
    }

    /// Nested calls: the parser takes 128 levels.
    fn put(&mut self, json: Json) -> Id {
        let node = match json {
            Json::Null => ValueNode::Null,
            Json::Bool(value) => ValueNode::Bool(value),
            Json::Number(number) => ValueNode::Number(number.as_f64().unwrap_or(f64::NAN), number.to_string()),
            Json::String(text) => ValueNode::Text(text),
            Json::Array(all) => ValueNode::Array(all.into_iter().map(|json| self.put(json)).collect()),
            Json::Object(all) => {
                ValueNode::Object(all.into_iter().map(|(name, json)| (name, self.put(json))).collect())
            }
        };
        self.nodes.push(node);
        (self.nodes.len() - 1) as Id
    }

    pub(crate) fn get(&self, id: Id) -> &ValueNode {
        &self.nodes[id as usize]
    }

    pub(crate) fn type_of(&self, id: Id) -> &'static str {
        match self.get(id) {
            ValueNode::Null => "null",
            ValueNode::Bool(true) => "true",
            ValueNode::Bool(false) => "false",
            ValueNode::Number(..) => "number",
            ValueNode::Text(_) => "string",
            ValueNode::Array(_) => "array",
            ValueNode::Object(_) => "object",
        }
    }

    pub(crate) fn is_falsy(&self, id: Id) -> bool {
        match self.get(id) {
            ValueNode::Null | ValueNode::Bool(false) => true,
            ValueNode::Array(all) => all.is_empty(),
            ValueNode::Bool(true) | ValueNode::Number(..) | ValueNode::Text(_) | ValueNode::Object(_) => false,
        }
    }

    pub(crate) fn size(&self, id: Id) -> usize {
        match self.get(id) {
            ValueNode::Array(all) => all.len(),
            ValueNode::Object(all) => all.len(),
            ValueNode::Null | ValueNode::Bool(_) | ValueNode::Number(..) | ValueNode::Text(_) => 0,
        }
    }

    fn member(&self, id: Id, name: &str) -> Option<Id> {
        let ValueNode::Object(all) = self.get(id) else { return None };
        all.iter().find(|(other, _)| other == name).map(|(_, id)| *id)
    }

    /// The value that a path (`a.b[2].c`, `[0]`) leads to from here; else the member whose whole name that is.
    pub(crate) fn find(&self, from: Id, path: &str) -> Option<Id> {
        self.walk(from, path).or_else(|| self.member(from, path))
    }

    fn walk(&self, from: Id, path: &str) -> Option<Id> {
        let mut at = from;
        for (i, part) in path.split('.').enumerate() {
            let (name, mut indexes) = part.split_at(part.find('[').unwrap_or(part.len()));
            if !name.is_empty() {
                at = self.member(at, name)?;
            } else if indexes.is_empty() || i > 0 {
                return None;
            }
            while !indexes.is_empty() {
                let (index, rest) = indexes.strip_prefix('[')?.split_once(']')?;
                let ValueNode::Array(all) = self.get(at) else { return None };
                at = *all.get(index.parse::<usize>().ok()?)?;
                indexes = rest;
            }
        }
        Some(at)
    }

    /// The value as a text; `raw`: what has escapes in JSON keeps them.
    pub(crate) fn text(&self, id: Id, raw: bool) -> String {
        match self.get(id) {
            ValueNode::Null => String::new(),
            ValueNode::Text(text) if raw => {
                let quoted = Json::from(text.as_str()).to_string();
                quoted[1..quoted.len() - 1].to_owned()
            }
            ValueNode::Text(text) => text.clone(),
            ValueNode::Bool(_) | ValueNode::Number(..) | ValueNode::Array(_) | ValueNode::Object(_) => {
                let mut out = String::new();
                self.json(id, &mut out);
                out
            }
        }
    }

    fn json(&self, id: Id, out: &mut String) {
        match self.get(id) {
            ValueNode::Null => out.push_str("null"),
            ValueNode::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            ValueNode::Number(_, text) => out.push_str(text),
            ValueNode::Text(text) => out.push_str(&Json::from(text.as_str()).to_string()),
            ValueNode::Array(all) => {
                out.push('[');
                for (i, id) in all.iter().enumerate() {
                    out.push_str(if i > 0 { "," } else { "" });
                    self.json(*id, out);
                }
                out.push(']');
            }
            ValueNode::Object(all) => {
                out.push('{');
                for (i, (name, id)) in all.iter().enumerate() {
                    out.push_str(if i > 0 { "," } else { "" });
                    out.push_str(&Json::from(name.as_str()).to_string());
                    out.push(':');
                    self.json(*id, out);
                }
                out.push('}');
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        let mut values = Values::default();
        values.add(br#"{"a": {"b": [1, {"c": "d\"<"}]}, "a.x": 2, "n": null}"#);
        values.add(b"[[5]]");
        values.add(b"{");
        let roots = values.roots.clone();
        let show = |root: usize, path: &str, raw| values.find(roots[root], path).map(|id| values.text(id, raw));
        assert_eq!(show(0, "a.b[1].c", false).as_deref(), Some("d\"<"));
        assert_eq!(show(0, "a.b[1].c", true).as_deref(), Some("d\\\"<"));
        assert_eq!(show(0, "a.x", false).as_deref(), Some("2"));
        assert_eq!(show(0, "a.b", false).as_deref(), Some(r#"[1,{"c":"d\"<"}]"#));
        assert_eq!(show(1, "[0][0]", false).as_deref(), Some("5"));
        for path in ["a.b[2]", "a.b[", "a.b]", "a..b", "", ".", "a.b[-1]", "[0]", "a[0]"] {
            assert_eq!(show(0, path, false), None, "{path}");
        }
        assert_eq!(values.type_of(roots[2]), "null");
    }
}
