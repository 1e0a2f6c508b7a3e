// ft plan on another machine than the one that runs the training.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "app/assembly/built_model.h"
#include "app/assembly/engine.h"
#include "app/plan/fitting.h"
#include "app/plan/gpu_sizes.h"
#include "app/plan/planned.h"
#include "app/plan/table.h"
#include "app/plan/ways_out.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/files/json.h"
#include "engine/layers/mlp.h"
#include "engine/ops/null_ops.h"
#include "tests/app/outcome.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/source.h"

namespace ft {
namespace {

constexpr double kGibibyte = 1024.0 * 1024 * 1024;
const std::string kBase = source_path("configs/demo/base");

Json planned_json(const std::vector<std::string>& more) {
  std::vector<std::string> all{"plan", "--model", kBase, "--json"};
  all.insert(all.end(), more.begin(), more.end());
  const Outcome o = run(all);
  EXPECT_EQ(o.code, 0) << o.err;
  return Json::parse(o.out);
}

TEST(PlanText, NamesMicroBatchesAndRecomputedBlocks) {
  PlanTable t;
  t.stages.resize(1);
  Planned& own = t.stages[0].planned;
  own.largest.tokens = 236;
  own.plan.blocks = own.plan.recomputed = 32;
  t.choose_recomputed = true;
  const auto shows = [&](const std::string& text) { return as_text(t).find(text) != std::string::npos; };
  EXPECT_TRUE(shows("\nrecomputed             32     of 32 blocks\ntrained: ")) << as_text(t);
  EXPECT_TRUE(shows(" FLOP, 1 micro-batch of at most 236 tokens\n")) << as_text(t);
  own.plan.segment = 5;
  t.accumulation = 4;
  EXPECT_TRUE(
      shows("     of 32 blocks\nat a time               5     blocks: only the input of the first is kept\n"))
      << as_text(t);
  EXPECT_TRUE(shows(" FLOP, 4 micro-batches of at most 236 tokens\n")) << as_text(t);
}

// The stage with most device memory is not the one with most host memory.
TEST(PlanText, HostMemoryIsThatOfTheStageThatTakesMost) {
  PlanTable t;
  t.grid.pipeline = 2;
  t.stages.resize(1);
  Planned& own = t.stages[0].planned;
  own.stages.resize(2);
  own.stages[0].memory.total = std::int64_t{8} << 30;
  own.stages[0].memory.host = std::int64_t{3} << 30;
  own.stages[1].memory.total = std::int64_t{6} << 30;
  own.stages[1].memory.host = std::int64_t{5} << 30;
  own.plan = own.stages[0];
  EXPECT_NE(as_text(t).find("\non the host          5.00"), std::string::npos) << as_text(t);
  const Json j = Json::parse(as_json(t));
  EXPECT_EQ(j["host"], own.stages[1].memory.host);
  EXPECT_EQ(j["total"], own.stages[0].memory.total);
  EXPECT_EQ(j["pipeline"][0]["host"], own.stages[0].memory.host);
}

TEST(GpuMemory, IsThatOfANameOrASize) {
  EXPECT_NEAR(static_cast<double>(gpu_memory("h200")) / kGibibyte, 139.8, 0.1);
  EXPECT_EQ(gpu_memory("24GiB") - gpu_memory("23 GiB"), std::int64_t{1} << 30);
  EXPECT_LT(gpu_memory("24GB"), gpu_memory("24GiB"));
  for (const char* bad : {"", "24", "GiB", "-1GiB", "0.5GiB", "nanGiB", "1e99GiB", "24 MiB", "h2000"})
    EXPECT_THROW(gpu_memory(bad), UserError) << bad;
}

TEST(PlanForAGpu, CountsItsWorkspaceAndFindsTheLongestSequence) {
  const Json h200 = planned_json({"--gpu", "h200"}), small = planned_json({"--gpu", "1.3GiB"});
  EXPECT_EQ(h200["memory_there"], gpu_memory("h200"));
  EXPECT_GT(h200["scratch"], CudaWorkspace().total());
  EXPECT_EQ(h200["cuda"], CudaWorkspace::kDriver);
  EXPECT_EQ(h200["total"], small["total"]);
  EXPECT_GT(h200["longest"], small["longest"]);
  EXPECT_FALSE(h200.contains("stages"));
}

// LLaMA-2-7B with QLoRA.
TEST(PlanForAGpu, LongSequencesFit) {
  const test::TempFolder folder;
  folder.write("config.json", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5})");
  const auto longest = [&](const std::string& gpu) {
    const Outcome o = run({"plan", "--model", folder / "config.json", "--json", "--gpu", gpu, "device=cuda",
                           "training.bf16=true", "training.gradient_checkpointing=auto",
                           "training.per_device_train_batch_size=1", "quantization.load_in_4bit=true",
                           "lora.r=16", "lora.target_modules=all-linear"});
    EXPECT_EQ(o.code, 0) << o.err;
    return Json::parse(o.out)["longest"].get<std::int64_t>();
  };
  EXPECT_GT(longest("24GB"), 90'000);
  EXPECT_GT(longest("80GB"), 400'000);
}

constexpr const char* kSeventyBillion = R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "vocab_size": 32000, "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5})";

// With 16-bit weights the model would fit only if they were offloaded; in 4 bits a step takes a quarter of
// the time.
TEST(PlanForAGpu, ProposesFourBitsWhereWeightsHaveToMove) {
  const test::TempFolder folder;
  folder.write("config.json", kSeventyBillion);
  const Outcome o = run({"plan", "--model", folder / "config.json", "--gpu", "24GB", "training.bf16=true",
                         "training.gradient_checkpointing=true", "training.per_device_train_batch_size=1"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("  quantization.load_in_4bit=true zero_optimization.offload_param.device=cpu  "),
            std::string::npos)
      << o.out;
}

TEST(PlanForAGpu, ShowsThePositionsOfTheModel) {
  const Outcome o = run({"plan", "--model", kBase, "--gpu", "h200"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find("longest sample that fits: "), std::string::npos) << o.out;
  EXPECT_NE(o.out.find(" tokens (the model was made for 512)\n"), std::string::npos) << o.out;
}

// LLaMA-2-70B with QLoRA: its weights alone are larger than the GPU, so they are offloaded to the host's
// memory.
TEST(PlanForAGpu, SeventyBillionFitIntoTwentyFourGigabytes) {
  const test::TempFolder folder;
  folder.write("config.json", kSeventyBillion);
  const auto planned = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all{"plan",
                                 "--model",
                                 folder / "config.json",
                                 "--json",
                                 "--gpu",
                                 "24GB",
                                 "training.bf16=true",
                                 "training.gradient_checkpointing=true",
                                 "training.per_device_train_batch_size=1",
                                 "quantization.load_in_4bit=true",
                                 "lora.r=16",
                                 "lora.target_modules=all-linear",
                                 "data.max_seq_length=4096"};
    all.insert(all.end(), more.begin(), more.end());
    const Outcome o = run(all);
    EXPECT_EQ(o.code, 0) << o.err;
    return Json::parse(o.out);
  };
  EXPECT_GT(planned({})["total"], gpu_memory("24GB"));
  const Json j =
      planned({"zero_optimization.offload_param.device=cpu", "--pcie", "25GB/s", "--flops", "80TFLOPS"});
  EXPECT_LT(j["total"], gpu_memory("24GB"));
  EXPECT_GE(j["longest"], 4096);
  const double codes = 68e9 / 2;  // bytes without scales; sent forward and backward
  EXPECT_GT(j["host"], codes);
  EXPECT_GT(j["to_device_per_step"], 2 * codes);
  EXPECT_LT(j["to_device_per_step"], 2.3 * codes);
  EXPECT_LT(j["to_host_per_step"], 1e9);  // the adapter's gradients
  EXPECT_NEAR(j["pcie_seconds_per_step"].get<double>(), j["to_device_per_step"].get<double>() / 25e9, 1e-9);
  EXPECT_EQ(j["bound"], "arithmetic");
  EXPECT_LT(j["arithmetic_from_max_seq_length"], 4096);
  const Json slow =
      planned({"zero_optimization.offload_param.device=cpu", "--pcie", "1GB/s", "--flops", "80TFLOPS"});
  EXPECT_EQ(slow["bound"], "pcie");
  EXPECT_GT(slow["arithmetic_from_max_seq_length"], 4096);
}

TEST(PlanForRanks, ShowsEachStageBesideTheOthers) {
  const Json j = planned_json({"--ranks", "4", "--gpu", "1.3GiB", "finetuning_type=full", "zero_stage=3",
                               "zero_optimization.stage3_param_persistence_threshold=0"});
  ASSERT_EQ(j["stages"].size(), 4u);
  EXPECT_EQ(j["ranks"], 4);
  for (int stage = 0; stage <= 3; ++stage) {
    const Json& s = j["stages"][stage];
    EXPECT_EQ(s["zero_stage"], stage);
    // Sharded: states from stage 1 on, gradients from stage 2 on, weights from stage 3 on.
    EXPECT_EQ(s["optimizer"] < j["stages"][0]["optimizer"], stage >= 1);
    EXPECT_EQ(s["gradients"] < j["stages"][0]["gradients"], stage >= 2);
    EXPECT_EQ(s["weights"] < j["stages"][0]["weights"], stage >= 3);
  }
  EXPECT_EQ(j["total"], j["stages"][3]["total"]);
}

// Plans of one decoder-only and one encoder-decoder model for a given number of recomputed blocks.
class Recomputed : public testing::TestWithParam<std::string> {
 protected:
  Recomputed() : built_(build_model(config(), Weights::ignore)) {
    request_.train = {{.tokens = 96,
                       .targets = 96,
                       .sequences = 1,
                       .longest = 96,
                       .source_tokens = 64,
                       .longest_source = 64}};
  }
  static RunConfig config() {
    return parse_config(R"({"model": {"model_name_or_path": ")" + source_path("tests/golden/models/") +
                            GetParam() + R"(/model"}, "data": {"datasets": [{"path": "none"}]}})",
                        "run.json", "", {});
  }
  std::int64_t total(std::int64_t blocks) {
    request_.recompute = blocks;
    return plan_run(built_.model(), request_).memory.total;
  }
  std::int64_t fewest(std::int64_t there) {  // as auto chooses on a CPU
    return fewest_recomputed(built_.model(), request_, {0, built_.model().most_recompute()}, there);
  }
  BuiltModel built_;
  PlanRequest request_;
};
INSTANTIATE_TEST_SUITE_P(Models, Recomputed, testing::Values("llama", "t5"),
                         [](const auto& test) { return test.param; });

