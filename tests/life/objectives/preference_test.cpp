// Preference objectives, tested from outside: the same bits after a resumption, in every stage, and with a
// reference that is computed during training or before; the plan equals the measurement; files that a run
// writes can be read again.
#include <gtest/gtest.h>

#include <random>

#include "tests/life/program.h"

namespace ft::test {
namespace {

std::vector<int> some_ids(std::mt19937& random, int most) {
  std::vector<int> ids(2 + random() % std::size_t(most - 1));
  for (int& id : ids) id = 3 + int(random() % 56);
  return ids;
}

// Writes rows for the objective: pairs, answers with a label or, in groups of two, with a reward, or
// examples.
void write_rows(const fs::path& file, const std::string& type) {
  std::mt19937 random(5);
  std::ofstream out(file);
  std::vector<int> prompt;
  for (int i = 0; i < 16; ++i) {
    if (type != "grpo" || i % 2 == 0) prompt = some_ids(random, 6);
    Json row = {{"prompt_ids", prompt}};
    if (type == "kto" || type == "grpo") {
      row["completion_ids"] = some_ids(random, 5);
      if (type == "kto") row["label"] = i % 3 == 0;
      if (type == "grpo") row["reward"] = double(i % 5) / 4;
    } else {
      row["chosen_ids"] = some_ids(random, 5);
      row["rejected_ids"] = some_ids(random, 7);
    }
    if (type == "distill" || type == "sft") row = {{"input_ids", some_ids(random, 12)}};
    out << row.dump() << "\n";
  }
}

class PreferencePlace : public Workplace {
 public:
  PreferencePlace(const Json& objective, const Json& kind) : Workplace("llama", config(objective, kind)) {
    write_rows(*this / "rows.jsonl", objective["type"]);
  }
  std::string weights(const std::string& out = "out") const {
    const bool adapter = fs::exists(*this / out / "adapter_model.safetensors");
    return contents(*this / out / (adapter ? "adapter_model.safetensors" : "model.safetensors"));
  }
  // Returns the log's rows, without values that depend on the clock.
  std::vector<Json> log(const std::string& out = "out") const {
    std::vector<Json> all;
    for (Json row : rows(*this / out / "log.jsonl")) {
      if (!row.contains("loss")) continue;
      for (const char* clock : {"tokens_per_second", "time"}) row.erase(clock);
      all.push_back(row);
    }
    return all;
  }

