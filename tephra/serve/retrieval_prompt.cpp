// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/retrieval_prompt.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/retrieve/memory/civil_time.h"
#include "tephra/retrieve/memory/memory_tool.h"
#include "tephra/serve/api_error.h"
#include "tephra/serve/api_fields.h"

namespace tephra {
namespace {

constexpr int64_t kPassageBudget = 2000, kMemoryBudget = 1000;  // tokens, where none is given
constexpr int64_t kMostTokens = 10'000'000;
constexpr int kTries = 4;       // of making it smaller, then it goes without
constexpr int64_t kSpare = 16;  // tokens below the limit that a second try aims at
constexpr const char* kUser = "user";
constexpr const char* kAssistant = "assistant";

struct WantedPassages {
  std::string name;
  std::shared_ptr<const Index> index;
  std::string question;
  int64_t budget = kPassageBudget, context = 0;
};

struct WantedMemory {
  std::string name;
  int64_t budget = kMemoryBudget, k = 10;
};

std::optional<WantedPassages> read_passages(const Json& given, const IndexShelf& shelf,
                                            const std::string& question) {
  if (given.is_null()) return std::nullopt;
  const ApiFields fields(given, "retrieve");
  fields.allow({"index", "budget", "question", "context"});
  WantedPassages w;
  w.name = fields.string("index");
  w.index = shelf.find(w.name, "retrieve.index").index;
  w.question = fields.string_or("question", question);
  w.budget = fields.integer("budget", w.budget, 1, kMostTokens);
  w.context = fields.integer("context", 0, 0, 100);
  return w;
}

// "memory": "NAME", or {"name": "NAME", ...}.
std::optional<WantedMemory> read_memory(const Json& given) {
  if (given.is_null()) return std::nullopt;
  if (given.is_string()) return WantedMemory{given.string()};
  const ApiFields fields(given, "memory");
  fields.allow({"name", "budget", "k"});
  WantedMemory w{fields.string("name")};
  w.budget = fields.integer("budget", w.budget, 1, kMostTokens);
  w.k = fields.integer("k", w.k, 1, 200);
  return w;
}

size_t last_question(const Json::Array& messages) {
  for (size_t i = messages.size(); i-- > 0;) {
    if (messages[i].find("role")->string() == kUser) return i;
  }
  throw ApiError(400, "retrieve and memory need a message of the user", "messages");
}

const std::string& content_of(const Json& message) { return message.find("content")->string(); }

std::string turn_line(const TurnTable& table, int64_t row) {
  return format("[{}] {}: {}\n", time_text(table.time(row)), table.speaker_name(row),
                table.text(row));
}

// What a memory has to say about the question; computed once, cut to a budget as often as needed.
struct Recalled {
  MemoryAnswer answer;
  std::vector<std::pair<int64_t, std::string>> lines;  // row and text, the most wanted first
};

// Asks before the question is stored, so that it does not find itself.
Recalled recall(Memory& memory, const WantedMemory& wanted, const Json::Array& messages,
                size_t question, int64_t now) {
  Recalled r;
  const TurnTable& table = memory.table();
  if (table.rows() == 0) return r;
  const int64_t last = table.time(table.rows() - 1);
  MemoryQuery query{.question = content_of(messages[question])};
  if (trim(query.question).empty()) return r;
  query.now = std::max(now, last);
  query.session = now - last > kSessionGap ? 0 : table.sessions();
  query.asker = kUser;
  query.k = wanted.k;
  for (size_t i = 0; i < question; ++i) {
    query.before.push_back({messages[i].find("role")->string(), content_of(messages[i])});
  }
  r.answer = memory.query(query);
  if (r.answer.chain.empty() && !r.answer.ranked) return r;  // it asks for nothing in particular
  for (const ScoredRow& row : r.answer.rows) {
    const bool in_view = std::any_of(messages.begin(), messages.end(), [&](const Json& m) {
      return content_of(m) == table.text(row.row);
    });
    if (!in_view) r.lines.emplace_back(row.row, turn_line(table, row.row));
  }
  return r;
}

// The lines that fit, in the order they were said.
std::string lines_within(const Recalled& r, int64_t budget, const PromptRoom& room, int64_t& tokens,
                         int64_t& used) {
  std::vector<std::pair<int64_t, const std::string*>> taken;
  tokens = 0;
  for (const auto& [row, line] : r.lines) {
    const int64_t more = room.text_tokens(line);
    if (tokens + more > budget) break;
    tokens += more;
    taken.emplace_back(row, &line);
  }
  used = static_cast<int64_t>(taken.size());
  std::sort(taken.begin(), taken.end());
  std::string text;
  for (const auto& [row, line] : taken) text += *line;
  return text;
}

// Passages and turns before the question, by their budgets.
class Composer {
 public:
  Composer(const Json& messages, size_t question, const PromptRoom& room)
      : messages_(messages), question_(question), room_(room) {}

