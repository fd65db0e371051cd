// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/bench_memory.h"

#include <algorithm>
#include <map>
#include <set>

#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/json.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/retrieve/memory/civil_time.h"
#include "tephra/retrieve/memory/memory.h"
#include "tephra/retrieve/memory/question.h"
#include "tephra/retrieve/memory/time_tokens.h"

namespace tephra {
namespace {

// "10:55:05 AM on Sunday 22 October, 2023"
int64_t parse_said_at(const std::string& text, const std::string& where) {
  const std::vector<TimeToken> t = time_tokens(text);
  const bool fits = t.size() == 12 && t[9].month != 0;
  require_data(fits, "{}: date_time: expected '10:55:05 AM on Sunday 22 October, 2023', got '{}'",
               where, clipped(text, 60));
  const auto n = [&](size_t i) { return static_cast<int32_t>(t[i].value); };
  const CivilDate date{n(11), t[9].month, n(8)};
  require_data(is_date(date), "{}: date_time: there is no such date: '{}'", where, text);
  const int32_t hour = n(0) % 12 + (t[5].text == "pm" ? 12 : 0);
  return int64_t{day_number(date)} * kDaySeconds + hour * 3600 + n(2) * 60 + n(4);
}

Memory read_conversation(const Path& path) {
  const Json json = Json::parse(read_file(path), path.string());
  std::vector<Turn> turns;
  for (int32_t session = 1;; ++session) {
    const Json* list = json.find(format("session_{}", session));
    if (list == nullptr || !list->is_array()) break;
    for (const Json& item : list->array()) {
      const Fields fields(item, path.string());
      std::string text = fields.string("text");
      if (const std::string photo = fields.string_or("blip_caption", ""); !photo.empty()) {
        text += " (a photo of " + photo + ")";
      }
      turns.push_back({parse_said_at(fields.string("date_time"), path.string()), session,
                       fields.string("speaker"), text.empty() ? "-" : text});
    }
  }
  Memory memory;
  memory.add(std::move(turns));
  return memory;
}

struct Asked {
  MemoryQuery query;
  std::string shown;
};

Asked asked(const Json& json, int64_t k) {
  Asked out;
  out.query.k = k;
  if (json.is_string()) {
    out.query.question = out.shown = json.string();
    return out;
  }
  for (const Json& turn : json.array()) {
    const Fields fields(turn, "question");
    out.query.before.push_back({fields.string("speaker"), fields.string("text")});
    out.shown += (out.shown.empty() ? "" : " | ") + fields.string("text");
  }
  require_data(!out.query.before.empty(), "question: expected turns, got none");
  out.query.question = out.query.before.back().text;
  out.query.before.pop_back();
  return out;
}

struct Score {
  double recall = 0;
  double f2 = 0;
};

Score score(const std::vector<ScoredRow>& rows, const std::set<int64_t>& gold) {
  double hits = 0;
  for (const ScoredRow& r : rows) hits += gold.contains(r.row) ? 1 : 0;
  if (hits == 0) return {};
  const double precision = hits / static_cast<double>(rows.size());
  const double recall = hits / static_cast<double>(gold.size());
  return {recall, 5 * precision * recall / (4 * precision + recall)};
}

std::vector<Path> json_files(const Path& folder) {
  std::vector<Path> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

class Scorer {
 public:
  Scorer(const Path& data, int64_t k, bool plain) : k_(k), plain_(plain) {
    for (const Path& path : json_files(data / "ConversationData")) {
      memories_.emplace("file_" + path.stem().string(), read_conversation(path));
    }
    require_data(!memories_.empty(), "{}: holds no conversations",
                 (data / "ConversationData").string());
  }

  void file(const Path& path, const std::string& set) {
    std::string type = path.stem().string();
    if (type.starts_with("test_")) type = type.substr(5);
    MemoryScore total{.set = set, .type = type};
    const Json json = Json::parse(read_file(path), path.string());
    for (const auto& [name, items] : json.object()) {
      const auto memory = memories_.find(name);
      if (memory == memories_.end() || !items.is_array()) continue;
      for (const Json& item : items.array()) take(memory->second, name, item, total);
    }
    if (total.questions == 0) return;
    total.recall *= 100 / static_cast<double>(total.questions);
    total.f2 *= 100 / static_cast<double>(total.questions);
    quality.scores.push_back(total);
  }

  MemoryQuality quality;

 private:
  void take(Memory& memory, const std::string& name, const Json& item, MemoryScore& total) {
    stop_if_interrupted();
    const Fields fields(item, name);
    std::set<int64_t> gold;
    for (const Json& row : fields.array("relevant_docs")) gold.insert(row.integer());
    ++total.items;
    for (const Json& question : fields.array("questions")) {
      const Asked a = asked(question, k_);
      const MemoryAnswer answer =
          plain_ ? memory.select({}, a.query.question, k_) : memory.query(a.query);
      const Score s = score(answer.rows, gold);
      ++total.questions;
      total.recall += s.recall;
      total.f2 += s.f2;
      if (s.recall < 1) {
        quality.misses.push_back(
            {total.set, total.type, name, a.shown, 100 * s.recall, 100 * s.f2, answer.explanation});
      }
    }
  }

  int64_t k_;
  bool plain_;
  std::map<std::string, Memory> memories_;
};

// Turns of a few words of a made-up vocabulary, some of them common and most rare.
class MadeTurns {
 public:
  Turn next() {
    time_ += random(3) == 0 ? 25 : 8;
    if (++in_session_ == 40) {
      in_session_ = 0;
      ++session_;
      time_ += 3600 * (6 + static_cast<int64_t>(random(40)));
    }
    std::string text;
    const uint64_t words = 8 + random(16);
    for (uint64_t i = 0; i < words; ++i) {
      const uint64_t most = uint64_t{20} << random(12);
      text += format("{}w{}", i == 0 ? "" : " ", random(most));
    }
    return {time_, session_, in_session_ % 2 == 0 ? "Ann" : "Ben", std::move(text)};
  }

 private:
  uint64_t random(uint64_t below) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return (state_ >> 33) % below;
  }

  uint64_t state_ = 1;
  int64_t time_ = 0;
  int32_t session_ = 1;
  int in_session_ = -1;
};

MemorySpeed::Row time_question(Memory& memory, const std::string& question, int64_t repeats) {
  MemorySpeed::Row row{.question = question};
  std::vector<double> times;
  for (int64_t i = 0; i < repeats; ++i) {
    stop_if_interrupted();
    MemoryAnswer answer;
    times.push_back(1e3 * seconds_of([&] { answer = memory.query({.question = question}); }));
    row.kept = answer.kept;
    row.rows = static_cast<int64_t>(answer.rows.size());
  }
  std::sort(times.begin(), times.end());
  row.median_ms = times[times.size() / 2];
  row.worst_ms = times.back();
  return row;
}

}  // namespace

MemoryQuality score_memory(const Path& data, int64_t k, bool plain) {
  require_folder(data / "ConversationData", "a folder of conversations");
  require_folder(data / "TestData", "folders of questions");
  Scorer scorer(data, k, plain);
  for (const char* set : {"time_qs", "ambiguous_time_qs", "content_time_qs"}) {
    const Path folder = data / "TestData" / set;
    if (!std::filesystem::is_directory(folder)) continue;
    for (const Path& path : json_files(folder)) scorer.file(path, set);
  }
  require_data(!scorer.quality.scores.empty(), "{}: holds no questions",
               (data / "TestData").string());
  return std::move(scorer.quality);
}

MemorySpeed time_memory(const Path& file, int64_t turns, int64_t repeats) {
  MemorySpeed speed{.turns = turns};
  {
    Memory memory = Memory::open_to_add(file);
    Progress progress("turns", turns, "turns");
    MadeTurns made;
    std::vector<Turn> batch;
    speed.add_seconds = seconds_of([&] {
      for (int64_t i = 0; i < turns; ++i) {
        batch.push_back(made.next());
        if (static_cast<int64_t>(batch.size()) < 10'000 && i + 1 < turns) continue;
        stop_if_interrupted();
        progress.add(static_cast<int64_t>(batch.size()));
        memory.add(std::exchange(batch, {}));
      }
    });
    speed.file_bytes = memory.file_state().good_bytes;
  }
  Memory memory;
  speed.open_seconds = seconds_of([&] { memory = Memory::open_to_read(file); });
  speed.index_seconds = seconds_of([&] { memory.build_index(); });
  for (const char* question :
       {"What did we talk about on the day before yesterday?", "What did we discuss last month?",
        "Summarize our last three sessions.", "What did Ann say about w7 and w4001 last week?",
        "What did Ben say about w7 and w4001 and w30000?", "Tell me about w3, w5 and w11."}) {
    speed.rows.push_back(time_question(memory, question, repeats));
  }
  return speed;
}

}  // namespace tephra
