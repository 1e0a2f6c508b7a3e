// Pipelines whose ranks are threads of a test: their results, to compare with one rank's, within the planned
// memory. Weights are invented.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <mutex>

#include "engine/train/pipeline.h"
#include "engine/train/planner.h"
#include "engine/train/stage_schedule.h"
#include "lora/quantize.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/models/golden_case.h"
#include "tests/models/made_up.h"
#include "tests/support/ranks.h"

namespace ft::test {

enum class Method : std::uint8_t { full, lora, qlora };
struct Case {
  std::string golden = "llama";
  Method method = Method::full;
  Json change = Json::object();  // changes to config.json
  DType dtype = DType::f32;
  std::int64_t recompute = 0;
  int stage = 0;  // of ZeRO
  int micro_batches = 3;
  std::vector<std::int64_t> adapted = {};  // blocks; empty: all
};

inline GridShape grid_of(int pipeline, int data = 1, int sequence = 1, int tensor = 1) {
  return GridShape(GridPoint{pipeline, data, sequence, tensor});
}

inline GridShape interleaved(int chunks, GridShape shape) {
  shape.chunks = chunks;
  return shape;
}

struct Ran {
  double loss = 0, norm = 0, evaluated = 0;
  std::map<std::string, std::vector<float>> gradients;  // of complete tensors
  // bytes sent in the passes by rank 0, and by the last rank
  std::int64_t sent = 0, sent_down = 0;
};

class Run {
 public:
  Run(const Case& s, const GoldenCase& golden, const std::string& config, Ops& ops, const Grid& grid)
      : case_(s), grid_(grid), made_(make_model(config, s.dtype)), store_(make_store(ops)) {
    for (const auto& samples : golden.batches)
      for (const Batch& sample : samples) data_.push_back(sample);
    build(golden.routes() ? 0 : 0.2);  // adapters of single experts are trained without dropout
    PlanRequest request;
    request.dtype = s.dtype;
    request.zero = options();
    request.grid = grid.shape;
    request.stage = grid.place.pipeline;
    request.micro_batches = s.micro_batches;
    request.recompute = s.recompute;
    for (const Batch& b : data_) request.train.push_back(shape_of(b));
    request.eval = request.train;
    plan_ = plan_run(*made_.model, request);
    saved_.emplace(ops.allocate(plan_.saved), plan_.saved);
    scratch_.emplace(ops.allocate(plan_.scratch), plan_.scratch);
    context_.emplace(Ctx{ops, *saved_, *scratch_, {s.dtype}});
    context_->grid = &grid;
    for (std::int64_t i = 1; i < plan_.in_flight; ++i)
      flights_.emplace_back(ops.allocate(plan_.flight), plan_.flight);
    context_->in_flight = flights_;
    if (plan_.again > 0) context_->again = &again_.emplace(ops.allocate(plan_.again), plan_.again);
    made_.model->add_units(store_);
    made_.model->set_recompute(s.recompute);
    store_.reserve(plan_.transient);
    store_.load(of_parts([&](const Parameter& p, Tensor y, std::int64_t first) {
      if (four_bit_ && four_bit_->has(p))
        four_bit_->read(base_, p, y, first);
      else
        make_up(p.name, p.shape.rank == 1, 0.1, y, first);
    }));
  }

