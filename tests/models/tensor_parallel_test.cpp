// Ranks that share each layer compute the same as one rank: loss, gradients, their norm, logits, of every
// family, full and with adapters, with every dropout active, within the planned memory. Weights are invented,
// so that heads can be divided.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "engine/parallel/cut.h"
#include "engine/train/optimizers/optimizer.h"
#include "engine/train/planner.h"
#include "lora/experts.h"
#include "lora/fp8.h"
#include "lora/kinds.h"
#include "lora/quantize.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/models/golden_case.h"
#include "tests/models/made_up.h"
#include "tests/support/ranks.h"

namespace ft::test {
namespace {

// A golden's model with other heads and dropouts.
enum class Method : std::uint8_t { full, lora, qlora, fp8 };
struct Case {
  std::string golden;
  Method method = Method::full;
  bool nested = false;  // with qlora: double quantization
  DType dtype = DType::f32;
  std::int64_t recompute = 0;
  bool shards = false;           // shards rows between layers too
  bool together = false;         // with lora: experts have one adapter for all, as PEFT has for parameters
  Json change = Json::object();  // to config.json
  const lora::AdapterKind* kind = &lora::kinds::kLora;
  bool lora_bias = false;

  // Invented weights are so small that rounding does not grow from layer to layer.
  double spread() const { return method == Method::qlora ? 0.05 : 0.2; }
};

// Returns true for families whose layers ranks cannot share yet.
bool is_refused(const std::string& golden) {
  for (const char* name : {"olmo", "gemma4-", "deepseek", "glm4-moe-lite", "gpt-oss"})
    if (golden.starts_with(name)) return true;
  return false;
}

Json config_of(const GoldenCase& golden, const Case& s) {
  Json c = read_json(golden.model_folder() + "/config.json");
  const auto set = [&](const char* name, const Json& value) {
    if (c.contains(name)) c[name] = value;
  };
  if (is_refused(golden.name)) return c;
  for (const char* heads : {"num_attention_heads", "num_heads", "n_head"}) set(heads, 4);
  if (golden.name.starts_with("phi3") || golden.name.starts_with("gpt-neox"))
    set("hidden_size", 32);  // rotates as many columns of a head as with three heads
  set("num_key_value_heads", 2);
  set("linear_num_key_heads", 2);
  set("linear_num_value_heads", 4);
  // results of a delta rule begin small, and their norm would magnify rounding
  if (c.contains("linear_num_key_heads")) c["rms_norm_eps"] = 1e-2;
  c.update(s.change);
  if (c.contains("per_layer_config"))
    for (auto& [layer, own] : c["per_layer_config"].items()) own["num_key_value_heads"] = 2;
  for (const char* dropout : {"attention_dropout", "dropout_rate", "attn_pdrop", "dropout"})
    set(dropout, 0.2);
  if (s.method != Method::qlora) return c;
  for (const char* width : {"hidden_size", "d_model", "n_embd"}) set(width, 128);  // parts are full blocks
  for (const char* width : {"intermediate_size", "d_ff", "n_inner"}) set(width, 256);
  for (const char* width : {"head_dim", "d_kv", "linear_key_head_dim", "linear_value_head_dim"})
    set(width, 32);
  for (const char* width : {"moe_intermediate_size", "shared_expert_intermediate_size"}) set(width, 128);
  return c;
}

struct Ran {
  double loss = 0, norm = 0;
  Named gradients;  // of complete tensors, with zeros in other ranks' parts
  Values logits;
};

Values values_of(const Tensor& t) {
  Values out;
  for (std::int64_t i = 0; i < t.numel(); ++i)
    out.push_back(t.dtype == DType::f32 ? double{t.as<float>()[i]} : double{to_float(t.as<bf16>()[i])});
  return out;
}

class Run {
 public:
  Run(const Case& s, const GoldenCase& golden, const std::string& config, Ops& ops, const Grid& grid)
      : grid_(grid),
        made_(make_model(config, s.dtype)),
        base_(s.spread()),
        store_(ops, grid.zero(), {}, no_states, {}, &grid) {
    Model& model = *made_.model;
    if (s.method != Method::full) {
      lora::LoraConfig c;
      c.peft_type = s.kind;
      c.lora_bias = s.lora_bias;
      c.r = 3;
      c.lora_dropout = golden.routes() ? 0 : 0.2;  // adapters of experts are trained without dropout
      c.target_modules = "all-linear";
      lora::Origin origin;
      origin.head = made_.info.head;
      if (s.together) c = lora::with_expert_parameters(model, c, origin.head, "lora.", Exit::config);
      lora::attach(model, c, s.dtype, origin);
    } else {
      lora::train_all(model);
    }
    if (s.method == Method::fp8)
      fp8_.emplace(model, lora::Fp8Plan{.scheme = kFp8Channels, .skip = {made_.info.head}}, &base_);
    if (s.method == Method::qlora)
      four_bit_.emplace(model, lora::FourBitPlan{{.nested = s.nested}, {made_.info.head}, false}, &base_);
    model.cut({grid.place.tensor, grid.shape.tensor, grid.shape.shards_rows});
    batch_ = GoldenCase::join(golden.batches[0]);
    PlanRequest request;
    request.dtype = s.dtype;
    request.grid = grid.shape;
    request.recompute = s.recompute;
    request.train = request.eval = {shape_of(batch_)};
    plan_ = plan_run(model, request);
    saved_.emplace(ops.allocate(plan_.saved), plan_.saved);
    scratch_.emplace(ops.allocate(plan_.scratch), plan_.scratch);
    context_.emplace(Ctx{ops, *saved_, *scratch_, {s.dtype, Random{3}, true}});
    context_->grid = &grid;
    model.add_units(store_);
    model.set_recompute(s.recompute);
    store_.reserve(plan_.transient);
    store_.load(of_parts([&](const Parameter& p, Tensor y, std::int64_t first) {
      if (four_bit_ && four_bit_->has(p))
        four_bit_->read(base_, p, y, first);
      else if (fp8_ && fp8_->has(p))
        fp8_->read(base_, p, y, first);
      else
        make_up(p.name, p.shape.rank == 1, s.spread(), y, first);
    }));
  }

