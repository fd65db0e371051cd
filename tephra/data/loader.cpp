// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/loader.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

std::shared_ptr<const TokenSource> find_source(
    const std::vector<std::shared_ptr<const TokenSource>>& sources, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& source : sources) {
    if (source->name() == name) return source;
    names.push_back(source->name());
  }
  const auto near = nearest(name, names);
  throw Error(Fault::usage, format("the mixture names a source '{}', which is not defined{}", name,
                                   near ? format("; did you mean '{}'?", *near) : ""));
}

}  // namespace

Loader::Loader(SampleOrder order, const std::vector<std::shared_ptr<const TokenSource>>& sources)
    : order_(std::move(order)) {
  for (const std::string& name : order_.sources()) sources_.push_back(find_source(sources, name));
  for (const DataPhase& phase : order_.phases()) {
    for (const SourceWeight& part : phase.mixture) {
      if (part.weight > 0) find_source(sources, part.source)->check(phase.context);
    }
  }
}

Batch Loader::batch(int64_t step, int64_t first, int64_t count) const {
  Batch batch;
  for (int64_t i = first; i < first + count; ++i) {
    const SampleOrder::Place place = order_.place(step, i);
    batch.add(sources_[static_cast<size_t>(place.source)]->sample(place.position, place.context));
  }
  return batch;
}

std::vector<std::string> Loader::identities() const {
  std::vector<std::string> lines;
  for (const auto& source : sources_) {
    lines.push_back(format("{}: {}", source->name(), source->identity()));
  }
  return lines;
}

}  // namespace tephra
