// SPDX-License-Identifier: Apache-2.0
#include "tephra/cli/eval_against.h"

#include <algorithm>

#include "tephra/base/error.h"
#include "tephra/base/progress.h"
#include "tephra/cli/output.h"
#include "tephra/eval/agreement.h"
#include "tephra/models/checkpoint.h"

namespace tephra {
namespace {

std::unique_ptr<Model> load(const std::string& folder, const AgainstOptions& o) {
  const ModelFolder opened = open_model_folder(folder);
  const bool quantised = quantisation_of(opened.config, opened.where).has_value();
  const Device device = parse_device(o.device);
  const bool wide = quantised && device.kind == Device::Kind::cpu;
  return load_model(folder, {.dtype = wide ? DType::f32 : *parse_dtype(o.dtype),
                             .device = device,
                             .mapped = true,
                             .copy_small_pages = true});
}

std::vector<ComparedText> texts_of(const AgainstOptions& o, const Tokenizer& tokenizer,
                                   const Model& model) {
  const int64_t window = o.window > 0 ? o.window : std::min<int64_t>(model.context_limit(), 1024);
  std::vector<ComparedText> texts;
  for (const auto& [name, content] : o.texts) {
    for (ComparedText& part : cut_text(tokenizer.encode(content, AddSpecial::before), window)) {
      texts.push_back(std::move(part));
    }
  }
  if (o.tasks.levels.empty()) return texts;
  for (const TaskText& task : environment_texts(o.tasks)) {
    ComparedText text{.ids = tokenizer.encode(task.prompt, o.tasks.form.special)};
    text.first = std::max<int64_t>(1, static_cast<int64_t>(text.ids.size()));
    for (const int32_t id : tokenizer.encode(task.solution, AddSpecial::none)) {
      text.ids.push_back(id);
    }
    const auto limit = static_cast<size_t>(model.context_limit()) + 1;
    if (text.ids.size() > limit) text.ids.resize(limit);
    if (static_cast<int64_t>(text.ids.size()) > text.first) texts.push_back(std::move(text));
  }
  return texts;
}

Json to_json(const AgainstOptions& o, const Agreement& a, bool pass) {
  Json json;
  json["model"] = o.model;
  json["against"] = o.reference;
  json["tokens"] = a.tokens;
  json["kl"]["mean"] = a.mean_kl;
  json["kl"]["median"] = a.median_kl;
  json["kl"]["p99"] = a.p99_kl;
  json["kl"]["max"] = a.max_kl;
  json["top1_agreement"] = a.share_same_choice();
  json["nats_per_token"]["model"] = a.model_nats;
  json["nats_per_token"]["against"] = a.reference_nats;
  json["pass"] = pass;
  return json;
}

void print_table(const AgainstOptions& o, const Agreement& a) {
  Table table({Table::Align::left, Table::Align::left});
  table.add({"model", o.model});
  table.add({"against", o.reference});
  table.add({"tokens", format("{}", a.tokens)});
  table.add({"KL(against || model), nats",
             format("mean {:.3g}, median {:.3g}, 99 % below {:.3g}, largest {:.3g}", a.mean_kl,
                    a.median_kl, a.p99_kl, a.max_kl)});
  table.add({"same likeliest token", format("{:.3f} %", 100 * a.share_same_choice())});
  table.add({"nats per token", format("{:.4f}, against {:.4f}", a.model_nats, a.reference_nats)});
  table.print();
}

}  // namespace

int run_against(const AgainstOptions& o) {
  const Tokenizer tokenizer = Tokenizer::load(o.model);
  const auto model = load(o.model, o), reference = load(o.reference, o);
  const std::vector<ComparedText> texts = texts_of(o, tokenizer, *model);
  int64_t tokens = 0;
  for (const ComparedText& text : texts) {
    tokens += static_cast<int64_t>(text.ids.size()) - text.first;
  }
  Progress progress("comparing", tokens, "tokens");
  const Agreement a = compare_models(
      *model, *reference, texts,
      {.model = o.model, .reference = o.reference, .on_compared = [&](int64_t compared) {
         progress.add(compared);
       }});
  const bool pass = (!o.max_kl || a.mean_kl <= *o.max_kl) &&
                    (!o.min_agreement || a.share_same_choice() >= *o.min_agreement);
  if (o.json) {
    print_json(to_json(o, a, pass));
  } else {
    print_table(o, a);
    if (!pass) print("not within --max-kl and --min-agreement");
  }
  return pass ? 0 : exit_code(Fault::data);
}

}  // namespace tephra
