// SPDX-License-Identifier: Apache-2.0
#include "tephra/text/chat_template.h"

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/text/jinja_parser.h"
#include "tephra/text/jinja_render.h"
#include "tephra/text/jinja_strings.h"

namespace tephra {
namespace {

constexpr int64_t kMaxTemplateBytes = 4 << 20;

jinja::Value from_json(const Json& json, int level = 0) {
  using jinja::Value;
  require(level < jinja::kMaxValueDepth, "a chat's messages nest deeper than {} levels",
          jinja::kMaxValueDepth);
  if (json.is_null()) return jinja::None();
  if (json.is_bool()) return json.boolean();
  if (json.is_int()) return json.integer();
  if (json.is_number()) return json.number();
  if (json.is_string()) return Value::text(json.string());
  int depth = 0;
  const auto part = [&](const Json& inner) {
    Value value = from_json(inner, level + 1);
    depth = std::max(depth, value.depth());
    return value;
  };
  if (json.is_array()) {
    auto list = std::make_shared<jinja::Sequence>();
    for (const Json& item : json.array()) list->items.push_back(part(item));
    list->depth = depth + 1;
    return std::shared_ptr<const jinja::Sequence>(std::move(list));
  }
  auto dict = std::make_shared<jinja::Dict>();
  for (const auto& [key, value] : json.object()) {
    dict->pairs.emplace_back(Value::text(key), part(value));
  }
  dict->depth = depth + 1;
  return std::shared_ptr<const jinja::Dict>(std::move(dict));
}

// The text of the last message, which continue_final_message goes on with.
std::string final_text(const Json& messages) {
  require(!messages.array().empty(), "continue_final_message: there is no message to go on with");
  const Json* content =
      messages.array().back().is_object() ? messages.array().back().find("content") : nullptr;
  if (content != nullptr && content->is_string()) return content->string();
  if (content != nullptr && content->is_array()) {
    for (size_t i = content->array().size(); i-- > 0;) {
      const Json& part = content->array()[i];
      const Json* text = part.is_object() ? part.find("text") : nullptr;
      if (text != nullptr && text->is_string()) return text->string();
    }
  }
  throw Error(Fault::usage, "continue_final_message: the last message has no text to go on with");
}

// Where the last message's text ends; templates may have trimmed it.
size_t end_of_final(const std::string& rendered, const std::string& text) {
  const std::string_view trimmed = jinja::stripped(text, nullptr, true, true);
  const size_t at = rendered.rfind(trimmed);
  require(at != rendered.npos,
          "continue_final_message: the template leaves the last message's text out");
  const std::string_view behind = jinja::stripped_left(text);
  const bool whole = std::string_view(rendered).substr(at, behind.size()) == behind;
  return at + (whole ? behind.size() : trimmed.size());
}

}  // namespace

struct ChatTemplate::Tree {
  jinja::Block body;
};

ChatTemplate::ChatTemplate() = default;
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

ChatTemplate ChatTemplate::parse(std::string_view source, const std::string& where) {
  require_data(static_cast<int64_t>(source.size()) <= kMaxTemplateBytes,
               "{}: a template of {}; at most {} are read", where,
               human_bytes(static_cast<int64_t>(source.size())), human_bytes(kMaxTemplateBytes));
  require_data(is_utf8(source), "{}: the template is not UTF-8", where);
  ChatTemplate made;
  made.where_ = where;
  made.source_ = source;
  made.tree_ = std::make_unique<Tree>();
  try {
    made.tree_->body = jinja::parse_template(source);
  } catch (const jinja::Failure& failure) {
    throw Error(Fault::data, format("{}: {}", where, failure.what()));
  }
  return made;
}

void ChatTemplate::set_token(const std::string& name, const std::string& token) {
  tokens_[name] = token;
}

RenderedChat ChatTemplate::run(const std::vector<std::pair<std::string, const Json*>>& variables,
                               const ChatOptions& options) const {
  const Json* tools = nullptr;
  jinja::Variables values;
  for (const auto& variable : variables) {
    if (variable.first == "tools") tools = variable.second;
    std::erase_if(values, [&](const auto& known) { return known.first == variable.first; });
    values.emplace_back(variable.first, from_json(*variable.second));
  }
  const bool use_tools = with_tools_ != nullptr && tools != nullptr && !tools->is_null();
  const Tree& tree = use_tools ? *with_tools_ : *tree_;
  const jinja::RunOptions run_options{
      .limits = {.steps = options.max_steps,
                 .value_bytes = options.max_value_bytes,
                 .output_bytes = options.max_output_bytes},
      .clock = options.clock ? options.clock : [] { return std::time(nullptr); }};
  try {
    jinja::Output output = jinja::run_template(tree.body, std::move(values), run_options);
    return {std::move(output.text), std::move(output.generation)};
  } catch (const jinja::Failure& failure) {
    throw Error(failure.raised() ? Fault::usage : Fault::data,
                format("{}: {}", where_, failure.what()));
  }
}

RenderedChat ChatTemplate::render_marked(const Json& messages, const Json& tools,
                                         const ChatOptions& options) const {
  require(messages.is_array(), "a chat's messages must be an array, got {}", messages.kind());
  require(tools.is_null() || tools.is_array(), "a chat's tools must be an array, got {}",
          tools.kind());
  require(options.variables.is_object(), "a template's variables must be an object, got {}",
          options.variables.kind());
  require(!(options.add_generation_prompt && options.continue_final_message),
          "add_generation_prompt and continue_final_message exclude each other");
  const Json nothing, prompt = options.add_generation_prompt,
                      thinking = options.enable_thinking.value_or(false);
  std::vector<std::pair<std::string, const Json*>> variables;
  for (const auto& [name, token] : tokens_.object()) variables.emplace_back(name, &token);
  variables.emplace_back("messages", &messages);
  variables.emplace_back("tools", &tools);
  variables.emplace_back("documents", &nothing);
  variables.emplace_back("add_generation_prompt", &prompt);
  if (options.enable_thinking) variables.emplace_back("enable_thinking", &thinking);
  for (const auto& [name, value] : options.variables.object()) variables.emplace_back(name, &value);

  RenderedChat rendered = run(variables, options);
  if (options.continue_final_message) {
    rendered.text.resize(end_of_final(rendered.text, final_text(messages)));
    for (auto& [first, last] : rendered.assistant) {
      first = std::min(first, rendered.text.size());
      last = std::min(last, rendered.text.size());
    }
  }
  return rendered;
}

std::string ChatTemplate::render(const Json& messages, const Json& tools,
                                 const ChatOptions& options) const {
  return render_marked(messages, tools, options).text;
}

std::string ChatTemplate::render_variables(const Json& variables,
                                           const ChatOptions& options) const {
  require(variables.is_object(), "a template's variables must be an object, got {}",
          variables.kind());
  std::vector<std::pair<std::string, const Json*>> all;
  for (const auto& [name, value] : variables.object()) all.emplace_back(name, &value);
  return run(all, options).text;
}

// Loading.

namespace {

Json read_json_object(const Path& path) {
  if (!std::filesystem::exists(path)) return Json::Object{};
  Json json = Json::parse(read_file(path), path.string());
  require_data(json.is_object(), "{}: expected an object, got {}", path.string(), json.kind());
  return json;
}

// A token is a string or an object with its content; nothing else names one.
const Json* token_text(const Json& value) {
  if (value.is_string()) return &value;
  const Json* content = value.is_object() ? value.find("content") : nullptr;
  return content != nullptr && content->is_string() ? content : nullptr;
}

void take_tokens(ChatTemplate& made, const Json& config) {
  for (const auto& [name, value] : config.object()) {
    const Json* text = name.ends_with("_token") ? token_text(value) : nullptr;
    if (text != nullptr) made.set_token(name, text->string());
  }
  // Tokens of a model's own, which templates call by their names, too.
  const Json* more = config.find("extra_special_tokens");
  if (more == nullptr || !more->is_object()) return;
  for (const auto& [name, value] : more->object()) {
    if (const Json* text = token_text(value)) made.set_token(name, text->string());
  }
}

using Named = std::vector<std::pair<std::string, std::string>>;

Named templates_of(const Json& config, const std::string& where) {
  const Json* found = config.find("chat_template");
  if (found == nullptr || found->is_null()) return {};
  if (found->is_string()) return {{"default", found->string()}};
  require_data(found->is_array(), "{}: chat_template: expected a string or an array, got {}", where,
               found->kind());
  Named all;
  for (const Json& entry : found->array()) {
    require_data(entry.is_object(), "{}: chat_template: expected {{name, template}}, got {}", where,
                 entry.kind());
    const Fields fields(entry, where + ": chat_template");
    all.emplace_back(fields.string("name"), fields.string("template"));
  }
  return all;
}

const std::string* named(const Named& all, std::string_view name) {
  for (const auto& [known, text] : all) {
    if (known == name) return &text;
  }
  return nullptr;
}

}  // namespace

bool ChatTemplate::present(const Path& folder) {
  if (std::filesystem::exists(folder / "chat_template.jinja")) return true;
  const Path path = folder / "tokenizer_config.json";
  return !templates_of(read_json_object(path), path.string()).empty();
}

ChatTemplate ChatTemplate::load(const Path& folder, const std::string& name) {
  require_folder(folder, "a model folder");
  const Path config_path = folder / "tokenizer_config.json";
  const Json config = read_json_object(config_path);
  const Path file = folder / "chat_template.jinja";
  const Path more = folder / "additional_chat_templates";
  std::string where = config_path.string();
  Named all;
  if (std::filesystem::exists(file)) {
    where = file.string();
    all.emplace_back("default", read_file(file, kMaxTemplateBytes));
    for (const char* extra : {"tool_use", "rag"}) {
      const Path path = more / (std::string(extra) + ".jinja");
      if (std::filesystem::exists(path))
        all.emplace_back(extra, read_file(path, kMaxTemplateBytes));
    }
  } else {
    all = templates_of(config, where);
  }
  if (all.empty()) {
    throw Error(Fault::usage, format("{}: the model has no chat template", folder.string()),
                "put a chat_template.jinja there, or give a plain prompt");
  }
  const std::string* text = named(all, name.empty() ? "default" : name);
  if (text == nullptr) {
    std::string known;
    for (const auto& [each, source] : all) known += (known.empty() ? "" : ", ") + each;
    throw Error(Fault::usage, format("{}: no chat template named '{}'; there are: {}",
                                     folder.string(), name.empty() ? "default" : name, known));
  }
  ChatTemplate made = parse(*text, where);
  const std::string* tool_use = name.empty() ? named(all, "tool_use") : nullptr;
  if (tool_use != nullptr) made.with_tools_ = parse(*tool_use, where + " (tool_use)").tree_;
  take_tokens(made, read_json_object(folder / "special_tokens_map.json"));
  take_tokens(made, config);
  return made;
}

}  // namespace tephra
