// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/decontaminate/decontaminate_corpus.h"

#include "tephra/base/error.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/document_work.h"
#include "tephra/data/corpus/json_text.h"

namespace tephra {

StageJob decontaminate_job(const std::shared_ptr<const TaskIndex>& tasks,
                           const std::string& text_field, StageSettings stage) {
  stage.what = "decontaminate";
  stage.streams = {documents_stream(stage), {"removed"}};
  stage.settings = format("decontaminate {} {} {}", text_field, tasks->entries(), stage.level);
  for (const std::string& name : tasks->names()) stage.settings += " " + name;
  const auto work = [tasks, text_field](const CorpusPiece& piece, PieceResult& result) {
    const TaskIndex& index = *tasks;
    NormalWords words;
    each_document(piece, text_field, result, [&](const Document& document) {
      const std::optional<TaskIndex::Match> match = index.find(document.text, words);
      if (!match) {
        result.tally.count("kept");
        append_document(result.streams[0], document);
        return;
      }
      const std::string& task = index.names()[match->task];
      result.tally.count("removed");
      result.tally.count("contaminated_by." + task);
      result.tally.sample(task, document.id, match->words + "\n\n" + std::string(document.text));
      std::string& out = result.streams[1];
      out += "{\"id\":";
      append_json_string(out, document.id);
      out += ",\"task\":";
      append_json_string(out, task);
      out += ",\"words\":";
      append_json_string(out, match->words);
      out += "}\n";
    });
  };
  return reported_job(std::move(stage), work);
}

StageRun decontaminate_corpus(std::span<const CorpusFile> files, const TaskIndex& index,
                              const std::string& text_field, StageSettings stage) {
  // Not owned: it outlives the run.
  const std::shared_ptr<const TaskIndex> tasks(std::shared_ptr<const TaskIndex>(), &index);
  return run_job(files, decontaminate_job(tasks, text_field, std::move(stage)));
}

}  // namespace tephra