 private:
  static Json config(const Json& objective, const Json& kind) {
    Json c = {{"objective", objective},
              {"data", {{"datasets", {{{"path", "rows.jsonl"}}}}, {"max_seq_length", 48}}},
              {"training", {{"per_device_train_batch_size", 2}, {"num_train_epochs", 1}}}};
    c.merge_patch(kind);
    return c;
  }
};

// Writes a tokenizer with one token for each letter: a is 3.
void write_tokenizer(const fs::path& folder) {
  Json letters = {{"<pad>", 0}, {"<unk>", 1}, {"</s>", 2}};
  for (int i = 0; i < 26; ++i) {
    letters[std::string(1, char('a' + i))] = 3 + i;
    letters[std::string(1, char('A' + i))] = 29 + i;
  }
  for (int i = 0; i < 4; ++i) letters[std::string(1, char('0' + i))] = 55 + i;
  const Json end = {{"id", 2},         {"content", "</s>"}, {"special", true},    {"single_word", false},
                    {"lstrip", false}, {"rstrip", false},   {"normalized", false}};
  const Json model = {{"type", "BPE"}, {"vocab", letters}, {"merges", Json::array()}, {"unk_token", "<unk>"}};
  fs::create_directories(folder);
  std::ofstream(folder / "tokenizer.json") << Json{{"added_tokens", {end}}, {"model", model}}.dump();
  std::ofstream(folder / "tokenizer_config.json") << R"({"eos_token": "</s>", "pad_token": "<pad>"})";
}

struct ObjectiveCase {
  const char* name;
  Json objective, kind;
};

std::vector<ObjectiveCase> objective_cases() {
  const Json distill = {{"type", "distill"}, {"teacher_model_name_or_path", "model"}, {"temperature", 2}};
  return {{"dpo", {{"type", "dpo"}, {"loss_type", {"sigmoid", "sft"}}}, kLora},
          {"dpo full", {{"type", "dpo"}}, kFull},
          {"dpo qlora", {{"type", "dpo"}}, kQlora},
          {"kto", {{"type", "kto"}}, kLora},
          {"kto full", {{"type", "kto"}}, kFull},
          {"orpo", {{"type", "orpo"}}, kLora},
          {"simpo", {{"type", "simpo"}}, kFull},
          {"reward", {{"type", "reward"}}, kLora},
          {"grpo", {{"type", "grpo"}, {"num_generations", 2}, {"num_iterations", 2}, {"beta", 0.1}}, kFull},
          {"cispo",
           {{"type", "grpo"}, {"loss_type", "cispo"}, {"num_generations", 2}, {"epsilon_high", 2}},
           kLora},
          {"sapo",
           {{"type", "grpo"}, {"loss_type", "sapo"}, {"num_generations", 2}, {"num_iterations", 2}},
           kLora},
          {"dft", {{"type", "sft"}, {"loss_type", "dft"}}, kLora},
          {"distill", distill, kLora}};
}

TEST(PreferenceLife, AResumedRunHasTheSameBits) {
  for (const ObjectiveCase& c : objective_cases()) {
    const PreferencePlace w(c.objective, c.kind);
    const std::vector<std::string> saving{"checkpointing.save_strategy=steps", "checkpointing.save_steps=3"};
    ASSERT_EQ(w.train(saving), 0) << c.name << w.says();
    const std::string want = w.weights();
    ASSERT_FALSE(want.empty());
    const auto log = w.log();
    std::vector<std::string> again = saving;
    again.emplace_back("training.resume_from_checkpoint=out/checkpoint-3");
    ASSERT_EQ(w.train(again), 0) << c.name << w.says();
    EXPECT_TRUE(w.weights() == want) << c.name;
    EXPECT_EQ(w.log(), log) << c.name;
  }
}

TEST(PreferenceLife, StagesTrainEqually) {
  for (const ObjectiveCase& c : objective_cases()) {
    const PreferencePlace w(c.objective, c.kind);
    const auto launched = [&](int stage) {
      const std::string out = "stage" + std::to_string(stage);
      return w.run({"launch", "-n", "2", "train", "--config", "run.json",
                    "zero_stage=" + std::to_string(stage),
                    "zero_optimization.stage3_param_persistence_threshold=0", "training.output_dir=" + out});
    };
    ASSERT_EQ(launched(0), 0) << c.name << w.says();
    for (const int stage : {2, 3}) {
      ASSERT_EQ(launched(stage), 0) << c.name << w.says();
      const std::string out = "stage" + std::to_string(stage);
      EXPECT_TRUE(w.weights(out) == w.weights("stage0")) << c.name << " stage " << stage;
    }
    if (c.objective.at("type") == "kto")
      continue;  // its kl and mismatched pairs depend on the micro-batch, as in TRL
    ASSERT_EQ(w.train({"training.gradient_accumulation_steps=2"}), 0) << c.name << w.says();
    const auto one = losses(w / "out"), two = losses(w / "stage0");
    ASSERT_EQ(one.size(), two.size()) << c.name;
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(one[i], two[i], 1e-5 * (1 + std::abs(one[i]))) << c.name << " step " << i;
  }
}

// The data is read during training, in chunks; the last chunk of a pass is short. Rows that belong together
// stay together, two ranks get the same rows as one, and a resumed run goes on at its place.
TEST(PreferenceLife, AStreamIsTheSameForAllRanksAndResumes) {
  for (const ObjectiveCase& c : objective_cases()) {
    if (c.objective.at("type") == "grpo") continue;  // refused: a step weighs its answers together
    const PreferencePlace w(c.objective, c.kind);
    const std::vector<std::string> streamed{"data.streaming=true", "data.shuffle_buffer_size=6",
                                            "training.max_steps=7", "checkpointing.save_strategy=steps",
                                            "checkpointing.save_steps=4"};
    std::vector<std::string> two{
        "launch", "-n", "2", "train", "--config", "run.json", "training.output_dir=two"};
    two.insert(two.end(), streamed.begin(), streamed.end());
    ASSERT_EQ(w.run(two), 0) << c.name << w.says();
    const std::string want = w.weights("two");
    const std::vector<double> both = losses(w / "two");
    ASSERT_EQ(both.size(), 7u) << c.name;
    two.emplace_back("training.resume_from_checkpoint=two/checkpoint-4");
    ASSERT_EQ(w.run(two), 0) << c.name << w.says();
    EXPECT_TRUE(w.weights("two") == want) << c.name;
    EXPECT_EQ(losses(w / "two"), both) << c.name;
    if (c.objective.at("type") == "kto") continue;  // see above
    std::vector<std::string> one = streamed;
    one.emplace_back("training.gradient_accumulation_steps=2");
    ASSERT_EQ(w.train(one), 0) << c.name << w.says();
    const std::vector<double> alone = losses(w / "out");
    ASSERT_EQ(alone.size(), 7u) << c.name;
    for (std::size_t i = 0; i < alone.size(); ++i)
      EXPECT_NEAR(alone[i], both[i], 1e-5 * (1 + std::abs(alone[i]))) << c.name << " step " << i;
  }
}

// A step's columns are computed from the rows and tokens of all ranks together, as TRL gathers them. An
// evaluation's columns are computed from its batches, whichever ranks take them.
TEST(PreferenceLife, ColumnsAreOfAllRanksTogether) {
  const Json unpaired = {{"type", "kto"}, {"loss_type", "apo_zero_unpaired"}};
  for (const Json& objective :
       {Json{{"type", "dpo"}}, unpaired, Json{{"type", "simpo"}}, Json{{"type", "reward"}}}) {
    const PreferencePlace w(objective, kLora);
    const std::vector<std::string> eval{"data.shuffle=false", R"(data.eval_datasets=[{"path":"rows.jsonl"}])",
                                        "evaluation.eval_strategy=epoch",
                                        "training.per_device_eval_batch_size=3"};
    ASSERT_EQ(w.run({"launch", "-n", "2", "train", "--config", "run.json", "training.output_dir=two", eval[0],
                     eval[1], eval[2], eval[3]}),
              0)
        << w.says();
    std::vector<std::string> alone = eval;
    alone.emplace_back("training.per_device_train_batch_size=4");
    ASSERT_EQ(w.train(alone), 0) << w.says();
    const auto one = rows(w / "out/log.jsonl"), two = rows(w / "two/log.jsonl");
    ASSERT_EQ(one.size(), two.size());
    int compared = 0;
    for (std::size_t i = 0; i + 1 < one.size(); ++i)  // the last row is the summary
      for (const auto& [name, value] : one[i].items()) {
        if (name.find('/') == std::string::npos && name.find("reward") == std::string::npos) continue;
        ASSERT_TRUE(two[i].contains(name)) << objective << name;
        EXPECT_NEAR(value, two[i][name].get<double>(), 1e-4 * (1 + std::abs(value.get<double>())))
            << objective << name;
        ++compared;
      }
    EXPECT_GT(compared, 14) << objective;
  }
}

TEST(PreferenceLife, AnEvaluationOfDistillationWeighsBatchesBySequences) {
  const Json kd = {{"type", "distill"}, {"teacher_model_name_or_path", "model"}, {"loss_type", "kd"}};
  const PreferencePlace w(kd, kFull);
  const std::string brief = R"({"input_ids": [5, 9, 7]})",
                    lengthy = R"({"input_ids": [8, 3, 40, 6, 31, 22, 9]})";
  std::ofstream(w / "brief.jsonl") << brief << "\n";
  std::ofstream(w / "lengthy.jsonl") << lengthy << "\n";
  std::ofstream(w / "both.jsonl") << brief << "\n" << lengthy << "\n";
  const auto loss = [&](const std::string& file, int batch) {
    EXPECT_EQ(
        w.run({"eval", "--config", "run.json", "--json", "data.eval_datasets=[{\"path\":\"" + file + "\"}]",
               "training.per_device_eval_batch_size=" + std::to_string(batch)}),
        0)
        << w.says();
    return Json::parse(contents(w / "stdout")).at("eval_loss").get<double>();
  };
  const double a = loss("brief.jsonl", 1), b = loss("lengthy.jsonl", 1);
  EXPECT_GT(std::abs(a - b), 0.01);
  EXPECT_NEAR(loss("both.jsonl", 1), (a + b) / 2, 1e-6);
  EXPECT_NEAR(loss("both.jsonl", 2), (2 * a + 6 * b) / 8, 1e-6);
}

TEST(PreferenceLife, ThePlanEqualsTheMeasurement) {
  for (const ObjectiveCase& c : objective_cases()) {
    const PreferencePlace w(c.objective, c.kind);
    ASSERT_EQ(w.run({"plan", "--config", "run.json", "--json"}), 0) << c.name << w.says();
    const Json planned = Json::parse(contents(w / "stdout"));
    ASSERT_EQ(w.train(), 0) << c.name << w.says();
    const Json measured = rows(w / "out/log.jsonl").back().at("memory");
    for (const char* name : {"weights", "gradients", "optimizer", "activations", "scratch", "total"})
      EXPECT_EQ(planned.at(name), measured.at(name)) << c.name << " " << name;
  }
}

TEST(PreferenceLife, AReferenceComputedBeforeIsTheSame) {
  for (const Json& kind : {kFull, kLora}) {
    const PreferencePlace w({{"type", "dpo"}, {"ld_alpha", 0.5}}, kind);
    const std::vector<std::string> eval{"evaluation.eval_strategy=epoch", "data.val_set_size=3"};
    ASSERT_EQ(w.train(eval), 0) << w.says();
    std::vector<std::string> before = eval;
    before.insert(before.end(), {"objective.precompute_ref_log_probs=true", "training.output_dir=before"});
    ASSERT_EQ(w.train(before), 0) << w.says();
    EXPECT_TRUE(w.weights("before") == w.weights());
    EXPECT_EQ(w.log("before"), w.log());
  }
}

// The reference's log probabilities are stored, and reused while settings and data are the same.
TEST(PreferenceLife, AReferenceIsComputedOnce) {
  for (const Json& kind : {kFull, kLora}) {
    const PreferencePlace w({{"type", "dpo"}, {"precompute_ref_log_probs", true}}, kind);
    const fs::path file = w / "out/reference.safetensors";
    const auto says = [&](const char* words) { return w.says().find(words) != std::string::npos; };
    const std::vector<std::string> always{"logging.progress=plain", "checkpointing.save_strategy=steps",
                                          "checkpointing.save_steps=3"};
    const auto run = [&](std::vector<std::string> more, bool launched = false) {
      more.insert(more.begin(), always.begin(), always.end());
      more.insert(more.begin(), {"train", "--config", "run.json"});
      if (launched) more.insert(more.begin(), {"launch", "-n", "2"});
      return w.run(more);
    };
    ASSERT_EQ(run({}), 0) << w.says();
    EXPECT_FALSE(says("reference: read")) << w.says();
    const std::string want = w.weights(), kept = contents(file);
    const auto log = w.log();
    ASSERT_FALSE(kept.empty());

    ASSERT_EQ(run({"training.resume_from_checkpoint=out/checkpoint-3"}), 0) << w.says();
    EXPECT_TRUE(says("reference: read from out/reference.safetensors")) << w.says();
    EXPECT_TRUE(w.weights() == want && w.log() == log);
    ASSERT_EQ(run({"--overwrite", "objective.beta=0.3"}), 0) << w.says();
    EXPECT_TRUE(says("reference: read")) << w.says();

    std::string damaged = kept;
    damaged[damaged.size() - 20] = static_cast<char>(damaged[damaged.size() - 20] ^ 1);
    for (const std::string& bytes : {damaged, kept.substr(0, 100), std::string()}) {
      std::ofstream(file, std::ios::binary) << bytes;
      ASSERT_EQ(run({"--overwrite"}), 0) << w.says();
      EXPECT_TRUE(says("is damaged: computed again")) << w.says();
      EXPECT_TRUE(w.weights() == want && contents(file) == kept);
    }
    ASSERT_EQ(run({"--overwrite", "objective.ld_alpha=0.5"}), 0) << w.says();
    EXPECT_TRUE(says("is of other settings: computed again")) << w.says();
    ASSERT_EQ(run({"--overwrite", "data.max_seq_length=8"}), 0) << w.says();
    EXPECT_TRUE(says("is of other data: computed again")) << w.says();

    // Several runs share a folder; one of them has two ranks.
    const std::string shared = "data.dataset_prepared_path=shared";
    ASSERT_EQ(run({shared, "training.output_dir=one", "training.gradient_accumulation_steps=2"}), 0)
        << w.says();
    EXPECT_FALSE(says("reference: read")) << w.says();
    ASSERT_EQ(run({shared, "training.output_dir=two"}, true), 0) << w.says();
    EXPECT_TRUE(says("reference: read from shared/reference-")) << w.says();
    EXPECT_EQ(losses(w / "one").size(), losses(w / "two").size());
  }
}

// A student that is its own teacher has nothing to learn.
TEST(PreferenceLife, AStudentThatIsItsTeacherHasNoLoss) {
  const PreferencePlace w({{"type", "distill"}, {"teacher_model_name_or_path", "model"}}, kLora);
  ASSERT_EQ(w.train({"training.learning_rate=1e-12"}), 0) << w.says();
  for (const double loss : losses(w / "out")) EXPECT_NEAR(loss, 0, 1e-6);
}

TEST(PreferenceLife, ARewardModelCanScore) {
  for (const Json& kind : {kLora, kFull}) {
    const PreferencePlace w({{"type", "reward"}}, kind);
    ASSERT_EQ(w.train(), 0) << w.says();
    const Json pair = rows(w / "rows.jsonl").front();
    std::vector<int> ids = pair["prompt_ids"];
    for (const int id : pair["chosen_ids"]) ids.push_back(id);
    std::ofstream(w / "in.jsonl") << Json{{"input_ids", ids}, {"name", "x"}}.dump() << "\n";
    const bool adapter = kind == kLora;
    std::vector<std::string> score{"score",    "--model", adapter ? "model" : "out", "--input", "in.jsonl",
                                   "--output", "s.jsonl"};
    if (adapter) score.insert(score.end(), {"--adapter", "out"});
    ASSERT_EQ(w.run(score), 0) << w.says();
    const std::vector<Json> scored = rows(w / "s.jsonl");
    ASSERT_EQ(scored.size(), 1u);
    EXPECT_EQ(scored[0]["name"], "x");
    EXPECT_TRUE(scored[0]["reward"].is_number());
    EXPECT_EQ(w.run(score), 2) << "the file is there already";
    if (adapter) continue;
    const Json written = Json::parse(contents(w / "out/config.json"));
    EXPECT_EQ(written["architectures"], Json::array({"LlamaForSequenceClassification"}));
    EXPECT_EQ(written["id2label"].size(), 1u);
    EXPECT_EQ(w.run({"score", "--model", "model", "--input", "in.jsonl", "--output", "t.jsonl"}), 3)
        << "a model without a score";
  }
}

// The base has no tokenizer, so the adapter's is used.
TEST(PreferenceLife, AnAdaptersTokenizerIsUsedForScoring) {
  const PreferencePlace w({{"type", "reward"}}, kLora);
  ASSERT_EQ(w.train(), 0) << w.says();
  std::ofstream(w / "in.jsonl") << R"({"prompt": "cd", "completion": "ef"})"
                                << "\n"
                                << R"({"input_ids": [5, 6, 7, 8, 2]})"
                                << "\n";
  const auto score = [&] {
    return w.run({"score", "--model", "model", "--adapter", "out", "--input", "in.jsonl", "--output",
                  "s.jsonl", "--overwrite"});
  };
  EXPECT_EQ(score(), 3) << "no tokenizer";
  write_tokenizer(w / "out");
  ASSERT_EQ(score(), 0) << w.says();
  const std::vector<Json> scored = rows(w / "s.jsonl");
  ASSERT_EQ(scored.size(), 2u);
  EXPECT_EQ(scored[0]["reward"], scored[1]["reward"]);
}

TEST(PreferenceLife, ATeacherWithAnotherTokenizerIsRefused) {
  const PreferencePlace w({{"type", "distill"}, {"teacher_model_name_or_path", "teacher"}}, kLora);
  fs::create_directory(w / "teacher");
  for (const auto& entry : fs::directory_iterator(w / "model"))
    fs::copy_file(entry.path(), w / "teacher" / entry.path().filename());
  write_tokenizer(w / "teacher");
  write_tokenizer(w / "letters");
  const std::vector<std::string> own{"model.tokenizer_name_or_path=letters"};
  EXPECT_EQ(w.train(own), 0) << w.says();
  std::string other = contents(w / "teacher/tokenizer.json");
  other.replace(other.find("\"g\":"), 4, "\"#\":");
  std::ofstream(w / "teacher/tokenizer.json") << other;
  EXPECT_EQ(w.train({own[0], "training.output_dir=again"}), 2);
  EXPECT_NE(w.says().find("has another tokenizer: token 9 is \"#\""), std::string::npos) << w.says();
}

// With every token of the vocabulary, the file gives the same losses as the teacher.
TEST(PreferenceLife, ATeachersFileIsAsGoodAsTheTeacher) {
  const std::string teacher = source_path("tests/golden/models/llama-gqa/model");
  const Json distill = {{"type", "distill"}, {"temperature", 2}, {"beta", 0.3}};
  // no dropout, because it depends on the micro-batch
  const PreferencePlace w(distill, {{"lora", {{"r", 4}}}});
  const std::string file = "objective.teacher_file=t.safetensors";
  const std::vector<std::string> eval{"evaluation.eval_strategy=epoch", "data.val_set_size=3"};
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.end(), eval.begin(), eval.end());
    return w.train(more);
  };
  const auto teach = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"teach", "--config", "run.json", "--model", teacher, file});
    more.insert(more.end(), eval.begin(), eval.end());
    return w.run(more);
  };
  const auto close = [&](const std::string& out) {
    const auto want = losses(w / "live"), is = losses(w / out);
    ASSERT_EQ(is.size(), want.size()) << out;
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(is[i], want[i], 1e-6) << out << " step " << i;
  };
  ASSERT_EQ(train({"objective.teacher_model_name_or_path=" + teacher, "training.output_dir=live"}), 0)
      << w.says();
  ASSERT_EQ(teach({"--top-k", "59"}), 0) << w.says();
  ASSERT_EQ(train({file, "training.output_dir=filed"}), 0) << w.says();
  close("filed");
  ASSERT_EQ(w.run({"launch", "-n", "2", "train", "--config", "run.json", file, eval[0], eval[1],
                   "zero_stage=3", "training.per_device_train_batch_size=1", "training.output_dir=ranks"}),
            0)
      << w.says();
  close("ranks");
  ASSERT_EQ(train({file, "training.num_train_epochs=2", "data.packing=true", "data.max_seq_length=64",
                   "training.output_dir=packed"}),
            0)
      << w.says();

  EXPECT_EQ(teach({}), 2) << "the file is there already";
  ASSERT_EQ(teach({"--top-k", "7", "--overwrite", "--load-in-4bit"}), 0) << w.says();
  const std::string kept = contents(w / "t.safetensors");
  ASSERT_EQ(train({file, "training.output_dir=few", "training.bf16=true"}), 0) << w.says();
  for (const double loss : losses(w / "few")) EXPECT_TRUE(std::isfinite(loss) && loss > 0);
  EXPECT_EQ(train({file, "data.max_seq_length=5", "training.output_dir=other"}), 3);
  EXPECT_NE(w.says().find("was made from other data"), std::string::npos) << w.says();
  for (const std::string& bytes : {kept.substr(0, 200), kept.substr(0, kept.size() - 1), std::string("{}")}) {
    std::ofstream(w / "t.safetensors", std::ios::binary) << bytes;
    EXPECT_EQ(train({file, "training.output_dir=other"}), 3) << w.says();
  }
  EXPECT_EQ(train({file, "objective.teacher_model_name_or_path=model"}), 2);
  EXPECT_EQ(w.train({"objective.type=sft"}), 2) << "beta and temperature are of distill";
  EXPECT_FALSE(fs::exists(w / "other"));
}

