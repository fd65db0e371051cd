// SPDX-License-Identifier: Apache-2.0
// The inner loops of the data pipeline, each on its own.
#include <map>
#include <memory>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/cli/bench_data_rows.h"
#include "tephra/data/corpus/line_windows.h"
#include "tephra/data/dedup/band_join.h"
#include "tephra/data/dedup/minhash.h"
#include "tephra/data/dedup/sha1.h"
#include "tephra/data/dedup/signer.h"
#include "tephra/data/dedup/survivors.h"
#include "tephra/data/filter/preset.h"
#include "tephra/data/json_line.h"

namespace tephra {
namespace {

constexpr size_t kRecords = size_t{1} << 22, kFewRecords = size_t{1} << 14;
constexpr size_t kPairs = 2000;
constexpr size_t kShingles = 700;

double megabytes_of(const std::vector<std::string>& texts) {
  double bytes = 0;
  for (const std::string& text : texts) bytes += static_cast<double>(text.size());
  return bytes * 1e-6;
}

void bench_parse(DataBenchRows& rows) {
  if (!rows.wanted("parse")) return;
  std::string lines = json_lines(rows.options().texts);
  lines.reserve(lines.size() + LineWindow::kPadding);
  const std::string_view all = lines;
  JsonLine parser;
  size_t sum = 0;
  const double rate = rows.best(static_cast<double>(lines.size()) * 1e-6, [&] {
    for (size_t at = 0; at < all.size();) {
      const size_t end = all.find('\n', at);
      sum += parser.padded_string_field(all.substr(at, end - at), "text").size();
      at = end + 1;
    }
  });
  TEPHRA_ASSERT(sum > 0, "documents were parsed");
  rows.add({1, "parse", rate, "MB/s", 900});
}

void bench_filter(DataBenchRows& rows, DataBenchRow row, const std::vector<std::string>& names) {
  if (!rows.wanted(row.what)) return;
  const std::vector<FilterPreset> presets = make_filters({names, FilterMode::compat, "", {}});
  std::vector<std::unique_ptr<FilterWorker>> workers;
  std::vector<std::vector<double>> values;
  for (const FilterPreset& preset : presets) {
    workers.push_back(preset.make_worker());
    values.emplace_back(preset.values.size());
  }
  TextParts parts;  // as it is for all of them, as if none changed it
  row.value = rows.best(megabytes_of(rows.options().texts), [&] {
    for (const std::string& text : rows.options().texts) {
      parts.set(text);
      for (size_t i = 0; i < workers.size(); ++i) workers[i]->measure(parts, values[i]);
    }
  });
  rows.add(row);
}

struct SignatureTarget {
  int number;
  double rate;
  const char* peer;  // whose ratio counts
  std::optional<double> ratio;
};

void bench_signatures(DataBenchRows& rows) {
  const std::map<std::string, SignatureTarget> targets = {
      {"zyda1", {2, 60, "zyda1", 40}},      {"zyda1-xxh3", {2, 140, "zyda1", 90}},
      {"fineweb", {3, 130, "fineweb", 85}}, {"native", {3, 250, "fineweb", 150}},
      {"zyda2", {4, 40, "", {}}},           {"zyda2-2024", {4, 15, "", {}}},
      {"native-chars", {4, 100, "", {}}}};
  for (const std::string& name : signature_preset_names()) {
    if (!rows.wanted("signatures " + name)) continue;
    const SignaturePreset preset = signature_preset(name);
    Signer signer(preset);
    std::vector<uint64_t> keys(static_cast<size_t>(preset.bands));
    DataBenchRow row{0, "signatures " + name, 0, "MB/s", {}};
    row.value = rows.best(megabytes_of(rows.options().texts), [&] {
      for (const std::string& text : rows.options().texts) signer.band_keys(text, keys);
    });
    const auto found = targets.find(name);
    if (found == targets.end()) {
      rows.add(row);
      continue;
    }
    row.number = found->second.number;
    row.target = found->second.rate;
    row.ratio_target = found->second.ratio;
    rows.add(row, found->second.peer);
  }
}

// From words to 128 minima, as datasketch has it: what libraries of sketches are compared by.
void bench_sketch(DataBenchRows& rows) {
  if (!rows.wanted("sketch")) return;
  std::vector<std::vector<std::string_view>> words;
  double bytes = 0;
  for (const std::string& text : rows.options().texts) {
    words.emplace_back();
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find_first_of(" \n\t\r", at), text.size());
      if (end > at) words.back().push_back(std::string_view(text).substr(at, end - at));
      at = end + 1;
    }
    for (const std::string_view word : words.back()) bytes += static_cast<double>(word.size()) + 1;
  }
  std::vector<uint32_t> hashes, minima(128);
  const auto rate_of = [&](const auto& family, const auto& hash) {
    return rows.best(bytes * 1e-6, [&] {
      for (const auto& document : words) {
        hashes.clear();
        for (const std::string_view word : document) hashes.push_back(hash(word));
        family.minima(hashes, minima);
      }
    });
  };
  const auto xxh3_low = [](std::string_view word) { return static_cast<uint32_t>(xxh3(word)); };
  DataBenchRow own{5,
                   "sketch of words, 128 values, native",
                   rate_of(Native32(native_family(128, 1)), xxh3_low),
                   "MB/s",
                   {}};
  own.ratio_target = 60;
  rows.add(own, "sketch");
  rows.add({0,
            "sketch of words, 128 values, as datasketch",
            rate_of(Mersenne32(datasketch_family(128, 1)), sha1_prefix),
            "MB/s",
            {}},
           "sketch");
}

