#include "app/begin/facts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "app/assembly/built_data.h"
#include "app/assembly/built_model.h"
#include "app/hub/access.h"
#include "app/screen/format.h"
#include "data/batches/load.h"
#include "data/batches/row_kind.h"
#include "engine/cpu/cores.h"
#include "engine/cpu/target.h"
#include "engine/cuda/cuda_ops.h"
#include "engine/ops/ops.h"

namespace ft {
namespace {

constexpr std::int64_t kNoLimit = std::int64_t{1} << 40;

// Describes the device to choose, and sets `gpu`: a GPU if there is one that ft can use.
std::string chosen_device(bool& gpu) {
  gpu = false;
  if (!cuda_version()) return cpu::processor_name() + "; this ft is built without CUDA";
  try {
    const std::int64_t free = make_ops({Device::Kind::cuda, 0})->free_memory();
    gpu = true;
    return str("a GPU with ", show::memory(free), " free");
  } catch (const UserError& none) {
    return str(cpu::processor_name(), "; ", none.what());
  }
}

// Returns the tokens of sample i; in a pair, of the longer answer with its prompt.
std::int64_t length_of_sample(const Dataset& data, std::int64_t i) {
  std::size_t length = data[i].input_ids.size();
  if (data.kind() == RowKind::pair) length = std::max(length, data.rejected(i).input_ids.size());
  if (data.kind() == RowKind::labelled) length += data.tail(i).size();
  return static_cast<std::int64_t>(length);
}

// Returns the tokens of the answer of sample i; in a pair, of the longer one.
std::int64_t length_of_target(const Dataset& data, std::int64_t i) {
  std::size_t length = data[i].labels.size();
  if (data.kind() == RowKind::pair) length = std::max(length, data.rejected(i).labels.size());
  return static_cast<std::int64_t>(length);
}

// Returns the settings with which all of the training data is read uncut.
DataConfig uncut(DataConfig data, bool encoder_decoder) {
  data.eval_datasets.clear();
  for (DatasetConfig& set : data.datasets) set.weight = 1;  // rows are held out of those that are stored
  data.val_set_size = 0;
  data.packing = data.pad_to_max_length = false;
  if (encoder_decoder)
    data.max_source_length = data.max_target_length = kNoLimit;
  else
    data.max_seq_length = kNoLimit;
  return data;
}

}  // namespace

LengthFacts length_facts(std::vector<std::int64_t> lengths) {
  if (lengths.empty()) return {};
  std::sort(lengths.begin(), lengths.end());
  const std::size_t rank = (99 * lengths.size() + 99) / 100;  // 99 % of the samples, rounded up
  const auto sum = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  return {
      .p99 = lengths[rank - 1], .longest = lengths.back(), .mean = sum / static_cast<double>(lengths.size())};
}

BeginFacts machine_facts(std::optional<bool> gpu, int ranks) {
  BeginFacts f;
  f.ranks = ranks;
  if (gpu)
    f.gpu = *gpu;
  else
    f.device = chosen_device(f.gpu);
  f.fast_bf16 = f.gpu || cpu::best_target() == cpu::Target::avx512_bf16;
  return f;
}

void add_model_facts(BeginFacts& f, const RunConfig& config) {
  RunConfig plain = config;  // the model alone, as its files are
  plain.finetuning_type = FinetuningType::full;
  plain.lora = {};
  plain.quantization = {};
  plain.model.frozen_dtype = FrozenType::automatic;
  plain.training.fp8 = false;
  const BuiltModel built = build_model(plain, Weights::ignore, {}, {.work = Work::compute});
  EachParameter each([&](Parameter& p) { f.parameters += p.stands_for.value_or(p.whole_shape().numel()); });
  built.model().visit(each);
  f.positions = built.made.info.positions;
  f.encoder_decoder = built.made.info.decoder.has_value();
  f.rows =
      kind_of_rows(config.data, config.data.datasets[0], {.hub = hub::cache_folder()}, "data.datasets[0]");
}

void add_data_facts(BeginFacts& f, RunConfig config, Screen& screen) {
  config.data = uncut(std::move(config.data), f.encoder_decoder);
  const auto tokenizer = std::make_shared<std::shared_ptr<const Tokenizer>>();
  LoadContext context = load_context(config, vocab_size_of(config), tokenizer);
  Working working(screen, "reading data");
  context.progress = [&](std::int64_t done, std::int64_t of) { working(done, of); };
  const Dataset data =
      load_data(config.data, static_cast<std::uint64_t>(config.training.seed), context).train;
  std::vector<std::int64_t> lengths, targets;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    lengths.push_back(length_of_sample(data, i));
    if (f.encoder_decoder) targets.push_back(length_of_target(data, i));
  }
  f.samples = data.size();
  f.lengths = length_facts(std::move(lengths));
  f.targets = length_facts(std::move(targets));
}

}  // namespace ft
