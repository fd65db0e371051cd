// SPDX-License-Identifier: Apache-2.0
// fastText's .bin and .ftz files, version 12: arguments, dictionary, two matrices that are dense or
// product-quantised (Joulin et al., 2016, "FastText.zip").
#include <cstring>

#include "tephra/base/error.h"
#include "tephra/data/classify/fasttext_model.h"

namespace tephra {
namespace {

constexpr int32_t kMagic = 793712314, kVersion = 12;
constexpr int64_t kMaxRows = int64_t{1} << 31;

class Reader {
 public:
  explicit Reader(const Path& path) : path_(path), bytes_(read_file(path, int64_t{1} << 34)) {}

  template <class T>
  T take(const char* what) {
    T value{};
    need(sizeof value, what);
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  std::string text() {
    const size_t end = bytes_.find('\0', at_);
    require_data(end != std::string::npos, "{}: ends within a word", where());
    std::string word = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return word;
  }

  void take_floats(std::span<float> to, const char* what) {
    need(to.size_bytes(), what);
    std::memcpy(to.data(), bytes_.data() + at_, to.size_bytes());
    at_ += to.size_bytes();
  }

  std::span<const uint8_t> take_bytes(size_t count, const char* what) {
    need(count, what);
    const auto* begin = reinterpret_cast<const uint8_t*>(bytes_.data() + at_);
    at_ += count;
    return {begin, count};
  }

  void check_shape(int64_t rows, int64_t columns, const char* what) {
    const auto m = take<int64_t>(what), n = take<int64_t>(what);
    require_data(m == rows && n == columns, "{}: {}: expected a matrix of {} x {}, got {} x {}",
                 where(), what, rows, columns, m, n);
  }

  size_t left() const { return bytes_.size() - at_; }
  std::string where() const { return path_.string(); }

 private:
  void need(size_t size, const char* what) const {
    require_data(left() >= size, "{}: ends within {}; the file is cut off", where(), what);
  }

  Path path_;
  std::string bytes_;
  size_t at_ = 0;
};

FastTextArgs read_args(Reader& in) {
  FastTextArgs args;
  for (int32_t* field :
       {&args.dim, &args.ws, &args.epoch, &args.min_count, &args.neg, &args.word_ngrams, &args.loss,
        &args.model, &args.bucket, &args.minn, &args.maxn, &args.lr_update_rate}) {
    *field = in.take<int32_t>("arguments");
  }
  args.t = in.take<double>("arguments");
  require_data(args.model == 3, "{}: expected a classifier (supervised), got another kind of model",
               in.where());
  require_data(args.loss == 1 || args.loss == 3 || args.loss == 4,
               "{}: expected softmax, one-vs-all or hierarchical softmax, got loss {}", in.where(),
               args.loss);
  require_data(args.dim > 0 && args.dim <= 4096 && args.bucket >= 0 && args.bucket <= (1 << 28) &&
                   args.word_ngrams >= 0 && args.minn >= 0 && args.maxn >= args.minn &&
                   args.maxn < 100,
               "{}: arguments are out of range", in.where());
  return args;
}

struct Dictionary {
  std::vector<FastTextEntry> entries;
  int64_t words = 0;
  std::optional<std::vector<std::pair<int32_t, int32_t>>> kept;  // of a pruned one
};

Dictionary read_dictionary(Reader& in, int32_t buckets) {
  Dictionary dictionary;
  const auto size = in.take<int32_t>("dictionary"), words = in.take<int32_t>("dictionary"),
             labels = in.take<int32_t>("dictionary");
  in.take<int64_t>("dictionary");  // tokens
  const auto kept = in.take<int64_t>("dictionary");
  require_data(size >= 0 && words >= 0 && labels > 0 && int64_t{words} + labels == size,
               "{}: expected {} words and labels, got {} and {}", in.where(), size, words, labels);
  require_data(in.left() >= static_cast<size_t>(size) * 10, "{}: ends within its dictionary",
               in.where());
  dictionary.words = words;
  for (int32_t i = 0; i < size; ++i) {
    FastTextEntry entry;
    entry.word = in.text();
    entry.count = in.take<int64_t>("dictionary");
    entry.label = in.take<int8_t>("dictionary") == 1;
    require_data(entry.label == (i >= words) && entry.count >= 0,
                 "{}: expected words first and labels last", in.where());
    dictionary.entries.push_back(std::move(entry));
  }
  if (kept < 0) return dictionary;
  require_data(in.left() / 8 >= static_cast<size_t>(kept), "{}: ends within its buckets",
               in.where());
  auto& pairs = dictionary.kept.emplace();
  std::vector<bool> seen(static_cast<size_t>(buckets));
  for (int64_t i = 0; i < kept; ++i) {
    const auto bucket = in.take<int32_t>("buckets"), row = in.take<int32_t>("buckets");
    require_data(bucket >= 0 && bucket < buckets && row >= 0 && row < kept &&
                     !seen[static_cast<size_t>(bucket)],
                 "{}: its table of buckets is damaged", in.where());
    seen[static_cast<size_t>(bucket)] = true;
    pairs.emplace_back(bucket, row);
  }
  return dictionary;
}

// Vectors by parts: of each part, one of 256 centroids.
class Quantizer {
 public:
  Quantizer(Reader& in, int64_t columns, const char* what)
      : dim_(in.take<int32_t>(what)),
        parts_(in.take<int32_t>(what)),
        width_(in.take<int32_t>(what)),
        last_(in.take<int32_t>(what)) {
    require_data(dim_ == columns && parts_ > 0 && width_ > 0 && last_ > 0 && last_ <= width_ &&
                     int64_t{parts_ - 1} * width_ + last_ == dim_,
                 "{}: {}: its quantiser is damaged", in.where(), what);
    centroids_.resize(static_cast<size_t>(dim_) * kCentroids);
    in.take_floats(centroids_, what);
  }