  Ran run() {
    Ran r;
    const std::int64_t n = std::ssize(batch_.targets);
    Buffer memory = context_->ops.allocate(8);
    const Tensor loss(memory.get(), DType::f64, {1});
    *loss.as<double>() = 0;
    store_.begin_step();
    store_.begin_micro_step(true);
    made_.model->forward_backward(*context_, store_, batch_,
                                  CrossEntropy{loss, 1 / static_cast<float>(n), 0.1f});
    r.loss = *loss.as<double>() / static_cast<double>(n);
    r.norm = store_.grad_norm();
    store_.stepping().each_slice([&](const Slice& s) {
      const Parameter& p = *s.parameter;
      Values& all = r.gradients[p.name];
      all.resize(static_cast<std::size_t>(p.whole_shape().numel()));
      const Values own = values_of(s.grad);
      each_piece(p, s.first, s.count, [&](std::int64_t here, std::int64_t at, std::int64_t count) {
        for (std::int64_t i = 0; i < count && !p.copied; ++i)
          all[static_cast<std::size_t>(at + i)] = own[static_cast<std::size_t>(here - s.first + i)];
      });
    });
    EXPECT_LE(saved_->peak(), plan_.saved);
    EXPECT_LE(scratch_->peak(), plan_.scratch);
    r.logits = logits();
    return r;
  }

 private:
  Values logits() {
    constexpr std::int64_t kRoom = 8 << 20;  // logits are not planned here
    Arena saved(context_->ops.allocate(kRoom), kRoom), scratch(context_->ops.allocate(kRoom), kRoom);
    Ctx c{context_->ops, saved, scratch, {context_->dtype, {}, false}};
    c.grid = &grid_;
    const std::int64_t V = made_.model->vocab_size();
    const Tensor y = saved.take({std::ssize(batch_.targets), V}, c.dtype);
    made_.model->logits(c, store_, batch_, y);
    return values_of(y);
  }