  // Runs a step on this rank, and adds its part of the result to `all`.
  void run(Ran& all, std::mutex& mutex) {
    Ran r;
    const Buffer memory = context_->ops.allocate(16);
    const Tensor sums(memory.get(), DType::f64, {2});
    *sums.as<double>() = sums.as<double>()[1] = 0;
    store_.begin_step();
    const std::int64_t before = grid_.world().sent();
    passes(sums.elements(0, 1));
    const std::int64_t sent = grid_.world().sent() - before;
    evaluate(sums.elements(1, 1));
    if (grid_.pipeline()) grid_.pipeline()->all_reduce(sums);
    grid_.zero().all_reduce(sums);
    store_.reduction().add_up_ends();
    r.loss = sums.as<double>()[0];
    r.evaluated = sums.as<double>()[1];
    r.norm = store_.grad_norm();
    expect_planned_memory();
    const std::lock_guard lock(mutex);
    store_.stepping().each_slice([&](const Slice& s) {
      const Parameter& p = *s.parameter;
      if (p.copied) return;
      std::vector<float>& g = all.gradients[p.name];
      g.resize(static_cast<std::size_t>(p.whole_shape().numel()));
      each_piece(p, s.first, s.count, [&](std::int64_t here, std::int64_t at, std::int64_t n) {
        std::copy_n(s.grad.as<float>() + (here - s.first), n, g.begin() + at);
      });
    });
    if (grid_.world().rank() + 1 == grid_.world().size()) all.sent_down = sent;
    if (grid_.world().rank() > 0) return;
    r.gradients = std::move(all.gradients);
    r.sent = sent;
    r.sent_down = all.sent_down;
    all = std::move(r);
  }

 private:
  ZeroOptions options() const { return {.stage = ZeroStage::of(grid_.shape.zero() > 1 ? case_.stage : 0)}; }
  ParameterStore make_store(Ops& ops) const {
    return ParameterStore(ops, grid_.zero(), options(), no_states, {}, &grid_);
  }
  void build(double dropout) {
    Model& model = *made_.model;
    if (case_.method == Method::full) {
      lora::train_all(model);
    } else {
      lora::LoraConfig c;
      c.r = 3;
      c.lora_dropout = dropout;
      c.target_modules = "all-linear";
      if (!case_.adapted.empty()) c.layers_to_transform = case_.adapted;
      lora::Origin origin;
      origin.head = made_.info.head;
      lora::attach(model, c, case_.dtype, origin);
    }
    if (case_.method == Method::qlora)
      four_bit_.emplace(model, lora::FourBitPlan{{}, {made_.info.head}, false}, &base_);
    model.cut({grid_.place.tensor, grid_.shape.tensor});
    if (grid_.shape.sequence > 1) model.share_rows(grid_.shape.sequence, grid_.shape.sharing);
    const int stages = grid_.shape.pipeline, chunks = grid_.shape.chunks;
    const std::vector<double> alike(static_cast<std::size_t>(model.blocks()), 1);
    if (stages > 1) {
      const std::vector<Stage> all = deal_blocks(alike, {}, stages * chunks);
      std::vector<Stage> own;
      for (int c = 0; c < chunks; ++c)
        own.push_back(all[static_cast<std::size_t>(c * stages + grid_.place.pipeline)]);
      model.stages()->keep_stages(own);
    }
    const bool noise = case_.method == Method::lora && !made_.info.decoder;
    EXPECT_TRUE(!noise || model.set_embedding_noise(5));
  }
  Batch take(std::int64_t round, Ctx& own) const {
    const std::int64_t i = round * grid_.shape.data + grid_.place.data;
    own.random = Random{3}.with(static_cast<std::uint64_t>(i));
    return data_[static_cast<std::size_t>(i) % data_.size()];
  }
  void passes(Tensor loss) {
    constexpr float kScale = 0.1f, kSmoothing = 0.1f;
    Ctx& c = *context_;
    const CrossEntropy of_step{loss, kScale, kSmoothing};
    const auto taken = [&](std::int64_t i, Ctx& own) { return take(i, own); };
    if (grid_.pipeline())
      return run_stage({*made_.model->stages(), store_, c, of_step, case_.micro_batches, taken});
    for (int i = 0; i < case_.micro_batches; ++i) {
      store_.begin_micro_step(i + 1 == case_.micro_batches);
      const Batch b = take(i, c);
      made_.model->forward_backward(c, store_, b, of_step);
    }
  }
  void evaluate(Tensor loss) {
    Ctx c = *context_;
    c.train = false;
    for (std::int64_t i = 0; i < 2; ++i) made_.model->forward(c, store_, take(i, c), CrossEntropy{loss});
  }
  void expect_planned_memory() const {
    EXPECT_LE(saved_->peak(), plan_.saved);
    EXPECT_LE(scratch_->peak(), plan_.scratch);
    std::int64_t flight = 0;
    for (const Arena& a : flights_) flight = std::max(flight, a.peak());
    EXPECT_LE(flight, plan_.flight);
    EXPECT_LE(again_ ? again_->peak() : 0, plan_.again);
  }

