// SPDX-License-Identifier: Apache-2.0
// Rows of a Parquet file as JSON lines. Fields that nest are put together by the levels of their
// columns, as Dremel (VLDB 2010) describes.
#include <memory>

#include "tephra/base/error.h"
#include "tephra/data/corpus/json_text.h"
#include "tephra/data/formats/document_columns.h"
#include "tephra/data/formats/document_reader.h"
#include "tephra/data/formats/parquet_column.h"

namespace tephra {
namespace {

constexpr size_t kMaxRowBytes = size_t{1} << 30;

class ParquetReader : public ConvertingReader {
 public:
  explicit ParquetReader(const Path& path) : file_(path), meta_(read_parquet_meta(file_)) {}

  // By rows, since columns lie apart.
  int64_t file_bytes() const override {
    if (meta_.rows == 0) return file_.size();
    return static_cast<int64_t>(static_cast<double>(file_.size()) * static_cast<double>(done_) /
                                static_cast<double>(meta_.rows));
  }

 protected:
  bool next_line(std::string& out) override {
    while (row_ == rows_) {
      for (const auto& column : columns_) column->check_end();
      if (group_ == meta_.groups.size()) return false;
      open_group(meta_.groups[group_++]);
    }
    ++row_;
    ++done_;
    out += '{';
    const size_t open = out.size();
    for (const ParquetField& field : meta_.fields) append_field(field, out);
    if (out.size() > open) out.pop_back();  // the last comma
    out += "}\n";
    return true;
  }

 private:
  using Kind = ParquetField::Kind;

  // With a comma after it. In files of others, a missing value is null.
  void append_field(const ParquetField& field, std::string& out) {
    const size_t before = out.size();
    ParquetColumnReader& first = *columns_[field.first_leaf];
    const bool json =
        meta_.documents && field.kind == Kind::leaf && meta_.columns[field.first_leaf].json;
    const bool other = json && field.name == kOtherColumn;
    if (!other) append_key(field, out);
    bool there = true;
    if (field.kind != Kind::leaf) {
      for (size_t leaf = field.first_leaf; leaf < field.end_leaf; ++leaf) {
        if (columns_[leaf]->repetition() != 0) damaged(field);
      }
      there = first.definition() >= field.definition;
      append_nested(field, out);
    } else {
      there = json ? first.append_next_raw(out) : first.append_next(out);
      if (!there) out += "null";
    }
    if (!there && meta_.documents) {
      out.resize(before);
      return;
    }
    if (other) unwrap(out, before);
    out += ',';
  }

  void append_nested(const ParquetField& field, std::string& out) {
    ParquetColumnReader& first = *columns_[field.first_leaf];
    if (first.definition() < field.definition) {
      pass(field);
      out += "null";
    } else if (field.kind == Kind::leaf) {
      first.append_next(out);
    } else if (field.kind == Kind::list) {
      append_list(field, out);
    } else {
      out += '{';
      for (const ParquetField& each : field.fields) {
        append_key(each, out);
        append_nested(each, out);
        out += ',';
      }
      out.back() = '}';
    }
  }

  void append_list(const ParquetField& list, std::string& out) {
    ParquetColumnReader& first = *columns_[list.first_leaf];
    out += '[';
    if (first.definition() == list.definition) {  // empty
      pass(list);
      out += ']';
      return;
    }
    do {
      append_nested(list.fields[0], out);
      out += ',';
      require_data(out.size() <= kMaxRowBytes, "{}: field {}: a row is longer than 1 GiB",
                   file_.path().string(), list.name);
    } while (first.repetition() == list.repetition);
    if (first.repetition() > list.repetition) damaged(list);
    out.back() = ']';
  }

  // What says that there is nothing, in all columns of the field.
  void pass(const ParquetField& field) {
    for (size_t leaf = field.first_leaf; leaf < field.end_leaf; ++leaf) columns_[leaf]->pass();
  }

  static void append_key(const ParquetField& field, std::string& out) {
    append_json_string(out, field.name);
    out += ':';
  }

  [[noreturn]] void damaged(const ParquetField& field) const {
    throw Error(Fault::data, format("{}: field {}: its columns do not belong together",
                                    file_.path().string(), field.name));
  }

  // The object that begins at `from` without its braces.
  void unwrap(std::string& out, size_t from) const {
    require_data(out.size() - from > 2 && out[from] == '{' && out.back() == '}',
                 "{}: column {}: expected an object with fields", file_.path().string(),
                 kOtherColumn);
    out.pop_back();
    out.erase(from, 1);
  }

  void open_group(const ParquetRowGroup& group) {
    columns_.clear();
    rows_ = group.rows;
    row_ = 0;
    for (size_t c = 0; c < meta_.columns.size(); ++c) {
      columns_.push_back(
          std::make_unique<ParquetColumnReader>(file_, meta_.columns[c], group.chunks[c]));
    }
  }

  FileReader file_;
  ParquetMeta meta_;
  std::vector<std::unique_ptr<ParquetColumnReader>> columns_;  // of the row group
  size_t group_ = 0;
  int64_t rows_ = 0, row_ = 0, done_ = 0;
};

}  // namespace

std::unique_ptr<ByteReader> open_parquet_documents(const Path& path) {
  return std::make_unique<ParquetReader>(path);
}

}  // namespace tephra
