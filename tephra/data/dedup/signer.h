// SPDX-License-Identifier: Apache-2.0
// From a text to the keys of its bands, by the MinHash recipes of others, bit for bit, or our own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tephra/data/dedup/normal_words.h"

namespace tephra {

enum class SignatureKind {
  zyda1,         // 13 words, SHA-1, datasketch's permutations, seed 1
  zyda1_xxh3,    // the same with XXH3 in place of SHA-1: other values of the same distribution
  zyda2,         // 25 characters, one MurmurHash3 and NeMo's permutations, seed 10
  zyda2_2024,    // 25 characters, 128 seeds of MurmurHash3: as the dataset was made
  fineweb,       // 5 words, XXH64, datatrove's permutations
  native,        // 5 words, rolling hashes, 32-bit permutations
  native_chars,  // 25 characters, likewise
  exact,         // the text itself
};

struct SignaturePreset {
  std::string name;
  SignatureKind kind = SignatureKind::native;
  int64_t bands = 16, rows = 8;
  int64_t shingle = 5;      // words, or characters
  double similarity = 0.7;  // Jaccard similarity that the bands are meant for
};

std::vector<std::string> signature_preset_names();
SignaturePreset signature_preset(const std::string& name);  // Fault::usage names the nearest

// The chance that two documents of that Jaccard similarity share a band.
double candidate_chance(double similarity, int64_t bands, int64_t rows);

// One a thread.
class Signer {
 public:
  explicit Signer(const SignaturePreset& preset);
  ~Signer();

  // Keys of all bands; the same for documents that agree on all rows of a band. False for a text
  // with fewer words than a shingle, which is then one shingle as a whole.
  bool band_keys(std::string_view text, std::span<uint64_t> keys);

  // Distinct hashes of the shingles with 64 bits, sorted; the smallest `limit` of them.
  void shingle_set(std::string_view text, size_t limit, std::vector<uint64_t>& hashes);

  // The values themselves, for tests: bands times rows of them.
  std::vector<uint64_t> signature(std::string_view text);
  // From normalised words on (split at single spaces).
  const std::vector<uint32_t>& hashes32() const { return hashes32_; }

 private:
  struct Families;

  bool hash_shingles(std::string_view text);
  bool hash_words(std::string_view text);
  void roll_words(size_t n);
  void cut_shingles(size_t n);
  bool hash_windows(std::string_view text);
  bool roll_windows(std::string_view text);
  void make_values(std::string_view text);

  SignaturePreset preset_;
  std::unique_ptr<Families> families_;
  NormalWords words_;
  std::vector<uint32_t> hashes32_;
  std::vector<uint64_t> hashes64_;
  std::vector<uint32_t> values32_;
  std::vector<uint64_t> values64_;
  std::vector<std::string_view> shingles_;  // of cut_shingles
  std::vector<uint32_t> starts_;
  std::vector<uint64_t> points_;  // of roll_windows
};

}  // namespace tephra