TEST_P(Recomputed, EveryBlockSavesMemoryButTheLast) {
  const std::int64_t blocks = built_.model().blocks();
  for (std::int64_t n = 1; n < blocks; ++n) EXPECT_LT(total(n), total(n - 1)) << n;
  EXPECT_EQ(total(blocks), total(blocks - 1));
  request_.train[0].tokens = request_.train[0].longest = 2 * Mlp::most_rows({});  // several pieces of its MLP
  EXPECT_LT(total(blocks), total(blocks - 1));
  request_.device = {Device::Kind::cuda};  // one piece
  EXPECT_EQ(total(blocks), total(blocks - 1));
}

TEST_P(Recomputed, AreAsFewAsLeaveATenthFree) {
  const std::int64_t blocks = built_.model().blocks();
  for (std::int64_t n = 0; n < blocks; ++n) EXPECT_EQ(fewest(total(n) * 10 / 9 + 10), n);
  for (std::int64_t n = 1; n < blocks; ++n) {
    const std::int64_t more = fewest(total(n) * 10 / 9 - 10);
    EXPECT_GT(more, n);
    EXPECT_TRUE(total(more) < total(n) || more == built_.model().most_recompute());
  }
  for (const std::int64_t there : {0, 1}) EXPECT_EQ(fewest(there), built_.model().most_recompute());
}

