// Where parameters, gradients and optimizer states live: all of ZeRO (Rajbhandari et al., "ZeRO: memory
// optimizations toward training trillion parameter models", SC 2020). Each of the three is replicated or
// sharded; a stage is a name for three such layouts, and is not seen again once they are chosen.
//
// A unit (the embedding, one block, the head) is what is gathered and reduced at once. Its frozen and its
// trained parameters each lie in one flat buffer, padded so that it divides into equal pieces for the ranks.
// What is frozen may be of several types (codes of 4-bit weights beside scales and norms): its buffer is
// one of bytes. What is trained is of one type and has an f32 master (the value itself in an f32 run), an f32
// gradient and the optimizer's f32 states.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/dist/communicator.h"
#include "engine/dist/parameter.h"
#include "engine/ops/ops.h"

namespace ft {

enum class Layout : std::uint8_t { replicated, sharded };

struct ZeroStage {
  Layout params, grads, states;
  static constexpr ZeroStage of(int stage) {
    auto from = [stage](int first) { return stage >= first ? Layout::sharded : Layout::replicated; };
    return {.params = from(3), .grads = from(2), .states = from(1)};
  }
};

// Bytes of this rank.
struct StoreMemory {
  std::int64_t weights = 0;  // frozen values
  std::int64_t trained = 0;  // trained values
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;      // states, and f32 masters where the values are narrower
  std::int64_t communication = 0;  // gathered values and gradients; buffers of the communicator
};

// The part of a parameter that this rank steps: 1-d f32 views of `count` elements from element `first`.
struct Slice {
  Parameter* parameter;
  std::int64_t first, count;
  Tensor master, grad;
  std::array<Tensor, 2> states;  // AdamW's m and v; empty where the optimizer has fewer
};

// Writes elements [first, first + y.numel()) of a parameter to host memory `y` of any float type.
using ReadParameter = std::function<void(const Parameter&, Tensor y, std::int64_t first)>;

class ParameterStore {
 public:
  ParameterStore(Ops& ops, Communicator& comm, ZeroStage zero) : ops_(ops), comm_(comm), zero_(zero) {}

  // Building, once: units in the order of their use; then memory (`states` f32 arrays for the optimizer);
  // then values.
  int add_unit(std::string name, const std::vector<Parameter*>& parameters);
  void reserve(int states);
  void load(const ReadParameter&);

  // A step. begin_step clears the gradients; `last` marks its last micro-step.
  void begin_step();
  void begin_micro_step(bool last) { last_micro_ = last; }
  // Binds the unit's values (and gradients for a backward pass) until release().
  void acquire(int unit, bool backward);
  void release(int unit);
  // The gradients bound by acquire(unit, true) are done; `complete` when nothing more will come in this
  // micro-step.
  void reduce(int unit, bool complete);
  // Global L2 norm of all gradients, in f64. Waits for the device.
  double grad_norm();
  void each_slice(const std::function<void(const Slice&)>& visit) { each_slice(zero_.states, visit); }
  // Makes the stepped masters visible: casts them to values, gathers those where others need them.
  void publish();

  // What a checkpoint holds, whole and in f32 on the host: kMaster, or a state's index. Rank 0 fetches, in
  // any order, within the work that every rank gives to at_root: it runs on rank 0 while the others hand
  // over their parts. What it throws ends all ranks. Every rank stores.
  static constexpr int kMaster = -1;
  void at_root(const std::function<void()>& work);
  void fetch(const Parameter&, int what, std::span<float> host);
  void store(const Parameter&, int what, std::span<const float> host);

  StoreMemory memory() const;
  int units() const { return static_cast<int>(units_.size()); }
  bool trains(int unit) const { return !units_[static_cast<std::size_t>(unit)].trained.parameters.empty(); }

 private:
  struct Group {  // the frozen or the trained parameters of a unit, one after another
    std::vector<Parameter*> parameters;
    std::vector<std::int64_t> offsets;  // of each parameter, in elements
    std::int64_t count = 0;             // elements, padding included: a multiple of the world size
    DType dtype = DType::f32;           // of the buffer; u8: bytes, whatever the parameters are

    // Elements of the buffer that a parameter takes.
    std::int64_t size(const Parameter& p) const {
      return p.shape.numel() * size_of(p.dtype) / size_of(dtype);
    }
    Buffer value_memory, master_memory, grad_memory;
    std::array<Buffer, 2> state_memory;
    Tensor value, master, grad;  // (held elements); value as the params layout says, ...
    std::array<Tensor, 2> states;
  };
  struct Unit {
    std::string name;
    Group frozen, trained;
    std::int64_t gathered_mark = 0, grads_mark = 0;  // where to rewind to when it is released
    Tensor whole_grad;                               // bound by acquire() where gradients are sharded
  };
  struct Range {
    std::int64_t first, count;
  };

  Range held(const Group&, Layout, int rank) const;  // what a rank has of a group in a layout
  Range held(const Group& g, Layout layout) const { return held(g, layout, comm_.rank()); }
  Range stepped(const Group& g) const { return held(g, zero_.states); }
  // The part that `layout` gives this rank of what it steps.
  void each_slice(Layout layout, const std::function<void(const Slice&)>&);
  void lay_out(Group&, DType) const;
  void reserve_trained(Group&, int states);
  void reserve_transient();
  void read(const Group&, Tensor held, Range, const ReadParameter&);
  static void bind(Group&, Tensor Parameter::*view, Tensor all);
  Tensor gather(Group&);
  struct Place {
    Group* group;
    std::size_t index;    // in the group
    std::int64_t number;  // of the parameter among all that are trained
  };
  Place find(const std::function<bool(const Place&)>& wanted);
  Place find(const Parameter&);
  struct Request {  // of rank 0 to the others, in at_root
    std::int64_t number = 0, what = 0;
  };
  Tensor part_of(const Place&, int what, Range& in_parameter, int rank) const;
  void serve(const Request&);
  Unit& unit(int u) { return units_[static_cast<std::size_t>(u)]; }

  Ops& ops_;
  Communicator& comm_;
  ZeroStage zero_;
  std::vector<Unit> units_;
  Buffer norm_memory_;
  std::optional<Arena> gathered_, whole_grads_;  // of the units in use, where those are sharded
  bool last_micro_ = true;
};

// The unit's values are there while it lives.
class Use {
 public:
  Use(ParameterStore& store, int unit, bool backward) : store_(store), unit_(unit) {
    store_.acquire(unit, backward);
  }
  ~Use() { store_.release(unit_); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  ParameterStore& store_;
  int unit_;
};

}  // namespace ft
