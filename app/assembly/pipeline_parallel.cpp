#include "app/assembly/pipeline_parallel.h"

#include "data/rows/seq2seq.h"
#include "engine/model/stages.h"
#include "engine/train/planner.h"

namespace ft {
namespace {

constexpr const char* kPipelineSize = "distributed.pipeline_parallel_size";
constexpr const char* kChunks = "distributed.virtual_pipeline_parallel_size";

// Interleaved stages process as many micro-batches in a round as there are stages.
void require_rounds(const RunConfig& config, const BuiltModel& b, const ModelPart& part) {
  const std::int64_t m = config.training.gradient_accumulation_steps, below = m / part.stages * part.stages;
  if (!b.purpose.trains() || part.chunks == 1 || m % part.stages == 0) return;
  throw UserError(Exit::config,
                  str("training.gradient_accumulation_steps is ", m, ", and with ", kChunks, " ", part.chunks,
                      " it has to be a multiple of ", kPipelineSize, ", ", part.stages, "; take ",
                      below > 0 ? str(below, " or ") : "", below + part.stages));
}

void require_blocks(const BuiltModel& b, const ModelPart& part) {
  const std::int64_t chunks = part.chunks, blocks = b.model().blocks();
  if (blocks >= chunks * part.stages) return;
  const std::string has =
      str(", and the model has ", blocks, " layers (",
          b.made.info.decoder ? "num_layers + num_decoder_layers" : "num_hidden_layers", "), of which each ");
  if (chunks > 1 && blocks >= part.stages)
    throw UserError(Exit::config, str(kChunks, " is ", chunks, has, "chunk of ", part.stages,
                                      " stages needs one; take at most ", blocks / part.stages));
  throw UserError(Exit::config,
                  str(kPipelineSize, " is ", part.stages, has, "stage needs one; take at most ", blocks));
}

// Returns the longest possible sequence, in which attention has its largest share of the computation.
BatchShape one_sequence(const RunConfig& config, const ModelInfo& info) {
  if (info.decoder) return full_pairs(1, config.data.max_source_length, config.data.max_target_length);
  std::int64_t n = config.data.max_seq_length;
  if (info.positions > 0) n = std::min(n, info.positions);
  return {.tokens = n, .targets = n - 1, .sequences = 1, .longest = n};
}

std::vector<Stage> deal(const RunConfig& config, BuiltModel& whole, int stages) {
  PlanRequest request;
  request.dtype = whole.dtype;
  request.train = {one_sequence(config, whole.made.info)};
  const BlockCosts costs = flops_by_block(whole.model(), request);
  return deal_blocks(costs.blocks, costs.ends, stages);
}

}  // namespace

void keep_stages(BuiltModel& b, const RunConfig& config, const ModelPart& part) {
  if (part.stages == 1) return;
  Stages* const stages = b.model().stages();
  if (!stages)
    throw UserError(Exit::config, str(kPipelineSize, " is ", part.stages,
                                      ": this model cannot be split into stages yet; leave it out"));
  require_blocks(b, part);
  require_rounds(config, b, part);
  const std::vector<Stage> all = deal(config, *b.whole, part.stages * part.chunks);
  std::vector<Stage> own;
  for (int chunk = 0; chunk < part.chunks; ++chunk)
    own.push_back(all[static_cast<std::size_t>(chunk * part.stages + part.stage)]);
  b.stage = part.stage;
  stages->keep_stages(own);
}

}  // namespace ft
