#include "engine/train/reports/json_log.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/files/file.h"
#include "engine/train/reports/rows.h"

namespace ft {
namespace {

constexpr std::int64_t kMaxLogBytes = std::int64_t{1} << 30;

struct Past {
  History rows;
  std::size_t bytes = 0;  // of the rows' lines
};

Past read_past(const std::string& path, std::int64_t step) {
  Past past;
  if (!std::filesystem::exists(path)) return past;
  const std::string text = read_file(path, kMaxLogBytes, Exit::checkpoint);
  for (std::size_t end = 0; (end = text.find('\n', past.bytes)) != std::string::npos; past.bytes = end + 1) {
    const Json row = Json::parse(text.begin() + static_cast<std::ptrdiff_t>(past.bytes),
                                 text.begin() + static_cast<std::ptrdiff_t>(end), nullptr, false);
    if (row.is_discarded() || step_of(row) > step || !add_row(row, past.rows)) break;
  }
  return past;
}

}  // namespace

History read_log(const std::string& path, std::int64_t step) { return read_past(path, step).rows; }

void JsonLog::begin(const RunHeader& header) {
  const bool resumed = header.resumed_step > 0;
  if (resumed && std::filesystem::exists(path_)) {
    std::error_code error;
    std::filesystem::resize_file(path_, read_past(path_, header.resumed_step).bytes, error);
    if (error) throw UserError(Exit::storage, str(path_, ": cannot be cut: ", error.message()));
  }
  file_ = RunFile(path_, resumed);
}

void JsonLog::step(const StepRow& row) { file_.append(json_text(row_json(row), -1) + "\n"); }
void JsonLog::evaluation(const EvalRow& row) { file_.append(json_text(row_json(row), -1) + "\n"); }
void JsonLog::sync() {
  if (file_.is_removed()) file_ = RunFile(path_, /*keep=*/true);  // the rows so far are gone
  file_.sync();
  sync_folder(folder_of(path_));  // the file's name
}
void JsonLog::end(const Summary& summary) {
  file_.append(json_text(row_json(summary), -1) + "\n");
  sync();
}

}  // namespace ft
