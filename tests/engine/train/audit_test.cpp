// Audits find one changed bit of anything that ranks hold in common, and name the rank, the tensor and the
// step. Without a fault they find nothing.
#include "engine/train/audit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <set>

#include "engine/files/checkpoint_folder.h"
#include "tests/engine/files/temp_folder.h"
#include "tests/engine/train/guarded_run.h"

namespace {

thread_local std::size_t allocated = 0;  // bytes that this thread has taken so far

}  // namespace

void* operator new(std::size_t bytes) {
  allocated += bytes;
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace ft::test {
namespace {

std::uint64_t hash_of(const std::vector<std::byte>& bytes) { return audit_hash(bytes); }

TEST(AuditHash, KnowsEveryBitAndTheLength) {
  std::vector<std::byte> bytes(203);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37);
  std::set<std::uint64_t> seen{hash_of(bytes)};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] ^= static_cast<std::byte>(1 << bit);
      EXPECT_TRUE(seen.insert(hash_of(bytes)).second) << i;
      bytes[i] ^= static_cast<std::byte>(1 << bit);
    }
  for (; !bytes.empty(); bytes.pop_back()) seen.insert(hash_of(bytes));
  EXPECT_EQ(seen.size(), 1 + 203 * 8 + 202u);
}

TEST(AuditHash, TwoChangesDoNotCancel) {
  std::vector<std::byte> bytes(4096);
  const std::uint64_t before = hash_of(bytes);
  for (const std::size_t distance : {8u, 64u, 128u, 640u})
    for (const std::size_t at : {0u, 7u, 71u}) {
      for (const std::size_t i : {at, at + distance}) bytes[i] ^= std::byte{0x80};  // two signs
      EXPECT_NE(hash_of(bytes), before);
      for (const std::size_t i : {at, at + distance}) bytes[i] ^= std::byte{0x80};
    }
}

TEST(Audit, FindsNothingWithoutAFault) {
  for (const auto& [ranks, home] : {std::pair{2, Home::device}, {3, Home::device}, {2, Home::host}})
    for (int stage = 0; stage < 4; ++stage)
      for (const DType dtype : {DType::f32, DType::bf16}) {
        const TempFolder folder;
        const RanAll all = run_all({.ranks = ranks,
                                    .stage = stage,
                                    .home = home,
                                    .dtype = dtype,
                                    .audit_steps = 1,
                                    .output = folder.path()});
        for (const Said& error : all.errors) EXPECT_EQ(error.what, "");
        // f32: weights, gradients and two states of three vectors; bf16: their f32 weights too.
        const int tensors = stage == 0 ? (dtype == DType::f32 ? 12 : 15) : stage < 3 ? 3 : 0;
        if (home != Home::device) continue;  // offloaded ones are compared in pieces
        ASSERT_EQ(all.ranks[0].heard.notes.size(), 1u);
        const std::string& note = all.ranks[0].heard.notes[0];
        EXPECT_NE(note.find(tensors > 0 ? str("compares ", tensors, " tensors") : "holds no tensor"),
                  std::string::npos)
            << note;
      }
}

TEST(Audit, OneRankHasNothingToCompare) {
  const TempFolder folder;
  const RanAll all = run_all({.audit_steps = 2, .output = folder.path()});
  EXPECT_EQ(all.errors[0].what, "");
  ASSERT_EQ(all.ranks[0].heard.notes.size(), 1u);
  EXPECT_NE(all.ranks[0].heard.notes[0].find("nothing is audited"), std::string::npos);
}

// Returns the verdict, which is the same on all ranks; a slow rank may only know that others left.
std::string text_of(const std::vector<Said>& errors) {
  std::string text;
  for (const Said& error : errors) {
    if (error.code != Exit::corruption) {
      EXPECT_EQ(error.code, Exit::peer_lost) << error.what;
      continue;
    }
    EXPECT_TRUE(text.empty() || text == error.what) << error.what;
    text = error.what;
  }
  return text;
}

void flip(float& x) { reinterpret_cast<std::uint32_t&>(x) ^= 1u << 11; }

// Rank 1 of three flips a bit of a weight in its micro-batch of step 3 (counted from 1).
TEST(Audit, NamesARankOfARun) {
  for (const int stage : {0, 1, 2}) {
    const TempFolder folder;
    GuardedRun run{.ranks = 3, .stage = stage, .audit_steps = 2, .output = folder.path()};
    run.save_steps = 3;
    run.beside = true;
    run.meddle = [](Sines& model, ParameterStore& store, std::int32_t id) {
      if (id != 2 * 3 + 1) return;
      const Use use(store, 1, false);
      flip(model.parameters[1].value.as<float>()[17]);
    };
    const RanAll all = run_all(run);
    if (stage > 0) {  // with sharded states rank 1 gathers that weight from rank 0 again after the step
      for (const Said& error : all.errors) EXPECT_EQ(error.what, "");
      continue;
    }
    const std::string what = text_of(all.errors);
    EXPECT_TRUE(what.starts_with("step 4: rank 1 differs from ranks 0 and 2 in the weights of b")) << what;
    EXPECT_NE(what.find("a checkpoint of step 2, where all were equal"), std::string::npos) << what;
    EXPECT_EQ(list_checkpoints(folder.path()), std::vector<std::int64_t>{3});
  }
}

