// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/run_folder.h"

#include <map>

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/text/byte_tokenizer.h"
#include "tephra/text/chat_template.h"
#include "tephra/text/chatml.h"

namespace tephra {
namespace {

// "section.key" -> value of a dumped config; tables of a list are told apart by their number.
std::map<std::string, std::string> entries_of(const std::string& toml) {
  std::map<std::string, std::string> entries;
  std::map<std::string, int> seen;
  std::string section;
  for (std::string_view line : split(toml, '\n')) {
    line = trim(line);
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '[') {
      section = std::string(line);
      std::erase_if(section, [](char c) { return c == '[' || c == ']'; });
      if (line.starts_with("[[")) section += format("[{}]", seen[section]++);
      section += '.';
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    entries[section + std::string(trim(line.substr(0, equals)))] = trim(line.substr(equals + 1));
  }
  return entries;
}

std::string joined(const std::vector<std::string>& keys) {
  std::string out;
  for (const std::string& key : keys) out += (out.empty() ? "" : ", ") + key;
  return out;
}

// Adds "a.b" for every key that both have with different values.
void differences(const Json& a, const Json& b, const std::string& prefix,
                 std::vector<std::string>& keys) {
  for (const auto& [key, value] : a.object()) {
    const Json* other = b.find(key);
    if (other == nullptr) continue;
    if (value.is_object() && other->is_object()) {
      differences(value, *other, prefix + key + ".", keys);
    } else if (value.dump() != other->dump()) {
      keys.push_back(prefix + key);
    }
  }
}

constexpr const char* kChatTemplateName = "chat_template.jinja";

Path folder_of_tokenizer(const Path& tokenizer) {
  if (tokenizer.filename() != "tokenizer.json") return tokenizer;
  return tokenizer.has_parent_path() ? tokenizer.parent_path() : Path(".");
}

void copy_tokenizer(const Path& folder, const Path& to) {
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                           "generation_config.json", kChatTemplateName}) {
    if (std::filesystem::exists(folder / name)) write_file(to / name, read_file(folder / name));
  }
}

std::string read_template(const std::string& path) {
  require(
      std::filesystem::is_regular_file(path),
      "data.chat_template: expected \"tokenizer\", \"chatml\", \"tasks\" or a .jinja file; there "
      "is no file {}",
      path);
  return read_file(path);
}

}  // namespace

std::vector<std::string> changed_keys(const std::string& before, const std::string& after) {
  const auto a = entries_of(before), b = entries_of(after);
  std::vector<std::string> changed;
  for (const auto& [key, value] : a) {
    const auto other = b.find(key);
    if (other == b.end() || other->second != value) changed.push_back(key);
  }
  for (const auto& [key, value] : b) {
    if (!a.contains(key)) changed.push_back(key);
  }
  return changed;
}

void check_same_run(const std::string& saved, const std::string& config, const Path& where) {
  std::vector<std::string> refused, warned;
  for (const std::string& key : changed_keys(saved, config)) {
    const bool other_run = key == "seed" || key.starts_with("model.");
    const bool harmless = key == "name" || key.starts_with("checkpoints.") ||
                          key.starts_with("log.") || key.starts_with("validation.") ||
                          key.starts_with("evaluation.");
    if (other_run) refused.push_back(key);
    if (!other_run && !harmless) warned.push_back(key);
  }
  if (!refused.empty()) {
    throw Error(Fault::usage,
                format("{} was trained with other values of: {}", where.string(), joined(refused)),
                "use the run's own config.toml, another --out, or --resume never to start afresh");
  }
  if (!warned.empty()) {
    log_warning("the config has changed since {}: {}; the run goes on with the new values",
                where.filename().string(), joined(warned));
  }
}

void check_same_model(const Json& saved, const Json& model_config, bool phases_set_rope_theta,
                      const Path& where) {
  std::vector<std::string> keys;
  differences(saved, model_config, "", keys);
  std::erase_if(keys, [&](const std::string& key) {
    return key.ends_with("_token_id") || (phases_set_rope_theta && key.ends_with(".rope_theta"));
  });
  if (keys.empty()) return;
  throw Error(Fault::usage,
              format("{} is of a model with other values of: {}", where.string(), joined(keys)),
              "give the --init-from that the run began with, or another --out");
}

Path tokenizer_folder(const DataSettings& settings, const Path& scratch) {
  if (settings.tokenizer != "bytes") {
    const Path folder = folder_of_tokenizer(settings.tokenizer);
    require_folder(folder, "\"bytes\" or a folder with a tokenizer.json (data.tokenizer)");
    if (settings.chat_template == "tokenizer") return folder;
  }
  return place_tokenizer(scratch, settings);
}

Path place_tokenizer(const Path& run_dir, const DataSettings& settings) {
  const Path model = run_dir / "model";
  make_writable_folder(model);
  const Path from = folder_of_tokenizer(settings.tokenizer);
  const bool own = std::filesystem::exists(from) && std::filesystem::equivalent(from, model);
  if (!own) std::filesystem::remove(model / kChatTemplateName);
  if (settings.tokenizer == "bytes") {
    write_byte_tokenizer(model);
  } else if (!own) {
    copy_tokenizer(from, model);
  }
  if (settings.chat_template == "chatml") {
    write_file(model / kChatTemplateName, kChatmlTemplate);
  } else if (settings.chat_template == "tasks") {
    write_file(model / kChatTemplateName, kTasksTemplate);
  } else if (settings.chat_template != "tokenizer") {
    const std::string text = read_template(settings.chat_template);
    ChatTemplate::parse(text, settings.chat_template);  // what is wrong is said of the user's file
    write_file(model / kChatTemplateName, text);
  }
  return model;
}

void write_run_files(const Path& run_dir, const std::string& config, const Json& model_config) {
  write_file(run_dir / "config.toml", config);
  write_file(run_dir / "model" / "config.json", model_config.dump(2) + "\n");
}

}  // namespace tephra
