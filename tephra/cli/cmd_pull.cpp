// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/progress.h"
#include "tephra/base/text.h"
#include "tephra/cli/command.h"
#include "tephra/cli/output.h"
#include "tephra/hub/pull.h"

namespace tephra {
namespace {

struct Options {
  std::string repository;
  std::string revision = "main";
  std::string out;
  std::vector<std::string> include, exclude;
  int64_t jobs = 4;
  int64_t retries = 8;
  double retry_wait = 1;
  double stall = 30;
  bool list = false, json = false;
};

void describe(Flags& flags, Options& o) {
  flags.add("REPO", o.repository, "OWNER/NAME on the hub, or the address of its page").required();
  flags.add("--revision", o.revision, "branch, tag or commit");
  flags.add("--out DIR", o.out, "folder for the files; the repository's NAME by default");
  flags.add("--include PATTERN", o.include,
            "only files of this pattern, such as '*.safetensors' or 'docs/**'. May be repeated");
  flags.add("--exclude PATTERN", o.exclude, "no files of this pattern. May be repeated");
  flags.add("--list", o.list, "say what there is and pull nothing");
  flags.add("--jobs", o.jobs, "files at once").range(1, 64);
  flags.add("--retries", o.retries, "tries of a file in a row that bring nothing new")
      .range(0, 1000);
  flags
      .add("--retry-wait", o.retry_wait,
           "seconds before the first retry, doubled for each further; what the hub asks for wins")
      .range(0, 300);
  flags.add("--stall", o.stall, "seconds without a byte that end a transfer").range(1, 3600);
  flags.add("--json", o.json, "one JSON document about the files");
  flags.example("tephra pull Zyphra/ZAYA1-8B");
  flags.example("tephra pull Zyphra/ZAYA1-8B --list");
  flags.example("HF_TOKEN=hf_... tephra pull OWNER/PRIVATE --revision v2 --out models/private");
  flags.example("HF_ENDPOINT=https://hub.example.org tephra pull OWNER/NAME --include '*.json'");
}

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return std::string(trim(value == nullptr ? "" : value));
}

PullOptions pull_options(const Options& o) {
  PullOptions p;
  std::string endpoint = from_environment("HF_ENDPOINT");
  while (endpoint.ends_with('/')) endpoint.pop_back();
  if (!endpoint.empty()) p.place.endpoint = endpoint;
  require(p.place.endpoint.starts_with("https://") || p.place.endpoint.starts_with("http://"),
          "HF_ENDPOINT: expected https://HOST, got '{}'", clipped(p.place.endpoint, 200));
  p.place.repository = checked_repository(o.repository, p.place.endpoint);
  require(!o.revision.empty(), "--revision: expected a branch, tag or commit, got nothing");
  p.place.revision = o.revision;
  p.token = from_environment("HF_TOKEN");
  require(std::all_of(p.token.begin(), p.token.end(), [](char c) { return c > ' ' && c < 0x7f; }),
          "HF_TOKEN: expected letters and digits, got something else");
  const std::string& name = p.place.repository;
  p.out = o.out.empty() ? name.substr(name.find('/') + 1) : o.out;  // npos + 1 is 0
  p.include = o.include;
  p.exclude = o.exclude;
  p.jobs = o.jobs;
  p.retries = o.retries;
  p.retry_seconds = o.retry_wait;
  p.stall_seconds = o.stall;
  p.list_only = o.list;
  return p;
}

const char* name_of(PullState state) {
  return state == PullState::pulled ? "pulled" : state == PullState::present ? "present" : "listed";
}

void print_json_report(const PullOptions& p, const PullReport& r) {
  Json files = Json::Array{};
  for (const PulledFile& f : r.files) {
    Json one = Json::Object{{"name", f.file.name}, {"state", name_of(f.state)}};
    if (f.file.size >= 0) one["bytes"] = f.file.size;
    if (f.file.hash) {
      one[f.file.hash->kind == ShaKind::sha256 ? "sha256" : "git_blob"] = f.file.hash->hex;
    }
    one["hash_checked"] = f.hashed;
    files.push_back(std::move(one));
  }
  print_json(Json::Object{{"repository", p.place.repository},
                          {"revision", p.place.revision},
                          {"commit", r.commit},
                          {"out", p.out.string()},
                          {"bytes", r.bytes},
                          {"pulled_bytes", r.pulled_bytes},
                          {"seconds", r.seconds},
                          {"files", std::move(files)}});
}

void print_listing(const PullReport& r) {
  using enum Table::Align;
  Table table({right, left});
  for (const PulledFile& f : r.files) {
    table.add({f.file.size < 0 ? "?" : human_bytes(f.file.size), clipped(f.file.name, 1000)});
  }
  table.add({human_bytes(r.bytes), format("in {} files, commit {}", r.files.size(), r.commit)});
  table.print();
}

void print_outcome(const PullOptions& p, const PullReport& r) {
  const auto count = [&](PullState state) {
    return std::count_if(r.files.begin(), r.files.end(),
                         [&](const PulledFile& f) { return f.state == state; });
  };
  print("{}: {} files pulled, {} were there; {} in all, commit {}", p.out.string(),
        count(PullState::pulled), count(PullState::present), human_bytes(r.bytes), r.commit);
  if (std::filesystem::exists(p.out / "config.json")) {
    log_info("{} over the network in {}; try: tephra chat --model {}", human_bytes(r.pulled_bytes),
             human_seconds(r.seconds), p.out.string());
  }
}

int run(const Options& o) {
  const PullOptions p = pull_options(o);
  const PullReport report = pull(p);
  if (o.json) {
    print_json_report(p, report);
  } else if (o.list) {
    print_listing(report);
  } else {
    print_outcome(p, report);
  }
  return 0;
}

}  // namespace

Command pull_command() {
  return command<Options>("pull", "bring a model from a Hugging Face style hub", describe, run);
}

}  // namespace tephra
