// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/signer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/text.h"
#include "tephra/data/dedup/minhash.h"
#include "tephra/data/dedup/murmur3.h"
#include "tephra/data/dedup/sha1.h"
#include "tephra/data/dedup/xxh64_lanes.h"
#include "tephra/data/filter/words.h"
#include "tephra/text/unicode.h"

namespace tephra {
namespace {

static_assert(NormalWords::kReadable >= kXxh64Readable);

using enum SignatureKind;

const std::vector<SignaturePreset>& presets() {
  static const std::vector<SignaturePreset> kPresets = {
      {"native", native, 16, 8, 5, 0.7},           {"zyda1", zyda1, 32, 4, 13, 0.4},
      {"zyda1-xxh3", zyda1_xxh3, 32, 4, 13, 0.4},  {"zyda2", zyda2, 8, 16, 25, 0.85},
      {"zyda2-2024", zyda2_2024, 8, 16, 25, 0.85}, {"native-chars", native_chars, 8, 16, 25, 0.85},
      {"fineweb", fineweb, 14, 8, 5, 0.7},         {"exact", exact, 1, 1, 0, 1.0},
  };
  return kPresets;
}

bool by_windows(SignatureKind kind) {
  return kind == zyda2 || kind == zyda2_2024 || kind == native_chars;
}
bool has_wide_values(SignatureKind kind) { return kind == fineweb; }

constexpr uint64_t kRoll = 0x9e3779b97f4a7c15;  // base of the rolling hash of words
constexpr uint32_t kDatasketchSeed = 1, kNemoSeed = 10, kNativeSeed = 20260;

uint64_t mixed(uint64_t h) {
  h ^= h >> 32;
  h *= 0xd6e8feb86659fd93;
  return h ^ h >> 32;
}

// Of a word that is not empty and that eight readable bytes follow: most words are one step.
uint64_t word_hash(std::string_view word) {
  const char* at = word.data();
  size_t left = word.size();
  uint64_t h = left * kRoll, part = 0;
  for (; left > 8; at += 8, left -= 8) {
    std::memcpy(&part, at, 8);
    h = (h ^ part) * 0xd6e8feb86659fd93;
    h ^= h >> 29;
  }
  std::memcpy(&part, at, 8);
  h = (h ^ part << (64 - 8 * left)) * 0xd6e8feb86659fd93;
  return h ^ h >> 32;
}

}  // namespace

struct Signer::Families {
  std::optional<Mersenne32> low;
  std::optional<Mersenne64> wide;
  std::optional<Native32> own;
  std::vector<uint32_t> seeds;
  uint32_t murmur_seed = 0;
};

std::vector<std::string> signature_preset_names() {
  std::vector<std::string> names;
  for (const SignaturePreset& preset : presets()) names.push_back(preset.name);
  return names;
}

SignaturePreset signature_preset(const std::string& name) {
  for (const SignaturePreset& preset : presets()) {
    if (preset.name == name) return preset;
  }
  const std::optional<std::string> close = nearest(name, signature_preset_names());
  throw Error(Fault::usage, format("--preset: there is no '{}'", name),
              close ? format("did you mean {}?", *close) : "native, zyda1, zyda2, fineweb");
}

double candidate_chance(double similarity, int64_t bands, int64_t rows) {
  return 1 -
         std::pow(1 - std::pow(similarity, static_cast<double>(rows)), static_cast<double>(bands));
}

Signer::Signer(const SignaturePreset& preset)
    : preset_(preset), families_(std::make_unique<Families>()) {
  const auto count = static_cast<size_t>(preset.bands * preset.rows);
  switch (preset.kind) {
    case zyda1:
    case zyda1_xxh3:
      families_->low.emplace(datasketch_family(count, kDatasketchSeed));
      break;
    case zyda2: {
      const Affine family = nemo_family(count, kNemoSeed);
      families_->murmur_seed = static_cast<uint32_t>(family.a[0]);
      families_->low.emplace(family);
      break;
    }
    case zyda2_2024:
      families_->seeds = nemo_seeds(count, kNemoSeed);
      break;
    case fineweb:
      families_->wide.emplace(datatrove_family(count, kDatasketchSeed));
      break;
    case native:
    case native_chars:
      families_->own.emplace(native_family(count, kNativeSeed));
      break;
    case exact:
      break;
  }
  values32_.resize(count);
  values64_.resize(has_wide_values(preset.kind) ? count : 0);
}

Signer::~Signer() = default;

bool Signer::hash_shingles(std::string_view text) {
  hashes32_.clear();
  hashes64_.clear();
  if (preset_.kind == native_chars) return roll_windows(text);
  return by_windows(preset_.kind) ? hash_windows(text) : hash_words(text);
}

bool Signer::hash_words(std::string_view text) {
  words_.set(text, preset_.kind == fineweb ? Normalization::fineweb : Normalization::zyda1);
  const auto n = static_cast<size_t>(preset_.shingle);
  const bool enough = words_.size() >= n;
  if (!enough) {
    // Else all short texts would be one: the whole is compared, without words the raw text.
    const std::string_view whole = words_.size() == 0 ? text : words_.text();
    hashes64_.push_back(preset_.kind == fineweb ? xxh64(whole, 0) : xxh3(whole));
    hashes32_.push_back(preset_.kind == zyda1 ? sha1_prefix(whole)
                                              : static_cast<uint32_t>(hashes64_[0]));
    return false;
  }
  switch (preset_.kind) {
    case native:
      roll_words(n);
      break;
    case zyda1:
      cut_shingles(n);
      hashes32_.resize(shingles_.size());
      sha1_prefixes(shingles_, hashes32_.data());
      break;
    case zyda1_xxh3:
      hashes32_.resize(words_.size() - n + 1);
      for (size_t i = 0; i < hashes32_.size(); ++i) {
        hashes32_[i] = static_cast<uint32_t>(xxh3(words_.words(i, n)));
      }
      break;
    default:
      cut_shingles(n);
      hashes64_.resize(shingles_.size());
      xxh64_each(shingles_, hashes64_.data());
  }
  return true;
}

// A hash of n words rolls from one shingle to the next.
void Signer::roll_words(size_t n) {
  uint64_t rolling = 0, drop = 1;
  for (size_t i = 0; i < n; ++i) drop *= kRoll;
  const size_t words = words_.size();
  hashes64_.resize(words);
  for (size_t i = 0; i < words; ++i) hashes64_[i] = word_hash(words_.words(i, 1));
  for (size_t i = 0; i < n; ++i) rolling = rolling * kRoll + hashes64_[i];
  hashes32_.resize(words - n + 1);
  hashes32_[0] = static_cast<uint32_t>(mixed(rolling) >> 32);
  for (size_t i = n; i < words; ++i) {
    rolling = rolling * kRoll + (hashes64_[i] - hashes64_[i - n] * drop);
    hashes32_[i + 1 - n] = static_cast<uint32_t>(mixed(rolling) >> 32);
  }
}

void Signer::cut_shingles(size_t n) {
  shingles_.resize(words_.size() - n + 1);
  for (size_t i = 0; i < shingles_.size(); ++i) shingles_[i] = words_.words(i, n);
}

// Windows begin at every character.
bool Signer::hash_windows(std::string_view text) {
  murmur_window_hashes(text, static_cast<size_t>(preset_.shingle), families_->murmur_seed,
                       hashes32_);
  return !text.empty() && count_code_points(text) >= preset_.shingle;
}

// The same windows by a hash that rolls from one to the next.
bool Signer::roll_windows(std::string_view text) {
  points_.resize(text.size());
  size_t points = 0;
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const CodePoint c = byte < 0x80 ? CodePoint{byte, 1} : first_code_point(text.data() + i);
    points_[points++] = c.value + 1;  // zeros count
    i += c.bytes;
  }
  points_.resize(points);
  const auto width = static_cast<size_t>(preset_.shingle);
  uint64_t drop = 1, rolling = 0;
  for (size_t i = 0; i < width; ++i) drop *= kRoll;
  const size_t first = std::min(width, points_.size());
  for (size_t i = 0; i < first; ++i) rolling = rolling * kRoll + points_[i];
  hashes32_.resize(points_.size() < width ? first > 0 : points_.size() - width + 1);
  if (!hashes32_.empty()) hashes32_[0] = static_cast<uint32_t>(mixed(rolling) >> 32);
  for (size_t i = width; i < points_.size(); ++i) {
    rolling = rolling * kRoll + (points_[i] - points_[i - width] * drop);
    hashes32_[i + 1 - width] = static_cast<uint32_t>(mixed(rolling) >> 32);
  }
  return points_.size() >= width;
}

