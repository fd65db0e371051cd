// SPDX-License-Identifier: Apache-2.0
// The filters of Zyda-1 (Tokpanov et al., 2024).
#include "tephra/data/filter/personal_data.h"
#include "tephra/data/filter/preset.h"
#include "tephra/data/filter/word_lists.h"
#include "tephra/data/filter/zyda1_features.h"

namespace tephra {
namespace {

struct Shared {
  FilterMode mode;
  WordLists lists;
};

class Zyda1Worker : public FilterWorker {
 public:
  explicit Zyda1Worker(std::shared_ptr<const Shared> shared) : shared_(std::move(shared)) {}

  std::string_view measure(TextParts& parts, std::span<double> values) override {
    const std::string_view text = parts.text();
    const Zyda1Counts counts = zyda1_counts(text, shared_->mode);
    const auto lists = shared_->lists.count(text, scratch_);
    const double length = static_cast<double>(std::max<int64_t>(1, counts.length));
    size_t at = 0;
    const auto put = [&](double value) { values[at++] = value; };
    put(static_cast<double>(counts.transformed));
    put(counts.mean_word_length(shared_->mode));
    put(static_cast<double>(counts.other) / length);
    put(static_cast<double>(counts.digits) / length);
    put(static_cast<double>(count_mail_addresses(text) + count_ipv4(text)));
    for (const int64_t count :
         {counts.same_runs, counts.xml, counts.xml_version, counts.lorem_ipsum, counts.https,
          counts.less, counts.greater, counts.quote_colon, counts.www}) {
      put(static_cast<double>(count));
    }
    for (const int64_t count : lists) put(static_cast<double>(count));
    if (counts.transformed == counts.length) return text;
    zyda1_transform(text, transformed_);
    return transformed_;
  }

 private:
  std::shared_ptr<const Shared> shared_;
  WordLists::Scratch scratch_;
  std::string transformed_;
};

}  // namespace

FilterPreset zyda1_filter(FilterMode mode, const Path& word_lists) {
  using enum FilterRule::Side;
  const std::shared_ptr<const Shared> shared(new Shared{mode, WordLists(word_lists, mode)});
  return {
      .name = "zyda1",
      .values = {"length", "mean_word_length", "fraction_non_alphanumeric", "fraction_numerical",
                 "pii_count", "same_character_runs", "xml", "xml_version", "lorem_ipsum", "https",
                 "less_than", "greater_than", "quote_colon", "www", "profanity", "sexual",
                 "zh_pornsignals", "cursed_substrings"},
      .rules = {{"length_min", "length", below, 100},
                {"mean_word_length_min", "mean_word_length", below, 3},
                {"mean_word_length_max", "mean_word_length", above, 12},
                {"fraction_non_alphanumeric", "fraction_non_alphanumeric", above, 0.3},
                {"fraction_numerical", "fraction_numerical", above, 0.2},
                {"same_character_runs", "same_character_runs", above, 50},
                {"xml", "xml", above, 10},
                {"xml_version", "xml_version", above, 1},
                {"lorem_ipsum", "lorem_ipsum", above, 2},
                {"https", "https", above, 0.002, true},
                {"less_than", "less_than", above, 0.03, true},
                {"quote_colon", "quote_colon", above, 0.002, true},
                {"www", "www", above, 0.01, true},
                {"zh_pornsignals", "zh_pornsignals", above, 1},
                {"sexual_count", "sexual", above, 10},
                {"sexual", "sexual", above, 0.001, true},
                {"profanity", "profanity", above, 0.0025, true},
                {"cursed_substrings", "cursed_substrings", above, 0.01, true}},
      .make_worker = [shared] { return std::make_unique<Zyda1Worker>(shared); },
  };
}

}  // namespace tephra
