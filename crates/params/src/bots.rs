// SPDX-License-Identifier: BSD-2-Clause
//! The parameter `bots`.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BotsMode {
    #[default]
    Off,
    Observe,
    On,
}

impl BotsMode {
    pub fn parse(word: &str) -> Option<BotsMode> {
        match word {
            "off" => Some(BotsMode::Off),
            "observe" => Some(BotsMode::Observe),
            "on" => Some(BotsMode::On),
            _ => None,
        }
    }
}
