// SPDX-License-Identifier: Apache-2.0
// Whole stages of the data pipeline on files: reading, from raw to deduplicated, on more threads,
// and what they need of memory and disk.
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

#include "tephra/base/append_file.h"
#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/cli/bench_data_rows.h"
#include "tephra/data/corpus/line_windows.h"
#include "tephra/data/dedup/clusters.h"
#include "tephra/data/dedup/signature_files.h"
#include "tephra/data/formats/document_reader.h"
#include "tephra/data/formats/parquet_column.h"
#include "tephra/data/json_line.h"
#include "tephra/data/pipeline/pipeline.h"
#include "tephra/io/zstd_frame.h"

namespace tephra {
namespace {

constexpr int kLevel = 3;
constexpr size_t kFrameBytes = size_t{1} << 20;
constexpr size_t kJoinDocuments = 1000000, kFewDocuments = 10000;
constexpr int64_t kJoinBands = 16;

double megabytes(size_t bytes) { return static_cast<double>(bytes) * 1e-6; }

// Frames of a mebibyte, as stages write them.
std::string zstd_frames(std::string_view bytes) {
  std::string frames;
  for (size_t at = 0; at < bytes.size(); at += kFrameBytes) {
    append_zstd_frame(frames, bytes.substr(at, kFrameBytes), kLevel);
  }
  return frames;
}

size_t read_and_parse(const Path& path) {
  JsonLine parser;
  size_t sum = 0;
  LineWindows windows(path, size_t{4} << 20, size_t{1} << 28);
  for (bool last = false; !last;) {
    const LineWindow window = windows.next();
    for (const Line& line : window.lines) {
      sum += parser.padded_string_field(window.text(line), "text").size();
    }
    last = window.last;
  }
  return sum;
}

void bench_reading(DataBenchRows& rows, const Path& folder) {
  const std::string lines = json_lines(rows.options().texts);
  const double size = megabytes(lines.size());
  const Path plain = folder / "a.jsonl";
  write_file(plain, lines);
  if (rows.wanted("read and parse .zst")) {
    const Path path = folder / "a.jsonl.zst";
    write_file(path, zstd_frames(lines));
    rows.add(
        {1, "read and parse .zst", rows.best(size, [&] { read_and_parse(path); }), "MB/s", 400});
  }
  if (rows.wanted("read and parse .gz")) {
    const Path path = folder / "a.jsonl.gz";
    const std::string command = format("gzip -c '{}' > '{}'", plain.string(), path.string());
    require(std::system(command.c_str()) == 0, "{}: failed", command);
    rows.add(
        {1, "read and parse .gz", rows.best(size, [&] { read_and_parse(path); }), "MB/s", 350});
  }
  if (rows.wanted("compress .zst")) {
    rows.add({0, "compress .zst, level 3", rows.best(size, [&] { zstd_frames(lines); }), "MB/s"});
  }
}

size_t read_text_column(const Path& path) {
  const FileReader file(path);
  const ParquetMeta meta = read_parquet_meta(file);
  size_t sum = 0;
  for (const ParquetRowGroup& group : meta.groups) {
    ParquetColumnReader column(file, meta.columns[0], group.chunks[0]);
    for (int64_t row = 0; row < group.rows; ++row) {
      sum += column.next_string().value_or(std::string_view()).size();
    }
  }
  return sum;
}

// The pages of the text column decompressed and nothing else, to memory that is there already.
double decompress_rate(const DataBenchRows& rows, const Path& parquet) {
  const FileReader file(parquet);
  const ParquetMeta meta = read_parquet_meta(file);
  std::vector<std::pair<std::string, size_t>> pages;  // and their sizes before
  size_t bytes = 0;
  for (const ParquetRowGroup& group : meta.groups) {
    const ParquetChunk& chunk = group.chunks[0];
    std::string all(static_cast<size_t>(chunk.bytes), '\0');
    file.read(chunk.offset, std::as_writable_bytes(std::span(all)));
    for (std::string_view rest = all; !rest.empty();) {
      const ParquetPageHeader header = read_page_header(rest, parquet.string());
      const auto packed = static_cast<size_t>(header.packed_bytes);
      pages.emplace_back(rest.substr(header.header_bytes, packed), header.bytes);
      rest.remove_prefix(header.header_bytes + packed);
      bytes += static_cast<size_t>(header.bytes);
    }
  }
  RawBytes page;
  return rows.best(megabytes(bytes), [&] {
    for (const auto& [packed, size] : pages) {
      decompress_page(PageCodec::zstd, packed, size, page, parquet.string());
    }
  });
}

size_t read_all(ByteReader& reader) {
  std::vector<char> buffer(size_t{1} << 20);
  size_t sum = 0;
  while (const size_t got = reader.read(buffer)) sum += got;
  return sum;
}

void bench_parquet(DataBenchRows& rows, const Path& folder) {
  const DataBenchOptions& options = rows.options();
  if (options.duckdb.empty() || !rows.wanted("parquet")) return;
  const Path parquet = folder / "a.parquet";
  run_peer_script(rows,
                  format("python3 '{}' '{}' '{}' '{}'", options.duckdb_script, options.duckdb,
                         (folder / "a.jsonl").string(), parquet.string()),
                  "DuckDB");
  size_t bytes = 0;
  for (const std::string& text : options.texts) bytes += text.size();
  TEPHRA_ASSERT(read_text_column(parquet) == bytes, "all texts are read");
  DataBenchRow row{19, "parquet text column",
                   rows.best(megabytes(bytes), [&] { read_text_column(parquet); }), "MB/s", 600};
  row.ratio_target = 1.3;
  rows.add(row);
  rows.add({0, "the same pages, only decompressed", decompress_rate(rows, parquet), "MB/s"});
  rows.add({0, "parquet to JSON lines",
            rows.best(megabytes(bytes), [&] { read_all(*open_documents(parquet)); }), "MB/s"});
}

// Filtered, deduplicated and written: seconds of one run.
double run_whole(const Path& folder, const Path& input) {
  PipelineConfig config;
  config.inputs = {"web=" + input.string()};
  config.out = (folder / "whole").string();
  PipelineStage filter, dedup;
  filter.kind = "filter";
  dedup.kind = "dedup";
  dedup.dedup.max_loss = 1;
  config.stages = {filter, dedup};
  std::filesystem::remove_all(config.out);
  return seconds_of([&] { run_pipeline(config, false); });
}

// The texts in so many files of a folder.
Path write_parts(const std::vector<std::string>& texts, size_t parts, const Path& folder) {
  make_writable_folder(folder);
  for (size_t p = 0; p < parts; ++p) {
    const auto begin = texts.begin() + static_cast<ptrdiff_t>(p * texts.size() / parts);
    const auto end = texts.begin() + static_cast<ptrdiff_t>((p + 1) * texts.size() / parts);
    write_file(folder / format("part-{}.jsonl.zst", p), zstd_frames(json_lines({begin, end})));
  }
  return folder;
}

void bench_whole(DataBenchRows& rows, const Path& folder) {
  if (!rows.wanted("end to end")) return;
  size_t bytes = 0;
  for (const std::string& text : rows.options().texts) bytes += text.size();
  const auto best_of = [&](const Path& input, int threads) {
    set_num_threads(threads);
    double least = 1e30;
    for (int pass = 0; pass < 3; ++pass) least = std::min(least, run_whole(folder, input));
    return least;
  };
  const Path one = write_parts(rows.options().texts, 1, folder / "one");
  const double alone = best_of(one, 1);
  rows.add({12, "end to end: zyda1 filter, native dedup", megabytes(bytes) / alone, "MB/s", 40});
  if (std::thread::hardware_concurrency() > 1) {
    const Path four = write_parts(rows.options().texts, 4, folder / "four");
    rows.add({13, "end to end, two threads to one, four files", best_of(four, 1) / best_of(four, 2),
              "x", 1.85});
    rows.add({13, "end to end, two threads to one, one file", alone / best_of(one, 2), "x", 1.85});
  }
  set_num_threads(1);
}

// Highest memory of this process while `work` runs, beyond what it holds before.
double peak_bytes(FunctionRef<void()> work) {
  const auto status = [](std::string_view key) {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with(key)) return std::strtod(line.c_str() + key.size(), nullptr) * 1024;
    }
    return 0.0;
  };
  ::malloc_trim(0);                               // what was freed before is not there to be used
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak begins anew
  const double before = status("VmRSS:");
  work();
  return status("VmHWM:") - before;
}

