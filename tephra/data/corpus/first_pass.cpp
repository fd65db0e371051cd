// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/first_pass.h"

#include "tephra/base/error.h"

namespace tephra {
namespace {

constexpr const char* kAlone = "leave the inputs alone during a run; --overwrite begins anew";

}  // namespace

void FirstPass::check(const CorpusPiece& piece) const {
  const int64_t rows = run_.file_rows[piece.file_index];
  if (piece.lines.empty() || piece.lines.back().row <= rows) return;
  changed(piece.file, format("it has more than the {} lines it began with", rows));
}

void FirstPass::check(const StageRun& later) const {
  if (!later.complete) return;
  for (size_t file = 0; file < files_.size(); ++file) {
    const int64_t before = run_.file_rows[file], now = later.file_rows[file];
    if (before == now) continue;
    changed(files_[file], format("{} lines could be read at first, {} later", before, now));
  }
}

void FirstPass::check_texts(const StageRun& later) const {
  check(later);
  if (!later.complete) return;
  for (const char* name : {counted::kDocuments, counted::kTextBytes}) {
    const int64_t before = run_.tally[name], now = later.tally[name];
    if (before == now) continue;
    throw Error(Fault::data,
                format("the inputs were changed while they were read: {} was {}, then {}", name,
                       before, now),
                kAlone);
  }
}

void FirstPass::changed(const CorpusFile& file, std::string_view how) {
  throw Error(Fault::data, format("{}: was changed while it was read: {}", file.path.string(), how),
              kAlone);
}

StageRun run_later(std::span<const CorpusFile> files, const StageJob& job, const FirstPass& first) {
  StageRun run = run_jobs(files, std::span(&job, 1)).front();
  first.check_texts(run);
  if (run.complete) job.finish(run);
  return run;
}

}  // namespace tephra
