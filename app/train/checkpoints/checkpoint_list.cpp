#include "app/train/checkpoints/checkpoint_list.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "app/screen/format.h"
#include "app/screen/table.h"
#include "engine/files/checkpoint_folder.h"
#include "engine/files/file.h"
#include "engine/files/folder_lock.h"
#include "engine/files/json.h"

namespace ft {
namespace {

namespace fs = std::filesystem;

struct Listed {
  std::int64_t step = 0, bytes = 0;
  std::time_t saved = 0;
  double loss = NAN, eval_loss = NAN;  // NaN: none
  bool best = false;
  std::string fault;  // empty: none
};

// Returns the step of the best evaluation in a trainer_state.json, and writes the last losses where pointers
// are given. Returns 0 if there is no such file.
std::int64_t read_state(const std::string& file, double* loss, double* eval_loss) {
  if (!path_exists(file)) return 0;
  const JsonObject state = JsonObject::read(file, {.max_bytes = std::size_t{1} << 30});
  for (const JsonObject& row : state.objects("log_history")) {
    if (loss && row.has("loss")) *loss = row.number("loss");
    if (eval_loss && row.has("eval_loss")) *eval_loss = row.number("eval_loss");
  }
  return state.integer_or("best_global_step", 0, 0);
}

std::int64_t best_step(const std::string& output_dir) {
  return read_state(join_path(output_dir, "trainer_state.json"), nullptr, nullptr);
}

// Opens a checkpoint: open_checkpoint compares hashes, read_checkpoint only sizes.
using Open = Checkpoint (*)(const std::string& folder);

Listed listed(const std::string& folder, std::int64_t step, Open open) {
  Listed row{.step = step};
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none))
    row.bytes += static_cast<std::int64_t>(entry.file_size(none));
  const auto saved = fs::last_write_time(folder, none);
  row.saved = std::chrono::system_clock::to_time_t(std::chrono::file_clock::to_sys(saved));
  try {
    open(folder);
  } catch (const UserError& e) {
    row.fault = e.what();
    return row;
  }
  read_state(join_path(folder, "trainer_state.json"), &row.loss, &row.eval_loss);
  return row;
}

std::vector<Listed> all_of(const std::string& output_dir, Open open) {
  const std::vector<std::int64_t> steps = list_checkpoint_names(output_dir);
  if (steps.empty())
    throw UserError(Exit::checkpoint, str(printable(output_dir), ": there is no checkpoint"));
  const std::int64_t best = best_step(output_dir);
  std::vector<Listed> rows;
  for (const std::int64_t step : steps) {
    rows.push_back(listed(checkpoint_path(output_dir, step), step, open));
    rows.back().best = step == best;
  }
  return rows;
}

std::string time_text(std::time_t time, const char* format) {
  std::tm parts{};
  localtime_r(&time, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

std::string as_table(const std::vector<Listed>& rows) {
  const auto loss = [](double x) { return std::isnan(x) ? "-" : show::loss(x); };
  Table table;
  table.row({"step", "saved", "size", "loss", "held out", ""});
  for (const Listed& r : rows)
    table.row({show::count(r.step), time_text(r.saved, "%Y-%m-%d %H:%M"), show::file_size(r.bytes),
               loss(r.loss), loss(r.eval_loss),
               !r.fault.empty() ? "damaged"
               : r.best         ? "best"
                                : ""});
  std::string text = table.text();
  for (const Listed& r : rows)
    if (!r.fault.empty()) text += r.fault + "\n";
  return text;
}

Json as_json(const Listed& r) {
  const auto number = [](double x) { return std::isnan(x) ? Json(nullptr) : Json(x); };
  return {{"step", r.step},
          {"saved", time_text(r.saved, "%Y-%m-%dT%H:%M:%S%z")},
          {"bytes", r.bytes},
          {"loss", number(r.loss)},
          {"eval_loss", number(r.eval_loss)},
          {"best", r.best},
          {"fault", r.fault.empty() ? Json(nullptr) : Json(r.fault)}};
}

// Returns the rows to remove: of the intact ones all but the newest `keep` and the best.
std::vector<Listed> to_prune(const std::vector<Listed>& rows, std::int64_t keep) {
  std::vector<Listed> out;
  std::int64_t intact = 0;
  for (auto row = rows.rbegin(); row != rows.rend(); ++row)
    if (row->fault.empty() && ++intact > keep && !row->best) out.push_back(*row);
  std::ranges::reverse(out);
  return out;
}

}  // namespace

Exit checkpoint_list(const std::string& output_dir, bool json) {
  const std::vector<Listed> rows = all_of(output_dir, read_checkpoint);
  if (json) {
    Json all = Json::array();
    for (const Listed& row : rows) all.push_back(as_json(row));
    std::puts(json_text(all).c_str());
  } else {
    std::fputs(as_table(rows).c_str(), stdout);
  }
  return Exit::done;
}

Exit checkpoint_prune(const PruneArgs& args) {
  const std::string& folder = args.output_dir;
  FolderLock lock;
  if (!lock.take(folder))
    throw UserError(Exit::config, str(printable(folder),
                                      ": a run is going on in this folder; it prunes with "
                                      "checkpointing.save_total_limit"));
  const std::vector<Listed> rows = all_of(folder, open_checkpoint), pruned = to_prune(rows, args.keep);
  std::int64_t freed = 0;
  for (const Listed& row : pruned) {
    std::printf("%s: %s%s\n", checkpoint_path(folder, row.step).c_str(), show::file_size(row.bytes).c_str(),
                args.dry_run ? " would be removed" : "");
    if (!args.dry_run) remove_folder(checkpoint_path(folder, row.step));
    freed += row.bytes;
  }
  for (const Listed& row : rows)
    if (!row.fault.empty()) std::printf("left: %s\n", row.fault.c_str());
  std::printf("%s %s, %s; %s left\n", args.dry_run ? "to remove:" : "removed:",
              show::plural(std::ssize(pruned), "checkpoint").c_str(), show::file_size(freed).c_str(),
              show::count(std::ssize(rows) - std::ssize(pruned)).c_str());
  return Exit::done;
}

}  // namespace ft
