// SPDX-License-Identifier: Apache-2.0
// Deduplication held to the truth: planted pairs against the theory of bands, removals against
// brute force, and texts that look alike only to a careless recipe.
#include <cmath>
#include <random>
#include <set>

#include "tephra/base/error.h"
#include "tephra/base/parallel.h"
#include "tephra/cli/bench_data_rows.h"
#include "tephra/cli/sample_text.h"
#include "tephra/data/dedup/dedup_corpus.h"
#include "tephra/data/json_line.h"
#include "tephra/data/line_reader.h"

namespace tephra {
namespace {

constexpr size_t kShingleCount = 120;  // of a planted document
constexpr double kSimilarities[] = {0.3,  0.35, 0.4,  0.45, 0.5,  0.55, 0.6,
                                    0.65, 0.7,  0.75, 0.8,  0.85, 0.9,  0.95};

// Words of letters only, so that no normalisation joins two of them.
void append_word(std::string& text, std::mt19937_64& random) {
  uint64_t bits = random();
  for (int i = 0; i < 6; ++i, bits /= 26) text += static_cast<char>('a' + bits % 26);
  text += ' ';
}

struct PlantedPair {
  std::string a, b;
};

// Two texts of kShingleCount shingles each of which as many are shared as the similarity asks for.
PlantedPair plant(double similarity, const SignaturePreset& preset, std::mt19937_64& random) {
  const bool chars = preset.kind == SignatureKind::zyda2 ||
                     preset.kind == SignatureKind::zyda2_2024 ||
                     preset.kind == SignatureKind::native_chars;
  const auto width = static_cast<size_t>(preset.shingle);
  const auto shared =
      static_cast<size_t>(std::lround(2.0 * kShingleCount * similarity / (1 + similarity)));
  const auto fill = [&](std::string& text, size_t units) {
    for (size_t i = 0; i < units; ++i) {
      if (chars) {
        text += static_cast<char>('a' + random() % 26);
      } else {
        append_word(text, random);
      }
    }
  };
  std::string common;
  fill(common, shared + width - 1);
  PlantedPair pair{common, common};
  fill(pair.a, kShingleCount - shared);
  fill(pair.b, kShingleCount - shared);
  return pair;
}

// How far the share of pairs that become candidates is from the theory at one similarity.
double recall_error(const SignaturePreset& preset, double similarity, int64_t pairs) {
  constexpr int64_t kGrain = 500;
  std::vector<double> found(static_cast<size_t>(ceil_div(pairs, kGrain))), want(found.size());
  parallel_for(pairs, kGrain, [&](int64_t begin, int64_t end) {
    std::mt19937_64 random(static_cast<uint64_t>(begin) * 1000003 +
                           static_cast<uint64_t>(similarity * 1e4));
    Signer signer(preset);
    const auto bands = static_cast<size_t>(preset.bands);
    std::vector<uint64_t> keys_a(bands), keys_b(bands), set_a, set_b;
    const auto at = static_cast<size_t>(begin / kGrain);
    for (int64_t i = begin; i < end; ++i) {
      const PlantedPair pair = plant(similarity, preset, random);
      signer.band_keys(pair.a, keys_a);
      signer.band_keys(pair.b, keys_b);
      bool shared = false;
      for (size_t b = 0; b < bands; ++b) shared |= keys_a[b] == keys_b[b];
      found[at] += shared;
      signer.shingle_set(pair.a, 1 << 20, set_a);
      signer.shingle_set(pair.b, 1 << 20, set_b);
      want[at] +=
          candidate_chance(set_similarity(set_a, set_b, 1 << 20), preset.bands, preset.rows);
    }
  });
  double difference = 0;
  for (size_t i = 0; i < found.size(); ++i) difference += found[i] - want[i];
  return std::abs(difference) / static_cast<double>(pairs);
}

void recall_rows(DataBenchRows& rows, int64_t pairs) {
  for (const std::string& name : signature_preset_names()) {
    const SignaturePreset preset = signature_preset(name);
    if (preset.kind == SignatureKind::exact) continue;
    double worst = 0;
    for (const double similarity : kSimilarities) {
      worst = std::max(worst, recall_error(preset, similarity, pairs));
    }
    DataBenchRow row{15, format("recall of {}: worst distance from theory", name), worst, "", 0.02};
    row.at_most = true;
    rows.add(row);
  }
}

DedupOptions dedup_of(const std::string& preset) {
  DedupOptions options;
  options.preset = signature_preset(preset);
  options.max_source_loss = 1;
  return options;
}

StageRun dedup_texts(const std::vector<std::string>& texts, const std::string& preset,
                     const Path& folder) {
  std::filesystem::remove_all(folder);
  make_writable_folder(folder);
  write_file(folder / "a.jsonl", json_lines(texts));
  StageSettings stage;
  stage.out = folder / "out";
  const std::vector<CorpusFile> files = {{"web", "a", folder / "a.jsonl"}};
  return dedup_corpus(files, dedup_of(preset), stage);
}

// Originals, and copies of which so many words are others that all similarities occur.
std::vector<std::string> edited_corpus(int64_t documents) {
  std::mt19937_64 random(7);
  std::vector<std::vector<std::string>> originals;
  std::vector<std::string> texts;
  for (int64_t i = 0; i < documents; ++i) {
    std::vector<std::string> words;
    if (i % 2 == 1) {
      words = originals[random() % originals.size()];
      const uint64_t edits = random() % 30;
      for (uint64_t e = 0; e < edits; ++e) {
        std::string& word = words[random() % words.size()];
        word.clear();
        append_word(word, random);
      }
    } else {
      for (int w = 0; w < 150; ++w) append_word(words.emplace_back(), random);
      originals.push_back(words);
    }
    std::string& text = texts.emplace_back();
    for (const std::string& word : words) text += word;
  }
  return texts;
}

// Jaccard similarity of the n words in a row of two texts, by the texts themselves.
double brute_force(const std::string& a, const std::string& b, size_t n) {
  const auto shingles = [n](const std::string& text) {
    std::vector<size_t> starts = {0};
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == ' ') starts.push_back(i + 1);
    }
    std::set<std::string> set;
    for (size_t i = 0; i + n < starts.size(); ++i) {
      set.insert(text.substr(starts[i], starts[i + n] - starts[i]));
    }
    return set;
  };
  const std::set<std::string> x = shingles(a), y = shingles(b);
  size_t both = 0;
  for (const std::string& each : x) both += y.contains(each);
  return static_cast<double>(both) / static_cast<double>(x.size() + y.size() - both);
}

