// DeepSpeed's file: a verdict for every key, reading, "auto", contradictions, batch numbers, damaged files.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>

#include "app/config/config.h"
#include "app/deepspeed/apply.h"
#include "app/deepspeed/batch.h"
#include "app/deepspeed/key.h"
#include "app/deepspeed/read.h"
#include "app/deepspeed/rows.h"
#include "tests/app/deepspeed/deepspeed_file.h"
#include "tests/support/source.h"

namespace ft {
namespace {

using namespace deepspeed;

std::string refusal(const std::string& file) {
  try {
    parse_file(file, "ds.json");
  } catch (const UserError& e) {
    EXPECT_EQ(e.code, Exit::config);
    return e.what();
  }
  ADD_FAILURE() << "accepted: " << file;
  return "";
}

std::string all_of(const Report& report) {
  std::string all;
  for (const std::string& mistake : report.mistakes) all += mistake + "\n";
  return all;
}
bool says(const Report& report, const std::string& text) {
  return all_of(report).find(text) != std::string::npos;
}

// Returns true if the row's setting is refused or off because ft does not have it yet.
bool waits(const Row& row) { return row.why.starts_with("ft has no logging.") || row.why == "it is off"; }

// Returns a line "key value verdict settings" for each row. Settings that ft does not have yet are listed as
// mapped.
std::string verdicts() {
  std::ostringstream out;
  for (const Key* key : all_keys()) {
    const std::string name = example_name(*key);
    for (const Json& value : examples(name == "bfloat16.enabled" ? *find_key("bf16.enabled") : *key)) {
      const Report report = applied(file_with(name, value, *key).dump());
      for (const Row& row : report.rows) {
        if (row.key != name && !row.key.starts_with(name + ".")) continue;
        out << row.key << " " << value.dump() << " ";
        if (waits(row)) {
          out << "mapped " << key->to << "\n";
          continue;
        }
        out << name_of(row.verdict);
        for (const std::string& to : row.to)
          if (row.verdict == Verdict::mapped) out << " " << to;
        out << "\n";
      }
    }
  }
  return out.str();
}

TEST(DeepSpeed, TakesOptimizersByTheirOwnArguments) {
  const auto argument_of = [](const std::string& optimizer, const std::string& more = "") {
    SettingsText tree = run_with(more);
    const Report report = applied(R"({"optimizer": )" + optimizer + "}", tree);
    const auto of = [&](const std::string& path) {
      const Json* value = find_value(tree.value, path);
      return value ? *value : Json();
    };
    return std::tuple(of("training.optim"), of("training.optim_args"), of("training.adam_epsilon"),
                      report.refused());
  };
  EXPECT_EQ(argument_of(R"({"type": "Lion", "params": {"lr": 1e-4, "betas": [0.9, 0.99]}})"),
            std::tuple("lion", Json(), Json(), false));
  EXPECT_EQ(argument_of(R"({"type": "SGD", "params": {"momentum": 0.9, "nesterov": true}})"),
            std::tuple("sgd", "momentum=0.9, nesterov=True", Json(), false));
  EXPECT_EQ(argument_of(R"({"type": "Adagrad", "params": {"eps": 1e-8}})"),
            std::tuple("adagrad", "eps=1e-08", Json(), false));
  EXPECT_EQ(argument_of(R"({"type": "AdamW", "params": {"eps": 1e-6}})"),
            std::tuple("adamw", Json(), Json(1e-6), false));
  EXPECT_EQ(argument_of(R"({"type": "SGD", "params": {"momentum": 0.9}})",
                        R"("training": {"optim_args": "momentum=0.9"})"),
            std::tuple("sgd", "momentum=0.9", Json(), false));
  const std::string says = R"("training": {"optim_args": "momentum=0.8"})";
  EXPECT_EQ(std::get<3>(argument_of(R"({"type": "SGD", "params": {"momentum": 0.9}})", says)), true);
  EXPECT_EQ(std::get<3>(argument_of(R"({"type": "SGD", "params": {"momentum": "auto"}})")), true);
  EXPECT_EQ(std::get<3>(argument_of(R"({"type": "Lion", "params": {"momentum": 0.9}})")), true);
}

TEST(DeepSpeed, EveryKeyHasItsVerdict) {
  std::ifstream in(source_path("tests/golden/deepspeed_verdicts.txt"));
  std::stringstream want;
  want << in.rdbuf();
  const std::string got = verdicts();
  if (got != want.str()) std::ofstream(testing::TempDir() + "deepspeed_verdicts.txt") << got;
  EXPECT_EQ(got, want.str()) << "if it is meant, copy " << testing::TempDir() << "deepspeed_verdicts.txt";
}

// Every setting of an honoured or mapped key exists in ft and is set in the run's settings afterwards.
TEST(DeepSpeed, SettingsTakeTheValues) {
  std::set<std::string> settings;
  for (const Setting& s : describe<RunConfig>()) settings.insert(s.path);
  for (const Key* key : all_keys()) {
    if (key->fate == Fate::block_off || key->fate == Fate::renamed) continue;
    const std::string name = example_name(*key);
    SettingsText tree = run_with("");
    const Report report = applied(file_with(name, examples(*key)[0], *key).dump(), tree);
    const Row* row = report.find(name);
    ASSERT_TRUE(row) << name;
    for (const std::string& to : row->to) {
      const bool kwargs = to.starts_with("training.lr_scheduler_kwargs.");
      EXPECT_TRUE(kwargs || settings.contains(to)) << name << " -> " << to;
      EXPECT_TRUE(find_value(tree.value, to)) << name << " -> " << to;
    }
  }
}

TEST(DeepSpeed, ValuesOfAnotherKindAreRejected) {
  for (const Key* key : all_keys()) {
    if (key->value.kind == Kind::any || key->fate == Fate::renamed) continue;
    const Json wrong = key->value.kind == Kind::flag ? Json("yes") : Json::array({true, false, 3, 4});
    if (key->value.kind == Kind::list) continue;
    const std::string name = example_name(*key);
    const Report report = applied(file_with(name, wrong, *key).dump());
    EXPECT_TRUE(says(report, name)) << name << ": " << all_of(report);
    EXPECT_EQ(report.find(name)->verdict, Verdict::rejected) << name;
  }
}

TEST(DeepSpeed, UnknownKeysAtEveryDepth) {
  std::set<std::string> blocks{""};
  for (const Key* key : all_keys()) {
    if (key->fate == Fate::block_off) continue;
    const std::string name = example_name(*key);
    for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1))
      blocks.insert(name.substr(0, dot + 1));
  }
  for (const std::string& block : blocks) {
    const Report report = applied(file_with(block + "no_such_key_here", 1, *all_keys()[0]).dump());
    EXPECT_TRUE(says(report, block + "no_such_key_here")) << block;
  }
  EXPECT_TRUE(says(applied(R"({"zero_optimisation": {"stage": 2}})"), "do you mean zero_optimization?"));
  EXPECT_TRUE(says(applied(R"({"zero_optimization.stage": 2})"), "DeepSpeed has no key"));
  EXPECT_TRUE(says(applied(R"({"zero_optimization": {"aio": {"queue_depth": 8}}})"),
                   "aio belongs at the top of the file"));
  EXPECT_TRUE(says(applied(R"({"optimizer": {"type": "Adam", "params": {"learning_rate": 1}}})"),
                   "do you mean optimizer.params.lr?"));
}

