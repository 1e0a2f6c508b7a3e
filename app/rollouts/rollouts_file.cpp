#include "app/rollouts/rollouts_file.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/files/file.h"

namespace ft {
namespace {

// Returns true for a row of a step up to `step`; false for a line that a crash left incomplete.
bool is_up_to(const std::string& line, std::int64_t step) {
  const Json row = Json::parse(line, nullptr, false);
  return row.is_object() && row.contains("step") && row["step"].is_number_integer() && row["step"] <= step;
}

void keep_up_to(const std::string& path, std::int64_t step) {
  std::ifstream in(path);
  if (!in) return;
  AtomicFile out(path);
  for (std::string line; std::getline(in, line);)
    if (is_up_to(line, step)) out.write(line + "\n");
  out.commit();
}

}  // namespace

RolloutsFile::RolloutsFile(const std::string& path, std::int64_t step, Report& warned) : lost_(warned) {
  if (step > 0) keep_up_to(path, step);
  file_ = RunFile(path, step > 0);
}

void RolloutsFile::add(const Json& row) { rows_ += json_text(row, -1) + "\n"; }

void RolloutsFile::flush() {
  lost_.attempt([this] { file_.append(rows_); });
  rows_.clear();
}

}  // namespace ft
