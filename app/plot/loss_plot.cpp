#include "app/plot/loss_plot.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "app/screen/format.h"
#include "engine/core/error.h"
#include "engine/files/file.h"

namespace ft {

void LossPlot::begin(const RunHeader& h) {
  const std::string name = h.name();
  curve_.title = name + (name.empty() ? "" : ": ") + h.architecture + ", " +
                 show::quantity(static_cast<double>(h.parameters)) + " parameters, " +
                 (h.adapter ? str(h.adapter->kind, " ", h.adapter->size) : std::string("full fine-tuning"));
  curve_.subtitle = h.model.empty() ? "" : "from " + show::path(h.model) + ", ";
  curve_.subtitle += h.data.streamed_bytes > 0
                         ? "on a stream from " + show::file_size(h.data.streamed_bytes) + " of files"
                         : "on " + show::plural(h.data.samples, "sample") + " of " +
                               show::quantity(static_cast<double>(h.data.tokens)) + " tokens";
  curve_.steps_per_epoch = h.steps_per_epoch;
  for (const StepRow& row : h.past.steps) {
    progress(row);
    step(row);
  }
  curve_.evaluations = h.past.evaluations;
}

void LossPlot::progress(const StepRow& row) {
  curve_.points.push_back({row.step, row.loss, row.learning_rate});
  curve_.rewards.add(row.step, row.columns);
}

void LossPlot::evaluation(const EvalRow& row) { curve_.evaluations.push_back(row); }

void LossPlot::end(const Summary&) {
  if (const std::string picture = loss_svg(curve_); !picture.empty()) write_file(path_, picture);
}

}  // namespace ft