// Every key and block of the table, put in the wrong place, is refused with its right place.
TEST(DeepSpeed, MisplacedKeysGetTheirRightPlace) {
  for (const Key* key : all_keys()) {
    const std::string name = example_name(*key), last = last_of(name);
    if (parent_of(name).empty() || find_key(last) || is_block(last) || find_block_off(name) != nullptr)
      continue;
    if (last == "enabled") continue;  // too many blocks have it
    const Report report = applied(Json{{last, examples(*key)[0]}}.dump());
    if (says(report, "do you mean gradient_clipping?")) continue;
    EXPECT_TRUE(says(report, "belongs in ") && says(report, parent_of(key->name)))
        << name << ": " << all_of(report);
  }
  const auto told = [](const char* file, const char* what) {
    const Report report = applied(file);
    EXPECT_EQ(report.mistakes.size(), 1u) << all_of(report);
    EXPECT_TRUE(says(report, what)) << all_of(report);
  };
  told(R"({"offload_optimizer": {"device": "cpu", "pin_memory": true}})",
       "offload_optimizer belongs in zero_optimization");
  told(R"({"zero_optimization": {"fp16": {"enabled": true}}})", "fp16 belongs at the top of the file");
  told(R"({"optimizer": {"type": "AdamW", "lr": 1e-4}})", "lr belongs in optimizer.params");
  told(R"({"params": {"lr": 1e-4, "betas": [0.9, 0.95]}})", "params belongs in optimizer");
  told(R"({"params": {"warmup_num_steps": 5}})", "params belongs in scheduler");
  told(R"({"optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "scheduler": {"type": "WarmupLR"}}}})",
       "scheduler belongs at the top of the file");
  told(R"({"zero_optimization": {"stage": 3, "device": "cpu"}})",
       "device belongs in zero_optimization.offload_optimizer or in zero_optimization.offload_param");
  told(R"({"stage": 3})", "stage belongs in zero_optimization");
  told(R"({"zero_optimization.stage": 2})", "write a block: \"zero_optimization\": {\"stage\": ...}");
  told(R"({"zero_optimisation": {"stage": 2, "overlap_comm": true, "offload_param": {"device": "cpu"}}})",
       "do you mean zero_optimization?");
}

