// Runs with device=cuda, compiled for the host, tested from outside: their output is the CPU's.
#include <gtest/gtest.h>

#include <set>

#include "tests/life/program.h"
#include "tests/support/source.h"

namespace ft::test {
namespace {

const Json kLoraRun = {{"lora", {{"r", 4}, {"lora_dropout", 0.1}}},
                       {"training", {{"num_train_epochs", 1}}},
                       {"data", {{"val_set_size", 2}}},
                       {"evaluation", {{"eval_strategy", "epoch"}}}};

// Returns the losses of a run with these overrides, which must succeed.
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

TEST(CudaLife, AutoIsBf16) {
  const Workplace w("llama", kLoraRun);
  const auto bf16 = losses_of(w, {"device=cuda", "training.bf16=true"});
  EXPECT_EQ(losses_of(w, {"device=cuda", "logging.progress=plain"}), bf16);
  EXPECT_NE(w.says().find(" parameters, bf16 (auto on a GPU), from "), std::string::npos) << w.says();
  EXPECT_NE(losses_of(w, {"logging.progress=plain"}), bf16);
  EXPECT_NE(w.says().find(" parameters, f32 (auto on a CPU), from "), std::string::npos) << w.says();
}

TEST(CudaLife, RowsHaveWhatCudaHolds) {
  const Workplace w("llama", kLoraRun);
  losses_of(w, {"device=cuda", "logging.memory_breakdown=true"});
  for (const Json& row : rows(w / "out/log.jsonl"))
    EXPECT_EQ(row.contains("memory/cuda"), row.contains("loss")) << row.dump();
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

TEST(CudaLife, Fp16IsNearTheCpusAndResumesBitwise) {
  for (const Json& config : {kLoraRun, kFull}) {
    const Workplace w("llama", config);
    const std::vector<std::string> run{"training.fp16=true", "training.num_train_epochs=1",
                                       "checkpointing.save_strategy=steps", "checkpointing.save_steps=2"};
    auto on_cpu = run, on_cuda = run;
    on_cpu.emplace_back("device=cpu");
    on_cuda.emplace_back("device=cuda");
    const auto cpu = losses_of(w, on_cpu), cuda = losses_of(w, on_cuda);
    expect_near(cuda, cpu, 1e-3);
    const fs::path result = w / (config == kFull ? "out/model.safetensors" : "out/adapter_model.safetensors");
    const std::string whole = contents(result);
    ASSERT_FALSE(whole.empty());
    on_cuda.emplace_back("training.resume_from_checkpoint=out/checkpoint-2");
    ASSERT_EQ(w.train(on_cuda), 0) << w.says();
    EXPECT_TRUE(contents(result) == whole);
  }
}

TEST(CudaLife, GeneratesAsOnTheCpu) {
  const Workplace w("llama");
  for (const char* beams : {"1", "3"}) {
    const auto answer = [&](const std::string& device) {
      EXPECT_EQ(w.run({"generate", "--model", source_path("configs/demo/base"), "--prompt",
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

TEST(CudaLife, CudnnIsRefusedIfItIsMissing) {
  const Workplace w("llama", kLoraRun);
  EXPECT_EQ(w.train({"model.attn_implementation=cudnn"}), 2);
  EXPECT_NE(w.says().find("model.attn_implementation: cudnn is for GPUs; set device=cuda, or leave it out"),
            std::string::npos)
      << w.says();
  EXPECT_EQ(w.train({"model.attn_implementation=cudnn", "device=cuda"}), 10);
  EXPECT_NE(w.says().find("model.attn_implementation: this ft was built without cuDNN; build it where"),
            std::string::npos)
      << w.says();
}

TEST(CudaLife, TunedProductsAreKeptForTheNextRun) {
  const Workplace w("llama", kLoraRun);
  const std::string tuned = "training.gemm_tuning=tuned.jsonl";
  const auto usual = losses_of(w, {"device=cuda"}), first = losses_of(w, {"device=cuda", tuned});
  const std::string lines = contents(w / "tuned.jsonl");
  EXPECT_GT(rows(w / "tuned.jsonl").size(), 10u);
  EXPECT_EQ(losses_of(w, {"device=cuda", tuned}), first);
  EXPECT_TRUE(contents(w / "tuned.jsonl") == lines);
  EXPECT_EQ(first, usual);  // all algorithms have the same results here
  EXPECT_EQ(w.run({"eval", "--config", "run.json", "device=cuda", tuned}), 0) << w.says();
}

TEST(CudaLife, TuningIsRefusedWhereItCannotBe) {
  const Workplace w("llama", kLoraRun);
  EXPECT_EQ(w.train({"training.gemm_tuning=tuned.jsonl"}), 2);
  EXPECT_NE(w.says().find("training.gemm_tuning is for GPUs; set device=cuda, or leave it out"),
            std::string::npos)
      << w.says();
  EXPECT_FALSE(fs::exists(w / "tuned.jsonl"));
  EXPECT_EQ(w.train({"device=cuda", "training.gemm_tuning=no/tuned.jsonl"}), 6);
  EXPECT_NE(w.says().find("no/tuned.jsonl cannot be written: No such file or directory"), std::string::npos)
      << w.says();
  EXPECT_FALSE(fs::exists(w / "out"));
  std::ofstream(w / "tuned.jsonl") << "{}\n";
  EXPECT_EQ(w.train({"device=cuda", "training.gemm_tuning=tuned.jsonl"}), 3);
  EXPECT_NE(w.says().find("tuned.jsonl: has no gpu; it must be a string"), std::string::npos) << w.says();
}

std::vector<std::string> launched(const std::string& ranks, std::vector<std::string> command) {
  command.insert(command.begin(), {"launch", "-n", ranks});
  command.push_back("zero_optimization.stage3_param_persistence_threshold=0");
  return command;
}

// Each rank has a GPU; they communicate through the host.
TEST(CudaRanks, AllStagesAreTheTrainingOfCpus) {
  for (const Json& config : {kLora, kFull}) {
    const Workplace w("llama", config);
    const std::string file =
        config.contains("lora") ? "out/adapter_model.safetensors" : "out/model.safetensors";
    const auto trained = [&](const std::string& device, int stage) {
      EXPECT_EQ(w.run(launched("2", {"train", "--config", "run.json", "--overwrite", "device=" + device,
                                     "training.num_train_epochs=1", "training.bf16=false",
                                     "logging.progress=plain", "zero_stage=" + std::to_string(stage)})),
                0)
          << w.says();
      return std::pair(losses(w / "out"), contents(w / file));
    };
    const auto cpu = trained("cpu", 0), cuda = trained("cuda", 0);
    expect_near(cuda.first, cpu.first, 1e-5);
    EXPECT_NE(w.says().find("2, over TCP through the host: rank 0 has no NCCL"), std::string::npos)
        << w.says();
    for (int stage = 1; stage < 4; ++stage) {
      const auto got = trained("cuda", stage);
      EXPECT_EQ(got.first, cuda.first) << stage;
      EXPECT_TRUE(got.second == cuda.second) << stage;
    }
  }
}

// 1-bit Adam's signs and 8-bit codes are discontinuous: a rounding error may change them, so results are only
// near.
TEST(CudaRanks, SendLessAsOnTheCpu) {
  for (const auto& settings : std::vector<std::vector<std::string>>{
           {"training.optim=onebit_adam", "training.optim_args=freeze_step=3", "zero_stage=1"},
           {"zero_optimization.zero_quantized_weights=true",
            "zero_optimization.zero_quantized_gradients=true", "zero_stage=3"}}) {
    const Workplace w("llama", kFull);
    const auto trained = [&](const std::string& device) {
      std::vector<std::string> words{"train",
                                     "--config",
                                     "run.json",
                                     "--overwrite",
                                     "device=" + device,
                                     "training.max_steps=6",
                                     "training.learning_rate=0.0005"};
      words.insert(words.end(), settings.begin(), settings.end());
      EXPECT_EQ(w.run(launched("2", words)), 0) << w.says();
      return losses(w / "out");
    };
    expect_near(trained("cuda"), trained("cpu"), 5e-3);
  }
}

// Each product is in the file once, whichever rank timed it first.
TEST(CudaRanks, ShareTheFileOfTunedProducts) {
  const Workplace w("llama", kLora);
  const auto trained = [&] {
    EXPECT_EQ(w.run(launched("2", {"train", "--config", "run.json", "--overwrite", "device=cuda",
                                   "training.num_train_epochs=1", "training.gemm_tuning=tuned.jsonl"})),
              0)
        << w.says();
    return losses(w / "out");
  };
  const auto first = trained();
  const std::string lines = contents(w / "tuned.jsonl");
  std::set<Json> products;
  for (Json line : rows(w / "tuned.jsonl")) {
    line.erase("algorithm");
    line.erase("microseconds");
    EXPECT_TRUE(products.insert(line).second) << line;
  }
  EXPECT_FALSE(products.empty());
  EXPECT_EQ(trained(), first);
  EXPECT_TRUE(contents(w / "tuned.jsonl") == lines);
}

TEST(CudaRanks, Bf16AndQloraTrainUnderStage3) {
  const Workplace w("llama", kLora);
  const auto trained = [&](const char* stage) {
    EXPECT_EQ(w.run(launched("3", {"train", "--config", "run.json", "--overwrite", "device=cuda",
                                   "training.num_train_epochs=1", "training.bf16=true",
                                   "quantization.load_in_4bit=true", std::string("zero_stage=") + stage})),
              0)
        << w.says();
    return losses(w / "out");
  };
  EXPECT_EQ(trained("3"), trained("0"));
}

const std::string kHomes = "zero_optimization.offload_";
const std::string kFourBlocks = "model.model_name_or_path=" + source_path("configs/demo/base");
std::vector<std::string> home(const std::string& what, const std::string& device) {
  std::vector<std::string> s{kHomes + what + ".device=" + device};
  if (device == "nvme") s.push_back(kHomes + what + ".nvme_path=.");
  return s;
}

// On a single GPU whose queue does all work as late as possible.
TEST(CudaHomes, TrainEqually) {
  const std::string small = "zero_optimization.stage3_param_persistence_threshold=0";
  for (const auto& [config, more] : {std::pair{kFull, "training.bf16=true"},
                                     {kQlora, "training.max_grad_norm=0"},
                                     {kFp8, "training.max_grad_norm=0"},
                                     {kFull, "training.bf16=false"}}) {
    const Workplace w("llama", config);
    const std::string file = config == kFull ? "out/model.safetensors" : "out/adapter_model.safetensors";
    const auto trained = [&](std::vector<std::string> homes) {
      homes.insert(homes.end(), {"--overwrite", "device=cuda", "training.max_steps=3", small, more,
                                 "training.gradient_accumulation_steps=2"});
      EXPECT_EQ(w.train(homes), 0) << w.says();
      return std::pair(losses(w / "out"), contents(w / file));
    };
    const auto want = trained({});
    for (const auto& [params, states] :
         {std::pair{"none", "cpu"}, {"cpu", "cpu"}, {"cpu", "none"}, {"nvme", "nvme"}, {"none", "nvme"}}) {
      auto homes = home("param", params);
      const auto of_states = home("optimizer", states);
      homes.insert(homes.end(), of_states.begin(), of_states.end());
      const auto got = trained(homes);
      EXPECT_EQ(got.first, want.first) << params << ' ' << states;
      EXPECT_TRUE(got.second == want.second) << params << ' ' << states;
    }
  }
}

TEST(CudaHomes, ArePlannedToTheByte) {
  const Workplace w("llama", kFull);
  auto both = home("optimizer", "nvme"), params = home("param", "cpu");
  both.insert(both.end(), params.begin(), params.end());
  for (auto more :
       {home("optimizer", "cpu"), both, {kFourBlocks, "training.gradient_checkpointing=offload"}}) {
    more.insert(more.begin(), {"--config", "run.json", "device=cuda", "training.max_steps=2",
                               "training.gradient_accumulation_steps=2"});
    auto train = more, plan = more;
    train.insert(train.begin(), {"train", "--overwrite"});
    plan.insert(plan.begin(), {"plan", "--json"});
    ASSERT_EQ(w.run(plan), 0) << w.says();
    const Json planned = Json::parse(contents(w / "stdout"));
    ASSERT_EQ(w.run(train), 0) << w.says();
    const Json row = rows(w / "out/log.jsonl").back(), measured = row.at("memory");
    for (const auto& [name, bytes] : measured.items()) EXPECT_EQ(planned.at(name), bytes) << name;
    EXPECT_GT(measured["host"].get<std::int64_t>(), 0);
    for (const char* moved : {"to_device_per_step", "to_host_per_step"}) {
      EXPECT_GT(row.at(moved).get<std::int64_t>(), 0);
      // depends on the lengths of the batches
      if (more.back() == "training.gradient_checkpointing=offload") {
        EXPECT_GE(planned.at(moved).get<std::int64_t>(), row.at(moved).get<std::int64_t>()) << moved;
      } else {
        EXPECT_EQ(planned.at(moved), row.at(moved)) << moved;
      }
    }
    if (!row.contains("read_per_step")) continue;
    for (const char* moved : {"read_per_step", "written_per_step"})
      EXPECT_EQ(planned.at(moved), row.at(moved)) << moved;
  }
}

TEST(CudaHomes, InputsOfBlocksOnTheHostChangeNoBit) {
  const Json t5 = {
      {"finetuning_type", "full"},
      {"data", {{"max_seq_length", nullptr}, {"max_source_length", 64}, {"max_target_length", 64}}}};
  for (const auto& [model, config, other] :
       {std::tuple{"llama", kFull, kFourBlocks}, {"t5", t5, "training.max_steps=3"}}) {
    const Workplace w(model, config);
    const auto trained = [&](const std::string& checkpointing) {
      EXPECT_EQ(w.train({"--overwrite", "device=cuda", "training.max_steps=3", other,
                         "training.gradient_checkpointing=" + checkpointing}),
                0)
          << w.says();
      EXPECT_EQ(rows(w / "out/log.jsonl").back().at("memory")["host"] > 0, checkpointing == "offload");
      return std::pair(losses(w / "out"), contents(w / "out/model.safetensors"));
    };
    const auto want = trained("true");
    EXPECT_TRUE(trained("offload") == want) << model;
  }
}

TEST(CudaHomes, DelayedUpdatesResumeWithTheSameBits) {
  const Workplace w("llama", kFull);
  auto run = home("optimizer", "cpu");
  run.insert(run.end(), {"device=cuda", "training.num_train_epochs=1", "checkpointing.save_strategy=steps",
                         "checkpointing.save_steps=2", kHomes + "optimizer.delayed_update=true"});
  losses_of(w, run);
  const std::string whole = contents(w / "out/model.safetensors");
  ASSERT_FALSE(whole.empty());
  run.emplace_back("training.resume_from_checkpoint=out/checkpoint-2");
  ASSERT_EQ(w.train(run), 0) << w.says();
  EXPECT_TRUE(contents(w / "out/model.safetensors") == whole);
}

TEST(CudaRanks, HomesOnTheHostTrainEqually) {
  const Workplace w("llama", kFull);
  const auto trained = [&](int stage, const std::vector<std::string>& homes) {
    std::vector<std::string> run{"train",
                                 "--config",
                                 "run.json",
                                 "--overwrite",
                                 "device=cuda",
                                 "training.max_steps=3",
                                 "training.bf16=true",
                                 "zero_stage=" + std::to_string(stage)};
    run.insert(run.end(), homes.begin(), homes.end());
    EXPECT_EQ(w.run(launched("2", run)), 0) << w.says();
    return std::pair(losses(w / "out"), contents(w / "out/model.safetensors"));
  };
  const auto want = trained(1, {});
  for (const int stage : {1, 2, 3}) EXPECT_TRUE(trained(stage, home("optimizer", "cpu")) == want) << stage;
  auto both = home("optimizer", "cpu");
  both.push_back(kHomes + "param.device=cpu");
  EXPECT_TRUE(trained(3, both) == want);
}

TEST(CudaRanks, EvaluateAndGenerateInStep) {
  const Workplace w("llama",
                    {{"finetuning_type", "full"},
                     {"data", {{"eval_datasets", {{{"path", "train.jsonl"}, {"type", "tokenized"}}}}}}});
  const auto evaluated = [&](const std::string& device) {
    EXPECT_EQ(w.run(launched("2", {"eval", "--config", "run.json", "--json", "zero_stage=3",
                                   "training.bf16=false", "device=" + device})),
              0)
        << w.says();
    return Json::parse(contents(w / "stdout"))["eval_loss"].get<double>();
  };
  EXPECT_NEAR(evaluated("cuda"), evaluated("cpu"), 1e-5);
  std::ofstream(w / "in.jsonl") << "{\"input_ids\": [3, 7]}\n{\"input_ids\": [4]}\n{\"input_ids\": [5, 9]}\n";
  const auto generated = [&](const std::string& device) {
    EXPECT_EQ(w.run(launched(
                  "2", {"generate", "--model", "model", "--input", "in.jsonl", "--output", "o.jsonl",
                        "--overwrite", "zero_stage=3", "generation.max_new_tokens=6", "device=" + device})),
              0)
        << w.says();
    return contents(w / "o.jsonl");
  };
  EXPECT_EQ(generated("cuda"), generated("cpu"));
}

TEST(CudaRanks, NcclIsRefusedIfItIsMissing) {
  const Workplace w("llama", kLoraRun);
  const std::vector<std::string> run{"train", "--config", "run.json", "distributed.backend=nccl"};
  EXPECT_EQ(w.run(launched("2", run)), 2);
  EXPECT_NE(w.says().find("distributed.backend: nccl is for GPUs; set device=cuda, or leave it out"),
            std::string::npos)
      << w.says();
  auto on_gpus = run;
  on_gpus.push_back("device=cuda");
  EXPECT_EQ(w.run(launched("2", on_gpus)), 10);
  EXPECT_NE(w.says().find("distributed.backend: rank 0 has no NCCL (2.18 or later); install NVIDIA's"),
            std::string::npos)
      << w.says();
}

TEST(CudaRanks, NeedAGpuEach) {
  const Workplace w("llama", kLoraRun);
  EXPECT_EQ(w.run({"launch", "-n", "5", "train", "--config", "run.json", "device=cuda"}), 10);
  EXPECT_NE(w.says().find("device cuda:4: this machine has 4 GPUs, counted from 0"), std::string::npos)
      << w.says();
}

}  // namespace
}  // namespace ft::test
