// The settings under `training`, `evaluation` and `checkpointing`: Hugging Face TrainingArguments' names and
// meanings.
#pragma once
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/core/chosen.h"
#include "engine/core/dtype.h"
#include "engine/core/rules.h"
#include "engine/quant/block_codes.h"
#include "engine/train/optimizers/kind.h"
#include "engine/train/reports/config.h"
#include "engine/train/schedules/kind.h"

namespace ft {

// Settings that count steps take a whole number of optimizer steps, or a fraction below 1 of all steps,
// rounded up.
inline std::int64_t steps_of(double setting, std::int64_t all_steps) {
  return static_cast<std::int64_t>(setting < 1 ? std::ceil(setting * static_cast<double>(all_steps))
                                               : setting);
}

using LrScheduler = Chosen<ScheduleKind>;
using Optim = Chosen<OptimizerKind>;

// The checkpoint that a run resumes from, unless it is named: none, the newest of its folder, or the newest
// or none.
enum class Resume : std::uint8_t { none, newest, newest_if_any };
constexpr auto words(Resume) {
  using enum Resume;
  return to_words<Resume>({{none, "false"}, {newest, "true"}, {newest_if_any, "auto"}});
}

// The end of a step whose loss or gradient is not finite: the run ends, or the step is skipped.
enum class OnNonFinite : std::uint8_t { stop, skip };
constexpr auto words(OnNonFinite) {
  using enum OnNonFinite;
  return to_words<OnNonFinite>({{stop, "stop"}, {skip, "skip"}});
}

// Activations of a block that are kept for its backward pass: all, its input only, or its input on the host.
enum class Checkpointing : std::uint8_t { off, on, offload };
constexpr auto words(Checkpointing) {
  using enum Checkpointing;
  return to_words<Checkpointing>({{off, "false"}, {on, "true"}, {offload, "offload"}});
}

// The loss scale of fp16 training and its moves: DeepSpeed's names and meanings. See loss_scaler.h.
struct LossScaling {
  double loss_scale = 0;
  std::int64_t initial_scale_power = 16;
  std::int64_t loss_scale_window = 1000;
  std::int64_t hysteresis = 2;
  bool consecutive_hysteresis = false;
  double min_loss_scale = 1;
  bool operator==(const LossScaling&) const = default;

  double first() const { return loss_scale > 0 ? loss_scale : std::ldexp(1.0, int(initial_scale_power)); }

  void fields(auto& f) {
    f("loss_scale", loss_scale, "Constant loss scale; 0: dynamic, by the other settings of loss_scaling.",
      at_least(0), at_most(1e38));
    f("initial_scale_power", initial_scale_power, "Exponent of the first scale, 2 to this power.",
      at_least(0), at_most(126));
    f("loss_scale_window", loss_scale_window, "Steps without an overflow after which the scale doubles.",
      at_least(1));
    f("hysteresis", hysteresis, "Number of the overflow, counted from 1, that first halves the scale.",
      at_least(1));
    f("consecutive_hysteresis", consecutive_hysteresis,
      "Reset the count of overflows after every step without one; false: after loss_scale_window such "
      "steps.");
    f("min_loss_scale", min_loss_scale, "An overflow at this scale ends the run (exit 7).", above(0),
      at_most(1e38));
  }
};

// Trained weights with their own settings; a setting that is not given is as for the rest.
struct ParamGroup {
  std::vector<std::string> params;
  std::optional<double> learning_rate, weight_decay;
  std::int64_t frozen_until_step = 0;

