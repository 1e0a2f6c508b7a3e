// What a run reports while it trains: plain rows, and one interface that receives them. The Trainer knows
// only `Report`; the log, TensorBoard files, the live line and the plot are reports, and `Reports` is all of
// them at once. Only rank 0 reports.
#pragma once
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/zero/moved.h"

namespace ft {

// Numbers by name.
using Measures = std::vector<std::pair<std::string, double>>;

// How fp16 training keeps its gradients within float16.
struct LossScalingRow {
  double loss_scale = 0;           // of this step
  std::int64_t skipped_steps = 0;  // whose gradients overflowed, so far
  bool operator==(const LossScalingRow&) const = default;
};

// One optimizer step, or (at logging steps) the steps since the last row.
struct StepRow {
  std::int64_t step = 0;     // 1-based, optimizer steps
  double epoch = 0;          // passes of the data, with a fraction
  double loss = 0;           // mean over the target tokens; NaN: there were none
  double learning_rate = 0;  // the one this step used
  double grad_norm = 0;      // global L2 norm before clipping; not finite: a step of fp16 that was skipped
  double tokens_per_second = 0;
  std::int64_t num_input_tokens_seen = 0;
  double flops_per_second = 0;  // arithmetic of the model's definition, recomputation not counted; 0: unknown
  std::optional<LossScalingRow> loss_scaling = {};  // fp16
  Measures columns = {};                            // that only some runs have, such as wall_clock/forward
};

struct EvalRow {
  std::int64_t step = 0;
  double epoch = 0;
  double eval_loss = 0;
  double perplexity = 0;  // NaN: the loss is no cross-entropy
  bool best = false;      // the best so far by metric_for_best_model
  double seconds = 0;     // what it took
  Measures measures;      // of generated text: bleu, chrf, ...; an objective's columns

  // By its name in evaluation.metric_for_best_model; NaN when it was not measured.
  double figure(std::string_view name) const {
    if (name.starts_with("eval_")) name.remove_prefix(5);
    if (name == "loss") return eval_loss;
    if (name == "perplexity") return perplexity;
    for (const auto& [measure, value] : measures)
      if (measure == name) return value;
    return std::numeric_limits<double>::quiet_NaN();
  }
};

// True where a figure takes the place of the best so far. One that is not a number never does.
inline bool better(double figure, std::optional<double> best, bool greater) {
  if (!std::isfinite(figure)) return false;
  return !best || (greater ? figure > *best : figure < *best);
}

// Bytes by category, planned or measured; the names are those of `ft plan --json`.
struct MemoryReport {
  std::int64_t weights = 0, adapter = 0, gradients = 0, optimizer = 0;
  std::int64_t activations = 0, scratch = 0, communication = 0;
  std::int64_t cuda = 0;  // CUDA's own
  std::int64_t total = 0;
  // Not in the total: of a GPU's run in the host's memory; in files.
  std::int64_t host = 0, elsewhere = 0;
};

// The rows a resumed run begins with: those up to the step it resumes from.
struct History {
  std::vector<StepRow> steps;
  std::vector<EvalRow> evaluations;
};

struct AdapterHeader {
  std::int64_t rank = 0;
  double alpha = 0;
  std::int64_t linears = 0;          // how many carry an adapter
  std::vector<std::string> targets;  // their last names, each once: q_proj, v_proj
};

struct DataHeader {
  std::int64_t samples = 0, tokens = 0;  // of one pass of the training part
  std::int64_t target_tokens = 0;        // those of them that are trained
  std::int64_t held_out = 0;             // samples kept for evaluation
  std::int64_t sequences = 0;            // rows per epoch; with packing fewer than samples
  std::int64_t length = 0;               // longest row in tokens; with packing what rows are filled up to
  bool packed = false;
  std::int64_t streamed_bytes = 0;    // of files read while training; 0: the data is in memory, as said above
  std::int64_t shuffled_at_once = 0;  // samples of a stream; 0: not shuffled
};

// What the first lines show, and what trainer_state.json repeats.
struct RunHeader {
  std::string version;              // of ft
  std::string run_name;             // logging.run_name, else the output folder's name
  std::string config, output;       // as the user wrote them; config may be empty
  std::string settings;             // every setting, as run.json
  std::string model, architecture;  // folder as the user wrote it; LlamaForCausalLM
  std::string dtype;                // of the activations: f32, bf16, f16
  std::int64_t parameters = 0, trained_parameters = 0;
  std::optional<AdapterHeader> adapter;  // empty: full fine-tuning
  DataHeader data;
  MemoryReport memory;            // planned
  std::int64_t memory_there = 0;  // bytes the device has; 0: unknown
  // As Plan's, chosen by gradient_checkpointing auto; 0 blocks: nothing to choose.
  std::int64_t recomputed = 0, blocks = 0, segment = 1;
  std::int64_t whole = 0;    // as Plan's
  double peak_flops = 0;     // measured, a second; 0: unknown
  double learning_rate = 0;  // at its peak; 0: not shown
  std::string schedule;      // training.lr_scheduler_type
  std::string usual_rate;    // the kind of run whose default the rate is: "dpo"; empty: it was given
  std::int64_t steps = 0, steps_per_epoch = 0;
  double epochs = 0;
  std::int64_t sequences_per_step = 0, micro_batch = 0;
  std::int64_t logging_steps = 0, eval_steps = 0, save_steps = 0;  // 0: never
  std::string metric = "eval_loss";                                // by which the best evaluation is chosen
  bool greater_is_better = false;
  std::string ranks;              // of several: how many, and how they talk
  std::string cudnn;              // its version, where attention is computed with it
  std::string processor;          // its name and what ft uses of it; or the GPU
  std::string started;            // date and time of the machine
  std::int64_t resumed_step = 0;  // 0: a fresh run
  History past;                   // of a resumed run, see read_log
  std::optional<std::int64_t>
      best_step;  // of a resumed run's best evaluation; 0: there is none; empty: of past's

