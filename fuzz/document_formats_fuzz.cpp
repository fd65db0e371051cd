// SPDX-License-Identifier: Apache-2.0
// Any bytes as a WET or WARC file, a Parquet file and a model of fastText: read as far as they go
// or refused.
#include <filesystem>

#include "fuzz/fuzz.h"
#include "tephra/base/json.h"
#include "tephra/data/classify/fasttext_model.h"
#include "tephra/data/formats/document_reader.h"

namespace {

// All of it, every line valid JSON.
void read_all(std::unique_ptr<tephra::ByteReader> reader) {
  std::string lines(1 << 16, '\0');
  size_t total = 0;
  while (const size_t got = reader->read(lines)) {
    if ((total += got) > (size_t{1} << 24)) return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tephra;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  fuzz::expect_reads_or_refuses([&] { read_all(open_wet(file.path())); });
  fuzz::expect_reads_or_refuses([&] { read_all(open_warc(file.path())); });
  fuzz::expect_reads_or_refuses([&] { read_all(open_parquet_documents(file.path())); });
  fuzz::expect_reads_or_refuses([&] {
    const FastTextModel model = FastTextModel::load(file.path());
    FastTextModel::Scratch scratch;
    model.predict("some words of a text", scratch);
  });
  return 0;
}
