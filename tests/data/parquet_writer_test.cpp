// SPDX-License-Identifier: Apache-2.0
// Documents written as Parquet and read back: every field of every document, whatever its kind, the
// same bytes on any number of threads and after a stop anywhere.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <random>

#include "tephra/base/json.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/corpus/output_folder.h"
#include "tephra/data/corpus/stage.h"
#include "tephra/data/filter/filter_corpus.h"
#include "tephra/data/formats/document_reader.h"
#include "tephra/data/formats/parquet_writer.h"
#include "tephra/data/tokenize.h"
#include "tests/data/test_tokenizer.h"
#include "tests/support/error_of.h"
#include "tests/support/scratch.h"

namespace tephra {
namespace {

// The same text for equal values: keys sorted, whole numbers without a point.
std::string plain_form(const Json& json) {
  if (json.is_number() && !json.is_int() && std::abs(json.number()) < 1e15) {
    const auto whole = static_cast<int64_t>(json.number());
    if (static_cast<double>(whole) == json.number()) return std::to_string(whole);
  }
  if (json.is_array()) {
    std::string all = "[";
    for (const Json& each : json.array()) all += plain_form(each) + ",";
    return all + "]";
  }
  if (!json.is_object()) return json.dump();
  std::vector<std::string> fields;
  for (const auto& [key, value] : json.object()) {
    fields.push_back(Json(key).dump() + ":" + plain_form(value));
  }
  std::sort(fields.begin(), fields.end());
  std::string all = "{";
  for (const std::string& field : fields) all += field + ",";
  return all + "}";
}

std::vector<std::string> plain_lines(std::string_view text) {
  std::vector<std::string> lines;
  for (const std::string_view line : split(text, '\n')) {
    if (!line.empty()) lines.push_back(plain_form(Json::parse(line, "line")));
  }
  return lines;
}

std::string read_documents(const Path& path) {
  const std::unique_ptr<ByteReader> reader = open_documents(path);
  std::string all, part(1 << 16, '\0');
  while (const size_t got = reader->read(part)) all.append(part, 0, got);
  return all;
}

void add_groups(ParquetWriter& writer, std::vector<std::string>& pieces, std::string& out) {
  for (std::string& piece : pieces) {
    writer.choose_columns(piece);
    writer.add_group(writer.pages_of(piece), out);
  }
}

// A file with a row group for each piece of each list.
std::string parquet_of(std::vector<std::vector<std::string>> groups) {
  ParquetWriter writer(3);
  std::string bytes;
  for (std::vector<std::string>& pieces : groups) add_groups(writer, pieces, bytes);
  writer.finish(bytes);
  return bytes;
}

std::string after_round_trip(const std::vector<std::vector<std::string>>& groups) {
  const Scratch scratch;
  write_file(scratch / "a.parquet", parquet_of(groups));
  return read_documents(scratch / "a.parquet");
}

TEST(ParquetWriter, KeepsEveryKindOfFieldAndWhatDoesNotFit) {
  const std::string first =
      R"({"text":"größe \u0000 \"你好\"\n","n":-9223372036854775808,"x":0.1,"flag":true,"nested":{"a":[1,{"b":null}]}})"
      "\n"
      R"({"n":7,"text":"","flag":false,"mixed":1,"only_null":null,"x":3,"tephra_other":{"deep":1}})"
      "\n"
      R"({"mixed":"one","text":"t","big":18446744073709551615,"":"no name"})"
      "\n";
  // The columns are fixed: a string where numbers were, a number that a double cannot hold, new
  // fields, a field twice.
  const std::string second =
      R"({"text":"u","n":"seven","x":9007199254740993,"new":[],"flag":null,"mixed":{"is":"any"}})"
      "\n"
      R"({"x":1e300,"n":1.5})"
      "\n{}\n";
  EXPECT_EQ(plain_lines(after_round_trip({{first}, {second}})), plain_lines(first + second));
  const std::string twice = R"({"a":1,"a":2})"
                            "\n";
  EXPECT_EQ(after_round_trip({{twice}}), twice);
}