TEST_P(Recomputed, LeaveTwoGibibytesOfAGpuFree) {
  constexpr std::int64_t kThere = std::int64_t{40} << 30;
  request_.device = {Device::Kind::cuda};
  request_.workspace = kThere - (std::int64_t{2} << 30) - total(1);
  EXPECT_EQ(fewest(kThere), 1);
  request_.workspace += 1;
  EXPECT_GT(fewest(kThere), 1);
}

TEST(LeftFree, IsATenthOfCpusMemoryAndLessOfAGpus) {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  const Device cpu, gpu{Device::Kind::cuda};
  EXPECT_EQ(left_free(cpu, 100 * kGiB), 10 * kGiB);
  EXPECT_EQ(left_free(gpu, 100 * kGiB), 3 * kGiB);
  EXPECT_EQ(left_free(gpu, 24 * kGiB), 2 * kGiB);
  EXPECT_EQ(left_free(gpu, 10 * kGiB), kGiB);
}

TEST(PlanForAGpu, ChoosesHowManyBlocksToRecompute) {
  const std::vector<std::string> full{"data.max_seq_length=4096", "training.gradient_checkpointing=auto"};
  const auto on = [&](const std::string& gpu) { return planned_json({"--gpu", gpu, full[0], full[1]}); };
  EXPECT_EQ(on("h200")["recomputed_blocks"], 0);
  const Json none = planned_json({"--gpu", "h200", full[0], "training.gradient_checkpointing=false"});
  EXPECT_EQ(on("h200")["total"], none["total"]);
  EXPECT_GT(on("1.3GiB")["recomputed_blocks"], 0);
  EXPECT_GT(on("h200")["whole_blocks"], 0);
  EXPECT_EQ(on("1.3GiB")["whole_blocks"], 0);
  const Json tight = planned_json({"--gpu", "1.3GiB", full[0], "training.gradient_checkpointing=false"});
  EXPECT_EQ(tight["whole_blocks"], 0);
  EXPECT_EQ(tight["recomputed_blocks"], 0);
  const Json cpu = planned_json({full[0], "training.gradient_checkpointing=false"});
  EXPECT_EQ(cpu["whole_blocks"], 0);
}