  void fields(auto& f) {
    f("params", params,
      "Regular expressions: one must be found in a weight's name. The first group that matches applies.",
      required(), not_empty(), or_one());
    f("learning_rate", learning_rate,
      "Learning rate of the group, instead of training.learning_rate; the schedule applies to both.",
      at_least(0), aka({"lr"}));
    f("weight_decay", weight_decay,
      "Weight decay of the group, instead of training.weight_decay; biases and norms decay too.",
      at_least(0));
    f("frozen_until_step", frozen_until_step,
      "First step, counted from 1, that trains the group; before it the group is not part of the gradient's "
      "norm.",
      at_least(0));
  }
};

struct TrainingConfig {
  std::string output_dir = "outputs";
  std::int64_t seed = 42;
  std::int64_t per_device_train_batch_size = 8;
  std::int64_t per_device_eval_batch_size = 8;
  std::int64_t gradient_accumulation_steps = 1;
  double num_train_epochs = 3;
  std::int64_t max_steps = -1;  // -1: from num_train_epochs
  double learning_rate = 2e-4;
  LrScheduler lr_scheduler_type = &schedules::kCosine;
  JsonText lr_scheduler_kwargs;
  double min_lr_ratio = 0;
  double warmup_steps = 0;
  double warmup_ratio = 0;
  Optim optim = &optimizers::kAdamW;
  std::optional<std::string> optim_args;
  std::vector<ParamGroup> param_groups;
  std::optional<double> embedding_learning_rate;
  std::optional<double> loraplus_lr_ratio;
  double weight_decay = 0;
  std::optional<double> ema_decay;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  bool adam_w_mode = true;
  double max_grad_norm = 1;
  OnNonFinite on_nonfinite = OnNonFinite::stop;
  std::int64_t max_nonfinite_steps = 10;
  std::int64_t audit_steps = 0;
  double label_smoothing_factor = 0;
  std::optional<bool> bf16;  // empty: auto
  bool fp16 = false;
  LossScaling loss_scaling;
  bool fp8 = false;
  std::vector<std::string> fp8_skip;
  std::optional<BlockFormat> qat;  // empty: weights are not quantized in passes
  bool tf32 = false;
  std::optional<Checkpointing> gradient_checkpointing = Checkpointing::on;  // empty: as memory asks for it
  std::optional<double> neftune_noise_alpha;
  std::variant<Resume, std::string> resume_from_checkpoint = Resume::none;  // or a checkpoint's folder
  std::vector<std::string> resume_despite;  // settings that may have changed since the checkpoint
  bool full_determinism = false;
  std::optional<std::string> gemm_tuning;

  // Type of activations and frozen weights. Every GPU that ft runs on has bfloat16 in hardware.
  DType dtype(bool gpu) const { return fp16 ? DType::f16 : bf16.value_or(gpu) ? DType::bf16 : DType::f32; }

  // warmup_steps if given, else warmup_ratio of all steps, rounded up.
  std::int64_t warmup(std::int64_t all_steps) const {
    return steps_of(warmup_steps > 0 ? warmup_steps : warmup_ratio, all_steps);
  }