TEST(ParquetWriter, KeepsListsAndWhatDoesNotFitThem) {
  const std::string first =
      R"({"q":[0.5,1,null,"NaN"],"s":["a","","größe"],"b":[true,false],"n":[1,2],"e":[],"m":[1,"x"],"x":0.5})"
      "\n"
      R"({"q":[],"s":[null],"d":[[1],[2]],"x":"Infinity","word":"Infinity","b":[]})"
      "\n"
      R"({"q":["-Infinity"],"word":"plain","x":"-Infinity"})"
      "\n";
  const std::string second =
      R"({"q":["word"],"s":[1],"b":[null,true],"n":[9223372036854775808],"e":["now"],"m":[],"x":"word"})"
      "\n"
      R"({"q":[9007199254740993],"s":null,"n":3,"x":["NaN"],"b":{"not":"a list"}})"
      "\n";
  EXPECT_EQ(plain_lines(after_round_trip({{first}, {second}})), plain_lines(first + second));
  SeenFields seen;
  seen.add_lines(first);
  std::vector<std::string> types;
  for (const DocumentColumn& column : seen.columns()) {
    types.push_back(column.name + " " + column_type_name(column));
  }
  EXPECT_EQ(types,
            (std::vector<std::string>{"q list of real", "s list of string", "b list of boolean",
                                      "n list of integer", "e json", "m json", "x real", "d json",
                                      "word string", "tephra_other json"}));
}

TEST(ParquetWriter, WritesAFileWithoutDocuments) {
  EXPECT_EQ(after_round_trip({}), "");
  EXPECT_EQ(after_round_trip({{"", ""}, {"{\"text\":\"late\"}\n"}}), "{\"text\":\"late\"}\n");
}

TEST(ParquetWriter, CutsLongValuesIntoPagesAndManyFieldsIntoTheRest) {
  std::string lines = "{\"text\":\"" + std::string(5 << 20, 'x') + "\"}\n{";
  for (int i = 0; i < 1000; ++i) {
    lines += (i > 0 ? ",\"f" : "\"f") + std::to_string(i) + "\":" + std::to_string(i);
  }
  lines += "}\n";
  EXPECT_EQ(plain_lines(after_round_trip({{lines}})), plain_lines(lines));
}

TEST(ParquetWriter, KeepsLongListsAsJson) {
  std::string numbers = "1";
  for (int i = 0; i < 100'000; ++i) numbers += ",0";
  const std::string lines = "{\"a\":[1,2]}\n{\"a\":[" + numbers + "]}\n";
  EXPECT_EQ(plain_lines(after_round_trip({{lines}})), plain_lines(lines));
  const std::string later = "{\"a\":[" + numbers + "]}\n";
  EXPECT_EQ(plain_lines(after_round_trip({{"{\"a\":[1,2]}\n"}, {later}})),
            plain_lines("{\"a\":[1,2]}\n" + later));
}

std::string random_lines(std::mt19937& random, int count) {
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  const char* const values[] = {
      "null",       "true",          "-3",          "2.5",    "\"s\"",
      "[1]",        "{\"k\":0}",     "\"\\u20ac\"", "1e-7",   "12345678901234",
      "[1,null,2]", "[\"a\",\"b\"]", "[]",          "\"NaN\""};
  std::string lines;
  for (int i = 0; i < count; ++i) {
    std::string line;
    for (char name = 'a'; name < 'h'; ++name) {
      if (below(3) == 0) continue;
      // Each field mostly of one kind.
      const uint32_t kind = below(20) == 0 ? below(14) : static_cast<uint32_t>(name - 'a');
      line += line.empty() ? "{\"" : ",\"";
      line += name;
      line += std::string("\":") + values[kind];
    }
    lines += line.empty() ? "{}\n" : line + "}\n";
  }
  return lines;
}

TEST(ParquetWriter, ReadsBackRandomDocumentsAndGoesOnFromAnyState) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::vector<std::string>> groups;
    std::string all;
    for (uint32_t g = 0; g < 1 + random() % 4; ++g) {
      groups.emplace_back();
      for (uint32_t p = 0; p < random() % 4; ++p) {
        groups.back().push_back(random_lines(random, static_cast<int>(random() % 40)));
        all += groups.back().back();
      }
    }
    const std::string whole = parquet_of(groups);
    EXPECT_EQ(plain_lines(after_round_trip(groups)), plain_lines(all));
    std::string bytes;
    Json state;
    for (std::vector<std::string>& pieces : groups) {
      ParquetWriter writer(3, Json::parse(state.dump(), "state"), "state");
      add_groups(writer, pieces, bytes);
      state = writer.state();
    }
    ParquetWriter(3, state, "state").finish(bytes);
    EXPECT_TRUE(bytes == whole) << round;
  }
}

TEST(ParquetWriter, RefusesADamagedState) {
  Json state;
  state["offset"] = 4;
  state["columns"] = Json(Json::Array{});
  state["groups"] = Json(Json::Array{Json(Json::Array{Json(1), Json(2)})});
  EXPECT_EQ(error_of([&] { ParquetWriter(3, state, "journal"); }).fault(), Fault::data);
}

// Keeps every second document; in small windows, so that there are several row groups.
struct ParquetStage {
  Scratch scratch;
  std::vector<CorpusFile> files;

