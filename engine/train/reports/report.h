// Reports of a run while it trains: plain rows, and an interface that receives them. The Trainer knows only
// `Report`. The log, TensorBoard files, the live line and the plot are reports, and `Reports` passes rows to
// all of them. Only rank 0 reports.
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

// Numbers with their names.
using Measures = std::vector<std::pair<std::string, double>>;

// State of fp16 training's loss scaling.
struct LossScalingRow {
  double loss_scale = 0;           // of this step
  std::int64_t skipped_steps = 0;  // steps so far whose gradients overflowed
  bool operator==(const LossScalingRow&) const = default;
};

// Row of one optimizer step, or (at logging steps) of all steps since the last row.
struct StepRow {
  std::int64_t step = 0;     // 1-based, in optimizer steps
  double epoch = 0;          // passes over the data, with a fraction
  double loss = 0;           // mean over the target tokens; NaN: there were none
  double learning_rate = 0;  // rate of this step
  double grad_norm = 0;      // global L2 norm before clipping; not finite: a skipped step of fp16
  double tokens_per_second = 0;
  std::int64_t num_input_tokens_seen = 0;
  double flops_per_second = 0;  // FLOPs of the model's definition, without recomputation; 0: unknown
  std::optional<LossScalingRow> loss_scaling = {};  // fp16
  Measures columns = {};                            // only in some runs, such as wall_clock/forward
};

// A step whose loss or gradient is not finite, and the micro-batches [begin, end) of its epoch.
struct NonFiniteStep {
  std::int64_t step = 0, epoch = 0, begin = 0, end = 0;
  double loss = 0, grad_norm = 0;
};

struct EvalRow {
  std::int64_t step = 0;
  double epoch = 0;
  double eval_loss = 0;
  double perplexity = 0;  // NaN: the loss is not a cross-entropy
  bool best = false;      // the best so far by metric_for_best_model
  double seconds = 0;     // duration of the evaluation
  Measures measures;      // of generated text: bleu, chrf, ...; or an objective's columns

  // Returns the figure that evaluation.metric_for_best_model names; NaN if it was not measured.
  double figure(std::string_view name) const {
    if (name.starts_with("eval_")) name.remove_prefix(5);
    if (name == "loss") return eval_loss;
    if (name == "perplexity") return perplexity;
    for (const auto& [measure, value] : measures)
      if (measure == name) return value;
    return std::numeric_limits<double>::quiet_NaN();
  }
};

// Returns true if a figure replaces the best so far. A figure that is not finite never does.
inline bool better(double figure, std::optional<double> best, bool greater) {
  if (!std::isfinite(figure)) return false;
  return !best || (greater ? figure > *best : figure < *best);
}

// A checkpoint that is complete on disk.
struct SavedRow {
  std::int64_t step = 0;
  double seconds = 0;            // from its beginning until it is complete
  std::optional<double> waited;  // seconds that training waited for it; empty: `seconds`
  std::filesystem::path folder;
};

// Bytes by category, planned or measured, with the names of `ft plan --json`.
struct MemoryReport {
  std::int64_t weights = 0, adapter = 0, gradients = 0, optimizer = 0;
  std::int64_t activations = 0, scratch = 0, communication = 0;
  std::int64_t cuda = 0;      // used by CUDA
  std::int64_t snapshot = 0;  // of a checkpoint that is written beside training, in a CPU's memory
  std::int64_t total = 0;
  // Not in the total. host: host memory, for a run on a GPU. elsewhere: files.
  std::int64_t host = 0, elsewhere = 0;
};

// Earlier rows of a resumed run, up to the step it resumes from.
struct History {
  std::vector<StepRow> steps;
  std::vector<EvalRow> evaluations;
};

struct AdapterHeader {
  std::string kind;                  // such as LoRA
  std::string size;                  // such as r 8
  std::optional<double> alpha;       // empty: the kind has none
  std::int64_t linears = 0;          // number of linears with an adapter
  std::vector<std::string> targets;  // last parts of their names, each once: q_proj, v_proj
};

struct DataHeader {
  std::int64_t samples = 0, tokens = 0;  // of one pass over the training part
  std::int64_t target_tokens = 0;        // tokens that are trained
  std::int64_t held_out = 0;             // samples kept for evaluation
  std::int64_t sequences = 0;            // rows per epoch; with packing fewer than samples
  std::int64_t length = 0;               // longest row in tokens; with packing the length of a pack
  bool packed = false;
  std::int64_t streamed_bytes = 0;    // of files read while training; 0: the data is in memory
  std::int64_t shuffled_at_once = 0;  // samples of a stream; 0: not shuffled
};

