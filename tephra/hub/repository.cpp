// SPDX-License-Identifier: Apache-2.0
#include "tephra/hub/repository.h"

#include <algorithm>
#include <set>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

bool is_unreserved(char c) {  // RFC 3986, 2.3
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '_' || c == '.' || c == '~';
}

// For a path of a URL; '/' stays.
std::string percent_encoded(std::string_view text, bool keep_slash) {
  std::string out;
  for (const char c : text) {
    if (is_unreserved(c) || (keep_slash && c == '/')) {
      out += c;
    } else {
      out += format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

bool is_repository_part(std::string_view part) {
  return !part.empty() && part.size() <= 96 && !part.starts_with('.') && !part.starts_with('-') &&
         part.find("..") == part.npos &&
         std::all_of(part.begin(), part.end(), [](char c) { return is_unreserved(c) && c != '~'; });
}

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

HubFile read_sibling(const Json& json, const std::string& where) {
  const Fields fields(json, where);
  HubFile file;
  file.name = fields.string("rfilename");
  require_data(is_safe_name(file.name),
               "{}: '{}' is no name of a file below a folder; nothing of it is taken", where,
               clipped(file.name, 200));
  file.size = fields.integer_or("size", -1);
  if (fields.has("blobId")) file.hash = HubHash::read(fields.string("blobId"));
  if (fields.has("lfs")) {  // then blobId names a small pointer, not the content
    const Fields lfs = fields.object("lfs");
    file.hash = HubHash::read(lfs.string_or("sha256", lfs.string_or("oid", "")));
    file.size = lfs.integer_or("size", file.size);
  }
  return file;
}

bool matches_here(std::string_view name, std::string_view pattern) {
  if (pattern.empty()) return name.empty();
  if (pattern.starts_with("**")) {
    for (size_t i = 0; i <= name.size(); ++i) {
      if (matches_here(name.substr(i), pattern.substr(2))) return true;
    }
    return false;
  }
  if (pattern[0] == '*') {
    for (size_t i = 0; i <= name.size(); ++i) {
      if (matches_here(name.substr(i), pattern.substr(1))) return true;
      if (i < name.size() && name[i] == '/') return false;
    }
    return false;
  }
  if (name.empty() || (pattern[0] != '?' && pattern[0] != name[0])) return false;
  return matches_here(name.substr(1), pattern.substr(1));
}

}  // namespace

std::optional<HubHash> HubHash::read(std::string_view text) {
  text = trim(text);
  if (text.starts_with("W/")) text.remove_prefix(2);
  if (text.size() >= 2 && text.starts_with('"') && text.ends_with('"')) {
    text = text.substr(1, text.size() - 2);
  }
  if (text.starts_with("sha256:")) text.remove_prefix(7);
  if (!is_hex(text) || (text.size() != 64 && text.size() != 40)) return std::nullopt;
  return HubHash{text.size() == 64 ? ShaKind::sha256 : ShaKind::sha1, std::string(text)};
}

std::string HubPlace::listing_url() const {
  return format("{}/api/models/{}/revision/{}?blobs=true", endpoint, repository,
                percent_encoded(revision, false));
}

std::string HubPlace::file_url(const std::string& commit, const std::string& name) const {
  return format("{}/{}/resolve/{}/{}", endpoint, repository, percent_encoded(commit, false),
                percent_encoded(name, true));
}

std::string checked_repository(const std::string& given, const std::string& endpoint) {
  std::string_view name = given;
  if (name.starts_with(endpoint + "/")) name.remove_prefix(endpoint.size() + 1);
  while (name.ends_with('/')) name.remove_suffix(1);
  const std::vector<std::string_view> parts = split(name, '/');
  const bool good =
      parts.size() <= 2 && std::all_of(parts.begin(), parts.end(), is_repository_part);
  require(good, "expected a repository such as Zyphra/ZAYA1-8B, got '{}'", clipped(given, 200));
  return std::string(name);
}

bool is_safe_name(const std::string& name) {
  if (name.empty() || name.size() > 1000 || !is_utf8(name)) return false;
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\') return false;
  }
  for (const std::string_view part : split(name, '/')) {
    if (part.empty() || part == "." || part == ".." || part.size() > 255) return false;
    if (part == ".tephra-pull") return false;
  }
  return true;
}

HubListing read_listing(const Json& json, const std::string& where) {
  const Fields fields(json, where);
  HubListing listing;
  listing.commit = fields.string("sha");
  require_data(!listing.commit.empty() && listing.commit.size() <= 64 && is_hex(listing.commit),
               "{}: sha: expected the name of a commit, got '{}'", where,
               clipped(listing.commit, 80));
  std::set<std::string> seen;
  for (const Json& each : fields.array("siblings")) {
    HubFile file = read_sibling(each, where + ": siblings");
    require_data(seen.insert(file.name).second, "{}: '{}' is listed twice", where, file.name);
    listing.files.push_back(std::move(file));
  }
  std::sort(listing.files.begin(), listing.files.end(),
            [](const HubFile& a, const HubFile& b) { return a.name < b.name; });
  return listing;
}

bool matches_pattern(std::string_view name, std::string_view pattern) {
  if (pattern.find('/') == pattern.npos) {
    const size_t slash = name.rfind('/');
    if (slash != name.npos) name.remove_prefix(slash + 1);
  }
  return matches_here(name, pattern);
}

}  // namespace tephra
