// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/signature_files.h"

#include <algorithm>
#include <cstring>

#include "tephra/base/error.h"
#include "tephra/base/signals.h"
#include "tephra/data/dedup/document_sketch.h"
#include "tephra/data/json_line.h"

namespace tephra {
namespace {

constexpr const char* kRecords = "records";
constexpr const char* kBands = "bands";
constexpr const char* kSketches = "sketches";
constexpr const char* kSignatureEnding = ".bin";
constexpr size_t kSignatureBytes = size_t{1} << 20;

Path file_path(const Path& folder, const char* kind, const CorpusFile& file) {
  return folder / kind / (file.title() + kSignatureEnding);
}

template <class T>
void append_bytes(std::string& out, std::span<const T> values) {
  out.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

class PieceSigner {
 public:
  PieceSigner(const SignaturePreset& preset, const SignatureFields& fields)
      : fields_(fields), signer_(preset), keys_(static_cast<size_t>(preset.bands)) {}

  void work(const CorpusPiece& piece, PieceResult& result) {
    for (const Line& line : piece.lines) {
      try {
        sign(piece, line, result);
      } catch (const Error& error) {
        if (error.fault() != Fault::data) throw;
        result.bad(piece, line, error.what());
      }
    }
  }

 private:
  void sign(const CorpusPiece& piece, const Line& line, PieceResult& result) {
    const std::string_view text =
        parser_.padded_string_field(piece.window.text(line), fields_.text);
    const std::optional<std::string_view> given_id = parser_.find_string(kIdField);
    require_data(line.row <= UINT32_MAX, "expected at most 2^32 lines in a file");
    DocumentRecord record;
    record.row = static_cast<uint32_t>(line.row);
    record.bytes = static_cast<uint32_t>(text.size());
    if (!fields_.score.empty()) record.score = score(result.tally);
    record.is_short = signer_.band_keys(text, keys_) ? 0 : 1;
    append_bytes(result.streams[0], std::span<const DocumentRecord>(&record, 1));
    append_bytes(result.streams[1], std::span<const uint64_t>(keys_));
    if (fields_.sketches) {
      make_sketch(signer_, text, sketch_);
      append_sketch(result.streams[2], given_id ? std::string(*given_id) : piece.id(line), sketch_);
    }
    result.tally.count(counted::kDocuments);
    result.tally.count(counted::kTextBytes, static_cast<int64_t>(text.size()));
    result.tally.count("source." + piece.file.source + ".documents");
    if (record.is_short) result.tally.count("short_documents");
  }

  float score(Tally& tally) {
    const std::optional<double> number = parser_.find_number(fields_.score);
    if (number) tally.count("scored_documents");
    return static_cast<float>(number.value_or(0));
  }

  const SignatureFields& fields_;
  Signer signer_;
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> sketch_;
  JsonLine parser_;
};

}  // namespace

StageJob signature_job(const SignaturePreset& preset, const SignatureFields& fields,
                       StageSettings settings) {
  settings.what = "signatures";
  settings.inner = true;
  settings.streams = {{kRecords, kSignatureEnding, StreamCoding::plain},
                      {kBands, kSignatureEnding, StreamCoding::plain}};
  settings.settings = format("signatures {} {}x{} {} {}", preset.name, preset.bands, preset.rows,
                             fields.text, fields.score);
  if (fields.sketches) {
    settings.streams.push_back({kSketches, kSignatureEnding, StreamCoding::plain});
    settings.settings += " sketches";
  }
  return {.settings = std::move(settings),
          .work = [preset, fields](const CorpusPiece& piece, PieceResult& result) {
            PieceSigner(preset, fields).work(piece, result);
          }};
}

StageRun write_signatures(std::span<const CorpusFile> files, const SignaturePreset& preset,
                          const SignatureFields& fields, StageSettings settings) {
  const StageJob job = signature_job(preset, fields, std::move(settings));
  return run_jobs(files, std::span(&job, 1)).front();
}

SignatureFiles::SignatureFiles(std::span<const CorpusFile> files, const Path& folder, int64_t bands)
    : files_(files), folder_(folder), bands_(bands), first_(1, 0) {
  for (const CorpusFile& file : files) {
    const std::uintmax_t bytes = std::filesystem::file_size(file_path(folder, kRecords, file));
    first_.push_back(first_.back() + bytes / sizeof(DocumentRecord));
  }
  require_data(documents() < UINT32_MAX, "expected fewer than 2^32 documents, got {}", documents());
}

size_t SignatureFiles::file_of(uint32_t document) const {
  return static_cast<size_t>(std::upper_bound(first_.begin(), first_.end(), document) -
                             first_.begin()) -
         1;
}

std::vector<DocumentRecord> SignatureFiles::records(size_t file) const {
  const FileReader reader(file_path(folder_, kRecords, files_[file]));
  std::vector<DocumentRecord> records(first_[file + 1] - first_[file]);
  reader.read(0, std::as_writable_bytes(std::span(records)));
  return records;
}

void SignatureFiles::each_document(FunctionRef<void(uint32_t document, const uint64_t* keys)> use,
                                   const Shard& shard) const {
  const auto bands = static_cast<size_t>(bands_);
  std::vector<uint64_t> keys;
  const auto first_file = static_cast<size_t>(shard.index);
  for (size_t file = first_file; file < files_.size(); file += static_cast<size_t>(shard.count)) {
    const FileReader reader(file_path(folder_, kBands, files_[file]));
    const size_t documents = first_[file + 1] - first_[file];
    const size_t step = std::max<size_t>(1, kSignatureBytes / (8 * bands));
    for (size_t begin = 0; begin < documents; begin += step) {
      const size_t count = std::min(step, documents - begin);
      keys.resize(count * bands);
      reader.read(static_cast<int64_t>(begin * bands * 8), std::as_writable_bytes(std::span(keys)));
      for (size_t i = 0; i < count; ++i) {
        use(static_cast<uint32_t>(first_[file] + begin + i), keys.data() + i * bands);
      }
    }
    stop_if_interrupted();
  }
}

std::vector<BandRecord> SignatureFiles::band(int64_t at, uint64_t part, uint64_t parts) const {
  const uint64_t width = parts == 1 ? 0 : UINT64_MAX / parts + 1;
  std::vector<BandRecord> records;
  records.reserve(documents() / parts + documents() / parts / 8 + 16);
  each_document([&](uint32_t document, const uint64_t* keys) {
    const uint64_t key = keys[at];
    if (parts == 1 || key / width == part) records.push_back({key, document});
  });
  return records;
}

void SignatureFiles::each_sketch(FunctionRef<void(uint32_t document, std::string_view bytes)> use,
                                 const Shard& shard) const {
  const auto first_file = static_cast<size_t>(shard.index);
  for (size_t file = first_file; file < files_.size(); file += static_cast<size_t>(shard.count)) {
    const Path path = file_path(folder_, kSketches, files_[file]);
    const auto mapped = MappedFile::open(path);
    const std::span<const std::byte> bytes = mapped->bytes();
    std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    for (size_t i = first_[file]; i < first_[file + 1]; ++i) {
      const std::string_view before = rest;
      take_sketch(rest, path.string());
      use(static_cast<uint32_t>(i), before.substr(0, before.size() - rest.size()));
    }
  }
}

}  // namespace tephra
