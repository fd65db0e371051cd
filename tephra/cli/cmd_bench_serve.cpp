// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include "tephra/base/error.h"
#include "tephra/base/files.h"
#include "tephra/base/format.h"
#include "tephra/base/json.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/model_device.h"
#include "tephra/cli/output.h"
#include "tephra/cli/random_model.h"
#include "tephra/device/device_name.h"
#include "tephra/device/machine.h"
#include "tephra/serve/api.h"
#include "tephra/serve/load.h"
#include "tephra/text/byte_tokenizer.h"
#include "tephra/text/tokenizer.h"

namespace tephra {
namespace {

struct Options {
  std::string model;
  StreamLoadOptions load;
  int64_t port = 0;
  std::string api_key_file;
  std::string kv_memory = "1GiB";
  int64_t sequences = 64;
  int64_t prefill_tokens = 0;
  int64_t bits = 0;
  std::string dtype = "auto", device = "auto";
  bool throughput = false, json = false;
  std::vector<std::string> of_server;  // flags that were given
};

void describe(Flags& flags, Options& o) {
  flags
      .add("--model DIR", o.model,
           "model folder, or a preset with random weights; it is served by this command itself")
      .required();
  flags.add("--port", o.port, "load the server at this port of this machine instead")
      .range(0, 65535);
  flags.add("--api-key-file FILE", o.api_key_file, "its first key is shown to that server")
      .of("--port");
  flags.add("--streams", o.load.streams, "clients side by side").range(1, 4096);
  flags.add("--seconds", o.load.seconds, "no new streams after so long; open ones finish")
      .range(0, 86400);
  flags.add("--prompt-tokens", o.load.prompt_tokens, "of each prompt").range(1, 1e6);
  flags.add("--new-tokens", o.load.new_tokens, "of each answer").range(2, 1e6);
  flags.add("--shared", o.load.shared, "share of the prompt that is the same for all").range(0, 1);
  flags.add("--temperature", o.load.temperature, "of each answer; 0: the likeliest tokens")
      .range(0, 100);
  flags.note_given(&o.of_server);
  flags.add("--kv-memory SIZE", o.kv_memory, "of the server");
  flags.add("--sequences", o.sequences, "of the server").range(1, 4096);
  flags.add("--prefill-tokens", o.prefill_tokens, "of the server; 0: as serve has it")
      .range(0, 1e6);
  flags.add("--throughput", o.throughput, "of the server: kernels for many answers side by side");
  flags.note_given(nullptr);
  flags.add("--dtype", o.dtype, "arithmetic of the server; auto: f32 on the CPU, bf16 on a GPU")
      .choices({"auto", "f32", "bf16"});
  flags.add("--bits", o.bits, "of a preset's weights, drawn quantised: 8 or 4; 0: as --dtype")
      .range(0, 8);
  describe_device(flags, o.device);
  flags.add("--json", o.json, "one JSON document");
  flags.example("tephra bench serve --model build/quickstart/model --streams 64 --seconds 30");
  flags.example(
      "tephra bench serve --model zaya1-8b --device gpu --streams 16 --kv-memory 8GiB "
      "--temperature 0");
}

// A preset has no tokenizer: one with a text for each id, so that every token is an event.
Tokenizer words_for(int64_t ids) {
  Json json = Json::parse(byte_tokenizer_json(), "tokenizer.json");
  Json::Object& vocab = json["model"]["vocab"].object();
  for (int64_t id = std::ssize(vocab); id < ids; ++id) vocab.emplace_back(format(".{}", id), id);
  return Tokenizer::parse(json.dump(), "tokenizer.json");
}

// Ours, on any port.
class OwnServer {
 public:
  // `texts`: the model's folder, or a tokenizer.
  template <class Texts>
  OwnServer(const Options& o, Model& model, Texts texts)
      : api_(model, std::move(texts), api_options(o)) {
    server_.emplace(
        HttpOptions{.port = 0, .connections = o.load.streams + 16},
        [this](const HttpRequest& request, const HttpClientConnection& client) {
          return api_.handle(request, client);
        },
        Api::refusal);
  }
  int port() const { return server_->port(); }
  EngineStats stats() const { return api_.stats(); }

 private:
  static ApiOptions api_options(const Options& o) {
    ApiOptions api;
    api.model_name = "bench";
    const auto bytes = parse_bytes(o.kv_memory);
    require(bytes && *bytes > 0, "--kv-memory: expected a size such as 1GiB, got '{}'",
            o.kv_memory);
    api.engine.kv_memory = *bytes;
    api.engine.sequences = o.sequences;
    api.engine.prefill_tokens = o.prefill_tokens;
    api.engine.throughput = o.throughput;
    api.waiting = 4096;
    return api;
  }

