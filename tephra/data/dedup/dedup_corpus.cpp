// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/dedup/dedup_corpus.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "tephra/base/error.h"
#include "tephra/base/log.h"
#include "tephra/base/parallel.h"
#include "tephra/base/text.h"
#include "tephra/data/corpus/first_pass.h"
#include "tephra/data/corpus/json_text.h"
#include "tephra/data/corpus/output_folder.h"
#include "tephra/data/dedup/cluster_members.h"
#include "tephra/data/dedup/clusters.h"
#include "tephra/data/dedup/index_matches.h"
#include "tephra/data/dedup/signature_files.h"
#include "tephra/data/json_line.h"

namespace tephra {
namespace {

constexpr const char* kDedupFolder = ".dedup";
constexpr int64_t kClusterGrain = 16;

// Sources by number, in the order of their names.
struct Sources {
  std::vector<std::string> names;
  std::vector<uint32_t> of_file;

  explicit Sources(std::span<const CorpusFile> files) {
    for (const CorpusFile& file : files) {
      if (names.empty() || names.back() != file.source) names.push_back(file.source);
      of_file.push_back(static_cast<uint32_t>(names.size() - 1));
    }
  }

  size_t index(const std::string& name, const char* flag) const {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      const std::optional<std::string> close = nearest(name, names);
      throw Error(Fault::usage, format("{}: the inputs have no source '{}'", flag, name),
                  close ? format("did you mean {}?", *close) : "");
    }
    return static_cast<size_t>(found - names.begin());
  }
};

SurvivorRules survivor_rules(const DedupOptions& options, const Sources& sources) {
  SurvivorRules rules;
  rules.keep = options.keep;
  rules.across_sources = options.across_sources;
  rules.verify = options.verify;
  rules.similarity = options.similarity.value_or(options.preset.similarity);
  const auto last = static_cast<uint32_t>(options.rank.size()) + 1;
  rules.rank.assign(sources.names.size(), last);
  rules.untouched.assign(sources.names.size(), false);
  for (size_t i = 0; i < options.rank.size(); ++i) {
    rules.rank[sources.index(options.rank[i], "--rank")] = static_cast<uint32_t>(i) + 1;
  }
  for (const std::string& name : options.references) {
    const size_t source = sources.index(name, "--reference");
    rules.rank[source] = 0;
    rules.untouched[source] = true;
  }
  return rules;
}

// What the clusters came to.
struct Resolved {
  std::vector<Removal> removals;  // in the order of documents
  Tally tally{0};
};

// Where members lie, cluster by cluster.
std::vector<uint32_t> by_cluster(std::span<const ClusterMember> members) {
  std::vector<uint32_t> order(members.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return members[a].cluster < members[b].cluster; });
  return order;
}

void add_cluster(Resolved& all, const ClusterResult& one, size_t size) {
  all.removals.insert(all.removals.end(), one.removals.begin(), one.removals.end());
  const size_t low = std::bit_floor(size);
  all.tally.count("clusters");
  all.tally.count(format("cluster_sizes.{}-{}", low, 2 * low - 1));
  all.tally.count("compared", one.compared);
  all.tally.count("refused", one.refused);
  all.tally.count("unchecked", one.unchecked);
}

Resolved resolve(std::span<const ClusterMember> members, const SurvivorRules& rules,
                 const ShingleSets* sets) {
  const std::vector<uint32_t> order = by_cluster(members);
  std::vector<size_t> begin;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || members[order[i]].cluster != members[order[i - 1]].cluster) begin.push_back(i);
  }
  const size_t clusters = begin.size();
  begin.push_back(order.size());
  std::vector<ClusterResult> results(clusters);
  parallel_for(static_cast<int64_t>(clusters), kClusterGrain, [&](int64_t first, int64_t last) {
    std::vector<Member> list;
    for (auto c = static_cast<size_t>(first); c < static_cast<size_t>(last); ++c) {
      list.clear();
      for (size_t i = begin[c]; i < begin[c + 1]; ++i) list.push_back(members[order[i]].member);
      results[c] = resolve_cluster(list, rules, [&](size_t a, size_t b) {
        return set_similarity((*sets)[order[begin[c] + a]], (*sets)[order[begin[c] + b]],
                              kSetLimit);
      });
    }
  });
  Resolved all;
  for (size_t c = 0; c < clusters; ++c) add_cluster(all, results[c], begin[c + 1] - begin[c]);
  std::sort(all.removals.begin(), all.removals.end(),
            [](const Removal& a, const Removal& b) { return a.document < b.document; });
  all.tally.count("members", static_cast<int64_t>(members.size()));
  all.tally.count("removed", static_cast<int64_t>(all.removals.size()));
  return all;
}