size_t row_of(std::string_view place) {
  return static_cast<size_t>(std::stoll(std::string(place.substr(place.rfind(':') + 1))));
}

void precision_rows(DataBenchRows& rows, int64_t documents, const Path& folder) {
  const std::vector<std::string> texts = edited_corpus(documents);
  for (const char* name : {"native", "zyda1", "fineweb"}) {
    const SignaturePreset preset = signature_preset(name);
    const StageRun run = dedup_texts(texts, name, folder);
    LineReader lines(folder / "out" / "removed" / "web" / "a.jsonl.zst");
    JsonLine parser;
    int64_t removed = 0, right = 0;
    for (std::string_view line; lines.next(line); ++removed) {
      const size_t gone = row_of(parser.string_field(line, "place"));
      const size_t kept = row_of(parser.string_field(line, "kept"));
      right += brute_force(texts[gone - 1], texts[kept - 1], static_cast<size_t>(preset.shingle)) >=
               preset.similarity;
    }
    TEPHRA_ASSERT(removed == run.tally["removed"] && removed > 0, "each removal is named");
    rows.add({16, format("precision of {}: {} removals that are right", name, removed),
              100 * static_cast<double>(right) / static_cast<double>(removed), "%", 99.5});
  }
}

// Long texts of the same language that have nothing to do with each other.
void trap_rows(DataBenchRows& rows, const Path& folder) {
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 60; ++i) texts.push_back(sample_text(200000, 1000 + i));
  for (const char* name : {"native", "zyda1", "zyda2", "fineweb", "native-chars"}) {
    const StageRun run = dedup_texts(texts, name, folder);
    DataBenchRow row{16, format("unrelated long texts that {} removes", name),
                     static_cast<double>(run.tally["removed"]), "documents", 0};
    row.at_most = true;
    rows.add(row);
  }
}

std::string chinese(std::mt19937_64& random) {
  std::string text;
  const size_t length = 100 + random() % 200;
  for (size_t i = 0; i < length; ++i) {
    const auto point = static_cast<unsigned>(0x4e00 + random() % 3000);
    text += static_cast<char>(0xe0 | point >> 12);
    text += static_cast<char>(0x80 | (point >> 6 & 63));
    text += static_cast<char>(0x80 | (point & 63));
  }
  return text;
}

void unspaced_rows(DataBenchRows& rows, int64_t documents, const Path& folder) {
  std::mt19937_64 random(29);
  std::vector<std::string> texts;
  for (int64_t i = 0; i < documents; ++i) texts.push_back(chinese(random));
  for (const char* name : {"native", "zyda1", "zyda2", "fineweb", "native-chars"}) {
    const StageRun run = dedup_texts(texts, name, folder);
    rows.add({18, format("distinct Chinese documents that {} keeps", name),
              static_cast<double>(run.tally["kept"]), "documents", static_cast<double>(documents)});
  }
}

}  // namespace

std::vector<DataBenchRow> bench_data_quality(const DataQualityOptions& options) {
  const DataBenchOptions none;
  DataBenchRows rows(none);
  const TemporaryFolder folder(kBenchDataFolder);
  recall_rows(rows, options.pairs);
  precision_rows(rows, options.documents, folder.path() / "quality");
  trap_rows(rows, folder.path() / "quality");
  unspaced_rows(rows, options.documents, folder.path() / "quality");
  return rows.take();
}

}  // namespace tephra
