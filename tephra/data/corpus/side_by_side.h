// SPDX-License-Identifier: Apache-2.0
// How threads share the files of a corpus: each works on files of its own, with nobody to wait for,
// and all together on the few that are too large for that.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "tephra/base/function_ref.h"
#include "tephra/data/corpus/corpus_files.h"

namespace tephra {

// `together` are files for whose end, done by one thread, the others would wait; by their sizes on
// disk. One thread has none.
struct FileShares {
  std::vector<size_t> together, apart;  // in order

  FileShares(std::span<const CorpusFile> files, std::span<const size_t> chosen, size_t threads);
  explicit FileShares(std::vector<size_t> all) : together(std::move(all)) {}
};

// Calls work for each file, so many at once; work calls check_in now and then. Of several that
// throw, the first one's exception is rethrown, whatever happens first: files before it go on until
// they are done, those after it end when they check in.
void side_by_side(std::span<const size_t> files, size_t at_once,
                  FunctionRef<void(size_t file, FunctionRef<void()> check_in)> work);

}  // namespace tephra
