// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/bench_data.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>

#include "tephra/base/clock.h"
#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/json.h"
#include "tephra/base/parallel.h"
#include "tephra/data/corpus/json_text.h"
#include "tephra/data/corpus/line_windows.h"
#include "tephra/data/dedup/band_join.h"
#include "tephra/data/dedup/signer.h"
#include "tephra/data/dedup/survivors.h"
#include "tephra/data/filter/preset.h"
#include "tephra/data/json_line.h"
#include "tephra/io/zstd_frame.h"

namespace tephra {
namespace {

constexpr size_t kRecords = size_t{1} << 22;
constexpr size_t kPairs = 2000;
constexpr size_t kShingles = 700;

// A file of its own that goes when the run ends.
class TemporaryFile {
 public:
  TemporaryFile(const char* ending, std::string_view bytes)
      : path_(std::filesystem::temp_directory_path() /
              format("tephra-bench-{:x}{}", xxh3(bytes), ending)) {
    write_file(path_, bytes);
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const Path& path() const { return path_; }

 private:
  Path path_;
};

class Bench {
 public:
  explicit Bench(const DataBenchOptions& options) : options_(options) {
    for (const std::string& text : options.texts) {
      bytes_ += static_cast<double>(text.size());
      lines_ += "{\"text\":";
      append_json_string(lines_, text);
      lines_ += "}\n";
    }
    lines_.reserve(lines_.size() + LineWindow::kPadding);
  }

  std::vector<DataBenchRow> run() {
    const TemporaryFile plain(".jsonl", lines_);
    if (!options_.python.empty()) run_python(plain.path());
    bench_reading();
    bench_filters();
    for (const std::string& name : signature_preset_names()) bench_signature(name);
    bench_join();
    bench_verify();
    return std::move(rows_);
  }

 private:
  // Amount a second, the best pass of those that fit into the time.
  double best(double amount, FunctionRef<void()> pass) const {
    double least = 1e30;
    const double begin = steady_seconds();
    do {
      least = std::min(least, seconds_of(pass));
    } while (steady_seconds() - begin < options_.seconds);
    return amount / least;
  }

  void add(const std::string& what, double rate, const std::string& unit,
           std::optional<double> target = {}) {
    std::optional<double> python;
    if (const auto found = python_.find(what); found != python_.end()) python = found->second;
    rows_.push_back({what, rate, unit, target, python});
  }

  void bench_reading() {
    JsonLine parser;
    size_t sum = 0;
    const auto parse = [&](const Path& path) {
      LineWindows windows(path, size_t{4} << 20, size_t{1} << 28);
      for (bool last = false; !last;) {
        const LineWindow window = windows.next();
        for (const Line& line : window.lines) {
          sum += parser.padded_string_field(window.text(line), "text").size();
        }
        last = window.last;
      }
    };
    const double size = static_cast<double>(lines_.size()) * 1e-6;
    std::string_view lines = lines_;
    add("parse",
        best(size,
             [&] {
               for (size_t at = 0; at < lines.size();) {
                 const size_t end = lines.find('\n', at);
                 sum += parser.padded_string_field(lines.substr(at, end - at), "text").size();
                 at = end + 1;
               }
             }),
        "MB/s", 900);
    std::string frames;
    append_zstd_frame(frames, lines_, 3);
    const TemporaryFile compressed(".jsonl.zst", frames);
    add("read and parse .zst", best(size, [&] { parse(compressed.path()); }), "MB/s", 400);
    add("compress .zst, level 3",
        best(size,
             [&] {
               frames.clear();
               append_zstd_frame(frames, lines_, 3);
             }),
        "MB/s");
    TEPHRA_ASSERT(sum > 0, "documents were parsed");
  }

