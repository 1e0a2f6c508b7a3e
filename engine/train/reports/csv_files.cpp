#include "engine/train/reports/csv_files.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "engine/files/file.h"

namespace ft {

void CsvFiles::begin(const RunHeader& header) {
  files_.clear();
  sequences_per_step_ = header.sequences_per_step;
  for (const StepRow& row : header.past.steps) step(row);
  for (const EvalRow& row : header.past.evaluations) evaluation(row);
}

void CsvFiles::step(const StepRow& row) {
  const std::string at = "Train/Samples/";
  if (!std::isnan(row.loss)) add(at + "train_loss", row.step, row.loss);
  add(at + "lr", row.step, row.learning_rate);
  add(at + "grad_norm", row.step, row.grad_norm);
  add(at + "tokens_per_second", row.step, row.tokens_per_second);
  if (row.loss_scaling) add(at + "loss_scale", row.step, row.loss_scaling->loss_scale);
  for (const auto& [name, value] : row.columns) add(at + name, row.step, value);
}

void CsvFiles::evaluation(const EvalRow& row) {
  const std::string at = "Eval/Samples/eval_";
  add(at + "loss", row.step, row.eval_loss);
  if (!std::isnan(row.perplexity)) add(at + "perplexity", row.step, row.perplexity);
  for (const auto& [name, value] : row.measures) add(at + name, row.step, value);
}

void CsvFiles::add(const std::string& name, std::int64_t step, double value) {
  RunFile& file = files_[name];
  if (!file) {
    std::string file_name = name + ".csv";
    std::replace(file_name.begin(), file_name.end(), '/', '_');
    RunFile begun(folder_, join_path(job_, file_name), /*keep=*/false);
    begun.append("step," + name.substr(name.rfind('/') + 1) + "\n");
    file = std::move(begun);
  }
  std::ostringstream line;
  line.precision(std::numeric_limits<double>::max_digits10);
  line << step * sequences_per_step_ << ',' << value << '\n';
  file.append(line.str());
}

}  // namespace ft