// Counts by source, and stops when one loses nearly everything: a sign of boilerplate or a bug.
void check_losses(Resolved& resolved, const SignatureFiles& signatures, const Sources& sources,
                  const DedupOptions& options, const Tally& documents) {
  for (const Removal& removal : resolved.removals) {
    const std::string& from = sources.names[sources.of_file[signatures.file_of(removal.document)]];
    const std::string& of = sources.names[sources.of_file[signatures.file_of(removal.survivor)]];
    resolved.tally.count("source." + from + ".removed");
    resolved.tally.count(format("removed_of.{}.{}", from, of));
  }
  for (const std::string& name : sources.names) {
    const auto removed = static_cast<double>(resolved.tally["source." + name + ".removed"]);
    const auto all = static_cast<double>(documents["source." + name + ".documents"]);
    if (removed <= options.max_source_loss * all) continue;
    throw Error(Fault::data,
                format("source {} would lose {:.1f} % of its documents, more than the {:.1f} % of "
                       "--max-loss",
                       name, 100 * removed / all, 100 * options.max_source_loss),
                "look at the clusters with a higher --similarity, or allow it with --max-loss 1");
  }
}

// The index as it was when the run began: the run itself may add to it, and be killed after that.
IndexManifest index_manifest(const DedupOptions& options, const Path& work) {
  const Path snapshot = work / kIndexFile;
  if (!std::filesystem::exists(snapshot)) {
    const IndexManifest now = IndexManifest::read(*options.against_index / kIndexFile);
    check_index(now, options.preset, *options.against_index);
    make_writable_folder(work);
    write_file(snapshot, now.to_json().dump(2) + "\n");
  }
  return IndexManifest::read(snapshot);
}

// Ranks share it; shards know nothing of each other and may run at the same time.
Path exchange_folder(const StageSettings& stage) {
  const Path folder = stage.out / kDedupFolder / "exchange";
  return stage.ranks ? folder
                     : folder / format("shard-{}-of-{}", stage.shard.index, stage.shard.count);
}

// Of ranks: what they tell each other, and the records of this one's range of keys.
struct RankBands {
  RankLists lists;
  BandExchange exchange;

  RankBands(const SignatureFiles& signatures, const Path& folder, const StageSettings& stage,
            int64_t memory_bytes)
      : lists(folder, stage.shard, *stage.ranks), exchange(signatures, lists, memory_bytes) {}
};

// Documents that an index has already.
struct Known {
  std::optional<DedupIndex> index;
  IndexMatches found;
  std::vector<bool> gone;  // by document; empty without an index

  Known(const DedupOptions& options, const Path& work) {
    if (options.save_index) {
      check_index_to_save(*options.save_index, options.preset, options.index);
    }
    if (options.against_index) index.emplace(*options.against_index, index_manifest(options, work));
  }

  // Sources that are only compared with stay as they are.
  void find(const SignatureFiles& signatures, const MatchRules& rules,
            const std::vector<bool>& skip_file, const RankBands* of_ranks) {
    if (!index) return;
    found = of_ranks
                ? find_index_matches(*index, signatures, rules, of_ranks->exchange, of_ranks->lists)
                : find_index_matches(*index, signatures, rules);
    std::erase_if(found.matches, [&](const IndexMatch& match) {
      return skip_file[signatures.file_of(match.document)];
    });
    gone.resize(signatures.documents());
    std::vector<DocumentRecord> records;
    for (const IndexMatch& match : found.matches) {
      const size_t file = signatures.file_of(match.document);
      if (places.empty() || places.back().first != file) records = signatures.records(file);
      places.emplace_back(file, records[match.document - signatures.first(file)].row);
      gone[match.document] = true;
    }
  }

