// Distillation on answers that student and teacher give, tested from outside: the answers are those of ft
// generate; the same bits after a resumption, in any stage and with any number of ranks; planned memory and
// columns.
#include "tests/life/objectives/online_place.h"

namespace ft::test {
namespace {

// Sixteen examples of tokens, whose prompts have 1 to 4 tokens.
class OwnPlace : public AnsweringPlace {
 public:
  explicit OwnPlace(const Json& objective, const Json& kind = kLora, const char* model = "llama")
      : AnsweringPlace(model, config(objective, kind)) {
    std::ofstream out(*this / "rows.jsonl");
    for (int i = 0; i < 16; ++i) {
      const Json all = prompt(i);
      Json ids = all, labels(all.size(), -100);
      for (int t = 0; t < 2 + i % 3; ++t) {
        ids.push_back(3 + (5 * i + 13 * t) % 56);
        labels.push_back(ids.back());
      }
      out << Json{{"input_ids", ids}, {"labels", labels}}.dump() << "\n";
    }
  }
  static Json prompt(int i) {
    Json ids = {1};
    for (int t = 0; t < i % 4; ++t) ids.push_back(3 + (7 * i + 11 * t) % 56);
    return ids;
  }

 private:
  static Json config(const Json& objective, const Json& kind) {
    Json c = {{"objective",
               {{"type", "distill"},
                {"teacher_model_name_or_path", "teacher"},
                {"temperature", 1.5},
                {"max_completion_length", 5}}},
              {"data", {{"datasets", {{{"path", "rows.jsonl"}}}}, {"max_seq_length", 20}}},
              {"generation", {{"batch_size", 3}}},
              {"training",
               {{"per_device_train_batch_size", 2},
                {"gradient_accumulation_steps", 2},
                {"num_train_epochs", 2},
                {"learning_rate", 0.01}}}};
    c["objective"].merge_patch(objective);
    c.merge_patch(kind);
    return c;
  }
};

// Writes a teacher of the student's shape with other weights.
void write_teacher(const OwnPlace& w) {
  ASSERT_EQ(w.run({"init", "--config", "model/config.json", "--output", "teacher", "--seed", "7"}), 0)
      << w.says();
}

const Json kBoth = {{"lmbda", 0.5}, {"seq_kd", true}};

TEST(OnPolicyLife, AResumedRunHasTheSameBits) {
  for (const auto& [objective, kind] : {std::pair{Json{{"lmbda", 1}, {"beta", 1}}, kLora},
                                        std::pair{Json{{"lmbda", 0.5}}, kFull}, std::pair{kBoth, kLora}}) {
    const OwnPlace w(objective, kind);
    write_teacher(w);
    const std::vector<std::string> saving{"checkpointing.save_strategy=steps", "checkpointing.save_steps=3"};
    ASSERT_EQ(w.train(saving), 0) << w.says();
    const std::string want = w.weights();
    const auto log = w.log();
    ASSERT_EQ(log.size(), 8u);
    std::vector<std::string> again = saving;
    again.emplace_back("training.resume_from_checkpoint=out/checkpoint-3");
    ASSERT_EQ(w.train(again), 0) << w.says();
    EXPECT_TRUE(w.weights() == want) << objective;
    EXPECT_EQ(w.log(), log) << objective;
  }
}

TEST(OnPolicyLife, ResultsDoNotDependOnRanksAndStage) {
  const OwnPlace w(kBoth);
  write_teacher(w);
  const auto launched = [&](int stage) {
    const std::string out = "s" + std::to_string(stage);
    EXPECT_EQ(
        w.run({"launch", "-n", "2", "train", "--config", "run.json", "zero_stage=" + std::to_string(stage),
               "zero_optimization.stage3_param_persistence_threshold=0",
               "generation.batch_size=" + std::to_string(4 - stage), "training.gradient_accumulation_steps=1",
               "training.output_dir=" + out}),
        0)
        << w.says();
    return out;
  };
  ASSERT_EQ(w.train(), 0) << w.says();
  const std::string plain = launched(0), sharded = launched(3);
  EXPECT_TRUE(w.weights(plain) == w.weights(sharded));
  const auto one = w.log(), several = w.log(plain);
  ASSERT_EQ(one.size(), several.size());
  for (std::size_t i = 0; i < 3; ++i)
    for (const char* name : {"loss", "completions/mean_length"})
      if (one[i].contains(name)) {
        EXPECT_NEAR(one[i][name], several[i][name], 1e-5) << name << " " << i;
      }
}

// The answers of ft generate, as the data's answers, give the same first step. The end token is 2.
TEST(OnPolicyLife, AnswersAreThoseOfGenerate) {
  for (const bool taught : {false, true}) {
    const OwnPlace w(taught ? Json{{"lmbda", 0}, {"seq_kd", true}} : Json{{"lmbda", 1}});
    write_teacher(w);
    std::ofstream in(w / "in.jsonl");
    for (int i = 0; i < 16; ++i) in << Json{{"input_ids", OwnPlace::prompt(i)}}.dump() << "\n";
    in.close();
    ASSERT_EQ(w.run({"generate", "--model", taught ? "teacher" : "model", "--input", "in.jsonl", "--output",
                     "given.jsonl", "generation.do_sample=true", "generation.temperature=1.5",
                     "generation.top_k=0", "generation.max_new_tokens=5"}),
              0)
        << w.says();
    std::ofstream out(w / "answered.jsonl");
    int i = 0, ended = 0;
    double lengths = 0;
    for (const Json& row : rows(w / "given.jsonl")) {
      Json ids = OwnPlace::prompt(i++), labels(ids.size(), -100);
      Json answer = row["output_ids"];
      if (answer.size() < 5) answer.push_back(2), ++ended;
      lengths += double(answer.size()) / 16;
      for (const Json& id : answer) ids.push_back(id), labels.push_back(id);
      out << Json{{"input_ids", ids}, {"labels", labels}}.dump() << "\n";
    }
    out.close();
    const std::vector<std::string> one_step{"data.shuffle=false", "training.gradient_accumulation_steps=8",
                                            "training.max_steps=1"};
    ASSERT_EQ(w.train(one_step), 0) << w.says();
    const Json own = w.log()[0];
    std::vector<std::string> on_given = one_step;
    on_given.insert(on_given.end(),
                    {"objective={\"type\": \"distill\", \"teacher_model_name_or_path\": \"teacher\", "
                     "\"temperature\": 1.5}",
                     "data.datasets=[{\"path\": \"answered.jsonl\"}]", "training.output_dir=given"});
    ASSERT_EQ(w.train(on_given), 0) << w.says();
    const Json given = w.log("given")[0];
    EXPECT_EQ(own["loss"], given["loss"]) << taught;
    EXPECT_EQ(own["grad_norm"], given["grad_norm"]) << taught;
    EXPECT_TRUE(w.weights() == w.weights("given")) << taught;
    if (!taught) {
      EXPECT_NEAR(own["completions/mean_length"], lengths, 1e-9);
      EXPECT_NEAR(own["completions/clipped_ratio"], 1 - ended / 16.0, 1e-9);
    }
  }
}

TEST(OnPolicyLife, ThePlanCoversTheMeasurement) {
  for (const Json& objective : {Json{{"lmbda", 1}}, kBoth}) {
    const OwnPlace w(objective, kFull);
    write_teacher(w);
    expect_plan_covers(w);
  }
}

// The GPT-2 has 64 positions.
TEST(OnPolicyLife, AnswersEndAtTheModelsPositions) {
  const OwnPlace w(Json{{"lmbda", 1}, {"max_completion_length", 150}}, kLora, "gpt2");
  write_teacher(w);
  std::vector<std::string> longer{"data.max_seq_length=200", "training.max_steps=2"};
  ASSERT_EQ(w.train(longer), 0) << w.says();
  EXPECT_GT(w.log()[0]["completions/clipped_ratio"], 0) << "an answer fills the positions";
  Json labels(66, -100);
  labels.back() = 5;
  std::ofstream(w / "rows.jsonl", std::ios::app)
      << Json{{"input_ids", Json(66, 5)}, {"labels", labels}}.dump() << "\n";
  longer.emplace_back("training.output_dir=refused");
  EXPECT_EQ(w.train(longer), 3);
  EXPECT_NE(
      w.says().find("the model has 64 positions, and a prompt of 65 tokens leaves none for an answer; set "
                    "data.max_seq_length to at most 64"),
      std::string::npos)
      << w.says();
}

TEST(OnPolicyLife, ExamplesWithoutAPromptAreRefused) {
  for (const char* setting : {"lmbda", "seq_kd"}) {
    const OwnPlace w(Json{{setting, setting == std::string("lmbda") ? Json(0.5) : Json(true)}});
    write_teacher(w);
    std::ofstream(w / "rows.jsonl", std::ios::app) << Json{{"input_ids", {5, 6, 7}}}.dump() << "\n";
    EXPECT_EQ(w.train(), 3);
    EXPECT_NE(w.says().find(std::string("objective.") + setting +
                            ": rows.jsonl:17 has no prompt: all of it is trained on; give prompt and answer "
                            "columns, or leave objective." +
                            setting + " out"),
              std::string::npos)
        << w.says();
  }
}

TEST(OnPolicyLife, EvaluationsAreOfTheDatasAnswers) {
  const OwnPlace w(Json{{"lmbda", 1}});
  write_teacher(w);
  const std::vector<std::string> held{"data.eval_datasets=[{\"path\": \"rows.jsonl\"}]",
                                      "evaluation.eval_strategy=steps", "evaluation.eval_steps=1",
                                      "training.max_steps=1", "training.learning_rate=1e-12"};
  ASSERT_EQ(w.train(held), 0) << w.says();
  std::vector<std::string> plain = held;
  plain.insert(plain.end(),
               {"objective.lmbda=0", "objective.max_completion_length=null", "training.output_dir=plain"});
  ASSERT_EQ(w.train(plain), 0) << w.says();
  const auto loss = [&](const std::string& out) {
    for (const Json& row : rows(w / out / "log.jsonl"))
      if (row.contains("eval_loss")) return row["eval_loss"].get<double>();
    return -1.0;
  };
  EXPECT_GT(loss("out"), 0);
  EXPECT_NEAR(loss("out"), loss("plain"), 1e-6);
}

}  // namespace
}  // namespace ft::test
