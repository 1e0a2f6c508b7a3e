// Ranks that share the tokens of a micro-batch: one rank's losses and gradients, with the same bits in every
// ZeRO stage and with recomputation, within the planned memory.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>

#include "engine/files/json.h"
#include "engine/layers/attention/attention.h"
#include "engine/parallel/sequence_part.h"
#include "engine/ranks/grid.h"
#include "engine/train/planner.h"
#include "lora/attach.h"
#include "models/registry.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/models/golden_case.h"
#include "tests/support/ranks.h"
#include "tests/support/source.h"

namespace ft::shared_sequences {
namespace {

using Named = std::map<std::string, std::vector<float>>;

struct Kind {
  const char* name;
  const char* golden;      // golden model with this config.json, except for `change`
  std::vector<int> sizes;  // of a sequence group
  Json change = Json::object();
  bool adapters = false;  // with dropout
  SequenceSharing by = SequenceSharing::ulysses;
  double rounding = 1e-6;  // of a gradient, relative to its largest element
};
void PrintTo(const Kind& k, std::ostream* out) { *out << k.name; }

struct How {
  int data = 1, sequence = 1, stage = 0;
  std::int64_t recompute = 0;
  bool overlap = false;
};

struct Result {
  double loss = 0;  // of all ranks
  Named gradients;
  std::int64_t planned = 0, taken = 0;  // rank 0's bytes of activations
  std::int64_t planned_scratch = 0, taken_scratch = 0;
  std::int64_t sent = 0;  // bytes sent in a forward pass of the last micro-batch
};

// Returns a batch in which most tokens have a target. One sequence has more than half of all tokens, so that
// its end and the start of the next one are on the same rank.
Batch batch(const std::vector<std::int32_t>& lengths) {
  Batch b;
  b.starts = {0};
  for (const std::int32_t n : lengths) {
    for (std::int32_t i = 0; i < n; ++i) {
      if (i % 5 != 1 || n < 3) {
        b.target_rows.push_back(static_cast<std::int32_t>(b.tokens()));
        b.targets.push_back(4 + i % 5);
      }
      b.input_ids.push_back(3 + (i * n) % 7);
      b.positions.push_back(i);
    }
    b.starts.push_back(static_cast<std::int32_t>(b.tokens()));
  }
  return b;
}

// Four micro-batches: with an odd and an even number of tokens, with fewer tokens than ranks, and with a
// target for every token.
std::vector<Batch> batches() {
  std::vector<Batch> all{batch({9, 2, 4}), batch({7}), batch({1}), batch({16})};
  all[3].target_rows.clear();
  all[3].targets.clear();
  for (int i = 0; i < 16; ++i) {
    all[3].target_rows.push_back(i);
    all[3].targets.push_back(5);
  }
  return all;
}

// Adds sources for an encoder-decoder, of other lengths, at most 17 tokens in all.
std::vector<Batch> with_sources(std::vector<Batch> all) {
  for (Batch& b : all) {
    b.source_starts = {0};
    for (std::size_t i = 1; i < b.starts.size(); ++i) {
      const std::int32_t n = b.starts[i] - b.starts[i - 1] + (i == 1 ? 1 : -1);
      for (std::int32_t t = 0; t < std::max(1, n); ++t) b.source_ids.push_back(4 + t % 7);
      b.source_starts.push_back(static_cast<std::int32_t>(b.source_ids.size()));
    }
  }
  return all;
}

float number(const std::string& name, std::int64_t i) {
  if (name.ends_with(".layer_scalar")) return 1;  // small scalars would make the stream vanish
  const std::uint32_t bits = Random{5}.with(name).at(static_cast<std::uint64_t>(i))[0];
  return 0.2f * (static_cast<float>(bits) / 4294967296.0f - 0.5f);
}

class SequenceParallel : public testing::TestWithParam<Kind> {
 protected:
  SequenceParallel() {
    Json json = read_json(
        source_path(std::string("tests/golden/models/") + GetParam().golden + "/model/config.json"));
    json.update(GetParam().change);
    std::ofstream(folder_ / "config.json") << json.dump();
  }

  bool sources() const { return std::string(GetParam().golden).starts_with("t5"); }
  MadeModel model() const {
    MadeModel made = make_model(folder_ / "config.json", DType::f32);
    if (!GetParam().adapters) {
      lora::train_all(*made.model);
      return made;
    }
    lora::LoraConfig config;
    config.r = 3;
    config.lora_dropout = 0.25;
    lora::Origin origin;
    origin.head = made.info.head;
    if (std::string(GetParam().golden).starts_with("qwen35")) config.target_modules = "all-linear";
    lora::attach(*made.model, config, DType::f32, origin);
    return made;
  }

