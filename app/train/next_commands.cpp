#include "app/train/next_commands.h"

#include "app/hub/access.h"
#include "data/files/files.h"
#include "engine/core/typography.h"
#include "engine/files/file.h"

namespace ft {
namespace {

using Words = std::vector<std::string>;

class Commands {
 public:
  explicit Commands(const EndedRun& end) : end_(end), c_(end.config) {}

  std::vector<std::string> all() const {
    if (c_.objective.type->rows == ObjectiveRows::texts) return lines({eval(), merge()});
    if (c_.objective.type->scores) return lines({score(), eval()});
    return lines({chat(), eval(), merge()});
  }

  // Returns the command that resumes. With several machines it cannot be given completely, because a rank
  // does not know the launcher's command line.
  std::string resume() const {
    const std::string go_on = "training.resume_from_checkpoint=auto";
    if (c_.distributed.nnodes > 1) return "the same command with " + go_on;
    Words words = end_.ranks > 1 ? launch() : Words{"ft"};
    for (const std::string& word : {std::string("train"), std::string("--config"), settings(), go_on})
      words.push_back(word);
    return shell_line(words);
  }

 private:
  static std::vector<std::string> lines(const std::vector<Words>& commands) {
    std::vector<std::string> out;
    for (const Words& words : commands)
      if (!words.empty()) out.push_back(shell_line(words));
    return out;
  }

  bool adapter() const { return c_.finetuning_type == FinetuningType::lora; }
  const std::string& folder() const { return c_.training.output_dir; }
  std::string settings() const { return join_path(folder(), "run.json"); }
  // Returns the base's name, or its folder if it is another revision, which --model cannot name.
  const std::string& base() const {
    return c_.model.revision ? c_.model.folder() : c_.model.model_name_or_path;
  }
  Words result() const {
    return adapter() ? Words{"--model", base(), "--adapter", folder()} : Words{"--model", folder()};
  }
  Words launch() const { return {"ft", "launch", "-n", std::to_string(end_.ranks)}; }

  // True if the ranks split micro-batches or layers, so that one rank alone cannot run.
  bool needs_ranks() const {
    const DistributedConfig& d = c_.distributed;
    return d.data_parallel_size.value_or(1) > 1 || d.sequence_parallel_size * d.tensor_parallel_size *
                                                           d.pipeline_parallel_size * d.expert_parallel_size >
                                                       1;
  }

  Words chat() const {
    if (!end_.talks) return {};
    Words words{"ft", "chat"};
    add(words, result());
    add(words, place());
    return words;
  }

  // Returns the command that evaluates. Empty if there is no held-out data, if the objective (GRPO on given
  // answers) has no evaluation, or if ranks of several machines would be needed.
  Words eval() const {
    const ObjectiveConfig& o = c_.objective;
    const DistributedConfig& d = c_.distributed;
    if (!end_.held_out || o.learns_given()) return {};
    if (needs_ranks() && d.nnodes > 1) return {};
    Words words = needs_ranks() ? launch() : Words{"ft"};
    add(words, {"eval", "--config", settings()});
    if (adapter())
      add(words, {"--adapter", folder()});
    else
      add(words, {"model.model_name_or_path=" + folder()});
    if (!adapter() && c_.model.revision) words.push_back("model.revision=null");
    if (!adapter() && o.needs().reference && !o.ref_model_name_or_path)
      words.push_back("objective.ref_model_name_or_path=" + base());
    if (!needs_ranks() && d.nproc_per_node.value_or(1) > 1) words.push_back("distributed.nproc_per_node=1");
    if (d.nnodes > 1) words.push_back("distributed.nnodes=1");
    return words;
  }

  Words merge() const {
    if (const auto& format = c_.training.qat)
      return {"ft",     "export", "--to",     "gguf",
              "--from", folder(), "--output", beside(str(name_of(*format), ".gguf"))};
    if (!adapter()) return {};
    Words words{"ft", "merge"};
    add(words, result());
    add(words, {"--output", beside("merged")});
    return words;
  }

  // Returns the command that scores the answers of the run's data, the held-out data if there is any.
  Words score() const {
    const DataConfig& data = c_.data;
    const auto& sets = data.eval_datasets.empty() ? data.datasets : data.eval_datasets;
    if (sets.empty()) return {};
    const auto files = find_data_files(sets[0], {.hub = hub::cache_folder()}, "data.datasets.0");
    Words words{"ft", "score"};
    add(words, result());
    add(words, {"--input", files.at(0).path.string(), "--output", join_path(folder(), "scored.jsonl")});
    add(words, place());
    return words;
  }

  // Returns the device and the precision of the frozen weights, for a command without a configuration.
  Words place() const {
    Words words;
    if (c_.on_gpu()) words.push_back("device=cuda");
    if (c_.model.frozen_dtype == FrozenType::fp8) words.push_back("model.frozen_dtype=fp8");
    const lora::QuantizationConfig &q = c_.quantization, usual;
    if (!q.load_in_4bit) return words;
    words.push_back("quantization.load_in_4bit=true");
    if (q.bnb_4bit_quant_type != usual.bnb_4bit_quant_type)
      words.push_back(str("quantization.bnb_4bit_quant_type=", name_of(q.bnb_4bit_quant_type)));
    if (!q.bnb_4bit_use_double_quant) words.push_back("quantization.bnb_4bit_use_double_quant=false");
    if (q.blocksize != usual.blocksize) words.push_back(str("quantization.blocksize=", q.blocksize));
    return words;
  }

  // Returns outputs/run-merged for outputs/run and "merged".
  std::string beside(const std::string& ending) const { return without_slash(folder()) + "-" + ending; }

  static void add(Words& words, const Words& more) { words.insert(words.end(), more.begin(), more.end()); }

  const EndedRun& end_;
  const RunConfig& c_;
};

}  // namespace

std::vector<std::string> next_commands(const EndedRun& end) { return Commands(end).all(); }
std::string resume_command(const EndedRun& end) { return Commands(end).resume(); }

}  // namespace ft