  void fields(auto& f) {
    f("output_dir", output_dir, "Output folder of the run.", is_path(), not_empty(), aka({"output"}));
    f("seed", seed, "Seed of all random number generators.", at_least(0));
    f("per_device_train_batch_size", per_device_train_batch_size, "Sequences per micro-batch, on each rank.",
      at_least(1), aka({"batch_size", "micro_batch_size", "train_micro_batch_size_per_gpu"}));
    f("per_device_eval_batch_size", per_device_eval_batch_size,
      "Sequences per batch of an evaluation, on each rank.", at_least(1));
    f("gradient_accumulation_steps", gradient_accumulation_steps, "Micro-batches per optimizer step.",
      at_least(1));
    f("num_train_epochs", num_train_epochs, "Passes over the data.", above(0), aka({"epochs", "num_epochs"}));
    f("max_steps", max_steps, "Optimizer steps; -1: as given by num_train_epochs.", at_least(-1));
    f("learning_rate", learning_rate, "Peak learning rate, after the warm-up. Default: by objective.",
      above(0), aka({"lr"}));
    f("lr_scheduler_type", lr_scheduler_type,
      "Schedule of the learning rate: transformers' schedules, and DeepSpeed's, which include their own "
      "warm-up. Default: by objective (docs/preferences.md).",
      aka({"scheduler", "lr_scheduler"}));
    f("lr_scheduler_kwargs", lr_scheduler_kwargs,
      "Arguments of the schedule, {\"argument\": value}, with transformers' names or DeepSpeed's; "
      "docs/schedules.md lists them.");
    f("min_lr_ratio", min_lr_ratio,
      "cosine_with_min_lr, cosine_warmup_with_min_lr: the lowest rate, as a fraction of learning_rate.",
      at_least(0), at_most(1));
    f("warmup_steps", warmup_steps,
      "Steps in which the learning rate rises from 0; below 1: a fraction of all steps.", at_least(0),
      whole_from_one());
    f("warmup_ratio", warmup_ratio,
      "Steps of the warm-up as a fraction of all steps; used if warmup_steps is 0.", at_least(0), below(1));
    f("optim", optim,
      "Optimizer. paged_*: with a GPU its states are in the host's memory, as with "
      "zero_optimization.offload_optimizer.device=cpu.",
      aka({"optimizer"}));
    f("optim_args", optim_args,
      "Arguments of the optimizer, \"key=value,key=value\", as in transformers; see docs/optimizers.md.");
    f("param_groups", param_groups, "Groups of weights with a different rate or decay, or trained later.");
    f("embedding_learning_rate", embedding_learning_rate,
      "Learning rate of the embedding and of the head, if all their rows are trained.", at_least(0));
    f("loraplus_lr_ratio", loraplus_lr_ratio,
      "LoRA+: the rate of B, of magnitudes and of biases is learning_rate times this.", above(0));
    f("weight_decay", weight_decay,
      "Weight decay, added to the gradient in sgd, adagrad and rmsprop, decoupled from it in other "
      "optimizers; not applied to biases and norm weights.",
      at_least(0));
    f("ema_decay", ema_decay,
      "Decay of a moving average of the trained weights, for the result's folder ema; null: none.",
      at_least(0), below(1));
    f("adam_beta1", adam_beta1, "Decay of the mean of gradients; lion: weight of the mean in the update.",
      at_least(0), below(1));
    f("adam_beta2", adam_beta2, "Decay of the mean of squared gradients; lion: of the mean of gradients.",
      at_least(0), below(1));
    f("adam_epsilon", adam_epsilon,
      "adamw, ademamix: added to the square root of the mean of squared gradients.", above(0));
    f("adam_w_mode", adam_w_mode,
      "adamw: false adds the weight decay to the gradient, as torch.optim.Adam does.");
    f("max_grad_norm", max_grad_norm, "Clip gradients to this norm; 0: never.", at_least(0),
      aka({"gradient_clipping"}));
    f("on_nonfinite", on_nonfinite,
      "A step whose loss or gradient is not finite: stop (exit 7), or skip it and go on. Its samples are "
      "written into nonfinite.jsonl.");
    f("max_nonfinite_steps", max_nonfinite_steps,
      "With skip: the most steps of a run that are skipped; one more ends it (exit 7).", at_least(1));
    f("audit_steps", audit_steps,
      "Interval in steps at which ranks compare hashes of what they must hold equally: replicated weights, "
      "gradients and optimizer states, and the position in the run. A difference is silent data corruption: "
      "it ends the run (exit 12) and names the rank and the tensor; 0: never.",
      at_least(0));
    f("label_smoothing_factor", label_smoothing_factor,
      "Fraction of the target spread over all tokens; in training only, not in eval_loss and perplexity.",
      at_least(0), below(1));
    run_fields(f);
  }
  // Settings of the computation, and of the start.
  void run_fields(auto& f) {
    f("bf16", bf16, "Compute in bfloat16; auto: true on GPUs, false (float32) on CPUs.", or_auto());
    f("fp16", fp16, "Compute in float16 with a loss scale: steps whose gradients overflow are skipped.");
    f("loss_scaling", loss_scaling, "Changes of the loss scale of fp16: DeepSpeed's names and meanings.");
    f("fp8", fp8,
      "Products in FP8, with frozen FP8 weights (model.frozen_dtype=fp8) or in full fine-tuning: activations "
      "and gradients are quantized row by row. On GPUs of compute capability 9.0 (Hopper) they are faster; "
      "CPUs compute the same numbers, slowly.");
    f("fp8_skip", fp8_skip,
      "With fp8: linears whose products stay in bfloat16, by their names or parts of them (layers.0, "
      "down_proj), or re: and a regular expression for the beginning of a name.");
    f("qat", qat,
      "Quantization-aware training: linears of the blocks compute with the values that their weights, with "
      "LoRA merged, will have in a GGUF file of this type, and ft export writes that file (docs/qat.md). "
      "null: none.");
    f("tf32", tf32, "GPUs: float32 products in TF32.", only_default());
    f("gradient_checkpointing", gradient_checkpointing,
      "Keep only the blocks' inputs and recompute the rest in backward: less memory, about a quarter slower. "
      "auto: only in as many blocks as needed to fit into the free memory; if all are not enough, keep the "
      "inputs of every second, third, ... block only. offload: all blocks, and with a GPU the inputs wait in "
      "the host's memory. auto and false: on a GPU with room, blocks also keep results that are cheap to "
      "recompute.",
      or_auto(), aka({"recompute", "activation_checkpointing"}));
    f("neftune_noise_alpha", neftune_noise_alpha,
      "NEFTune: noise of up to this / sqrt(tokens x width) on the embeddings in training.", above(0));
    f("resume_from_checkpoint", resume_from_checkpoint,
      "A checkpoint's folder; true: the newest complete one in output_dir; auto: the same, or start from the "
      "beginning if there is none.",
      is_path(), not_empty());
    f("resume_despite", resume_despite,
      "Settings, such as training.optim, that may differ from the checkpoint's although the run then trains "
      "another function or with another optimizer.",
      or_one());
    f("full_determinism", full_determinism,
      "Bitwise reproducible runs. Always so on the same machines: true changes nothing.");
    f("gemm_tuning", gemm_tuning,
      "GPUs only: file that stores the fastest cuBLASLt algorithm for each size of product, measured on "
      "first use; null: cuBLASLt's own choice. Runs that share the file compute the same bits.",
      is_path(), not_empty());
  }
};

enum class EvalStrategy : std::uint8_t { no, steps, epoch };
constexpr auto words(EvalStrategy) {
  using enum EvalStrategy;
  return to_words<EvalStrategy>({{no, "no"}, {steps, "steps"}, {epoch, "epoch"}});
}

// rouge stands for rouge1, rouge2, rougeL and rougeLsum.
enum class Metric : std::uint8_t { loss, perplexity, bleu, chrf, rouge, exact_match };
constexpr auto words(Metric) {
  using enum Metric;
  return to_words<Metric>({{loss, "loss"},
                           {perplexity, "perplexity"},
                           {bleu, "bleu"},
                           {chrf, "chrf"},
                           {rouge, "rouge"},
                           {exact_match, "exact_match"}});
}
constexpr bool of_text(Metric m) { return m != Metric::loss && m != Metric::perplexity; }

struct EvaluationConfig {
  EvalStrategy eval_strategy = EvalStrategy::no;
  double eval_steps = 500;
  std::vector<Metric> metrics{Metric::loss, Metric::perplexity};
  bool predict_with_generate = false;
  bool load_best_model_at_end = false;
  std::string metric_for_best_model = "loss";
  std::optional<bool> greater_is_better;  // empty: by the metric
  std::optional<std::int64_t> early_stopping_patience;

