// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/output.h"
#include "tephra/device/machine.h"
#include "tephra/serve/api.h"
#include "tephra/serve/load.h"

namespace tephra {
namespace {

struct Options {
  std::string model;
  StreamLoadOptions load;
  int64_t port = 0;
  std::string api_key_file;
  std::string kv_memory = "1GiB";
  int64_t sequences = 64;
  std::string dtype = "f32";
  bool throughput = false, json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("--model DIR", o.model, "model folder; it is served by this command itself").required();
  flags.add("--port", o.port, "load the server at this port of this machine instead")
      .range(0, 65535);
  flags.add("--api-key-file FILE", o.api_key_file, "its first key is shown to that server");
  flags.add("--streams", o.load.streams, "clients side by side").range(1, 4096);
  flags.add("--seconds", o.load.seconds, "no new streams after so long; open ones finish")
      .range(0, 86400);
  flags.add("--prompt-tokens", o.load.prompt_tokens, "of each prompt").range(1, 1e6);
  flags.add("--new-tokens", o.load.new_tokens, "of each answer").range(2, 1e6);
  flags.add("--shared", o.load.shared, "share of the prompt that is the same for all").range(0, 1);
  flags.add("--kv-memory SIZE", o.kv_memory, "of the server");
  flags.add("--sequences", o.sequences, "of the server").range(1, 4096);
  flags.add("--throughput", o.throughput, "of the server: kernels for many answers side by side");
  flags.add("--dtype", o.dtype, "arithmetic of the server").choices({"f32", "bf16"});
  flags.add("--json", o.json, "one JSON document");
  flags.example("tephra bench serve --model build/quickstart/model --streams 64 --seconds 30");
}

// Ours, on any port.
class OwnServer {
 public:
  OwnServer(const Options& o, Model& model) : api_(model, o.model, api_options(o)) {
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

void print_json_report(const Options& o, const StreamLoadReport& r) {
  Json out = Json::Object{
      {"model", o.model},
      {"cpu", this_machine().cpu},
      {"clients", o.load.streams},
      {"prompt_tokens_each", o.load.prompt_tokens},
      {"new_tokens_each", o.load.new_tokens},
      {"seconds", r.seconds},
      {"streams", r.streams},
      {"lost", r.lost},
      {"first_loss", r.first_loss},
      {"tokens_per_second", static_cast<double>(r.tokens) / r.seconds},
      {"cached_prompt_share", static_cast<double>(r.cached_tokens) /
                                  static_cast<double>(std::max<int64_t>(1, r.prompt_tokens))}};
  out["first_token_seconds"] = latency_json(r.first_token);
  out["between_events_seconds"] = latency_json(r.between);
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
}

int run(const Options& o) {
  require_folder(o.model, "a model folder");
  StreamLoadOptions load = o.load;
  if (!o.api_key_file.empty()) {
    load.api_key = std::string(trim(split(read_file(o.api_key_file), '\n').at(0)));
  }
  const auto model = load_model(
      o.model, {.dtype = *parse_dtype(o.dtype), .mapped = true, .place = WeightPlace::automatic});
  load.vocab_size = model->tokens().usable;
  std::optional<OwnServer> own;
  if (o.port == 0) own.emplace(o, *model);
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