// Band keys as signing leaves them, without the texts.
void write_bands(const Path& folder, const CorpusFile& file, size_t documents) {
  for (const char* kind : {"records", "bands"}) {
    make_writable_folder((folder / kind / file.title()).parent_path());
  }
  AppendFile bands(folder / "bands" / (file.title() + ".bin"), 0);
  AppendFile records(folder / "records" / (file.title() + ".bin"), 0);
  std::vector<uint64_t> keys(kJoinBands);
  for (size_t d = 0; d < documents; ++d) {
    for (size_t b = 0; b < keys.size(); ++b) {
      const uint64_t pick = (d % 10 == 0 ? d / 20 : d) * 64 + b;
      keys[b] = xxh3(std::as_bytes(std::span(&pick, 1)));
    }
    bands.append({reinterpret_cast<const char*>(keys.data()), 8 * keys.size()});
  }
  records.append(std::string(documents * sizeof(DocumentRecord), '\0'));
}

// To write that many bytes, have them on the disk, and read them from there: what records cost that
// do not fit into memory, whatever is done with them.
double disk_seconds(const Path& path, size_t bytes) {
  std::string part(kFrameBytes, '\0');
  for (size_t i = 0; i < part.size(); ++i) part[i] = static_cast<char>(i * i >> 7);
  const double seconds = seconds_of([&] {
    AppendFile file(path, 0);
    for (size_t at = 0; at < bytes; at += part.size()) file.append(part);
    file.flush();
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
    read_all(*ByteReader::open(path));
  });
  std::filesystem::remove(path);
  return seconds;
}

