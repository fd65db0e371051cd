// SPDX-License-Identifier: Apache-2.0
// A conversation with a model in this process: messages, settings, and answers as they come. It
// knows no terminal.
#pragma once

#include <functional>
#include <optional>

#include "tephra/infer/engine.h"
#include "tephra/serve/metrics.h"
#include "tephra/text/chat_parser.h"
#include "tephra/text/chat_template.h"
#include "tephra/text/tokenizer.h"

namespace tephra {

struct TalkSettings {
  Sampling sampling;
  std::optional<int64_t> seed;        // unset: every answer draws anew
  std::optional<int64_t> max_tokens;  // of an answer; unset: all the room that is left
  std::optional<bool> thinking;       // unset: as the template does
};

struct TalkAnswer {
  ChatReply reply;
  EngineUsage usage;
  bool whole = true;  // false: stopped by the person
  bool cut = false;   // as long as allowed
  double seconds = 0;
};

class ChatTalk {
 public:
  // The model must outlive it. Fault::usage when the folder has no tokenizer or no chat template.
  ChatTalk(Model& model, const Path& folder, const EngineOptions& options);

  TalkSettings settings;

  void set_system(std::string text) { system_ = std::move(text); }
  const std::string& system() const { return system_; }
  const Json& messages() const { return messages_; }  // without the system's
  bool empty() const { return messages_.array().empty(); }
  void reset() { messages_ = Json::Array{}; }

  // The answer to `text`, told piece by piece; `stop` is asked all the time. When it fails, nothing
  // of it stays.
  TalkAnswer say(const std::string& text, const std::function<void(const ChatDelta&)>& tell,
                 const std::function<bool()>& stop);
  // Takes back the last exchange; what the person had said, or nothing when there is none.
  std::optional<std::string> take_back();

  // One line of the form that training reads, too: {"messages": [{"role", "content"}, ...]}.
  void save(const Path& file) const;
  void load(const Path& file);  // in place of all that was said

  bool device_failed() const { return engine_.failure().has_value(); }
  int64_t context() const { return engine_.room_for(0) - 1; }

 private:
  Json whole_conversation() const;
  TalkAnswer answer(const std::function<void(const ChatDelta&)>& tell,
                    const std::function<bool()>& stop);

  Tokenizer tokenizer_;
  ChatTemplate form_;
  std::string system_;
  Json messages_ = Json::Array{};
  ServeMetrics metrics_;
  Engine engine_;  // last: its callbacks use the others
};

}  // namespace tephra
