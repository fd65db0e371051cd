// SPDX-License-Identifier: Apache-2.0
// fastText's .bin files, version 12: arguments, dictionary, two dense matrices.
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

  std::vector<float> matrix(int64_t rows, int64_t columns, const char* what) {
    const auto m = take<int64_t>(what), n = take<int64_t>(what);
    require_data(m == rows && n == columns, "{}: {}: expected a matrix of {} x {}, got {} x {}",
                 where(), what, rows, columns, m, n);
    std::vector<float> values;
    need(static_cast<size_t>(m * n) * sizeof(float), what);
    values.resize(static_cast<size_t>(m * n));
    std::memcpy(values.data(), bytes_.data() + at_, values.size() * sizeof(float));
    at_ += values.size() * sizeof(float);
    return values;
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
  require_data(args.dim > 0 && args.dim <= 4096 && args.bucket >= 0 && args.word_ngrams >= 0 &&
                   args.minn >= 0 && args.maxn >= args.minn && args.maxn < 100,
               "{}: arguments are out of range", in.where());
  return args;
}

std::vector<FastTextEntry> read_dictionary(Reader& in) {
  const auto size = in.take<int32_t>("dictionary"), words = in.take<int32_t>("dictionary"),
             labels = in.take<int32_t>("dictionary");
  in.take<int64_t>("dictionary");  // tokens
  const auto pruned = in.take<int64_t>("dictionary");
  require_data(pruned < 0, "{}: its dictionary is pruned, as quantised models are; give the .bin",
               in.where());
  require_data(size >= 0 && words >= 0 && labels > 0 && int64_t{words} + labels == size,
               "{}: expected {} words and labels, got {} and {}", in.where(), size, words, labels);
  require_data(in.left() >= static_cast<size_t>(size) * 10, "{}: ends within its dictionary",
               in.where());
  std::vector<FastTextEntry> entries;
  for (int32_t i = 0; i < size; ++i) {
    FastTextEntry entry;
    entry.word = in.text();
    entry.count = in.take<int64_t>("dictionary");
    entry.label = in.take<int8_t>("dictionary") == 1;
    require_data(entry.label == (i >= words) && entry.count >= 0,
                 "{}: expected words first and labels last", in.where());
    entries.push_back(std::move(entry));
  }
  return entries;
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
  std::vector<FastTextEntry> entries = read_dictionary(in);
  int64_t words = 0;
  for (const FastTextEntry& entry : entries) words += !entry.label;
  const auto labels = static_cast<int64_t>(entries.size()) - words;
  const int64_t rows = words + args.bucket;
  require_data(
      rows < kMaxRows && in.left() >= static_cast<size_t>(rows) * static_cast<size_t>(args.dim) * 4,
      "{}: ends within the input matrix", path.string());
  require_data(in.take<int8_t>("input") == 0,
               "{}: is quantised (.ftz), which is not supported; give the .bin", path.string());
  FastTextModel model(args, std::move(entries));
  model.input = in.matrix(rows, args.dim, "input matrix");
  require_data(in.take<int8_t>("output") == 0,
               "{}: its output is quantised, which is not supported", path.string());
  model.output = in.matrix(labels, args.dim, "output matrix");
  return model;
}

void FastTextModel::save(const Path& path) const {
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
