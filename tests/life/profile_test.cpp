// Reports of a run on its own speed, memory and communication, tested from outside.
#include <gtest/gtest.h>

#include <map>

#include "tests/life/program.h"

namespace ft::test {
namespace {

TEST(WallClockBreakdown, IsInEachRowAndChangesNothing) {
  const Workplace plain("llama"), w("llama", {{"logging", {{"wall_clock_breakdown", true}}},
                                              {"checkpointing", {{"save_strategy", "epoch"}}}});
  ASSERT_EQ(plain.train({}), 0) << plain.says();
  ASSERT_EQ(w.train({}), 0) << w.says();
  EXPECT_EQ(contents(w / "out/adapter_model.safetensors"), contents(plain / "out/adapter_model.safetensors"));
  double saved = 0;
  for (const Json& row : rows(w / "out/log.jsonl")) {
    if (!row.contains("loss")) continue;
    for (const char* part : {"forward", "backward", "reduce", "step", "data", "save"})
      ASSERT_TRUE(row.contains(std::string("wall_clock/") + part)) << row;
    EXPECT_GT(row["wall_clock/forward"], 0);
    EXPECT_GT(row["wall_clock/backward"], 0);
    EXPECT_GT(row["wall_clock/step"], 0);
    saved += row["wall_clock/save"].get<double>();
  }
  EXPECT_GT(saved, 0);
  EXPECT_FALSE(rows(plain / "out/log.jsonl")[0].contains("wall_clock/forward"));
}

TEST(Monitors, WriteToTheConfiguredFolders) {
  const Workplace w("llama",
                    {{"logging",
                      {{"csv_monitor", {{"enabled", true}, {"output_path", "logs"}, {"job_name", "one"}}},
                       {"tensorboard", {{"enabled", true}, {"output_path", "logs"}, {"job_name", "two"}}},
                       {"report_to", {"none"}}}}});
  ASSERT_EQ(w.train({}), 0) << w.says();
  EXPECT_TRUE(fs::exists(w / "logs/one/Train_Samples_train_loss.csv"));
  EXPECT_FALSE(fs::is_empty(w / "logs/two"));
  EXPECT_FALSE(fs::exists(w / "out/runs"));
}

Json json_of(const Workplace& w) { return Json::parse(contents(w / "stdout")); }

// DeepSpeed's profiler counts the same models (tests/golden/make_profile.py). The expected counts are adapted
// to ft's convention: attention counts only pairs that see each other, the head counts only rows with a
// target.
class ProfiledModel : public testing::TestWithParam<const char*> {};

TEST_P(ProfiledModel, CountsAsDeepSpeedDoesAndAsThePlan) {
  const std::string model = GetParam();
  const bool t5 = model == "t5";
  const Json golden = Json::parse(contents(fs::path(source_path("tests/golden")) / "profile.json"));
  const std::int64_t source = golden["source"], target = golden["target"];
  const Workplace w(model, {{"finetuning_type", "full"},
                            {"data", {{"max_seq_length", t5 ? Json() : Json(64)}}},
                            {"training", {{"per_device_train_batch_size", 1}}}});
  Json row = {{"input_ids", Json::array()}, {"labels", Json::array()}};
  for (int i = 0; i < source; ++i) row["input_ids"].push_back(3 + i);
  for (int i = 0; i < (t5 ? target : source); ++i) row["labels"].push_back(3 + i);
  std::ofstream file(w / "train.jsonl");
  for (int i = 0; i < 8; ++i) file << row.dump() << "\n";
  file.close();

  for (const char* recompute :
       {"training.gradient_checkpointing=false", "training.gradient_checkpointing=true"}) {
    const std::vector<std::string> more{"--config", "run.json", "--json", recompute,
                                        "training.gradient_accumulation_steps=2"};
    const auto with = [&](const char* command) {
      std::vector<std::string> all = more;
      all.insert(all.begin(), command);
      return all;
    };
    ASSERT_EQ(w.run(with("plan")), 0) << w.says();
    const double planned = json_of(w)["flops_per_step"];
    ASSERT_EQ(w.run(with("profile")), 0) << w.says();
    const Json profile = json_of(w);
    EXPECT_EQ(profile["flops"], planned);
    EXPECT_EQ(profile["forward"]["flops"].get<double>() + profile["backward"]["flops"].get<double>(),
              planned);
    std::map<std::string, double> macs;
    for (const Json& m : profile["modules"])
      macs[m["name"]] = m["forward"]["macs"].get<double>() / 2;  // micro-batches
    for (const auto& [name, counted] : golden[model].items()) {
      double want = counted;
      if (name == "lm_head" && !t5) want *= static_cast<double>(source - 1) / static_cast<double>(source);
      double inner = 0;  // of an attention's Linears
      if (name.ends_with("self_attn") || name.ends_with("Attention")) {
        const bool causal = !t5 || name.starts_with("decoder");
        const std::int64_t length = t5 ? target : source;
        if (causal && !name.ends_with("EncDecAttention"))
          want *= static_cast<double>(length + 1) / static_cast<double>(2 * length);
        for (const auto& [part, value] : macs)
          if (part.starts_with(name + ".")) inner += value;
      }
      EXPECT_NEAR(macs[name] - inner, want, 1e-6 * want) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ProfiledModel, testing::Values("llama", "t5"));

TEST(Profile, PrintsAndDrawsAndLeavesNoTrainedModel) {
  const Workplace w("llama");
  ASSERT_EQ(w.run({"profile", "--config", "run.json"}), 0) << w.says();
  const std::string text = contents(w / "stdout");
  for (const char* words :
       {"profile of step 3: LlamaForCausalLM", "backward", "of peak", "q_proj", "lm_head"})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  EXPECT_NE(contents(w / "out/profile.svg").find("</svg>"), std::string::npos);
  EXPECT_FALSE(Json::parse(contents(w / "out/trace.json"))["traceEvents"].empty());
  EXPECT_FALSE(fs::exists(w / "out/adapter_model.safetensors"));
  EXPECT_FALSE(fs::exists(w / "out/run.json"));
}

TEST(Profile, SettingsShapeTheTables) {
  const Workplace w("llama");
  ASSERT_EQ(
      w.run({"profile", "--config", "run.json", "logging.flops_profiler.module_depth=1",
             "logging.flops_profiler.profile_step=2", "logging.flops_profiler.output_file=profile.txt"}),
      0)
      << w.says();
  const std::string text = contents(w / "profile.txt");
  EXPECT_NE(text.find("profile of step 2"), std::string::npos);
  EXPECT_EQ(text.find("q_proj"), std::string::npos);
  ASSERT_EQ(w.run({"profile", "--config", "run.json", "logging.flops_profiler.detailed=false"}), 0);
  EXPECT_EQ(contents(w / "stdout").find("MACs fwd"), std::string::npos);
}

TEST(Profile, OfATrainingRunChangesNothing) {
  const Workplace plain("llama"), w("llama", {{"logging", {{"flops_profiler", {{"enabled", true}}}}}});
  ASSERT_EQ(plain.train({}), 0) << plain.says();
  ASSERT_EQ(w.train({}), 0) << w.says();
  EXPECT_EQ(contents(w / "out/adapter_model.safetensors"), contents(plain / "out/adapter_model.safetensors"));
  EXPECT_NE(w.says().find("profile of step 3"), std::string::npos) << w.says();
  EXPECT_TRUE(fs::exists(w / "out/profile.svg"));
  ASSERT_EQ(w.train({"--overwrite", "logging.flops_profiler.profile_step=1000"}), 0);
  EXPECT_NE(w.says().find("before step 1000"), std::string::npos) << w.says();
}

TEST(Profile, OfTwoRanksIsOfTheFirst) {
  const Workplace w("llama");
  ASSERT_EQ(w.run({"launch", "-n", "2", "profile", "--config", "run.json", "zero_stage=3"}), 0) << w.says();
  const std::string text = contents(w / "stdout") + w.says();
  EXPECT_NE(text.find("on 2 ranks"), std::string::npos) << text;
  EXPECT_NE(text.find("reduce"), std::string::npos) << text;
}

// Stage 0 reduces each step's gradients, the loss and the norm; the log has the same number of bytes sent.
TEST(Logging, CountsCommunicationBetweenRanks) {
  const Workplace w("llama", {{"logging", {{"comms_logger", {{"enabled", true}}}}}});
  const std::vector<std::string> two{
      "launch", "-n", "2", "train", "--config", "run.json", "training.max_steps=4"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), two.begin(), two.end());
    more.insert(more.end(), {"--overwrite"});
    return w.run(more);
  };
  ASSERT_EQ(with({}), 0) << w.says();
  EXPECT_NE(w.says().find("communication of rank 0 of 2, over TCP"), std::string::npos) << w.says();
  EXPECT_NE(w.says().find("bus Gbit/s"), std::string::npos) << w.says();
  const Json said = Json::parse(contents(w / "out/communication.json"));
  std::int64_t reduced = 0, sent = 0;
  for (const Json& row : said.at("collectives")) {
    EXPECT_GT(row.at("count"), 0);
    sent += row.at("sent_bytes").get<std::int64_t>();
    EXPECT_GE(row.at("seconds").get<double>(), row.at("least_seconds").get<double>());
    EXPECT_FALSE(row.contains("of"));
    if (row.at("collective") == "all_reduce") reduced += row.at("sent_bytes").get<std::int64_t>();
  }
  const Json last = rows(w / "out/log.jsonl").back();
  EXPECT_GT(reduced, 0);
  EXPECT_GE(sent / 4, last.at("sent_per_step").get<std::int64_t>());
  const std::string plain = contents(w / "out/adapter_model.safetensors");

  ASSERT_EQ(with({"logging.comms_logger.prof_all=false", "logging.comms_logger.prof_ops=[\"barrier\"]",
                  "logging.comms_logger.verbose=true", "logging.comms_logger.debug=true"}),
            0)
      << w.says();
  for (const Json& row : Json::parse(contents(w / "out/communication.json")).at("collectives")) {
    EXPECT_EQ(row.at("collective"), "barrier");
    EXPECT_TRUE(row.contains("of"));
  }
  EXPECT_EQ(contents(w / "out/adapter_model.safetensors"), plain);
  EXPECT_EQ(w.train({"--overwrite", "logging.comms_logger.prof_all=false"}), 2);
  EXPECT_NE(w.says().find("prof_ops names no collective"), std::string::npos) << w.says();
  ASSERT_EQ(w.train({"--overwrite"}), 0);
  EXPECT_NE(w.says().find("one rank communicates with no other"), std::string::npos) << w.says();
}

// The maximum over all phases is the run's memory.
TEST(Logging, ReportsTheMemoryOfEachPhase) {
  const Workplace plain("llama"), w("llama", {{"logging", {{"memory_breakdown", true}}}});
  ASSERT_EQ(plain.train({}), 0) << plain.says();
  ASSERT_EQ(w.train({}), 0) << w.says();
  EXPECT_EQ(contents(w / "out/adapter_model.safetensors"), contents(plain / "out/adapter_model.safetensors"));
  EXPECT_NE(w.says().find("most memory at the phases of a step"), std::string::npos) << w.says();
  const std::vector<Json> log = rows(w / "out/log.jsonl");
  double activations = 0;
  for (const Json& row : log)
    for (const char* phase : {"forward", "recompute", "backward", "reduce", "step"})
      if (row.contains("loss")) {
        activations =
            std::max(activations, row.at(std::string("memory/") + phase + "_activations").get<double>());
        EXPECT_TRUE(row.contains(std::string("memory/") + phase + "_scratch"));
      }
  EXPECT_EQ(activations, log.back().at("memory").at("activations"));
  EXPECT_GT(log[0].at("memory/backward_scratch"), 0);
}

TEST(Logging, PrintsLinesAsOftenAsAsked) {
  const Workplace w("llama", {{"training", {{"max_steps", 6}}}, {"logging", {{"logging_steps", 1}}}});
  ASSERT_EQ(w.train({"logging.progress=plain", "logging.steps_per_print=3"}), 0) << w.says();
  const std::string said = w.says();
  std::size_t lines = 0;
  for (std::size_t at = said.find("step "); at != said.npos; at = said.find("step ", at + 1))
    lines += at == 0 || said[at - 1] == '\n';
  EXPECT_EQ(lines, 2u) << said;
}

}  // namespace
}  // namespace ft::test