TEST(DeepSpeed, TypesOfTheRunAndOfTheFileDoNotContradict) {
  SettingsText tree = run_with(R"("training": {"output_dir": "out", "bf16": true})");
  const Report report = applied(R"({"fp16": {"enabled": true}})", tree);
  EXPECT_TRUE(says(report, "fp16.enabled: is true, and training.bf16 is true (run.json:")) << all_of(report);
}

TEST(DeepSpeed, ReadsFilesAsHjsonDoes) {
  const SettingsText file = parse_file(
      "{\n // two cards\n \"a\": \"x//y # z\", /* of\nthem */ \"b\": [1, 2,], # end\n \"c\": {\"d\": "
      "5e8,},\n}",
      "ds.json");
  EXPECT_EQ(file.value, Json::parse(R"({"a": "x//y # z", "b": [1, 2], "c": {"d": 5e8}})"));
  EXPECT_EQ(file.lines.at("c.d"), 5);
}

TEST(DeepSpeed, FilesThatCannotBeRead) {
  EXPECT_EQ(refusal("{\n \"a\": 1,\n \"a\": 2}").substr(0, 10), "ds.json:3:");
  EXPECT_NE(refusal("{\"a\": 1, \"a\": 2}").find("appears twice"), std::string::npos);
  EXPECT_EQ(refusal("{\n “stage”: 2}"),
            "ds.json:2: a typographic quote, “ (U+201C), where JSON needs a plain \"\n   “stage”: 2}");
  EXPECT_NE(refusal("{\"lr\": 1e–5}").find("typographic dash"), std::string::npos);
  EXPECT_NE(refusal("{\"a\": 1 /* }").find("does not end"), std::string::npos);
  EXPECT_NE(refusal("[1]").find("object"), std::string::npos);
  for (const char* text :
       {"", "{\"a\": 8", "{,}", "[,]", "{\"a\": [1,,]}", "{a: 1}", "{\"a\": NaN}", "\"", "{\"", "#"})
    EXPECT_NE(refusal(text).find("ds.json"), std::string::npos) << text;
  EXPECT_EQ(parse_file("{\"a\": \"“\"} // “", "ds.json").value.size(), 1u);
}

TEST(DeepSpeed, BatchNumbersInSevenForms) {
  struct Case {
    GivenBatch given;
    std::int64_t train, micro, accumulation;
  };
  for (const auto& [given, train, micro, accumulation] :
       {Case{{24, 3, 4}, 24, 3, 4}, Case{{24, 3, {}}, 24, 3, 4}, Case{{24, {}, 4}, 24, 3, 4},
        Case{{{}, 3, 4}, 24, 3, 4}, Case{{24, {}, {}}, 24, 12, 1}, Case{{{}, 3, {}}, 6, 3, 1},
        Case{{{}, {}, 4}, 64, 8, 4}, Case{{}, 16, 8, 1}}) {
    std::string mistake;
    const Batch b = solve_batch(given, 2, 8, mistake);
    EXPECT_EQ(mistake, "");
    EXPECT_EQ(b.train, train);
    EXPECT_EQ(b.micro, micro);
    EXPECT_EQ(b.accumulation, accumulation);
  }
  for (const GivenBatch& given : {GivenBatch{16, 3, 4},
                                  {10, 4, {}},
                                  {9, {}, {}},
                                  {24, {}, 5},
                                  {1, {}, {}},
                                  {{}, 1 << 30, 1 << 30},
                                  {1, 5, {}}}) {
    std::string mistake;
    solve_batch(given, 2, 8, mistake);
    EXPECT_NE(mistake, "");
  }
  const Report report =
      applied(R"({"train_batch_size": 12})",
              R"("training": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2})");
  EXPECT_TRUE(says(report, "train_batch_size is 12, and")) << all_of(report);
  EXPECT_TRUE(says(report, "is 8"));
}

TEST(DeepSpeed, AutoTakesTheRunsValue) {
  SettingsText tree = run_with(R"("training": {"learning_rate": 0.001, "weight_decay": 0.1})");
  const Report report = applied(
      R"({"optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "weight_decay": "auto"}},
          "train_batch_size": "auto", "bf16": {"enabled": "auto"}, "gradient_clipping": 0.5,
          "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto",
            "stage3_prefetch_bucket_size": "auto",
            "stage3_param_persistence_threshold": "auto"}})",
      tree, 2);
  EXPECT_EQ(all_of(report), "");
  EXPECT_EQ(report.find("optimizer.params.lr")->value, 0.001);
  EXPECT_EQ(report.find("optimizer.params.betas")->value, Json::parse("[0.9, 0.999]"));
  EXPECT_EQ(report.find("train_batch_size")->value, 16);
  EXPECT_EQ(report.find("zero_optimization.reduce_bucket_size")->value, 256);
  EXPECT_EQ(report.find("zero_optimization.stage3_prefetch_bucket_size")->value, 230);
  EXPECT_EQ(report.find("zero_optimization.stage3_param_persistence_threshold")->value, 160);
  EXPECT_EQ(*find_value(tree.value, "training.max_grad_norm"), 0.5);
  EXPECT_TRUE(says(
      applied(
          R"({"wall_clock_breakdown": false, "dataloader_drop_last": "auto", "vocabulary_size": "auto"})"),
      "vocabulary_size: \"auto\" has no meaning"));
}