// Facts that the first lines of output show, and trainer_state.json repeats.
struct RunHeader {
  std::string version;              // of ft
  std::string run_name;             // logging.run_name, else the output folder's name
  std::string config, output;       // as the user wrote them; config may be empty
  std::string settings;             // all settings, as in run.json
  std::string model, architecture;  // folder as the user wrote it; such as LlamaForCausalLM
  std::string dtype;                // of the activations: f32, bf16, f16
  std::int64_t parameters = 0, trained_parameters = 0;
  std::optional<AdapterHeader> adapter;  // empty: full fine-tuning
  DataHeader data;
  MemoryReport memory;            // planned
  std::int64_t memory_there = 0;  // bytes of the device; 0: unknown
  // Values of Plan, chosen by gradient_checkpointing auto; 0 blocks: nothing to choose.
  std::int64_t recomputed = 0, blocks = 0, segment = 1;
  std::int64_t whole = 0;    // see Plan::whole
  double peak_flops = 0;     // measured, per second; 0: unknown
  double learning_rate = 0;  // highest rate; 0: not shown
  std::string schedule;      // training.lr_scheduler_type
  std::string usual_rate;  // kind of run whose default rate is used, such as "dpo"; empty: the rate was given
  std::int64_t steps = 0, steps_per_epoch = 0;
  double epochs = 0;
  std::int64_t sequences_per_step = 0, micro_batch = 0;
  std::int64_t logging_steps = 0, eval_steps = 0, save_steps = 0;  // 0: never
  std::string metric = "eval_loss";                                // metric that chooses the best evaluation
  bool greater_is_better = false;
  std::string ranks;              // for several ranks: their number, and how they communicate
  std::string cudnn;              // cuDNN's version, if it computes attention
  std::string processor;          // the CPU's name and used features; or the GPU
  std::string started;            // date and time of the machine
  std::int64_t resumed_step = 0;  // 0: a fresh run
  History past;                   // of a resumed run, see read_log
  std::optional<std::int64_t>
      best_step;  // step of a resumed run's best evaluation; 0: none; empty: found in `past`

  // Returns the run's name, else the last part of its folder's path.
  std::string name() const {
    if (!run_name.empty()) return run_name;
    const std::filesystem::path folder = std::filesystem::path(output).lexically_normal();
    return (folder.has_filename() ? folder.filename() : folder.parent_path().filename()).string();
  }
};

// A file or folder that the run made.
struct Made {
  std::string what;  // such as adapter, model, plot
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
  std::int64_t sent_per_step = 0;  // bytes that this rank sends to others
  Moved moved_per_step;
  std::string files_by;  // how files are moved: io_uring, O_DIRECT; empty: no data is offloaded to files
  MemoryReport memory;   // measured
  bool finished = true;  // false: stopped before the last step; `why` tells the reason
  std::string why;
  std::string resume;  // command that continues a stopped run; empty: none
  std::vector<Made> made;
  std::vector<std::string> next;  // commands to use next
};

class Report {
 public:
  virtual ~Report() = default;
  virtual void begin(const RunHeader&) {}
  virtual void step(const StepRow&) {}  // at logging steps
  // Called after every step, with its loss alone; before step() of the same step.
  virtual void progress(const StepRow&) {}
  // Called before each of a step's micro-batches, counted from 1.
  virtual void micro_step(std::int64_t /*micro_batch*/, std::int64_t /*of*/) {}
  // Called while answers for a step are generated.
  virtual void answering(std::int64_t /*done*/, std::int64_t /*of*/) {}
  virtual void evaluating(std::int64_t /*done*/, std::int64_t /*of*/) {}  // batches of an evaluation
  virtual void evaluation(const EvalRow&) {}
  // Called before a checkpoint is written: makes the rows durable, so that after a power cut the log has the
  // rows of the checkpoint's steps.
  virtual void sync() {}
  // Called while a checkpoint is written: files may be added to `folder`, which becomes the checkpoint.
  virtual void saving(std::int64_t /*step*/, const std::filesystem::path& /*folder*/) {}
  // Called when a checkpoint is complete on disk, which may be steps later (checkpointing.async_save).
  virtual void saved(const SavedRow&) {}
  // Called for a step whose loss or gradient is not finite, before the run ends or the step is skipped.
  virtual void nonfinite(const NonFiniteStep&) {}
  virtual void note(const std::string&) {}
  virtual void warning(const std::string&) {}
  virtual void end(const Summary&) {}
};

// Passes everything to several reports, in the order they were added.
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
  void sync() override {
    for (auto& r : all_) r->sync();
  }
  void saving(std::int64_t step, const std::filesystem::path& folder) override {
    for (auto& r : all_) r->saving(step, folder);
  }
  void saved(const SavedRow& row) override {
    for (auto& r : all_) r->saved(row);
  }
  void nonfinite(const NonFiniteStep& step) override {
    for (auto& r : all_) r->nonfinite(step);
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