  void expect_sent_of_t5(const Json& config) const;

  // Runs the passes of all micro-batches, which data ranks take in turns.
  Result run(const How& how) const {
    Result all;
    std::mutex mutex;
    GridShape shape({.pipeline = 1, .data = how.data, .sequence = how.sequence, .tensor = 1});
    shape.sharing = GetParam().by;
    rethrow_first(on_threads(shape.ranks(), [&](Ops& ops, Mesh mesh) {
      std::unique_ptr<Communicator> comm = std::make_unique<MeshCommunicator>(ops, std::move(mesh), 20);
      if (how.overlap) comm = std::make_unique<OverlappedCommunicator>(std::move(comm));
      const Grid grid(*comm, shape);
      MadeModel made = model();
      if (how.sequence > 1) made.model->share_rows(how.sequence, GetParam().by);
      PlanRequest request;
      request.zero = {.stage = ZeroStage::of(shape.ranks() > 1 ? how.stage : 0), .prefetch = 3000};
      request.grid = shape;
      request.recompute = how.recompute;
      request.train = {{.tokens = 16, .targets = 16, .sequences = 1, .longest = 16}};
      if (sources()) request.train[0].source_tokens = request.train[0].longest_source = 17;
      const Plan plan = plan_run(*made.model, request);
      Arena saved(ops.allocate(plan.saved), plan.saved), scratch(ops.allocate(plan.scratch), plan.scratch);
      ParameterStore store(ops, grid.zero(), request.zero);
      made.model->add_units(store);
      made.model->set_recompute(how.recompute);
      store.reserve(plan.transient);
      store.load([](const Parameter& p, Tensor y, std::int64_t first) {
        for (std::int64_t i = 0; i < y.numel(); ++i) y.as<float>()[i] = number(p.name, first + i);
      });
      Ctx c{ops, saved, scratch};
      c.grid = &grid;
      const Tensor loss = scratch.take({1}, DType::f64);
      *loss.as<double>() = 0;
      const std::vector<Batch> data = sources() ? with_sources(batches()) : batches();
      store.begin_step();
      for (int i = grid.place.data; i < std::ssize(data); i += how.data) {
        store.begin_micro_step(i + how.data >= std::ssize(data));
        c.random = Random{7}.with(static_cast<std::uint64_t>(i));
        made.model->forward_backward(c, store, data[static_cast<std::size_t>(i)], CrossEntropy{loss});
      }
      grid.zero().all_reduce(loss);
      store.grad_norm();
      const Buffer other = ops.allocate(8);
      const std::int64_t before = comm->sent();
      const Tensor evaluated(other.get(), DType::f64, {1});
      *evaluated.as<double>() = 0;
      if (how.stage < 3) made.model->forward(c, store, data.back(), CrossEntropy{evaluated});
      const std::int64_t sent = comm->sent() - before;
      const std::lock_guard lock(mutex);
      store.stepping().each_slice([&](const Slice& s) {
        std::vector<float>& g = all.gradients[s.parameter->name];
        g.resize(static_cast<std::size_t>(s.parameter->shape.numel()));
        std::copy_n(s.grad.as<float>(), s.count, g.begin() + s.first);
      });
      if (comm->rank() > 0) return;
      all.loss = *loss.as<double>();
      all.planned = plan.saved;
      all.taken = saved.peak();
      all.planned_scratch = plan.scratch;
      all.taken_scratch = scratch.peak();
      all.sent = sent;
    }));
    return all;
  }
  test::TempFolder folder_;
};

// Compares relative to the largest element of a parameter.
void expect_near(const Named& got, const Named& want, double rounding) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, values] : want) {
    double most = 0, off = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      most = std::max(most, std::abs(double{values[i]}));
      off = std::max(off, std::abs(double{values[i]} - got.at(name)[i]));
    }
    EXPECT_LE(off, rounding * most) << name;
  }
}

TEST_P(SequenceParallel, IsOneRanksTraining) {
  const Result one = run({});
  EXPECT_GT(std::abs(one.loss), 1);
  for (const int sequence : GetParam().sizes)
    for (const int data : {1, 2}) {
      SCOPED_TRACE(str(sequence, " x ", data));
      const Result shared = run({.data = data, .sequence = sequence});
      EXPECT_NEAR(shared.loss, one.loss, 1e-6 * std::abs(one.loss));
      expect_near(shared.gradients, one.gradients, GetParam().rounding);
    }
}

