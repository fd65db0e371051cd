// SPDX-License-Identifier: Apache-2.0
// Rows of a Parquet file as JSON lines: flat columns of strings, numbers and booleans.
#include <memory>

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/data/corpus/json_text.h"
#include "tephra/data/formats/document_columns.h"
#include "tephra/data/formats/document_reader.h"
#include "tephra/data/formats/parquet_column.h"

namespace tephra {
namespace {

class ParquetReader : public ConvertingReader {
 public:
  explicit ParquetReader(const Path& path) : file_(path), meta_(read_parquet_meta(file_)) {
    for (const ParquetColumn& column : meta_.columns) {
      if (column.supported) continue;
      warn_once("parquet " + column.name,
                "{}: column {} is left out: only flat columns of strings, numbers and booleans are "
                "read",
                path.string(), column.name);
    }
  }

  // By rows, since columns lie apart.
  int64_t file_bytes() const override {
    if (meta_.rows == 0) return file_.size();
    return static_cast<int64_t>(static_cast<double>(file_.size()) * static_cast<double>(done_) /
                                static_cast<double>(meta_.rows));
  }

 protected:
  bool next_line(std::string& out) override {
    while (row_ == rows_) {
      if (group_ == meta_.groups.size()) return false;
      open_group(meta_.groups[group_++]);
    }
    ++row_;
    ++done_;
    out += '{';
    const size_t open = out.size();
    for (Column& column : columns_) append_field(column, out);
    if (out.size() > open) out.pop_back();  // the last comma
    out += "}\n";
    return true;
  }

 private:
  struct Column {
    std::string key;  // as JSON, with its colon
    std::unique_ptr<ParquetColumnReader> values;
    bool json = false;   // of our own files: values are put in as they are
    bool other = false;  // of our own files: the fields of an object
  };

  // With a comma after it. In files of others, a missing value is null.
  void append_field(Column& column, std::string& out) const {
    const size_t before = out.size();
    if (!column.other) out += column.key;
    const bool there =
        column.json ? column.values->append_next_raw(out) : column.values->append_next(out);
    if (!there && meta_.documents) {
      out.resize(before);
      return;
    }
    if (!there) out += "null";
    if (column.other) unwrap(out, before);
    out += ',';
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
      if (!meta_.columns[c].supported) continue;
      const ParquetColumn& column = meta_.columns[c];
      std::string key;
      append_json_string(key, column.name);
      const bool json = meta_.documents && column.json;
      columns_.push_back({key + ":",
                          std::make_unique<ParquetColumnReader>(file_, column, group.chunks[c]),
                          json, json && column.name == kOtherColumn});
    }
  }

  FileReader file_;
  ParquetMeta meta_;
  std::vector<Column> columns_;
  size_t group_ = 0;
  int64_t rows_ = 0, row_ = 0, done_ = 0;
};

}  // namespace

std::unique_ptr<ByteReader> open_parquet_documents(const Path& path) {
  return std::make_unique<ParquetReader>(path);
}

}  // namespace tephra
