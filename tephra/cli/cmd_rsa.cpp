// SPDX-License-Identifier: Apache-2.0
// tephra rsa: problems solved by Markovian RSA, and how often it is right.
#include <algorithm>
#include <numeric>
#include <utility>

#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/files.h"
#include "tephra/base/hash.h"
#include "tephra/base/log.h"
#include "tephra/base/new_folder.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/base/terminal.h"
#include "tephra/base/text.h"
#include "tephra/cli/chat_screen.h"
#include "tephra/cli/command.h"
#include "tephra/cli/model_device.h"
#include "tephra/cli/output.h"
#include "tephra/cli/rsa_progress.h"
#include "tephra/cli/sampling_flags.h"
#include "tephra/cli/task_flags.h"
#include "tephra/device/ceilings.h"
#include "tephra/eval/answer_journal.h"
#include "tephra/eval/rsa_tree.h"
#include "tephra/text/chat_session.h"

namespace tephra {
namespace {

struct Options {
  std::string model;
  std::optional<std::string> prompt, prompt_file, questions, out;
  TaskFlags tasks;
  std::string answer;
  int64_t n = 16, c = 0, rounds = 2, beta = 0, tau = 0;
  Sampling sampling{.temperature = 1};
  int64_t seed = 0;
  std::vector<std::string> stop;
  std::string match = "numeric";
  double tolerance = 1e-6;
  std::optional<std::string> prompt_template;
  bool chat = false, no_think = false;
  int64_t sequences = 64;
  std::string kv_memory = "4GiB";
  ModelFlags runs;
  bool overwrite = false, json = false;

