// SPDX-License-Identifier: Apache-2.0
// Generated tokens as text to show: whole characters only, and never a part of a stop string.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/text/tokenizer.h"

namespace tephra {

// Cuts a stream of text before the first stop string; how the text is chunked changes nothing. Of
// several, the one that is complete first wins, the longest of those.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops);  // none empty: Fault::usage

  // What can be said now: nothing that may still become a stop string. Once stopped, nothing.
  std::string add(std::string_view text);
  std::string finish();  // what was held back, when the stream ends by itself

  const std::optional<std::string>& stopped_by() const { return stopped_by_; }

 private:
  size_t held_suffix() const;

  std::vector<std::string> stops_;
  std::string held_;
  std::optional<std::string> stopped_by_;
};

class TextStream {
 public:
  // A stop string that is a special token also stops as a token, though its text is left out.
  TextStream(const Tokenizer& tokenizer, std::vector<std::string> stops, DecodeOptions options);

  std::string add(int32_t id);
  std::string finish();

  const std::optional<std::string>& stopped_by() const {
    return stop_token_ ? stop_token_ : stops_.stopped_by();
  }

 private:
  StreamDecoder decoder_;
  std::vector<std::pair<int32_t, std::string>> stop_ids_;
  StopStrings stops_;
  std::optional<std::string> stop_token_;
};

}  // namespace tephra
