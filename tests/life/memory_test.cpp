// The plan equals the measured memory, to the byte, for every kind of run.
#include <gtest/gtest.h>

#include "tests/life/program.h"

namespace ft::test {
namespace {

class Planned : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Planned, IsMeasuredToTheByte) {
  const Workplace w("llama", {{"evaluation", {{"eval_strategy", "epoch"}}}, {"data", {{"val_set_size", 5}}}});
  std::vector<std::string> plan = {"plan", "--config", "run.json", "--json"};
  plan.insert(plan.end(), GetParam().begin(), GetParam().end());
  ASSERT_EQ(w.run(plan), 0) << w.says();
  const Json planned = Json::parse(contents(w / "stdout"));
  ASSERT_EQ(w.train(GetParam()), 0) << w.says();
  const Json measured = rows(w / "out/log.jsonl").back().at("memory");
  expect_planned(planned, measured);
  EXPECT_GT(measured.at("activations").get<std::int64_t>(), 0);
}

using Overrides = std::vector<std::string>;
INSTANTIATE_TEST_SUITE_P(
    All, Planned,
    testing::Values(Overrides{}, Overrides{"training.gradient_checkpointing=false"},
                    Overrides{"training.gradient_checkpointing=auto"}, Overrides{"training.bf16=true"},
                    Overrides{"training.fp16=true"},
                    Overrides{"training.fp16=true", "quantization.load_in_4bit=true"},
                    Overrides{"training.bf16=true", "model.frozen_dtype=fp8"},
                    Overrides{"finetuning_type=full", "training.fp16=true"},
                    Overrides{"finetuning_type=full"},
                    Overrides{"finetuning_type=full", "checkpointing.async_save=true"},
                    Overrides{"finetuning_type=full", "checkpointing.async_save=false"},
                    Overrides{"finetuning_type=full", "training.bf16=true"},
                    Overrides{"finetuning_type=full", "training.optim=sgd"},
                    Overrides{"finetuning_type=full", "training.optim=lion"}, Overrides{"data.packing=true"},
                    Overrides{"lora.lora_dropout=0.1", "training.gradient_checkpointing=false"},
                    Overrides{"lora.target_modules=[\"q_proj\"]", "lora.layers_to_transform=[1]"},
                    Overrides{"lora.modules_to_save=[\"lm_head\"]", "training.per_device_eval_batch_size=5"},
                    Overrides{"training.gradient_accumulation_steps=3", "data.pad_to_max_length=true"}));

// Returns address space or resident memory in KiB, as the kernel counts them.
std::int64_t status(pid_t pid, const std::string& key) {
  std::istringstream in(contents(fs::path("/proc") / std::to_string(pid) / "status"));
  for (std::string line; std::getline(in, line);)
    if (line.starts_with(key)) return std::stoll(line.substr(key.size() + 1));
  return -1;
}

// After the first steps the process allocates only memory for the rows that its reports keep.
TEST(Memory, NothingIsAllocatedAfterTheFirstSteps) {
  const Workplace w("llama");
  const pid_t pid = w.start({"train", "--config", "run.json", "training.num_train_epochs=1000",
                             "checkpointing.save_total_limit=2"});
  ASSERT_TRUE(w.wait_for_rows(12)) << w.says();  // one pass has eight steps
  const std::int64_t early = status(pid, "VmSize:");
  ASSERT_TRUE(w.wait_for_rows(400)) << w.says();
  const std::int64_t late = status(pid, "VmSize:");
  kill(pid, SIGKILL);
  Workplace::finish(pid);
  EXPECT_GT(early, 0);
  EXPECT_LE(late - early, 512);  // KiB, for some 400 rows
}

}  // namespace
}  // namespace ft::test
