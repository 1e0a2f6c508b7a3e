// The runs of a sweep, their names, and the files about them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "app/sweep/grid.h"
#include "app/sweep/table.h"
#include "engine/files/file.h"

namespace ft {
namespace {

class SweepGrid : public testing::Test {
 protected:
  SweepGrid() {
    char name[] = "/tmp/ft-sweep-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~SweepGrid() override { std::filesystem::remove_all(folder_); }

  SweepPlan read(const std::string& sweep, const std::vector<std::string>& overrides = {},
                 const std::string& without = "") {
    std::ofstream(folder_ / "run.json") << R"({"model": {"model_name_or_path": "m"},
"data": {"datasets": [{"path": "d.jsonl"}]}, "training": {"output_dir": "out"},
"sweep": )" + sweep + "}";
    return read_sweep((folder_ / "run.json").string(), overrides, without);
  }
  std::string mistake(const std::string& sweep) {
    try {
      read(sweep);
    } catch (const UserError& e) {
      EXPECT_EQ(e.code, Exit::config);
      const std::string what = e.what(), file = (folder_ / "run.json").string();
      EXPECT_TRUE(what.starts_with(file)) << what;
      return what.substr(std::min(what.size(), file.size()));
    }
    return "no mistake";
  }
  std::filesystem::path folder_;
};

std::vector<std::string> names(const SweepPlan& plan) {
  std::vector<std::string> out;
  for (const SweepRun& run : plan.runs) out.push_back(run.name);
  return out;
}

// nvme_path is dropped in the runs that do not offload to files.
TEST_F(SweepGrid, HomesCanBeSwept) {
  const SweepPlan p = read(R"({"grid": {"zero_optimization.offload_param.device": ["nvme", "cpu", "none"]}})",
                           {"zero_optimization.offload_param={\"device\": \"nvme\", \"nvme_path\": \".\"}"});
  ASSERT_EQ(p.runs.size(), 3u);
  for (const SweepRun& run : p.runs) {
    const OffloadConfig& o = run.config.zero_optimization.offload_param;
    EXPECT_EQ(o.nvme_path.has_value(), o.device == OffloadDevice::nvme) << run.name;
  }
}

TEST_F(SweepGrid, EveryCombinationWithEveryBundle) {
  const SweepPlan plan = read(R"({"grid": {"zero_stage": [0, 3], "data.max_seq_length": [512, 1024]},
    "_": [{"lora.r": 8, "lora.lora_alpha": 16}, {"lora.r": 64, "lora.lora_alpha": 128}]})");
  const std::vector<std::string> expected = {"zero_stage=0,max_seq_length=512,r=8,lora_alpha=16",
                                             "zero_stage=0,max_seq_length=512,r=64,lora_alpha=128",
                                             "zero_stage=0,max_seq_length=1024,r=8,lora_alpha=16",
                                             "zero_stage=0,max_seq_length=1024,r=64,lora_alpha=128",
                                             "zero_stage=3,max_seq_length=512,r=8,lora_alpha=16",
                                             "zero_stage=3,max_seq_length=512,r=64,lora_alpha=128",
                                             "zero_stage=3,max_seq_length=1024,r=8,lora_alpha=16",
                                             "zero_stage=3,max_seq_length=1024,r=64,lora_alpha=128"};
  EXPECT_EQ(names(plan), expected);
  EXPECT_EQ(plan.columns,
            (std::vector<std::string>{"zero_stage", "data.max_seq_length", "lora.r", "lora.lora_alpha"}));
  EXPECT_EQ(plan.folder, (folder_ / "out").string());
  const RunConfig& last = plan.runs.back().config;
  EXPECT_EQ(last.zero_optimization.stage, 3);
  EXPECT_EQ(last.data.max_seq_length, 1024);
  EXPECT_EQ(last.lora.r, 64);
  EXPECT_EQ(last.training.output_dir, (folder_ / "out" / expected.back()).string());
  EXPECT_EQ(last.sweep.grid.text, "");  // a run of a sweep is not a sweep
}