// Settings that the run already has, or that it cannot have, are not proposed.
TEST(WaysOut, AreThoseNotTakenYet) {
  RunConfig c;
  c.training.gradient_checkpointing = Checkpointing::off;
  const std::string which = "\n  ft plan shows which of these are enough";
  const auto in_files = [](const std::string& name) {
    return str("zero_optimization.", name, ".device=nvme with zero_optimization.", name,
               ".nvme_path=FOLDER, ");
  };
  EXPECT_EQ(advice_on_memory(c, true),
            "training.gradient_checkpointing=true, " + in_files("offload_optimizer") +
                in_files("offload_param") +
                "training.bf16=true, quantization.load_in_4bit=true, model.frozen_dtype=fp8, a smaller "
                "training.per_device_train_batch_size, a smaller data.max_seq_length" +
                which);
  EXPECT_EQ(advice_on_memory(c, false),
            in_files("offload_param") +
                "training.bf16=true, quantization.load_in_4bit=true, model.frozen_dtype=fp8, a smaller "
                "training.per_device_eval_batch_size, a smaller data.max_seq_length");
  c.finetuning_type = FinetuningType::full;
  c.training = {.per_device_train_batch_size = 1, .bf16 = true};
  c.distributed.nproc_per_node = 2;
  EXPECT_EQ(advice_on_memory(c, true),
            "training.gradient_checkpointing=auto, zero_stage=3, training.optim=adamw_8bit, "
            "training.optim=adafactor, finetuning_type=lora, a smaller data.max_seq_length" +
                which);
  for (const WayOut& w : ways_out(c, true))
    for (const WayOut& next : ways_out(w.config, true)) EXPECT_NE(next.setting, w.setting);
}

// Weights that the files hold in 4 bits or FP8 are not quantized again, and 4 bits and FP8 are not both.
TEST(WaysOut, OfFrozenWeightsAreForDenseOnes) {
  const auto ways = [](const std::string& model, FrozenType type) {
    RunConfig c;
    c.model.model_name_or_path = source_path("tests/golden/" + model);
    c.model.frozen_dtype = type;
    std::vector<std::string> found;
    for (const WayOut& w : ways_out(c, true))
      if (w.setting == "quantization.load_in_4bit=true" || w.setting == "model.frozen_dtype=fp8")
        found.push_back(w.setting);
    return found;
  };
  using Ways = std::vector<std::string>;
  EXPECT_EQ(ways("four_bit/plain", FrozenType::automatic),
            (Ways{"quantization.load_in_4bit=true", "model.frozen_dtype=fp8"}));
  EXPECT_EQ(ways("four_bit/plain", FrozenType::fp8), Ways{});
  for (const char* quantized : {"fp8/block", "fp8/channel", "four_bit/packed"})
    EXPECT_EQ(ways(quantized, FrozenType::automatic), Ways{}) << quantized;
}

RunConfig config_of_base(const std::vector<std::string>& more) {
  const std::string folder = std::filesystem::absolute(kBase).string();
  return parse_config(R"({"model": {"model_name_or_path": ")" + folder +
                          R"("}, "data": {"datasets": [{"path": "none"}], "max_seq_length": 2048}})",
                      "run.json", "", more);
}
std::int64_t total_of(const RunConfig& c, Room room = {}) {
  return planned(c, nullptr, room).plan.memory.total;
}

