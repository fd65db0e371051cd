// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include "tephra/base/error.h"
#include "tephra/base/json.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/cli/bench_retrieve.h"
#include "tephra/cli/sample_text.h"
#include "tephra/cli/sqlite_peer.h"
#include "tephra/retrieve/index_builder.h"
#include "tephra/retrieve/retrieve.h"
#include "tephra/retrieve/tasks.h"
#include "tephra/retrieve/words.h"

namespace tephra {
namespace {

constexpr size_t kDeepest = kRecallAt.back();
constexpr int64_t kMaxJsonBytes = int64_t{1} << 32;

struct Question {
  std::string text;
  std::vector<uint32_t> gold;
};

// What is measured, and how walks go meanwhile.
struct QualityReport {
  WalkOptions walk;
  std::vector<RetrieveQualityRow> rows = {};
};

// Sums of recall, a row for each method.
class Scoreboard {
 public:
  explicit Scoreboard(std::string set) : set_(std::move(set)) {}

  void add(const std::string& method, const std::vector<uint32_t>& found,
           const std::vector<uint32_t>& gold) {
    RetrieveQualityRow& row = row_of(method);
    ++row.questions;
    for (size_t k = 0; k < kRecallAt.size(); ++k) {
      const auto end = found.begin() + static_cast<int64_t>(std::min(kRecallAt[k], found.size()));
      double hits = 0;
      for (const uint32_t g : gold) hits += std::find(found.begin(), end, g) != end ? 1 : 0;
      row.recall[k] += 100 * hits / static_cast<double>(gold.size());
    }
  }
  void add_share(const std::string& method, double share) {
    RetrieveQualityRow& row = row_of(method);
    ++row.questions;
    for (double& r : row.recall) r += 100 * share;
  }

  void finish(QualityReport& report) {
    for (RetrieveQualityRow& row : rows_) {
      for (double& r : row.recall) r /= static_cast<double>(row.questions);
      report.rows.push_back(row);
    }
  }

 private:
  RetrieveQualityRow& row_of(const std::string& method) {
    for (RetrieveQualityRow& row : rows_) {
      if (row.method == method) return row;
    }
    return rows_.emplace_back(RetrieveQualityRow{.set = set_, .method = method});
  }

