// SPDX-License-Identifier: BSD-2-Clause
//! The wire format of protobuf (protobuf.dev/programming-guides/encoding), as far as OTLP needs it: a writer of messages, and a reader of one's
//! fields. Fields of scalar types that have their default aren't written, as proto3 has it.

const VARINT: u64 = 0;
const I64: u64 = 1;
const LEN: u64 = 2;
const I32: u64 = 5;

/// A message with its fields.
pub trait WriteMessage {
    fn write(&self, to: &mut Writer);
}

/// The octets of a message.
pub fn written(message: &impl WriteMessage) -> Vec<u8> {
    let mut to = Writer(Vec::new());
    message.write(&mut to);
    to.0
}

/// The octets of a message so far. Each method but for `_always` omits a field with its default.
pub struct Writer(Vec<u8>);

impl Writer {
    pub fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    pub fn bytes(&mut self, field: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.bytes_always(field, bytes);
        }
    }

    pub fn bytes_always(&mut self, field: u64, bytes: &[u8]) {
        self.begin(field, LEN);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub fn number(&mut self, field: u64, number: u64) {
        if number != 0 {
            self.number_always(field, number);
        }
    }

    pub fn number_always(&mut self, field: u64, number: u64) {
        self.begin(field, VARINT);
        self.varint(number);
    }

    pub fn fixed64(&mut self, field: u64, number: u64) {
        if number != 0 {
            self.begin(field, I64);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    pub fn fixed32(&mut self, field: u64, number: u32) {
        if number != 0 {
            self.begin(field, I32);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
    }

    pub fn messages(&mut self, field: u64, messages: &[impl WriteMessage]) {
        messages.iter().for_each(|message| self.message(field, message));
    }

    pub fn message(&mut self, field: u64, message: &impl WriteMessage) {
        self.begin(field, LEN);
        let at = self.0.len();
        message.write(self);
        // The length is known now, and comes before.
        let end = self.0.len();
        self.varint((end - at) as u64);
        let octets = self.0.len() - end;
        self.0[at..].rotate_right(octets);
    }

    fn begin(&mut self, field: u64, wire_type: u64) {
        self.varint(field << 3 | wire_type);
    }

    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}

#[derive(Debug, PartialEq)]
pub enum ProtobufValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message with their numbers; None is the last item if it is malformed.
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub fn of(bytes: &'a [u8]) -> Fields<'a> {
        Fields(bytes)
    }

    fn read(&mut self) -> Option<(u64, ProtobufValue<'a>)> {
        let key = self.varint()?;
        let value = match key & 7 {
            VARINT => ProtobufValue::Number(self.varint()?),
            I64 => ProtobufValue::Number(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            LEN => {
                let len = usize::try_from(self.varint()?).ok()?;
                ProtobufValue::Bytes(self.take(len)?)
            }
            I32 => ProtobufValue::Number(u32::from_le_bytes(self.take(4)?.try_into().ok()?).into()),
            // Groups are of proto2.
            _ => return None,
        };
        Some((key >> 3, value))
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let octet = self.take(1)?[0];
            number |= u64::from(octet & 0x7f) << shift;
            if octet < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, ProtobufValue<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.read();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message that nests itself, with a text of so many octets at the bottom.
    struct Nested(usize, Vec<Nested>);

    impl WriteMessage for Nested {
        fn write(&self, to: &mut Writer) {
            to.text(1, &"x".repeat(self.0));
            to.messages(2, &self.1);
        }
    }

    #[test]
    fn lengths_of_any_size_come_before_messages() {
        for len in [1, 125, 126, 127, 128, 16_379, 16_380, 16_384] {
            let message = written(&Nested(0, vec![Nested(len, Vec::new()), Nested(1, vec![Nested(len, Vec::new())])]));
            let read = |bytes| Fields::of(bytes).collect::<Option<Vec<_>>>().expect("well formed");
            let text = vec![b'x'; len];
            let [(2, ProtobufValue::Bytes(first)), (2, ProtobufValue::Bytes(second))] = read(&message)[..] else {
                panic!("two messages of {len}")
            };
            assert_eq!(read(first), [(1, ProtobufValue::Bytes(&text))]);
            let [(1, ProtobufValue::Bytes(b"x")), (2, ProtobufValue::Bytes(third))] = read(second)[..] else {
                panic!("a text and a message of {len}")
            };
            assert_eq!(read(third), [(1, ProtobufValue::Bytes(&text))]);
        }
    }

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for number in [1, 0x7f, 0x80, 0x3fff, 0x4000, u64::from(u32::MAX), u64::MAX] {
            let mut to = Writer(Vec::new());
            to.number(1, number);
            to.fixed64(2, number);
            to.fixed32(3, number as u32);
            let read: Vec<_> = Fields::of(&to.0).collect();
            let expected = [(1, number), (2, number), (3, u64::from(number as u32))];
            assert_eq!(read, expected.map(|(field, number)| Some((field, ProtobufValue::Number(number)))));
        }
        let mut to = Writer(Vec::new());
        to.number(1, 0);
        to.fixed64(2, 0);
        to.fixed32(3, 0);
        to.text(4, "");
        assert!(to.0.is_empty(), "defaults are omitted");
    }
}