  ParquetStage() {
    std::filesystem::create_directory(scratch / "in");
    std::mt19937 random(11);
    for (const char* name : {"a", "b", "c"}) {
      std::string lines;
      for (int i = 0; i < 6000; ++i) {
        lines += "{\"text\":\"" + std::string(random() % 900, static_cast<char>('a' + i % 26)) +
                 "\",\"n\":" + std::to_string(i) + (i % 7 == 0 ? ",\"tags\":[\"x\"]" : "") + "}\n";
      }
      write_file(scratch / "in" / (std::string(name) + ".jsonl"), lines);
    }
    files = corpus_files(std::vector<std::string>{(scratch / "in").string()});
  }

  static void halve(const CorpusPiece& piece, PieceResult& result) {
    for (const Line& line : piece.lines) {
      if (line.row % 2 == 0) continue;
      result.streams[0] += piece.window.text(line);
      result.streams[0] += '\n';
    }
  }

  void run(const std::string& out, const PieceWork& work, Shard shard = {}) const {
    StageSettings settings;
    settings.what = "halve";
    settings.out = scratch / out;
    settings.format = DocumentFormat::parquet;
    settings.streams = {documents_stream(settings)};
    settings.window_bytes = 1 << 19;
    settings.journal_bytes = 1;
    settings.shard = shard;
    const bool complete = run_stage(files, settings, work).complete;
    if (complete && shard.count == 1) finish_stage(settings.out);
  }

  std::string bytes(const std::string& out) const {
    std::string all;
    for (const CorpusFile& file : files) {
      all += read_file(scratch / out / "documents" / (file.title() + ".parquet"));
    }
    return all;
  }
};

TEST(ParquetWriter, GivesTheSameFilesForThreadsShardsAndStops) {
  const ParquetStage stage;
  const int before = num_threads();
  set_num_threads(1);
  stage.run("one", ParquetStage::halve);
  const std::string want = stage.bytes("one");
  const std::string lines =
      read_documents(stage.scratch / "one" / "documents" / "in" / "b.parquet");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3000);
  for (const int threads : {2, 7}) {
    set_num_threads(threads);
    stage.run(std::to_string(threads), ParquetStage::halve);
    EXPECT_TRUE(stage.bytes(std::to_string(threads)) == want) << threads;
  }
  set_num_threads(before);
  for (const int64_t shard : {1, 0}) stage.run("shards", ParquetStage::halve, {shard, 2});
  stage.run("shards", [](const CorpusPiece&, PieceResult&) { FAIL(); });
  EXPECT_TRUE(stage.bytes("shards") == want);
  for (const int stop_after : {1, 3, 5, 8}) {
    const std::string out = "stopped" + std::to_string(stop_after);
    std::atomic<int> calls{0};
    const auto stopping = [&](const CorpusPiece& piece, PieceResult& result) {
      if (++calls > stop_after) throw Error(Fault::interrupted, "stopped");
      ParquetStage::halve(piece, result);
    };
    EXPECT_EQ(error_of([&] { stage.run(out, stopping); }).fault(), Fault::interrupted);
    stage.run(out, ParquetStage::halve);
    EXPECT_TRUE(stage.bytes(out) == want) << stop_after;
  }
}

TEST(ParquetWriter, FeedsTheNextStageAndTheTokenizer) {
  const Scratch scratch;
  std::filesystem::create_directory(scratch / "web");
  std::string lines;
  for (int i = 0; i < 50; ++i) {
    lines += "{\"text\":\"the cat sat on mat number " + std::to_string(i) +
             "\",\"meta\":{\"i\":" + std::to_string(i) + "}}\n";
  }
  write_file(scratch / "web" / "a.jsonl", lines);
  FilterOptions options;
  options.choice.thresholds = {"zyda1.length_min=1"};
  const auto filter = [&](const char* from, const char* to, DocumentFormat format) {
    StageSettings stage;
    stage.out = scratch / to;
    stage.format = format;
    filter_corpus(corpus_files(std::vector<std::string>{(scratch / from).string()}), options,
                  stage);
  };
  filter("web", "columns", DocumentFormat::parquet);
  filter("web", "lines", DocumentFormat::jsonl);
  filter("columns", "back", DocumentFormat::jsonl);
  EXPECT_EQ(plain_lines(read_documents(scratch / "back/documents/web/a.jsonl.zst")),
            plain_lines(read_documents(scratch / "lines/documents/web/a.jsonl.zst")));
  for (const char* name : {"columns", "lines"}) {
    const std::vector<Path> files =
        text_files(std::vector<std::string>{(scratch / name / "documents").string()});
    tokenize_files(files, *test_tokenizer(), scratch / name / "tokens", {});
  }
  EXPECT_EQ(read_file(scratch / "columns" / "tokens.bin"),
            read_file(scratch / "lines" / "tokens.bin"));
}

}  // namespace
}  // namespace tephra
