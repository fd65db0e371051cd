// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/machine_file.h"

#include <cmath>
#include <cstdlib>

#include "tephra/base/error.h"
#include "tephra/base/log.h"

namespace tephra {
namespace {

// The value of an environment variable that holds an absolute path.
std::optional<Path> folder_of(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr || !Path(value).is_absolute()) return {};
  return Path(value);
}

double positive(const Fields& fields, const char* key) {
  const double value = fields.number(key);
  require_data(std::isfinite(value) && value > 0, "{}: {} must be positive, got {}", fields.where(),
               key, value);
  return value;
}

Ceilings from_json(const Fields& fields) {
  Ceilings c;
  c.gemm_gflops = positive(fields, "gemm_gflops");
  c.gemm_gflops_per_thread = positive(fields, "gemm_gflops_per_thread");
  c.load_average = fields.number("load_average");
  for (const Json& entry : fields.array("streams")) {
    const Fields stream(entry, fields.where());
    c.streams.push_back(
        {{static_cast<int>(stream.integer("reads")), static_cast<int>(stream.integer("writes"))},
         positive(stream, "gb_per_s")});
  }
  return c;
}

}  // namespace

std::optional<Path> cache_folder() {
  if (const auto folder = folder_of("XDG_CACHE_HOME")) return *folder / "tephra";
  if (const auto home = folder_of("HOME")) return *home / ".cache" / "tephra";
  return {};
}

std::optional<Ceilings> load_ceilings(const std::string& cpu, int threads) {
  const std::optional<Path> folder = cache_folder();
  std::error_code unknown;  // a home that this user may not enter: nothing is known
  if (!folder || !std::filesystem::exists(*folder / "machine.json", unknown)) return {};
  const Path path = *folder / "machine.json";
  try {
    const Json json = Json::parse(read_file(path, 1 << 20), path.string());
    const Fields fields(json, path.string());
    if (fields.string("cpu") != cpu || fields.integer("threads") != threads ||
        fields.string("version") != TEPHRA_VERSION) {
      return {};
    }
    return from_json(fields.object("ceilings"));
  } catch (const Error& e) {
    log_warning("{}; measuring again", e.what());
    return {};
  }
}

std::optional<Path> save_ceilings(const std::string& cpu, int threads, const Ceilings& ceilings) {
  const std::optional<Path> folder = cache_folder();
  if (!folder) {
    log_warning("ceilings are not kept: neither XDG_CACHE_HOME nor HOME is set");
    return {};
  }
  Json json;
  json["version"] = TEPHRA_VERSION;
  json["cpu"] = cpu;
  json["threads"] = threads;
  json["ceilings"] = to_json(ceilings);
  try {
    make_writable_folder(*folder);
    write_file(*folder / "machine.json", json.dump(2) + "\n");
  } catch (const Error& e) {
    log_warning("ceilings are not kept: {}", e.what());
    return {};
  }
  return *folder / "machine.json";
}

Json to_json(const Ceilings& c) {
  Json json;
  json["gemm_gflops"] = c.gemm_gflops;
  json["gemm_gflops_per_thread"] = c.gemm_gflops_per_thread;
  json["load_average"] = c.load_average;
  json["streams"] = Json::Array{};
  for (const StreamCeiling& s : c.streams) {
    Json entry;
    entry["reads"] = s.mix.reads;
    entry["writes"] = s.mix.writes;
    entry["gb_per_s"] = s.gb_per_s;
    json["streams"].push_back(entry);
  }
  return json;
}

}  // namespace tephra