// The answers to held-out prompts, before training and at its end.
TEST(PreferenceLife, SamplesBeforeAndAfterAreShown) {
  const PreferencePlace w({{"type", "dpo"}}, kLora);
  write_tokenizer(w / "letters");
  {
    std::ofstream out(w / "rows.jsonl");
    for (const char* prompt : {"abc", "bcd", "cde", "def", "efg", "fgh"})
      out << Json{{"prompt", prompt}, {"chosen", "xyz"}, {"rejected", "zyxw"}}.dump() << "\n";
  }
  const std::vector<std::string> settings{"model.tokenizer_name_or_path=letters",
                                          "data.val_set_size=3",
                                          "evaluation.predict_with_generate=true",
                                          "evaluation.eval_strategy=epoch",
                                          "generation.max_new_tokens=5",
                                          "logging.progress=plain",
                                          "training.learning_rate=0.03"};
  ASSERT_EQ(w.train(settings), 0) << w.says();
  const Json samples = Json::parse(contents(w / "out/samples.json"));
  ASSERT_EQ(samples.size(), 3u);
  for (const Json& s : samples) {
    EXPECT_EQ(s["expected"], "x y z");
    EXPECT_NE(w.says().find("after   "), std::string::npos);
  }
  EXPECT_NE(w.says().find("prompt  " + samples[0]["prompt"].get<std::string>()), std::string::npos);
  EXPECT_NE(w.says().find("before  "), std::string::npos) << w.says();
  EXPECT_NE(w.says().find("accuracy "), std::string::npos) << w.says();
  EXPECT_NE(contents(w / "out/loss.svg").find(">rewards<"), std::string::npos);
  const Json results = Json::parse(contents(w / "out/predict_results.json"));
  std::vector<Json> evaluations;
  for (const Json& row : rows(w / "out/log.jsonl"))
    if (row.contains("eval_loss")) evaluations.push_back(row);
  ASSERT_FALSE(evaluations.empty());
  EXPECT_EQ(results["predict_loss"], evaluations.back()["eval_loss"]);
  EXPECT_EQ(w.train({"objective.type=reward", "evaluation.predict_with_generate=true", "data.val_set_size=3",
                     "--overwrite"}),
            2);
}