  // What was given of the flags that change nothing for some problems, matches or rounds.
  std::vector<std::string> of_match, of_numbers, of_prompts, of_tails;
};

constexpr const char *kTreeFile = "tree.json", *kPageFile = "tree.html",
                     *kUnfinishedFile = "unfinished.jsonl";

void describe_inputs(Flags& flags, Options& o) {
  flags.add("--model DIR", o.model, "model folder with a tokenizer.json").required();
  flags.add("--prompt TEXT", o.prompt, "the problem");
  flags.add("--prompt-file FILE", o.prompt_file, "the problem, from a file");
  flags.add("--answer TEXT", o.answer, "of --prompt: the right answer, to be compared with")
      .of("--prompt", "--prompt-file");
  flags.add("--questions FILE", o.questions,
            "many problems: JSONL, a line each: {\"question\" or \"prompt\", \"answer\"}");
  o.tasks.describe(flags);
  flags.note_given(&o.of_match);
  flags
      .add("--match", o.match,
           "how answers are found and compared: numeric or exact, as `tephra eval` does")
      .choices({"numeric", "exact"});
  flags.note_given(&o.of_numbers);
  flags.add("--tolerance", o.tolerance, "relative, of numbers that are not integers")
      .range(0, 1e9)
      .of("--answer", "--questions");
  flags.note_given(nullptr);
  flags.add("--template TEXT", o.prompt_template,
            "how a problem becomes a prompt: a text with {question} in it; without it a newline "
            "follows the problem");
  flags.add("--chat", o.chat,
            "put problems as a user's message through the model's chat template; reasoning does "
            "not vote");
  flags.add("--no-think", o.no_think, "of --chat: ask the template for answers without reasoning")
      .of("--chat");
}

void describe(Flags& flags, Options& o) {
  describe_inputs(flags, o);
  flags.add("--n", o.n, "N: traces of each round").range(1, 4096);
  flags.note_given(&o.of_prompts);
  flags
      .add("--c", o.c,
           "C: tails in a prompt of the later rounds; 1 goes on after its own tail; 0: 4, or N "
           "where that is less")
      .range(0, 64);
  flags.note_given(nullptr);
  flags.add("--rounds", o.rounds, "T: rounds after the first; 0 is parallel sampling")
      .range(0, 1000);
  flags.add("--beta", o.beta, "tokens of a trace, at most; 0: 16384, or what the context allows")
      .range(0, 1e9);
  flags.note_given(&o.of_tails);
  flags.add("--tau", o.tau, "tokens of a tail; 0: 4096, or half of beta where that is less")
      .range(0, 1e9);
  flags.note_given(nullptr);
  describe_sampling(flags, o.sampling, "of the draws of tokens, above 0");
  flags.add("--seed", o.seed, "the same seed gives the same tree").range(0, 9e18);
  flags.add("--stop STR", o.stop, "end a trace before this text. May be repeated");
  flags.add("--out DIR", o.out,
            "write tree.json and tree.html: every trace and what came of it; each round is kept "
            "as it is finished, and the same command goes on after an interruption");
  flags
      .add("--overwrite", o.overwrite,
           "of --out: replace what DIR holds of a run that has ended or had other settings")
      .of("--out");
  flags.add("--sequences", o.sequences, "traces side by side; changes the speed, never a result")
      .range(1, 4096);
  flags.add("--kv-memory SIZE", o.kv_memory, "memory for keys and values of all traces");
  o.runs.describe(flags);
  flags.add("--json", o.json, "one JSON document on stdout");
  flags.example("tephra rsa --model DIR --chat --prompt 'How many primes are below 1000?'");
  flags.example("tephra rsa --model DIR --chat --prompt-file problem.txt --beta 16384 --out tree");
  flags.example("tephra rsa --model DIR --questions q.jsonl --n 16 --c 4 --rounds 2 --out run");
  flags.example("tephra rsa --model DIR --environments addition:3 --samples 50 --beta 96 --json");
  flags.example("tephra rsa --model DIR --questions q.jsonl --n 48 --rounds 0   # voting alone");
}

void check_options(const Options& o) {
  const int inputs = int(o.prompt.has_value()) + int(o.prompt_file.has_value()) +
                     int(o.questions.has_value()) + int(o.tasks.environments.has_value());
  require(inputs == 1,
          "--prompt, --prompt-file, --questions, --environments: expected one of them, got {}",
          inputs == 0 ? "none" : "several");
  if (o.tasks.environments)
    refuse_given(o.of_match, "for other problems; tasks have their own checkers");
  if (o.match != "numeric") refuse_given(o.of_numbers, "for --match numeric");
  if (o.rounds == 0) refuse_given(o.of_prompts, "for later rounds; it needs --rounds above 0");
  if (o.rounds == 0 && !o.out) {
    refuse_given(o.of_tails,
                 "for later rounds and for the tree; it needs --rounds above 0 or --out");
  }
  check_sampling_flags(o.sampling);
}

// Reasoning and special tokens are no part of an answer.
std::string content_of(std::string_view text, bool thinking) {
  return ChatParser::parse(text, {.starts_thinking = thinking}).content;
}

RsaForm make_form(const Options& o, const Tokenizer& tokenizer) {
  RsaForm form{.tokenizer = &tokenizer, .prompt = {}, .said = {}};
  form.match = o.match == "exact" ? Match::exact : Match::numeric;
  form.tolerance = o.tolerance;
  if (o.prompt_template) form.prompt.render = prompt_template(*o.prompt_template);
  if (!o.chat) return form;
  const auto chat = std::make_shared<const ChatTemplate>(ChatTemplate::load(o.model));
  ChatOptions options;
  if (o.no_think) options.enable_thinking = false;
  const auto message = form.prompt.render;
  form.prompt.render = [chat, options, message](const std::string& question) {
    Json turn = Json::Object{{"role", "user"}, {"content", message ? message(question) : question}};
    return chat->render(Json::Array{turn}, {}, options);
  };
  form.prompt.special = AddSpecial::none;
  const bool thinking = ChatSession::opens_thinking(form.prompt.render("?"));
  form.said = [thinking](std::string_view text) { return content_of(text, thinking); };
  return form;
}

Json form_json(const Options& o) {
  Json json = Json::Object{{"chat", o.chat}, {"no_think", o.no_think}, {"match", o.match}};
  if (o.prompt_template) json["template"] = *o.prompt_template;
  return json;
}

std::vector<RsaQuestion> read_problems(const Options& o, const RsaForm& form) {
  if (o.questions) {
    const std::vector<Question> questions = read_questions(*o.questions, form.match);
    return rsa_questions(questions, form);
  }
  if (o.tasks.environments) {
    EnvironmentEvalOptions options;
    options.levels = parse_environments(*o.tasks.environments);
    options.tasks = o.tasks.samples;
    options.seed = static_cast<uint64_t>(o.seed);
    options.split = o.tasks.which();
    return rsa_tasks(options, form);
  }
  const std::string text = o.prompt ? *o.prompt : std::string(trim(read_file(*o.prompt_file)));
  require(!trim(text).empty(), "the problem is empty");
  return {rsa_question(text, o.answer, form)};
}

RsaOptions rsa_options(const Options& o, const Tokenizer& tokenizer) {
  RsaOptions r;
  r.traces = o.n;
  r.candidates = o.c > 0 ? o.c : std::min(r.candidates, o.n);
  r.rounds = o.rounds;
  r.trace_tokens = o.beta;
  r.tail_tokens = o.tau;
  r.sampling = o.sampling;
  r.sampling.seed = static_cast<uint64_t>(o.seed);
  r.stop = o.stop;
  r.end_tokens = tokenizer.eos();
  r.shown_specials = {"<think>", "</think>"};
  return r;
}

RsaOptions fitted_to(const RsaOptions& options, const std::vector<RsaQuestion>& questions,
                     const Engine& engine) {
  int64_t longest = 0;
  for (const RsaQuestion& q : questions) {
    longest = std::max(longest, prompt_tokens_without_tails(q.problem, options));
  }
  const int64_t room = engine.room_for(0);
  if (const auto error = no_room_for_a_trace(options, room, longest)) throw *error;
  RsaOptions r = fitted(options, room, longest);
  check_rsa(r);
  return r;
}

std::string model_name(const Options& o) {
  return std::filesystem::weakly_canonical(o.model).filename().string();
}

// What must be the same when a run goes on: all that a tree depends on.
Json settings_of(const Options& o, const RsaOptions& options,
                 const std::vector<RsaQuestion>& questions, Device device) {
  std::string all;
  for (const RsaQuestion& q : questions) {
    all += Json(Json::Array{q.id, q.text, q.answer}).dump();
    all += hash_text(xxh3(std::as_bytes(std::span(q.problem.prompt)))) + "\n";
  }
  Json json = rsa_options_json(options, form_json(o));
  json["tephra"] = TEPHRA_VERSION;
  json["line"] = "round";  // what the journal has of a problem; once it was all of it
  json["model"] = mark_of_model(o.model);
  json["questions"] = format("{} with hash {}", questions.size(), hash_text(xxh3(all)));
  json["dtype"] = to_text(dtype_for(o.runs.dtype, device));
  const bool gpu = device.kind == Device::Kind::gpu;
  json["device"] = gpu ? "gpu" : "cpu";
  json["instructions"] = gpu ? "" : simd_target();
  return json;
}

// What was asked, and what has come of it so far.
struct Work {
  const std::vector<RsaQuestion>& questions;
  std::vector<int64_t> rounds;                      // of each question: how many are whole
  std::vector<RsaTree> begun;                       // those of a run before, to go on with
  std::vector<std::optional<RsaOutcome>> outcomes;  // by question
  double seconds = 0;                               // of this run and of those that it goes on with
  std::optional<Error> error;                       // what ended it early