  // The run's name, else the last part of its folder's.
  std::string name() const {
    if (!run_name.empty()) return run_name;
    const std::filesystem::path folder = std::filesystem::path(output).lexically_normal();
    return (folder.has_filename() ? folder.filename() : folder.parent_path().filename()).string();
  }
};

// Something the run made.
struct Made {
  std::string what;  // adapter, model, plot
  std::filesystem::path path;
  std::int64_t bytes = 0;
};

struct Summary {
  std::int64_t step = 0;
  double epoch = 0;
  double train_loss = 0;     // mean over the steps of this process; NaN: they had no targets
  double train_runtime = 0;  // seconds
  double train_tokens_per_second = 0;
  std::int64_t num_input_tokens_seen = 0;
  double total_flops = 0;
  std::int64_t sent_per_step = 0;  // bytes from this rank to others
  Moved moved_per_step;
  std::string files_by;  // how files are moved: io_uring, O_DIRECT; empty: nothing lives in files
  MemoryReport memory;   // measured
  bool finished = true;  // false: stopped before the last step; `why` says by what
  std::string why;
  std::string resume;  // the command that goes on with a run that was stopped; empty: nothing goes on
  std::vector<Made> made;
  std::vector<std::string> next;  // commands to type next
};

class Report {
 public:
  virtual ~Report() = default;
  virtual void begin(const RunHeader&) {}
  virtual void step(const StepRow&) {}      // at logging steps
  virtual void progress(const StepRow&) {}  // after every step, its own loss; before step() of the same step
  // Before each of a step's micro-batches, counted from 1.
  virtual void micro_step(std::int64_t /*micro_batch*/, std::int64_t /*of*/) {}
  // While answers for a step are generated.
  virtual void answering(std::int64_t /*done*/, std::int64_t /*of*/) {}
  virtual void evaluating(std::int64_t /*done*/, std::int64_t /*of*/) {}  // batches, while an evaluation runs
  virtual void evaluation(const EvalRow&) {}
  // A checkpoint is being filled: `folder` becomes it, and takes more files until then.
  virtual void saving(std::int64_t /*step*/, const std::filesystem::path& /*folder*/) {}
  // A checkpoint is complete on disk.
  virtual void saved(std::int64_t /*step*/, double /*seconds*/, const std::filesystem::path&) {}
  virtual void note(const std::string&) {}
  virtual void warning(const std::string&) {}
  virtual void end(const Summary&) {}
};

// Hands everything to each of several, in the order they were added.
class Reports final : public Report {
 public:
  void add(std::unique_ptr<Report> report) { all_.push_back(std::move(report)); }

  void begin(const RunHeader& header) override {
    for (auto& r : all_) r->begin(header);
  }
  void step(const StepRow& row) override {
    for (auto& r : all_) r->step(row);
  }
  void progress(const StepRow& row) override {
    for (auto& r : all_) r->progress(row);
  }
  void micro_step(std::int64_t micro_batch, std::int64_t of) override {
    for (auto& r : all_) r->micro_step(micro_batch, of);
  }
  void answering(std::int64_t done, std::int64_t of) override {
    for (auto& r : all_) r->answering(done, of);
  }
  void evaluating(std::int64_t done, std::int64_t of) override {
    for (auto& r : all_) r->evaluating(done, of);
  }
  void evaluation(const EvalRow& row) override {
    for (auto& r : all_) r->evaluation(row);
  }
  void saving(std::int64_t step, const std::filesystem::path& folder) override {
    for (auto& r : all_) r->saving(step, folder);
  }
  void saved(std::int64_t step, double seconds, const std::filesystem::path& path) override {
    for (auto& r : all_) r->saved(step, seconds, path);
  }
  void note(const std::string& text) override {
    for (auto& r : all_) r->note(text);
  }
  void warning(const std::string& text) override {
    for (auto& r : all_) r->warning(text);
  }
  void end(const Summary& summary) override {
    for (auto& r : all_) r->end(summary);
  }

 private:
  std::vector<std::unique_ptr<Report>> all_;
};

}  // namespace ft
