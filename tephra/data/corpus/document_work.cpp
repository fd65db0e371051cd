// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/document_work.h"

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/json_text.h"
#include "tephra/data/corpus/output_folder.h"

namespace tephra {

void each_document(const CorpusPiece& piece, const std::string& text_field, PieceResult& result,
                   FunctionRef<void(const Document&)> use) {
  JsonLine parser;
  int64_t documents = 0, bytes = 0;
  for (const Line& line : piece.lines) {
    const std::string_view object = piece.window.text(line);
    try {
      const std::string_view text = parser.padded_string_field(object, text_field);
      const std::optional<std::string_view> id = parser.find_string(kIdField);
      use({trim(object), text, id ? std::string(*id) : piece.id(line), line.row, id.has_value(),
           parser});
      ++documents;
      bytes += static_cast<int64_t>(text.size());
    } catch (const Error& error) {
      if (error.fault() != Fault::data) throw;
      result.bad(piece, line, error.what());
    }
  }
  result.tally.count(counted::kDocuments, documents);
  result.tally.count(counted::kTextBytes, bytes);
  result.tally.count("source." + piece.file.source + ".documents", documents);
}

void append_document(std::string& out, const Document& document) {
  if (document.has_id) {
    out += document.object;
  } else {
    std::string id;
    append_json_string(id, document.id);
    append_with_field(out, document.object, kIdField, id);
  }
  out += '\n';
}

void append_document(std::string& out, const Document& document, std::string_view field,
                     std::string_view json) {
  std::string line;
  append_document(line, document);
  line.pop_back();
  append_with_value(out, line, field, json);
  out += '\n';
}

StageJob reported_job(StageSettings stage, PieceWork work) {
  const std::string what = stage.what;
  const Path out = stage.out;
  return {.settings = std::move(stage),
          .work = std::move(work),
          .finish = [what, out](const StageRun& run) {
            Json report;
            report["stage"] = what;
            const Json tally = run.tally.to_json();
            for (const auto& [key, value] : tally.object()) report[key] = value;
            write_file(out / kReportFile, report.dump(2) + "\n");
            finish_stage(out);
          }};
}

StageRun run_reported(std::span<const CorpusFile> files, const StageSettings& stage,
                      const PieceWork& work) {
  return run_job(files, reported_job(stage, work));
}

}  // namespace tephra
