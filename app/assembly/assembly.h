// From a RunConfig to the parts of a run, in the order in which they depend on each other: model, data, plan,
// memory. train, eval, plan, merge and validate are made of these.
#pragma once
#include <memory>

#include "app/config/config.h"
#include "data/batcher.h"
#include "data/load.h"
#include "data/stream.h"
#include "engine/dist/communicator.h"
#include "engine/io/weights.h"
#include "engine/train/planner.h"
#include "lora/attach.h"
#include "lora/peft.h"
#include "lora/quantize.h"
#include "models/registry.h"

namespace ft {

// A model that knows what is trained, but has no memory yet, and the files its weights come from.
struct BuiltModel {
  std::string folder;
  MadeModel made;
  DType dtype = DType::f32;  // of activations and frozen weights
  bool lora = false;
  lora::LoraConfig lora_config;  // with `lora`
  lora::Attached attached;
  std::unique_ptr<WeightSource> base;            // null: not asked for
  std::optional<lora::FourBitWeights> four_bit;  // nothing: no weights in 4 bits
  std::unique_ptr<lora::AdapterFolder> start;    // the adapter to continue from; null: none
  std::uint64_t seed = 0;

  Model& model() const { return *made.model; }
  // Every parameter's first value: from the model's files, the adapter's, or at random. Uses this BuiltModel.
  ReadParameter reader() const;
};
enum class Weights : bool { check, ignore };
// Reads config.json, attaches what the configuration asks for, and (check) makes sure that every weight is
// there with the right shape. ft plan ignores the weights.
BuiltModel build_model(const RunConfig&, Weights);

struct BuiltData {
  std::shared_ptr<const Tokenizer> tokenizer;  // null: the data has no text
  LoadedData loaded;
  std::unique_ptr<Batcher> train, eval;  // eval null: nothing is held out
  std::unique_ptr<Stream> stream;        // with data.streaming, instead of train

  const BatchSource& batches() const { return stream ? static_cast<const BatchSource&>(*stream) : *train; }
};
// What the model's config.json says, without the rest of the model: looking at data needs no more.
std::int64_t vocab_size_of(const RunConfig&);
// `ranks`: of the run; a stream has as many batches as they take together.
BuiltData build_data(const RunConfig&, std::int64_t vocab_size, LoadPart, const LoadProgress& progress,
                     int ranks = 1);

// Where a run computes; a rank takes the GPU with its number on the machine.
Device device_of(const RunConfig&, int gpu = 0);
std::unique_ptr<Ops> make_run_ops(const RunConfig&, int gpu);

// With gradient_checkpointing auto as with true, which asks for the least memory (planned.h).
PlanRequest plan_request(const RunConfig&, const BuiltModel&, const BuiltData&, std::int64_t workspace,
                         int ranks);

// The device, the parameters and the two arenas of a run: all of its memory.
class Engine {
 public:
  // Takes all memory that `plan` says and loads the parameters. UserError(Exit::memory) when it is not there.
  // No communicator: a world of one.
  Engine(std::unique_ptr<Ops>, std::unique_ptr<Communicator>, const BuiltModel&, const PlanRequest&,
         const Plan&);

  std::unique_ptr<Ops> ops;
  std::unique_ptr<Communicator> comm;
  ParameterStore store;
  Arena saved, scratch;
  Ctx context;

  MemoryReport memory(bool adapter) const;  // as measured: what was taken, and the arenas' peaks
};

// How many of a machine's ranks share the memory of this device: a machine's all of them, a GPU's one.
int sharing(const Ops&, int local_ranks);

// UserError(Exit::memory) when the plan, for each of the ranks that share the device's memory, needs more
// than it has; `advice` says what would take less.
void require_memory(const MemoryReport& planned, const Ops&, const std::string& advice, int local_ranks = 1);

}  // namespace ft