void bench_join(DataBenchRows& rows) {
  if (!rows.wanted("join of bands")) return;
  const size_t count = rows.is_small() ? kFewRecords : kRecords;
  std::vector<BandRecord> records(count), work;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t pick = i % 10 == 0 ? i / 20 : i;  // a tenth has a twin
    records[i] = {xxh3(std::as_bytes(std::span(&pick, 1))), static_cast<uint32_t>(i)};
  }
  BandJoin join;
  double least = 1e30;
  for (int pass = 0; pass < 5; ++pass) {
    work = records;
    UnionFind sets(count);
    least = std::min(least, seconds_of([&] { join.join(work, sets); }));
  }
  rows.add({9, "join of bands", static_cast<double>(count) * 1e-6 / least, "M records/s", 20});
}

void bench_verify(DataBenchRows& rows) {
  if (!rows.wanted("compare sets")) return;
  std::vector<std::vector<uint64_t>> sets(64);
  for (size_t s = 0; s < sets.size(); ++s) {
    for (uint64_t i = 0; i < kShingles; ++i) {
      const uint64_t pick = i * 1000 + (i % 10 < 7 ? 0 : s);  // seven tenths are shared
      sets[s].push_back(xxh3(std::as_bytes(std::span(&pick, 1))));
    }
    std::sort(sets[s].begin(), sets[s].end());
  }
  double sum = 0;
  const double rate = rows.best(kPairs * 1e-3, [&] {
    for (size_t i = 0; i < kPairs; ++i) {
      sum += set_similarity(sets[i % 64], sets[(i / 64 + i + 1) % 64], 2048);
    }
  });
  TEPHRA_ASSERT(sum > 0, "sets were compared");
  rows.add({17, "compare sets of 700", rate, "k pairs/s", 100});
}

}  // namespace

void bench_data_loops(DataBenchRows& rows) {
  if (!rows.options().python.empty()) {
    const TemporaryFolder folder(kBenchDataFolder);
    const Path documents = folder.path() / "documents.jsonl";
    write_file(documents, json_lines(rows.options().texts));
    run_peer_script(rows, format("python3 '{}' '{}'", rows.options().python, documents.string()),
                    "Python");
  }
  bench_parse(rows);
  DataBenchRow zyda1{6, "filter zyda1", 0, "MB/s", 150};
  zyda1.ratio_target = 60;
  bench_filter(rows, zyda1, {"zyda1"});
  bench_filter(rows, {7, "filter gopher, c4, fineweb", 0, "MB/s", 60}, {"c4", "gopher", "fineweb"});
  bench_signatures(rows);
  bench_sketch(rows);
  bench_join(rows);
  bench_verify(rows);
}

}  // namespace tephra
