// SPDX-License-Identifier: Apache-2.0
// The OpenAI-compatible API over one model: which path does what, who is let in, and how many may
// wait. docs/serving.md lists what is understood.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tephra/infer/engine.h"
#include "tephra/serve/answer_source.h"
#include "tephra/serve/api_keys.h"
#include "tephra/serve/api_request.h"
#include "tephra/serve/host_names.h"
#include "tephra/serve/http_server.h"
#include "tephra/serve/metrics.h"
#include "tephra/serve/output_form.h"
#include "tephra/serve/retrieval_prompt.h"
#include "tephra/text/chat_template.h"

namespace tephra {

// A file that is served as it is, without a key.
struct StaticPage {
  std::string path, content_type, body;
  std::vector<std::pair<std::string, std::string>> headers = {};
};

struct ApiOptions {
  std::string model_name;
  EngineOptions engine;
  int64_t waiting = 256;         // answers that may wait for their turn; then 429
  double request_seconds = 600;  // for all answers of a request
  ApiKeys keys;
  ApiLimits limits;
  std::optional<HostNames> hosts;  // by which clients may address this server; none: by any
  std::vector<StaticPage> pages;
  SourceOptions sources;
};

class Api {
 public:
  // `folder`: for its tokenizer, chat template and generation_config.json. The model must outlive
  // it. Fault::usage when the folder has no tokenizer.
  Api(Model& model, const Path& folder, ApiOptions options);
  // Of a model without a folder: no chat.
  Api(Model& model, Tokenizer tokenizer, ApiOptions options);

  HttpResponse handle(const HttpRequest& request, const HttpClientConnection& client);
  // For what never reaches handle().
  static HttpResponse refusal(int status, const std::string& message);

  void drain() { draining_ = true; }  // from now on requests for answers get 503
  void cancel_all() { engine_.cancel_all(); }
  void wait_until_idle() { engine_.wait_until_idle(); }
  EngineStats stats() const { return engine_.stats(); }
  std::optional<Error> failure() const { return engine_.failure(); }
  bool can_chat() const { return chat_.has_value(); }

 private:
  HttpResponse route(const HttpRequest& request, const HttpClientConnection& client);
  HttpResponse models(const std::string& path) const;
  HttpResponse health() const;
  HttpResponse complete(const HttpRequest& request, const HttpClientConnection& client);
  HttpResponse chat(const HttpRequest& request, const HttpClientConnection& client);

  void check_common(const CommonRequest& request) const;
  std::vector<int32_t> prompt_ids(const std::string& text, AddSpecial special) const;
  // Fault::usage when the template fails on these.
  std::string rendered(const Json& messages, const Json& tools, const ChatOptions& form) const;
  PromptRoom prompt_room(const ChatRequest& request, const ChatOptions& form,
                         const Json& tools) const;
  // ApiError when so many more may not wait, naming the field when they never may.
  void check_queue(int64_t answers, const char* field) const;
  // A chat answered by Markovian RSA, from messages that have what was retrieved in them.
  std::shared_ptr<PieceSource> start_rsa(const ChatRequest& request, const Json& messages,
                                         const ChatOptions& form);
  // The engine's part of a request; ApiError when there is no room.
  std::shared_ptr<AnswerSource> start(const CommonRequest& request, AnswerSpec spec);

  Model& model_;
  ApiOptions options_;
  Tokenizer tokenizer_;
  std::optional<ChatTemplate> chat_;
  Sampling defaults_;
  OutputForms forms_;
  ServeMetrics metrics_;
  Sources sources_;
  std::atomic<bool> draining_ = false;
  int64_t created_;
  Engine engine_;  // last: its callbacks use the others
};

}  // namespace tephra