TEST(DeepSpeed, ContradictionsAreListedTogether) {
  const Report report = applied(
      R"({"gradient_clipping": 0.5, "optimizer": {"type": "AdamW", "params": {"lr": 0.002, "eps": 1e-8}},
          "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": 0.004, "warmup_num_steps": 7}},
          "zero_optimization": {"stage": 2, "reduce_bucket_size": 1000}})",
      R"("training": {"learning_rate": 0.001, "warmup_steps": 3, "max_grad_norm": 1, "adam_epsilon": 1e-8},
         "zero_stage": 1, "zero_optimization": {"reduce_bucket_size": 2000})");
  EXPECT_EQ(report.mistakes.size(), 5u) << all_of(report);
  for (const char* text : {"gradient_clipping: is 0.5, and training.max_grad_norm is 1 (run.json:1)",
                           "optimizer.params.lr: is 0.002", "scheduler.params.warmup_max_lr: is 0.004",
                           "scheduler.params.warmup_num_steps: is 7, and training.warmup_steps is",
                           "zero_optimization.stage: is 2"})
    EXPECT_TRUE(says(report, text)) << text << "\n" << all_of(report);
  const Row* bucket = report.find("zero_optimization.reduce_bucket_size");
  EXPECT_EQ(bucket->verdict, Verdict::no_effect);
  EXPECT_EQ(applied(R"({"gradient_clipping": 1.0})", R"("training": {"max_grad_norm": 1})").mistakes.size(),
            0u);
}

TEST(DeepSpeed, TheProfilerHasDeepSpeedsDefaults) {
  const std::string file = R"({"flops_profiler": {"enabled": true, "module_depth": 2}})";
  const auto profiler = [&](const std::string& more, const std::string& setting) {
    SettingsText tree = run_with(more);
    applied(file, tree);
    return *find_value(tree.value, "logging.flops_profiler." + setting);
  };
  EXPECT_EQ(profiler("", "profile_step"), 1);
  EXPECT_EQ(profiler("", "top_modules"), 1);
  EXPECT_EQ(profiler("", "module_depth"), 2);
  EXPECT_EQ(profiler(R"("logging": {"flops_profiler": {"profile_step": 5}})", "profile_step"), 5);
}

