// SPDX-License-Identifier: Apache-2.0
// The reader. Nothing of a file is believed before it is checked.
#include "tephra/io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tephra/base/json.h"
#include "tephra/base/large_pages.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/io/safetensors_format.h"

namespace tephra {
namespace {

using safetensors::kLengthBytes;
using safetensors::kMaxHeaderBytes;
using safetensors::kMetadataKey;

constexpr int kMaxHeaderDepth = 8;

// The messages of one file. Names come from the file, so long ones are cut.
struct Checker {
  std::string where;
  int64_t data_bytes;

  std::string at(std::string_view name) const {
    return format("{}: tensor '{}'", where, clipped(name, 120));
  }

  Shape shape(const std::string& at_tensor, const Fields& fields) const {
    std::vector<int64_t> dims;
    for (const Json& value : fields.array("shape")) {
      require_data(value.is_int(), "{}: expected a shape of integers, got {}", at_tensor,
                   clipped(value.dump(), 60));
      dims.push_back(value.integer());
    }
    try {
      return Shape(dims);  // refuses what is negative, too many, or overflows
    } catch (const Error& error) {
      throw Error(Fault::data, format("{}: {}", at_tensor, error.what()));
    }
  }

  std::pair<int64_t, int64_t> offsets(const std::string& at_tensor, const Fields& fields) const {
    const Json::Array& values = fields.array("data_offsets");
    require_data(values.size() == 2 && values[0].is_int() && values[1].is_int(),
                 "{}: expected data_offsets of two integers, got {}", at_tensor,
                 clipped(fields.json().find("data_offsets")->dump(), 60));
    const int64_t begin = values[0].integer(), end = values[1].integer();
    require_data(0 <= begin && begin <= end && end <= data_bytes,
                 "{}: data_offsets [{}, {}] are not within the {} bytes of data", at_tensor, begin,
                 end, data_bytes);
    return {begin, end};
  }

  TensorEntry entry(const std::string& name, const Json& value) const {
    const std::string at_tensor = at(name);
    const Fields fields(value, at_tensor);
    for (const auto& [key, unused] : value.object()) {
      require_data(key == "dtype" || key == "shape" || key == "data_offsets",
                   "{}: unknown key '{}'; expected dtype, shape and data_offsets", at_tensor,
                   clipped(key, 60));
    }
    const std::string type = fields.string("dtype");
    const auto dtype = safetensors::parse_type(type);
    require_data(dtype.has_value(), "{}: unsupported dtype {}", at_tensor, clipped(type, 60));
    const Shape extents = shape(at_tensor, fields);
    const int64_t expected = extents.numel() * size_of(*dtype);
    const auto [begin, end] = offsets(at_tensor, fields);
    require_data(end - begin == expected, "{}: {} {} takes {} bytes, but data_offsets span {}",
                 at_tensor, type, extents, expected, end - begin);
    return {name, *dtype, extents, begin, end};
  }

  Metadata metadata(const Json& value) const {
    Metadata result;
    const Fields fields(value, format("{}: {}", where, kMetadataKey));
    for (const auto& [key, unused] : value.object()) result[key] = fields.string(key);
    return result;
  }