  size_t parts() const { return static_cast<size_t>(parts_); }

  // The vector of these codes, times `scale`.
  void decode(std::span<const uint8_t> codes, float scale, std::span<float> to) const {
    const auto width = static_cast<size_t>(width_);
    for (size_t p = 0; p < codes.size(); ++p) {
      const auto part = static_cast<size_t>(p + 1 == codes.size() ? last_ : width_);
      const float* centroid = centroids_.data() + p * kCentroids * width + codes[p] * part;
      for (size_t d = 0; d < part; ++d) to[p * width + d] = scale * centroid[d];
    }
  }

 private:
  static constexpr size_t kCentroids = 256;
  int32_t dim_, parts_, width_, last_;
  std::vector<float> centroids_;
};

void read_quantised(Reader& in, int64_t rows, int64_t columns, std::span<float> to,
                    const char* what) {
  const bool has_norms = in.take<int8_t>(what) != 0;
  in.check_shape(rows, columns, what);
  const auto code_bytes = static_cast<size_t>(in.take<int32_t>(what));
  const std::span<const uint8_t> codes = in.take_bytes(code_bytes, what);
  const Quantizer quantizer(in, columns, what);
  require_data(code_bytes == static_cast<size_t>(rows) * quantizer.parts(),
               "{}: {}: expected {} codes, got {}", in.where(), what,
               static_cast<size_t>(rows) * quantizer.parts(), code_bytes);
  std::vector<float> norms(static_cast<size_t>(rows), 1);
  if (has_norms) {
    const std::span<const uint8_t> norm_codes = in.take_bytes(norms.size(), what);
    const Quantizer of_norms(in, 1, what);
    for (size_t r = 0; r < norms.size(); ++r) {
      of_norms.decode(norm_codes.subspan(r, 1), 1, std::span(norms).subspan(r, 1));
    }
  }
  const auto width = static_cast<size_t>(columns);
  for (size_t r = 0; r < norms.size(); ++r) {
    quantizer.decode(codes.subspan(r * quantizer.parts(), quantizer.parts()), norms[r],
                     to.subspan(r * width, width));
  }
}

// `to` has its size; nothing is trusted that the file does not have the bytes for.
void read_matrix(Reader& in, int64_t rows, int64_t columns, std::span<float> to, const char* what) {
  if (in.take<int8_t>(what) != 0) return read_quantised(in, rows, columns, to, what);
  in.check_shape(rows, columns, what);
  in.take_floats(to, what);
}

template <class T>
void put(AtomicFile& out, const T& value) {
  out.write(std::as_bytes(std::span(&value, 1)));
}

void put_matrix(AtomicFile& out, const std::vector<float>& values, int64_t columns) {
  put(out, static_cast<int64_t>(values.size()) / columns);
  put(out, columns);
  out.write(std::as_bytes(std::span(values)));
}

}  // namespace

FastTextModel FastTextModel::load(const Path& path) {
  Reader in(path);
  require_data(in.left() >= 8 && in.take<int32_t>("header") == kMagic,
               "{}: expected a model of fastText", path.string());
  const auto version = in.take<int32_t>("header");
  require_data(version == kVersion, "{}: expected version {}, got {}", path.string(), kVersion,
               version);
  const FastTextArgs args = read_args(in);
  Dictionary dictionary = read_dictionary(in, args.bucket);
  const auto labels = static_cast<int64_t>(dictionary.entries.size()) - dictionary.words;
  const bool pruned = dictionary.kept.has_value();
  const int64_t rows =
      dictionary.words + (pruned ? static_cast<int64_t>(dictionary.kept->size()) : args.bucket);
  // Of a quantised row at least a byte is there.
  require_data(rows < kMaxRows && in.left() >= static_cast<size_t>(rows),
               "{}: ends within the input matrix", path.string());
  std::optional<KeptBuckets> kept;
  if (pruned) kept.emplace(std::move(*dictionary.kept), args.bucket);
  FastTextModel model(args, std::move(dictionary.entries), std::move(kept));
  read_matrix(in, rows, args.dim, model.input, "input matrix");
  read_matrix(in, labels, args.dim, model.output, "output matrix");
  return model;
}

void FastTextModel::save(const Path& path) const {
  TEPHRA_ASSERT(!kept_, "only models that are not pruned are written");
  AtomicFile out(path);
  put(out, kMagic);
  put(out, kVersion);
  for (const int32_t field :
       {args.dim, args.ws, args.epoch, args.min_count, args.neg, args.word_ngrams, args.loss,
        args.model, args.bucket, args.minn, args.maxn, args.lr_update_rate}) {
    put(out, field);
  }
  put(out, args.t);
  put(out, static_cast<int32_t>(entries_.size()));
  put(out, words_);
  put(out, static_cast<int32_t>(labels_.size()));
  put(out, tokens_);
  put(out, int64_t{-1});
  for (const FastTextEntry& entry : entries_) {
    out.write(entry.word);
    put(out, '\0');
    put(out, entry.count);
    put(out, static_cast<int8_t>(entry.label ? 1 : 0));
  }
  put(out, int8_t{0});
  put_matrix(out, input, args.dim);
  put(out, int8_t{0});
  put_matrix(out, output, args.dim);
  out.commit();
}

}  // namespace tephra
