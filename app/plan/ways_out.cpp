#include "app/plan/ways_out.h"

#include "app/ranks/ranks.h"

namespace ft {

std::vector<WayOut> ways_out(const RunConfig& c, bool training) {
  std::vector<WayOut> ways;
  const auto way = [&](const char* setting, bool helps, const auto& change) {
    if (helps) change(ways.emplace_back(setting, c).config);
  };
  way("training.gradient_checkpointing=true", training && c.training.gradient_checkpointing == false,
      [](RunConfig& to) { to.training.gradient_checkpointing = true; });
  way("training.gradient_checkpointing=auto", training && c.training.gradient_checkpointing == true,
      [](RunConfig& to) { to.training.gradient_checkpointing.reset(); });
  way("training.bf16=true", c.dtype() == DType::f32, [](RunConfig& to) { to.training.bf16 = true; });
  way("zero_stage=3", all_ranks(c.distributed) > 1 && c.zero_optimization.stage < 3,
      [](RunConfig& to) { to.zero_optimization.stage = 3; });
  way("finetuning_type=lora", training && c.finetuning_type == FinetuningType::full,
      [](RunConfig& to) { to.finetuning_type = FinetuningType::lora; });
  way("quantization.load_in_4bit=true",
      c.finetuning_type == FinetuningType::lora && !c.quantization.load_in_4bit,
      [](RunConfig& to) { to.quantization.load_in_4bit = true; });
  return ways;
}

std::string advice_on_memory(const RunConfig& c, bool training) {
  std::string all;
  for (const WayOut& w : ways_out(c, training)) all += w.setting + ", ";
  const auto& t = c.training;
  if ((training ? t.per_device_train_batch_size : t.per_device_eval_batch_size) > 1)
    all += str("a smaller training.per_device_", training ? "train" : "eval", "_batch_size, ");
  return all + "a smaller data.max_seq_length";
}

}  // namespace ft
