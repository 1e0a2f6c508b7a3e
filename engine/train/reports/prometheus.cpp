#include "engine/train/reports/prometheus.h"

#include <cctype>
#include <cmath>
#include <limits>
#include <sstream>

#include "engine/files/file.h"

namespace ft {
namespace {

// Escapes backslash, quote and line feed in a label's value.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '\n' ? "\\n" : c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out;
}

// Replaces other characters than letters and digits by underscores: rewards/chosen becomes rewards_chosen.
std::string gauge_name(std::string text) {
  for (char& c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return text;
}

class Page {
 public:
  explicit Page(const std::string& run) : labels_("run=\"" + escaped(run) + "\"") {
    out_.precision(std::numeric_limits<double>::max_digits10);
  }
  void family(const char* name, const char* kind, const char* help) {
    name_ = name;
    out_ << "# HELP " << name << ' ' << help << "\n# TYPE " << name << ' ' << kind << '\n';
  }
  void value(double v, const std::string& more = "") {
    out_ << name_ << '{' << labels_ << more << "} ";
    if (std::isnan(v))
      out_ << "NaN\n";
    else if (std::isinf(v))
      out_ << (v > 0 ? "+Inf\n" : "-Inf\n");
    else
      out_ << v << '\n';
  }
  void gauge(const char* name, double v, const char* help) {
    family(name, "gauge", help);
    value(v);
  }
  std::string text() const { return out_.str(); }

 private:
  std::ostringstream out_;
  std::string labels_, name_;
};

}  // namespace

void Prometheus::begin(const RunHeader& header) {
  header_ = header;
  memory_ = header.memory;
  running_ = true;
  write();
}

void Prometheus::step(const StepRow& row) {
  step_ = row;
  write();
}

void Prometheus::evaluation(const EvalRow& row) {
  evaluation_ = row;
  write();
}

void Prometheus::end(const Summary& summary) {
  memory_ = summary.memory;
  running_ = false;
  write();
}

void Prometheus::write() const {
  Page page(header_.name());
  page.gauge("ft_running", running_, "1 while the run is active.");
  page.gauge("ft_planned_steps", static_cast<double>(header_.steps), "Optimizer steps of the complete run.");
  page.family("ft_memory_bytes", "gauge", "Memory by category.");
  page.value(static_cast<double>(memory_.weights), ",category=\"weights\"");
  page.value(static_cast<double>(memory_.adapter), ",category=\"adapter\"");
  page.value(static_cast<double>(memory_.gradients), ",category=\"gradients\"");
  page.value(static_cast<double>(memory_.optimizer), ",category=\"optimizer\"");
  page.value(static_cast<double>(memory_.activations), ",category=\"activations\"");
  page.value(static_cast<double>(memory_.scratch), ",category=\"scratch\"");
  page.value(static_cast<double>(memory_.communication), ",category=\"communication\"");
  page.value(static_cast<double>(memory_.cuda), ",category=\"cuda\"");
  if (step_) {
    page.gauge("ft_step", static_cast<double>(step_->step), "Optimizer steps done.");
    page.gauge("ft_epoch", step_->epoch, "Epochs done.");
    if (!std::isnan(step_->loss))
      page.gauge("ft_loss", step_->loss, "Training loss, mean over target tokens.");
    page.gauge("ft_learning_rate", step_->learning_rate, "Learning rate of the last step.");
    page.gauge("ft_grad_norm", step_->grad_norm, "Gradient norm before clipping.");
    page.gauge("ft_tokens_per_second", step_->tokens_per_second, "Training speed.");
    if (step_->loss_scaling) {
      page.gauge("ft_loss_scale", step_->loss_scaling->loss_scale,
                 "Loss scale of the last step, in float16.");
      page.family("ft_skipped_steps_total", "counter", "Steps whose gradients overflowed float16.");
      page.value(static_cast<double>(step_->loss_scaling->skipped_steps));
    }
    page.family("ft_input_tokens_total", "counter", "Input tokens seen.");
    page.value(static_cast<double>(step_->num_input_tokens_seen));
  }
  if (evaluation_) {
    page.gauge("ft_eval_loss", evaluation_->eval_loss, "Held-out loss of the last evaluation.");
    if (!std::isnan(evaluation_->perplexity))
      page.gauge("ft_eval_perplexity", evaluation_->perplexity,
                 "Held-out perplexity of the last evaluation.");
    for (const auto& [name, value] : evaluation_->measures)
      page.gauge(gauge_name("ft_eval_" + name).c_str(), value, "Measured in the last evaluation.");
  }
  write_file(path_, page.text());
}

}  // namespace ft
