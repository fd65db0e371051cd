// SPDX-License-Identifier: Apache-2.0
// The documents of a piece one by one, for stages that look at each on its own.
#pragma once

#include <string>
#include <string_view>

#include "tephra/base/function_ref.h"
#include "tephra/data/corpus/stage.h"
#include "tephra/data/json_line.h"

namespace tephra {

struct Document {
  std::string_view object;  // the line
  std::string_view text;
  std::string id;          // where it stood in the first input
  int64_t row;             // in this input
  bool has_id;             // the line says so itself
  const JsonLine& fields;  // for others of its fields
};

// Calls `use` with each document that can be read; others are bad ones of the result. Counts
// documents and bytes, in all and by source. An Error of Fault::data in `use` makes its document
// bad.
void each_document(const CorpusPiece& piece, const std::string& text_field, PieceResult& result,
                   FunctionRef<void(const Document&)> use);

// Its line, with the id.
void append_document(std::string& out, const Document& document);
// The same with another field, whose value is given as JSON.
void append_document(std::string& out, const Document& document, std::string_view field,
                     std::string_view json);

// A stage that, when it is complete, writes OUT/report.json with what was counted.
StageJob reported_job(StageSettings stage, PieceWork work);
StageRun run_reported(std::span<const CorpusFile> files, const StageSettings& stage,
                      const PieceWork& work);

}  // namespace tephra
