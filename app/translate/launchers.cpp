// Translates the launchers of programs: deepspeed, torchrun, accelerate launch, python.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "app/launch/launcher_flags.h"
#include "app/translate/programs.h"

namespace ft::translate {
namespace {

using enum ValueKind;
using enum Fate;
using Names = std::vector<std::string>;

constexpr const char* kRendezvous = "give --master_addr and --master_port";
constexpr const char* kLocal = "a rank gets its number from the environment";

constexpr Flag kDeepSpeed[] = {
    {"num_gpus", whole, same, "ft launch --num_gpus", ""},
    {"num_accelerators", whole, same, "ft launch --num_gpus", ""},
    {"num_nodes", whole, same, "ft launch --num_nodes", ""},
    {"hostfile", text, same, "ft launch --hostfile", ""},
    {"H", text, same, "ft launch --hostfile", ""},
    {"include", text, same, "ft launch --include", ""},
    {"i", text, same, "ft launch --include", ""},
    {"exclude", text, same, "ft launch --exclude", ""},
    {"e", text, same, "ft launch --exclude", ""},
    {"master_port", whole, same, "ft launch --master_port", ""},
    {"master_addr", text, same, "ft launch --master_addr", ""},
    {"node_rank", whole, same, "ft launch --node_rank", ""},
    {"no_ssh", toggle, same, "ft launch --no_ssh", ""},
    {"ssh_port", whole, same, "ft launch --ssh_port", ""},
    {"launcher", text, same, "ft launch --launcher", ""},
    {"enable_each_rank_log", text, same, "ft launch --log-dir", ""},
};

constexpr Flag kTorchrun[] = {
    {"nproc_per_node", whole, same, "ft launch -n", ""},
    {"nnodes", whole, same, "ft launch --num_nodes", ""},
    {"node_rank", whole, same, "ft launch --node_rank", ""},
    {"master_addr", text, same, "ft launch --master_addr", ""},
    {"master_port", whole, same, "ft launch --master_port", ""},
    {"log_dir", text, same, "ft launch --log-dir", ""},
    {"standalone", toggle, no_effect, "", "the port is any free one"},
    {"use_env", toggle, no_effect, "", kLocal},
    {"max_restarts", whole, no_effect, "",
     "with training.resume_from_checkpoint=auto it can be started again"},
    {"rdzv_backend", text, refused, "", kRendezvous},
    {"rdzv_endpoint", text, refused, "", kRendezvous},
    {"rdzv_id", text, refused, "", kRendezvous},
};

constexpr Flag kAccelerate[] = {
    {"num_processes", whole, own, "ft launch -n", "all processes, divided by --num_machines"},
    {"num_machines", whole, same, "ft launch --num_nodes", ""},
    {"machine_rank", whole, same, "ft launch --node_rank", ""},
    {"main_process_ip", text, same, "ft launch --master_addr", ""},
    {"main_process_port", whole, same, "ft launch --master_port", ""},
    {"deepspeed_hostfile", text, same, "ft launch --hostfile", ""},
    {"deepspeed_config_file", text, same, "deepspeed", "ft train reads DeepSpeed's file itself"},
    {"zero_stage", whole, same, "zero_optimization.stage", ""},
    {"gradient_accumulation_steps", whole, same, "training.gradient_accumulation_steps", ""},
    {"gradient_clipping", number, same, "training.max_grad_norm", ""},
    {"mixed_precision", text, own, "training.bf16, training.fp16", ""},
    {"config_file", text, refused, "", "write its settings as flags of accelerate launch, or into run.json"},
    {"use_deepspeed", toggle, no_effect, "", "ranks and ZeRO stages need no DeepSpeed"},
    {"multi_gpu", toggle, no_effect, "", kLocal},
    {"num_cpu_threads_per_process", whole, no_effect, "", "each rank has cores of its own"},
    {"use_fsdp", toggle, refused, "", "type zero_optimization.stage=3, which shards as FSDP does"},
};

// The words that call a launcher, and its flags. python has no flags that matter here.
struct Spelling {
  const char* words;
  const char* launcher;
  std::span<const Flag> flags;
};
constexpr Spelling kSpellings[] = {
    {"deepspeed", "deepspeed", kDeepSpeed},
    {"python -m deepspeed.launcher.runner", "deepspeed", kDeepSpeed},
    {"torchrun", "torchrun", kTorchrun},
    {"python -m torch.distributed.run", "torchrun", kTorchrun},
    {"python -m torch.distributed.launch", "torchrun", kTorchrun},
    {"accelerate launch", "accelerate", kAccelerate},
    {"python -m accelerate.commands.launch", "accelerate", kAccelerate},
    {"python", "python", {}},
};

// Returns deepspeed's flags that ft launch ignores or refuses, with the reasons of ft launch.
std::vector<Flag> others_of_deepspeed() {
  std::vector<Flag> all;
  for (const LauncherFlag& f : launcher_flags()) {
    const std::string names = f.names;
    const ValueKind kind = *f.type ? text : toggle;
    all.push_back({f.names + names.find("--") + 2, kind, f.refused ? refused : no_effect, "", f.why});
  }
  static constexpr Flag kQuiet{"q", toggle, no_effect, "", "ft launch prints only errors"};
  all.push_back(kQuiet);
  return all;
}

void use_launcher(const Spelling& launcher, Names& words, Draft& draft) {
  const std::string name = launcher.launcher;
  const std::vector<Flag> others = name == "deepspeed" ? others_of_deepspeed() : std::vector<Flag>{};
  const Table table = joined({launcher.flags, others});
  const Given given = take_flags(words, table, name, draft);
  for (const Flag* flag : table) {
    const std::string to = flag->to;
    if (!given.has(flag->name) || flag->fate != same || !to.starts_with("ft launch ")) continue;
    const Json& value = given.at(flag->name);
    draft.launch.push_back(to.substr(std::string("ft launch ").size()));
    if (!value.is_boolean())
      draft.launch.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  }
  if (given.has("num_processes")) {
    const auto all = static_cast<std::int64_t>(given.number("num_processes", 1));
    const auto machines = static_cast<std::int64_t>(given.number("num_machines", 1));
    if (machines < 1 || all < 1 || all % machines != 0)
      throw UserError(Exit::config,
                      str("--num_processes ", all, " is not a multiple of --num_machines ", machines));
    draft.launch.insert(draft.launch.begin(), {"-n", std::to_string(all / machines)});
  }
  if (const std::string type = given.text("mixed_precision", "no"); type != "no") {
    if (type != "bf16" && type != "fp16")
      throw UserError(Exit::config, str("--mixed_precision: ", printable(type), " is not no, fp16 or bf16"));
    draft.set("training." + type, true);
  }
  draft.launch.insert(draft.launch.begin(), "launch");
}

// Takes the words that name the launcher, with any path and version of Python: /usr/bin/python3.11 -u.
// Returns null if the program itself comes first.
const Spelling* take_spelling(Names& words) {
  if (words.empty() || words[0].ends_with(".py")) return nullptr;
  Names plain = words;
  plain[0] = plain[0].substr(plain[0].rfind('/') + 1);
  if (plain[0].starts_with("python")) plain[0] = "python";
  if (plain[0] == "python")
    plain.erase(plain.begin() + 1,
                std::find_if(plain.begin() + 1, plain.end(), [](const auto& w) { return w != "-u"; }));
  for (const Spelling& s : kSpellings) {
    std::istringstream wanted(s.words);
    std::size_t i = 0;
    bool same_words = true;
    for (std::string w; same_words && wanted >> w; ++i) same_words = i < plain.size() && plain[i] == w;
    if (!same_words) continue;
    words.assign(plain.begin() + static_cast<std::ptrdiff_t>(i), plain.end());
    return &s;
  }
  throw UserError(Exit::config,
                  str(printable(words[0]),
                      " is not known; a command begins with deepspeed, torchrun, accelerate launch or "
                      "python"));
}

}  // namespace

void take_environment(Names& words, Draft& draft) {
  if (!words.empty() && words[0] == "env") words.erase(words.begin());
  while (!words.empty() && words[0].find('=') != words[0].npos && words[0][0] != '-') {
    const std::string word = words[0], name = word.substr(0, word.find('='));
    words.erase(words.begin());
    const bool torch =
        name == "NCCL_TIMEOUT" || name == "NCCL_BLOCKING_WAIT" || name == "NCCL_ASYNC_ERROR_HANDLING";
    const bool kept =
        (name.starts_with("NCCL_") && !torch) || name.starts_with("CUDA_") || name == "LD_LIBRARY_PATH";
    const char* why = torch ? "that is PyTorch's; distributed.timeout_s limits the time that ranks wait"
                            : "no part of ft reads it";
    draft.rows.push_back({name, kept ? word.substr(name.size() + 1) : "(not shown)",
                          kept ? "honoured" : "no_effect", kept ? "the environment" : "", kept ? "" : why});
    if (kept) draft.environment.push_back(word);
  }
}

std::span<const Flag> launcher_options(const std::string& launcher) {
  for (const Spelling& s : kSpellings)
    if (launcher == s.launcher) return s.flags;
  return {};
}

std::string take_launcher(Names& words, Draft& draft) {
  take_environment(words, draft);
  const Spelling* launcher = take_spelling(words);
  if (launcher && !launcher->flags.empty()) use_launcher(*launcher, words, draft);
  if (words.empty() || !words[0].ends_with(".py"))
    throw UserError(Exit::config,
                    "where is the program? Give its name, such as run_translation.py, "
                    "before its flags");
  const std::string program = words[0];
  words.erase(words.begin());
  return program;
}

}  // namespace ft::translate
