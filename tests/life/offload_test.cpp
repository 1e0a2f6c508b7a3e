// Values, states and gradients in files: the same training, planned to the byte, and no files left behind.
#include <sys/resource.h>

#include "engine/core/error.h"
#include "engine/zero/formula.h"
#include "tests/life/ranks/ranks.h"

namespace ft::test {
namespace {

using Settings = std::vector<std::string>;
const std::string kZero = "zero_optimization.";

Settings in_files(const std::string& what) {
  return {kZero + what + ".device=nvme", kZero + what + ".nvme_path=."};
}
Settings operator+(Settings a, const Settings& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
// The parameters are so small that by default all would stay in memory.
const Settings kParams = in_files("offload_param") + Settings{kZero + "stage3_param_persistence_threshold=0"},
               kStates = in_files("offload_optimizer"),
               kDelayed = {kZero + "offload_optimizer.delayed_update=true"},
               kNoClipping = {"training.max_grad_norm=0"};
const std::string kOnHost = kZero + "offload_optimizer.device=cpu";

struct Case {
  const char* golden;
  Json config;
  int ranks, stage, accumulation;
  Settings more;
};

std::ostream& operator<<(std::ostream& to, const Case& c) {
  to << c.golden << ", ranks " << c.ranks << ", stage " << c.stage;
  for (const std::string& setting : c.more) to << ' ' << setting;
  return to;
}

class Offload : public testing::TestWithParam<Case> {};

TEST_P(Offload, TrainsEqually) {
  const Case& c = GetParam();
  const auto with = [&](const Settings& homes) {
    return result_of(c.golden, c.config, c.ranks, c.stage, c.accumulation, c.more + homes);
  };
  const Result want = with({});
  const bool params = c.stage == 3 || c.ranks == 1;
  std::vector<Settings> all = {kStates};
  if (params) all.insert(all.end(), {kParams, kParams + kStates});
  for (const Settings& homes : all) {
    const Result got = with(homes);
    EXPECT_EQ(got.losses, want.losses) << homes[0];
    EXPECT_TRUE(got.weights == want.weights) << homes[0];
  }
}

const Json kT5 = {
    {"finetuning_type", "full"},
    {"data", {{"max_seq_length", nullptr}, {"max_source_length", 64}, {"max_target_length", 64}}}};
INSTANTIATE_TEST_SUITE_P(
    All, Offload,
    testing::Values(Case{"llama", kLora, 1, 0, 2, {}}, Case{"llama", kFull, 1, 0, 3, {"training.bf16=true"}},
                    Case{"llama", kQlora, 1, 3, 1, {"training.gradient_checkpointing=true"}},
                    Case{"llama", kFull, 1, 0, 2, kNoClipping},
                    Case{"llama", kQlora, 2, 3, 1, kNoClipping + Settings{"training.bf16=true"}},
                    Case{"llama", kFull, 2, 1, 2, {}}, Case{"llama", kFull, 2, 2, 2, {"training.bf16=true"}},
                    Case{"llama", kQlora, 2, 3, 2, {}}, Case{"llama", kFp8, 2, 3, 2, {}},
                    Case{"llama", kFull, 3, 3, 1, {"training.optim=lion"}}, Case{"qwen3", kFull, 1, 0, 2, {}},
                    Case{"t5", kT5, 1, 0, 2, {}}, Case{"t5", kT5, 2, 3, 1, {kZero + "overlap_comm=false"}}));

TEST(OffloadPlan, IsMeasuredToTheByte) {
  const Settings two = {"training.max_steps=2", "training.gradient_accumulation_steps=2"};
  for (const Settings& homes :
       {kParams, kStates, kParams + kStates, kParams + kStates + Settings{"training.bf16=true"},
        kStates + kNoClipping, kParams + kStates + kDelayed})
    for (const Json& config : {kQlora, kFp8, kFull}) {
      const Workplace w("llama", config);
      ASSERT_EQ(w.run(Settings{"plan", "--config", "run.json", "--json"} + two + homes), 0) << w.says();
      const Json planned = Json::parse(contents(w / "stdout"));
      ASSERT_EQ(w.train(two + homes), 0) << w.says();
      const Json measured = rows(w / "out/log.jsonl").back().at("memory");
      for (const auto& [name, bytes] : measured.items()) EXPECT_EQ(planned.at(name), bytes) << name;
      EXPECT_GT(measured.at("elsewhere").get<std::int64_t>(), 0);
    }
}

// A model whose parts fill full blocks, so that nothing is padded: bytes are exactly as in the formula.
class Moving : public testing::TestWithParam<std::tuple<int, int, int, bool, std::string>> {};

TEST_P(Moving, IsPlannedAndTheFormulas) {
  const auto [ranks, stage, accumulation, recompute, type] = GetParam();
  constexpr int kWide = 256, kInner = 256, kVocabulary = 256, kBlocks = 3;
  const Workplace w("llama", kFull);
  std::ofstream(w / "config.json") << Json{{"architectures", {"LlamaForCausalLM"}},
                                           {"model_type", "llama"},
                                           {"vocab_size", kVocabulary},
                                           {"hidden_size", kWide},
                                           {"intermediate_size", kInner},
                                           {"num_hidden_layers", kBlocks},
                                           {"num_attention_heads", 4},
                                           {"max_position_embeddings", 64},
                                           {"rms_norm_eps", 1e-5}};
  ASSERT_EQ(w.run({"init", "--config", "config.json", "--output", "made"}), 0) << w.says();
  const double block = 4 * kWide * kWide + 3 * kWide * kInner + 2 * kWide, ends = kVocabulary * kWide;
  const double trained = kBlocks * block + 2 * ends + kWide;
  const bool narrow = type == "training.bf16=true";
  const StateBytes bytes{narrow ? 2.0 : 4.0, 4, narrow ? 12.0 : 8.0};
  // Blocks are used in the forward and the backward pass, also if they are recomputed; the head is used once.
  const double used = bytes.value * (2 * trained - ends - kWide);
  const bool params = ranks == 1 || stage == 3;
  const Settings common = {"model.model_name_or_path=made", type, "training.max_steps=2",
                           "training.per_device_train_batch_size=1",
                           str("training.gradient_checkpointing=", recompute ? "true" : "false")};
  for (const Elsewhere away : {Elsewhere{params, false}, Elsewhere{false, true}, Elsewhere{params, true}}) {
    if (!away.params && !away.states) continue;
    Settings more = common + (away.params ? kParams : Settings{}) + (away.states ? kStates : Settings{});
    more = command(ranks, stage, accumulation, more + Settings{"--overwrite"});
    ASSERT_EQ(w.run(more), 0) << w.says();
    const Json measured = rows(w / "out/log.jsonl").back();
    const MovedBytes want =
        moved_bytes(ZeroStage::of(ranks == 1 ? 0 : stage), ranks, away, used, trained, bytes, accumulation);
    EXPECT_EQ(measured.at("read_per_step"), want.read) << away.params << away.states;
    EXPECT_EQ(measured.at("written_per_step"), want.written) << away.params << away.states;
    std::erase(more, "--overwrite");
    if (more[0] == "launch") more.erase(more.begin(), std::find(more.begin(), more.end(), "train"));
    more[0] = "plan";
    ASSERT_EQ(w.run(more + Settings{"--json", "--disk", "1GB/s", "--ranks", std::to_string(ranks)}), 0)
        << w.says();
    const Json planned = Json::parse(contents(w / "stdout"));
    EXPECT_EQ(planned.at("read_per_step"), measured.at("read_per_step"));
    EXPECT_EQ(planned.at("written_per_step"), measured.at("written_per_step"));
  }
}
const std::string kWideType = "training.bf16=false", kNarrowType = "training.bf16=true";
INSTANTIATE_TEST_SUITE_P(
    All, Moving,
    testing::Values(std::tuple{1, 0, 1, false, kWideType}, std::tuple{1, 0, 3, true, kWideType},
                    std::tuple{1, 3, 2, true, kNarrowType}, std::tuple{2, 1, 2, false, kWideType},
                    std::tuple{2, 2, 4, true, kNarrowType}, std::tuple{2, 3, 1, true, kWideType},
                    std::tuple{2, 3, 2, false, kNarrowType}));

TEST(OffloadPlan, NamesTheBoundOfAStep) {
  const Workplace w("llama", kFull);
  const auto plan = [&](const Settings& more) {
    EXPECT_EQ(w.run(Settings{"plan", "--config", "run.json"} + more), 0) << w.says();
    return contents(w / "stdout");
  };
  const Settings slow = {"--flops", "10GFLOPS", "--disk", "10MB/s"},
                 fast = {"--flops", "1GFLOPS", "--disk", "100GB/s"};
  EXPECT_NE(plan(kStates + slow).find("the files bound the step; arithmetic does from"), std::string::npos);
  EXPECT_NE(plan(kStates + fast)
                .find("arithmetic bounds the step, from max_seq_length 64 or "
                      "per_device_train_batch_size 1 on"),
            std::string::npos);
  const Json j = Json::parse(plan(kStates + slow + Settings{"--json"}));
  EXPECT_EQ(j.at("bound"), "files");
  EXPECT_NEAR(j.at("files_seconds_per_step"),
              (j.at("read_per_step").get<double>() + j.at("written_per_step").get<double>()) / 1e7, 1e-9);
  EXPECT_NE(plan(kStates).find("/s, measured here"), std::string::npos);
  EXPECT_EQ(w.run({"plan", "--config", "run.json", "--disk", "1GB/s"}), 2);
  EXPECT_EQ(w.run({"plan", "--config", "run.json", "--flops", "1TFLOPS"}), 2);
  EXPECT_EQ(w.run(Settings{"plan", "--config", "run.json", "--flops", "fast"} + kStates), 2);
  EXPECT_NE(w.says().find("--flops: fast is not a speed; give one such as 1.5TFLOPS"), std::string::npos);
}

// Checkpoints do not depend on the places of values and states.
TEST(Offload, ResumesWithOtherHomes) {
  const Settings half = {"training.max_steps=4", "checkpointing.save_strategy=steps",
                         "checkpointing.save_steps=4"},
                 whole = {"training.max_steps=8", "training.resume_from_checkpoint=auto"};
  for (const Json& config : {kLora, kFull}) {
    const std::string schedule = "training.lr_scheduler_type=constant";
    const std::string want = result_of("llama", config, 1, 0, 1, {"training.max_steps=8", schedule}).weights;
    for (const auto& [before, after] :
         {std::pair{Settings{}, kParams + kStates}, {kParams + kStates, Settings{}}, {kStates, kParams}}) {
      const Workplace w("llama", config);
      ASSERT_EQ(w.train(half + before + Settings{schedule}), 0) << w.says();
      ASSERT_EQ(w.train(whole + after + Settings{schedule}), 0) << w.says();
      EXPECT_TRUE(contents(w / file_of(config)) == want);
    }
  }
}

// With delayed updates, losses and weights differ from the usual ones from the second update on.
TEST(OffloadDelayed, TrainsEquallyOnEveryStageAndRank) {
  for (const Json& config : {kLora, kFull}) {
    const auto with = [&](int ranks, int stage, const Settings& more) {
      return result_of("llama", config, ranks, stage, 2 / ranks, more);
    };
    const Result usual = with(1, 0, {}), one = with(1, 0, kStates + kDelayed);
    EXPECT_EQ(one.losses[0], usual.losses[0]);
    EXPECT_NE(one.losses[1], usual.losses[1]);
    EXPECT_TRUE(with(1, 0, kDelayed + Settings{kOnHost}).weights == one.weights);
    EXPECT_TRUE(with(1, 0, kParams + kStates + kDelayed).weights == one.weights);
    const Settings late = {kZero + "offload_optimizer.delayed_update_after=1000"};
    EXPECT_TRUE(with(1, 0, kStates + kDelayed + late).weights == usual.weights);
    const Result two = with(2, 1, kStates + kDelayed);
    ASSERT_EQ(two.losses.size(), one.losses.size());
    for (std::size_t i = 0; i < one.losses.size(); ++i)
      EXPECT_NEAR(two.losses[i], one.losses[i], 1e-6 * one.losses[i]);
    for (const int stage : {2, 3}) EXPECT_TRUE(with(2, stage, kStates + kDelayed).weights == two.weights);
    EXPECT_TRUE(with(2, 3, kParams + kDelayed + Settings{kOnHost}).weights == two.weights);
  }
}

TEST(OffloadDelayed, ResumesWithTheSameBits) {
  const Settings constant = {"training.lr_scheduler_type=constant"},
                 half = {"training.max_steps=4", "checkpointing.save_strategy=steps",
                         "checkpointing.save_steps=4"},
                 whole = {"training.max_steps=8"}, again = {"training.resume_from_checkpoint=auto"};
  for (const Json& config : {kLora, kFull}) {
    const std::string want =
        result_of("llama", config, 1, 0, 1, whole + constant + kStates + kDelayed).weights;
    const Workplace w("llama", config);
    ASSERT_EQ(w.train(half + constant + kStates + kDelayed), 0) << w.says();
    EXPECT_EQ(w.train(whole + again + constant), 2);
    EXPECT_NE(w.says().find("its last gradients are still to be applied; set "
                            "zero_optimization.offload_optimizer.delayed_update=true"),
              std::string::npos)
        << w.says();
    ASSERT_EQ(w.train(whole + again + constant + kDelayed + Settings{kOnHost}), 0) << w.says();
    EXPECT_TRUE(contents(w / file_of(config)) == want);
  }
}

TEST(Offload, InHostMemoryHasNoEffectOnCpusAndSaysSo) {
  const Workplace w("llama", kLora);
  ASSERT_EQ(w.train({kZero + "offload_optimizer.device=cpu", kZero + "sub_group_size=1000",
                     "logging.progress=plain"}),
            0)
      << w.says();
  EXPECT_NE(w.says().find("zero_optimization.offload_optimizer: device cpu has no effect on CPUs"),
            std::string::npos)
      << w.says();
}

TEST(Offload, EvaluatesFromAFile) {
  const Workplace w("llama", kFull);
  const Settings eval = {"eval", "--config", "run.json",
                         "data.eval_datasets=[{\"path\":\"train.jsonl\",\"type\":\"tokenized\"}]"};
  ASSERT_EQ(w.run(eval), 0) << w.says();
  const std::string want = contents(w / "stdout");
  ASSERT_EQ(w.run(eval + kParams), 0) << w.says();
  EXPECT_EQ(contents(w / "stdout"), want);
}

TEST(Offload, LeavesNothingWhenKilled) {
  const Workplace w("llama", kFull);
  fs::create_directory(w / "files");
  const Settings homes = {kZero + "offload_param.device=nvme", kZero + "offload_param.nvme_path=files",
                          kZero + "offload_optimizer.device=nvme",
                          kZero + "offload_optimizer.nvme_path=files"};
  for (int ms = 0; ms < 400; ms += 20) {
    const pid_t pid = w.start(Settings{"train", "--config", "run.json", "training.num_train_epochs=1000",
                                       "checkpointing.save_total_limit=2"} +
                              homes);
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    kill(pid, SIGKILL);
    Workplace::finish(pid);
    EXPECT_TRUE(fs::is_empty(w / "files")) << ms;
  }
}

// The error occurs before the first step, and no log is written.
TEST(Offload, AFullDiskEndsTheRunBeforeItBegins) {
  const Workplace w("llama", kFull);
  const auto previous = signal(SIGXFSZ, SIG_IGN);
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
  const rlimit small{100'000, usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const int exit = w.train(kStates);
  setrlimit(RLIMIT_FSIZE, &usual);
  signal(SIGXFSZ, previous);
  EXPECT_EQ(exit, 6) << w.says();
  EXPECT_NE(w.says().find("zero_optimization.offload_optimizer.nvme_path: . has no room for"),
            std::string::npos)
      << w.says();
  EXPECT_FALSE(fs::exists(w / "out/log.jsonl"));
}

TEST(Offload, MistakesAreReported) {
  const Workplace w("llama", kLora);
  const auto refused = [&](int exit, const Settings& settings, const std::string& text) {
    EXPECT_EQ(w.train(settings), exit) << w.says();
    EXPECT_NE(w.says().find(text), std::string::npos) << w.says();
  };
  refused(2, {kZero + "offload_param.device=nvme"},
          "zero_optimization.offload_param.nvme_path: device nvme needs a folder for the file");
  refused(2, {kZero + "offload_param.nvme_path=."},
          "offload_param.nvme_path: is for device nvme; leave it out");
  refused(2, {"zero_stage=2", kZero + "offload_param.device=cpu"},
          "offload_param.device: cpu needs zero_optimization.stage 3, which is 2");
  refused(2, {kZero + "offload_param.device=gpu"}, "none, cpu");
  refused(2, {kZero + "offload_param.ratio=0.5"}, "ratio");
  refused(2, kDelayed, "offload_optimizer.delayed_update: is for what is stepped elsewhere; set");
  refused(2, {kOnHost, kZero + "offload_optimizer.delayed_update_after=3"},
          "offload_optimizer.delayed_update_after: has no effect without delayed_update");
  refused(6, {kZero + "offload_param.device=nvme", kZero + "offload_param.nvme_path=run.json"},
          "offload_param.nvme_path: cannot make a file in run.json: Not a directory");
  EXPECT_EQ(w.run(command(2, 0, 1, {kZero + "offload_optimizer.device=cpu"})), 2);
  EXPECT_NE(w.says().find("offload_optimizer: several ranks need stage 1, 2 or 3; the stage is 0"),
            std::string::npos)
      << w.says();
}

}  // namespace
}  // namespace ft::test