TEST_P(SequenceParallel, HasTheSameBitsAtEveryStageAndWithRecomputation) {
  const int n = GetParam().sizes[0];
  const Result want = run({.data = 2, .sequence = n, .stage = 2});
  for (const int stage : {2, 3})
    for (const std::int64_t recompute : {0, 1, 2})
      for (const bool overlap : {false, true}) {
        SCOPED_TRACE(str("stage ", stage, ", ", recompute, " blocks again, overlap ", overlap));
        const Result got =
            run({.data = 2, .sequence = n, .stage = stage, .recompute = recompute, .overlap = overlap});
        EXPECT_EQ(got.loss, want.loss);
        EXPECT_EQ(got.gradients, want.gradients);
      }
  // Replicated gradients add up micro-steps first.
  const Result first = run({.data = 2, .sequence = n, .stage = 0}),
               second = run({.data = 2, .sequence = n, .stage = 1});
  EXPECT_EQ(second.loss, first.loss);
  EXPECT_EQ(second.gradients, first.gradients);
  expect_near(first.gradients, want.gradients, GetParam().rounding);
}

TEST_P(SequenceParallel, TakesThePlannedMemory) {
  std::int64_t before = run({}).taken;
  for (const int sequence : GetParam().sizes) {
    const Result r = run({.sequence = sequence});
    EXPECT_EQ(r.taken, r.planned) << sequence;
    EXPECT_EQ(r.taken_scratch, r.planned_scratch) << sequence;
    EXPECT_LT(r.taken, before) << sequence;
    before = r.taken;
  }
}

void SequenceParallel::expect_sent_of_t5(const Json& config) const {
  const std::int64_t width =
                         config.at("num_heads").get<std::int64_t>() * config.at("d_kv").get<std::int64_t>(),
                     encoders = config.at("num_layers"), decoders = config.at("num_decoder_layers");
  for (const int n : GetParam().sizes) {
    const RowShare share{0, n};
    const std::int64_t rows = share.rows_of(16), sources = share.rows_of(17 + 1);
    const std::int64_t all = encoders * 4 * sources + decoders * (6 * rows + 2 * sources);
    EXPECT_EQ(run({.sequence = n}).sent, all * width * 4 * (n - 1) / n) << n;
  }
}

bool is_linear(const Json& config, std::int64_t layer) {
  return config.contains("layer_types") && config["layer_types"][std::size_t(layer)] == "linear_attention";
}
// Values of a row that the ranks exchange around a gated delta net.
std::int64_t columns_of_net(const Json& config) {
  const auto at = [&](const char* key) { return config.at(key).get<std::int64_t>(); };
  const std::int64_t values = at("linear_num_value_heads");
  return 2 * at("linear_num_key_heads") * at("linear_key_head_dim") +
         2 * values * at("linear_value_head_dim") + 2 * values;
}

// In a forward pass, a layer sends N / S (S - 1) / S (2 H + 2 K) D values, where K is max(key/value heads,
// S); in a ring, N / S (S - 1) 2 KV D. One with a gated delta net sends N / S (S - 1) / S (2 K k + 2 V v + 2
// V) either way.
TEST_P(SequenceParallel, SendsTheBytesOfTheFormula) {
  const Json config = read_json(folder_ / "config.json");
  if (sources()) return expect_sent_of_t5(config);
  const std::int64_t heads = config.at("num_attention_heads"), layers = config.at("num_hidden_layers");
  const bool neox = config.at("model_type") == "gpt_neox";  // its heads are not grouped
  const std::int64_t keys = neox ? heads : config.value("num_key_value_heads", heads);
  std::int64_t width = config.value("head_dim", config.at("hidden_size").get<std::int64_t>() / heads);
  if (config.contains("kv_lora_rank"))  // latent attention: the wider of keys and values
    width = std::max(
        config.at("qk_nope_head_dim").get<std::int64_t>() + config.at("qk_rope_head_dim").get<std::int64_t>(),
        config.at("v_head_dim").get<std::int64_t>());
  const Json own = config.value("per_layer_config", Json::object());
  std::int64_t columns = 0, nets = 0;  // of a head, in all layers with attention; layers with delta nets
  for (std::int64_t i = 0; i < layers; ++i)
    if (is_linear(config, i))
      ++nets;
    else
      columns += own.value(std::to_string(i), Json::object()).value("head_dim", width);
  for (const int n : GetParam().sizes) {
    const RowShare share{0, n, GetParam().by};
    const std::int64_t rows = share.rows_of(16), all = 2 * heads + 2 * std::max<std::int64_t>(keys, n);
    const std::int64_t values = share.runs() == 2 ? rows * (n - 1) * 2 * keys : rows * (n - 1) * all / n;
    const std::int64_t of_nets = nets * rows * (n - 1) * (nets > 0 ? columns_of_net(config) : 0) / n;
    EXPECT_EQ(run({.sequence = n}).sent, (values * columns + of_nets) * 4) << n;
  }
}

