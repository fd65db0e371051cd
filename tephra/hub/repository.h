// SPDX-License-Identifier: Apache-2.0
// A model repository of a Hugging Face style hub: where it is, what it holds, what each file must
// hash to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tephra/base/json.h"
#include "tephra/base/sha.h"

namespace tephra {

// What a hub says about a file's content: SHA-256 of large files, git's name of small ones (SHA-1
// of "blob SIZE\0" and the content).
struct HubHash {
  ShaKind kind = ShaKind::sha256;
  std::string hex;

  // From an etag or a field of the listing: 64 or 40 hexadecimal digits, quotes and a weak mark
  // aside. Nothing when it is neither.
  static std::optional<HubHash> read(std::string_view text);
};

struct HubFile {
  std::string name;   // a path inside the repository, with '/'
  int64_t size = -1;  // -1: the hub does not say
  std::optional<HubHash> hash;
};

struct HubListing {
  std::string commit;
  std::vector<HubFile> files;  // sorted by name
};

struct HubPlace {
  std::string endpoint = "https://huggingface.co";
  std::string repository;  // OWNER/NAME, or NAME
  std::string revision = "main";

  std::string listing_url() const;
  std::string file_url(const std::string& commit, const std::string& name) const;
};

// Fault::usage unless it names a repository; takes a page's address, too.
std::string checked_repository(const std::string& given, const std::string& endpoint);

// Whether a file of this name can be kept below a folder: relative, without "..", without
// characters that a terminal or another system would act on, and none of our own names.
bool is_safe_name(const std::string& name);

// Fault::data when it is no listing, or has a name that is not safe.
HubListing read_listing(const Json& json, const std::string& where);

// "*" any text without '/', "**" any text, "?" one character. A pattern without '/' is for the
// last part of a name.
bool matches_pattern(std::string_view name, std::string_view pattern);

}  // namespace tephra