  void bench_filter(const std::string& what, const std::vector<std::string>& names, double target) {
    const std::vector<FilterPreset> presets = make_filters({names, FilterMode::compat, "", {}});
    std::vector<std::unique_ptr<FilterWorker>> workers;
    std::vector<std::vector<double>> values;
    for (const FilterPreset& preset : presets) {
      workers.push_back(preset.make_worker());
      values.emplace_back(preset.values.size());
    }
    add(what,
        best(bytes_ * 1e-6,
             [&] {
               for (const std::string& text : options_.texts) {
                 for (size_t i = 0; i < workers.size(); ++i) workers[i]->measure(text, values[i]);
               }
             }),
        "MB/s", target);
  }

  void bench_filters() {
    bench_filter("filter zyda1", {"zyda1"}, 150);
    bench_filter("filter gopher, c4, fineweb", {"c4", "gopher", "fineweb"}, 60);
  }

  void bench_signature(const std::string& name) {
    static const std::map<std::string, double> kTargets = {{"zyda1", 60},    {"zyda1-xxh3", 140},
                                                           {"fineweb", 130}, {"native", 250},
                                                           {"zyda2", 40},    {"zyda2-2024", 15}};
    const SignaturePreset preset = signature_preset(name);
    Signer signer(preset);
    std::vector<uint64_t> keys(static_cast<size_t>(preset.bands));
    const double rate = best(bytes_ * 1e-6, [&] {
      for (const std::string& text : options_.texts) signer.band_keys(text, keys);
    });
    const auto target = kTargets.find(name);
    add(name, rate, "MB/s",
        target == kTargets.end() ? std::nullopt : std::optional(target->second));
  }

  void bench_join() {
    std::vector<BandRecord> records(kRecords), work;
    for (size_t i = 0; i < kRecords; ++i) {
      const uint64_t pick = i % 10 == 0 ? i / 20 : i;  // a tenth has a twin
      records[i] = {xxh3(std::as_bytes(std::span(&pick, 1))), static_cast<uint32_t>(i)};
    }
    BandJoin join;
    double least = 1e30;
    for (int pass = 0; pass < 5; ++pass) {
      work = records;
      UnionFind sets(kRecords);
      least = std::min(least, seconds_of([&] { join.join(work, sets); }));
    }
    add("join of bands", static_cast<double>(kRecords) * 1e-6 / least, "M records/s", 20);
  }

  void bench_verify() {
    std::vector<std::vector<uint64_t>> sets(64);
    for (size_t s = 0; s < sets.size(); ++s) {
      for (uint64_t i = 0; i < kShingles; ++i) {
        const uint64_t pick = i * 1000 + (i % 10 < 7 ? 0 : s);  // seven tenths are shared
        sets[s].push_back(xxh3(std::as_bytes(std::span(&pick, 1))));
      }
      std::sort(sets[s].begin(), sets[s].end());
    }
    double sum = 0;
    add("compare sets of 700",
        best(kPairs * 1e-3,
             [&] {
               for (size_t i = 0; i < kPairs; ++i) {
                 sum += set_similarity(sets[i % 64], sets[(i / 64 + i + 1) % 64], 2048);
               }
             }),
        "k pairs/s", 100);
    TEPHRA_ASSERT(sum > 0, "sets were compared");
  }

  void run_python(const Path& documents) {
    const std::string command = format("python3 '{}' '{}'", options_.python, documents.string());
    std::FILE* pipe = ::popen(command.c_str(), "r");
    require(pipe != nullptr, "--python: python3 cannot be started");
    std::string out;
    std::array<char, 4096> buffer;
    while (const size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
      out.append(buffer.data(), got);
    }
    require(::pclose(pipe) == 0, "--python: {} failed", options_.python);
    const Json rates = Json::parse(out, options_.python);
    for (const auto& [name, value] : rates.object()) python_[name] = value.number();
  }

  const DataBenchOptions& options_;
  double bytes_ = 0;
  std::string lines_;
  std::map<std::string, double> python_;
  std::vector<DataBenchRow> rows_;
};

}  // namespace

std::vector<DataBenchRow> bench_data(const DataBenchOptions& options) {
  require(!options.texts.empty(), "expected documents, got none");
  const int threads = num_threads();
  set_num_threads(1);
  std::vector<DataBenchRow> rows = Bench(options).run();
  set_num_threads(threads);
  return rows;
}

}  // namespace tephra
