// SPDX-License-Identifier: Apache-2.0
// Files to train a tokenizer on: plain text, or JSON lines with a "text" field (*.jsonl).
#pragma once

#include "tephra/base/files.h"
#include "tephra/base/progress.h"
#include "tephra/text/word_counter.h"

namespace tephra {

// Counts the words of a file. A line of a .jsonl that has no text is Fault::data and names the
// line.
void count_file(const Path& path, WordCounter& counter, Progress& progress);

}  // namespace tephra
