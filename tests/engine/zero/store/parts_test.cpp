// Parts of a store for checkpoints: all ranks' parts are everything once, and come back on any ranks.
#include "engine/zero/store/parts.h"

#include <map>
#include <mutex>

#include "tests/engine/zero/store/small_model.h"

namespace ft::zero {
namespace {

constexpr std::array<StateSpec, 2> kStates{
    {{.name = "absmax", .block = 64}, {.name = "rows", .kept = Kept::rows}}};
std::span<const StateSpec> blocks_and_rows(const Parameter& p) {
  return std::span(kStates).first(p.shape.rank == 2 ? 2 : 1);
}
constexpr std::array<StateSpec, 2> kSigns{
    {{.name = "own", .kept = Kept::own, .complete_gradient = true}, {.name = "lost", .kept = Kept::shares}}};
std::span<const StateSpec> signs(const Parameter&) { return kSigns; }

using Saved = std::map<std::string, std::map<std::int64_t, float>>;  // by name and index

float state_of(const Parameter& p, const StateSpec& s, std::int64_t i) {
  return initial(p, i) + static_cast<float>(s.name.size());
}
void write_state(const Parameter& p, const StateSpec& s, const Tensor& y, std::int64_t first) {
  for (std::int64_t i = 0; i < y.numel(); ++i) y.as<float>()[i] = state_of(p, s, first + i);
}

// Saves the parts of `ranks` ranks. Each element must be saved once.
Saved save(int ranks, const ZeroOptions& options, const std::function<Homes()>& homes, int steps) {
  Saved all;
  std::mutex mutex;
  run_ranks(ranks, true, [&](Communicator& comm) {
    SmallStore s(comm, options, blocks_and_rows, homes());
    s.parts.restore_states(write_state);
    for (int i = 0; i < steps; ++i) s.step(1);
    const bool gradients = s.parts.keeps_gradients();
    s.parts.each_part(
        [&](const Slice& slice, HostPieces& pieces) {
          const std::lock_guard lock(mutex);
          const auto put = [&](const std::string& name, const Tensor& x, std::int64_t first) {
            pieces.out_of(x, [&](const Tensor& piece, std::int64_t at) {
              for (std::int64_t i = 0; i < piece.numel(); ++i)
                EXPECT_TRUE(all[name].emplace(first + at + i, element(piece, i)).second) << name << " " << i;
            });
          };
          const std::string& name = slice.parameter->name;
          put(name, slice.master, slice.first);
          if (gradients) put(name + ".grad", slice.grad, slice.first);
          put(name + ".absmax", slice.states[0], slice.first / 64);
          if (slice.states.size() > 1 && slice.states[1]) put(name + ".rows", slice.states[1], 0);
        },
        gradients);
  });
  return all;
}

TEST(Parts, AreEverythingOnce) {
  const Saved want = save(
      1, of_stage(0), [] { return Homes{}; }, 0);
  const SmallModel model;
  for (const Parameter& p : model.all) {
    ASSERT_EQ(want.count(p.name), p.trainable ? 1u : 0u);
    if (!p.trainable) continue;
    ASSERT_EQ(std::ssize(want.at(p.name)), p.shape.numel());
    for (const auto& [i, value] : want.at(p.name)) ASSERT_EQ(value, initial(p, i));
    for (const auto& [i, value] : want.at(p.name + ".absmax")) ASSERT_EQ(value, state_of(p, kStates[0], i));
    if (p.shape.rank == 2) {
      ASSERT_EQ(std::ssize(want.at(p.name + ".rows")), p.shape[0]);
      for (const auto& [i, value] : want.at(p.name + ".rows")) ASSERT_EQ(value, state_of(p, kStates[1], i));
    }
  }
  for (const int ranks : {2, 3})
    for (const int stage : {0, 1, 3})
      EXPECT_EQ(save(
                    ranks, of_stage(stage), [] { return Homes{}; }, 0),
                want);
  ZeroOptions groups = of_stage(3);
  groups.group = 2;
  EXPECT_EQ(save(
                4, groups, [] { return Homes{}; }, 0),
            want);
}

// Delayed gradients are saved, and come back as the gradients of the step before.
TEST(Parts, HoldDelayedGradients) {
  ZeroOptions options = of_stage(2);
  options.delayed = true;
  const auto homes = [] { return Homes{.states = std::make_shared<MemoryDepot>()}; };
  const auto with = [&](const std::function<void(SmallStore&)>& f) {
    run_ranks(2, true, [&](Communicator& comm) {
      SmallStore s(comm, options, no_states, homes());
      f(s);
    });
  };
  with([&](SmallStore& s) {
    EXPECT_TRUE(s.parts.keeps_gradients());
    s.parts.restore_gradients(read_initial);
    s.step(1);  // the restored gradients are now of the step before
    int seen = 0;
    s.stepping.each_slice(Placement::sharded, {.grads = true, .previous = true}, [&](const Slice& slice) {
      for (std::int64_t i = 0; i < slice.count; ++i)
        ASSERT_EQ(element(slice.grad, i), initial(*slice.parameter, slice.first + i));
      ++seen;
    });
    EXPECT_GT(seen, 0);
    s.parts.each_part(
        [&](const Slice& slice, HostPieces&) {
          for (std::int64_t i = 0; i < slice.count; ++i)
            ASSERT_EQ(element(slice.grad, i), s.summed(*slice.parameter, slice.first + i, 1));
        },
        true);
  });
}

// Every rank saves its private states, and its share of the shared states.
TEST(Parts, StatesThatDiffer) {
  std::mutex mutex;
  Saved all;
  run_ranks(3, false, [&](Communicator& comm) {
    SmallStore s(comm, of_stage(1), signs);
    s.parts.restore_states(write_state);
    s.parts.each_part([](const Slice& slice, HostPieces&) {
      for (const Tensor& state : slice.states) EXPECT_FALSE(state);  // not here
    });
    s.parts.each_differing(
        [&](const Parameter& p, const StateSpec& spec, const Tensor& host, std::int64_t first) {
          const std::lock_guard lock(mutex);
          auto& into = all[p.name + std::string(spec.name)];
          for (std::int64_t i = 0; i < host.numel(); ++i) {
            EXPECT_TRUE(into.emplace(first + i, element(host, i)).second);
            EXPECT_EQ(element(host, i), state_of(p, spec, first + i));
          }
        });
  });
  const SmallModel model;
  for (const Parameter& p : model.all) {
    if (!p.trainable) continue;
    EXPECT_EQ(std::ssize(all.at(p.name + "own")), 3 * p.shape.numel());
    EXPECT_EQ(std::ssize(all.at(p.name + "lost")), p.shape.numel());
  }
}

}  // namespace
}  // namespace ft::zero
