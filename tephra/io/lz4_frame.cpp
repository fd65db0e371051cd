// SPDX-License-Identifier: Apache-2.0
#include "tephra/io/lz4_frame.h"

#include <lz4frame.h>

#include "tephra/base/error.h"

namespace tephra {

void append_lz4_frame(std::string& out, std::string_view bytes) {
  LZ4F_preferences_t settings = LZ4F_INIT_PREFERENCES;
  settings.frameInfo.blockSizeID = LZ4F_max1MB;
  settings.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
  settings.frameInfo.contentSize = bytes.size();
  const size_t before = out.size();
  out.resize(before + LZ4F_compressFrameBound(bytes.size(), &settings));
  const size_t size = LZ4F_compressFrame(out.data() + before, out.size() - before, bytes.data(),
                                         bytes.size(), &settings);
  if (LZ4F_isError(size)) throw Error(Fault::device, "out of memory while compressing");
  out.resize(before + size);
}

}  // namespace tephra