void bench_clusters(DataBenchRows& rows, const Path& folder) {
  if (!rows.wanted("clusters")) return;
  const std::vector<CorpusFile> files = {{"web", "a", "a.jsonl"}};
  const size_t documents = rows.is_small() ? kFewDocuments : kJoinDocuments;
  write_bands(folder, files[0], documents);
  const SignatureFiles signatures(files, folder, kJoinBands);
  const auto count = static_cast<double>(documents);
  const double record_count = count * kJoinBands * 1e-6;
  const auto cluster = [&](int64_t memory) {
    return [&, memory] { (void)find_clusters(signatures, folder / "exchange", memory); };
  };
  const auto one_band = static_cast<int64_t>(2 * sizeof(BandRecord) * documents);
  DataBenchRow memory{10, "clusters: memory where a band does not fit",
                      peak_bytes(cluster(one_band)) / count, "B/document", 32};
  memory.at_most = true;
  if (!rows.is_small()) rows.add(memory);  // pages are too coarse for little
  rows.add({9, "clusters from disk, all bands in memory",
            record_count / seconds_of(cluster(int64_t{4} << 30)), "M records/s"});
  // A tenth of what one band needs: the keys go through partitions on disk.
  const double read = seconds_of(
      [&] { read_all(*ByteReader::open(folder / "bands" / (files[0].title() + ".bin"))); });
  const double external = seconds_of(cluster(one_band / 10));
  rows.add({9, "clusters from disk, a tenth of a band in memory", record_count / external,
            "M records/s"});
  const double disk =
      disk_seconds(folder / "disk.bin", documents * kJoinBands * sizeof(BandRecord));
  rows.add({9, "the same as a share of the disk's bandwidth", 100 * disk / external, "%", 70});
  rows.add({0, "the same file only read", record_count / read, "M records/s"});
}

// What signing leaves on disk for each document.
void bench_signature_files(DataBenchRows& rows, const Path& folder) {
  if (!rows.wanted("signature files")) return;
  write_file(folder / "sign.jsonl", json_lines(rows.options().texts));
  const std::vector<CorpusFile> files = {{"web", "sign", folder / "sign.jsonl"}};
  const auto documents = static_cast<double>(rows.options().texts.size());
  for (const auto& [name, limit] : {std::pair("zyda1", 256.0), std::pair("zyda2", 64.0)}) {
    StageSettings settings;
    settings.out = folder / name;
    write_signatures(files, signature_preset(name), {"text", "score"}, settings);
    const auto bytes = std::filesystem::file_size(settings.out / "bands" / "web" / "sign.bin");
    DataBenchRow row{
        11, format("signature files of {}, beside {} of its place", name, sizeof(DocumentRecord)),
        static_cast<double>(bytes) / documents, "B/document", limit};
    row.at_most = true;
    rows.add(row);
  }
}

}  // namespace

void bench_data_files(DataBenchRows& rows) {
  const TemporaryFolder folder(kBenchDataFolder);
  bench_reading(rows, folder.path());
  bench_parquet(rows, folder.path());
  bench_whole(rows, folder.path());
  bench_clusters(rows, folder.path() / "signatures");
  bench_signature_files(rows, folder.path());
}

}  // namespace tephra