  const Grid& grid_;
  MadeModel made_;
  MadeUp base_;
  std::optional<lora::FourBitWeights> four_bit_;
  std::optional<lora::Fp8Weights> fp8_;
  ParameterStore store_;
  Batch batch_;
  Plan plan_;
  std::optional<Arena> saved_, scratch_;
  std::optional<Ctx> context_;
};

GridShape tensor_only(int ranks, bool shards) {
  GridShape shape;
  shape.tensor = ranks;
  shape.shards_rows = shards;
  return shape;
}

// Returns the result that all ranks have, with their gradients combined.
Ran run_on(const Case& s, int ranks) {
  const GoldenCase golden(s.golden);
  const TempFolder folder;
  const std::string config = folder / "config.json";
  std::ofstream(config) << config_of(golden, s).dump();
  std::vector<Ran> all(static_cast<std::size_t>(ranks));
  run_ranks(ranks, true, [&](Communicator& world) {
    cpu::CpuOps ops(1);
    const Grid grid(world, tensor_only(ranks, s.shards));
    all[static_cast<std::size_t>(world.rank())] = Run(s, golden, config, ops, grid).run();
  });
  for (std::size_t r = 1; r < all.size(); ++r) {
    EXPECT_EQ(all[r].loss, all[0].loss);
    EXPECT_EQ(all[r].norm, all[0].norm);
    EXPECT_EQ(all[r].logits, all[0].logits);
    for (auto& [name, values] : all[0].gradients)
      for (std::size_t i = 0; i < values.size(); ++i) values[i] += all[r].gradients.at(name)[i];
  }
  return all[0];
}

void expect_same(const Ran& got, const Ran& want, double rounding) {
  EXPECT_NEAR(got.loss, want.loss, rounding * want.loss);
  EXPECT_NEAR(got.norm, want.norm, rounding * want.norm);
  EXPECT_LT(nmse(got.logits, want.logits), rounding * rounding);
  for (const auto& [name, values] : want.gradients) {
    if (is_rounding(values, want.gradients)) continue;
    EXPECT_LT(nmse(got.gradients.at(name), values), 100 * rounding * rounding) << name;
  }
  EXPECT_LT(nmse(got.gradients, want.gradients), 10 * rounding * rounding);
}

std::vector<std::string> models() {
  std::vector<std::string> names = golden_names();
  std::erase_if(names, [](const std::string& n) { return n.starts_with("lora") || n.ends_with("-v4"); });
  return names;
}

class TensorParallel : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Models, TensorParallel, testing::ValuesIn(models()), [](const auto& test) {
  std::string name = test.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST_P(TensorParallel, TwoRanksAreOne) {
  for (const Method method : {Method::full, Method::lora}) {
    const Case s{.golden = GetParam(), .method = method};
    if (is_refused(s.golden)) {
      const std::string said = [&] {
        try {
          run_on(s, 2);
        } catch (const UserError& e) {
          return std::string(e.what());
        }
        return std::string();
      }();
      EXPECT_NE(said.find("distributed.tensor_parallel_size"), std::string::npos) << said;
      continue;
    }
    const Ran one = run_on(s, 1);
    expect_same(run_on(s, 2), one, 5e-6);
    Case again = s;
    again.recompute = kAllBlocks;
    expect_same(run_on(again, 2), one, 5e-6);
    if (s.golden.find("t5") != std::string::npos) continue;
    again.shards = true;
    for (const std::int64_t blocks : {std::int64_t{0}, kAllBlocks}) {
      again.recompute = blocks;
      expect_same(run_on(again, 2), one, 5e-6);
    }
  }
}

TEST(TensorParallelQlora, TwoRanksAreOne) {
  for (const std::string golden :
       {"llama", "t5-v11", "phi3", "gpt2", "gpt-neox", "qwen35", "qwen3-next-moe", "mixtral"})
    for (const bool nested : {false, true}) {
      const Case s{.golden = golden, .method = Method::qlora, .nested = nested};
      expect_same(run_on(s, 2), run_on(s, 1), 5e-6);
    }
}

TEST(TensorParallelFp8, TwoRanksAreOne) {
  for (const std::string golden :
       {"llama", "t5-v11", "phi3", "gpt2", "gpt-neox", "qwen35", "qwen3-next-moe"}) {
    const Case s{.golden = golden, .method = Method::fp8};
    expect_same(run_on(s, 2), run_on(s, 1), 5e-6);
  }
}

// Experts with one adapter for all have parts of its matrices; rows between layers may be sharded too.
TEST(TensorParallelExperts, WithOneAdapterAreOne) {
  for (const std::string golden : {"mixtral", "qwen3-moe", "qwen3-next-moe"})
    for (const Method method : {Method::lora, Method::qlora}) {
      Case s{.golden = golden, .method = method, .together = true};
      SCOPED_TRACE(golden);
      const Ran one = run_on(s, 1);
      EXPECT_TRUE(std::ranges::any_of(
          one.gradients, [](const auto& g) { return g.first.find("experts.lora_A") != g.first.npos; }));
      expect_same(run_on(s, 2), one, 5e-6);
      s.shards = true;
      s.recompute = kAllBlocks;
      expect_same(run_on(s, 2), one, 5e-6);
    }
}

// The loss of the routers is complete on every rank. Rows that fill up a micro-batch would count in it.
TEST(TensorParallelExperts, HaveOneRanksRouterLoss) {
  const Json loss = {{"output_router_logits", true}, {"router_aux_loss_coef", 5}};
  Case s{.golden = "mixtral", .change = loss};
  const Ran one = run_on(s, 1);
  EXPECT_GT(one.loss, run_on(Case{.golden = "mixtral"}, 1).loss + 0.1);
  expect_same(run_on(s, 2), one, 5e-6);
  s.shards = true;
  try {
    run_on(s, 2);
    FAIL() << "not refused";
  } catch (const UserError& e) {
    EXPECT_NE(std::string(e.what()).find("output_router_logits"), std::string::npos) << e.what();
  }
}

TEST(TensorParallelDeltaNet, HeadsThatRanksDoNotDivideAreRefused) {
  Case s{.golden = "qwen35", .change = {{"linear_num_key_heads", 3}, {"linear_num_value_heads", 6}}};
  try {
    run_on(s, 2);
    FAIL() << "not refused";
  } catch (const UserError& e) {
    EXPECT_EQ(std::string(e.what()),
              "distributed.tensor_parallel_size: 2 ranks cannot share 3 heads (linear_num_key_heads) evenly; "
              "sizes that would do: 1, 3");
  }
}

TEST(TensorParallelKinds, TwoRanksAreOne) {
  for (const lora::AdapterKind* kind : {&lora::kinds::kLora, &lora::kinds::kMiss, &lora::kinds::kHira})
    for (const std::string golden : {"llama-biases-gelu", "t5", "phi3", "gpt2"}) {
      if (golden == "gpt2" && !kind->inputs_first) continue;
      Case s{.golden = golden, .method = Method::lora, .kind = kind};
      SCOPED_TRACE(str(kind->name, " ", golden));
      const Ran one = run_on(s, 1);
      expect_same(run_on(s, 2), one, 5e-6);
      s.shards = golden != "t5";
      s.recompute = kAllBlocks;
      expect_same(run_on(s, 2), one, 5e-6);
      s = {.golden = golden, .method = Method::qlora, .kind = kind};
      expect_same(run_on(s, 2), run_on(s, 1), 5e-6);
    }
}

TEST(TensorParallelKinds, ABiasOfBIsAddedOnce) {
  for (const std::string golden : {"llama-biases-gelu", "llama", "t5", "gpt2"}) {
    Case s{.golden = golden, .method = Method::lora, .lora_bias = true};
    SCOPED_TRACE(golden);
    const Ran one = run_on(s, 1);
    expect_same(run_on(s, 2), one, 5e-6);
    s.shards = golden != "t5";
    s.recompute = kAllBlocks;
    expect_same(run_on(s, 2), one, 5e-6);
  }
}

// Compares with f32. Sums over ranks are rounded once more.
TEST(TensorParallelBf16, IsNearlyAsCloseAsOneRank) {
  for (const std::string golden : {"llama", "t5", "qwen35"})
    for (const Method method : {Method::full, Method::lora}) {
      Case s{.golden = golden, .method = method};
      const Ran exact = run_on(s, 1);
      s.dtype = DType::bf16;
      const Ran one = run_on(s, 1), two = run_on(s, 2);
      EXPECT_NEAR(two.loss, exact.loss, 2e-3 * exact.loss);
      EXPECT_LT(nmse(two.logits, exact.logits), 4 * nmse(one.logits, exact.logits));
      EXPECT_LT(nmse(two.gradients, exact.gradients), 4 * nmse(one.gradients, exact.gradients));
    }
}

}  // namespace
}  // namespace ft::test