struct Planted {
  const char* in;  // the part of the message that names the tensor
  std::function<void(ParameterStore&)> fault;
};

void each_slice_of(ParameterStore& store, const char* name, const std::function<void(const Slice&)>& visit) {
  store.stepping().each_slice(Placement::replicated, {.grads = true}, [&](const Slice& s) {
    if (s.parameter->name == name) visit(s);
  });
}

std::vector<Planted> faults() {
  return {{"the weights of c",
           [](ParameterStore& store) {
             each_slice_of(store, "c", [](const Slice& s) { flip(s.master.as<float>()[8999]); });
           }},
          {"the gradient of a",
           [](ParameterStore& store) {
             each_slice_of(store, "a", [](const Slice& s) { flip(s.grad.as<float>()[0]); });
           }},
          {"exp_avg_sq of b", [](ParameterStore& store) {
             each_slice_of(store, "b", [](const Slice& s) { flip(s.states[1].as<float>()[300]); });
           }}};
}

using Vectors = std::vector<std::pair<std::string, std::int64_t>>;

class Untrained final : public PlainModel {
 public:
  using PlainModel::PlainModel;
  void forward_backward(Ctx&, ParameterStore&, const Batch&, const Loss&) override {}
};

// Calls body(audit, store, rank) on ranks of stage 0.
std::vector<Said> audited(int ranks, const std::function<void(Audit&, ParameterStore&, int)>& body,
                          const Vectors& vectors = {{"a", kSizes[0]}, {"b", kSizes[1]}, {"c", kSizes[2]}}) {
  std::vector<Said> errors;
  for (const auto& thrown : run_ranks_catching(ranks, [&](MeshCommunicator& comm) {
         cpu::CpuOps ops(1);
         Untrained model(vectors, DType::f32);
         const TrainConfig config = settings_of({});
         ParameterStore store(ops, comm, ZeroStage::of(0), states_of(config.training));
         model.add_units(store);
         store.reserve();
         store.load(
             [](const Parameter&, Tensor y, std::int64_t) { std::fill_n(y.as<float>(), y.numel(), 0.5f); });
         Audit audit(ops, {&store}, comm);
         body(audit, store, comm.rank());
       }))
    errors.push_back(said(thrown));
  return errors;
}

TEST(Audit, NamesTheTensorAndTheRank) {
  for (const Planted& planted : faults())
    for (const int ranks : {2, 3, 4}) {
      const std::vector<Said> errors = audited(ranks, [&](Audit& audit, ParameterStore& store, int rank) {
        audit.check(7, "", true);
        if (rank == 1) planted.fault(store);
        audit.check(8, "", true);
      });
      const char* who = ranks == 2   ? "ranks 0 and 1 differ from each other"
                        : ranks == 3 ? "rank 1 differs from ranks 0 and 2"
                                     : "rank 1 differs from ranks 0, 2 and 3";
      const std::string what = text_of(errors);
      EXPECT_TRUE(what.starts_with(str("step 8: ", who, " in ", planted.in, ", which"))) << what;
      EXPECT_NE(what.find("of step 7, where all were equal"), std::string::npos) << what;
    }
}

TEST(Audit, ComparesThePosition) {
  const std::vector<Said> errors = audited(3, [](Audit& audit, ParameterStore&, int rank) {
    audit.check(1, rank == 2 ? "epoch 1" : "epoch 0", true);
  });
  const std::string what = text_of(errors);
  EXPECT_TRUE(what.starts_with("step 1: rank 2 differs from ranks 0 and 1 in the position in the run"))
      << what;
}

// Checks allocate only the windows over the states, as every step does.
TEST(Audit, HasItsMemoryFromTheStart) {
  Vectors many;
  for (int i = 0; i < 400; ++i) many.emplace_back(str("vector ", i), 16);
  const std::vector<Said> errors = audited(
      2,
      [](Audit& audit, ParameterStore& store, int) {
        const auto taken = [](const auto& work) {
          const std::size_t before = allocated;
          work();
          return allocated - before;
        };
        const std::string position = "the same";
        const std::size_t windows = taken([&] {
          store.stepping().each_slice(Placement::replicated, {.grads = true}, [](const Slice&) {});
        });
        EXPECT_GT(windows, 0u);  // memory is counted
        for (int step = 1; step <= 3; ++step)
          EXPECT_LE(taken([&] { audit.check(step, position, true); }), windows + 1024) << step;
      },
      many);
  for (const Said& error : errors) EXPECT_EQ(error.what, "");
}

TEST(Audit, SkipsGradientsThatAreNotAddedUp) {
  const std::vector<Said> errors = audited(2, [](Audit& audit, ParameterStore& store, int rank) {
    if (rank == 1) faults()[1].fault(store);
    audit.check(1, "", false);
  });
  for (const Said& error : errors) EXPECT_EQ(error.what, "");
}

}  // namespace
}  // namespace ft::test
