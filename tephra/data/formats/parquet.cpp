// SPDX-License-Identifier: Apache-2.0
// Rows of a Parquet file as JSON lines: flat columns of strings, numbers and booleans.
#include <memory>

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/data/corpus/json_text.h"
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
    char separator = '{';
    for (Column& column : columns_) {
      out += separator;
      out += column.key;
      column.values->append_next(out);
      separator = ',';
    }
    out += columns_.empty() ? "{}\n" : "}\n";
    return true;
  }

 private:
  struct Column {
    std::string key;  // as JSON, with its colon
    std::unique_ptr<ParquetColumnReader> values;
  };

  void open_group(const ParquetRowGroup& group) {
    columns_.clear();
    rows_ = group.rows;
    row_ = 0;
    for (size_t c = 0; c < meta_.columns.size(); ++c) {
      if (!meta_.columns[c].supported) continue;
      std::string key;
      append_json_string(key, meta_.columns[c].name);
      columns_.push_back({key + ":", std::make_unique<ParquetColumnReader>(file_, meta_.columns[c],
                                                                           group.chunks[c])});
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
