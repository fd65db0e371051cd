// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/index_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/progress.h"
#include "tephra/base/signals.h"
#include "tephra/data/dedup/document_sketch.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

// One process at a time may add to an index.
class IndexLock {
 public:
  explicit IndexLock(const Path& folder) {
    const Path path = folder / "lock";
    fd_ = ::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    require(fd_ >= 0, "{}: cannot be written: {}", path.string(), std::strerror(errno));
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      ::close(fd_);
      throw Error(Fault::usage, format("{}: another process adds to this index", folder.string()),
                  "run the same command again when it is done");
    }
  }
  ~IndexLock() { ::close(fd_); }
  IndexLock(const IndexLock&) = delete;
  IndexLock& operator=(const IndexLock&) = delete;

 private:
  int fd_;
};

// A file with the hash of what is written to it.
class HashedFile {
 public:
  explicit HashedFile(const Path& path) : file_(path) {}
  void write(std::span<const std::byte> bytes) {
    file_.write(bytes);
    hash_.add(bytes);
    size_ += bytes.size();
  }
  uint64_t commit() {
    file_.commit();
    return hash_.value();
  }
  size_t size() const { return size_; }

 private:
  AtomicFile file_;
  Xxh3 hash_;
  size_t size_ = 0;
};

// Documents that are added, numbered anew.
struct Chosen {
  const SignatureFiles& signatures;
  const std::vector<bool>& left_out;
  int64_t bands;
  int64_t count = 0;

  // The keys of one band with the new numbers.
  std::vector<BandRecord> band(int64_t at) const {
    std::vector<BandRecord> records;
    records.reserve(static_cast<size_t>(count));
    uint32_t next = 0;
    for (const BandRecord& record : signatures.band(at)) {
      if (!left_out[record.document]) records.push_back({record.key, next++});
    }
    return records;
  }
};

uint64_t write_bands(const Path& path, const Chosen& chosen) {
  HashedFile file(path);
  Progress progress("index", chosen.bands, "bands");
  for (int64_t band = 0; band < chosen.bands; ++band) {
    std::vector<BandRecord> records = chosen.band(band);
    std::sort(records.begin(), records.end(), [](const BandRecord& a, const BandRecord& b) {
      return a.key != b.key ? a.key < b.key : a.document < b.document;
    });
    file.write(std::as_bytes(std::span<const BandRecord>(records)));
    progress.add(1);
    stop_if_interrupted();
  }
  return file.commit();
}

uint64_t write_filters(const Path& path, const Chosen& chosen, BloomShape shape) {
  HashedFile file(path);
  std::vector<uint64_t> words(shape.bits / 64);
  for (int64_t band = 0; band < chosen.bands; ++band) {
    std::fill(words.begin(), words.end(), uint64_t{0});
    for (const BandRecord& record : chosen.band(band)) BloomFilter::add(shape, words, record.key);
    file.write(std::as_bytes(std::span<const uint64_t>(words)));
    stop_if_interrupted();
  }
  return file.commit();
}

uint64_t write_documents(const Path& path, const Chosen& chosen) {
  HashedFile file(path);
  std::vector<uint64_t> begins;
  chosen.signatures.each_sketch([&](uint32_t document, std::string_view bytes) {
    if (chosen.left_out[document]) return;
    begins.push_back(file.size());
    file.write(std::as_bytes(std::span(bytes)));
  });
  begins.push_back(file.size());
  file.write(std::as_bytes(std::span<const uint64_t>(begins)));
  return file.commit();
}

IndexManifest manifest_to_extend(const Path& folder, const SignaturePreset& preset,
                                 const IndexSettings& settings) {
  if (fs::exists(folder / kIndexFile)) {
    IndexManifest manifest = IndexManifest::read(folder / kIndexFile);
    check_index(manifest, preset, folder);
    const bool full = manifest.kind == IndexKind::full;
    require(manifest.kind == settings.kind, "{}: the index is a {} one; give --index-kind {}",
            folder.string(), full ? "full" : "bloom", full ? "full" : "bloom");
    return manifest;
  }
  IndexManifest manifest;
  manifest.kind = settings.kind;
  manifest.preset = preset.name;
  manifest.bands = preset.bands;
  manifest.rows = preset.rows;
  manifest.shingle = preset.shingle;
  manifest.bloom_rate = settings.kind == IndexKind::bloom ? settings.bloom_rate : 0;
  return manifest;
}

IndexSegment write_segment(const Path& at, const Chosen& chosen, const IndexManifest& manifest) {
  IndexSegment segment;
  segment.documents = chosen.count;
  if (manifest.kind == IndexKind::full) {
    segment.bands_hash = write_bands(at / kBandsFile, chosen);
    segment.documents_hash = write_documents(at / kDocumentsFile, chosen);
  } else {
    // A document is claimed when any of its bands is.
    segment.bloom = BloomShape::of(static_cast<uint64_t>(chosen.count),
                                   manifest.bloom_rate / static_cast<double>(chosen.bands));
    segment.bands_hash = write_filters(at / kBloomFile, chosen, segment.bloom);
  }
  segment.name = "segment-" + hash_text(segment.bands_hash ^ segment.documents_hash);
  return segment;
}

}  // namespace

void check_index_to_save(const Path& folder, const SignaturePreset& preset,
                         const IndexSettings& settings) {
  make_writable_folder(folder);
  manifest_to_extend(folder, preset, settings);
}

void add_to_index(const Path& folder, const SignaturePreset& preset, const IndexSettings& settings,
                  const SignatureFiles& signatures, const std::vector<bool>& left_out) {
  make_writable_folder(folder);
  const IndexLock lock(folder);
  IndexManifest manifest = manifest_to_extend(folder, preset, settings);
  const auto count = std::count(left_out.begin(), left_out.end(), false);
  const Chosen chosen{signatures, left_out, preset.bands, static_cast<int64_t>(count)};
  const Path unnamed = folder / "segment.partial";
  fs::remove_all(unnamed);
  make_writable_folder(unnamed);
  const IndexSegment segment = write_segment(unnamed, chosen, manifest);
  for (const IndexSegment& there : manifest.segments) {
    if (there.name != segment.name) continue;
    fs::remove_all(unnamed);  // a run that was killed after this had added it
    return;
  }
  fs::remove_all(folder / segment.name);  // of one that was killed before
  fs::rename(unnamed, folder / segment.name);
  flush_folder(folder);
  manifest.segments.push_back(segment);
  write_file(folder / kIndexFile, manifest.to_json().dump(2) + "\n");
}

}  // namespace tephra