  const IndexMatch* at(size_t file, int64_t row) const {
    const std::pair place(file, row);
    const auto found_at = std::lower_bound(places.begin(), places.end(), place);
    if (found_at == places.end() || *found_at != place) return nullptr;
    return &found.matches[static_cast<size_t>(found_at - places.begin())];
  }

  std::vector<std::pair<size_t, int64_t>> places;  // file and row of each match
};

void count_known(Resolved& resolved, const Known& known, const SignatureFiles& signatures,
                 const Sources& sources) {
  if (!known.index) return;
  for (const IndexMatch& match : known.found.matches) {
    const std::string& source = sources.names[sources.of_file[signatures.file_of(match.document)]];
    resolved.tally.count("source." + source + ".known");
  }
  resolved.tally.count("known", static_cast<int64_t>(known.found.matches.size()));
  resolved.tally.count("compared_with_index", known.found.compared);
  resolved.tally.count("unchecked", known.found.unchecked);
}

struct WriterInput {
  std::span<const ClusterMember> members;
  const MemberIds* ids;  // null when there are no members
  std::span<const Removal> removals;
  std::string text_field;
  std::vector<bool> skip_file;  // of a reference
  bool has_bad = false;         // lines that could not be signed, which must stay out
  const Known& known;
};

class DedupWriter {
 public:
  explicit DedupWriter(WriterInput input) : in_(std::move(input)) {}

  void work(const CorpusPiece& piece, PieceResult& result) const {
    if (in_.skip_file[piece.file_index]) return;
    const std::span<const ClusterMember> of_file = members_of(in_.members, piece.file_index);
    JsonLine parser;
    for (const Line& line : piece.lines) {
      if (in_.has_bad && !readable(piece, line, parser)) continue;
      if (const IndexMatch* match = in_.known.at(piece.file_index, line.row)) {
        remove_known(piece, line, *match, parser, result);
        continue;
      }
      const ClusterMember* member = find_row(of_file, line.row);
      const Removal* removal = member ? find(member->member.document) : nullptr;
      if (removal == nullptr) {
        keep(piece, line, parser, result);
      } else {
        remove(piece, line, *removal, parser, result);
      }
    }
  }

