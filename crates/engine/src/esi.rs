// SPDX-License-Identifier: BSD-2-Clause
//! ESI as the engine sees it: which features are on, and includes as child requests.

use esi::Features;
use params::{FeatureBit, Params};

pub(crate) fn features(params: &Params) -> Features {
    let has = |bit| params.feature.has(bit);
    Features {
        disable_xml_check: has(FeatureBit::EsiDisableXmlCheck),
        ignore_https: has(FeatureBit::EsiIgnoreHttps),
        ignore_other_elements: has(FeatureBit::EsiIgnoreOtherElements),
        remove_bom: has(FeatureBit::EsiRemoveBom),
    }
}
