// Settings chosen from facts, without a model or data.
#include "app/begin/decisions.h"

#include <gtest/gtest.h>

#include <map>

#include "app/begin/begin.h"
#include "app/begin/savings.h"
#include "engine/core/error.h"

namespace ft {
namespace {

using namespace nlohmann::literals;

// A model of 135 M parameters and 8,192 positions, and 500 short samples, on a CPU.
BeginFacts usual() {
  BeginFacts f;
  f.parameters = 135'000'000;
  f.positions = 8192;
  f.samples = 500;
  f.lengths = {.p99 = 498, .longest = 700, .mean = 120};
  return f;
}

BeginFacts on_gpu() {
  BeginFacts f = usual();
  f.gpu = f.fast_bf16 = true;
  return f;
}

// The decisions, and the settings in effect with them.
struct Chosen {
  std::vector<Decision> all;
  std::map<std::string, Json> values;
  std::map<std::string, std::string> reasons;

  Chosen(const BeginFacts& facts, const Json& given = Json::object(), const Thrift& thrift = {})
      : all(decide(facts, given, thrift)) {
    for (const Decision& d : all) {
      EXPECT_TRUE(values.emplace(d.key, d.value).second) << d.key << " is chosen twice";
      EXPECT_FALSE(d.reason.empty() && d.key != "device") << d.key;
      reasons[d.key] = d.reason;
    }
  }
  Json operator[](const std::string& key) const {
    const auto it = values.find(key);
    return it == values.end() ? Json() : it->second;
  }
};

TEST(Decisions, LengthsAreOfMostSamplesAndWithinTheModel) {
  struct Case {
    std::int64_t p99, longest, positions, want;
    const char* reason;
  };
  for (const Case& c :
       {Case{498, 700, 8192, 512, "99 % of the samples have at most 498 tokens"},
        Case{512, 512, 8192, 512, "the longest sample has 512 tokens"},
        Case{513, 600, 0, 576, "99 % of the samples have at most 513 tokens"},
        Case{9000, 9100, 8192, 8192, "the model's limit; 99 % of the samples have at most 9,000 tokens"},
        Case{10, 10, 32, 32, "the model's limit; the longest sample has 10 tokens"}}) {
    BeginFacts f = usual();
    f.lengths.p99 = c.p99, f.lengths.longest = c.longest, f.positions = c.positions;
    const Chosen chosen(f);
    EXPECT_EQ(chosen["data.max_seq_length"], c.want);
    EXPECT_EQ(chosen.reasons.at("data.max_seq_length"), c.reason);
  }
}

TEST(Decisions, EncoderDecodersHaveTwoLengths) {
  BeginFacts f = usual();
  f.encoder_decoder = true;
  f.positions = 0;
  f.targets = {.p99 = 30, .longest = 30, .mean = 10};
  const Chosen chosen(f);
  EXPECT_EQ(chosen["data.max_source_length"], 512);
  EXPECT_EQ(chosen["data.max_target_length"], 64);
  EXPECT_EQ(chosen["data.max_seq_length"], Json());
  EXPECT_EQ(chosen["data.packing"], Json());
}

TEST(Decisions, RowsTellTheObjective) {
  struct Case {
    RowKind rows;
    bool encoder_decoder;
    const char* want;
  };
  for (const Case& c : {Case{RowKind::example, false, "sft"}, Case{RowKind::pair, false, "dpo"},
                        Case{RowKind::pair, true, "orpo"}, Case{RowKind::labelled, false, "kto"}}) {
    BeginFacts f = usual();
    f.rows = c.rows, f.encoder_decoder = c.encoder_decoder;
    EXPECT_EQ(Chosen(f)["objective.type"], c.want);
  }
  for (const RowKind rows : {RowKind::prompt, RowKind::rollout}) {
    BeginFacts f = usual();
    f.rows = rows;
    EXPECT_THROW(decide(f, Json::object()), UserError);
    EXPECT_EQ(Chosen(f, {{"objective", {{"type", "sft"}}}})["objective.type"], Json());
  }
  EXPECT_THROW(decide(usual(), {{"objective", {{"type", "grpo"}}}}), UserError);
}

TEST(Decisions, RatesDependOnMethodAndSize) {
  struct Case {
    double parameters;
    const char* method;
    RowKind rows;
    double want;
  };
  for (const Case& c :
       {Case{1.35e8, "lora", RowKind::example, 5e-4}, Case{7e9, "lora", RowKind::example, 2e-4},
        Case{1.35e8, "full", RowKind::example, 5e-5}, Case{7e9, "full", RowKind::example, 2e-5},
        Case{7e10, "full", RowKind::example, 1e-5}, Case{7e9, "lora", RowKind::pair, 1e-6}}) {
    BeginFacts f = usual();
    f.parameters = static_cast<std::int64_t>(c.parameters), f.rows = c.rows;
    const Chosen chosen(f, {{"finetuning_type", c.method}});
    EXPECT_EQ(chosen["training.learning_rate"], c.want) << c.parameters << " " << c.method;
    EXPECT_EQ(chosen["lora.r"], std::string(c.method) == "lora" ? Json(16) : Json());
  }
}

TEST(Decisions, AStepSuitsTheSamplesOnAnyRanks) {
  struct Case {
    std::int64_t samples;
    int ranks;
    std::int64_t micro, accumulation;
    double epochs, held_out;
  };
  for (const Case& c : {Case{12, 1, 4, 1, 10, 0}, Case{29, 1, 4, 1, 10, 2}, Case{500, 1, 4, 2, 5, 50},
                        Case{500, 2, 4, 1, 5, 50}, Case{500, 16, 1, 1, 5, 50}, Case{5000, 1, 4, 4, 3, 250},
                        Case{50'000, 4, 4, 2, 1, 256}}) {
    BeginFacts f = usual();
    f.samples = c.samples, f.ranks = c.ranks;
    const Chosen chosen(f);
    EXPECT_EQ(chosen["training.per_device_train_batch_size"], c.micro) << c.samples;
    EXPECT_EQ(chosen["training.gradient_accumulation_steps"], c.accumulation) << c.samples;
    EXPECT_EQ(chosen["training.num_train_epochs"], c.epochs) << c.samples;
    EXPECT_EQ(chosen["data.val_set_size"], c.held_out) << c.samples;
    EXPECT_EQ(chosen["evaluation.eval_strategy"], c.held_out > 0 ? Json("steps") : Json());
    EXPECT_EQ(chosen["evaluation.load_best_model_at_end"], c.held_out > 0 ? Json(true) : Json());
  }
}

TEST(Decisions, PacksOnlyWhereTheyHelp) {
  BeginFacts f = on_gpu();
  f.samples = 20'000, f.lengths = {.p99 = 2000, .longest = 2000, .mean = 250};
  const Chosen packed(f);
  EXPECT_EQ(packed["data.packing"], true);
  EXPECT_EQ(packed["training.per_device_train_batch_size"], 4);  // 32 samples in packs of 8
  EXPECT_EQ(packed["training.gradient_accumulation_steps"], 1);
  f.lengths.mean = 1500;
  EXPECT_EQ(Chosen(f)["data.packing"], false);
  f.lengths.mean = 250, f.gpu = false;
  EXPECT_EQ(Chosen(f)["data.packing"], false);
  f.gpu = true, f.rows = RowKind::pair;
  EXPECT_EQ(Chosen(f)["data.packing"], Json());
}

TEST(Decisions, KtoComparesRowsOfAMicroBatch) {
  BeginFacts f = usual();
  f.rows = RowKind::labelled, f.lengths.p99 = 4000;
  EXPECT_EQ(Chosen(f, {}, {.most_rows = 1})["training.per_device_train_batch_size"], 2);
}

TEST(Decisions, PrecisionIsOfTheDevice) {
  EXPECT_EQ(Chosen(usual())["training.bf16"], false);
  EXPECT_EQ(Chosen(on_gpu())["training.bf16"], true);
  EXPECT_EQ(Chosen(on_gpu())["device"], "cuda");
  BeginFacts f = usual();
  f.fast_bf16 = true;
  EXPECT_EQ(Chosen(f)["training.bf16"], true);
  EXPECT_EQ(Chosen(f)["device"], "cpu");
  EXPECT_EQ(Chosen(f, {{"training", {{"fp16", true}}}})["training.bf16"], Json());
}

TEST(Decisions, SavingsAreNamed) {
  BeginFacts f = usual();
  f.ranks = 2;
  const Chosen chosen(f, Json::object(), {.most_rows = 2, .bf16 = true, .zero_stage = 3});
  EXPECT_EQ(chosen["training.per_device_train_batch_size"], 2);
  EXPECT_NE(chosen.reasons.at("training.per_device_train_batch_size").find("more do not fit"),
            std::string::npos);
  EXPECT_EQ(chosen["training.gradient_accumulation_steps"], 2);
  EXPECT_EQ(chosen["training.bf16"], true);
  EXPECT_EQ(chosen["zero_optimization.stage"], 3);
}

TEST(Decisions, GivenSettingsAreKeptAndTheOthersSuitThem) {
  const Chosen chosen(usual(), R"({"training": {"per_device_train_batch_size": 1, "num_train_epochs": 1,
                                    "learning_rate": 1e-3},
                                   "lora": {"r": 4}, "data": {"max_seq_length": 128}})"_json);
  for (const char* key : {"training.per_device_train_batch_size", "training.num_train_epochs",
                          "training.learning_rate", "lora.r", "data.max_seq_length"})
    EXPECT_EQ(chosen[key], Json()) << key;
  EXPECT_EQ(chosen["training.gradient_accumulation_steps"], 8);
  EXPECT_EQ(chosen["lora.lora_alpha"], 8);
  EXPECT_EQ(Chosen(usual(), {{"training",
                              {{"gradient_accumulation_steps", 8}}}})["training.per_device_train_batch_size"],
            1);
}

TEST(Decisions, NothingIsChosenThatContradictsAGivenSetting) {
  const Chosen own_data(usual(), R"({"data": {"eval_datasets": [{"path": "x.jsonl"}]}})"_json);
  EXPECT_EQ(own_data["data.val_set_size"], Json());
  EXPECT_EQ(own_data["evaluation.eval_strategy"], "steps");
  const Chosen part(usual(), R"({"data": {"val_set_size": 0.1}})"_json);
  EXPECT_EQ(part["data.val_set_size"], Json());
  EXPECT_EQ(part["evaluation.eval_strategy"], "steps");
  const Chosen never(usual(), R"({"evaluation": {"eval_strategy": "no"}})"_json);
  EXPECT_EQ(never["evaluation.eval_steps"], Json());
  EXPECT_EQ(never["evaluation.load_best_model_at_end"], Json());
  const Chosen unsaved(usual(), R"({"checkpointing": {"save_strategy": "no"}})"_json);
  EXPECT_EQ(unsaved["checkpointing.save_steps"], Json());
  EXPECT_EQ(unsaved["evaluation.load_best_model_at_end"], Json());
  const Chosen short_one(usual(), R"({"training": {"max_steps": 3, "warmup_steps": 1}})"_json);
  EXPECT_EQ(short_one["training.num_train_epochs"], Json());
  EXPECT_EQ(short_one["training.warmup_ratio"], Json());
  EXPECT_EQ(short_one["logging.logging_steps"], 1);
  const Chosen words(usual(), R"({"training": {"bf16": "auto", "gradient_checkpointing": true}})"_json);
  EXPECT_EQ(words["training.bf16"], Json());
  const Chosen adapter(usual(), R"({"lora": {"adapter_name_or_path": "a"}})"_json);
  EXPECT_EQ(adapter["lora.r"], Json());
}

TEST(Decisions, HugeNumbersDoNotOverflow) {
  constexpr std::int64_t kHuge = 9'000'000'000'000'000'000;
  const Json training = {{"per_device_train_batch_size", kHuge},
                         {"gradient_accumulation_steps", kHuge},
                         {"num_train_epochs", 1e300}};
  const Chosen chosen(usual(), {{"training", training},
                                {"data", {{"val_set_size", 1e300}, {"max_seq_length", kHuge}}},
                                {"lora", {{"r", kHuge}}}});
  EXPECT_GT(chosen["lora.lora_alpha"], 0);
  EXPECT_EQ(chosen["training.learning_rate"], 5e-4);
}

TEST(Decisions, AreWrittenAsOverrides) {
  EXPECT_EQ((Decision{"training.learning_rate", 2e-5, ""}.assignment()), "training.learning_rate=2e-05");
  EXPECT_EQ((Decision{"lora.target_modules", "all-linear", ""}.assignment()),
            "lora.target_modules=all-linear");
}

// The first savings that fit are taken: smaller micro-batches before bfloat16, this before sharing.
TEST(Savings, AreAsFewAsTheMemoryNeeds) {
  struct Case {
    std::int64_t rows;  // the largest that fit
    bool needs_bf16;
    int needs_stage;
    std::int64_t want_rows, want_stage;
    bool want_bf16;
  };
  BeginFacts f = usual();
  f.ranks = 2;
  for (const Case& c :
       {Case{4, false, 0, 4, 0, false}, Case{2, false, 0, 2, 0, false}, Case{1, true, 0, 1, 0, true},
        Case{4, true, 0, 4, 0, true}, Case{2, true, 2, 2, 2, true}, Case{4, false, 3, 4, 3, false},
        Case{0, true, 3, 1, 3, true}}) {
    const auto fits = [&](const std::vector<Decision>& all) {
      std::int64_t rows = 0, stage = 0;
      bool bf16 = false;
      for (const Decision& d : all) {
        if (d.key == "training.per_device_train_batch_size") rows = d.value;
        if (d.key == "zero_optimization.stage") stage = d.value;
        if (d.key == "training.bf16") bf16 = d.value;
      }
      return rows <= c.rows && bf16 >= c.needs_bf16 && stage >= c.needs_stage;
    };
    const auto decided = [&](const Thrift& thrift) { return decide(f, Json::object(), thrift); };
    std::map<std::string, Json> got;
    for (const Decision& d : fewest_savings(decided, true, fits)) got[d.key] = d.value;
    EXPECT_EQ(got["training.per_device_train_batch_size"], c.want_rows);
    EXPECT_EQ(got["training.bf16"], c.want_bf16);
    EXPECT_EQ(got["zero_optimization.stage"], c.want_stage > 0 ? Json(c.want_stage) : Json());
  }
}

TEST(Facts, NinetyNinePercentAreAtMostThePercentile) {
  EXPECT_EQ(length_facts({}).longest, 0);
  EXPECT_EQ(length_facts({7}).p99, 7);
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 1; i <= 200; ++i) lengths.push_back(201 - i);
  const LengthFacts f = length_facts(lengths);
  EXPECT_EQ(f.p99, 198);
  EXPECT_EQ(f.longest, 200);
  EXPECT_DOUBLE_EQ(f.mean, 100.5);
}

TEST(Facts, TheOutputIsNamedAfterTheData) {
  EXPECT_EQ(default_output("bikes.jsonl"), "outputs/bikes");
  EXPECT_EQ(default_output("data/bikes.jsonl.gz"), "outputs/bikes");
  EXPECT_EQ(default_output("openai/gsm8k"), "outputs/gsm8k");
  EXPECT_EQ(default_output("data/bikes/"), "outputs/bikes");
  EXPECT_EQ(default_output("data/*.jsonl"), "outputs/run");
}

}  // namespace
}  // namespace ft
