// Runs the program from outside, as a user does, in a temporary folder.
#pragma once
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/life/program_file.h"
#include "tests/support/source.h"

namespace ft::test {
namespace fs = std::filesystem;
using Json = nlohmann::json;

inline std::string contents(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline std::vector<Json> rows(const fs::path& file) {
  std::vector<Json> out;
  std::istringstream in(contents(file));
  for (std::string line; std::getline(in, line);) out.push_back(Json::parse(line));
  return out;
}

// Waits until `holds` returns true, and checks every hundredth of a second for at least `seconds`. Returns
// false on timeout. Generous limits cost nothing if it holds, and a busy machine needs them.
template <class F>
bool comes_to_hold(int seconds, F&& holds) {
  for (int i = 0; i < 100 * seconds; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

// A folder with a golden model, its samples and a run.json; removed at the end.
class Workplace {
 public:
  explicit Workplace(const std::string& golden, Json config = Json::object()) {
    char name[] = "/tmp/ft-life-XXXXXX";
    folder_ = mkdtemp(name);
    const fs::path from = fs::path(source_path("tests/golden/models")) / golden;
    fs::create_directory_symlink(from / "model", folder_ / "model");
    for (int copy = 0; copy < 4; ++copy)
      std::ofstream(folder_ / "train.jsonl", std::ios::app) << contents(from / "samples.jsonl");
    Json c = {
        {"model", {{"model_name_or_path", "model"}}},
        {"data", {{"datasets", {{{"path", "train.jsonl"}, {"type", "tokenized"}}}}, {"max_seq_length", 64}}},
        {"training",
         {{"output_dir", "out"},
          {"per_device_train_batch_size", 3},
          {"num_train_epochs", 4},
          {"learning_rate", 0.003}}},
        {"logging", {{"logging_steps", 1}, {"progress", "none"}}},
        {"checkpointing", {{"save_strategy", "no"}}}};
    c.merge_patch(config);
    std::ofstream(folder_ / "run.json") << c.dump(1);
  }
  ~Workplace() { fs::remove_all(folder_); }
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  fs::path operator/(const std::string& name) const { return folder_ / name; }

  // Starts the program. `output`: the file descriptor for stdout and stderr; -1: files.
  pid_t start(const std::vector<std::string>& arguments, int output = -1) const {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    std::vector<char*> argv;
    std::string program = program_file();
    argv.push_back(program.data());
    std::vector<std::string> copy = arguments;
    for (std::string& a : copy) argv.push_back(a.data());
    argv.push_back(nullptr);
    if (chdir(folder_.c_str()) != 0) _exit(99);
    const bool directed = output < 0 ? freopen("stdout", "w", stdout) && freopen("stderr", "w", stderr)
                                     : dup2(output, 1) >= 0 && dup2(output, 2) >= 0;
    if (!directed) _exit(99);
    execv(argv[0], argv.data());
    _exit(98);
  }
  static int finish(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  int run(const std::vector<std::string>& arguments) const { return finish(start(arguments)); }
  // Runs ft train with overrides.
  int train(std::vector<std::string> overrides = {}) const {
    overrides.insert(overrides.begin(), {"train", "--config", "run.json"});
    return run(overrides);
  }
  std::string says() const { return contents(folder_ / "stderr"); }

  // Waits until the log has `count` rows.
  bool wait_for_rows(std::size_t count) const {
    return comes_to_hold(kPatience, [&] {
      const std::string log = contents(folder_ / "out/log.jsonl");
      return static_cast<std::size_t>(std::count(log.begin(), log.end(), '\n')) >= count;
    });
  }
  bool wait_for_words(const std::string& words) const {
    return comes_to_hold(kPatience, [&] { return says().find(words) != std::string::npos; });
  }

 private:
  static constexpr int kPatience = 120;  // seconds
  fs::path folder_;
};

// Returns the losses of a run, in order.
inline std::vector<double> losses(const fs::path& out) {
  std::vector<double> v;
  for (const Json& row : rows(out / "log.jsonl"))
    if (row.contains("loss")) v.push_back(row["loss"]);
  return v;
}

// Expects that the bytes in the output of `ft plan --json` equal those measured in a row of the log.
inline void expect_planned(const Json& planned, const Json& measured) {
  for (const char* name :
       {"weights", "adapter", "gradients", "optimizer", "activations", "scratch", "communication", "total"})
    EXPECT_EQ(planned.at(name), measured.at(name)) << name;
}

// Small runs of both kinds.
inline const Json kLora = {{"lora", {{"r", 4}, {"lora_dropout", 0.1}}}};
inline const Json kFp8 = {{"lora", {{"r", 4}}}, {"model", {{"frozen_dtype", "fp8"}}}};
inline const Json kQlora = {{"lora", {{"r", 4}}}, {"quantization", {{"load_in_4bit", true}}}};
inline const Json kFull = {{"finetuning_type", "full"}};

}  // namespace ft::test