void Signer::make_values(std::string_view text) {
  const std::span<uint32_t> values = values32_;
  switch (preset_.kind) {
    case zyda1:
    case zyda1_xxh3:
    case zyda2:
      families_->low->minima(hashes32_, values);
      break;
    case zyda2_2024:
      seeded_murmur_minima(text, static_cast<size_t>(preset_.shingle), families_->seeds, values);
      break;
    case fineweb:
      families_->wide->minima(hashes64_, values64_);
      break;
    case native:
    case native_chars:
      families_->own->minima(hashes32_, values);
      break;
    case exact:
      break;
  }
}

bool Signer::band_keys(std::string_view text, std::span<uint64_t> keys) {
  require_data(text.size() < (size_t{1} << 31), "expected a text below 2 GiB, got {} bytes",
               text.size());
  if (preset_.kind == exact) {
    keys[0] = xxh3(text);
    return true;
  }
  bool enough = true;
  if (preset_.kind == zyda2_2024) {
    enough = text.size() >= static_cast<size_t>(preset_.shingle);
  } else {
    enough = hash_shingles(text);
  }
  make_values(text);
  const auto rows = static_cast<size_t>(preset_.rows);
  for (size_t band = 0; band < keys.size(); ++band) {
    const auto bytes = has_wide_values(preset_.kind)
                           ? std::as_bytes(std::span(values64_).subspan(band * rows, rows))
                           : std::as_bytes(std::span(values32_).subspan(band * rows, rows));
    keys[band] = xxh3(bytes);
  }
  return enough;
}

