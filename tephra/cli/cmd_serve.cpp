// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/model_device.h"
#include "tephra/serve/api.h"
#include "tephra/serve/chat_page.h"

namespace tephra {
namespace {

struct Options {
  std::string model;
  std::string name;
  std::string host = "127.0.0.1";
  int64_t port = 8080;
  std::string api_key_file;
  std::vector<std::string> allow_host;
  std::string kv_memory = "4GiB";
  int64_t context = 0;
  int64_t sequences = 64;
  int64_t queue = 256;
  int64_t connections = 512;
  int64_t prefill_tokens = 0;
  int64_t rsa_tokens = int64_t{1} << 20;
  std::string max_body = "16MiB";
  int64_t request_timeout = 600;
  int64_t drain_timeout = 30;
  std::vector<std::string> indexes;
  std::optional<std::string> index_dir, memory_dir;
  std::string index_memory = "1GiB";
  bool no_prefix_cache = false, throughput = false;
  ModelFlags runs;
};

void describe(Flags& flags, Options& o) {
  flags.add("--model DIR", o.model, "model folder: config.json, model*.safetensors, tokenizer.json")
      .required();
  flags.add("--name", o.name, "what the API calls the model; the folder's name by default");
  flags.add("--host", o.host, "address to listen at; 0.0.0.0 lets other machines in");
  flags.add("--port", o.port, "0 takes any that is free").range(0, 65535);
  flags.add("--api-key-file FILE", o.api_key_file,
            "let in only who shows one of these keys, one a line");
  flags.add("--allow-host NAME", o.allow_host,
            "a name by which clients address this server, a proxy's for example; without keys at a "
            "loopback address only localhost, IP addresses and these are. May be repeated");
  flags.add("--kv-memory SIZE", o.kv_memory, "memory for keys and values of all answers");
  flags.add("--context", o.context, "tokens of one request, at most; 0: what the model can")
      .range(0, 1e9);
  flags.add("--sequences", o.sequences, "answers side by side, at most").range(1, 4096);
  flags.add("--queue", o.queue, "answers that may wait for their turn; more get status 429")
      .range(0, 1e6);
  flags.add("--connections", o.connections, "open connections, at most; more get status 503")
      .range(1, 20000);
  flags
      .add("--prefill-tokens", o.prefill_tokens,
           "tokens of prompts that are read between two tokens of the answers; 0: 512, on a GPU "
           "8192")
      .range(0, 1e6);
  flags
      .add("--rsa-tokens", o.rsa_tokens,
           "new tokens that all traces of one request with \"rsa\" may take; 0 refuses them")
      .range(0, 1e12);
  flags.add("--max-body SIZE", o.max_body, "largest request");
  flags.add("--request-timeout", o.request_timeout, "seconds that a request may take")
      .range(1, 1e6);
  flags
      .add("--drain-timeout", o.drain_timeout,
           "seconds that open requests get to finish after SIGTERM or Ctrl-C")
      .range(0, 1e6);
  flags.add("--throughput", o.throughput,
            "more tokens in all when many answers run side by side, while a single one is slower");
  flags.add("--no-prefix-cache", o.no_prefix_cache, "compute every prompt anew");
  flags.add("--index NAME=FILE", o.indexes,
            "an index of documents (tephra retrieve index) that chats may name; may be repeated");
  flags.add("--index-dir DIR", o.index_dir,
            "keeps the indexes that clients send; without it, they end with the server");
  flags.add("--index-memory SIZE", o.index_memory, "for all indexes that clients send");
  flags.add("--memory-dir DIR", o.memory_dir, "keeps the memories of chats, a file for each");
  o.runs.describe(flags);
  flags.example("tephra serve --model build/quickstart/model");
  flags.example(
      "tephra serve --model DIR --host 0.0.0.0 --api-key-file keys.txt --kv-memory 16GiB");
  flags.example("tephra serve --model DIR --index docs=docs.index --memory-dir memories");
  flags.example(
      "curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' -d "
      "'{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}'");
}

int64_t bytes_of(const std::string& flag, const std::string& text) {
  const auto bytes = parse_bytes(text);
  require(bytes.has_value() && *bytes > 0, "{}: expected a size such as 4GiB, got '{}'", flag,
          text);
  return *bytes;
}

std::string default_name(const Path& folder) {
  const Path whole = std::filesystem::weakly_canonical(folder);
  return whole.filename().empty() ? "model" : whole.filename().string();
}

SourceOptions source_options(const Options& o) {
  SourceOptions sources;
  for (const std::string& given : o.indexes) {
    const size_t equals = given.find('=');
    require(equals != std::string::npos && equals > 0 && equals + 1 < given.size(),
            "--index: expected NAME=FILE, got '{}'", given);
    sources.indexes.files.emplace_back(given.substr(0, equals), given.substr(equals + 1));
  }
  if (o.index_dir) sources.indexes.folder = *o.index_dir;
  sources.indexes.most_bytes = bytes_of("--index-memory", o.index_memory);
  if (o.memory_dir) sources.memories.folder = *o.memory_dir;
  return sources;
}

bool is_local(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// Who cannot be reached from outside and asks for no key is reached by any page in a browser here;
// so it goes by names that no other site can have.
std::optional<HostNames> host_names(const Options& o) {
  const bool guarded = !is_local(o.host) || !o.api_key_file.empty();
  if (guarded && o.allow_host.empty()) return {};
  HostNames names;
  names.add(o.host);
  for (const std::string& name : o.allow_host) names.add(name);
  return names;
}

ApiOptions api_options(const Options& o) {
  ApiOptions api;
  api.model_name = o.name.empty() ? default_name(o.model) : o.name;
  api.engine = {.kv_memory = bytes_of("--kv-memory", o.kv_memory),
                .sequences = o.sequences,
                .context = o.context,
                .prefill_tokens = o.prefill_tokens,
                .prefix_cache = !o.no_prefix_cache,
                .throughput = o.throughput};
  api.waiting = o.queue;
  api.limits.rsa_tokens = o.rsa_tokens;
  api.request_seconds = static_cast<double>(o.request_timeout);
  api.sources = source_options(o);
  if (!o.api_key_file.empty()) api.keys = ApiKeys::load(o.api_key_file);
  api.hosts = host_names(o);
  api.pages.push_back(chat_page());
  return api;
}

void warn_if_open(const Options& o) {
  if (!is_local(o.host) && o.api_key_file.empty()) {
    log_warning(
        "--host {}: everybody who reaches this machine can use the model; give "
        "--api-key-file to ask for a key",
        o.host);
  }
}

// Open requests get time to finish; then they are ended.
void drain(Api& api, HttpServer& server, const Options& o) {
  log_info("stopping: {} open connections get {} s to finish{}", server.connections(),
           o.drain_timeout, interrupted() ? "; Ctrl-C once more ends at once" : "");
  api.drain();
  server.stop_accepting();
  if (server.wait_for_connections(static_cast<double>(o.drain_timeout))) return;
  log_warning("{} connections were still open; ending them", server.connections());
  api.cancel_all();
  server.wait_for_connections(5);
}

int run(const Options& o) {
  require_folder(o.model, "a model folder");
  const auto max_body = static_cast<size_t>(bytes_of("--max-body", o.max_body));
  ApiOptions options = api_options(o);
  const Device device = parse_device(o.runs.device);
  if (o.throughput && device.kind == Device::Kind::gpu) {
    log_warning("--throughput: a GPU has one class of kernels for answers; it changes nothing");
  }
  // Before the weights are read: a port that is taken is told at once, and who asks early is told
  // to wait.
  std::unique_ptr<Model> model;
  std::optional<Api> whole;
  std::atomic<Api*> ready = nullptr;
  HttpServer server(
      {.host = o.host,
       .port = static_cast<int>(o.port),
       .connections = o.connections,
       .limits = {.body_bytes = max_body}},
      [&](const HttpRequest& request, const HttpClientConnection& client) {
        Api* api = ready;
        return api != nullptr ? api->handle(request, client)
                              : Api::refusal(503, "the model is being read; try again soon");
      },
      Api::refusal);
  model = o.runs.load(o.model, device);
  Api& api = whole.emplace(*model, o.model, std::move(options));
  ready = &api;
  warn_if_open(o);
  const EngineStats s = api.stats();
  log_info("{} is served at {}/v1, with room for {} tokens in {} of KV memory{}",
           o.name.empty() ? default_name(o.model) : o.name, server.url(),
           human_count(s.blocks * s.block_tokens), human_bytes(s.blocks * s.block_bytes),
           api.can_chat() ? "" : "; the model has no chat template, so there is no chat");
  if (api.can_chat()) log_info("the chat page is at {}/", server.url());
  while (!interrupted() && !api.failure()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  drain(api, server, o);
  if (const auto failure = api.failure()) throw *failure;
  return 0;
}

}  // namespace

Command serve_command() {
  return command<Options>("serve", "serve a model to OpenAI-compatible clients", describe, run);
}

}  // namespace tephra
