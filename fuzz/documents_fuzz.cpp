// SPDX-License-Identifier: Apache-2.0
// Any bytes as a .jsonl file: windows hold every line once and agree with a plain split, whatever
// their size, and fields can be put into any object.
#include <cstdlib>
#include <string>

#include "fuzz/fuzz.h"
#include "tephra/base/json.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/json_text.h"
#include "tephra/data/corpus/line_windows.h"
#include "tephra/data/line_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tephra;
  const std::string_view text = fuzz::text_of(data, size);
  const fuzz::MemoryFile file(text);
  std::vector<std::string_view> want = split(text, '\n');
  want[0].remove_prefix(byte_order_mark(want[0]));
  LineWindows windows(file.path(), 16, 1 << 20);
  for (bool last = false; !last;) {
    const LineWindow window = windows.next();
    for (const Line& line : window.lines) {
      if (line.row < 1 || static_cast<size_t>(line.row) > want.size() ||
          window.text(line) != want[static_cast<size_t>(line.row) - 1]) {
        std::abort();
      }
    }
    last = window.last;
  }
  // A valid object stays one, with the field as it was given.
  fuzz::expect_reads_or_refuses([&] {
    const Json json = Json::parse(text, "object");
    if (!json.is_object()) return;
    std::string out;
    append_with_string(out, text, "text", "new \"value\"\n");
    const Json changed = Json::parse(out, "changed");
    if (json.find("text") == nullptr && changed.find("text")->string() != "new \"value\"\n") {
      std::abort();
    }
  });
  return 0;
}