const Json kDropout = {{"attention_dropout", 0.3}, {"num_key_value_heads", 2}},
           kT5 = {{"num_heads", 4}, {"dropout_rate", 0.2}},
           kDeltaNets = {{"num_attention_heads", 4},
                         {"num_key_value_heads", 2},
                         {"linear_num_key_heads", 4},
                         {"linear_num_value_heads", 8}};
const Kind kKinds[] = {
    {"llama", "llama", {2, 4}},
    {"llama_gqa", "llama-gqa", {3}},
    {"gemma4_e", "gemma4-e", {2}, Json::object(), false, SequenceSharing::ulysses, 5e-6},
    {"one_key_head", "llama", {2, 4}, {{"num_key_value_heads", 1}}},
    {"window", "mistral-window", {2, 4}},
    {"llama_dynamic", "llama-dynamic", {3}},
    {"adapters", "llama", {2, 4}, Json::object(), true},
    {"dropout", "llama", {2, 4}, kDropout},
    {"t5", "t5", {2, 4}, kT5},
    {"t5_adapters", "t5-v11", {4}, kT5, true},
    {"gpt_neox", "gpt-neox", {3}},
    {"gemma", "gemma3", {3}},
    {"latent", "deepseek-v3", {3}},
    {"delta_net", "qwen35", {2, 4}, kDeltaNets, false, SequenceSharing::ulysses, 5e-6},
    {"delta_net_adapters", "qwen35", {4}, kDeltaNets, true, SequenceSharing::ulysses, 5e-6},
    {"delta_net_by_heads", "qwen3-next-moe", {2}, kDeltaNets, false, SequenceSharing::ulysses, 5e-6},
    {"sinks", "gpt-oss", {3}, Json::object(), false, SequenceSharing::ulysses, 5e-6},
    {"latent_adapters", "glm4-moe-lite", {3}, Json::object(), true}};

// Rings also allow heads that the ranks do not divide.
const Kind kRings[] = {
    {"llama_ring", "llama", {2, 3, 4}, Json::object(), false, SequenceSharing::ring},
    {"llama_gqa_ring", "llama-gqa", {2, 4}, Json::object(), false, SequenceSharing::ring},
    {"gemma4_e_ring", "gemma4-e", {2, 3}, Json::object(), true, SequenceSharing::ring, 5e-6},
    {"window_ring", "mistral-window", {2, 3, 4}, Json::object(), false, SequenceSharing::ring},
    {"llama_dynamic_ring", "llama-dynamic", {2, 3}, Json::object(), false, SequenceSharing::ring},
    {"adapters_ring", "llama", {2, 4}, Json::object(), true, SequenceSharing::ring},
    {"gpt_neox_ring", "gpt-neox", {2}, Json::object(), false, SequenceSharing::ring},
    {"phi3_ring", "phi3", {2}, Json::object(), true, SequenceSharing::ring},
    {"gemma_ring", "gemma2", {2, 4}, Json::object(), false, SequenceSharing::ring},
    {"latent_ring", "deepseek-v3", {2}, Json::object(), false, SequenceSharing::ring},
    {"delta_net_ring", "qwen35", {2, 4}, kDeltaNets, false, SequenceSharing::ring, 5e-6},
    {"delta_net_by_heads_ring", "qwen3-next-moe", {2}, Json::object(), false, SequenceSharing::ring, 5e-6},
    {"sinks_ring", "gpt-oss", {2}, Json::object(), false, SequenceSharing::ring, 5e-6}};

