// Models of several blocks with any number of recomputed blocks: the same bits, within the planned memory,
// also under ZeRO.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/files/json.h"
#include "engine/train/planner.h"
#include "lora/attach.h"
#include "models/registry.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/ranks.h"
#include "tests/support/source.h"

namespace ft {
namespace {

constexpr int kTokens = 12, kSource = 9;

struct Kind {
  const char* name;
  const char* golden;  // golden model with this config.json, except for `change`
  Json change;
  int frozen = 0;  // blocks before the first trained one
  int ranks = 1, stage = 0;
};
void PrintTo(const Kind& k, std::ostream* out) { *out << k.name; }

struct Result {
  double loss = 0;
  std::map<std::string, std::vector<float>> gradients;  // of rank 0
  std::int64_t planned = 0, taken = 0;                  // bytes of activations
};

Batch batch(bool pairs) {
  Batch b;
  b.starts = {0, kTokens};
  if (pairs) b.source_starts = {0, kSource};
  for (int i = 0; i < kTokens; ++i) {
    b.input_ids.push_back(3 + i % 7);
    b.positions.push_back(i);
    b.target_rows.push_back(i);
    b.targets.push_back(4 + i % 5);
  }
  for (int i = 0; i < kSource && pairs; ++i) b.source_ids.push_back(2 + i % 11);
  return b;
}

float number(const std::string& name, std::int64_t i) {
  const std::uint32_t bits = Random{5}.with(name).at(static_cast<std::uint64_t>(i))[0];
  return 0.2f * (static_cast<float>(bits) / 4294967296.0f - 0.5f);
}

Result step(Ops& ops, Communicator& comm, const Kind& kind, const std::string& config, std::int64_t n) {
  MadeModel made = make_model(config, DType::f32);
  lora::train_all(*made.model);
  EachParameter freeze([&](Parameter& p) {
    for (int i = 0; i < kind.frozen; ++i)
      if (p.name.find("layers." + std::to_string(i) + ".") != p.name.npos) p.trainable = false;
    if (kind.frozen > 0 && p.name.find("embed") != p.name.npos) p.trainable = false;
  });
  made.model->visit(freeze);
  const bool pairs = made.info.decoder.has_value();
  PlanRequest request;
  request.zero = {.stage = ZeroStage::of(kind.stage), .prefetch = 3000};
  request.grid = GridShape::of_data(kind.ranks);
  request.recompute = n;
  request.train = {{kTokens, kTokens, 1, kTokens, pairs ? kSource : 0, pairs ? kSource : 0}};
  const Plan plan = plan_run(*made.model, request);
  Arena saved(ops.allocate(plan.saved), plan.saved), scratch(ops.allocate(plan.scratch), plan.scratch);
  ParameterStore store(ops, comm, request.zero);
  made.model->add_units(store);
  made.model->set_recompute(n);
  store.reserve(plan.transient);
  store.load([](const Parameter& p, Tensor y, std::int64_t first) {
    for (std::int64_t i = 0; i < y.numel(); ++i) y.as<float>()[i] = number(p.name, first + i);
  });
  Ctx c{ops, saved, scratch, {DType::f32, {}, false}};
  const Buffer memory = ops.allocate(8);
  const Tensor loss(memory.get(), DType::f64, {1});
  *loss.as<double>() = 0;
  store.begin_step();
  store.begin_micro_step(true);
  made.model->forward_backward(c, store, batch(pairs), CrossEntropy{loss});
  Result r{*loss.as<double>(), {}, plan.saved, saved.peak()};
  store.stepping().each_slice([&](const Slice& s) {
    std::vector<float>& g = r.gradients[s.parameter->name];
    g.assign(s.grad.as<float>(), s.grad.as<float>() + s.count);
  });
  return r;
}

class Recomputation : public testing::TestWithParam<Kind> {
 protected:
  Recomputation() {
    const Json golden = read_json(
        source_path(std::string("tests/golden/models/") + GetParam().golden + "/model/config.json"));
    Json json = golden;
    json.update(GetParam().change);
    std::ofstream(folder_ / "config.json") << json.dump();
  }
  Result run(std::int64_t n) {
    const Kind& kind = GetParam();
    Result first;
    for (const auto& e : on_threads(kind.ranks, [&](Ops&ops, Mesh mesh) {
           MeshCommunicator comm(ops, std::move(mesh), 20);
           const Result r = step(ops, comm, kind, folder_ / "config.json", n);
           if (comm.rank() == 0) first = r;
         }))
      if (e) std::rethrow_exception(e);
    return first;
  }
  test::TempFolder folder_;
};

TEST_P(Recomputation, ChangesMemoryAndNoBit) {
  const MadeModel made = make_model(folder_ / "config.json", DType::f32);
  const Result kept = run(0);
  EXPECT_GT(std::abs(kept.loss), 1);
  EXPECT_EQ(kept.planned, kept.taken);
  std::int64_t before = kept.taken;
  for (std::int64_t n = 1; n <= made.model->most_recompute(); ++n) {
    const Result r = run(n);
    EXPECT_EQ(r.loss, kept.loss) << n;
    EXPECT_EQ(r.gradients, kept.gradients) << n;
    EXPECT_EQ(r.planned, r.taken) << n;
    EXPECT_LE(r.taken, before) << n;
    before = r.taken;
  }
  before = kept.taken;
  for (std::int64_t n = -1; n >= made.model->least_recompute(); --n) {
    const Result r = run(n);
    EXPECT_EQ(r.loss, kept.loss) << n;
    EXPECT_EQ(r.gradients, kept.gradients) << n;
    EXPECT_EQ(r.planned, r.taken) << n;
    if (-n <= made.model->blocks() - GetParam().frozen)
      EXPECT_GT(r.taken, before) << n;
    else  // blocks without a backward pass keep nothing
      EXPECT_EQ(r.taken, before) << n;
    before = r.taken;
  }
  EXPECT_LT(run(made.model->most_recompute()).taken, run(made.model->blocks()).taken);
}

// Six layers that borrow keys and values of the first five.
Json gemma4() {
  Json types = Json::array();
  for (int i = 0; i < 11; ++i) types.push_back(i % 3 == 1 ? "full_attention" : "sliding_attention");
  return {{"num_hidden_layers", 11},
          {"layer_types", types},
          {"num_kv_shared_layers", 6},
          {"global_head_dim", 12},
          {"per_layer_config", nullptr}};
}

const Json kLlama = {{"num_hidden_layers", 11}}, kT5 = {{"num_layers", 7}, {"num_decoder_layers", 9}};
INSTANTIATE_TEST_SUITE_P(Models, Recomputation,
                         testing::Values(Kind{"llama", "llama", kLlama}, Kind{"t5", "t5", kT5},
                                         Kind{"llama_frozen_below", "llama", kLlama, 2},
                                         Kind{"llama_2_ranks_stage_3", "llama", kLlama, 0, 2, 3},
                                         Kind{"t5_2_ranks_stage_3", "t5", kT5, 0, 2, 3},
                                         Kind{"gemma4_e", "gemma4-e", gemma4()},
                                         Kind{"gemma4_e_2_ranks_stage_3", "gemma4-e", gemma4(), 0, 2, 3}),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace ft
