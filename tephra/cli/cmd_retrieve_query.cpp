// SPDX-License-Identifier: Apache-2.0
// tephra retrieve query: the passages of an index that answer a question.
#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/cli/command.h"
#include "tephra/cli/output.h"
#include "tephra/cli/text_input.h"
#include "tephra/retrieve/index_file.h"
#include "tephra/retrieve/retrieve.h"
#include "tephra/text/tokenizer.h"

namespace tephra {
namespace {

struct Options {
  std::string index;
  std::optional<std::string> question;
  int64_t budget = 2000;
  int64_t top = 100;
  int64_t context = 0;
  std::string method = "mixpr";
  std::string route = "auto";
  double restart = WalkOptions().restart;
  double sharpness = WalkOptions().sharpness;
  std::optional<std::string> tokenizer;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("--index FILE", o.index, "made by tephra retrieve index").required();
  flags.add("QUESTION", o.question, "the question; without it, stdin");
  flags.add("--budget N", o.budget, "tokens of the passages, at most").range(1, 1e9);
  flags.add("--top N", o.top, "passages, at most").range(1, 1e6);
  flags.add("--context N", o.context, "neighbours before and after each passage").range(0, 100);
  flags.add("--tokenizer DIR", o.tokenizer,
            "counts the budget's tokens; without it, four bytes are taken for one");
  flags.add("--method", o.method, "mixpr, or what it is compared with")
      .choices({"mixpr", "tfidf", "bm25"});
  flags
      .add("--route", o.route,
           "local: about a few places; global: about all of it; counting: about how often words "
           "appear; auto tells by the question's words")
      .choices({"auto", "local", "global", "counting"});
  flags.add("--restart", o.restart, "probability that the walk goes back to the question")
      .range(0.01, 0.99);
  flags.add("--sharpness", o.sharpness, "power of the similarities; 1 is plain").range(1, 16);
  flags.add("--json", o.json, "one JSON document");
  flags.example("tephra retrieve query --index docs.index \"Where is the football?\"");
  flags.example("tephra retrieve query --index docs.index --budget 8000 --json \"Summarise it\"");
}

QueryRoute parse_route(const std::string& name) {
  for (const QueryRoute route : {QueryRoute::local, QueryRoute::global, QueryRoute::counting}) {
    if (name == route_name(route)) return route;
  }
  return QueryRoute::automatic;
}

RetrieveOptions options_of(const Options& o) {
  RetrieveOptions r;
  r.budget_tokens = o.budget;
  r.max_chunks = o.top;
  r.context_chunks = o.context;
  r.route = parse_route(o.route);
  r.method = o.method == "bm25"    ? RankMethod::bm25
             : o.method == "tfidf" ? RankMethod::cosine
                                   : RankMethod::mixpr;
  r.walk.restart = o.restart;
  r.walk.sharpness = r.walk.question_sharpness = o.sharpness;
  if (o.tokenizer) {
    const auto tokenizer = std::make_shared<Tokenizer>(Tokenizer::load(*o.tokenizer));
    r.count_tokens = [tokenizer](std::string_view text) {
      return static_cast<int64_t>(tokenizer->encode(text).size());
    };
  }
  return r;
}

Json to_json(const Index& index, const Retrieved& found, double seconds) {
  Json json;
  json["route"] = route_name(found.route);
  json["local_share"] = found.local_share;
  json["tokens"] = found.tokens;
  json["left_out"] = found.left_out;
  json["seconds"] = seconds;
  json["passages"] = Json::Array{};
  for (const Passage& p : found.passages) {
    Json passage;
    passage["document"] = std::string(index.document_name(index.document_of(p.chunk)));
    passage["chunk"] = int64_t{p.chunk};
    passage["score"] = p.score;
    passage["tokens"] = p.tokens;
    passage["text"] = std::string(index.text(p.chunk));
    json["passages"].push_back(passage);
  }
  if (!found.counts.empty()) json["counts"] = Json::Array{};
  for (const WordTimes& w : found.counts) {
    Json count;
    count["word"] = w.word;
    count["times"] = w.times;
    count["chunks"] = w.chunks;
    json["counts"].push_back(count);
  }
  return json;
}

int run(const Options& o) {
  const RetrieveOptions options = options_of(o);
  const std::string question = input_text(o.question, {});
  const Index index = open_index(o.index);
  Retrieved found;
  const double seconds = seconds_of([&] { found = retrieve(index, question, options); });
  if (found.passages.empty() && found.left_out > 0) {
    log_warning("no passage fits --budget {}: give a larger one, or index with --chunk sentences",
                o.budget);
  }
  if (found.route == QueryRoute::local && found.local_share == 0) {
    log_warning("none of the question's words is in {}: these are its most central passages",
                o.index);
  }
  if (o.json) {
    print_json(to_json(index, found, seconds));
    return 0;
  }
  for (const WordTimes& w : found.counts) {
    print("{}: {} times, in {} chunks", w.word, w.times, w.chunks);
  }
  if (!found.counts.empty()) print("");
  print_text(context_text(index, found));
  return 0;
}

}  // namespace

Command retrieve_query_command() {
  return command<Options>("retrieve query", "the passages of an index that answer a question",
                          describe, run);
}

}  // namespace tephra