  const Case& case_;
  const Grid& grid_;
  MadeModel made_;
  MadeUp base_{0.1};
  std::optional<lora::FourBitWeights> four_bit_;
  ParameterStore store_;
  std::vector<Batch> data_;
  Plan plan_;
  std::optional<Arena> saved_, scratch_, again_;
  std::vector<Arena> flights_;
  std::optional<Ctx> context_;
};

inline Ran run_on(const Case& s, const GridShape& shape) {
  const GoldenCase golden(s.golden);
  const TempFolder folder;
  const std::string config = folder / "config.json";
  Json json = read_json(golden.model_folder() + "/config.json");
  for (const char* dropout : {"attention_dropout", "attn_pdrop", "dropout", "dropout_rate"})
    if (json.contains(dropout) && shape.sequence == 1) json[dropout] = 0.2;
  for (const char* layers : {"num_hidden_layers", "n_layer"})
    if (json.contains(layers) && json[layers] == 1) json[layers] = 2;
  json.update(s.change);
  std::ofstream(config) << json.dump();
  Ran all;
  std::mutex mutex;
  run_ranks(shape.ranks(), true, [&](Communicator& world) {
    cpu::CpuOps ops(1);
    const Grid grid(world, shape);
    Run(s, golden, config, ops, grid).run(all, mutex);
  });
  return all;
}

inline bool is_table(const std::string& name) {
  return name.find("embed_tokens") != name.npos || name.find("wte") != name.npos ||
         name.find("embed_in") != name.npos || name == "shared.weight";
}

inline void expect_near(const std::vector<float>& got, const std::vector<float>& want,
                        const std::string& name) {
  ASSERT_EQ(got.size(), want.size()) << name;
  double top = 0, bottom = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    top += (double{got[i]} - want[i]) * (double{got[i]} - want[i]);
    bottom += double{want[i]} * want[i];
  }
  EXPECT_LE(top, 1e-12 * bottom) << name;
}

inline void expect_same(const Ran& got, const Ran& want) {
  EXPECT_GT(want.norm, 0);
  EXPECT_EQ(got.loss, want.loss);
  EXPECT_EQ(got.evaluated, want.evaluated);
  EXPECT_NEAR(got.norm, want.norm, 1e-6 * want.norm);
  ASSERT_EQ(got.gradients.size(), want.gradients.size());
  const bool tied = !want.gradients.contains("lm_head.weight");
  for (const auto& [name, values] : want.gradients)
    if (tied && is_table(name))
      expect_near(got.gradients.at(name), values, name);
    else
      EXPECT_EQ(got.gradients.at(name), values) << name;
}

// Expects equal bits on grids with data, sequence and tensor axes too, full and with adapters.
inline void expect_bits_beside_other_axes(Case s, int stages) {
  for (const Method method : {Method::full, Method::lora})
    for (const auto& [data, sequence, tensor] :
         {std::tuple{2, 1, 1}, std::tuple{1, 2, 1}, std::tuple{1, 1, 2}, std::tuple{2, 1, 2}})
      for (const int stage : {0, 1}) {
        SCOPED_TRACE(str(data, " x ", sequence, " x ", tensor, ", stage ", stage));
        s.method = method;
        s.stage = stage;
        expect_same(run_on(s, grid_of(stages, data, sequence, tensor)),
                    run_on(s, grid_of(1, data, sequence, tensor)));
      }
}

// Expects equal bits in bf16, and with 4-bit weights, which need the model's sizes in `wider`.
inline void expect_bits_of_low_precision(Case s, const Json& wider) {
  s.dtype = DType::bf16;
  expect_same(run_on(s, grid_of(3)), run_on(s, grid_of(1)));
  s.method = Method::qlora;
  s.change.update(wider);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    s.dtype = dtype;
    expect_same(run_on(s, grid_of(3)), run_on(s, grid_of(1)));
  }
}

}  // namespace ft::test
