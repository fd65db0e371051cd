// SPDX-License-Identifier: Apache-2.0
#include "tephra/io/zstd_frame.h"

#include <zstd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "tephra/base/error.h"

namespace tephra {
namespace {

constexpr size_t kMostRoom = size_t{4} << 20;  // that a thread keeps

using Context = std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)>;

// Making one costs more than a small frame.
ZSTD_CCtx* context_of_this_thread() {
  thread_local const Context kContext(ZSTD_createCCtx(), &ZSTD_freeCCtx);
  if (!kContext) throw Error(Fault::device, "out of memory while compressing");
  return kContext.get();
}

}  // namespace

void append_zstd_frame(std::string& out, std::string_view bytes, int level) {
  ZSTD_CCtx* context = context_of_this_thread();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  thread_local std::vector<char> room;  // memory that is not touched for the first time each time
  room.resize(std::max(room.size(), ZSTD_compressBound(bytes.size())));
  const size_t size = ZSTD_compress2(context, room.data(), room.size(), bytes.data(), bytes.size());
  TEPHRA_ASSERT(!ZSTD_isError(size), "the bound leaves room for every frame");
  out.append(room.data(), size);
  if (room.size() > kMostRoom) room = {};
}

}  // namespace tephra
