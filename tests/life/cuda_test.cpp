// Runs from the outside with device=cuda, whose GPU is the host: what a person sees is what the CPU gives.
#include <gtest/gtest.h>

#include "tests/life/program.h"

namespace ft::test {
namespace {

const Json kLoraRun = {{"lora", {{"r", 4}, {"lora_dropout", 0.1}}},
                       {"training", {{"num_train_epochs", 1}}},
                       {"data", {{"val_set_size", 2}}},
                       {"evaluation", {{"eval_strategy", "epoch"}}}};

// The losses of a run with these overrides, which must end well.
std::vector<double> losses_of(const Workplace& w, std::vector<std::string> overrides) {
  overrides.insert(overrides.begin(), "--overwrite");
  EXPECT_EQ(w.train(overrides), 0) << w.says();
  return losses(w / "out");
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double relative) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_FALSE(a.empty());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], relative * b[i]) << "row " << i;
}

TEST(CudaLife, TrainsAndEvaluatesAsOnTheCpu) {
  const Workplace w("llama", kLoraRun);
  const std::string f32 = "training.bf16=false";
  const auto cpu = losses_of(w, {"device=cpu", f32}), cuda = losses_of(w, {"device=cuda", f32});
  expect_near(cuda, cpu, 1e-5);
}

TEST(CudaLife, Qlora) {
  const Workplace w("llama", kLoraRun);
  const std::string quantized = "quantization.load_in_4bit=true", f32 = "training.bf16=false";
  const auto cpu =
                 losses_of(w, {"device=cpu", quantized, f32, "quantization.bnb_4bit_compute_dtype=float32"}),
             cuda =
                 losses_of(w, {"device=cuda", quantized, f32, "quantization.bnb_4bit_compute_dtype=float32"});
  expect_near(cuda, cpu, 1e-5);
}

TEST(CudaLife, FullBf16RunResumesBitwise) {
  const Workplace w("llama", {{"finetuning_type", "full"}});
  const std::vector<std::string> run{"device=cuda", "training.bf16=true", "training.num_train_epochs=1",
                                     "checkpointing.save_strategy=steps", "checkpointing.save_steps=2"};
  losses_of(w, run);
  const std::string whole = contents(w / "out/model.safetensors");
  ASSERT_FALSE(whole.empty());
  auto resumed = run;
  resumed.push_back("training.resume_from_checkpoint=out/checkpoint-2");
  ASSERT_EQ(w.train(resumed), 0) << w.says();
  EXPECT_EQ(contents(w / "out/model.safetensors"), whole);
}

TEST(CudaLife, GeneratesAsOnTheCpu) {
  const Workplace w("llama");
  for (const char* beams : {"1", "3"}) {
    const auto answer = [&](const std::string& device) {
      EXPECT_EQ(w.run({"generate", "--model", FT_SOURCE_DIR "/configs/demo/base", "--prompt",
                       "3 + 4 =", "device=" + device, "generation.max_new_tokens=8",
                       std::string("generation.num_beams=") + beams}),
                0)
          << w.says();
      return contents(w / "stdout");
    };
    const std::string cpu = answer("cpu");
    EXPECT_FALSE(cpu.empty());
    EXPECT_EQ(answer("cuda"), cpu);
  }
}

TEST(CudaLife, SeveralRanksAreRefused) {
  const Workplace w("llama", kLoraRun);
  EXPECT_EQ(w.run({"launch", "-n", "2", "train", "--config", "run.json", "device=cuda"}), 2);
  EXPECT_NE(w.says().find("device: several ranks compute on CPUs only so far; set it to cpu"),
            std::string::npos)
      << w.says();
}

}  // namespace
}  // namespace ft::test