  // The format wants every byte of the data in exactly one tensor.
  void cover(const std::vector<TensorEntry>& entries) const {
    int64_t at_byte = 0;
    for (const TensorEntry& entry : entries) {
      require_data(entry.begin >= at_byte,
                   "{}: overlaps the tensor before it: begins at {}, not {}", at(entry.name),
                   entry.begin, at_byte);
      require_data(entry.begin == at_byte, "{}: begins at {}, which leaves a hole from {}",
                   at(entry.name), entry.begin, at_byte);
      at_byte = entry.end;
    }
    require_data(at_byte == data_bytes, "{}: the tensors end at byte {} of {} bytes of data", where,
                 at_byte, data_bytes);
  }
};

// The JSON text of the header, after the checks that need no JSON.
std::string_view header_text(const MappedFile& file, const std::string& where) {
  const auto bytes = file.bytes();
  const auto size = static_cast<int64_t>(bytes.size());
  require_data(size >= kLengthBytes,
               "{}: is not a safetensors file: {} bytes, expected at least {}", where, size,
               kLengthBytes);
  uint64_t length = 0;
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(&length, bytes.data(), sizeof length);
  require_data(length <= kMaxHeaderBytes,
               "{}: is not a safetensors file: its first 8 bytes give a header of {} bytes, the "
               "format allows {}",
               where, length, kMaxHeaderBytes);
  require_data(static_cast<int64_t>(length) <= size - kLengthBytes,
               "{}: is cut short: the header has {} bytes, only {} follow", where, length,
               size - kLengthBytes);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  require_data(!text.empty() && text[0] == '{', "{}: the header must begin with {{", where);
  return text;
}

}  // namespace

SafetensorsFile SafetensorsFile::open(const Path& path) {
  SafetensorsFile result;
  result.file_ = MappedFile::open(path);
  const std::string where = path.string();
  const std::string_view text = header_text(*result.file_, where);
  const Json header = Json::parse(text, where + ": header", kMaxHeaderDepth);
  result.data_offset_ = kLengthBytes + static_cast<int64_t>(text.size());

  const auto size = static_cast<int64_t>(result.file_->bytes().size());
  const Checker checker{where, size - result.data_offset_};
  for (const auto& [name, value] : header.object()) {
    if (name == kMetadataKey) {
      result.metadata_ = checker.metadata(value);
    } else {
      result.entries_.push_back(checker.entry(name, value));
    }
  }
  std::stable_sort(result.entries_.begin(), result.entries_.end(),
                   [](const TensorEntry& a, const TensorEntry& b) {
                     return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
                   });
  checker.cover(result.entries_);
  for (size_t i = 0; i < result.entries_.size(); ++i) result.index_[result.entries_[i].name] = i;
  result.file_->prefer_large_pages();
  return result;
}

const TensorEntry& SafetensorsFile::entry(std::string_view name) const {
  const auto found = index_.find(std::string(name));
  if (found != index_.end()) return entries_[found->second];
  std::vector<std::string> names;
  for (const TensorEntry& entry : entries_) names.push_back(entry.name);
  const auto close = nearest(name, names);
  throw Error(Fault::data, format("{}: has no tensor '{}'{}", path().string(), name,
                                  close ? format("; did you mean '{}'?", *close) : ""));
}

Tensor SafetensorsFile::tensor(std::string_view name) const {
  const TensorEntry& e = entry(name);
  const int64_t bytes = e.end - e.begin;
  if (bytes == 0) return Tensor(e.shape, e.dtype);
  const std::byte* data = file_->bytes().data() + data_offset_ + e.begin;
  if (e.dtype == DType::boolean) {  // any other byte in a bool is undefined behaviour
    const bool valid =
        std::all_of(data, data + bytes, [](std::byte b) { return b <= std::byte{1}; });
    require_data(valid, "{}: tensor '{}': a BOOL is a byte 0 or 1", path().string(), name);
  }
  if (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_of(e.dtype)) != 0) {
    Tensor aligned(e.shape, e.dtype, kCpu, Purpose::weights);
    std::memcpy(aligned.raw(), data, static_cast<size_t>(bytes));
    return aligned;
  }
  // Tensors do not carry constness; the pages are mapped read-only.
  return Tensor(Storage::wrap(const_cast<std::byte*>(data), bytes, file_), 0, e.shape, e.dtype);
}

void SafetensorsFile::read(std::string_view name, std::span<std::byte> to) const {
  const TensorEntry& e = entry(name);
  TEPHRA_ASSERT(std::ssize(to) == e.end - e.begin, "room for all of the tensor, and no more");
  constexpr int64_t kPiece = 8 << 20;  // long enough that a disk reads ahead
  parallel_for(std::ssize(to), kPiece, [&](int64_t begin, int64_t end) {
    file_->read(data_offset_ + e.begin + begin,
                to.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  });
}

std::vector<int64_t> SafetensorsFile::small_blocks(
    const std::unordered_set<std::string>& tensors) const {
  std::vector<int64_t> blocks = file_->small_blocks();
  std::vector<bool> wanted(file_->bytes().size() / kLargePage + 1);
  for (const TensorEntry& e : entries_) {
    if (!tensors.contains(e.name)) continue;
    for (int64_t at = (data_offset_ + e.begin) / kLargePage * kLargePage; at < data_offset_ + e.end;
         at += kLargePage) {
      wanted[static_cast<size_t>(at / kLargePage)] = true;
    }
  }
  std::erase_if(blocks, [&](int64_t block) { return !wanted[static_cast<size_t>(block)]; });
  return blocks;
}

void SafetensorsFile::release(std::string_view name) const {
  const TensorEntry& e = entry(name);
  file_->release(file_->bytes().subspan(static_cast<size_t>(data_offset_ + e.begin),
                                        static_cast<size_t>(e.end - e.begin)));
}

}  // namespace tephra
