// A case of tests/golden/models and ft's run of it.
#pragma once
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/batch.h"
#include "engine/files/json.h"
#include "engine/files/safetensors/weights.h"
#include "engine/generate/generator.h"
#include "engine/ops/ops.h"
#include "engine/ranks/local.h"
#include "engine/train/config.h"
#include "engine/zero/parameter_store.h"
#include "lora/attach.h"
#include "lora/peft.h"
#include "lora/starts/starts.h"
#include "models/registry.h"

namespace ft::test {

using Values = std::vector<double>;
using Named = std::map<std::string, Values>;

// Sum of squared differences over the sum of squares of `want`.
double nmse(const Values& got, const Values& want);
double nmse(const Named& got, const Named& want);  // of all values as one vector; the names must be the same

// Returns true if a gradient is 0 except for rounding, compared with all others. The bias of keys without
// rotation has such a gradient: it adds the same number to all scores of a query.
bool is_rounding(const Values& gradient, const Named& all);

struct GoldenCase {
  explicit GoldenCase(const std::string& name);

  std::string name, folder;
  Json json;                                // case.json
  std::vector<std::vector<Batch>> batches;  // of every batch, each sample alone
  TrainingConfig training;
  std::int64_t steps = 0;

  bool lora() const { return json["kind"] == "lora"; }
  // Returns true for mixtures of experts, in which 16-bit rounding may send a token to other experts.
  bool routes() const { return name.find("moe") != name.npos || name.find("mixtral") != name.npos; }
  std::string model_folder() const { return folder + "/" + json["model"].get<std::string>(); }
  Values losses() const { return json["expected"]["losses"].get<Values>(); }
  Values grad_norms() const { return json["expected"]["grad_norms"].get<Values>(); }
  Named expected(const std::string& prefix) const;  // tensors of expected.safetensors, without the prefix
  // Joins several samples to one batch, one after another.
  static Batch join(const std::vector<Batch>& samples);
};
std::vector<std::string> golden_names();

// Random-LTD in the second of two blocks keeps at most `most` tokens of each source or target.
struct Dropping {
  bool encoder = false;
  std::int64_t most = 0;
  Batch of(Batch) const;
};

// Returns the Ops that compute the goldens; defined once for each test program.
std::unique_ptr<Ops> golden_ops();

inline constexpr std::int64_t kAllBlocks = 1 << 20;  // more than any model has

// A model with its weights in memory, ready to compute.
class GoldenRun {
 public:
  struct How {
    DType dtype = DType::f32;
    std::int64_t recompute = 0;  // number of first blocks to recompute
    double loss_scale = 1;       // for gradients in 16 bits; results are divided by it
    std::optional<GenerationShape> generation{};
    SparseAttentionConfig sparse{};
    std::optional<Dropping> dropping{};
  };
  GoldenRun(const GoldenCase&, How);

  struct Pass {
    double loss = 0;
    Named gradients;  // by the golden's names
  };
  // Runs one forward and backward pass. Returns the mean loss of the micro-batches' targets and its
  // gradients.
  Pass pass(const std::vector<Batch>& micro_batches);
  Values logits(const Batch&);  // (tokens, V)
  struct Curve {
    Values losses, grad_norms;
  };
  Curve train();
  // Computes the logits with a cache of this run's generation.shape: `first` tokens of each sample at once,
  // then one token at a time, all samples in one batch.
  Values cached_logits(const std::vector<Batch>& samples, std::int32_t first);
  // Returns new tokens for each prompt.
  std::vector<std::vector<std::int32_t>> generate(std::span<const Prompt>, const TokenChooser&);
  // A conversation: greedy answers of `length` tokens, each to all earlier turns and answers and to the
  // turn's own tokens.
  struct Conversation {
    std::vector<std::vector<std::int32_t>> answers;
    std::int64_t computed = 0;  // tokens
  };
  Conversation converse(const std::vector<std::vector<std::int32_t>>& turns, std::int64_t length,
                        bool keep_cache);

 private:
  double accumulate(const std::vector<Batch>& micro_batches);
  std::string golden_name(const Parameter&) const;

  const GoldenCase& case_;
  std::optional<GenerationShape> generation_;
  double loss_scale_;
  std::unique_ptr<Ops> ops_;
  MadeModel made_;
  ModelFolder weights_;
  std::optional<lora::AdapterFolder> adapter_;
  lora::Attached attached_;
  LocalCommunicator comm_;
  ParameterStore store_;
  std::optional<Arena> saved_, scratch_;
  std::optional<Ctx> context_;
};

}  // namespace ft::test
