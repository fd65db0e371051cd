// SPDX-License-Identifier: Apache-2.0
// gzip by ISA-L, which inflates twice as fast as zlib, zstd and LZ4.
#include "tephra/io/byte_reader.h"

#include <fcntl.h>
#include <isa-l/igzip_lib.h>
#include <lz4frame.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "tephra/base/error.h"

namespace tephra {
namespace {

constexpr size_t kReadBytes = size_t{1} << 18;

class PlainReader : public ByteReader {
 public:
  explicit PlainReader(const Path& path) : path_(path), fd_(::open(path.c_str(), O_RDONLY)) {
    require(fd_ >= 0, "{}: cannot be opened: {}", path.string(), std::strerror(errno));
    ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
  }
  ~PlainReader() override { ::close(fd_); }
  PlainReader(const PlainReader&) = delete;
  PlainReader& operator=(const PlainReader&) = delete;

  int64_t file_bytes() const override { return file_bytes_; }
  const Path& path() const { return path_; }

 private:
  size_t read_some(std::span<char> out) override {
    for (;;) {
      const ssize_t got = ::read(fd_, out.data(), out.size());
      if (got < 0 && errno == EINTR) continue;
      require_data(got >= 0, "{}: cannot be read: {}", path_.string(), std::strerror(errno));
      file_bytes_ += got;
      return static_cast<size_t>(got);
    }
  }

  Path path_;
  int fd_;
  int64_t file_bytes_ = 0;
};

// Compressed input, refilled when it is used up.
class Compressed {
 public:
  explicit Compressed(const Path& path) : file_(path), buffer_(kReadBytes) {}

  // What is not used yet; empty at the end of the file.
  std::span<char> rest() {
    if (used_ == filled_) {
      filled_ = file_.read(buffer_);
      used_ = 0;
      // Even nothing takes some bytes in every format: a download that failed leaves none.
      require_data(file_.file_bytes() > 0, "{}: is empty; expected compressed data", where());
    }
    return std::span(buffer_).subspan(used_, filled_ - used_);
  }
  void use(size_t bytes) { used_ += bytes; }
  int64_t file_bytes() const { return file_.file_bytes(); }
  std::string where() const { return file_.path().string(); }

 private:
  PlainReader file_;
  std::vector<char> buffer_;
  size_t used_ = 0, filled_ = 0;
};

class GzipReader : public ByteReader {
 public:
  explicit GzipReader(const Path& path) : input_(path) { start_member(); }

  int64_t file_bytes() const override { return input_.file_bytes(); }

 private:
  size_t read_some(std::span<char> out) override {
    out = out.first(std::min(out.size(), size_t{1} << 30));  // the library counts in 32 bits
    for (;;) {
      const std::span<char> rest = input_.rest();
      if (rest.empty() && !inside_) return 0;
      if (!inside_ && members_ > 0 &&
          rest[0] == 0) {  // tapes and archives are filled up with zeros
        input_.use(1);
        continue;
      }
      const size_t got = inflate_some(rest, out);
      if (got > 0) return got;
      require_data(!rest.empty() || !inside_,
                   "{}: ends within compressed data; the file is cut off", input_.where());
    }
  }

  void start_member() {
    isal_inflate_init(state_.get());
    state_->crc_flag = ISAL_GZIP;  // with header and checksum, as RFC 1952 has them
    inside_ = false;
  }

  size_t inflate_some(std::span<char> from, std::span<char> to) {
    state_->next_in = reinterpret_cast<uint8_t*>(from.data());
    state_->avail_in = static_cast<uint32_t>(from.size());
    state_->next_out = reinterpret_cast<uint8_t*>(to.data());
    state_->avail_out = static_cast<uint32_t>(to.size());
    inside_ = true;
    const int code = isal_inflate(state_.get());
    require_data(code >= 0, "{}: is damaged: {}", input_.where(), what_is_wrong(code));
    const size_t got = to.size() - state_->avail_out;
    input_.use(from.size() - state_->avail_in);
    if (state_->block_state == ISAL_BLOCK_FINISH) {
      ++members_;
      start_member();  // another may follow
    }
    return got;
  }

  static const char* what_is_wrong(int code) {
    if (code == ISAL_INVALID_WRAPPER) return "not gzip data";
    return code == ISAL_INCORRECT_CHECKSUM ? "incorrect checksum" : "invalid compressed data";
  }

