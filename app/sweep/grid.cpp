#include "app/sweep/grid.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "data/shuffle.h"
#include "engine/files/file.h"
#include "engine/settings/fields.h"

namespace ft {
namespace {

constexpr std::size_t kMostRuns = 10'000;

struct Value {  // a setting's value in a run
  std::string path;
  Json value;
  std::string place;  // key in the tree of settings
};
using Point = std::vector<Value>;

[[noreturn]] void refuse(const SettingsText& tree, const std::string& place, const std::string& what) {
  const auto line = tree.lines.find(place);
  const std::string at = line != tree.lines.end() && line->second > 0 ? str(":", line->second) : "";
  throw UserError(Exit::config, str(tree.name, at, ": ", printable(place), ": ", what));
}

void check_path(const SettingsText& tree, const std::string& path, const std::string& place) {
  if (path == "training.output_dir")
    refuse(tree, place, "a sweep gives each run a folder of its own in training.output_dir");
  if (path.starts_with("sweep.")) refuse(tree, place, "settings of the sweep itself cannot be swept");
}

// Returns the axes of the grid: the values of each key, and the bundles.
std::vector<std::vector<Point>> axes_of(const SettingsText& tree, const std::string& without) {
  std::vector<std::vector<Point>> axes;
  const Json sweep = tree.value.value("sweep", Json::object());
  const Json grid = sweep.value("grid", Json::object()), bundles = sweep.value("_", Json::array());
  if (!grid.is_object()) refuse(tree, "sweep.grid", "expected {\"dotted.path\": [values]}");
  if (!bundles.is_array()) refuse(tree, "sweep._", "expected [{\"dotted.path\": value}]");
  for (const auto& [path, values] : grid.items()) {
    const std::string place = "sweep.grid." + path;
    if (path == without) continue;
    check_path(tree, path, place);
    if (!values.is_array() || values.empty()) refuse(tree, place, "expected a list of values [...]");
    auto& axis = axes.emplace_back();
    for (const Json& v : values) axis.push_back({{path, v, place}});
  }
  if (bundles.empty()) return axes;
  auto& axis = axes.emplace_back();
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    const std::string place = str("sweep._.", i);
    if (!bundles[i].is_object() || bundles[i].empty())
      refuse(tree, place, "expected settings that are applied together {\"dotted.path\": value}");
    auto& point = axis.emplace_back();
    for (const auto& [path, v] : bundles[i].items()) {
      check_path(tree, path, place + "." + path);
      point.push_back({path, v, place + "." + path});
    }
  }
  return axes;
}

// Returns all combinations; the last axis changes fastest.
std::vector<Point> product(const SettingsText& tree, const std::vector<std::vector<Point>>& axes) {
  std::vector<Point> all{{}};
  for (const auto& axis : axes) {
    if (all.size() * axis.size() > kMostRuns)
      refuse(tree, "sweep.grid", str("this makes more than ", kMostRuns, " runs"));
    std::vector<Point> longer;
    for (const Point& before : all)
      for (const Point& more : axis) {
        longer.push_back(before);
        longer.back().insert(longer.back().end(), more.begin(), more.end());
      }
    all = std::move(longer);
  }
  return all;
}

std::string shown(const Json& v) { return v.is_string() ? v.get<std::string>() : v.dump(); }

// Makes a file name of letters, digits and a few signs, without characters that separate folders or that a
// shell reads.
std::string file_name(const SweepRun& run, std::set<std::string>& taken) {
  constexpr std::size_t kLongest = 120;
  std::string name;
  for (const auto& [path, value] : run.settings)
    name += (name.empty() ? "" : ",") + short_name(path) + "=" + value;
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && !std::strchr("=,._-", c)) c = '_';
  name = name.empty() ? "run" : name.substr(0, kLongest);
  std::string one = name;
  for (int i = 2; !taken.insert(one).second; ++i) one = str(name, ".", i);
  return one;
}

SweepRun make_run(SettingsText tree, const Point& point, const std::filesystem::path& folder) {
  SweepRun run;
  tree.value.erase("sweep");
  for (const Value& v : point) {
    const auto line = tree.lines.find(v.place);
    const int number = line == tree.lines.end() ? 0 : line->second;
    const std::string where = str(tree.name, number > 0 ? str(":", number) : "", ": ", v.place);
    put_setting(tree, v.path, v.value, number, where);
    run.settings.emplace_back(v.path, shown(v.value));
  }
  for (const Value& v : point) settle_offload(tree, v.path);
  run.config = config_of(tree, folder, {.trains = true});
  return run;
}

}  // namespace

std::string short_name(const std::string& path) { return path.substr(path.rfind('.') + 1); }

SweepPlan read_sweep(const std::string& file, const std::vector<std::string>& overrides,
                     const std::string& without) {
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  const SettingsText tree = read_settings_tree(file, overrides);
  const RunConfig base = config_of(tree, folder);
  if (base.distributed.nnodes > 1)
    refuse(tree, "distributed.nnodes", "the runs of a sweep use one machine; leave it out");
  const auto axes = axes_of(tree, without);
  if (axes.empty() && without.empty())
    refuse(tree, "sweep.grid",
           "there is nothing to sweep; set for example \"sweep\": {\"grid\": {\"zero_stage\": [0, 1, 2, 3], "
           "\"data.max_seq_length\": [512, 1024]}}");
  SweepPlan plan{
      .folder = base.training.output_dir, .on_failure = base.sweep.on_failure, .columns = {}, .runs = {}};
  std::set<std::string> names;
  for (const Point& point : product(tree, axes)) {
    SweepRun run = make_run(tree, point, folder);
    run.name = file_name(run, names);
    run.config.training.output_dir = join_path(plan.folder, run.name);
    for (const auto& [path, value] : run.settings)
      if (std::find(plan.columns.begin(), plan.columns.end(), path) == plan.columns.end())
        plan.columns.push_back(path);
    plan.runs.push_back(std::move(run));
  }
  if (base.sweep.order == SweepOrder::shuffled) {
    std::vector<SweepRun> given = std::move(plan.runs);
    plan.runs.clear();
    const Random random = Random{static_cast<std::uint64_t>(base.training.seed)}.with("sweep");
    for (const std::int64_t i : permutation(static_cast<std::int64_t>(given.size()), random))
      plan.runs.push_back(std::move(given[static_cast<std::size_t>(i)]));
  }
  return plan;
}

}  // namespace ft
