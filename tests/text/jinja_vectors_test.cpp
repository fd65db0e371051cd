// SPDX-License-Identifier: Apache-2.0
// Templates with what jinja2 makes of them (tools/make_chat_vectors.py): the same text, or an error
// where it has one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <map>

#include "tephra/base/error.h"
#include "tephra/base/files.h"
#include "tephra/base/json.h"
#include "tephra/text/chat_template.h"

namespace tephra {
namespace {

std::time_t fixed_time() {
  std::tm parts{};
  parts.tm_year = 2024 - 1900;
  parts.tm_mon = 6;
  parts.tm_mday = 26;
  parts.tm_hour = 13;
  parts.tm_min = 5;
  parts.tm_sec = 9;
  parts.tm_isdst = -1;
  return std::mktime(&parts);
}

// The text, or nothing with the reason in `why`.
std::optional<std::string> rendered(const std::string& source, const Json& variables,
                                    std::string& why) {
  ChatOptions options;
  options.clock = fixed_time;
  try {
    return ChatTemplate::parse(source, "case").render_variables(variables, options);
  } catch (const Error& error) {
    EXPECT_NE(error.fault(), Fault::internal) << error.what();
    why = error.what();
    return std::nullopt;
  }
}

const Json& vectors() {
  static const Json json = [] {
    const char* other = std::getenv("TEPHRA_CHAT_VECTORS");  // more random cases, made by hand
    const Path path =
        other != nullptr ? Path(other) : Path(TEPHRA_GOLDEN_DIR) / "chat/vectors.json";
    return Json::parse(read_file(path), path.string());
  }();
  return json;
}

void expect_as_jinja2(const Json& row, const std::string& source, const Json& variables) {
  std::string why;
  const auto text = rendered(source, variables, why);
  const Json* expected = row.find("expected");
  if (expected != nullptr) {
    ASSERT_TRUE(text) << "jinja2 renders " << expected->dump() << ", we fail: " << why;
    EXPECT_EQ(*text, expected->string());
  } else {
    EXPECT_FALSE(text) << "jinja2 fails: " << row.find("error")->string()
                       << "; we render: " << text.value_or("");
  }
}

TEST(JinjaVectors, EveryCaseIsAsJinja2HasIt) {
  const Json& variables = *vectors().find("variables");
  for (const Json& row : vectors().find("cases")->array()) {
    const std::string& source = row.find("template")->string();
    SCOPED_TRACE(source);
    expect_as_jinja2(row, source, variables);
  }
}

TEST(JinjaVectors, EveryChatIsAsJinja2HasIt) {
  std::map<std::string, std::string> sources;
  for (const Json& row : vectors().find("chats")->array()) {
    const std::string& file = row.find("file")->string();
    if (sources.count(file) == 0) {
      sources[file] = read_file(Path(TEPHRA_GOLDEN_DIR) / "chat" / file);
    }
    SCOPED_TRACE(row.find("name")->string() + " " + row.find("variables")->dump());
    expect_as_jinja2(row, sources[file], *row.find("variables"));
  }
}

}  // namespace
}  // namespace tephra
