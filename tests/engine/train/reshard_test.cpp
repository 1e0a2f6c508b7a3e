// Checkpoints of several ranks equal one rank's checkpoint byte for byte, in every stage and in groups, for
// all states that an optimizer declares: no block is split between ranks. Any number of ranks in any stage
// loads the same values. Since all write the same file, this covers every ordered pair of saving and loading
// ranks.
#include <gtest/gtest.h>

#include "engine/files/safetensors/safetensors_write.h"
#include "engine/ranks/together.h"
#include "engine/train/checkpoint.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/support/ranks.h"

namespace ft {
namespace {

using test::slurp;
using test::TempFolder;

// Two running means for small parameters. For other parameters, bytes with a number for each block of 256.
// For one parameter, numbers for each row and column, which every rank has completely.
constexpr std::array<StateSpec, 2> kMeans{{{.name = "exp_avg"}, {.name = "exp_avg_sq"}}};
constexpr std::array<StateSpec, 2> kBlocks{
    {{.name = "codes", .dtype = DType::u8}, {.name = "absmax", .block = 256}}};
constexpr std::array<StateSpec, 2> kWhole{
    {{.name = "row", .kept = Kept::rows}, {.name = "col", .kept = Kept::columns}}};
std::span<const StateSpec> declared_by(const Parameter& p) {
  if (p.name == "whole") return kWhole;
  return p.shape.numel() < 310 ? std::span<const StateSpec>(kMeans) : kBlocks;
}

struct Toy {
  explicit Toy(DType dtype) {
    for (const auto& [name, shape] : {std::pair{"embed", Shape{31, 7}},
                                      {"a", {64, 5}},
                                      {"b", {3}},
                                      {"c", {701}},
                                      {"whole", {2, 19, 33}}}) {
      Parameter& p = parameters.emplace_back();
      p.name = name;
      p.shape = shape;
      p.dtype = dtype;
      p.trainable = true;
    }
  }
  void add_units(ParameterStore& store) {
    store.add_unit("first", {&parameters[0]});
    store.add_unit("second", {&parameters[1], &parameters[2], &parameters[3], &parameters[4]});
  }
  std::vector<Parameter> parameters;
};

// Returns element i of a parameter or its state: exact in f32, a byte for u8.
float value(const Parameter& p, std::string_view kind, DType dtype, std::int64_t i) {
  if (dtype == DType::u8) return static_cast<float>((i * 7 + 3) % 251);
  return static_cast<float>(i) + 0.25f * static_cast<float>(kind.size()) +
         1000.0f * static_cast<float>(p.name.size());
}

// Calls visit(kind, array, number of its first element) for the master and the states of a slice.
void each_array(const Slice& s,
                const std::function<void(std::string_view, const Tensor&, std::int64_t)>& visit) {
  visit("", s.master, s.first);
  const auto specs = declared_by(*s.parameter);
  ASSERT_EQ(s.states.size(), specs.size());
  for (std::size_t k = 0; k < specs.size(); ++k) {
    const bool whole = specs[k].unsharded();
    EXPECT_EQ(s.first % specs[k].block, 0);
    EXPECT_EQ(s.states[k].numel(),
              whole ? specs[k].shape_for(s.parameter->shape).numel() : specs[k].elements(s.count));
    EXPECT_EQ(s.states[k].dtype, specs[k].dtype);
    visit(specs[k].name, s.states[k], whole ? 0 : s.first / specs[k].block);
  }
}

void put(const Tensor& t, std::int64_t i, float v) {
  if (t.dtype == DType::u8)
    t.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(v);
  else
    t.as<float>()[i] = v;
}

float get(const Tensor& t, std::int64_t i) {
  return t.dtype == DType::u8 ? t.as<std::uint8_t>()[i] : t.as<float>()[i];
}

class Files final : public ModelFiles {
 public:
  void create(const std::string&, bool) override {}
  std::int64_t bytes(bool) const override { return 0; }
  std::string name_of(const Parameter& p) const override { return p.name; }
  ReadParameter read(const std::string&) override { return {}; }
};

struct Layouts {
  int ranks, stage, group = 0;
  std::int64_t persist = 0;
  DType dtype = DType::f32;
};

void with_store(const Layouts& l, const std::function<void(Communicator&, ParameterStore&)>& use) {
  run_ranks(l.ranks, true, [&](Communicator& comm) {
    cpu::CpuOps ops(1);
    Toy toy(l.dtype);
    const ZeroOptions options{.stage = ZeroStage::of(l.stage), .group = l.group, .persist = l.persist};
    ParameterStore store(ops, comm, options, declared_by);
    toy.add_units(store);
    store.reserve();
    use(comm, store);
  });
}

void save(const Layouts& l, const std::string& folder) {
  const Toy toy(l.dtype);
  std::vector<TensorSpec> specs;
  for (const Parameter& p : toy.parameters) {
    specs.push_back({p.name, DType::f32, p.shape});
    for (const StateSpec& state : declared_by(p))
      specs.push_back({str(p.name, ".", state.name), state.dtype, state.shape_for(p.shape)});
  }
  write_safetensors(folder + "/all.safetensors", specs, {});
  with_store(l, [&](Communicator& comm, ParameterStore& store) {
    store.stepping().each_slice([&](const Slice& s) {
      each_array(s, [&](std::string_view kind, const Tensor& t, std::int64_t first) {
        for (std::int64_t i = 0; i < t.numel(); ++i) put(t, i, value(*s.parameter, kind, t.dtype, first + i));
      });
    });
    together(comm, "save", [&] { fill_in(folder, store, Files(), Content::weights_and_states); });
  });
}

void expect_restored(const Layouts& l, const std::string& folder) {
  with_store(l, [&](Communicator&, ParameterStore& store) {
    const SafetensorsFile file(folder + "/all.safetensors");
    store.parts().restore_masters(
        [&](const Parameter& p, Tensor y, std::int64_t first) { file.read(*file.find(p.name), y, first); });
    store.parts().restore_states(
        [&](const Parameter& p, const StateSpec& state, const Tensor& y, std::int64_t first) {
          file.read(*file.find(str(p.name, ".", state.name)), y, first);
        });
    std::int64_t wrong = 0;
    store.stepping().each_slice([&](const Slice& s) {
      each_array(s, [&](std::string_view kind, const Tensor& t, std::int64_t first) {
        for (std::int64_t i = 0; i < t.numel(); ++i)
          wrong += get(t, i) != value(*s.parameter, kind, t.dtype, first + i);
      });
    });
    EXPECT_EQ(wrong, 0);
  });
}

TEST(Resharding, EveryPairOfRanksAndStages) {
  std::vector<Layouts> all;
  for (int ranks = 1; ranks <= 4; ++ranks)
    for (int stage = 0; stage < 4; ++stage)
      for (const DType dtype : {DType::f32, DType::bf16}) {
        all.push_back({.ranks = ranks, .stage = stage, .dtype = dtype});
        all.push_back({.ranks = ranks, .stage = stage, .persist = 300, .dtype = dtype});
        if (ranks == 4 && stage > 0)
          all.push_back({.ranks = ranks, .stage = stage, .group = 2, .dtype = dtype});
      }
  const TempFolder one;
  save(all[0], one.path());
  const std::string want = slurp(one / "all.safetensors");
  for (const Layouts& l : all) {
    const TempFolder folder;
    save(l, folder.path());
    EXPECT_TRUE(slurp(folder / "all.safetensors") == want) << l.ranks << " ranks, stage " << l.stage;
    expect_restored(l, one.path());
  }
}

}  // namespace
}  // namespace ft
