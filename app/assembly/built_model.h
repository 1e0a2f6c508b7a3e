// From a RunConfig to the model of a run: what to train, and the files of its weights.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/assembly/int8_weights.h"
#include "app/assembly/purpose.h"
#include "app/config/config.h"
#include "engine/files/weights.h"
#include "lora/attach.h"
#include "lora/peft.h"
#include "lora/quantize.h"
#include "lora/starts.h"
#include "models/registry.h"

namespace ft {

// A model that knows what to train but has no memory yet, and the files of its weights.
struct BuiltModel {
  std::string name;                   // as the user wrote it: its folder, its id on the hub, or a GGUF file
  std::string folder;                 // where config.json is
  std::vector<std::string> warnings;  // of the base and the adapter
  MadeModel made;
  Purpose purpose;
  DType dtype = DType::f32;  // of activations and frozen weights
  bool grown = false;        // the vocabulary has more rows than the files
  bool lora = false;
  lora::LoraConfig lora_config;  // with `lora`
  lora::Attached attached;
  std::unique_ptr<WeightSource> base;            // null: not asked for
  std::optional<lora::FourBitWeights> four_bit;  // nothing: no weights in 4 bits
  std::optional<Int8Weights> int8;               // nothing: none in 8 bits
  std::unique_ptr<lora::AdapterFolder> start;    // the adapter to continue from; null: none
  std::shared_ptr<const lora::Starts> starts;    // with `lora`: what adapters begin as
  std::uint64_t seed = 0;
  // Where this is a part: which rank of a pipeline's, and the model of which it is one, without weights.
  int stage = 0;
  std::unique_ptr<BuiltModel> whole;
  std::optional<std::int32_t> padding;  // of a reward model: see padding_token

  Model& model() const { return *made.model; }
  // The embedding's, and the head's where it has its own: an adapter holds them when they have grown.
  std::vector<const Parameter*> tables() const;
  // The vocabulary's size, where it has grown.
  std::optional<std::int64_t> rows() const {
    return grown ? std::optional(made.info.vocab_size) : std::nullopt;
  }
  // With `base` and `lora`.
  lora::WeightsBelow below() const;
  // Every parameter's first value: from the model's files, the adapter's, or at random. reader() gives
  // this rank's part, whole_reader() the whole tensor. Both use this BuiltModel.
  ReadParameter reader() const { return of_parts(whole_reader()); }
  ReadParameter whole_reader() const;
};
class Screen;
// A line for each of the model's warnings.
void show_warnings(Screen&, const BuiltModel&);

// Where a LoraConfig comes from, the adapter or, null, the configuration, and what the model calls its ends.
lora::Origin origin_of(const ModelInfo&, const lora::AdapterFolder* start);

// Whether the model's new adapters are to begin as the data says, which begin_as() settles before they have
// memory.
bool begins_from_data(const BuiltModel&);
// New adapters of this configuration in place of those attached. a: what A of each begins as; none: it is
// read from elsewhere.
void begin_as(BuiltModel&, const RunConfig&, const lora::LoraConfig&, std::vector<std::vector<float>> a);

// What a model keeps as it is under QLoRA, by its own names: the head, and what its family says.
lora::FourBitPlan plan_of(const ModelInfo&, lora::FourBitPlan);

enum class Weights : bool { check, ignore };
// Reads config.json, attaches what the configuration asks for, and (check) verifies that every weight exists
// with the right shape. ft plan ignores the weights.
// part: of a model that ranks share it then has this one.
BuiltModel build_model(const RunConfig&, Weights, const ModelPart& part = {}, const Purpose& = {});

}  // namespace ft