  std::string set_;
  std::vector<RetrieveQualityRow> rows_;
};

struct Method {
  const char* name;
  RankMethod method;
};
constexpr std::array<Method, 3> kMethods = {
    {{"mixpr", RankMethod::mixpr}, {"tf-idf", RankMethod::cosine}, {"bm25", RankMethod::bm25}}};

std::vector<uint32_t> found_by(const Index& index, const std::string& question, RankMethod method,
                               const WalkOptions& walk = {}) {
  std::vector<uint32_t> found;
  RetrieveOptions options;
  options.method = method;
  options.walk = walk;
  for (const ScoredChunk& s : rank_chunks(index, question, options, kDeepest)) {
    found.push_back(s.chunk);
  }
  return found;
}

void ask(const Index& index, const Question& question, const WalkOptions& walk, Scoreboard& board) {
  for (const Method& m : kMethods) {
    board.add(m.name, found_by(index, question.text, m.method, walk), question.gold);
  }
}

Index index_of_lines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text.append(line) += '\n';
  IndexBuilder builder(ChunkOptions{.kind = ChunkKind::lines});
  builder.add("task", text);
  return builder.finish();
}

// Sentences with a word in them, each on one line.
std::vector<std::string> filler_of(const RetrieveQualityOptions& o) {
  std::string text;
  if (o.essays) {
    const std::string content = read_file(*o.essays, kMaxJsonBytes);
    if (content.starts_with("{")) {
      for (const std::string_view line : split(content, '\n')) {
        if (trim(line).empty()) continue;
        const Json record = Json::parse(line, o.essays->string());
        text += Fields(record, o.essays->string()).string("text") + "\n\n";
      }
    } else {
      text = content;
    }
  } else {
    text = sample_text(size_t{1} << 20, 3);
  }
  std::vector<std::string> sentences;
  cut_chunks(text, {.kind = ChunkKind::sentences}, "filler", [&](std::string_view sentence) {
    std::string line(sentence);
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
    Word word;
    if (WordReader(line).next(word)) sentences.push_back(line);
  });
  require_data(!sentences.empty(), "--essays: expected sentences, found none");
  return sentences;
}

// Gold titles of a question: HotpotQA's supporting_facts, or MuSiQue's paragraphs.
std::set<std::string> gold_titles(const Json& question, const std::string& where) {
  std::set<std::string> titles;
  const Fields fields(question, where);
  if (fields.has("supporting_facts")) {
    for (const Json& fact : fields.array("supporting_facts")) {
      require_data(fact.is_array() && !fact.array().empty() && fact.array()[0].is_string(),
                   "{}: expected supporting_facts of [title, sentence]", where);
      titles.insert(fact.array()[0].string());
    }
    return titles;
  }
  for (const Json& paragraph : fields.array("paragraphs")) {
    const Fields p(paragraph, where);
    if (p.boolean_or("is_supporting", false)) {
      titles.insert(p.string("title") + "\n" + p.string("paragraph_text"));
    }
  }
  return titles;
}

// Passages by title, or by title and text where titles repeat (a list of {title, text}).
std::map<std::string, uint32_t> add_corpus(IndexBuilder& builder, const Json& corpus,
                                           const std::string& where) {
  std::map<std::string, uint32_t> ids;
  const auto add = [&](const std::string& key, const std::string& title, const std::string& text) {
    ids[key] = static_cast<uint32_t>(builder.chunks());
    builder.add(title, title + "\n" + text);
  };
  if (corpus.is_object()) {
    for (const auto& [title, sentences] : corpus.object()) {
      std::string text;
      for (const Json& s : sentences.array()) text += s.string();
      add(title, title, text);
    }
    return ids;
  }
  for (const Json& passage : corpus.array()) {
    const Fields p(passage, where);
    add(p.string("title") + "\n" + p.string("text"), p.string("title"), p.string("text"));
  }
  return ids;
}

void bench_multihop(const Path& corpus_file, QualityReport& report) {
  const std::string stem = corpus_file.stem().string();
  const std::string name = stem.substr(0, stem.size() - std::string_view("_corpus").size());
  const Path question_file = corpus_file.parent_path() / (name + ".json");
  const Json corpus = Json::parse(read_file(corpus_file, kMaxJsonBytes), corpus_file.string());
  const Json questions =
      Json::parse(read_file(question_file, kMaxJsonBytes), question_file.string());
  IndexBuilder builder(ChunkOptions{.kind = ChunkKind::whole});
  const std::map<std::string, uint32_t> ids = add_corpus(builder, corpus, corpus_file.string());
  const Index index = builder.finish();
  const auto sqlite = SqlitePeer::open();
  std::vector<std::string_view> chunks;
  for (uint32_t c = 0; c < index.chunks(); ++c) chunks.push_back(index.text(c));
  if (sqlite) sqlite->add(chunks);

  Scoreboard board(name);
  Progress progress(name, static_cast<int64_t>(questions.array().size()), "questions");
  for (const Json& q : questions.array()) {
    stop_if_interrupted();
    Question question{Fields(q, question_file.string()).string("question"), {}};
    for (const std::string& title : gold_titles(q, question_file.string())) {
      const auto found = ids.find(title);
      if (found != ids.end()) question.gold.push_back(found->second);
    }
    if (question.gold.empty()) continue;
    ask(index, question, report.walk, board);
    if (sqlite) {
      board.add("sqlite fts5", sqlite->query(question.text, kDeepest), question.gold);
    }
    progress.add();
  }
  board.finish(report);
}

template <class Make>
void bench_tasks(const std::string& name, int64_t count, Make&& make, QualityReport& report) {
  Scoreboard board(name);
  Progress progress(name, count, "tasks");
  for (int64_t i = 0; i < count; ++i) {
    stop_if_interrupted();
    const RetrievalTask task = make(static_cast<uint64_t>(i + 1));
    ask(index_of_lines(task.lines), {task.question, task.gold}, report.walk, board);
    progress.add();
  }
  board.finish(report);
}

// The most frequent words of what each method gives a model to count in.
void bench_counting(int64_t count, const TaskOptions& options, QualityReport& report) {
  Scoreboard board("common words");
  for (int64_t i = 0; i < count; ++i) {
    TaskOptions o = options;
    o.seed = static_cast<uint64_t>(i + 1);
    const RetrievalTask task = common_words(o);
    const Index index = index_of_lines(task.lines);
    const auto share = [&](const std::vector<WordTimes>& counts) {
      double hits = 0;
      for (size_t w = 0; w < std::min(counts.size(), task.counted.size()); ++w) {
        hits += std::count(task.counted.begin(), task.counted.end(), counts[w].word) > 0 ? 1 : 0;
      }
      return hits / static_cast<double>(task.counted.size());
    };
    board.add_share("mixpr", share(retrieve(index, task.question, {}).counts));
    for (const Method& m : {kMethods[1], kMethods[2]}) {
      std::vector<std::string> lines;
      for (const uint32_t c : found_by(index, task.question, m.method)) {
        lines.emplace_back(index.text(c));
      }
      board.add_share(m.name, lines.empty() ? 0 : share(frequent_words(index_of_lines(lines), 10)));
    }
  }
  board.finish(report);
}

}  // namespace

