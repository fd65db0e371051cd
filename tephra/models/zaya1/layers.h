// SPDX-License-Identifier: Apache-2.0
// Which kind of attention and of feed-forward layer a config asks for.
#pragma once

#include <memory>

#include "tephra/models/zaya1/config.h"
#include "tephra/nn/attention_layer.h"

namespace tephra::zaya1 {

std::unique_ptr<AttentionLayer> make_attention(const Config& config, const LayerConfig& layer,
                                               const ParameterStore& store,
                                               const std::string& prefix);

// What that layer remembers when it decodes.
LayerStateSpec attention_state(const Config& config, const LayerConfig& layer);

}  // namespace tephra::zaya1
