// SPDX-License-Identifier: Apache-2.0
// Removes documents in which text of a benchmark stands.
#pragma once

#include <memory>

#include "tephra/data/corpus/stage.h"
#include "tephra/data/decontaminate/task_index.h"

namespace tephra {

StageJob decontaminate_job(const std::shared_ptr<const TaskIndex>& tasks,
                           const std::string& text_field, StageSettings stage);

// OUT/documents without them; OUT/removed names each with the task and the words that matched.
StageRun decontaminate_corpus(std::span<const CorpusFile> files, const TaskIndex& index,
                              const std::string& text_field, StageSettings stage);

}  // namespace tephra
