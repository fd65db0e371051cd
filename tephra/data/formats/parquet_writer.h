// SPDX-License-Identifier: Apache-2.0
// Documents to a Parquet file, a row group at a time. The columns are those of the first group. The
// state between groups can be kept and gone on from, so that a file can be finished after a kill.
#pragma once

#include <string>
#include <vector>

#include "tephra/base/json.h"
#include "tephra/data/formats/document_columns.h"

namespace tephra {

class ParquetWriter {
 public:
  explicit ParquetWriter(int level) : level_(level) {}
  // One whose state() this is, or a new one for null. Fault::data with `where` when it is damaged.
  ParquetWriter(int level, const Json& state, const std::string& where);

  // By these documents (JSON lines), unless it has columns already. Here and below, nothing of
  // `lines` changes but its capacity.
  void choose_columns(std::string& lines);
  // Any thread may make them.
  DocumentPages pages_of(std::string& lines) const;
  // Appends to `out` what comes next in the file: a row group, if there are documents.
  void add_group(const DocumentPages& pages, std::string& out);

  // The end of the file.
  void finish(std::string& out);

  Json state() const;

 private:
  struct Chunk {
    int64_t offset = 0, bytes = 0, unpacked_bytes = 0, entries = 0, nulls = 0;
  };
  struct Group {
    int64_t rows = 0;
    std::vector<Chunk> chunks;
  };

  void begin(std::string& out);
  void append_footer(std::string& out) const;

  int level_;
  int64_t offset_ = 0;  // bytes so far
  std::vector<DocumentColumn> columns_;
  std::vector<Group> groups_;
};

}  // namespace tephra
