// Builds the model of a run from a RunConfig: its trained parameters and the files of its weights.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/assembly/int8_weights.h"
#include "app/assembly/purpose.h"
#include "app/config/config.h"
#include "engine/files/safetensors/weights.h"
#include "lora/attach.h"
#include "lora/fp8.h"
#include "lora/peft.h"
#include "lora/quantize.h"
#include "lora/starts/starts.h"
#include "models/registry.h"

namespace ft {

// A frozen stack of experts that stays in MXFP4: its name and shape as a dense parameter.
struct CodedStack {
  std::string name;
  Shape shape;
};

// A model whose trained parameters are chosen but that has no memory yet, and the files of its weights.
struct BuiltModel {
  std::string name;                   // as the user wrote it: its folder, its id on the hub, or a GGUF file
  std::string folder;                 // holds config.json
  std::vector<std::string> warnings;  // about the base and the adapter
  MadeModel made;
  Purpose purpose;
  DType dtype = DType::f32;   // of activations and frozen weights
  bool grown = false;         // the embedding has more rows than in the model's files
  ObjectiveConfig objective;  // decides the head
  std::int64_t longest = 0;   // most tokens of a text in training
  bool lora = false;
  lora::LoraConfig lora_config;  // valid if `lora`
  std::int64_t folded = 0;       // linears with an adapter folded into their weights: see folded_adapter.h
  lora::Attached attached;
  std::unique_ptr<WeightSource> base;              // null with Weights::ignore
  std::optional<lora::FourBitWeights> four_bit;    // empty: no weights in 4 bits
  std::optional<lora::Fp8Weights> fp8;             // empty: no weights in FP8
  std::optional<Int8Weights> int8;                 // empty: no weights in 8 bits
  std::map<std::string, CodedStack> coded_stacks;  // by the names of their codes and scales
  std::unique_ptr<lora::AdapterFolder> start;      // the adapter to continue from; null: none
  std::shared_ptr<const lora::Starts> starts;      // if `lora`: initial values of adapters
  std::uint64_t seed = 0;
  // If ranks split the model: this rank's stage in the pipeline, and the complete model, without weights.
  // Null: this model is complete.
  int stage = 0;
  std::unique_ptr<BuiltModel> whole;
  std::optional<std::int32_t> padding;  // only of a model that scores texts: see padding_token

  Model& model() const { return *made.model; }
  // Returns true if a text has one score, or one for each label.
  bool scores_texts() const {
    return objective.type->rows == ObjectiveRows::pairs ||
           (objective.type->rows == ObjectiveRows::classified &&
            objective.task_type.value_or(ClassifyTask::sequence) == ClassifyTask::sequence);
  }
  // Returns true for a parameter of a head that gives scores, which the base's files may lack.
  bool is_score(const Parameter& p) const {
    return objective.type->scores &&
           (p.name == made.info.head_weight() || p.name == made.info.head + ".bias");
  }
  // Returns the matrices with a row for each token: the embedding's, and the head's unless they share one. An
  // adapter's files hold them if the vocabulary has grown.
  std::vector<const Parameter*> tables() const;
  // Returns the size of the vocabulary if it has grown; empty otherwise.
  std::optional<std::int64_t> rows() const {
    return grown ? std::optional(made.info.vocab_size) : std::nullopt;
  }
  // Returns the weights that adapters are added to. Requires `base` and `lora`.
  lora::WeightsBelow below() const;
  // Read the first value of every parameter: from the model's files, from the adapter's, or at random.
  // reader() reads this rank's part, whole_reader() the complete tensor. Both refer to this BuiltModel.
  ReadParameter reader() const { return of_parts(whole_reader()); }
  ReadParameter whole_reader() const;
};
class Screen;
// Prints each of the model's warnings on one line.
void show_warnings(Screen&, const BuiltModel&);

// Returns the source of a LoraConfig, which is the adapter `start` or, if null, the configuration, and the
// model's names of its head and embedding.
lora::Origin origin_of(const ModelInfo&, const lora::AdapterFolder* start);

// Returns true if the data decides how the model's new adapters begin (init_lora_weights=eva, lora_ga). Call
// begin_as() with that before the model has memory.
bool begins_from_data(const BuiltModel&);
// Replaces the attached adapters by new ones with this configuration. given: the initial values of each, see
// Starts; empty: they are read from a checkpoint.
void begin_as(BuiltModel&, const RunConfig&, const lora::LoraConfig&, std::vector<lora::Factors> given);

// Completes the list of linears that stay unquantized, with the model's names: adds linears that its family
// never quantizes, and replaces "lm_head" by the name of the head.
template <class Plan>
Plan plan_of(const ModelInfo& info, Plan plan) {
  std::ranges::replace(plan.skip, "lm_head", info.head);
  plan.skip.insert(plan.skip.end(), info.never_quantized.begin(), info.never_quantized.end());
  return plan;
}

enum class Weights : bool { check, ignore };
// Reads config.json, attaches adapters if the configuration asks for them and (check) verifies that every
// weight exists with the right shape; ft plan ignores the weights. part: this rank's part of a model that
// ranks split.
BuiltModel build_model(const RunConfig&, Weights, const ModelPart& part = {}, const Purpose& = {});

}  // namespace ft