TEST_F(SweepGrid, PathsAreRelativeToTheConfiguration) {
  std::filesystem::create_directories(folder_ / "a/b");
  const SweepPlan plan = read(R"({"grid": {"model.model_name_or_path": ["a/b", "c"]}})");
  EXPECT_EQ(names(plan), (std::vector<std::string>{"model_name_or_path=a_b", "model_name_or_path=c"}));
  EXPECT_EQ(plan.runs[0].config.model.model_name_or_path, (folder_ / "a/b").string());
}

TEST_F(SweepGrid, ElementsOfListsCanBeSwept) {
  for (const std::string path : {"data.datasets[0].path", "data.datasets.0.path"}) {
    const SweepPlan plan = read(R"({"grid": {")" + path + R"(": ["a.jsonl", "b.jsonl"]}})");
    EXPECT_EQ(names(plan), (std::vector<std::string>{"path=a.jsonl", "path=b.jsonl"}));
    EXPECT_EQ(plan.runs[1].config.data.datasets[0].path, (folder_ / "b.jsonl").string());
  }
  EXPECT_NE(mistake(R"({"grid": {"data.datasets[1].path": ["a.jsonl"]}})").find("the list has no element 1"),
            std::string::npos);
}

TEST_F(SweepGrid, NamesAreUniqueAndShort) {
  const SweepPlan plan = read(R"({"grid": {"training.seed": [1, 1], "logging.run_name": ["../x", ".. x"]}})");
  EXPECT_EQ(names(plan), (std::vector<std::string>{"seed=1,run_name=.._x", "seed=1,run_name=.._x.2",
                                                   "seed=1,run_name=.._x.3", "seed=1,run_name=.._x.4"}));
  const SweepPlan longer = read(R"({"grid": {"logging.run_name": [")" + std::string(300, 'x') + R"("]}})");
  EXPECT_EQ(longer.runs[0].name.size(), 120u);
}

TEST_F(SweepGrid, ShuffledBySeed) {
  const std::string sweep =
      R"({"grid": {"training.learning_rate": [1, 2, 3, 4, 5, 6, 7, 8]}, "order": "shuffled"})";
  const auto once = names(read(sweep)), again = names(read(sweep)),
             other = names(read(sweep, {"training.seed=7"}));
  EXPECT_EQ(once, again);
  EXPECT_NE(once, other);
  EXPECT_NE(once[0] + once[1], "learning_rate=1learning_rate=2");
}

TEST_F(SweepGrid, LeavesOneOut) {
  const std::string sweep = R"({"grid": {"zero_stage": [0, 3], "data.max_seq_length": [512, 1024]}})";
  EXPECT_EQ(names(read(sweep, {}, "data.max_seq_length")),
            (std::vector<std::string>{"zero_stage=0", "zero_stage=3"}));
  EXPECT_EQ(names(read("{}", {}, "data.max_seq_length")), (std::vector<std::string>{"run"}));
}

TEST_F(SweepGrid, RefusesBeforeAnythingRuns) {
  EXPECT_EQ(mistake(R"({"grid": {"zero_stag": [1]}})"),
            ":3: zero_stag: no such setting; do you mean zero_stage?");
  EXPECT_EQ(mistake(R"({"grid": {"zero_stage": [0, 7]}})"),
            ":3: zero_stage: 7 is out of range: it has to be at least 0 and at most 3");
  EXPECT_EQ(mistake(R"({"grid": {"zero_stage": 3}})"),
            ":3: sweep.grid.zero_stage: expected a list of values [...]");
  EXPECT_EQ(mistake(R"({"grid": {"zero_stage": []}})"),
            ":3: sweep.grid.zero_stage: expected a list of values [...]");
  EXPECT_EQ(mistake(R"({"grid": [1]})"), ":3: sweep.grid: expected {\"dotted.path\": [values]}");
  EXPECT_EQ(mistake(R"({"_": {"lora.r": 1}})"), ":3: sweep._: expected [{\"dotted.path\": value}]");
  EXPECT_EQ(mistake(R"({"_": [3]})"),
            ":3: sweep._.0: expected settings that are applied together {\"dotted.path\": value}");
  EXPECT_EQ(mistake(R"({"grid": {"training.output_dir": ["a"]}})"),
            ":3: sweep.grid.training.output_dir: a sweep gives each run a folder of its own in "
            "training.output_dir");
  EXPECT_EQ(mistake(R"({"grid": {"sweep.order": ["given"]}})"),
            ":3: sweep.grid.sweep.order: settings of the sweep itself cannot be swept");
  EXPECT_TRUE(mistake("{}").find("sweep.grid: there is nothing to sweep") != std::string::npos)
      << mistake("{}");
  std::string many = "[0";
  for (int i = 1; i < 101; ++i) many += "," + std::to_string(i);
  many += "]";
  EXPECT_EQ(mistake(R"({"grid": {"training.seed": )" + many + R"(, "training.warmup_steps": )" + many + "}}"),
            ":3: sweep.grid: this makes more than 10000 runs");
}