TEST(PreferenceLife, MeaninglessSettingsAreRefused) {
  const PreferencePlace w({{"type", "dpo"}}, kLora);
  const std::pair<std::vector<std::string>, const char*> refused[] = {
      {{"objective.type=ppo"}, "set what rewards the answers"},
      {{"objective.cpo_alpha=1"}, "objective.cpo_alpha"},
      {{"data.packing=true"}, "data.packing"},
      {{"training.label_smoothing_factor=0.1"}, "training.label_smoothing_factor"},
      {{"objective.type=kto", "evaluation.predict_with_generate=true"}, "evaluation.predict_with_generate"},
      {{"objective.type=kto", "training.per_device_train_batch_size=1"},
       "training.per_device_train_batch_size: KTO"},
      {{"objective.type=kto",
        "data.datasets=[{\"path\": \"rows.jsonl\", \"type\": \"preference_tokenized\"}]"},
       "kto"},
      {{"objective.type=distill", "objective.teacher_model_name_or_path=model"}, "examples"}};
  for (const auto& [overrides, words] : refused) {
    EXPECT_EQ(w.train(overrides), 2) << words;
    EXPECT_NE(w.says().find(words), std::string::npos) << w.says();
    EXPECT_FALSE(fs::exists(w / "out"));
  }
}

}  // namespace
}  // namespace ft::test
