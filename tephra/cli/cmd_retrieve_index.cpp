// SPDX-License-Identifier: Apache-2.0
// tephra retrieve index: an index of documents, or more documents for one.
#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/output.h"
#include "tephra/cli/text_input.h"
#include "tephra/retrieve/documents.h"
#include "tephra/retrieve/index_builder.h"
#include "tephra/retrieve/index_file.h"

namespace tephra {
namespace {

struct Options {
  std::vector<std::string> paths;
  std::string out;
  bool append = false;
  bool force = false;
  std::string chunk = "auto";
  int64_t words = 64;
  bool json = false;
};

void describe(Flags& flags, Options& o) {
  flags
      .add("PATHS", o.paths,
           "text files, .jsonl files with \"text\" in each line, or folders of them; - reads stdin")
      .required();
  flags.add("--out FILE", o.out, "the index").required();
  flags.add("--append", o.append, "add to the index that is there; it keeps its way of chunking");
  flags.add("--force", o.force, "replace the index that is there");
  flags
      .add(
          "--chunk", o.chunk,
          "what is ranked: sentences, lines, runs of --words words, or whole documents; auto takes "
          "lines where a document looks like a list, else sentences")
      .choices({"auto", "sentences", "lines", "fixed", "whole"});
  flags.add("--words N", o.words, "words of a chunk with --chunk fixed").range(1, 100000);
  flags.add("--json", o.json, "one JSON document");
  flags.example("tephra retrieve index docs --out docs.index");
  flags.example("tephra retrieve index more.txt --out docs.index --append");
  flags.example("tephra retrieve index corpus.jsonl --out corpus.index --chunk whole");
}

void add_all(IndexBuilder& builder, const std::vector<std::string>& paths) {
  std::vector<Path> files;
  int64_t bytes = 0;
  for (const std::string& path : paths) {
    if (path == "-") continue;
    for (const Path& file : document_files(path)) {
      files.push_back(file);
      bytes += static_cast<int64_t>(std::filesystem::file_size(file));
    }
  }
  Progress progress("indexing", bytes, "B");
  for (const Path& file : files) {
    read_documents(file, [&](std::string_view name, std::string_view text) {
      stop_if_interrupted();
      builder.add(name, text);
      progress.add(static_cast<int64_t>(text.size()));
    });
  }
  for (const std::string& path : paths) {
    if (path == "-") builder.add("stdin", input_text({}, {}));
  }
}

IndexBuilder builder_of(const Options& o) {
  const bool exists = std::filesystem::exists(o.out);
  if (o.append) {
    require(exists, "--append: expected an index at {}, there is none", o.out);
    return IndexBuilder(open_index(o.out));
  }
  if (exists && !o.force) {
    throw Error(Fault::usage, format("{}: exists already", o.out),
                "--append adds to it, --force replaces it");
  }
  return IndexBuilder(ChunkOptions{parse_chunk_kind(o.chunk), static_cast<uint32_t>(o.words)});
}

void report(const Options& o, const Index& index, double seconds) {
  const int64_t words = index.words();
  if (o.json) {
    Json json;
    json["index"] = o.out;
    json["documents"] = index.documents();
    json["chunks"] = index.chunks();
    json["words"] = words;
    json["terms"] = index.terms();
    json["bytes"] = index.bytes();
    json["seconds"] = seconds;
    return print_json(json);
  }
  print("{}: {} documents, {} chunks, {} words, {} terms; {}, {:.1f} bytes a word; {}", o.out,
        human_count(index.documents()), human_count(index.chunks()), human_count(words),
        human_count(index.terms()), human_bytes(index.bytes()),
        static_cast<double>(index.bytes()) / static_cast<double>(words), human_seconds(seconds));
}

int run(const Options& o) {
  require(!(o.append && o.force), "--append and --force exclude each other");
  const double begin = steady_seconds();
  IndexBuilder builder = builder_of(o);
  add_all(builder, o.paths);
  const Index index = builder.finish();
  write_index(o.out, index);
  report(o, index, steady_seconds() - begin);
  return 0;
}

}  // namespace

Command retrieve_index_command() {
  return command<Options>("retrieve index", "make an index of documents, or add to one", describe,
                          run);
}

}  // namespace tephra
