// SPDX-License-Identifier: Apache-2.0
#include "tephra/train/report.h"

#include <cmath>
#include <ctime>

#include "tephra/base/error.h"
#include "tephra/base/progress.h"
#include "tephra/base/text.h"
#include "tephra/train/checkpoint.h"
#include "tephra/train/metrics.h"
#include "tephra/train/report_data.h"
#include "tephra/train/report_text.h"
#include "tephra/train/run_lock.h"

namespace tephra {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxTextBytes = 200'000;  // of a file that is shown as it is

std::string escaped(std::string_view text) {
  std::string html;
  for (const char c : text) {
    switch (c) {
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '&':
        html += "&amp;";
        break;
      case '"':
        html += "&quot;";
        break;
      default:
        html += c;
    }
  }
  return html;
}

// JSON inside a script element: no text of it can end the element.
std::string embedded(const Json& data) {
  std::string text;
  for (const char c : data.dump()) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

std::string time_text(std::time_t time) {
  std::tm utc{};
  ::gmtime_r(&time, &utc);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &utc);
  return text;
}

struct Tile {
  std::string value;
  std::string label;
};

// The mean of the newest bucket: one step of a short run, a few of a long one.
double recent(const RunMetrics& metrics, const std::string& name) {
  const RunMetrics::Series* series = metrics.scalar(name);
  if (!series) return NAN;
  const auto& bucket = series->all().back();
  return bucket.content.sum / static_cast<double>(bucket.count);
}

double least(const RunMetrics& metrics, const std::string& name) {
  const RunMetrics::Series* series = metrics.scalar(name);
  double result = series ? INFINITY : NAN;
  if (series) {
    for (const auto& bucket : series->all()) result = std::min(result, bucket.content.low);
  }
  return result;
}

// Runs of before these were written have none.
void add_waits(const RunMetrics& metrics, std::vector<Tile>& tiles) {
  const double wall = metrics.sum("timing.wall");
  if (wall <= 0) return;
  const auto share = [&](const char* name) { return 100 * metrics.sum(name) / wall; };
  tiles.push_back({format("{:.2f}%", share("timing.data_wait")), "of the time waiting for data"});
  tiles.push_back({format("{:.2f}%", share("timing.checkpoint_pause")), "paused by checkpoints"});
  const double first = metrics.last("timing.first_step");
  if (std::isfinite(first)) tiles.push_back({format("{:.2f} s", first), "start to first step"});
}

std::vector<Tile> tiles_of(const RunMetrics& metrics) {
  std::vector<Tile> tiles = {{human_count(metrics.last_step()), "last step"}};
  const auto add = [&](double value, const std::string& text, const char* label) {
    if (std::isfinite(value)) tiles.push_back({text, label});
  };
  const double tokens = metrics.last("tokens");
  add(tokens, short_number(tokens), "tokens");
  add(metrics.last("loss"), format("{:.4f}", recent(metrics, "loss")), "training loss");
  const double validation = least(metrics, "val_loss");
  add(validation, format("{:.4f}", validation), "best validation loss");
  const double speed = recent(metrics, "timing.tokens_per_second");
  add(speed, short_number(speed), "tokens a second");
  const double mfu = recent(metrics, "timing.mfu_model");
  add(mfu, format("{:.1f}%", 100 * mfu), "MFU of the measured peak");
  const double theory = recent(metrics, "timing.mfu_model_datasheet");
  if (theory > 0) add(theory, format("{:.1f}%", 100 * theory), "MFU of the datasheet's peak");
  add_waits(metrics, tiles);
  if (metrics.seconds() > 0) tiles.push_back({human_seconds(metrics.seconds()), "time in steps"});
  if (metrics.num_skipped() > 0) {
    tiles.push_back({human_count(metrics.num_skipped()), "skipped steps"});
  }
  return tiles;
}

std::string tiles_html(const RunMetrics& metrics) {
  std::string html = "<div class=\"tiles\">";
  for (const Tile& tile : tiles_of(metrics)) {
    html += format("<div class=\"tile\"><b>{}</b><span>{}</span></div>", escaped(tile.value),
                   tile.label);
  }
  return html + "</div>\n";
}

// Levels in the order of their numbers where they are numbers.
bool level_before(const std::string& a, const std::string& b) {
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

std::string evaluation_html(const RunMetrics::Evaluation& evaluation) {
  if (evaluation.accuracy.empty()) return "";
  std::vector<std::string> levels;
  for (const auto& [kind, by_level] : evaluation.accuracy) {
    for (const auto& [level, accuracy] : by_level) {
      if (std::find(levels.begin(), levels.end(), level) == levels.end()) levels.push_back(level);
    }
  }
  std::sort(levels.begin(), levels.end(), level_before);
  std::string html = format(
      "<div class=\"card\"><div class=\"head\"><h3>Accuracy by kind and level, step {}</h3>"
      "</div><div class=\"scroll\"><table><thead><tr><th>kind</th>",
      human_count(evaluation.step));
  for (const std::string& level : levels) html += format("<th>{}</th>", escaped(level));
  html += "</tr></thead><tbody>";
  for (const auto& [kind, by_level] : evaluation.accuracy) {
    html += format("<tr><td>{}</td>", escaped(kind));
    for (const std::string& level : levels) {
      const auto found = by_level.find(level);
      if (found == by_level.end()) {
        html += "<td></td>";
        continue;
      }
      const double percent = 100 * found->second;
      html += format(
          "<td style=\"background:color-mix(in srgb,var(--s2) {:.0f}%,transparent)\">{:.1f}%</td>",
          0.55 * std::clamp(percent, 0.0, 100.0), percent);
    }
    html += "</tr>";
  }
  return html + "</tbody></table></div></div>";
}

std::string section(const char* id, const char* title, const std::string& content) {
  return format("<h2>{}</h2>\n<div class=\"grid\" id=\"{}\">{}</div>\n", title, id, content);
}

bool has_group(const Json& data, std::string_view id) {
  for (const Json& group : data.find("groups")->array()) {
    if (group.find("id")->string() == id) return true;
  }
  return false;
}

std::string sections_html(const RunMetrics& metrics, const Json& data) {
  std::string html;
  const std::pair<const char*, const char*> titles[] = {{"training", "Training"},
                                                        {"evaluation", "Evaluation"},
                                                        {"router", "Router"},
                                                        {"speed", "Speed"},
                                                        {"more", "More"}};
  for (const auto& [id, title] : titles) {
    if (!has_group(data, id)) continue;
    const bool evaluation = std::string_view(id) == "evaluation";
    html += section(id, title, evaluation ? evaluation_html(metrics.last_evaluation()) : "");
  }
  return html;
}

// A file of the run as it is, folded; JSON is laid out.
std::string file_html(const Path& path, const char* title, bool open,
                      std::vector<std::string>& notes) {
  if (!fs::is_regular_file(path)) return "";
  try {
    std::string text = read_file(path, kMaxTextBytes);
    if (path.extension() == ".json") text = Json::parse(text, path.string()).dump(2);
    return format("<details{}><summary>{}</summary><pre>{}</pre></details>\n", open ? " open" : "",
                  title, escaped(text));
  } catch (const Error& error) {
    notes.emplace_back(error.what());
    return "";
  }
}

std::string checkpoints_html(const Path& run_dir) {
  const std::vector<CheckpointInfo> all = list_checkpoints(run_dir);
  if (all.empty()) return "";
  constexpr size_t kShown = 20;
  std::string text;
  for (size_t i = all.size() > kShown ? all.size() - kShown : 0; i < all.size(); ++i) {
    text += (text.empty() ? "" : ", ") + human_count(all[i].step);
  }
  return format("<p class=\"dim\">Checkpoints at step {}{}.</p>\n",
                all.size() > kShown ? "... " : "", text);
}

std::string notes_html(const std::vector<std::string>& notes) {
  std::string html;
  for (const std::string& note : notes) {
    html += format("<div class=\"note\">{}</div>\n", escaped(clipped(note, 400)));
  }
  return html;
}

std::string run_name(const Path& run_dir) {
  const Path path = fs::weakly_canonical(run_dir);
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

std::string header_html(const Path& run_dir) {
  const auto owner = run_owner(run_dir);
  return format(
      "<header><h1>{}</h1><span class=\"state{}\">{}</span><span class=\"dim\">{}</span>"
      "</header>\n",
      escaped(run_name(run_dir)), owner ? " on" : "",
      owner ? "running: " + escaped(*owner) : "not running",
      "report of " + time_text(std::time(nullptr)));
}

// Nothing may come from elsewhere, and the browser holds the page to that.
constexpr std::string_view kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

}  // namespace

RunReport make_report(const Path& run_dir) {
  require_folder(run_dir, "the folder of a training run");
  const Path path = run_dir / kMetricsName;
  require(fs::exists(path), "{}: is no run folder: there is no {}", run_dir.string(), kMetricsName);
  const RunMetrics metrics = RunMetrics::read(path);
  const Json data = report_data(metrics);
  RunReport report{{}, metrics.steps(), metrics.notes()};
  if (metrics.steps() == 0) report.notes.emplace_back("no step was written yet");
  const std::string files =
      file_html(run_dir / "config.toml", "Config, resolved", true, report.notes) +
      file_html(run_dir / "environment.json", "Environment", true, report.notes) +
      file_html(run_dir / "model" / "config.json", "Model", false, report.notes);

  std::string& html = report.html;
  html = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n";
  html += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  html += format("<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n", kPolicy);
  html += format("<title>{}</title>\n<style>{}</style></head>\n<body><main>\n",
                 escaped(run_name(run_dir)), kReportStyle);
  html += header_html(run_dir) + notes_html(report.notes) + tiles_html(metrics);
  html +=
      "<noscript><div class=\"note\">The plots are drawn by a script of this page, which is "
      "switched off here.</div></noscript>\n";
  html +=
      "<div class=\"bar\"><span class=\"seg\" id=\"axis\"></span><label>smoothing <input "
      "type=\"range\" id=\"smooth\" min=\"0\" max=\"99\"></label></div>\n";
  html += sections_html(metrics, data);
  if (!files.empty()) html += "<h2>Run</h2>\n" + checkpoints_html(run_dir) + files;
  html +=
      "</main>\n<script type=\"application/json\" id=\"data\">" + embedded(data) + "</script>\n";
  html += format("<script>{}</script>\n</body></html>\n", kReportScript);
  return report;
}

}  // namespace tephra
