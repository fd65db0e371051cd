// SPDX-License-Identifier: Apache-2.0
// Text that looks like English to a tokenizer, for benchmarks without a file: function words and
// made words whose frequencies fall with their rank as a language's do, in sentences and
// paragraphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tephra {

// The same for the same size and seed, on any machine.
std::string sample_text(size_t bytes, uint64_t seed);

}  // namespace tephra