  Api api_;
  std::optional<HttpServer> server_;
};

Json latency_json(const std::vector<double>& sorted) {
  return Json::Object{{"p50", percentile(sorted, 0.5)},
                      {"p90", percentile(sorted, 0.9)},
                      {"p99", percentile(sorted, 0.99)},
                      {"max", percentile(sorted, 1)}};
}

int64_t at_once(const Options& o) {
  return o.port == 0 ? std::min(o.load.streams, o.sequences) : o.load.streams;
}

double prompt_rate(const Options& o, const StreamLoadReport& r) {
  const double seconds = percentile(r.first_token, 0.5);
  return seconds > 0 ? static_cast<double>(o.load.prompt_tokens) / seconds : 0;
}

void print_json_report(const Options& o, const StreamLoadReport& r) {
  Json out = Json::Object{
      {"model", o.model},
      {"cpu", this_machine().cpu},
      {"clients", o.load.streams},
      {"prompt_tokens_each", o.load.prompt_tokens},
      {"new_tokens_each", o.load.new_tokens},
      {"temperature", o.load.temperature},
      {"seconds", r.seconds},
      {"streams", r.streams},
      {"lost", r.lost},
      {"first_loss", r.first_loss},
      {"tokens_per_second", static_cast<double>(r.tokens) / r.seconds},
      {"cached_prompt_share", static_cast<double>(r.cached_tokens) /
                                  static_cast<double>(std::max<int64_t>(1, r.prompt_tokens))}};
  if (!r.first_token.empty()) {
    const auto rate = answer_rate(r, at_once(o));
    out["tokens_per_second_after_the_first"] = rate ? Json(*rate) : Json();
    out["prompt_tokens_per_second_at_the_median"] = prompt_rate(o, r);
    out["first_token_seconds"] = latency_json(r.first_token);
    out["between_events_seconds"] = latency_json(r.between);
  }
  print_json(out);
}

void print_report(const Options& o, const StreamLoadReport& r) {
  print("{} clients for {:.1f} s: {} streams of {} + {} tokens, {} lost{}", o.load.streams,
        r.seconds, r.streams, o.load.prompt_tokens, o.load.new_tokens, r.lost,
        r.lost > 0 ? " (" + r.first_loss + ")" : "");
  print("{:.0f} new tokens/s; {:.0f} % of the prompts' tokens were found in the cache",
        static_cast<double>(r.tokens) / r.seconds,
        100 * static_cast<double>(r.cached_tokens) /
            static_cast<double>(std::max<int64_t>(1, r.prompt_tokens)));
  if (r.first_token.empty()) return;
  using enum Table::Align;
  Table table({left, right, right, right, right});
  table.add({"milliseconds", "p50", "p90", "p99", "max"});
  const auto row = [&](const char* what, const std::vector<double>& sorted) {
    table.add({what, format("{:.1f}", 1e3 * percentile(sorted, 0.5)),
               format("{:.1f}", 1e3 * percentile(sorted, 0.9)),
               format("{:.1f}", 1e3 * percentile(sorted, 0.99)),
               format("{:.1f}", 1e3 * percentile(sorted, 1))});
  };
  row("to the first token", r.first_token);
  row("between events", r.between);
  table.print();
  const auto rate = answer_rate(r, at_once(o));
  print("from each first token on, as clients saw it: answers {}, all streams together",
        rate ? format("{:.0f} tokens/s", *rate) : "n/a (too few events)");
  print("to the first token, at the median: prompts {:.0f} tokens/s, one, what was cached included",
        prompt_rate(o, r));
}

int run(const Options& o) {
  if (o.port != 0) refuse_given(o.of_server, "for this command's own server; --port names another");
  const bool drawn = is_preset(o.model);
  if (!drawn) require_folder(o.model, "a model folder");
  StreamLoadOptions load = o.load;
  if (!o.api_key_file.empty()) {
    load.api_key = std::string(trim(split(read_file(o.api_key_file), '\n').at(0)));
  }
  const Device device = parse_device(o.device);
  const auto model = load_or_draw(o.model,
                                  {.dtype = dtype_for(o.dtype, device),
                                   .device = device,
                                   .mapped = true,
                                   .place = WeightPlace::automatic},
                                  o.bits)
                         .model;
  load.vocab_size = model->tokens().usable;
  std::optional<OwnServer> own;
  if (o.port == 0 && drawn) own.emplace(o, *model, words_for(load.vocab_size));
  if (o.port == 0 && !drawn) own.emplace(o, *model, Path(o.model));
  load.port = own ? own->port() : static_cast<int>(o.port);
  const StreamLoadReport report = load_server(load);
  if (o.json) {
    print_json_report(o, report);
  } else {
    print_report(o, report);
  }
  return report.lost > 0 ? exit_code(Fault::data) : 0;
}

}  // namespace

Command bench_serve_command() {
  return command<Options>("bench serve", "load a server with many streams and time them", describe,
                          run);
}

}  // namespace tephra
