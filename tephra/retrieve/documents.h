// SPDX-License-Identifier: Apache-2.0
// Documents from files: a text file is one, a line of a .jsonl file is one, a folder is what is in
// it.
#pragma once

#include <string_view>
#include <vector>

#include "tephra/base/files.h"
#include "tephra/base/function_ref.h"

namespace tephra {

// The files of a path: itself, or for a folder those with a name ending in .txt, .md, .rst or
// .jsonl, in all of its folders, sorted. Fault::usage when it does not exist or holds none.
std::vector<Path> document_files(const Path& path);

// Calls `document(name, text)` for each. A record of a .jsonl file has "text", and may have
// "title", which becomes its first line, and "id"; another is a Fault::data that names the line.
void read_documents(const Path& file,
                    FunctionRef<void(std::string_view name, std::string_view text)> document);

}  // namespace tephra
