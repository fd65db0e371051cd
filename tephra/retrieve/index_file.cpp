// SPDX-License-Identifier: Apache-2.0
#include "tephra/retrieve/index_file.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

constexpr std::array<char, 8> kMagic = {'T', 'E', 'P', 'H', 'R', 'A', 'I', 'X'};
constexpr uint64_t kAlignment = 64;
constexpr size_t kSections = 18;
constexpr float kLeastNorm = 0.5F, kMostNorm = 1e6F;  // no true norm is near either
constexpr float kMostCentrality = 1.001F;             // it sums to 1

struct Section {
  uint64_t offset = 0, bytes = 0, hash = 0;
};

struct Header {
  std::array<char, 8> magic = kMagic;
  uint32_t version = kIndexVersion;
  uint32_t sections = kSections;
  uint32_t chunk_kind = 0;
  uint32_t chunk_words = 0;
  uint64_t file_bytes = 0;
  uint64_t hash = 0;  // of the header with this field 0
  std::array<Section, kSections> table;
};
static_assert(sizeof(Header) == 40 + 24 * kSections);

uint64_t header_hash(Header header) {
  header.hash = 0;
  return xxh3(std::as_bytes(std::span(&header, 1)));
}

// Calls `section(name, span)` with each array, in the order of the file.
template <class Arrays, class F>
void each_section(Arrays& a, F&& section) {
  section("text", a.text);
  section("chunk_begin", a.chunk_begin);
  section("chunk_bytes", a.chunk_bytes);
  section("chunk_words", a.chunk_words);
  section("chunk_norm", a.chunk_norm);
  section("chunk_centrality", a.chunk_centrality);
  section("chunk_terms", a.chunk_terms);
  section("term_of_chunk", a.term_of_chunk);
  section("count_of_chunk", a.count_of_chunk);
  section("term_hash", a.term_hash);
  section("term_place", a.term_place);
  section("term_slots", a.term_slots);
  section("term_postings", a.term_postings);
  section("chunk_of_term", a.chunk_of_term);
  section("count_of_term", a.count_of_term);
  section("document_chunks", a.document_chunks);
  section("document_names", a.document_names);
  section("names", a.names);
}

uint64_t aligned(uint64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

Header read_header(std::span<const std::byte> bytes, const std::string& where, bool hashes) {
  Header header;
  require_data(bytes.size() >= 12 && std::memcmp(bytes.data(), kMagic.data(), 8) == 0,
               "{}: expected an index of tephra retrieve, got another kind of file", where);
  std::memcpy(&header.version, bytes.data() + 8, 4);
  if (header.version != kIndexVersion) {
    throw Error(Fault::data,
                format("{}: expected an index of version {}, got version {}", where, kIndexVersion,
                       header.version),
                "make it again from its documents with tephra retrieve index");
  }
  require_data(bytes.size() >= sizeof(Header), "{}: cut short within the header, at {} bytes",
               where, bytes.size());
  std::memcpy(&header, bytes.data(), sizeof(Header));
  require_data(!hashes || header_hash(header) == header.hash,
               "{}: corrupted: the header does not match its hash", where);
  require_data(header.sections == kSections && header.chunk_kind <= 4 && header.chunk_words >= 1,
               "{}: corrupted header", where);
  require_data(header.file_bytes == bytes.size(), "{}: expected {} bytes, the file has {}", where,
               header.file_bytes, bytes.size());
  return header;
}

void check_hashes(const Header& header, std::span<const std::byte> bytes,
                  const std::array<const char*, kSections>& names, const std::string& where) {
  std::atomic<size_t> wrong = kSections;
  parallel_for(kSections, 1, [&](int64_t begin, int64_t) {
    const Section& s = header.table[static_cast<size_t>(begin)];
    if (xxh3(bytes.subspan(s.offset, s.bytes)) != s.hash) wrong = static_cast<size_t>(begin);
  });
  require_data(wrong == kSections, "{}: corrupted: section '{}' does not match its hash", where,
               wrong < kSections ? names[wrong] : "");
}

// Bounds of what the arrays say about each other.
class Checks {
 public:
  Checks(const IndexArrays& a, const std::string& where) : a_(a), where_(where) {}

  void all() const {
    const size_t chunks = a_.chunk_begin.size(), terms = a_.term_hash.size(),
                 pairs = a_.term_of_chunk.size();
    expect(chunks > 0 && chunks < kNoTerm && terms < kNoTerm, "counts");
    expect(a_.chunk_bytes.size() == chunks && a_.chunk_words.size() == chunks &&
               a_.chunk_norm.size() == chunks && a_.chunk_centrality.size() == chunks,
           "chunks");
    expect(a_.count_of_chunk.size() == pairs && a_.chunk_of_term.size() == pairs &&
               a_.count_of_term.size() == pairs,
           "pairs");
    expect(a_.term_place.size() == terms, "terms");
    ascending(a_.chunk_terms, chunks, pairs, "chunk_terms");
    ascending(a_.term_postings, terms, pairs, "term_postings");
    below(a_.term_of_chunk, terms, "term_of_chunk");
    below(a_.chunk_of_term, chunks, "chunk_of_term");
    positive(a_.count_of_chunk, "count_of_chunk");
    positive(a_.count_of_term, "count_of_term");
    texts();
    slots();
    documents(chunks);
  }

 private:
  void expect(bool ok, const char* what) const {
    require_data(ok, "{}: corrupted: {} do not fit together; make the index again", where_, what);
  }
  template <class T>
  void ascending(std::span<const T> begins, size_t count, size_t end, const char* what) const {
    expect(begins.size() == count + 1 && begins.front() == 0 && begins.back() == end &&
               std::is_sorted(begins.begin(), begins.end()),
           what);
  }
  void below(std::span<const uint32_t> ids, size_t end, const char* what) const {
    uint32_t most = 0;
    for (const uint32_t id : ids) most = std::max(most, id);
    expect(ids.empty() || most < end, what);
  }
  void positive(std::span<const uint8_t> counts, const char* what) const {
    expect(counts.empty() || std::memchr(counts.data(), 0, counts.size()) == nullptr, what);
  }
  void texts() const {
    const uint64_t size = a_.text.size();
    expect(find_invalid_utf8({a_.text.data(), a_.text.size()}) == std::string_view::npos, "texts");
    bool ok = true;
    for (size_t c = 0; c < a_.chunk_begin.size(); ++c) {
      ok = ok && a_.chunk_begin[c] <= size && a_.chunk_bytes[c] <= size - a_.chunk_begin[c] &&
           a_.chunk_words[c] > 0 && a_.chunk_norm[c] >= kLeastNorm &&
           a_.chunk_norm[c] <= kMostNorm && a_.chunk_centrality[c] >= 0 &&
           a_.chunk_centrality[c] <= kMostCentrality;
    }
    expect(ok, "chunks and text");
    for (const uint64_t place : a_.term_place) {
      const uint64_t at = place & kPlaceMask;
      ok = ok && at < size && (static_cast<unsigned char>(a_.text[at]) & 0xc0) != 0x80;
    }
    expect(ok, "terms and text");
  }
  void slots() const {
    const size_t terms = a_.term_hash.size();
    expect(std::has_single_bit(a_.term_slots.size()) && a_.term_slots.size() > terms, "slots");
    size_t used = 0;
    bool ok = true;
    for (const uint32_t term : a_.term_slots) {
      used += term != kNoTerm ? 1 : 0;
      ok = ok && (term == kNoTerm || term < terms);
    }
    expect(ok && used == terms, "slots");
  }
  void documents(size_t chunks) const {
    expect(!a_.document_chunks.empty(), "documents");
    ascending(a_.document_chunks, a_.document_chunks.size() - 1, chunks, "documents");
    ascending(a_.document_names, a_.document_chunks.size() - 1, a_.names.size(), "names");
  }

  const IndexArrays& a_;
  const std::string& where_;
};

}  // namespace

