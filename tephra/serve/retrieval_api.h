// SPDX-License-Identifier: Apache-2.0
// /v1/indexes and /v1/memories: what a server can draw on beside its model (docs/serving.md).
#pragma once

#include <optional>

#include "tephra/retrieve/retrieve.h"
#include "tephra/serve/http_server.h"
#include "tephra/serve/memory_shelf.h"
#include "tephra/serve/retrieval_shelf.h"

namespace tephra {

struct SourceOptions {
  IndexShelfOptions indexes;
  MemoryShelfOptions memories;
};

struct Sources {
  explicit Sources(const SourceOptions& options)
      : indexes(options.indexes), memories(options.memories) {}

  IndexShelf indexes;
  MemoryShelf memories;
};

// The answer to a request for one of these paths; nothing when the path is another one.
// ApiError with what is wrong.
std::optional<HttpResponse> answer_sources(Sources& sources, const HttpRequest& request);

// The path with NAME in the place of a name, as metrics count it.
std::string sources_label(const std::string& path);

// The passages with their documents and scores.
Json to_json(const Index& index, const Retrieved& found);

}  // namespace tephra
