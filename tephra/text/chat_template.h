// SPDX-License-Identifier: Apache-2.0
// Chat templates: messages to the text a model continues, as Hugging Face's apply_chat_template
// makes it. docs/chat-templates.md says what of Jinja is understood.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/base/json.h"

namespace tephra {

struct ChatOptions {
  bool add_generation_prompt = true;
  // Ends the text inside of the last message, so that the model goes on with it.
  bool continue_final_message = false;
  std::optional<bool> enable_thinking;  // unset: the template's own default
  // Further variables of the template, as an object; they win over the model's own.
  Json variables = Json::Object{};
  std::function<std::time_t()> clock;  // for strftime_now; unset: the system's

  // Bounds for templates that nobody has read.
  int64_t max_steps = 10'000'000;
  int64_t max_value_bytes = int64_t{512} << 20;  // of all values made, not of those alive
  int64_t max_output_bytes = int64_t{64} << 20;
};

struct RenderedChat {
  std::string text;
  // Bytes [first, last) that the assistant wrote, where the template marks them with
  // {% generation %}.
  std::vector<std::pair<size_t, size_t>> assistant;
};

class ChatTemplate {
 public:
  // `where` names the template in messages. Fault::data, with line, when it is no template.
  static ChatTemplate parse(std::string_view source, const std::string& where);

  // From a model folder: chat_template.jinja, or `chat_template` of tokenizer_config.json, with the
  // special tokens that file names. `name` chooses among several; empty is "default" (with tools,
  // "tool_use" where there is one). Fault::usage when the folder has no template.
  static ChatTemplate load(const Path& folder, const std::string& name = {});
  static bool present(const Path& folder);

  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // `messages`: an array of {"role", "content", ...}; `tools`: an array of JSON schemas, or null.
  // What the template raises is Fault::usage, since it speaks about the messages; any other
  // failure is Fault::data.
  std::string render(const Json& messages, const Json& tools = {},
                     const ChatOptions& options = {}) const;
  RenderedChat render_marked(const Json& messages, const Json& tools = {},
                             const ChatOptions& options = {}) const;

  // With these variables and no others: for templates that are not about chats.
  std::string render_variables(const Json& variables, const ChatOptions& options = {}) const;

  void set_token(const std::string& name, const std::string& token);  // "bos_token", ...
  const std::string& where() const { return where_; }
  const std::string& source() const { return source_; }

 private:
  struct Tree;
  ChatTemplate();
  RenderedChat run(const std::vector<std::pair<std::string, const Json*>>& variables,
                   const ChatOptions& options) const;

  std::string where_, source_;
  std::unique_ptr<Tree> tree_, with_tools_;  // the second only when the folder has "tool_use"
  Json tokens_ = Json::Object{};
};

}  // namespace tephra