SweepTable example() {
  SweepTable t{{"zero_stage", "data.max_seq_length"}, {}};
  t.rows = {{"a", {"0", "512"}, std::int64_t{14} << 30, 21000, 0.871, NAN, 0, "done"},
            {"b",
             {"0", "8192"},
             std::int64_t{38} << 30,
             NAN,
             NAN,
             NAN,
             5,
             "out of memory: planned 38.0 of 24.0 GiB"},
            {"c", {"3", "8192"}, std::int64_t{19} << 30, 17900, 0.869, 0.9, 0, "done"},
            {"d,\"", {"3", ""}, 0, NAN, NAN, NAN, 7, "exit 7: a | b"}};
  return t;
}

TEST(SweepTable, ForATerminal) {
  const SweepTable t = example();
  EXPECT_EQ(t.header(t.rows), "zero_stage  max_seq_length  peak GiB     tok/s      loss  held out   result");
  EXPECT_EQ(t.line(t.rows[0], t.rows),
            "         0             512      14.0     21.0k     0.871         -   done");
  EXPECT_EQ(t.line(t.rows[1], t.rows),
            "         0           8,192      38.0         -         -         -   out of memory: planned "
            "38.0 of 24.0 GiB");
}

TEST(SweepTable, ForProgramsAndPeople) {
  const SweepTable t = example();
  EXPECT_EQ(t.csv(),
            "zero_stage,data.max_seq_length,peak_memory_bytes,tokens_per_second,train_loss,eval_loss,exit_"
            "code,result,run\n"
            "0,512,15032385536,21000.0,0.871,,0,done,a\n"
            "0,8192,40802189312,,,,5,out of memory: planned 38.0 of 24.0 GiB,b\n"
            "3,8192,20401094656,17900.0,0.869,0.9,0,done,c\n"
            "3,,,,,,7,exit 7: a | b,\"d,\"\"\"\n");
  EXPECT_NE(t.markdown().find("| 3 |  | - | - | - | - | exit 7: a \\| b |"), std::string::npos)
      << t.markdown();
}

TEST(SweepTable, IsReadBack) {
  const SweepTable t = example();
  char name[] = "/tmp/ft-sweep-XXXXXX";
  const std::string folder = mkdtemp(name), file = folder + "/sweep.json";
  EXPECT_TRUE(read_sweep_table(file).rows.empty());
  write_file(file, t.json());
  const SweepTable back = read_sweep_table(file);
  EXPECT_EQ(back.json(), t.json());
  EXPECT_TRUE(std::isnan(back.rows[1].train_loss));
  write_file(file, "{\"columns\": [], \"runs\": [3]}");
  EXPECT_THROW(read_sweep_table(file), UserError);
  SweepTable other = example();
  other.rows[2].values.emplace_back("1");
  write_file(file, other.json());
  try {
    read_sweep_table(file);
    ADD_FAILURE() << "a value without a column is accepted";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("values"), std::string::npos) << e.what();
  }
  std::filesystem::remove_all(folder);
}

TEST(SweepTable, IsDrawn) {
  const std::string svg = example().svg("a <title>");
  EXPECT_NE(svg.find("a &lt;title&gt;"), std::string::npos);
  EXPECT_NE(svg.find("class=\"o c0\""), std::string::npos) << "what did not fit is hollow";
  EXPECT_NE(svg.find("zero_stage 3"), std::string::npos);
  EXPECT_EQ((SweepTable{{"lora.bias"}, {{"a", {"none"}, 1, 1, 1, NAN, 0, "done"}}}.svg("x")), "")
      << "no numbers";
}

}  // namespace
}  // namespace ft
