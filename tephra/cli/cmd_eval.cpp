// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/log.h"
#include "tephra/base/progress.h"
#include "tephra/cli/command.h"
#include "tephra/cli/eval_against.h"
#include "tephra/cli/model_device.h"
#include "tephra/cli/output.h"
#include "tephra/cli/sampling_flags.h"
#include "tephra/cli/task_flags.h"
#include "tephra/device/ceilings.h"
#include "tephra/eval/attempt_journal.h"
#include "tephra/eval/report.h"
#include "tephra/text/aggregation.h"
#include "tephra/text/chat_template.h"

namespace tephra {
namespace {

struct Options {
  std::string model;
  TaskFlags tasks;
  int64_t aggregate = 0, tail = 64;
  std::vector<std::string> text;
  int64_t window = 0;
  int64_t stride = 0;
  std::vector<std::string> questions;
  std::string match = "numeric";
  double tolerance = 1e-6;
  std::optional<std::string> prompt_template;
  bool chat = false;
  int64_t n = 1;
  std::vector<int64_t> k;
  Sampling sampling;
  int64_t seed = 0;
  std::vector<std::string> stop;
  std::optional<int64_t> max_new_tokens;
  int64_t show = 0;
  std::optional<std::string> out;
  int64_t batch = 128;
  std::string dtype = "f32";
  std::string device = "auto";
  std::optional<std::string> against;
  std::optional<double> max_kl, min_agreement;
  bool overwrite = false, json = false;

