// SPDX-License-Identifier: Apache-2.0
// Brings a repository's files into a folder: several at once, each resumed where it stopped,
// checked against the hub's hash, and under its own name only when it is right. What is not whole
// yet lies in OUT/.tephra-pull, named by what it must become, so a killed pull goes on from there.
#pragma once

#include "tephra/base/files.h"
#include "tephra/hub/repository.h"

namespace tephra {

struct PullOptions {
  HubPlace place;
  std::string token;
  Path out;
  std::vector<std::string> include, exclude;  // patterns; no include: all
  int64_t jobs = 4;                           // files at once
  int64_t retries = 8;                        // in a row without a new byte
  double retry_seconds = 1;                   // before the first retry; doubled for each further
  double stall_seconds = 30;
  bool list_only = false;
};

enum class PullState {
  listed,   // nothing was asked for
  present,  // was there, and right
  pulled,
};

struct PulledFile {
  HubFile file;
  PullState state = PullState::listed;
  bool hashed = false;  // the hub gave a hash, and it is met
};

struct PullReport {
  std::string commit;
  std::vector<PulledFile> files;
  int64_t bytes = 0;         // of all files
  int64_t pulled_bytes = 0;  // that came over the network
  double seconds = 0;
};

// Fault::usage: what the hub does not have or not give to us; a folder that cannot be written.
// Fault::data: wrong bytes, a hub that cannot be reached, a full disk. Fault::interrupted.
PullReport pull(const PullOptions& options);

}  // namespace tephra