TEST(DeepSpeed, SubGroupsAreWindowsOfAFile) {
  const Report in_memory = applied(R"({"zero_optimization": {"stage": 2, "sub_group_size": 5e5}})");
  EXPECT_EQ(in_memory.find("zero_optimization.sub_group_size")->verdict, Verdict::no_effect);
  EXPECT_TRUE(in_memory.find("zero_optimization.sub_group_size")->surprise);
  const Report in_file = applied(R"({"zero_optimization": {"stage": 3, "sub_group_size": 5e5,
    "offload_optimizer": {"device": "nvme", "nvme_path": "/tmp"}}})");
  EXPECT_EQ(in_file.find("zero_optimization.sub_group_size")->verdict, Verdict::honoured);
}

TEST(DeepSpeed, OldNames) {
  SettingsText tree = run_with("");
  const Report report =
      applied(R"({"bfloat16": {"enabled": true}, "zero_optimization": {"cpu_offload": true}})", tree);
  EXPECT_EQ(all_of(report), "");
  EXPECT_EQ(*find_value(tree.value, "training.bf16"), true);
  EXPECT_EQ(*find_value(tree.value, "zero_optimization.offload_optimizer.device"), "cpu");
  for (const char* both :
       {R"({"bfloat16": {"enabled": true}, "bf16": {"enabled": true}})",
        R"({"zero_optimization": {"cpu_offload": true, "offload_optimizer": {"device": "cpu"}}})",
        R"({"zero_optimization": {"stage3_gather_fp16_weights_on_model_save": true,
            "stage3_gather_16bit_weights_on_model_save": true}})"})
    EXPECT_TRUE(says(applied(both), "the old name of")) << both;
  EXPECT_EQ(applied(R"({"zero_optimization": true})").rows[0].value, 1);
}

// Collects the paths of all leaves; a list is a leaf.
void leaves(const Json& value, const std::string& path, std::set<std::string>& all) {
  if (!value.is_object() || (value.empty() && !path.empty())) {
    all.insert(path);
    return;
  }
  for (const auto& [key, inner] : value.items()) leaves(inner, path.empty() ? key : path + "." + key, all);
}

std::string damaged(std::string text, std::mt19937& random) {
  const auto any = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  const std::vector<std::string> pieces{
      "\"auto\"", "-1", "1e999", "{}", "[]", "null", "true", "\"\"", "5e8", "0.5",  "“",
      "//",       "/*", ",",     "{",  "}",  "\"",   ":",    "\n",   "\\",  "\xff", "9999999999999999999"};
  for (std::size_t n = 1 + any(3); n > 0; --n) {
    const std::size_t at = any(text.size());
    switch (any(5)) {
      case 0:
        text[at] = static_cast<char>(any(256));
        break;
      case 1:
        text.erase(at, 1 + any(8));
        break;
      case 2:
        text.insert(at, pieces[any(pieces.size())]);
        break;
      case 3:
        text.insert(at, text.substr(any(text.size()), any(40)));
        break;
      default: {  // gives a key another value
        const std::size_t colon = text.find(": ", at);
        if (colon == text.npos) break;
        const std::size_t end = text.find_first_of(",}\n", colon);
        text.replace(colon + 2, (end == text.npos ? text.size() : end) - colon - 2,
                     pieces[any(pieces.size())]);
      }
    }
    if (text.empty()) text = " ";
  }
  return text;
}

TEST(DeepSpeed, DamagedFilesAreRefusedOrHaveARowForEveryLeaf) {
  std::ifstream in(source_path("tests/golden/deepspeed_file.json"));
  std::stringstream text;
  text << in.rdbuf();
  ASSERT_EQ(all_of(applied(text.str())), "");
  std::mt19937 random(20);
  int accepted = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string file = damaged(text.str(), random);
    try {
      const SettingsText read = parse_file(file, "ds.json");
      const Report report = applied(file);
      std::set<std::string> want, got;
      leaves(read.value, "", want);
      for (const Row& row : report.rows) got.insert(row.key);
      for (const std::string& leaf : want)
        EXPECT_TRUE(got.contains(leaf) || find_value(read.value, leaf)->is_object()) << leaf << " in\n"
                                                                                     << file;
      accepted += !report.refused();
    } catch (const UserError&) {
    }
  }
  EXPECT_GT(accepted, 20);
}

}  // namespace
}  // namespace ft