  // What was given of the flags that only answers have, of --text's stride, of numbers' tolerance.
  std::vector<std::string> of_answers, of_scores, of_numbers;
};

void describe_tasks(Flags& flags, Options& o) {
  o.tasks.describe(flags);
  flags
      .add("--aggregate C", o.aggregate,
           "put each task with the ends of C attempts at it, some wrong, as later rounds of "
           "`tephra rsa` do; 0: as it is")
      .range(0, 64)
      .of("--environments");
  flags.add("--tail", o.tail, "of --aggregate: tokens of an attempt that are shown, its last ones")
      .range(1, 1e9)
      .of("--aggregate");
  flags.add("--text FILE", o.text, "perplexity and bits per byte of a UTF-8 text. May be repeated");
  flags
      .add("--window", o.window,
           "tokens read together; 0: the model's limit, at most 2048 (1024 with --against)")
      .range(0, 1e9)
      .of("--text");
  flags.note_given(&o.of_scores);
  flags
      .add("--stride", o.stride,
           "tokens from one window to the next; each token is scored once. 0: half a window")
      .range(0, 1e9)
      .of("--text");
  flags.note_given(nullptr);
  flags.add("--questions FILE", o.questions,
            "JSONL, a line each: {\"question\" or \"prompt\", \"answer\", optional \"id\"}. May be "
            "repeated");
  flags
      .add("--match", o.match,
           "numeric: the number in \\boxed{}, after #### or after \"answer:\", else the last one; "
           "exact: the text there, else all of it")
      .choices({"numeric", "exact"})
      .of("--questions");
  flags.note_given(&o.of_numbers);
  flags
      .add("--tolerance", o.tolerance,
           "relative, of numbers that are not integers; integers must agree in every digit")
      .range(0, 1e9)
      .of("--questions");
  flags.note_given(nullptr);
  flags
      .add("--template TEXT", o.prompt_template,
           "how a \"question\" becomes a prompt: a text with {question} in it, \\n for a newline; "
           "without it a newline follows the question")
      .of("--questions");
  flags
      .add("--chat", o.chat,
           "put tasks and questions as a user's message through the model's chat template; a "
           "\"prompt\" is still continued as it is")
      .of("--environments", "--questions");
}

void describe_against(Flags& flags, Options& o) {
  flags.add("--against DIR", o.against,
            "compare with this model instead: how far the next-token distributions of --model are "
            "from its own over --text, and over the solutions of --environments");
  flags.add("--max-kl", o.max_kl, "with --against: exit code 3 when the mean KL is above this")
      .range(0, 1e9)
      .of("--against");
  flags
      .add("--min-agreement", o.min_agreement,
           "with --against: exit code 3 when a smaller share has the same likeliest token")
      .range(0, 1)
      .of("--against");
  flags.example("tephra eval --model 4bit --against DIR --environments addition:1-2 --max-kl 2e-2");
}

void describe_answers(Flags& flags, Options& o) {
  flags.note_given(&o.of_answers);
  flags.add("--n", o.n, "attempts at each task or question; avg@n is their mean").range(1, 1e6);
  flags.add("--k", o.k, "also estimate pass@k for these k <= n; n itself when none is given");
  describe_sampling(flags, o.sampling);
  flags.add("--stop STR", o.stop, "end an answer before this text. May be repeated");
  flags
      .add("--max-new-tokens", o.max_new_tokens,
           "limit of an answer; when not given, 512 for questions, and for a task twice its own "
           "solution and 16")
      .range(1, 1e9);
  flags.add("--show", o.show, "print this many wrong answers of each group").range(0, 1e9);
  flags.add(
      "--out FILE", o.out,
      "write every answer as a line of JSON; they are kept as they come, and the same command "
      "goes on after an interruption");
  flags
      .add("--overwrite", o.overwrite,
           "of --out: replace FILE, or what a run with other settings has kept for it")
      .of("--out");
  flags.add("--batch", o.batch, "answers side by side; changes the speed, never a result")
      .range(1, 1e5);
  flags.note_given(nullptr);
}

void describe(Flags& flags, Options& o) {
  flags.add("--model DIR", o.model, "model folder with a tokenizer.json").required();
  describe_tasks(flags, o);
  flags.add("--seed", o.seed, "of the tasks and of the sampling")
      .range(0, 9e18)
      .of("--environments", "--questions");
  describe_answers(flags, o);
  flags.add("--dtype", o.dtype, "arithmetic").choices({"f32", "bf16"});
  describe_device(flags, o.device);
  flags.add("--json", o.json, "one JSON document on stdout");
  describe_against(flags, o);
  flags.example("tephra eval --model DIR --environments addition:1-3,sorting:2 --samples 200");
  flags.example("tephra eval --model DIR --environments addition:1-3 --aggregate 4 --tail 64");
  flags.example("tephra eval --model DIR --text held-out.txt --window 1024 --stride 512");
  flags.example(
      "tephra eval --model DIR --questions gsm8k.jsonl --template 'Q: {question}\\nA:' --stop Q:");
  flags.example(
      "tephra eval --model DIR --questions q.jsonl --n 16 --k 1,4,16 --temperature 0.8 --json");
}

// All that can be wrong is found before the model is loaded.
struct Inputs {
  std::vector<EnvironmentLevel> levels;
  std::vector<std::pair<std::string, std::string>> texts;  // name, content
  std::vector<std::pair<std::string, std::vector<Question>>> questions;
  PromptForm form;  // of questions, and of tasks with --chat
  SolveOptions solve;
  std::vector<int64_t> ks;
};

Match match_of(const Options& o) { return o.match == "exact" ? Match::exact : Match::numeric; }

// A flag that would change nothing is refused.
void check_flags(const Options& o) {
  require(o.tasks.environments || !o.text.empty() || !o.questions.empty(),
          "--environments, --text, --questions: expected one of them, got none");
  if (o.against) {
    refuse_given(o.of_answers, "for answers; with --against there are none");
    refuse_given(o.of_scores, "for perplexity, not for --against");
  }
  if (!o.tasks.environments && o.questions.empty()) {
    refuse_given(o.of_answers, "for answers, of --environments or --questions; --text has none");
  }
  if (o.match != "numeric") refuse_given(o.of_numbers, "for --match numeric");
  if (!o.against) return;
  require(o.questions.empty(),
          "--against compares over --text and --environments, not --questions");
  require(o.aggregate == 0, "--aggregate is for accuracy, not for --against");
}

// The template's text brings its own bos. With --template, its text is the message.
PromptForm chat_form(const Options& o, std::function<std::string(const std::string&)> message) {
  auto chat = std::make_shared<const ChatTemplate>(ChatTemplate::load(o.model));
  return {.render =
              [chat, message = std::move(message)](const std::string& question) {
                Json turn;
                turn["role"] = "user";
                turn["content"] = message ? message(question) : question;
                return chat->render(Json::Array{turn});
              },
          .special = AddSpecial::none};
}

Inputs read_inputs(const Options& o) {
  Inputs in;
  in.solve.sampling = o.sampling;
  in.solve.sampling.seed = static_cast<uint64_t>(o.seed);
  in.solve.samples = o.n;
  in.solve.stop = o.stop;
  in.solve.sequences = o.batch;
  check_sampling_flags(in.solve.sampling);
  check_solve_options(in.solve);
  in.ks = o.k.empty() ? std::vector<int64_t>{o.n} : o.k;
  for (const int64_t k : in.ks) {
    require(k >= 1 && k <= o.n, "--k: expected 1 to {}, the attempts of --n, got {}", o.n, k);
  }
  if (o.tasks.environments) in.levels = parse_environments(*o.tasks.environments);
  if (o.prompt_template) in.form.render = prompt_template(*o.prompt_template);
  if (o.chat) in.form = chat_form(o, in.form.render);
  for (const std::string& path : o.questions) {
    in.questions.emplace_back(path, read_questions(path, match_of(o)));
  }
  for (const std::string& path : o.text) {
    in.texts.emplace_back(path, read_file(path, int64_t{1} << 40));
  }
  return in;
}

struct Results {
  std::vector<EnvironmentScore> environments;
  std::vector<std::pair<std::string, Perplexity>> texts;
  std::vector<std::pair<std::string, QuestionScore>> questions;
};

std::optional<AggregationForm> aggregation_form(const Options& o, const Tokenizer& tokenizer) {
  if (o.aggregate == 0) return std::nullopt;
  return AggregationForm{.candidates = o.aggregate,
                         .tail = [&tokenizer, tokens = o.tail](const std::string& attempt) {
                           return tail_text(tokenizer, attempt, tokens);
                         }};
}

constexpr const char* kEnvironmentsGroup = "environments";

// What answers depend on; how they are graded may change.
Json settings_of(const Options& o, const Inputs& in) {
  const bool gpu = parse_device(o.device).kind == Device::Kind::gpu;
  Json json = Json::Object{{"tephra", TEPHRA_VERSION},
                           {"model", mark_of_model(o.model)},
                           {"dtype", o.dtype},
                           {"device", gpu ? "gpu" : "cpu"},
                           {"instructions", gpu ? "" : simd_target()},
                           {"environments", o.tasks.environments.value_or("")},
                           {"samples", o.tasks.samples},
                           {"split", o.tasks.split},
                           {"aggregate", o.aggregate},
                           {"tail", o.tail},
                           {"template", o.prompt_template.value_or("")},
                           {"chat", o.chat},
                           {"n", o.n}};
  put_sampling(json, in.solve.sampling, in.solve.stop);
  json["max_new_tokens"] = o.max_new_tokens.value_or(0);
  for (const auto& [file, questions] : in.questions) {
    std::string all;
    for (const Question& q : questions) {
      all += Json(Json::Array{q.id, q.text, q.whole, q.answer}).dump() + "\n";
    }
    json["questions of " + file] =
        format("{} with hash {}", questions.size(), hash_text(xxh3(all)));
  }
  return json;
}

Path journal_path(const Options& o) { return *o.out + ".unfinished"; }

void check_results(const Options& o) {
  require(!std::filesystem::exists(*o.out),
          "{}: is there; give --overwrite to replace it, or another --out", *o.out);
}

// Hours of answers must not end at a path that is wrong, nor replace those of another run.
void check_output(const Options& o) {
  if (!o.out) return;
  const AtomicFile file(*o.out);
  if (!o.overwrite && !std::filesystem::exists(journal_path(o))) check_results(o);
}

// A bar for what is left to do; what is done is written to the journal, if there is one.
class Watch {
 public:
  Watch(const std::string& what, const std::string& group, int64_t attempts, SolveOptions& options,
        AttemptJournal* journal)
      : progress_(what, attempts - (journal ? journal->known(group) : 0), "answers") {
    options.on_attempt = [this](size_t, size_t, const Attempt&) { progress_.add(); };
    if (!journal) return;
    journal->attach(options, group);
    if (const int64_t known = journal->known(group); known > 0) {
      log_info("{}: {} of {} answers were found in {}", what, known, attempts,
               journal->lines().path().string());
    }
  }