  bool greater() const {
    return greater_is_better.value_or(!metric_for_best_model.ends_with("loss") &&
                                      !metric_for_best_model.ends_with("perplexity"));
  }
  // Metrics of generated text among `metrics`; if it names none, all of them.
  std::vector<Metric> text_metrics() const {
    std::vector<Metric> wanted = metrics;
    std::erase_if(wanted, [](Metric m) { return !of_text(m); });
    if (wanted.empty()) wanted = {Metric::bleu, Metric::chrf, Metric::rouge, Metric::exact_match};
    return wanted;
  }

  void fields(auto& f) {
    f("eval_strategy", eval_strategy,
      "Times of evaluations: never (no), every eval_steps (steps), or after each epoch (epoch).",
      aka({"evaluation_strategy"}));
    f("eval_steps", eval_steps, "With steps: the interval in steps; below 1: a fraction of all steps.",
      above(0), whole_from_one());
    f("metrics", metrics, "Metrics to measure; all but loss and perplexity are measured on generated text.");
    f("predict_with_generate", predict_with_generate,
      "Generate answers to the held-out prompts, with the settings of generation, and measure them.");
    f("load_best_model_at_end", load_best_model_at_end,
      "Take the best checkpoint as the result instead of the last.");
    f("metric_for_best_model", metric_for_best_model, "The metric that decides which checkpoint is best.",
      one_of({"loss",
              "eval_loss",
              "perplexity",
              "eval_perplexity",
              "bleu",
              "eval_bleu",
              "chrf",
              "eval_chrf",
              "rouge1",
              "eval_rouge1",
              "rouge2",
              "eval_rouge2",
              "rougeL",
              "eval_rougeL",
              "rougeLsum",
              "eval_rougeLsum",
              "exact_match",
              "eval_exact_match",
              "reward",
              "eval_reward",
              "accuracy",
              "eval_accuracy",
              "margin",
              "eval_margin",
              "rewards/accuracies",
              "eval_rewards/accuracies",
              "rewards/margins",
              "eval_rewards/margins"}));
    f("greater_is_better", greater_is_better,
      "Direction of metric_for_best_model; null: lower is better for loss and perplexity, higher for the "
      "others.");
    f("early_stopping_patience", early_stopping_patience,
      "Stop after this many evaluations without improvement.", at_least(1));
  }
};

enum class SaveStrategy : std::uint8_t { no, steps, epoch, best };
constexpr auto words(SaveStrategy) {
  using enum SaveStrategy;
  return to_words<SaveStrategy>({{no, "no"}, {steps, "steps"}, {epoch, "epoch"}, {best, "best"}});
}

struct CheckpointingConfig {
  SaveStrategy save_strategy = SaveStrategy::steps;
  double save_steps = 500;
  std::optional<std::int64_t> save_total_limit;
  bool save_only_model = false;
  bool save_on_signal = true;
  std::optional<bool> async_save;