  std::optional<WantedPassages> passages;
  std::optional<WantedMemory> memory;
  Recalled recalled;

  SourcedChat fit() {
    SourcedChat out{.messages = messages_};
    int64_t left = room_.most - room_.prompt_tokens(messages_);
    for (int i = 0; i < kTries && left > kSpare; ++i) {
      out = compose(left);
      const int64_t over = room_.prompt_tokens(out.messages) - room_.most;
      if (over <= 0) return out;
      left -= over + kSpare;
    }
    out = compose(0);  // nothing fits
    out.messages = messages_;
    return out;
  }

 private:
  SourcedChat compose(int64_t left) {
    SourcedChat out{.messages = messages_};
    std::string before;
    if (memory) before += turns(left, out.report);
    if (passages) before += found(left, out.report);
    if (before.empty()) return out;
    Json& message = out.messages.array()[question_];
    message["content"] = before + content_of(messages_.array()[question_]);
    return out;
  }

  std::string turns(int64_t& left, Json& report) {
    const int64_t budget = std::min(memory->budget, left);
    int64_t tokens = 0, used = 0;
    const std::string text = lines_within(recalled, budget, room_, tokens, used);
    left -= tokens;
    Json explanation = Json::Array{};
    for (const std::string& line : recalled.answer.explanation) explanation.push_back(line);
    report["memory"] = Json::Object{{"name", memory->name},
                                    {"found", static_cast<int64_t>(recalled.lines.size())},
                                    {"used", used},
                                    {"tokens", tokens},
                                    {"budget", budget},
                                    {"chain", to_json(recalled.answer.chain)},
                                    {"explanation", std::move(explanation)}};
    return text.empty() ? "" : "Earlier turns of this conversation:\n" + text + "\n";
  }

  std::string found(int64_t left, Json& report) {
    const int64_t budget = std::min(passages->budget, left);
    Retrieved got;
    if (budget > 0) {
      RetrieveOptions options;
      options.budget_tokens = budget;
      options.context_chunks = passages->context;
      options.count_tokens = room_.text_tokens;
      got = retrieve(*passages->index, passages->question, options);
    }
    Json part = to_json(*passages->index, got);
    part["index"] = passages->name;
    part["question"] = passages->question;
    part["budget"] = budget;
    report["retrieval"] = std::move(part);
    std::string text = context_text(*passages->index, got);
    for (const WordTimes& w : got.counts) text += format("{}: {} times\n", w.word, w.times);
    return text.empty() ? "" : "Passages that may help:\n\n" + text + "\n";
  }

  const Json& messages_;
  size_t question_;
  const PromptRoom& room_;
};

void store(Sources& sources, const std::string& name, const std::string& speaker,
           const std::string& text) {
  sources.memories.with(name, "memory", MemoryShelf::IfAbsent::make, [&](Memory& memory) {
    remember_turn(sources.memories, memory, speaker, text);
  });
}

}  // namespace

SourcedChat with_sources(const ChatRequest& request, Sources& sources, const PromptRoom& room) {
  if (request.retrieve.is_null() && request.memory.is_null()) return {.messages = request.messages};
  const Json::Array& messages = request.messages.array();
  const size_t question = last_question(messages);
  Composer composer(request.messages, question, room);
  composer.passages =
      read_passages(request.retrieve, sources.indexes, content_of(messages[question]));
  composer.memory = read_memory(request.memory);
  if (composer.memory) {
    const WantedMemory& wanted = *composer.memory;
    const std::string& text = content_of(messages[question]);
    sources.memories.with(wanted.name, "memory", MemoryShelf::IfAbsent::make, [&](Memory& memory) {
      composer.recalled = recall(memory, wanted, messages, question, sources.memories.now());
      const TurnTable& table = memory.table();
      // A request that is sent again after a failure is not said twice.
      const bool again = table.rows() > 0 && table.text(table.rows() - 1) == text &&
                         table.speaker_name(table.rows() - 1) == kUser;
      if (!again) remember_turn(sources.memories, memory, kUser, text);
    });
  }
  SourcedChat out = composer.fit();
  if (composer.memory) {
    out.remember = [&sources, name = composer.memory->name](const std::string& reply) {
      store(sources, name, kAssistant, reply);
    };
  }
  return out;
}

}  // namespace tephra
