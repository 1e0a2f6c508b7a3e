// What ranks save between them is, to the byte, what one rank saves, under every stage and in groups; and any
// number of ranks under any stage gets back what was saved. So every ordered pair of the two is covered: all
// have the same file between them.
#include <gtest/gtest.h>

#include "engine/dist/together.h"
#include "engine/io/safetensors_write.h"
#include "engine/train/checkpoint.h"
#include "tests/engine/io/temp_folder.h"
#include "tests/support/ranks.h"

namespace ft {
namespace {

using test::slurp;
using test::TempFolder;

constexpr std::array<const char*, 3> kKinds = {"", ".exp_avg", ".exp_avg_sq"};

struct Toy {
  explicit Toy(DType dtype) {
    for (const auto& [name, shape] :
         {std::pair{"embed", Shape{31, 7}}, {"a", {64, 5}}, {"b", {3}}, {"c", {701}}}) {
      Parameter& p = parameters.emplace_back();
      p.name = name;
      p.shape = shape;
      p.dtype = dtype;
      p.trainable = true;
    }
  }
  void add_units(ParameterStore& store) {
    store.add_unit("first", {&parameters[0]});
    store.add_unit("second", {&parameters[1], &parameters[2], &parameters[3]});
  }
  std::vector<Parameter> parameters;
};

// Of an element of a parameter or its state, exact in f32.
float value(const Parameter& p, std::size_t kind, std::int64_t i) {
  return static_cast<float>(i) + 0.25f * static_cast<float>(kind) +
         1000.0f * static_cast<float>(p.name.size());
}

class Files final : public ModelFiles {
 public:
  void create(const std::string&, bool) override {}
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
    ParameterStore store(ops, comm, options);
    toy.add_units(store);
    store.reserve(2);
    use(comm, store);
  });
}

void save(const Layouts& l, const std::string& folder) {
  const Toy toy(l.dtype);
  std::vector<TensorSpec> specs;
  for (const Parameter& p : toy.parameters)
    for (const char* kind : kKinds) specs.push_back({p.name + kind, DType::f32, p.shape});
  write_safetensors(folder + "/all.safetensors", specs, {});
  with_store(l, [&](Communicator& comm, ParameterStore& store) {
    store.each_slice([&](const Slice& s) {
      for (std::int64_t i = 0; i < s.count; ++i)
        for (std::size_t k = 0; k < kKinds.size(); ++k)
          (k == 0 ? s.master : s.states[k - 1]).as<float>()[i] = value(*s.parameter, k, s.first + i);
    });
    together(comm, "save", [&] { fill_in(folder, store, Files(), 2); });
  });
}

void expect_restored(const Layouts& l, const std::string& folder) {
  with_store(l, [&](Communicator&, ParameterStore& store) {
    const SafetensorsFile file(folder + "/all.safetensors");
    for (std::size_t k = 0; k < kKinds.size(); ++k)
      store.restore(static_cast<int>(k) - 1,
                    [&](const Parameter& p, std::int64_t first, std::span<float> to) {
                      const Tensor t(reinterpret_cast<std::byte*>(to.data()), DType::f32,
                                     {static_cast<std::int64_t>(to.size())});
                      file.read(*file.find(p.name + kKinds[k]), t, first);
                    });
    std::int64_t wrong = 0;
    store.each_slice([&](const Slice& s) {
      for (std::int64_t i = 0; i < s.count; ++i)
        for (std::size_t k = 0; k < kKinds.size(); ++k)
          wrong +=
              (k == 0 ? s.master : s.states[k - 1]).as<float>()[i] != value(*s.parameter, k, s.first + i);
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
