#include "app/train/run_header.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "app/screen/format.h"
#include "app/version/version.h"
#include "engine/cpu/cores.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/train/trainer.h"

namespace ft {
namespace {

DataHeader data_header(const RunConfig& config, const BuiltData& d) {
  if (d.stream)
    return {.held_out = d.loaded.eval.size(),
            .streamed_bytes = d.stream->bytes(),
            .shuffled_at_once = config.data.shuffle ? config.data.shuffle_buffer_size : 0};
  const Dataset& data = d.train->data();
  return {.samples = data.size(),
          .tokens = data.tokens(),
          .target_tokens = data.targets(),
          .held_out = d.loaded.eval.size(),
          .sequences = d.train->rows(),
          .length = config.data.packing ? config.data.max_seq_length : data.longest(),
          .packed = config.data.packing};
}

AdapterHeader adapter_header(const BuiltModel& b) {
  const lora::AdapterKind& kind = *b.lora_config.peft_type;
  AdapterHeader h{
      .kind = kind.title,
      .size = kind.key_of("r") ? str("r ", b.lora_config.r) : str("blocks of ", b.lora_config.oft_block_size),
      .alpha = kind.key_of("lora_alpha") ? std::optional(b.lora_config.lora_alpha) : std::nullopt,
      .linears =
          std::ssize(b.attached.linears) + std::ssize(b.attached.experts) + (b.attached.embedding ? 1 : 0)};
  const auto add = [&](const std::string& name) {
    const std::string last = name.substr(name.rfind('.') + 1);
    if (std::find(h.targets.begin(), h.targets.end(), last) == h.targets.end()) h.targets.push_back(last);
  };
  for (const std::string& name : b.attached.linears) add(name);
  if (b.attached.embedding) add(b.attached.embedding_module);
  for (const lora::ExpertPart& part : b.attached.experts) add(part.weight.substr(0, part.weight.rfind('.')));
  return h;
}

// Returns the kind of run, on which the default of the learning rate depends.
std::string kind_of_run(const RunConfig& config) {
  if (config.objective.compares()) return name_of(config.objective.type);
  return config.finetuning_type == FinetuningType::lora ? "adapters" : "full fine-tuning";
}

const char* type_in_header(DType t) { return t == DType::bf16 ? "bf16" : t == DType::f16 ? "f16" : "f32"; }

RunHeader settings_header(const std::string& file, const Run& run, const Plan& plan) {
  const RunConfig& config = run.config;
  const BuiltModel& b = run.built;
  const int ranks = run.ranks.grid.data;
  const Length length = length_of(config.training, run.data.batches(), ranks);
  const TrainConfig t = config.train();
  RunHeader h;
  h.version = kVersion;
  h.run_name = t.logging.run_name.value_or("");
  h.metric = t.evaluation.metric_for_best_model;
  h.greater_is_better = t.evaluation.greater();
  h.config = file;
  h.output = t.training.output_dir;
  h.settings = effective_config(config);
  h.model = b.name;
  h.architecture = b.made.info.architecture;
  h.dtype = type_in_header(b.dtype);
  if (!t.training.bf16 && !t.training.fp16)
    h.dtype += config.on_gpu() ? " (auto on a GPU)" : " (auto on a CPU)";
  if (b.four_bit) h.dtype += str(", weights ", name_of(b.four_bit->form().book));
  if (b.fp8) h.dtype += ", weights fp8";
  if (config.training.qat) h.dtype += str(", trained for ", name_of(*config.training.qat));
  h.trained_parameters = plan.trained;
  h.parameters = plan.parameters;
  if (b.lora) {
    h.adapter = adapter_header(b);
    for (lora::LinearAdapter* a : b.attached.adapters)
      for (const Parameter* p : a->trained()) h.parameters -= p->whole_shape().numel();
    for (const lora::ExpertsLora* a : lora::adapters_of(b.attached.experts))
      h.parameters -= a->a.shape.numel() + a->b.shape.numel();
    if (const lora::EmbeddingLora* a = b.attached.embedding)
      h.parameters -= a->a.shape.numel() + a->b.shape.numel();
  }
  h.data = data_header(config, run.data);
  h.memory = plan.memory;
  if (!t.training.gradient_checkpointing) {
    h.blocks = plan.blocks;
    h.recomputed = plan.recomputed;
    h.segment = plan.segment;
  }
  h.whole = plan.whole;
  h.learning_rate = t.training.learning_rate;
  h.schedule = name_of(t.training.lr_scheduler_type);
  if (config.usual_rate) h.usual_rate = kind_of_run(config);
  h.steps = length.total_steps;
  h.steps_per_epoch = length.steps_per_epoch;
  h.epochs = static_cast<double>(length.total_steps) / static_cast<double>(length.steps_per_epoch);
  h.micro_batch = t.training.per_device_train_batch_size;
  h.sequences_per_step = h.micro_batch * t.training.gradient_accumulation_steps * ranks;
  auto every = [&](bool on, double setting) { return on ? steps_of(setting, length.total_steps) : 0; };
  h.logging_steps = every(true, t.logging.logging_steps);
  h.eval_steps = every(t.evaluation.eval_strategy == EvalStrategy::steps, t.evaluation.eval_steps);
  h.save_steps = every(t.checkpointing.save_strategy == SaveStrategy::steps, t.checkpointing.save_steps);
  return h;
}

std::string local_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M", &parts);
  return text.data();
}

void add_machine(RunHeader& head, Run& run) {
  const RunConfig& config = run.config;
  Ops& ops = run.ops();
  const Communicator& comm = run.comm();
  head.memory_there = ops.free_memory() + ops.driver_memory();
  head.peak_flops = ops.peak_flops(run.built.dtype) * comm.size();
  head.processor = str(config.on_gpu() ? "NVIDIA GPU beside " : "", cpu::processor_name(), ", ",
                       show::plural(cpu::usable_cores(), "core"));
  head.started = local_time();
  if (attention_of(config) == AttentionKernels::vendor) head.cudnn = cudnn_version().value_or("");
  if (comm.size() > 1) head.ranks = str(comm.size(), ", over ", comm.via());
}

}  // namespace

RunHeader run_header(const std::string& file, Run& run) {
  RunHeader head = settings_header(file, run, run.plan());
  add_machine(head, run);
  return head;
}

}  // namespace ft
