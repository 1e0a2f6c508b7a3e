// Features that do not go with every other one: methods, precision, devices, optimizers, objectives. The
// files features_of_data.h and features_of_ranks.h have those of data and of several ranks.
#pragma once
#include <algorithm>

#include "app/config/together.h"
#include "engine/train/optimizers/list.h"

namespace ft::feature {

// Methods

inline constexpr Feature kFull{
    .name = "full fine-tuning",
    .set = "finetuning_type=full",
    .on = [](const RunConfig& c, int) { return c.finetuning_type == FinetuningType::full; },
};

inline constexpr Feature kFourBits{
    .name = "4-bit weights (QLoRA)",
    .set = "quantization.load_in_4bit=true",
    .on = [](const RunConfig& c, int) { return c.quantization.load_in_4bit; },
};

inline constexpr Feature kFp8Base{
    .name = "frozen weights in FP8",
    .set = "model.frozen_dtype=fp8",
    .on = [](const RunConfig& c, int) { return c.model.frozen_dtype == FrozenType::fp8; },
};

inline constexpr Feature kNoFourBits{
    .name = "weights that are not in 4 bits",
    .set = "quantization.load_in_4bit=false",
    .on = [](const RunConfig& c, int) { return !c.quantization.load_in_4bit; },
};

inline constexpr Feature kEva{
    .name = "EVA",
    .set = "lora.init_lora_weights=eva",
    .on =
        [](const RunConfig& c, int) {
          return c.finetuning_type == FinetuningType::lora &&
                 c.lora.init_lora_weights == lora::LoraInitWord(lora::LoraInit::eva);
        },
};

inline constexpr Feature kLoraGa{
    .name = "LoRA-GA",
    .set = "lora.init_lora_weights=lora_ga",
    .on =
        [](const RunConfig& c, int) {
          return c.finetuning_type == FinetuningType::lora && !c.lora.adapter_name_or_path &&
                 c.lora.init_lora_weights == lora::LoraInitWord(lora::LoraInit::lora_ga);
        },
};

inline constexpr Feature kLoftQ{
    .name = "LoftQ",
    .set = "lora.init_lora_weights=loftq",
    .on =
        [](const RunConfig& c, int) {
          return c.finetuning_type == FinetuningType::lora &&
                 c.lora.init_lora_weights == lora::LoraInitWord(lora::LoraInit::loftq);
        },
};

inline constexpr Feature kDora{
    .name = "DoRA",
    .set = "lora.use_dora=true",
    .on = [](const RunConfig& c,
             int) { return c.finetuning_type == FinetuningType::lora && c.lora.use_dora; },
};

inline constexpr Feature kActivated{
    .name = "adapters that act from tokens on",
    .set = "lora.alora_invocation_tokens=[1]",
    .on =
        [](const RunConfig& c, int) {
          return c.finetuning_type == FinetuningType::lora && c.lora.alora_invocation_tokens.has_value();
        },
};

inline constexpr Feature kLoraBias{
    .name = "biases of LoRA",
    .set = "lora.lora_bias=true",
    .on = [](const RunConfig& c,
             int) { return c.finetuning_type == FinetuningType::lora && c.lora.lora_bias; },
};

inline constexpr Feature kNotLora{
    .name = "adapters other than LoRA",
    .set = "lora.peft_type=miss",
    .on =
        [](const RunConfig& c, int) {
          return c.finetuning_type == FinetuningType::lora && c.lora.peft_type != &lora::kinds::kLora;
        },
};

inline constexpr Feature kLoraDropout{
    .name = "dropout of adapters",
    .set = "lora.lora_dropout=0.1",
    .on = [](const RunConfig& c,
             int) { return c.finetuning_type == FinetuningType::lora && c.lora.lora_dropout > 0; },
};

inline constexpr Feature kChangesBase{
    .name = "PiSSA or OLoRA",
    .set = "lora.init_lora_weights=pissa",
    .on =
        [](const RunConfig& c, int) {
          const auto start = lora::start_of(c.lora.init_lora_weights);
          return c.finetuning_type == FinetuningType::lora && start && start->changes_base();
        },
};

inline constexpr Feature kTokenRows{
    .name = "trained rows of single tokens",
    .set = "lora.trainable_token_indices=[0]",
    .on =
        [](const RunConfig& c, int) {
          const std::string& rows = c.lora.trainable_token_indices.text;
          return c.finetuning_type == FinetuningType::lora && !rows.empty() && rows != "null";
        },
};

inline constexpr Feature kLoraPlus{
    .name = "LoRA+",
    .set = "training.loraplus_lr_ratio=16",
    .on = [](const RunConfig& c, int) { return c.training.loraplus_lr_ratio.has_value(); },
};

inline constexpr Feature kNeftune{
    .name = "NEFTune",
    .set = "training.neftune_noise_alpha=5",
    .on = [](const RunConfig& c, int) { return c.training.neftune_noise_alpha.has_value(); },
};

// Precision

inline constexpr Feature kBf16{
    .name = "bfloat16",
    .set = "training.bf16=true",
    .on = [](const RunConfig& c, int) { return c.training.bf16.value_or(false); },
};

inline constexpr Feature kFp16{
    .name = "float16",
    .set = "training.fp16=true",
    .on = [](const RunConfig& c, int) { return c.training.fp16; },
};

inline constexpr Feature kNoFp16{
    .name = "training without float16",
    .set = "training.fp16=false",
    .on = [](const RunConfig& c, int) { return !c.training.fp16; },
};

inline constexpr Feature kFloat32{
    .name = "float32",
    .set = "training.bf16=false",
    .on = [](const RunConfig& c, int) { return c.dtype() == DType::f32; },
};

inline constexpr Feature kFp8Products{
    .name = "products in FP8",
    .set = "training.bf16=true training.fp8=true",
    .on = [](const RunConfig& c, int) { return c.training.fp8; },
};

inline constexpr Feature kFp8Skip{
    .name = "linears without products in FP8",
    .set = "training.bf16=true training.fp8=true training.fp8_skip=[\"layers.0\"]",
    .on = [](const RunConfig& c, int) { return !c.training.fp8_skip.empty(); },
};

inline constexpr Feature kNoFp8Products{
    .name = "no products in FP8",
    .set = "training.fp8=false",
    .on = [](const RunConfig& c, int) { return !c.training.fp8; },
};

inline constexpr Feature kQat{
    .name = "quantization-aware training",
    .set = "training.qat=q4_0",
    .on = [](const RunConfig& c, int) { return c.training.qat.has_value(); },
};

inline constexpr Feature kLossScaling{
    .name = "loss scaling",
    .set = "training.fp16=true training.loss_scaling.hysteresis=3",
    .on = [](const RunConfig& c, int) { return c.training.loss_scaling != LossScaling{}; },
};

// Devices

inline constexpr Feature kCpu{
    .name = "a CPU",
    .set = "device=cpu",
    .on = [](const RunConfig& c, int) { return !c.on_gpu(); },
};

inline constexpr Feature kCudnn{
    .name = "cuDNN's attention",
    .set = "device=cuda model.attn_implementation=cudnn",
    .on = [](const RunConfig& c, int) { return c.model.attn_implementation == AttnImplementation::cudnn; },
};

inline constexpr Feature kGemmTuning{
    .name = "tuned matrix products",
    .set = "device=cuda training.gemm_tuning=tuned.jsonl",
    .on = [](const RunConfig& c, int) { return c.training.gemm_tuning.has_value(); },
};

inline constexpr Feature kNccl{
    .name = "NCCL",
    .set = "device=cuda distributed.backend=nccl",
    .on = [](const RunConfig& c, int) { return c.distributed.backend == Backend::nccl; },
};

inline constexpr Feature kSparse{
    .name = "sparse attention",
    .set = "model.sparse_attention.mode=fixed",
    .on = [](const RunConfig& c, int) { return c.model.sparse_attention.mode != SparsityMode::dense; },
};

inline constexpr Feature kMemoryBreakdown{
    .name = "logging.memory_breakdown",
    .set = "logging.memory_breakdown=true",
    .on = [](const RunConfig& c, int) { return c.logging.memory_breakdown; },
};

inline constexpr Feature kFlopsProfiler{
    .name = "logging.flops_profiler",
    .set = "logging.flops_profiler.enabled=true",
    .on = [](const RunConfig& c, int) { return c.logging.flops_profiler.enabled; },
};

// Optimizers and schedules

inline constexpr Feature kWholeSteps{
    .name = "Adafactor, Muon or 1-bit Adam",
    .set = "training.optim=adafactor",
    .on = [](const RunConfig& c, int) { return c.training.optim->complete; },
};

// Optimizers whose states belong to blocks of elements or to whole matrices.
inline constexpr Feature kWideStates{
    .name = "an 8-bit optimizer, Adafactor, Muon or 1-bit Adam",
    .set = "training.optim=adafactor",
    .on = [](const RunConfig& c, int) { return c.training.optim->complete || c.training.optim->coded; },
};

inline constexpr Feature kOneBit{
    .name = "1-bit Adam",
    .set = "training.optim=onebit_adam",
    .on = [](const RunConfig& c, int) { return c.training.optim == &optimizers::kOneBitAdam; },
};

inline constexpr Feature kEarlyStages{
    .name = "1-bit Adam",
    .set = "training.optim=onebit_adam",
    .on = [](const RunConfig& c, int) { return c.training.optim->last_stage < 2; },
};

inline constexpr Feature kPaged{
    .name = "a paged optimizer on a GPU",
    .set = "device=cuda zero_optimization.stage=1 training.optim=paged_adamw_32bit",
    .on =
        [](const RunConfig& c, int) {
          return c.training.optim->paged_of && c.on_gpu() &&
                 c.zero_optimization.offload_optimizer.device == OffloadDevice::none;
        },
};

inline constexpr Feature kNotAdam{
    .name = "an optimizer other than AdamW",
    .set = "training.optim=sgd",
    .on = [](const RunConfig& c, int) { return c.training.optim->unpaged() != &optimizers::kAdamW; },
};

inline constexpr Feature kCoupledDecay{
    .name = "Adam instead of AdamW",
    .set = "training.adam_w_mode=false",
    .on = [](const RunConfig& c, int) { return !c.training.adam_w_mode; },
};

inline constexpr Feature kLateGroups{
    .name = "weights that are trained later",
    .set = R"(training.param_groups=[{"params":"q_proj","frozen_until_step":3}])",
    .on =
        [](const RunConfig& c, int) {
          return std::ranges::any_of(c.training.param_groups,
                                     [](const ParamGroup& g) { return g.frozen_until_step > 0; });
        },
};

inline constexpr Feature kByEvaluations{
    .name = "a schedule by evaluations",
    .set =
        "data.val_set_size=0.1 "
        "evaluation.eval_strategy=steps "
        "training.lr_scheduler_type=reduce_lr_on_plateau",
    .on = [](const RunConfig& c, int) { return c.training.lr_scheduler_type->evaluated != nullptr; },
};

// Objectives

inline constexpr Feature kNotSft{
    .name = "an objective other than sft",
    .set = "objective.type=orpo",
    .on = [](const RunConfig& c, int) { return c.objective.type != &objectives::kSft; },
};

inline constexpr Feature kDynamic{
    .name = "dft",
    .set = "objective.loss_type=dft",
    .on =
        [](const RunConfig& c, int) {
          return c.objective.type == &objectives::kSft &&
                 c.objective.loss_type == std::vector<std::string>{"dft"};
        },
};

inline constexpr Feature kCompares{
    .name = "an objective that compares answers",
    .set = "objective.type=orpo",
    .on = [](const RunConfig& c, int) { return c.objective.compares() && !c.objective.reads_texts(); },
};

inline constexpr Feature kReadsTexts{
    .name = "classify or embed",
    .set = "objective.type=classify",
    .on = [](const RunConfig& c, int) { return c.objective.reads_texts(); },
};

inline constexpr Feature kEmbeds{
    .name = "embed",
    .set = "objective.type=embed",
    .on = [](const RunConfig& c, int) { return c.objective.type->rows == ObjectiveRows::texts; },
};

inline constexpr Feature kNoRightAnswer{
    .name = "kto, reward, grpo, rloo, reinforce++, ppo, classify or embed",
    .set = "objective.type=kto",
    .on =
        [](const RunConfig& c, int) {
          return c.objective.compares() && (c.objective.sequences_of_row() != 2 || c.objective.type->scores);
        },
};

inline constexpr Feature kStepOfAnswers{
    .name = "grpo, rloo, reinforce++ or ppo",
    .set = "objective.type=grpo",
    .on = [](const RunConfig& c, int) { return c.objective.type->rows == ObjectiveRows::rollouts; },
};

inline constexpr Feature kGivenAnswers{
    .name = "grpo on given answers",
    .set = "objective.type=grpo",
    .on = [](const RunConfig& c, int) { return c.objective.learns_given(); },
};

inline constexpr Feature kGenerates{
    .name = "an objective that generates answers",
    .set = "objective.reward_funcs=exact_match objective.type=grpo",
    .on = [](const RunConfig& c, int) { return c.objective.generates(); },
};

inline constexpr Feature kRolloutServer{
    .name = "answers from a server",
    .set =
        "objective.reward_funcs=exact_match objective.type=grpo "
        "objective.rollout_server=http://127.0.0.1:8000",
    .on = [](const RunConfig& c, int) { return c.objective.rollout_server.has_value(); },
};

inline constexpr Feature kMeasuresKl{
    .name = "kto",
    .set = "objective.type=kto",
    .on = [](const RunConfig& c, int) { return c.objective.needs().kl; },
};

inline constexpr Feature kOneRow{
    .name = "micro-batches of one row",
    .set = "training.per_device_train_batch_size=1",
    .on = [](const RunConfig& c, int) { return c.training.per_device_train_batch_size < 2; },
};

inline constexpr Feature kPrecomputes{
    .name = "a precomputed reference",
    .set = "objective.type=dpo objective.precompute_ref_log_probs=true",
    .on = [](const RunConfig& c, int) { return c.objective.needs().precomputed; },
};

inline constexpr Feature kTaughtFile{
    .name = "distill from a file",
    .set = "objective.type=distill objective.teacher_file=taught",
    .on = [](const RunConfig& c, int) { return c.objective.teacher_file.has_value(); },
};

inline constexpr Feature kRewrites{
    .name = "distill on own answers",
    .set = "objective.type=distill objective.teacher_model_name_or_path=t objective.lmbda=0.5",
    .on = [](const RunConfig& c, int) { return c.objective.rewrites(); },
};

inline constexpr Feature kSmoothing{
    .name = "label smoothing",
    .set = "training.label_smoothing_factor=0.1",
    .on = [](const RunConfig& c, int) { return c.training.label_smoothing_factor > 0; },
};

// Evaluation and checkpoints

inline constexpr Feature kPerplexity{
    .name = "a best model by perplexity",
    .set = "evaluation.metric_for_best_model=perplexity",
    .on = [](const RunConfig& c, int) { return c.evaluation.metric_for_best_model.ends_with("perplexity"); },
};

inline constexpr Feature kPredicts{
    .name = "predict_with_generate",
    .set = "data.val_set_size=0.1 evaluation.predict_with_generate=true",
    .on = [](const RunConfig& c, int) { return c.evaluation.predict_with_generate; },
};

inline constexpr Feature kStopStrings{
    .name = "stop strings",
    .set = "generation.stop_strings=[\"x\"]",
    .on = [](const RunConfig& c, int) { return c.generation.stop_strings.has_value(); },
};

inline constexpr Feature kEvaluates{
    .name = "evaluations",
    .set = "data.val_set_size=0.1 evaluation.eval_strategy=steps",
    .on = [](const RunConfig& c, int) { return c.evaluation.eval_strategy != EvalStrategy::no; },
};

inline constexpr Feature kNoEvaluations{
    .name = "no evaluations",
    .set = "evaluation.eval_strategy=no",
    .on = [](const RunConfig& c, int) { return c.evaluation.eval_strategy == EvalStrategy::no; },
};

inline constexpr Feature kNoHeldOut{
    .name = "no data to evaluate on",
    .set = "data.val_set_size=0",
    .on = [](const RunConfig& c, int) { return c.data.eval_datasets.empty() && c.data.val_set_size == 0; },
};

inline constexpr Feature kLoadsBest{
    .name = "load_best_model_at_end",
    .set = "data.val_set_size=0.1 evaluation.eval_strategy=steps evaluation.load_best_model_at_end=true",
    .on = [](const RunConfig& c, int) { return c.evaluation.load_best_model_at_end; },
};

inline constexpr Feature kStopsEarly{
    .name = "early stopping",
    .set = "data.val_set_size=0.1 evaluation.eval_strategy=steps evaluation.early_stopping_patience=2",
    .on = [](const RunConfig& c, int) { return c.evaluation.early_stopping_patience.has_value(); },
};

inline constexpr Feature kSavesBest{
    .name = "save_strategy=best",
    .set = "data.val_set_size=0.1 evaluation.eval_strategy=steps checkpointing.save_strategy=best",
    .on = [](const RunConfig& c, int) { return c.checkpointing.save_strategy == SaveStrategy::best; },
};

inline constexpr Feature kNoCheckpoints{
    .name = "no checkpoints",
    .set = "checkpointing.save_strategy=no",
    .on = [](const RunConfig& c, int) { return c.checkpointing.save_strategy == SaveStrategy::no; },
};

}  // namespace ft::feature
