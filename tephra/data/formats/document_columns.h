// SPDX-License-Identifier: Apache-2.0
// Documents as columns: which fields of JSON objects become columns of which type, and their
// values as pages of a Parquet file. What has no column, or does not fit it, is kept as JSON in a
// column of its own (docs/decisions/0042-fields-of-parquet-documents.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tephra {

enum class ColumnType { boolean, integer, real, string, json };

struct DocumentColumn {
  std::string name;
  ColumnType type = ColumnType::string;
  bool list = false;  // of such values
  bool operator==(const DocumentColumn&) const = default;
};

// The type by name ("list of real") and back; nothing when there is none of that name.
std::string column_type_name(const DocumentColumn& column);
std::optional<DocumentColumn> column_of_type(const std::string& name, std::string_view type);

// An object of the fields that have no column. The last column of every file that we write.
inline constexpr const char* kOtherColumn = "tephra_other";
// In the metadata of such files: there no value means no such field.
inline constexpr const char* kDocumentsKey = "tephra.documents";
inline constexpr const char* kDocumentsVersion = "1";

// JSON has no numbers that are not finite. They are the strings "NaN", "Infinity" and "-Infinity",
// which a column of reals takes back.
std::string_view not_finite_name(double value);
std::optional<double> not_finite_value(std::string_view name);

// Kinds of values that were seen of each field, in the order of their first appearance.
class SeenFields {
 public:
  void add_lines(std::string_view lines);  // JSON objects
  void add(const SeenFields& later);

  // One column for each field that has values, but for too many fields; then kOtherColumn.
  std::vector<DocumentColumn> columns() const;

 private:
  void see(std::string_view name, uint32_t kinds, size_t& expected);

  std::vector<std::pair<std::string, uint32_t>> fields_;
};

// Pages of one column, one after another.
struct ColumnPages {
  std::string bytes;
  int64_t unpacked_bytes = 0;  // with the headers
  int64_t entries = 0;         // values and what stands for none; of lists that is not one a row
  int64_t nulls = 0;
};

struct DocumentPages {
  int64_t rows = 0;
  std::vector<ColumnPages> columns;
};

// Of JSON lines, with zstd's `level`. 64 bytes after the lines must be readable.
DocumentPages make_pages(std::string_view lines, std::span<const DocumentColumn> columns,
                         int level);

}  // namespace tephra