  explicit Work(const std::vector<RsaQuestion>& asked)
      : questions(asked), rounds(asked.size()), begun(asked.size()), outcomes(asked.size()) {}

  int64_t finished() const {
    return std::count_if(outcomes.begin(), outcomes.end(), [](const auto& o) { return !!o; });
  }
  int64_t all_rounds() const { return std::accumulate(rounds.begin(), rounds.end(), int64_t{0}); }
  // "3 of 12 problems and 1 round of others were finished", or of its rounds, where it is one.
  std::string progress(const RsaOptions& options) const {
    if (questions.size() == 1) {
      return format("{} of {} rounds were finished", rounds[0], options.rounds + 1);
    }
    const int64_t others = all_rounds() - finished() * (options.rounds + 1);
    std::string text = format("{} of {} problems", finished(), questions.size());
    if (others == 1) text += " and 1 round of others";
    if (others > 1) text += format(" and {} rounds of others", others);
    return text + " were finished";
  }
};

// Where somebody removed a line that was damaged, the later rounds of its problem are made again,
// too.
Work taken_up(const std::vector<RsaQuestion>& questions, AnswerJournal& journal,
              const RsaOptions& options) {
  Work work(questions);
  const bool all = journal.take_found([&](const Json& line, const std::string& where) {
    const Fields fields(line, where);
    const int64_t number = fields.integer("number"), round = fields.integer("round");
    require_data(number >= 0 && number < std::ssize(work.questions), "{}: no question {} was asked",
                 where, number);
    const auto i = static_cast<size_t>(number);
    require_data(round >= work.rounds[i] && round <= options.rounds,
                 "{}: expected a round from {} to {} of question {}, got {}", where, work.rounds[i],
                 options.rounds, number, round);
    const double seconds = fields.number("seconds");
    require_data(seconds >= 0, "{}: seconds: expected no negative number, got {}", where, seconds);
    std::vector<RsaTrace> traces = read_rsa_round(line, options, round, where);
    if (round > work.rounds[i]) return;
    work.begun[i].rounds.push_back(std::move(traces));
    ++work.rounds[i];
    work.seconds = std::max(work.seconds, seconds);
  });
  if (!all) return Work(questions);
  if (work.all_rounds() == 0) return work;
  for (size_t i = 0; i < work.questions.size(); ++i) {
    if (work.rounds[i] <= options.rounds) continue;
    work.outcomes[i] = rsa_outcome(work.questions[i], std::exchange(work.begun[i], {}));
  }
  log_info("{} before and are in {}", work.progress(options), journal.path().string());
  return work;
}

// The rounds of question `i` that have become whole.
void keep_rounds(Work& work, size_t i, std::span<const std::vector<RsaTrace>> whole,
                 const RsaOptions& options, AnswerJournal* journal) {
  while (work.rounds[i] < std::ssize(whole)) {
    const int64_t round = work.rounds[i]++;
    if (!journal) continue;
    Json line = Json::Object{
        {"number", static_cast<int64_t>(i)}, {"round", round}, {"seconds", work.seconds}};
    Json made = rsa_round_json(whole[static_cast<size_t>(round)], options);
    for (auto& [name, value] : made.object()) line[name] = std::move(value);
    journal->add(line);
  }
}

// The problems that are not finished yet. Ctrl-C and errors end it early; of a single problem the
// rounds that were finished are shown then.
void solve(Work& work, Engine& engine, const Tokenizer& tokenizer, const RsaOptions& options,
           const Options& o, AnswerJournal* journal) {
  std::vector<size_t> open;
  std::vector<RsaProblem> problems;
  for (size_t i = 0; i < work.questions.size(); ++i) {
    if (work.outcomes[i]) continue;
    open.push_back(i);
    problems.push_back(work.questions[i].problem);
    problems.back().begun = work.begun[i];
  }
  std::optional<Rsa> rsa;
  const auto keep = [&](size_t p) {
    const size_t i = open[p];
    keep_rounds(work, i, rsa->whole_rounds(p), options, journal);
    if (rsa->finished(p) && !work.outcomes[i]) {
      work.outcomes[i] = rsa_outcome(work.questions[i], rsa->take(p));
    }
  };
  const double begin = steady_seconds(), before = work.seconds;
  try {
    rsa.emplace(engine, tokenizer, std::move(problems), options, o.sequences);
    RsaProgress progress(std::ssize(work.questions), work.finished(), work.all_rounds(), options);
    while (!rsa->finished() && !interrupted()) {
      if (const auto ended = rsa->next(0.1)) {
        progress.ended(*ended, rsa->new_tokens());
        work.seconds = before + steady_seconds() - begin;
        keep(ended->problem);
        if (rsa->finished(ended->problem)) progress.answered();
      }
      progress.show(rsa->new_tokens());
    }
    if (interrupted()) work.error.emplace(Fault::interrupted, "interrupted");
  } catch (const Error& error) {
    work.error = error;
  }
  work.seconds = before + steady_seconds() - begin;
  if (!work.error) return;
  for (size_t p = 0; rsa && p < open.size(); ++p) keep(p);  // what was to follow failed at once
  if (work.questions.size() > 1 || open.empty() || work.outcomes[0]) return;
  const auto whole = rsa ? rsa->whole_rounds(0) : std::span(std::as_const(work.begun[0].rounds));
  if (whole.empty()) return;
  work.outcomes[0] = rsa_outcome(work.questions[0], {.rounds = {whole.begin(), whole.end()}});
}

std::string what_was_finished(const Options& o, const RsaOptions& options, const Work& work,
                              AnswerJournal* journal) {
  if (work.all_rounds() == 0) return "nothing was finished";
  std::string text = work.progress(options);
  if (!journal) return text + "; with --out they would be kept";
  text += format(" and are in {}", *o.out);
  if (const int64_t lost = journal->unwritten(); lost > 0) {
    text +=
        format(", but for {} {} that could not be written", lost, lost == 1 ? "round" : "rounds");
  }
  return text + "; the same command goes on";
}

// A trace that was cut has no answer, mostly.
void tell_of_cut_traces(const RsaReport& report) {
  size_t cut = 0, all = 0;
  for (const RsaOutcome& each : report.outcomes) {
    for (const RsaTrace& trace : each.tree.rounds.back()) {
      ++all;
      if (trace.end == EndReason::length) ++cut;
    }
  }
  if (4 * cut < all || cut == 0) return;
  log_info("{} of {} traces of the last round were cut at {} tokens; a larger --beta lets them end",
           cut, all, report.options.trace_tokens);
}

void write_tree(const Path& folder, const RsaReport& report) {
  const Json tree = rsa_tree_json(report);
  write_file(folder / kTreeFile, tree.dump(1) + "\n");
  write_file(folder / kPageFile, rsa_tree_page(tree));
  log_info("{}: tree.json, and tree.html for a browser", folder.string());
}

void print_one(const RsaQuestion& question, const RsaOutcome& outcome) {
  const std::string text(trim(outcome.tree.rounds.back()[outcome.chosen()].text));
  print("{}\n", stdout_is_terminal() ? harmless(text) : text);
  print_text(rsa_vote_table(question, outcome));
  if (!question.right) return;
  const RsaRound& last = outcome.rounds.back();
  print("\nmean {:.1f} %, majority {}; of the first traces {:.1f} % are right", 100 * last.mean,
        last.majority_right ? "right" : "wrong", 100 * outcome.rounds.front().mean);
}

void print_results(const Options& o, const RsaReport& report) {
  if (o.json) {
    print_json(rsa_summary_json(report));
  } else if (o.prompt || o.prompt_file) {
    print_one(report.questions[0], report.outcomes[0]);
  } else {
    print_text(rsa_score_table(summarize_rsa(report.outcomes)));
  }
  RsaTokens tokens;
  for (const RsaOutcome& each : report.outcomes) tokens += tokens_of(each.tree);
  log_info("{} tokens generated in {}; prompts of {} tokens, {} of them found in the cache",
           human_count(tokens.generated), human_seconds(report.seconds), human_count(tokens.prompt),
           human_count(tokens.cached));
}

// The tree, then the results, then what went wrong; the journal goes when all is written.
int tell(const Options& o, const RsaOptions& options, Work& work, AnswerJournal* journal) {
  std::vector<RsaQuestion> questions;
  std::vector<RsaOutcome> outcomes;
  for (size_t i = 0; i < work.questions.size(); ++i) {
    if (!work.outcomes[i]) continue;
    questions.push_back(work.questions[i]);
    outcomes.push_back(std::move(*work.outcomes[i]));
  }
  const RsaReport report{.model = model_name(o),
                         .options = options,
                         .questions = questions,
                         .outcomes = outcomes,
                         .seconds = work.seconds,
                         .asked = std::ssize(work.questions),
                         .form = form_json(o)};
  std::optional<Error> unwritten;  // told after the results, which are then all there is
  try {
    if (o.out && !outcomes.empty()) write_tree(*o.out, report);
    if (journal && !work.error) journal->remove();
  } catch (const Error& error) {
    unwritten = error;
  }
  if (work.error) {
    std::string told = work.error->what();
    if (unwritten) told += format("; {}", unwritten->what());
    throw Error(work.error->fault(), told + "; " + what_was_finished(o, options, work, journal),
                work.error->hint());
  }
  print_results(o, report);
  tell_of_cut_traces(report);
  if (unwritten) throw *unwritten;
  return 0;
}

// What a run that has ended left is not replaced.
void check_results(const Options& o) {
  require(!std::filesystem::exists(Path(*o.out) / kTreeFile),
          "{}: holds a tree; give --overwrite to replace it, or another --out", *o.out);
}

// Hours of work must not end at a folder that cannot be written, nor replace that of others.
void check_output(const Options& o, std::optional<NewFolder>& folder) {
  if (!o.out) return;
  // A tree beside the weights would be taken for a part of another model.
  std::error_code missing;
  require(!std::filesystem::equivalent(*o.out, o.model, missing),
          "--out: {} is the model's folder; give another", *o.out);
  folder.emplace(*o.out);
  if (!o.overwrite && !std::filesystem::exists(Path(*o.out) / kUnfinishedFile)) check_results(o);
}

int run(const Options& o) {
  check_options(o);
  require_folder(o.model, "a model folder");
  const auto kv_memory = parse_bytes(o.kv_memory);
  require(kv_memory && *kv_memory > 0, "--kv-memory: expected a size such as 4GiB, got '{}'",
          o.kv_memory);
  std::optional<NewFolder> folder;  // goes again where nothing was kept in it
  check_output(o, folder);
  const Tokenizer tokenizer = Tokenizer::load(o.model);
  const std::vector<RsaQuestion> questions = read_problems(o, make_form(o, tokenizer));
  RsaOptions options = rsa_options(o, tokenizer);
  const Device device = parse_device(o.runs.device);
  const auto model = o.runs.load(o.model, device);
  Engine engine(*model, {.kv_memory = *kv_memory, .sequences = o.sequences, .throughput = true});
  options = fitted_to(options, questions, engine);
  log_info("{} {}: {}", questions.size(), questions.size() == 1 ? "problem" : "problems",
           to_text(options));
  std::optional<AnswerJournal> journal;
  if (o.out) {
    journal.emplace(Path(*o.out) / kUnfinishedFile, settings_of(o, options, questions, device),
                    o.overwrite, [&] { check_results(o); });
    for (const char* name : {kTreeFile, kPageFile}) remove_unnamed(Path(*o.out) / name);
  }
  Work work = journal ? taken_up(questions, *journal, options) : Work(questions);
  solve(work, engine, tokenizer, options, o, journal ? &*journal : nullptr);
  return tell(o, options, work, journal ? &*journal : nullptr);
}

}  // namespace

Command rsa_command() {
  return command<Options>("rsa", "solve problems by Markovian RSA: many traces, aggregated",
                          describe, run);
}

}  // namespace tephra
