// SPDX-License-Identifier: Apache-2.0
// TensorBoard event files: records with masked CRC-32C, each an Event message. A resumed run begins
// a new file that tells TensorBoard to forget what older ones hold from its first step on.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tephra/base/append_file.h"

namespace tephra {

uint32_t crc32c(std::string_view bytes);

// Length, its checksum, the data, its checksum.
std::string tfrecord(std::string_view data);

using Scalar = std::pair<std::string, double>;

// Messages of tensorflow's event.proto, encoded by hand.
std::string version_event(double wall_time);
std::string start_event(double wall_time, int64_t step);  // purges what is at or after `step`
std::string scalars_event(double wall_time, int64_t step, std::span<const Scalar> scalars);

class EventFile {
 public:
  // Begins FOLDER/events.out.tfevents.TIME.HOST.PID.N. `first_step` is the first that will come.
  EventFile(const Path& folder, int64_t first_step);

  void add(int64_t step, std::span<const Scalar> scalars);  // now; each by its tag
  void flush();

  const Path& path() const { return file_.path(); }

 private:
  AppendFile file_;
};

}  // namespace tephra
