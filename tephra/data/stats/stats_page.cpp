// SPDX-License-Identifier: Apache-2.0
#include "tephra/data/stats/stats_page.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "tephra/base/format.h"
#include "tephra/base/text.h"

namespace tephra {
namespace {

constexpr std::string_view kStyle = R"css(
:root{--bg:#f6f5f2;--card:#fff;--ink:#1d1f23;--dim:#666b75;--line:#e3e1db;--bar:#b4491f;color-scheme:light dark}
@media(prefers-color-scheme:dark){:root{--bg:#141518;--card:#1d1f23;--ink:#e9e7e2;--dim:#9a9fa8;--line:#2f3238;--bar:#f08a55}}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.45 system-ui,sans-serif}
main{max-width:1100px;margin:0 auto;padding:1.1rem 1rem 3rem}
h1{font-size:1.45rem}h2{font-size:1.1rem;margin:2rem 0 .6rem}h3{font-size:.95rem;margin:1.1rem 0 .4rem}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.6rem}
.tile,table,details{background:var(--card);border:1px solid var(--line);border-radius:10px}
.tile{padding:.55rem .75rem}.tile b{display:block;font-size:1.2rem}.tile span{color:var(--dim);font-size:.8rem}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:.86rem;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.28rem .6rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child{text-align:left}th{color:var(--dim);font-weight:500}
.bars td:first-child{white-space:normal;overflow-wrap:anywhere;min-width:6rem}
td.bar{width:40%;min-width:5rem}td.bar i{display:block;height:.7rem;border-radius:3px;background:var(--bar)}
details{margin:.4rem 0}summary{cursor:pointer;padding:.5rem .8rem;font-weight:600}
pre{margin:0;padding:.2rem .9rem .7rem;white-space:pre-wrap;overflow-wrap:anywhere;font:12.5px/1.5 ui-monospace,monospace}
.dim{color:var(--dim)}
)css";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') {
      out += "&lt;";
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out;
}

using Counts = std::map<std::string, int64_t>;

Counts counts_of(const Json& report) {
  Counts counts;
  if (const Json* json = report.find("counts"); json != nullptr && json->is_object()) {
    for (const auto& [name, value] : json->object()) {
      if (value.is_int()) counts[name] = value.integer();
    }
  }
  return counts;
}

int64_t count(const Counts& counts, const std::string& name) {
  const auto found = counts.find(name);
  return found == counts.end() ? 0 : found->second;
}

struct Row {
  std::string name;
  int64_t value = 0;
};

void bars(std::string& html, const std::string& head, const std::vector<Row>& rows) {
  if (rows.empty()) return;
  int64_t most = 1;
  for (const Row& row : rows) most = std::max(most, row.value);
  html += format("<h3>{}</h3><div class=scroll><table class=bars>", escaped(head));
  for (const Row& row : rows) {
    html += format("<tr><td>{}<td>{}<td class=bar><i style=\"width:{:.2f}%\"></i>",
                   escaped(row.name), human_count(row.value),
                   100.0 * static_cast<double>(row.value) / static_cast<double>(most));
  }
  html += "</table></div>";
}

// Counts whose names begin with `prefix`, by the rest of their names.
std::vector<Row> rows_below(const Counts& counts, const std::string& prefix) {
  std::vector<Row> rows;
  for (const auto& [name, value] : counts) {
    if (name.starts_with(prefix)) rows.push_back({name.substr(prefix.size()), value});
  }
  return rows;
}

// All that are removed, those that an index knows among them.
Counts with_known(Counts counts) {
  if (counts.contains("known")) {
    counts["removed"] += counts["known"];
    counts["removed,_known_by_the_index"] = counts["known"];
  }
  return counts;
}

void tiles(std::string& html, const Counts& given) {
  const Counts counts = with_known(given);
  html += "<div class=tiles>";
  for (const char* name :
       {"documents", "text_bytes", "kept", "dropped", "removed", "removed,_known_by_the_index",
        "clusters", "bad_documents", "too_long_lines", "damaged_files", "short_documents"}) {
    if (!counts.contains(name)) continue;
    const bool bytes = std::string_view(name).ends_with("bytes");
    const int64_t value = count(counts, name);
    std::string label = name;
    std::replace(label.begin(), label.end(), '_', ' ');
    html += format("<div class=tile><b>{}</b><span>{}</span></div>",
                   bytes ? human_bytes(value) : human_count(value), label);
  }
  html += "</div>";
}

// source.NAME.KIND as a table of sources and kinds.
void sources(std::string& html, const Counts& counts) {
  std::map<std::string, Counts> by_source;
  std::vector<std::string> kinds;
  for (const Row& row : rows_below(counts, "source.")) {
    const size_t dot = row.name.rfind('.');
    if (dot == std::string::npos) continue;
    const std::string kind = row.name.substr(dot + 1);
    by_source[row.name.substr(0, dot)][kind] = row.value;
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
  }
  if (by_source.empty()) return;
  // What counts first; the rest by name.
  const auto place = [](const std::string& kind) {
    constexpr std::array<std::string_view, 6> kFirst = {"documents",  "kept",  "bytes",
                                                        "characters", "words", "tokens"};
    return std::find(kFirst.begin(), kFirst.end(), kind) - kFirst.begin();
  };
  std::stable_sort(kinds.begin(), kinds.end(),
                   [&](const std::string& a, const std::string& b) { return place(a) < place(b); });
  html += "<h3>Sources</h3><div class=scroll><table><tr><th>source";
  for (const std::string& kind : kinds) html += "<th>" + escaped(kind);
  for (const auto& [source, values] : by_source) {
    html += "<tr><td>" + escaped(source);
    for (const std::string& kind : kinds) html += "<td>" + human_count(count(values, kind));
  }
  html += "</table></div>";
}

std::string length_label(int64_t bits) {
  if (bits == 0) return "0 B";
  return format("{} to {}", human_bytes(int64_t{1} << (bits - 1)),
                human_bytes((int64_t{1} << bits) - 1));
}

// Every class from the shortest to the longest, empty ones too: neighbours stand side by side.
void lengths(std::string& html, const Counts& counts) {
  std::map<std::string, std::map<int64_t, int64_t>> by_source;
  for (const Row& row : rows_below(counts, "length.")) {
    const size_t dot = row.name.rfind('.');
    if (dot == std::string::npos) continue;
    const int64_t bits = std::clamp<int64_t>(std::atoll(row.name.c_str() + dot + 1), 0, 62);
    by_source[row.name.substr(0, dot)][bits] = row.value;
  }
  for (const auto& [source, classes] : by_source) {
    std::vector<Row> rows;
    for (int64_t bits = classes.begin()->first; bits <= classes.rbegin()->first; ++bits) {
      const auto found = classes.find(bits);
      rows.push_back({length_label(bits), found == classes.end() ? 0 : found->second});
    }
    bars(html, "Length of documents: " + source, rows);
  }
}

// removed_of.FROM.FOR, of which names may have dots.
std::vector<Row> removals(const Counts& counts) {
  const auto is_source = [&](const std::string& name) {
    return counts.contains("source." + name + ".documents");
  };
  std::vector<Row> rows;
  for (Row& row : rows_below(counts, "removed_of.")) {
    for (size_t dot = row.name.find('.'); dot != std::string::npos;
         dot = row.name.find('.', dot + 1)) {
      const std::string from = row.name.substr(0, dot), kept = row.name.substr(dot + 1);
      if (!is_source(from) || !is_source(kept)) continue;
      row.name =
          from == kept ? from + ", for one of its own" : format("{}, for one of {}", from, kept);
      break;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> by_size(std::vector<Row> rows) {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::atoll(a.name.c_str()) < std::atoll(b.name.c_str());
  });
  return rows;
}

void samples(std::string& html, const Json& report) {
  const Json* kinds = report.find("samples");
  if (kinds == nullptr || !kinds->is_object() || kinds->object().empty()) return;
  html += "<h3>Samples</h3>";
  for (const auto& [kind, list] : kinds->object()) {
    if (!list.is_array()) continue;
    html += format("<details><summary>{}</summary>", escaped(kind));
    for (const Json& sample : list.array()) {
      const Json *id = sample.find("id"), *text = sample.find("text");
      if (id == nullptr || text == nullptr || !id->is_string() || !text->is_string()) continue;
      html += format("<pre><span class=dim>{}</span>\n{}</pre>", escaped(id->string()),
                     escaped(text->string()));
    }
    html += "</details>";
  }
}

void errors(std::string& html, const Json& report) {
  const Json* list = report.find("errors");
  if (list == nullptr || !list->is_array() || list->array().empty()) return;
  html += "<h3>Errors</h3><pre>";
  for (const Json& error : list->array()) {
    if (error.is_string()) html += escaped(error.string()) + "\n";
  }
  html += "</pre>";
}

}  // namespace

std::string stats_page(std::span<const StageReport> reports) {
  std::string html =
      "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width\"><title>Data report</title><style>";
  html += kStyle;
  html += "</style><main><h1>Data report</h1>";
  for (const StageReport& report : reports) {
    const Counts counts = counts_of(report.json);
    const Json* stage = report.json.find("stage");
    html += format("<section><h2>{} <span class=dim>{}</span></h2>", escaped(report.title),
                   stage != nullptr && stage->is_string() ? escaped(stage->string()) : "");
    tiles(html, counts);
    sources(html, counts);
    bars(html, "Left out while reading, by reason", rows_below(counts, "left_out."));
    bars(html, "Documents dropped, by rule", rows_below(counts, "dropped_by."));
    bars(html, "Clusters, by size", by_size(rows_below(counts, "cluster_sizes.")));
    bars(html, "Removed from a source, for a document of it or of another", removals(counts));
    bars(html, "Documents with a benchmark's text, by task",
         rows_below(counts, "contaminated_by."));
    bars(html, "Documents, by class", rows_below(counts, "label."));
    lengths(html, counts);
    errors(html, report.json);
    samples(html, report.json);
    html += "</section>";
  }
  return html + "</main></html>\n";
}

}  // namespace tephra
