// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/document_sketch.h"

#include <cstring>

#include "tephra/base/error.h"
#include "tephra/data/dedup/survivors.h"

namespace tephra {
namespace {

struct SketchHead {
  uint32_t id_bytes = 0, hashes = 0;
};

}  // namespace

void make_sketch(Signer& signer, std::string_view text, std::vector<uint32_t>& sketch) {
  std::vector<uint64_t> hashes;
  signer.shingle_set(text, kSketchHashes, hashes);
  sketch.clear();
  for (const uint64_t hash : hashes) sketch.push_back(static_cast<uint32_t>(hash >> 32));
}

double sketch_similarity(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  return set_similarity<uint32_t>(a, b, kSketchHashes);
}

void append_sketch(std::string& out, std::string_view id, std::span<const uint32_t> sketch) {
  const SketchHead head{static_cast<uint32_t>(id.size()), static_cast<uint32_t>(sketch.size())};
  out.append(reinterpret_cast<const char*>(&head), sizeof head);
  out += id;
  out.append(reinterpret_cast<const char*>(sketch.data()), sketch.size_bytes());
}

DocumentSketch take_sketch(std::string_view& bytes, const std::string& where) {
  SketchHead head;
  require_data(bytes.size() >= sizeof head, "{}: ends before its last document", where);
  std::memcpy(&head, bytes.data(), sizeof head);
  bytes.remove_prefix(sizeof head);
  const size_t size = head.id_bytes + size_t{4} * head.hashes;
  require_data(bytes.size() >= size && head.hashes <= kSketchHashes, "{}: is damaged", where);
  DocumentSketch sketch{bytes.substr(0, head.id_bytes), std::vector<uint32_t>(head.hashes)};
  std::memcpy(sketch.hashes.data(), bytes.data() + head.id_bytes, size_t{4} * head.hashes);
  bytes.remove_prefix(size);
  return sketch;
}

}  // namespace tephra
