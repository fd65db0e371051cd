// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/corpus/tally.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/hash.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

std::string beginning(std::string_view text) {
  if (text.size() <= Tally::kSampleBytes) return std::string(text);
  size_t end = Tally::kSampleBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return std::string(text.substr(0, end)) + " ...";
}

}  // namespace

void Tally::count(std::string_view name, int64_t amount) {
  const auto found = counts_.find(name);
  if (found != counts_.end()) {
    found->second += amount;
  } else {
    counts_.emplace(name, amount);
  }
}

int64_t Tally::operator[](std::string_view name) const {
  const auto found = counts_.find(name);
  return found == counts_.end() ? 0 : found->second;
}

void Tally::keep(std::vector<Sample>& list, Sample sample) const {
  const auto before = [](const Sample& a, const Sample& b) {
    return std::tie(a.key, a.id) < std::tie(b.key, b.id);
  };
  list.insert(std::upper_bound(list.begin(), list.end(), sample, before), std::move(sample));
  if (list.size() > samples_each_) list.pop_back();
}

void Tally::sample(std::string_view kind, std::string_view id, std::string_view text) {
  if (samples_each_ == 0) return;
  const uint64_t key = xxh3(id);
  auto found = samples_.find(kind);
  if (found == samples_.end()) found = samples_.emplace(kind, std::vector<Sample>{}).first;
  std::vector<Sample>& list = found->second;
  if (list.size() == samples_each_ && key > list.back().key) return;
  keep(list, {key, std::string(id), beginning(text)});
}

void Tally::error(std::string what) {
  errors_.insert(std::upper_bound(errors_.begin(), errors_.end(), what), std::move(what));
  if (errors_.size() > kErrors) errors_.pop_back();
}

void Tally::add(const Tally& other) {
  for (const auto& [name, amount] : other.counts_) count(name, amount);
  for (const auto& [kind, list] : other.samples_) {
    for (const Sample& sample : list) keep(samples_[kind], sample);
  }
  for (const std::string& what : other.errors_) error(what);
}

Json Tally::to_json() const {
  Json counts = Json::Object{}, samples = Json::Object{}, errors = Json::Array{};
  for (const auto& [name, amount] : counts_) counts.object().emplace_back(name, amount);
  for (const auto& [kind, list] : samples_) {
    Json each = Json::Array{};
    for (const Sample& sample : list) {
      Json one;
      one["id"] = sample.id;
      one["text"] = sample.text;
      each.push_back(std::move(one));
    }
    samples.object().emplace_back(kind, std::move(each));
  }
  for (const std::string& what : errors_) errors.push_back(what);
  Json json;
  json["counts"] = std::move(counts);
  json["samples"] = std::move(samples);
  json["errors"] = std::move(errors);
  return json;
}

Tally Tally::from_json(const Json& json, const std::string& where, size_t samples) {
  Tally tally(samples);
  const Fields fields(json, where);
  for (const auto& [name, amount] : fields.object("counts").json().object()) {
    require_data(amount.is_int(), "{}: counts.{}: expected an integer", where, name);
    tally.counts_[name] = amount.integer();
  }
  for (const auto& [kind, list] : fields.object("samples").json().object()) {
    require_data(list.is_array(), "{}: samples.{}: expected a list", where, kind);
    for (const Json& one : list.array()) {
      const Fields sample(one, where);
      const std::string id = sample.string("id");
      tally.keep(tally.samples_[kind], {xxh3(id), id, sample.string("text")});
    }
  }
  for (const Json& what : fields.array("errors")) {
    require_data(what.is_string(), "{}: errors: expected texts", where);
    tally.error(what.string());
  }
  return tally;
}

}  // namespace tephra