// The printed settings, given as overrides, lead to the memory total that is printed with them.
TEST(Fits, AreSettingsWithWhichTheRunFits) {
  const RunConfig c = config_of_base({"training.gradient_checkpointing=false"});
  const std::int64_t now = total_of(c);
  // The memory of short sequences without other changes. Less than this takes several settings.
  const std::int64_t shortest =
      total_of(config_of_base({"training.gradient_checkpointing=false", "data.max_seq_length=64"}));
  int alone = 0, together = 0;
  for (const std::int64_t there : {now - 1, now / 2, now / 5, shortest, shortest - 1, shortest / 3 * 2}) {
    const Room room{.workspace = 0, .there = there};
    for (const Fit& fit : fits(c, nullptr, room, longest_that_fits(c, room))) {
      EXPECT_LE(fit.total, room.there);
      (fit.settings.size() == 1 ? alone : together) += 1;
      std::vector<std::string> typed{"training.gradient_checkpointing=false"};
      for (const std::string& setting : fit.settings) {
        const std::size_t with = setting.find(" with ");
        typed.push_back(setting.substr(0, with));
        if (with == setting.npos) continue;
        const std::string path = setting.substr(with + 6);
        typed.push_back(path.substr(0, path.find('=')) + "=.");
      }
      EXPECT_EQ(total_of(config_of_base(typed), room), fit.total) << typed.back();
    }
  }
  EXPECT_GT(alone, 3);
  EXPECT_GT(together, 0);
  const Room none{.workspace = 0, .there = 1};
  EXPECT_TRUE(fits(c, nullptr, none, longest_that_fits(c, none)).empty());
}

// A teacher of one layer answers, or it and the model do.
TEST(Plan, OnlyModelsThatAnswerHaveRoomForAnswers) {
  const test::TempFolder folder;
  std::ifstream file(std::filesystem::path(kBase) / "config.json");
  Json shallow = Json::parse(file);
  shallow["num_hidden_layers"] = 1;
  folder.write("config.json", shallow.dump());
  const auto total = [&](const char* share, int answer) {
    return total_of(config_of_base(
        {"objective.type=distill", "objective.teacher_model_name_or_path=" + folder.path(),
         "objective.seq_kd=true", str("objective.lmbda=", share), "generation.batch_size=64",
         str("objective.max_completion_length=", answer), "training.gradient_accumulation_steps=64",
         "training.per_device_train_batch_size=1"}));
  };
  EXPECT_LT(total("0", 512), total("0.5", 512));
  EXPECT_EQ(total("0.5", 5000), total("0.5", 2047)) << "prompt and answer have 2048 tokens";
}

// A snapshot is planned if a tenth of the memory stays free, unless checkpointing.async_save says otherwise.
TEST(Plan, SavesBesideTrainingIfThereIsMemory) {
  const auto plan_of = [](const char* async_save, std::int64_t there) {
    const RunConfig c = config_of_base({"finetuning_type=full", "training.gradient_checkpointing=false",
                                        str("checkpointing.async_save=", async_save)});
    return planned(c, nullptr, {.workspace = 0, .there = there}).plan;
  };
  const Plan without = plan_of("false", 0);
  EXPECT_FALSE(without.saves_beside);
  EXPECT_EQ(without.memory.snapshot, 0);
  EXPECT_GE(without.snapshot, 12 * without.trained);  // weights and two states, in f32
  EXPECT_LE(without.snapshot, 12 * without.trained + (1 << 20));
  const std::int64_t both = without.memory.total + without.snapshot, enough = both * 10 / 9 + 10;
  for (const auto& [async_save, there, beside] :
       {std::tuple{"null", enough, true}, std::tuple{"null", enough - 20, false},
        std::tuple{"null", 0l, false}, std::tuple{"true", 0l, true}, std::tuple{"true", enough - 20, true},
        std::tuple{"false", enough, false}}) {
    const Plan plan = plan_of(async_save, there);
    EXPECT_EQ(plan.saves_beside, beside) << async_save << " " << there;
    EXPECT_EQ(plan.memory.snapshot, beside ? without.snapshot : 0);
    EXPECT_EQ(plan.memory.total, beside ? both : without.memory.total);
  }
}

