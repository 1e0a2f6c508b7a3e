// Models that classify or embed, tested from outside: the same bits in every stage, after a resumption and
// with recomputation; one rank's losses on several; the planned bytes; results that ft reads again; mistakes.
#include <gtest/gtest.h>

#include "engine/files/safetensors/safetensors_write.h"
#include "tests/life/program.h"

namespace ft::test {
namespace {

using Words = std::vector<std::string>;

Json rows_of(const char* file) {
  return {{"datasets", {{{"path", file}}}}, {"eval_datasets", {{{"path", file}}}}, {"shuffle", true}};
}

Json configured(const char* file, const Json& objective, const Json& kind) {
  Json c = {{"objective", objective},
            {"data", rows_of(file)},
            {"evaluation", {{"eval_strategy", "epoch"}}},
            {"training",
             {{"per_device_train_batch_size", 2},
              {"gradient_accumulation_steps", 2},
              {"num_train_epochs", 2},
              {"learning_rate", 0.01}}}};
  c.merge_patch(kind);
  return c;
}

struct Place : Workplace {
  Place(const char* file, const Json& objective, const Json& kind = kLora)
      : Workplace("llama", configured(file, objective, kind)) {
    std::ofstream classes(*this / "classes.jsonl"), several(*this / "several.jsonl"),
        numbers(*this / "numbers.jsonl"), tokens(*this / "tokens.jsonl"), texts(*this / "texts.jsonl");
    for (int i = 0; i < 12; ++i) {
      const auto ids = [i](int n, int step) {
        std::vector<int> all{1};
        for (int t = 0; t < n; ++t) all.push_back(3 + (7 * i + step * t) % 56);
        return all;
      };
      const std::vector<int> text = ids(2 + i % 5, 11);
      classes << Json{{"input_ids", text}, {"label", i % 3 == 0 ? Json("red") : Json(i % 3)}}.dump() << "\n";
      several << Json{{"input_ids", text}, {"label", {i % 2, i / 2 % 2}}}.dump() << "\n";
      numbers << Json{{"input_ids", text}, {"label", 0.25 * (i % 5)}}.dump() << "\n";
      tokens << Json{{"input_ids", text}, {"labels", std::vector<int>(text.size(), i % 2)}}.dump() << "\n";
      texts << Json{{"anchor_ids", text}, {"positive_ids", ids(3, 5)}, {"negative_ids", ids(1 + i % 4, 17)}}
                   .dump()
            << "\n";
    }
  }
  int launch(int ranks, int stage, const std::string& out, Words more = {}) const {
    Words all{"launch",
              "-n",
              std::to_string(ranks),
              "train",
              "--config",
              "run.json",
              "zero_stage=" + std::to_string(stage),
              "training.output_dir=" + out,
              "zero_optimization.stage3_param_persistence_threshold=0"};
    all.insert(all.end(), more.begin(), more.end());
    return run(all);
  }
  std::string weights(const std::string& out = "out") const {
    const bool adapter = fs::exists(*this / out / "adapter_model.safetensors");
    return contents(*this / out / (adapter ? "adapter_model.safetensors" : "model.safetensors"));
  }
  Json last_evaluation(const std::string& out) const {
    Json last;
    for (Json& row : rows(*this / out / "log.jsonl"))
      if (row.contains("eval_loss")) last = row;
    return last;
  }
};

const Json kColours = {{"type", "classify"}, {"id2label", {"red", "green", "blue"}}};
const Json kSeveral = {
    {"type", "classify"}, {"num_labels", 2}, {"problem_type", "multi_label_classification"}};
const Json kTokens = {{"type", "classify"}, {"task_type", "TOKEN_CLS"}};
const Json kEmbed = {{"type", "embed"}, {"pooling_mode", "mean"}, {"matryoshka_dims", {16, 8}}};

struct Kind {
  const char* file;
  Json objective, kind;
};
std::vector<Kind> kinds() {
  return {{"classes.jsonl", kColours, kLora}, {"classes.jsonl", kColours, kQlora},
          {"several.jsonl", kSeveral, kFull}, {"tokens.jsonl", kTokens, kLora},
          {"texts.jsonl", kEmbed, kLora},     {"texts.jsonl", kEmbed, kFull}};
}

TEST(HeadsLife, StagesResumptionsAndRecomputationHaveTheSameBits) {
  for (const Kind& k : kinds()) {
    const Place w(k.file, k.objective, k.kind);
    const std::string what = k.objective.dump() + k.kind.dump();
    ASSERT_EQ(w.train({"checkpointing.save_strategy=steps", "checkpointing.save_steps=2"}), 0) << w.says();
    const std::string want = w.weights();
    ASSERT_EQ(w.train({"training.resume_from_checkpoint=out/checkpoint-2", "training.output_dir=out2"}), 0)
        << w.says();
    EXPECT_TRUE(w.weights("out2") == want) << what;
    ASSERT_EQ(w.train({"training.gradient_checkpointing=true", "training.output_dir=out3"}), 0) << w.says();
    EXPECT_TRUE(w.weights("out3") == want) << what;
    // Stage 2 adds up ranks before micro-batches, stage 0 after them.
    const std::string one = "training.gradient_accumulation_steps=1";
    ASSERT_EQ(w.launch(2, 0, "s0", {one}), 0) << w.says();
    for (const int stage : {2, 3}) {
      const std::string out = "s" + std::to_string(stage);
      ASSERT_EQ(w.launch(2, stage, out, {one}), 0) << w.says();
      EXPECT_EQ(w.last_evaluation(out)["eval_loss"], w.last_evaluation("s0")["eval_loss"]) << what << stage;
      EXPECT_TRUE(w.weights(out) == w.weights("s0")) << what << stage;
    }
  }
}

// Two ranks with two rows each have the losses of one rank with four, also if documents are negatives of the
// other rank's anchors.
TEST(HeadsLife, RanksHaveTheLossesOfOneRank) {
  for (const Kind& k : kinds()) {
    if (k.kind == kLora) continue;  // its dropout differs
    const Place w(k.file, k.objective, k.kind);
    ASSERT_EQ(w.train({"training.per_device_train_batch_size=4", "training.gradient_accumulation_steps=1"}),
              0)
        << w.says();
    ASSERT_EQ(w.launch(2, 2, "two", {"training.gradient_accumulation_steps=1"}), 0) << w.says();
    const auto one = losses(w / "out"), two = losses(w / "two");
    ASSERT_EQ(one.size(), two.size());
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(two[i], one[i], 2e-5 * (1 + std::abs(one[i]))) << k.objective.dump() << i;
  }
}

TEST(HeadsLife, PlansToTheByte) {
  for (const Kind& k : kinds()) {
    const Place w(k.file, k.objective, k.kind);
    ASSERT_EQ(w.train(), 0) << w.says();
    const Json measured = rows(w / "out/log.jsonl").back().at("memory");
    ASSERT_EQ(w.run({"plan", "--config", "run.json", "--json"}), 0) << w.says();
    expect_planned(Json::parse(contents(w / "stdout")), measured);
  }
}

// The plan has the largest micro-batch of all ranks, and the log the memory of rank 0: they are equal if rank
// 0 gets such a batch, as it does if all texts are of one length.
TEST(HeadsLife, PlansToTheByteOnTwoRanks) {
  for (const Json& kind : {kLora, kFull}) {
    const Place w("classes.jsonl", kColours, kind);
    std::ofstream classes(w / "classes.jsonl");
    for (int i = 0; i < 12; ++i)
      classes << Json{{"input_ids", {1, 3 + i, 5, 9, 20 + i}}, {"label", i % 3}}.dump() << "\n";
    classes.close();
    for (const int stage : {0, 1, 2, 3}) {
      const std::string out = "s" + std::to_string(stage);
      ASSERT_EQ(w.launch(2, stage, out), 0) << w.says();
      const Json measured = rows(w / out / "log.jsonl").back().at("memory");
      ASSERT_EQ(w.run({"plan", "--config", "run.json", "--json", "--ranks", "2",
                       "zero_stage=" + std::to_string(stage),
                       "zero_optimization.stage3_param_persistence_threshold=0"}),
                0)
          << w.says();
      expect_planned(Json::parse(contents(w / "stdout")), measured);
    }
  }
}

// ft eval and ft score give the same figures for a result and for its merged model.
TEST(HeadsLife, ResultsAreReadAgain) {
  for (const Kind& k : kinds()) {
    if (k.kind == kQlora) continue;
    const Place w(k.file, k.objective, k.kind);
    ASSERT_EQ(w.train(), 0) << w.says();
    const double trained = w.last_evaluation("out")["eval_loss"];
    const bool lora = k.kind == kLora;
    const auto evaluated = [&](const Words& more) {
      Words eval{"eval", "--config", "run.json", "--json"};
      eval.insert(eval.end(), more.begin(), more.end());
      EXPECT_EQ(w.run(eval), 0) << w.says();
      return Json::parse(contents(w / "stdout"))["eval_loss"].get<double>();
    };
    EXPECT_NEAR(evaluated(lora ? Words{"--adapter", "out"} : Words{"model.model_name_or_path=out"}), trained,
                1e-6);
    std::ofstream(w / "in.jsonl") << R"({"input_ids": [1, 5, 9, 20]})"
                                  << "\n"
                                  << R"({"input_ids": [1, 33]})"
                                  << "\n";
    const auto scored = [&](Words how, const char* out) {
      how.insert(how.begin(), "score");
      how.insert(how.end(), {"--input", "in.jsonl", "--output", out});
      EXPECT_EQ(w.run(how), 0) << w.says();
      return rows(w / out);
    };
    const std::vector<Json> own =
        scored(lora ? Words{"--model", "model", "--adapter", "out"} : Words{"--model", "out"}, "own.jsonl");
    ASSERT_EQ(own.size(), 2U);
    const char* key = k.objective["type"] == "embed" ? "embedding"
                      : k.objective == kTokens       ? "predictions"
                                                     : "scores";
    EXPECT_TRUE(own[0].contains(key)) << own[0].dump();
    if (!lora) continue;
    ASSERT_EQ(
        w.run({"merge", "--model", "model", "--adapter", "out", "--output", "merged", "--dtype", "float32"}),
        0)
        << w.says();
    const std::vector<Json> merged = scored({"--model", "merged"}, "merged.jsonl");
    const Json a = own[1][key].flatten(), b = merged[1][key].flatten();
    ASSERT_EQ(a.size(), b.size());
    for (const auto& [at, value] : a.items())
      if (value.is_number()) {
        EXPECT_NEAR(b[at].get<double>(), value.get<double>(), 1e-4) << at;
      }
  }
}

// Without run.json the rows of an adapter's score tell what it is, and ft says so.
TEST(HeadsLife, BareAdaptersAreKnownByTheirLabels) {
  const auto scored = [](const Place& w, const char* out) {
    std::ofstream(w / "in.jsonl") << R"({"input_ids": [1, 5, 9, 20]})"
                                  << "\n";
    EXPECT_EQ(
        w.run({"score", "--model", "model", "--adapter", "out", "--input", "in.jsonl", "--output", out}), 0)
        << w.says();
    return rows(w / out).at(0);
  };
  const auto says = [](const Place& w, const std::string& what) {
    EXPECT_NE(w.says().find(what), std::string::npos) << w.says();
  };
  {
    const Place w("classes.jsonl", {{"type", "classify"}, {"num_labels", 3}});
    std::ofstream(w / "classes.jsonl") << R"({"input_ids": [1, 5, 9], "label": 2})"
                                       << "\n";
    ASSERT_EQ(w.train({"data.eval_datasets=null", "evaluation.eval_strategy=no"}), 0) << w.says();
    const Json known = scored(w, "known.jsonl");
    fs::remove(w / "out/run.json");
    EXPECT_EQ(scored(w, "bare.jsonl"), known);
    EXPECT_EQ(known["scores"].size(), 3U);
    says(w, "with 3 labels it is taken for a model that classifies (objective.type=classify)");
    ASSERT_EQ(w.run({"merge", "--model", "model", "--adapter", "out", "--output", "merged"}), 0) << w.says();
    says(w, "with 3 labels it is taken for a model that classifies");
    EXPECT_EQ(Json::parse(contents(w / "merged/config.json"))["architectures"][0],
              "LlamaForSequenceClassification");
  }
  const Place w("numbers.jsonl", {{"type", "classify"}, {"num_labels", 1}});
  ASSERT_EQ(w.train(), 0) << w.says();
  const Json known = scored(w, "known.jsonl");
  fs::remove(w / "out/run.json");
  const Json bare = scored(w, "bare.jsonl");
  says(w, "no problem_type, so it is taken for a reward model (objective.type=reward)");
  EXPECT_EQ(bare["reward"], known["score"]) << bare.dump() << known.dump();
  fs::remove(w / "out/adapter_model.safetensors");
  write_safetensors(w / "out/adapter_model.safetensors", {{"other", DType::f32, {1}}}, {});
  EXPECT_EQ(w.run({"score", "--model", "model", "--adapter", "out", "--input", "in.jsonl", "--output", "no"}),
            3);
  says(w, "has no score.weight, which adapters of task_type SEQ_CLS have");
}

TEST(HeadsLife, AScoreIsAProbability) {
  const Place w("classes.jsonl", kColours, kFull);
  ASSERT_EQ(w.train({"training.num_train_epochs=30"}), 0) << w.says();
  ASSERT_EQ(w.run({"score", "--model", "out", "--input", "classes.jsonl", "--output", "scored.jsonl"}), 0)
      << w.says();
  int right = 0;
  for (const Json& row : rows(w / "scored.jsonl")) {
    double sum = 0;
    for (const auto& [name, p] : row["scores"].items()) sum += p.get<double>();
    EXPECT_NEAR(sum, 1, 1e-9);
    const std::string names[] = {"red", "green", "blue"};
    right +=
        row["prediction"] == (row["label"].is_string() ? row["label"] : Json(names[row["label"].get<int>()]));
  }
  EXPECT_GE(right, 10) << "thirty passes over twelve rows";
}

TEST(HeadsLife, MistakesAreNamed) {
  const Place w("classes.jsonl", kColours);
  const auto says = [&](const Words& overrides, const std::string& what, int code = 2) {
    EXPECT_EQ(w.train(overrides), code) << what;
    EXPECT_NE(w.says().find(what), std::string::npos) << w.says();
  };
  says({"objective.id2label=[\"red\", \"blue\"]"}, "is none of the 2 classes, 0 to 1", 3);
  says({"objective.num_labels=2"}, "has 3 names, and objective.num_labels is 2");
  says({"data.packing=true"}, "data.packing: batches of texts have no padding either way");
  says({"objective.type=embed", "objective.id2label=null"},
       "embed is for texts that belong together: contrast, contrast_tokenized");
  const Place texts("texts.jsonl", kEmbed);
  EXPECT_EQ(texts.train({"objective.matryoshka_dims=[4096]"}), 2);
  EXPECT_NE(texts.says().find("objective.matryoshka_dims: 4096 columns"), std::string::npos) << texts.says();
  ASSERT_EQ(texts.train(), 0) << texts.says();
  std::ofstream(texts / "out/modules.json")
      << R"([{"idx": 0, "type": "sentence_transformers.models.Dense"}])";
  EXPECT_EQ(texts.run({"score", "--model", "model", "--adapter", "out", "--input", "texts.jsonl", "--output",
                       "scored.jsonl"}),
            3);
  EXPECT_NE(texts.says().find("sentence_transformers.models.Dense"), std::string::npos) << texts.says();
}

}  // namespace
}  // namespace ft::test