std::vector<RetrieveQualityRow> bench_retrieve_quality(const RetrieveQualityOptions& o) {
  QualityReport report{o.walk};
  if (o.multihop) {
    std::vector<Path> corpora;
    require_folder(*o.multihop, "multi-hop questions");
    for (const auto& item : std::filesystem::directory_iterator(*o.multihop)) {
      if (item.path().filename().string().ends_with("_corpus.json")) corpora.push_back(item.path());
    }
    std::sort(corpora.begin(), corpora.end());
    require(!corpora.empty(), "{}: expected files named *_corpus.json, found none",
            o.multihop->string());
    for (const Path& corpus : corpora) bench_multihop(corpus, report);
  }
  const std::vector<std::string> filler = filler_of(o);
  const auto options = [&](uint64_t seed) {
    return TaskOptions{.filler = &filler, .lines = o.lines, .seed = seed};
  };
  const auto events = [](uint64_t seed, int least, int most) {
    return least + static_cast<int>(seed % static_cast<uint64_t>(most - least + 1));
  };
  bench_tasks(
      "two-fact stories", o.stories,
      [&](uint64_t s) { return two_fact_story(options(s), events(s, 6, 24)); }, report);
  bench_tasks(
      "three-fact stories", o.stories,
      [&](uint64_t s) { return three_fact_story(options(s), events(s, 6, 24)); }, report);
  const auto other = StoryWords::other;
  bench_tasks(
      "two-fact stories, other words", o.stories,
      [&](uint64_t s) { return two_fact_story(options(s), events(s, 6, 24), other); }, report);
  bench_tasks(
      "three-fact stories, other words", o.stories,
      [&](uint64_t s) { return three_fact_story(options(s), events(s, 6, 24), other); }, report);
  for (const int hops : {2, 3}) {
    bench_tasks(
        format("invented world, {} hops", hops), o.stories,
        [&](uint64_t s) { return invented_world(options(s), hops); }, report);
  }
  for (const int hops : {2, 4, 8}) {
    bench_tasks(
        format("hash hop, {} hops", hops), o.tasks,
        [&](uint64_t s) { return hash_hop(options(s), hops); }, report);
  }
  bench_tasks(
      "needle", o.tasks, [&](uint64_t s) { return needle(options(s), {}); }, report);
  bench_tasks(
      "needles, 4 keys, 4 values, 100 others", o.tasks,
      [&](uint64_t s) {
        return needle(options(s), {4, 4, 25});
      },
      report);
  bench_tasks(
      "variable tracking, 4 hops, 4 chains", o.tasks,
      [&](uint64_t s) { return variable_tracking(options(s), 4, 4); }, report);
  bench_counting(o.tasks, options(1), report);
  return std::move(report.rows);
}

}  // namespace tephra