void Signer::shingle_set(std::string_view text, size_t limit, std::vector<uint64_t>& hashes) {
  if (preset_.kind == exact) {
    hashes = {xxh3(text), xxh64(text, 0)};  // together 128 bits
    std::sort(hashes.begin(), hashes.end());
    return;
  }
  const bool enough = hash_shingles(text);
  hashes.clear();
  if (by_windows(preset_.kind)) {
    // Again with 64 bits: 32 would make strangers share windows by chance.
    const auto width = static_cast<size_t>(preset_.shingle);
    starts_.clear();
    for (size_t i = 0; i < text.size(); ++i) {
      if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) {
        starts_.push_back(static_cast<uint32_t>(i));
      }
    }
    const size_t points = starts_.size();
    starts_.push_back(static_cast<uint32_t>(text.size()));
    for (size_t w = 0; w < hashes32_.size(); ++w) {
      hashes.push_back(
          xxh3(text.substr(starts_[w], starts_[std::min(points, w + width)] - starts_[w])));
    }
  } else if (!enough) {
    hashes = hashes64_;
  } else {
    const auto n = static_cast<size_t>(preset_.shingle);
    for (size_t i = 0; i + n <= words_.size(); ++i) hashes.push_back(xxh3(words_.words(i, n)));
  }
  std::sort(hashes.begin(), hashes.end());
  hashes.erase(std::unique(hashes.begin(), hashes.end()), hashes.end());
  if (hashes.size() > limit) hashes.resize(limit);
}

std::vector<uint64_t> Signer::signature(std::string_view text) {
  if (preset_.kind != zyda2_2024) hash_shingles(text);
  make_values(text);
  if (has_wide_values(preset_.kind)) return values64_;
  return {values32_.begin(), values32_.end()};
}

}  // namespace tephra