void write_index(const Path& path, const Index& index) {
  Header header;
  header.chunk_kind = static_cast<uint32_t>(index.chunk_options().kind);
  header.chunk_words = index.chunk_options().words;
  uint64_t end = sizeof(Header);
  size_t at = 0;
  each_section(index.arrays(), [&](const char*, auto span) {
    const uint64_t offset = aligned(end);
    header.table[at++] = {offset, span.size_bytes(), xxh3(std::as_bytes(span))};
    end = offset + span.size_bytes();
  });
  header.file_bytes = end;
  header.hash = header_hash(header);

  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&header, 1)));
  uint64_t written = sizeof(Header);
  at = 0;
  each_section(index.arrays(), [&](const char*, auto span) {
    constexpr std::array<std::byte, kAlignment> kZeros{};
    const Section& section = header.table[at++];
    file.write(std::span(kZeros).first(section.offset - written));
    file.write(std::as_bytes(span));
    written = section.offset + section.bytes;
  });
  file.commit();
}

Index read_index(std::shared_ptr<const void> owner, std::span<const std::byte> bytes,
                 const std::string& where, bool hashes) {
  const Header header = read_header(bytes, where, hashes);
  IndexArrays a;
  std::array<const char*, kSections> names{};
  size_t at = 0;
  each_section(a, [&]<class T>(const char* name, std::span<const T>& span) {
    const Section& s = header.table[at];
    names[at++] = name;
    require_data(s.offset % kAlignment == 0 && s.offset <= bytes.size() &&
                     s.bytes <= bytes.size() - s.offset && s.bytes % sizeof(T) == 0,
                 "{}: corrupted: section '{}' lies outside of the file", where, name);
    span = {reinterpret_cast<const T*>(bytes.data() + s.offset), s.bytes / sizeof(T)};
  });
  if (hashes) check_hashes(header, bytes, names, where);
  Checks(a, where).all();
  return {std::move(owner), a,
          ChunkOptions{static_cast<ChunkKind>(header.chunk_kind), header.chunk_words}};
}

Index open_index(const Path& path) {
  const auto file = MappedFile::open(path);
  return read_index(file, file->bytes(), path.string());
}

}  // namespace tephra
