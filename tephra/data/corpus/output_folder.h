// SPDX-License-Identifier: Apache-2.0
// The rules on a folder that a stage writes into: which settings and inputs it was begun with, what
// may be replaced, and what goes when the stage is done. Who may write there at a time is for
// output_lock.h.
#pragma once

#include <span>
#include <string>

#include "tephra/data/corpus/corpus_files.h"
#include "tephra/data/corpus/stage.h"

namespace tephra {

// Size and a hash of both ends: another file under the same name is noticed.
std::string mark_of_file(const Path& path);
inline constexpr const char* kUnreadableMark = "unreadable";
// Which files these are, by number, names and content: "7 files, 0123456789abcdef".
std::string mark_of_files(std::span<const CorpusFile> files);

// Fault::usage when `out` holds a finished output; with `overwrite` it is removed. Changes nothing
// for a shard, nor for ranks but the first: others may be at work there.
void prepare_output(const Path& out, bool overwrite, const Shard& shard = {});

// The first run of a stage writes down its settings and files; Fault::usage when a later one has
// others, whose outputs cannot be joined with these.
void hold_settings(const StageSettings& settings, std::span<const CorpusFile> files);

// Once the report is there: takes away what only an unfinished run needs, and documents of the
// sources that the report names as references. After a kill the same command, or any that writes
// there, does it again.
void finish_stage(const Path& out);

inline constexpr const char* kReferencesKey = "references";  // of a report
inline constexpr const char* kRemovedFolder = "removed";

}  // namespace tephra