 private:
  Progress progress_;
};

std::vector<EnvironmentScore> run_environments(const Options& o, const Inputs& in, Model& model,
                                               const Tokenizer& tokenizer,
                                               AttemptJournal* journal) {
  EnvironmentEvalOptions options{.levels = in.levels,
                                 .tasks = o.tasks.samples,
                                 .seed = static_cast<uint64_t>(o.seed),
                                 .split = o.tasks.which(),
                                 .max_new_tokens = o.max_new_tokens.value_or(0),
                                 .ks = in.ks,
                                 .form = o.chat ? in.form : PromptForm{},
                                 .solve = in.solve,
                                 .aggregation = aggregation_form(o, tokenizer)};
  const auto tasks = static_cast<int64_t>(in.levels.size()) * o.tasks.samples;
  const Watch watch("environments", kEnvironmentsGroup, tasks * o.n, options.solve, journal);
  std::vector<EnvironmentScore> scores = evaluate_environments(model, tokenizer, options);
  for (const EnvironmentScore& s : scores) {
    if (s.score.problems < o.tasks.samples) {
      log_warning("{} has only {} different {} tasks at level {}", s.at.environment->name,
                  s.score.problems, o.tasks.split, s.at.level);
    }
  }
  return scores;
}

QuestionScore run_questions(const Options& o, const Inputs& in, const std::string& file,
                            const std::vector<Question>& questions, Model& model,
                            const Tokenizer& tokenizer, AttemptJournal* journal) {
  QuestionOptions options{.match = match_of(o),
                          .tolerance = o.tolerance,
                          .max_new_tokens = o.max_new_tokens.value_or(512),
                          .ks = in.ks,
                          .form = in.form,
                          .solve = in.solve};
  const Watch watch("questions", "questions of " + file, std::ssize(questions) * o.n, options.solve,
                    journal);
  return evaluate_questions(model, tokenizer, questions, options);
}

Perplexity run_text(const Options& o, const std::pair<std::string, std::string>& text, Model& model,
                    const Tokenizer& tokenizer) {
  Progress progress(text.first, 0, "tokens");
  return text_perplexity(
      model, tokenizer, text.second, text.first,
      {.window = o.window, .stride = o.stride, .model = o.model, .on_scored = [&](int64_t tokens) {
         progress.add(tokens);
       }});
}

void write_answers(const Path& path, const Results& results) {
  std::string lines;
  for (const EnvironmentScore& s : results.environments) {
    lines += attempts_jsonl(s.problems, [&](size_t) {
      Json head;
      head["kind"] = s.at.environment->name;
      head["level"] = s.at.level;
      return head;
    });
  }
  for (const auto& [file, score] : results.questions) {
    lines += attempts_jsonl(score.problems, [&, &score = score, &file = file](size_t i) {
      Json head;
      head["file"] = file;
      head["id"] = score.ids[i];
      return head;
    });
  }
  write_file(path, lines);
}

Json to_json(const Options& o, const Results& results) {
  Json json;
  json["model"] = o.model;
  json["dtype"] = o.dtype;
  json["seed"] = o.seed;
  json["temperature"] = o.sampling.temperature;
  if (!results.environments.empty()) {
    Json part = tephra::to_json(std::span(results.environments));
    part["split"] = o.tasks.split;
    if (o.aggregate > 0) part["aggregate"] = o.aggregate;
    if (o.show > 0) {
      part["wrong"] = Json::Array{};
      for (const EnvironmentScore& s : results.environments) {
        const Json rows = wrong_attempts_json(s.problems, o.show);
        for (const Json& row : rows.array()) part["wrong"].push_back(row);
      }
    }
    json["environments"] = part;
  }
  if (!results.texts.empty()) json["text"] = Json::Array{};
  for (const auto& [file, perplexity] : results.texts) {
    Json part = tephra::to_json(perplexity);
    part["file"] = file;
    json["text"].push_back(part);
  }
  if (!results.questions.empty()) json["questions"] = Json::Array{};
  for (const auto& [file, score] : results.questions) {
    Json part = tephra::to_json(score.score);
    part["file"] = file;
    part["match"] = o.match;
    if (o.show > 0) part["wrong"] = wrong_attempts_json(score.problems, o.show);
    json["questions"].push_back(part);
  }
  return json;
}

void print_tables(const Options& o, const Results& results) {
  std::string text;
  const auto add = [&](const std::string& block) {
    if (!block.empty()) text += (text.empty() ? "" : "\n") + block;
  };
  add(environment_table(results.environments));
  if (!results.texts.empty()) add(perplexity_table(results.texts));
  std::vector<std::pair<std::string, Score>> scores;
  for (const auto& [file, score] : results.questions) scores.emplace_back(file, score.score);
  add(question_table(scores));
  for (const EnvironmentScore& s : results.environments) add(wrong_attempts(s.problems, o.show));
  for (const auto& [file, score] : results.questions) add(wrong_attempts(score.problems, o.show));
  print_text(text);
}

int run_beside(const Options& o, Inputs in) {
  return run_against({.model = o.model,
                      .reference = *o.against,
                      .dtype = o.dtype,
                      .device = o.device,
                      .texts = std::move(in.texts),
                      .tasks = {.levels = in.levels,
                                .tasks = o.tasks.samples,
                                .seed = static_cast<uint64_t>(o.seed),
                                .split = o.tasks.which(),
                                .form = o.chat ? in.form : PromptForm{}},
                      .window = o.window,
                      .max_kl = o.max_kl,
                      .min_agreement = o.min_agreement,
                      .json = o.json});
}

Results evaluate(const Options& o, const Inputs& in, AttemptJournal* journal) {
  const Tokenizer tokenizer = Tokenizer::load(o.model);
  const auto model = load_model(o.model, {.dtype = *parse_dtype(o.dtype),
                                          .device = parse_device(o.device),
                                          .mapped = true,
                                          .copy_small_pages = true});
  Results results;
  try {
    if (!in.levels.empty()) {
      results.environments = run_environments(o, in, *model, tokenizer, journal);
    }
    for (const auto& text : in.texts) {
      results.texts.emplace_back(text.first, run_text(o, text, *model, tokenizer));
    }
    for (const auto& [file, questions] : in.questions) {
      results.questions.emplace_back(
          file, run_questions(o, in, file, questions, *model, tokenizer, journal));
    }
  } catch (const Error& error) {
    if (!journal || journal->lines().size() == 0) throw;
    const int64_t unwritten = journal->unwritten();
    throw Error(
        error.fault(),
        format("{}; {} answers are in {}{}, and the same command goes on behind them", error.what(),
               journal->lines().size() - unwritten, journal->lines().path().string(),
               unwritten > 0 ? format(" ({} more could not be written)", unwritten) : ""),
        error.hint());
  }
  return results;
}

int run(const Options& o) {
  check_flags(o);
  require_folder(o.model, "a model folder");
  if (o.against) require_folder(*o.against, "a model folder");
  check_output(o);
  const Inputs in = read_inputs(o);
  if (o.against) return run_beside(o, in);
  std::optional<AttemptJournal> journal;
  if (o.out) {
    journal.emplace(journal_path(o), settings_of(o, in), o.overwrite, [&] { check_results(o); });
    remove_unnamed(*o.out);
  }
  const Results results = evaluate(o, in, journal ? &*journal : nullptr);
  std::optional<Error> unwritten;  // told after the scores, which are then all there is
  try {
    if (o.out) write_answers(*o.out, results);
    if (journal) journal->remove();
  } catch (const Error& error) {
    unwritten = error;
  }
  if (o.json) {
    print_json(to_json(o, results));
  } else {
    print_tables(o, results);
  }
  if (unwritten) throw *unwritten;
  return 0;
}

}  // namespace

Command eval_command() {
  return command<Options>("eval", "accuracy on tasks and questions, perplexity of text", describe,
                          run);
}

}  // namespace tephra