  void fields(auto& f) {
    f("save_strategy", save_strategy,
      "Times of checkpoints; steps, epoch: after the last step too; best: after each evaluation that is the "
      "best so far.");
    f("save_steps", save_steps, "With steps: the interval in steps; below 1: a fraction of all steps.",
      above(0), whole_from_one());
    f("save_total_limit", save_total_limit,
      "Number of checkpoints to keep, the newest and the best; null: all.", at_least(1));
    f("save_only_model", save_only_model, "Save no optimizer states or other state for resuming.",
      only_default());
    f("save_on_signal", save_on_signal,
      "SIGTERM, SIGUSR1, Ctrl-C and a closed terminal save a checkpoint and end the run (exit 75); SIGUSR2 "
      "saves one and goes on.");
    f("async_save", async_save,
      "Write checkpoints beside training, from a copy of each rank's part in memory: the step waits only for "
      "the copy. false: training waits until they are on disk; null: beside training if there is memory for "
      "the copy.");
  }
};

// All that the Trainer needs to know.
struct TrainConfig {
  TrainingConfig training;
  EvaluationConfig evaluation;
  CheckpointingConfig checkpointing;
  LoggingConfig logging;
  std::int64_t delayed_update_after = 0;  // steps; where the store keeps gradients for delayed updates
};

}  // namespace ft