  Compressed input_;
  std::unique_ptr<inflate_state> state_ = std::make_unique<inflate_state>();  // some 90 kB
  bool inside_ = false;                                                       // a member
  int64_t members_ = 0;                                                       // that were read
};

class ZstdReader : public ByteReader {
 public:
  explicit ZstdReader(const Path& path) : input_(path), state_(ZSTD_createDStream()) {
    TEPHRA_ASSERT(state_ != nullptr, "zstd starts");
  }
  ~ZstdReader() override { ZSTD_freeDStream(state_); }
  ZstdReader(const ZstdReader&) = delete;
  ZstdReader& operator=(const ZstdReader&) = delete;

  int64_t file_bytes() const override { return input_.file_bytes(); }

 private:
  size_t read_some(std::span<char> out) override {
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    while (to.pos == 0) {
      const std::span<char> rest = input_.rest();
      ZSTD_inBuffer from{rest.data(), rest.size(), 0};
      const size_t code = ZSTD_decompressStream(state_, &to, &from);
      check(code);
      input_.use(from.pos);
      if (from.pos > 0 || to.pos > 0) inside_ = code != 0;
      if (!rest.empty() || to.pos > 0) continue;
      require_data(!inside_, "{}: ends within compressed data; the file is cut off",
                   input_.where());
      break;
    }
    return to.pos;
  }

  void check(size_t code) const {
    if (!ZSTD_isError(code)) return;
    if (ZSTD_getErrorCode(code) == ZSTD_error_frameParameter_windowTooLarge) {
      throw Error(Fault::data,
                  format("{}: was compressed with a window of more than 128 MiB (zstd --long), "
                         "which would have to be held in memory",
                         input_.where()),
                  "zstd -d --long=31 reads it; compress it again without --long");
    }
    throw Error(Fault::data, format("{}: is damaged: {}", input_.where(), ZSTD_getErrorName(code)));
  }

  Compressed input_;
  ZSTD_DStream* state_;
  bool inside_ = false;  // a frame
};

class Lz4Reader : public ByteReader {
 public:
  explicit Lz4Reader(const Path& path) : input_(path) {
    const LZ4F_errorCode_t code = LZ4F_createDecompressionContext(&state_, LZ4F_VERSION);
    TEPHRA_ASSERT(!LZ4F_isError(code), "LZ4 starts");
  }
  ~Lz4Reader() override { LZ4F_freeDecompressionContext(state_); }
  Lz4Reader(const Lz4Reader&) = delete;
  Lz4Reader& operator=(const Lz4Reader&) = delete;

  int64_t file_bytes() const override { return input_.file_bytes(); }

 private:
  size_t read_some(std::span<char> out) override {
    for (;;) {
      const std::span<char> rest = input_.rest();
      size_t used = rest.size(), got = out.size();
      const size_t code = LZ4F_decompress(state_, out.data(), &got, rest.data(), &used, nullptr);
      require_data(!LZ4F_isError(code), "{}: is damaged: {}", input_.where(),
                   LZ4F_getErrorName(code));
      input_.use(used);
      if (used > 0 || got > 0) inside_ = code != 0;
      if (got > 0) return got;
      if (!rest.empty()) continue;
      require_data(!inside_, "{}: ends within compressed data; the file is cut off",
                   input_.where());
      return 0;
    }
  }

  Compressed input_;
  LZ4F_dctx* state_ = nullptr;
  bool inside_ = false;  // a frame
};

}  // namespace

size_t ByteReader::read(std::span<char> out) {
  size_t filled = 0;
  while (filled < out.size() && !damage_) {
    try {
      const size_t got = read_some(out.subspan(filled));
      if (got == 0) return filled;
      filled += got;
    } catch (...) {
      damage_ = std::current_exception();
    }
  }
  if (filled == 0 && damage_) std::rethrow_exception(damage_);
  return filled;
}

std::unique_ptr<ByteReader> ByteReader::open(const Path& path) {
  require(!std::filesystem::is_directory(path), "{}: is a folder; expected a file", path.string());
  if (path.extension() == ".gz") return std::make_unique<GzipReader>(path);
  if (path.extension() == ".zst") return std::make_unique<ZstdReader>(path);
  if (path.extension() == ".lz4") return std::make_unique<Lz4Reader>(path);
  return std::make_unique<PlainReader>(path);
}

Path without_compression(const Path& path) {
  const Path ending = path.extension();
  if (ending != ".gz" && ending != ".zst" && ending != ".lz4") return path;
  return Path(path).replace_extension();
}

}  // namespace tephra