// On a GPU a checkpoint's snapshot and offloaded data are in the host's memory, which all its ranks share.
TEST(RequireMemory, CountsTheHostsMemoryOfAGpu) {
  constexpr std::int64_t kMebi = std::int64_t{1} << 20;
  const NullOps cpu, gpu({Device::Kind::cuda, 0});
  const MemoryReport small{.total = 1, .host = kMebi}, large{.total = 1, .host = std::int64_t{1} << 55};
  const MemoryAdvice advice{.device = "a smaller model", .host = "checkpointing.async_save=false"};
  EXPECT_EQ(free_host_memory(cpu), 0);
  const std::int64_t there = free_host_memory(gpu);
  ASSERT_GT(there, 2 * kMebi);
  require_memory(small, gpu, advice, 2);
  require_memory(large, cpu, advice);
  const auto refused = [&](const MemoryReport& planned, int ranks) -> std::string {
    try {
      require_memory(planned, gpu, advice, ranks);
    } catch (const UserError& e) {
      EXPECT_EQ(e.code, Exit::memory);
      return e.what();
    }
    return "";
  };
  const std::string alone = refused(large, 1);
  EXPECT_TRUE(alone.starts_with("this run needs ")) << alone;
  EXPECT_NE(alone.find(" of the host's memory but only "), alone.npos) << alone;
  EXPECT_TRUE(alone.ends_with("\n  try: checkpointing.async_save=false")) << alone;
  const std::string shared = refused({.total = 1, .host = there / 4 * 3}, 2);
  EXPECT_TRUE(shared.starts_with("each of the 2 ranks on this machine needs ")) << shared;
}

// The stage with most memory on its GPU need not be that with most on the host.
TEST(PlanOfAPipeline, HasTheHostsMemoryOfTheStageWithMost) {
  Planned p;
  p.stages.resize(3);
  p.stages[0].memory = {.total = 9, .host = 1};
  p.stages[1].memory = {.total = 2, .host = 5};
  p.stages[2].memory = {.total = 3, .host = 4};
  p.plan = p.stages[0];
  EXPECT_EQ(p.host(), 5);
}

TEST(WaysOut, OfTheHostsMemoryAreThoseThatTakeIt) {
  RunConfig c;
  c.device = Device::Kind::cuda;
  EXPECT_EQ(advice_on_host_memory(c), "ending other programs");
  c.checkpointing.async_save = true;
  c.training.gradient_checkpointing = Checkpointing::offload;
  c.zero_optimization.offload_optimizer.device = OffloadDevice::cpu;
  c.zero_optimization.offload_param.device = OffloadDevice::cpu;
  c.distributed.nproc_per_node = 8;
  EXPECT_EQ(advice_on_host_memory(c),
            "checkpointing.async_save=false, training.gradient_checkpointing=true, "
            "zero_optimization.offload_optimizer.device=nvme, zero_optimization.offload_param.device=nvme, "
            "fewer ranks on each machine, ending other programs");
}

// Ranks on other machines take nothing of this machine's memory.
TEST(PlanOnSeveralMachines, HasTheMemoryOfEach) {
  const Json one = planned_json({}), two = planned_json({"--ranks", "2", "distributed.nnodes=2"});
  EXPECT_EQ(two["ranks"], 2);
  EXPECT_NEAR(two["memory_there"].get<double>() / one["memory_there"].get<double>(), 1, 0.25);
}

TEST(Fits, AreShownAloneOrTogether) {
  constexpr std::int64_t kGibi = std::int64_t{1} << 30;
  EXPECT_EQ(fits_text({{{"a=1"}, kGibi, ""}, {{"b=2"}, 2 * kGibi, "slower"}}),
            "it does not fit; it would fit with\n  a=1  1.00 GiB\n  b=2  2.00 GiB  (slower)\n");
  EXPECT_EQ(fits_text({{{"a=1", "b=2"}, kGibi, ""}}),
            "it does not fit; it would fit with all of these together\n  a=1\n  b=2  -> 1.00 GiB\n");
  EXPECT_EQ(fits_text({}), "it does not fit, even with the settings that save memory\n");
}

// On a GPU, offload to the host's memory is proposed before offload to files.
TEST(WaysOut, OfAGpuAreInTheOrderOfHarm) {
  RunConfig c;
  c.device = Device::Kind::cuda;
  c.training.bf16 = true;
  c.quantization.load_in_4bit = true;
  std::vector<std::string> settings;
  for (const WayOut& w : ways_out(c, true)) settings.push_back(w.setting.substr(0, w.setting.find(" with")));
  EXPECT_EQ(
      settings,
      (std::vector<std::string>{
          "training.gradient_checkpointing=auto", "training.gradient_checkpointing=offload",
          "zero_optimization.offload_optimizer.device=cpu", "zero_optimization.offload_param.device=cpu",
          "zero_optimization.offload_optimizer.device=nvme", "zero_optimization.offload_param.device=nvme"}));
}

}  // namespace
}  // namespace ft