 private:
  bool readable(const CorpusPiece& piece, const Line& line, JsonLine& parser) const {
    try {
      parser.padded_string_field(piece.window.text(line), in_.text_field);
      parser.find_string(kIdField);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  const Removal* find(uint32_t document) const {
    const auto found =
        std::lower_bound(in_.removals.begin(), in_.removals.end(), document,
                         [](const Removal& removal, uint32_t d) { return removal.document < d; });
    return found != in_.removals.end() && found->document == document ? &*found : nullptr;
  }

  // Of a member: as later stages know it, wherever it stands in this input.
  std::string_view id_of(uint32_t document) const {
    const auto found = std::lower_bound(
        in_.members.begin(), in_.members.end(), document,
        [](const ClusterMember& member, uint32_t d) { return member.member.document < d; });
    return (*in_.ids)[static_cast<size_t>(found - in_.members.begin())];
  }

  // Parsed only where a look cannot tell: it was parsed when it was signed.
  bool has_id(std::string_view object, JsonLine& parser) const {
    if (ends_with_string(object, kIdField)) return true;
    if (!may_have_key(object, kIdField)) return false;
    parser.padded_string_field(object, in_.text_field);
    return parser.find_string(kIdField).has_value();
  }

  void keep(const CorpusPiece& piece, const Line& line, JsonLine& parser,
            PieceResult& result) const {
    const std::string_view object = trim(piece.window.text(line));
    if (has_id(object, parser)) {
      result.streams[0] += object;
    } else {
      std::string id;
      append_json_string(id, piece.id(line));
      append_with_field(result.streams[0], object, kIdField, id);
    }
    result.streams[0] += '\n';
    result.tally.count("kept");
  }

  void remove(const CorpusPiece& piece, const Line& line, const Removal& removal, JsonLine& parser,
              PieceResult& result) const {
    const std::string_view text =
        parser.padded_string_field(piece.window.text(line), in_.text_field);
    const std::string id(parser.find_string(kIdField).value_or(piece.id(line)));
    std::string& out = result.streams[1];
    out += "{\"id\":";
    append_json_string(out, id);
    out += ",\"place\":";
    append_json_string(out, piece.id(line));
    out += ",\"kept\":";
    append_json_string(out, id_of(removal.survivor));
    out += ",\"cluster\":";
    append_json_string(out, id_of(removal.cluster));
    out += format(",\"similarity\":{:.4f}}}\n", removal.similarity);
    result.tally.count("removed_bytes", static_cast<int64_t>(text.size()));
    result.tally.sample("removed", format("{} (kept: {})", id, id_of(removal.survivor)), text);
  }

  void remove_known(const CorpusPiece& piece, const Line& line, const IndexMatch& match,
                    JsonLine& parser, PieceResult& result) const {
    const std::string_view text =
        parser.padded_string_field(piece.window.text(line), in_.text_field);
    const std::string id(parser.find_string(kIdField).value_or(piece.id(line)));
    const bool named = in_.known.index->manifest().kind == IndexKind::full;
    const std::string kept(named ? in_.known.index->id(match.segment, match.match) : "");
    std::string& out = result.streams[1];
    out += "{\"id\":";
    append_json_string(out, id);
    out += ",\"place\":";
    append_json_string(out, piece.id(line));
    out += ",\"kept\":";
    if (named) append_json_string(out, kept);
    if (!named) out += "null";
    out += format(",\"index\":true,\"similarity\":{:.4f}}}\n", match.similarity);
    result.tally.count("removed_bytes", static_cast<int64_t>(text.size()));
    result.tally.sample("known", named ? id + " (index: " + kept + ")" : id, text);
  }

  WriterInput in_;
};

std::string dedup_settings(const DedupOptions& o, const StageSettings& stage) {
  std::string text = format(
      "dedup {} {}x{} field={} score={} keep={} across={} verify={} similarity={} level={} "
      "samples={} skip={} max={}",
      o.preset.name, o.preset.bands, o.preset.rows, o.text_field, o.score_field,
      static_cast<int>(o.keep), o.across_sources, o.verify,
      o.similarity.value_or(o.preset.similarity), stage.level, stage.samples,
      stage.on_error == OnError::skip, stage.max_line_bytes);
  for (const std::string& name : o.rank) text += " rank=" + name;
  for (const std::string& name : o.references) text += " reference=" + name;
  if (o.against_index) text += " against=" + o.against_index->string();
  return text;
}

Json dedup_report(const DedupOptions& o, const Tally& tally) {
  Json report;
  report["stage"] = "dedup";
  report["preset"] = o.preset.name;
  report["bands"] = o.preset.bands;
  report["rows"] = o.preset.rows;
  report["verified"] = o.verify;
  report["similarity"] = o.similarity.value_or(o.preset.similarity);
  if (!o.references.empty()) {
    report[kReferencesKey] = Json::Array{};
    for (const std::string& name : o.references) report[kReferencesKey].push_back(name);
  }
  const Json json = tally.to_json();
  for (const auto& [key, value] : json.object()) report[key] = value;
  return report;
}

// Every document was kept, removed, known, or only compared with.
void check_sum(const Tally& tally, const DedupOptions& options) {
  int64_t found = tally["kept"] + tally["removed"] + tally["known"];
  for (const std::string& name : std::set(options.references.begin(), options.references.end())) {
    found += tally["source." + name + ".documents"];
  }
  require_data(found == tally[counted::kDocuments],
               "the inputs were changed while they were read: of {} documents, {} were kept or "
               "removed; --overwrite begins anew",
               tally[counted::kDocuments], found);
}

// Which documents are not in the output.
std::vector<bool> left_out(const SignatureFiles& signatures, const Resolved& resolved,
                           const Known& known, const std::vector<bool>& skip_file) {
  std::vector<bool> out = known.gone;
  out.resize(signatures.documents());
  for (const Removal& removal : resolved.removals) out[removal.document] = true;
  for (size_t file = 0; file < skip_file.size(); ++file) {
    if (!skip_file[file]) continue;
    for (uint32_t d = signatures.first(file); d < signatures.first(file + 1); ++d) out[d] = true;
  }
  return out;
}

}  // namespace

void check_dedup(std::span<const CorpusFile> files, const DedupOptions& options) {
  survivor_rules(options, Sources(files));
  if (options.save_index) check_index_to_save(*options.save_index, options.preset, options.index);
  if (!options.against_index) return;
  const Path& folder = *options.against_index;
  check_index(IndexManifest::read(folder / kIndexFile), options.preset, folder);
}

StageJob dedup_signature_job(const DedupOptions& options, StageSettings stage) {
  stage.out = stage.out / kDedupFolder / "signatures";
  const bool indexed = options.against_index || options.save_index;
  const std::string score = options.keep == Keep::best ? options.score_field : "";
  return signature_job(options.preset, {options.text_field, score, indexed}, std::move(stage));
}

StageRun dedup_corpus(std::span<const CorpusFile> files, const DedupOptions& options,
                      StageSettings stage) {
  const Sources sources(files);
  const SurvivorRules rules = survivor_rules(options, sources);
  Known known(options, stage.out / kDedupFolder);
  const StageJob signing = dedup_signature_job(options, stage);
  const StageRun signed_run = run_jobs(files, std::span(&signing, 1)).front();
  if (!signed_run.complete) return signed_run;
  if (options.keep == Keep::best && signed_run.tally["scored_documents"] == 0) {
    log_warning("no document has a number under '{}': --keep best keeps the earliest",
                options.score_field);
  }

  StageSettings work = stage;
  const SignatureFiles signatures(files, signing.settings.out, options.preset.bands);
  std::vector<bool> skip_file;
  for (const uint32_t source : sources.of_file) skip_file.push_back(rules.untouched[source]);
  std::vector<ClusterMember> members;
  {
    const Path folder = exchange_folder(stage);
    std::optional<RankBands> of_ranks;
    if (stage.ranks) of_ranks.emplace(signatures, folder, stage, options.memory_bytes);
    known.find(signatures, {rules.verify, rules.similarity, options.memory_bytes}, skip_file,
               of_ranks ? &*of_ranks : nullptr);
    UnionFind sets = of_ranks ? find_clusters(of_ranks->exchange, of_ranks->lists,
                                              signatures.documents(), known.gone)
                              : find_clusters(signatures, folder, options.memory_bytes, known.gone);
    of_ranks.reset();
    members = find_members(signatures, sets, sources.of_file);
  }
  const FirstPass first(files, signed_run);
  work.out = stage.out / kDedupFolder / "sets";
  std::optional<ShingleSets> sets;
  std::optional<MemberIds> ids;
  if (!members.empty()) {
    StageRun compared =
        write_members(files, members, {options.preset, options.text_field, options.verify}, work);
    if (!compared.complete) return compared;
    first.check(compared);
    if (options.verify) sets.emplace(files, members, work.out, options.memory_bytes / 2);
    ids.emplace(files, members, work.out);
  }
  Resolved resolved = resolve(members, rules, sets ? &*sets : nullptr);
  sets.reset();  // what is mapped counts as memory
  count_known(resolved, known, signatures, sources);
  check_losses(resolved, signatures, sources, options, signed_run.tally);

  stage.what = "write";
  stage.streams = {documents_stream(stage), {kRemovedFolder}};
  stage.settings = dedup_settings(options, stage);
  const DedupWriter writer({members, ids ? &*ids : nullptr, resolved.removals, options.text_field,
                            skip_file, signed_run.tally[counted::kBad] > 0, known});
  StageRun written = run_stage(files, stage, [&](const CorpusPiece& piece, PieceResult& result) {
    first.check(piece);
    writer.work(piece, result);
  });
  if (!written.complete) return written;
  first.check(written);
  Tally tally = signed_run.tally;
  tally.add(resolved.tally);
  for (const char* name : {"kept", "removed_bytes"}) tally.count(name, written.tally[name]);
  for (const auto& [kind, list] : written.tally.samples()) {
    for (const Tally::Sample& sample : list) tally.sample(kind, sample.id, sample.text);
  }
  written.tally = tally;
  check_sum(tally, options);
  if (options.save_index) {
    add_to_index(*options.save_index, options.preset, options.index, signatures,
                 left_out(signatures, resolved, known, skip_file));
  }
  write_file(stage.out / kReportFile, dedup_report(options, tally).dump(2) + "\n");
  finish_stage(stage.out);
  return written;
}

}  // namespace tephra
