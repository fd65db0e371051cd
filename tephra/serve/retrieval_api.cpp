// SPDX-License-Identifier: Apache-2.0
#include "tephra/serve/retrieval_api.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/retrieve/memory/civil_time.h"
#include "tephra/retrieve/memory/memory_tool.h"
#include "tephra/serve/api_error.h"
#include "tephra/serve/api_fields.h"

namespace tephra {
namespace {

constexpr std::string_view kIndexes = "/v1/indexes";
constexpr std::string_view kMemories = "/v1/memories";
constexpr int64_t kShownTurns = 100;
constexpr int64_t kMostTurns = 10'000;
constexpr int64_t kMostBudget = 1'000'000;

// "/v1/indexes/NAME/query": the name and what follows it.
struct ShelfPath {
  std::string name, rest;
};

std::optional<ShelfPath> place_in(const std::string& path, std::string_view root) {
  if (!path.starts_with(root)) return std::nullopt;
  const std::string_view tail = std::string_view(path).substr(root.size());
  if (tail.empty()) return ShelfPath{};
  if (tail[0] != '/') return std::nullopt;
  const size_t slash = tail.find('/', 1);
  const size_t end = std::min(slash, tail.size());
  return ShelfPath{std::string(tail.substr(1, end - 1)), std::string(tail.substr(end))};
}

HttpResponse json_answer(const Json& body, int status = 200) {
  return {.status = status, .body = body.dump() + "\n"};
}

// Of an index or a memory by its name.
constexpr const char* kNamedMethods = "GET, HEAD, DELETE";

Json described(const std::string& name, const ShelvedIndex& shelved) {
  const Index& index = *shelved.index;
  return Json::Object{{"id", name},
                      {"object", "index"},
                      {"uploaded", shelved.uploaded},
                      {"documents", index.documents()},
                      {"chunks", index.chunks()},
                      {"words", index.words()},
                      {"bytes", index.bytes()},
                      {"chunk", to_text(index.chunk_options().kind)}};
}

Json list_of(Json data) { return Json::Object{{"object", "list"}, {"data", std::move(data)}}; }

std::vector<SentDocument> documents_of(const ApiFields& body) {
  const Json* list = body.find("documents");
  require_field(list != nullptr && list->is_array() && !list->array().empty(), "documents",
                "expected a list of texts or of {{\"name\", \"text\"}}");
  std::vector<SentDocument> documents;
  for (const Json& item : list->array()) {
    const std::string where = format("documents[{}]", documents.size());
    if (item.is_string()) {
      documents.push_back({format("document {}", documents.size() + 1), item.string()});
      continue;
    }
    const ApiFields fields(item, where);
    fields.allow({"name", "text"});
    documents.push_back({fields.string_or("name", format("document {}", documents.size() + 1)),
                         fields.string("text")});
  }
  return documents;
}

HttpResponse put_index(IndexShelf& shelf, const HttpRequest& request) {
  const Json json = parse_json_body(request);
  const ApiFields body(json, "");
  body.allow({"name", "documents", "chunk", "words", "append", "replace"});
  const std::string name = body.string("name");
  const bool append = body.boolean("append", false), replace = body.boolean("replace", false);
  require_field(!(append && replace), "append", "and replace exclude each other");
  require_field(!append || (body.find("chunk") == nullptr && body.find("words") == nullptr),
                "append", "keeps the index's way of chunking; leave chunk and words out");
  ChunkOptions chunks;
  try {
    chunks.kind = parse_chunk_kind(body.string_or("chunk", "auto"));
  } catch (const Error& e) {
    throw ApiError(400, e.what(), "chunk");
  }
  chunks.words = static_cast<uint32_t>(body.integer("words", chunks.words, 1, 100'000));
  const auto index = shelf.put(name, documents_of(body), chunks,
                               append    ? IndexShelf::IfThere::append
                               : replace ? IndexShelf::IfThere::replace
                                         : IndexShelf::IfThere::refuse);
  return json_answer(described(name, {index, true}), 201);
}

HttpResponse query_index(const IndexShelf& shelf, const std::string& name,
                         const HttpRequest& request) {
  const ShelvedIndex shelved = shelf.find(name, "index");
  const Json json = parse_json_body(request);
  const ApiFields body(json, "");
  body.allow({"question", "budget", "top", "context"});
  const std::string question = body.string("question");
  RetrieveOptions options;
  options.budget_tokens = body.integer("budget", options.budget_tokens, 1, kMostBudget);
  options.max_chunks = body.integer("top", options.max_chunks, 1, 10'000);
  options.context_chunks = body.integer("context", 0, 0, 100);
  const Retrieved found = retrieve(*shelved.index, question, options);
  Json answer = to_json(*shelved.index, found);
  answer["index"] = name;
  return json_answer(answer);
}

HttpResponse answer_indexes(IndexShelf& shelf, const HttpRequest& request, const ShelfPath& place) {
  if (place.name.empty()) {
    require_method(request, "GET, HEAD, POST");
    if (request.method == "POST") return put_index(shelf, request);
    Json data = Json::Array{};
    for (const auto& [name, shelved] : shelf.all()) data.push_back(described(name, shelved));
    return json_answer(list_of(std::move(data)));
  }
  if (place.rest == "/query") {
    require_method(request, "POST");
    return query_index(shelf, place.name, request);
  }
  if (!place.rest.empty()) throw ApiError(404, "expected /v1/indexes/NAME or .../NAME/query");
  require_method(request, kNamedMethods);
  if (request.method != "DELETE") {
    return json_answer(described(place.name, shelf.find(place.name, "index")));
  }
  shelf.remove(place.name);
  return json_answer(Json::Object{{"id", place.name}, {"object", "index"}, {"deleted", true}});
}

// The newest turns, oldest first.
Json turns_of(const std::string& name, const Memory& memory, int64_t count) {
  const TurnTable& table = memory.table();
  Json turns = Json::Array{};
  for (int64_t row = std::max<int64_t>(0, table.rows() - count); row < table.rows(); ++row) {
    turns.push_back(Json::Object{{"response", row},
                                 {"session", int64_t{table.session(row)}},
                                 {"time", time_text(table.time(row))},
                                 {"speaker", table.speaker_name(row)},
                                 {"text", std::string(table.text(row))}});
  }
  return Json::Object{{"id", name},
                      {"object", "memory"},
                      {"rows", table.rows()},
                      {"sessions", int64_t{table.sessions()}},
                      {"turns", std::move(turns)}};
}

int64_t wanted_turns(const std::string& query) {
  constexpr std::string_view kTurns = "turns=";
  if (query.empty()) return kShownTurns;
  require_field(query.starts_with(kTurns) && query.size() <= kTurns.size() + 5 &&
                    query.size() > kTurns.size() &&
                    std::all_of(query.begin() + static_cast<int64_t>(kTurns.size()), query.end(),
                                [](char c) { return c >= '0' && c <= '9'; }),
                "turns", "expected ?turns=N with N up to {}", kMostTurns);
  return std::min<int64_t>(kMostTurns, std::stoll(query.substr(kTurns.size())));
}

Json memories_json(const MemoryShelf& shelf) {
  Json data = Json::Array{};
  for (const std::string& name : shelf.names()) {
    data.push_back(Json::Object{{"id", name}, {"object", "memory"}});
  }
  Json list = list_of(std::move(data));
  list["enabled"] = shelf.enabled();
  list["tool"] = memory_tool_definition();
  return list;
}

HttpResponse answer_memories(MemoryShelf& shelf, const HttpRequest& request,
                             const ShelfPath& place) {
  if (place.name.empty()) {
    require_method(request, kReadingMethods);
    return json_answer(memories_json(shelf));
  }
  Json answer;
  constexpr auto kThere = MemoryShelf::IfAbsent::refuse;
  if (place.rest == "/query") {  // by question or by operators, as the tool takes them
    require_method(request, "POST");
    const Json arguments = parse_json_body(request);
    shelf.with(place.name, "memory", kThere,
               [&](Memory& memory) { answer = call_memory_tool(memory, arguments); });
    const Json* error = answer.find("error");
    if (error != nullptr) throw ApiError(400, error->string());
    return json_answer(answer);
  }
  if (!place.rest.empty()) throw ApiError(404, "expected /v1/memories/NAME or .../NAME/query");
  require_method(request, kNamedMethods);
  if (request.method != "DELETE") {
    const int64_t count = wanted_turns(request.query);
    shelf.with(place.name, "memory", kThere,
               [&](Memory& memory) { answer = turns_of(place.name, memory, count); });
    return json_answer(answer);
  }
  shelf.remove(place.name);
  return json_answer(Json::Object{{"id", place.name}, {"object", "memory"}, {"deleted", true}});
}

}  // namespace

std::optional<HttpResponse> answer_sources(Sources& sources, const HttpRequest& request) {
  if (const auto place = place_in(request.path, kIndexes)) {
    return answer_indexes(sources.indexes, request, *place);
  }
  if (const auto place = place_in(request.path, kMemories)) {
    return answer_memories(sources.memories, request, *place);
  }
  return std::nullopt;
}

std::string sources_label(const std::string& path) {
  for (const std::string_view root : {kIndexes, kMemories}) {
    const auto place = place_in(path, root);
    if (place && !place->name.empty()) {
      return std::string(root) + "/NAME" + (place->rest == "/query" ? "/query" : "");
    }
  }
  return path;
}

Json to_json(const Index& index, const Retrieved& found) {
  Json passages = Json::Array{};
  for (const Passage& p : found.passages) {
    passages.push_back(
        Json::Object{{"document", std::string(index.document_name(index.document_of(p.chunk)))},
                     {"chunk", int64_t{p.chunk}},
                     {"score", p.score},
                     {"tokens", p.tokens},
                     {"text", std::string(index.text(p.chunk))}});
  }
  Json json = Json::Object{
      {"route", route_name(found.route)}, {"tokens", found.tokens}, {"passages", passages}};
  if (found.counts.empty()) return json;
  Json counts = Json::Array{};
  for (const WordTimes& w : found.counts) {
    counts.push_back(Json::Object{{"word", w.word}, {"times", w.times}, {"chunks", w.chunks}});
  }
  json["counts"] = std::move(counts);
  return json;
}

}  // namespace tephra
