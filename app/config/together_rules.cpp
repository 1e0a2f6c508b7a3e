// The table of pairs that do not go together, by subject.
#include "app/config/features.h"
#include "app/config/features_of_data.h"
#include "app/config/features_of_ranks.h"
#include "app/config/together.h"

namespace ft {
namespace feature {
namespace {

constexpr const char* kNoMend = "";  // the sentence says it

constexpr Clash kClashes[] = {
    // Methods
    {kFourBits, kFull, "quantization.load_in_4bit: 4-bit weights cannot be trained",
     "set finetuning_type to lora"},
    {kFp8Base, kFull, "model.frozen_dtype: weights in FP8 cannot be trained", "set finetuning_type to lora"},
    {kFp8Base, kFourBits, "model.frozen_dtype: linears are in FP8 or in 4 bits, not in both",
     "leave model.frozen_dtype or quantization.load_in_4bit out"},
    {kLoraPlus, kFull, "training.loraplus_lr_ratio: is for finetuning_type lora, which is {finetuning_type}",
     kNoMend},
    {kLoraPlus, kNotLora,
     "training.loraplus_lr_ratio: is the ratio of the rates of LoRA's B and A, which {lora.peft_type} lacks",
     kNoMend},
    {kEva, kNotSft,
     "lora.init_lora_weights: eva looks at examples to learn; objective.type is {objective.type}", kNoMend},
    {kEva, kStreaming, "lora.init_lora_weights: eva goes over the data before training",
     "set data.streaming=false"},
    {kEva, kTensor,
     "lora.init_lora_weights: eva needs all of a layer's inputs on each rank, not with "
     "distributed.tensor_parallel_size above 1"},
    {kEva, kSequence,
     "lora.init_lora_weights: eva needs all of a layer's inputs on each rank, not with "
     "distributed.sequence_parallel_size above 1"},
    {kEva, kPipeline,
     "lora.init_lora_weights: eva needs all of a layer's inputs on each rank, not with "
     "distributed.pipeline_parallel_size above 1"},
    {kLoraGa, kNotSft,
     "lora.init_lora_weights: lora_ga computes gradients of examples to learn; objective.type is "
     "{objective.type}",
     kNoMend},
    {kLoraGa, kStreaming, "lora.init_lora_weights: lora_ga goes over the data before training",
     "set data.streaming=false"},
    {kLoraGa, kFourBits,
     "lora.init_lora_weights: lora_ga needs the gradients and values of complete weights, as in PEFT",
     "set quantization.load_in_4bit=false"},
    {kLoraGa, kFp8Base,
     "lora.init_lora_weights: lora_ga needs the gradients and values of complete weights, as in PEFT",
     "leave model.frozen_dtype out"},
    {kLoraGa, kFp16,
     "lora.init_lora_weights: lora_ga computes gradients without a scaled loss, which float16 needs",
     "set training.bf16=true"},
    {kLoraGa, kTensor,
     "lora.init_lora_weights: lora_ga needs a weight's complete gradient on each rank, not with "
     "distributed.tensor_parallel_size above 1"},
    {kLoraGa, kSequence,
     "lora.init_lora_weights: lora_ga needs a weight's complete gradient on each rank, not with "
     "distributed.sequence_parallel_size above 1"},
    {kLoraGa, kPipeline,
     "lora.init_lora_weights: lora_ga needs a weight's complete gradient on each rank, not with "
     "distributed.pipeline_parallel_size above 1"},

    {kActivated, kNotSft,
     "lora.alora_invocation_tokens: is for objective.type sft, which is {objective.type}", kNoMend},
    {kActivated, kRandomLtd,
     "lora.alora_invocation_tokens: acts on all tokens from some on, of which random-LTD drops some"},
    {kActivated, kTensor,
     "lora.alora_invocation_tokens: needs complete sequences on each rank, not with "
     "distributed.tensor_parallel_size above 1"},
    {kActivated, kSequence,
     "lora.alora_invocation_tokens: needs complete sequences on each rank, not with "
     "distributed.sequence_parallel_size above 1"},
    {kActivated, kPipeline,
     "lora.alora_invocation_tokens: needs complete sequences on each rank, not with "
     "distributed.pipeline_parallel_size above 1"},

    // Offload
    {kDelayed, kStatesHere,
     "zero_optimization.offload_optimizer.delayed_update: is for what is stepped elsewhere",
     "set zero_optimization.offload_optimizer.device"},
    {kDelayedLater, kNotDelayed,
     "zero_optimization.offload_optimizer.delayed_update_after: has no effect without delayed_update",
     kNoMend},
    {kOffloadOptimizer, kWholeSteps,
     "zero_optimization.offload_optimizer: not with training.optim={training.optim}, whose steps need whole "
     "weights on the device",
     "leave it out, or choose adamw_8bit"},
    {kOffloadParam, kWholeSteps,
     "zero_optimization.offload_param: not with training.optim={training.optim}, whose steps need whole "
     "weights on the device",
     "leave it out, or choose adamw_8bit"},
    {kOffloadParam, kStage1Or2,
     "zero_optimization.offload_param.device: {zero_optimization.offload_param.device} needs "
     "zero_optimization.stage 3, which is {zero_optimization.stage}",
     kNoMend},
    {kOffloadParam, kStage0OfRanks,
     "zero_optimization.offload_param: several ranks need stage 3; the stage is 0", kNoMend},
    {kOffloadOptimizer, kStage0OfRanks,
     "zero_optimization.offload_optimizer: several ranks need stage 1, 2 or 3; the stage is 0", kNoMend},
    {kPaged, kStage0OfRanks,
     "training.optim={training.optim}: several ranks need zero_optimization.stage 1, 2 or 3", kNoMend},
    {kMoved, kMicsGroups, "zero_optimization.mics_shard_size: with offload all ranks share everything out",
     "leave it out"},
    {kSubGroupOfRanks, kNoOffload,
     "zero_optimization.sub_group_size: without offload ft steps every parameter in place", "leave it out"},
    {kDelayed, kGenerates,
     "zero_optimization.offload_optimizer.delayed_update: answers are given by the weights of the step",
     "leave it out"},
    {kDelayed, kRewrites,
     "zero_optimization.offload_optimizer.delayed_update: answers are given by the weights of the step",
     "leave it out"},

    // ZeRO
    {kMics, kStage0OfRanks, "zero_optimization.mics_shard_size: stage 0 shards nothing", kNoMend},
    {kPrefetchOfRanks, kNoOverlap,
     "zero_optimization.stage3_prefetch_bucket_size: with overlap_comm=false nothing is gathered ahead",
     "leave it out"},
    {kQwz, kNotStage3,
     "zero_optimization.zero_quantized_weights: needs zero_optimization.stage 3, which is "
     "{zero_optimization.stage}",
     kNoMend},
    {kQgz, kNotStage3,
     "zero_optimization.zero_quantized_gradients: needs zero_optimization.stage 3, which is "
     "{zero_optimization.stage}",
     kNoMend},
    {kHpz, kNotStage3,
     "zero_optimization.zero_hpz_partition_size: needs zero_optimization.stage 3, which is "
     "{zero_optimization.stage}",
     kNoMend},
    {kQwz, kMics,
     "zero_optimization.zero_quantized_weights: not with mics_shard_size, whose groups share everything out"},
    {kQgz, kMics,
     "zero_optimization.zero_quantized_gradients: not with mics_shard_size, whose groups share everything "
     "out"},
    {kHpz, kMics,
     "zero_optimization.zero_hpz_partition_size: not with mics_shard_size, whose groups share everything "
     "out"},
    {kQwz, kExperts,
     "zero_optimization.zero_quantized_weights: not with distributed.expert_parallel_size, whose experts "
     "only some ranks share"},
    {kQgz, kExperts,
     "zero_optimization.zero_quantized_gradients: not with distributed.expert_parallel_size, whose experts "
     "only some ranks share"},
    {kHpz, kExperts,
     "zero_optimization.zero_hpz_partition_size: not with distributed.expert_parallel_size, whose experts "
     "only some ranks share"},
    {kQwz, kOffloadParam,
     "zero_optimization.zero_quantized_weights: not with offload_param, which brings weights from elsewhere"},
    {kQgz, kOffloadParam,
     "zero_optimization.zero_quantized_gradients: not with offload_param, which brings weights from "
     "elsewhere"},
    {kHpz, kOffloadParam,
     "zero_optimization.zero_hpz_partition_size: not with offload_param, which brings weights from "
     "elsewhere"},
    {kQgz, kOffloadOptimizer,
     "zero_optimization.zero_quantized_gradients: not with offload_optimizer, where gradients live"},

    // Optimizers
    {kEarlyStages, kStage2Or3,
     "training.optim: onebit_adam (DeepSpeed's OneBitAdam) needs whole gradients on every rank: "
     "zero_optimization.stage 0 or 1, not {zero_optimization.stage}",
     kNoMend},
    {kOneBit, kMics,
     "training.optim: onebit_adam (DeepSpeed's OneBitAdam) is for ranks that do not form groups",
     "leave zero_optimization.mics_shard_size out"},
    {kOneBit, kExperts, "training.optim: onebit_adam (DeepSpeed's OneBitAdam) adds up over all ranks",
     "leave distributed.expert_parallel_size out"},
    {kOneBit, kLateGroups,
     "training.optim: onebit_adam (DeepSpeed's OneBitAdam) begins with all weights at once",
     "leave training.param_groups' frozen_until_step out"},
    {kCoupledDecay, kNotAdam, "training.adam_w_mode: has no effect with training.optim={training.optim}",
     kNoMend},

    // Precision and devices
    {kFp16, kBf16, "training.fp16 and training.bf16 are both true", "set one of them"},
    {kFp8Products, kFourBits, "training.fp8: multiplies weights in FP8 or 16 bits, not in 4 bits",
     "leave one of them out"},
    {kFp8Skip, kNoFp8Products, "training.fp8_skip: has no effect without training.fp8=true", kNoMend},
    {kFp8Products, kFp16, "training.fp8: other products and results are in bfloat16",
     "set training.fp16=false training.bf16=true"},
    {kFp8Products, kFloat32, "training.fp8: other products and results are in bfloat16",
     "set training.bf16=true"},
    {kQat, kFourBits, "training.qat: quantizes weights of 16 or 32 bits, not of 4",
     "set quantization.load_in_4bit=false, or leave training.qat out"},
    {kQat, kFp8Base, "training.qat: quantizes weights of 16 or 32 bits, not of FP8",
     "leave model.frozen_dtype or training.qat out"},
    {kQat, kFp8Products, "training.qat: products with quantized weights are not in FP8",
     "leave training.fp8 or training.qat out"},
    {kQat, kNotLora,
     "training.qat: merges LoRA into the weights in each pass, not lora.peft_type {lora.peft_type}",
     "set lora.peft_type=lora or finetuning_type=full"},
    {kQat, kDora, "training.qat: merges LoRA into the weights in each pass, without DoRA's magnitudes",
     "set lora.use_dora=false, or leave training.qat out"},
    {kQat, kLoraBias, "training.qat: merges LoRA into the weights in each pass, without lora.lora_bias",
     "set lora.lora_bias=false, or leave training.qat out"},
    {kQat, kActivated,
     "training.qat: merges LoRA into the weights in each pass, where lora.alora_invocation_tokens has an "
     "adapter that acts on some tokens only",
     "leave one of the two out"},
    {kQat, kLoraDropout,
     "lora.lora_dropout: with training.qat adapters are merged into the weights, and there is no input to "
     "drop from",
     "set it to 0"},
    {kQat, kChangesBase,
     "lora.init_lora_weights: with training.qat the base keeps its weights, which pissa and olora change",
     "choose another start"},
    {kLossScaling, kNoFp16, "training.loss_scaling: has no effect without training.fp16=true", kNoMend},
    {kCudnn, kSparse, "model.attn_implementation: cudnn has no sparse attention", "leave out one of them"},
    {kCudnn, kCpu, "model.attn_implementation: cudnn is for GPUs", "set device=cuda, or leave it out"},
    {kGemmTuning, kCpu, "training.gemm_tuning is for GPUs", "set device=cuda, or leave it out"},

    // Tensor parallelism
    {kPartition, kNoTensor,
     "distributed.partition_activations: ranks that share layers share out what they keep, and "
     "distributed.tensor_parallel_size is 1",
     "set that, or leave partition_activations out"},
    {kPartition, kSequence,
     "distributed.partition_activations: not with distributed.sequence_parallel_size above 1 yet",
     "leave one of the two out"},
    {kPartition, kPipeline,
     "distributed.partition_activations: not with distributed.pipeline_parallel_size above 1 yet",
     "leave one of the two out"},
    {kPartition, kRandomLtd,
     "distributed.partition_activations: not with data_efficiency.data_routing.random_ltd yet",
     "leave one of the two out"},
    {kTensor, kNotSft,
     "objective.type: {objective.type} is not computed with distributed.tensor_parallel_size above 1, only "
     "sft is",
     "leave one of the two out"},
    {kTensor, kSparse,
     "model.sparse_attention: ft does not share its layouts out with distributed.tensor_parallel_size above "
     "1",
     "leave one of the two out"},

    // Sequence parallelism
    {kSequence, kNotSft,
     "objective.type: {objective.type} needs all of a sequence on one rank, which "
     "distributed.sequence_parallel_size {distributed.sequence_parallel_size} does not leave there",
     "set it to sft, or leave one of the two out"},
    {kSequence, kRandomLtd,
     "data_efficiency.data_routing.random_ltd: with distributed.sequence_parallel_size "
     "{distributed.sequence_parallel_size} tokens cannot be dropped yet",
     "leave one of the two out"},
    {kSequence, kSparse,
     "model.sparse_attention.mode: with distributed.sequence_parallel_size "
     "{distributed.sequence_parallel_size} only dense is available yet",
     "leave one of the two out"},

    // Pipeline parallelism
    {kInterleaved, kNoPipeline,
     "distributed.virtual_pipeline_parallel_size is {distributed.virtual_pipeline_parallel_size}, and "
     "distributed.pipeline_parallel_size is 1: stages are interleaved among several ranks",
     "set that, or leave distributed.virtual_pipeline_parallel_size out"},
    {kPipeline, kStage2Or3,
     "zero_optimization.stage: is {zero_optimization.stage}, which adds gradients up over the ranks after "
     "every micro-batch, and with distributed.pipeline_parallel_size above 1 there are several in flight",
     "set it to 1 or 0"},
    {kPipeline, kOffloadParam,
     "zero_optimization.offload_param: values stay on the device with distributed.pipeline_parallel_size "
     "above 1"},
    {kPipeline, kOffloadOptimizer,
     "zero_optimization.offload_optimizer: states stay on the device with "
     "distributed.pipeline_parallel_size above 1"},
    {kPipeline, kOneBit,
     "training.optim: onebit_adam is not computed with distributed.pipeline_parallel_size above 1"},
    {kPipeline, kExperts,
     "distributed.expert_parallel_size: experts stay together with distributed.pipeline_parallel_size above "
     "1"},
    {kPipeline, kNotSft,
     "objective.type: {objective.type} is not computed with distributed.pipeline_parallel_size above 1, "
     "only sft is"},
    {kPipeline, kRandomLtd,
     "data_efficiency.data_routing.random_ltd: tokens cannot be dropped with "
     "distributed.pipeline_parallel_size above 1"},
    {kPipeline, kMemoryBreakdown,
     "logging.memory_breakdown: knows of one micro-batch at a time, not with "
     "distributed.pipeline_parallel_size above 1"},
    {kPipeline, kFlopsProfiler,
     "logging.flops_profiler: knows of one micro-batch at a time, not with "
     "distributed.pipeline_parallel_size above 1"},
    {kPipeline, kInputsOnHost,
     "training.gradient_checkpointing: offload cannot be used with distributed.pipeline_parallel_size above "
     "1",
     "set it to true or auto"},

    // Expert parallelism
    {kExperts, kTensor,
     "distributed.expert_parallel_size: ranks have either complete experts or, with "
     "distributed.tensor_parallel_size above 1, parts of all of them",
     "leave one of the two out"},
    {kExperts, kNotSft,
     "objective.type: {objective.type} is not computed with distributed.expert_parallel_size above 1, only "
     "sft is",
     "leave one of the two out"},
    {kExperts, kMics,
     "zero_optimization.mics_shard_size: ranks form no groups with distributed.expert_parallel_size above 1",
     "leave one of the two out"},
    {kExperts, kOffloadParam,
     "zero_optimization.offload_param.device: nothing lives elsewhere with distributed.expert_parallel_size "
     "above 1",
     "leave one of the two out"},
    {kExperts, kOffloadOptimizer,
     "zero_optimization.offload_optimizer.device: nothing lives elsewhere with "
     "distributed.expert_parallel_size above 1",
     "leave one of the two out"},

    // Objectives
    {kSmoothing, kNotSft, "training.label_smoothing_factor: is of the cross-entropy",
     "leave it out (objective.type {objective.type})"},
    {kPerplexity, kNotSft, "evaluation.metric_for_best_model: the loss is no cross-entropy",
     "set it to loss (objective.type {objective.type})"},
    {kSmoothing, kDynamic, "training.label_smoothing_factor: is of the cross-entropy",
     "leave it out (objective.loss_type dft)"},
    {kPerplexity, kDynamic, "evaluation.metric_for_best_model: the loss is no cross-entropy",
     "set it to loss (objective.loss_type dft)"},
    {kNeftune, kCompares, "training.neftune_noise_alpha: answers are compared without noise",
     "leave it out (objective.type {objective.type})"},
    {kPredicts, kNoRightAnswer,
     "evaluation.predict_with_generate: there is no one right answer to measure with",
     "set it to false (objective.type {objective.type})"},
    {kEfficiency, kCompares, "data_efficiency: is for examples",
     "leave it out (objective.type {objective.type})"},
    {kEfficiency, kReadsTexts, "data_efficiency: is for examples",
     "leave it out (objective.type {objective.type})"},
    {kPacking, kReadsTexts, "data.packing: batches of texts have no padding either way",
     "leave it out (objective.type {objective.type})"},
    {kPadding, kReadsTexts, "data.pad_to_max_length: texts are never padded",
     "leave it out (objective.type {objective.type})"},
    {kTrainsOnInputs, kReadsTexts, "data.train_on_inputs: no token is predicted",
     "leave it out (objective.type {objective.type})"},
    {kStreaming, kEmbeds,
     "data.streaming: memory is planned by the rows, whose numbers of negatives must be known",
     "set it to false (objective.type {objective.type})"},
    {kMeasuresKl, kOneRow,
     "training.per_device_train_batch_size: KTO measures kl on the answers of other rows in the micro-batch "
     "of a rank, and 1 row has no other",
     "set it to 2 or more (objective.type {objective.type})"},
    {kPrecomputes, kStreaming, "objective.precompute_ref_log_probs: needs all data in memory",
     "leave it out, or set data.streaming=false"},
    {kTaughtFile, kStreaming,
     "objective.teacher_file: is of whole examples that are known beforehand, not with data.streaming",
     "leave one of them out, or name objective.teacher_model_name_or_path"},
    {kTaughtFile, kEfficiency,
     "objective.teacher_file: is of whole examples that are known beforehand, not with data_efficiency",
     "leave one of them out, or name objective.teacher_model_name_or_path"},
    {kRewrites, kStreaming,
     "data.streaming: prompts that models answer (objective.lmbda, objective.seq_kd) are known beforehand",
     "set it to false"},
    {kRewrites, kEfficiency,
     "data_efficiency: answers that models give (objective.lmbda, objective.seq_kd) have no difficulty "
     "beforehand",
     "leave it out"},
    {kRewrites, kPacking,
     "data.packing: answers that models give (objective.lmbda, objective.seq_kd) are not packed",
     "set it to false"},
    {kRewrites, kPadding,
     "data.pad_to_max_length: answers that models give (objective.lmbda, objective.seq_kd) are not padded",
     "set it to false"},
    {kRewrites, kTrainsOnInputs,
     "data.train_on_inputs: a prompt that models answer (objective.lmbda, objective.seq_kd) is what is not "
     "trained on",
     "set it to false"},
    {kGivenAnswers, kEvaluates, "evaluation.eval_strategy: answers that are given have no evaluation",
     "set it to no (objective.type {objective.type})"},
    {kStepOfAnswers, kStreaming, "data.streaming: the answers of a step are weighed together",
     "set it to false (objective.type {objective.type})"},
    {kPacking, kCompares, "data.packing: batches of answers have no padding either way",
     "leave it out (objective.type {objective.type})"},
    {kPadding, kCompares, "data.pad_to_max_length: answers are never padded",
     "leave it out (objective.type {objective.type})"},
    {kPrepared, kGenerates, "data.dataset_prepared_path: prompts are tokenized each time",
     "leave it out (objective.type {objective.type})"},
    {kRolloutServer, kFull, "objective.rollout_server: servers take adapters, not complete models",
     "set finetuning_type=lora"},
    {kTrainsOnInputs, kCompares, "data.train_on_inputs: answers are compared, not prompts",
     "leave it out (objective.type {objective.type})"},
    {kKeepsEnd, kCompares,
     "data.truncation: keep_end would cut prompts; answers are cut at their end, or dropped",
     "leave it out (objective.type {objective.type})"},

    // Data
    {kHoldsOut, kEvalSets, "data.val_set_size: data.eval_datasets is set too"},
    {kReportsSources, kNotSft,
     "data.datasets[].report_as: losses by dataset are those of sft; objective.type is {objective.type}",
     "leave it out"},
    {kReportsSources, kStreaming, "data.datasets[].report_as: a stream does not tell its rows' datasets",
     "leave it out, or set data.streaming=false"},
    {kReportsSources, kPipeline,
     "data.datasets[].report_as: not with distributed.pipeline_parallel_size above 1 yet", "leave it out"},
    {kReportsSources, kSequence,
     "data.datasets[].report_as: not with distributed.sequence_parallel_size above 1 yet", "leave it out"},
    {kMasksHistory, kTrainsOnInputs,
     "data.mask_history: trains the last turn alone, and data.train_on_inputs everything",
     "take one of them out"},
    {kMixes, kStreaming, "data.stopping_strategy: the sizes of a stream are not known beforehand",
     "leave it out, or set data.streaming=false"},
    {kHoldsOut, kStreaming, "data.val_set_size: nothing can be held out of a stream",
     "name data.eval_datasets, or set data.streaming to false"},
    {kRandomLtd, kStreaming, "data_efficiency.data_routing: not with data.streaming yet"},
    {kRandomLtd, kSparse, "data_efficiency.data_routing: not with model.sparse_attention yet"},
    {kChoosing, kPacking,
     "data_efficiency: a curriculum that chooses samples, and data.packing: packs are not chosen by their "
     "difficulty",
     "set data.packing=false"},
    {kChoosing, kStreaming,
     "data_efficiency: a curriculum that chooses samples, and data.streaming: it needs all data in memory",
     "set data.streaming=false"},
    {kChoosing, kInOrder,
     "data_efficiency: a curriculum that chooses samples, and data.shuffle: it draws samples at random",
     "set data.shuffle=true"},
    {kReshaping, kStreaming, "data_efficiency: curriculum_metrics.seqlen_reshape needs all data in memory",
     "use seqlen, or set data.streaming=false"},

    // Evaluation
    {kEvaluates, kNoHeldOut,
     "evaluation.eval_strategy is {evaluation.eval_strategy} and there is nothing to evaluate on",
     "set data.val_set_size or data.eval_datasets"},
    {kLoadsBest, kNoEvaluations, "evaluation.load_best_model_at_end needs evaluations",
     "set evaluation.eval_strategy"},
    {kStopsEarly, kNoEvaluations, "evaluation.early_stopping_patience needs evaluations",
     "set evaluation.eval_strategy"},
    {kSavesBest, kNoEvaluations, "checkpointing.save_strategy best needs evaluations",
     "set evaluation.eval_strategy"},
    {kByEvaluations, kNoEvaluations,
     "training.lr_scheduler_type {training.lr_scheduler_type} needs evaluations",
     "set evaluation.eval_strategy"},
    {kLoadsBest, kNoCheckpoints, "evaluation.load_best_model_at_end needs checkpoints",
     "set checkpointing.save_strategy"},
    {kPredicts, kNoHeldOut, "evaluation.predict_with_generate: there is nothing to answer",
     "set data.val_set_size or data.eval_datasets"},
    {kStopStrings, kPredicts, "generation.stop_strings: not with evaluation.predict_with_generate", kNoMend},
};

constexpr Clash kByModel[] = {
    {kTensor, kWideStates,
     "training.optim keeps a state of more than single elements of a weight that ranks share"},
    {kExperts, kWideStates,
     "training.optim keeps a state of more than single elements of a weight that ranks share"},
    {kTensor, kDora, "lora.use_dora: not with distributed.tensor_parallel_size yet"},
    {kTensor, kShira, "lora.peft_type: shira is not with distributed.tensor_parallel_size yet"},
    {kTensor, kOft, "lora.peft_type: oft is not with distributed.tensor_parallel_size yet"},
    {kTensor, kTokenRows, "lora.trainable_token_indices: not with distributed.tensor_parallel_size yet"},
    {kLoftQ, kNoFourBits, "lora.init_lora_weights: loftq makes up for what 4 bits lose",
     "set quantization.load_in_4bit=true, or another start"},
    {kNccl, kCpu, "distributed.backend: nccl is for GPUs", "set device=cuda, or leave it out"},
};

}  // namespace
}  // namespace feature

std::span<const Clash> clashes() { return feature::kClashes; }
std::span<const Clash> clashes_by_model() { return feature::kByModel; }

}  // namespace ft