std::string name_of(const testing::TestParamInfo<Kind>& p) { return p.param.name; }
INSTANTIATE_TEST_SUITE_P(Models, SequenceParallel, testing::ValuesIn(kKinds), name_of);
INSTANTIATE_TEST_SUITE_P(Rings, SequenceParallel, testing::ValuesIn(kRings), name_of);

// A part has the tokens and targets of its rows, all parts have equally many rows, and each has the starts of
// the full batch.
TEST(SequencePart, PartsAreTheBatch) {
  for (const Batch& whole : batches())
    for (const SequenceSharing by : {SequenceSharing::ulysses, SequenceSharing::ring})
      for (const int parts : {2, 3, 4}) {
        const std::int64_t n = RowShare{0, parts, by}.rows_of(whole.tokens());
        std::vector<std::int32_t> ids(static_cast<std::size_t>(n * parts)), positions = ids;
        std::map<std::int32_t, std::int32_t> targets;
        for (int p = 0; p < parts; ++p) {
          const RowShare share{p, parts, by};
          const Batch b = part_of(whole, share);
          EXPECT_EQ(b.tokens(), n);
          EXPECT_EQ(b.starts.back(), n * parts);
          EXPECT_EQ(b.length, *std::max_element(whole.positions.begin(), whole.positions.end()) + 1);
          EXPECT_TRUE(std::is_sorted(b.target_rows.begin(), b.target_rows.end()));
          share.numbers(n).each_run(n, [&](std::int64_t begin, std::int64_t end, std::int64_t number) {
            std::copy(b.input_ids.begin() + begin, b.input_ids.begin() + end, ids.begin() + number);
            std::copy(b.positions.begin() + begin, b.positions.begin() + end, positions.begin() + number);
            for (std::size_t i = 0; i < b.targets.size(); ++i)
              if (const std::int64_t row = b.target_rows[i]; begin <= row && row < end)
                targets[static_cast<std::int32_t>(row - begin + number)] = b.targets[i];
          });
        }
        ids.resize(whole.input_ids.size());
        positions.resize(whole.positions.size());
        EXPECT_EQ(ids, whole.input_ids);
        EXPECT_EQ(positions, whole.positions);
        ASSERT_EQ(targets.size(), whole.targets.size());
        for (std::size_t i = 0; i < whole.targets.size(); ++i)
          EXPECT_EQ(targets.at(whole.target_rows[i]), whole.targets[i]);
      }
}

TEST(SequencePart, UnsupportedHeadsAndLayersAreRefused) {
  const Heads grouped{.query = 6, .key_value = 3, .width = 4};
  EXPECT_TRUE(HeadsByRank::divides(grouped, 3));
  EXPECT_TRUE(HeadsByRank::divides(grouped, 6));
  EXPECT_FALSE(HeadsByRank::divides(grouped, 2));
  SelfAttention a;
  a.heads = grouped;
  const auto refused = [&](SequenceSharing by) {
    try {
      a.share_rows(2, by);
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refused(SequenceSharing::ring), "");
  EXPECT_EQ(refused(SequenceSharing::ulysses),
            "distributed.sequence_parallel_size is 2: 2 ranks cannot share 6 heads (num_attention_heads) and "
            "3 key/value heads (num_key_value_heads) evenly\n  set distributed.sequence_parallel_type to "
            "ring, which does not split heads; sizes that would do: 1, 3, 6");
  a.dropout.p = 0.5;
  EXPECT_EQ(
      refused(SequenceSharing::ring),
      "distributed.sequence_parallel_type is ring, and the model's attention_dropout is above 0; set the "
      "type to ulysses, or attention_dropout to 0 in config.json");
}

TEST(SequencePart, HeadsOfDeltaNetsThatRanksDoNotDivideAreRefused) {
  const MadeModel made = make_model(test::GoldenCase("qwen35").model_folder() + "/config.json", DType::f32);
  const auto said = [](const auto& run) {
    try {
      run();
    } catch (const UserError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(said([&] { made.model->share_rows(2, SequenceSharing::ring); }), "");
  EXPECT_EQ(said([&] { made.model->share_rows(3, SequenceSharing::ring); }),
            "distributed.sequence_parallel_size is 3: 3 ranks cannot share the 2 key heads "
            "(linear_num_key_heads) of model.layers.0.linear_attn evenly; sizes that would do: 1, 2");
  EXPECT_NE(said([&] { made.model->drop_tokens({1}, false, 4); }).find("pass a state from token to token"),
            std::string::npos);
}

}  // namespace
}  // namespace ft::shared_sequences
