#include "app/plan/ways_out.h"

#include <algorithm>

#include "app/config/together.h"
#include "app/ranks/ranks.h"
#include "engine/files/file.h"
#include "engine/train/optimizers/list.h"
#include "lora/fp8.h"
#include "lora/quantize.h"

namespace ft {
namespace {

// Returns true if the model's files hold weights in 4 bits or in FP8, which are used as they are.
bool has_quantized_files(const RunConfig& c) {
  const std::string& name = c.model.model_name_or_path;
  if (name.empty() || !(c.model.unpacked || c.model.folders.has(name))) return false;
  const std::string file = join_path(c.model.folder(), "config.json");
  return path_exists(file) && (lora::stored_four_bit_plan(file) || lora::stored_fp8_plan(file));
}

}  // namespace

std::vector<WayOut> ways_out(const RunConfig& c, bool training) {
  std::vector<WayOut> ways;
  const ZeroConfig& z = c.zero_optimization;
  const DistributedConfig& d = c.distributed;
  const int ranks = all_ranks(d);
  // Returns false for a change that other settings of the run do not allow.
  const auto way = [&](const std::string& setting, bool helps, const auto& change) {
    if (!helps) return false;
    WayOut w(setting, c);
    change(w.config);
    const std::int64_t shards =
        std::max<std::int64_t>(1, ranks / (d.tensor_parallel_size * d.pipeline_parallel_size));
    if (!goes_together(w.config, static_cast<int>(shards))) return false;
    ways.push_back(std::move(w));
    return true;
  };
  way("checkpointing.async_save=false", training && c.checkpointing.async_save.value_or(false),
      [](RunConfig& to) { to.checkpointing.async_save = false; });
  way("training.gradient_checkpointing=true",
      training && c.training.gradient_checkpointing == Checkpointing::off,
      [](RunConfig& to) { to.training.gradient_checkpointing = Checkpointing::on; });
  way("training.gradient_checkpointing=auto",
      training && c.training.gradient_checkpointing == Checkpointing::on,
      [](RunConfig& to) { to.training.gradient_checkpointing.reset(); });
  way("training.gradient_checkpointing=offload",
      training && c.on_gpu() && c.training.gradient_checkpointing != Checkpointing::offload,
      [](RunConfig& to) { to.training.gradient_checkpointing = Checkpointing::offload; });
  way("zero_stage=3", ranks > 1 && z.stage < 3, [](RunConfig& to) { to.zero_optimization.stage = 3; });
  const auto on_host = [&](const char* setting, bool helps, const auto& change) {
    way(setting, helps && c.on_gpu(), change);
  };
  on_host("zero_optimization.offload_optimizer.device=cpu",
          training && z.offload_optimizer.device == OffloadDevice::none,
          [](RunConfig& to) { to.zero_optimization.offload_optimizer.device = OffloadDevice::cpu; });
  on_host("zero_optimization.offload_param.device=cpu", z.offload_param.device == OffloadDevice::none,
          [](RunConfig& to) { to.zero_optimization.offload_param.device = OffloadDevice::cpu; });
  const auto in_files = [&](const std::string& name, bool helps, const OffloadConfig& now, const auto& home) {
    const std::string setting = "zero_optimization." + name;
    way(str(setting, ".device=nvme with ", setting, ".nvme_path=FOLDER"),
        helps && now.device != OffloadDevice::nvme, [&](RunConfig& to) {
          home(to.zero_optimization).device = OffloadDevice::nvme;
          home(to.zero_optimization).nvme_path = ".";
        });
  };
  in_files("offload_optimizer", training, z.offload_optimizer,
           [](ZeroConfig& to) -> OffloadConfig& { return to.offload_optimizer; });
  in_files("offload_param", true, z.offload_param,
           [](ZeroConfig& to) -> OffloadConfig& { return to.offload_param; });
  way("training.bf16=true", c.dtype() == DType::f32, [](RunConfig& to) { to.training.bf16 = true; });
  const auto optimizer = [&](Optim optim, bool helps, const char* cost) {
    const bool full = training && c.finetuning_type == FinetuningType::full;
    if (way(str("training.optim=", name_of(optim)), full && helps, [&](RunConfig& to) {
          to.training.optim = optim;
          to.training.optim_args.reset();
          to.training.adam_w_mode = true;
        }))
      ways.back().cost = cost;
  };
  using namespace optimizers;
  const Optim now = c.training.optim->unpaged();
  optimizer(&kAdamW8bit, now == &kAdamW, "states in 8 bits: the same training except for rounding");
  optimizer(&kAdafactor, now == &kAdamW || now == &kAdamW8bit,
            "no momentum: other results, which need another learning rate");
  way("finetuning_type=lora", training && c.finetuning_type == FinetuningType::full,
      [](RunConfig& to) { to.finetuning_type = FinetuningType::lora; });
  const bool dense = !c.quantization.load_in_4bit && !has_quantized_files(c);
  way("quantization.load_in_4bit=true", dense, [](RunConfig& to) { to.quantization.load_in_4bit = true; });
  way("model.frozen_dtype=fp8",
      dense && c.finetuning_type == FinetuningType::lora && c.model.frozen_dtype != FrozenType::fp8,
      [](RunConfig& to) { to.model.frozen_dtype = FrozenType::fp8; });
  return ways;
}

std::string advice_on_memory(const RunConfig& c, bool training) {
  std::string all;
  for (const WayOut& w : ways_out(c, training)) all += w.setting + ", ";
  const auto& t = c.training;
  if ((training ? t.per_device_train_batch_size : t.per_device_eval_batch_size) > 1)
    all += str("a smaller training.per_device_", training ? "train" : "eval", "_batch_size, ");
  all += "a smaller data.max_seq_length";
  return training ? all + "\n  ft plan shows which of these are enough" : all;
}

std::string advice_on_host_memory(const RunConfig& c) {
  const ZeroConfig& z = c.zero_optimization;
  std::string all;
  const auto way = [&](bool helps, const char* setting) {
    if (helps) all += str(setting, ", ");
  };
  way(c.checkpointing.async_save.value_or(false), "checkpointing.async_save=false");
  way(c.training.gradient_checkpointing == Checkpointing::offload, "training.gradient_checkpointing=true");
  way(z.offload_optimizer.device == OffloadDevice::cpu, "zero_optimization.offload_optimizer.device=nvme");
  way(z.offload_param.device == OffloadDevice::cpu, "zero_optimization.offload_param.device=nvme");
  way(configured_ranks(c.distributed) > 1, "fewer ranks on each machine");
  return all + "ending other programs";
}

}  // namespace ft
